"""Runs a product of block grids on `Symbolic`, then on `Clear` restricted to the keys that `Symbolic` declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Plain
from cipherblas.forms.blocks import join, split
from cipherblas.forms.layouts import Layout
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime import schedule
from cipherblas.runtime.graphs import product_graph

DEPTH = 3  # rescales that the shapes below leave for an algorithm


@dataclass
class Outcome:
    result: NDArray[np.float64]
    counts: Counts
    counter: Symbolic
    clear: Clear
    vectors: list[list[list[NDArray[np.complex128]]]]


def operand(ev: Any, layout: Layout, blocks: list[list[Any]], bound: float, public: bool, name: str) -> Any:
    """A grid of ciphertexts or clear vectors; on `Symbolic` without touching the data, the first block for all."""
    real = isinstance(ev, Clear)
    slot_bound = layout.slot_bound(bound)
    grid: list[list[list[Any]]] = []
    for i, row in enumerate(blocks):
        grid.append([])
        for j, block in enumerate(row):
            cts: list[Any] = []
            for c in range(layout.ciphertexts):
                if public:
                    key = (name, i, j, c)
                    cts.append(Plain(key, lambda b=block, c=c: layout.pack_one(b, c), slot_bound))
                else:
                    cts.append(ev.fresh(layout.pack_one(block, c) if real else None, bound=slot_bound))
            grid[-1].append(cts)
    if public and not real:
        for plain in grid[0][0]:
            plain.blocks = len(blocks) * len(blocks[0])
        return [[grid[0][0]] * len(blocks[0])] * len(blocks)
    return grid


def multiplied(ev: Any, algorithm: Algorithm, left: Any, right: Any) -> Any:
    """The product of two grids of blocks."""
    graph = product_graph(algorithm, (len(left), len(left[0])), (len(right), len(right[0])))
    (result,) = schedule.run(graph, ev, [left, right])
    return result


def product(
    algorithm: Algorithm,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    *,
    key_policy: str = "direct",
    public: str = "",
    ring: RingShape | None = None,
) -> Outcome:
    """a·b through blocks of the algorithm's size. `public` names the clear operand: "left", "right" or "".

    The counts, declared keys and memory of both evaluators are compared on the way.
    """
    ring = RingShape.for_depth(algorithm.slots, DEPTH) if ring is None else ring
    lefts, rights = split(a, algorithm.m, algorithm.k), split(b, algorithm.k, algorithm.n)
    bounds = [max(float(np.abs(x).max()), 1e-9) for x in (a, b)]
    counter = Symbolic(ring, key_policy=key_policy)
    evaluators: list[Any] = [counter]
    outputs = []
    for position in range(2):
        if position == 1:
            evaluators.append(Clear(ring, key_policy=key_policy, available=counter.request))
        ev = evaluators[position]
        left = operand(ev, algorithm.left_layout, lefts, bounds[0], public == "left", "a")
        right = operand(ev, algorithm.right_layout, rights, bounds[1], public == "right", "b")
        outputs.append(multiplied(ev, algorithm, left, right))
        del left, right
    clear = evaluators[1]
    assert clear.counts == counter.counts
    assert clear.request == counter.request
    assert clear.peak_bytes <= counter.peak_bytes <= clear.peak_bytes + clear.run_bytes
    if not public or len(lefts) == len(rights) == len(rights[0]) == 1:
        assert clear.peak_bytes == counter.peak_bytes
    vectors = [[[ct.data for ct in block] for block in row] for row in outputs[1]]
    for row, planned in zip(outputs[1], outputs[0], strict=True):
        for block, plan in zip(row, planned, strict=True):
            for ct, handle in zip(block, plan, strict=True):
                assert (ct.limbs, ct.scale) == (handle.limbs, handle.scale)
                assert (ct.bound, ct.noise) == pytest.approx((handle.bound, handle.noise), rel=1e-12)
                assert np.abs(ct.data).max() <= ct.bound * (1 + 1e-9)
    blocks = [[algorithm.out_layout.unpack(cts) for cts in row] for row in vectors]
    return Outcome(join(blocks, a.shape[0], b.shape[1]), counter.counts, counter, clear, vectors)


def counted(algorithm: Algorithm, grid: tuple[int, int, int] = (1, 1, 1)) -> Counts:
    """Counts of a product of grids, on `Symbolic` alone."""
    counter = Symbolic(RingShape.for_depth(algorithm.slots, DEPTH))
    m, k, n = grid

    def blocks(layout: Layout, rows: int, cols: int) -> list[list[list[Any]]]:
        return [
            [[counter.fresh(None, bound=1.0) for _ in range(layout.ciphertexts)] for _ in range(cols)]
            for _ in range(rows)
        ]

    left, right = blocks(algorithm.left_layout, m, k), blocks(algorithm.right_layout, k, n)
    multiplied(counter, algorithm, left, right)
    return counter.counts


def check(algorithm: Algorithm, seed: int, grid: tuple[int, int, int] = (1, 1, 1), **options: Any) -> Outcome:
    """Random entries in [-1, 1], entry-wise comparison with NumPy, and the promises of the output layout."""
    rng = np.random.default_rng(seed)
    m, k, n = (
        size * count for size, count in zip((algorithm.m, algorithm.k, algorithm.n), grid, strict=True)
    )
    a, b = rng.uniform(-1, 1, (m, k)), rng.uniform(-1, 1, (k, n))
    outcome = product(algorithm, a, b, **options)
    np.testing.assert_allclose(outcome.result, a @ b, rtol=0, atol=1e-9)
    layout = algorithm.out_layout
    for vectors in (cts for row in outcome.vectors for cts in row):
        for c, vector in enumerate(vectors):
            if not layout.imaginary_garbage:
                np.testing.assert_allclose(vector.imag, 0, atol=1e-9)
            if not layout.empty_garbage:
                np.testing.assert_allclose(vector[layout.index(c).real < 0], 0, atol=1e-9)
    return outcome


def check_blocks_prepared_once(algorithm: Algorithm, closing: int = 0) -> None:
    """In a product of 2×3 and 3×4 blocks each of the 6 and 12 blocks is rotated once, and used for 4 and 2 products.

    Args:
        closing: rotations of each of the 8 blocks of the result.
    """
    one = check(algorithm, seed=3).counts
    left, right = (
        check(algorithm, seed=3, public=clear).counts.rotations - closing for clear in ("right", "left")
    )
    assert left > 0 and right > 0 and left + right + closing == one.rotations
    many = check(algorithm, seed=3, grid=(2, 3, 4)).counts
    assert many.rotations == 6 * left + 12 * right + 8 * closing
    assert many.products == 24 * one.products
    assert many.relinearisations == 8
