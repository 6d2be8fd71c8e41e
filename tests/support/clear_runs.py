"""Programs on the `Clear` evaluator, with no keys but those that their trace on `Counter` declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.blocks import block_of, join
from cipherblas.lang.analysis import evaluate_clear
from cipherblas.lang.nodes import Expression
from cipherblas.planner.layers import Chooser, LayerCost, Recorded, trace_layers
from cipherblas.planner.trace import PlainFeeds, Trace, trace
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.execution import Execution
from cipherblas.runtime.layer_execution import LayerExecution
from cipherblas.runtime.slot_arithmetic import Choice, FeedSpec

Matrix = NDArray[np.float64]


class ClearFeeds(PlainFeeds):
    """Operands for `Clear`: packed slots, checked against the bound that the executor was told."""

    def __init__(self, evaluator: Clear, values: Mapping[str, Matrix]) -> None:
        super().__init__(lambda node: evaluate_clear(node, values))
        self._evaluator, self._operands = evaluator, values

    def secret(self, spec: FeedSpec, bound: float) -> list[list[list[Any]]]:
        source = self._operands[spec.name].T if spec.transposed else self._operands[spec.name]
        if source.ndim != 2:  # a tensor in slots is packed as a column
            source = source.reshape(-1, 1)

        def block(i: int, j: int) -> list[Any]:
            cell = block_of(source, spec.layout.rows, spec.layout.cols, i, j) / spec.unit
            vectors = spec.layout.pack(cell)
            assert max(np.abs(vector).max() for vector in vectors) <= bound * (1 + 1e-9)
            return [
                self._evaluator.fresh(vector, bound=bound, limbs=spec.limbs, scale=spec.scale)
                for vector in vectors
            ]

        return [[block(i, j) for j in range(spec.grid[1])] for i in range(spec.grid[0])]


class BoundedClear(Clear):
    """`Clear` that checks what the executor says about bounds: a slot beyond its bound could wrap around."""

    def bounded(self, ct: Ct, bound: float) -> Ct:
        assert np.abs(ct.data).max() <= bound * (1 + 1e-9)
        return super().bounded(ct, bound)


@dataclass(frozen=True)
class ClearRun:
    """One run on the `Clear` evaluator, and the trace that declared its keys."""

    result: Matrix
    trace: Trace
    counts: Counts


def in_clear(
    ring: RingShape,
    expression: Expression,
    values: Mapping[str, Matrix],
    choices: Sequence[Choice],
    blocks: Mapping[str, int],
    key_policy: Any,
) -> ClearRun:
    """Trace on the `Counter`, then compute on `Clear` with nothing but the keys that the trace declared."""
    traced = trace(ring, expression, choices, blocks, key_policy)
    clear = BoundedClear(ring, key_policy=key_policy, available=traced.keys)
    value = Execution(clear, expression, choices, blocks, ClearFeeds(clear, values)).run()
    for cell in (cell for row in value.cells for cell in row):
        for ct in cell:
            assert np.abs(ct.data).max() <= ct.bound * (1 + 1e-9)
    cells = [
        [value.layout.unpack([ct.data for ct in cell]) * value.unit for cell in row] for row in value.cells
    ]
    return ClearRun(join(cells, *value.shape), traced, clear.counts)


def network_in_clear(
    ring: RingShape, expression: Expression, values: Mapping[str, Matrix], prices: LayerCost, key_policy: Any
) -> ClearRun:
    """As `in_clear` for a network, by the planner's decisions at these prices."""
    chooser = Chooser(expression, ring.n // 2, prices)
    traced = trace_layers(ring, expression, chooser, key_policy)
    clear = Clear(ring, key_policy=key_policy, available=traced.keys)
    decide = Recorded(chooser.choices)
    value = LayerExecution(clear, expression, decide, ClearFeeds(clear, values)).run()
    assert value.tensor.ciphertexts == len(value.cts)
    for number, ct in enumerate(value.cts):
        assert np.abs(ct.data).max() <= ct.bound * (1 + 1e-9)
        if value.tensor.clean:
            empty = value.tensor.vector(number, np.ones(expression.shape).ravel()) == 0
            assert np.abs(ct.data[empty]).max(initial=0) <= 1e-9 * ct.bound
    result = value.layout.unpack([ct.data for ct in value.cts]).reshape(expression.shape) * value.unit
    return ClearRun(result.real, traced, clear.counts)
