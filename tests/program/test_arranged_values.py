"""Joins and shapes of computed values, functions of encrypted values among them, encrypted, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.operations import Constant
from tests.support.runs import matrix, run, toy

S = cb.secret
pytestmark = pytest.mark.encrypted


def _joined(join: Any, tanh: Any) -> dict[str, Callable[..., Any]]:
    """Programs of two 6×6 matrices, in NumPy or encrypted."""
    return {
        "concatenate": lambda x, y: join.concatenate([tanh(x), tanh(y)]),
        "one of them": lambda x, y: join.concatenate([tanh(x), y]),
        "columns": lambda x, y: join.concatenate([tanh(x), y, tanh(y)], axis=1),
        "of a product": lambda x, y: join.concatenate([tanh(x @ y / 6), y]),
        "stack": lambda x, y: join.stack([tanh(x[0]), tanh(y[0])]),
        "diag": lambda x, y: join.diag(tanh(x[0])) + y,
        "then diagonal": lambda x, y: join.concatenate([tanh(x), tanh(y)]).diagonal(),
        "then a product": lambda x, y: join.concatenate([tanh(x), tanh(y)]) @ np.ones(6),
        "slices of a function": lambda x, y: tanh(x)[::2, 1:] + tanh(y)[1::2, ::-1][:, :5],
        "reshaped": lambda x, y: (x @ y / 6 + tanh(x)).reshape(4, 9)[1:] * 2.0,
    }


@pytest.mark.parametrize("name", _joined(np, np.tanh))
def test_joins_of_functions(name: str) -> None:
    """As they are in NumPy, within the error of the plan, in which the polynomial's own is."""
    tanh: Any = lambda x: cb.tanh(x, precision=2e-3)  # noqa: E731
    program = toy(_joined(cb, tanh)[name], x=S(6, 6), y=S(6, 6), precision=2e-2)
    rng = np.random.default_rng(7)
    values = {key: matrix(operand, rng) for key, operand in program.operands.items()}
    found = run(program, values).check()
    expected = _joined(np, np.tanh)[name](**values)
    assert found.decrypted.shape == expected.shape
    assert np.abs(found.decrypted - expected).max() <= program.plan.error


T = S(2, 3, 4)
DIMENSIONS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "a number": (lambda x: (x @ x).reshape(1, 1, 1), {"x": S(4)}),
    "means that keep their axis": (lambda T: T.mean(axis=2, keepdims=True)[::-1], {"T": T}),
    "less their means": (lambda T: T - T.mean(axis=2, keepdims=True), {"T": T}),
    "squares less means, summed": (
        lambda T: (T * T - T.mean(axis=(0, 1), keepdims=True)).sum(axis=1),
        {"T": T},
    ),
    "a product beside an array": (
        lambda A, T: ((A @ A).reshape(2, 2, 4) * T).ravel()[3:],
        {"A": S(4, 4), "T": S(2, 2, 4)},
    ),
    "beside a clear one": (
        lambda A, P: (A @ A).reshape(2, 2, 4) * P + P.ravel().sum(),
        {"A": S(4, 4), "P": cb.public(2, 2, 4)},
    ),
    "axes in another order": (lambda A: (A @ A).reshape(2, 2, 4).transpose(2, 0, 1) * 0.5, {"A": S(4, 4)}),
}


@pytest.mark.parametrize("name", DIMENSIONS)
def test_computed_values_of_three_dimensions(name: str) -> None:
    function, operands = DIMENSIONS[name]
    program = toy(function, **operands)
    rng = np.random.default_rng(8)
    values = {key: matrix(operand, rng) for key, operand in operands.items()}
    found = run(program, values).check()
    expected = function(**values)
    assert found.decrypted.shape == np.shape(expected)
    assert np.abs(found.decrypted - expected).max() <= program.plan.error


def test_operands_of_four_dimensions() -> None:
    program = toy(lambda T, x: (T * x)[None, ::-1, :2] * 0.5, T=S(2, 3, 4), x=S(4))
    rng = np.random.default_rng(9)
    values = {key: matrix(operand, rng) for key, operand in program.operands.items()}
    found = run(program, values).check().decrypted
    expected = (values["T"] * values["x"])[None, ::-1, :2] * 0.5
    assert found.shape == (1, 2, 2, 4) and np.abs(found - expected).max() <= program.plan.error


def test_a_product_is_broadcast_to_four_dimensions() -> None:
    program = toy(lambda A: cb.broadcast_to(A @ A, (2, 2, 4, 4)), A=S(4, 4))
    values = {"A": np.random.default_rng(9).uniform(-1, 1, (4, 4))}
    found = run(program, values).check().decrypted
    assert (
        np.abs(found - np.broadcast_to(values["A"] @ values["A"], (2, 2, 4, 4))).max() <= program.plan.error
    )


def test_layers_of_images_and_computed_arrangements_are_refused_together() -> None:
    with pytest.raises(cb.ParameterError, match="tensors"):
        toy(lambda T: cb.conv2d(T * T, np.ones((1, 2, 1, 1)))[:, 1:], T=T)


def test_an_arrangement_of_which_nothing_is_left_is_a_constant_of_zeros() -> None:
    """What lies beside the padding of a join, say."""
    kept: list[Any] = []

    def function(x: Any, y: Any) -> Any:
        join = cb.concatenate([cb.tanh(x, precision=2e-3), cb.tanh(y, precision=2e-3)])
        kept.append(join[:2].children)
        return join[:2]

    toy(function, x=S(2, 2), y=S(2, 2), precision=2e-2)
    left, right = kept[0]
    assert not isinstance(left, Constant) and isinstance(right, Constant)


def test_the_axes_of_a_transpose_come_as_numpys_method_takes_them() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    for axes in ((2, 0, 1), ((2, 0, 1),), (), (None,)):
        program = toy(lambda T, axes=axes: T.transpose(*axes), T=S(2, 3, 4, bound=24.0))
        assert (program.evaluate({"T": array}) == array.transpose(*axes)).all()
