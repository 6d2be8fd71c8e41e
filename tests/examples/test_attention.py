"""An attention layer, a small one on a toy ring: NumPy's, and a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import attention
import cipherblas as cb
from cipherblas.lang.nodes import ordered

RANDOM = np.random.default_rng(5)
LAYER = attention.Layer.drawn(RANDOM, 2, 4)
X = attention.normalised(RANDOM.normal(size=(8, 8)))


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_an_encrypted_layer_is_that_of_numpy(tmp_path: Path) -> None:
    program = cb.compile(
        lambda x: attention.attention(LAYER, x, attention.polynomial_weights),
        {"x": cb.secret(*X.shape, bound=attention.MAX_ACTIVATION)},
        **{"error": 0.05, "security": 0, "insecure": True, "ring_degree": 4096, "upload_budget": 1 << 30},
    )
    found = attention.encrypted(program, X, LAYER.heads)
    assert np.abs(found - program.evaluate({"x": X})).max() <= program.plan.error <= 0.05
    exact = attention.attention(LAYER, X, attention.softmax)
    assert np.abs(found - exact).max() < 0.02 * np.abs(exact).max()
    attention.draw(tmp_path / "picture.png", found, exact)
    assert matplotlib.image.imread(tmp_path / "picture.png").shape[2] == 4


def test_heads_that_are_refreshed_are_one_value(capsys: pytest.CaptureFixture[str]) -> None:
    """Scores, means and what they weigh, each of both heads at once; the same as head by head."""
    layer = replace(LAYER, refreshed=True).calibrated([X])
    operands = {"x": cb.secret(*X.shape, bound=attention.MAX_ACTIVATION)}
    with pytest.warns(cb.InsecureParametersWarning):
        program = cb.compile(
            lambda x: attention.attention(layer, x, attention.polynomial_weights),
            operands,
            **{"error": 0.5, "security": 0, "insecure": True, "ring_degree": 4096, "upload_budget": 1 << 30},
        )
    assert sum(node.op == "refresh" for node in ordered(program.expression)) == 3
    found = attention.encrypted(program, X, layer.heads)
    assert np.abs(found - program.evaluate({"x": X})).max() <= program.plan.error <= 0.5
    exact = attention.attention(layer, X, attention.softmax)
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()
    lines = capsys.readouterr().out.splitlines()
    seconds = {line[:22].strip(): float(line[22:].split()[0]) for line in lines if line.startswith("  ")}
    assert set(seconds) == set(attention.PARTS)
    assert all(seconds[part] > 0 for part in ("scores", "refreshes", "slots to rows", "values"))
    assert seconds["means"] == 0  # as many tokens as entries: they are among the projections
    total = float(lines[0].split(" s, ")[1].split()[0])
    assert sum(seconds.values()) == pytest.approx(total, abs=0.05 * total + 0.02)


def test_what_a_layer_takes_is_said_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert attention.main(["--heads", "1", "--tokens", "4", "--width", "2", "--plan"]) == 0
    printed = capsys.readouterr().out
    assert "expected time" in printed
    assert "error beside NumPy" not in printed


def test_activations_that_leave_their_range_are_refused() -> None:
    with pytest.raises(ValueError, match="expected at most 4"):
        attention.attention(LAYER, 20 * X, attention.softmax)
