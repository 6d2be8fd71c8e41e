"""`cipherblas bench distributed`: products on several ranks of MPI."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.bench import printed
from cipherblas.cli.bench_options import JsonLines, MemoryBudget, OneThread, Precision, product_shapes
from cipherblas.cli.options import Debug, Quiet, without_none
from cipherblas.report import Display


class Suite(str, Enum):
    """Experiments of a paper."""

    fhe4dmm = "fhe4dmm"


def distributed(
    shape: Annotated[list[Any] | None, product_shapes("1024x1024x1024")] = None,
    ranks: Annotated[
        list[int] | None,
        typer.Option(
            min=1, max=64, help="Number of ranks; repeatable.", show_default="1 2; of the suite 1 2 4 8"
        ),
    ] = None,
    precision: Precision = None,
    memory_budget: MemoryBudget = None,
    threads: OneThread = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each, in turns.")] = 3,
    network_output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep latency and seconds per byte, for `plan --network`."),
    ] = None,
    suite: Annotated[
        Suite | None,
        typer.Option(
            help="The experiments of FHE4DMM instead: its classes of shapes by FHE-MM, scaled down, on real ranks, "
            "and its model to 256 ranks."
        ),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(help="Of a block of the suite's real runs: 256, 1024 or 4096.", min=256)
    ] = None,
    model: Annotated[bool, typer.Option("--model", help="Of the suite the model alone.")] = False,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure products of secrets on several ranks of MPI, which it starts by mpiexec.

    \b
    Examples:
      cipherblas bench distributed --shape 2048x2048x2048 --ranks 1 --ranks 2 --json
      cipherblas bench distributed --shape 4096x4096x4096 --ranks 1 --ranks 2 --rounds 1
      cipherblas bench distributed --suite fhe4dmm --rounds 1 --json
      cipherblas bench distributed --suite fhe4dmm --model
    """
    from cipherblas.bench import run_distributed, run_fhe4dmm

    display = Display(quiet=quiet)
    if suite is not None:
        chosen = without_none(ranks=[] if model else ranks, slots=slots)
        return printed(run_fhe4dmm(**chosen, threads=threads, rounds=rounds), json, display)
    if slots is not None or model:
        raise typer.BadParameter("needs --suite", param_hint="--slots" if slots is not None else "--model")
    rows = run_distributed(
        shape or ((1024, 1024, 1024),),
        ranks or (1, 2),
        threads=threads,
        rounds=rounds,
        network_output=network_output,
        **without_none(precision=precision, memory_budget=memory_budget),
    )
    printed(rows, json, display)
