"""`cipherblas check`: a network and its program on the same inputs, without encryption."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.arrays import IMAGES, LABELS, load_array, load_labelled
from cipherblas.cli.options import Debug, Insecure, Json, PlanFile, Quiet, Security
from cipherblas.common.arrays import narrow_array
from cipherblas.networks import from_onnx
from cipherblas.networks.network import INPUT
from cipherblas.networks.onnx_file import EXACT
from cipherblas.report import Display, print_json
from cipherblas.roles.program import Program

DIMENSIONS = (2, 3, 4)


def check(
    plan: PlanFile,
    model: Annotated[
        Path,
        typer.Argument(metavar="NETWORK", help="The file of ONNX that it was made of.", show_default=False),
    ],
    inputs: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGES",
            help="Inputs that the program was not planned on, a .npy file whose first axis counts them; or a .npz "
            "archive with arrays images and labels.",
            show_default=False,
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The right classes, a .npy file of integers.", show_default="of the archive"
        ),
    ] = None,
    security: Security = 128,
    insecure: Insecure = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare a network and the program that `import` made of it, on inputs in the clear; nothing is encrypted.

    Three ways to compute the scores stand side by side: the network itself, the polynomials of the program in place of
    its functions, and these with errors of encryption as the noise model has them. Inputs on which a value leaves the
    range that the program was planned for are counted and left out: their encrypted scores may be wrong.

    \b
    Examples:
      cipherblas check network.cb network.onnx images.npz
      cipherblas check network.cb network.onnx images.npy --labels labels.npy --json
    """
    display = Display(quiet=quiet)
    network = from_onnx(model, maxpool=EXACT)  # in the clear, however the program has it
    with display.progress("reading the inputs"):
        images, classes = _inputs(inputs)
        if labels is not None:
            classes = load_array(labels, (1,))
    with display.progress("reading the plan") as progress:
        program = Program.load(plan, security=security, insecure=insecure, progress=progress)
    if INPUT in program.operands:  # inputs are given as its clients give them
        network = replace(network, normalise=program.operands[INPUT].normalise)
    with display.progress("computing") as progress:
        found = network.check(program, images, classes, progress=progress)
    if json:
        print_json(asdict(found))
    else:
        typer.echo(str(found))


def _inputs(path: Path) -> tuple[Any, Any]:
    """The inputs of a file, and the labels of an archive that has them."""
    images, labels = load_labelled(path, DIMENSIONS)
    images = narrow_array(images, f"{IMAGES} of {path}", DIMENSIONS)
    return images, None if labels is None else narrow_array(labels, f"{LABELS} of {path}", (1,))
