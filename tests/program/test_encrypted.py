"""Programs with real keys and ciphertexts, entry by entry against NumPy; counts and errors against the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas import public, secret
from cipherblas.methods.products import ALGORITHMS
from tests.support.runs import Parties, encrypted, program_of, run, values_of

SQUARE = secret(6, 6)
CONSTANT = np.random.default_rng(3).uniform(-2, 2, (6, 6))

ONE_OPERAND: dict[str, Callable[[Any], Any]] = {
    "a": lambda a: a,
    "a.T": lambda a: a.T,
    "-a": lambda a: -a,
    "3 * a": lambda a: 3 * a,
    "a / 3": lambda a: a / 3,
    "a - a": lambda a: a - a,
    "a - a.T": lambda a: a - a.T,
    "a * a": lambda a: a * a,
    "a * a.T": lambda a: a * a.T,
    "a @ a": lambda a: a @ a,
    "a @ a.T": lambda a: a @ a.T,
    "a.T @ a": lambda a: a.T @ a,
    "a + constant": lambda a: a + CONSTANT,
    "constant - a": lambda a: CONSTANT - a,
    "constant * a": lambda a: CONSTANT * a,
    "a @ constant": lambda a: a @ CONSTANT,
    "constant.T @ a": lambda a: CONSTANT.T @ a,
    "a @ zeros": lambda a: a @ np.zeros((6, 6)),
    "a * zeros + a": lambda a: a * np.zeros((6, 6)) + a,
    "a + 1": lambda a: a + 1,
    "2 - a": lambda a: 2 - a,
    "a + row": lambda a: a + CONSTANT[0],
    "a * column": lambda a: a * CONSTANT[:, :1],
    "np.float64(2) * a": lambda a: np.float64(2) * a,
    "sum([a, a.T, a])": lambda a: sum([a, a.T, a]),
    "p + p.T": lambda a: (lambda p: p + p.T)(a @ a),
    "p * p": lambda a: (lambda p: p * p)(a @ a),
    "p - p": lambda a: (lambda p: p - p)(a @ a),
    "p - 0.5 * p": lambda a: (lambda p: p - 0.5 * p)(a @ a),
    "p @ a - a": lambda a: (lambda p: p @ a - a)(a @ a),
    "(a @ a @ a @ a)": lambda a: a @ a @ a @ a,
    "0 * (a @ a) + a": lambda a: 0 * (a @ a) + a,
}


@pytest.mark.parametrize("name", ONE_OPERAND)
def test_one_operand(name: str) -> None:
    encrypted(ONE_OPERAND[name], a=SQUARE).check()


TWO_OPERANDS: dict[str, Callable[[Any, Any], Any]] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a @ b": lambda a, b: a @ b,
    "(a @ b).T": lambda a, b: (a @ b).T,
    "a.T @ b.T": lambda a, b: a.T @ b.T,
    "-(a @ b) / 7": lambda a, b: -(a @ b) / 7,
    "a @ b + a": lambda a, b: a @ b + a,
    "b - a @ b": lambda a, b: b - a @ b,
    "0.3 * (a @ b) - b / 7": lambda a, b: 0.3 * (a @ b) - b / 7,
    "(a @ b) * (a + b)": lambda a, b: (a @ b) * (a + b),
    "(a + b) @ (a - b)": lambda a, b: (a + b) @ (a - b),
    "(a @ b) @ a": lambda a, b: (a @ b) @ a,
    "a @ (b @ a)": lambda a, b: a @ (b @ a),
    "a @ b + constant": lambda a, b: a @ b + CONSTANT,
    "(a + constant) @ (constant * b)": lambda a, b: (a + CONSTANT) @ (CONSTANT * b),
    "0.7 * (a @ b) + 0.3 * (b @ a)": lambda a, b: 0.7 * (a @ b) + 0.3 * (b @ a),
}


@pytest.mark.parametrize("name", TWO_OPERANDS)
@pytest.mark.parametrize("other", [secret, public])
def test_two_operands(name: str, other: Any) -> None:
    encrypted(TWO_OPERANDS[name], a=SQUARE, b=other(6, 6)).check()


@pytest.mark.parametrize("name", ["a @ b", "a - b", "(a + b) @ (a - b)", "b - a @ b"])
def test_public_operand_first(name: str) -> None:
    encrypted(TWO_OPERANDS[name], a=public(6, 6), b=SQUARE).check()


def test_parts_without_secrets_are_computed_in_the_clear() -> None:
    run = encrypted(
        lambda a, v, w: (2 * (v @ w) + v) @ a + v * w - 3 * w, a=SQUARE, v=public(6, 6), w=public(6, 6)
    ).check()
    assert run.counts.rotations == 0
    assert len(run.program.plan.choices) == 1


def test_equal_parts_are_computed_once() -> None:
    once = encrypted(lambda a, b: (lambda p: p * p)(a @ b), a=SQUARE, b=SQUARE).check()
    twice = encrypted(lambda a, b: (a @ b) * (a @ b), a=SQUARE, b=SQUARE).check()
    assert once.counts == twice.counts
    assert once.program.id == twice.program.id


WEIGHTS = np.random.default_rng(5).uniform(-1, 1, (6, 9))


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda a, b: a @ b, {"a": secret(20, 30), "b": secret(30, 7)}),
        (lambda a, b: a @ b, {"a": secret(20, 30), "b": public(30, 7)}),
        (lambda a, b: b @ a, {"a": secret(20, 30), "b": public(7, 20)}),
        (lambda a: WEIGHTS @ a, {"a": secret(9, 4)}),
        (lambda a, b: a + b, {"a": secret(20, 30), "b": secret(20, 30)}),
        (lambda a, b: a - b * 2, {"a": secret(20, 30, bound=3), "b": secret(20, 30, bound=16)}),
        (lambda a, b: a * b, {"a": secret(20, 30), "b": secret(20, 30)}),
        (lambda a, b: a * b, {"a": secret(20, 30), "b": public(20, 30)}),
        (lambda a, b: 0.5 * (a @ b), {"a": secret(20, 30), "b": secret(30, 20)}),
        (
            lambda a, b, c: a @ b + c,
            {"a": secret(20, 30), "b": secret(30, 20), "c": secret(20, 20, bound=16)},
        ),
        (
            lambda a, b, c: a @ b + c,
            {"a": secret(20, 30), "b": secret(30, 20), "c": public(20, 20, bound=16)},
        ),
        (lambda a: a @ a.T, {"a": secret(20, 30, bound=16)}),
        (lambda a: -(a.T), {"a": secret(20, 30)}),
        (lambda a, b: a @ b, {"a": secret(1, 300), "b": secret(300, 1)}),
        (lambda a, b: a @ b, {"a": secret(301, 1), "b": secret(1, 17)}),
    ],
)
def test_rectangles(function: Callable[..., Any], operands: dict[str, Any]) -> None:
    encrypted(function, **operands).check()


SHAPES = [(1, 1, 1), (1, 7, 1), (5, 1, 3), (1, 3, 8), (13, 7, 11), (8, 8, 8)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_every_algorithm_by_name(algorithm: str, m: int, k: int, n: int) -> None:
    run = encrypted(lambda a, b: a @ b, a=secret(m, k), b=secret(k, n), algorithm=algorithm).check()
    assert run.program.plan.algorithm == algorithm


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_in_blocks(algorithm: str) -> None:
    run = encrypted(lambda a, b: a @ b, a=secret(7, 9), b=secret(9, 5), algorithm=algorithm, block=4).check()
    assert set(run.program.plan.blocks.values()) <= {3, 4, 9}


@pytest.mark.parametrize("algorithm", ["skewed", "outer-product", "bicyclic", "fame"])
def test_every_algorithm_with_a_clear_operand(algorithm: str) -> None:
    for a, b in ((secret(5, 6), public(6, 4)), (public(5, 6), secret(6, 4))):
        encrypted(lambda a, b: a @ b, a=a, b=b, algorithm=algorithm).check()


@pytest.mark.parametrize("algorithm", ["skewed", "bicyclic", "fame"])
@pytest.mark.parametrize("policy", ["direct", "composed", "binary"])
def test_every_key_policy(algorithm: str, policy: Any) -> None:
    run = encrypted(
        lambda a, b: a @ b, a=secret(6, 9), b=secret(9, 5), algorithm=algorithm, key_policy=policy
    ).check()
    assert run.program.plan.key_policy == policy


def test_both_loop_orders_count_the_same() -> None:
    runs = [
        encrypted(lambda a, b: a @ b, a=SQUARE, b=SQUARE, algorithm="fame", order=order).check()
        for order in ("limb", "rotation")
    ]
    assert runs[0].counts == runs[1].counts


CHAINS: dict[str, Callable[..., Any]] = {
    "(a @ b) @ c": lambda a, b, c: (a @ b) @ c,
    "a @ (b @ c)": lambda a, b, c: a @ (b @ c),
    "(c.T @ b.T) @ a.T": lambda a, b, c: (c.T @ b.T) @ a.T,
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("algorithm", [None, "outer-product", "bicyclic", "fame"])
def test_chains(name: str, algorithm: str | None) -> None:
    encrypted(CHAINS[name], a=secret(3, 4), b=secret(4, 7), c=secret(7, 2), algorithm=algorithm).check()


def test_chain_in_blocks() -> None:
    run = encrypted(CHAINS["(a @ b) @ c"], a=secret(9, 4), b=secret(4, 7), c=secret(7, 5), block=4).check()
    assert max(run.program.plan.blocks.values()) <= 4


def test_elementwise_operations_on_a_blocked_product() -> None:
    encrypted(
        lambda a, b, c: (a @ b) * c - c, a=secret(9, 4), b=secret(4, 7), c=secret(9, 7), block=5
    ).check()


def test_elementwise_operations_of_a_matrix_larger_than_a_ciphertext() -> None:
    run = encrypted(lambda a, b: a * b - a, a=secret(90, 61), b=secret(90, 61), ring_degree=1 << 13).check()
    assert run.program.plan.upload_ciphertexts > 2


@pytest.mark.parametrize("bound", [1e-12, 0.01, 1e12, 2.0**-150])
def test_ranges(bound: float) -> None:
    a, b, c = secret(5, 4, bound=bound), secret(4, 6, bound=bound), secret(6, 3, bound=bound)
    encrypted(lambda a, b: a @ b, a=a, b=b).check()
    encrypted(lambda a: a * a, a=a).check()
    encrypted(CHAINS["(a @ b) @ c"], a=a, b=b, c=c).check()


@pytest.mark.parametrize("bounds", [(1e6, 1.0, 0.01), (0.01, 16, 1e6), (1.0, 1e-9, 1.0), (1e9, 1.0, 1e9)])
def test_ranges_far_apart(bounds: tuple[float, float, float]) -> None:
    a, b, c = (secret(5, 5, bound=bound) for bound in bounds)
    encrypted(lambda a, b, c: a @ b + c, a=a, b=b, c=c).check()
    encrypted(lambda a, b, c: (a @ b - 2 * c) @ c, a=a, b=b, c=c).check()
    encrypted(lambda a, b: a - b, a=a, b=b).check()


@pytest.mark.parametrize("factor", [1e-9, -1e-3, 1 / 7, 12345.678, -(2.0**21), 1e12])
def test_factors(factor: float) -> None:
    encrypted(lambda a, b: factor * (a @ b), a=SQUARE, b=SQUARE).check()
    encrypted(lambda a, b: a @ b + factor * b, a=SQUARE, b=SQUARE).check()
    encrypted(lambda a, b: (factor * a) @ b - a, a=SQUARE, b=SQUARE).check()


@pytest.mark.parametrize("precision", [1e-2, 1e-5, 1e-7, 1e-9])
def test_precisions(precision: float) -> None:
    """At high precision an operand that is added to a product is encoded in more than 62 bits."""
    shapes = {"a": secret(4, 5), "b": secret(5, 3), "c": secret(4, 3)}
    run = encrypted(lambda a, b, c: a @ b - c, precision=precision, **shapes).check()
    assert run.program.plan.error_target == precision * 6
    encrypted(CHAINS["(a @ b) @ c"], precision=precision, **{**shapes, "c": secret(3, 4)}).check()


@pytest.mark.parametrize("security", [128, 192, 256])
def test_security_levels(security: int) -> None:
    for function in (lambda a, b: a @ b, lambda a, b: (a @ b) @ a):
        run = encrypted(function, a=SQUARE, b=SQUARE, security=security).check()
        assert run.program.plan.parameters.security == security


@pytest.mark.parametrize("precision", [1e-2, 1e-7])
def test_precision_at_256_bits(precision: float) -> None:
    a, b = secret(13, 17), secret(17, 19)
    run = encrypted(lambda a, b: a @ b, a=a, b=b, precision=precision, security=256).check()
    assert run.program.plan.parameters.security == 256


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda a, b: a @ b, ((24, 24), (24, 24))),
        (lambda a, b: a * b, ((30, 40), (30, 40))),
        (lambda a, b: (a @ b) * b, ((20, 20), (20, 20))),
        (lambda a, b: (a @ b) @ a, ((20, 20), (20, 20))),
    ],
)
def test_predicted_errors_are_of_use(function: Any, shapes: Any) -> None:
    """An upper bound, but not a hundred times what is found where entries are at their bounds and alike.

    Then errors of the factors of a chain add up; for other entries they are smaller, and the prediction is the same.
    """
    program = cb.compile(function, {"a": secret(*shapes[0]), "b": secret(*shapes[1])})
    found = run(program, {"a": np.ones(shapes[0]), "b": np.ones(shapes[1])}).check()
    assert program.plan.error < 100 * found.error


def test_a_server_runs_again_and_again() -> None:
    parties = Parties(cb.compile(lambda a, b: a @ b, {"a": SQUARE, "b": SQUARE}))
    for seed in range(3):
        parties.run(values_of(parties.program, seed)).check()


def test_progress_is_reported_to_the_end() -> None:
    program = cb.compile(lambda a, b: a @ b, {"a": secret(9, 9), "b": secret(9, 9)}, block=4)
    client = program.client()
    seen: dict[str, list[tuple[int, int]]] = {"keys": [], "encrypt": [], "run": []}
    server = program.server(client.evaluation_keys(lambda *step: seen["keys"].append(step)))
    values = {"a": np.eye(9), "b": np.eye(9)}
    inputs = client.encrypt(values, progress=lambda *step: seen["encrypt"].append(step))
    server.run(inputs, progress=lambda *step: seen["run"].append(step))
    for steps in seen.values():
        assert steps[-1][0] == steps[-1][1] > 0
        assert [done for done, _ in steps] == sorted(done for done, _ in steps)


def test_a_small_key_budget_costs_time_not_the_result() -> None:
    # One ciphertext per operand, so that the inner dimension cannot be cut to save keys.
    arguments: dict[str, Any] = {
        "a": secret(64, 64),
        "b": secret(64, 64),
        "algorithm": "skewed",
        "ring_degree": 1 << 14,
        "upload_budget": 600_000,
    }
    free = program_of(lambda a, b: a @ b, **arguments)
    budget = free.plan.key_bytes // 2
    tight = program_of(lambda a, b: a @ b, **arguments, key_budget=budget)
    assert tight.plan.key_policy != "direct"
    assert tight.plan.key_bytes <= budget
    assert tight.plan.seconds >= free.plan.seconds
    assert tight.client().evaluation_keys().nbytes <= budget
    run(tight, values_of(tight)).check()


NUMBERS: dict[str, Callable[..., Any]] = {
    "x @ y": lambda x, y: x @ y,
    "w @ x": lambda x, w: w @ x,
    "x @ w": lambda x, w: x @ w,
    "constant @ x": lambda x: np.arange(5.0) @ x,
    "x @ constant": lambda x: x @ np.arange(5.0),
    "of int8": lambda x: np.array([-128, 127, 0, 1, -1], np.int8) @ x,
    "squared": lambda x: cb.square(np.ones(5) @ x),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_products_of_vectors_are_numbers(name: str) -> None:
    operands = {"x": secret(5), "y": secret(5), "w": public(5)}
    wanted = [operand for operand in operands if operand in NUMBERS[name].__code__.co_varnames]
    found = encrypted(NUMBERS[name], **{operand: operands[operand] for operand in wanted}).check()
    assert found.program.shape == ()
