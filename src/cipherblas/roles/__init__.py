"""Who takes part: the program that all share, the client, others who encrypt, the server, and what they send."""
