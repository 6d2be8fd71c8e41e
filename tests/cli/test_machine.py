"""`cipherblas machine` on one computer, `plan --machine` on another."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from cipherblas.cli.app import app
from cipherblas.distributed.blocks import optimal_blocks
from cipherblas.planner.predict.machine import Machine
from cipherblas.roles.program import Program
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


def test_ranks_say_why_and_take_optimal_blocks(tmp_path: Path) -> None:
    """Each way to share with its price, and the block layout of Algorithm 2, which is what is written."""
    MACHINE.save(tmp_path / "machine.json")
    given = ("--machine", tmp_path / "machine.json", "--ranks", "4", "-o", tmp_path / "plan", "--quiet")
    for a, b, wanted in (("16x128", "128x16", None), ("300x40", "40x300", "5×5×1 blocks")):
        wide = ("plan", "--a", a, "--b", b, "--algorithm", "fhe-mm", "--precision", "1e-2")
        text = cli(*wide, *given)
        program = Program.load(tmp_path / "plan")
        if wanted is None:
            blocks = optimal_blocks((16, 16, 128), program.plan.parameters.slots)
            wanted = f"{'×'.join(map(str, blocks))} blocks"
        assert f"layout     {wanted}" in text
    assert "whose compute and messages together are the least" in text
    for sharing in ("4d", "4d*", "4d-b", "4d-s", "e3d"):
        assert f" {sharing}: " in text
