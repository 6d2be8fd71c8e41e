"""A ring for code whose depth is not known: the least depth at which a run without data has limbs enough."""

from __future__ import annotations

from collections.abc import Callable

from cipherblas.common.errors import LevelError, SecurityError
from cipherblas.crypto.fields import MAX_LOG_N
from cipherblas.crypto.params import Parameters, make_parameters, nearest_primes
from cipherblas.crypto.security import LEVELS, check_wanted, max_log_qp
from cipherblas.rlwe.rings import RingShape

MAX_DEPTH = 80  # rescales of 40 bits: about as many as 128 bits of security allow at N = 2^17
BASE_BITS, BASE_LIMBS, SCALE_BITS, SPECIAL_BITS = 48.0, 2, 40.0, 50.0


def shape(slots: int, depth: int) -> RingShape:
    """A ring with `depth` rescales above two base limbs, which hold a product of two values at the scale 2^40.

    Its sizes are those of the primes of `parameters`, not the powers of two that they lie around: the bytes of a key
    differ between a prime below 2^48 and one above.
    """
    n = 2 * slots
    q = nearest_primes(n, _q_bits(depth), exclude=())
    p = nearest_primes(n, [SPECIAL_BITS], exclude=q)
    return RingShape(n, tuple(map(float, q)), tuple(map(float, p)), 1, SCALE_BITS)


def parameters(slots: int, depth: int, security: int, insecure: bool) -> Parameters:
    """The same with primes.

    Raises:
        ParameterError: there is no such security.
        SecurityError: so few slots are not secure at this depth: names the least number that is.
    """
    check_wanted(security, insecure)
    n, wanted = 2 * slots, security or LEVELS[0]
    try:
        return make_parameters(
            n, _q_bits(depth), SPECIAL_BITS, scale_bits=SCALE_BITS, security=wanted, insecure=insecure
        )
    except SecurityError:
        log_qp = sum(_q_bits(depth)) + SPECIAL_BITS
        secure = (s for s in range(n.bit_length(), MAX_LOG_N + 1) if max_log_qp(1 << s, security) > log_qp)
        log_n = next(secure, None)
        more = f"slots={1 << (log_n - 1)} (vectors are followed by zeros), or " if log_n is not None else ""
        raise SecurityError(
            f"A ring of {slots} slots and depth {depth} has less than {security} bits of security.",
            expected=f"{more}insecure=True for a toy ring",
            got=f"log2(QP) of {log_qp:.0f}",
        ) from None


def least_depth(attempt: Callable[[int], object]) -> int:
    """The least depth at which an attempt has limbs enough: doubled until one has, then walked from half of that.

    Raises:
        LevelError: that of the deepest attempt.
    """
    enough = 0
    while not _succeeds(attempt, enough):
        enough = 2 * enough or 1
        if enough > MAX_DEPTH:
            attempt(MAX_DEPTH)  # raises, or is the first one that has enough
            enough = MAX_DEPTH
            break
    return next((depth for depth in range(enough // 2 + 1, enough) if _succeeds(attempt, depth)), enough)


def _succeeds(attempt: Callable[[int], object], depth: int) -> bool:
    try:
        attempt(depth)
    except LevelError:
        return False
    return True


def _q_bits(depth: int) -> list[float]:
    return [BASE_BITS] * BASE_LIMBS + [SCALE_BITS] * depth
