"""`cipherblas machine`: measure this machine once, so that programs can be planned for it elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cipherblas.cli.options import Debug, Json, Quiet, Threads, output_option, use_threads
from cipherblas.crypto import files
from cipherblas.planner.predict.machine import Machine
from cipherblas.report import Display, machine_table, print_json, stdout_console


def machine(
    output: Annotated[
        Path | None,
        output_option("--output", "-o", help="Write the file for `plan --machine`.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What plans call the machine.",
            show_default="that of the file, or the processor's",
        ),
    ] = None,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure this machine for a few seconds: its arithmetic, its threads, its memory.

    Run it on the server while nothing else runs there, and plan on the client with `plan --machine`. The file is JSON
    and holds no secret; figures may be changed by hand, to plan for a machine that is not there. Programs that are
    planned for this machine use what was measured from now on.

    \b
    Examples:
      cipherblas machine -o server.json
      cipherblas plan --a 160x160 --b 160x160 --machine server.json -o plan.cb
    """
    use_threads(threads)
    if output is not None:
        files.check_writable(output)
        name = output.stem if name is None else name
    display = Display(quiet=quiet)
    with display.progress("measuring") as progress:
        found = Machine.measure(name, progress=progress)
    found.keep()
    if output is not None:
        found.save(output)
    if json:
        print_json(found.to_dict())
    else:
        stdout_console().print(machine_table(found))
    if output is not None:
        display.note(f"wrote {output}")
