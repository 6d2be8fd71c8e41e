"""Reads files of cipherblas with NumPy alone, and AES from `cryptography`: an example for readers in other languages.

usage: read_file.py FILE                        what the file says of itself
       read_file.py SECRET_KEY PROGRAM RESULT   a result of one block, decrypted; PROGRAM: that of clients

Written from docs/file-format.md, not from the package, which it does not import. Slow: its integers are Python's.
"""

import hashlib
import json
import math
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

TYPES = {"U8": "<u1", "I8": "<i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8"}
TYPES |= {"I64": "<i8", "F32": "<f4", "F64": "<f8"}
SECRET, CIPHERTEXT, SWITCHING_KEY, PUBLIC_KEY, ROWS = 1, 2, 3, 4, 7  # purposes of streams
Array = NDArray[Any]


class File(NamedTuple):
    kind: str
    header: dict[str, Any]
    parameters: dict[str, Any]
    tensors: dict[str, Array]


def read(data: bytes) -> File:
    """Any file; ValueError where it is damaged or of another version."""
    length = int.from_bytes(data[:8], "little")
    text, body = data[8 : 8 + length], data[8 + length :]
    stated = re.search(rb'"checksum":"([0-9a-f]{64})"', text)
    if stated is None:
        raise ValueError("not a file of cipherblas")
    blank = length.to_bytes(8, "little") + text.replace(stated[1], b"0" * 64, 1)
    if hashlib.blake2b(blank, digest_size=32).hexdigest() != stated[1].decode():
        raise ValueError("the head of the file is damaged")
    infos = json.loads(text)
    meta = infos.pop("__metadata__")
    digests, parameters = json.loads(meta["digests"]), json.loads(meta["parameters"])
    canonical = json.dumps(parameters, sort_keys=True, separators=(",", ":")).encode()
    if meta["cipherblas"] != "2" or set(digests) != set(infos):
        raise ValueError("not a file of version 2")
    if meta["fingerprint"] != hashlib.sha256(canonical).hexdigest():
        raise ValueError("the parameters are not those of the fingerprint")
    tensors = {}
    for name, info in infos.items():
        start, stop = info["data_offsets"]
        if (
            hashlib.blake2b(body[start:stop], digest_size=32, person=b"cipherblas").hexdigest()
            != digests[name]
        ):
            raise ValueError(f"the tensor {name} is damaged")
        tensors[name] = np.frombuffer(body[start:stop], TYPES[info["dtype"]]).reshape(info["shape"])
    return File(meta["kind"], json.loads(meta["header"]), parameters, tensors)


def stream(seed: bytes, purpose: int, index: int, count: int, dtype: str = "<u8") -> Array:
    """`count` numbers of a stream."""
    start = (purpose << 48 | index).to_bytes(8, "big") + bytes(8)
    zeros = bytes(count * np.dtype(dtype).itemsize)
    return np.frombuffer(Cipher(algorithms.AES(seed), modes.CTR(start)).encryptor().update(zeros), dtype)


def uniform(seed: bytes, purpose: int, index: int, q: int, n: int) -> Array:
    """n residues modulo q."""
    words = stream(seed, purpose, index, n + 128).astype(object)
    return words[words < (1 << 64) // q * q][:n] % q


def ternary(seed: bytes, purpose: int, index: int, n: int) -> Array:
    """n coefficients -1, 0 or 1."""
    drawn = stream(seed, purpose, index, n + n // 64 + 256, "<u1").astype(object)
    return drawn[drawn < 255][:n] % 3 - 1


def roots(q: int, n: int) -> Array:
    """ψ^0 … ψ^(2n - 1), ψ the smallest primitive 2n-th root of unity modulo q."""
    tried = (pow(x, (q - 1) // (2 * n), q) for x in range(2, q))
    root = next(one for one in tried if pow(one, n, q) == q - 1)
    smallest, found = min(pow(root, odd, q) for odd in range(1, 2 * n, 2)), [1]
    for _ in range(2 * n - 1):
        found.append(found[-1] * smallest % q)
    return np.array(found, object)


def reversed_bits(n: int) -> Array:
    return np.array([int(f"{i:0{n.bit_length() - 1}b}"[::-1], 2) for i in range(n)])


def dft(values: Array, psi: Array, q: int) -> Array:
    """Σ_j values[j]·ψ^(2jk) for all k, whose bits are reversed."""
    n = size = len(values)
    while size > 1:
        pieces, twist = values.reshape(-1, 2, size // 2), psi[:: 2 * n // size][: size // 2]
        left, right = pieces[:, 0], pieces[:, 1]
        values = np.stack([(left + right) % q, (left - right) * twist % q], axis=1).reshape(-1)
        size //= 2
    return values


def to_ntt(coefficients: Array, q: int) -> Array:
    """The limb of a polynomial: word i is its value at ψ^(2k + 1), k being i with its bits reversed."""
    n = len(coefficients)
    psi = roots(q, n)
    return dft(coefficients.astype(object) * psi[:n] % q, psi, q)


def from_ntt(limb: Array, q: int) -> Array:
    """The coefficients of a limb."""
    n, order = len(limb), reversed_bits(len(limb))
    psi = roots(q, n)
    sums = dft(limb.astype(object)[order], psi, q)[order]
    back = np.arange(n)
    return sums[-back % n] * psi[-back % (2 * n)] % q * pow(n, -1, q) % q


def centred(residues: list[Array], q: list[int]) -> Array:
    """The integers of least absolute value with these residues."""
    product = math.prod(q)
    each = [product // p * pow(product // p, -1, p) for p in q]
    found = sum(limb * factor for limb, factor in zip(residues, each, strict=True)) % product
    return np.where(found > product // 2, found - product, found)


def decrypted(secret: Array, ciphertext: Array, q: list[int]) -> Array:
    """The coefficients c_0 + c_1·s (+ c_2·s²) of a ciphertext (components, limbs, N)."""
    q, limbs = q[: ciphertext.shape[1]], []
    for limb, p in zip(ciphertext.astype(object).swapaxes(0, 1), q, strict=True):
        s = to_ntt(secret, p)
        limbs.append(from_ntt(sum(part * s**power % p for power, part in enumerate(limb)) % p, p))
    return centred(limbs, q)


def slots(coefficients: Array) -> Array:
    """The N/2 complex slots: slot j is the value at exp(iπ/N)^(5^j)."""
    n = len(coefficients)
    values = np.fft.ifft(coefficients.astype(float) * np.exp(1j * np.pi * np.arange(n) / n)) * n
    return values[[pow(5, j, 2 * n) // 2 for j in range(n // 2)]]


def matrix(key: File, program: File, result: File) -> Array:
    """The matrix of a result of one block of real numbers, whose ciphertexts are in slots."""
    (wanted,) = program.header["results"]
    output, n = wanted["output"], key.parameters["n"]
    secret = ternary(key.tensors["seed"].tobytes(), SECRET, 0, n)
    found = np.zeros(math.prod(output["form"]["block"]))
    places = program.tensors[output["form"]["layout"] + ".real"]
    for place, ciphertext in zip(places, result.tensors["result"], strict=True):
        values = slots(decrypted(secret, ciphertext, key.parameters["q"])) / output["scale"]
        found[place[place >= 0]] = values.real[place >= 0]
    return found.reshape(output["form"]["block"])


if __name__ == "__main__":
    files = [read(Path(name).read_bytes()) for name in sys.argv[1:]]
    print(matrix(*files) if len(files) == 3 else files[0])
