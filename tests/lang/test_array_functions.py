"""NumPy's functions on nodes: shapes and values are NumPy's, operands are arranged by the client."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.lang import graph
from cipherblas.lang.analysis import evaluate_clear, trace
from cipherblas.lang.arrangements import Arrange, View
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.operations import Leaf
from tests.support.array_programs import ROWS, Row

S = cb.secret
RANDOM = np.random.default_rng(5)

MORE_ROWS = (
    Row("rows of a product", lambda A, B: (A @ B)[1:3, ::-2]),
    Row("a number of a product", lambda A, B: (A @ B)[-1, 0]),
    Row("a column", lambda A, x: (A @ x)[:, None] * A),
    Row("a row", lambda A, x: (A @ x)[None] + A),
    Row("keepdims", lambda A: A / 2 - A.mean(axis=1, keepdims=True)),
    Row("all axes", lambda A: A.sum(axis=(0, 1), keepdims=True)),
    Row("a division by an array", lambda A: (A - A.mean(axis=0)) / np.arange(1.0, 1.0 + A.shape[1])),
    Row("ddof", lambda A: A.var(axis=1, ddof=1)),
    Row(
        "parts of a polynomial",
        lambda A: cb.polynomial(A / 2, [1, 2, 3, 4, 5])[1:, ::-1].T,
        lambda A: (1 + A + 3 / 4 * A**2 + A**3 / 2 + 5 / 16 * A**4)[1:, ::-1].T,
    ),
    Row(
        "joined polynomials",
        lambda A: cb.concatenate([A, cb.polynomial(A, [1, 2, 3, 4, 5])]),
        lambda A: np.concatenate([A, 1 + 2 * A + 3 * A**2 + 4 * A**3 + 5 * A**4]),
    ),
    Row("reshaped twice", lambda A: A.reshape(-1).reshape(2, -1).T),
    Row("a transposed operand", lambda A: A.T.reshape(2, -1)),
    Row("slices of a transposed operand", lambda A: A.T[1:, 2:].T[0]),
    Row("a reshaped product", lambda A, B: (A @ B).reshape(2, -1)),
    Row("a transposed reshaped product", lambda A, B: (A @ B).reshape(2, -1).T.reshape(-1)),
    Row("a diagonal of a product", lambda A, B: (A @ B).diagonal(-1)),
    Row("a mask", lambda A: A[np.arange(4) % 2 == 0]),
    Row("entries", lambda A: A[[0, 1, 3], [3, 1, 0]]),
    Row("cumulative sums of all", lambda A: A.cumsum()),
    Row("a matrix of a vector", lambda A, x: cb.diag(A @ x), lambda A, x: np.diag(A @ x)),
    Row(
        "joined columns",
        lambda A, B: cb.concatenate([A, A @ B, np.ones((4, 1))], axis=1),
        lambda A, B: np.concatenate([A, A @ B, np.ones((4, 1))], axis=1),
    ),
    Row("inner", lambda A, B: cb.inner(A, B), np.inner),
    Row("vdot", lambda A, B: cb.vdot(A, B), np.vdot),
    Row("squeezed", lambda A: A[:1].squeeze() @ A),
    Row("matrices of an array", lambda T: T[0] @ T[1].T),
    Row("sums of an array", lambda T: T.sum(axis=(0, 2))),
    Row("an array of other axes", lambda T: T.transpose((2, 0, 1)).reshape(4, -1)),
    Row("one matrix for all of an array", lambda A, T: A @ T - 2 * T @ A + 1),
    Row("arrays and constants", lambda T: (T @ np.ones((2, 4, 3)) * 2) ** 2 / 4),
    Row("parts of a batch", lambda T, U: (T @ U)[1, 1:] + (T @ U)[0][:3]),
    Row("iteration", lambda T: sum(list(T), 0)),
    Row("vectors of a batch are a matrix", lambda A, T, U: A[:, :2] @ (T @ U)[:, 0] - 1),
    Row("vectors of a batch and rows", lambda A, T, U: (T @ U)[:, 0] * A[:2] - A[2:] * (T @ U)[:, 1]),
    Row("a batch and a vector", lambda A, T, x: A[:, :2] @ (T @ x)),
    Row("a batch with another axis", lambda T, U: (T @ U)[:, None] * U),
    Row("sums of a batch", lambda T, U: (T @ U).sum()),
    Row("nodes of a batch added", lambda T, U: (T @ U).sum(axis=0)),
    Row("axes of a batch kept", lambda T, U: (T @ U).sum(axis=(0, 2), keepdims=True)),
    Row("sums of each of a batch", lambda T, U: (T @ U).sum(axis=(1, 2))),
    Row("means of each of a batch", lambda T, U: (T @ U).mean(axis=-1, keepdims=True) + 1),
    Row("variances of columns of a batch", lambda T, U: (T @ U / 4).var(axis=-2)),
    Row("sums over two axes of four", lambda U: U.reshape(2, 1, 2, -1).sum(axis=(1, 3))),
    Row("variances over a batch", lambda T, U: (T @ U / 4).var(axis=0)),
    Row("a batch as a vector", lambda T, U: (T @ U).ravel()[3:]),
    Row("cumulative sums over a batch", lambda T, U: (T @ U).cumsum(axis=0)),
    Row("cumulative sums of each of a batch", lambda T, U: (T @ U).cumsum(axis=2)),
    Row("cumulative sums of a whole batch", lambda T, U: (T @ U).cumsum()),
    Row("a reshaped batch", lambda T, U: (T @ U).reshape(4, -1)),
    Row("axes of a batch", lambda T, U: (T @ U).transpose(2, 0, 1)),
    Row("columns of a batch", lambda T, U: (T @ U)[..., 0]),
    Row("a list of a batch", lambda T, U: (T @ U)[[1, 0, 1], :, 1:]),
    Row("one of a batch, squeezed", lambda T, U: (T @ U)[:1].squeeze(axis=0)),
    Row("powers of a batch", lambda T, U: cb.power(T @ U, 2), lambda T, U: (T @ U) ** 2),
    Row("a norm of a batch", lambda T, U: cb.squared_norm(T @ U), lambda T, U: ((T @ U) ** 2).sum()),
    Row(
        "batches side by side",
        lambda T, U: cb.concatenate([T @ U, U], axis=2),
        lambda T, U: np.concatenate([T @ U, U], axis=2),
    ),
    Row(
        "a masked batch",
        lambda T, U: cb.where(np.eye(4), T @ U, 0.5),
        lambda T, U: np.where(np.eye(4), T @ U, 0.5),
    ),
    Row("products of batches", lambda T, U: cb.matmul(T @ U, U) / 16, lambda T, U: T @ U @ U / 16),
    Row("a number everywhere", lambda s, x: s * s * x + s),
    Row("constants that are larger", lambda x: x + np.ones((3, 4))),
    Row("by the number of its entries", lambda x: x * (x.ndim / x.size)),
    Row("by the number of entries of all", lambda B: B * (B.ndim / B.size)),
    Row(
        "a clear mask",
        lambda x, y: cb.where([1, 0, 1, 0], x, y * 2),
        lambda x, y: np.where([1, 0, 1, 0], x, y * 2),
    ),
    Row(
        "numbers by a mask",
        lambda x: cb.where([1, 0, 1, 0], x, 0.5),
        lambda x: np.where([1, 0, 1, 0], x, 0.5),
    ),
)


@pytest.mark.parametrize("row", [*ROWS, *MORE_ROWS], ids=lambda row: row.formula)
def test_shapes_and_values_are_those_of_numpy(row: Row) -> None:
    arrays, operands = row.arrays(4, RANDOM), row.operands(4)
    node = trace(row.function, operands)
    expected = row.expected(arrays)
    if node.root:  # a batch
        for one, value in zip(node.children, expected, strict=True):
            np.testing.assert_allclose(evaluate_clear(one, arrays), value, atol=1e-12)
        return
    assert node.shape == expected.shape
    np.testing.assert_allclose(evaluate_clear(node, arrays), expected, atol=1e-12)
    assert (np.abs(expected) <= node.bound * (1 + 1e-12)).all()
    again = graph.from_json(
        graph.to_json(node), operands, {name: one.values for name, one in graph.constants(node).items()}
    )
    assert graph.to_json(again) == graph.to_json(node)
    np.testing.assert_array_equal(evaluate_clear(again, arrays), evaluate_clear(node, arrays))
    columns = graph.as_matrices(node)
    if columns is not None:
        np.testing.assert_allclose(evaluate_clear(columns, arrays).ravel(), expected.ravel(), atol=1e-12)
        assert len(columns.shape) == 2
    if len(node.shape) == 2:
        np.testing.assert_allclose(evaluate_clear(node.T, arrays), expected.T, atol=1e-12)


@given(st.data())
def test_random_arrangements_of_operands_and_products(data: Any) -> None:
    """Chains of steps: what is pushed to operands, and what stays, is what NumPy makes of the values."""
    operands = {"A": S(4, 6), "B": S(6, 5)}
    arrays = {name: RANDOM.uniform(-1, 1, operand.shape) for name, operand in operands.items()}
    kind = data.draw(st.sampled_from(["operand", "transposed", "product", "sum"]))
    functions = {
        "operand": lambda A, B: A,
        "transposed": lambda A, B: B.T,
        "product": lambda A, B: A @ B,
        "sum": lambda A, B: (A @ B) * 2.0 + 1,
    }
    node: Any = functions[kind](**{name: Leaf(name, operand) for name, operand in operands.items()})
    value: Any = functions[kind](**arrays)
    for _ in range(data.draw(st.integers(1, 4))):
        step = data.draw(
            st.sampled_from(["slice", "reshape", "transpose", "take", "diagonal", "broadcast", "number"])
        )
        if step == "slice" and value.ndim:
            axis = data.draw(st.integers(0, value.ndim - 1))
            start = data.draw(st.integers(0, value.shape[axis] - 1))
            way = data.draw(st.sampled_from([1, 2, -1]))
            key = (*[slice(None)] * axis, slice(start, None, way))
        elif step == "take" and value.ndim:
            key = (
                data.draw(st.lists(st.integers(-value.shape[0], value.shape[0] - 1), min_size=1, max_size=5)),
            )
        elif step == "number" and value.ndim:
            key = (data.draw(st.integers(-value.shape[0], value.shape[0] - 1)),)
        elif step == "reshape":
            divisors = [one for one in range(1, value.size + 1) if value.size % one == 0]
            first = data.draw(st.sampled_from(divisors))
            shape = data.draw(st.sampled_from([(first, -1), (-1,)]))
            node, value = node.reshape(*shape), value.reshape(*shape)
            continue
        elif step == "diagonal" and value.ndim == 2:
            node, value = node.diagonal(), value.diagonal()
            continue
        elif step == "broadcast" and value.ndim < 2:
            node, value = cb.broadcast_to(node, (3, *value.shape)), np.broadcast_to(value, (3, *value.shape))
            continue
        else:
            node, value = node.T, value.T
            continue
        node, value = node[key], value[key]
    assert node.shape == np.shape(value)
    np.testing.assert_allclose(evaluate_clear(node, arrays), value, atol=1e-12)
    columns = graph.as_matrices(node)
    assert columns is not None
    np.testing.assert_allclose(evaluate_clear(columns, arrays).ravel(), np.ravel(value), atol=1e-12)
    for axis, repeated in enumerate(node.repeated if isinstance(node, Leaf) else ()):
        first = np.take(value, [0], axis=axis)  # entries of the operands differ
        assert repeated == np.array_equal(value, np.broadcast_to(first, value.shape))


def test_operands_are_arranged_by_the_client_alone() -> None:
    """No operation is left of an arrangement of operands, or of rows and columns of a product."""
    free = [
        lambda A, B: A[1:3].reshape(-1) @ B[:2].reshape(-1),
        lambda A, B: (A + 2 * B)[::2, [3, 1]],
        lambda A, B: ((A * B) @ B)[1],
        lambda A, B: cb.concatenate([A, B @ A], axis=1),
        lambda A, B: cb.diag(A[0]) * B,
    ]
    for function in free:
        node = trace(function, {"A": S(4, 4), "B": S(4, 4)})
        assert not any(isinstance(one, Arrange) for one in ordered(node))
    node = trace(free[0], {"A": S(4, 4), "B": S(4, 4)})
    assert {type(leaf) for leaf in ordered(node) if not leaf.children} == {View}


def test_equal_views_are_one_operand() -> None:
    node = graph.deduplicated(trace(lambda A: A[1:] * A[1:] + A.T[:, 1:].T, {"A": S(4, 4)}))
    assert sum(not one.children for one in ordered(node)) == 1


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda A, x: A[x], cb.DTypeError, "An encrypted index cannot be followed"),
    (lambda A, x: A[7], cb.ShapeError, "The index does not fit"),
    (lambda A, x: A[2:2], cb.ShapeError, "at least one entry"),
    (lambda A, x: A["a"], cb.ShapeError, "The index does not fit"),
    (lambda A, x: A.reshape(3, 5), cb.ShapeError, "keeps its number of entries"),
    (lambda A, x: A.reshape(-1, 0), cb.ShapeError, "keeps its number of entries"),
    (lambda A, x: A.sum(axis=2), cb.ShapeError, "no such axis"),
    (lambda A, x: A.sum(axis=(0, 0)), cb.ShapeError, "given twice"),
    (lambda A, x: A.sum(axis=1.0), cb.DTypeError, "An axis must be an integer"),
    (lambda A, x: A.var(ddof=16), cb.ParameterError, "divisor of a variance"),
    (lambda A, x: x.trace(), cb.ShapeError, "Only a matrix has a diagonal"),
    (lambda A, x: A.diagonal(4), cb.ShapeError, "at least one entry"),
    (lambda A, x: A**0.5, cb.ParameterError, "Only whole powers"),
    (lambda A, x: A**-1, cb.ParameterError, "Only whole powers"),
    (lambda A, x: cb.matrix_power(A[:2], 2), cb.ShapeError, "Only a square matrix"),
    (lambda A, x: cb.where(A, A, A), cb.DTypeError, "The mask must be clear"),
    (lambda A, x: cb.where([True], 1, 2), cb.DTypeError, "One side of `where`"),
    (lambda A, x: cb.concatenate([A, x]), cb.ShapeError, "equal lengths along the other axes"),
    (lambda A, x: cb.concatenate([]), cb.ShapeError, "at least one array"),
    (lambda A, x: cb.stack([A, x]), cb.ShapeError, "equal shapes"),
    (lambda A, x: A + x[:3], cb.ShapeError, "can be broadcast"),
    (lambda A, x: cb.broadcast_to(A, (3, 3)), cb.ShapeError, "does not fit an array"),
    (lambda A, x: A if A else x, cb.DTypeError, "Whether an encrypted value is true"),
    (lambda A, x: x < A, cb.DTypeError, "cannot be compared"),
    (lambda A, x: x == A, cb.DTypeError, "cannot be compared"),
    (lambda A, x: 1 / A, cb.DTypeError, "division by an encrypted value"),
    (lambda A, x: len(x @ x), cb.DTypeError, "A number has no length"),
]


@pytest.mark.parametrize(("function", "error", "match"), REFUSED)
def test_what_cannot_be_written_says_so(function: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        trace(function, {"A": S(4, 4), "x": S(4)})


def test_other_names_are_no_attributes() -> None:
    node = Leaf("A", S(4, 4))
    with pytest.raises(AttributeError, match="no attribute 'inverse_of'"):
        node.inverse_of()
    assert not hasattr(Expression, "inverse_of")


def test_parts_that_are_shared_stay_shared() -> None:
    """Arranging, and comparing, takes a step for each node, however often it is used."""
    node: Any = Leaf("A", S(4, 4))
    for _ in range(40):
        node = node + 0.5 * node
    assert len(ordered(node[1:, ::-1])) == len(ordered(node))
    assert graph.same(node.T.T, node) and graph.same(node[1:].T, node.T[:, 1:])
    assert not graph.same(node.T, node) and not graph.same(node[1:], node[:3])


@pytest.mark.parametrize(
    "step",
    [
        ["slice", [5]],
        ["slice", [[0, 2, 0], [0, 4, 1]]],
        ["slice", [[0, 2, 1]]],
        ["take", [0]],
        ["take", [[0], [0]]],
        ["take", [0, [4]]],
        ["take", [0, []]],
        ["pad", [1, 1]],
        ["pad", [[-1, 0], [0, 0]]],
        ["pad", [[1 << 24, 0], [1 << 24, 0]]],
        ["reshape", [[16]]],
        ["reshape", [-4, -4]],
        ["broadcast", [[2], 4, 4]],
        ["transpose", [0, 0]],
        ["diagonal", [[0]]],
        ["diagonal", []],
        ["other", [1]],
    ],
    ids=str,
)
@pytest.mark.parametrize("op", ["view", "arrange"])
def test_files_with_wrong_steps_are_refused(op: str, step: Any) -> None:
    leaf = {"op": "operand", "name": "A", "transposed": False}
    view = {"op": "view", "name": "A", "transposed": False, "steps": [step]}
    rows = [view] if op == "view" else [leaf, {"op": "arrange", "of": [0], "steps": [step]}]
    with pytest.raises(cb.FormatError):
        graph.from_json(rows, {"A": S(4, 4)}, {})
