"""Values in slots that are refreshed, ciphertext by ciphertext."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from cipherblas.common.errors import UnsuitedError
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.lang.nodes import Expression
from cipherblas.lang.refreshing import REFRESH, SINE, Refresh, RefreshedSine
from cipherblas.methods.bootstrapping.refresh import (
    REFRESH_BATCH,
    SHARED_BATCH,
    Bootstrapping,
    bootstrapping_of,
    largest_message,
)
from cipherblas.runtime import schedule
from cipherblas.runtime.blocks import BLOCKS, BlockRun, RequiredBlocks, in_place
from cipherblas.runtime.executor import Steps, computes
from cipherblas.runtime.graphs import blockwise_graph
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.slots import SlotRun
from cipherblas.runtime.tensors import TENSORS, TensorRun
from cipherblas.runtime.values import Cells, Handles, Value, handles_of

# Of messages, over those that slots to coefficients take: larger ones are divided by the diagonals, whose errors add up
# over all slots that hold nothing.
LARGE = 16.0


class RefreshGroups(NamedTuple):
    """The ciphertexts of a value that are refreshed at one time: groups that share their a part, where that was decided
    and ciphertexts are full; of the others `REFRESH_BATCH` together.

    Attributes:
        sharing: ciphertexts in groups that share their a part.
        shared: groups of one size among these, and the size; the others are a smaller group.
        together: groups of `REFRESH_BATCH`.
        rest: ciphertexts that are left.
    """

    sharing: int
    shared: tuple[int, int]
    together: int
    rest: int

    @classmethod
    def of(cls, number: int, pairs: int) -> RefreshGroups:
        """The groups of so many ciphertexts.

        Args:
            pairs: that share their a part; 0 where none do.
        """
        sharing, size = number // 2 * 2 if pairs else 0, 2 * pairs * SHARED_BATCH
        equal = sharing // size if pairs else 0
        return cls(sharing, (equal, size), *divmod(number - sharing, REFRESH_BATCH))

    def __str__(self) -> str:
        equal, size = self.shared
        sizes = [size] * equal + [self.sharing - size * equal]
        sizes = [*filter(None, [*sizes, *[REFRESH_BATCH] * self.together, self.rest])]
        kinds = dict.fromkeys(sizes)  # in their order
        text = ", ".join(f"{sizes.count(one)} of {one}" for one in kinds)
        return "" if len(sizes) < 2 and not self.sharing else f" in groups: {text}"


@computes(BLOCKS, REFRESH)
def of_blocks(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Steps[Value]:
    """Where the entries lie. What imaginary parts hold beside them is removed first, at the limbs that are read: of two
    ciphertexts one is the imaginary part of the other.

    What is promised of entries holds for slots where no slot holds anything else. A value by rows is refreshed where it
    becomes blocks.
    """
    child = node.children[0]
    x = yield from run.read(child)
    if not child.packable and run.run.form_of(child) != run.name:
        return x
    layout = in_place(x.layout)
    if layout is None:
        layout = run.dense(node)
        x = run.relaid(x, layout, child.bound)
    x = run.rescaled(x)
    method = _method(run, node, x, *layout.active_slots)
    x = run.lowered_to(x, method.limbs_before)
    return _refreshed(run, run.bounded(run.relaid(x, layout, child.bound), child.bound), node, method)


@computes(TENSORS, REFRESH, SINE)
def of_a_tensor(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """Every ciphertext, where the entries lie. Slots that hold more than the bound would hold anything afterwards."""
    (child,) = node.children
    x = run.rescaled(run.within((yield from run.read(child)), child))
    return _refreshed(run, x, node, _method(run, node, x, *x.layout.active_slots))


def _method(run: SlotRun, node: Expression, x: Value, held: int, repeated: bool) -> Bootstrapping:
    """How the ciphertexts of a node are refreshed: where messages are so large that few slots would lose precision, all
    slots.

    Args:
        x: ready for products.
        held: slots that hold something; see `Bootstrapping.packed`.
    """
    whole = bootstrapping_of(run.ev.params)
    if isinstance(node, RefreshedSine) and whole.sine:
        whole = whole.of_period(node.period)
    few = whole.packed(held, repeated)
    ct = x.first()
    large = not (few.left or few.sine) and ct.bound * ct.scale > LARGE * few.largest(run.ev)
    return whole if large or _twice(node) else few


def _twice(node: Expression) -> bool:
    """Whether a refresh has two rounds."""
    return isinstance(node, Refresh) and node.rounds > 1


def _refreshed(run: SlotRun, x: Value, node: Expression, method: Bootstrapping) -> Value:
    """In units of the bound, or of the reach of a sine, so that slots are up to 1: units are powers of others after
    some steps, and a refresh takes any scale.

    Args:
        x: of real slots.
    """
    sine, twice = isinstance(node, RefreshedSine), _twice(node)
    if sine != method.sine:
        raise UnsuitedError(
            "The ring is not made for these refreshes.", expected="primes of their own", got=node.title
        )
    bound = node.reach if isinstance(node, RefreshedSine) else node.bound
    factor, sharing = abs(x.unit) / bound, run.run.decisions.sharing
    number, largest = len(x.handles), factor * largest_message(run.ev, x.handles)
    full = not (method.held or twice or method.raised_first)
    run.run.refreshes_in_one_batch(number if full else 0)
    pairs = sharing if full else 0
    groups = RefreshGroups.of(number, pairs)

    def refreshed(ev: Evaluator, cts: Handles) -> Handles:
        cts = [ev.fold_into_scale(ct, factor) for ct in cts]
        if twice:
            return method.refresh_twice(ev, cts, largest=largest)
        return method.run_all(ev, cts, largest=largest)

    def shared(evaluators: Evaluators, cts: Handles) -> Handles:
        ev, together = evaluators.slots, evaluators.shared(pairs)

        def group(start: int, stop: int) -> Handles:
            return method.run_shared(ev, together, [ev.fold_into_scale(ct, factor) for ct in cts[start:stop]])

        (equal, size), found = groups.shared, Handles()
        for one in ev.repeat(equal, lambda index: group(size * index, size * (index + 1)), beside=together):
            found += one
        return found + (group(size * equal, len(cts)) if len(cts) > size * equal else [])

    def work(context: RunContext, cells: Cells) -> list[list[Handles]]:
        cts = handles_of(cells)
        found = shared(context.evaluators, cts[: groups.sharing]) if groups.sharing else []
        cts = cts[groups.sharing :]
        end = groups.together * REFRESH_BATCH
        blocks = [cts[start : start + REFRESH_BATCH] for start in range(0, end, REFRESH_BATCH)]
        for name, some in (("refresh together", blocks), ("refresh", [cts[end:]] if groups.rest else [])):
            if some:
                graph = blockwise_graph(name, refreshed, (1, len(some)))
                (((*made,),),) = schedule.run(graph, context.slots, [[some]])
                found += [ct for block in made for ct in block]
        each = iter(found)
        return [[[next(each) for _ in cell] for cell in row] for row in cells]

    cells = run.run.perform(f"refresh{groups}", [x.cells], work)
    return replace(x, cells=cells, unit=math.copysign(1.0 if sine else bound, x.unit))
