"""`cipherblas bench`: measurements, ours and those of other libraries, in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Annotated, Any, TypeAlias

import typer

from cipherblas.cli.guard import guarded
from cipherblas.cli.options import Debug, Form, Quiet, bytes_option, parse_shape, without_none
from cipherblas.common.errors import CipherblasError
from cipherblas.common.progress import Tell
from cipherblas.report import Display
from cipherblas.report.tables import stdout_console
from cipherblas_bench.cli.bench_options import (
    Algorithm,
    JsonLines,
    KeyBudget,
    MemoryBudget,
    Modulus,
    OneThread,
    PeerPython,
    Precision,
    Scheme,
    Seconds,
    Security,
    UploadBudget,
    parse_sizes,
    product_shapes,
)

app = typer.Typer(
    help="""Measure, and compare with other libraries in the same run.

    \b
    Examples:
      cipherblas bench cc --shape 64x64x64 --peer seal
      cipherblas bench primitives --json > primitives.jsonl
    """,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


class PrimitivesPeer(str, Enum):
    """Libraries that `bench primitives` compares with."""

    seal = "seal"
    openfhe = "openfhe"


class ProductPeer(str, Enum):
    """Libraries that `bench cc` compares with."""

    seal = "seal"


class ExactType(str, Enum):
    """Types of exact integers that `bench cc` multiplies."""

    int8 = "int8"
    int16 = "int16"


class Suite(str, Enum):
    """Published sets of shapes."""

    fame = "fame"


class Order(str, Enum):
    """Loop orders of a linear transform: limb outer (MO-HLT) or rotation outer (coarse)."""

    limb = "limb"
    rotation = "rotation"


class TransformSet(str, Enum):
    """FAME's parameter sets."""

    A = "A"
    B = "B"
    C = "C"


class TransposePolicy(str, Enum):
    """Keys of a transposition: one for each automorphism, or fewer and more key switches."""

    fast = "fast"
    light = "light"
    binary = "binary"


class IntegerScheme(str, Enum):
    """Of the peer of `bench primitives --scheme bgv`."""

    bgv = "bgv"
    bfv = "bfv"


@app.command()
@guarded
def primitives(
    peer: Annotated[
        PrimitivesPeer | None, typer.Option(help="Compare with this library.", show_default=False)
    ] = None,
    peer_python: PeerPython = None,
    n: Annotated[
        list[int] | None,
        typer.Option("--n", help="Ring degree; repeatable.", show_default="those of the peer"),
    ] = None,
    case: Annotated[list[str] | None, typer.Option(help="Operation; repeatable.", show_default="all")] = None,
    scheme: Annotated[
        Scheme,
        typer.Option(help="bgv: integers modulo a prime of 31 bits, at N = 2^14 with 8 limbs."),
    ] = Scheme.ckks,
    peer_scheme: Annotated[
        IntegerScheme | None,
        typer.Option(help="Of the peer, with --scheme bgv; bfv is SEAL's.", show_default="bgv"),
    ] = None,
    roofline: Annotated[
        bool, typer.Option("--roofline", help="Beside what compute and memory allow, in processor time.")
    ] = False,
    threads: OneThread = 1,
    seconds: Seconds = 1.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure rotation, product, rescale, encryption and decryption; without --case the NTT as well.

    \b
    Examples:
      cipherblas bench primitives --peer seal
      cipherblas bench primitives --scheme bgv --peer seal --peer-scheme bfv
      cipherblas bench primitives --roofline --n 65536
      cipherblas bench primitives --peer openfhe --peer-python /opt/openfhe/bin/python --n 65536
    """
    from cipherblas_bench import run_modular_primitives, run_primitives, run_roofline

    options = without_none(cases=case, ring_degrees=n)
    if roofline:
        if peer is not None or threads != 1 or scheme != Scheme.ckks:
            raise typer.BadParameter(
                "takes neither --peer nor --threads nor --scheme", param_hint="--roofline"
            )
        return printed(run_roofline(budget=seconds, **options), json, Display(quiet=quiet))
    if peer_scheme is not None:
        if peer is None or scheme != Scheme.bgv:
            raise typer.BadParameter("needs --scheme bgv and --peer", param_hint="--peer-scheme")
        options["peer_scheme"] = peer_scheme.value
    run = run_primitives if scheme == Scheme.ckks else run_modular_primitives
    rows = run(
        peer=peer and peer.value,
        peer_python=str(peer_python) if peer_python is not None else None,
        threads=threads,
        budget=seconds,
        **options,
    )
    printed(rows, json, Display(quiet=quiet))


class BootstrapPeer(str, Enum):
    """Libraries that `bench bootstrap` compares with."""

    openfhe = "openfhe"


class PeerSetting(str, Enum):
    """Of the peer of `bench bootstrap`."""

    precise = "precise"
    deep = "deep"


class BootstrapRing(str, Enum):
    """log2 of the ring degrees that bootstrapping has parameters for."""

    large = "16"
    small = "15"


@app.command()
@guarded
def bootstrap(
    log_n: Annotated[
        list[BootstrapRing] | None,
        typer.Option("--log-n", help="log2 of the ring degree; repeatable.", show_default="16"),
    ] = None,
    complex_slots: Annotated[
        bool, typer.Option("--complex", help="Complex slots, which take a second EvalMod.")
    ] = False,
    slots: Annotated[
        int | None,
        typer.Option(min=2, help="Slots that hold numbers, a power of two.", show_default="all"),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=2, help="Rounds of bootstrapping: 2 for about 30 bits.")
    ] = 1,
    key_memory: Annotated[
        int | None,
        bytes_option("--key-memory", "Keys in memory at one time, the others in a temporary file.", "all"),
    ] = None,
    ciphertexts: Annotated[
        int | None,
        typer.Option(min=3, help="Number of runs, each of new values.", show_default="as --seconds allows"),
    ] = None,
    in_a_row: Annotated[
        int,
        typer.Option(
            "--in-a-row", min=0, help="Bootstrap one ciphertext so many times, and follow its precision."
        ),
    ] = 0,
    batch: Annotated[
        list[int] | None,
        typer.Option(
            min=2, help="Refresh so many ciphertexts together, too; repeatable.", show_default=False
        ),
    ] = None,
    shared: Annotated[
        bool,
        typer.Option("--shared", help="Each --batch also with an a part that its pairs share; more keys."),
    ] = False,
    secrets: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --shared: at most so many pairs share one, an odd number.", show_default=False
        ),
    ] = None,
    raised_first: Annotated[
        bool, typer.Option("--raised-first", help="ModRaise first, slots to coefficients last.")
    ] = False,
    peer: Annotated[
        BootstrapPeer | None, typer.Option(help="Compare with this library.", show_default=False)
    ] = None,
    peer_python: PeerPython = None,
    peer_setting: Annotated[
        PeerSetting, typer.Option(help="The peer with our precision, or with as many levels left.")
    ] = PeerSetting.precise,
    function: Annotated[
        str | None,
        typer.Option(
            help="Compute it inside: relu, silu, sigmoid, tanh, gelu, clip, hard_swish, identity.",
            show_default=False,
        ),
    ] = None,
    threads: OneThread = 1,
    seconds: Seconds = 10.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure bootstrapping at 128 bits of security: seconds, steps, precision of the worst slot, levels left, keys.

    \b
    Examples:
      cipherblas bench bootstrap
      cipherblas bench bootstrap --log-n 15 --log-n 16 --threads 2 --json
      cipherblas bench bootstrap --peer openfhe --peer-python /opt/py310/bin/python
      cipherblas bench bootstrap --ciphertexts 100 --in-a-row 10 --json
      cipherblas bench bootstrap --batch 2 --batch 8 --json
      cipherblas bench bootstrap --log-n 15 --batch 6 --batch 32 --shared --secrets 7
      cipherblas bench bootstrap --slots 1024 --complex
      cipherblas bench bootstrap --rounds 2 --key-memory 2GiB
      cipherblas bench bootstrap --raised-first
      cipherblas bench bootstrap --log-n 15 --function relu --batch 2
    """
    from cipherblas_bench import run_bootstrap

    options = without_none(log_n=log_n and [int(degree.value) for degree in log_n])
    rows = run_bootstrap(
        peer=peer and peer.value,
        peer_python=str(peer_python) if peer_python is not None else None,
        peer_setting=peer_setting.value,
        threads=threads,
        budget=seconds,
        complex_slots=complex_slots,
        slots=slots,
        rounds=rounds,
        key_memory=key_memory,
        ciphertexts=ciphertexts,
        in_a_row=in_a_row,
        batches=batch or [],
        shared=shared,
        secrets=secrets,
        raised_first=raised_first,
        function=function,
        **options,
    )
    printed(rows, json, Display(quiet=quiet))


@app.command("mambo")
@guarded
def mambo(
    size: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Rows of the clear matrix; repeatable.", show_default="256, 768"),
    ] = None,
    log_n: Annotated[
        BootstrapRing, typer.Option("--log-n", help="log2 of the ring degree.")
    ] = BootstrapRing.large,
    sampled: Annotated[int, typer.Option(min=1, help="Rows that are refreshed, for their seconds.")] = 4,
    threads: OneThread = 1,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure MAMBO: a product with a clear matrix inside of bootstrapping, beside bootstrapping alone.

    \b
    Examples:
      cipherblas bench mambo
      cipherblas bench mambo --size 1024 --size 4096 --json
    """
    from cipherblas_bench import run_mambo

    rows = run_mambo(log_n=int(log_n.value), threads=threads, sampled=sampled, **without_none(sizes=size))
    printed(rows, json, Display(quiet=quiet))


@app.command("linear-transform")
@guarded
def linear_transform(
    parameter_set: Annotated[
        list[TransformSet] | None,
        typer.Option("--set", help="Parameter set of FAME; repeatable.", show_default="all"),
    ] = None,
    diagonals: Annotated[
        int | None, typer.Option(min=1, help="Diagonals of the matrix.", show_default="as in FAME")
    ] = None,
    threads: OneThread = 1,
    seconds: Seconds = 1.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure the homomorphic linear transform in both loop orders: limb-outer (MO-HLT) and rotation-outer.

    \b
    Examples:
      cipherblas bench linear-transform --set B --threads 2
    """
    from cipherblas_bench import run_linear_transform

    options = without_none(sets=parameter_set and [member.value for member in parameter_set])
    rows = run_linear_transform(threads=threads, budget=seconds, diagonals=diagonals, **options)
    printed(rows, json, Display(quiet=quiet))


@app.command()
@guarded
def transpose(
    shape: Annotated[
        list[Any] | None,
        typer.Option(
            metavar="ROWSxCOLUMNS",
            parser=parse_shape,
            help="Shape of the matrix; repeatable.",
            show_default="2048x2048",
        ),
    ] = None,
    policy: Annotated[
        list[TransposePolicy] | None,
        typer.Option(help="Key policy; repeatable.", show_default="fast and light"),
    ] = None,
    threads: OneThread = 1,
    seconds: Seconds = 1.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure the transposition of a matrix that is encrypted row by row (C-MT).

    \b
    Examples:
      cipherblas bench transpose --shape 2048x2048 --policy fast --json
    """
    from cipherblas_bench import run_transpose

    options = without_none(
        shapes=shape and [found.lengths for found in shape],
        policies=policy and [member.value for member in policy],
    )
    printed(run_transpose(threads=threads, budget=seconds, **options), json, Display(quiet=quiet))


@app.command()
@guarded
def cc(
    shape: Annotated[list[Any] | None, product_shapes("64x64x64")] = None,
    suite: Annotated[
        Suite | None,
        typer.Option(help="Run the 12 shapes and parameter sets of FAME instead.", show_default=False),
    ] = None,
    peer: Annotated[
        ProductPeer | None, typer.Option(help="Compare with E2DM on this library.", show_default=False)
    ] = None,
    peer_python: PeerPython = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Multiply exact integers, and the float form of the same shape beside them."
        ),
    ] = False,
    dtype: Annotated[
        ExactType | None,
        typer.Option(help="Type of the exact integers.", show_default="int8 with --exact"),
    ] = None,
    modulus: Modulus = None,
    algorithm: Algorithm = None,
    form: Form = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Run the suite by published methods, too, on the same engine.")
    ] = False,
    chain: Annotated[
        bool,
        typer.Option("--chain", help="Of the suite the squares alone, two products in a row."),
    ] = False,
    limit: Annotated[
        float | None,
        typer.Option(
            help="Seconds beyond which a method is predicted instead of run.",
            show_default="60 with --baselines",
        ),
    ] = None,
    order: Annotated[
        Order | None, typer.Option(help="Loop order of the linear transforms.", show_default="limb")
    ] = None,
    precision: Precision = None,
    security: Security = None,
    memory_budget: MemoryBudget = None,
    key_budget: KeyBudget = None,
    upload_budget: UploadBudget = None,
    threads: OneThread = 1,
    seconds: Seconds = 2.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure products of two encrypted matrices on the server.

    \b
    Examples:
      cipherblas bench cc --shape 64x64x64 --peer seal
      cipherblas bench cc --shape 160x160x160 --threads 2 --json
      cipherblas bench cc --shape 256x256x256 --exact --dtype int16
      cipherblas bench cc --shape 64x64x64 --modulus 31bit
      cipherblas bench cc --suite fame --threads 2
      cipherblas bench cc --suite fame --baselines
      cipherblas bench cc --suite fame --chain
    """
    from cipherblas_bench import run_cc, run_fame_baselines

    if shape and suite:
        raise typer.BadParameter("a suite has shapes of its own", param_hint="--shape")
    if exact and (suite or peer):
        raise typer.BadParameter("takes neither --suite nor --peer", param_hint="--exact")
    if modulus is not None and (suite or peer or exact or form):
        raise typer.BadParameter("takes neither --suite, --peer, --exact nor --form", param_hint="--modulus")
    if dtype is not None and not exact:
        raise typer.BadParameter("needs --exact", param_hint="--dtype")
    if baselines and (not suite or peer or algorithm or order or form):
        raise typer.BadParameter(
            "needs --suite, and takes neither --peer, --algorithm, --order nor --form",
            param_hint="--baselines",
        )
    if chain and (not suite or baselines or peer or algorithm or order or form):
        raise typer.BadParameter("needs --suite, and takes nothing else of it", param_hint="--chain")
    if limit is not None and not baselines:
        raise typer.BadParameter("needs --baselines", param_hint="--limit")
    options = without_none(
        precision=precision,
        security=security,
        form=form and form.value,
        memory_budget=memory_budget,
        key_budget=key_budget,
        upload_budget=upload_budget,
    )
    options |= {"threads": threads, "budget": seconds}
    if baselines:
        rows = run_fame_baselines(**options, **without_none(limit=limit))
    else:
        rows = run_cc(
            shape or ((64, 64, 64),),
            suite=suite and suite.value,
            chain=chain,
            peer=peer and peer.value,
            peer_python=str(peer_python) if peer_python is not None else None,
            algorithm=algorithm,
            order=order and order.value,
            exact=(dtype.value if dtype else "int8") if exact else None,
            modulus=modulus,
            **options,
        )
    printed(rows, json, Display(quiet=quiet))


@app.command()
@guarded
def gemm(
    shape: Annotated[list[Any] | None, product_shapes("1024x1024x1024")] = None,
    bits: Annotated[int, typer.Option(min=4, max=50, help="Bits of the modulus.")] = 50,
    threads: OneThread = 1,
    seconds: Seconds = 1.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure matrix products modulo q on every path, and the float64 product of the same shape.

    \b
    Examples:
      cipherblas bench gemm --shape 2048x2048x2048
      cipherblas bench gemm --shape 4096x4096x4096 --threads 2 --json
    """
    from cipherblas_bench import run_gemm

    rows = run_gemm(shape or ((1024, 1024, 1024),), bits=bits, threads=threads, budget=seconds)
    printed(rows, json, Display(quiet=quiet))


@app.command()
@guarded
def masks(
    sizes: Annotated[
        Any,
        typer.Option(
            metavar="D,D,…",
            parser=parse_sizes,
            help="Dimensions of the d x d x d block products, powers of two.",
            show_default="16,32,64,128",
        ),
    ] = None,
    threads: OneThread = 1,
    seconds: Seconds = 1.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure the encoding of the masks of FHE-MM: each by itself, and as sums of columns that are encoded once.

    \b
    Examples:
      cipherblas bench masks --sizes 64,128 --json
    """
    from cipherblas_bench import run_masks

    rows = run_masks(threads=threads, budget=seconds, **without_none(sizes=sizes))
    printed(rows, json, Display(quiet=quiet))


@app.command()
@guarded
def model(
    case: Annotated[
        list[str] | None, typer.Option(metavar="PROGRAM", help="Program; repeatable.", show_default="all")
    ] = None,
    threads: OneThread = 1,
    seconds: Seconds = 1.0,
    json: JsonLines = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare predicted and measured seconds, memory, bytes and errors on various programs.

    \b
    Examples:
      cipherblas bench model
      cipherblas bench model --threads 2 --json
    """
    from cipherblas_bench import run_model

    rows = run_model(case or (), threads=threads, budget=seconds)
    printed(rows, json, Display(quiet=quiet))


RowsOrMaker: TypeAlias = Iterable[dict[str, Any]] | Callable[[Tell], Iterable[dict[str, Any]]]


class BenchError(CipherblasError):
    """A measurement could not be made."""


def printed(rows: RowsOrMaker, json: bool, display: Display) -> None:
    """Print rows: each as a line of JSON when it comes, or all as tables at the end."""
    from cipherblas_bench import render

    found = collected(rows, json, display)
    if not json:
        render(found, console=stdout_console())


def collected(rows: RowsOrMaker, json: bool, display: Display) -> list[dict[str, Any]]:
    """All rows; with `json` each is printed as a line of JSON when it comes.

    Args:
        rows: or what makes them, which tells what it is at.
    """
    from cipherblas_bench import to_json

    found = []
    with display.telling("measuring", printing=json) as tell:
        for row in _translated(rows(tell) if callable(rows) else rows):
            if json:
                typer.echo(to_json(row))
            found.append(row)
            tell(f"{len(found)} done, the last was {row.get('case', 'without a name')}")
    return found


def _translated(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    from cipherblas_bench import MeasurementError, PeerError

    try:
        yield from rows
    except CipherblasError:
        raise
    except (MeasurementError, PeerError) as error:
        raise BenchError(str(error)) from error
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
