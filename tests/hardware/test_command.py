"""`cipherblas fame-model` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SMALL = ("fame-model", "--set", "A", "--shape", "64x64x64", "-q")


def test_table(invoke: Any) -> None:
    text = invoke(*SMALL).stdout
    assert "FAME-S for set A" in text and "864.0 KiB" in text and "5376" in text
    assert "A 64×64×64, as published" in text and "378" in text


def test_rows_as_json(invoke: Any) -> None:
    lines = invoke(*SMALL, "--what-if", "--json").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["case"] for row in rows] == ["64x64x64"] * len(rows)
    assert rows[0]["variant"] == "as published" and rows[0]["times_faster"] == 1.0
    assert {"twice the HBM", "four PEs"} <= {row["variant"] for row in rows}


def test_options_change_the_machine(invoke: Any) -> None:
    options = ("--pes", 4, "--lanes", 64, "--mhz", 100, "--hbm", "1GB", "--scratchpad", "1MiB")
    more = ("--ntt-stages", 2, "--order", "rotation", "--no-overlap", "--relinearise-once", "--centred")
    (line,) = invoke(*SMALL, *options, *more, "--json").stdout.splitlines()
    row = json.loads(line)
    assert row["accelerator"] == {
        "name": "FAME-S",
        "pes": 4,
        "lanes": 64,
        "mhz": 100.0,
        "hbm_bytes": 10**9,
        "scratchpad_bytes": 2**20,
        "dsp": 21 * 256,
        "ntt_stages": 2.0,
        "overlapped": False,
        "order": "rotation",
        "centred": True,
        "twiddles": False,
    }
    assert row["relinearisations"] == 1


def test_picture_and_rows_of_a_cpu(invoke: Any, tmp_path: Path) -> None:
    row = {"bench": "cc", "case": "64x64x64", "set": "A", "algorithm": "e2dm", "seconds": 2.0}
    (tmp_path / "rows").write_text(
        json.dumps(row) + "\n" + json.dumps({"bench": "cc", "case": "all", "algorithm": "fame"}),
        encoding="utf-8",
    )
    result = invoke(*SMALL, "--cpu", tmp_path / "rows", "--plot", tmp_path / "picture.png")
    assert result.exit_code == 0 and "e2dm 2.00 s" in result.stdout
    assert (tmp_path / "picture.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("text", "said"), [("", "is empty"), ("{", "is no JSON"), ('{"bench": "nn"}', "no such row")]
)
def test_other_files_are_refused(invoke: Any, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "rows").write_text(text, encoding="utf-8")
    result = invoke(*SMALL, "--cpu", tmp_path / "rows")
    assert result.exit_code == 1 and said in result.stderr


def test_what_cannot_be_is_refused(invoke: Any) -> None:
    assert "even number of processing elements" in " ".join(invoke(*SMALL, "--pes", 3).stderr.split())
    too_large = invoke("fame-model", "--set", "A", "--shape", "100x100x100")
    assert too_large.exit_code == 1 and "does not fit" in too_large.stderr
