"""Encryption with the secret or the public key, and decryption, of coefficient vectors."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cipherblas.common.errors import CipherblasError, DTypeError, FormatError, RangeError, ShapeError
from cipherblas.common.memory import Array, aligned, aligned_empty
from cipherblas.common.pickles import Rebuilt, rebuilt
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto import files, randomness
from cipherblas.crypto.fields import MAX_DECODED_BITS
from cipherblas.crypto.params import Parameters

if TYPE_CHECKING:
    from cipherblas.crypto.keys.secret import SecretKey

MAX_MESSAGE_BITS = 62  # the core adds the error to a message as 64-bit integers


def _uniform_rows(params: Parameters, seed: bytes, purpose: randomness.Purpose, limbs: int) -> Array:
    return randomness.uniform(params.context(), seed, purpose, range(limbs), range(limbs))


@dataclass(frozen=True, eq=False)
class FreshCiphertext(Rebuilt):
    """A ciphertext as it leaves encryption.

    Attributes:
        params: the parameters it was made with.
        limbs: number of limbs.
        seed: public seed of the a part (symmetric encryption), or None (public-key encryption).
        data: with a seed the b part, uint64 (limbs, N); without one both parts, uint64 (2, limbs, N).
    """

    NAME: ClassVar[str] = "slots"  # of feeds of such, in files
    scale: ClassVar[float] = 0.0  # of its message: files have it where the format keeps one
    params: Parameters
    limbs: int
    seed: bytes | None = field(repr=False)
    data: Array = field(repr=False)

    @property
    def kind(self) -> type[FreshCiphertext]:
        """Its class, wherever it lies."""
        return FreshCiphertext

    @property
    def extent(self) -> tuple[int, ...]:
        """Limbs first."""
        return self.limbs, self.params.n

    def __post_init__(self) -> None:
        self.params.check_limbs(self.limbs)
        _check_residues(self.params, self.data, self.limbs, self._shape, "fresh ciphertext")

    @property
    def _shape(self) -> tuple[int, ...]:
        """Of the data."""
        one = (self.limbs, self.params.n)
        return one if self.seed is not None else (2, *one)

    @property
    def nbytes(self) -> int:
        """Bytes to send: half a ciphertext when the a part is a seed."""
        return self.data.nbytes + len(self.seed or b"")

    @property
    def data_digest(self) -> str:
        """Of the data, as files have it."""
        return files.part_digests(self.data[None])[0]

    def expand(self, into: Array | None = None, factor: int = 1) -> Array:
        """The ciphertext (b, a), uint64 (2, limbs, N), in NTT form.

        Args:
            into: an array for it; where the a part was sent, nothing is copied there.
            factor: what it is multiplied by, an integer.
        """
        context = self.params.context()
        if self.seed is None:
            return self.data if factor == 1 else context.multiply_scalar(self.data, factor)
        both = aligned_empty((2, self.limbs, self.params.n)) if into is None else into
        words = randomness.uniform_words(
            context, self.seed, randomness.Purpose.CIPHERTEXT_UNIFORM, range(self.limbs)
        )
        context.expand(self.data, words, factor, both)
        return both


class StoredCiphertext(FreshCiphertext):
    """A fresh ciphertext that stays in its file: its data are read, and checked, whenever they are asked for.

    Args:
        params, limbs, seed: as of every fresh ciphertext.
        read: reads the data.
        digest: which they have.
    """

    def __init__(
        self, params: Parameters, limbs: int, seed: bytes | None, read: Callable[[], Array], digest: str
    ) -> None:
        params.check_limbs(limbs)
        given = {"params": params, "limbs": limbs, "seed": seed, "_read": read, "_digest": digest}
        for name, value in given.items():
            object.__setattr__(self, name, value)

    @property
    @files.advised("ciphertext")
    def data(self) -> Array:
        """The data of the ciphertext, read from its file.

        Raises:
            FormatError, StorageError: the file is damaged, or cannot be read any more.
        """
        read: Callable[[], Array] = self._read  # type: ignore[attr-defined]
        found = read()
        try:
            _check_residues(self.params, found, self.limbs, self._shape, "fresh ciphertext")
        except CipherblasError as error:
            raise FormatError(f"The ciphertexts of the file cannot be read: {error}") from error
        return found

    @property
    def nbytes(self) -> int:
        """Bytes that were sent."""
        return math.prod(self._shape) * WORD_BYTES + len(self.seed or b"")

    @property
    def data_digest(self) -> str:
        """Of the data, without reading them."""
        return self._digest  # type: ignore[attr-defined,no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the data."""
        return rebuilt, (FreshCiphertext, self.params, self.limbs, self.seed, self.data)


def _check_residues(params: Parameters, data: Array, limbs: int, shape: tuple[int, ...], what: str) -> None:
    """Raise ShapeError, DTypeError or RangeError unless `data` are residues of this shape."""
    if data.shape != shape:
        raise ShapeError(f"The {what} has the wrong shape.", expected=shape, got=data.shape)
    if data.dtype != np.uint64 or not data.flags.c_contiguous:
        raise DTypeError(
            f"The {what} must be an array of C-contiguous uint64.",
            expected="C-contiguous uint64",
            got=data.dtype,
        )
    largest = data.reshape(-1, limbs, params.n).max(axis=(0, 2))
    moduli = np.array(params.q[:limbs], np.uint64)
    if (largest >= moduli).any():
        limb = int(np.argmax(largest >= moduli))
        raise RangeError(
            f"The {what} has a residue of limb {limb} that is not below its prime.",
            expected=f"below {moduli[limb]}",
        )


class PublicKey(files.InMemory, Rebuilt):
    """A public encryption key: (b, a) = (-a·s + e, a) at the top level, a from a public seed.

    Attributes:
        params: the parameters it was made with.
        program_id: the program it was made for, or "".
        key_id: public name of the key pair it belongs to, or "".
    """

    def __init__(
        self, params: Parameters, seed: bytes, b: Array, program_id: str = "", key_id: str = ""
    ) -> None:
        """From its seed and b part, uint64 (L + 1, N)."""
        _check_residues(params, b, params.limbs, (params.limbs, params.n), "public key")
        self.params = params
        self.program_id = program_id
        self.key_id = key_id
        self._seed = seed
        purpose = randomness.Purpose.PUBLIC_KEY_UNIFORM
        self._data = aligned_empty((2, params.limbs, params.n))
        self._data[0] = b
        self._data[1] = _uniform_rows(params, seed, purpose, params.limbs)

    def __repr__(self) -> str:
        return f"PublicKey(N={self.params.n}, parameters {self.params.fingerprint()[:12]})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made, and so checked, by the constructor; the a part travels as its seed."""
        return rebuilt, (PublicKey, self.params, self._seed, self._data[0], self.program_id, self.key_id)

    @property
    def data(self) -> Array:
        """uint64 (2, L + 1, N), in NTT form."""
        return self._data

    def modulo(self, plain_modulus: int) -> PublicKey:
        """This key for messages modulo another t, on which it does not depend."""
        if plain_modulus == self.params.plain_modulus:
            return self
        found = PublicKey.__new__(PublicKey)
        vars(found).update(vars(self))
        found.params = self.params.modulo(plain_modulus)
        return found

    def save(self, path: files.Target) -> None:
        """Write to a file (kind "public-key"); StorageError when the system refuses."""
        tensors = {"b": self._data[0], "seed": np.frombuffer(self._seed, np.uint8)}
        header = {"program_id": self.program_id, "key_id": self.key_id}
        files.write(path, "public-key", header, tensors, parameters=self.params)

    @classmethod
    @files.advised("public-key")
    def load(
        cls,
        path: files.Source,
        *,
        security: int = 128,
        insecure: bool = False,
    ) -> PublicKey:
        """Read what `save` wrote; arguments and errors as `files.read`."""
        with files.Reader(path, "public-key", security=security, insecure=insecure) as reader:
            params = reader.parameters
            reader.expect("b", np.uint64, (params.limbs, params.n))
            reader.expect("seed", np.uint8, (randomness.SEED_BYTES,))
            program_id, key_id = (reader.text(field) for field in ("program_id", "key_id"))
            try:
                return cls(params, reader.read("seed").tobytes(), reader.read("b"), program_id, key_id)
            except RangeError as error:
                raise FormatError(f"{reader.path}: {error}") from error


def generate_public_key(secret: SecretKey) -> PublicKey:
    """A public key for `secret`; errors from a private seed, a from a public one.

    It is one RLWE sample modulo Q, which divides the QP that the parameters were checked for.
    """
    params = secret.params
    context = params.context()
    seed = randomness.fresh_seed()
    a = _uniform_rows(params, seed, randomness.Purpose.PUBLIC_KEY_UNIFORM, params.limbs)
    errors = randomness.noise(context, 1)[0]
    with secret.held_open():
        b = context.encrypt_symmetric(secret.ntt(), a, errors, np.zeros(params.n, np.int64))
    errors.fill(0)
    return PublicKey(params, seed, b, secret.program_id, secret.key_id)


def _check_message(params: Parameters, coefficients: Array, limbs: int) -> None:
    params.check_limbs(limbs)
    if coefficients.shape != (params.n,):
        raise ShapeError(
            "A message needs a coefficient for each of the ring.",
            expected=(params.n,),
            got=coefficients.shape,
        )
    if coefficients.dtype != np.int64:
        raise DTypeError(
            "The coefficients of a message must be int64.", expected="int64", got=coefficients.dtype
        )
    largest = max(
        int(coefficients.max()), -int(coefficients.min())
    )  # Python's integers: -2^63 has no int64 negative
    if params.plain_modulus is not None and largest > params.plain_modulus // 2:
        raise RangeError(
            f"A coefficient of the message is not centred modulo {params.plain_modulus}.",
            expected=f"at most {params.plain_modulus // 2} in absolute value",
        )
    if largest >= math.prod(params.q[:limbs]) // 2:
        log_q = sum(math.log2(prime) for prime in params.q[:limbs])
        raise RangeError(
            f"A coefficient of the message does not fit {limbs} limbs.",
            expected=f"below 2^{log_q - 1:.2f} in absolute value",
        )
    if largest >= 1 << MAX_MESSAGE_BITS:
        raise RangeError(
            "A coefficient of the message leaves no room for the error in 64 bits.",
            expected=f"below 2^{MAX_MESSAGE_BITS} in absolute value",
        )


def encrypt(
    key: SecretKey | PublicKey, coefficients: Array, limbs: int | None = None, into: Array | None = None
) -> FreshCiphertext:
    """Encrypt a polynomial.

    Args:
        key: the secret key gives half-size ciphertexts with the smallest error; the public key works for anyone.
        coefficients: int64 (N,), scaled message; with a plain modulus t centred modulo t, which is encrypted times
            t^-1 modulo Q.
        limbs: limbs of the ciphertext; by default all.
        into: an array for what is sent, uint64 (limbs, N) or with the public key (2, limbs, N).

    Returns:
        A fresh ciphertext; with the secret key its a part is a seed. Error: σ = 3.2 per coefficient, or with the
        public key about σ·sqrt(4N/3).

    Raises:
        ShapeError, DTypeError, RangeError: the coefficients are not int64 (N,) below half the modulus and 2^62.
        ParameterError: no such number of limbs.
        SecurityError: the secret key is closed, or was meanwhile.
    """
    params = key.params
    limbs = params.limbs if limbs is None else limbs
    _check_message(params, coefficients, limbs)
    context = params.context()
    message = np.ascontiguousarray(coefficients)
    factor = 1
    if params.plain_modulus is not None:
        factor = pow(params.plain_modulus, -1, math.prod(params.q[:limbs]))
    if not isinstance(key, PublicKey):
        seed = randomness.fresh_seed()
        a = _uniform_rows(params, seed, randomness.Purpose.CIPHERTEXT_UNIFORM, limbs)
        errors = randomness.noise(context, 1)
        with key.held_open():
            data = context.encrypt_symmetric(key.ntt(), a, errors[0], message, factor)
        errors.fill(0)
        return FreshCiphertext(params, limbs, seed, _placed(data, into))
    errors = randomness.noise(context, 2)
    mask = randomness.ephemeral(context)
    data = context.encrypt_public(key.data, mask, errors[0], errors[1], message, limbs, factor)
    errors.fill(0)
    mask.fill(0)
    return FreshCiphertext(params, limbs, None, _placed(data, into))


def _placed(data: Array, into: Array | None) -> Array:
    if into is None:
        return data
    into[...] = data
    return into


def _limbs_that_hold(params: Parameters, within: float, limbs: int) -> int:
    """The fewest of so many limbs that hold centred coefficients up to a bound."""
    products = accumulate(params.q[:limbs], operator.mul)
    return next((count for count, product in enumerate(products, 1) if product > 2 * within), limbs)


def decrypt_coefficients(secret: SecretKey, ciphertext: Array, *, within: float = math.inf) -> Array:
    """Centred coefficients of b + a·s (+ c2·s²): float64 (N,), the scaled message with its error.

    They are taken modulo all primes of the ciphertext, so they must be below half of their product.

    Args:
        secret: the key it was encrypted under.
        ciphertext: uint64 (2 or 3, limbs, N), in NTT form.
        within: what no coefficient exceeds in absolute value, where that is known: the fewest limbs that hold it are
            decrypted, and larger coefficients would wrap around.

    Raises:
        ShapeError, DTypeError: not a ciphertext of these parameters.
        RangeError: a residue is not below its modulus.
        SecurityError: the secret key is closed.
    """
    params = secret.params
    shape = ciphertext.shape
    if len(shape) != 3 or shape[0] not in (2, 3) or not 1 <= shape[1] <= params.limbs or shape[2] != params.n:
        raise ShapeError(
            "The ciphertext has the wrong shape.",
            expected=f"(2 or 3, 1 to {params.limbs}, {params.n})",
            got=shape,
        )
    used = aligned(ciphertext[:, : _limbs_that_hold(params, within, shape[1])])
    _check_residues(params, used, used.shape[1], used.shape, "ciphertext")
    with secret.held_open():
        return params.context().phase(secret.ntt(), used)


def _decoded_limbs(moduli: Sequence[int]) -> int:
    """How many limbs of a ciphertext modulo t are decrypted."""
    products = accumulate(moduli, operator.mul)
    return sum(product < 1 << MAX_DECODED_BITS for product in products)


MAX_REMAINDER = 0.45  # of t·phase/Q, beside the nearest integer: beyond that a ciphertext has no room left


def decrypt_residues(secret: SecretKey, ciphertext: Array, *, within: float = math.inf) -> Array:
    """The coefficients modulo t of γ times the message, int64 (N,), γ being the factor of the ciphertext.

    t·phase = w + Q·k, where w = γ·m modulo t is below Q/2: k is the nearest integer to t·phase/Q, and γ·m = -k·Q. Of a
    longer modulus the first limbs are taken, up to 2^MAX_DECODED_BITS: plans leave no errors that need more.

    Args:
        within: what no coefficient of w/t exceeds in absolute value, where that is known: the fewest limbs that leave
            it room are decrypted.

    Raises:
        RangeError: a ciphertext whose errors left no room, or that was not computed as planned.
        Others: as `decrypt_coefficients`.
    """
    params = secret.params
    assert params.plain_modulus is not None
    t = params.plain_modulus
    if ciphertext.ndim == 3 and ciphertext.shape[1] <= params.limbs:
        ciphertext = ciphertext[:, : _decoded_limbs(params.q[: ciphertext.shape[1]])]
        room = within * t / (2 * MAX_REMAINDER)
        ciphertext = ciphertext[:, : _limbs_that_hold(params, room, ciphertext.shape[1])]
    modulus = math.prod(params.q[: ciphertext.shape[1]])
    quotients = decrypt_coefficients(secret, ciphertext) * (t / modulus)
    nearest = np.rint(quotients)
    if not np.abs(quotients - nearest).max() <= MAX_REMAINDER:  # nor NaN
        raise RangeError(
            "A ciphertext modulo t has errors that leave no room: it was not computed as planned.",
            expected=f"a remainder of {MAX_REMAINDER} at most",
        )
    found: Array = nearest.astype(np.int64) % t * (-modulus % t) % t
    return found
