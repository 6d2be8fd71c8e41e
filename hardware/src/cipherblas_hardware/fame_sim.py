"""`cipherblas fame-sim`: an encrypted product on the simulated accelerator, word by word beside the processor."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.options import Debug, Quiet
from cipherblas.common.errors import InsecureParametersWarning, ParameterError
from cipherblas.common.progress import Tell
from cipherblas.crypto import files
from cipherblas.report import Display, stdout_console
from cipherblas_bench.cli.bench import collected
from cipherblas_bench.cli.bench_options import product_shapes
from cipherblas_hardware.command import ModelSet


class Backend(str, Enum):
    """Descriptions of the accelerator that can be run."""

    rtl = "rtl"
    machine = "machine"


def fame_sim(
    shape: Annotated[list[Any] | None, product_shapes("4x4x4", "Shape of the product; repeatable.")] = None,
    parameter_set: Annotated[
        ModelSet | None,
        typer.Option("--set", help="Parameter set of FAME.", show_default="an insecure toy ring"),
    ] = None,
    log_n: Annotated[int, typer.Option(min=6, max=16, help="log2(N) of the toy ring.")] = 8,
    lanes: Annotated[int, typer.Option(min=4, max=256, help="Lanes of the element (dp).")] = 8,
    on: Annotated[
        Backend,
        typer.Option(help="The SystemVerilog in Verilator, or what its instructions compute on NumPy."),
    ] = Backend.rtl,
    relinearise_once: Annotated[
        bool, typer.Option("--relinearise-once", help="The sum of products, and not each of them.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Signals of the element in each cycle, as VCD.", show_default="no such file"
        ),
    ] = None,
    first: Annotated[int, typer.Option("--from", min=0, help="The first pass of the trace.")] = 0,
    passes: Annotated[int, typer.Option(min=1, help="Passes of the trace.")] = 16,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run FAME's product on a simulated element of its accelerator, and compare every word with the processor's.

    \b
    Examples:
      cipherblas fame-sim
      cipherblas fame-sim --shape 3x5x2 --lanes 16 --json
      cipherblas fame-sim --trace passes.vcd --from 200 --passes 8
      cipherblas fame-sim --on machine --set A --shape 8x8x8 --lanes 128
    """
    from cipherblas_bench.sets import FAME_SETS
    from cipherblas_hardware.accelerator import report
    from cipherblas_hardware.accelerator.engine import machine_element, rtl_element
    from cipherblas_hardware.accelerator.simulation import simulated_product, toy_parameters

    options: dict[str, Any] = {}
    if trace is not None:
        if on is Backend.machine or len(shape or []) > 1:
            raise ParameterError(
                "A trace has the signals of one product in the simulated hardware.",
                expected="--on rtl, and one --shape",
                got=f"--on {on.value}, {len(shape or [None])} shapes",
            )
        files.check_writable(trace)
        options = {"trace": trace, "traced": (first, passes)}
    make = rtl_element(**options) if on is Backend.rtl else machine_element()
    display = Display(quiet=quiet)
    if parameter_set is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureParametersWarning)
            params = toy_parameters(log_n)
        display.note(f"an INSECURE toy ring of N = 2^{log_n}, for looking at programs")
    else:
        params = FAME_SETS[parameter_set.value].parameters()

    def rows(tell: Tell) -> Iterator[dict[str, Any]]:
        for one in shape or [(4, 4, 4)]:
            yield {
                "backend": on.value,
                **simulated_product(
                    one, params, make, lanes=lanes, relinearise_once=relinearise_once, tell=tell
                ),
            }

    found = collected(rows, json, display)
    if not json:
        console = stdout_console()
        for table in report.simulation_tables(found):
            console.print(table)
    if trace is not None:
        display.note(f"wrote {trace}")
