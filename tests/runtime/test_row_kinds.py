"""Kinds of products by rows: what each says of itself, and one more that is registered from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import ParameterError
from cipherblas.lang.analysis import trace
from cipherblas.lang.facts import products
from cipherblas.lang.nodes import Expression
from cipherblas.methods.products import GEMM, RING
from cipherblas.planner.predict.dry_run import dry_run
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.kind import FactorRequest, RingSearch, RowProduct, Size, Variant
from cipherblas.runtime.row_products.table import PLAIN, VARIANTS, plain
from cipherblas.runtime.rows import ROWS
from cipherblas.runtime.values import Decisions, Handles, MethodChoice, Value
from tests.support.runs import program_by_rows, run, run_by_files, values_of


class InHalves(Variant):
    """A product with a clear factor as the sum of two, of half as many terms each."""

    name, alone = "halves", True
    explained = ("clear factors", "in two halves")

    @classmethod
    def applies(cls, product: Expression, program: Expression) -> bool:
        clear = sum(child.secret for child in product.children) == 1
        return clear and product.children[0].shape[-1] > 1

    def compute(
        self, run: RowPieces, product: Expression, required: RequiredRows, request: FactorRequest
    ) -> Value:
        ((side, requested),) = request.requirements.items()
        x, inner, of_inputs = (
            run.value(product.children[side], requested),
            product.children[0].shape[-1],
            request.factor,
        )
        halves = (0, inner // 2), (inner // 2, inner)

        def multiplied(stage: RunContext, pieces: Handles) -> Handles:
            ev, factor = stage.rows, of_inputs(stage.inputs)
            return [
                ev.add(
                    *(ev.clear_product(factor.columns(*half), ev.rows_of(piece, *half)) for half in halves)
                )
                for piece in pieces
            ]

        cells = run.made("multiply", [x.cells], multiplied)
        return run.result(product.shape, required.by_columns, cells, x.unit)

    def sizes(self, search: RingSearch[Size]) -> Sequence[Size]:
        return search.without_keys()[:1]


@pytest.fixture
def in_halves(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """The options with which a program is planned of such products."""
    monkeypatch.setitem(VARIANTS, InHalves.name, InHalves)
    return {"fixed": False, "halves": True}


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "by rows": (lambda w, x: w @ x, {"w": cb.public(5, 7), "x": cb.secret(7, 3)}),
    "by columns": (lambda w, x: x @ w - 1, {"w": cb.public(7, 5), "x": cb.secret(3, 7)}),
    "in pieces": (lambda w, x: w @ x, {"w": cb.public(3, 4, dtype="int8"), "x": cb.secret(4, 300)}),
    "beside others": (
        lambda w, x, one: w @ (w @ x) + w @ one,
        {"w": cb.public(9, 9), "x": cb.secret(9, 2), "one": cb.secret(9, 2)},
    ),
}


@pytest.mark.encrypted
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kind_from_outside_is_planned_and_run(
    name: str, in_halves: dict[str, bool], tmp_path: Path
) -> None:
    function, operands = PROGRAMS[name]
    program = program_by_rows(function, operands, in_halves)
    assert all(choice.options["halves"] for choice in program.plan.choices)
    assert "in two halves" in program.explain()
    values = values_of(program)
    run(program, values).check()
    run_by_files(program, values, tmp_path).check()


def test_the_planner_compares_it_with_others(in_halves: dict[str, bool]) -> None:
    """It takes as many multiply-adds, and a sum more: the plan without it is faster."""
    function, operands = PROGRAMS["by rows"]
    without = program_by_rows(function, operands, {"fixed": False})
    assert not any(choice.options.get("halves") for choice in without.plan.choices)
    halves = program_by_rows(function, operands, in_halves).plan
    assert halves.counts.float_macs == without.plan.counts.float_macs
    assert halves.counts.adds == without.plan.counts.adds + 1


def test_its_programs_are_read_where_it_is_known(tmp_path: Path) -> None:
    function, operands = PROGRAMS["by rows"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(VARIANTS, InHalves.name, InHalves)
        program_by_rows(function, operands, {"fixed": False, "halves": True}).save(tmp_path / "program")
        cb.Program.load(tmp_path / "program", insecure=True)
    with pytest.raises(cb.FormatError, match="halves"):
        cb.Program.load(tmp_path / "program", insecure=True)


# --- those of the house ---

KINDS: tuple[type[RowProduct], ...] = (*PLAIN.values(), *VARIANTS.values())
INT16 = {"dtype": "int16", "exact": True}
# The products of some programs, and the kinds that apply to each; that of a constant comes first.
APPLIES: dict[str, tuple[Callable[..., Any], dict[str, Any], list[set[str]]]] = {
    "secrets": (lambda a, b: a @ b, {"a": cb.secret(3, 3), "b": cb.secret(3, 3)}, [{"secret"}]),
    "clear": (lambda w, x: w @ x, {"w": cb.public(3, 3), "x": cb.secret(3, 3)}, [{"clear", "rounded"}]),
    "constant": (lambda x: np.eye(3) @ x, {"x": cb.secret(3, 3)}, [{"clear", "rounded", "fixed"}]),
    "by the public key": (
        lambda x: np.eye(3) @ x,
        {"x": cb.secret(3, 3, encryption="public-key")},
        [{"clear", "rounded"}],
    ),
    "of a computed value": (
        lambda x: (2 * x @ np.eye(3) + x) @ np.ones((3, 2)),
        {"x": cb.secret(3, 3)},
        [{"clear", "rounded"}, {"clear", "rounded"}],
    ),
    "words": (
        lambda w, x: w @ x,
        {"w": cb.public(3, 3, dtype="int16"), "x": cb.secret(3, 3, **INT16)},
        [{"clear", "rounded", "bytes", "moduli"}],
    ),
    "words and a term": (
        lambda w, x: w @ x + 1,
        {"w": cb.public(3, 3, dtype="int16"), "x": cb.secret(3, 3, **INT16)},
        [{"clear", "rounded", "moduli"}],
    ),
    "bytes": (
        lambda w, x: w @ x,
        {"w": cb.public(3, 3, dtype="int8"), "x": cb.secret(3, 3, **INT16)},
        [{"clear", "rounded"}],
    ),
    "secret words": (
        lambda a, b: a @ b,
        {"a": cb.secret(3, 3, **INT16), "b": cb.secret(3, 3, **INT16)},
        [{"secret", "bytes"}],
    ),
}


@pytest.mark.parametrize("name", APPLIES)
def test_which_products_are_of_which_kinds(name: str) -> None:
    function, operands, wanted = APPLIES[name]
    node = trace(function, operands)
    found = [
        {kind.name for kind in KINDS if kind.method == GEMM and kind.applies(product, node)}
        for product in products(node)
    ]
    assert found == wanted


@pytest.mark.parametrize("side", ["clear", "secret"])
def test_counts_are_multiply_adds_of_the_run(side: str) -> None:
    """Of one limb of 50 bits: by a clear factor a float64 GEMM with each part, of which the a part is counted here."""
    n, (m, k, c) = 64, (5, 30, 7)
    clear = side == "clear"
    left = cb.public(m, k) if clear else cb.secret(m, k)
    node = trace(lambda a, b: a @ b, {"a": left, "b": cb.secret(k, c)})
    (product,) = products(node)
    ring = RingShape.from_bits(n, [50.0], [50.0], 1, 20.0)
    counted = dry_run(ring, node, Decisions(ROWS, {2: MethodChoice(GEMM, {"weight_bits": 10})})).counts
    found = plain(product, node).counts(product, n, 1)
    assert found.float_macs * (n + c) == counted.float_macs * n
    assert found.modular_macs == counted.modular_macs == (0 if clear else (n + m) * k * (n + c))


def test_every_kind_is_in_the_table_once() -> None:
    assert [kind.name for kind in KINDS] == [*PLAIN, *VARIANTS]
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert {kind.method for kind in KINDS} == {GEMM, RING}


def test_no_kind_is_of_an_unknown_method() -> None:
    node = trace(lambda a, b: a @ b, {"a": cb.secret(3, 3), "b": cb.secret(3, 3)})
    with pytest.raises(ParameterError, match=f"expected {GEMM} . {RING}.*got skewed"):
        plain(node, node, "skewed")
