"""Switching keys, in memory and in files, and how their limbs are packed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cipherblas.common.errors import FormatError
from cipherblas.common.memory import Array, aligned_empty
from cipherblas.common.pickles import Rebuilt
from cipherblas.crypto import files, randomness
from cipherblas.crypto.keys.request import TO_ROWS, TO_SPARSE, is_of_rows
from cipherblas.crypto.params import Parameters, descending, encapsulating, row_parameters

RELINEARISE = 0  # stands for the relinearisation key where others are named by their Galois element


def parameters_of(params: Parameters, number: int) -> Parameters:
    """Those that a key of these parameters is made with: keys to the sparse secret and to that of rows have their own,
    and so has the ring of rows."""
    if is_of_rows(number):
        return row_parameters(params)
    if number == TO_ROWS:
        return descending(params)
    return encapsulating(params) if number == TO_SPARSE else params


def key_shape(params: Parameters, limbs: int) -> tuple[int, int, int, int]:
    """Shape of a switching key for `limbs` limbs in memory: (digits, 2, limbs + k, words of a limb)."""
    return params.digits(limbs), 2, limbs + params.special_limbs, params.key_words


def pack(params: Parameters, limbs: Array) -> Array:
    """Limbs (..., N) as keys have them in memory, (..., words)."""
    return _rows_by_rows(params.context().pack_key, limbs, params.key_words)


def unpack(params: Parameters, limbs: Array) -> Array:
    """The limbs (..., N) of what `pack` made."""
    return _rows_by_rows(params.context().unpack_key, limbs, params.n)


def _rows_by_rows(convert: Callable[[Array], Array], limbs: Array, words: int) -> Array:
    """The same of every (rows, words) matrix of an array: one component of one digit lies in one piece."""
    result = aligned_empty((*limbs.shape[:-1], words))
    for index in np.ndindex(limbs.shape[:-2]):
        result[index] = convert(limbs[index])
    return result


def uniform_part(params: Parameters, seed: bytes, limbs: int) -> Array:
    """The a parts of a switching key from their public seed: uint64 (digits, limbs + k, N), Montgomery form.

    A uniform residue is uniform in Montgomery form too, so the stream is taken as that form and never converted.
    """
    digits, _, rows, _ = key_shape(params, limbs)
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
        galois: the Galois element it serves, RELINEARISE, or one of the numbers of `cipherblas.crypto.keys.request`.
        limbs: it serves ciphertexts of at most so many limbs.
        seed: public seed of the a parts.
        data: uint64 of `key_shape`, Montgomery form, components b and a, packed.
    """

    galois: int
    limbs: int
    seed: bytes = field(repr=False)
    data: Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class CarriedTensor:
    """What a pickle carries of a file: one tensor, read as the file's `Reader` reads it."""

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

    galois: int
    limbs: int
    seed: bytes = field(repr=False)
    reader: files.Reader | CarriedTensor = field(repr=False)
    tensor: str

    def __reduce__(self) -> tuple[Any, ...]:
        reader, array = self.reader, self.reader.read(self.tensor)
        return _carried, (
            self.galois,
            self.limbs,
            self.seed,
            reader.parameters,
            reader.path,
            self.tensor,
            array,
        )

    def load(self, place: Callable[[tuple[int, ...]], Array] = aligned_empty) -> SwitchingKey:
        """Read the b parts and expand the a parts; errors as `files.read`, and FormatError for a residue ≥ q.

        Args:
            place: the array of a shape that the key goes to.
        """
        params = parameters_of(self.reader.parameters, self.galois)
        b = self.reader.read(self.tensor)
        moduli = np.array([*params.q[: self.limbs], *params.p], np.uint64)
        if (b.max(axis=2) >= moduli).any():
            raise FormatError(
                f"{self.reader.path} is damaged: a residue of {self.tensor} is not below its modulus."
            )
        data = place(key_shape(params, self.limbs))
        data[:, 0] = pack(params, b)
        del b
        data[:, 1] = pack(params, uniform_part(params, self.seed, self.limbs))
        return SwitchingKey(self.galois, self.limbs, self.seed, data)


def _carried(
    galois: int, limbs: int, seed: bytes, params: Parameters, path: str, tensor: str, array: Array
) -> StoredKey:
    """The key that a pickle carried, of the shape that the reader of a file asks for."""
    own = parameters_of(params, galois)
    digits, _, rows, _ = key_shape(own, limbs)
    if array.dtype != np.uint64 or array.shape != (digits, rows, own.n):
        raise FormatError(
            f"The tensor {tensor} of {path} has the wrong type or shape.",
            expected=f"uint64 {(digits, rows, own.n)}",
            got=f"{array.dtype} {array.shape}",
        )
    return StoredKey(galois, limbs, seed, CarriedTensor(params, path, array), tensor)
