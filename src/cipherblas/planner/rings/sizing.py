"""From a precision and a depth to a ring: scale, base limbs, limbs to spend, digits of key switching."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cipherblas.common.errors import (
    CipherblasError,
    LevelError,
    PrecisionError,
    UnmatchedError,
    UnsuitedError,
)
from cipherblas.crypto.digits import digit_ranges, largest_digit
from cipherblas.crypto.families import SPECIAL_MARGIN_BITS
from cipherblas.crypto.fields import MAX_ALPHA, MAX_LIMBS, MAX_PRIME_BITS, MAX_SPECIAL_LIMBS, WIDE_LEVEL
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.crypto.security import max_log_qp
from cipherblas.planner.predict.dry_run import DryRun
from cipherblas.planner.predict.feasible import Infeasible, attempted, feasible
from cipherblas.rlwe.rings import Ring, RingShape

T = TypeVar("T")

DRAFT_SCALE_BITS = 30.0
REDRAFTED = 2  # times, of a program whose errors are not linear
HALVED, HALVED_BITS = 6, 1.0  # times at most that an interval of such scales is halved, and down to what
LOST_BITS = 20.0  # that a scale seems to lack, where all is lost
AWAY_BITS = (
    3.0  # from a scale below which all is lost: keys of other digits have larger errors than a draft's
)
DRAFT_BASE_LIMBS, DRAFT_SPENT_LIMBS = 4, 10  # of the first draft; see `drafted`
MIN_HOISTING = (
    6  # transforms of a hoisting in the smallest ring: two limbs, as many digits, one special prime
)
MAX_INSECURE_LIMBS = (
    160  # limbs that a program may spend where security sets no limit: as many as at N = 2^17 with 128 bits
)
MIN_SCALE_BITS, MAX_SCALE_BITS = 22.0, MAX_PRIME_BITS - 1.0
# Of scales that are the product of two primes, which are taken where one is too small: from there on the rounding of
# double precision is what errors are.
MAX_WIDE_SCALE_BITS = 70.0
# Of programs that spend no limb, whose scale need not be a prime's: encoded numbers stay below 2^63, and the rounding
# of their embedding, in double precision, far below the errors of encryption.
MAX_UNSPENT_SCALE_BITS = 57.0
MATCHING_SCALE_BITS = 25.5  # a limb of that size matches any two scales: see `Evaluator.match`
HEADROOM_BITS = 3.0  # of the result's limbs, for its error and the rounding of the primes
BASE_LIMB_BITS = MAX_PRIME_BITS - 1.0  # at most, of primes that are to be found
MIN_HEADROOM_BITS = 2.0  # which has to do where it saves a limb
SQUEEZED_HEADROOM_BITS = 1.35  # where it saves a ring: a sign, and primes a little below the sizes asked for
SQUEEZED_BITS = 16.0  # a modulus that is larger than allowed by more is not squeezed
# Limbs may be so much smaller than the scale where only masks and weights are rescaled, which are encoded at their
# size: errors of these against errors of ciphertexts.
SQUEEZES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
SQUEEZED_TRIES = 3  # scales per squeeze
SQUEEZED_SLACK = 0.02  # bits: errors fall a little more slowly than scales grow
LINEAR_BITS = 2 * MAX_PRIME_BITS - 1.0  # a result that seems larger is measured at its own scale
UNEVEN_BITS, FEW_LIMBS = 1e-4, 20  # of more limbs the sizes are nearer: the last one stays within 0.04 bits
SLACK_BITS = 0.25  # of a scale, beyond what the errors call for
SLOPE_SLACK = 0.05  # a slope is a whole number but where the terms of a sum have very different ranges
# Added to the base limbs for intermediate values, as little as is enough.
SPARE_BITS = (8.0, 16.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0)
# Digits of key switching to try beside those of few limbs each: long moduli gain by larger special primes.
FEW_DIGITS, MANY_LIMBS = (3, 4), 8
EXTRA_PRIMES_BITS = (
    1.5  # added to the scale where primes of its size are too few: there are almost three times as many
)
PRIME_SPREAD_BITS = 0.3  # the nearest prime = 1 mod 2N may be so far from the size asked for


@dataclass(frozen=True)
class Sizing:
    """Sizes of a ring in bits: base limbs first, then one limb per level spent; without special primes where nothing
    has a key (`keyless`)."""

    n: int
    scale_bits: float
    q_bits: tuple[float, ...]
    alpha: int
    row_degree: int | None = None
    digit_limbs: tuple[int, ...] | None = None
    level_limbs: int | None = None
    plain_modulus: int | None = None
    keyless: bool = False

    @functools.cached_property
    def digit_bits(self) -> float:
        """log2 of the largest digit."""
        return largest_digit(self.q_bits, digit_ranges(len(self.q_bits), self.alpha, self.digit_limbs))

    @functools.cached_property
    def special_bits(self) -> tuple[float, ...]:
        """Special primes that the digits call for, as `make_parameters` chooses them."""
        if self.keyless:
            return ()
        needed = self.digit_bits
        count = math.ceil((needed - 0.5) / MAX_PRIME_BITS)
        each = min(float(MAX_PRIME_BITS), (needed + SPECIAL_MARGIN_BITS) / count)
        return (each,) * count

    @property
    def log_qp(self) -> float:
        """log2(QP), nominally."""
        return math.fsum(self.q_bits) + math.fsum(self.special_bits)

    def shape(self) -> RingShape:
        """For the `Symbolic`, before primes are searched."""
        q_bits = _uneven(self.q_bits)
        optional: Any = {"row_degree": self.row_degree, "digit_limbs": self.digit_limbs}
        optional |= {"level_limbs": self.level_limbs, "plain_modulus": self.plain_modulus}
        return RingShape.from_bits(self.n, q_bits, self.special_bits, self.alpha, self.scale_bits, **optional)

    def parameters(self, security: int, insecure: bool) -> Parameters:
        """Real primes, checked against the security table."""
        return make_parameters(
            self.n,
            self.q_bits,
            special_limbs=0 if self.keyless else None,
            alpha=self.alpha,
            scale_bits=self.scale_bits,
            security=security,
            insecure=insecure,
            row_degree=self.row_degree,
            digit_limbs=self.digit_limbs,
            level_limbs=self.level_limbs,
            plain_modulus=self.plain_modulus,
        )


def too_few_primes(error: CipherblasError, n: int, precision: float) -> PrecisionError:
    """The error of a search that finds no primes for a precision."""
    return PrecisionError(
        f"No parameters at N = {n} reach the precision {precision:g}: {error.message.removesuffix('.')}.",
        expected="a finer precision=…, which takes larger primes, or another ring_degree=…",
        got=f"{error.got} primes, {error.expected} needed",
    )


class NoRingError(PrecisionError, code="PrecisionError"):
    """No ring of one degree is large enough for the program at its scale.

    Attributes:
        n: the ring degree.
        excess: what it lacks: of limbs, bits of the scale or bits of the modulus, needed over allowed.
        bits: log2 of the modulus that it needs, where that is what it lacks; larger rings need no smaller one.
        modulus: about log2 of the modulus that it would need, as far as it is known.
        coarser: times as coarse a precision that would do, where one is known.
        found: a run on the ring that is not precise enough, and the ring, where that is what it lacks.
        needs: options with which it would do with that precision.
        wanted: what would do instead, where that is neither smaller bounds nor a coarser precision.
        unspent: no limb is spent, so that the scale need not be that of limbs.
    """

    def __init__(
        self,
        reason: str,
        n: int,
        excess: float,
        bits: float = 0.0,
        modulus: float | None = None,
        wanted: str = "",
        shortfall: float = math.inf,  # bits of scale, of modulus or of precision
        coarser: float | None = None,
        found: tuple[DryRun, RingShape] | None = None,
        unspent: bool = False,
    ) -> None:
        super().__init__(reason)
        self.n, self.excess, self.bits, self.wanted = n, excess, bits, wanted
        self.shortfall, self.coarser, self.found = shortfall, coarser, found
        self.needs: dict[str, int] = {}
        self.unspent = unspent
        self.modulus = bits if modulus is None else modulus

    @property
    def of_refreshes(self) -> bool:
        """Whether refreshed values are not precise enough."""
        return not self.modulus and self.coarser is not None


class ScaleError(NoRingError, code="PrecisionError"):
    """The scale that a program needs is larger than a prime is, or two of them."""


class ModulusError(PrecisionError, code="PrecisionError"):
    """The modulus that products by GEMM need at one ring degree is larger than security allows.

    Attributes:
        bits: log2 of the modulus.
        allowed: the largest one.
    """

    def __init__(self, reason: str, bits: float, allowed: float) -> None:
        super().__init__(reason, expected=f"a modulus of {bits} bits", got=f"{allowed:.0f} bits at most")
        self.bits, self.allowed, self.shortfall = bits, allowed, bits - allowed


@functools.lru_cache(maxsize=256)
def draft(n: int, scale_bits: float, size: int = 1, level_limbs: int | None = None) -> RingShape:
    """A ring with limbs to spare, for a look at a program's depth and noise; of `size` times the usual limbs."""
    each = level_limbs or 1
    q_bits = [float(MAX_PRIME_BITS)] * (DRAFT_BASE_LIMBS * size)
    q_bits += [scale_bits / each] * (DRAFT_SPENT_LIMBS * size * each)
    special = [MAX_PRIME_BITS + SPECIAL_MARGIN_BITS]
    return RingShape.from_bits(n, _uneven(q_bits), special, 1, scale_bits, level_limbs=level_limbs)


def draft_excess(ring: Ring) -> float:
    """How many times as many transforms a run on this ring may take as on the one that it is a draft of."""
    if ring.alpha > 1 or len(ring.q) < DRAFT_BASE_LIMBS + DRAFT_SPENT_LIMBS:
        return 1.0
    return len(ring.q) * (len(ring.q) + 1) / MIN_HOISTING


def drafted(
    run: Callable[[RingShape], T],
    n: int,
    scale_bits: float,
    allowed_bits: float,
    level_limbs: int | None = None,
) -> tuple[RingShape, T]:
    """The smallest draft that carries a program, and what `run` finds there.

    Args:
        run: counts the program on a ring.
        allowed_bits: the largest log2(QP). A draft is doubled while rings of the size of the last one may be allowed.

    Raises:
        NoRingError: the program spends more limbs than any allowed ring has, at the smallest scale.
    """
    most = min(MAX_INSECURE_LIMBS, allowed_bits / MIN_SCALE_BITS)
    size = 1
    while True:
        ring = draft(n, scale_bits, size, level_limbs)
        found = attempted(functools.partial(run, ring), only=LevelError)
        if not isinstance(found, Infeasible):
            return ring, found
        limbs = len(ring.q)
        if limbs > most:
            if found.error.got == "inf":
                reason = f"At N = {n} errors of encryption grow beyond any modulus"
            else:
                reason = (
                    f"At N = {n} the program needs more than {limbs} limbs, primes of a modulus; {most:.0f} are "
                    "allowed"
                )
            raise NoRingError(f"{reason}.", n, limbs / most) from found.error
        size *= 2


def budget_bits(n: int, security: int, insecure: bool) -> float:
    """The largest log2(QP) of the rings that are tried."""
    return math.inf if insecure else max_log_qp(n, security)


def _uneven(q_bits: Sequence[float]) -> list[float]:
    """Sizes a little apart, as primes are: products of different limbs must not have the same scale by chance."""
    step = UNEVEN_BITS * min(1.0, (FEW_LIMBS / len(q_bits)) ** 2)
    return [bits - step * index * index for index, bits in enumerate(q_bits)]


def magnitude_slope(run: Callable[[RingShape], DryRun], n: int, allowed_bits: float = math.inf) -> float:
    """Bits of the result per bit of scale: 2 for a product that is not rescaled. The same for every ring.

    Raises:
        NoRingError: as `drafted`.
    """
    first, second = (
        drafted(run, n, bits, allowed_bits)[1].magnitude_bits
        for bits in (DRAFT_SCALE_BITS, DRAFT_SCALE_BITS + 4)
    )
    return (second - first) / 4


def sizings(
    run: Callable[[RingShape], DryRun],
    n: int,
    excess: Callable[[DryRun], float],
    security: int,
    insecure: bool,
    extra_bits: float,
    slope: float,
    alphas: Sequence[int] = (1, 2, 3),
    linear: bool = True,
    keyless: bool = False,
) -> list[Sizing]:
    """Rings of degree n that carry a program, with few and with many limbs per digit; where the scale that it needs is
    larger than a prime, those whose levels have two.

    Args:
        run: counts the program on a ring.
        excess: how many times too large the errors are.
        extra_bits: added to the scale (after a first choice missed the target, or its primes were too few).
        slope: of the program, see `magnitude_slope`.
        alphas: limbs per digit to try, beside all in one digit and, of many limbs, few digits.
        linear: errors fall as scales grow, from the smallest scale on; those of polynomials only where they are small.
        keyless: the program needs no key.

    Raises:
        NoRingError: there is none.
    """
    allowed = budget_bits(n, security, insecure)
    found = functools.partial(
        _sizings,
        *(run, n, excess, allowed, extra_bits, slope),
        alphas=alphas,
        linear=linear,
        keyless=keyless,
    )
    narrow = attempted(functools.partial(found, level_limbs=None), only=ScaleError)
    if not isinstance(narrow, Infeasible) or (isinstance(narrow.error, ScaleError) and narrow.error.unspent):
        return feasible(narrow)
    wide = attempted(functools.partial(found, level_limbs=WIDE_LEVEL), only=UnsuitedError)
    return (
        feasible(narrow) if isinstance(wide, Infeasible) else wide
    )  # something in it takes a level for one limb


def _sizings(
    run: Callable[[RingShape], DryRun],
    n: int,
    excess: Callable[[DryRun], float],
    allowed: float,
    extra_bits: float,
    slope: float,
    *,
    alphas: Sequence[int],
    linear: bool,
    keyless: bool,
    level_limbs: int | None,
) -> list[Sizing]:
    """`sizings` with so many limbs in a level."""

    def draft(bits: float) -> tuple[RingShape, DryRun]:
        found = attempted(lambda: drafted(run, n, bits, allowed, level_limbs), only=UnmatchedError)
        if isinstance(found, Infeasible) and bits < MATCHING_SCALE_BITS:
            return drafted(run, n, MATCHING_SCALE_BITS, allowed, level_limbs)
        return feasible(found)

    largest = MAX_SCALE_BITS if level_limbs is None else MAX_WIDE_SCALE_BITS
    ring, first, wanted = _drafted_scale(draft, excess, extra_bits, linear, largest)
    wanted = max(wanted, MIN_SCALE_BITS, (n.bit_length() + 1) + 3.0) + extra_bits
    unspent = first.limbs == len(ring.q)
    most = MAX_UNSPENT_SCALE_BITS if unspent else largest
    if wanted > most:
        raise ScaleError(
            f"At N = {n} the program needs a scale of {wanted:.1f} bits, with {most:g} bits allowed.",
            n,
            wanted / most,
            modulus=_magnitude_bits(first, ring, slope, wanted)
            + HEADROOM_BITS
            + (len(ring.q) - first.limbs) * wanted,
            shortfall=wanted - most,
            coarser=2 ** (wanted - most),
            unspent=unspent,
        )

    def at(bits: float) -> Sizing:
        like = Sizing(n, bits, (), min(alphas), level_limbs=level_limbs, keyless=keyless)
        return _sized(run, like, (ring, first), slope, allowed)

    tried = attempted(functools.partial(at, wanted), only=UnmatchedError)
    if isinstance(tried, Infeasible) and wanted < MATCHING_SCALE_BITS:
        tried = at(MATCHING_SCALE_BITS)  # a limb of that size matches any two scales
    sizing = feasible(tried)
    grouped = by_digits(sizing, alphas)
    found = [one for one in grouped if one.log_qp + PRIME_SPREAD_BITS <= allowed]
    if not found:
        found = [one for size in grouped if (one := _squeezed(run, size, excess, slope, allowed)) is not None]
    if not found:
        raise too_large(n, min(one.log_qp for one in grouped), allowed)
    return found


def _drafted_scale(
    draft: Callable[[float], tuple[RingShape, DryRun]],
    excess: Callable[[DryRun], float],
    extra_bits: float,
    linear: bool,
    most: float,
) -> tuple[RingShape, DryRun, float]:
    """A draft, and log2 of the scale at which the errors meet their targets; see `sizings`.

    Where they do not fall in a line there may be a scale below which all is lost: what follows from larger ones is no
    guess then, and half way between the two is looked at.
    """
    drafts: dict[float, tuple[RingShape, DryRun, float]] = {}  # by log2 of the scale

    def at(bits: float) -> float:
        if bits not in drafts:
            ring, found = draft(bits)
            drafts[bits] = ring, found, _wanted_scale(ring, excess(found))
        return drafts[bits][2]

    if most > MAX_SCALE_BITS:
        return _wide_scale(at, drafts, most)
    bits = DRAFT_SCALE_BITS
    wanted = at(bits)
    if wanted + extra_bits > most:  # the error may not be as linear as it seems
        bits = most
        wanted = at(bits)
    for _ in range(0 if linear else REDRAFTED):
        bits = min(max(wanted, MIN_SCALE_BITS), most)
        wanted = at(bits)
    for _ in range(0 if linear else HALVED):
        lost = max((one for one, (_, _, more) in drafts.items() if more > one + HALVED_BITS), default=0.0)
        enough = [one for one, (_, _, more) in drafts.items() if lost < one and more <= one]
        if wanted > lost or not enough:
            break
        bits = min(enough)
        wanted = bits
        if bits - lost <= HALVED_BITS:
            break
        if at((lost + bits) / 2) <= (lost + bits) / 2:
            bits = (lost + bits) / 2
            wanted = drafts[bits][2]
    lost = max((one for one, (_, _, more) in drafts.items() if more > one + LOST_BITS), default=0.0)
    if not linear and wanted < lost + AWAY_BITS < most:
        wanted = lost + AWAY_BITS
    return *drafts[bits][:2], wanted


def _wide_scale(
    at: Callable[[float], float], drafts: Mapping[float, tuple[RingShape, DryRun, float]], most: float
) -> tuple[RingShape, DryRun, float]:
    """The same of scales beyond one prime, from the largest on: errors of double precision do not fall as they grow."""
    low, high, slack = MAX_SCALE_BITS, most, SLACK_BITS - SQUEEZED_SLACK
    if at(most) > most + slack:
        return drafts[most]
    while high - low > HALVED_BITS:
        middle = (low + high) / 2
        low, high = (low, middle) if at(middle) <= middle + slack else (middle, high)
    return *drafts[high][:2], min(max(at(high), low), most)


ONE_LIMB = (1,)  # per digit, and no others


def by_digits(sizing: Sizing, alphas: Sequence[int]) -> list[Sizing]:
    """Rings that differ in their digits alone: of so many levels, few where limbs are many, and one of all limbs."""
    if sizing.keyless or alphas == ONE_LIMB:
        return [replace(sizing, alpha=1)]
    limbs = len(sizing.q_bits)
    tried = {*(alpha * (sizing.level_limbs or 1) for alpha in alphas), *_few_digits(limbs), limbs}
    sizes = (replace(sizing, alpha=alpha) for alpha in sorted(tried) if alpha <= limbs)
    return [one for one in sizes if one.alpha <= MAX_ALPHA and len(one.special_bits) <= MAX_SPECIAL_LIMBS]


def _few_digits(limbs: int) -> list[int]:
    """Limbs per digit that cut many limbs into few digits."""
    return [-(-limbs // digits) for digits in FEW_DIGITS] if limbs >= MANY_LIMBS else []


def _squeezed(
    run: Callable[[RingShape], DryRun],
    sizing: Sizing,
    excess: Callable[[DryRun], float],
    slope: float,
    allowed: float,
) -> Sizing | None:
    """A ring of the same degree for the same program within the modulus that is allowed; None where none is found so
    quickly.

    Its base limbs have little headroom, and where no two ciphertexts are multiplied, limbs that are spent are smaller
    than the scale.
    """
    if sizing.log_qp > allowed + SQUEEZED_BITS:
        return None
    if sizing.level_limbs is not None:
        return None
    base = next((i for i, bits in enumerate(sizing.q_bits) if bits == sizing.scale_bits), len(sizing.q_bits))
    spent = len(sizing.q_bits) - base
    if not base or sizing.scale_bits > MAX_SCALE_BITS:
        return None
    for squeeze in SQUEEZES if spent else SQUEEZES[:1]:
        more = 0.0  # bits of scale
        for _ in range(SQUEEZED_TRIES):
            scale_bits = sizing.scale_bits + more
            less = HEADROOM_BITS - SQUEEZED_HEADROOM_BITS - slope * more
            each = max(sizing.q_bits[0] - less / base, scale_bits)
            limb = scale_bits - squeeze
            tried = replace(sizing, scale_bits=scale_bits, q_bits=(each,) * base + (limb,) * spent)
            if limb < MIN_SCALE_BITS or tried.log_qp + PRIME_SPREAD_BITS > allowed:
                break
            found = attempted(functools.partial(run, tried.shape()), only=(LevelError, UnmatchedError))
            if isinstance(found, Infeasible):
                break
            if found.counts.products and squeeze:
                return None
            if (lacking := excess(found)) <= 1:
                return tried
            more += math.log2(lacking) + SQUEEZED_SLACK
    return None


def _wanted_scale(ring: RingShape, excess: float) -> float:
    """log2 of the scale at which the errors meet their targets, as far as errors fall as scales grow."""
    return ring.scale_bits + math.log2(excess) + SLACK_BITS


def too_large(n: int, bits: float, allowed: float) -> NoRingError:
    return NoRingError(
        f"At N = {n} the program needs a modulus of {math.ceil(bits)} bits, with {allowed:.0f} bits allowed.",
        n,
        bits / allowed,
        bits,
        shortfall=bits - allowed,
    )


def _magnitude_bits(found: DryRun, ring: RingShape, slope: float, scale_bits: float) -> float:
    """Bits of the result at a scale, from a draft at another one, as far as they grow in a line."""
    return found.magnitude_bits + slope * (scale_bits - ring.scale_bits)


def _base_limbs(bits: float) -> int:
    """Limbs that hold so many bits."""
    return max(1, math.ceil(bits / BASE_LIMB_BITS))


def _sized(
    run: Callable[[RingShape], DryRun],
    like: Sizing,
    drawn: tuple[RingShape, DryRun],
    slope: float,
    allowed: float,
) -> Sizing:
    """A ring at this scale that the program runs on; NoRingError where squeezing would not make it small enough.

    Args:
        like: all of it but its limbs.
    """
    ring, found = drawn
    n, scale_bits, level_limbs = like.n, like.scale_bits, like.level_limbs
    base_bits = _magnitude_bits(found, ring, slope, scale_bits)
    if base_bits + HEADROOM_BITS > LINEAR_BITS or abs(slope - round(slope)) > SLOPE_SLACK:
        ring, found = drafted(run, n, scale_bits, allowed, level_limbs)  # not as linear as it seems
        base_bits = found.magnitude_bits
    base_bits += HEADROOM_BITS
    spent = len(ring.q) - found.limbs
    limb_bits = scale_bits / (level_limbs or 1)
    least = limb_bits if limb_bits <= MAX_SCALE_BITS else 0.0  # of base limbs
    spares: tuple[float, ...] = (0.0, *SPARE_BITS)
    fewest = _base_limbs(base_bits - HEADROOM_BITS + MIN_HEADROOM_BITS)
    if fewest < _base_limbs(base_bits):
        spares = (fewest * BASE_LIMB_BITS - base_bits, *spares)
    for spare in spares:
        bits = base_bits + spare
        base = _base_limbs(bits)
        q_bits = (max(bits / base, least),) * base + (limb_bits,) * spent
        sizing = replace(like, q_bits=q_bits, alpha=min(like.alpha, len(q_bits)))
        if sizing.log_qp > allowed + SQUEEZED_BITS or len(q_bits) > MAX_LIMBS:
            raise too_large(n, sizing.log_qp, allowed)
        found_there = attempted(functools.partial(run, sizing.shape()), only=LevelError)
        if not isinstance(found_there, Infeasible):
            return sizing  # else intermediate values are larger than the result
    raise too_large(n, sizing.log_qp, allowed)
