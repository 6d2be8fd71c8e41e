"""Keys and encryption.

`secret` and `encryption` are the client's; `evaluation` is all that a server holds, and nothing in it can hold a
secret. `generation` makes the one from the other; `storage` puts evaluation keys into files. `secret` and `generation`
are imported on first use, and never by a service.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
from cipherblas.crypto.keys.key_id import RELINEARISATION, Galois, KeyId
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.keys.switching import SwitchingKey

if TYPE_CHECKING:
    from cipherblas.crypto.keys.generation import make_evaluation_keys, write_evaluation_keys
    from cipherblas.crypto.keys.secret import SecretKey, generate_secret

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

_OF_THE_CLIENT = {  # by name, the module
    **dict.fromkeys(("SecretKey", "generate_secret"), "secret"),
    **dict.fromkeys(("make_evaluation_keys", "write_evaluation_keys"), "generation"),
}


def __getattr__(name: str) -> Any:
    if name not in _OF_THE_CLIENT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_OF_THE_CLIENT[name]}"), name)
