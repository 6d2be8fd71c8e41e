"""Streams of SEAL 4: headers, ciphertexts, keys. Bytes in, bytes out; whatever they say is checked before it is used.

A stream is 16 bytes, which say how long it is and how it is compressed, and its members. Their order is that of SEAL's
`save_members` (native/src/seal: serialization.h, ciphertext.cpp, plaintext.cpp, kswitchkeys.cpp, dynarray.h).
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cipherblas.common.errors import DTypeError, FormatError, VersionError
from cipherblas.common.memory import Array
from cipherblas.common.words import WORD_BYTES

HEADER = struct.Struct(
    "<HBBBBHQ"
)  # magic, its length, major and minor version, compression, nothing, bytes in all
MAGIC, MAJOR, MINOR = 0xA15E, 4, 0
PLAIN, ZLIB, ZSTD = 0, 1, 2
ID_BYTES = 32
CKKS = 2  # of scheme_type
MAX_DEGREE, MAX_LIMBS, MAX_KEYS = 1 << 17, 64, 1 << 17
SPARE_BYTES = 1 << 12  # of a stream beside its words


class SealCiphertext(NamedTuple):
    """A ciphertext of SEAL, or a public key: words of (components, limbs, N)."""

    parms_id: bytes
    scale: float
    words: Array


class SealPlaintext(NamedTuple):
    """A plaintext of SEAL, or a secret key: all its words."""

    parms_id: bytes
    words: Array


def parms_id_of(n: int, primes: Sequence[int]) -> bytes:
    """The name that SEAL gives CKKS parameters: BLAKE2b of scheme, degree, primes and plain modulus."""
    words = np.array([CKKS, n, *primes, 0], "<u8")
    return hashlib.blake2b(words.tobytes(), digest_size=ID_BYTES).digest()


class Members:
    """The members of a stream, one after the other.

    Args:
        data: of the stream.
        what: it is, for errors.
        most: bytes that it may have once it is decompressed.

    Raises:
        DTypeError: not bytes. FormatError: not such a stream, or truncated. VersionError: of another version of SEAL.
    """

    def __init__(self, data: bytes | bytearray | memoryview, what: str, most: int) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise DTypeError(
                f"{what} comes as the bytes that SEAL saves.",
                expected="bytes",
                got=type(data).__name__,
                advice="open(path, 'rb').read(), of what its save(path) wrote",
            )
        self.what, self._data, self._at = what, memoryview(data).cast("B"), 0
        start = self.take(HEADER.size)
        magic, length, major, _, compression, _, size = HEADER.unpack(start)
        if magic != MAGIC or length != HEADER.size:
            raise self.refused(
                f"{self.what} does not begin as streams of SEAL do.",
                expected="5ea110…",
                got=bytes(start[:4]).hex(),
            )
        if major != MAJOR:
            raise VersionError(
                f"{what} is of another version of SEAL.",
                expected=f"{MAJOR}",
                got=f"{major}",
                advice="the same, saved by SEAL 4",
            )
        if size != len(self._data):
            raise self.refused(
                f"{self.what} is truncated, or more follows.",
                expected=f"{size} bytes",
                got=f"{len(self._data)} bytes",
            )
        self._data, self._at = self._data[HEADER.size :], 0
        if compression != PLAIN:
            self._data = memoryview(self._decompressed(compression, most))

    def _decompressed(self, compression: int, most: int) -> bytes:
        if compression not in (ZLIB, ZSTD):
            raise self.refused(
                f"{self.what} is compressed in an unknown way.",
                expected="none, zlib or zstd",
                got=compression,
            )
        name = "zlib" if compression == ZLIB else "zstd"
        make = zlib.decompressobj if compression == ZLIB else self._zstd()
        decompressor = make()
        try:
            found: bytes = decompressor.decompress(self._data, most + 1)
        except Exception as error:  # each of its own kind
            raise self.refused(f"{self.what} cannot be decompressed by {name}: {error}") from error
        if len(found) > most or not decompressor.eof or decompressor.unused_data:
            raise self.refused(
                f"{self.what} is not what it says, once {name} has decompressed it.",
                expected=f"at most {most} bytes",
            )
        return found

    def _zstd(self) -> Callable[[], Any]:
        for name in ("compression.zstd", "backports.zstd"):
            try:
                module: Any = __import__(name, fromlist=["ZstdDecompressor"])
            except ImportError:
                continue
            found: Callable[[], Any] = module.ZstdDecompressor
            return found
        raise self.refused(
            f"{self.what} is compressed by zstd, which this Python does not have.",
            expected="none or zlib",
            got="zstd",
            advice=("save(…, compr_mode_type::none), in SEAL", "pip install backports.zstd"),
        )

    @staticmethod
    def refused(sentence: str, **parts: Any) -> FormatError:
        """The error of a stream that is none."""
        parts.setdefault("advice", "the bytes that SEAL's save wrote, whole")
        return FormatError(sentence, **parts)

    def take(self, count: int) -> memoryview:
        """So many bytes."""
        if count > len(self._data) - self._at:
            raise self.refused(
                f"{self.what} is truncated.",
                expected=f"{self._at + count} bytes",
                got=f"{len(self._data)} bytes",
            )
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, what: str, least: int, most: int, size: int = WORD_BYTES) -> int:
        """An integer within its range."""
        found = int.from_bytes(self.take(size), "little")
        if not least <= found <= most:
            raise self.refused(
                f"{self.what} has {what} out of range.", expected=f"{least} to {most}", got=found
            )
        return found

    def scale(self) -> float:
        """A scale: positive and finite."""
        (found,) = struct.unpack("<d", self.take(8))
        if not (math.isfinite(found) and found > 0):
            raise self.refused(
                f"{self.what} has a scale that is none.", expected="a positive number", got=found
            )
        return float(found)

    def words(self, count: int) -> Array:
        """An array of so many words, which has a header of its own."""
        self._nested()
        found = self.number("a number of words", 0, 1 << 40)
        if 2 * found == count:
            raise self.refused(
                f"{self.what} has a seed in place of its second half, which only SEAL expands.",
                expected=f"{count} words",
                got=f"{found} words",
                advice=(
                    "encrypt(plain, destination) and then destination.save, in SEAL",
                    "create_relin_keys(destination)",
                ),
            )
        if found != count:
            raise self.refused(f"{self.what} has another number of words.", expected=count, got=found)
        return np.frombuffer(self.take(WORD_BYTES * count), "<u8")

    def _nested(self) -> None:
        magic, length, major, _, compression, _, size = HEADER.unpack(self.take(HEADER.size))
        rest = len(self._data) - self._at + HEADER.size
        if (magic, length, major, compression) != (MAGIC, HEADER.size, MAJOR, PLAIN) or size > rest:
            raise self.refused(f"{self.what} has a damaged part.")

    def ciphertext(self, most_components: int = 3) -> SealCiphertext:
        """The members of a ciphertext."""
        name = bytes(self.take(ID_BYTES))
        if self.number("a form of its polynomials", 0, 1, size=1) != 1:
            raise self.refused(
                f"{self.what} is not in NTT form: it is of BFV.", expected="CKKS", got="coefficients"
            )
        components = self.number("a number of components", 2, most_components)
        n, limbs = self.number("a degree", 2, MAX_DEGREE), self.number("a number of primes", 1, MAX_LIMBS)
        scale = self.scale()
        self.number("a correction factor", 1, 1)
        words = self.words(components * limbs * n).reshape(components, limbs, n)
        return SealCiphertext(name, scale, words)

    def plaintext(self) -> SealPlaintext:
        """The members of a plaintext."""
        name = bytes(self.take(ID_BYTES))
        count = self.number("a number of coefficients", 1, MAX_DEGREE * MAX_LIMBS)
        self.scale()
        return SealPlaintext(name, self.words(count))

    def switching_keys(self, wanted: Sequence[int]) -> tuple[bytes, dict[int, list[SealCiphertext]]]:
        """The name of the parameters, and the keys of these numbers, as far as they are there, digit by digit."""
        name, found = bytes(self.take(ID_BYTES)), dict[int, list[SealCiphertext]]()
        for number in range(self.number("a number of keys", 0, MAX_KEYS)):
            digits = []
            for _ in range(self.number("a number of digits", 0, MAX_LIMBS)):
                self._nested()
                digits.append(self.ciphertext(most_components=2))
            if digits and number in wanted:
                found[number] = digits
        return name, found

    def done(self) -> None:
        """Raise FormatError where more follows."""
        if self._at != len(self._data):
            raise self.refused(
                f"{self.what} has more than its members.", expected=self._at, got=len(self._data)
            )


def ciphertext_bytes(n: int, limbs: int, components: int = 3) -> int:
    """A ciphertext has so many at most, once it is decompressed."""
    return components * limbs * n * WORD_BYTES + SPARE_BYTES


def ciphertext_of(data: bytes, what: str, n: int, limbs: int) -> SealCiphertext:
    """The ciphertext of a stream, of so many limbs at most."""
    members = Members(data, what, ciphertext_bytes(n, limbs))
    found = members.ciphertext()
    members.done()
    return found


def stream_of(n: int, primes: Sequence[int], scale: float, words: Array) -> bytes:
    """The stream of a ciphertext (components, limbs, N), as SEAL's `load` takes it."""
    components, limbs, _ = words.shape
    body = np.ascontiguousarray(words, "<u8").tobytes()
    array = HEADER.pack(MAGIC, HEADER.size, MAJOR, MINOR, PLAIN, 0, HEADER.size + 8 + len(body))
    members = parms_id_of(n, primes[:limbs]) + b"\x01" + struct.pack("<QQQdQ", components, n, limbs, scale, 1)
    members += array + struct.pack("<Q", words.size) + body
    return HEADER.pack(MAGIC, HEADER.size, MAJOR, MINOR, PLAIN, 0, HEADER.size + len(members)) + members
