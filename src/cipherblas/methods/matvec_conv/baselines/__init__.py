"""Published methods that ours are compared with."""
