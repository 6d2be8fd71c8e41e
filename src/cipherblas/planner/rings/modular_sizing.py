"""Rings for integers modulo t: no scale is searched, since t sets it; limbs are as large as errors need them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from cipherblas.common.errors import LevelError
from cipherblas.crypto.fields import MAX_LIMBS, MAX_PRIME_BITS
from cipherblas.planner.predict.dry_run import DryRun
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.rings.sizing import (
    BASE_LIMB_BITS,
    MIN_SCALE_BITS,
    NoRingError,
    Sizing,
    by_digits,
    too_large,
)
from cipherblas.rlwe.rings import Ring, RingShape

T = TypeVar("T")

DRAFT_BASE_LIMBS, DRAFT_LEVELS = 6, 12  # of a first look, doubled while a program needs more
MAX_DRAFTS = 4
FLOOR_BITS = 6.0  # of errors that a division leaves, about
LEVEL_STEPS = (0.0, 5.0, 10.0)  # bits of a level to try below those at which errors do not grow
MARGIN_BITS = 1.0  # of base limbs, beside what errors need: primes are not of the sizes asked for
SPARE_BITS = (0.0, 8.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0)  # for values on the way that need more room


def modular_sizings(
    run: Callable[[RingShape], DryRun],
    n: int,
    modulus: int,
    allowed: float,
    extra_bits: float,
    alphas: Sequence[int],
    keyless: bool = False,
) -> list[Sizing]:
    """Rings of degree n that carry a program modulo t, with few and with many limbs per digit.

    Args:
        run: counts the program on a ring.
        allowed: the largest log2(QP).
        extra_bits: added to the base limbs, after errors had no room on real primes.
        keyless: the program needs no key.

    Raises:
        NoRingError: there is none.
    """
    best: Sizing | None = None
    most = math.inf
    for less in LEVEL_STEPS:
        level = _level_bits(n, modulus) - less
        drawn = _drafted(run, n, modulus, level)
        if isinstance(drawn, Infeasible):
            continue
        ring, found = drawn
        spent = len(ring.q) - found.limbs
        needed = _needed_bits(found, modulus) + extra_bits
        for spare in SPARE_BITS:
            sizing = _sized(n, modulus, needed + spare, spent, level, keyless)
            most = min(most, sizing.log_qp)
            if sizing.log_qp > allowed or len(sizing.q_bits) > MAX_LIMBS:
                break
            if not isinstance(attempted(functools.partial(run, sizing.shape()), only=LevelError), Infeasible):
                if best is None or sizing.log_qp < best.log_qp:
                    best = sizing
                break
        if not spent:
            break
    if best is None:
        raise too_large(n, most if most < math.inf else 2 * allowed, allowed)
    return [one for one in by_digits(best, alphas) if one.log_qp <= allowed] or [best]


def modular_draft(run: Callable[[RingShape], DryRun], n: int, modulus: int) -> RingShape | None:
    """A ring that carries a program, whatever its security; None where none is found."""
    drawn = _drafted(run, n, modulus, _level_bits(n, modulus))
    return None if isinstance(drawn, Infeasible) else drawn[0]


def modular_drafted(run: Callable[[RingShape], T], n: int, modulus: int) -> tuple[RingShape, T]:
    """The same, and what `run` finds there.

    Raises:
        NoRingError: there is none.
    """
    drawn = _drafted(run, n, modulus, _level_bits(n, modulus))
    if isinstance(drawn, Infeasible):
        raise NoRingError(f"At N = {n} the program needs more limbs than are tried.", n, 2.0) from drawn.error
    return drawn


def modular_nominal(n: int, modulus: int, depths: Iterable[int]) -> list[Ring]:
    """Rings of so many levels, by which programs are priced before their rings are searched."""
    level = _level_bits(n, modulus)
    return [
        RingShape.from_bits(
            *(n, [BASE_LIMB_BITS] * 2 + [level] * depth, [float(MAX_PRIME_BITS)], 1, _nominal_bits(modulus)),
            plain_modulus=modulus,
        )
        for depth in depths
    ]


def _level_bits(n: int, modulus: int) -> float:
    """Bits of a level that leaves the errors of a product as those of its factors, where a prime has so many."""
    wanted = math.log2(modulus) + math.log2(n) + FLOOR_BITS
    return max(MIN_SCALE_BITS, min(wanted, BASE_LIMB_BITS + 0.5))


def _drafted(
    run: Callable[[RingShape], T], n: int, modulus: int, level: float
) -> tuple[RingShape, T] | Infeasible:
    found: Infeasible | None = None
    for size in range(MAX_DRAFTS):
        q_bits = [float(MAX_PRIME_BITS) - 0.1] * (DRAFT_BASE_LIMBS << size) + [level] * (DRAFT_LEVELS << size)
        ring = RingShape.from_bits(
            n, q_bits, [float(MAX_PRIME_BITS) + 2.9], 1, _nominal_bits(modulus), plain_modulus=modulus
        )
        outcome = attempted(functools.partial(run, ring), only=LevelError)
        if not isinstance(outcome, Infeasible):
            return ring, outcome
        found = outcome
    assert found is not None
    return found


def _needed_bits(found: DryRun, modulus: int) -> float:
    """log2 of a modulus in which the errors of all results have room."""
    largest = max(handle.noise for value in found.results for handle in value.handles)
    return math.log2(2 * modulus) + math.log2(max(largest, 1.0)) + MARGIN_BITS


def _sized(n: int, modulus: int, base_bits: float, spent: int, level: float, keyless: bool) -> Sizing:
    base = max(1, math.ceil(base_bits / BASE_LIMB_BITS))
    each = max(base_bits / base, MIN_SCALE_BITS)
    q_bits = (each,) * base + (level,) * spent
    return Sizing(n, _nominal_bits(modulus), q_bits, 1, plain_modulus=modulus, keyless=keyless)


def _nominal_bits(modulus: int) -> float:
    """Bits that stand in the place of those of a scale."""
    return float(modulus.bit_length())
