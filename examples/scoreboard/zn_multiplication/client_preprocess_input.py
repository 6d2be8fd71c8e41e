"""There is nothing to do before encryption."""
