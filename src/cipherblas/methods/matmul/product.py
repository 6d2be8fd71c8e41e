"""Products of block grids: every block prepared once, sums over the inner blocks before one relinearisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cipherblas.common.errors import ShapeError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand

Grid = Sequence[Sequence[Operand]]


def multiply_grids(
    ev: Evaluator,
    algorithm: Algorithm,
    left: Grid,
    right: Grid,
    progress: Callable[[int, int], None] | None = None,
) -> list[list[list[Ct]]]:
    """The product of two grids of blocks.

    The inner block index is the outer loop: the blocks of one column of `left` and one row of `right` are prepared,
    used for every output block and dropped; only one accumulator per output block stays. Blocks of a 1×1 output
    grid are used once and need not be held prepared (`Algorithm.multiply_once`).

    Args:
        left: block rows × inner blocks, each a list of ciphertexts (or `Plain`s) in `left_layout`.
        right: inner blocks × block columns, in `right_layout`.
        progress: called with (block products done, all).

    Returns:
        Block rows × block columns, each a list of ciphertexts in `out_layout`.
    """
    inner = len(right)
    if (
        not left
        or not inner
        or any(len(row) != inner for row in left)
        or len({len(row) for row in right}) != 1
    ):
        raise ShapeError(
            "grids of blocks",
            expected="block columns of the left = block rows of the right",
            got=f"{len(left)}×{len(left[0]) if left else 0} and {inner} rows",
        )
    rows, cols = len(left), len(right[0])
    total, done = rows * cols * inner, 0
    accumulators: list[list[Accumulator | None]] = [[None] * cols for _ in range(rows)]
    for t in range(inner):
        if rows == cols == 1:
            accumulators[0][0] = algorithm.multiply_once(ev, left[0][t], right[t][0], accumulators[0][0])
            done += 1
            _report(progress, done, total)
            continue
        prepared_right = [algorithm.prepare_right(ev, right[t][j]) for j in range(cols)]
        for i in range(rows):
            prepared_left: list[Any] = algorithm.prepare_left(ev, left[i][t])
            for j in range(cols):
                accumulators[i][j] = algorithm.multiply(
                    ev, prepared_left, prepared_right[j], accumulators[i][j]
                )
                done += 1
                _report(progress, done, total)
    results: list[list[list[Ct]]] = []
    for row in accumulators:
        results.append([])
        for j, accumulator in enumerate(row):
            assert accumulator is not None  # every output block got at least one product
            results[-1].append(algorithm.finish(ev, accumulator))
            row[j] = None  # frees the accumulator before the next one is relinearised
    return results


def _report(progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)
