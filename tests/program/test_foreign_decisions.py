"""Decisions of somebody else's program files that the planner would never take: refused when they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cipherblas as cb
from tests.support.foreign_files import forge

PRODUCT = {"a": cb.secret(4, 4), "b": cb.secret(4, 4)}


@pytest.mark.parametrize("form", ["blocks", "rows"])
def test_decisions_about_nodes_that_have_none(form: Any, tmp_path: Path) -> None:
    """They would be part of the identity, and mean nothing."""
    cb.compile(lambda a, b: a @ b + a, PRODUCT, form=form).save(tmp_path / "good")

    def decide(header: dict[str, Any]) -> None:
        choices = header["decisions"]["choices"]
        (product,) = choices
        choices[str(int(product) + 1)] = choices[product]  # of the sum

    forge(tmp_path / "good", tmp_path / "forged", decide)
    with pytest.raises(cb.FormatError, match="node"):
        cb.Program.load(tmp_path / "forged")


@pytest.mark.parametrize("second", [cb.secret(4, 4), cb.public(4, 4)])
def test_a_product_by_rows_has_the_one_method_there_is(second: Any, tmp_path: Path) -> None:
    program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(4, 4), "b": second}, form="rows")
    program.save(tmp_path / "good")

    def rename(header: dict[str, Any]) -> None:
        (choice,) = header["decisions"]["choices"].values()
        choice["method"] = "skewed"

    forge(tmp_path / "good", tmp_path / "forged", rename)
    with pytest.raises(cb.CipherblasError, match="skewed"):
        cb.Program.load(tmp_path / "forged")


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda a, b: a @ b, PRODUCT),  # both secret
        (lambda w, x: w @ x, {"w": cb.public(5), "x": cb.secret(5)}),  # a number
    ],
    ids=["secret weights", "a number"],
)
def test_products_that_no_network_has(function: Any, operands: Any, tmp_path: Path) -> None:
    """They are computed as matrices; a file may say otherwise."""
    program = cb.compile(function, operands, form="blocks" if "a" in operands else None)
    program.save(tmp_path / "good")
    network = cb.compile(lambda w, x: w @ x, {"w": cb.public(4, 4), "x": cb.secret(4)}, form="tensors")
    decided = network.plan.decisions()
    packed, layer = decided["choices"].values()

    def as_network(header: dict[str, Any]) -> None:
        graph, declared = header["graph"], header["operands"]
        secret = [n for n, node in enumerate(graph[:2]) if declared[node["name"]]["secret"]]
        choices = {str(number): packed for number in secret}
        header["decisions"] |= {"form": "tensors", "choices": {**choices, "2": layer}, "blocks": {}}

    forge(tmp_path / "good", tmp_path / "forged", as_network)
    with pytest.raises(cb.CipherblasError, match="product"):
        cb.Program.load(tmp_path / "forged")
