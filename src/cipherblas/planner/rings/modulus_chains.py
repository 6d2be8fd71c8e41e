"""Chains of primes for programs that refresh: their segments, and which one a program needs."""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cipherblas.common.errors import LevelError
from cipherblas.crypto.digits import equal_digits
from cipherblas.crypto.families import row_special_bits
from cipherblas.crypto.fields import MAX_LIMBS, MIN_LOG_N, ROW_LIMBS
from cipherblas.crypto.security import max_log_qp
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.lang.nodes import Expression
from cipherblas.lang.refreshing import refreshes_to_sines, refreshes_twice
from cipherblas.methods.bootstrapping.refresh import SINE_RATIO_BITS, Bootstrapping, bootstrapping_of
from cipherblas.planner.predict.dry_run import DryRun
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.rings.first import First
from cipherblas.planner.rings.sizing import PRIME_SPREAD_BITS, NoRingError, Sizing, budget_bits
from cipherblas.rlwe.rings import Ring, RingShape


@dataclass(frozen=True)
class Profile:
    """Sizes in bits of the primes of a chain, by what spends them.

    Attributes:
        base: q_0.
        down: limbs of slots to coefficients.
        scale: working levels.
        up: limbs of EvalMod.
        transform: those of coefficients to slots, whose errors are far below the others with these.
        sines: what is refreshed becomes sines, of messages of an eighth of q_0, whose errors are those of the argument.
    """

    base: float
    down: float
    scale: float
    up: float
    transform: float
    sines: bool = False

    @classmethod
    def of_sines(cls, scale: float, up: float | None = None) -> Profile:
        """Return the sizes for sines at a scale, with limbs of EvalMod of so many bits."""
        up = scale + SINE_UP_BITS[-1] if up is None else up
        sizes = (scale + SINE_RATIO_BITS, scale, up, up - 1)
        base, scale, up, transform = (bits - BELOW_BITS * (bits in WORDS) for bits in sizes)
        return cls(base, scale, scale, up, transform, sines=True)


LINES = Profile(50.0, 34.0, 40.0, 49.8, 47.0)
# Where values are refreshed in two rounds: smaller scales would not hold what these find.
TWO_ROUNDS = replace(LINES, scale=46.0)
# Bits of the words of memory that residues and weights take: of primes around such a size half take the next larger
# one, and of those that are this much smaller none does.
WORDS, BELOW_BITS = (32.0, 40.0, 48.0), 2.0**-6
SINE_UP_BITS = (6.0, 7.0)  # by which limbs of EvalMod are larger than the scale
SINE_SCALES = (*(28 + fifths / 5 for fifths in range(16)), 32.0, 33.0, 34.0, 36.0, 38.0)
# Scales and limbs of EvalMod that are tried, the smallest first.
SINE_SIZES = tuple(
    sorted(
        ((scale, scale + more) for scale in SINE_SCALES for more in SINE_UP_BITS), key=lambda both: sum(both)
    )
)
MAX_SKIPPED_BITS = 2.0  # of sizes that lack more; errors fall as sizes grow, but for large ones
DIGITS = (8, 6, 5, 4, 3)  # of key switching, that are tried
SINE_DIGITS = (*DIGITS, 2)  # for sines, whose limbs are so small that there may be so few
MAX_WORKING_LEVELS = 40  # levels, where security sets no limit
USUAL_DEGREE = 1 << 16  # larger rings are worth it where this one does not do
MIN_DEGREE = 1 << 15  # a sparse secret has 128 bits from there on
DEGREES = (1 << 15, 1 << 16, 1 << 17)
INSECURE_SHARE = 8  # N over the degree of the ring of rows, where security sets no limit
MARGIN = 0.97  # of the error that is allowed: primes are not just as large as they are planned


def profile_of(expression: Expression) -> Profile:
    """The sizes that a program's refreshes take; those of sines are the smallest that are tried."""
    if refreshes_to_sines(expression):
        return Profile.of_sines(SINE_SCALES[0])
    return TWO_ROUNDS if refreshes_twice(expression) else LINES


def method_of(n: int, profile: Profile = LINES, raised_first: bool = False) -> Bootstrapping:
    """How ciphertexts of a ring degree are refreshed."""
    low_bits = (profile.base, profile.down, profile.scale if raised_first else profile.down)
    return bootstrapping_of(RingShape(n, tuple(2.0**bits for bits in low_bits), (), 1, profile.scale))


@functools.lru_cache(maxsize=1 << 10)
def chain(
    n: int,
    working: int,
    digits: int,
    rows: int | None = None,
    profile: Profile = LINES,
    raised_first: bool = False,
) -> Sizing:
    """The sizes of the primes, by what spends them: from q_0 on slots to coefficients, `working` levels of the size of
    the scale, EvalMod and coefficients to slots.

    Args:
        digits: of key switching, of about equal bits: limbs are of very different sizes.
        rows: degree of a ring of its own for rows, whose limbs are as large as q_0: they hold products.
        profile: sizes of the primes.
        raised_first: slots to coefficients come last, above the working levels; below them there is one prime.
    """
    method = method_of(n, profile, raised_first)
    down, last = (profile.down,) * method.levels_before, (profile.down,) * (len(method.down) * raised_first)
    transforms = (profile.transform,) * len(method.up)
    up = last + (profile.up,) * (method.levels_after - len(last) - len(method.up)) + transforms
    if rows is not None:
        down = (profile.base,) * (ROW_LIMBS - 1) + down[ROW_LIMBS - 1 :]
    q_bits = (profile.base, *down, *(profile.scale,) * working, *up)
    sizes = equal_digits(q_bits, digits)
    return Sizing(n, profile.scale, q_bits, max(sizes), rows, sizes)


def chains(
    n: int,
    working: int,
    allowed: float,
    rows: int | None = None,
    profile: Profile = LINES,
    raised_first: bool = False,
) -> list[Sizing]:
    """Return the chains with this number of working levels that security allows, with many digits and with fewer."""
    return list(_chains(n, working, allowed, rows, profile, raised_first))


def _chains(
    n: int,
    working: int,
    allowed: float,
    rows: int | None = None,
    profile: Profile = LINES,
    raised_first: bool = False,
) -> Iterator[Sizing]:
    tried = SINE_DIGITS if profile.sines else DIGITS
    found = (chain(n, working, digits, rows, profile, raised_first) for digits in tried)
    return (
        one for one in found if one.log_qp + PRIME_SPREAD_BITS <= allowed and len(one.q_bits) <= MAX_LIMBS
    )


def widest(n: int, allowed: float, rows: int | None = None, profile: Profile = LINES) -> Sizing:
    """The chain with the most working levels.

    Raises:
        NoRingError: security allows none.
    """

    def too_many(working: int) -> bool:
        return next(_chains(n, working, allowed, rows, profile), None) is None

    working = bisect.bisect_left(range(1, MAX_WORKING_LEVELS + 1), True, key=too_many)
    if not working:
        raise NoRingError(f"At N = {n} there is no chain of primes for bootstrapping.", n, 2.0, modulus=0.0)
    return next(_chains(n, working, allowed, rows, profile))


def most_working(n: int, allowed: float, rows: int | None = None, profile: Profile = LINES) -> int:
    """Levels between two refreshes, at most.

    Raises:
        NoRingError: security allows none.
    """
    return working(widest(n, allowed, rows, profile).shape())


def working(ring: Ring) -> int:
    """Levels between two refreshes in a ring.

    Raises:
        NoRingError: it has no limbs for refreshes.
    """
    found = len(ring.q) - len(chain(ring.n, 0, 1).q_bits)
    if found < 1:
        raise NoRingError("The parameters have too few limbs for refreshes.", ring.n, 2.0, modulus=0.0)
    return found


def row_degree(n: int, security: int, insecure: bool) -> int | None:
    """The least degree of a ring of rows that is as secure as is asked for; None where it is not below n."""
    bits = LINES.base * ROW_LIMBS + row_special_bits(2.0**LINES.base) + PRIME_SPREAD_BITS
    if insecure:
        least = n // INSECURE_SHARE
    else:
        least = next((1 << log_n for log_n in range(10, 18) if max_log_qp(1 << log_n, security) >= bits), n)
    return least if 1 << MIN_LOG_N <= least < n else None


def limbs_left(ring: Ring) -> int:
    """Of a refreshed ciphertext, and of an operand."""
    return method_of(ring.n).limbs(len(ring.q))


@functools.lru_cache(maxsize=256)
def refresh_of(sizing: Sizing) -> tuple[int, float]:
    """Limbs that are transformed where a ciphertext of real slots is refreshed, and the error of a slot."""
    ev = Symbolic(sizing.shape())
    method = bootstrapping_of(ev.params)
    result = method.run(ev, ev.fresh(None, bound=1.0, limbs=method.levels_before + 1))
    return ev.counts.ntt_limbs, result.error(ev.slots)


def raises_first(coefficients_first: Sizing, raised_first: Sizing) -> bool:
    """Whether ModRaise comes first: a refresh takes less then, and errs by no more."""
    (transforms, error), (others, other) = refresh_of(coefficients_first), refresh_of(raised_first)
    return others < transforms and other <= error


def chain_sizings(
    run: Callable[[RingShape], DryRun],
    n: int,
    excess: Callable[[DryRun], float],
    security: int,
    insecure: bool,
    first: First,
    rows: int | None = None,
    profile: Profile = LINES,
) -> Sequence[Sizing]:
    """Chains of degree n that carry a program with refreshes, with as few working levels as it spends between them; in
    the order of a refresh that takes less (`raises_first`) where there is a choice: rows are read as coefficients.

    Args:
        first: finds the fewest levels, from those of other candidates on.
        rows: degree of a ring of its own for rows.
        profile: sizes of the primes; of sines the smallest scale that is precise enough is taken.

    Raises:
        NoRingError: none does.
    """
    allowed = budget_bits(n, security, insecure)
    if not insecure and (n < MIN_DEGREE or security > 128):
        raise NoRingError(
            f"At N = {n} a sparse secret does not reach {security} bits.",
            *(n, math.inf),
            modulus=0.0,
            wanted=f"security=128 and ring_degree={MIN_DEGREE} or more, which refreshes need",
        )
    if profile.sines:
        return _of_sines(run, n, excess, allowed, first)
    most = most_working(n, allowed, rows, profile)

    lacking: list[str] = []

    def carries(working: int, raised_first: bool = False) -> bool:
        ring = chains(n, working, allowed, rows, profile, raised_first)[0].shape()
        found = attempted(functools.partial(run, ring), only=LevelError)
        if isinstance(found, Infeasible):
            lacking.append(found.error.sentence.removesuffix("."))
        return not isinstance(found, Infeasible)

    spent = first(n, range(1, most + 1), carries)
    if spent is None:
        raise NoRingError(
            f"At N = {n} the program spends more than the {most} levels that are left between two refreshes: "
            f"{lacking[-1]}.",
            n,
            2.0,
            modulus=0.0,
        )
    found = chains(n, spent, allowed, rows, profile)
    counted = run(found[0].shape())
    exceeds = excess(counted)
    if exceeds > MARGIN:
        raise NoRingError(
            f"At N = {n} refreshed values are {exceeds:.3g} times less precise than the program asks for.",
            n,
            exceeds,
            modulus=0.0,
            shortfall=math.log2(exceeds / MARGIN),
            coarser=exceeds / MARGIN,
            found=(counted, found[0].shape()),
        )
    others = [] if profile is not LINES or rows is not None else chains(n, spent, allowed, raised_first=True)
    taken = others and raises_first(found[-1], others[-1]) and carries(spent, raised_first=True)
    return others if taken else found


def _of_sines(
    run: Callable[[RingShape], DryRun],
    n: int,
    excess: Callable[[DryRun], float],
    allowed: float,
    first: First,
) -> Sequence[Sizing]:
    """`chain_sizings` for sines: with as few working levels as the program spends, and then of the smallest sizes that
    are precise enough, which leave most of the modulus to digits."""
    nearest: NoRingError | None = None
    kind, failed = ("sizes", n), list[tuple[float, float]]()
    for sizes in first.since(kind, SINE_SIZES):
        if any(scale > sizes[0] and up > sizes[1] for scale, up in failed):  # not enough is gained
            continue
        profile = Profile.of_sines(*sizes)
        most = attempted(functools.partial(most_working, n, allowed, profile=profile), only=NoRingError)
        if isinstance(most, Infeasible):
            nearest = nearest or NoRingError(most.error.sentence, n, 2.0, modulus=0.0)
            break

        def carries(working: int, profile: Profile = profile) -> bool:
            ring = chains(n, working, allowed, profile=profile)[0].shape()
            return not isinstance(attempted(functools.partial(run, ring), only=LevelError), Infeasible)

        spent = first(n, range(1, most + 1), carries)
        if spent is None:
            nearest = nearest or NoRingError(
                f"At N = {n} the program spends more than the {most} levels that are left between two refreshes.",
                *(n, 2.0),
                modulus=0.0,
            )
            continue
        found = chains(n, spent, allowed, profile=profile)
        counted = run(found[0].shape())
        exceeds = excess(counted)
        if exceeds <= MARGIN:
            first.keep(kind, sizes)
            return found
        lacking = min(math.log2(exceeds / MARGIN), MAX_SKIPPED_BITS)
        failed.append((sizes[0] + lacking, sizes[1] + lacking))
        nearest = NoRingError(
            f"At N = {n} refreshed values are {exceeds:.3g} times less precise than the program asks for.",
            *(n, exceeds),
            modulus=0.0,
            shortfall=math.log2(exceeds / MARGIN),
            coarser=exceeds / MARGIN,
            found=(counted, found[0].shape()),
        )
    assert nearest is not None
    raise nearest
