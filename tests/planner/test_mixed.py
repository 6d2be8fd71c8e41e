"""Where several forms in one program are taken, and how nodes are placed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import trace
from cipherblas.lang.nodes import ordered
from cipherblas.planner.plan.explain import duration
from cipherblas.planner.rings.sizing import draft
from cipherblas.planner.search.mixed import MIXED, NOMINAL_SCALE_BITS, Placement, unsupported
from tests.corpus.machine import MACHINE

OPTIONS: dict[str, Any] = {"machine": MACHINE}


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(-1, 1, shape)


def placed(function: Any, **shapes: tuple[int, ...]) -> tuple[list[str], dict[int, str]]:
    """The operations of the nodes in blocks, and the whole placement."""
    expression = trace(function, {name: cb.secret(*shape) for name, shape in shapes.items()})
    found = Placement(expression, draft(4096, NOMINAL_SCALE_BITS), MACHINE.rates, 2).best()
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


def test_what_was_nearly_taken_for_conversions() -> None:
    """With its price, for each conversion; products have one method by rows, squares one in blocks."""
    first, second = weights(512, 392), weights(64, 512)
    program = cb.compile(
        lambda x: second @ cb.square(first @ x), {"x": cb.secret(392, 128)}, form="mixed", **OPTIONS
    )
    plan = program.plan
    lines = program.explain().splitlines()
    conversions = {one.number: one for one in plan.nodes if one.form not in plan.decided.every_form}
    assert set(plan.other_conversions) == set(conversions) == set(plan.decided.conversions)
    assert len(conversions) == 2
    for number, one in conversions.items():
        (line,) = (line for line in lines if one.form in line)
        taken = plan.decided.conversions[number]["stages"]
        assert f"  {taken} stages  " in line
        assert line.endswith(f"(next best: {plan.other_conversions[number]})")
        assert plan.other_conversions[number].startswith(f"{5 - taken} stages, ")


def test_what_was_nearly_taken_for_sums_and_products() -> None:
    """By rows a sum of what is in blocks takes conversions more; a product takes that of its factor, and a GEMM in
    place of the diagonals."""
    w, v = weights(40, 30), weights(5, 40)
    operands = {"x": cb.secret(30, 20), "y": cb.secret(30, 20)}

    def function(x: Any, y: Any) -> Any:
        return v @ (cb.square(w @ x) + cb.square(w @ y))

    program = cb.compile(function, operands, form="mixed", **OPTIONS)
    expression, plan = program.expression, program.plan
    order = ordered(expression)
    nearly = {order[number].op: (number, text) for number, text in plan.runners_up.items()}
    assert set(nearly) == {"add", "matmul"}
    placement = Placement(
        expression, draft(plan.parameters.n, NOMINAL_SCALE_BITS), MACHINE.rates, plan.threads
    )
    (added, of_sum), (product, text) = nearly["add"], nearly["matmul"]
    conversion = placement._price(order[added], "rows")
    more = (
        conversion + placement._product(order[product], "rows") - placement._product(order[product], "blocks")
    )
    assert plan.decided.forms[product] == plan.decided.forms[added] == "blocks"
    assert conversion > 0 and text == f"rows, {duration(more)} more" and of_sum.startswith("rows, ")
    lines = program.explain().splitlines()
    for title, nearly_taken in (("  sum ", of_sum), ("  product 5x40", text)):
        assert any(line.startswith(title) and line.endswith(f"(next best: {nearly_taken})") for line in lines)


def test_products_are_in_place_where_that_is_faster() -> None:
    """A small product of squares takes a few rotations where they lie; a large one a GEMM."""
    first, second, large = weights(128, 784), weights(10, 128), weights(1024, 512)
    operands = {"x": cb.secret(784, 256)}
    plan = cb.compile(lambda x: second @ cb.square(first @ x), operands, form="mixed", **OPTIONS).plan
    methods = [one.choice.method for one in plan.nodes if one.title.startswith("product") and one.choice]
    assert methods == ["gemm", "in place"]
    assert [one.form for one in plan.nodes if one.form not in plan.decided.every_form] == ["rows to blocks"]
    assert placed(lambda x: large @ cb.square(large.T @ x), x=(1024, 64))[0] == ["multiply"]


@pytest.mark.slow
def test_what_was_nearly_taken_where_one_form_is() -> None:
    """Three products of secret matrices have no ring for several forms: why is said, and blocks have their own."""
    program = cb.compile(
        lambda q, k, v: ((q @ k.T) * (q @ k.T)) @ v, {name: cb.secret(128, 64) for name in "qkv"}, **OPTIONS
    )
    plan = program.plan
    assert plan.decided.every_form == ("blocks",) and plan.other_conversions == {}
    products = {one.number for one in plan.nodes if one.title.startswith("product")}
    assert set(plan.runners_up) == products and len(products) == 2
    (refused,) = (other for other in plan.rejected if other.algorithm == MIXED)
    assert refused.seconds is None and refused.reason


@pytest.mark.slow
def test_taken_where_it_is_predicted_to_be_fastest() -> None:
    """Clear factors on the right, which tensors do not have: GEMMs beat products in blocks. Small ones do not."""
    first, second = weights(392, 512), weights(512, 10)
    program = cb.compile(lambda x: cb.square(x @ first) @ second, {"x": cb.secret(256, 392)}, **OPTIONS)
    plan = program.plan
    assert (plan.algorithm, plan.decided.every_form) == (MIXED, ("rows", "blocks"))
    assert all(plan.minimised <= other.seconds for other in plan.rejected if other.seconds is not None)
    small = cb.compile(
        lambda x: cb.square(x @ first[:64, :64]) @ second[:64], {"x": cb.secret(64, 64)}, **OPTIONS
    ).plan
    (loser,) = (other for other in small.rejected if other.algorithm == MIXED)
    assert small.decided.every_form == ("blocks",)
    assert loser.seconds is not None and loser.seconds > small.minimised
