"""Counting a candidate: a whole program by its trace, or one product of a block grid from its pieces.

The second gives the same counts without walking the grid: every block is prepared once and every block product
costs the same, so the planner can compare hundreds of tilings of a large product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from cipherblas.common.limits import MASK_BYTES, RUN_BYTES
from cipherblas.crypto.keys import KeyRequest
from cipherblas.evaluators.slots.symbolic import Counter
from cipherblas.evaluators.slots.values import Ct, Plain
from cipherblas.forms.layouts import Layout
from cipherblas.lang.analysis import has_public_key
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operations import MatMul
from cipherblas.methods.matmul.registry import build
from cipherblas.planner.stages import Traffic, slot_traffic, traffic_of_ciphertexts
from cipherblas.planner.trace import Trace, result_error, trace
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import Ring
from cipherblas.runtime.slot_arithmetic import Choice


@dataclass(frozen=True)
class Estimate:
    """What the planner compares: counts, keys, uploads, and the handle of the result in numbers.

    Attributes:
        limbs: of the result.
        magnitude_bits: log2(scale · bound) of the result.
        error: predicted largest error of an entry.
        upload_ciphertexts: of all secret operands.
        upload_bytes: of their residues, seeds aside.
        traffic: what is sent, and what that costs.
        working_bytes: peak of the server's memory beside the keys (for one product about).
    """

    counts: Counts
    keys: KeyRequest
    limbs: int
    magnitude_bits: float
    error: float
    upload_ciphertexts: int
    upload_bytes: int
    traffic: Traffic
    working_bytes: int


def of_program(
    ring: Ring,
    expression: Expression,
    choices: Sequence[Choice],
    blocks: Mapping[str, int],
    key_policy: KeyPolicy,
    max_ntt_limbs: float = math.inf,
    mask_budget: int = MASK_BYTES,
) -> Estimate:
    """The estimate of any program, by a full trace; errors as `trace`."""
    run = trace(ring, expression, choices, blocks, key_policy, max_ntt_limbs, mask_budget)
    return of_trace(run, ring)


def of_trace(run: Trace, ring: Ring) -> Estimate:
    """The estimate of a full trace."""
    ct: Ct = run.result.first()
    return Estimate(
        counts=run.counts,
        keys=run.keys,
        limbs=ct.limbs,
        magnitude_bits=_magnitude_bits(ct),
        error=run.error,
        upload_ciphertexts=sum(feed.ciphertexts for feed in run.feeds),
        upload_bytes=sum(feed.residue_bytes(ring.n) for feed in run.feeds),
        traffic=_of_blocks(
            slot_traffic(run.feeds, run.result.cells[0][0], ring.n), math.prod(run.result.grid)
        ),
        working_bytes=run.working_bytes,
    )


def of_product(
    ring: Ring,
    product: MatMul,
    choice: Choice,
    block: tuple[int, int, int],
    key_policy: KeyPolicy,
    unit: float,
    mask_budget: int = MASK_BYTES,
) -> Estimate:
    """The estimate of one product of two operands, cut into blocks bm × bk and bk × bn.

    Args:
        unit: what an entry of the result is, in slots: the product of the operands' bounds and of all factors.
    """
    bm, bk, bn = block
    slots = ring.n // 2
    algorithm = build(choice.algorithm, bm, bk, bn, slots, choice.options)
    m, k, n = (
        -(-length // size)
        for length, size in zip((*product.left.shape, product.shape[1]), block, strict=True)
    )
    ev = Counter(ring, key_policy=key_policy, mask_budget=mask_budget)
    uploads = halves = 0  # ciphertexts, and parts of them that travel as residues

    def operand(layout: Layout, node: Expression, blocks: int) -> list[Any]:
        nonlocal uploads, halves
        bound = layout.slot_bound(1.0)
        if not node.secret:
            return [Plain(i, _no_values, bound) for i in range(layout.ciphertexts)]
        public_key = has_public_key(node)
        uploads += blocks * layout.ciphertexts
        halves += blocks * layout.ciphertexts * (1 + public_key)
        return [ev.fresh(None, bound=bound, public_key=public_key) for _ in range(layout.ciphertexts)]

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
    # Limbs that wait in a grid beside what one block product needs: operands, prepared blocks, sums.
    waiting = (2 * uploads - halves) * 2 * len(ring.q)  # those whose seeds are expanded
    waiting += (n - 1) * _limbs(right) + (m * n - 1) * _limbs(sums)
    if k > 1:  # the others cost the same; own errors of different blocks are independent
        sums = algorithm.multiply(ev, left, right, sums)
        for ct in sums:
            mixed, common = ct.errors.mixed * math.sqrt(k / 2), ct.errors.common * k / 2
            ct.bound, ct.errors = ct.bound * k / 2, ct.errors._replace(mixed=mixed, common=common)
    mark()
    results = algorithm.finish(ev, sums)
    mark()
    # Encodings of the other blocks of a clear operand, which are kept for the run.
    clear_blocks = k * n if product.left.secret else m * k
    encoded = min(RUN_BYTES, clear_blocks * ev.run_bytes) - ev.run_bytes
    pieces = [after - before for before, after in itertools.pairwise(marks)]
    times = (m * k, k * n, m * n, m * n * (k - 1), m * n)
    counts = Counts()
    for piece, number in zip(pieces, times, strict=True):
        counts = counts + piece * number
    counts.mask_encodings = ev.counts.mask_encodings  # the same masks serve all blocks
    return Estimate(
        counts=counts,
        keys=ev.request,
        limbs=results[0].limbs,
        magnitude_bits=_magnitude_bits(results[0]),
        error=result_error(results, math.prod(product.shape)) * unit,
        upload_ciphertexts=uploads,
        upload_bytes=halves * len(ring.q) * ring.n * 8,
        traffic=_of_blocks(
            traffic_of_ciphertexts(
                [(uploads, 2 * uploads - halves, len(ring.q))],
                [(ct.components, ct.limbs) for ct in results],
                ring.n,
            ),
            m * n,
        ),
        working_bytes=ev.peak_bytes + waiting * ring.n * 8 + encoded,
    )


def _of_blocks(traffic: Traffic, blocks: int) -> Traffic:
    """The traffic of a result of so many blocks, from that of one: they are alike."""
    return replace(
        traffic,
        result_bytes=traffic.result_bytes * blocks,
        answers=traffic.answers * blocks,
        answer_transforms=traffic.answer_transforms * blocks,
        answer_words=traffic.answer_words * blocks,
    )


def _magnitude_bits(ct: Ct) -> float:
    return math.log2(ct.scale * ct.bound)


def _no_values() -> NDArray[Any]:
    raise AssertionError("the Counter evaluates no clear vector")


def _limbs(prepared: Any) -> int:
    """Limbs of the ciphertexts in a (nested) list, each object once."""
    found: dict[int, Ct] = {}
    waiting = [prepared]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Ct):
            found[id(item)] = item
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)
    return sum(ct.components * ct.limbs for ct in found.values())
