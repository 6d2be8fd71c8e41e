"""Values in slots that are refreshed, ciphertext by ciphertext."""

from __future__ import annotations

import math
from dataclasses import replace

from cipherblas.forms.form import SlotForm
from cipherblas.lang.nodes import Expression
from cipherblas.lang.refreshing import REFRESH
from cipherblas.methods.bootstrapping.refresh import bootstrapping_of
from cipherblas.runtime.blocks import BLOCKS, BlockRun, Wish, in_place
from cipherblas.runtime.executor import computes
from cipherblas.runtime.slots import SlotRun
from cipherblas.runtime.tensors import TENSORS, TensorRun
from cipherblas.runtime.values import Value


@computes(BLOCKS, REFRESH)
def of_blocks(run: BlockRun, node: Expression, wish: Wish | None) -> Value:
    """Where the entries lie: real parts alone are kept, so that no imaginary parts are left.

    What is promised of entries holds for slots where no slot holds anything else.
    """
    x = run.value(node.children[0])
    layout = in_place(x.layout)
    if layout is None:
        x = run.relaid(x, run.dense(node), node.bound)
        layout = x.layout
    real = replace(run.ready(x), form=SlotForm(layout, x.slots.grid))  # as it is in a moment
    return _refreshed(run, run.bounded(real, node.bound), node.bound)


@computes(TENSORS, REFRESH)
def of_a_tensor(run: TensorRun, node: Expression, wish: None) -> Value:
    """Every ciphertext."""
    return _refreshed(run, run.ready(run.value(node.children[0])), node.bound)


def _refreshed(run: SlotRun, x: Value, bound: float) -> Value:
    """In units of the bound, so that slots are up to 1: units are powers of others after some steps, and a refresh
    takes any scale."""
    method, factor = bootstrapping_of(run.ev.params), abs(x.unit) / bound
    found = run.mapped("refresh", x, lambda ev, ct: method.run(ev, ev.absorb(ct, factor)))
    return replace(found, unit=math.copysign(bound, x.unit))
