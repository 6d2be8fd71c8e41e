"""BLAS for encrypted matrices."""

__version__ = "0.1.0"
