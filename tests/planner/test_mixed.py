"""Where several forms in one program are taken, and how nodes are placed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import trace
from cipherblas.lang.nodes import ordered
from cipherblas.planner.mixed import MIXED, Placement, unsupported
from tests.corpus.machine import MACHINE

OPTIONS: dict[str, Any] = {"machine": MACHINE}


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(-1, 1, shape)


def placed(function: Any, **shapes: tuple[int, ...]) -> tuple[list[str], dict[int, str]]:
    """The operations of the nodes in blocks, and the whole placement."""
    expression = trace(function, {name: cb.secret(*shape) for name, shape in shapes.items()})
    found = Placement(expression, 4096, MACHINE.rates, 2).best()
    order = ordered(expression)
    return [order[number].op for number in found], found


def test_entrywise_products_are_in_blocks_and_products_by_rows() -> None:
    w, v = weights(40, 30), weights(5, 40)
    assert placed(lambda x: v @ cb.square(w @ x), x=(30, 20))[0] == ["multiply"]


def test_sums_are_where_they_spare_conversions() -> None:
    w, v = weights(40, 30), weights(5, 40)
    # Added before the square by rows: one value is converted instead of two. After it in blocks: likewise.
    assert placed(lambda x, y: v @ cb.square(w @ x + w @ y), x=(30, 20), y=(30, 20))[0] == ["multiply"]
    both = placed(lambda x, y: v @ (cb.square(w @ x) + cb.square(w @ y)), x=(30, 20), y=(30, 20))[0]
    assert both == ["multiply", "multiply", "add"]


def test_what_gains_nothing() -> None:
    w = weights(4, 4)

    def why(function: Any) -> str | None:
        return unsupported(trace(function, {"x": cb.secret(4, 4)}))

    assert why(lambda x: x * x) == "there is no matrix product"
    assert why(lambda x: w @ x + x) == "rows compute it alone"
    assert why(lambda x: cb.square(w @ x)) is None


@pytest.mark.slow
def test_taken_where_it_is_predicted_to_be_fastest() -> None:
    """Clear factors on the right, which tensors do not have: GEMMs beat products in blocks. Small ones do not."""
    first, second = weights(784, 1024), weights(1024, 10)
    program = cb.compile(lambda x: cb.square(x @ first) @ second, {"x": cb.secret(256, 784)}, **OPTIONS)
    plan = program.plan
    assert (plan.algorithm, plan.decided.every_form) == (MIXED, ("rows", "blocks"))
    assert all(plan.minimised <= other.seconds for other in plan.rejected if other.seconds is not None)
    small = cb.compile(
        lambda x: cb.square(x @ first[:64, :64]) @ second[:64], {"x": cb.secret(64, 64)}, **OPTIONS
    ).plan
    (loser,) = (other for other in small.rejected if other.algorithm == MIXED)
    assert small.decided.every_form == ("blocks",)
    assert loser.seconds is not None and loser.seconds > small.minimised
