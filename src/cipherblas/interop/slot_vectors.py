"""The slot vectors of a program's operands and results: what a peer encrypts, and what it makes of what it decrypts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.params import Parameters
from cipherblas.roles.client_side import ClientSide
from cipherblas.roles.encryptor import arranged_input
from cipherblas.runtime.values import Input, Output

Vector = NDArray[np.complex128]


class OneVector(NamedTuple):
    """A vector of slots to encrypt, at a scale, with so many limbs at least."""

    slots: Vector
    scale: float
    limbs: int


class _Captured:
    """A `forms.form.Sealer` that encrypts nothing."""

    def __init__(self, params: Parameters) -> None:
        self.params = params

    def vectors(
        self, vectors: Sequence[Callable[[], Any]], scale: float, limbs: int
    ) -> tuple[OneVector, ...]:
        return tuple(OneVector(np.asarray(one(), np.complex128), float(scale), limbs) for one in vectors)

    def coefficients(self, polynomials: Any, scale: float, limbs: int) -> tuple[OneVector, ...]:
        raise _no_slots()

    def matrix(self, kind: Any, matrix: Any, scale: float, basis: Any) -> OneVector:
        raise _no_slots()


class _Opened:
    """A `forms.form.Opener` whose ciphertexts are vectors of slots."""

    def vector(self, ciphertext: Any, scale: float, halves: bool = False) -> NDArray[Any]:
        return np.asarray(ciphertext)

    def matrix(self, kind: Any, shape: Any, scale: float, a: Any, b: Any) -> Any:
        raise _no_slots()


def _no_slots() -> ParameterError:
    return ParameterError(
        "The program has values that do not lie in slots, which peers do not encrypt.",
        advice='cb.compile(…, for_peer="seal")',
    )


def vectors_of(params: Parameters, one: Input, matrix: NDArray[np.float64]) -> tuple[OneVector, ...]:
    """The slots of the ciphertexts of one use of an operand, in cipherblas' order."""
    basis, scale = one.basis, one.encoding_scale
    return one.form.sealed(_Captured(params), arranged_input(one, matrix), scale, basis)  # at entry · scale


def opened(output: Output, vectors: Sequence[Vector]) -> NDArray[np.float64]:
    """The result that vectors of slots hold, in cipherblas' order."""
    given: Any = vectors
    return np.asarray(output.opened(_Opened(), given))


@functools.lru_cache(maxsize=8)
def order_of(n: int, generator: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Of a peer whose slot i is the value at ζ^(g^i): the slot of cipherblas that it is, and whether conjugated."""
    place = {pow(5, j, 2 * n): j for j in range(n // 2)}
    exponents = [pow(generator, i, 2 * n) for i in range(n // 2)]
    own = np.array([place.get(one, place.get(2 * n - one)) for one in exponents], np.int64)
    return own, np.array([one not in place for one in exponents])


def to_peer(slots: Vector, generator: int) -> Vector:
    """Slots in the peer's order."""
    own, conjugated = order_of(2 * len(slots), generator)
    found = slots[own]
    return np.where(conjugated, found.conj(), found)


def from_peer(slots: NDArray[Any], generator: int) -> Vector:
    """Slots of the peer in cipherblas' order."""
    own, conjugated = order_of(2 * len(slots), generator)
    found = np.empty(len(slots), np.complex128)
    found[own] = np.where(conjugated, np.conj(slots), slots)
    return found


def entries_of(program: ClientSide, one: Input, shape: tuple[int, ...]) -> list[Vector]:
    """The entries in the slots of the ciphertexts of an operand, in cipherblas' order: each part of a slot is 1 +
    the number of its entry, or the negative of that, or 0."""
    numbers = np.arange(1.0, 1.0 + math.prod(shape)).reshape(shape)
    return [each.slots for each in vectors_of(program.plan.parameters, one, numbers)]


def places_of(output: Output, own: Callable[[Vector], Vector]) -> dict[str, NDArray[np.float64]]:
    """Where the entries of a result lie among the slots of all its ciphertexts: 1 + the number of the slot whose real
    or imaginary part an entry is, or the negative of that, or 0.

    Args:
        own: vectors of the peer in cipherblas' order.
    """
    slots = output.n // 2
    numbers = np.arange(1.0, 1.0 + output.form.ciphertexts * slots, dtype=np.complex128).reshape(-1, slots)
    return {
        part: opened(output, [own(one * np.complex128(factor)) for one in numbers])
        for part, factor in (("real", 1.0 + 0j), ("imag", 1j))
    }
