"""What docs/functions.md states is what the code does, and its examples run."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

import cipherblas as cb
from cipherblas.cli.app import app
from cipherblas.lang.nodes import ordered
from cipherblas.lang.operations import Leaf
from cipherblas.lang.polynomials import Polynomial
from cipherblas.methods.polynomial.paterson_stockmeyer import scheme
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.rewrite.precisions import with_defaults
from tests.support import documents

PAGE = documents.ROOT / "docs" / "functions.md"


def test_degrees_and_levels() -> None:
    rows = documents.table(PAGE, "written")
    assert len(rows) == 10
    for row in rows:
        x = Leaf("x", cb.secret(4, bound=float(row["bound of x"])))
        node = with_defaults(eval(row["written"].strip("`"), {"cb": cb, "x": x}), PlanOptions())
        found = [one for one in ordered(node) if isinstance(one, Polynomial)]
        assert row["degree"] == ", ".join(str(one.degree) for one in found)
        product = any(one.op in ("multiply", "gated") for one in ordered(node))
        assert int(row["levels"]) == sum(scheme(one.coefficients).levels for one in found) + product
        assert row["on"].endswith(f", {x.bound:g}]")


@pytest.mark.encrypted
def test_examples() -> None:
    names: dict[str, Any] = {}
    for block in documents.blocks(PAGE, "python"):
        exec(compile(block.text, PAGE.name, "exec"), names)
    assert "softplus" in names["node"].explain()


def test_commands() -> None:
    lines = [line for block in documents.blocks(PAGE, "console") for line in block.text.splitlines()]
    assert len(lines) == 2
    for line in lines:
        prompt, program, *arguments = shlex.split(line)
        assert (prompt, program) == ("$", "cipherblas")
        result = CliRunner().invoke(app, [*arguments, "--quiet"])
        assert result.exit_code == 0, result.output
        assert "(x)" in result.output.splitlines()[0]
