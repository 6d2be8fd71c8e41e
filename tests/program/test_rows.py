"""Programs by GEMM through the public interface, encrypted for real, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import trace
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.roles import client as client_module
from tests.support.runs import encrypted, plan_by_rows, run, run_by_files, toy_rows, values_of


def check(function: Callable[..., Any], **arguments: Any) -> cb.Program:
    """One encrypted run; its error stays within the plan's, its counts are the plan's."""
    program = encrypted(function, algorithm="gemm", **arguments).check().program
    assert program.plan.form == "rows" and program.plan.algorithm == "gemm"
    return program


def check_toy(function: Callable[..., Any], **arguments: Any) -> cb.Program:
    """`check` in a small INSECURE ring, where transpositions take no time."""
    program = toy_rows(function, **arguments)
    return run(program, values_of(program)).check().program


@pytest.mark.parametrize(
    "function",
    [lambda x: x.T @ x, lambda x: x @ x.T, lambda x: (2 * x + 1).T @ (2 * x + 1)],
    ids=["x.T x", "x x.T", "of a sum"],
)
def test_a_matrix_times_its_transpose_is_sent_once(function: Callable[..., Any]) -> None:
    """With one encryption on both sides, whose errors add up: also of ones, where they are largest."""
    program = check_toy(function, x=cb.secret(9, 14))
    assert len(program.inputs_of("x")) == 1
    run(program, {"x": np.ones((9, 14))}).check()


def test_symmetric_products_take_less() -> None:
    """One upload instead of two, and one of two products that are each other's transpose."""
    pair = toy_rows(lambda x, y: x.T @ y, x=cb.secret(9, 14), y=cb.secret(9, 14)).plan
    one = toy_rows(lambda x: x.T @ x, x=cb.secret(9, 14)).plan
    assert one.upload_bytes == pair.upload_bytes // 2
    assert one.counts.modular_macs < pair.counts.modular_macs


@pytest.mark.parametrize("shape", [(5, 300, 4096), (20, 40, 5000), (3, 7, 33)], ids=str)
def test_fixed_weights(shape: tuple[int, int, int], tmp_path: Path) -> None:
    """One key per row of the weights, one GEMM; through files as well."""
    m, k, n = shape
    weights = np.random.default_rng(1).integers(-128, 128, (m, k)).astype(np.int8)
    expression = trace(lambda x: weights @ x, {"x": cb.secret(k, n)})
    options = PlanOptions(algorithm="gemm")
    plan, run = plan_by_rows(expression, replace(options, key_policy="direct"), 4096, {"fixed": True})
    program = cb.Program(expression, {"x": cb.secret(k, n)}, plan, run)
    assert len(plan.keys.weights) == m and plan.keys.weights == program.plan.keys.weights
    run_by_files(program, {"x": np.random.default_rng(2).uniform(-1, 1, (k, n))}, tmp_path).check()


def test_combined_secrets_of_fixed_weights_are_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of each factor, when the keys are made and when making them fails."""
    left, right = (np.random.default_rng(1).integers(-9, 10, (3, 5)) for _ in range(2))
    operands = {"x": cb.secret(5, 7), "y": cb.secret(5, 7)}
    expression = trace(lambda x, y: left @ x + 2 * right @ y, operands)
    options = PlanOptions(algorithm="gemm")
    found = plan_by_rows(expression, replace(options, key_policy="direct"), 4096, {"fixed": True})
    client = cb.Program(expression, operands, *found).client()
    made: list[np.ndarray] = []
    combine = client_module.combined_secrets

    def kept(*arguments: Any) -> np.ndarray:
        made.append(combine(*arguments))
        assert np.any(made[-1])
        return made[-1]

    monkeypatch.setattr(client_module, "combined_secrets", kept)
    client.evaluation_keys()
    assert len(made) == 2 and not any(np.any(rows) for rows in made)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.evaluation_keys(stop)
    assert len(made) == 3 and not np.any(made[-1])


def test_the_planner_fixes_weights_where_that_is_faster() -> None:
    weights = np.ones((512, 4096), dtype=np.int8)
    options: dict[str, Any] = {"algorithm": "gemm", "minimise": "server"}
    program = cb.compile(lambda x: weights @ x, {"x": cb.secret(4096, 64)}, **options)
    assert program.plan.keys.weights and "keys of fixed weights" in program.explain()
    few = cb.compile(lambda x: weights @ x, {"x": cb.secret(4096, 64)}, **options, key_budget=1 << 20)
    assert not len(few.plan.keys)


SHAPES = [(1, 1, 1), (5, 7, 3), (1, 300, 1), (97, 89, 83), (64, 64, 64), (300, 2, 129)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_clear_times_secret(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    for kind in ("int8", "int16", "float16", "float32", None):
        check(lambda w, x: w @ x, w=cb.public(m, k, dtype=kind), x=cb.secret(k, n))
    check(lambda x, w: x @ w, x=cb.secret(m, k), w=cb.public(k, n, bound=30.0))


def test_the_rounding_of_weights_is_part_of_the_error() -> None:
    whole = cb.compile(
        lambda w, x: w @ x, {"w": cb.public(9, 9, dtype="int8"), "x": cb.secret(9, 9)}, algorithm="gemm"
    )
    assert whole.plan.rounding_error == 0.0 and "rounded" not in whole.explain()
    real = cb.compile(lambda w, x: w @ x, {"w": cb.public(9, 9), "x": cb.secret(9, 9)}, algorithm="gemm")
    assert 0 < real.plan.rounding_error < real.plan.error
    assert f"rounded to {real.plan.choices[0].options['weight_bits']} bits" in real.explain()


def test_rows_longer_than_the_ring() -> None:
    program = check(lambda w, x: w @ x, w=cb.public(3, 5, dtype="int8"), x=cb.secret(5, 5000))
    n = program.plan.parameters.n
    assert n < 5000
    assert program.plan.counts.float_macs == 3 * 5 * (n + 5000)  # one a part for all segments of a row
    check(lambda x, w: 2 * (x @ w) + 1, x=cb.secret(5000, 5), w=cb.public(5, 3))


def test_products_of_secrets() -> None:
    """Rectangular, both orientations, with and without many keys."""
    program = check(lambda a, b: a @ b, a=cb.secret(33, 20), b=cb.secret(20, 57, bound=4.0))
    assert program.plan.parameters.n == 4096


def test_products_of_secrets_with_few_keys() -> None:
    a, b = cb.secret(33, 20), cb.secret(20, 57)
    composed, binary = (
        check_toy(lambda a, b: a @ b, a=a, b=b, key_policy=policy) for policy in ("composed", "binary")
    )
    assert binary.plan.key_bytes < composed.plan.key_bytes
    for policy, keys in (("composed", composed), ("binary", binary)):
        program = cb.compile(lambda a, b: a @ b, {"a": a, "b": b}, algorithm="gemm", key_policy=policy)
        assert program.plan.key_bytes < 1 << 25
        assert len(program.plan.keys.galois) > len(keys.plan.keys.galois)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, w: (a @ b) @ w - 2 * a @ w,
        lambda a, b, w: w @ (a @ b) + 3.0,
        lambda a, b, w: -(a @ b).T @ w,
        lambda a, b, w: w @ (a + b) @ w,
    ],
)
def test_graphs(function: Callable[..., Any]) -> None:
    operands = {"a": cb.secret(12, 12), "b": cb.secret(12, 12, bound=3.0), "w": cb.public(12, 12, bound=0.5)}
    check_toy(function, key_policy="composed", precision=1e-3, **operands)


@pytest.mark.slow
def test_a_graph_in_a_secure_ring() -> None:
    operands = {"a": cb.secret(12, 12), "b": cb.secret(12, 12, bound=3.0), "w": cb.public(12, 12, bound=0.5)}
    check(lambda a, b, w: (a @ b) @ w - 2 * a @ w, key_policy="composed", precision=1e-3, **operands)


def ones_within_the_error(program: cb.Program) -> None:
    """Matrices of ones add up errors of the same sign: what the bound must hold for as well."""
    run(program, {name: np.full(op.shape, op.bound) for name, op in program.operands.items()}).within()


def test_errors_of_a_product_are_not_independent() -> None:
    w = cb.public(300, 300, bound=100.0, dtype="int8")
    x = cb.secret(300, 8)
    ones_within_the_error(cb.compile(lambda v, w, x: v @ (w @ x), {"v": w, "w": w, "x": x}, algorithm="gemm"))
    ones_within_the_error(cb.compile(lambda w, x: w @ x + w @ x, {"w": w, "x": x}, algorithm="gemm"))


def test_errors_of_a_product_of_secrets_are_not_independent() -> None:
    operands = dict.fromkeys("abc", cb.secret(32, 32))
    ones_within_the_error(
        toy_rows(lambda a, b, c: a @ b @ c, key_policy="composed", precision=0.05, **operands)
    )


def test_a_chain_of_two_products() -> None:
    check_toy(
        lambda a, b, c: a @ b @ c,
        **{"a": cb.secret(20, 30), "b": cb.secret(30, 10), "c": cb.secret(10, 8)},
        key_policy="composed",
        precision=0.05,
    )


def test_more_rows_than_the_ring() -> None:
    check_toy(lambda a, b: a @ b, a=cb.secret(300, 3), b=cb.secret(3, 7), key_policy="binary", n=256)
    check_toy(lambda a, b: a @ b, a=cb.secret(5000, 3), b=cb.secret(3, 7), n=1024)


def test_files(tmp_path: Path) -> None:
    program = cb.compile(
        lambda w, x: w @ x, {"w": cb.public(6, 9), "x": cb.secret(9, 2500)}, algorithm="gemm"
    )
    run_by_files(program, values_of(program), tmp_path).check()


def test_the_planner_takes_gemms_for_clear_weights_and_says_what_else() -> None:
    program = cb.compile(lambda w, x: w @ x, {"w": cb.public(24, 64), "x": cb.secret(64, 100)})
    assert program.plan.algorithm == "gemm" and not len(program.plan.keys)
    text = program.explain()
    assert "not taken" in text and "outer-product" in text and "times as long" in text
    small = cb.compile(lambda a, b: a @ b, {"a": cb.secret(64, 64), "b": cb.secret(64, 64)})
    assert small.plan.form == "blocks"
    assert any(loser.algorithm == "gemm" for loser in small.plan.rejected)
    entrywise = cb.compile(lambda a, b: (a @ b) * a, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)})
    (loser,) = (loser for loser in entrywise.plan.rejected if loser.algorithm == "gemm")
    assert "no method by rows" in loser.reason


def test_weights_that_overflow_every_modulus_are_refused_with_the_one_they_need() -> None:
    with pytest.raises(cb.PrecisionError, match=r"a modulus of \d+ bits"):
        cb.compile(
            lambda w, x: w @ x,
            {"w": cb.public(8, 8, bound=2.0**31 - 1, dtype="int32"), "x": cb.secret(8, 8)},
            algorithm="gemm",
            ring_degree=4096,
            precision=1e-9,
            security=256,
        )


def test_bad_input() -> None:
    with pytest.raises(cb.DTypeError, match="at most 32 bits"):
        cb.public(2, 2, dtype="int64")
    with pytest.raises(cb.DTypeError, match="NumPy type"):
        cb.public(2, 2, dtype="eight")
    with pytest.raises(cb.DTypeError, match="got complex128"):
        cb.public(2, 2, dtype=complex)
    program = cb.compile(
        lambda w, x: w @ x, {"w": cb.public(3, 4, dtype="int8"), "x": cb.secret(4, 5)}, algorithm="gemm"
    )
    client = program.client()
    server = program.server(client.evaluation_keys())
    x = client.encrypt({"x": np.ones((4, 5))})["x"]
    with pytest.raises(cb.RangeError, match="has fractions"):
        server.run({"w": np.full((3, 4), 0.5), "x": x})
    with pytest.raises(cb.RangeError, match="planned range"):
        server.run({"w": np.full((3, 4), 200.0), "x": x})
    with pytest.raises(cb.RangeError, match="NaN"):
        server.run({"w": np.full((3, 4), np.nan), "x": x})
    with pytest.raises(cb.ShapeError):
        server.run({"w": np.ones((4, 4)), "x": x})
    with pytest.raises(cb.ShapeError):
        client.encrypt({"x": np.ones((5, 4))})
    other = program.client()
    with pytest.raises(cb.MismatchError, match="key pair"):
        other.decrypt(server.run({"w": np.ones((3, 4)), "x": x}))
    with pytest.raises(cb.ParameterError, match="GEMM"):
        cb.compile(lambda a: a * a, {"a": cb.secret(3, 3)}, algorithm="gemm")
