"""The security table: the largest log2(QP) of each ring degree for 128, 192 and 256 bits.

Ternary secrets, error of standard deviation 3.2, classical attacks. Source: Bossuat et al., "Security
Guidelines for Implementing Homomorphic Encryption", 2024 (eprint 2024/463).

The table is of lattice dimensions: the best known attacks treat ring and module LWE as LWE of dimension rank × degree
(Albrecht et al., "On the concrete hardness of Learning with Errors", eprint 2015/046), N in every format of ours.

It is about one secret. Samples a·s_j + e_j with one a and T independent secrets s_j (shared-a formats; Peikert,
Vaikuntanathan, Waters, CRYPTO 2008) have the dimension N as well: whoever has a and a sample of one s_j makes the
others with secrets of his own, so that a hybrid argument replaces one after the other. It has T steps: an attack with
advantage ε on all of them is one with advantage ε/T on one. The proof so guarantees log2 T bits less than for one
secret. They are not subtracted here: the table is of costs of attacks on one secret. Its attacks succeed nearly always,
and gain nothing from many secrets but that one reduction of the lattice of a serves all. One that mostly fails may be
tried on each: it gains log2 T bits at most.
"""

from __future__ import annotations

import warnings
from typing import Any

from cipherblas.common.arrays import is_scalar
from cipherblas.common.errors import Advice, InsecureParametersWarning, ParameterError, SecurityError

LEVELS: tuple[int, ...] = (128, 192, 256)

_MAX_LOG_QP: dict[int, dict[int, int]] = {
    128: {
        **{1 << 10: 26, 1 << 11: 53, 1 << 12: 106, 1 << 13: 214},
        **{1 << 14: 430, 1 << 15: 868, 1 << 16: 1747, 1 << 17: 3523},
    },
    192: {
        **{1 << 10: 17, 1 << 11: 36, 1 << 12: 73, 1 << 13: 147},
        **{1 << 14: 297, 1 << 15: 597, 1 << 16: 1199, 1 << 17: 2411},
    },
    256: {1 << 10: 13, 1 << 11: 27, 1 << 12: 56, 1 << 13: 114, 1 << 14: 230, 1 << 15: 462, 1 << 16: 929},
}

# Of a second, sparse secret, which is used while a modulus is raised and nowhere else. Source: Bossuat,
# Troncoso-Pastoriza, Hubaux, "Bootstrapping for approximate homomorphic encryption with negligible failure-probability
# by using sparse-secret encapsulation" (eprint 2022/024), whose weight this is: hybrid attacks that guess a part of the
# secret take at least 139 bits at N = 2^15 with 105 bits, more in a larger ring with the same modulus.
SPARSE_WEIGHT = 32
_MAX_LOG_QP_SPARSE: dict[int, dict[int, int]] = {128: {1 << 15: 105}}


def check_wanted(security: int, insecure: bool = False) -> None:
    """Check what a caller asks for, before anything is compared with it.

    Raises:
        ParameterError: it is not 128, 192, 256, or 0 for nothing.
        SecurityError: it is 0 without `insecure`.
    """
    if isinstance(security, bool) or security not in (0, *LEVELS):
        raise _unknown_level(security)
    if security == 0 and not insecure:
        raise _needs_insecure()


def _unknown_level(security: Any) -> ParameterError:
    """Advises the least level that is as high as what was asked for, or the highest there is."""
    asked = security if is_scalar(security) else 0
    bits = next((level for level in LEVELS if level >= asked), max(LEVELS))
    return ParameterError(
        "There is no such level of security.",
        expected=" | ".join(map(str, LEVELS)),
        got=security,
        advice=Advice(f"security={bits}", {"security": bits}),
    )


def _needs_insecure() -> SecurityError:
    return SecurityError(
        "Security 0 needs insecure=True.",
        advice=(
            Advice("security=128", {"security": 128}),
            Advice("security=0, insecure=True", {"security": 0, "insecure": True}),
        ),
    )


def max_log_qp(n: int, security: int) -> float:
    """Return the largest log2(QP) that is secure at ring degree `n` for `security` bits.

    0.0 below the smallest degree of the table. Above the largest degree of a column (256 bits: 2^16), the
    bound of that largest degree: a larger ring with the same modulus is never weaker.

    Raises:
        ParameterError: `security` is not 128, 192 or 256.
    """
    if security not in _MAX_LOG_QP:
        raise _unknown_level(security)
    column = _MAX_LOG_QP[security]
    return float(max((bound for degree, bound in column.items() if degree <= n), default=0))


def max_log_qp_sparse(n: int, security: int) -> float:
    """The largest log2(q_0·P') at which a ternary secret of weight `SPARSE_WEIGHT` may be used; 0.0: at none.

    Raises:
        ParameterError: `security` is not 128, 192 or 256.
    """
    if security not in _MAX_LOG_QP:
        raise _unknown_level(security)
    column = _MAX_LOG_QP_SPARSE.get(security, {})
    return float(max((bound for degree, bound in column.items() if degree <= n), default=0))


def attained(n: int, log_qp: float) -> int:
    """The highest of 128, 192, 256 that ring degree `n` with log2(QP) = `log_qp` reaches, or 0."""
    return max((level for level in LEVELS if log_qp <= max_log_qp(n, level)), default=0)


def check(n: int, log_qp: float, security: int, insecure: bool = False) -> int:
    """Check log2(QP) against the table and return the security reached.

    Args:
        n: ring degree.
        log_qp: log2 of the product of all primes, the special ones included.
        security: bits asked for: 128, 192 or 256; 0 asks for nothing and needs `insecure`.
        insecure: accept what falls short of `security`; below 128 bits with a warning.

    Returns:
        `security` when it is reached; with `insecure`, the highest level reached, 0 when that is below 128.

    Raises:
        SecurityError: the table is exceeded and `insecure` is not set.
    """
    if security == 0:
        if not insecure:
            raise _needs_insecure()
    elif log_qp <= max_log_qp(n, security):
        return security
    elif not insecure:
        raise SecurityError(
            f"The parameters do not reach {security}-bit security at N = {n}.",
            expected=f"log2(QP) <= {max_log_qp(n, security):g}",
            got=f"{log_qp:.2f}",
            advice=[*_larger(n, log_qp, security), *lower(n, log_qp)],
        )
    reached = attained(n, log_qp)
    if reached == 0:
        warn_insecure(n, log_qp)
    return reached


def _larger(n: int, log_qp: float, security: int) -> list[str]:
    """Advice to take the smallest larger ring in which such a modulus is secure, if there is one."""
    degrees = (degree for degree in sorted(_MAX_LOG_QP[security]) if degree > n)
    enough = (degree for degree in degrees if log_qp <= max_log_qp(degree, security))
    return [f"n={degree}" for degree in enough][:1]


def lower(n: int, log_qp: float) -> list[str]:
    """Advice to claim no more security than there is."""
    reached = attained(n, log_qp)
    return [f"security={reached}"] if reached else ["security=0, insecure=True, for tests alone"]


def warn_insecure(n: int, log_qp: float) -> None:
    """Warn that parameters below 128 bits are in use."""
    warnings.warn(
        f"The parameters are insecure: N = {n} with log2(QP) = {log_qp:.1f} is below 128-bit security "
        f"(limit {max_log_qp(n, 128):g}); nothing encrypted with them is protected.",
        InsecureParametersWarning,
        stacklevel=3,
    )
