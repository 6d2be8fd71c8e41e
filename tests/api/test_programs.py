"""Programs through the public interface, on real ciphertexts, entry by entry against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.methods.matmul.registry import ALGORITHMS

S, P = cb.secret, cb.public
WEIGHTS = np.random.default_rng(5).uniform(-1, 1, (6, 9))


def check(function: Callable[..., Any], seed: int = 1, **arguments: Any) -> cb.Program:
    """Compile, encrypt, run, decrypt; the error is within the predicted one, the counts are the planned ones."""
    program = cb.compile(function, **arguments)
    client = program.client()
    server = program.server(client.evaluation_keys())
    random = np.random.default_rng(seed)
    values = {
        name: random.uniform(-operand.bound, operand.bound, operand.shape)
        for name, operand in program.operands.items()
    }
    sent = {
        name: client.encrypt(**{name: value}) if program.operands[name].secret else value
        for name, value in values.items()
    }
    result = client.decrypt(server.run(**sent))
    expected = program.evaluate(**values)
    assert result.shape == expected.shape == program.shape
    error = np.abs(result - expected)
    assert (error <= program.plan.error).all(), error.max()
    assert program.plan.error <= program.plan.error_target
    assert server.counts == program.plan.counts
    return program


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda a, b: a @ b, {"a": S(20, 30), "b": S(30, 7)}),
        (lambda a, b: a @ b, {"a": S(20, 30), "b": P(30, 7)}),
        (lambda a, b: b @ a, {"a": S(20, 30), "b": P(7, 20)}),
        (lambda a: WEIGHTS @ a, {"a": S(9, 4)}),
        (lambda a, b: a + b, {"a": S(20, 30), "b": S(20, 30)}),
        (lambda a, b: a - b * 2, {"a": S(20, 30, bound=3), "b": S(20, 30, bound=16)}),
        (lambda a, b: a * b, {"a": S(20, 30), "b": S(20, 30)}),
        (lambda a, b: a * b, {"a": S(20, 30), "b": P(20, 30)}),
        (lambda a, b: 0.5 * (a @ b), {"a": S(20, 30), "b": S(30, 20)}),
        (lambda a, b, c: a @ b + c, {"a": S(20, 30), "b": S(30, 20), "c": S(20, 20, bound=16)}),
        (lambda a, b, c: a @ b + c, {"a": S(20, 30), "b": S(30, 20), "c": P(20, 20, bound=16)}),
        (lambda a, b, c: (a @ b) @ c, {"a": S(8, 9), "b": S(9, 10), "c": S(10, 11)}),
        (lambda a, b, c: a @ (b @ c), {"a": S(8, 9), "b": S(9, 10), "c": S(10, 11)}),
        (lambda a: a @ a.T, {"a": S(20, 30, bound=16)}),
        (lambda a: -(a.T), {"a": S(20, 30)}),
        (lambda a, b: (a @ b) * (a + b), {"a": S(12, 12), "b": S(12, 12)}),
        (lambda a, b: (a @ b) * 0.3 + a * 7, {"a": S(12, 12), "b": S(12, 12)}),
        (lambda a, b: a @ b, {"a": S(1, 1), "b": S(1, 1)}),
        (lambda a, b: a @ b, {"a": S(1, 300), "b": S(300, 1)}),
        (lambda a, b: a @ b, {"a": S(301, 1), "b": S(1, 17)}),
    ],
)
def test_programs(function: Callable[..., Any], operands: dict[str, Any]) -> None:
    check(function, **operands)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("shape", [(13, 7, 11), (8, 8, 8)])
def test_every_algorithm_by_name(name: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    program = check(lambda a, b: a @ b, a=S(m, k), b=S(k, n), algorithm=name)
    assert program.plan.algorithm == name


@pytest.mark.parametrize("precision", [1e-2, 1e-7])
@pytest.mark.parametrize("security", [128, 256])
def test_precision_and_security(precision: float, security: int) -> None:
    program = check(lambda a, b: a @ b, a=S(13, 17), b=S(17, 19), precision=precision, security=security)
    assert program.plan.parameters.security >= security


def test_blocked_product() -> None:
    program = check(lambda a, b: a @ b, a=S(50, 41), b=S(41, 47), algorithm="skewed", block=16)
    assert max(program.plan.blocks.values()) <= 16


def test_explain_names_every_prediction() -> None:
    program = cb.compile(lambda a, b: a @ b, a=S(20, 30), b=S(30, 7), algorithm="skewed")
    text = program.explain()
    for word in (
        "algorithm", "ring degree", "log2(Q)", "log2(P)", "dnum", "levels", "ciphertexts", "products", "rotations",
        "evaluation keys", "peak memory", "expected error", "expected time", "security",
    ):  # fmt: skip
        assert word in text, word


def test_files_carry_everything(tmp_path: Path) -> None:
    program = cb.compile(lambda a, w: w @ a, a=S(9, 4), w=P(3, 9))
    client = program.client()
    program.save(tmp_path / "program")
    client.save(tmp_path / "secret")
    client.evaluation_keys().save(tmp_path / "keys")
    random = np.random.default_rng(2)
    a, w = random.uniform(-1, 1, (9, 4)), random.uniform(-1, 1, (3, 9))
    client.encrypt(a=a).save(tmp_path / "a")

    there = cb.Program.load(tmp_path / "program")
    assert there.id == program.id
    assert there.explain().splitlines()[0] == program.explain().splitlines()[0]
    parameters = there.plan.parameters
    server = there.server(cb.EvaluationKeys.load(tmp_path / "keys"))
    sent = cb.EncryptedOperand.load(tmp_path / "a", parameters, there.id)
    server.run(a=sent, w=w).save(tmp_path / "c")

    back = cb.EncryptedResult.load(tmp_path / "c", program.plan.parameters, program.id)
    result = cb.Client.load(program, tmp_path / "secret").decrypt(back)
    assert (np.abs(result - w @ a) <= program.plan.error).all()
