"""Running a program through the `Counter`: the feeds it asks for, its counts, keys, memory and error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.base import Evaluator
from cipherblas.evaluators.counter import Counter
from cipherblas.evaluators.counts import Counts
from cipherblas.evaluators.noise import TAIL
from cipherblas.evaluators.shape import Ring
from cipherblas.evaluators.values import Plain
from cipherblas.execution import BlockedValue, Choice, Execution, FeedSpec
from cipherblas.expressions import Constant, Expression, Leaf
from cipherblas.keys import KeyRequest
from cipherblas.layouts.base import Layout
from cipherblas.layouts.blocks import block_of


@dataclass(frozen=True)
class Trace:
    """What one symbolic run of a program found.

    Attributes:
        feeds: what the client must send, in the order of first use.
        result: the blocks of the result; its handles carry limbs, scale, bound and noise.
        counts: operations of the whole run.
        keys: switching keys that the run asks for.
        working_bytes: peak of ciphertexts, plaintexts and workspaces that are alive together.
    """

    feeds: tuple[FeedSpec, ...]
    result: BlockedValue
    counts: Counts
    keys: KeyRequest
    working_bytes: int

    @property
    def error(self) -> float:
        """Predicted largest error of an entry of the result."""
        return TAIL * max(ct.noise for row in self.result.cells for cell in row for ct in cell)


class PlainFeeds:
    """Clear operands, packed block by block when they are needed."""

    def __init__(self, values: Callable[[Leaf | Constant], NDArray[np.float64]]) -> None:
        self._values = values

    def public(self, leaf: Leaf | Constant, layout: Layout, grid: tuple[int, int]) -> list[list[list[Plain]]]:
        """One list of `Plain`s per block, each as long as the layout has ciphertexts."""

        def block(i: int, j: int) -> list[Plain]:
            packed: list[Any] = []

            def vector(index: int) -> NDArray[Any]:
                if not packed:
                    packed.extend(layout.pack(block_of(self._values(leaf), layout.rows, layout.cols, i, j)))
                return packed[index]

            name = (leaf.name, leaf.transposed) if isinstance(leaf, Leaf) else ("constant", id(leaf))
            return [
                Plain(
                    (name, layout.key, i, j, index),
                    lambda index=index: vector(index),
                    layout.slot_bound(leaf.bound),
                )
                for index in range(layout.ciphertexts)
            ]

        return [[block(i, j) for j in range(grid[1])] for i in range(grid[0])]


class RecordingFeeds(PlainFeeds):
    """Feeds for a symbolic run: records every request and answers with handles without data."""

    def __init__(self, evaluator: Evaluator) -> None:
        super().__init__(lambda leaf: np.zeros(leaf.shape))
        self._evaluator = evaluator
        self.specs: dict[Any, FeedSpec] = {}

    def secret(self, spec: FeedSpec, bound: float) -> list[list[list[Any]]]:
        """Fresh handles, one list per block."""
        self.specs.setdefault(spec.key(), spec)
        rows, cols = spec.grid
        slot_bound = spec.layout.slot_bound(bound)
        return [
            [
                [
                    self._evaluator.fresh(None, bound=slot_bound, limbs=spec.limbs, scale=spec.scale)
                    for _ in range(spec.layout.ciphertexts)
                ]
                for _ in range(cols)
            ]
            for _ in range(rows)
        ]


def trace(
    ring: Ring,
    expression: Expression,
    choices: Sequence[Choice],
    blocks: Mapping[str, int],
    key_policy: str = "direct",
) -> Trace:
    """Run `expression` symbolically.

    Raises:
        LevelError: the program spends more limbs than the ring has.
        ShapeError: a block does not fit its algorithm.
    """
    counter = Counter(ring, key_policy=key_policy)
    feeds = RecordingFeeds(counter)
    result = Execution(counter, expression, choices, blocks, feeds).run()
    return Trace(
        feeds=tuple(feeds.specs.values()),
        result=result,
        counts=counter.counts.copy(),
        keys=counter.request,
        working_bytes=counter.peak_bytes,
    )
