"""The transpose of matrices in RLWE rows, under encryption (C-MT; Park, EUROCRYPT 2025), on the server.

A matrix is transposed as the d × d matrix that it lies in, d the least power of two that holds its rows and columns,
by d automorphisms of X^(N/d) and their key switches; see `docs/algorithms.md`. `…_request` gives the Galois keys
beforehand. The error that this adds is that of `transpose_bound`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np

import cipherblas._core as _core
from cipherblas.common.errors import MismatchError, ParameterError, ShapeError
from cipherblas.common.memory import Array, aligned_empty
from cipherblas.crypto.keys.evaluation import EvaluationKeys
from cipherblas.crypto.keys.key_id import Galois
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.params import Parameters
from cipherblas.rlwe.matrices.matrix import bit_ceil, stride_of
from cipherblas.rlwe.matrices.rlwe import RlweColumns, RlweRows, joined
from cipherblas.rlwe.noise import switch_bound

# Keys against switches: a key for each of the d - 1 automorphisms; about 2·sqrt(d) keys, below 2·d switches; log2(d)
# keys, d·log2(d)/2 switches.
TransposePolicy = Literal["fast", "light", "binary"]
POLICIES: tuple[TransposePolicy, ...] = get_args(TransposePolicy)
MIN_SIZE = 8  # d

Oriented = TypeVar("Oriented", RlweRows, RlweColumns)


class TransposePlan(NamedTuple):
    """Keys, in order, and key switches of a transposition of d rows."""

    keys: Mapping[Galois, None]  # whose names are hashed once
    switches: int

    @property
    def elements(self) -> tuple[int, ...]:
        """The Galois elements of the keys."""
        return tuple(key.element for key in self.keys)


@functools.lru_cache(maxsize=64)
def transpose_plan(size: int, policy: TransposePolicy) -> TransposePlan:
    """Return the plan of the transposition for d = `size`, a power of two.

    Raises:
        ParameterError: an unknown policy.
    """
    if policy not in POLICIES:
        raise ParameterError(
            "There is no such key policy of a transposition.", expected=" | ".join(POLICIES), got=policy
        )
    elements, switches = _core.transpose_plan(size, policy)
    return TransposePlan(dict.fromkeys(map(Galois, elements)), switches)


def transpose_size(params: Parameters, shape: tuple[int, int]) -> int:
    """d for a matrix of this shape: what has more than N rows or columns is cut into blocks of N."""
    return max(bit_ceil(min(max(shape), params.n)), MIN_SIZE)


def transpose_bound(
    params: Parameters, limbs: int, shape: tuple[int, int], policy: TransposePolicy = "fast"
) -> float:
    """Error of the transposition of a matrix of this shape: the sum of the errors of all its key switches.

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


def transpose_request(matrix: RlweRows | RlweColumns, policy: TransposePolicy = "fast") -> KeyRequest:
    """The keys of `transpose`: d - 1 for "fast", about 2·sqrt(d) for "light", log2(d) for "binary".

    Raises:
        ShapeError, ParameterError, MismatchError: as `transpose`.
    """
    rows = matrix.T if isinstance(matrix, RlweColumns) else matrix
    _check_rows(rows)
    return transpose_blocks_request([rows], policy)


def transpose(matrix: Oriented, keys: EvaluationKeys, policy: TransposePolicy = "fast") -> Oriented:
    """The transposed matrix in the same format. Levels: none.

    `transpose(x, keys).T` is x itself with the orientation changed, since `.T` of rows is columns.

    Args:
        matrix: m × n, both at most N and 2^13.
        keys: of `transpose_request(matrix, policy)`, or more.
        policy: what the keys were requested with.

    Returns:
        n × m, as many limbs, the same scale.

    Raises:
        ShapeError: m or n is larger.
        ParameterError: an unknown policy.
        MissingKeyError: a key is missing, or made for fewer limbs.
        MismatchError: another format; keys of other parameters or another key pair.
    """
    if isinstance(matrix, RlweColumns):
        return transpose(matrix.T, keys, policy).T
    _check_rows(matrix)
    (result,) = transpose_blocks([matrix], keys, policy)
    return result


def transpose_blocks_request(blocks: Sequence[RlweRows], policy: TransposePolicy = "fast") -> KeyRequest:
    """The keys of `transpose_blocks`, one set for all blocks."""
    params, shape = joined(blocks)
    keys = transpose_plan(transpose_size(params, shape), policy).keys
    return KeyRequest(dict.fromkeys(keys, blocks[0].limbs))


def transpose_blocks(
    blocks: Sequence[RlweRows], keys: EvaluationKeys, policy: TransposePolicy = "fast"
) -> list[RlweRows]:
    """The transpose of a matrix of any shape, given as its blocks of columns.

    Args:
        blocks: RLWE rows of the same matrix, N columns each but for the last, from left to right; any number of rows.
        keys: of `transpose_blocks_request(blocks, policy)`, or more.
        policy: what the keys were requested with.

    Returns:
        The blocks of N columns (the last one narrower) of the transposed matrix, from left to right.

    Raises:
        ShapeError, MismatchError: the blocks do not fit each other, or N exceeds 2^13 where d would.
        ParameterError, MissingKeyError, MismatchError: as `transpose`.
    """
    params, (rows, cols) = joined(blocks)
    first, size = blocks[0], transpose_size(params, (rows, cols))
    _check_owner(keys, params, first.key_id)
    arrays = transpose_keys(keys, size, policy, first.limbs)
    result = []
    for start in range(0, rows, params.n):
        height = min(params.n, rows - start)
        a_parts, b_parts = [], []
        for block in blocks:
            a, b = block.a[:, start : start + height], block.b[:, start : start + height]
            a, b = transposed(params, a, b, size, arrays, policy)
            width = block.shape[1]
            a_parts.append(picked(a, width, 1))
            b_parts.append(picked(picked(b, width, 1), height, 2))
        a, b = _stacked(a_parts), _stacked(b_parts)
        result.append(RlweRows(params, (cols, height), first.scale, b, a, first.key_id))
    return result


def transpose_keys(keys: EvaluationKeys, size: int, policy: TransposePolicy, limbs: int) -> list[Array]:
    """The switching keys of a transposition, in the order of its plan; errors as `transpose_plan`, MissingKeyError."""
    return [keys.get(key, limbs) for key in transpose_plan(size, policy).keys]


def transposed(
    params: Parameters, a: Array, b: Array, size: int, keys: Sequence[Array], policy: TransposePolicy
) -> tuple[Array, Array]:
    """The transposed d × d matrix that rows lie in.

    Args:
        a: uint64 (limbs, rows, N).
        b: uint64 (limbs, rows, cols), at the coefficients where RlweRows have them.
        size: d, at least rows and cols.
        keys: of `transpose_keys`.

    Returns:
        uint64 (limbs, d, N) and (limbs, d, d); `picked` takes the transposed matrix from them.
    """
    full = spread(spread(b, size, 1), size, 2)
    return params.context().transpose_rows(spread(a, size, 1), full, keys, policy)


def spread(part: Array, size: int, axis: int) -> Array:
    """`size` rows or columns, with the given ones at their coefficients and zeros elsewhere."""
    length = part.shape[axis]
    if length == size:
        return part
    shape = list(part.shape)
    shape[axis] = size
    out = aligned_empty(tuple(shape))
    out.fill(0)
    out[_at_coefficients(length, size, axis)] = part
    return out


def picked(part: Array, length: int, axis: int) -> Array:
    """A view of the rows or columns at which `spread` puts `length` of them."""
    return part[_at_coefficients(length, part.shape[axis], axis)]


def _at_coefficients(length: int, size: int, axis: int) -> tuple[slice, ...]:
    stride = stride_of(length, size)
    return (slice(None),) * axis + (slice(0, length * stride, stride),)


def _stacked(parts: Sequence[Array]) -> Array:
    """One below the other, C-contiguous; a single one that is, as it lies."""
    return np.ascontiguousarray(parts[0]) if len(parts) == 1 else np.concatenate(parts, axis=1)


def _check_owner(keys: EvaluationKeys, params: Parameters, key_id: str) -> None:
    """Raise MismatchError unless keys belong to these parameters and, where both have a name, this key pair."""
    if keys.params.fingerprint() != params.fingerprint():
        raise MismatchError(
            "The matrix and the keys have different parameters.",
            expected=params.fingerprint(),
            got=keys.params.fingerprint(),
        )
    if keys.key_id and key_id and keys.key_id != key_id:
        raise MismatchError("The keys belong to another key pair.", expected=key_id, got=keys.key_id)


def _check_rows(rows: RlweRows) -> None:
    joined([rows])
    if rows.shape[0] > rows.params.n:
        raise ShapeError(
            "A matrix with more rows than the ring degree is transposed in blocks.",
            expected=f"at most N = {rows.params.n}",
            got=rows.shape[0],
        )
