"""From a precision and a depth to a ring: scale, base limbs, limbs to spend, digits of key switching."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cipherblas.errors import LevelError, MismatchError, PrecisionError
from cipherblas.evaluators.shape import RingShape
from cipherblas.params import (
    MAX_PRIME_BITS,
    SPECIAL_MARGIN_BITS,
    Parameters,
    TooFewPrimesError,
    make_parameters,
)
from cipherblas.planner.estimate import Estimate
from cipherblas.security import max_log_qp

DRAFT_SCALE_BITS = 30.0
DRAFT_BASE_LIMBS, DRAFT_SPENT_LIMBS = 4, 10
MIN_SCALE_BITS, MAX_SCALE_BITS = 22.0, 46.0
MATCHING_SCALE_BITS = 25.5  # a limb of that size matches any two scales: see `Evaluator.match`
# Decryption reads two limbs, so the result must fit them; three bits for the error and the rounding of the primes.
MAX_BASE_BITS, HEADROOM_BITS = 2 * MAX_PRIME_BITS - 1, 3.0
UNEVEN_BITS = 1e-4
SLOPE_SLACK = 0.05  # a slope is a whole number but where the terms of a sum have very different ranges
SPARE_BITS = (
    8.0,
    16.0,
    32.0,
    48.0,
    64.0,
)  # added to the base limbs for intermediate values, as little as is enough
MORE_PRIMES_BITS = (
    1.5  # added to the scale where primes of its size are too few: there are almost three times as many
)
PRIME_SPREAD_BITS = 0.3  # the nearest prime = 1 mod 2N may be so far from the size asked for


@dataclass(frozen=True)
class Sizing:
    """Sizes of a ring in bits: base limbs first, then one limb per level spent."""

    n: int
    scale_bits: float
    q_bits: tuple[float, ...]
    alpha: int

    @property
    def digit_bits(self) -> float:
        """log2 of the largest digit."""
        groups = range(0, len(self.q_bits), self.alpha)
        return max(math.fsum(self.q_bits[i : i + self.alpha]) for i in groups)

    @property
    def special_bits(self) -> tuple[float, ...]:
        """Special primes that the digits call for, as `make_parameters` chooses them."""
        needed = self.digit_bits
        count = math.ceil((needed - 0.5) / MAX_PRIME_BITS)
        each = min(float(MAX_PRIME_BITS), (needed + SPECIAL_MARGIN_BITS) / count)
        return (each,) * count

    @property
    def log_qp(self) -> float:
        """log2(QP), nominally."""
        return math.fsum(self.q_bits) + math.fsum(self.special_bits)

    def shape(self) -> RingShape:
        """For the `Counter`, before primes are searched."""
        q_bits = _uneven(self.q_bits)
        return RingShape.from_bits(self.n, q_bits, self.special_bits, self.alpha, self.scale_bits)

    def parameters(self, security: int, insecure: bool) -> Parameters:
        """Real primes, checked against the security table."""
        return make_parameters(
            self.n,
            self.q_bits,
            alpha=self.alpha,
            scale_bits=self.scale_bits,
            security=security,
            insecure=insecure,
        )


def too_few_primes(error: TooFewPrimesError, n: int, precision: float) -> PrecisionError:
    """What a search raises where it finds no primes for a precision."""
    return PrecisionError(
        f"no parameters at N = {n} reach the precision {precision:g}: {error.message}",
        expected="a finer precision=…, which takes larger primes, or another ring_degree=…",
        got=f"{error.got} primes, {error.expected} needed",
    )


def draft(n: int, scale_bits: float, spent: int = DRAFT_SPENT_LIMBS) -> RingShape:
    """A ring with limbs to spare, for the first look at a program's depth and noise; `spent` at the usual scale."""
    q_bits = [float(MAX_PRIME_BITS)] * DRAFT_BASE_LIMBS + [scale_bits] * spent
    return RingShape.from_bits(n, _uneven(q_bits), [MAX_PRIME_BITS + SPECIAL_MARGIN_BITS], 1, scale_bits)


def _uneven(q_bits: Sequence[float]) -> list[float]:
    """Sizes a little apart, as primes are: products of different limbs must not have the same scale by chance."""
    return [bits - UNEVEN_BITS * index * index for index, bits in enumerate(q_bits)]


def magnitude_slope(
    run: Callable[[RingShape], Estimate], n: int, draft_limbs: int = DRAFT_SPENT_LIMBS
) -> float:
    """Bits of the result per bit of scale: 2 for a product that is not rescaled. The same for every ring."""
    first, second = (run(draft(n, bits, draft_limbs)) for bits in (DRAFT_SCALE_BITS, DRAFT_SCALE_BITS + 4))
    return (second.magnitude_bits - first.magnitude_bits) / 4


def sizings(
    run: Callable[[RingShape], Estimate],
    n: int,
    target: float,
    security: int,
    insecure: bool,
    extra_bits: float,
    slope: float,
    alphas: Sequence[int] = (1, 2, 3),
    draft_limbs: int = DRAFT_SPENT_LIMBS,
) -> Iterator[Sizing]:
    """Rings of degree n that carry a program, with few and with many limbs per digit.

    Args:
        run: counts the program on a ring.
        target: largest allowed error of an entry.
        extra_bits: added to the scale (after a first choice missed the target, or its primes were too few).
        slope: of the program, see `magnitude_slope`.
        alphas: limbs per digit to try, beside all in one digit.
        draft_limbs: no fewer than the program spends.
    """
    first = run(draft(n, DRAFT_SCALE_BITS, draft_limbs))
    wanted = DRAFT_SCALE_BITS + math.log2(first.error / target) + 0.25
    wanted = max(wanted, MIN_SCALE_BITS, (n.bit_length() + 1) + 3.0) + extra_bits
    sizing = None
    for bits in sorted({wanted, max(wanted, MATCHING_SCALE_BITS)}):
        try:
            sizing = _sized(run, n, first, bits, slope, min(alphas), draft_limbs)
        except MismatchError:  # terms of a sum cannot be matched by a limb of that size
            if bits >= MATCHING_SCALE_BITS:
                raise
        if sizing is not None:
            break
    if sizing is None:
        return
    budget = math.inf if insecure else max_log_qp(n, security)
    for alpha in sorted({*alphas, len(sizing.q_bits)}):
        if alpha <= len(sizing.q_bits):
            grouped = replace(sizing, alpha=alpha)
            if grouped.log_qp + PRIME_SPREAD_BITS <= budget:
                yield grouped


def _sized(
    run: Callable[[RingShape], Estimate],
    n: int,
    first: Estimate,
    scale_bits: float,
    slope: float,
    alpha: int,
    draft_limbs: int,
) -> Sizing | None:
    """A ring at this scale that the program runs on; None where it would need more than decryption reads."""
    if scale_bits > MAX_SCALE_BITS:
        return None
    limbs = first.limbs
    base_bits = first.magnitude_bits + slope * (scale_bits - DRAFT_SCALE_BITS) + HEADROOM_BITS
    if base_bits > MAX_BASE_BITS or abs(slope - round(slope)) > SLOPE_SLACK:  # not as linear as it seems
        second = run(draft(n, scale_bits, draft_limbs))
        limbs, base_bits = second.limbs, second.magnitude_bits + HEADROOM_BITS
    if base_bits > MAX_BASE_BITS:
        return None
    spent = DRAFT_BASE_LIMBS + draft_limbs - limbs
    for spare in (0.0, *SPARE_BITS):
        bits = min(base_bits + spare, MAX_BASE_BITS)
        base = 1 if bits <= MAX_PRIME_BITS - 1 else 2
        q_bits = (max(bits / base, scale_bits),) * base + (scale_bits,) * spent
        sizing = Sizing(n, scale_bits, q_bits, min(alpha, len(q_bits)))
        try:
            run(sizing.shape())
        except LevelError:  # intermediate values that are larger than the result
            continue
        return sizing
    return None
