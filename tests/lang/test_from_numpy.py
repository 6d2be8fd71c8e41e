"""NumPy's functions on nodes: every row of the table is what NumPy computes, and everything else is a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_results, trace
from cipherblas.lang.batches import Batch
from cipherblas.lang.from_numpy import ENTRIES, relu_levels
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operations import Leaf
from tests.corpus.machine import MACHINE

RANDOM = np.random.default_rng(11)
MASK = np.arange(12).reshape(4, 3) % 3 > 0
# By name in the table, calls on A, B (4×3), x, y (4), s (a number) and T (2×3×4): they are given nodes, and arrays.
CASES: dict[str, list[Callable[..., Any]]] = {
    "matmul": [
        lambda A, B: np.matmul(A, B.T),
        lambda A: np.matmul(np.ones((2, 4)), A),
        lambda T: np.matmul(T, T.mT),
    ],
    "add": [lambda A: np.add(A, 1.0), lambda A: np.add(np.ones(3), A), lambda s, x: np.add(s, x)],
    "subtract": [lambda A, B: np.subtract(A, B), lambda x: np.subtract(np.arange(4.0), x)],
    "multiply": [lambda A, B: np.multiply(A, B), lambda A: np.multiply(2, A)],
    "divide": [lambda A: np.divide(A, [1.0, 2.0, 4.0]), lambda A: np.true_divide(A, 4)],
    "power": [lambda A: np.power(A, 3)],
    "shape": [lambda A: A * np.shape(A)[0]],
    "ndim": [lambda A, s: A * np.ndim(A) + np.ndim(s)],
    "size": [lambda A: A * np.size(A) + np.size(A, -1) + np.size(A, axis=0)],
    "reshape": [
        lambda A: np.reshape(A, (2, -1)),
        lambda A: np.reshape(A, -1, order="C"),
        lambda s: np.reshape(s, (1, 1)),
    ],
    "ravel": [lambda A: np.ravel(A), lambda s: np.ravel(s)],
    "transpose": [lambda A: np.transpose(A), lambda T: np.transpose(T, (2, 0, 1)), lambda s: np.transpose(s)],
    "matrix_transpose": [lambda A: np.matrix_transpose(A), lambda T: np.matrix_transpose(T)],
    "swapaxes": [lambda T: np.swapaxes(T, 0, -1), lambda A: np.swapaxes(A, -1, -2)],
    "moveaxis": [lambda T: np.moveaxis(T, 0, -1), lambda T: np.moveaxis(T, [0, 1], [-1, 0])],
    "squeeze": [lambda A: np.squeeze(A[:1]), lambda A: np.squeeze(A[:1], axis=-2)],
    "expand_dims": [lambda x: np.expand_dims(x, -1), lambda x: np.expand_dims(x, (0, -1))],
    "broadcast_to": [lambda x: np.broadcast_to(x, (3, 4)), lambda s: np.broadcast_to(s, 5)],
    "atleast_1d": [lambda s: np.atleast_1d(s), lambda x: np.atleast_1d(x)],
    "atleast_2d": [lambda s: np.atleast_2d(s), lambda x: np.atleast_2d(x)],
    "concatenate": [
        lambda A, B: np.concatenate([A, B]),
        lambda A, B: np.concatenate((A, np.ones((4, 2)), B), axis=-1),
        lambda A, x: np.concatenate([A, x], axis=None),
    ],
    "stack": [lambda x, y: np.stack([x, y], axis=-1), lambda A, B: np.stack([A, B])[1]],
    "vstack": [lambda A, x: np.vstack([A, x[:3], np.ones(3)]), lambda x, y: np.vstack((x, y))],
    "hstack": [lambda A, B: np.hstack([A, B]), lambda x, y: np.hstack([x, y, 1.0])],
    "column_stack": [lambda A, x: np.column_stack([A, x, np.ones(4)])],
    "split": [
        lambda A: np.split(A, 2)[1],
        lambda A, B: np.split(A @ B.T, [1, 3], axis=-1)[1],
        lambda x: np.split(x, [1])[1],
    ],
    "take": [
        lambda A: np.take(A, [2, 0], axis=-1),
        lambda A: np.take(A, 5),
        lambda A: np.take(A, [[0, 1], [2, 1]], 0),
    ],
    "flip": [
        lambda A: np.flip(A),
        lambda A: np.flip(A, -1),
        lambda T: np.flip(T, (0, 2)),
        lambda s: np.flip(s),
    ],
    "flipud": [lambda A: np.flipud(A)],
    "fliplr": [lambda A: np.fliplr(A)],
    "roll": [lambda A: np.roll(A, 2), lambda A: np.roll(A, -1, axis=-1)],
    "repeat": [lambda A: np.repeat(A, 2, axis=-2), lambda x: np.repeat(x, [0, 1, 2, 1])],
    "tile": [lambda A: np.tile(A, (2, 1)), lambda x: np.tile(x, 3), lambda x: np.tile(x, (2, 1))],
    "diag": [lambda x: np.diag(x), lambda A: np.diag(A)],
    "diagonal": [lambda A: np.diagonal(A, -1), lambda A: np.diagonal(A, offset=1)],
    "tril": [lambda A: np.tril(A), lambda A: np.tril(A, -1)],
    "triu": [lambda A: np.triu(A), lambda A: np.triu(A, k=1)],
    "diff": [lambda A: np.diff(A), lambda A: np.diff(A, 2, axis=0)],
    "where": [
        lambda A, B: np.where(MASK, A, B),
        lambda A: np.where(MASK, 0.5, A),
        lambda x: np.where([1, 0, 1, 0], x, 0),
    ],
    "zeros_like": [lambda A: A + np.zeros_like(A)],
    "ones_like": [lambda A: A + np.ones_like(A)],
    "full_like": [lambda A: A + np.full_like(A, 0.25)],
    "sum": [
        lambda A: np.sum(A),
        lambda A: np.sum(A, axis=-1, keepdims=True),
        lambda T: np.sum(T, (0, 2)),
        lambda s: np.sum(s),
        lambda A: np.sum(A, 0, np.float64, None),
    ],
    "mean": [lambda A: np.mean(A, axis=0), lambda A: np.mean(A, -1, keepdims=True), lambda T: np.mean(T)],
    "var": [lambda A: np.var(A, axis=-1, ddof=1), lambda A: np.var(A, keepdims=True)],
    "average": [
        lambda A: np.average(A),
        lambda A: np.average(A, axis=0, weights=[1.0, 2.0, 3.0, 4.0]),
        lambda A: np.average(A, weights=MASK + 1.0),
        lambda A: np.average(A, axis=-1, weights=[1, 2, 1], keepdims=True),
    ],
    "cov": [
        lambda A: np.cov(A),
        lambda A: np.cov(A, rowvar=False),
        lambda x: np.cov(x),
        lambda A: np.cov(A, bias=True),
    ],
    "cumsum": [lambda A: np.cumsum(A), lambda A: np.cumsum(A, axis=-1)],
    "trace": [lambda A, B: np.trace(A.T @ B)],
    "dot": [
        lambda A, B: np.dot(A, B.T),
        lambda x, y: np.dot(x, y),
        lambda A: np.dot(np.ones((2, 4)), A),
        lambda s, x: np.dot(x, 2),
    ],
    "vdot": [lambda A, B: np.vdot(A, B)],
    "inner": [lambda A, B: np.inner(A, B), lambda x, y: np.inner(x, y)],
    "outer": [lambda x, y: np.outer(x, y)],
    "tensordot": [
        lambda A, B: np.tensordot(A, B, axes=([0], [0])),
        lambda A, B: np.tensordot(A, B),
        lambda A: np.tensordot(np.arange(24.0).reshape(2, 3, 4) / 24, A, axes=([1, 2], [1, 0])),
        lambda x, y: np.tensordot(x, y, axes=0),
    ],
    "vecdot": [lambda A, B: np.vecdot(A, B)],
    "linalg.matrix_power": [lambda A, B: np.linalg.matrix_power(A.T @ B / 4, 2)],
    "linalg.multi_dot": [lambda A, B, x: np.linalg.multi_dot([A, B.T, x])],
    "negative": [lambda A: np.negative(A)],
    "positive": [lambda A: np.positive(A)],
    "square": [lambda A: np.square(A)],
    "absolute": [lambda A: np.abs(A), lambda x: abs(x), lambda T: abs(T)],
    "fabs": [lambda x: np.fabs(x)],
    "maximum": [
        lambda A: np.maximum(A, 0),
        lambda A, B: np.maximum(A, B),
        lambda x: np.maximum(np.ones(4) / 8, x),
    ],
    "minimum": [
        lambda A, B: np.minimum(A, B),
        lambda x: np.minimum(0.25, x),
        lambda T: np.minimum(T @ T.mT, 0.5),
    ],
    "clip": [
        lambda A: np.clip(A, -0.5, 0.5),
        lambda A: np.clip(A, None, 0.25),
        lambda A: np.clip(A, a_min=0, a_max=None),
    ],
    "exp": [lambda A: np.exp(A), lambda T: np.exp(T @ T.mT / 4)],
    "tanh": [lambda A: np.tanh(A)],
    "polyval": [lambda x: np.polyval([3.0, 2.0, 1.0], x)],
    **{
        name: [lambda x, name=name: getattr(np, name)(x)]
        for name in ("sin", "cos", "sinh", "cosh", "arctan", "arcsinh", "expm1", "exp2")
    },
    "scipy.special.expit": [lambda x: pytest.importorskip("scipy.special").expit(x)],
    "scipy.special.erf": [lambda x: pytest.importorskip("scipy.special").erf(x)],
}
# Calls of one function more, at the borders of what it takes.
CASES_BESIDE: list[Callable[..., Any]] = [
    lambda s, A: np.dot(s, A),
    lambda A, s: np.inner(A, s),
    lambda T, x: np.dot(T, x),
    lambda T, A: np.dot(T, A),
    lambda x: np.cov(np.reshape(x, (1, 4))),
    lambda x: np.cov(np.reshape(x, (4, 1)), rowvar=False),
    lambda x: np.tril(x, 1),
    lambda x: np.triu(x),
    lambda T: np.average(T, axis=(2, 0), weights=np.arange(8).reshape(4, 2)),
    lambda T: np.average(T, axis=-2, weights=[1, 2, 3], returned=False),
    lambda x: np.swapaxes(x, 0, 0),
    lambda A: np.roll(A, (1, -2), (0, 1)),
    lambda A: np.roll(A, [1, 5], axis=-1),
    lambda A: np.roll(A, (1, 2)),
    lambda A: np.trace(A, 0, axis1=0, axis2=1),
    lambda A: np.diagonal(A, 1, 0, 1),
    lambda x: np.diag(x, k=0),
    lambda A: np.take(A, [1, 2], axis=1, mode="raise"),
]
SHAPES = {"A": (4, 3), "B": (4, 3), "x": (4,), "y": (4,), "s": (), "T": (2, 3, 4)}
CALLS = [(name, call) for name, calls in CASES.items() for call in calls]
CALLS += [("sum", call) for call in CASES_BESIDE]


def names_of(call: Callable[..., Any]) -> list[str]:
    code = call.__code__
    return [name for name in code.co_varnames[: code.co_argcount] if name in SHAPES]


def exists(name: str) -> bool:
    place: Any = np
    if name.startswith("scipy"):
        return True
    for part in name.split("."):
        place = getattr(place, part, None)
    return place is not None


def test_every_row_has_a_case() -> None:
    assert [entry.name for entry in ENTRIES] == list(CASES)


@pytest.mark.parametrize(("name", "call"), CALLS, ids=[f"{name}" for name, _ in CALLS])
def test_rows_are_those_of_numpy(name: str, call: Callable[..., Any]) -> None:
    if not exists(name) or (name == "matmul" and not exists("matrix_transpose")):
        pytest.skip("not in this version of NumPy")
    names = names_of(call)
    values = {one: RANDOM.uniform(-1, 1, SHAPES[one]) for one in names}
    operands = {one: cb.secret(*SHAPES[one]) for one in names}
    expected = call(**values)
    node = trace(call, operands)
    found = written_values(node, values)
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def written_values(node: Expression, values: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Of the exact expression, as it was written; matrices of a batch as one array."""
    found = evaluate_results(node, values, as_written=True)
    return np.stack(found) if node.root else np.asarray(found[0])


REFUSED: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda A, x: np.sum(A, out=np.zeros(())), "The argument out of sum"),
    (lambda A, x: np.sum(A, 0, None, None, True, 3), "The argument initial of sum"),
    (lambda A, x: np.sum(A, where=MASK), "The argument where of sum"),
    (lambda A, x: np.mean(A, dtype=np.float32), "The argument dtype of mean"),
    (lambda A, x: np.add(A, 1.0, out=np.zeros((4, 3))), "The argument out of add"),
    (lambda A, x: np.zeros((4, 3)).__iadd__(A), "The argument out of add"),
    (lambda A, x: np.exp(A, where=MASK), "The argument where of exp"),
    (lambda A, x: np.reshape(A, (3, 4), order="F"), "The argument order of reshape"),
    (lambda A, x: np.diag(A, k=1), "The argument k of diag"),
    (lambda A, x: np.concatenate([A, np.zeros((0, 3))]), "A constant must be"),
    (lambda A, x: np.concatenate([A, x]), "equal lengths"),
    (lambda A, x: np.take(x, A), "cannot be followed"),
    (lambda A, x: np.moveaxis(A, [0, 1], [1]), "as many places"),
    (lambda A, x: np.tensordot(A, A, axes=1), "equal lengths"),
    (lambda A, x: np.sum(A, axis=2), "no such axis"),
    (lambda A, x: np.cov(A, ddof=3), "divisor of a variance"),
    (lambda A, x: np.add.reduce(A), r"np\.add\.reduce.*\n.*x\.sum\(axis=0\)"),
    (lambda A, x: np.fft.fft(x), "np.fft.*\n.*or the decrypted result"),
    (lambda A, x: np.log(x), r"cb\.chebyshev\(np\.log, x, interval="),
    (lambda A, x: np.sqrt(x), r"cb\.sqrt\(x, lower="),
    (lambda A, x: np.std(x), r"cb\.sqrt\(x\.var\(\)"),
    (lambda A, x: np.linalg.norm(x), "cb.squared_norm"),
    (lambda A, x: np.less(x, 0.5), "cannot be compared"),
    (lambda A, x: np.equal(x, 0.5), "to compare, the server would have to see values"),
    (lambda A, x: np.where(A, 1.0, 0.0), "The mask must be clear"),
    (lambda A, x: np.asarray(A), "cannot be converted to an array"),
    (lambda A, x: np.ldexp(A, 2), "np.ldexp"),
    (lambda A, x: np.dot(np.stack([A, A]), np.stack([A.T, A.T])), "of all pairs"),
    (lambda A, x: A.T.dot(np.stack([A, A])), "of all pairs"),
    (lambda A, x: np.where(x == 0.5, x, 0.0), "The mask is False"),
    (lambda A, x: np.where(x != x[::-1], x, 0.0), "The mask is True"),
    (lambda A, x: x[x != x[::-1]], "The index is True"),
    (lambda A, x: np.size(A, 2), "no such axis"),
    (lambda A, x: np.average(A, weights=[1, 2, 3]), "weights of an average"),
    (lambda A, x: np.average(A, axis=0, weights=[1, 2, 3]), "weights of an average"),
    (lambda A, x: np.repeat(x, -1), "no such copies"),
    (lambda A, x: np.expand_dims(x, (0, 0)), "given twice"),
    (lambda A, x: np.roll(A, (1, 2, 3), (0, 1)), "as many shifts as axes"),
    (lambda A, x: np.tril(A.sum()), "no such axis"),
    (lambda A, x: np.amax(A), "The max of encrypted entries"),
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
def test_everything_else_is_a_sentence(call: Callable[..., Any], says: str) -> None:
    with pytest.raises(cb.CipherblasError) as caught:
        call(Leaf("A", cb.secret(4, 3)), Leaf("x", cb.secret(4)))
    assert re.search(says, str(caught.value)), caught.value
    assert caught.value.advice


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "sort", "argsort"])
def test_comparisons_of_entries_tell_their_price(name: str) -> None:
    x = Leaf("x", cb.secret(3, 8))
    rounds = 6 if "sort" in name else 3
    for call in (lambda: getattr(x, name)(axis=-1), lambda: getattr(np, name)(x, axis=1)):
        with pytest.raises(cb.DTypeError, match=f"Of 8 entries it takes {rounds} rounds of cb.relu"):
            call()
    with pytest.raises(cb.DTypeError, match=f"Of 24 entries it takes {15 if 'sort' in name else 5} rounds"):
        getattr(x, name)()


def test_the_price_of_a_comparison_is_that_of_relu() -> None:
    operands = {"x": cb.secret(8)}
    program = cb.compile(lambda x: cb.relu(x, precision=1e-2), operands, precision=0.1, machine=MACHINE)
    assert relu_levels() == program.plan.levels


def test_types_and_namespaces() -> None:
    x, batch = Leaf("x", cb.secret(3, 4)), Batch([Leaf("x", cb.secret(3, 4)), Leaf("z", cb.secret(3, 4))])
    assert x.dtype == batch.dtype == np.float64 and (x.ndim, x.size, batch.size) == (2, 12, 24)
    whole = Leaf("x", cb.secret(3, dtype=np.int16, exact=True))
    assert (whole + whole).dtype == np.int64 and np.sum(whole, dtype=np.int64).shape == ()
    assert Leaf("x", cb.secret(3, modulus=65537)).dtype == np.int64
    assert Leaf("x", cb.secret(3, dtype=np.int8)).dtype == np.float64
    assert x.mT.shape == (4, 3) and Leaf("x", cb.secret(2, 3, 4)).mT.shape == (2, 4, 3)
    xp = x.__array_namespace__(api_version="2023.12")
    assert xp.mean(x, axis=-1).shape == (3,) and xp.exp(batch).shape == (2, 3, 4)
    with pytest.raises(cb.ShapeError, match="Only matrices"):
        Leaf("x", cb.secret(3)).mT  # noqa: B018


def _standardised(A: Any, x: Any) -> dict[str, Any]:
    centred = A - np.mean(A, axis=0)
    return {
        "table": np.concatenate([centred / np.array([1.0, 2.0, 4.0]), np.zeros_like(A)], axis=-1),
        "moments": np.stack([np.mean(A, axis=-1), np.square(x)]),
        "scores": np.tanh(np.matmul(A, np.array([0.5, -0.25, 0.125]))),
    }


@pytest.mark.encrypted
def test_encrypted_and_saved(tmp_path: Path) -> None:
    """Several results by NumPy's functions, from a program that was saved and loaded."""
    operands = {"A": cb.secret(4, 3), "x": cb.secret(4)}
    cb.compile(_standardised, operands, precision=1e-2).save(tmp_path / "program")
    program = cb.Program.load(tmp_path / "program")
    values = {"A": RANDOM.uniform(-1, 1, (4, 3)), "x": RANDOM.uniform(-1, 1, 4)}
    client = program.client()
    found = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt(values)))
    expected = _standardised(**values)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=program.plan.error)


@pytest.mark.encrypted
def test_encrypted_integers_and_comparisons() -> None:
    operands = {"n": cb.secret(3, 4, dtype=np.int8, exact=True)}
    program = cb.compile(lambda n: np.sum(np.roll(n, 1, axis=-1) * [1, 2, 3, 4], axis=-1), operands)
    values = RANDOM.integers(-128, 128, (3, 4)).astype(np.int8)
    client = program.client()
    found = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"n": values})))
    np.testing.assert_array_equal(
        found, (np.roll(values.astype(int), 1, axis=-1) * [1, 2, 3, 4]).sum(axis=-1)
    )
    program = cb.compile(lambda x: np.maximum(x, 0.25), {"x": cb.secret(8)}, precision=5e-2)
    values = RANDOM.uniform(-1, 1, 8)
    client = program.client()
    found = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"x": values})))
    np.testing.assert_allclose(found, np.maximum(values, 0.25), atol=program.plan.error)
