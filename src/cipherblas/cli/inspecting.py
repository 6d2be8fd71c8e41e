"""`cipherblas inspect`: what a file is, by its header."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cipherblas.cli.options import Debug, Json
from cipherblas.report import print_json
from cipherblas.roles import inspecting


def inspect(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Any file, or a folder of evaluation keys.", show_default=False),
    ],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what a file is, by its header: kind, program, key pair, shapes, security, size. Nothing else is read.

    \b
    Examples:
      cipherblas inspect a.ct
      cipherblas inspect --json keys/evaluation
    """
    facts = inspecting.inspect(file)
    if json:
        print_json(facts.to_dict())
    else:
        typer.echo(str(facts))
