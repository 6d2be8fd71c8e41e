"""`cipherblas bench zn`: products of integers modulo 2^64, entry by entry."""

from __future__ import annotations

from typing import Annotated

import typer

from cipherblas.cli.options import Debug, Quiet, without_none
from cipherblas.report import Display
from cipherblas_bench.cli.bench import printed
from cipherblas_bench.cli.bench_options import JsonLines, MemoryBudget, OneThread, Seconds, Security


def zn(
    pairs: Annotated[
        list[int] | None,
        typer.Option(
            min=1, help="How many pairs are multiplied; repeatable.", show_default="1, 1000, 100000"
        ),
    ] = None,
    security: Security = None,
    memory_budget: MemoryBudget = None,
    threads: OneThread = 1,
    seconds: Seconds = 1.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure products of encrypted integers of 64 bits, entry by entry modulo 2^64, by a server without keys.

    \b
    Examples:
      cipherblas bench zn --pairs 1 --pairs 1000
      cipherblas bench zn --pairs 100000 --threads 2 --json
    """
    from cipherblas_bench import run_zn

    options = without_none(sizes=pairs, security=security, memory_budget=memory_budget)
    printed(run_zn(threads=threads, budget=seconds, **options), json, Display(quiet=quiet))
