"""Decisions of somebody else's program files that the planner would never take: refused when they are loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto.params import make_parameters
from tests.support.foreign_files import forge
from tests.support.runs import toy

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
    with pytest.raises(cb.CipherblasError, match=r"product|more levels than the ring has"):
        cb.Program.load(tmp_path / "forged")


def test_a_ring_product_of_weights_without_their_bits(tmp_path: Path) -> None:
    """Only products with clear factors have them, by the name of one method."""
    weights = np.cos(np.arange(48.0)).reshape(6, 8)

    def function(x: Any, y: Any) -> Any:
        return cb.refresh((x @ weights) @ y) @ weights

    program = toy(function, x=cb.secret(8, 6), y=cb.secret(8, 6), error=1.0, form="mixed")
    program.save(tmp_path / "good")
    choices = program.plan.decisions()["choices"]
    ring = [number for number, choice in choices.items() if "weight_bits" in choice["options"]]
    assert ring

    def without(header: dict[str, Any]) -> None:
        for number in ring:
            header["decisions"]["choices"][number] = {"method": "ring-products", "options": {}}

    forge(tmp_path / "good", tmp_path / "forged", without)
    with pytest.warns(cb.InsecureParametersWarning), pytest.raises(cb.CipherblasError, match="bits"):
        cb.Program.load(tmp_path / "forged", insecure=True)


def test_primes_in_an_order_in_which_nothing_is_promised(tmp_path: Path) -> None:
    """Predicted errors beyond all that the result may be: a plan that cannot be meant."""
    program = toy(lambda x: cb.assume(cb.refresh(x * x) * x, 0.05), x=cb.secret(3, 4), error=0.01)
    program.save(tmp_path / "good")
    parameters = program.plan.parameters
    other = replace(parameters, q=parameters.q[::-1], digit_limbs=None, insecure=True)

    def reverse(header: dict[str, Any]) -> None:
        header["decisions"]["parameters"] = other.to_dict()

    forge(tmp_path / "good", tmp_path / "forged", reverse, other)
    with pytest.warns(cb.InsecureParametersWarning), pytest.raises(cb.PrecisionError):
        cb.Program.load(tmp_path / "forged", insecure=True)


def test_parameters_that_are_forced_promise_something() -> None:
    """Errors beyond the bound of a result are refused where parameters are compiled for and where they are loaded."""
    coarse = make_parameters(1 << 13, [50.0, 22.0, 22.0], scale_bits=22.0, alpha=3)
    with pytest.raises(cb.PrecisionError, match="may exceed its bound"):
        cb.compile(lambda a: cb.assume(a * a, 1e-12), {"a": cb.secret(64, 4)}, parameters=coarse)
