"""Programs of several forms that refresh: products by GEMM at two limbs, refreshed on the way to slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.nodes import ordered
from tests.support.runs import Parties

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.encrypted,
    pytest.mark.usefixtures("as_written"),
]
INSECURE: dict[str, Any] = {
    "form": "mixed",
    "insecure": True,
    "security": 0,
    "ring_degree": 4096,
    "error": 0.5,
}
RNG = np.random.default_rng(5)


def uniform(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.uniform(-1, 1, shape)


W, V, TALL = uniform(6, 5), uniform(7, 6), uniform(10, 4)


@pytest.fixture(autouse=True)
def _same_numbers_in_every_order() -> None:
    """Plans depend on clear factors: a test that runs by itself, or on another process, has the same ones."""
    RNG.bit_generator.state = np.random.default_rng(6).bit_generator.state


# What is computed, of which operands, and how often a modulus is raised.
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]], int]] = {
    "product of what was in slots": (lambda X: cb.refresh(W @ cb.square(X)), {"X": (5, 20)}, 1),
    "product of an operand, twice": (
        lambda X: cb.refresh(V @ cb.assume(cb.square(cb.refresh(W @ X)), 25.0)),
        {"X": (5, 8)},
        2,
    ),
    "result by rows": (lambda X: V @ cb.square(cb.refresh(W @ X)), {"X": (5, 8)}, 1),
    "columns": (lambda X: 0.5 * cb.refresh(cb.square(X @ TALL) @ TALL.T), {"X": (3, 10)}, 2),
    "rows of several elements": (lambda X: cb.refresh(W @ cb.square(X)), {"X": (5, 5000)}, 10),
    "sums": (
        lambda X, Y: cb.refresh(W @ cb.square(X) + Y - 1.5) - Y,
        {"X": (5, 20), "Y": (6, 20)},
        1,
    ),
    "vector": (lambda x: cb.refresh(cb.assume(-0.5 * (W @ cb.square(x)), 2.0)), {"x": (5,)}, 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_against_numpy(name: str) -> None:
    function, shapes, raised = PROGRAMS[name]
    operands = {key: cb.secret(*shape) for key, shape in shapes.items()}
    program = cb.compile(function, operands, **INSECURE)
    assert set(program.plan.decided.every_form) == {"rows", "blocks"}
    values = {key: uniform(*shape) for key, shape in shapes.items()}
    for value in values.values():
        value.flat[::7] = 0
        value.flat[:2] = 1, -1
    client = program.client()
    server = program.server(client.evaluation_keys())
    found = client.decrypt(server.run(client.encrypt(values)))
    assert server.last.counts == program.plan.counts and server.last.counts.modulus_raises == raised
    error = np.abs(found - program.evaluate(values)).max()
    assert error < program.plan.error <= program.plan.error_target
    assert program.plan.error < program.worst_error


def test_largest_entries() -> None:
    """All of them as large as promised, in a product of ones: the coefficients that are raised are at the end of the
    range of EvalMod."""
    ones = np.ones((6, 5))
    program = cb.compile(
        lambda X: cb.refresh(ones @ cb.square(X)), {"X": cb.secret(5, 300, bound=3.0)}, **INSECURE
    )
    client = program.client()
    x = np.full((5, 300), -3.0)
    found = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"X": x})))
    assert np.abs(found - 45.0).max() < program.plan.error


def test_rows_are_refreshed_where_that_is_faster() -> None:
    """Without being told: the product costs less by rows, and so does the refresh of what is in coefficients."""
    square = uniform(64, 64)
    options = {**INSECURE, "form": None}
    program = cb.compile(lambda X: cb.refresh(square @ cb.square(X)), {"X": cb.secret(64, 64)}, **options)
    assert set(program.plan.decided.every_form) == {"rows", "blocks"}
    text = program.explain()
    assert "rows to blocks" in text
    only = cb.compile(
        lambda X: cb.refresh(square @ cb.square(X)),
        {"X": cb.secret(64, 64)},
        **{**INSECURE, "form": "blocks"},
    )
    assert program.plan.seconds < only.plan.seconds


def check(program: cb.Program, *several: dict[str, Any]) -> None:
    """Against NumPy, within what is planned and within a fiftieth of the largest entry; the plan counts what a run
    does."""
    parties = Parties(program)
    for values in several:
        done = parties.run(values)
        assert done.counts == program.plan.counts
        assert done.error < min(program.plan.error, 0.02 * np.abs(done.decrypted).max())


QUERY, KEY, VALUE = uniform(7, 5), uniform(7, 5), uniform(7, 6)

# Products of secrets in the ring of rows, and the errors that are allowed: of two placed factors, of one and what comes
# from blocks, either way.
FROM_THE_LEFT = "inner, from the left"  # from files, in a test of its own
RING_PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[int, int], float]] = {
    "outer of operands": (lambda X: cb.square(cb.refresh(cb.assume(X @ X.T, 2.0))), (3, 7), 0.5),
    FROM_THE_LEFT: (
        lambda X: cb.square(cb.refresh((X @ QUERY) @ (X @ KEY).T)) @ (X @ VALUE),
        (20, 7),
        40.0,
    ),
    "inner, from the right": (
        lambda X: (VALUE.T @ X.T) @ cb.square(cb.refresh((X @ QUERY) @ (X @ KEY).T)),
        (20, 7),
        40.0,
    ),
    "inner of several groups": (
        lambda X: cb.square(cb.refresh((X @ QUERY) @ (X @ KEY).T)) @ (2.0 * cb.assume(X @ VALUE, 4.0)),
        (60, 7),
        100.0,
    ),
}


@pytest.mark.parametrize("name", [name for name in RING_PRODUCTS if name != FROM_THE_LEFT])
def test_products_of_ring_elements(name: str) -> None:
    """Against NumPy, with entries at the ends of their range and with others; the plan counts what a run does."""
    function, shape, allowed = RING_PRODUCTS[name]
    program = cb.compile(function, {"X": cb.secret(*shape, bound=0.5)}, **{**INSECURE, "error": allowed})
    assert "ring-products" in {choice.method for choice in program.plan.decided.choices.values()}
    assert program.plan.parameters.row_degree == 512
    usual, extreme = 0.5 * uniform(*shape), 0.5 * np.sign(uniform(*shape))
    for x in (usual, extreme):
        x[0], x[:, 1] = 0, 0.5
    check(program, {"X": usual}, {"X": extreme})


TRANSPOSED: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, int]], float]] = {
    "one node, twice": (lambda x, y: cb.square(cb.refresh(x @ x + y)), {"x": (6, 6), "y": (6, 6)}, 2.0),
    "sums": (
        lambda x, y: cb.square(cb.refresh((x @ V.T) @ (y @ V.T).T + (x @ V.T) @ (y @ V.T).T - x @ y.T)),
        {"x": (3, 6), "y": (4, 6)},
        20.0,
    ),
    "what lies by rows, from the left": (
        lambda x, y: cb.square(cb.refresh(W @ x)) @ (y @ TALL),
        {"x": (5, 8), "y": (8, 10)},
        20.0,
    ),
    "what lies by columns, from the right": (
        lambda x, y: (W @ y) @ cb.square(cb.refresh(x @ TALL)),
        {"x": (8, 10), "y": (5, 8)},
        20.0,
    ),
}


HEADS = uniform(3, 7, 10) / 3


def of_heads(x: Any) -> Any:
    """Two heads: parts of one product each, of both signs, the values in the place of what they are made of."""
    query, key, value = (cb.split(cb.assume(x @ part, 1.5), 2, axis=1) for part in HEADS)
    scores = cb.joined([q @ (-0.5 * k).T for q, k in zip(query, key, strict=True)], axis=1)
    weights = cb.split(cb.square(cb.refresh(cb.assume(scores, 2.0))), 2, axis=1)
    return cb.joined([w @ (-0.25 * v) for w, v in zip(weights, value, strict=True)], axis=1)


def turned_heads(x: Any) -> Any:
    """The same from the other side: x by columns, and what is weighed before the weights."""
    query, key, value = (cb.split(cb.assume(part.T @ x, 1.5), 2, axis=0) for part in HEADS)
    scores = cb.joined([(2.0 * k).T @ q for q, k in zip(query, key, strict=True)], axis=0)
    weights = cb.split(cb.square(cb.refresh(cb.assume(scores, 7.0))), 2, axis=0)
    return cb.joined([v @ w for w, v in zip(weights, value, strict=True)], axis=0)


@pytest.mark.parametrize("by_rows", [True, False])
def test_clear_factors_that_move(by_rows: bool) -> None:
    """Keys and values are computed nowhere: what they are made of is multiplied instead, encrypted once for all heads,
    and the clear factor is that of its head. Of more tokens than fit a group, and the plan counts what a run does."""
    tokens, function = 24, of_heads if by_rows else turned_heads
    shape = (tokens, 7) if by_rows else (7, tokens)
    program = cb.compile(function, {"x": cb.secret(*shape, bound=0.5)}, **{**INSECURE, "error": 12.0})
    methods = [choice.method for choice in program.plan.decided.choices.values()]
    assert methods.count("ring-products") == 7  # three projections, scores and values of two heads
    # Placed widely for the queries, and narrowly, a row for each token, for all else.
    assert [one.form.shape[0] for one in program.inputs_of("x")] == [tokens, 7]
    parties = Parties(program)
    for x in (0.5 * uniform(*shape), np.full(shape, -0.5), np.zeros(shape)):
        x.flat[:3] *= -1
        done = parties.run({"x": x})
        assert done.counts == program.plan.counts
        assert done.error < min(program.plan.error, 0.01 * max(1.0, np.abs(done.expected).max()))
    assert program.plan.error < program.worst_error
    steps = [one.form for one in parties.server.last.node_seconds]
    assert "rows apart" in steps and "operand" in steps


def test_elements_that_hold_few_rows_are_left_to_gemms() -> None:
    """Fewer than eight: polynomials would have so few coefficients that a GEMM takes less. The values of 20 tokens are
    multiplied by rows of 65 entries, of which an element of degree 512 holds four."""
    program = cb.compile(
        lambda x, y: cb.square(cb.refresh((x @ QUERY) @ (y @ KEY).T)) @ (y @ VALUE),
        {"x": cb.secret(65, 7, bound=0.5), "y": cb.secret(20, 7, bound=0.5)},
        **{**INSECURE, "error": 40.0},
    )
    order = [node for node in ordered(program.expression) if not node.root]
    choices = {order[number].title: one.method for number, one in program.plan.decided.choices.items()}
    assert choices["product 65x20 · 20x6"] == "ring-products" and choices["product 20x7 · 7x6"] == "gemm"
    values = {"x": 0.5 * uniform(65, 7), "y": 0.5 * uniform(20, 7)}
    check(program, values)


def test_products_of_several_clear_factors_are_gemms() -> None:
    """They take most of the modulus: what is left is not spent on taking rows apart. (Of other clear factors the plan
    may multiply these with one another first.)"""
    second = np.random.default_rng(0).uniform(-1, 1, (5, 4))
    program = cb.compile(
        lambda x: cb.refresh(cb.assume(((x @ QUERY) @ second) @ ((x @ KEY) @ second).T, 60.0)),
        {"x": cb.secret(20, 7, bound=0.5)},
        **{**INSECURE, "error": 20.0},
    )
    methods = [choice.method for choice in program.plan.decided.choices.values()]
    assert methods.count("gemm") == 4 and methods.count("ring-products") == 1
    x = 0.5 * uniform(20, 7)
    client = program.client()
    found = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"x": x})))
    expected = program.evaluate({"x": x})
    assert np.abs(found - expected).max() < min(program.plan.error, 0.02 * np.abs(expected).max())


def test_clear_factors_on_both_sides_have_no_places() -> None:
    """A transposition would lose them: such a product is a GEMM."""
    program = cb.compile(
        lambda x, y: cb.refresh(((W @ x) @ TALL) @ (y @ TALL).T),
        {"x": cb.secret(5, 10, bound=0.5), "y": cb.secret(3, 10, bound=0.5)},
        **{**INSECURE, "error": 20.0},
    )
    values = {"x": 0.5 * uniform(5, 10), "y": 0.5 * uniform(3, 10)}
    assert "ring-products" not in {choice.method for choice in program.plan.decided.choices.values()}
    client = program.client()
    found = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt(values)))
    error = np.abs(found - program.evaluate(values)).max()
    assert error < min(program.plan.error, 0.3 * np.abs(found).max())


def test_a_factor_that_is_a_result_too() -> None:
    """What is sent back lies as rows do, not where a product of ring elements had it."""
    program = cb.compile(
        lambda x: (x @ QUERY, cb.refresh((x @ QUERY) @ (x @ KEY).T)),
        {"x": cb.secret(20, 7, bound=0.5)},
        **{**INSECURE, "error": (0.5, 4.0)},
    )
    x = 0.5 * uniform(20, 7)
    client = program.client()
    found = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"x": x})))
    for got, wanted in zip(found, program.evaluate({"x": x}), strict=True):
        assert np.abs(got - wanted).max() < 0.02 * np.abs(wanted).max()


@pytest.mark.parametrize("name", TRANSPOSED)
def test_products_whose_factors_are_alike_or_lie_the_other_way(name: str) -> None:
    """A node that is both factors has two placings; what was transposed is no ring element, and goes to a GEMM."""
    function, shapes, allowed = TRANSPOSED[name]
    operands = {key: cb.secret(*shape, bound=0.5) for key, shape in shapes.items()}
    program = cb.compile(function, operands, **{**INSECURE, "error": allowed})
    assert "ring-products" in {choice.method for choice in program.plan.decided.choices.values()}
    values = {key: 0.5 * uniform(*shape) for key, shape in shapes.items()}
    check(program, values)


def test_a_plan_with_a_ring_of_rows_is_saved(tmp_path: Any) -> None:
    """Plan, keys, operands and results in files, and loaded again; what belongs to the other ring is told apart."""
    function, shape, _ = RING_PRODUCTS[FROM_THE_LEFT]
    program = cb.compile(function, {"X": cb.secret(*shape, bound=0.5)}, **{**INSECURE, "error": 40.0})
    program.save(tmp_path / "program")
    loaded = cb.Program.load(tmp_path / "program", insecure=True, security=0)
    client = program.client()
    client.write_evaluation_keys(tmp_path / "keys")
    client.save(tmp_path / "secret")
    keys = cb.EvaluationKeys.load(tmp_path / "keys", insecure=True, security=0)
    assert keys.request == program.plan.keys and any(key.ring == "rows" for key in keys.request.limbs)
    assert keys.nbytes == program.plan.key_bytes
    x = 0.5 * uniform(*shape)
    operand = client.encrypt({"X": x})["X"]
    operand.save(tmp_path / "operand")
    operand = cb.EncryptedOperand.load(tmp_path / "operand", insecure=True, security=0)
    result = loaded.server(keys).run({"X": operand})
    found = cb.Client.load(tmp_path / "secret", program, insecure=True, security=0).decrypt(result)
    assert np.abs(found - program.evaluate({"X": x})).max() < 0.02 * np.abs(found).max()
