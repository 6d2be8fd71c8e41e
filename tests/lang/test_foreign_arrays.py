"""Tables, tensors and sparse matrices of other libraries: as operands, as constants, and what an operand is like."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_clear
from cipherblas.lang.batches import Batch
from cipherblas.lang.operations import Leaf

X = Leaf("x", cb.secret(4, 3))
VALUES = np.linspace(-1, 1, 12).reshape(4, 3)
W = np.arange(12.0).reshape(3, 4) / 8


class Exported:
    """An array of a library that NumPy reads by DLPack alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array, self.shape = array, array.shape

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class Elsewhere(Exported):
    """One in the memory of an accelerator."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


class Kind:
    def __init__(self, kind: str) -> None:
        self.kind = kind


class Table:
    """As a table of pandas."""

    columns, dtypes = ("age", "name"), (Kind("i"), Kind("O"))

    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.array([[1, "a"], [2, "b"]], dtype=object)


def pandas(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def arrow(array: np.ndarray[Any, Any]) -> Any:
    library = pytest.importorskip("pyarrow")
    return library.table({str(number): column for number, column in enumerate(array.T)})


def sparse(array: np.ndarray[Any, Any]) -> Any:
    return pytest.importorskip("scipy.sparse").csr_array(array)


MAKERS: dict[str, Callable[[Any], Any]] = {
    "DLPack": Exported,
    "pandas": lambda array: pandas({str(number): column for number, column in enumerate(array.T)}),
    "Arrow": arrow,
    "sparse": sparse,
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    "call",
    [
        lambda x, w: x @ w,
        lambda x, w: cb.matmul(w, x),
        lambda x, w: x.T * w,
        lambda x, w: x.T + w,
        lambda x, w: x.T - w,
        lambda x, w: cb.concatenate([x.T, w], axis=-1),
    ],
)
def test_constants_of_other_libraries(name: str, call: Any) -> None:
    found = evaluate_clear(call(X, MAKERS[name](W)), {"x": VALUES})
    np.testing.assert_array_equal(found, evaluate_clear(call(X, W), {"x": VALUES}))


def test_tables_on_the_left() -> None:
    """A table leaves operators to the node; of a product it would take the node apart, which is refused."""
    table = MAKERS["pandas"](W)
    for found, expected in (
        (table - X.T, W - VALUES.T),
        (table * X.T, W * VALUES.T),
        (table + X.T, W + VALUES.T),
    ):
        np.testing.assert_allclose(evaluate_clear(found, {"x": VALUES}), expected)
    assert (table + Batch([X.T, X.T])).shape == (2, 3, 4)
    for made in (MAKERS["pandas"], sparse):
        with pytest.raises(cb.DTypeError, match=r"cb\.matmul\(S, x\)"):
            made(W) @ X


def test_what_cannot_be_read_is_a_sentence() -> None:
    with pytest.raises(cb.DTypeError, match=r"columns that hold no numbers \(got name\)"):
        cb.secret.like(Table())
    with pytest.raises(cb.DTypeError, match=r"(?s)cannot be read.*x\.detach\(\)\.cpu\(\)\.numpy\(\)"):
        cb.secret.like(Elsewhere(W))
    with pytest.raises(cb.DTypeError, match="sparse matrix"):
        cb.secret.like(sparse(W))
    with pytest.raises(cb.RangeError, match="NaN at"):
        cb.secret.like(pandas({"a": [1.0, None]}))
    huge = pytest.importorskip("scipy.sparse").csr_array((1 << 24, 1 << 24))
    with pytest.raises(cb.MemoryBudgetError, match="zeros are held too"):
        X @ huge


LIKE: list[tuple[Any, dict[str, Any], Any]] = [
    (VALUES, {}, cb.secret(4, 3, bound=1.0)),
    (VALUES * 1.25, {}, cb.secret(4, 3, bound=2.0)),
    (VALUES.astype(np.float32) / 3, {}, cb.secret(4, 3, bound=0.5)),
    (np.zeros(5), {}, cb.secret(5, bound=1.0)),
    (np.array(-3.0), {}, cb.secret(bound=4.0)),
    (np.array([[1, -300]], np.int16), {}, cb.secret(1, 2, dtype=np.int16, bound=512)),
    (np.array([[1, -300]]), {}, cb.secret(1, 2, dtype=np.int16, bound=512)),
    (np.array([127, -128], np.int8), {}, cb.secret(2, dtype=np.int8, bound=128)),
    (np.array([255], np.uint8), {}, cb.secret(1, dtype=np.uint8, bound=255)),
    (np.array([True, False]), {}, cb.secret(2, dtype=np.uint8, bound=1)),
    (np.array([1 << 40]), {}, cb.secret(1, bound=2.0**40)),
    (np.array([1 << 40]), {"exact": True}, cb.secret(1, bound=2**40, dtype=np.int64, exact=True)),
    (np.array([3, 70000]), {"modulus": 65537}, cb.secret(2, modulus=65537)),
    (VALUES, {"bound": 8.0, "norm": 3.0}, cb.secret(4, 3, bound=8.0, norm=3.0)),
    ([[0.5, 30.0]], {"columns": True}, cb.secret(1, 2, bound=cb.columns([0.5, 32.0]))),
    (
        np.array([[1, 200]], np.uint8),
        {"columns": True},
        cb.secret(1, 2, bound=cb.columns([1, 255]), dtype=np.uint8),
    ),
    (VALUES, {"encryption": "public-key"}, cb.secret(4, 3, encryption="public-key")),
]


@pytest.mark.parametrize(("array", "options", "expected"), LIKE)
def test_operands_like_data(array: Any, options: Any, expected: Any) -> None:
    assert cb.secret.like(array, **options) == expected


def test_the_bound_tells_no_entry() -> None:
    """Data with largest entries from 0.51 to 1 have one bound."""
    assert len({cb.secret.like(VALUES * factor).bound for factor in (0.51, 0.7, 1.0)}) == 1


def test_clear_operands_like_data() -> None:
    assert cb.public.like(W) == cb.public(3, 4, bound=2.0)
    with pytest.raises(cb.ShapeError, match="Only a matrix has bounds of columns"):
        cb.public.like(np.ones(3), columns=True)
    with pytest.raises(cb.ShapeError):
        cb.secret.like(np.zeros((0, 3)))


def test_declarations_are_functions() -> None:
    assert pickle.loads(pickle.dumps(cb.secret)) is cb.secret
    assert cb.secret.__name__ == "secret" and "encrypted operand" in (cb.secret.__doc__ or "")


def test_tables_like_data() -> None:
    table = pandas({"age": np.array([31, 64], np.int16), "height": [1.5, 1.75]})
    assert cb.secret.like(table, columns=True) == cb.secret(2, 2, bound=cb.columns([64.0, 2.0]))
    assert cb.secret.like(table.convert_dtypes()) == cb.secret(2, 2, bound=64.0)
    assert cb.secret.like(arrow(VALUES)) == cb.secret(4, 3)


@pytest.mark.encrypted
def test_encrypted_tables() -> None:
    """A table as it is, times a sparse clear operand, which the server is given as it is."""
    rng = np.random.default_rng(2)
    values, weights = rng.uniform(-1, 1, (6, 3)), rng.uniform(-1, 1, (3, 2)) * [[1, 0], [0, 1], [0, 1]]
    operands = {"x": cb.secret.like(values, bound=1.0), "w": cb.public.like(weights, bound=1.0)}
    program = cb.compile(lambda x, w: x @ w, operands, precision=1e-3)
    client = program.client()
    server = program.server(client.evaluation_keys())
    for made in (MAKERS["pandas"], Exported):
        given = {**client.encrypt({"x": made(values)}), "w": sparse(weights)}
        np.testing.assert_allclose(
            client.decrypt(server.run(given)), values @ weights, atol=program.plan.error
        )
