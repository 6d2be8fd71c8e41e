"""`cipherblas bench nn`: products W·x and convolutions, by our method and by the baselines."""

from __future__ import annotations

from typing import Annotated

import typer

from cipherblas.cli.options import Debug, Quiet, without_none
from cipherblas.report import Display
from cipherblas_bench.cli.bench import printed
from cipherblas_bench.cli.bench_options import JsonLines, OneThread, Seconds, Security


def nn(
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="KERNEL", help="Kernel, e.g. MVM1; repeatable.", show_default="all"),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Baseline on the same engine; repeatable; none for none.",
            show_default="helib-bsgs fhelipe",
        ),
    ] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Count operations of all methods; nothing is computed.")
    ] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Print the patterns of the paper itself; nothing is computed.")
    ] = False,
    published_ring: Annotated[
        bool,
        typer.Option("--published-ring", help="Run all methods in a ring as near to the paper's as we get."),
    ] = False,
    limit: Annotated[
        float, typer.Option(help="Seconds beyond which a baseline is predicted instead of run.")
    ] = 600.0,
    ring_degree: Annotated[
        int | None, typer.Option(help="Force the ring degree N.", show_default="the fastest")
    ] = None,
    security: Security = None,
    threads: OneThread = 1,
    seconds: Seconds = 2.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure MetaKernel's products W·x and convolutions, by our method and by baselines on the same engine.

    \b
    Examples:
      cipherblas bench nn --case MVM1 --case Conv4
      cipherblas bench nn --counts
      cipherblas bench nn --published
      cipherblas bench nn --published-ring --limit 60
    """
    from cipherblas_bench import run_nn, run_nn_counts, run_nn_published

    if counts + published + published_ring > 1:
        raise typer.BadParameter("one of --counts, --published, --published-ring", param_hint="--published")
    if counts or published:
        if baseline:
            raise typer.BadParameter("operations are counted for all of them", param_hint="--baseline")
        counted = run_nn_counts if counts else run_nn_published
        printed(counted(case or ()), json, Display(quiet=quiet))
        return
    if published_ring and (ring_degree or security):
        raise typer.BadParameter("takes neither --ring-degree nor --security", param_hint="--published-ring")
    options = without_none(
        security=security,
        ring_degree=ring_degree,
        baselines=baseline and [name for name in baseline if name != "none"],
        published_ring=published_ring or None,
    )
    rows = run_nn(case or (), threads=threads, budget=seconds, limit=limit, **options)
    printed(rows, json, Display(quiet=quiet))
