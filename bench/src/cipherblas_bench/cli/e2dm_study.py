"""`cipherblas bench e2dm-study`: E2DM stage by stage on several libraries, as rows, tables, and picture."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

import typer

from cipherblas.cli.options import Debug, Quiet, without_none
from cipherblas.common.errors import FormatError
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
    StoredRows,
    interpreters,
    parse_sizes,
)
from cipherblas_bench.cli.rows import read_rows

NEEDED: dict[str, type] = {
    "algorithm": str, "d": int, "seconds": float, "seconds_mean": float, "seconds_deviation": float, "runs": int,
    "error": float, "stages": dict, "threads": int, "machine": str,
}  # fmt: skip


class StudyPeer(str, Enum):
    """Libraries that `bench e2dm-study` compares with."""

    seal = "seal"
    openfhe = "openfhe"


def e2dm_study(
    sizes: Annotated[
        Any,
        typer.Option(
            metavar="D,D:D,…",
            parser=parse_sizes,
            help="Dimensions d; fits are of those up to 19.",
            show_default="2:19,24,32,45,64",
        ),
    ] = None,
    peer: Annotated[
        list[StudyPeer] | None,
        typer.Option(help="Compare with this library; repeatable.", show_default=False),
    ] = None,
    peer_python: PeerPythons = None,
    isa: Annotated[
        list[str] | None,
        typer.Option(
            help="Instruction set of ours, e.g. avx2; repeatable.", show_default="all that this machine has"
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(min=3, help="Runs of each library and dimension at most.", show_default="1000"),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="Seconds for the runs of one library at one dimension; three runs there are always.",
            show_default="2",
        ),
    ] = None,
    threads: OneThread = 1,
    rows: StoredRows = None,
    plot: Picture = None,
    markdown: Markdown = False,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Repeat a published study of E2DM: every stage over the dimension, ours beside SEAL and OpenFHE.

    \b
    Examples:
      cipherblas bench e2dm-study --sizes 2:4 --limit 0
      cipherblas bench e2dm-study --peer seal --peer openfhe --peer-python openfhe=/opt/py310/bin/python --markdown
      cipherblas bench e2dm-study --rows rows.jsonl --plot e2dm-study.png
    """
    from cipherblas_bench import run_e2dm_study

    if json and markdown:
        raise typer.BadParameter("one of --json and --markdown", param_hint="--markdown")
    display = Display(quiet=quiet)
    if plot is not None:
        files.check_writable(plot)
        with display.progress("loading matplotlib"):
            check_drawing()
    peers = [member.value for member in peer or ()]
    pythons = interpreters(peer_python, peers)
    options = without_none(sizes=sizes, isas=isa, repeats=repeats, limit=limit)
    measured = (
        run_e2dm_study(peers=peers, pythons=pythons, threads=threads, **options)
        if rows is None
        else map(_with_stages, read_rows(rows, "e2dm-study", lambda row: NEEDED))
    )
    found = collected(measured, json, display)
    if not json:
        print_markdown(report.e2dm_markdown(found) + "\n" + report.statements_markdown(found), markdown)
    if plot is not None:
        with display.progress("drawing"):
            report.draw_e2dm_study(plot, found)
        display.note(f"wrote {plot}")


def _with_stages(row: dict[str, Any]) -> dict[str, Any]:
    """A stored row.

    Raises:
        FormatError: it lacks a stage.
    """
    for stage in report.STAGES:
        values = row["stages"].get(stage)
        if not isinstance(values, Mapping) or not {"seconds", "min", "max"} <= set(values):
            raise FormatError(
                f"A row of d = {row['d']} lacks a stage.",
                expected=f"seconds, min, max of {stage}",
                got=values,
            )
    return row
