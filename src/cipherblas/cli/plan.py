"""`cipherblas plan`: decide and predict, before anything runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.arrays import lengths_of, load_array
from cipherblas.cli.formula import Formula, FormulaError
from cipherblas.cli.options import (
    NAMES,
    Debug,
    Form,
    Insecure,
    Json,
    Link,
    Minimise,
    NetworkFile,
    Quiet,
    Ranks,
    Shape,
    bytes_option,
    declared_operands,
    output_option,
    parse_modulus,
    parse_operand_shape,
    without_none,
)
from cipherblas.common.errors import FitError, PrecisionError
from cipherblas.crypto import files
from cipherblas.distributed.blocks import optimal_blocks
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.messages import Network
from cipherblas.lang import graph
from cipherblas.lang.operands import Operand
from cipherblas.planner.plan.listed import rows_of
from cipherblas.report import Display, print_json
from cipherblas.roles.on_ranks import fastest_on_ranks
from cipherblas.roles.program import Program, compile

OPERANDS, BUDGETS, PROMISE = "Operands", "Budgets", "Promise"  # headings in the help
PlannedThreads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads that the time is predicted for.", show_default="those of the machine"),
]


def _shape_option(name: str) -> Any:
    return typer.Option(
        f"--{name}",
        metavar="RxC",
        parser=parse_operand_shape,
        help=f"Shape of operand {name}; one length is a vector.",
        show_default=False,
        rich_help_panel=OPERANDS,
    )


def _public_option(name: str) -> Any:
    return typer.Option(
        f"--{name}-public", help=f"Operand {name} is clear.", show_default=False, rich_help_panel=OPERANDS
    )


def _public_key_option(name: str) -> Any:
    return typer.Option(
        f"--{name}-public-key",
        help=f"Operand {name} is encrypted with the public key.",
        show_default=False,
        rich_help_panel=OPERANDS,
    )


def _bound_option(name: str) -> Any:
    return typer.Option(
        f"--bound-{name}",
        metavar="X",
        help=f"Entries of {name} are at most X in absolute value.",
        show_default="1",
        rich_help_panel=OPERANDS,
    )


def plan(
    a: Annotated[Shape | None, _shape_option("a")] = None,
    b: Annotated[Shape | None, _shape_option("b")] = None,
    c: Annotated[Shape | None, _shape_option("c")] = None,
    d: Annotated[Shape | None, _shape_option("d")] = None,
    a_public: Annotated[bool, _public_option("a")] = False,
    b_public: Annotated[bool, _public_option("b")] = False,
    c_public: Annotated[bool, _public_option("c")] = False,
    d_public: Annotated[bool, _public_option("d")] = False,
    a_public_key: Annotated[bool, _public_key_option("a")] = False,
    b_public_key: Annotated[bool, _public_key_option("b")] = False,
    c_public_key: Annotated[bool, _public_key_option("c")] = False,
    d_public_key: Annotated[bool, _public_key_option("d")] = False,
    bound_a: Annotated[float | None, _bound_option("a")] = None,
    bound_b: Annotated[float | None, _bound_option("b")] = None,
    bound_c: Annotated[float | None, _bound_option("c")] = None,
    bound_d: Annotated[float | None, _bound_option("d")] = None,
    operand: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=RxC[:public | :public-key][:dtype=T[:exact]][:bound=X][:fixed_point=N]",
            help="An operand of any name; x=784 is a vector; repeatable.",
            rich_help_panel=OPERANDS,
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Compute exact integers: all secret operands are whole numbers, and so must all else be.",
            rich_help_panel=OPERANDS,
        ),
    ] = False,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="T",
            help="Type of the entries of a to d: floating point, or an integer type as int8, exact ones also int64.",
            show_default="real numbers; with --exact int8",
            rich_help_panel=OPERANDS,
        ),
    ] = None,
    modulus: Annotated[
        int | None,
        typer.Option(
            metavar="T",
            parser=parse_modulus,
            help="Compute integers modulo T, exactly: all secret operands are, and clear ones are whole numbers.",
            show_default=False,
            rich_help_panel=OPERANDS,
        ),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(
            metavar="FORMULA",
            help="Formula of the operands: @ + - * / .T, numbers, parentheses, functions such as mean(a, axis=0) or "
            "chebyshev(np.tanh, a); several results: F, G or x = F; y = G.",
            show_default="the product of the two operands",
        ),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            help="Largest error of an entry, relative to the bound of its result.", show_default="1e-4"
        ),
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(help="Largest error of an entry, instead of --precision.", show_default=False),
    ] = None,
    samples: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="Samples of an operand, a .npy file whose first axis counts them: ranges and errors are found on "
            "samples of all operands, and promised for inputs like these; repeatable.",
            show_default=False,
            rich_help_panel=PROMISE,
        ),
    ] = None,
    slack: Annotated[
        float | None,
        typer.Option(
            help="Times the largest value on the samples is what values may reach.",
            show_default="1.5",
            rich_help_panel=PROMISE,
        ),
    ] = None,
    promise: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Whom errors are promised to: bounds, every input within them; samples, inputs like the samples; "
            "none, nobody.",
            show_default="samples where there are any, else bounds",
            rich_help_panel=PROMISE,
        ),
    ] = None,
    agreement: Annotated[
        float | None,
        typer.Option(
            help="Share of the samples whose largest entry must stay at its place, instead of --precision.",
            show_default=False,
            rich_help_panel=PROMISE,
        ),
    ] = None,
    security: Annotated[
        int,
        typer.Option(
            help="Bits of security to plan for, or that a plan to be shown must have: 128, 192 or 256."
        ),
    ] = 128,
    insecure: Insecure = False,
    algorithm: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Force an algorithm.", show_default="the fastest that fits"),
    ] = None,
    form: Form = None,
    memory_budget: Annotated[
        int | None,
        bytes_option(
            "--memory-budget", "Memory that the server may use.", "four fifths of what is available", BUDGETS
        ),
    ] = None,
    key_budget: Annotated[
        int | None,
        bytes_option(
            "--key-budget",
            "Memory that the evaluation keys may use.",
            "two thirds of the memory budget",
            BUDGETS,
        ),
    ] = None,
    upload_budget: Annotated[
        int | None,
        bytes_option(
            "--upload-budget",
            "Bytes that the client may upload for the secret operands.",
            "64MiB, or 16 times the operands",
            BUDGETS,
        ),
    ] = None,
    minimise: Minimise = None,
    link: Link = None,
    machine: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Plan for the machine that `cipherblas machine -o FILE` measured.",
            show_default="the file that CIPHERBLAS_MACHINE names, else this one, measured",
        ),
    ] = None,
    threads: PlannedThreads = None,
    ranks: Ranks = None,
    network: NetworkFile = None,
    output: Annotated[
        Path | None,
        output_option("--output", "-o", help="Write the program file.", show_default=False),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Plan a program and predict its keys, time, memory and error; nothing runs.

    The program file holds no secret: client and server both need it.

    \b
    Examples:
      cipherblas plan --a 160x160 --b 160x160 -o plan.cb
      cipherblas plan --a 10x64 --a-public --b 64x500 --bound-b 16 -o plan.cb
      cipherblas plan --a 64x64 --b 64x64 --c 64x64 --program "(a @ b) @ c + 0.5 * a.T"
      cipherblas plan --operand x=500x8 --operand y=500 --program "gram = x.T @ x; moment = x.T @ y" -o plan.cb
      cipherblas plan --operand x=500:bound=3 --program "chebyshev(np.tanh, x, degree=9)" --precision 1e-2
      cipherblas plan --operand weights=10x64:public:dtype=int8 --operand x=64x1 --program "weights @ x"
      cipherblas plan --a 160x160 --b 160x160 --exact --dtype int16 -o plan.cb
      cipherblas plan --a 64x64 --b 64x64 --exact --dtype int64 --bound-a 2147483648 --bound-b 2147483648
      cipherblas plan --operand x=100x4:bound=1e5:fixed_point=20 --program "x.T @ x / 100"
      cipherblas plan --a 64x64 --b 64x64 --modulus 65537 --program "a @ b - 3 * a" -o plan.cb
      cipherblas plan --a 160x160 --b 160x160 --b-public-key -o plan.cb
      cipherblas plan --operand weights=10x784:public --operand x=784 --program "weights @ x" -o plan.cb
      cipherblas plan --operand x=64 --program "x ** 4" --samples x=X.npy --precision 1e-3
      cipherblas plan --a 64x64 --b 64x64 --link 50Mbit/s
      cipherblas plan --a 64x64 --b 64x64 --minimise server
      cipherblas plan --a 64x64 --b 64x64 --machine server.json
      cipherblas plan --a 2048x2048 --b 2048x2048 --ranks 8 --machine node.json --network network.json
    """
    given = locals()
    operands = declared_operands(
        {name: given[name] for name in NAMES},
        {name: given[f"{name}_public"] for name in NAMES},
        {name: given[f"{name}_public_key"] for name in NAMES},
        {name: given[f"bound_{name}"] for name in NAMES},
        operand or [],
        dtype=dtype,
        exact=exact,
        modulus=modulus,
    )
    formula = _formula(program, operands)
    if output is not None:
        files.check_writable(output)
    display = Display(quiet=quiet)
    options = without_none(
        precision=precision,
        error=error,
        security=security,
        insecure=insecure,
        algorithm=algorithm,
        form=form and form.value,
        memory_budget=memory_budget,
        key_budget=key_budget,
        upload_budget=upload_budget,
        minimise=minimise and minimise.value,
        link=link,
        machine=machine,
        threads=threads,
        samples=_samples(samples) if samples else None,
        slack=slack,
        promise=promise,
        agreement=agreement,
    )
    with display.telling("planning") as tell:
        try:
            planned = compile(formula, operands, progress=tell, **options)
        except FormulaError as error:
            raise typer.BadParameter(str(error), param_hint="--program") from error
        layout = None
        if ranks is not None and program is None:
            compiled = functools.partial(compile, formula, operands, progress=tell, **options)
            planned, layout = _of_optimal_blocks(planned, compiled, ranks, _network(network))
    if output is not None:
        with display.progress("writing") as progress:
            planned.save(output, progress=progress)
    printed(planned, json, ranks, network)
    if layout is not None and not json:
        typer.echo(f"{'layout':<10} {layout}")
    if output is not None:
        display.note(f"wrote {output}")


def _of_optimal_blocks(
    planned: Program, compiled: Callable[..., Program], ranks: int, network: Network
) -> tuple[Program, str | None]:
    """A product of two secrets by FHE-MM in the optimal block layout, if ranks are faster so, and what is said of it.

    Source: FHE4DMM, Algorithms 2 and 3.
    """
    if planned.plan.algorithm != "fhe-mm":
        return planned, None
    (m, k), n = planned.operands["a"].shape, planned.operands["b"].shape[1]
    padded = tuple(1 << (length - 1).bit_length() for length in (m, n, k))  # as the method pads blocks
    layout = optimal_blocks((padded[0], padded[1], padded[2]), planned.plan.parameters.slots)
    block = Cuboid(*padded).parts(layout)
    blocks = Cuboid(m, n, k).parts(block)  # what is padding alone is no block
    name = f"{'×'.join(map(str, blocks))} blocks (m×n×k) of Algorithm 2 of FHE4DMM"
    own = fastest_on_ranks(planned, ranks, network, machine=planned.plan.machine)
    if own.runs[0].products[0].blocks == blocks:
        return planned, name
    try:
        other = compiled(block=(block.m, block.k, block.n), ring_degree=planned.plan.parameters.n)
    except (PrecisionError, FitError):
        return planned, f"{name} do not fit this ring"
    optimal = fastest_on_ranks(other, ranks, network, machine=other.plan.machine)
    if optimal.total > own.total:
        return planned, f"{name} take {optimal.total:.3g} s, and these {own.total:.3g} s"
    return other, name


def _network(path: Path | None) -> Network:
    """The network of a file; without one, messages are free."""
    return Network(0.0, 0.0) if path is None else Network.load(path)


def printed(
    planned: Program,
    json: bool,
    ranks: int | None = None,
    network: Path | None = None,
    *,
    steps: bool = False,
) -> None:
    """Print a program as text or as JSON, with what it takes on several ranks."""
    shared = None
    if ranks is not None:
        shared = fastest_on_ranks(planned, ranks, _network(network), machine=planned.plan.machine)
    elif network is not None:
        raise typer.BadParameter("needs --ranks", param_hint="--network")
    if json:
        listed = {"steps": rows_of(planned.plan, planned.executed, planned.listing)} if steps else {}
        print_json(description(planned) | listed | ({} if shared is None else {"on_ranks": shared.to_dict()}))
        return
    typer.echo(planned.explain(steps=steps))
    if shared is not None:
        typer.echo(shared.explain())


def _samples(given: list[str]) -> dict[str, Any]:
    """The arrays of `--samples NAME=FILE`."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (name and equals and path) or name in found:
            raise typer.BadParameter(
                f"expected NAME=FILE, each name once, got {text!r}", param_hint="--samples"
            )
        found[name] = load_array(Path(path), range(5))
    return found


def _formula(text: str | None, operands: dict[str, Operand]) -> Formula:
    if not operands:
        raise typer.BadParameter("no operand: give shapes, for example --a 160x160 --b 160x160")
    if text is None:
        if len(operands) != 2:
            raise typer.BadParameter("needed unless there are two operands", param_hint="--program")
        text = " @ ".join(operands)
    try:
        formula = Formula(text, operands)
    except FormulaError as error:
        raise typer.BadParameter(str(error), param_hint="--program") from error
    unknown = [name for name in formula.names if name not in operands]
    if unknown:
        declare = " ".join(f"--{name} RxC" if name in NAMES else f"--operand {name}=RxC" for name in unknown)
        raise typer.BadParameter(f"operands without a shape: add {declare}", param_hint="--program")
    return formula


def description(planned: Program) -> dict[str, Any]:
    """A planned program as JSON."""
    return {
        "id": planned.id,
        "program": graph.formula(planned.expression),
        "operands": {name: operand.declared for name, operand in planned.operands.items()},
        "shape": lengths_of(planned.shape),
        "exact": planned.exact,
        **({} if planned.modulus is None else {"noise_budgets": list(planned.noise_budgets)}),
        **planned.plan.to_dict(),
        "error_target": planned.plan.error_target,
        "result_bytes": planned.plan.result_bytes,
    }
