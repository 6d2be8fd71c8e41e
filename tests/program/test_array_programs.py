"""What users of NumPy and BLAS write, encrypted with real parameters, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.array_programs import ROWS, Row

RANDOM = np.random.default_rng(11)
pytestmark = pytest.mark.encrypted


def run(program: Any, arrays: dict[str, Any]) -> Any:
    client = program.client()
    server = program.server(client.evaluation_keys())
    found = client.decrypt(server.run(client.encrypt(arrays)))
    assert server.last.counts == program.plan.counts
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.formula)
def test_every_row_of_the_table(row: Row) -> None:
    """Random entries, and all at the bound: the largest sums."""
    program = cb.compile(row.function, row.operands(6))
    for arrays in (
        row.arrays(6, RANDOM),
        {name: np.ones_like(x) for name, x in row.arrays(6, RANDOM).items()},
    ):
        found, expected = run(program, arrays), row.expected(arrays)
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= program.plan.error


def test_programs_with_arranged_operands_come_back_from_files(tmp_path: Path) -> None:
    operands = {"A": cb.secret(6, 8), "s": cb.secret(bound=3.0), "w": cb.public(8, bound=2.0)}
    program = cb.compile(lambda A, s, w: s * A[1:4, ::2].T[[0, 2]] + w[:3] - w[3:6].sum(), operands)
    program.save(tmp_path / "program.cb")
    again = cb.Program.load(tmp_path / "program.cb")
    assert again.id == program.id
    arrays = {"A": RANDOM.uniform(-1, 1, (6, 8)), "s": np.array(-3.0), "w": RANDOM.uniform(-2, 2, 8)}
    client = again.client()
    encrypted = client.encrypt({name: arrays[name] for name in ("A", "s")})
    server = program.server(client.evaluation_keys())
    found = client.decrypt(server.run({**encrypted, "w": arrays["w"]}))
    A, s, w = arrays["A"], arrays["s"], arrays["w"]
    assert np.abs(found - (s * A[1:4, ::2].T[[0, 2]] + w[:3] - w[3:6].sum())).max() <= program.plan.error


def test_what_was_arranged_is_checked_as_it_was_declared() -> None:
    program = cb.compile(lambda A: A[:2, 3:], {"A": cb.secret(4, 6)})
    client = program.client()
    with pytest.raises(cb.ShapeError, match="shape"):
        client.encrypt({"A": np.zeros((2, 3))})
    with pytest.raises(cb.RangeError):
        client.encrypt({"A": np.full((4, 6), 2.0)})


@pytest.mark.parametrize("encryption", ["secret-key", "public-key"])
def test_parts_of_one_operand_in_several_blocks(encryption: Any) -> None:
    """Blocks that are not full, a slice that crosses them, and zeros around."""
    operands = {"A": cb.secret(50, 30, encryption=encryption), "B": cb.secret(31, 30)}
    program = cb.compile(lambda A, B: cb.concatenate([A[3:45], 2 * B]) @ B[1:].T, operands, precision=1e-3)
    arrays = {"A": RANDOM.uniform(-1, 1, (50, 30)), "B": RANDOM.choice([-1.0, 0.0, 1.0], (31, 30))}
    expected = np.concatenate([arrays["A"][3:45], 2 * arrays["B"]]) @ arrays["B"][1:].T
    assert np.abs(run(program, arrays) - expected).max() <= program.plan.error


def test_reshaped_products_are_exact_in_place() -> None:
    """A transform of a block, in a program that goes on with it, and with zeros."""
    operands = {"A": cb.secret(4, 6), "B": cb.secret(6, 9)}
    function: Any = lambda A, B: (A @ B).reshape(12, 3) @ np.ones((3, 2)) + 0.5  # noqa: E731
    program = cb.compile(function, operands)
    for arrays in (
        {"A": RANDOM.uniform(-1, 1, (4, 6)), "B": RANDOM.uniform(-1, 1, (6, 9))},
        {"A": np.zeros((4, 6)), "B": np.ones((6, 9))},
    ):
        assert np.abs(run(program, arrays) - function(**arrays)).max() <= program.plan.error


def test_programs_of_numbers_alone() -> None:
    program = cb.compile(
        lambda a, b: {"sum": a - 2 * b, "product": a * b + 1, "power": b**3},
        {"a": cb.secret(bound=3.0), "b": cb.secret()},
    )
    found = run(program, {"a": np.array(-3.0), "b": np.array(0.5)})
    for (name, expected), figures in zip(
        {"sum": -4.0, "product": -0.5, "power": 0.125}.items(), program.plan.results, strict=True
    ):
        assert found[name].shape == () and abs(found[name] - expected) <= figures.error
