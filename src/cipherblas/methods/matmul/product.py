"""Products of block grids: every block prepared once, sums over the inner blocks before one relinearisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cipherblas.common.errors import ShapeError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand

Grid = Sequence[Sequence[Operand]]
Sums = list[list[Accumulator]]  # one accumulator per block of the result


def multiply_grids(
    ev: Evaluator,
    algorithm: Algorithm,
    left: Grid,
    right: Grid,
    progress: Callable[[], object] | None = None,
) -> list[list[list[Ct]]]:
    """The product of two grids of blocks.

    The inner block index is the outer loop: the blocks of one column of `left` and one row of `right` are prepared,
    used for every output block and dropped; only one accumulator per output block stays. Blocks of a 1×1 output
    grid are used once and need not be held prepared (`Algorithm.multiply_once`).

    Args:
        left: block rows × inner blocks, each a list of ciphertexts (or `Plain`s) in `left_layout`.
        right: inner blocks × block columns, in `right_layout`.
        progress: called after every block product.

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

    def reported(accumulator: Accumulator) -> Accumulator:
        if progress is not None:
            progress()
        return accumulator

    def column(t: int, sums: Sums | None) -> Sums:
        """One column of left blocks times one row of right blocks, added to the sums."""
        prepared_right = ev.each(cols, lambda j: algorithm.prepare_right(ev, right[t][j]))

        def row(i: int) -> list[Accumulator]:
            prepared = algorithm.prepare_left(ev, left[i][t])

            def block(j: int) -> Accumulator:
                accumulator = None if sums is None else sums[i][j]
                return reported(algorithm.multiply(ev, prepared, prepared_right[j], accumulator))

            return ev.each(cols, block)

        return ev.each(rows, row)

    def once(t: int, sums: Sums | None) -> Sums:
        accumulator = None if sums is None else sums[0][0]
        return [[reported(algorithm.multiply_once(ev, left[0][t], right[t][0], accumulator))]]

    sums = ev.fold(inner, once if rows == cols == 1 else column)

    def finished(i: int) -> list[list[Ct]]:
        """A row of results; accumulators go before the next ones are relinearised."""
        return ev.each(cols, lambda j: algorithm.finish(ev, sums[i][j]), sums[i])

    return ev.each(rows, finished, sums)
