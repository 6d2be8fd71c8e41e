"""docs/operations.md: its table is what the planner takes, its code runs, its refusals are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support import numpy_table
from tests.support.array_programs import ROWS
from tests.support.documents import ROOT, blocks, table
from tests.support.operation_table import line

PAGE = ROOT / "docs" / "operations.md"
LINES = {row["formula"]: row for row in table(PAGE, "formula")}
NOT_LISTED = {"(A @ B).reshape(-1, 2)"}  # at 256 it takes minutes


def test_every_row_is_listed() -> None:
    assert list(LINES) == [f"`{row.formula}`" for row in ROWS if row.formula not in NOT_LISTED]


@pytest.mark.parametrize("row", ROWS[1::7], ids=lambda row: row.formula)
def test_rows_say_what_the_planner_takes(row: Any) -> None:
    assert tuple(LINES[f"`{row.formula}`"].values()) == line(row)


@pytest.mark.skipif(not hasattr(np, "astype"), reason="rows name functions of NumPy 2.1")
def test_tables_from_numpy() -> None:
    """`python -m tests.support.numpy_table` prints them."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for header, rows in (
        (numpy_table.TAKEN, numpy_table.taken()),
        (numpy_table.NOT_TAKEN, numpy_table.refused()),
    ):
        first = lines.index(f"| {' | '.join(header)} |") + 2
        assert lines[first : lines.index("", first)] == rows


def test_its_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    formulas, from_numpy, joined = blocks(PAGE, "python")
    exec(compile(formulas.text, "operations.md", "exec"), {"__name__": "__docs__"})
    assert float(capsys.readouterr().out) < 0.1
    exec(compile(from_numpy.text, "operations.md", "exec"), {"__name__": "__docs__"})
    exec(compile(joined.text, "operations.md", "exec"), {"__name__": "__docs__"})
    assert capsys.readouterr().out == "1\n"


@pytest.mark.parametrize(
    "function",
    [
        lambda A, x: A[x],
        lambda A, x: 1 / x,
        lambda A, x: A / x,
        lambda A, x: x > 0,
        lambda A, x: A if x else x,
        lambda A, x: x == x[::-1],
        lambda A, x: x**0.5,
        lambda A, x: cb.where(x, x, x),
    ],
)
def test_what_cannot_be_done_is_refused(function: Any) -> None:
    with pytest.raises(cb.CipherblasError):
        cb.compile(function, {"A": cb.secret(4, 4), "x": cb.secret(4)})
