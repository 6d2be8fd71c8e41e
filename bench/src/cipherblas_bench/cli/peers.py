"""`cipherblas bench peers`: the libraries that install by pip, side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.options import Debug, Quiet, without_none
from cipherblas.common.errors import StorageError
from cipherblas.crypto import files
from cipherblas.report import Display, check_drawing, print_markdown
from cipherblas_bench import report
from cipherblas_bench.cli.bench import collected
from cipherblas_bench.cli.bench_options import (
    JsonLines,
    Markdown,
    OneThread,
    PeerPythons,
    Picture,
    Seconds,
    StoredRows,
    interpreters,
    parse_sizes,
)
from cipherblas_bench.cli.rows import read_rows


class Library(str, Enum):
    """Libraries that `bench peers` measures."""

    tenseal = "tenseal"
    seal = "seal"
    openfhe = "openfhe"
    openfhe_numpy = "openfhe-numpy"


def peers(
    library: Annotated[
        list[Library] | None, typer.Option(help="Library beside ours; repeatable.", show_default="all")
    ] = None,
    environments: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where virtual environments are kept; pip makes those that are not there.",
            show_default="cipherblas/peers in the cache of the user",
        ),
    ] = None,
    peer_python: PeerPythons = None,
    vector: Annotated[
        Any,
        typer.Option(
            metavar="D,D,…",
            parser=parse_sizes,
            help="d of an encrypted vector times a clear d x d matrix.",
            show_default="256,1024",
        ),
    ] = None,
    square: Annotated[
        Any,
        typer.Option(
            metavar="D,D,…",
            parser=parse_sizes,
            help="d of two encrypted d x d matrices, powers of two up to 64.",
            show_default="32,64",
        ),
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option(help="Primitive; repeatable; none for none.", show_default="all")
    ] = None,
    limit: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, help="Predict a run that would take longer.")
    ] = 60.0,
    threads: OneThread = 1,
    seconds: Seconds = 2.0,
    rows: StoredRows = None,
    plot: Picture = None,
    markdown: Markdown = False,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure TenSEAL, SEAL, OpenFHE and OpenFHE-NumPy beside ours, each in an environment of its own.

    \b
    Examples:
      cipherblas bench peers --markdown
      cipherblas bench peers --library seal --peer-python seal=/opt/py311/bin/python --vector 256 --square 32
      cipherblas bench peers --rows rows.jsonl --plot peers.png
    """
    from cipherblas_bench import run_peers

    if json and markdown:
        raise typer.BadParameter("one of --json and --markdown", param_hint="--markdown")
    display = Display(quiet=quiet)
    if plot is not None:
        files.check_writable(plot)
        with display.progress("loading matplotlib"):
            check_drawing()
    names = [member.value for member in library or Library]
    options = without_none(
        vectors=vector, squares=square, cases=case and [name for name in case if name != "none"]
    )
    try:
        measured = (
            run_peers(
                libraries=names,
                folder=environments or cache(),
                pythons=interpreters(peer_python, names),
                limit=limit,
                threads=threads,
                budget=seconds,
                **options,
            )
            if rows is None
            else read_rows(rows, "peers", needed)
        )
        found = collected(measured, json, display)
    except OSError as error:
        raise StorageError("An environment cannot be made.", expected="a folder", got=str(error)) from error
    if not json:
        print_markdown(report.peers_markdown(found), markdown)
    if plot is not None:
        with display.progress("drawing"):
            report.draw_peers(plot, found)
        display.note(f"wrote {plot}")


def cache() -> Path:
    """Where environments are kept when nothing is said."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cipherblas" / "peers"


def needed(row: Mapping[str, Any]) -> dict[str, type]:
    """Fields without which a row can be neither tabled nor drawn."""
    always: dict[str, type] = {"case": str, "algorithm": str, "machine": str}
    if row.get("case") == "installed":
        return always | ({"skipped": str} if "skipped" in row else {"build": dict})
    always["library"] = str
    if "skipped" in row:
        return always
    if "seconds" in row:
        return always | {"seconds_min": float, "seconds_max": float, "error": float}
    return always | {"predicted_seconds": float}
