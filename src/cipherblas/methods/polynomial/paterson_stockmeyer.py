"""Polynomials in the Chebyshev basis by baby steps and giant steps.

Source: Paterson and Stockmeyer, "On the number of nonscalar multiplications necessary to evaluate polynomials" (1973),
in the Chebyshev basis as Chen, Chillotti and Song, "Improved bootstrapping for approximate homomorphic encryption"
(2019); scales as Bossuat, Mouchet, Troncoso-Pastoriza and Hubaux, "Efficient bootstrapping for approximate homomorphic
encryption with non-sparse keys" (2021), section 5.

T_{a+b} = 2·T_a·T_b - T_{a-b} gives the powers T_1 … T_{k-1} that are needed, and T_{2^j}. A polynomial of degree 2^j or
more is split into q·T_{2^j} + r, its parts again, until they are sums of powers. All summands of a sum have one scale:
what is asked of the whole, divided by that of T_{2^j}, is asked of q, and numbers are encoded at the scale that is
missing. So nothing is brought to a common scale afterwards, and no level is spent on that.

An even polynomial is one of u = T_2. Where the odd part has few terms, as that of |t| + t has, it is t·g(u) beside an
even one: T_{2k+1} = t·(2·T_k(u) - 2·T_{k-1}(u) + … ± 1), with the powers of u that there are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebder, chebinterpolate, chebval

from cipherblas.common.errors import ParameterError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.lang.polynomials import largest_value
from cipherblas.rlwe.noise import TAIL, SlotErrors

# Of log2 of the usual scale, by which the scale of T_n may exceed it: it is off by n times as much as that of t.
DRIFT_BITS = 4.0
MIN_DRIFT_BITS = 0.1  # of t: primes are not nearer to the scale
SQUARE_DRIFT_BITS = 5.5  # of t where it is squared and no more
MAX_GROWTH = 2.0  # of powers, by errors of the argument, without a wider interval
MAX_WIDENING = 2.0**-2  # by which an interval is made wider
LOST = 2.0**64  # of values: larger errors are not told apart
ARGUMENT = 0  # in the place of a power: t itself, beside powers of T_2
PARTS = 2.0**10  # of an interval, in which the largest argument is rounded up
MAX_ANGLE, MIN_OVER = 300.0, 2.0**-50
NEAR_SIZE = 2.0**-36  # by which a scale may differ from the size of the last limb that it is to be
RELINEARISATION = 8  # products of ciphertexts that take as long, at least


@dataclass(frozen=True)
class Sum:
    """constant + Σ_i terms[i]·T_i + Σ (g, q) of products: q·T_g, q being a sum itself."""

    terms: Mapping[int, float]
    products: tuple[tuple[int, Sum], ...]
    constant: float = 0.0

    def powers(self) -> Iterator[int]:
        """The powers that occur."""
        yield from self.terms
        for giant, part in self.products:
            yield giant
            yield from part.powers()

    @property
    def multiplications(self) -> int:
        return len(self.products) + sum(part.multiplications for _, part in self.products)

    @property
    def relinearisations(self) -> int:
        """Of the parts that are multiplied, and of this one."""
        return bool(self.products) + sum(part.relinearisations for _, part in self.products)


@dataclass(frozen=True)
class Scheme:
    """How one polynomial is computed.

    Attributes:
        even: T_{2i}(t) is T_i(T_2(t)): what follows is of u = T_2(t), but for a factor t of an odd part (`ARGUMENT`).
        powers: (n, a, b) with n = a + b, in the order in which they can be computed.
        total: all but the constant, and but `lead`.
        constant: what is added in the end.
        lead: (h, c) of a term 2·c·T_h² whose number goes into the scale, or None.
        depth: rescales before the sum.
    """

    even: bool
    powers: tuple[tuple[int, int, int], ...]
    total: Sum
    constant: float
    lead: tuple[int, float] | None
    depth: int

    @property
    def levels(self) -> int:
        """Rescales, with that of the result, which comes at the scale of a product."""
        return self.depth + 1

    @property
    def multiplications(self) -> int:
        """Products of ciphertexts."""
        return self.even + len(self.powers) + self.total.multiplications + (self.lead is not None)

    @property
    def relinearisations(self) -> int:
        inside = self.total.relinearisations
        both = bool(self.total.products) and self.lead is not None  # relinearised together
        return self.even + len(self.powers) + inside + (self.lead is not None) - both

    @property
    def degree(self) -> int:
        """Of the highest power, in t or in u."""
        lead = 1 if self.lead is None else 2 * self.lead[0]
        return max([lead, *self.total.powers(), *(n for n, _, _ in self.powers)])


def _depth(power: int) -> int:
    """Products one after another that T_power takes."""
    return (power - 1).bit_length()


@functools.lru_cache(maxsize=256)
def scheme(coefficients: tuple[float, ...], lead: bool = True) -> Scheme:
    """The least work in the least depth, ⌈log2(d + 1)⌉ - 1 rescales before the sum.

    Args:
        coefficients: of T_0, T_1, …
        lead: a degree that is a power of two may take a rescale less, its number going into the scale.
    """
    values = list(coefficients)
    while len(values) > 1 and values[-1] == 0:
        values.pop()
    if len(values) < 2:
        raise ParameterError("A polynomial to compute needs a degree.", expected="at least 1", got=0)
    even = len(values) > 3 and not any(values[1::2])
    if even:
        values = values[::2]
    degree = len(values) - 1
    halved = None
    depth = degree.bit_length() - 1
    if lead and degree > 1 and degree.bit_count() == 1:
        number = values.pop()
        halved = degree // 2, number
        values[0] -= number
        depth -= 1
    babies = [1 << bits for bits in range(1, max(2, degree.bit_length() + 1))]
    found = [_scheme(values, baby, depth, halved, even) for baby in babies]
    if not even and halved is None:
        found += _beside_odd(values, babies, depth)
    return min(found, key=lambda one: one.multiplications + RELINEARISATION * one.relinearisations)


def _beside_odd(values: Sequence[float], babies: Sequence[int], depth: int) -> list[Scheme]:
    """Schemes of a polynomial whose even part has the leading term, of T_2, beside t times another one of T_2; of as
    many levels."""
    odd, even = list(values[1::2]), list(values[::2])
    while odd and not odd[-1]:
        odd.pop()
    degree, top = len(even) - 1, len(odd) - 1
    if len(values) % 2 == 0 or top < 1 or degree.bit_count() == 1 or top.bit_length() > depth - 1:
        return []
    factor = [0.0] * len(odd)  # of t
    for place, value in enumerate(odd):
        for power in range(place + 1):
            factor[power] += value * (-1) ** (place - power) * (2 if power else 1)
    found = []
    for baby in babies:
        total, inner = _sum(even, baby, depth - 1), _sum(factor, baby, depth - 2)
        product = ARGUMENT, replace(inner, constant=factor[0])
        total = replace(total, products=(*total.products, product))
        steps = _steps({*total.powers()} - {ARGUMENT})
        found.append(Scheme(True, steps, total, even[0], None, depth))
    return found


def _scheme(
    values: Sequence[float], baby: int, depth: int, lead: tuple[int, float] | None, even: bool
) -> Scheme:
    total = _sum(values, baby, depth)
    wanted = {*total.powers(), *(() if lead is None else (lead[0],))}
    return Scheme(even, _steps(wanted), total, values[0], lead, depth + even)


def _sum(values: Sequence[float], baby: int, depth: int) -> Sum:
    """Σ_{i > 0} values[i]·T_i with powers below `baby`, and splits where that is too deep or there are too many."""
    rest, terms = list(values), {}
    products: list[tuple[int, Sum]] = []
    while True:
        support = [index for index in range(1, len(rest)) if rest[index]]
        if all(index < baby and _depth(index) <= depth for index in support):
            terms.update({index: rest[index] for index in support})
            return Sum(terms, tuple(products))
        giant = 1 << (support[-1].bit_length() - 1)
        # c·T_{giant+i} = 2·c·T_i·T_giant - c·T_{giant-i}
        upper = rest[giant + 1 : support[-1] + 1]
        if rest[giant]:
            terms[giant] = rest[giant]
        for index, value in enumerate(upper, 1):
            rest[giant - index] -= value
        if upper:
            products.append((giant, _sum([0.0, *(2 * value for value in upper)], baby, depth - 1)))
        rest = rest[:giant]


def _steps(wanted: set[int]) -> tuple[tuple[int, int, int], ...]:
    """How powers are made, and others that they take: as few as possible, each in its least depth."""
    needed, steps = set(wanted), []
    for power in range(max(wanted, default=1), 1, -1):
        if power not in needed:
            continue
        most = 1 << (_depth(power) - 1)
        pairs = [(a, power - a) for a in range((power + 1) // 2, min(most, power - 1) + 1)]
        a, b = min(pairs, key=lambda pair: (len({*pair, pair[0] - pair[1]} - needed - {0, 1}), pair[0]))
        needed |= {a, b, a - b}
        steps.append((power, a, b))
    return tuple(reversed(steps))


class PatersonStockmeyer:
    """One polynomial on ciphertexts.

    Levels: ⌈log2(d + 1)⌉ with the rescale of the result, which is left to what follows; one less where d is a power of
    two; one more where the argument's scale is far above the usual one. Key: relinearisation.

    Args:
        coefficients: of T_0, T_1, …
        bound: no value exceeds it, for arguments in [-1, 1].
        scale_bits: log2 of the usual scale of the limbs that it is computed at; by default that of the parameters.
        near_zero: most arguments are near 0, where an even polynomial in T_2 magnifies what T_2 is off by. T_4 is then
            made of t² before it is rounded, with one rescale more, where the scale of t is the size of its last limb.
    """

    def __init__(
        self,
        coefficients: Sequence[float],
        bound: float,
        scale_bits: float | None = None,
        near_zero: bool = False,
    ) -> None:
        self.coefficients, self.bound = tuple(coefficients), bound
        self._scale_bits, self._near_zero = scale_bits, near_zero
        self._slopes = tuple(map(float, chebder(np.asarray(self.coefficients))))

    def scheme(self, ev: Evaluator) -> Scheme:
        """How it is computed in a ring: a leading coefficient that is too small to go into a scale takes a level."""
        found = scheme(self.coefficients)
        if found.lead is not None and -math.log2(2 * abs(found.lead[1])) > math.log2(self._usual(ev)):
            found = scheme(self.coefficients, lead=False)
        return found

    def _usual(self, ev: Evaluator) -> float:
        """The usual scale."""
        return float(2.0 ** (ev.params.scale_bits if self._scale_bits is None else self._scale_bits))

    def run(
        self, ev: Evaluator, t: Ct, scale: float | None = None, rescaled: bool = False, most: float = 1.0
    ) -> Ct:
        """p(t), every slot of t in [-1, 1]; at the scale of a product, or rescaled.

        Where errors of t take it so far beyond that powers would grow, the same polynomial is computed of powers on a
        wider interval.

        Args:
            scale: of the result once it is rescaled, where its degree is no power of two; by default the usual one.
            rescaled: it is, together with the last relinearisation.
            most: what no slot of t exceeds, as the caller knows; somewhat more than 1 where that is so by errors which
                it keeps itself.

        Raises:
            LevelError: there are too few limbs.
        """
        kind = self.coefficients, self.bound, self._scale_bits, self._near_zero, scale, rescaled, most
        given = [t]
        del t
        return ev.counted_once(kind, given, lambda: self._computed(ev, given.pop(), scale, rescaled, most))

    def _computed(self, ev: Evaluator, t: Ct, scale: float | None, rescaled: bool, most: float) -> Ct:
        plan = self.scheme(ev)
        usual = self._usual(ev)
        scale = usual if scale is None else scale
        given = _near_usual_scale(ev, ev.bounded(ev.fold_into_scale(t, 1.0), most), plan, usual)
        t = ev.as_message(given)  # what is off in it changes the value by p' times as much
        limits = _Limits(_rounded_up(t.bound - 1))
        if limits.of(plan.degree * (1 + plan.even)) > MAX_GROWTH:
            if limits.over <= MAX_WIDENING:
                wider = 1 + limits.over
                return self._on(wider).run(ev, ev.fold_into_scale(given, 1 / wider), scale, rescaled)
            return self._lost(ev, given, plan, limits, scale, rescaled)
        slope = largest_value(self._slopes, _part(t.bound, limits.over))
        errors, worst = given.errors.times(slope), slope * ev.worst_error(given) / given.scale
        del given  # it would count as memory of its own
        total = self._evaluated(ev, t, plan, limits, scale, rescaled)
        errors, worst = total.errors.plus(errors), ev.worst_error(total) + worst * total.scale
        return ev.bounded(ev.assume_errors(total, errors, worst), self.bound)

    def _lost(
        self, ev: Evaluator, given: Ct, plan: Scheme, limits: _Limits, scale: float, rescaled: bool
    ) -> Ct:
        """Of an argument whose errors are as large as its values: none are left. What stands there is told up to
        `LOST`, so that another scale can be looked for. It may be the worst errors alone that are so large."""
        size = sum(abs(value) * min(limits.of(power), LOST) for power, value in enumerate(self.coefficients))
        size = min(size, LOST * self.bound)
        over = max(0.0, given.bound + TAIL * given.errors.deviation - 1)
        slope = largest_value(self._slopes, 1 + _rounded_up(over)) if over <= MAX_WIDENING else math.inf
        errors = given.errors.times(slope) if slope < math.inf else SlotErrors(common=size)
        t = ev.bounded(ev.as_message(given), 1.0)
        total = self._evaluated(ev, t, plan, _Limits(0.0), scale, rescaled)
        errors = total.errors.plus(errors)
        return ev.bounded(ev.assume_errors(total, errors, size * total.scale), self.bound)

    def _on(self, wider: float) -> PatersonStockmeyer:
        """The same polynomial, of t / wider."""
        found = _expanded(self.coefficients, wider)
        return PatersonStockmeyer(found, self.bound, self._scale_bits, self._near_zero)

    def _evaluated(
        self, ev: Evaluator, t: Ct, plan: Scheme, limits: _Limits, wanted: float, rescaled: bool
    ) -> Ct:
        usual = self._usual(ev)
        ev.require_levels(t, plan.depth, "a polynomial")
        limbs, powers = ev.below(t.limbs, plan.depth), {1: t}
        if plan.even:
            # t² before it is rounded and the square of what it is rounded to share a scale then.
            near_size = abs(t.scale / ev.level_size(t.limbs) - 1) < NEAR_SIZE
            if self._near_zero and near_size and (2, 1, 1) in plan.powers:
                powers = _first_powers(ev, t, limits, usual)
            else:
                powers = {1: _double(ev, t, t, None, limits.of(2), usual)}
            powers[ARGUMENT] = t
            limits = limits.twice()
        for power, a, b in plan.powers:
            if power not in powers:
                difference = None if a == b else powers[a - b]
                powers[power] = _double(ev, powers[a], powers[b], difference, limits.of(power), usual)
        total: Ct | None = None
        scale = wanted * ev.level_size(limbs)
        if plan.lead is not None:
            half, number = plan.lead
            factor = ev.drop(powers[half], limbs)
            total = ev.fold_into_scale(ev.multiply(factor, factor), 2 * abs(number))
            total, scale = ev.negate(total) if number < 0 else total, total.scale
        rest = plan.constant
        if plan.total.terms or plan.total.products:
            added = _added(ev, powers, plan.total, limbs, scale, rest)
            total, rest = added if total is None else ev.add(total, added), 0.0
        assert total is not None
        total = ev.relinearise_rescaled(total) if rescaled else ev.relinearise(total)
        return ev.add_number(total, rest) if rest else total


@dataclass(frozen=True)
class _Limits:
    """Bound on T_n for arguments up to 1 + over: cosh(n·arcosh(1 + over)).

    Attributes:
        step: of T_1, in T_n of another argument.
    """

    over: float
    step: int = 1

    def of(self, power: int) -> float:
        angle = self.step * power * math.acosh(1 + self.over)
        return math.cosh(angle) if angle < MAX_ANGLE else math.inf

    def twice(self) -> _Limits:
        """Of T_2 as the argument."""
        return _Limits(self.over, 2 * self.step)


@functools.lru_cache(maxsize=256)
def _expanded(coefficients: tuple[float, ...], wider: float) -> tuple[float, ...]:
    """Of T_i(t / wider), of a polynomial with these ones of T_i(t). Its even and odd parts keep their degrees."""
    interpolated: Any = chebinterpolate
    found = interpolated(lambda u: chebval(wider * u, coefficients), len(coefficients) - 1)
    for parity in (0, 1):
        degree = max((i for i in range(parity, len(coefficients), 2) if coefficients[i]), default=parity - 2)
        found[degree + 2 :: 2] = 0.0
    return tuple(map(float, found))


def _part(largest: float, over: float) -> float:
    """Of [-1, 1], that arguments lie in, rounded up so that what is found for it can be kept."""
    return 1 + over if largest > 1 else math.ceil(largest * PARTS) / PARTS


def _rounded_up(value: float) -> float:
    """The next power of two, so that what is found for it can be kept."""
    return 2.0 ** math.ceil(math.log2(max(value, MIN_OVER)))


def _near_usual_scale(ev: Evaluator, t: Ct, plan: Scheme, usual: float) -> Ct:
    """t at a scale so near to the usual one, or below, that those of its powers are near it too.

    Levels: as many as the scale exceeds it by, and one where that is no power of it.
    """
    degree = plan.degree * (1 + plan.even)
    slack = SQUARE_DRIFT_BITS if degree <= 2 else max(DRIFT_BITS / degree, MIN_DRIFT_BITS)
    while t.scale > usual * 2**slack:
        ev.require_levels(t, 1, "the argument of a polynomial")
        t = ev.rescale(ev.scaled_up_to(t, usual * ev.level_size(t.limbs)))
    return ev.scaled_up_to(t, usual)


def _double(ev: Evaluator, x: Ct, y: Ct, difference: Ct | None, bound: float, usual: float) -> Ct:
    """2·x·y - T_{a-b} of x = T_a and y = T_b, whose difference is T_0 = 1 where it is None. Levels: 1."""
    limbs = min(x.limbs, y.limbs)
    product_scale = x.scale * y.scale
    scale = product_scale * ev.policy.enlargement(product_scale, usual * ev.level_size(limbs))
    added = None if difference is None else (difference, -1.0)
    result = ev.multiply_rescaled(x, y, 2.0, scale, added, -1.0 if difference is None else 0.0)
    return ev.bounded(result, bound)


def _first_powers(ev: Evaluator, t: Ct, limits: _Limits, usual: float) -> dict[int, Ct]:
    """T_2 and T_4 of t, as powers 1 and 2 of T_2, where t is mostly near 0: T_4 = 2·v² - 4·v + 1 with v = 2·t², of
    which the first is small, and the second is taken before it is rescaled. Levels: 2."""
    exact = ev.bounded(ev.multiply_relinearised(t, ev.multiply_scalar(t, 2)), 1 + limits.of(2))
    rounded = ev.rescale(exact)
    scale = exact.scale * ev.policy.enlargement(rounded.scale**2, usual * ev.level_size(rounded.limbs))
    fourth = ev.multiply_rescaled(rounded, rounded, 2.0, scale, (exact, -4.0), 1.0)
    return {1: ev.bounded(ev.add_number(rounded, -1.0), limits.of(2)), 2: ev.bounded(fourth, limits.of(4))}


@dataclass(frozen=True)
class _Placed:
    """A `Sum` at given limbs and scale, that of a product.

    Attributes:
        number: of its terms with its constant, among all sums of powers; None where it has none.
        constant: what is added otherwise.
        products: (power, what it is multiplied by).
    """

    number: int | None
    constant: float
    products: tuple[tuple[Ct, _Placed], ...]


def _added(
    ev: Evaluator, powers: Mapping[int, Ct], part: Sum, limbs: int, scale: float, constant: float
) -> Ct:
    """A sum and a constant at given limbs and scale; with three components where it has products. One pass over the
    powers makes all their sums."""
    sums: list[tuple[list[tuple[Ct, float]], float, float]] = []
    placed = _placed(ev, powers, part, limbs, scale, constant, sums)
    return _total(ev, placed, dict(enumerate(ev.number_sums(sums))))


def _placed(
    ev: Evaluator,
    powers: Mapping[int, Ct],
    part: Sum,
    limbs: int,
    scale: float,
    constant: float,
    sums: list[tuple[list[tuple[Ct, float]], float, float]],
) -> _Placed:
    """Adds to `sums` those of powers that it takes."""
    number = None
    if part.terms:
        terms = [(ev.drop(powers[index], limbs), value) for index, value in part.terms.items()]
        number = len(sums)
        sums.append((terms, scale, constant))
        constant = 0.0
    products = []
    for giant, inner in part.products:
        factor = ev.drop(powers[giant], limbs)
        needed = scale / factor.scale
        above = limbs + ev.level_limbs
        products.append(
            (factor, _placed(ev, powers, inner, above, needed * ev.level_size(above), inner.constant, sums))
        )
    return _Placed(number, constant, tuple(products))


def _total(ev: Evaluator, placed: _Placed, sums: dict[int, Ct]) -> Ct:
    """Each of the sums is taken out when it is used; its products are added up in one pass."""
    total = None if placed.number is None else sums.pop(placed.number)
    if placed.products:
        factors, inner = zip(*placed.products, strict=True)
        parts = [ev.relinearise_rescaled(_total(ev, part, sums)) for part in inner]
        products = ev.multiply_sum(parts, factors, dependent=True)
        total = products if total is None else ev.add(total, products)
    assert total is not None
    return ev.add_number(total, placed.constant) if placed.constant else total
