"""What ciphertexts are, whatever scheme gives them meaning: rings, key policies, errors, costs, encrypted rows."""
