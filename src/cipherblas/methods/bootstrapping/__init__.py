"""Bootstrapping: ciphertexts of the first limb become ciphertexts of many."""
