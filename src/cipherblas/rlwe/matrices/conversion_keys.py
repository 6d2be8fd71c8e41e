"""The evaluation keys of conversions between coefficient formats: declared first, made by the client, public."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cipherblas.common.errors import (
    CipherblasError,
    DTypeError,
    FormatError,
    MismatchError,
    MissingKeyError,
    ParameterError,
    ShapeError,
)
from cipherblas.common.memory import Array, aligned_empty, check_memory
from cipherblas.common.pickles import Rebuilt
from cipherblas.crypto import files, randomness
from cipherblas.crypto.keys.evaluation import EvaluationKeys
from cipherblas.crypto.keys.switching import key_shape, pack, unpack
from cipherblas.crypto.params import Parameters

MODULE_TO_RLWE = "module-to-rlwe"
SHARED_TO_RLWE = "shared-to-rlwe"
RLWE_TO_SHARED = "rlwe-to-shared"
CONVERSIONS = (MODULE_TO_RLWE, SHARED_TO_RLWE, RLWE_TO_SHARED)

_MAX_COUNT = 1 << 16  # indices of streams have so many bits for the number of a key


@dataclass(frozen=True)
class ConversionRequest:
    """The keys that a conversion needs.

    - "module-to-rlwe": `count` = N/d switching keys, number u from the sub-secret s_u(X^(N/d)) to s;
    - "shared-to-rlwe": `count` switching keys, number j from s_j to s;
    - "rlwe-to-shared": `count` keys of count + 1 polynomials, number i a shared-a encryption of (0, …, P·s, …, 0)
      under s_1, s_2, …, with P·s at place i.

    Attributes:
        conversion: one of these names.
        count: number of keys.
        limbs: they serve matrices of at most so many limbs.
    """

    conversion: str
    count: int
    limbs: int

    def check(self, params: Parameters) -> None:
        """Raise ParameterError unless these keys exist for `params`."""
        if self.conversion not in CONVERSIONS:
            raise ParameterError("conversion", expected=CONVERSIONS, got=self.conversion)
        if not params.special_limbs:
            raise ParameterError("key switching needs special primes", expected="at least one", got=0)
        most = params.n if self.conversion == MODULE_TO_RLWE else _MAX_COUNT
        if not 1 <= self.count <= most:
            raise ParameterError("number of conversion keys", expected=f"1 to {most}", got=self.count)
        if self.conversion == MODULE_TO_RLWE and self.count & (self.count - 1):
            raise ParameterError("number of sub-secrets", expected="a power of two", got=self.count)
        params.check_limbs(self.limbs)

    def shape(self, params: Parameters) -> tuple[int, ...]:
        """Shape of the keys in memory, uint64 in Montgomery NTT form, packed.

        Switching keys are (count, *key_shape), components b and a. Keys to shared a have their polynomials in pairs, a
        first, so that one key switch computes two sums: (count, pairs, *key_shape); the last pair is filled up with
        zeros.
        """
        if self.conversion == RLWE_TO_SHARED:
            return self.count, self.count // 2 + 1, *key_shape(params, self.limbs)
        return self.count, *key_shape(params, self.limbs)

    def nbytes(self, params: Parameters) -> int:
        """Bytes of the keys in memory."""
        return int(np.prod(self.shape(params), dtype=object)) * 8


def uniform_part(params: Parameters, seed: bytes, request: ConversionRequest, number: int) -> Array:
    """The a part of one key from the public seed of all: uint64 (digits, limbs + k, N), Montgomery form."""
    digits, _, rows, _ = key_shape(params, request.limbs)
    moduli = [*range(request.limbs), *range(params.limbs, params.limbs + params.special_limbs)]
    indices = [number << 32 | digit << 16 | modulus for digit in range(digits) for modulus in moduli]
    purpose = randomness.Purpose.CONVERSION_KEY_UNIFORM
    drawn = randomness.uniform(params.context(), seed, purpose, indices, moduli * digits)
    return drawn.reshape(digits, rows, params.n)


@dataclass(frozen=True, eq=False)
class ConversionKeys(Rebuilt):
    """The keys of one conversion; public.

    Made by `generation.make_conversion_keys` or `load`.

    Attributes:
        params: the parameters they were made with.
        request: what they are for.
        seed: public seed of the a parts.
        data: see `ConversionRequest.shape`.
        key_id: the key pair they belong to.
    """

    params: Parameters
    request: ConversionRequest
    seed: bytes = field(repr=False)
    data: Array = field(repr=False)
    key_id: str = ""

    def __post_init__(self) -> None:
        self.request.check(self.params)
        shape = self.request.shape(self.params)
        if self.data.shape != shape:
            raise ShapeError("conversion keys", expected=shape, got=self.data.shape)
        if self.data.dtype != np.uint64 or not self.data.flags.c_contiguous:
            raise DTypeError("conversion keys", expected="C-contiguous uint64", got=self.data.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes in memory; in a file the a parts are a seed."""
        return self.data.nbytes

    def check(self, needed: ConversionRequest, params: Parameters, key_id: str = "") -> None:
        """Raise unless these keys serve a request.

        Raises:
            MismatchError: other parameters, or another key pair.
            MissingKeyError: they are for another conversion or number of secrets, or for fewer limbs.
        """
        check_owner(self, params, key_id)
        here = self.request
        if (here.conversion, here.count) != (needed.conversion, needed.count) or here.limbs < needed.limbs:
            raise MissingKeyError("no keys for this conversion", expected=needed, got=here)

    def save(self, path: files.PathLike) -> None:
        """Write to a file of kind "conversion-keys", a parts as a seed; StorageError when the system refuses."""
        request = self.request
        header = {
            "conversion": request.conversion,
            "count": request.count,
            "limbs": request.limbs,
            "key_id": self.key_id,
        }
        tensors = {"b": b_parts(self.params, self.data, request), "seed": np.frombuffer(self.seed, np.uint8)}
        files.write(path, "conversion-keys", header, tensors, parameters=self.params)

    @classmethod
    def load(
        cls,
        path: files.PathLike,
        *,
        security: int = 128,
        insecure: bool = False,
    ) -> ConversionKeys:
        """Read what `save` wrote; arguments as `CoefficientMatrix.load`.

        Raises:
            FormatError, VersionError, SecurityError, StorageError, MemoryBudgetError: as `files.read`.
            MismatchError: another kind of file.
        """
        with files.Reader(path, "conversion-keys", security=security, insecure=insecure) as reader:
            request = _read_request(reader)
            check_memory(2 * request.nbytes(reader.parameters), "the conversion keys")
            shape = b_shape(reader.parameters, request)
            if set(reader.tensors) != {"b", "seed"}:
                raise FormatError(
                    f"{reader.path}: tensors", expected=["b", "seed"], got=sorted(reader.tensors)
                )
            reader.expect("b", np.uint64, shape)
            reader.expect("seed", np.uint8, (randomness.SEED_BYTES,))
            key_id = reader.text("key_id")
            b, seed = reader.read("b"), reader.read("seed").tobytes()
            found = reader.parameters
            moduli = np.array([*found.q[: request.limbs], *found.p], np.uint64)
            if (b.max(axis=(*range(b.ndim - 2), b.ndim - 1)) >= moduli).any():
                raise FormatError(f"{reader.path}: a residue is not below its modulus")
            return cls(found, request, seed, assemble(found, request, seed, b), key_id)


def check_owner(keys: ConversionKeys | EvaluationKeys, params: Parameters, key_id: str = "") -> None:
    """Raise MismatchError unless keys belong to these parameters and, where both have a name, this key pair."""
    if keys.params.fingerprint() != params.fingerprint():
        raise MismatchError(
            "parameters of matrix and keys", expected=params.fingerprint(), got=keys.params.fingerprint()
        )
    if keys.key_id and key_id and keys.key_id != key_id:
        raise MismatchError("key pair of the keys", expected=key_id, got=keys.key_id)


def b_shape(params: Parameters, request: ConversionRequest) -> tuple[int, ...]:
    """Shape of the b parts: (count, digits, limbs + k, N), with one more dimension of `count` to shared a."""
    digits, _, rows, _ = key_shape(params, request.limbs)
    inner = (request.count,) if request.conversion == RLWE_TO_SHARED else ()
    return request.count, *inner, digits, rows, params.n


def b_parts(params: Parameters, data: Array, request: ConversionRequest) -> Array:
    """The b parts of keys: see `b_shape`."""
    if request.conversion != RLWE_TO_SHARED:
        return unpack(params, data[:, :, 0])
    parts = [data[:, (1 + j) // 2, :, (1 + j) % 2] for j in range(request.count)]
    return unpack(params, np.stack(parts, axis=1))


def assemble(params: Parameters, request: ConversionRequest, seed: bytes, b: Array) -> Array:
    """The keys of their b parts and the seed of their a parts: see `ConversionRequest.shape`."""
    data = aligned_empty(request.shape(params))
    for number in range(request.count):
        a = pack(params, uniform_part(params, seed, request, number))
        b_words = pack(params, b[number])
        if request.conversion != RLWE_TO_SHARED:
            data[number, :, 0], data[number, :, 1] = b_words, a
            continue
        data[number, -1].fill(0)
        data[number, 0, :, 0] = a
        for j in range(request.count):
            data[number, (1 + j) // 2, :, (1 + j) % 2] = b_words[j]
    return data


def _read_request(reader: files.Reader) -> ConversionRequest:
    values: list[Any] = [reader.header.get(name) for name in ("count", "limbs")]
    if not all(type(value) is int for value in values):
        raise FormatError(f"{reader.path}: count and limbs", expected="whole numbers", got=values)
    request = ConversionRequest(reader.text("conversion"), *values)
    try:
        request.check(reader.parameters)
    except CipherblasError as error:
        raise FormatError(f"{reader.path}: {error}") from error
    return request
