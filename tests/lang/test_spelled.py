"""Functions of NumPy that are not computed: the error says what to write, and that is computed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_clear
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operations import Leaf
from cipherblas.lang.spelled import SPELLED

X = Leaf("x", cb.secret(3, 4))
SQUARE = Leaf("y", cb.secret(3, 3))


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda: np.linalg.norm(X), "cb.squared_norm"),
        (lambda: np.cbrt(X), r"cb.chebyshev\(np.cbrt, x"),
        (lambda: np.spacing(X), r"cb.chebyshev\(f, x\)"),
        (lambda: np.add.reduce(X), "np.add"),
        (lambda: X.max(), "client"),
        (lambda: X.std(), "cb.sqrt"),
        (lambda: float(X), "client"),
        (lambda: cb.softmax(X), "cb.exp"),
        (lambda: cb.max_pool2d(X, 2), "cb.avg_pool2d"),
        (lambda: np.ones((3, 4)) < X, "cb.greater"),
    ],
)
def test_errors_say_what_to_write(write: Callable[[], Any], says: str) -> None:
    with pytest.raises(cb.CipherblasError) as caught:
        write()
    assert re.search(says, str(caught.value)), caught.value


@pytest.mark.parametrize("name", SPELLED)
def test_what_is_advised_exists(name: str) -> None:
    for called in re.findall(r"\bcb\.(\w+)", SPELLED[name]):
        assert callable(getattr(cb, called))
    for method in re.findall(r"\bx\.(\w+)\(", SPELLED[name]):
        assert callable(getattr(X, method))


@pytest.mark.parametrize(
    ("numpy", "python"),
    [
        (lambda x: np.add(np.ones((3, 3)), x), lambda x: np.ones((3, 3)) + x),
        (lambda x: np.ones((3, 3)) - x, lambda x: -x + np.ones((3, 3))),
        (lambda x: np.float64(1.0) - x, lambda x: -x + 1.0),
        (lambda x: np.multiply(x, 2.0), lambda x: 2.0 * x),
        (lambda x: np.arange(9.0).reshape(3, 3) @ x, lambda x: np.arange(9.0).reshape(3, 3) @ x),
        (lambda x: np.matmul(x, x), lambda x: x @ x),
        (lambda x: np.divide(x, 4.0), lambda x: x / 4.0),
        (lambda x: np.power(x, 2), lambda x: x**2),
    ],
)
def test_operators_of_numpy(numpy: Callable[[Any], Any], python: Callable[[Any], Any]) -> None:
    values = {"y": np.linspace(-1, 1, 9).reshape(3, 3)}
    found = numpy(SQUARE)
    assert isinstance(found, Expression)
    expected = python(values["y"])
    np.testing.assert_allclose(evaluate_clear(found, values), expected, atol=1e-12)


def test_names_that_are_not_there_are_attribute_errors() -> None:
    assert not hasattr(X, "std") and not hasattr(X, "__len_hint__") and not hasattr(cb, "softmax")
    with pytest.raises(AttributeError):
        cb.no_such_name  # noqa: B018


def test_sparse_matrices_are_named() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random(4, 3, 0.5, random_state=1, format="csr")
    with pytest.raises(cb.DTypeError, match=r"cb\.matmul\(S, x\)"):
        matrix @ X
    program = cb.compile(lambda x: x + x, {"x": cb.secret(4, 3)}, security=0, insecure=True, ring_degree=4096)
    with pytest.raises(cb.DTypeError, match="sparse"):
        program.client().encrypt({"x": matrix})


def test_masks_of_a_table() -> None:
    mask = np.arange(12).reshape(3, 4) % 5 > 1
    values = {"x": np.arange(12.0).reshape(3, 4) / 12}
    for key in (mask, (mask,), (slice(None), mask[0]), [True, False, True]):
        found = evaluate_clear(X[key], values)
        np.testing.assert_array_equal(found, values["x"][key])


def test_an_array_in_place_of_a_shape_is_not_printed() -> None:
    """Its entries may be secret."""
    with pytest.raises(cb.DTypeError) as caught:
        cb.secret(np.full((2, 2), 0.123456))
    assert "0.123" not in str(caught.value) and "array.shape" in str(caught.value)
    assert cb.secret((3, 4)) == cb.secret(3, 4) and cb.public([5]) == cb.public(5)
