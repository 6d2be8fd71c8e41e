"""Candidates are priced as if they needed the rings of others: only the cheapest are given rings of their own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.search.strategy import Candidate, Scored
from cipherblas.rlwe.rings import Ring

FEW = 3  # of a kind, that are all looked at first; of more every other one, but for the first and the last
NEAR = 1.2  # times, that candidates may gain on each other by other options and digits of key switching
LOOKED_AT = 1.5  # times the seconds from which on a price is not asked for, that it is counted to


class Price(NamedTuple):
    """Seconds of a candidate; at least so many where they are not exact."""

    seconds: float
    exact: bool = True


UNKNOWN = Price(0.0, exact=False)
Pricing = Callable[
    [Candidate, Ring, float], Price
]  # (candidate, ring, seconds from which on it is not asked for)


def cheapest(
    candidates: Sequence[Candidate],
    rings: Sequence[Ring],
    price: Pricing,
    scored: Callable[[Candidate], list[Scored] | None],
    limit: float,
    about: float,
    failing: float,
    digits: int,
    told: bool,
    carried: set[Hashable],
) -> tuple[list[Scored], float]:
    """Candidates of one algorithm and ring degree on their rings, cheapest first, and about the least price of others.

    Those that the ring of one carries are taken to need it too: it prices the others, until none of them is cheaper
    than what was found. One of those that it does not carry is given a ring next.

    Args:
        rings: that the candidates are taken to need, the best digits first; where none is known the first candidate
            tells.
        price: of a candidate on a ring; may be infeasible.
        scored: the candidate on its rings, without what exceeds a budget; None where no ring carries it.
        limit: candidates that take more seconds are left out.
        about: times the seconds of what was found, that are looked at too.
        failing: so many candidates that no ring carries, before one is carried, end the search: others need about as
            large rings.
        digits: so many of the rings price a candidate, the best ones.
        told: the least price is to be exact where nothing is found.
        carried: kinds of candidates that rings of so many limbs are known to carry, of all degrees. Others are counted
            to their end, which tells whether a ring carries them.
    """
    left, found = dict(enumerate(candidates)), list[Scored]()
    known: dict[Hashable, Price] = {}
    kind_of = [*map(_kind, candidates)]
    any_carried, lacking = False, list[Hashable]()  # blocks of candidates that no ring carries
    groups = [rings] if rings else []  # rings of as many limbs each, with different digits

    def on(number: int, ring: Ring, most: float) -> Price:
        """Exact up to so many seconds."""
        key = number, _limbs(ring)
        price_so_far = known.get(key, UNKNOWN)
        if not price_so_far.exact and price_so_far.seconds <= most:
            kind = left[number].name, kind_of[number], len(ring.q)
            limit = LOOKED_AT * most if kind in carried else math.inf
            found = attempted(functools.partial(price, left[number], ring, limit))
            known[key] = Price(math.inf) if isinstance(found, Infeasible) else found
            if known[key].seconds < math.inf:
                carried.add(kind)
        return known[key]

    def first(number: int, most: float) -> tuple[Price, Sequence[Ring]]:
        """The price on the first ring that carries it, exact up to so many seconds, and all rings of as many limbs."""
        for group in groups:
            found = on(number, group[0], most)
            if found.seconds < math.inf:
                return found, group
        return Price(math.inf), ()

    def least_of(numbers: Sequence[int], most: float) -> float:
        """The least price of some, exact up to so many seconds."""
        least = math.inf
        for number in numbers:
            least = min(least, first(number, min(most, NEAR * least))[0].seconds)
        return least

    def cheapest_one(most: float) -> tuple[int | None, float, list[int]]:
        """The one of least price: some of each kind tell where to look. None where no price is below so much. Then its
        price, and those that no ring so far carries."""
        kinds: dict[Hashable, list[int]] = {}
        for number in left:
            kinds.setdefault(kind_of[number], []).append(number)
        least, near = dict[Hashable, float](), math.inf if told and not found else NEAR * most
        for kind, numbers in kinds.items():
            least[kind] = least_of(numbers if len(numbers) <= FEW else numbers[1:-1:2], near)
            near = min(near, NEAR * least[kind])
        near = min(near, NEAR * most)
        prices, lowest = dict[int, float](), math.inf
        for number in [each for kind, seconds in least.items() if seconds <= near for each in kinds[kind]]:
            seconds = math.inf
            for ring in first(number, lowest)[1][:digits]:
                seconds = min(seconds, on(number, ring, min(seconds, lowest)).seconds)
            prices[number], lowest = seconds, min(lowest, seconds)
        best = min(prices, key=prices.__getitem__, default=None)
        seconds = min(least.values()) if best is None else prices[best]
        unknown = [number for kind in kinds if least[kind] == math.inf for number in kinds[kind]]
        return (best if seconds < most else None), seconds, unknown

    while left and (any_carried or len(lacking) < failing):
        number, seconds, unknown = None, math.inf, list(left)
        if groups and (found or not lacking):  # what is cheap may need larger rings than what comes first
            most = about * min((one.seconds for one in found), default=math.inf)
            number, seconds, unknown = cheapest_one(min(limit, most))
        if number is None:
            number = next((each for each in unknown if _blocks(left[each]) not in lacking), None)
            number = next(iter(unknown), None) if number is None and not found else number
        if number is None:
            return found, seconds
        candidate = left.pop(number)
        entries = scored(candidate)
        if entries is None:
            lacking.append(_blocks(candidate))
            continue
        any_carried = True
        if entries:
            found += entries
            others = [one.ring for one in sorted(entries, key=lambda one: one.seconds)]
            if [*map(_limbs, others)] not in [[*map(_limbs, group)] for group in groups]:
                groups = [others, *(group for group in groups if len(group[0].q) != len(others[0].q))]
                groups.sort(key=lambda group: len(group[0].q))
    return found, math.inf


def _limbs(ring: Ring) -> Hashable:
    """The properties of an operation that its price depends on."""
    return len(ring.q), len(ring.p), ring.alpha, ring.digit_limbs, ring.level_limbs, ring.operand_moduli


def _blocks(candidate: Candidate) -> Hashable:
    return tuple(candidate.decisions.blocks.items())


def _kind(candidate: Candidate) -> Hashable:
    """Equal for candidates that differ in numbers of their options alone."""
    options = (
        (name, value if isinstance(value, bool) else None)
        for _, choice in sorted(candidate.decisions.choices.items())
        for name, value in sorted(choice.options.items())
    )
    return _blocks(candidate), tuple(options)
