"""Files of somebody else on the command line: refused where they are insecure, harmless where they are not."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto import files
from tests.support.foreign_files import ESCAPES, TINY


@pytest.fixture(scope="module")
def weak(tmp_path_factory: pytest.TempPathFactory, invoke: Any) -> Path:
    """A plan with N = 16 that states itself rightly, and all files that a careless user makes of it."""
    folder = tmp_path_factory.mktemp("weak")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = cb.compile(
            lambda a, b: a @ b,
            {"a": cb.secret(2, 2, encryption="public-key"), "b": cb.secret(2, 2)},
            parameters=TINY,
            algorithm="skewed",
            insecure=True,
        )
    program.save(folder / "plan.cb")
    np.save(folder / "A.npy", np.eye(2))
    for command in COMMANDS:
        done = invoke(*(str(part).format(folder) for part in command), "--insecure")
        assert done.exit_code == 0, done.stderr
        assert "The parameters are insecure: N = 16" in done.stderr
    return folder


COMMANDS = (
    ("keygen", "{}/plan.cb", "-o", "{}/keys"),
    ("encrypt", "{}/keys", "{}/A.npy", "--as", "a", "-o", "{}/A.ct"),
    (
        "encrypt",
        "{}/plan.cb",
        "{}/A.npy",
        "--as",
        "a",
        "--public-key",
        "{}/keys/public-key",
        "-o",
        "{}/P.ct",
    ),
    ("encrypt", "{}/keys", "{}/A.npy", "--as", "b", "-o", "{}/B.ct"),
    ("run", "{}/plan.cb", "{}/keys/evaluation", "--a", "{}/A.ct", "--b", "{}/B.ct", "-o", "{}/C.ct"),
    ("decrypt", "{}/keys", "{}/C.ct", "-o", "{}/C.npy"),
    ("explain", "{}/plan.cb"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_every_command_refuses_insecure_files(
    weak: Path, tmp_path: Path, invoke: Any, command: tuple[str, ...]
) -> None:
    arguments = [part.format(weak) for part in command]
    if "-o" in arguments:
        arguments[-1] = str(tmp_path / "out")
    for more in ((), ("--security", "192")):
        done = invoke(*arguments, *more)
        assert done.exit_code == 1 and done.stdout == ""
        assert "cipherblas: error: " in done.stderr and "less secure than asked for" in done.stderr
        assert "--insecure" in done.stderr
        assert list(tmp_path.iterdir()) == []
    nothing = invoke(*arguments, "--security", "0")
    assert nothing.exit_code == 1 and "insecure=True" in nothing.stderr


def test_a_level_of_security(flow: Any, tmp_path: Path, invoke: Any) -> None:
    """A plan of 128 bits is none of 192; one of 192 bits passes."""
    done = invoke("keygen", flow.plan, "-o", tmp_path / "keys", "--security", "192")
    assert done.exit_code == 1 and "expected 192 bits or more, got 128 bits" in done.stderr
    made = invoke("plan", "--a", "3x3", "--b", "3x3", "--security", "192", "-o", tmp_path / "plan")
    assert made.exit_code == 0, made.stderr
    for more in ((), ("--security", "192")):
        shown = invoke("explain", tmp_path / "plan", "--json", *more)
        assert json.loads(shown.stdout)["security"] == 192


def test_plan_makes_insecure_plans_on_request_alone(tmp_path: Path, invoke: Any) -> None:
    shapes = (
        "plan",
        "--a",
        "3x3",
        "--b",
        "3x3",
        "--security",
        "0",
        "--precision",
        "1e-9",
        "-o",
        tmp_path / "plan",
    )
    refused = invoke(*shapes)
    assert refused.exit_code == 1 and "insecure=True" in refused.stderr
    made = invoke(*shapes, "--insecure")
    assert made.exit_code == 0, made.stderr
    assert "NONE (insecure parameters)" in made.stdout


def assert_harmless(done: Any) -> None:
    for text in (done.stdout, done.stderr):
        assert all(character == "\n" or character.isprintable() for character in text), text


def rewritten(path: Path, kind: str, target: Path, **fields: Any) -> Path:
    with files.Reader(path, kind) as reader:
        header = {key: value for key, value in reader.header.items() if key != "parameters"}
        tensors, parameters = reader.read_all(), reader.parameters
    files.write(target, kind, {**header, **fields}, tensors, parameters=parameters)
    return target


def test_nothing_steers_the_terminal(flow: Any, tmp_path: Path, invoke: Any) -> None:
    for field in ("id", "operands", "graph", "decisions", "constants"):
        plan = rewritten(flow.plan, "program", tmp_path / "plan", **{field: ESCAPES})
        for command in (("explain", plan), ("keygen", plan, "-o", tmp_path / "keys")):
            done = invoke(*command)
            assert_harmless(done)
            assert done.exit_code == (0 if field == "constants" else 1)
            shutil.rmtree(tmp_path / "keys", ignore_errors=True)
    lies = {"rejected": [{"algorithm": ESCAPES, "reason": ESCAPES}], "seconds": 0.0}
    shown = invoke("explain", rewritten(flow.plan, "program", tmp_path / "plan", plan=lies))
    assert_harmless(shown)
    assert shown.stdout == invoke("explain", flow.plan).stdout
    for field in ("name", "program", "key_id", "role"):
        operand = rewritten(flow.a, "ciphertext", tmp_path / "A.ct", **{field: "a" + ESCAPES})
        done = invoke(
            "run", flow.plan, flow.evaluation, "--a", operand, "--b", flow.b, "-o", tmp_path / "C.ct"
        )
        assert done.exit_code == 1
        assert_harmless(done)
    for field in ("program", "key_id", "role"):
        result = rewritten(flow.c, "ciphertext", tmp_path / "C.ct", **{field: "a" + ESCAPES})
        done = invoke("decrypt", flow.keys, result)
        assert done.exit_code == 1
        assert_harmless(done)


def test_names_of_files_do_not_steer_the_terminal(flow: Any, tmp_path: Path, invoke: Any) -> None:
    named = tmp_path / ("A" + ESCAPES.replace("/", "") + ".npy")
    np.save(named, np.ones((5, 7)))
    done = invoke("encrypt", flow.keys, named, "--as", "a", "-o", tmp_path / ("A" + ESCAPES))
    assert done.exit_code == 0
    assert_harmless(done)
    missing = invoke("encrypt", flow.keys, tmp_path / ESCAPES, "-o", tmp_path / "A.ct")
    assert missing.exit_code == 1
    assert_harmless(missing)
    stated = invoke(
        "encrypt", flow.keys, named, "--as", "a", "-o", tmp_path / ("A" + ESCAPES), "--json", "-q"
    )
    assert_harmless(stated)
    assert json.loads(stated.stdout)["file"] == str(tmp_path / ("A" + ESCAPES))
