"""Least squares and principal components of encrypted tables: NumPy's, and a picture."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import encrypted_table


def test_least_squares() -> None:
    random = np.random.default_rng(2)
    x = random.uniform(-1, 1, (60, 4))
    y = np.clip(x @ [0.1, -0.2, 0.3, 0.0] + 0.01 * random.normal(size=60), -1, 1)
    found, exact = encrypted_table.least_squares(x, y)
    np.testing.assert_allclose(found, exact, atol=1e-5)


def test_the_whole_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert encrypted_table.main(["--plot", str(tmp_path / "table.png")]) == 0
    printed = capsys.readouterr().out
    assert float(printed.split("largest difference of a fitted value ")[1].split()[0]) < 0.01
    assert float(printed.split("least cosine of an axis and NumPy's ")[1].split()[0]) > 0.999999
    assert matplotlib.image.imread(tmp_path / "table.png").shape[2] == 4
