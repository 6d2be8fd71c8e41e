"""Fitted models of scikit-learn as encrypted programs."""

from cipherblas.sklearn.encrypted import EncryptedModel, encrypted

__all__ = ["EncryptedModel", "encrypted"]
