"""Ring elements whose coefficients are the entries of an encrypted matrix: what products of them are computed from.

With r = N/d, Y = X^r and t_u the bit-reversed u < r, rows x_u of d entries are *placed* as elements x_u(Y), one each,
or *packed* as Σ_u x_u(Y)·X^(t_u), r of them in one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.values import Rows
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct


@dataclass(frozen=True)
class Errors:
    """Errors of the coefficients of a matrix's ring elements, in units of the integer message.

    Attributes:
        message: the largest coefficient that means something.
        noise: deviation of the errors of these.
        bias: their systematic error.
        worst: the largest one, where that is followed.
        strays: deviation and largest of the errors of the others, which should be zero, or mean nothing.
        independent: errors of different elements are.
    """

    message: float
    noise: float
    bias: float
    worst: float
    strays: tuple[float, float]
    independent: bool = False

    @classmethod
    def of_rows(cls, evs: Evaluators, x: Rows) -> Errors:
        """Of the elements of rows."""
        worst = evs.rows.worst_error(x)
        strays = (x.noise, worst) if x.strays is None else x.strays
        return cls(x.scale * x.bound, x.noise, x.bias, worst, strays, x.independent)

    def of_sums(self, count: float) -> float:
        """Deviation of the error of a sum of coefficients of so many elements."""
        return self.noise * (math.sqrt(count) if self.independent else count)

    def met(self, count: float, entries: int) -> float:
        """Of so many such sums over as many coefficients, in each of which one that means something meets strays."""
        strays = self.strays[0] * (math.sqrt(count) if self.independent else count)
        return math.hypot(self.of_sums(count), strays * math.sqrt(entries - 1))

    def worst_met(self, entries: int) -> float:
        """The largest error of so many coefficients of one element, one of which means something, together."""
        return self.worst + (entries - 1) * self.strays[1]

    @property
    def alone(self) -> Errors:
        """Without what is known to be wrong with what means something: where that is followed in another way."""
        return replace(self, noise=0.0, bias=0.0, worst=0.0)

    def beside(self, other: Errors) -> Errors:
        """With errors of another source."""
        noise = math.hypot(self.noise, other.noise)
        return replace(self, noise=noise, bias=self.bias + other.bias, worst=self.worst + other.worst)

    def times(self, factor: float) -> Errors:
        """Return the errors of a product by a number."""
        strays = factor * self.strays[0], factor * self.strays[1]
        message, noise = factor * self.message, factor * self.noise
        return Errors(message, noise, factor * self.bias, factor * self.worst, strays, self.independent)


@dataclass(frozen=True)
class Elements:
    """Ring elements of one matrix, of equal limbs and scales, and the errors of their coefficients."""

    cts: Sequence[Ct]
    errors: Errors


def placed(evs: Evaluators, x: Rows, start: int = 0, stop: int | None = None) -> list[Ct]:
    """Rows of N coefficients as ciphertexts; those that came from such are these."""
    datas = evs.rows.elements(x, start, x.shape[0] if stop is None else stop)
    return _cts(evs, x, datas, transformed=x.pending is not None)


def placed_elements(evs: Evaluators, x: Rows) -> Elements:
    """Rows of N coefficients as elements, with their errors."""
    return Elements(placed(evs, x), Errors.of_rows(evs, x))


def packed_elements(evs: Evaluators, x: Rows) -> Elements:
    """The elements that rows came from."""
    assert x.packed is not None
    return Elements(_cts(evs, x, x.packed, transformed=True), Errors.of_rows(evs, x))


def _cts(evs: Evaluators, x: Rows, datas: Sequence[Any], *, transformed: bool) -> list[Ct]:
    made = functools.partial(
        evs.elements.of_element, limbs=x.limbs, scale=x.scale, bound=x.bound, transformed=transformed
    )
    return list(map(made, datas))


def rows_of(evs: Evaluators, x: Elements, shape: tuple[int, int], held: int | None = None) -> Rows:
    """Rows of elements; see `RowsEvaluator.of_elements`."""
    inner, first, errors = evs.elements, x.cts[0], x.errors
    single = held == 1 or shape[1] == inner.n  # transformed where that is needed
    found = evs.rows.of_elements(
        *([ct.data if single else inner.element_of(ct) for ct in x.cts], shape),
        limbs=first.limbs,
        scale=first.scale,
        bound=first.bound,
        noise=errors.noise,
        worst=errors.worst,
        bias=errors.bias,
        held=held,
    )
    if shape[1] == inner.n:
        found.strays = errors.strays
    return found


def spread(evs: Evaluators, x: Elements, each: int, first: int, count: int) -> Elements:
    """`count` of the packed rows from `first` on, placed one by one. Levels: none. Keys: log2(r) rotations.

    z + τ(z) has twice the even multiples of a power of X and not the odd ones, z - τ(z) the odd ones, τ negating them.

    Source: Chen, Dai, Kim, Song, "Efficient homomorphic conversion" (2021).
    """
    inner = evs.elements
    parts = inner.repeat(len(x.cts), lambda number: _separated(inner, x.cts[number], each, each))
    cts = [ct for part in parts for ct in part][first : first + count]
    # Switches of each level are doubled by those after it, and divided by r with the message.
    limbs, errors = cts[0].limbs, x.errors
    stray = math.sqrt((each * each - 1) / 3 * evs.rows.switch_variance(limbs))
    worst = (each - 1) * evs.rows.worst_switch(limbs)
    own = Errors(0.0, stray, 0.0, worst, (stray, worst))
    return Elements(cts, replace(errors.times(each).beside(own), strays=own.strays))


def _separated(ev: Evaluator, ct: Ct, size: int, each: int) -> list[Ct]:
    """The rows of an element that holds `size` of them at the multiples of X^(r/size)."""
    if size == 1:
        return [ct]
    rotated = ev.rotate(ct, ev.slots * size // (2 * each))
    even = ev.add(ct, rotated)
    odd = ev.times_monomial(ev.sub(rotated, ct), ev.n - each // size)  # X^(N - s) = -X^(-s)
    halves = even, odd  # alike but for their data

    def rows(number: int) -> list[Ct]:
        half = ev.bounded(ev.fold_into_scale(halves[number], 0.5), ct.bound)
        return _separated(ev, half, size // 2, each)

    return [row for part in ev.repeat(2, rows) for row in part]
