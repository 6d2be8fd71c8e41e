"""The page on PyTorch runs, where PyTorch is installed."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from tests.support import documents

PAGE = documents.ROOT / "docs" / "pytorch.md"

pytest.importorskip("torch")


@pytest.mark.encrypted
def test_every_block_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds its own assertions; the label is that of the network in the clear, and what was saved is there."""
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    with contextlib.redirect_stdout(io.StringIO()):
        for block in documents.blocks(PAGE, "python"):
            exec(compile(block.text, PAGE.name, "exec"), names)
    assert names["scores"].argmax() == names["network"](names["image"]).argmax()
    assert {path.name for path in tmp_path.iterdir()} >= {"digits.cb", "digits-client.cb", "scores.png"}
    assert Path("digits-client.cb").stat().st_size < Path("digits.cb").stat().st_size / 10
