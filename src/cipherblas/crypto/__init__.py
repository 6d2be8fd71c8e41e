"""Parameters and their security, randomness, keys, and files of what they protect."""
