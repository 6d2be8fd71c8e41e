"""Functions behind refreshes, computed of the sines that refreshes find: which programs are rewritten, what their
values are, and that they keep their promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_results, trace
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.polynomials import Polynomial
from cipherblas.lang.refreshing import REFRESH, SINE
from cipherblas.planner.rewrite.activations import functions_inside
from tests.support.runs import toy

RANDOM = np.random.default_rng(4)
FIRST, SECOND, SHORT = (
    RANDOM.uniform(-0.1, 0.1, shape) for shape in ((4, 4, 3, 3), (8, 4, 3, 3), (8, 4, 1, 1))
)
FUNCTIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "relu": lambda t: np.maximum(t, 0.0),
    "tanh": np.tanh,
    "silu": lambda t: t / (1 + np.exp(-t)),
    "sigmoid": lambda t: 1 / (1 + np.exp(-t)),
    "clip": lambda t: np.clip(t, -1.0, 1.0),
    "even": lambda t: np.cos(t),
}


def layer(x: Expression, weights: NDArray[np.float64], stride: int = 1) -> Expression:
    return cb.conv2d(x, weights, stride=stride, padding=weights.shape[2] // 2)


def activated(x: Expression, name: str = "relu", degree: int = 62) -> Expression:
    return cb.chebyshev(FUNCTIONS[name], cb.refresh(x), degree=degree)


def evaluate(node: Expression, values: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    return evaluate_results(node, values)[0]


def residual(x: Expression) -> Expression:
    """Two layers, a stride, and a shortcut with filters of its own."""
    y = activated(layer(x, FIRST))
    return activated(layer(y, SECOND, 2) + layer(y, SHORT, 2))


def traced(function: Callable[[Expression], Expression]) -> Expression:
    return trace(function, {"x": cb.secret(4, 8, 8)})


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("degree", [14, 31])
def test_the_function_of_a_sine_is_as_near_as_the_polynomial(name: str, degree: int) -> None:
    written = traced(lambda x: activated(layer(x, 4 * np.eye(4)[:, :, None, None]), name, degree))
    inside = functions_inside(written)
    assert inside is not None and isinstance(inside, Polynomial)
    assert facts_of(inside).operations.isdisjoint({REFRESH}) and SINE in facts_of(inside).operations
    x = RANDOM.choice([-1.0, -0.5, 0.0, 1e-3, 0.7, 1.0], (4, 8, 8))
    expected, found = FUNCTIONS[name](4 * x), evaluate(inside, {"x": x})
    assert np.abs(found - expected).max() <= inside.missed * (1 + 1e-9) + 1e-12
    assert inside.missed <= max(1.1 * written.missed, 1e-6)  # smooth functions are less so of a sine
    assert inside.degree < 1 << degree.bit_length()  # no level more


@pytest.mark.parametrize(
    "function",
    [
        lambda x: cb.refresh(layer(x, FIRST)),
        lambda x: activated(layer(x, FIRST)) + cb.chebyshev(np.tanh, layer(x, FIRST), degree=7),
        lambda x: cb.chebyshev(np.tanh, cb.refresh(layer(x, FIRST), rounds=2), degree=7),
        lambda x: (lambda y: cb.chebyshev(np.tanh, y, degree=7) + y)(cb.refresh(layer(x, FIRST))),
    ],
    ids=["no function", "one without a refresh", "two rounds", "read beside its function"],
)
def test_what_is_rewritten_and_what_is_not(function: Callable[[Expression], Expression]) -> None:
    written = traced(function)
    inside = functions_inside(written)
    alone = all(node.op != REFRESH or node.parameters["rounds"] == 1 for node in facts_of(written).order)
    has_function = written.op != REFRESH
    if inside is not None:
        assert alone and has_function
        assert REFRESH not in facts_of(inside).operations
    else:
        assert not has_function or written.op == "add" or not alone


def test_a_residual_network_keeps_its_promise(tmp_path: Path) -> None:
    """Random images, zeros, and pixels at their bound; saved and loaded again; one ciphertext is refreshed a layer."""
    program = toy(residual, x=cb.secret(4, 8, 8), form="tensors", error=0.5)
    assert SINE in facts_of(program.expression).operations
    assert program.plan.counts.modulus_raises == 2
    program.save(tmp_path / "network.cb")
    again = cb.Program.load(tmp_path / "network.cb", insecure=True)
    assert again.id == program.id
    client = again.client()
    server = again.server(client.evaluation_keys())
    for x in (RANDOM.uniform(-1, 1, (4, 8, 8)), np.zeros((4, 8, 8)), RANDOM.choice([-1.0, 1.0], (4, 8, 8))):
        found = client.decrypt(server.run(client.encrypt({"x": x})))
        assert np.abs(found - evaluate(program.expression, {"x": x})).max() <= again.plan.error
        assert np.abs(found - written_values(x)).max() <= again.plan.error <= 0.5
    assert server.counts == again.plan.counts


def written_values(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """By NumPy, with ReLU itself."""

    def convolved(
        image: NDArray[np.float64], weights: NDArray[np.float64], stride: int = 1
    ) -> NDArray[np.float64]:
        around = weights.shape[2] // 2
        padded = np.pad(image, ((0, 0), (around, around), (around, around)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], axis=(1, 2))
        return np.asarray(np.einsum("chwij,ocij->ohw", windows[:, ::stride, ::stride], weights))

    relu = FUNCTIONS["relu"]
    y = relu(convolved(x, FIRST))
    return relu(convolved(y, SECOND, 2) + convolved(y, SHORT, 2))


def test_functions_of_one_refreshed_value_share_its_sine() -> None:
    def both(x: Expression) -> dict[str, Expression]:
        y = cb.refresh(layer(x, FIRST))
        return {"a": cb.chebyshev(np.tanh, y, degree=15), "b": cb.chebyshev(np.cos, y, degree=14)}

    inside = functions_inside(trace(both, {"x": cb.secret(4, 8, 8)}))
    assert inside is not None
    assert sum(node.op == SINE for node in facts_of(inside).order) == 1


def test_what_is_refused_is_told_by_the_way_that_comes_nearest() -> None:
    """Refreshes of lines are a thousand times less precise here."""
    options = {"x": cb.secret(4, 8, 8), "form": "tensors"}

    def network(x: Expression) -> Expression:
        return activated(layer(x, FIRST), "tanh", 31)

    with pytest.raises(cb.PrecisionError) as refused:
        toy(network, error=1e-6, **options)
    (advice, *_) = refused.value.advice
    assert 1e-6 < advice.options["error"] < 1e-4
    assert SINE in facts_of(toy(network, **options, **advice.options).expression).operations
