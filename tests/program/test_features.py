"""Programs whose ciphertexts are features, with one sample in each slot, encrypted, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.planner.plan.assembly import replay
from cipherblas.planner.predict import dry_run
from cipherblas.roles import received
from cipherblas.runtime.blocks import COEFFICIENTS, FEATURES
from tests.support.runs import Parties, comes_back, is_a_list, run, run_by_files, toy, values_of

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.encrypted]
SLOTS = 2048
RNG = np.random.default_rng(5)
S = cb.secret


def uniform(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.uniform(-1, 1, shape)


FIRST, SECOND, BIAS = uniform(5, 7), uniform(3, 5), uniform(5, 1)
WHOLE = np.arange(-17, 18).reshape(5, 7)


def features(function: Callable[..., Any], **arguments: Any) -> cb.Program:
    program = toy(function, **{"form": FEATURES, "precision": 1e-3, **arguments})
    packed = any(choice.method == COEFFICIENTS for choice in program.plan.decided.choices.values())
    assert program.plan.algorithm == FEATURES and bool(program.plan.keys.galois) == packed
    return program


def layers(x: Any) -> Any:
    return SECOND @ cb.square(FIRST @ x + BIAS) - 0.5


def by_rows(x: Any) -> Any:
    """The same of samples along the rows."""
    return cb.square(x @ FIRST.T + BIAS.T) @ SECOND.T - 0.5


def several(x: Any) -> Any:
    hidden = FIRST @ x
    return {"squares": cb.square(hidden), "hidden": 2 * hidden, "sum": SECOND @ (hidden - 0.25)}


def of_two(x: Any, y: Any) -> Any:
    """Products of secrets, one of them the same for all samples."""
    return SECOND @ ((FIRST @ x) * y) + FIRST[:3] @ x


def some_rows(x: Any) -> Any:
    hidden = cb.square(FIRST @ x)
    return SECOND[:, :3] @ hidden[[4, 0, 4]] + hidden[1:4] * x[2:5]


def some_columns(x: Any) -> Any:
    hidden = cb.square(x @ FIRST.T)
    return hidden[:, ::2] @ SECOND[:, :3].T


def polynomial(x: Any) -> Any:
    return SECOND @ cb.chebyshev(lambda t: np.maximum(t, 0.0), FIRST @ x + BIAS, degree=7)


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "layers": (layers, {"x": S(7, 30)}),
    "samples along the rows": (by_rows, {"x": S(30, 7)}),
    "one sample": (layers, {"x": S(7, 1)}),
    "all slots": (layers, {"x": S(7, SLOTS)}),
    "one sample more than slots": (layers, {"x": S(7, SLOTS + 1)}),
    "more samples than slots along the rows": (by_rows, {"x": S(2 * SLOTS + 1, 7)}),
    "a large bound": (layers, {"x": S(7, 30, bound=300.0)}),
    "one product": (lambda x: FIRST @ x, {"x": S(7, 30)}),
    "whole numbers": (lambda x: WHOLE @ x, {"x": S(7, 30)}),
    "whole numbers, then squares": (lambda x: SECOND @ cb.square(WHOLE @ x), {"x": S(7, 30)}),
    "narrow weights": (lambda x: cb.square(WHOLE.astype(np.int8) @ x), {"x": S(7, 30)}),
    "zero weights": (lambda x: cb.square(FIRST @ x) - np.zeros((5, 7)) @ x, {"x": S(7, 30)}),
    "clear operand": (lambda w, x: SECOND @ cb.square(w @ x), {"w": cb.public(5, 7), "x": S(7, 30)}),
    "several results": (several, {"x": S(7, 30)}),
    "two secrets": (of_two, {"x": S(7, 30), "y": S(5, 1)}),
    "some rows": (some_rows, {"x": S(7, 30)}),
    "some columns": (some_columns, {"x": S(SLOTS + 5, 7)}),
    "a polynomial": (polynomial, {"x": S(7, SLOTS + 1), "precision": 0.1}),
    "many features": (lambda x: uniform_of(3, 300) @ cb.square(x), {"x": S(300, 20)}),
    "fine weights": (layers, {"x": S(7, 30), "precision": 1e-8}),
    "encrypted weights": (lambda w, x: cb.square(w @ x), {"w": S(5, 7), "x": S(7, SLOTS + 1)}),
    "encrypted weights on the right": (
        lambda w, v, x: cb.square(x @ w) @ v + x[:, :3],
        {"w": S(7, 5), "v": S(5, 3), "x": S(SLOTS + 1, 7)},
    ),
    "encrypted and clear weights": (
        lambda w, x: SECOND @ cb.square(w @ x + BIAS),
        {"w": S(5, 7), "x": S(7, 30)},
    ),
    "encrypted weights, one sample": (lambda w, x: w @ x, {"w": S(5, 7), "x": S(7, 1)}),
    "encrypted weights, arranged": (lambda w, x: w[1:4, ::2] @ x[:4], {"w": S(5, 7), "x": S(7, 30)}),
    "public key": (layers, {"x": S(7, 30, encryption="public-key")}),
    "two limbs a level": (layers, {"x": S(7, 30), "precision": 1e-12}),
}


def uniform_of(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(6).uniform(-1, 1, shape)


@pytest.mark.parametrize("name", PROGRAMS)
def test_encrypted_as_in_numpy(name: str) -> None:
    function, options = PROGRAMS[name]
    program = features(function, **options)
    run(program, values_of(program)).check()
    comes_back(program)
    is_a_list(program)


@pytest.mark.parametrize("fill", [0.0, 1.0, -1.0])
def test_zeros_and_values_at_the_bound(fill: float) -> None:
    for function, operand in ((layers, S(7, 40)), (by_rows, S(40, 7))):
        program = features(function, x=operand)
        parties = Parties(program)
        parties.run({"x": np.full(operand.shape, fill)}).check()
        alternating = np.where(np.indices(operand.shape).sum(0) % 2, 1.0, -1.0)
        parties.run({"x": fill * alternating}).check()


def test_by_files(tmp_path: Path) -> None:
    program = features(some_rows, x=S(7, SLOTS + 1))
    run_by_files(program, values_of(program), tmp_path).check()


def test_large_operands_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ciphertexts that are made for one product alone give the same."""
    for module in (dry_run, received):
        monkeypatch.setattr(module, "KEPT_BYTES", 0)
    program = features(lambda x: SECOND[:, :2] @ cb.square(uniform_of(2, 300) @ x), x=S(300, 20))
    assert program.plan.streamed_bytes > 0
    run(program, values_of(program)).check()


def test_worst_case_holds() -> None:
    program = features(layers, x=S(7, 30))
    found = Parties(program).run({"x": np.ones((7, 30))}).check()
    assert found.error <= program.worst_errors[0] < 1.0


def test_products_take_one_relinearisation_for_each_square_and_nothing_else() -> None:
    plan = features(layers, x=S(7, 3 * SLOTS)).plan
    assert plan.counts.relinearisations == 3 * 5
    assert plan.counts.rotations == 0
    assert plan.counts.encodings == 3 * (5 + 3)  # of what is added


def test_weights_are_rounded_alike_in_every_run() -> None:
    program = features(layers, x=S(7, 30))
    parties, values = Parties(program), values_of(program)
    sent = parties.inputs(values)
    first, second = (parties.server.run(sent) for _ in range(2))
    np.testing.assert_array_equal(parties.client.decrypt(first), parties.client.decrypt(second))


REFUSED: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "no product": (lambda x: cb.square(x), {"x": S(7, 30)}, "no matrix product"),
    "computed weights": (
        lambda w, x: cb.square(w) @ x,
        {"w": S(5, 7), "x": S(7, 30)},
        "both weights and samples",
    ),
    "a Gram matrix": (lambda x: x @ x.T, {"x": S(7, 7)}, "both weights and samples|along one axis"),
    "both sides": (lambda x: FIRST @ x @ uniform_of(30, 4), {"x": S(7, 30)}, "both sides"),
    "samples that move": (
        lambda x: cb.square(FIRST @ x).reshape(30, 5).T,
        {"x": S(7, 30)},
        "moves samples",
    ),
    "samples together": (
        lambda x: cb.square(FIRST @ x).reshape(10, 15),
        {"x": S(7, 30)},
        "moves samples",
    ),
    "samples that are features": (
        lambda x: uniform_of(7, 7) @ x + uniform_of(7, 7) @ x.T,
        {"x": S(7, 7)},
        "along one axis",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """With a reason, and what to write instead, which compiles."""
    function, operands, reason = REFUSED[name]
    with pytest.raises(cb.ParameterError, match=reason) as refused:
        features(function, **operands)
    assert refused.value.advice
    toy(function, **operands)


def test_decisions_that_do_not_fit() -> None:
    """Blocks of several rows are no features."""
    program = features(layers, x=S(7, 30))
    plan, decisions = program.plan, program.plan.decisions()
    decisions["blocks"] = dict.fromkeys(decisions["blocks"], 2)
    with pytest.raises(cb.ParameterError, match="does not fit its factors"):
        replay(program.expression, decisions, plan.planned_for(), plan.parameters)
    decisions = plan.decisions()
    for choice in decisions["choices"].values():
        choice["options"] = {}
    with pytest.raises(cb.ParameterError, match="lack the bits of the weights"):
        replay(program.expression, decisions, plan.planned_for(), plan.parameters)


def test_rounding_by_chance_is_small_where_values_are_alike() -> None:
    """The matrix that is multiplied by stands for the weights on average."""
    program = features(lambda x: np.full((1, 700), 0.3) @ x, x=S(700, 4), precision=1e-3)
    found = run(program, {"x": np.ones((700, 4))}).check()
    assert found.error < 700 * 2.0**-17


def test_clear_products() -> None:
    ring = toy(layers, x=S(7, 30)).plan.parameters
    ev = Clear(ring)
    cts = [ev.encrypt(np.full(ev.slots, float(value)), bound=8.0) for value in range(1, 4)]
    numbers = np.array([[1, 2, 3], [-4, 0, 1]])
    factor = ClearFactor("key", (2, 3), 4.0, 0.5, True, lambda: numbers)
    found = ev.matrix_product(factor, cts)
    assert [ct.data[0].real for ct in found] == [7.0, -0.5]
    assert all(ct.scale == cts[0].scale / 0.5 for ct in found)
    with pytest.raises(cb.ShapeError):
        ev.matrix_product(factor, cts[:2])
