"""EvalMod: x → x mod 1 near whole numbers, as (1/2π)·sin 2πx, of numbers up to a range.

Without doublings, a Chebyshev polynomial of odd degree gives the sine. With r of them it gives the cosine of an angle
that is 2^r times as small, sin 2πx being cos 2π(x - 1/4) and cos 2θ being 2·cos² θ - 1: half as many products, but the
errors of the polynomial are enlarged by up to 4^r, and one level more. That polynomial is even in
(x - 1/4) / (range + 1/4): most arguments are near 0, where T_2 is at the end of its interval, at which Chebyshev
polynomials of it are steepest.

Source: Han and Ki, "Better bootstrapping for approximate homomorphic encryption" (2020); the polynomial as Bossuat,
Mouchet, Troncoso-Pastoriza and Hubaux, "Efficient bootstrapping for approximate homomorphic encryption with non-sparse
keys" (2021).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.noisy import Noisy
from cipherblas.evaluators.slots.values import Ct
from cipherblas.methods.polynomial.paterson_stockmeyer import PatersonStockmeyer
from cipherblas.rlwe.noise import FAILURE_BITS, SPARSE_WEIGHT, SlotErrors, tail
from cipherblas.rlwe.rings import Ring, RingShape

SAMPLE_BITS = (0, 10, 20, 30, 40, 50)  # log2 of the slots that a prediction may be for
DRAWN = 200  # errors for each whole number, at least
SCALE_STEPS = 1 << 16  # of log2, by which scales are told apart where errors are drawn
POINTS = 65  # of every interval around a whole number, at which the error is looked at
SLACK = 1.02  # between them it is larger by less


@dataclass(frozen=True)
class ModularReduction:
    """sin 2πx for |x| ≤ `range`.

    Attributes:
        range: no argument is larger.
        degree: of the polynomial; odd without doublings, else even.
        doublings: of the angle.
    """

    range: int
    degree: int
    doublings: int

    @property
    def shift(self) -> float:
        """What is taken from arguments."""
        return 0.25 if self.doublings else 0.0

    @property
    def width(self) -> float:
        """What arguments are divided by."""
        return self.range + self.shift

    @property
    def levels(self) -> int:
        """Rescales."""
        return self.degree.bit_length() + self.doublings

    def polynomial(self, scale_bits: float) -> PatersonStockmeyer:
        """Of (x - shift) / width."""
        return PatersonStockmeyer(_coefficients(self), 1.0, scale_bits)

    def run(self, ev: Evaluator, u: Ct, scale: float) -> Ct:
        """sin 2πx of x / width.

        Args:
            u: at about the size of the limbs that are spent here.
            scale: of the result; exact but for the last bits of a float64.
        """
        own = _deviation(self, _shape(ev.params), u.limbs, _about(u.scale), _about(scale))
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
        for _ in range(self.doublings):
            y = ev.bounded(ev.multiply_rescaled(y, y, 2.0, y.scale**2, constant=-1.0), 1.0)
        return y

    def failure_bits(self, size: float) -> float:
        """-log2 of the probability that a raised coefficient is beyond `size` times q_0 (Chernoff's bound): with
        h = SPARSE_WEIGHT it is a sum of h + 1 numbers, each uniform between -1/2 and 1/2."""
        steps = np.arange(1, 4000) * 0.05
        moments = np.log(np.sinh(steps / 2) / (steps / 2))
        return float(-((SPARSE_WEIGHT + 1) * moments - steps * size).min() / math.log(2)) - 1

    def error(self, largest: float) -> float:
        """|y / 2π - (x mod 1)| at most, for x up to `largest` away from whole numbers: of sine and polynomial."""
        return _error(self, largest)


@functools.lru_cache(maxsize=16)
def _coefficients(reduction: ModularReduction) -> tuple[float, ...]:
    """Of T_0, T_1, …"""
    wave = np.cos if reduction.doublings else np.sin
    angle = 2 * math.pi * reduction.width / 2**reduction.doublings
    found = chebyshev.chebinterpolate(lambda u: wave(angle * u), reduction.degree)
    found[1 if reduction.doublings else 0 :: 2] = 0.0
    return tuple(map(float, found))


@functools.lru_cache(maxsize=16)
def _error(reduction: ModularReduction, largest: float) -> float:
    whole = np.arange(-reduction.range, reduction.range + 1)[:, None]
    part = np.linspace(-largest, largest, POINTS)[None]
    u = (whole + part - reduction.shift) / reduction.width
    inside = np.abs(u) <= 1
    y = chebyshev.chebval(u, _coefficients(reduction))
    for _ in range(reduction.doublings):
        y = 2 * y * y - 1
    return SLACK * float(np.abs(y / (2 * math.pi) - part)[inside].max())


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
    """What the steps between add to a slot: times `tail` it is exceeded as seldom as that says.

    Errors are larger where the argument is, which is seldom. They are drawn for every whole number in the range, whose
    probability counts.
    """
    noisy, clear = Noisy(ring), Clear(ring)
    numbers = 2 * reduction.range + 1
    rounds = -(-DRAWN * numbers // noisy.slots)  # of as many arguments as there are slots
    whole = np.arange(rounds * noisy.slots).reshape(rounds, -1) % numbers - reduction.range
    off = np.empty(whole.shape)
    for row, missed in zip(whole, off, strict=True):
        found, exact = (
            reduction._evaluated(
                ev,
                ev.fresh((row + 0j) / reduction.width, bound=1.0, limbs=limbs, scale=argument_scale),
                scale,
            )
            for ev in (noisy, clear)
        )
        missed[:] = found.data.real - exact.data.real
    sizes = np.arange(reduction.range + 1)
    deviations = np.array([off[np.abs(whole) == size].std() for size in sizes])
    chances = np.minimum(1.0, [2.0 ** -reduction.failure_bits(max(size - 0.5, 0.0)) for size in sizes])
    largest = 0.0
    for bits in SAMPLE_BITS:
        wanted = 2.0 ** -(FAILURE_BITS + 1 + bits)
        low, high = 0.0, tail(2.0**bits) * float(deviations.max()) * 2
        for _ in range(60):  # the least size that is exceeded with the probability of `tail`
            middle = (low + high) / 2
            exceeded = float((chances * np.exp(-0.5 * (middle / deviations) ** 2)).sum())
            low, high = (middle, high) if exceeded > wanted else (low, middle)
        largest = max(largest, high / tail(2.0**bits))
    return largest
