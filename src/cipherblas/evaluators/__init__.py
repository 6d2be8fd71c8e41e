"""One description per operation, interpreted symbolically, in the clear, and on ciphertexts."""
