"""`cipherblas bench distributed`: products on several ranks of MPI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.bench import printed
from cipherblas.cli.bench_options import JsonLines, MemoryBudget, OneThread, Precision, product_shapes
from cipherblas.cli.options import Debug, Quiet, without_none
from cipherblas.report import Display


def distributed(
    shape: Annotated[list[Any] | None, product_shapes("1024x1024x1024")] = None,
    ranks: Annotated[
        list[int] | None,
        typer.Option(min=1, max=64, help="Number of ranks; repeatable.", show_default="1 2"),
    ] = None,
    precision: Precision = None,
    memory_budget: MemoryBudget = None,
    threads: OneThread = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each, in turns.")] = 3,
    network_output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep latency and seconds per byte, for `plan --network`."),
    ] = None,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure products of secrets by GEMM on several ranks of MPI, which it starts by mpiexec.

    \b
    Examples:
      cipherblas bench distributed --shape 2048x2048x2048 --ranks 1 --ranks 2 --json
      cipherblas bench distributed --shape 4096x4096x4096 --ranks 1 --ranks 2 --rounds 1
    """
    from cipherblas.bench import run_distributed

    rows = run_distributed(
        shape or ((1024, 1024, 1024),),
        ranks or (1, 2),
        threads=threads,
        rounds=rounds,
        network_output=network_output,
        **without_none(precision=precision, memory_budget=memory_budget),
    )
    printed(rows, json, Display(quiet=quiet))
