"""The README: its example runs, its table is one of ratios."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

import cipherblas as cb
from tests.support import documents


def test_example_runs() -> None:
    """The ten lines, as they stand; their variables are then looked at."""
    block, *_ = documents.blocks(documents.README, "python")
    assert len([line for line in block.text.splitlines() if line.strip()]) <= 10
    names: dict[str, object] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, "README.md", "exec"), names)
    program, client, a, b = (names[name] for name in ("program", "client", "A", "B"))
    assert isinstance(program, cb.Program)
    assert isinstance(client, cb.Client)
    assert isinstance(a, np.ndarray)
    assert isinstance(b, np.ndarray)
    found = client.decrypt(names["C"])  # type: ignore[arg-type]
    assert np.abs(found - a @ b).max() <= program.plan.error_target
    assert program.explain() in printed.getvalue()


def test_its_table_has_five_rows_of_ratios() -> None:
    """The first is like for like; every ratio is that of its row, as far as the digits go."""
    rows = documents.table(documents.README, "case")
    assert len(rows) == 5
    assert "one ciphertext per operand on both sides" in rows[0]["case"]
    for row in rows:
        ours, peer = (float(row[side].split(": ")[-1]) for side in ("ours", "peer"))
        assert float(row["ratio"]) == pytest.approx(peer / ours, rel=0.1)
