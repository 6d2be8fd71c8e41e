"""`cipherblas bench distributed`: products on several ranks of MPI."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.options import Debug, Quiet, output_option, without_none
from cipherblas.cli.run import Distribution
from cipherblas.report import Display
from cipherblas_bench.cli.bench import printed
from cipherblas_bench.cli.bench_options import (
    JsonLines,
    MemoryBudget,
    OneThread,
    Precision,
    Scheme,
    product_shapes,
)
from cipherblas_bench.sets import MODULUS_31_BITS


class ShapeClass(str, Enum):
    """Classes of shapes of FHE4DMM."""

    square = "Square"
    flat = "Flat"
    large_m = "LargeM"
    slim = "Slim"


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
    rounds: Annotated[int, typer.Option(min=1, help="Processes of each, in turns.")] = 3,
    times: Annotated[
        int,
        typer.Option(
            min=1, help="Runs of a process: the first one, and later ones, whose least time counts."
        ),
    ] = 2,
    network_output: Annotated[
        Path | None,
        output_option("--network-output", help="Keep latency and seconds per byte, for `plan --network`."),
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
    divided_by: Annotated[
        int | None,
        typer.Option(
            help="Long dimensions of the suite's real runs have as many blocks as the paper's, divided by this: 1, 2, "
            "4, 8 or 16.",
            show_default="few blocks",
        ),
    ] = None,
    of_class: Annotated[
        list[ShapeClass] | None, typer.Option("--class", help="Of the suite; repeatable.", show_default="all")
    ] = None,
    sharing: Annotated[
        list[Distribution] | None,
        typer.Option(help="How ranks of the suite share movements of data; repeatable.", show_default="all"),
    ] = None,
    scheme: Annotated[
        Scheme, typer.Option(help="bgv: of the suite, integers modulo a prime of 31 bits, as in the paper.")
    ] = Scheme.ckks,
    model: Annotated[bool, typer.Option("--model", help="Of the suite the model alone.")] = False,
    real: Annotated[bool, typer.Option("--real", help="Of the suite the real runs alone.")] = False,
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
      cipherblas bench distributed --suite fhe4dmm --model --scheme bgv
      cipherblas bench distributed --suite fhe4dmm --real --ranks 1 --ranks 2 --divided-by 4 --sharing 4d --json
    """
    from cipherblas_bench import run_distributed, run_fhe4dmm

    display = Display(quiet=quiet)
    if suite is not None:
        chosen = without_none(
            ranks=[] if model else ranks,
            slots=slots,
            divided_by=divided_by,
            classes=None if of_class is None else [one.value for one in of_class],
            sharings=None if sharing is None else [one.value for one in sharing],
            modulus=MODULUS_31_BITS if scheme == Scheme.bgv else None,
        )
        rows = run_fhe4dmm(**chosen, threads=threads, rounds=rounds, times=times, model=not real)
        return printed(rows, json, display)
    of_suite = {
        "--slots": slots,
        "--divided-by": divided_by,
        "--class": of_class,
        "--sharing": sharing,
        "--model": model or None,
        "--real": real or None,
        "--scheme": scheme if scheme != Scheme.ckks else None,
    }
    for option, value in of_suite.items():
        if value is not None:
            raise typer.BadParameter("needs --suite", param_hint=option)
    rows = run_distributed(
        shape or ((1024, 1024, 1024),),
        ranks or (1, 2),
        threads=threads,
        rounds=rounds,
        times=times,
        network_output=network_output,
        **without_none(precision=precision, memory_budget=memory_budget),
    )
    printed(rows, json, display)
