"""Logistic regression on encrypted data, small: NumPy's weights, and a picture; and that the whole is refreshed."""

from __future__ import annotations

import functools
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import cipherblas as cb
import logistic_regression


@pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a toy ring, INSECURE."""
    picture = tmp_path / "picture.png"
    assert logistic_regression.main(["--insecure", "--threads", "1", "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    difference, predicted = (
        printed.split("weight from NumPy's ")[1].split("\n")[0].split(", predicted at most ")
    )
    assert 0 < float(difference) <= float(predicted) < 0.2
    found, expected = (
        printed.split(f" other rows, {name}: ")[1].split(" %")[0] for name in ("encrypted", "NumPy")
    )
    assert float(found) == pytest.approx(float(expected), abs=1.0)
    assert matplotlib.image.imread(picture).shape[2] == 4


def test_it_learns_within_its_bounds() -> None:
    """Ten steps on the whole table, in the clear: bounds are kept, and accuracy is near scikit-learn's."""
    rows, features, steps = logistic_regression.FULL
    x, y = logistic_regression.drawn(2 * rows, features)
    weights = logistic_regression.trained(x[:rows], y[:rows], steps)
    exact = logistic_regression.LogisticRegression(fit_intercept=False).fit(x[:rows], y[:rows]).coef_[0]
    assert len(weights) == steps and np.abs(weights[-1]).max() > np.abs(weights[0]).max()
    found, best = (logistic_regression.accuracy(one, x[rows:], y[rows:]) for one in (weights[-1], exact))
    assert best > 0.7 and found > best - 0.05


@pytest.mark.slow
def test_the_planner_places_refreshes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 128 bits; planned, not run, for the degree that is found without. Steps make it deep, and not the size of the
    table."""
    monkeypatch.setattr(cb, "compile", functools.partial(cb.compile, ring_degree=1 << 16))
    plan = logistic_regression.compiled(20, 2, 5, 1, insecure=False).plan
    assert plan.parameters.security == 128 and plan.counts.modulus_raises >= 1
    assert plan.error <= 0.2
