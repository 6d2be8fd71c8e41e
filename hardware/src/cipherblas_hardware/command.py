"""`cipherblas fame-model`: FAME's accelerator as a model, with other numbers of elements, other memories."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.options import Debug, Quiet, bytes_option, without_none
from cipherblas.common.errors import FormatError
from cipherblas.crypto import files
from cipherblas.report import Display, check_drawing, stdout_console
from cipherblas_bench.cli.bench import collected
from cipherblas_bench.cli.bench_options import Picture, product_shapes
from cipherblas_hardware.model import report

OURS = "Another machine"


class LoopOrder(str, Enum):
    """Loop orders of a transform."""

    limb = "limb"
    rotation = "rotation"


class ModelSet(str, Enum):
    """FAME's parameter sets."""

    A = "A"
    B = "B"
    C = "C"


def fame_model(
    parameter_set: Annotated[
        list[ModelSet] | None,
        typer.Option("--set", help="Parameter set, and its configuration; repeatable.", show_default="all"),
    ] = None,
    shape: Annotated[
        list[Any] | None, product_shapes("those of the set", "Shape of the product; repeatable.")
    ] = None,
    what_if: Annotated[
        bool,
        typer.Option("--what-if", help="Other machines beside: twice the HBM, four elements, other orders."),
    ] = False,
    pes: Annotated[
        int | None,
        typer.Option(
            "--pes", min=1, help="Processing elements.", show_default="as published", rich_help_panel=OURS
        ),
    ] = None,
    lanes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Modular ALUs of each (dp).", show_default="as published", rich_help_panel=OURS
        ),
    ] = None,
    mhz: Annotated[
        float | None, typer.Option(min=1.0, help="Clock.", show_default="as published", rich_help_panel=OURS)
    ] = None,
    hbm: Annotated[
        int | None, bytes_option("--hbm", "Memory, bytes per second.", "460.8GB", panel=OURS)
    ] = None,
    scratchpad: Annotated[
        int | None,
        bytes_option("--scratchpad", "Of each processing element.", "what MO-HLT needs", panel=OURS),
    ] = None,
    ntt_stages: Annotated[
        float | None,
        typer.Option(
            "--ntt-stages",
            min=0.01,
            help="Stages of an NTT in one pass through the lanes.",
            show_default="1",
            rich_help_panel=OURS,
        ),
    ] = None,
    order: Annotated[
        LoopOrder | None,
        typer.Option(help="Loop order of a transform.", show_default="limb", rich_help_panel=OURS),
    ] = None,
    overlap: Annotated[
        bool,
        typer.Option("--overlap/--no-overlap", help="Read memory while computing.", rich_help_panel=OURS),
    ] = True,
    centred: Annotated[
        bool,
        typer.Option("--centred", help="Passes for exact base conversion, too.", rich_help_panel=OURS),
    ] = False,
    twiddles: Annotated[
        bool,
        typer.Option("--twiddles", help="Twiddle factors from memory, too.", rich_help_panel=OURS),
    ] = False,
    relinearise_once: Annotated[
        bool,
        typer.Option(
            "--relinearise-once", help="The sum of products, and not each of them.", rich_help_panel=OURS
        ),
    ] = False,
    cpu: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Rows of `bench cc --suite fame --baselines --json`, to compare with.",
            show_default=False,
        ),
    ] = None,
    plot: Picture = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict FAME's products on a model of its accelerator: cycles, memory traffic, latency. Nothing is measured.

    \b
    Examples:
      cipherblas fame-model
      cipherblas fame-model --set C --what-if --plot fame-model.png
      cipherblas fame-model --set C --pes 4 --hbm 920GB --json
      cipherblas fame-model --cpu rows.jsonl
    """
    from cipherblas_hardware import run_fame_model

    display = Display(quiet=quiet)
    if plot is not None:
        files.check_writable(plot)
        with display.progress("loading matplotlib"):
            check_drawing()
    changes = without_none(
        pes=pes,
        lanes=lanes,
        mhz=mhz,
        hbm_bytes=hbm,
        scratchpad=scratchpad,
        ntt_stages=ntt_stages,
        order=order and order.value,
        overlapped=None if overlap else False,
        centred=centred or None,
        twiddles=twiddles or None,
    )
    options = without_none(
        sets=parameter_set and [member.value for member in parameter_set],
        shapes=shape,
        cpu=None if cpu is None else list(read_rows(cpu)),
    )
    found = run_fame_model(changes=changes, relinearise_once=relinearise_once, what_if=what_if, **options)
    rows = collected(found, json, display)
    if not json:
        console = stdout_console()
        for table in report.accelerator_tables(rows):
            console.print(table)
    if plot is not None:
        with display.progress("drawing"):
            report.draw_accelerator(plot, rows)
        display.note(f"wrote {plot}")


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file that `bench cc --suite fame --baselines --json` wrote, without the last one, of all products.

    Raises:
        StorageError: the file cannot be read. FormatError: a line is no such row, or there is none.
    """
    wanted = "rows of bench cc --suite fame --baselines --json"
    with files.opened(path, wanted) as stream:
        lines = stream.read().decode("utf-8", "replace").splitlines()
    if not lines:
        raise FormatError(f"{path} is empty.", expected=wanted, got="an empty file")
    for number, line in enumerate(lines, start=1):
        try:
            row = json_module.loads(line)
        except ValueError as error:
            raise FormatError(
                f"{path}, line {number} is no JSON.", expected="a JSON object", got=str(error)
            ) from error
        if not isinstance(row, dict) or row.get("bench") != "cc" or "algorithm" not in row:
            raise FormatError(f"{path}, line {number} is no such row.", expected=wanted, got=line[:60])
        if "set" in row:
            yield row
