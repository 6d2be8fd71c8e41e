"""The two routes: which one is taken, and forcing one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import trace
from cipherblas.planner import search
from cipherblas.planner.budgets import budgets_of
from cipherblas.planner.plan import PlanOptions
from tests.support.runs import run

ROUTES = ("slots", "rows")


def product(a: Any, b: Any) -> Any:
    return a @ b


def of_shape(m: int, k: int, n: int, left_secret: bool, **options: Any) -> cb.Program:
    left = cb.secret(m, k) if left_secret else cb.public(m, k, dtype="int8")
    return cb.compile(product, a=left, b=cb.secret(k, n), **options)


def compiled(d: int, left_secret: bool = True, **options: Any) -> cb.Program:
    return of_shape(d, d, d, left_secret, **options)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.encrypted
@pytest.mark.parametrize("left_secret", [False, True])
def test_forced_route_is_taken_and_computes_the_product(route: Any, left_secret: bool) -> None:
    program = compiled(5, left_secret, route=route)
    assert program.plan.route == route
    assert (program.plan.algorithm == "gemm") == (route == "rows")
    random = np.random.default_rng(3)
    a = random.uniform(-1, 1, (5, 5)) if left_secret else random.integers(-128, 128, (5, 5), dtype=np.int8)
    b = random.uniform(-1, 1, (5, 5))
    found = run(program, {"a": a, "b": b}).check().decrypted
    assert np.abs(found - a.astype(float) @ b).max() <= program.plan.error


@pytest.mark.parametrize("minimise", ["end-to-end", "server"])
@pytest.mark.parametrize("left_secret", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(8, 8, 8), (64, 64, 64), (100, 100, 100), (10, 784, 200), (1, 900, 3), (60, 2, 90), (400, 400, 400)],
)
def test_the_planner_takes_the_route_that_is_predicted_to_be_faster(
    m: int, k: int, n: int, left_secret: bool, minimise: str
) -> None:
    """A forced route is searched in full: what the comparison of routes leaves out changes nothing."""
    options: dict[str, Any] = {"threads": 1, "minimise": minimise}
    forced = {route: of_shape(m, k, n, left_secret, route=route, **options).plan for route in ROUTES}
    seconds = {route: plan.minimised for route, plan in forced.items()}
    chosen = of_shape(m, k, n, left_secret, **options).plan
    assert chosen.route == min(seconds, key=seconds.__getitem__)
    assert chosen.decisions() == forced[chosen.route].decisions()
    other = next(route for route in ROUTES if route != chosen.route)
    losers = {loser.algorithm: loser for loser in chosen.rejected}
    if "slots" not in losers:
        assert losers[forced[other].algorithm].seconds == pytest.approx(forced[other].minimised)


def test_slots_that_cannot_be_faster_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "trace", None)
    monkeypatch.setattr(search.estimate, "of_product", None)
    program = of_shape(10, 784, 2000, False, threads=1)
    assert program.plan.route == "rows"
    (line,) = (line for line in program.explain().splitlines() if line.startswith("  slots"))
    assert "at least" in line
    assert "bound" in line


def test_slots_that_are_slower_are_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    expression, options = (
        trace(product, {"a": cb.secret(30, 30), "b": cb.secret(30, 30)}),
        PlanOptions(threads=1),
    )
    plan, _ = search.Search(expression, options, budgets_of(options, 1800)).run()
    monkeypatch.setattr(search, "trace", None)
    with pytest.raises(search.SlowerError) as found:
        search.Search(expression, options, budgets_of(options, 1800), 0.9 * plan.minimised).run()
    losers = {loser.algorithm: loser for loser in found.value.losers}
    assert {plan.algorithm, *(loser.algorithm for loser in plan.rejected)} == set(losers)
    assert losers[plan.algorithm].reason == "slower by 1.1 times"


def test_a_forced_route_survives_the_file(tmp_path: Any) -> None:
    program = compiled(6, False, route="slots")
    program.save(tmp_path / "plan")
    loaded = cb.Program.load(tmp_path / "plan")
    assert (loaded.id, loaded.plan.route) == (program.id, "slots")


def test_an_unknown_route_is_refused() -> None:
    with pytest.raises(cb.ParameterError, match=r"slots \| rows \| layers, got columns"):
        compiled(4, route="columns")


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"route": "slots", "algorithm": "gemm"}, "slots"),
        ({"route": "rows", "algorithm": "skewed"}, "rows"),
        ({"route": "rows", "block": 4}, "rows"),
        ({"route": "rows", "options": {}}, "rows"),
    ],
)
def test_options_that_contradict_the_route_are_refused(options: dict[str, Any], got: str) -> None:
    with pytest.raises(cb.ParameterError, match=f"route: expected .*, got {got}"):
        compiled(4, **options)


@pytest.mark.parametrize("options", [{"block": 4}, {"options": {}}])
def test_options_of_slots_are_refused_with_gemm(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(cb.ParameterError, match=f"options of gemm: expected no {name}, .* got {name}"):
        compiled(4, algorithm="gemm", **options)


def test_a_program_that_needs_slots_has_no_route_by_rows() -> None:
    with pytest.raises(cb.ParameterError, match="elementwise products need slots"):
        cb.compile(lambda a, b: (a @ b) * a, a=cb.secret(4, 4), b=cb.secret(4, 4), route="rows")
