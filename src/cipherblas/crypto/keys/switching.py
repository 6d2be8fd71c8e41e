"""Switching keys, in memory and in files, and how their limbs are packed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cipherblas.common.errors import FormatError, ParameterError
from cipherblas.common.memory import Array, aligned_empty
from cipherblas.common.pickles import Rebuilt
from cipherblas.crypto import files, randomness
from cipherblas.crypto.keys.key_id import KeyId
from cipherblas.crypto.params import Parameters


def key_shape(params: Parameters, limbs: int) -> tuple[int, int, int]:
    """Shape of a switching key for `limbs` limbs in memory: (digits, 2, words of a component)."""
    return params.digits(limbs), 2, params.key_words(limbs)


def shape_of(params: Parameters, key: KeyId, limbs: int) -> tuple[int, ...]:
    """Shape of a key in memory: `key_shape` for its parameters, of keys with several b parts two components in each of
    ⌈(r + 1)/2⌉, the a part last."""
    shape = key_shape(key.parameters(params), limbs)
    return (key.components, *shape) if key.b_parts else shape


def stored_shape(params: Parameters, key: KeyId, limbs: int) -> tuple[int, ...]:
    """Shape of the b parts of a key in a file: (digits, limbs + k, N), of several with their number before."""
    own = key.parameters(params)
    shape = own.digits(limbs), limbs + own.special_limbs, own.n
    return (key.b_parts, *shape) if key.b_parts else shape


def pack(params: Parameters, limbs: Array) -> Array:
    """Limbs (..., limbs + k, N) as keys have them in memory, (..., words)."""
    words = params.key_words(limbs.shape[-2] - params.special_limbs)
    result = aligned_empty((*limbs.shape[:-2], words))
    for index in np.ndindex(limbs.shape[:-2]):
        result[index] = params.context().pack_key(limbs[index])
    return result


def unpack(params: Parameters, words: Array, limbs: int) -> Array:
    """The limbs (..., limbs + k, N) of what `pack` made."""
    result = aligned_empty((*words.shape[:-1], limbs + params.special_limbs, params.n))
    for index in np.ndindex(words.shape[:-1]):
        result[index] = params.context().unpack_key(words[index])
    return result


def uniform_part(params: Parameters, seed: bytes, limbs: int) -> Array:
    """The a parts of a switching key from their public seed: uint64 (digits, limbs + k, N), Montgomery form.

    A uniform residue is uniform in Montgomery form too, so the stream is taken as that form and never converted.
    """
    digits, rows = params.digits(limbs), limbs + params.special_limbs
    moduli = [*range(limbs), *range(params.limbs, params.limbs + params.special_limbs)]
    indices = [digit << 16 | modulus for digit in range(digits) for modulus in moduli]
    purpose = randomness.Purpose.SWITCHING_KEY_UNIFORM
    return randomness.uniform(params.context(), seed, purpose, indices, moduli * digits).reshape(
        digits, rows, params.n
    )


@dataclass(frozen=True, eq=False)
class SwitchingKey(Rebuilt):
    """One switching key in memory.

    Attributes:
        id: what it is for.
        limbs: it serves ciphertexts of at most so many limbs.
        seed: public seed of the a parts.
        data: uint64 of `shape_of`, Montgomery form, components b and a, packed.
        seeded: the seed gives the a parts; else it is but a name of the key, which another library made.
    """

    id: KeyId
    limbs: int
    seed: bytes = field(repr=False)
    data: Array = field(repr=False)
    seeded: bool = True

    def stored(self, params: Parameters) -> Array:
        """The b parts as they are in a file: uint64 of `stored_shape`.

        Raises:
            ParameterError: the key has no seed.
        """
        if not self.seeded:
            raise ParameterError(
                "A key that another library made has no seed, and no file of cipherblas.",
                advice="the bytes that the other library wrote",
            )
        own = self.id.parameters(params)
        if not self.id.b_parts:
            return unpack(own, self.data[:, 0], self.limbs)
        components = unpack(own, self.data.swapaxes(1, 2), self.limbs)  # of each pair
        return components.reshape(-1, *components.shape[2:])[:-1]


@dataclass(frozen=True, eq=False)
class CarriedTensor:
    """One tensor of a file, as a pickle carries it; it is read as the file's `Reader` reads it."""

    parameters: Parameters
    path: str
    array: Array = field(repr=False)

    def read(self, name: str) -> Array:
        return self.array


@dataclass(frozen=True, eq=False)
class StoredKey:
    """One switching key in a file: the b parts under `tensor`, the a parts as a seed.

    A pickle carries the content, not the file's name: it may go to where the file is not.
    """

    id: KeyId
    limbs: int
    seed: bytes = field(repr=False)
    reader: files.Reader | CarriedTensor = field(repr=False)
    tensor: str

    def __reduce__(self) -> tuple[Any, ...]:
        reader, array = self.reader, self.reader.read(self.tensor)
        return _carried, (
            self.id,
            self.limbs,
            self.seed,
            reader.parameters,
            reader.path,
            self.tensor,
            array,
        )

    @files.advised("evaluation-keys")
    def load(self, place: Callable[[tuple[int, ...]], Array] = aligned_empty) -> SwitchingKey:
        """Read the b parts and expand the a parts; errors as `files.read`, and FormatError for a residue ≥ q.

        Args:
            place: the array of a shape that the key goes to.
        """
        params = self.id.parameters(self.reader.parameters)
        b = self.reader.read(self.tensor)
        moduli = np.array([*params.q[: self.limbs], *params.p], np.uint64)
        if (b.max(axis=-1) >= moduli).any():
            raise FormatError(
                f"{self.reader.path} is damaged: a residue of {self.tensor} is not below its modulus."
            )
        data = place(shape_of(self.reader.parameters, self.id, self.limbs))
        pairs = data.reshape(-1, *key_shape(params, self.limbs))
        for number, part in enumerate(b.reshape(-1, *b.shape[-3:])):
            pairs[number // 2, :, number % 2] = pack(params, part)
        del b
        pairs[-1, :, 1] = pack(params, uniform_part(params, self.seed, self.limbs))
        return SwitchingKey(self.id, self.limbs, self.seed, data)


def _carried(
    key: KeyId, limbs: int, seed: bytes, params: Parameters, path: str, tensor: str, array: Array
) -> StoredKey:
    """The key that a pickle carried, of the shape that the reader of a file asks for."""
    shape = stored_shape(params, key, limbs)
    if array.dtype != np.uint64 or array.shape != shape:
        raise FormatError(
            f"The tensor {tensor} of {path} has the wrong type or shape.",
            expected=f"uint64 {shape}",
            got=f"{array.dtype} {array.shape}",
        )
    return StoredKey(key, limbs, seed, CarriedTensor(params, path, array), tensor)
