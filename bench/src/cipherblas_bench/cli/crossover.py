"""`cipherblas bench crossover`: both forms of the planner over the dimension, as rows, table, and picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.options import Debug, Quiet, without_none
from cipherblas.common.errors import FormatError
from cipherblas.crypto import files
from cipherblas.report import Display, check_drawing, stdout_console
from cipherblas_bench import report
from cipherblas_bench.cli import rows as rows_module
from cipherblas_bench.cli.bench import collected
from cipherblas_bench.cli.bench_options import (
    JsonLines,
    Markdown,
    MemoryBudget,
    OneThread,
    Picture,
    Precision,
    Seconds,
    Security,
    StoredRows,
    parse_sizes,
)

NEEDED: dict[str, type] = {
    "kind": str,
    "d": int,
    "form": str,
    "gemm_seconds": float,
    "threads": int,
    "machine": str,
}
MEASURED: dict[str, type] = {"seconds": float, "relative_error": float, "peak_bytes": int}
PLANNED: dict[str, type] = {"algorithm": str, "key_bytes": int, "upload_bytes": int}


class Kind(str, Enum):
    """Products that both forms can do: secret × secret, clear × secret."""

    cc = "cc"
    pc = "pc"


Rows = Iterable[dict[str, Any]]


def crossover(
    sizes: Annotated[
        Any,
        typer.Option(
            metavar="D,D,…",
            parser=parse_sizes,
            help="Dimensions of the d x d x d products.",
            show_default="64,128,…,4096",
        ),
    ] = None,
    kind: Annotated[
        list[Kind] | None,
        typer.Option(help="Secret × secret or clear × secret; repeatable.", show_default="both"),
    ] = None,
    limit: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, help="Skip what is predicted to take longer.")
    ] = 60.0,
    precision: Precision = None,
    security: Security = None,
    memory_budget: MemoryBudget = None,
    threads: OneThread = 1,
    seconds: Seconds = 2.0,
    rows: StoredRows = None,
    plot: Picture = None,
    markdown: Markdown = False,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure square products in slots and by GEMM, and show which one the planner picks.

    \b
    Examples:
      cipherblas bench crossover --threads 2 --plot crossover.png --markdown
      cipherblas bench crossover --sizes 64,256,1024 --kind cc --limit 10 --json
      cipherblas bench crossover --rows rows.jsonl --plot crossover.png
    """
    from cipherblas_bench import run_crossover

    if json and markdown:
        raise typer.BadParameter("one of --json and --markdown", param_hint="--markdown")
    display = Display(quiet=quiet)
    if plot is not None:
        files.check_writable(plot)
        with display.progress("loading matplotlib"):
            check_drawing()
    options = without_none(
        sizes=sizes,
        kinds=kind and [member.value for member in kind],
        precision=precision,
        security=security,
        memory_budget=memory_budget,
    )
    measured: Rows = (
        run_crossover(limit=limit, threads=threads, budget=seconds, **options)
        if rows is None
        else read_rows(rows)
    )
    found = _shown(measured, json, markdown, display)
    if plot is not None:
        with display.progress("drawing"):
            report.draw_crossover(plot, found)
        display.note(f"wrote {plot}")


def _shown(measured: Rows, json: bool, markdown: bool, display: Display) -> list[dict[str, Any]]:
    """Print rows as they come, or all at the end; return them."""
    from cipherblas_bench import render

    found = collected(measured, json, display)
    if markdown:
        typer.echo(report.crossover_markdown(found), nl=False)
    elif not json:
        render(found, console=stdout_console())
    return found


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file that `bench crossover --json` wrote.

    Raises:
        StorageError: the file cannot be read. FormatError: a line is no such row, or there is none.
    """
    for row in rows_module.read_rows(path, "crossover", _needed):
        if row["kind"] not in report.KIND_NAMES or row["form"] not in report.FORM_NAMES:
            raise FormatError(
                f"{path} has a row of an unknown kind or form.",
                expected="kind cc | pc and form blocks | rows",
                got=f"{row['kind']} and {row['form']}",
            )
        yield row


def _needed(row: Mapping[str, Any]) -> dict[str, type]:
    """Fields without which a row can be neither tabled nor drawn."""
    if "seconds" in row:
        return NEEDED | PLANNED | MEASURED
    if "predicted_seconds" in row:
        return NEEDED | PLANNED | {"predicted_seconds": float, "predicted_peak_bytes": int}
    return NEEDED
