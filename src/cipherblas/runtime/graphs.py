"""Task graphs of products of block grids, and of operations on every block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cipherblas.common.errors import ShapeError
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.runtime.tasks import Axis, Blocks, TaskGraph, Tasks, Template


def product_graph(algorithm: Algorithm, left: tuple[int, int], right: tuple[int, int]) -> TaskGraph:
    """The product of two grids of blocks: every block prepared once, sums over the inner blocks before one
    relinearisation.

    The inner block index is the outer loop: the blocks of one column of the left and one row of the right grid are
    prepared, used for every output block and dropped; only one accumulator per output block stays. Blocks of a 1×1
    output grid are used once and need not be held prepared (`Algorithm.multiply_once`).

    Args:
        algorithm: its blocks are lists of ciphertexts (or `Plain`s) in `left_layout` and `right_layout`, those of the
            result in `out_layout`.
        left: block rows × inner blocks.
        right: inner blocks × block columns.

    Raises:
        ShapeError: the grids are empty, or have different numbers of inner blocks.
    """
    if left[1] != right[0] or min(*left, *right) < 1:
        raise ShapeError(
            "grids of blocks",
            expected="block columns of the left = block rows of the right",
            got="{}×{} and {}×{}".format(*left, *right),
        )
    rows, inner, cols = Axis("rows", left[0]), Axis("inner", left[1]), Axis("columns", right[1])
    a, b = Blocks("left", left), Blocks("right", right)
    total, out = Blocks("sums", (left[0], right[1])), Blocks("product", (left[0], right[1]))

    def multiply(name: str, work: Callable[..., Any], x: Blocks, y: Blocks) -> Tasks:
        factors = x.at(rows, inner), y.at(inner, cols)
        return Tasks(Template(name, work, steps=1), factors, total.at(rows, cols))

    finish = Tasks(Template("finish", algorithm.finish), (total.at(rows, cols),), out.at(rows, cols))
    if rows.length == cols.length == 1:
        tasks = [multiply("multiply once", algorithm.multiply_once, a, b), finish]
    else:
        x, y = Blocks("left, prepared", left), Blocks("right, prepared", right)
        tasks = [
            Tasks(
                Template("prepare right", algorithm.prepare_right), (b.at(inner, cols),), y.at(inner, cols)
            ),
            Tasks(Template("prepare left", algorithm.prepare_left), (a.at(rows, inner),), x.at(rows, inner)),
            multiply("multiply", algorithm.multiply, x, y),
            finish,
        ]
    return TaskGraph(tasks, (a, b), (out,), (inner, rows, cols))


def blockwise_graph(
    name: str, work: Callable[..., Any], shape: tuple[int, int], operands: int = 1
) -> TaskGraph:
    """work(ev, …) of every block of a grid, or of the blocks in one place of several grids of that shape."""
    rows, cols = Axis("rows", shape[0]), Axis("columns", shape[1])
    sources = tuple(Blocks(f"operand {number}", shape) for number in range(operands))
    out = Blocks(name, shape)
    tasks = Tasks(Template(name, work), tuple(one.at(rows, cols) for one in sources), out.at(rows, cols))
    return TaskGraph([tasks], sources, (out,), (rows, cols))
