"""How one operation is computed."""
