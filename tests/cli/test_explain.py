"""`cipherblas explain`: the picture of a program, and its steps, of every form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

import cipherblas as cb
from cipherblas.cli.explain import boxes_of
from cipherblas.lang.nodes import ordered

W = np.random.default_rng(1).uniform(-1, 1, (6, 8))
PROGRAMS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "blocks": (
        lambda a, b: {"product": (a @ b) * (a @ b) + 1, "sum": a.sum(axis=0)},
        {"a": cb.secret(6, 8), "b": cb.secret(8, 5)},
        {"form": "blocks"},
    ),
    "tensors": (lambda x: W @ cb.square(W.T @ x), {"x": cb.secret(6)}, {"form": "tensors"}),
    "rows": (lambda w, x: w @ x, {"w": cb.public(6, 8), "x": cb.secret(8, 5)}, {"form": "rows"}),
    "several forms": (
        lambda x: W @ cb.square(W.T @ x),
        {"x": cb.secret(6, 4)},
        {"form": "mixed", "ring_degree": 4096, "insecure": True},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_pictures(name: str, invoke: Any, tmp_path: Path) -> None:
    function, operands, options = PROGRAMS[name]
    program = cb.compile(function, operands, **options)
    boxes = boxes_of(program)
    assert all(child < place for place, box in enumerate(boxes) for child in box.children)
    assert sum(box.result for box in boxes) >= len(program.results)
    assert sum(box.form == "clear" for box in boxes) == {"rows": 1, "blocks": 2}.get(name, 2)
    titles = {box.lines[0] for box in boxes}
    assert {one.title for one in program.plan.nodes} <= titles
    program.save(tmp_path / "plan")
    insecure = ["--insecure"] if options.get("insecure") else []
    drawn = invoke("explain", tmp_path / "plan", "--plot", tmp_path / "plan.png", *insecure)
    assert drawn.exit_code == 0 and drawn.stdout.startswith("program")
    assert matplotlib.image.imread(tmp_path / "plan.png").shape[2] == 4


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_steps(name: str, invoke: Any, tmp_path: Path) -> None:
    function, operands, options = PROGRAMS[name]
    program = cb.compile(function, operands, **options)
    program.save(tmp_path / "plan")
    asked = ("explain", tmp_path / "plan", "--steps", *(["--insecure"] if options.get("insecure") else []))
    text = invoke(*asked).stdout
    assert text.rstrip() == cb.Program.load(
        tmp_path / "plan", insecure=options.get("insecure", False)
    ).explain(steps=True)
    steps = json.loads(invoke(*asked, "--json").stdout)["steps"]
    assert text.count("\n") >= len(steps) == len(program.listing) and f"steps: {len(steps)}, " in text
    for number, one in enumerate(steps):
        assert one["number"] == number and all(source < number for source in one["reads"])
        assert number < one["until"] <= len(steps)
    ends = [one for one in steps if one["until"] == len(steps)]
    assert len({one["node"] for one in ends}) >= len(program.results)
    assert {one["of"] for one in steps} <= {node.title for node in ordered(program.executed)}
    received = [one for one in steps if one["step"] == "receive"]
    assert sum(one["ciphertexts"] for one in received) >= program.plan.upload_ciphertexts
