"""Task graphs of products of block grids, and of operations on every block."""

from __future__ import annotations

import functools

from cipherblas.common.errors import ShapeError
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.runtime.tasks import Axis, Blocks, TaskGraph, Tasks, Template, Work


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
            "The grids of blocks do not fit each other.",
            expected="block columns of the left = block rows of the right",
            got="{}×{} and {}×{}".format(*left, *right),
        )
    works: dict[str, Work] = {
        "prepare left": algorithm.prepare_left,
        "prepare right": algorithm.prepare_right,
        "multiply": algorithm.multiply,
        "multiply once": algorithm.multiply_once,
        "finish": algorithm.finish,
        "movements": algorithm.movements,
    }
    least = min(algorithm.m, algorithm.k, algorithm.n)
    return _product(left[0], left[1], right[1]).using(works, least)


def blockwise_graph(name: str, work: Work, shape: tuple[int, int], operands: int = 1) -> TaskGraph:
    """work(ev, …) of every block of a grid, or of the blocks in one place of several grids of that shape."""
    return _blockwise(name, shape, operands).using({name: work})


@functools.lru_cache(maxsize=256)
def _product(m: int, k: int, n: int) -> TaskGraph:
    rows, inner, cols = Axis("rows", m), Axis("inner", k), Axis("columns", n)
    a, b = Blocks("left", (m, k)), Blocks("right", (k, n))
    total, out = Blocks("sums", (m, n)), Blocks("product", (m, n))

    def multiply(name: str, x: Blocks, y: Blocks) -> Tasks:
        return Tasks(Template(name, steps=1), (x.at(rows, inner), y.at(inner, cols)), total.at(rows, cols))

    finish = Tasks(Template("finish"), (total.at(rows, cols),), out.at(rows, cols))
    if m == n == 1:
        tasks = [multiply("multiply once", a, b), finish]
    else:
        x, y = Blocks("left, prepared", (m, k)), Blocks("right, prepared", (k, n))
        tasks = [
            Tasks(Template("prepare right"), (b.at(inner, cols),), y.at(inner, cols)),
            Tasks(Template("prepare left"), (a.at(rows, inner),), x.at(rows, inner)),
            multiply("multiply", x, y),
            finish,
        ]
    return TaskGraph(tasks, (a, b), (out,), (inner, rows, cols))


@functools.lru_cache(maxsize=256)
def _blockwise(name: str, shape: tuple[int, int], operands: int) -> TaskGraph:
    rows, cols = Axis("rows", shape[0]), Axis("columns", shape[1])
    sources = tuple(Blocks(f"operand {number}", shape) for number in range(operands))
    out = Blocks(name, shape)
    tasks = Tasks(Template(name), tuple(one.at(rows, cols) for one in sources), out.at(rows, cols))
    return TaskGraph([tasks], sources, (out,), (rows, cols))
