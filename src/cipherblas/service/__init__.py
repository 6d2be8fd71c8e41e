"""The service: programs of many clients on a machine of its own, over HTTP.

`remote` is the client's side. All others are the server's, and name no secret key; they need the extra `serve`.
"""
