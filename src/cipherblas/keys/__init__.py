"""Keys and encryption.

`secret` and `encryption` are the client's; `evaluation` is all that a server holds, and nothing in it can hold a
secret. `generation` makes the one from the other; `storage` puts evaluation keys into files.
"""

from cipherblas.keys.encryption import (
    FreshCiphertext,
    PublicKey,
    decrypt_coefficients,
    encrypt,
    generate_public_key,
)
from cipherblas.keys.evaluation import RELINEARISE, EvaluationKeys, SwitchingKey
from cipherblas.keys.generation import make_evaluation_keys, write_evaluation_keys
from cipherblas.keys.request import KeyRequest, describe_galois
from cipherblas.keys.secret import SecretKey, generate_secret

__all__ = [
    "RELINEARISE",
    "EvaluationKeys",
    "FreshCiphertext",
    "KeyRequest",
    "PublicKey",
    "SecretKey",
    "SwitchingKey",
    "decrypt_coefficients",
    "describe_galois",
    "encrypt",
    "generate_public_key",
    "generate_secret",
    "make_evaluation_keys",
    "write_evaluation_keys",
]
