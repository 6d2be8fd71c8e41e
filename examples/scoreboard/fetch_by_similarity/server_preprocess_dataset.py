"""The server has nothing to do before a query comes."""
