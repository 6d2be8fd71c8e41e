"""Keys and encryption.

`secret` and `encryption` are the client's; `evaluation` is all that a server holds, and nothing in it can hold a
secret. `generation` makes the one from the other; `storage` puts evaluation keys into files.
"""

from cipherblas.crypto.keys.encryption import (
    FreshCiphertext,
    PublicKey,
    StoredCiphertext,
    decrypt_coefficients,
    decrypt_residues,
    encrypt,
    generate_public_key,
)
from cipherblas.crypto.keys.evaluation import EvaluationKeys
from cipherblas.crypto.keys.generation import make_evaluation_keys, write_evaluation_keys
from cipherblas.crypto.keys.key_id import RELINEARISATION, Galois, KeyId
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.keys.secret import SecretKey, generate_secret
from cipherblas.crypto.keys.switching import SwitchingKey

__all__ = [
    "RELINEARISATION",
    "EvaluationKeys",
    "FreshCiphertext",
    "Galois",
    "KeyId",
    "KeyRequest",
    "PublicKey",
    "SecretKey",
    "StoredCiphertext",
    "SwitchingKey",
    "decrypt_coefficients",
    "decrypt_residues",
    "encrypt",
    "generate_public_key",
    "generate_secret",
    "make_evaluation_keys",
    "write_evaluation_keys",
]
