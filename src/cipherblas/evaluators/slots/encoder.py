"""Clear slot vectors become integer coefficients: by the inverse embedding, or as sums of parts that are encoded."""

from __future__ import annotations

import functools
import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.encoding import all_encoded, encoded
from cipherblas.common.errors import RangeError, ShapeError
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.residue_slots import residue_slots
from cipherblas.evaluators.policy.approximate import dither
from cipherblas.evaluators.policy.modular import PlainFactor
from cipherblas.evaluators.slots.values import Parts, Plain

Key = TypeVar("Key")
Value = TypeVar("Value")

if TYPE_CHECKING:
    from cipherblas._core import Context

Coefficients = NDArray[np.int64]

# Vectors that are encoded in one call take so many bytes, each slot as a complex number and as two coefficients.
ENCODED_BYTES, ENCODED_SLOT_BYTES = 8 << 20, 32
FINE_BITS = 20  # that parts have beyond the unit of a coefficient, at most
MAX_BITS = 61  # of a coefficient of a part
SPARE_BITS = 6  # of those beyond the unit that the rounding errors of all parts together leave
KEPT_SUMS, KEPT_PARTS = 4, 2  # a mask and its complement change by one part at a time
# SplitMix64: a counter, and how it is mixed.
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class _Sum(NamedTuple):
    """Parts that are added up, and the sum of their encodings."""

    parts: Parts
    coefficients: Coefficients


class PlainEncoder:
    """round(scale · plain) as coefficients.

    A vector that names its parts (`Plain.parts`) is the sum of their encodings, which have up to 20 bits more; it is
    rounded once, by chance, as all others are. A sum that begins like a recent one goes on from there. After FHE4DMM,
    Section VI-A-1, where rows and columns of 0/1 masks are encoded once and combined by additions. Sums are of
    integers: they are the same whatever was encoded before.

    A part that repeats with period P is a polynomial in X^(N/2P), of 2P coefficients, and is embedded as that.

    Attributes:
        encodings: vectors that were embedded.
        additions: vectors of N coefficients that were added.
    """

    def __init__(self, context: Context, slots: int) -> None:
        self._context, self._slots = context, slots
        self.encodings = self.additions = 0
        self._lock = threading.Lock()  # of what is kept, and of the counts
        self._sums: OrderedDict[tuple[Hashable, float], _Sum] = OrderedDict()
        self._parts: OrderedDict[tuple[Hashable, float], Coefficients] = OrderedDict()

    def one(self, plain: Plain, scale: float) -> Coefficients:
        """The coefficients of one vector.

        Raises:
            ShapeError, RangeError: not S finite numbers, beyond the declared bound, or 2^62 and more at this scale.
        """
        parts = _parts(plain, scale)
        return self._embedded([plain], scale)[0] if parts is None else self._composed(plain, parts, scale)

    def all(self, plains: Sequence[Plain], scale: float) -> Iterator[list[Coefficients]]:
        """Return the encodings of several vectors, in order. Each list holds the vectors that are embedded together and
        fit `ENCODED_BYTES`."""
        number = max(1, ENCODED_BYTES // (ENCODED_SLOT_BYTES * self._slots))
        waiting: list[Plain] = []
        for plain in plains:
            parts = _parts(plain, scale)
            if waiting and (parts is not None or len(waiting) == number):
                yield self._embedded(waiting, scale)
                waiting = []
            if parts is None:
                waiting.append(plain)
            else:
                yield [self._composed(plain, parts, scale)]
        if waiting:
            yield self._embedded(waiting, scale)

    def _embedded(self, plains: Sequence[Plain], scale: float) -> list[Coefficients]:
        with self._lock:
            self.encodings += len(plains)
        dithers = [dither(plain.key) for plain in plains]
        return all_encoded(self._context, list(map(self._checked, plains)), scale, dithers)

    def _checked(self, plain: Plain, periodic: bool = False) -> NDArray[np.complex128]:
        """The slots of a clear vector; of a periodic one as many as do not repeat."""
        values = plain.values()
        if values.shape != (self._slots,):
            raise ShapeError(
                "The clear vector has another length than there are slots.",
                expected=(self._slots,),
                got=values.shape,
            )
        if periodic:
            values = values[: _period(values)]
        largest = float(np.abs(values).max())
        if not largest <= plain.bound * (1 + 1e-9):  # also when not a number
            raise RangeError(
                "A slot of a clear vector is beyond its bound.",
                expected=f"absolute values up to {plain.bound:g}",
                got=largest,
            )
        return np.ascontiguousarray(values, dtype=np.complex128)

    # ---- sums of parts ----

    def _composed(self, plain: Plain, parts: Parts, scale: float) -> Coefficients:
        bits = _fine_bits(scale)
        with self._lock:
            total = self._sum(plain, parts, scale, bits)
        return _spread(_rounded(total, bits, len(parts), dither(plain.key)), 2 * self._slots)

    def _sum(self, plain: Plain, parts: Parts, scale: float, bits: int) -> Coefficients:
        """The parts added up, in units of 2^-bits."""
        done, total = 0, np.zeros(2, np.int64)
        for (_, at), (begun, coefficients) in self._sums.items():
            if at == scale and len(begun) > done and parts[: len(begun)] == begun:
                done, total = len(begun), coefficients
        for sign, part in parts[done:]:
            found = self._part(part, scale, bits)
            length = max(len(total), len(found))
            total = _spread(total, length) + sign * _spread(found, length)
            self.additions += 1
        _keep(self._sums, (plain.key, scale), _Sum(parts, total), KEPT_SUMS)
        return total

    def _part(self, part: Plain, scale: float, bits: int) -> Coefficients:
        """The encoding of a part, in units of 2^-bits."""
        key = part.key, scale
        found = self._parts.get(key)
        if found is None:
            self.encodings += 1
            values, unit = self._checked(part, periodic=True), scale * 2.0**bits
            if len(values) == self._slots:
                found = encoded(self._context, values, unit)
            else:
                found = np.rint(unit * _embedded(values)).astype(np.int64)
        _keep(self._parts, key, found, KEPT_PARTS)
        return found


class ResidueEncoder:
    """The same of clear vectors modulo t, whose scale is a factor: exact, and without parts."""

    def __init__(self, n: int, modulus: int) -> None:
        self._slots = residue_slots(n, modulus)

    def one(self, plain: Plain, scale: PlainFactor) -> Coefficients:
        """The centred coefficients of one vector.

        Raises:
            ShapeError, RangeError: not S whole numbers.
        """
        return self._slots.coefficients(plain.values(), scale.value)

    def all(self, plains: Sequence[Plain], scale: PlainFactor) -> Iterator[list[Coefficients]]:
        """Return the encodings of several vectors, in order."""
        return ([self.one(plain, scale)] for plain in plains)


def encoder_of(params: Parameters) -> PlainEncoder | ResidueEncoder:
    """The encoder of the kind of plaintexts that parameters are for."""
    if params.plain_modulus is not None:
        return ResidueEncoder(params.n, params.plain_modulus)
    return PlainEncoder(params.context(), params.slots)


def _keep(kept: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> None:
    """Of several values the latest."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def _parts(plain: Plain, scale: float) -> Parts | None:
    """Its parts, where their encodings have room for what so many roundings leave."""
    parts = None if plain.parts is None else plain.parts()
    return parts if parts and len(parts) <= 2.0 ** (_fine_bits(scale) - SPARE_BITS) else None


def _fine_bits(scale: float) -> int:
    """Bits beyond the unit that parts have at this scale, whose slots are at most 1."""
    return min(FINE_BITS, MAX_BITS - math.ceil(math.log2(scale)))


def _period(values: NDArray[Any]) -> int:
    """The least period of 2^i slots."""
    period = len(values)
    while period > 1 and np.array_equal(values[: period // 2], values[period // 2 : period]):
        period //= 2
    return period


@functools.lru_cache(maxsize=32)
def _powers_of_5(period: int) -> NDArray[np.int64]:
    """5^j mod 4P for j < P: the exponents of the roots that slots are values at."""
    return np.array([pow(5, j, 4 * period) for j in range(period)])


def _embedded(values: NDArray[np.complex128]) -> NDArray[np.float64]:
    """The real polynomial of degree below 2P with these P values at the roots exp(πi·5^j/2P)."""
    period = len(values)
    powers = _powers_of_5(period)
    at_roots = np.zeros(4 * period, np.complex128)
    at_roots[powers] = values
    at_roots[-powers] = values.conj()
    coefficients: NDArray[np.float64] = np.fft.fft(at_roots)[: 2 * period].real / (2 * period)
    return coefficients


def _spread(coefficients: Coefficients, length: int) -> Coefficients:
    """A polynomial in a power of X as one of so many coefficients."""
    if len(coefficients) == length:
        return coefficients
    found = np.zeros(length, np.int64)
    found[:: length // len(coefficients)] = coefficients
    return found


def _rounded(total: Coefficients, bits: int, parts: int, seed: int) -> Coefficients:
    """total / 2^bits rounded up or down by chance, by less than 1 together with what rounding the parts has left."""
    margin = -(-parts // 2)
    numbers = np.uint64(seed) + _GOLDEN * np.arange(len(total), dtype=np.uint64)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * factor
    chance = (numbers >> np.uint64(64 - bits)).astype(np.int64)
    rounded: Coefficients = (total + np.clip(chance, margin, (1 << bits) - margin)) >> bits
    return rounded
