"""Exact integers by residues, fixed point and layers of integers on the command line, from the plan to the results."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.integer_layers import conv2d, sum_pool2d

pytestmark = pytest.mark.encrypted


def computed(invoke: Any, here: Path, **values: Any) -> Any:
    """What comes back of a plan, by commands alone."""
    steps: list[list[Any]] = [["keygen", here / "plan", "-o", here / "keys"]]
    run = ["run", here / "plan", here / "keys/evaluation", "-o", here / "result.ct"]
    for name, value in values.items():
        np.save(here / f"{name}.npy", value)
        steps.append(
            ["encrypt", here / "keys", "--as", name, here / f"{name}.npy", "-o", here / f"{name}.ct"]
        )
        run += ["--operand", f"{name}={here / name}.ct"]
    steps += [run, ["decrypt", here / "keys", here / "result.ct", "-o", here / "result.npy"]]
    for step in steps:
        done = invoke(*step)
        assert done.exit_code == 0, done.stderr
    return np.load(here / "result.npy", allow_pickle=True)


def planned(invoke: Any, here: Path, *arguments: str) -> None:
    done = invoke("plan", *arguments, "-o", here / "plan")
    assert done.exit_code == 0, done.stderr


def test_products_of_31_bits(invoke: Any, tmp_path: Path) -> None:
    bound = 2**31
    operands = [f"{name}=2x3:dtype=int64:exact:bound={bound}" for name in "xy"]
    planned(
        invoke, tmp_path, "--operand", operands[0], "--operand", operands[1], "--program", "x * y - 3 * x"
    )
    x, y = np.full((2, 3), bound), np.array([[bound, -bound, 0], [1, -1, 12345]])
    found = computed(invoke, tmp_path, x=x, y=y)
    assert found.dtype == np.int64
    assert np.array_equal(found, x.astype(object) * y - 3 * x)


def test_fixed_point(invoke: Any, tmp_path: Path) -> None:
    planned(invoke, tmp_path, "--operand", "x=4:bound=1e5:fixed_point=10", "--program", "x @ x / 3")
    x = np.array([1e5, -99999.5, 1 / 1024, 0])
    found = computed(invoke, tmp_path, x=x)
    assert found == float(sum(Fraction(one) ** 2 for one in x.tolist()) / 3)


def test_layers(invoke: Any, tmp_path: Path) -> None:
    filters = np.random.default_rng(0).integers(-9, 9, (2, 1, 3, 3))
    program = cb.compile(
        lambda x: cb.avg_pool2d(cb.conv2d(x, filters, padding=1), 2, divisor_override=1),
        {"x": cb.secret(1, 6, 6, modulus=65537)},
    )
    program.save(tmp_path / "plan")
    x = np.random.default_rng(1).integers(0, 65537, (1, 6, 6))
    expected = sum_pool2d(conv2d(x.astype(object), filters, padding=1), 2) % 65537
    assert np.array_equal(computed(invoke, tmp_path, x=x), expected)
