"""`cipherblas bench pc`: clear weights times an encrypted matrix, beside the float64 GEMM."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer

from cipherblas.cli.options import Debug, Form, Quiet, without_none
from cipherblas.report import Display
from cipherblas_bench.cli.bench import printed
from cipherblas_bench.cli.bench_options import (
    Algorithm,
    JsonLines,
    MemoryBudget,
    Modulus,
    OneThread,
    Precision,
    Seconds,
    Security,
    parse_sizes,
    product_shapes,
)


class WeightType(str, Enum):
    """Types of weights that `bench pc` multiplies by."""

    int8 = "int8"
    int16 = "int16"
    float16 = "float16"
    float32 = "float32"
    float64 = "float64"


class PublicSuite(str, Enum):
    """Published sets of dimensions."""

    bae = "bae"


def pc(
    shape: Annotated[
        list[Any] | None, product_shapes("1024x1024x1024", "Shape of the product, MxK weights; repeatable.")
    ] = None,
    dtype: Annotated[
        list[WeightType] | None,
        typer.Option(help="Type of the weights; repeatable.", show_default="int8"),
    ] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="The weights are a constant of the program, prepared once.")
    ] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Weights and matrix are exact integers; the float form is measured beside them."
        ),
    ] = False,
    modulus: Modulus = None,
    suite: Annotated[
        PublicSuite | None,
        typer.Option(help="Run d x d x d products of every form instead.", show_default=False),
    ] = None,
    sizes: Annotated[
        Any,
        typer.Option(
            metavar="D,D,…",
            parser=parse_sizes,
            help="Dimensions d of the suite.",
            show_default="128,256,…,16384",
        ),
    ] = None,
    suite_form: Annotated[
        list[str] | None,
        typer.Option(
            "--suite-form", metavar="NAME", help="Form of the suite; repeatable.", show_default="all"
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Seconds beyond which a form is predicted instead of run.",
            show_default="60 with --suite",
        ),
    ] = None,
    algorithm: Algorithm = None,
    form: Form = None,
    precision: Precision = None,
    security: Security = None,
    memory_budget: MemoryBudget = None,
    threads: OneThread = 1,
    seconds: Seconds = 2.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure products of clear weights and an encrypted matrix, and the float64 GEMM of the same shape.

    \b
    Examples:
      cipherblas bench pc --shape 4096x4096x4096
      cipherblas bench pc --shape 1024x1024x1024 --exact --dtype int16
      cipherblas bench pc --shape 1024x1024x1024 --dtype int8 --dtype float32 --fixed --json
      cipherblas bench pc --suite bae --limit 10
      cipherblas bench pc --suite bae --sizes 16384 --suite-form "shared rows" --limit 3600
    """
    from cipherblas_bench import run_bae, run_pc

    options = without_none(precision=precision, security=security, memory_budget=memory_budget)
    options |= {"threads": threads, "budget": seconds}
    if suite is not None:
        if shape or dtype or fixed or exact or modulus or algorithm or form:
            raise typer.BadParameter(
                "takes none of --shape, --dtype, --fixed, --exact, --modulus, --algorithm, --form",
                param_hint="--suite",
            )
        rows = run_bae(**options, **without_none(sizes=sizes, forms=suite_form, limit=limit))
    else:
        if sizes or suite_form or limit is not None:
            raise typer.BadParameter("needs --suite", param_hint="--sizes, --suite-form, --limit")
        if modulus is not None and (exact or form):
            raise typer.BadParameter("takes neither --exact nor --form", param_hint="--modulus")
        forced = without_none(
            modulus=modulus,
            form=form and form.value,
            algorithm=algorithm,
            dtypes=dtype and [member.value for member in dtype],
        )
        rows = run_pc(shape or ((1024, 1024, 1024),), fixed=fixed, exact=exact, **options, **forced)
    printed(rows, json, Display(quiet=quiet))
