"""Counting a candidate: a whole program by its trace, or one product of a block grid from its pieces.

The second gives the same counts without walking the grid: every block is prepared once and every block product
costs the same, so the planner can compare hundreds of tilings of a large product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cipherblas.algorithms.registry import build
from cipherblas.evaluators.counter import Counter
from cipherblas.evaluators.counts import Counts
from cipherblas.evaluators.noise import TAIL
from cipherblas.evaluators.shape import Ring
from cipherblas.evaluators.values import Ct, Plain
from cipherblas.execution import Choice
from cipherblas.expressions import Expression, MatMul
from cipherblas.keys import KeyRequest
from cipherblas.planner.trace import trace


@dataclass(frozen=True)
class Estimate:
    """What the planner compares: counts, keys, uploads, and the handle of the result in numbers.

    Attributes:
        limbs: of the result.
        magnitude_bits: log2(scale · bound) of the result.
        error: predicted largest error of an entry.
        upload_ciphertexts: of all secret operands.
        upload_bytes: of their b parts.
    """

    counts: Counts
    keys: KeyRequest
    limbs: int
    magnitude_bits: float
    error: float
    upload_ciphertexts: int
    upload_bytes: int


def of_program(
    ring: Ring, expression: Expression, choices: Sequence[Choice], blocks: Mapping[str, int], key_policy: str
) -> Estimate:
    """The estimate of any program, by a full trace."""
    run = trace(ring, expression, choices, blocks, key_policy)
    ct = run.result.first()
    return Estimate(
        counts=run.counts,
        keys=run.keys,
        limbs=ct.limbs,
        magnitude_bits=math.log2(ct.scale * ct.bound),
        error=run.error,
        upload_ciphertexts=sum(feed.ciphertexts for feed in run.feeds),
        upload_bytes=sum(feed.ciphertexts * feed.limbs * ring.n * 8 for feed in run.feeds),
    )


def of_product(
    ring: Ring, product: MatMul, choice: Choice, block: tuple[int, int, int], key_policy: str
) -> Estimate:
    """The estimate of one product of two operands, cut into blocks bm × bk and bk × bn."""
    bm, bk, bn = block
    slots = ring.n // 2
    algorithm = build(choice.algorithm, bm, bk, bn, slots, choice.options)
    m, k, n = (
        -(-length // size)
        for length, size in zip((*product.left.shape, product.shape[1]), block, strict=True)
    )
    ev = Counter(ring, key_policy=key_policy)
    uploads = 0

    def operand(layout, node, blocks):  # type: ignore[no-untyped-def]
        nonlocal uploads
        bound = layout.slot_bound(node.bound)
        if not node.secret:
            return [Plain(i, lambda: None, bound) for i in range(layout.ciphertexts)]  # type: ignore[arg-type, return-value]
        uploads += blocks * layout.ciphertexts
        scale = 2.0**ring.scale_bits / node.bound
        return [ev.fresh(None, bound=bound, scale=scale) for _ in range(layout.ciphertexts)]

    marks = [ev.counts.copy()]

    def mark() -> None:
        marks.append(ev.counts.copy())

    lefts, rights = (
        operand(algorithm.left_layout, product.left, m * k),
        operand(algorithm.right_layout, product.right, k * n),
    )
    left = algorithm.prepare_left(ev, lefts)
    mark()
    right = algorithm.prepare_right(ev, rights)
    mark()
    sums = algorithm.multiply(ev, left, right, None)
    mark()
    if k > 1:  # the others cost the same; errors of different blocks are independent
        sums = algorithm.multiply(ev, left, right, sums)
        for ct in sums:
            ct.bound, ct.noise = ct.bound * k / 2, ct.noise * math.sqrt(k / 2)
    mark()
    results = algorithm.finish(ev, sums)
    mark()
    pieces = [after - before for before, after in zip(marks, marks[1:], strict=False)]
    times = (m * k, k * n, m * n, m * n * (k - 1), m * n)
    counts = Counts()
    for piece, number in zip(pieces, times, strict=True):
        counts = counts + piece * number
    ct: Ct = results[0]
    return Estimate(
        counts=counts,
        keys=ev.request,
        limbs=ct.limbs,
        magnitude_bits=math.log2(ct.scale * ct.bound),
        error=TAIL * max(x.noise for x in results),
        upload_ciphertexts=uploads,
        upload_bytes=uploads * len(ring.q) * ring.n * 8,
    )
