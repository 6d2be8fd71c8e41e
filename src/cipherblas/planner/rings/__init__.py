"""Rings that hold a program: moduli, scales, chains of primes."""
