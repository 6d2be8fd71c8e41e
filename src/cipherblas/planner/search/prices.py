"""Candidates are priced as if they needed the rings of others: only the cheapest are given rings of their own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence

from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.search.strategy import Candidate, Scored
from cipherblas.rlwe.rings import Ring

FEW = 3  # of a kind, that are all looked at first; of more every other one, but for the first and the last
NEAR = 1.2  # times, that candidates may gain on each other by other options and digits of key switching
Price = Callable[[Candidate, Ring], float]


def cheapest(
    candidates: Sequence[Candidate],
    rings: Sequence[Ring],
    price: Price,
    scored: Callable[[Candidate], list[Scored] | None],
    limit: float,
    about: float,
    failing: float,
    digits: int,
) -> tuple[list[Scored], float]:
    """Candidates of one algorithm and ring degree on their rings, cheapest first, and about the least price of others.

    Those that the ring of one carries are taken to need it too: it prices the others, until none of them is cheaper
    than what was found. One of those that it does not carry is given a ring next.

    Args:
        rings: that the candidates are taken to need, the best digits first; where none is known the first candidate
            tells.
        price: seconds of a candidate on a ring; may be infeasible.
        scored: the candidate on its rings, without what exceeds a budget; None where no ring carries it.
        limit: candidates that take more seconds are left out.
        about: times the seconds of what was found, that are looked at too.
        failing: so many candidates that no ring carries, before one is carried, end the search: others need about as
            large rings.
        digits: so many of the rings price a candidate, the best ones.
    """
    left, found = dict(enumerate(candidates)), list[Scored]()
    known: dict[Hashable, float] = {}
    carried, lacking = False, list[Hashable]()  # blocks of candidates that no ring carries
    groups = [rings] if rings else []  # rings of as many limbs each, with different digits

    def on(number: int, ring: Ring) -> float:
        key = number, ring
        if key not in known:
            found = attempted(functools.partial(price, left[number], ring))
            known[key] = math.inf if isinstance(found, Infeasible) else found
        return known[key]

    def first(number: int) -> tuple[float, Sequence[Ring]]:
        """The price on the first ring that carries it, and all rings of as many limbs."""
        prices = ((on(number, group[0]), group) for group in groups)
        return next((one for one in prices if one[0] < math.inf), (math.inf, ()))

    def cheapest_one(most: float) -> tuple[int | None, float, list[int]]:
        """The one of least price: some of each kind tell where to look. None where no price is below so much. Then its
        price, and those that no ring so far carries."""
        kinds: dict[Hashable, list[int]] = {}
        for number, candidate in left.items():
            kinds.setdefault(_kind(candidate), []).append(number)
        least = {
            kind: min(first(number)[0] for number in (numbers if len(numbers) <= FEW else numbers[1:-1:2]))
            for kind, numbers in kinds.items()
        }
        near = NEAR * min(most, *least.values())
        numbers = [number for kind, seconds in least.items() if seconds <= near for number in kinds[kind]]
        prices = {
            number: min(map(functools.partial(on, number), first(number)[1][:digits]), default=math.inf)
            for number in numbers
        }
        best = min(prices, key=prices.__getitem__, default=None)
        seconds = min(least.values()) if best is None else prices[best]
        unknown = [number for kind in kinds if least[kind] == math.inf for number in kinds[kind]]
        return (best if seconds < most else None), seconds, unknown

    while left and (carried or len(lacking) < failing):
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
        carried = True
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
