"""Products of clear matrices and encrypted vectors, and convolutions."""
