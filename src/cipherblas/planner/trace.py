"""Running a program through the `Counter`: the feeds it asks for, its counts, keys, memory and error."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import CipherblasError
from cipherblas.common.limits import MASK_BYTES
from cipherblas.crypto.keys import KeyRequest
from cipherblas.evaluators.slots.bookkeeping import T, Term
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.symbolic import Counter
from cipherblas.evaluators.slots.values import Ct, Plain
from cipherblas.forms.blocks import block_of
from cipherblas.forms.layouts import Layout
from cipherblas.lang.analysis import is_constant
from cipherblas.lang.graph import content_digest
from cipherblas.lang.nodes import Expression
from cipherblas.planner.plan import LayerFigures
from cipherblas.planner.truncation import truncation_error
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.noise import TRANSFORM_ERROR, tail
from cipherblas.rlwe.rings import Ring
from cipherblas.runtime.execution import Execution
from cipherblas.runtime.slot_arithmetic import BlockedValue, Choice, FeedSpec


@dataclass(frozen=True)
class Trace:
    """What one symbolic run of a program found.

    Attributes:
        feeds: what the client must send, in the order of first use.
        result: the blocks of the result; its handles carry limbs, scale, bound and noise.
        counts: operations of the whole run.
        keys: switching keys that the run asks for.
        working_bytes: peak of ciphertexts, encoded plaintexts and workspaces that are alive together, what is kept for
            later runs included, and all operands, whose seeds are expanded before and which stay until the end.
        layers: of a network, one by one.
        truncation: what terms that are left out add to the error.
    """

    feeds: tuple[FeedSpec, ...]
    result: BlockedValue
    counts: Counts
    keys: KeyRequest
    working_bytes: int
    layers: tuple[LayerFigures, ...] = ()
    truncation: float = 0.0

    @property
    def ciphertexts(self) -> list[Ct]:
        """Those of the result."""
        return [ct for row in self.result.cells for cell in row for ct in cell]

    @property
    def error(self) -> float:
        """Predicted largest error of an entry of the result."""
        different = {id(ct): ct for ct in self.ciphertexts}  # of many blocks one, which stands for all
        error = result_error(list(different.values()), math.prod(self.result.shape))
        return error * abs(self.result.unit) + self.truncation


def result_error(cts: Sequence[Ct], entries: int) -> float:
    """Bound on the errors of so many slots of a result, all of them but for a chance of 2^-FAILURE_BITS."""
    noise, bound = max(ct.noise for ct in cts), max(ct.bound for ct in cts)
    return tail(entries) * noise + TRANSFORM_ERROR * bound


class PlainFeeds:
    """Parts of a program without secrets, packed block by block when they are needed.

    `values` evaluates such a part; it is called once for each.
    """

    def __init__(self, values: Callable[[Expression], NDArray[np.float64]]) -> None:
        self._values = values
        self._run = object()  # in the keys of values that change from run to run
        self._found: dict[int, tuple[Expression, NDArray[np.float64]]] = {}
        self._constants: dict[int, str] = {}

    def values(self, node: Expression) -> NDArray[np.float64]:
        """The values of a part without secrets."""
        if id(node) not in self._found:
            self._found[id(node)] = (node, self._values(node))
        return self._found[id(node)][1]

    def public(self, node: Expression, layout: Layout, grid: tuple[int, int]) -> list[list[list[Plain]]]:
        """One list of `Plain`s per block, each as long as the layout has ciphertexts, in units of the bound."""
        constant = is_constant(node)
        name = ("constant", self._content(node)) if constant else ("clear", self._run, id(node))
        bound = layout.slot_bound(1.0)

        def block(i: int, j: int) -> list[Plain]:
            def vector(index: int) -> NDArray[np.complex128]:
                cell = block_of(self.values(node), layout.rows, layout.cols, i, j)
                return layout.pack_one(cell / node.bound, index)

            return [
                Plain(
                    (name, layout.key, i, j, index),
                    functools.partial(vector, index),
                    bound,
                    constant=constant,
                )
                for index in range(layout.ciphertexts)
            ]

        return [[block(i, j) for j in range(grid[1])] for i in range(grid[0])]

    def _content(self, node: Expression) -> str:
        """What identifies the values of a part without operands, in any run."""
        if id(node) not in self._constants:
            self._constants[id(node)] = content_digest(node)
        return self._constants[id(node)]


class RecordingFeeds(PlainFeeds):
    """Feeds for a symbolic run: records every request and answers with handles without data."""

    def __init__(self, evaluator: Evaluator) -> None:
        super().__init__(lambda node: np.zeros(node.shape))
        self._evaluator = evaluator
        self.specs: dict[Any, FeedSpec] = {}

    def secret(self, spec: FeedSpec, bound: float) -> list[list[list[Any]]]:
        """Fresh handles, one list per block."""
        self.specs.setdefault(spec.key(), spec)
        ev, (rows, cols) = self._evaluator, spec.grid

        def block() -> list[Any]:
            return [
                ev.fresh(None, bound=bound, limbs=spec.limbs, scale=spec.scale, public_key=spec.public_key)
                for _ in range(spec.layout.ciphertexts)
            ]

        return ev.each(rows, lambda _: ev.each(cols, lambda _: block()))

    def public(self, node: Expression, layout: Layout, grid: tuple[int, int]) -> list[list[list[Plain]]]:
        """The first block, which stands for all."""
        rows, cols = grid
        (first,) = super().public(node, layout, (1, 1))[0]
        for plain in first:
            plain.blocks = rows * cols
        return [[first] * cols] * rows


class TooSlowError(CipherblasError):
    """A candidate is not worth counting to its end."""


class _LimitedCounter(Counter):
    """Stops where the transforms alone, those of all blocks of the loops that are being counted, exceed a limit."""

    max_ntt_limbs = math.inf
    _before = 0  # transforms that were counted before the block that is now

    def _counted(self, number: int, work: Callable[[], T]) -> T:
        before, self._before = self._before, self._transforms
        result = super()._counted(number, work)
        self._before = before
        self._check_limit()
        return result

    def _transform_data(
        self,
        sources: Sequence[Any],
        terms: Sequence[Term],
        outputs: int,
        limbs: int,
        rescale: bool,
        order: str | None,
    ) -> list[Any]:
        self._check_limit()
        return super()._transform_data(sources, terms, outputs, limbs, rescale, order)

    def _plain_product_data(
        self, plains: Sequence[Plain], scale: float, cts: Sequence[Any], accumulator: Any, limbs: int
    ) -> Any:
        self._check_limit()
        return super()._plain_product_data(plains, scale, cts, accumulator, limbs)

    @property
    def _transforms(self) -> int:
        return self.counts.ntt_limbs + self.counts.encode_ntt_limbs

    def _check_limit(self) -> None:
        done = self._transforms
        if done + (self._repeats - 1) * (done - self._before) > self.max_ntt_limbs:
            raise TooSlowError("the program transforms more limbs than it may", expected=self.max_ntt_limbs)


def trace(
    ring: Ring,
    expression: Expression,
    choices: Sequence[Choice],
    blocks: Mapping[str, int],
    key_policy: KeyPolicy = "direct",
    max_ntt_limbs: float = math.inf,
    mask_budget: int = MASK_BYTES,
) -> Trace:
    """Run `expression` symbolically; encoded masks and constants of up to `mask_budget` bytes are kept in memory.

    Raises:
        TooSlowError: it transforms more than `max_ntt_limbs` limbs.
        LevelError: the program spends more limbs than the ring has.
        ShapeError: a block does not fit its algorithm.
    """
    counter = _LimitedCounter(ring, key_policy=key_policy, mask_budget=mask_budget)
    counter.max_ntt_limbs = max_ntt_limbs
    feeds = RecordingFeeds(counter)
    result = Execution(counter, expression, choices, blocks, feeds).run()
    return Trace(
        feeds=tuple(feeds.specs.values()),
        result=result,
        counts=counter.counts.copy(),
        keys=counter.request,
        working_bytes=counter.peak_bytes + expanded_bytes(feeds.specs.values(), ring.n),
        truncation=truncation_error(expression),
    )


def expanded_bytes(specs: Iterable[FeedSpec], n: int) -> int:
    """Bytes of all operands with their seeds expanded."""
    return sum(spec.expanded_bytes(n) for spec in specs)
