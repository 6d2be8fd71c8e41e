"""The page of networks: its example runs and prints what it shows, its table of layers is what plans say."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.planner.plan.plan import Plan
from tests.support import documents, onnx_models

PAGE = documents.ROOT / "docs" / "networks.md"
RANDOM = np.random.default_rng(3)
SHAPE = (2, 6, 6)
FILTERS, VALUES, MATRIX = (RANDOM.uniform(-1, 1, shape) for shape in ((3, 2, 3, 3), SHAPE, (4, 72)))

# The rows of the table of layers, as programs of an image.
LAYERS: dict[str, Callable[[Any], Any]] = {
    "W @ x": lambda x: MATRIX @ cb.flatten(x),
    "cb.conv2d(x, filters, bias, stride, padding, groups)": lambda x: cb.conv2d(x, FILTERS, np.ones(3)),
    "cb.avg_pool2d(x, 2)": lambda x: cb.avg_pool2d(x, 2),
    "cb.avg_pool2d(x, 2, padding=1)": lambda x: cb.avg_pool2d(x, 2, padding=1),
    "cb.flatten(x)": cb.flatten,
    "cb.square(x)": cb.square,
    "cb.polynomial(x, coefficients)": lambda x: cb.polynomial(x, [1.0, 0.5, 0.25, 0.125]),
    "x * array": lambda x: x * VALUES,
    "x + array": lambda x: 0.5 * x + VALUES,
    "cb.assume(x, bound, error=None)": lambda x: cb.assume(x, 0.5),
}


def labels(text: str) -> list[str]:
    """What the lines of a plan are about."""
    return [re.split(r" {2,}", line)[0] or line.split("  ")[1] for line in text.splitlines() if line.strip()]


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block in its order; the printed plan has the lines that the page shows."""
    names: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    Path("network.onnx").write_bytes(onnx_models.fire())
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in documents.blocks(PAGE, "python"):
            exec(compile(block.text, PAGE.name, "exec"), names)
    (shown,) = documents.blocks(PAGE, "text")
    assert labels(shown.text) == labels(printed.getvalue())
    assert names["scores"].shape == names["network"].scores == (4,)


def needed_keys(plan: Plan) -> str:
    kinds = {"rotations": bool(plan.keys.galois), "relinearisation": plan.keys.relinearise is not None}
    return " and ".join(kind for kind, needed in kinds.items() if needed) or "none"


@pytest.mark.parametrize("layer", LAYERS)
def test_table_of_layers(layer: str) -> None:
    """Levels and keys, as the plan of a program of that layer alone has them."""
    (row,) = [row for row in documents.table(PAGE, "layer") if row["layer"].startswith(f"`{layer}`")]
    plan = cb.compile(LAYERS[layer], {"x": cb.secret(*SHAPE)}, precision=1e-3, form="tensors").plan
    assert row["keys"] == needed_keys(plan)
    if row["levels"].startswith("log2(degree + 1)"):
        assert plan.levels == 2
    else:
        assert int(row["levels"]) == plan.levels


def test_table_is_complete() -> None:
    rows = [row["layer"] for row in documents.table(PAGE, "layer")]
    assert len(rows) == len(LAYERS)
    named = {name for row in rows for name in re.findall(r"cb\.(\w+)", row)}
    assert named == {"matvec", "conv2d", "avg_pool2d", "flatten", "square", "polynomial", "assume"}
