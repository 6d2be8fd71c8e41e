"""Slots of polynomials modulo t, a prime = 1 mod 2N.

Slot j is the pair of values of a polynomial at ζ^(5^j) and ζ^(-5^j), ζ a primitive 2N-th root of unity modulo t. With
ι = ζ^(N/2), a root of -1, the pair (a + ι·b, a - ι·b) is the number a + b·i of the ring Z_t[i]. So automorphisms do to
slots what they do to complex ones: X → X^(5^r) rotates them, X → X^-1 conjugates them, and X^(N/2) is i in every slot.
Sums and products are those of each half of the pairs: where nothing conjugates, there is room for N integers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ParameterError, RangeError, ShapeError
from cipherblas.crypto.fields import MAX_PLAIN_MODULUS, is_prime

MAX_FRACTION_BITS = 8  # of numbers in slots: halves and the like have a value modulo an odd t
MAX_INTEGER = 2.0**53  # of these: float64 holds them


class ResidueSlots:
    """The transforms between slots and coefficients modulo t.

    Raises:
        ParameterError: t is no prime = 1 mod 2N below 2^31.
    """

    def __init__(self, n: int, modulus: int) -> None:
        import cipherblas._core as _core

        check_has_slots(n, modulus)
        self.n, self.modulus = n, modulus
        self._context = _core.Context(n, [modulus], [], 1)
        bits = n.bit_length() - 1
        reversed_bits = np.zeros(n, np.int64)
        for bit in range(bits):
            reversed_bits |= (np.arange(n) >> bit & 1) << (bits - 1 - bit)
        places = np.empty(2 * n, np.int64)  # of the value at an odd power of ζ, in the order of the transform
        places[2 * reversed_bits + 1] = np.arange(n)
        powers = np.array([pow(5, j, 2 * n) for j in range(n // 2)], np.int64)
        self._pairs = np.stack([places[powers], places[2 * n - powers]])
        middle = np.zeros(n, np.uint64)
        middle[n // 2] = 1
        self._i = int(self._values(middle)[self._pairs[0, 0]])
        self._half_of_i = pow(2 * self._i, -1, modulus)  # 1/2i

    def _values(self, residues: NDArray[np.uint64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._context.rows_to_ntt(residues[None, None])[0, 0].view(np.int64)
        return found

    def coefficients(self, slots: NDArray[Any], factor: int = 1) -> NDArray[np.int64]:
        """The centred coefficients modulo t of a factor times the polynomial with these slots.

        Args:
            slots: N/2 numbers with whole real and imaginary parts, as float64 or complex128 or an integer type has
                them; or with halves, quarters and so on, of which t has a value too. Or 2 × N/2 real ones, the first
                and the second halves of the pairs.

        Raises:
            ShapeError: not N/2. RangeError: they are not such numbers.
        """
        if slots.shape not in ((self.n // 2,), (2, self.n // 2)):
            raise ShapeError(
                "The vector has another length than there are slots.",
                expected=(self.n // 2,),
                got=slots.shape,
            )
        t = self.modulus
        real = self._residues(slots.real)
        if slots.ndim == 2:
            pairs = real
        elif np.iscomplexobj(slots):
            times_i = self._residues(slots.imag) * self._i % t
            pairs = np.stack([_once(real + times_i, t), _once(real - times_i + t, t)])
        else:
            pairs = np.stack([real, real])
        values = np.empty(self.n, np.int64)
        values[self._pairs] = pairs
        found = self._context.rows_from_ntt(values.view(np.uint64)[None, None])[0, 0].view(np.int64)
        return _centred_once(self._times(found, factor), t)

    def _times(self, residues: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
        t = self.modulus
        return residues if factor % t == 1 else residues * (factor % t) % t

    def _residues(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        if np.issubdtype(numbers.dtype, np.integer):
            return np.asarray(numbers % self.modulus).astype(np.int64)
        for bits in (0, MAX_FRACTION_BITS):
            scaled = np.ldexp(numbers, bits) if bits else numbers
            if np.abs(scaled).max(initial=0.0) <= MAX_INTEGER and (scaled == np.rint(scaled)).all():
                whole: NDArray[np.int64] = scaled.astype(np.int64) % self.modulus
                return self._times(whole, pow(2, -bits, self.modulus))
        raise RangeError(
            f"Numbers in slots modulo {self.modulus} must be whole.",
            expected="whole numbers up to 2^53 in absolute value",
            got="others",
        )

    def slots(self, coefficients: NDArray[np.int64], factor: int = 1) -> NDArray[np.complex128]:
        """A factor times the slots of a polynomial of int64 coefficients, whose parts are centred modulo t."""
        t = self.modulus
        first, second = self._pairs_of(coefficients, factor)
        found = np.empty(self.n // 2, np.complex128)
        twice = _once(first + second, t)
        found.real = _centred_once(twice + (twice & 1) * t >> 1, t)  # an even number is halved by a shift
        found.imag = _centred_once(self._times(first - second + t, self._half_of_i), t)
        return found

    def halves(self, coefficients: NDArray[np.int64], factor: int = 1) -> NDArray[np.int64]:
        """2 × N/2: the first and the second halves of these slots, centred modulo t."""
        return _centred_once(self._pairs_of(coefficients, factor), self.modulus)

    def _pairs_of(self, coefficients: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
        t = self.modulus
        found: NDArray[np.int64] = self._values((coefficients % t).view(np.uint64))[self._pairs]
        return self._times(found, factor)


@functools.lru_cache(maxsize=16)
def residue_slots(n: int, modulus: int) -> ResidueSlots:
    """The transforms, whose tables are made once."""
    return ResidueSlots(n, modulus)


def has_slots(n: int, modulus: int) -> bool:
    """Whether polynomials modulo t have N/2 slots of Z_t[i]."""
    return 2 < modulus <= MAX_PLAIN_MODULUS and modulus % (2 * n) == 1 and is_prime(modulus)


def check_has_slots(n: int, modulus: int) -> None:
    """Raise ParameterError where they have not."""
    if not has_slots(n, modulus):
        raise ParameterError(
            "A modulus has no slots in the ring.",
            expected=f"a prime = 1 mod {2 * n} up to {MAX_PLAIN_MODULUS}",
            got=modulus,
            advice="65537, which has slots up to N = 32768",
        )


def _once(values: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    """Integers from 0 to 2t - 1 modulo t: what is negative after a subtraction is huge without its sign."""
    smaller = (values - modulus).view(np.uint64)
    return np.minimum(values.view(np.uint64), smaller).view(np.int64)


def _centred_once(residues: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    """`centred`, of integers from 0 to t - 1, t being odd."""
    return _once(residues + modulus // 2, modulus) - modulus // 2


def centred(residues: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    """The integers of least absolute value that are these modulo t."""
    found = residues % modulus
    return np.where(found > modulus // 2, found - modulus, found)
