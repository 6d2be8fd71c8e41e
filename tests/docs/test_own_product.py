"""The page on a product of one's own: its code is that of the example, has forty lines, and does what the page says."""

from __future__ import annotations

import ast
import contextlib
import io
from collections.abc import Iterator

import pytest

from cipherblas.methods import registry
from tests.support import documents

PAGE = documents.ROOT / "docs" / "own-product.md"
EXAMPLE = documents.ROOT / "examples" / "own_product.py"


@pytest.fixture
def page_registers() -> Iterator[None]:
    """What the page registers is taken off again."""
    yield
    registry.unregister("inner-sums")


def product() -> tuple[str, ast.ClassDef]:
    """The source of the example's class, and its tree."""
    text = EXAMPLE.read_text(encoding="utf-8")
    (found,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    return "\n".join(text.splitlines()[found.lineno - 1 : found.end_lineno]), found


def test_the_page_shows_the_example() -> None:
    text, _ = product()
    assert text in documents.blocks(PAGE, "python")[0].text


def test_it_has_forty_lines() -> None:
    """Docstrings and empty lines left out."""
    text, tree = product()
    with_docstrings = [node for node in ast.walk(tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    prose = sum(
        1 + (node.body[0].end_lineno or 0) - node.body[0].lineno
        for node in with_docstrings
        if ast.get_docstring(node)
    )
    assert len([line for line in text.splitlines() if line.strip()]) - prose <= 40


@pytest.mark.encrypted
@pytest.mark.usefixtures("page_registers")
def test_the_page_runs() -> None:
    """Every block in its order; they hold their own assertions. The planner names the method."""
    names: dict[str, object] = {"__name__": "own_product_page"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in documents.blocks(PAGE, "python"):
            exec(compile(block.text, PAGE.name, "exec"), names)
    assert "inner-sums" in printed.getvalue()
    assert names["forced"].plan.algorithm == "inner-sums"  # type: ignore[attr-defined]
