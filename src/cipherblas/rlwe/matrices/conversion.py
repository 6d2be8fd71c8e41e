"""Conversions between coefficient formats, on the server.

Each is one key switch per ring element that changes its secret, or free. What needs keys says so beforehand: the
function `…_request` of the matrices to come gives the ConversionRequest that a client makes the keys of. The errors
that conversions add are in `noise.switch_bound`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cipherblas.common.errors import ShapeError
from cipherblas.common.memory import Array
from cipherblas.crypto.params import Parameters
from cipherblas.rlwe.matrices.conversion_keys import (
    MODULE_TO_RLWE,
    RLWE_TO_SHARED,
    SHARED_TO_RLWE,
    ConversionKeys,
    ConversionRequest,
)
from cipherblas.rlwe.matrices.key_switch import Switched, switch
from cipherblas.rlwe.matrices.matrix import stride_of
from cipherblas.rlwe.matrices.module import ModuleRows, from_ring
from cipherblas.rlwe.matrices.rlwe import RlweRows, joined
from cipherblas.rlwe.matrices.shared import SharedBatch, SharedRows, segment_widths


def rlwe_to_module(rows: RlweRows, splits: int = 1) -> ModuleRows:
    """Split every RLWE row into `splits` module rows. No key, no error: coefficients of a are re-arranged.

    Args:
        rows: m × n.
        splits: a power of two that divides n.

    Returns:
        (m·splits) × (n/splits): row i·splits + t holds the entries t, t + splits, t + 2·splits, … of row i.

    Raises:
        ShapeError: `splits` is something else.
    """
    count, cols = rows.shape
    if splits < 1 or splits & (splits - 1) or cols % splits:
        raise ShapeError("splits", expected=f"a power of two that divides {cols} columns", got=splits)
    params, degree = rows.params, rows.degree // splits
    step = params.n // rows.degree
    parts = [from_ring(params, rows.a, degree, t * step) for t in range(splits)]
    a = np.stack(parts, axis=2).reshape(rows.limbs, count * splits, params.n)
    b = rows.b.reshape(rows.limbs, count, cols // splits, splits).transpose(0, 1, 3, 2)
    shape = (count * splits, cols // splits)
    return ModuleRows(
        params, shape, rows.scale, np.ascontiguousarray(b.reshape(rows.limbs, *shape)), a, rows.key_id
    )


def module_to_rlwe_request(rows: ModuleRows) -> ConversionRequest:
    """The keys of `module_to_rlwe`: one per sub-secret."""
    return ConversionRequest(MODULE_TO_RLWE, rows.rank, rows.limbs)


def module_to_rlwe(rows: ModuleRows, keys: ConversionKeys, pack: int = 1) -> RlweRows:
    """Pack `pack` module rows into each RLWE row: N/d key switches per output, one division by P.

    With A_u(X) = Σ_t X^(t·N/(pack·d))·a_{t,u}(X^(N/d)), the sum Σ_u A_u·s_u(X^(N/d)) holds row t at its place.

    Args:
        rows: m × n.
        keys: of `module_to_rlwe_request(rows)`.
        pack: a power of two, at most N/d, that divides m.

    Returns:
        (m/pack) × (n·pack), the inverse of `rlwe_to_module` with splits=pack.

    Raises:
        ShapeError: `pack` is something else.
        MissingKeyError, MismatchError: the keys are not those.
    """
    params, (count, cols) = rows.params, rows.shape
    if pack < 1 or pack & (pack - 1) or pack > rows.rank or count % pack:
        raise ShapeError(
            "pack", expected=f"a power of two up to {rows.rank} that divides {count} rows", got=pack
        )
    keys.check(module_to_rlwe_request(rows), params, rows.key_id)
    limbs, rank, degree = rows.limbs, rows.rank, rows.degree
    outputs = count // pack
    by_row = rows.a.reshape(limbs, outputs, pack, rank, degree)
    a = np.empty((limbs, outputs, params.n), np.uint64)
    b = np.empty((limbs, outputs, cols * pack), np.uint64)
    stored = rows.b.reshape(limbs, outputs, pack, cols).transpose(0, 1, 3, 2).reshape(b.shape)
    for row in range(outputs):
        embedded = np.zeros((limbs, rank, degree, pack, rank // pack), np.uint64)
        embedded[..., 0] = by_row[:, row].transpose(0, 2, 3, 1)
        terms = [(0, u, u) for u in range(rank)]
        made = switch(params, embedded.reshape(limbs, rank, params.n), keys.data, terms, 1)
        a[:, row] = made.second[:, 0]
        b[:, row] = _plus(params, stored[:, row : row + 1], made.first)[:, 0]
    return RlweRows(params, (outputs, cols * pack), rows.scale, b, a, rows.key_id)


def shared_to_rlwe_request(matrix: SharedRows | SharedBatch) -> ConversionRequest:
    """The keys of `shared_to_rlwe`: one per secret."""
    return ConversionRequest(SHARED_TO_RLWE, matrix.secrets, matrix.limbs)


def shared_to_rlwe(matrix: SharedRows | SharedBatch, keys: ConversionKeys) -> list[RlweRows]:
    """Shared a to RLWE: every a is decomposed once, then one inner product per secret.

    Returns:
        The blocks of N columns (the last one narrower), from left to right, as RLWE rows.

    Raises:
        MissingKeyError, MismatchError: the keys are not those of `shared_to_rlwe_request`.
    """
    params, (count, cols) = matrix.params, matrix.shape
    keys.check(shared_to_rlwe_request(matrix), params, matrix.key_id)
    widths = segment_widths(params, cols)
    batch = isinstance(matrix, SharedBatch)
    parts: list[Switched] = []  # per block of a batch, all rows; per row else, all segments
    for index in range(matrix.a.shape[1]):
        terms = [(j, 0, j) for j in range(matrix.secrets)]
        parts.append(switch(params, matrix.a[:, index : index + 1], keys.data, terms, matrix.secrets))
    blocks = []
    for block, width in enumerate(widths):
        begin = block * params.n
        if batch:
            a, phase = parts[block].second, parts[block].first
        else:
            a = np.stack([part.second[:, block] for part in parts], axis=1)
            phase = np.stack([part.first[:, block] for part in parts], axis=1)
        b = _plus(params, matrix.b[:, :, begin : begin + width], phase)
        blocks.append(RlweRows(params, (count, width), matrix.scale, b, a, matrix.key_id))
    return blocks


def rlwe_to_shared_rows_request(blocks: Sequence[RlweRows]) -> ConversionRequest:
    """The keys of `rlwe_to_shared_rows`: one per block of columns."""
    joined(blocks)
    return ConversionRequest(RLWE_TO_SHARED, len(blocks), blocks[0].limbs)


def rlwe_to_shared_rows(blocks: Sequence[RlweRows], keys: ConversionKeys) -> SharedRows:
    """Join blocks of columns into rows that share their a part.

    Key i is a shared-a encryption of (0, …, P·s at place i, …, 0): the sum over i of a_i switched with it has one a
    part, and at place j of its b parts a_j·s.

    Args:
        blocks: RLWE rows of the same matrix, N columns each but for the last, from left to right.
        keys: of `rlwe_to_shared_rows_request(blocks)`.

    Raises:
        ShapeError, MismatchError: the blocks do not fit each other.
        MissingKeyError, MismatchError: the keys are not those.
    """
    params, (count, cols) = joined(blocks)
    limbs = blocks[0].limbs
    keys.check(rlwe_to_shared_rows_request(blocks), params, blocks[0].key_id)
    a = np.empty((limbs, count, params.n), np.uint64)
    b = np.empty((limbs, count, cols), np.uint64)
    for row in range(count):
        own = np.stack([block.a[:, row] for block in blocks], axis=1)
        a[:, row], phases = _to_shared(params, own, keys)
        for j, block in enumerate(blocks):
            begin, width = j * params.n, block.shape[1]
            phase = phases[:, j : j + 1]
            b[:, row, begin : begin + width] = _plus(params, block.b[:, row : row + 1], phase)[:, 0]
    return SharedRows(params, (count, cols), blocks[0].scale, b, a, blocks[0].key_id)


def rlwe_to_shared_batch_request(blocks: Sequence[RlweRows]) -> ConversionRequest:
    """The keys of `rlwe_to_shared_batch`: one per row."""
    joined(blocks)
    return ConversionRequest(RLWE_TO_SHARED, blocks[0].shape[0], blocks[0].limbs)


def rlwe_to_shared_batch(blocks: Sequence[RlweRows], keys: ConversionKeys) -> SharedBatch:
    """Give all rows of each block of columns one a part; arguments and errors as `rlwe_to_shared_rows`.

    With r rows there are r keys of r + 1 polynomials, and r·(r + 1) inner products per block.
    """
    params, shape = joined(blocks)
    limbs = blocks[0].limbs
    keys.check(rlwe_to_shared_batch_request(blocks), params, blocks[0].key_id)
    a = np.empty((limbs, len(blocks), params.n), np.uint64)
    b = np.empty((limbs, *shape), np.uint64)
    for index, block in enumerate(blocks):
        begin, width = index * params.n, block.shape[1]
        a[:, index], phases = _to_shared(params, block.a, keys)
        b[:, :, begin : begin + width] = _plus(params, block.b, phases)
    return SharedBatch(params, shape, blocks[0].scale, b, a, blocks[0].key_id)


def _to_shared(params: Parameters, a: Array, keys: ConversionKeys) -> tuple[Array, Array]:
    """The one a part (limbs, N), and a_j·s under its secret j (limbs, count, N), of a (limbs, count, N)."""
    limbs, count, n = a.shape
    pairs = count // 2 + 1
    terms = [(pair, i, i * pairs + pair) for pair in range(pairs) for i in range(count)]
    flat = keys.data.reshape(count * pairs, *keys.data.shape[2:])
    made = switch(params, a, flat, terms, pairs)
    polynomials = np.stack([made.first, made.second], axis=2).reshape(limbs, 2 * pairs, n)
    return polynomials[:, 0], polynomials[:, 1 : 1 + count]


def _plus(params: Parameters, b: Array, phase: Array) -> Array:
    """b + the coefficients of `phase` (limbs, rows, N) that a row of its width stores."""
    width = b.shape[2]
    stored = np.ascontiguousarray(phase[:, :, :: stride_of(width, params.n)][:, :, :width])
    return np.asarray(params.context().add_limbs(np.ascontiguousarray(b), stored))
