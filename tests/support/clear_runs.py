"""Programs on the `Clear` evaluator, with no keys but those that their trace on `Symbolic` declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.shared import Shared
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.blocks import block_of
from cipherblas.forms.slot_forms import SlotForm
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.methods.matvec_conv.metakernel import Pattern
from cipherblas.planner.predict.dry_run import DryRun, dry_run
from cipherblas.planner.search.tensors import GreedyMethods, LayerCost
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.executor import Executor
from cipherblas.runtime.inputs import Inputs
from cipherblas.runtime.values import Decisions, Input, MethodChoice

Matrix = NDArray[np.float64]


class ClearInputs(Inputs):
    """Operands for `Clear`: packed slots, checked against the bound that the executor was told."""

    def __init__(self, values: Mapping[str, Matrix]) -> None:
        super().__init__(values)
        self._operands = values

    def secret(self, wanted: Input, bound: float, evaluators: Evaluators) -> list[list[list[Any]]]:
        source = self._operands[wanted.name]
        for step in wanted.steps:
            source = step(source)
        source = (source.T if wanted.transposed else source).reshape(wanted.shape)
        form = wanted.form
        assert isinstance(form, SlotForm)

        def block(i: int, j: int) -> list[Any]:
            cell = block_of(source, form.layout.rows, form.layout.cols, i, j) / wanted.unit
            vectors = form.layout.pack(cell)
            assert max(np.abs(vector).max() for vector in vectors) <= bound * (1 + 1e-9)
            return [
                evaluators.slots.fresh(vector, bound=bound, limbs=wanted.limbs, scale=wanted.scale)
                for vector in vectors
            ]

        return [[block(i, j) for j in range(form.grid[1])] for i in range(form.grid[0])]


def evaluators_of(
    slots: Evaluator | None = None,
    rows: RowsEvaluator | None = None,
    shared: Callable[[int], Shared] | None = None,
) -> Evaluators:
    """Those of a run that needs one of the first two of them."""

    def given(evaluator: Any) -> Any:
        assert evaluator is not None
        return evaluator

    return Evaluators(lambda: given(slots), lambda: given(rows), make_shared=shared)


def numbered(expression: Expression, choices: Sequence[MethodChoice]) -> dict[int, MethodChoice]:
    """Choices for the products of a program in their order, by the numbers of their nodes."""
    nodes = [number for number, node in enumerate(ordered(expression)) if node.product and node.secret]
    return dict(zip(nodes, choices, strict=True))


class BoundedClear(Clear):
    """`Clear` that checks what the executor says about bounds: a slot beyond its bound could wrap around."""

    def bounded(self, ct: Ct, bound: float) -> Ct:
        assert np.abs(ct.data).max() <= bound * (1 + 1e-9)
        return super().bounded(ct, bound)


@dataclass(frozen=True)
class ClearRun:
    """One run on the `Clear` evaluator, and the dry run that declared its keys."""

    result: Matrix
    trace: DryRun
    counts: Counts


def in_clear(
    ring: RingShape,
    expression: Expression,
    values: Mapping[str, Matrix],
    choices: Sequence[MethodChoice],
    blocks: Mapping[str, int],
    key_policy: Any,
) -> ClearRun:
    """A dry run, then one on `Clear` with nothing but the keys that it declared."""
    decisions = Decisions("blocks", numbered(expression, choices), blocks, key_policy)
    traced = dry_run(ring, expression, decisions)
    clear = BoundedClear(ring, key_policy=key_policy, available=traced.keys)
    value = Executor(evaluators_of(clear), expression, decisions, ClearInputs(values)).run()
    for ct in value.handles:
        assert np.abs(ct.data).max() <= ct.bound * (1 + 1e-9)
    vectors = [ct.data for ct in value.handles]
    return ClearRun(value.slots.joined(vectors, value.shape) * value.unit, traced, clear.counts)


class Rotations:
    """The price of a layer is its number of rotations: the decisions do not depend on the machine."""

    def layer(self, pattern: Pattern, taps: int, inputs: int, outputs: int) -> float:
        return pattern.rotations(taps, inputs, outputs) + 0.1 * pattern.plaintexts(taps, inputs, outputs)

    def steps(self, babies: int, giants: int, plaintexts: int) -> float:
        return babies + giants + 0.1 * plaintexts


def network_in_clear(
    ring: RingShape,
    expression: Expression,
    values: Mapping[str, Matrix],
    prices: LayerCost,
    key_policy: Any,
    allowed: float = 1e-9,
) -> ClearRun:
    """As `in_clear` for a network, by the planner's decisions at these prices; zeros are off by what is allowed, over
    the bound."""
    chooser = GreedyMethods(expression, ring.n // 2, prices)
    traced = dry_run(ring, expression, Decisions("tensors", key_policy=key_policy), choose=chooser)
    clear = Clear(ring, key_policy=key_policy, available=traced.keys)
    decisions = Decisions("tensors", traced.choices, key_policy=key_policy)
    value = Executor(evaluators_of(clear), expression, decisions, ClearInputs(values)).run()
    tensor = value.tensor
    assert tensor is not None
    assert tensor.ciphertexts == len(value.handles)
    for number, ct in enumerate(value.handles):
        assert np.abs(ct.data).max() <= ct.bound * (1 + allowed)
        if tensor.zero_padded:
            empty = tensor.vector(number, np.ones(expression.shape).ravel()) == 0
            assert np.abs(ct.data[empty]).max(initial=0) <= allowed * ct.bound
    found = value.slots.joined([ct.data for ct in value.handles], expression.shape) * value.unit
    return ClearRun(found.real, traced, clear.counts)
