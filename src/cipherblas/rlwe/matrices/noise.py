"""Bounds of the errors of coefficient formats, in units of the scaled message, per coefficient.

A sum of independent errors of standard deviation s stays below `TAIL`·s but for a chance of 2^-50 per coefficient. The
bounds hold for a secret of any weight up to N. A sum of matrices adds their errors; a product by an integer, or by a
clear matrix U on the left, takes them times |u|: row sums of |U| times the bound of one row.
"""

from __future__ import annotations

import math

from cipherblas.crypto.params import Parameters
from cipherblas.rlwe.matrices.matrix import bit_ceil
from cipherblas.rlwe.matrices.transposition import TransposePolicy, transpose_plan, transpose_size

SIGMA = 3.2  # of the discrete Gaussian
LARGEST_ERROR = 29  # the sampler's table ends there
TAIL = 8.0


def fresh_bound(params: Parameters, public_key: bool = False) -> float:
    """Encryption, and the rounding of the message.

    With the secret key the error is one sample. With the public key it is v·e + e_1·s + e_0, of variance at most
    (2N + 1)·σ² for ternary v and s; the key's ‖e‖² exceeds its mean N·σ² by less than its half from N = 2^10 on, and
    is taken twice, which holds for smaller rings too.
    """
    if not public_key:
        return LARGEST_ERROR + 0.5
    return TAIL * SIGMA * math.sqrt(3 * params.n + 1) + 0.5


def switch_bound(params: Parameters, limbs: int, terms: int = 1) -> float:
    """What a sum of `terms` key switches adds, divided by P once.

    Each adds Σ_d digit_d·e_d / P: N products of a digit, uniform below D_d/2 in absolute value, with an error; ‖e_d‖²
    is taken as 2·N·σ² (see `fresh_bound`). Dividing by P rounds the two components, one of which meets the secret:
    variance (1 + N)/12 at most.
    """
    squares = 0.0
    for start in range(0, limbs, params.alpha):
        digit = math.fsum(math.log2(q) for q in params.q[start : min(start + params.alpha, limbs)])
        squares += 4.0 ** (digit - params.log_p)
    products = terms * 2 * params.n * SIGMA**2 * squares / 12
    return TAIL * math.sqrt(products + (1 + params.n) / 12)


def transpose_bound(
    params: Parameters, limbs: int, shape: tuple[int, int], policy: TransposePolicy = "fast"
) -> float:
    """What the transposition of a matrix of this shape adds: a sum of the errors of all its key switches.

    Where rows are cut into blocks of N, the last block has the most; see `gathered_switches`. The rows' a parts are
    taken as independent; those of (1, max(shape)) serve for any.
    """
    rows = shape[0] % params.n or params.n
    switches = gathered_switches(transpose_size(params, shape), policy, rows)
    return math.sqrt(switches) * switch_bound(params, limbs)


def gathered_switches(size: int, policy: TransposePolicy, rows: int) -> int:
    """The key switches of a transposition of d = `size` rows, each as often as its error adds up in a coefficient.

    Only R = bit_ceil(rows) of the d places hold rows, d/R apart, so that h_u of cpp/rlwe/transpose.h depends on u
    modulo 2R alone. From equal h_u equal steps make equal errors. The last transform puts them into the same
    coefficients of the result, whatever steps come after: there the errors of v and v·5^e add up where 5^e is 1 modulo
    2R, that is, where R/2 divides e. With a key for each v no step is shared.
    """
    half, period = size // 2, max(bit_ceil(rows) // 2, 1)
    if policy == "fast":
        return transpose_plan(size, policy).switches
    if policy == "light":
        # The high digit of the exponent comes first; the low ones that may follow are those below `base`.
        base = 1 << size.bit_length() // 2
        return (size - base) * max(base // period, 1) + size - size // base
    # The sign comes first, then the bits of the exponent from the lowest one: half >> t multiples of 2^t may follow.
    return half * sum(min(half >> t, half // period) for t in range(half.bit_length()))
