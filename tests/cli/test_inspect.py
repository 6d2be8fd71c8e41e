"""`cipherblas inspect`: what a file is, for people and for programs; of what is no file of ours, an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cipherblas as cb


def test_a_file_is_told(invoke: Any, tmp_path: Path) -> None:
    program = cb.compile(lambda x: x + 1, {"x": cb.secret(3, 2)})
    client = program.client()
    client.save(tmp_path / "key")
    client.encrypt({"x": [[0.5, 0.5]] * 3})["x"].save(tmp_path / "x.ct")
    said = invoke("inspect", tmp_path / "x.ct")
    assert said.exit_code == 0 and "encrypted-operand" in said.stdout and "x 3x2" in said.stdout
    assert "a secret: send it to nobody" in invoke("inspect", tmp_path / "key").stdout
    facts = json.loads(invoke("inspect", "--json", tmp_path / "x.ct").stdout)
    assert facts == cb.inspect(tmp_path / "x.ct").to_dict()
    assert facts["shapes"] == {"x": [3, 2]} and facts["program_id"] == program.id


def test_other_files_are_errors(invoke: Any, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a text")
    assert "is a text, not a file of cipherblas" in invoke("inspect", tmp_path / "text").stderr
    assert "Cannot read" in invoke("inspect", tmp_path / "none").stderr
