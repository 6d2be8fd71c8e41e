"""Chains of primes for programs that refresh: their segments, and which one a program needs."""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Iterator, Sequence

from cipherblas.common.errors import LevelError
from cipherblas.crypto.digits import equal_digits
from cipherblas.crypto.fields import MAX_LIMBS, MIN_LOG_N, ROW_LIMBS
from cipherblas.crypto.params import row_special_bits
from cipherblas.crypto.security import max_log_qp
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.methods.bootstrapping.refresh import Bootstrapping, bootstrapping_of
from cipherblas.planner.predict.dry_run import DryRun
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.rings.first import First
from cipherblas.planner.rings.sizing import PRIME_SPREAD_BITS, NoRingError, Sizing, budget_bits
from cipherblas.rlwe.rings import Ring, RingShape

BASE_BITS, DOWN_BITS = 50.0, 34.0  # of q_0, and of the limbs of slots to coefficients
SCALE_BITS, UP_BITS = 40.0, 49.8  # of the working levels; of the limbs of EvalMod
TRANSFORM_BITS = 47.0  # of those of coefficients to slots, whose errors are far below the others with these
FINE_SCALE_BITS = (
    46.0  # where values are refreshed in two rounds: smaller ones would not hold what these find
)
DIGITS = (8, 6, 5, 4, 3)  # of key switching, that are tried
MAX_WORKING_LEVELS = 40  # levels, where security sets no limit
USUAL_DEGREE = 1 << 16  # larger rings are worth it where this one does not do
MIN_DEGREE = 1 << 15  # a sparse secret has 128 bits from there on
DEGREES = (1 << 15, 1 << 16, 1 << 17)
INSECURE_SHARE = 8  # N over the degree of the ring of rows, where security sets no limit
MARGIN = 0.97  # of the error that is allowed: primes are not just as large as they are planned


def method_of(n: int, raised_first: bool = False) -> Bootstrapping:
    """How ciphertexts of a ring degree are refreshed."""
    low_bits = (BASE_BITS, DOWN_BITS, SCALE_BITS if raised_first else DOWN_BITS)
    return bootstrapping_of(RingShape(n, tuple(2.0**bits for bits in low_bits), (), 1, SCALE_BITS))


@functools.lru_cache(maxsize=1 << 10)
def chain(
    n: int,
    working: int,
    digits: int,
    rows: int | None = None,
    fine: bool = False,
    raised_first: bool = False,
) -> Sizing:
    """The sizes of the primes, by what spends them: from q_0 on slots to coefficients, `working` levels of the size of
    the scale, EvalMod and coefficients to slots.

    Args:
        digits: of key switching, of about equal bits: limbs are of very different sizes.
        rows: degree of a ring of its own for rows, whose limbs are as large as q_0: they hold products.
        fine: for refreshes in two rounds.
        raised_first: slots to coefficients come last, above the working levels; below them there is one prime.
    """
    method, scale_bits = method_of(n, raised_first), FINE_SCALE_BITS if fine else SCALE_BITS
    down, last = (DOWN_BITS,) * method.levels_before, (DOWN_BITS,) * (len(method.down) * raised_first)
    transforms = (TRANSFORM_BITS,) * len(method.up)
    up = last + (UP_BITS,) * (method.levels_after - len(last) - len(method.up)) + transforms
    if rows is not None:
        down = (BASE_BITS,) * (ROW_LIMBS - 1) + down[ROW_LIMBS - 1 :]
    q_bits = (BASE_BITS, *down, *(scale_bits,) * working, *up)
    sizes = equal_digits(q_bits, digits)
    return Sizing(n, scale_bits, q_bits, max(sizes), rows, sizes)


def chains(
    n: int,
    working: int,
    allowed: float,
    rows: int | None = None,
    fine: bool = False,
    raised_first: bool = False,
) -> list[Sizing]:
    """Return the chains with this number of working levels that security allows, with many digits and with fewer."""
    return list(_chains(n, working, allowed, rows, fine, raised_first))


def _chains(
    n: int,
    working: int,
    allowed: float,
    rows: int | None = None,
    fine: bool = False,
    raised_first: bool = False,
) -> Iterator[Sizing]:
    found = (chain(n, working, digits, rows, fine, raised_first) for digits in DIGITS)
    return (
        one for one in found if one.log_qp + PRIME_SPREAD_BITS <= allowed and len(one.q_bits) <= MAX_LIMBS
    )


def widest(n: int, allowed: float, rows: int | None = None, fine: bool = False) -> Sizing:
    """The chain with the most working levels.

    Raises:
        NoRingError: security allows none.
    """

    def too_many(working: int) -> bool:
        return next(_chains(n, working, allowed, rows, fine), None) is None

    working = bisect.bisect_left(range(1, MAX_WORKING_LEVELS + 1), True, key=too_many)
    if not working:
        raise NoRingError(f"At N = {n} there is no chain of primes for bootstrapping.", n, 2.0, modulus=0.0)
    return next(_chains(n, working, allowed, rows, fine))


def most_working(n: int, allowed: float, rows: int | None = None, fine: bool = False) -> int:
    """Levels between two refreshes, at most.

    Raises:
        NoRingError: security allows none.
    """
    return working(widest(n, allowed, rows, fine).shape())


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
    bits = BASE_BITS * ROW_LIMBS + row_special_bits(2.0**BASE_BITS) + PRIME_SPREAD_BITS
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
    fine: bool = False,
) -> Sequence[Sizing]:
    """Chains of degree n that carry a program with refreshes, with as few working levels as it spends between them; in
    the order of a refresh that takes less (`raises_first`) where there is a choice: rows are read as coefficients.

    Args:
        first: finds the fewest levels, from those of other candidates on.
        rows: degree of a ring of its own for rows.
        fine: the program has refreshes in two rounds.

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
    most = most_working(n, allowed, rows, fine)

    lacking: list[str] = []

    def carries(working: int, raised_first: bool = False) -> bool:
        ring = chains(n, working, allowed, rows, fine, raised_first)[0].shape()
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
    found = chains(n, spent, allowed, rows, fine)
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
    others = [] if fine or rows is not None else chains(n, spent, allowed, raised_first=True)
    taken = others and raises_first(found[-1], others[-1]) and carries(spent, raised_first=True)
    return others if taken else found
