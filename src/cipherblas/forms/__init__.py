"""How values lie in ciphertexts: blocks and tensors in slots."""
