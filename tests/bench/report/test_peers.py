"""Tables and picture of `bench peers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cipherblas_bench.report import peers

BUILD = {
    "distribution": "seal-python 4",
    "python": "3.11.7",
    "wheel": ["cp311"],
    "instruction_sets": ["AVX2"],
}


def row(case: str, library: str, **fields: Any) -> dict[str, Any]:
    return {
        "bench": "peers",
        "case": case,
        "algorithm": library,
        "library": library,
        "machine": "none",
        **fields,
    }


def measured(seconds: float) -> dict[str, Any]:
    return {"seconds": seconds, "seconds_min": seconds, "seconds_max": 2 * seconds, "error": 1e-6}


ROWS = [
    {"bench": "peers", "case": "installed", "algorithm": "seal", "build": BUILD},
    {"bench": "peers", "case": "installed", "algorithm": "openfhe", "skipped": "no | wheel\nat all"},
    row("4x4x4", "cipherblas", **measured(1e-3)),
    row("4x4x4", "cipherblas", one_ciphertext=True, **measured(2e-3)),
    row("4x4x4", "seal", times_ours=50.0, **measured(0.05)),
    row("4x4x4", "tenseal", predicted_seconds=70.0, estimated=True),
    row("rotate", "cipherblas", **measured(1e-4)),
    row("rotate", "seal", skipped="it has none"),
]


def test_one_table_of_all_libraries() -> None:
    head, _, product, rotation = peers.seconds_table(ROWS).splitlines()
    assert head == "| ms | cipherblas | cipherblas, one ciphertext each | seal | tenseal |"
    assert product == (
        "| 4x4x4 | 1 (1 … 2), error 1e-06 | 2 (2 … 4), error 1e-06 | 50 (50 … 100), **50 ×**, error 1e-06 | ~70000 |"
    )
    assert rotation == "| rotate | 0.1 (0.1 … 0.2), error 1e-06 |  | none: it has none |  |"


def test_what_is_not_installed_says_why_in_one_cell() -> None:
    lines = peers.installed_table(ROWS).splitlines()
    assert lines[2] == "| seal | seal-python 4 | CPython 3.11.7 | `cp311` | AVX2 |"
    assert lines[3] == "| openfhe | not installed: no \\| wheel at all |  |  |  |"


def test_the_picture_has_a_bar_for_each_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (axis,) = peers.peers_figure(ROWS).axes
    bars = {round(bar.get_width(), 6) for bar in axis.patches} - {0.0}
    assert bars == {1.0, 2.0, 50.0, 70000.0, 0.1}
    peers.draw_peers(tmp_path / "picture.png", ROWS)
    assert (tmp_path / "picture.png").read_bytes()[:4] == b"\x89PNG"
