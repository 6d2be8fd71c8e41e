"""Commands of other distributions: those that are installed, those that are not, and one that cannot be loaded."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cipherblas.cli import plug_ins
from cipherblas.common.errors import StorageError
from tests.support.plug_ins import FOLDERS, commands_of, write_metadata

SOURCE = """
import typer

several = typer.Typer()

@several.command()
def first() -> None:
    typer.echo("the first")

@several.command()
def second() -> None:
    typer.echo("the second")

def one(number: int = 3) -> None:
    typer.echo(f"the number {number}")
"""


def application(monkeypatch: pytest.MonkeyPatch, **values: str) -> typer.Typer:
    """One with a command of its own, where these entry points are installed and no others."""
    points = [EntryPoint(name.replace("_", "-"), value, plug_ins.GROUP) for name, value in values.items()]
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: points if group == plug_ins.GROUP else [])
    app = typer.Typer()
    app.command("own")(lambda: typer.echo("our own"))
    plug_ins.add_plug_ins(app, own=["own"])
    return app


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with commands on the path."""
    (tmp_path / "theirs.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "theirs", raising=False)


def said(app: typer.Typer, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_functions_and_groups_become_commands(theirs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    app = application(monkeypatch, one="theirs:one", group="theirs:several", own="theirs:one")
    assert said(app, "one", "--number", "5") == "the number 5"
    assert said(app, "group", "second") == "the second"
    assert said(app, "own") == "our own"
    assert said(app, "one", "--number", "five", code=2)


@pytest.mark.parametrize("command", plug_ins.DISTRIBUTIONS)
@pytest.mark.parametrize("arguments", [[], ["--help"], ["cc", "--shape", "64x64x64", "--json"]])
def test_what_is_not_installed_says_what_to_install(
    command: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution, folder = plug_ins.DISTRIBUTIONS[command]
    text = said(application(monkeypatch), command, *arguments, code=1)
    assert f"error: The command {command!r} is not installed." in text
    assert f"Write: pip install ./{folder} in a clone, or the wheel of {distribution}" in text
    assert f"{distribution} is a distribution of its own, which programs do not need." in text
    assert command not in said(application(monkeypatch), "--help")


def test_one_that_cannot_be_loaded_leaves_the_others(theirs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    app = application(monkeypatch, bad="theirs:gone", one="theirs:one")
    text = said(app, "bad", "--any", code=1)
    assert "error: The command 'bad' cannot be loaded." in text
    assert "another distribution raised AttributeError: module 'theirs' has no attribute 'gone'" in text
    assert said(app, "one") == "the number 3"
    shown = CliRunner().invoke(app, ["bad", "--debug"]).exception
    assert isinstance(shown, StorageError) and isinstance(shown.__cause__, AttributeError)


@pytest.mark.parametrize("folder", FOLDERS)
def test_commands_of_the_repository_are_what_their_projects_say(folder: str) -> None:
    for name, value in commands_of(folder).items():
        assert plug_ins.DISTRIBUTIONS[name] == (f"cipherblas-{folder}", folder)
        module, _, attribute = value.partition(":")
        found: Any = getattr(importlib.import_module(module), attribute)
        assert callable(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_plug_in_may_be_imported_before_the_command(folder: str) -> None:
    """It uses modules of the command, which loads it."""
    for name, value in commands_of(folder).items():
        program = f"import {value.partition(':')[0]}; from cipherblas.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program, name, "--help"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_all_that_are_named_apart_have_a_project() -> None:
    assert set(plug_ins.DISTRIBUTIONS) == {name for folder in FOLDERS for name in commands_of(folder)}


def test_an_installed_distribution_is_found(tmp_path: Path) -> None:
    """By what an installation leaves, in a process of its own."""
    (tmp_path / "theirs.py").write_text(SOURCE, encoding="utf-8")
    write_metadata(tmp_path, "theirs", {"count": "theirs:one"})
    path = [os.environ.get("PYTHONPATH", ""), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "cipherblas", "count", "--number", "7"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the number 7\n", "")
