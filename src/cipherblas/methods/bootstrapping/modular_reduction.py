"""EvalMod: x → x mod 1 near whole numbers, as (1/2π)·sin 2πx, of numbers up to a range.

Without doublings, an odd polynomial gives the sine. With r of them a polynomial gives the sine or the cosine of an
angle that is 2^r times as small, and the first doubling makes cosines of both: sin 2πx is cos 2π(x - 1/4), and cos 2θ
is 1 - 2·sin² θ as well as 2·cos² θ - 1. That takes a half of the degree, but errors of the polynomial are enlarged. An
even one is one of T_2, at whose end most arguments are: T_n(T_2) has slopes of n² there, so that what T_2 is off by
counts most. T_4 is therefore made of squares that are not rounded; see `PatersonStockmeyer`.

The polynomial needs to be near to the function where arguments are, around whole numbers, and no more than bounded
between them: it is fitted to these intervals, and its degree may be less than that of an interpolation of the same
error.

Source: Han and Ki, "Better bootstrapping for approximate homomorphic encryption" (2020); the polynomial as Bossuat,
Mouchet, Troncoso-Pastoriza and Hubaux, "Efficient bootstrapping for approximate homomorphic encryption with non-sparse
keys" (2021); weights of the fit as Lawson, "Contributions to the theory of linear least maximum approximation" (1961).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.noisy import Noisy
from cipherblas.evaluators.slots.values import Ct
from cipherblas.methods.polynomial.paterson_stockmeyer import NEAR_SIZE, PatersonStockmeyer
from cipherblas.rlwe.noise import FAILURE_BITS, SPARSE_WEIGHT, NoiseModel, SlotErrors, tail
from cipherblas.rlwe.rings import Ring, RingShape

SAMPLE_BITS = (0, 10, 20, 30, 40, 50)  # log2 of the slots that a prediction may be for
DRAWN = 200  # errors for each whole number, at least
SCALE_STEPS = 1 << 16  # of log2, by which scales are told apart where errors are drawn
POINTS = 65  # of every interval around a whole number, at which the error is looked at
SLACK = 1.02  # between them it is larger by less
FITTED = 9  # points of every interval, to which the polynomial is fitted
FITS = 60  # times that weights are changed
NEGLIGIBLE = 2.0**-20  # of the errors of rescaling, that errors of key switching may be
EXACT_SPECIAL = 2.0**120  # P of key switching without errors
EXACT_BITS = 50.0  # of a scale where there are no errors
MIN_WEIGHT = 1e-3  # of the largest error, by which weights are multiplied


@dataclass(frozen=True)
class ModularReduction:
    """sin 2πx for x near whole numbers of up to `range`.

    Attributes:
        range: no whole number is larger.
        degree: of the polynomial; odd without doublings.
        doublings: of the angle.
        largest: no argument is farther from a whole number.
    """

    range: int
    degree: int
    doublings: int
    largest: float = 2.0**-9

    @property
    def shift(self) -> float:
        """The number subtracted from arguments."""
        return 0.25 if self.doublings else 0.0

    @property
    def width(self) -> float:
        """The divisor of arguments."""
        return self.range + self.largest + self.shift

    @property
    def odd(self) -> bool:
        """Sines are doubled, not cosines."""
        return self.degree % 2 == 1

    @property
    def levels(self) -> int:
        """Rescales."""
        return self.degree.bit_length() + self.doublings

    def polynomial(self, scale_bits: float) -> PatersonStockmeyer:
        """Of (x - shift) / width."""
        return PatersonStockmeyer(_coefficients(self), 1.0, scale_bits, near_zero=True)

    def run(self, ev: Evaluator, u: Ct, scale: float) -> Ct:
        """sin 2πx of x / width.

        Args:
            u: at about the size of the limbs that are spent here.
            scale: of the result; exact but for the last bits of a float64.
        """
        given = [u]
        del u
        return ev.counted_once((self, scale), given, lambda: self._computed(ev, given.pop(), scale))

    def _computed(self, ev: Evaluator, u: Ct, scale: float) -> Ct:
        size = float(ev.params.q[u.limbs - 1])
        given = size if abs(u.scale / size - 1) < NEAR_SIZE else _about(u.scale)
        own = _deviation(self, _shape(ev.params), u.limbs, given, _about(scale))
        slope = 2 * math.pi * self.width
        errors = SlotErrors(math.hypot(slope * u.errors.deviation, own), aligned=False)
        worst = slope * ev.worst_error(u) / u.scale
        y = self._evaluated(ev, ev.as_message(u), scale)
        return ev.assume_errors(y, errors, ev.worst_error(y) + worst * y.scale)

    def _evaluated(self, ev: Evaluator, u: Ct, scale: float) -> Ct:
        q, shift = ev.params.q, self.shift / self.width
        first = u.limbs - self.degree.bit_length()  # limbs after the polynomial
        scales = [scale]
        for limbs in range(first - self.doublings + 1, first + 1):  # backwards
            scales.append(math.sqrt(scales[-1] * q[limbs - 1]))
        t = ev.bounded(ev.add_number(u, -shift) if shift else u, 1.0)
        y = self.polynomial(math.log2(u.scale)).run(ev, t, scales.pop(), rescaled=True)
        for index in range(self.doublings):
            sine = self.odd and index == 0
            other, constant = (ev.negate(y), 1.0) if sine else (y, -1.0)
            y = ev.bounded(ev.multiply_rescaled(y, other, 2.0, y.scale**2, constant=constant), 1.0)
        return y

    def failure_bits(self, most: int) -> float:
        """-log2 of the probability that a raised coefficient is a multiple of q_0 larger than `most`, and the message:
        the whole number nearest to a sum of h = SPARSE_WEIGHT numbers less the message, each uniform between -1/2 and
        1/2."""
        return _failure_bits(most, self.largest)

    def error(self, largest: float) -> float:
        """|y / 2π - (x mod 1)| at most, for x up to `largest` away from whole numbers: of sine and polynomial."""
        return _error(self, largest, sine=False)

    def polynomial_error(self, largest: float) -> float:
        """|y / 2π - sin(2πx) / 2π| at most, for x up to `largest` away from whole numbers: of the polynomial alone."""
        return _error(self, largest, sine=True)


@functools.lru_cache(maxsize=64)
def _failure_bits(most: int, largest: float) -> float:
    """The distribution of Irwin and Hall, exactly."""
    terms, left = SPARSE_WEIGHT, Fraction(SPARSE_WEIGHT - 1, 2) - most + Fraction(largest)
    volume = sum(
        (-1) ** index * math.comb(terms, index) * (left - index) ** terms for index in range(math.ceil(left))
    )
    beyond = 2 * volume / math.factorial(terms)
    if not 0 < beyond < 1:
        return 0.0 if beyond else math.inf
    return math.log2(beyond.denominator) - math.log2(beyond.numerator)


def _arguments(reduction: ModularReduction, largest: float, points: int) -> NDArray[np.float64]:
    """The arguments of the polynomial for numbers around the whole ones."""
    whole = np.arange(-reduction.range, reduction.range + 1)[:, None]
    return (whole + np.linspace(-largest, largest, points) - reduction.shift) / reduction.width


@functools.lru_cache(maxsize=64)
def _coefficients(reduction: ModularReduction) -> tuple[float, ...]:
    """Of T_0, T_1, …: of the interpolation, and what makes the largest error around whole numbers less."""
    wave = np.sin if reduction.odd else np.cos
    angle = 2 * math.pi * reduction.width / 2**reduction.doublings
    found = chebyshev.chebinterpolate(lambda u: wave(angle * u), reduction.degree)
    own = slice(int(reduction.odd), None, 2)
    found[1 - int(reduction.odd) :: 2] = 0.0
    u = _arguments(reduction, reduction.largest, FITTED).ravel()
    powers = chebyshev.chebvander(u, reduction.degree)[:, own]
    missed = wave(angle * u) - powers @ found[own]
    weights, best, added = np.ones_like(u), float(np.abs(missed).max()), np.zeros(powers.shape[1])
    for _ in range(FITS):
        tried = np.linalg.lstsq(powers * weights[:, None], missed * weights, rcond=None)[0]
        left = np.abs(missed - powers @ tried)
        most = float(left.max())
        if most < best:
            best, added = most, tried
        weights *= np.sqrt(left / most + MIN_WEIGHT)
        weights /= weights.max()
    found[own] += added
    return tuple(map(float, found))


@functools.lru_cache(maxsize=64)
def _error(reduction: ModularReduction, largest: float, sine: bool) -> float:
    y = chebyshev.chebval(_arguments(reduction, largest, POINTS), _coefficients(reduction))
    for index in range(reduction.doublings):
        y = 1 - 2 * y * y if reduction.odd and index == 0 else 2 * y * y - 1
    part = np.linspace(-largest, largest, POINTS)
    exact = np.sin(2 * math.pi * part) / (2 * math.pi) if sine else part
    return SLACK * float(np.abs(y / (2 * math.pi) - exact).max())


def _shape(ring: Ring) -> RingShape:
    q, p = (tuple(map(float, primes)) for primes in (ring.q, ring.p))
    return RingShape(ring.n, q, p, ring.alpha, ring.scale_bits, digit_limbs=ring.digit_limbs)


def _about(scale: float) -> float:
    """A scale but for the last bits, which are those of the roundings on the way to it."""
    return float(2.0 ** (round(math.log2(scale) * SCALE_STEPS) / SCALE_STEPS))


@functools.lru_cache(maxsize=1024)
def _deviation(
    reduction: ModularReduction, ring: RingShape, limbs: int, argument_scale: float, scale: float
) -> float:
    """As `_drawn`, of one ring for all that differ in the digits of key switching, whose errors are seen only in
    rings without a large P."""
    model, q = NoiseModel(ring), ring.q[:limbs]
    switched = max(model.key_switch(count, q[count - 1]) for count in range(1, limbs + 1))
    if switched < NEGLIGIBLE * model.rounding(1.0):
        ring = RingShape(ring.n, q, (EXACT_SPECIAL,), 1, ring.scale_bits)
    return _drawn(reduction, ring, limbs, argument_scale, scale)


def _wholes(reduction: ModularReduction, slots: int) -> NDArray[np.float64]:
    """Arguments for all whole numbers in turns, DRAWN for each, or more, in rows of as many as there are slots."""
    numbers = 2 * reduction.range + 1
    rows = -(-DRAWN * numbers // slots)
    whole = np.arange(rows * slots).reshape(rows, -1) % numbers - reduction.range
    return np.asarray(whole * (1.0 / reduction.width), np.float64)


@functools.lru_cache(maxsize=8)
def _exact(reduction: ModularReduction, n: int) -> list[NDArray[np.float64]]:
    """The results of `_wholes` without errors, in any ring of degree n."""
    limbs, size = reduction.levels + 2, 2.0**EXACT_BITS
    ev = Clear(RingShape(n, (size,) * limbs, (size,), 1, EXACT_BITS))
    rows = (ev.fresh(row, bound=1.0, limbs=limbs, scale=size) for row in _wholes(reduction, ev.slots))
    return [reduction._evaluated(ev, row, size).data for row in rows]


@functools.lru_cache(maxsize=1024)
def _drawn(
    reduction: ModularReduction, ring: RingShape, limbs: int, argument_scale: float, scale: float
) -> float:
    """The deviation that the steps between add to a slot: times `tail` it is exceeded as seldom as that says.

    Errors are larger where the argument is, which is seldom. They are drawn for every whole number in the range, whose
    probability counts.
    """
    ev, numbers = Noisy(ring), 2 * reduction.range + 1
    off = np.empty((-(-DRAWN * numbers // ev.slots), ev.slots))
    for missed, row, exact in zip(off, _wholes(reduction, ev.slots), _exact(reduction, ring.n), strict=True):
        u = ev.fresh(row, bound=1.0, limbs=limbs, scale=argument_scale)
        missed[:] = reduction._evaluated(ev, u, scale).data - exact
    sizes = np.arange(reduction.range + 1)
    # The angle is shifted: whole numbers of one size lie at two distances from 0, and the worse one counts.
    each = [off.ravel()[place::numbers].copy().std() for place in range(numbers)]  # numbers take turns
    deviations = np.array([max(each[reduction.range - size], each[reduction.range + size]) for size in sizes])
    chances = np.array([2.0 ** -reduction.failure_bits(int(size) - 1) for size in sizes])
    tails = np.array([tail(2.0**bits) for bits in SAMPLE_BITS])
    wanted = np.array([2.0 ** -(FAILURE_BITS + 1 + bits) for bits in SAMPLE_BITS])
    low, high = np.zeros(len(tails)), tails * float(deviations.max()) * 2
    for _ in range(60):  # the least sizes that are exceeded with the probability of `tail`
        middle = (low + high) / 2
        exceeded = (chances * np.exp(-0.5 * (middle[:, None] / deviations) ** 2)).sum(axis=1)
        low, high = np.where(exceeded > wanted, middle, low), np.where(exceeded > wanted, high, middle)
    return float((high / tails).max())
