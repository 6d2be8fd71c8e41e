"""What is known of an operand beside its bound: sums of rows and columns, norms, bounds of columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.cli.options import parse_operand
from cipherblas.common.errors import DTypeError, PrecisionError, RangeError, ShapeError
from cipherblas.lang.analysis import trace
from cipherblas.planner.plan.worst_case import worst_errors
from tests.support.runs import run, toy, toy_rows

S, P = cb.secret, cb.public
RNG = np.random.default_rng(15)


def stochastic(n: int) -> Any:
    matrix = RNG.uniform(0, 1, (n, n))
    return matrix / matrix.sum(axis=1, keepdims=True)


def orthogonal(n: int) -> Any:
    return np.linalg.qr(RNG.normal(size=(n, n)))[0]


def iterated(A: Any, v: Any, times: int = 3) -> Any:
    for _ in range(times):
        v = A @ v
    return v


@pytest.mark.parametrize(
    ("operand", "function", "bound"),
    [
        (S(6, 6, row_sum=1.0), lambda a, v: a @ (a @ v), 2.0),
        (S(6, 6, column_sum=1.0), lambda a, v: a.T @ (a.T @ v), 2.0),
        (P(6, 6, row_sum=1.0), lambda a, v: 3 * (a @ v), 6.0),
        (S(6, 6, row_sum=1.5), lambda a, v: (a @ a) @ v, 1.5**2 * 2),
        (S(6, 6, row_sum=1.5), lambda a, v: (a + a) @ v, 2 * 1.5 * 2),
        (S(6, 6, row_sum=1.0), lambda a, v: cb.assume(a, 1.0) @ v, 2.0),
        (S(6, 6, row_sum=1.0), lambda a, v: a[1:4] @ v, 2.0),
        (S(6, 6, row_sum=1.0), lambda a, v: a.reshape(9, 4) @ v[:4], 8.0),  # rows are others
        (S(6, 6, norm=1.0), lambda a, v: a @ (a @ (a @ v)), math.sqrt(6) * 2),
        (S(6, 6, bound=cb.columns([1, 0.1, 0.1, 0.1, 0.1, 0.1])), lambda a, v: a @ v, 1.5 * 2),
    ],
)
def test_bounds_follow(operand: Any, function: Any, bound: float) -> None:
    node = trace(function, {"a": operand, "v": S(6, bound=2.0)})
    assert node.bound == pytest.approx(bound)


SPREAD = np.array([1000.0, 1.0, 0.01])  # of the columns of a table
WEIGHTS = np.array([[0.001, -0.002], [1.0, 0.0], [100.0, 50.0]])


@pytest.mark.parametrize(
    ("function", "bound"),
    [
        (lambda x: x @ WEIGHTS, 3.0),
        (lambda x: WEIGHTS.T @ x.T, 3.0),
        (lambda x: (x @ WEIGHTS[:, :1])[:, 0], 3.0),
        (lambda x: x @ WEIGHTS[:, 0], 3.0),
        (lambda x: (x @ WEIGHTS) @ np.array([[1.0], [1.0]]), 3.0 + 2.5),
        (lambda x: (-2 * x + x) @ WEIGHTS, 9.0),
        (lambda x: (x + np.ones((4, 3))) @ WEIGHTS[:, 0], 1001 * 0.001 + 2 + 101),
        (lambda x: x[:2, 1:] @ WEIGHTS[1:], 2.0),
        (lambda x: cb.assume(x, 10.0) @ WEIGHTS[:, 0], 0.01 + 1 + 1),
        (lambda x: (np.full((2, 4), 0.5) @ x) @ WEIGHTS, 2 * 3.0),
        (lambda x: x @ (x.T @ np.ones((4, 1))), 4 * (1000**2 + 1 + 0.01**2)),
        (lambda x: x.reshape(3, 4) @ np.ones(4), 4000.0),  # columns are others
    ],
)
def test_bounds_of_columns_meet_the_weights_of_each(function: Any, bound: float) -> None:
    node = trace(function, {"x": S(4, 3, bound=cb.columns(SPREAD))})
    assert node.bound == pytest.approx(bound)
    values = np.random.default_rng(0).choice([-1.0, 1.0], (200, 4, 3)) * SPREAD
    if "assume" not in function.__code__.co_names:
        assert max(np.abs(function(one)).max() for one in values) <= node.bound


def test_bounds_of_columns_are_found_once() -> None:
    """In a graph of 2^60 paths."""

    def doubled(x: Any) -> Any:
        for _ in range(60):
            x = -1.5 * cb.assume(x + x, 2000.0)
        return x

    node = trace(doubled, {"x": S(4, 3, bound=cb.columns(SPREAD))})
    assert node.column_bounds is not None and node.column_bounds.shape == (3,)


@pytest.mark.encrypted
@pytest.mark.parametrize("made", [toy, toy_rows])
@pytest.mark.parametrize("function", [lambda x: x @ WEIGHTS, lambda x: WEIGHTS.T @ x.T])
def test_columns_of_very_different_ranges(made: Any, function: Any) -> None:
    """By default results are as precise as what they can be, and not as what the largest weight would make of the
    largest column."""
    program = made(function, x=S(4, 3, bound=cb.columns(SPREAD)))
    assert program.plan.error_target == pytest.approx(3e-4)
    for values in (
        RNG.uniform(-1, 1, (4, 3)),
        np.ones((4, 3)),
        np.zeros((4, 3)),
        np.sign(RNG.normal(size=(4, 3))),
    ):
        run(program, {"x": values * SPREAD}).check()


def test_what_is_known_bounds_the_entries() -> None:
    assert S(3, 3, row_sum=0.5).bound == S(3, 3, norm=0.5).bound == P(3, 3, column_sum=0.5).bound == 0.5
    assert S(3, column_sum=0.5).sums()[1] == 0.5
    assert S(3, 2, bound=cb.columns([2, 8])).bound == 8.0


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: S(3, row_sum=1.0), ShapeError),
        (lambda: S(2, 3, 4, norm=1.0), ShapeError),
        (lambda: S(3, 2, bound=cb.columns([1.0])), ShapeError),
        (lambda: S(3, 3, row_sum=0.0), RangeError),
        (lambda: S(3, 3, norm="1"), DTypeError),  # type: ignore[arg-type]
        (lambda: cb.columns(3), DTypeError),  # type: ignore[arg-type]
        (lambda: cb.columns(["a"]), DTypeError),  # type: ignore[list-item]
    ],
)
def test_what_cannot_be_known(make: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        make()


@pytest.mark.encrypted
@pytest.mark.parametrize("algorithm", ["fame", None])
@pytest.mark.parametrize("declare", [S, P])
def test_stochastic_matrices_contract(algorithm: str | None, declare: Any) -> None:
    operands = {"A": declare(5, 5, row_sum=1.0), "v": S(5, 1)}
    program = toy(iterated, precision=1e-3, algorithm=algorithm, **operands)
    assert program.expression.bound == 1.0
    for values in (RNG.uniform(-1, 1, (5, 1)), np.ones((5, 1))):
        for matrix in (stochastic(5), np.eye(5)[::-1], np.eye(5)[[0] * 5]):
            run(program, {"A": matrix, "v": values}).check()


@pytest.mark.encrypted
def test_errors_contract_as_values_do() -> None:
    """Of products one after another: without what is known each multiplies errors by the number of its terms."""
    errors = {}
    for name, known in (("known", {"row_sum": 1.0}), ("unknown", {})):
        programs = [
            toy(
                lambda A, v, times=times: cb.assume(iterated(A, v, times), 1.0),
                A=S(8, 8, **known),
                v=S(8, 1),
                precision=1e-2,
                algorithm="fame",
                block=8,
            )
            for times in (1, 3)
        ]
        errors[name] = programs[1].plan.parameters.scale_bits - programs[0].plan.parameters.scale_bits
    assert errors["known"] < errors["unknown"] - 3


@pytest.mark.encrypted
@pytest.mark.parametrize(
    ("known", "function"),
    [
        ({"row_sum": 1.0}, lambda A, v: A @ (A @ (A @ v))),
        ({"column_sum": 1.0}, lambda A, v: (((v.T @ A) @ A) @ A).T),
        ({"column_sum": 1.0}, lambda A, v: A.T @ (A.T @ (A.T @ v))),
    ],
)
def test_errors_contract_by_rows_as_well(known: dict[str, float], function: Any) -> None:
    """Of 16 terms each product by GEMM would add four bits of range, and as many of errors."""
    vector = S(16, 1)
    assumed = lambda A, v: cb.assume(function(A, v), 1.0)  # noqa: E731
    usual = toy_rows(assumed, A=S(16, 16), v=vector, error=1e-3)
    program = toy_rows(assumed, A=S(16, 16, **known), v=vector, error=1e-3)
    bits = [math.fsum(map(math.log2, one.plan.parameters.q)) for one in (usual, program)]
    assert bits[1] <= bits[0] - 24  # twelve of each, and rounding to whole bits
    assert program.expression.bound == 1.0
    matrices = (stochastic(16), np.eye(16)[::-1], np.eye(16)[[0] * 16])
    for values in (np.ones((16, 1)), RNG.uniform(-1, 1, (16, 1))):
        for matrix in matrices[: 1 if "column_sum" in known else 3]:
            run(program, {"A": matrix.T if "column_sum" in known else matrix, "v": values}).check()


def test_worst_errors_by_rows_use_what_is_known() -> None:
    """Those of shared results: errors of the vector are multiplied by 1, and not by 64 terms."""

    def program(**known: float) -> cb.Program:
        return toy_rows(lambda A, v: cb.assume(A @ v, 1.0), A=S(64, 64, **known), v=S(64, 1), error=1e-3)

    usual, known = program(), program(row_sum=1.0)
    plan = usual.plan
    (with_sums,), (without,) = (worst_errors(one.expression, plan) for one in (known, usual))
    assert with_sums < without


@pytest.mark.encrypted
def test_what_is_known_is_checked_kept_and_shown(tmp_path: Path) -> None:
    operands = {
        "A": S(3, 3, row_sum=1.0, norm=1.5),
        "B": S(3, 3, column_sum=1.0, bound=cb.columns([1.0, 0.5, 0.25])),
        "w": P(3, 3, row_sum=2.0),
    }
    program = toy(lambda A, B, w: w @ (A @ B), precision=1e-3, **operands)
    program.save(tmp_path / "program")
    loaded = cb.Program.load(tmp_path / "program", insecure=True, security=0)
    assert loaded.id == program.id and loaded.operands == program.operands
    assert toy(lambda A, B, w: w @ (A @ B), precision=1e-3, **{**operands, "A": S(3, 3)}).id != program.id
    assert "rows sum up to 1, norm up to 1.5" in program.explain()
    assert "columns from 0.25 to 1" in program.explain()
    client = program.client()
    good = {"A": np.full((3, 3), 1 / 3), "B": np.full((3, 3), 0.25)}
    encrypted = client.encrypt(good)
    secret = 0.61234
    for name, bad, words in (
        ("A", [[0.5, secret, 0], [0, 0, 0], [0, 0, 0]], "row_sum"),
        ("A", [[1.0, 0, 0], [1.0, 0, 0], [1.0, 0, 0]], "norm"),
        ("B", [[0.5, 0, 0], [secret, 0, 0], [0, 0, 0]], "column_sum"),
        ("B", [[0, 0, secret], [0, 0, 0], [0, 0, 0]], "Column 2"),
    ):
        with pytest.raises(RangeError, match=words) as caught:
            client.encrypt({**good, name: np.array(bad)})
        assert "0.6" not in str(caught.value)
    server = program.server(client.evaluation_keys())
    with pytest.raises(RangeError, match="row_sum"):
        server.run({**encrypted, "w": np.ones((3, 3))})
    result = client.decrypt(server.run({**encrypted, "w": np.full((3, 3), 0.5)}))
    assert np.abs(result - np.full((3, 3), 0.5) @ good["A"] @ good["B"]).max() <= program.plan.error


def test_on_the_command_line() -> None:
    name, operand = parse_operand("A=15x15:row_sum=1:norm=2")
    assert (name, operand) == ("A", S(15, 15, row_sum=1.0, norm=2.0))
    assert parse_operand("w=4x5:public:column_sum=3")[1] == P(4, 5, column_sum=3.0)


def bounded(A: Any, v: Any, times: int, right: bool = False) -> Any:
    for _ in range(times):
        v = cb.assume(v @ A if right else A @ v, math.sqrt(8))
    return v


@pytest.mark.encrypted
@pytest.mark.parametrize(
    ("declare", "columns", "function"),
    [
        (P, 1, bounded),
        (P, 3, lambda A, v, times: bounded(A, v.T, times, right=True)),
        (S, 1, lambda A, v, times: bounded(A.T, v, times)),
    ],
)
def test_errors_of_orthogonal_matrices_add_up_in_slots(declare: Any, columns: int, function: Any) -> None:
    """The largest error may grow by the root of eight in each product, those of a column together do not."""

    def program(times: int, **options: Any) -> cb.Program:
        known = {"norm": 1.0} if options.pop("known", True) else {"row_sum": math.sqrt(8)}
        operands = {"A": declare(8, 8, bound=1.0, **known), "v": S(8, columns)}
        options = {"algorithm": "fame", "block": 8, **options}
        return toy(lambda A, v: function(A, v, times), **operands, **options)

    longest = program(5, error=1e-2)
    fixed = {"parameters": longest.plan.parameters, "error": 2.0}
    errors = [program(times, **fixed).plan.error for times in (2, 4, 5)]
    assert errors[2] / errors[1] < 1.6 and errors[2] / errors[0] < 5
    assert program(5, known=False, **fixed).plan.error > 3 * errors[2]
    signs = np.where(np.arange(8)[:, None] + np.arange(columns) & 1, 1.0, -1.0)
    for matrix, values in ((orthogonal(8), signs), (np.eye(8)[::-1], signs), (np.zeros((8, 8)), 0 * signs)):
        run(longest, {"A": matrix, "v": values}).check()


@pytest.mark.encrypted
@pytest.mark.parametrize(("declare", "columns"), [(P, 1), (P, 4), (S, 1)])
def test_errors_of_orthogonal_matrices_add_up_by_rows(declare: Any, columns: int) -> None:
    """Ranges do not grow with the number of terms then, and neither do errors."""
    times, error = (6, 1e-2) if declare is P else (3, 1e-3)
    function = lambda A, v: iterated(A, v, times)  # noqa: E731
    program = toy_rows(function, A=declare(16, 16, norm=1.0), v=S(16, columns), error=error)
    usual = {"A": declare(16, 16), "v": S(16, columns), "error": error}
    assumed = lambda A, v: cb.assume(function(A, v), 4.0)  # noqa: E731
    if declare is P:
        with pytest.raises(PrecisionError):  # roundings of weights may grow by the number of terms each time
            toy_rows(assumed, **usual)
    else:
        bits = [
            math.fsum(map(math.log2, one.plan.parameters.q)) for one in (toy_rows(assumed, **usual), program)
        ]
        assert bits[1] <= bits[0] - 2 * 2 * (times - 1)
    hadamard = np.array([[1.0]])
    while len(hadamard) < 16:
        hadamard = np.kron(hadamard, [[0.5, 0.5], [0.5, -0.5]]) * math.sqrt(2)
    values = np.where(np.arange(16)[:, None] + np.arange(columns) & 1, 1.0, -1.0)
    for matrix in (orthogonal(16), hadamard, np.eye(16)[RNG.permutation(16)], np.zeros((16, 16))):
        run(program, {"A": matrix, "v": values}).check()
