"""`cipherblas machine` on one computer, `plan --machine` on another."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from cipherblas.cli.app import app
from cipherblas.planner.predict.machine import Machine
from tests.corpus.machine import MACHINE

PRODUCT = ("plan", "--a", "12x12", "--b", "12x12")


def cli(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


def test_measured_once_and_planned_for(tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    text = cli("machine", "-o", file, "--quiet")
    machine = Machine.load(file)
    assert machine.name == "server"
    for part in ("machine server", machine.isa, "float64 GEMM", "key switch, N = 4096", "GiB"):
        assert part in text
    plans = [json.loads(cli(*PRODUCT, "--machine", file, "--json")) for _ in range(2)]
    assert plans[0] == plans[1]
    assert plans[0]["machine"] == machine.to_dict() and plans[0]["threads"] == machine.threads
    assert "server (" in cli(*PRODUCT, "--machine", file)


def test_json_and_names() -> None:
    values = json.loads(cli("machine", "--json", "--quiet", "--name", "desk"))
    assert Machine.from_dict(values).name == "desk"


def test_explain_says_what_was_planned(tmp_path: Path) -> None:
    MACHINE.save(tmp_path / "machine.json")
    planned = cli(*PRODUCT, "--machine", tmp_path / "machine.json", "-o", tmp_path / "plan", "--quiet")
    assert "corpus (two cores" in planned
    assert cli("explain", tmp_path / "plan").rstrip() == planned.split("\nnot taken:")[0].rstrip()


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    assert "is no file of a machine" in cli(*PRODUCT, "--machine", tmp_path / "bad.json", code=1)
    assert "Cannot read" in cli(*PRODUCT, "--machine", tmp_path / "none.json", code=1)
    assert "Cannot write" in cli("machine", "-o", tmp_path / "none" / "server.json", code=1)
