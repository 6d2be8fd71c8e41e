"""Every command line in the documents is one that the program accepts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cipherblas.cli.app import app
from tests.support import documents

LANGUAGES = ("sh", "console")
MAKEFILE = documents.ROOT / "Makefile"


def commands() -> Iterator[tuple[Path, str]]:
    """(document, command line) of every block of shell; prompts and comments are taken away."""
    for document in documents.DOCUMENTS:
        for language in LANGUAGES:
            for block in documents.blocks(document, language):
                for line in block.text.splitlines():
                    yield document, re.sub(r"^\w*\$ ", "", line)


COMMANDS = list(commands())
COMMAND = typer.main.get_command(app)
OURS = [(document, line) for document, line in COMMANDS if re.match(r"(\.venv/bin/)?cipherblas ", line)]


@pytest.mark.parametrize(("document", "line"), OURS, ids=lambda value: getattr(value, "name", None))
def test_command_is_accepted(document: Path, line: str) -> None:
    """Parsed, not run: commands, options, and the values of options."""
    arguments = shlex.split(line, comments=True)[1:]
    command: Any = COMMAND
    if "--help" in arguments:
        arguments.remove("--help")
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        name = arguments.pop(0)
        assert name in command.commands, f"{document.name}: {line}"
        command = command.commands[name]
    if hasattr(command, "commands") and not arguments:
        return
    with command.make_context(command.name, arguments):
        pass


def test_there_are_commands() -> None:
    """The pattern finds them: plan, keygen, encrypt, run, decrypt and bench are all shown."""
    shown = {line.split()[1] for _, line in OURS}
    assert {"plan", "keygen", "encrypt", "run", "decrypt", "bench"} <= shown


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z][\w -]*):", MAKEFILE.read_text(encoding="utf-8"), re.MULTILINE))
    known = {name for group in targets for name in group.split()}
    used = {line.split()[1] for _, line in COMMANDS if line.startswith("make ")}
    assert used
    assert used <= known
