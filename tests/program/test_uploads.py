"""Operands that are repeated are sent once: what they take beside the same operand alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_clear, trace
from cipherblas.lang.separated import separated
from tests.support.runs import run, toy, toy_rows, values_of

S = cb.secret
RNG = np.random.default_rng(60)
W = RNG.uniform(-1, 1, (300, 200))
T = RNG.uniform(-1, 1, (6, 20, 50))
# Beside a program of the operands alone, in one ring: so many times the bytes. A last block that is padded is another.
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any], float]] = {
    "number": (lambda s: s * W, {"s": S()}, 1),
    "number, a vector": (lambda s: s * T.ravel(), {"s": S()}, 2),
    "row": (lambda x: W - x, {"x": S(200)}, 1),
    "column": (lambda x: W - x, {"x": S(300, 1)}, 2),
    "(1, m)": (lambda x: W * x, {"x": S(1, 200)}, 1),
    "(n, 1) beside (1, m)": (lambda x, y: x * y, {"x": S(30, 1), "y": S(1, 200)}, 3),
    "beside a whole one": (lambda a, m: (a - m) * 0.5, {"a": S(300, 200), "m": S(200)}, 1.1),
    "a row of all channels": (lambda x: T * x, {"x": S(50)}, 2),
    "a column of all channels": (lambda x: T * x, {"x": S(20, 1)}, 2),
    "a number for each channel": (lambda x: T * x, {"x": S(6, 1, 1)}, 3),
    "an image of all channels": (lambda x: T * x, {"x": S(20, 50)}, 2),
    "an array of matrices": (lambda x: x[None] * T, {"x": S(20, 50)}, 2),
}


def uploads(program: cb.Program) -> float:
    return sum(one.form.ciphertexts for name in program.operands for one in program.inputs_of(name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_repeated_operands_take_what_they_take_alone(name: str) -> None:
    function, operands, most = PROGRAMS[name]
    program = toy(function, **operands, error=0.1)
    alone = toy(lambda **nodes: {name: node * 0.5 for name, node in nodes.items()}, **operands, error=0.1)
    assert uploads(program) <= most * uploads(alone)


@pytest.mark.parametrize(
    ("function", "row_copies"),
    [
        (lambda a, b, c: a @ b + c, True),
        (lambda a, b, c: a @ b - cb.broadcast_to(2 * c, (5, 7)), True),
        (lambda a, b, c: (a @ b).T * 0.5 + c[:5][:, None].T, True),
        (lambda a, b, c: a @ b + c[:5][:, None], True),
        (lambda a, b, c: W[:9, :5] @ cb.broadcast_to(c, (5, 7)), True),
        (lambda a, b, c: W[:9, :5] @ (a @ np.ones((6, 7)) + c), True),
        (lambda a, b, c: a.T @ cb.broadcast_to(c, (5, 7)), True),
        (lambda a, b, c: cb.broadcast_to(c[:, None], (7, 5)) @ a, True),
        (lambda a, b, c: W[:9, :6] @ (b - c[:6][:, None]), False),  # equal within a row: see the next test
    ],
)
@pytest.mark.encrypted
def test_repeated_rows_are_sent_once(function: Callable[..., Any], row_copies: bool) -> None:
    """By rows the server repeats them; and by columns, where that is as good."""
    program = toy_rows(function, a=S(5, 6), b=S(6, 7), c=S(7), error=1e-3)
    assert all(one.form.ciphertexts == 1 for one in program.inputs_of("c")) == row_copies
    run(program, values_of(program)).check()


@pytest.mark.parametrize("width", [2, 5, 16])
def test_entries_that_are_equal_within_a_row_are_no_less_in_one_encryption(width: int) -> None:
    """Why they are sent as copies. From the encryption (b, a) of a number c at X^0 a product with 1 + X + … + X^(n-1)
    makes that of a row of n copies, but entry j of it is a sum of n coefficients of b, which are others for each j: all
    n entries read 2·n - 1 of them (N at most), and each is a word of the upload. A copy is one word. Errors grow n
    times besides."""
    n, q, number = 64, 97 * 193, 1234
    rng = np.random.default_rng(width)

    def times(x: Any, y: Any) -> Any:
        found = np.convolve(x.astype(object), y.astype(object))
        return (found[:n] - np.append(found[n:], 0)) % q

    secret, a, error = rng.integers(-1, 2, n), rng.integers(0, q, n), rng.integers(-3, 4, n)
    b = (error - times(a, secret)) % q
    b[0] += number
    ones = np.where(np.arange(n) < width, 1, 0)

    def decrypted(b: Any) -> Any:
        return (times(b, ones) + times(times(a, ones), secret))[:width] % q

    found = (decrypted(b) - number + q // 2) % q - q // 2
    assert (np.abs(found) <= 3 * width).all()
    read = [k for k in range(n) if (decrypted(b + (np.arange(n) == k)) != decrypted(b)).any()]
    assert len(read) == min(n, 2 * width - 1) >= width


def test_entries_that_are_equal_within_a_row_take_what_others_take() -> None:
    function = lambda b, c: W[:9, :6] @ (b - c[:, None])  # noqa: E731
    program, beside = toy_rows(function, b=S(6, 7), c=S(6)), toy_rows(lambda b: W[:9, :6] @ b, b=S(6, 7))
    each = [one.inputs_of(name)[0].form for one, name in ((program, "c"), (program, "b"), (beside, "b"))]
    assert [one.shape for one in each] == [(6, 7)] * 3


def test_errors_of_repeated_rows_add_up() -> None:
    """A sum of 64 rows that are one encryption errs 64 times as much as one of them, and not 8 times."""
    ones = np.ones((1, 64))
    program = toy_rows(lambda c: ones @ cb.broadcast_to(c, (64, 7)), c=S(7), error=1e-3)
    separated = toy_rows(lambda c: ones @ c, c=S(64, 7), error=1e-3)
    scales = [one.inputs_of("c")[0].scale for one in (program, separated)]
    assert scales[0] >= scales[1]
    run(program, values_of(program)).check()


# ---- sums of products of what is repeated ----

D = RNG.uniform(-1, 1, (40, 30))
SUMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "distances": (lambda x: ((D - x) ** 2).sum(axis=1), {"x": S(30)}),
    "of columns": (lambda x: ((x[:, None] - 2 * D) ** 2).sum(axis=0), {"x": S(40)}),
    "means": (lambda x: ((D - x) ** 2).mean(axis=1), {"x": S(1, 30)}),
    "weighed": (lambda x: ((x - D) * (x + 3 * D)) @ D[0], {"x": S(30)}),
    "of two operands": (lambda x, y: ((D - x + y) * (x - D)).sum(axis=1), {"x": S(30), "y": S(30)}),
    "of a clear operand": (lambda x, d: ((d - x) ** 2).sum(axis=1), {"x": S(30), "d": cb.public(40, 30)}),
    "of a part": (lambda x: ((D - x[5:35]) ** 2).sum(axis=1), {"x": S(40)}),
    "of one clear factor": (lambda x: (D * (D - x)).sum(axis=1), {"x": S(30)}),
    "of a number": (lambda x: ((D - x) ** 2).sum(axis=1), {"x": S()}),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_products_are_taken_apart(name: str) -> None:
    """They are what they were, no bound is larger, and nothing that is repeated is left in a product of secrets."""
    function, operands = SUMS[name]
    written = trace(function, operands)
    found = separated(written)
    values = {key: RNG.uniform(-1, 1, operand.shape) for key, operand in operands.items()}
    assert found is not written and found.bound <= written.bound * (1 + 1e-12)
    assert np.allclose(evaluate_clear(found, values), function(**values), atol=1e-12)
    assert max(math.prod(one.shape) for one in _operands(found) if one.secret) <= max(D.shape)


def _operands(node: Any) -> list[Any]:
    return (
        [node] if node.operand is not None else [one for child in node.children for one in _operands(child)]
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: ((y - x) ** 2).sum(axis=1),  # a whole secret matrix
        lambda x, y: (D - x) ** 2,  # no sum
        lambda x, y: ((D - x) ** 2) @ y.T,  # a secret factor
        lambda x, y: ((D - x) ** 2) @ D.T,  # several sums
        lambda x, y: (cb.broadcast_to(x, (40, 30)) ** 2).sum(axis=1),
    ],
)
def test_others_stay_as_they_are(function: Callable[..., Any]) -> None:
    written = trace(function, {"x": S(30), "y": S(40, 30)})
    assert separated(written) is written


@pytest.mark.encrypted
@pytest.mark.parametrize("name", ["of two operands"])
def test_distances_are_right(name: str) -> None:
    function, operands = SUMS[name]
    program = toy(function, **operands, error=0.01, algorithm="diagonals")
    values = values_of(program)
    found = run(program, values).check()
    assert np.abs(found.decrypted - function(**values)).max() <= program.plan.error


def test_distances_to_many_points_send_one_point() -> None:
    points = RNG.uniform(-1, 1, (1000, 1024))
    for function in (lambda x: ((points - x) ** 2).sum(axis=1), lambda x: ((x - points) ** 2).mean(axis=1)):
        program = toy(function, x=S(1024), error=0.1, ring_degree=8192, algorithm="diagonals")
        assert uploads(program) <= 3


def test_a_budget_of_uploads_finds_blocks_as_long_as_what_is_repeated() -> None:
    """Copies that would be faster are left out where the budget is small."""
    usual = toy(lambda x: ((W - x) ** 4).sum(axis=1), x=S(200), error=1.0)
    few = toy(
        lambda x: ((W - x) ** 4).sum(axis=1), x=S(200), error=1.0, upload_budget=usual.plan.upload_bytes // 4
    )
    assert uploads(few) * 4 <= uploads(usual)
