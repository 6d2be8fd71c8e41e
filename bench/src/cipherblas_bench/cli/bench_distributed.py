"""`cipherblas bench distributed`: products on several ranks of MPI."""

from __future__ import annotations

from collections.abc import Mapping
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
    secret_network = "secret-network"


class SecretNetworkName(str, Enum):
    """Networks whose weights are encrypted."""

    digits = "digits"
    photographs = "photographs"


def distributed(
    shape: Annotated[list[Any] | None, product_shapes("1024x1024x1024")] = None,
    ranks: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            max=64,
            help="Number of ranks; repeatable.",
            show_default="1 2; of suites 1 2 4 8 and 1 2 4",
        ),
    ] = None,
    precision: Precision = None,
    memory_budget: MemoryBudget = None,
    threads: OneThread = 1,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Processes of each, in turns.", show_default="3; of networks 1")
    ] = None,
    times: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Runs of a process: the first one, and later ones, whose least time counts.",
            show_default="2; of networks 1",
        ),
    ] = None,
    network_output: Annotated[
        Path | None,
        output_option("--network-output", help="Keep latency and seconds per byte, for `plan --network`."),
    ] = None,
    suite: Annotated[
        Suite | None,
        typer.Option(
            help="The experiments of FHE4DMM instead: its classes of shapes by FHE-MM, scaled down, on real ranks, "
            "and its model to 256 ranks; or networks whose weights are encrypted, on real ranks, and to 64 by a "
            "model, beside FHE-MM."
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
    network: Annotated[
        list[SecretNetworkName] | None,
        typer.Option(help="Of the suite secret-network; repeatable.", show_default="both"),
    ] = None,
    images: Annotated[
        list[int] | None,
        typer.Option(
            min=1, help="That a network computes together; repeatable.", show_default="16384; 256 photographs"
        ),
    ] = None,
    link: Annotated[
        float | None,
        typer.Option(
            metavar="MBIT",
            min=1e-3,
            help="A second, of the network's client: weights come packed where it is slow.",
            show_default="100",
        ),
    ] = None,
    scheme: Annotated[
        Scheme | None,
        typer.Option(
            help="Of a suite: bgv, integers modulo a prime of 31 bits, as in the paper, or exact scores of a network.",
            show_default="ckks; of networks both",
        ),
    ] = None,
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
      cipherblas bench distributed --suite secret-network --real --network digits --images 8192 --ranks 1 --json
      cipherblas bench distributed --suite secret-network --model
    """
    from cipherblas_bench import run_distributed, run_fhe4dmm, run_secret_network

    display = Display(quiet=quiet)
    often = without_none(rounds=rounds, times=times)
    of_classes = {"--slots": slots, "--divided-by": divided_by, "--class": of_class, "--sharing": sharing}
    of_networks = {"--network": network, "--images": images, "--link": link}
    if suite == Suite.secret_network:
        _refuse(of_classes, "--suite fhe4dmm")
        chosen = without_none(
            ranks=[] if model else ranks,
            networks=None if network is None else [one.value for one in network],
            schemes=None if scheme is None else [scheme.value],
            images=images,
            link=link,
        )
        rows = run_secret_network(**chosen, **often, threads=threads, model=not real)
        return printed(rows, json, display)
    _refuse(of_networks, "--suite secret-network")
    if suite is not None:
        chosen = without_none(
            ranks=[] if model else ranks,
            slots=slots,
            divided_by=divided_by,
            classes=None if of_class is None else [one.value for one in of_class],
            sharings=None if sharing is None else [one.value for one in sharing],
            modulus=MODULUS_31_BITS if scheme == Scheme.bgv else None,
        )
        rows = run_fhe4dmm(**chosen, **often, threads=threads, model=not real)
        return printed(rows, json, display)
    of_suites = {"--model": model or None, "--real": real or None, "--scheme": scheme}
    _refuse({**of_classes, **of_suites}, "--suite")
    rows = run_distributed(
        shape or ((1024, 1024, 1024),),
        ranks or (1, 2),
        threads=threads,
        **often,
        network_output=network_output,
        **without_none(precision=precision, memory_budget=memory_budget),
    )
    printed(rows, json, display)


def _refuse(options: Mapping[str, object], needed: str) -> None:
    """Options that something else needs.

    Raises:
        BadParameter: one was given.
    """
    for option, value in options.items():
        if value is not None:
            raise typer.BadParameter(f"needs {needed}", param_hint=option)
