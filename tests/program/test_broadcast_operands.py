"""Operands that are broadcast: equal blocks are one ciphertext, which is encrypted, sent and kept once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.distributed.in_process import run_ranks
from cipherblas.forms.blocks import block_of
from cipherblas.forms.slot_forms import SlotForm, TensorForm
from cipherblas.rlwe.noise import NoiseModel, tail
from tests.support.runs import Parties, run_by_files, toy, values_of

W = np.random.default_rng(3).uniform(-1, 1, (200, 96))
T = np.random.default_rng(4).uniform(-1, 1, (12, 20, 20))
PUBLIC: Any = {"encryption": "public-key"}
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "number": (lambda s: s * W, {"s": cb.secret(1, 1)}, "blocks"),
    "row": (lambda x: W * x, {"x": cb.secret(1, 96)}, "blocks"),
    "column": (lambda x: W - x, {"x": cb.secret(200, 1)}, "blocks"),
    "both": (lambda x, y: x * y, {"x": cb.secret(200, 1), "y": cb.secret(1, 96)}, "blocks"),
    "public key": (lambda x: W * x, {"x": cb.secret(1, 96, **PUBLIC)}, "blocks"),
    "row in a square": (lambda x: (W - x) * (W - x), {"x": cb.secret(1, 96)}, "blocks"),
    "transposed": (lambda x: (x[:, None] + W.T).T, {"x": cb.secret(96)}, "blocks"),
    "polynomial": (lambda x: cb.polynomial(x + W / 4, [0, 1, 0.5, 1]), {"x": cb.secret(1, 96)}, "blocks"),
    "vector": (lambda s: cb.broadcast_to(s, (5000,)) * 2.0, {"s": cb.secret(1)}, "tensors"),
    "channels": (lambda x: x[None] * T, {"x": cb.secret(20, 20)}, "tensors"),
    "rows of channels": (lambda x: cb.broadcast_to(x[:, :1], T.shape) * T, {"x": cb.secret(12, 20, 20)}, "tensors"),
    "sums across": (lambda x: (W - x) @ np.ones((96, 1)), {"x": cb.secret(1, 96)}, "blocks"),
    "sums along": (lambda x: np.ones((1, 200)) @ (W - x), {"x": cb.secret(1, 96)}, "blocks"),
    "factor": (lambda x, b: (W * x) @ b, {"x": cb.secret(1, 96), "b": cb.secret(96, 2)}, "blocks"),
    "factor that is repeated": (
        lambda x, b: cb.broadcast_to(x, (200, 96)) @ b, {"x": cb.secret(1, 96), "b": cb.secret(96, 2)}, "blocks",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> cb.Program:
    function, operands, form = PROGRAMS[request.param]
    return toy(function, **operands, form=form, error=1e-2)


def packed(wanted: Any, values: Any) -> list[bytes]:
    """The slots of every block of a use of an operand; of a tensor, of every ciphertext."""
    for step in wanted.steps:
        values = step(values)
    matrix = (values.T if wanted.transposed else values).reshape(wanted.shape)
    layout, (rows, cols) = wanted.form.layout, wanted.form.grid
    blocks = (block_of(matrix, layout.rows, layout.cols, i, j) for i in range(rows) for j in range(cols))
    vectors = [[vector.tobytes() for vector in layout.pack(block)] for block in blocks]
    return vectors[0] if isinstance(wanted.form, TensorForm) else [b"".join(block) for block in vectors]


def test_equal_blocks_are_sent_once(program: cb.Program) -> None:
    """As many ciphertexts as differ, and bytes as planned; the result is NumPy's within what is promised."""
    values = values_of(program)
    for name in program.operands:
        for wanted in program.inputs_of(name):
            found, form = packed(wanted, values[name]), wanted.form
            each = len(form.numbers) // len(found)
            assert form.ciphertexts == len(set(form.numbers)) == each * len(set(found))
            assert [number // each for number in form.numbers[::each]] == [
                list(dict.fromkeys(found)).index(one) for one in found
            ]
    Parties(program).run(values).check()


@pytest.mark.parametrize("name", ["both", "public key", "channels"])
def test_by_files(name: str, tmp_path: Path) -> None:
    function, operands, form = PROGRAMS[name]
    program = toy(function, **operands, form=form, error=1e-2)
    run_by_files(program, values_of(program), tmp_path).check()


@pytest.mark.parametrize("name", ["factor", "sums along"])
def test_on_ranks(name: str) -> None:
    function, operands, form = PROGRAMS[name]
    program = toy(function, **operands, form=form, error=1e-2)
    client = program.client()
    keys, inputs = client.evaluation_keys(), client.encrypt(values_of(program))
    alone = program.server(keys).run(inputs)
    found = run_ranks(3, lambda one: program.server(keys, communicator=one).run(inputs))
    assert found[0].digest == alone.digest


def test_errors_of_one_ciphertext_add_up_where_its_copies_do() -> None:
    """The blocks of x along the inner axis are one ciphertext: an entry of the product has 128 times the errors of 16
    slots of it."""
    ones, x = np.ones((2048, 1)), cb.secret(16, 1)
    program = toy(lambda x: cb.broadcast_to(x, (16, 2048)) @ ones, x=x, form="blocks", block=16, error=10.0)
    (wanted,) = program.inputs_of("x")
    assert isinstance(wanted.form, SlotForm)
    assert wanted.form.grid == (1, 128) and wanted.form.ciphertexts == wanted.form.layout.ciphertexts
    fresh = NoiseModel(program.plan.parameters).fresh(wanted.scale)
    assert program.plan.error >= 128 * 16**0.5 * tail(16) * fresh
    Parties(program).run(values_of(program)).check()


@pytest.mark.parametrize(
    ("length", "block", "equal"), [(100, 10, 10), (101, 10, 10), (9, 10, 1), (19, 10, 1)]
)
def test_padded_blocks_are_others(length: int, block: int, equal: int) -> None:
    program = toy(lambda s: s * np.ones((length, 4)), s=cb.secret(), form="blocks", block=block, error=1e-3)
    (wanted,) = program.inputs_of("s")
    assert wanted.form.equal[0] == (equal if wanted.form.layout.rows == block else wanted.form.grid[0])
    Parties(program).run(values_of(program)).check()
