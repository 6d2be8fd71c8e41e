"""The kind of an upload, by its first bytes: before any byte is written."""

from __future__ import annotations

from cipherblas.common.errors import FormatError, SecurityError
from cipherblas.crypto.files import parse_json

MAX_HEADER = 1 << 24
NPY = b"\x93NUMPY"
TAKEN = ("program", "client-program", "evaluation-keys", "ciphertext")
SECRET = "secret-key"


def needed(start: bytes) -> int:
    """How many first bytes tell the kind: 8 until there are so many, then the header's length.

    Raises:
        FormatError: not a file that the service takes.
    """
    if len(start) < 8 or start.startswith(NPY):
        return 8
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER:
        raise FormatError("This is not a file of cipherblas.", advice="what `save` or `to_bytes` wrote")
    return 8 + length


def check_kind(start: bytes) -> str:
    """The kind of a file whose header this is, one of `TAKEN` or "npy".

    Raises:
        SecurityError: it holds a secret key. FormatError: nothing that the service takes.
    """
    if start.startswith(NPY):
        return "npy"
    try:
        found = parse_json("the upload", start[8:], "its header")
        kind = found["__metadata__"]["kind"]
    except (KeyError, TypeError, FormatError):
        kind = None
    if kind == SECRET:
        raise SecurityError(
            "The upload is a secret key; it was refused before anything was stored.",
            advice="a new key: make it on the client, and send evaluation keys alone",
            cause="Whoever saw the connection's memory has the key: it can no longer be trusted.",
        )
    if kind not in TAKEN:
        raise FormatError("The service takes no such file.", expected=" | ".join((*TAKEN, "npy")), got=kind)
    return str(kind)
