"""Encrypted recommendations, fewer of them: NumPy's, and a picture."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import recommender


def test_the_best_items_are_those_of_numpy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--users", "40", "--known", "50", "--items", "60"]
    assert recommender.main([*sizes, "--plot", str(tmp_path / "picture.png")]) == 0
    printed = capsys.readouterr().out
    assert float(printed.split("largest error of a score ")[1].split(",")[0]) < 1e-3
    assert float(printed.split("of each user ")[1].split(" %")[0]) > 99
    assert matplotlib.image.imread(tmp_path / "picture.png").shape[2] == 4


def test_the_model_knows_what_users_like() -> None:
    random = np.random.default_rng(1)
    ratings, liked = recommender.drawn(random, 200, 50, 80)
    model = recommender.learnt(*recommender.drawn(random, 800, 50, 80))
    chosen = recommender.top(ratings @ model)
    assert np.take_along_axis(liked, chosen, axis=1).mean() > liked.mean() + 0.5
