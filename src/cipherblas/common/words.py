"""What an entry of an array of residues, of a key or of a ciphertext is: a word."""

WORD_BYTES = 8
