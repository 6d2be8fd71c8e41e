"""`cipherblas import`: a program from a network of another framework."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from cipherblas.cli.arrays import load_array
from cipherblas.cli.options import (
    Debug,
    Insecure,
    Json,
    Quiet,
    Security,
    output_option,
    parse_named,
    parse_normalisation,
    without_none,
)
from cipherblas.cli.plan import printed
from cipherblas.crypto import files
from cipherblas.lang.normalisation import Normalisation
from cipherblas.networks import from_onnx
from cipherblas.networks.network import DEGREE, DEGREES
from cipherblas.networks.onnx_file import EXACT
from cipherblas.report import Display


class MaxPool(str, Enum):
    """Ways to compute maxima of encrypted values."""

    exact = EXACT


def import_network(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file of ONNX.", show_default=False)],
    samples: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Inputs like those to come, a .npy file whose first axis counts them: ranges and errors are found on "
            "them, and promised for inputs like these.",
            show_default=False,
        ),
    ] = None,
    error: Annotated[float | None, typer.Option(help="Largest error of a score.", show_default=False)] = None,
    agreement: Annotated[
        float | None,
        typer.Option(
            help="Share of the samples whose largest score is that of the clear network.", show_default=False
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Inputs of one run, counted by a first axis, as scores are: each takes less time in batches.",
            show_default="one input, without that axis",
        ),
    ] = None,
    degree: Annotated[
        int | None,
        typer.Option(
            help="Of the polynomials that stand for functions.",
            show_default=f"{DEGREE}, or the least of {', '.join(map(str, DEGREES))} that the error or agreement needs",
        ),
    ] = None,
    activation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=DEGREE",
            help="Degree for one node, or for all of one operator, as Relu=254; may be given several times.",
            show_default=False,
        ),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=BOUND",
            help="Largest absolute value that a node reads, instead of that of samples; may be given several times.",
            show_default=False,
        ),
    ] = None,
    bound: Annotated[
        float | None,
        typer.Option(
            help="Largest absolute value of an entry of an input, normalised.",
            show_default="of the samples 1.5 times theirs, else 1",
        ),
    ] = None,
    normalise: Annotated[
        Normalisation | None,
        typer.Option(
            metavar="MEAN:DEVIATION",
            parser=parse_normalisation,
            help="Taken out of inputs by the client, as 127.5:63.75; of every channel as 120,115,105:60,58,60. Inputs "
            "and samples are then pixels as they are.",
            show_default="the network takes inputs as they are",
        ),
    ] = None,
    maxpool: Annotated[
        MaxPool | None,
        typer.Option(
            help="Compute MaxPool: exact takes max(a, b) = a + relu(b - a), function after function.",
            show_default="refuse it",
        ),
    ] = None,
    ring_degree: Annotated[
        int | None, typer.Option(metavar="N", help="Ring degree, a power of two.", show_default="the fastest")
    ] = None,
    output: Annotated[
        Path | None, output_option("--output", "-o", help="Write the program file.", show_default=False)
    ] = None,
    client_output: Annotated[
        Path | None,
        output_option(
            "--client-output",
            help="Write the file for clients too: the program without weights.",
            show_default=False,
        ),
    ] = None,
    security: Security = 128,
    insecure: Insecure = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Plan a trained network from a file of ONNX; nothing runs. Without -o the network is printed too.

    The operand of the program is called x: one input of the network, without the axis that counts them, or a --batch of
    them with it. Then come keygen, encrypt, run and decrypt, as for every program. Clients need the file of
    --client-output alone, which has no weights; the server needs the whole program.

    \b
    Examples:
      cipherblas import network.onnx --samples samples.npy --error 2 -o network.cb
      cipherblas import network.onnx --samples samples.npy --error 2 -o network.cb --client-output client.cb
      cipherblas import network.onnx --samples samples.npy --agreement 0.99 --activation Relu=126
      cipherblas import network.onnx --samples samples.npy --error 2 --batch 8 -o network.cb
      cipherblas import network.onnx --samples pixels.npy --normalise 127.5:63.75 --error 2 -o network.cb
    """
    written = [path for path in (output, client_output) if path is not None]
    for path in written:
        files.check_writable(path)
    display = Display(quiet=quiet)
    network = from_onnx(model, normalise=normalise, maxpool=None if maxpool is None else maxpool.value)
    given = None
    if samples is not None:
        with display.progress("reading the samples"):
            given = load_array(samples, (2, 3, 4))
    options = without_none(
        error=error,
        agreement=agreement,
        batch=batch,
        degree=degree,
        activation=parse_named(activation, int, "--activation") or None,
        ranges=parse_named(ranges, float, "--ranges") or None,
        bound=bound,
        ring_degree=ring_degree,
        security=security,
        insecure=insecure,
    )
    if output is None and not json:
        typer.echo(f"{network}\n")
    with display.telling("planning") as tell:
        planned = network.compile(given, progress=tell, **options)
    for path in written:
        save = planned.save if path is output else planned.save_client
        with display.progress("writing") as progress:
            save(path, progress=progress)
    printed(planned, json)
    for path in written:
        display.note(f"wrote {path}")
