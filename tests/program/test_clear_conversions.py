"""Clear operands of every type are converted once per run, gone through as a whole no more often than once, and what
encoding them takes is among a plan's seconds and a run's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.evaluators.slots.encoder import PlainEncoder
from cipherblas.evaluators.slots.values import Plain
from cipherblas.roles import given
from tests.support.runs import Parties, toy, values_of
from tests.support.watched import Tally, conversions_counted, watch

DTYPES = ("float64", "float32", "float16", "int8", "int16", "int32")
SIDE = 128  # a clear matrix has eight times as many entries as a ciphertext of the toy ring has slots
CHECKED = 2  # passes when a server takes an operand: whether it is within its bound
ROUNDED = 2  # to become integers, by which a GEMM multiplies
ADDED = 9  # to become the residues of two limbs, which are added; float64 on the way
# Of each form the operations that read a clear operand, with how many of its uses want all entries at once.
OPERATIONS: dict[str, dict[str, tuple[Callable[..., Any], int]]] = {
    "blocks": {
        "product": (lambda w, v: w @ v, 0),
        "product, right": (lambda w, v: v.T @ w, 0),
        "transposed": (lambda w, v: w.T @ v, 0),
        "some rows": (lambda w, v: w[:96] @ v, 0),
        "chosen rows": (lambda w, v: w[[0, *range(SIDE - 1)]] @ v, 1),
        "in place": (lambda w, x: (x * x)[:2] @ w, 0),
        "sum": (lambda w, x: x + w, 0),
        "difference": (lambda w, x: w.T - x, 0),
        "entrywise": (lambda w, x: x * w, 0),
        "twice": (lambda w, v: w @ (w @ v), 0),
    },
    "rows": {
        "product": (lambda w, x: w @ x, ROUNDED),
        "product, right": (lambda w, x: x @ w, ROUNDED),
        "transposed": (lambda w, x: w.T @ x, ROUNDED),
        "two pieces": (lambda w, y: w @ y, ROUNDED),
        "sum": (lambda w, x: w @ x + w, ROUNDED + ADDED),
    },
    "tensors": {
        "product": (lambda w, v: w @ v, 0),
        "transposed": (lambda w, v: w.T @ v, 1),
        "both": (lambda w, v: w @ v + w.T @ v, 1),
        "sum": (lambda w, x: x + w, 0),
        "entrywise": (lambda w, x: x * w, 0),
        "convolution": (lambda f, i: cb.conv2d(i, f), 0),
    },
}


def passes(parties: Parties, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Tally:
    """What a run does to whole clear operands, once it has checked them."""
    checked = given.narrow_array
    name = next(name for name, operand in parties.program.operands.items() if not operand.secret)
    tally = Tally(values[name].size // 2)
    monkeypatch.setattr(given, "narrow_array", lambda *arguments: watch(checked(*arguments), tally))
    with conversions_counted():
        found = parties.run(values)
    found.within()
    return tally


@pytest.mark.parametrize(
    ("form", "name"), [(form, name) for form, some in OPERATIONS.items() for name in some]
)
def test_passes_over_clear_operands(form: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed."""
    function, most = OPERATIONS[form][name]
    declared = {
        "w": cb.public(SIDE, SIDE, bound=100),
        "x": cb.secret(SIDE, SIDE),
        "v": cb.secret(SIDE, 1) if form == "blocks" else cb.secret(SIDE),
        "y": cb.secret(SIDE, 5000),
        "f": cb.public(32, 32, 3, 3, bound=100),
        "i": cb.secret(32, 8, 8),
    }
    wanted = inspect.signature(function).parameters
    operands = {name: operand for name, operand in declared.items() if name in wanted}
    program = toy(function, **operands, form=form, error=10.0)
    parties, values = Parties(program), values_of(program)
    clear = "f" if "f" in wanted else "w"
    found = {}
    for dtype in DTYPES:
        values[clear] = np.trunc(values[clear]).astype(dtype)
        with monkeypatch.context() as patched:
            found[dtype] = passes(parties, values, patched)
    wide = found["float64"]
    assert wide.passes <= CHECKED + most
    for tally in found.values():
        assert tally.conversions <= 1
        assert tally.passes <= wide.passes + tally.conversions

    embedded: list[int] = []  # of the last run, which finds masks encoded
    embed = PlainEncoder._embedded

    def counted(self: PlainEncoder, plains: Sequence[Plain], scale: float) -> Any:
        embedded.append(len(plains))
        return embed(self, plains, scale)

    monkeypatch.setattr(PlainEncoder, "_embedded", counted)
    parties.run(values)
    assert sum(embedded) == program.plan.counts.operand_encodings  # all of which `expected time` holds
    assert (form == "rows") == (not embedded)
    server = parties.server
    assert (
        not server.last.encoding_seconds
        and sum(one.seconds for one in server.last.node_seconds) <= server.last.seconds
    )
