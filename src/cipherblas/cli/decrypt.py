"""`cipherblas decrypt`: a result back into a NumPy file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from cipherblas import files
from cipherblas.arrays import shape_text
from cipherblas.cli.arrays import save_array
from cipherblas.cli.keyfolder import open_client
from cipherblas.cli.options import Debug, Insecure, Json, KeyFolder, Quiet, Security, Threads, use_threads
from cipherblas.matrices import EncryptedResult
from cipherblas.report import Display, print_json


def decrypt(
    keys: KeyFolder,
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="File that `run` wrote.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The .npy file to write.",
            show_default="comma-separated rows on stdout; of an image, channel after channel",
        ),
    ] = None,
    security: Security = 128,
    insecure: Insecure = False,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Decrypt a result.

    Share decrypted numbers with others only rounded to the precision of the plan: their last digits can tell about
    the secret key.

    \b
    Examples:
      cipherblas decrypt keys/ C.ct -o C.npy
      cipherblas decrypt keys/ C.ct | head
    """
    use_threads(threads)
    display = Display(quiet=quiet)
    if output is not None:
        files.check_writable(output)
    with display.progress("reading the keys"):
        client = open_client(keys, security, insecure)
        program = client.program
        encrypted = EncryptedResult.load(
            result, program.plan.parameters, program.id, security=security, insecure=insecure
        )
    with display.progress("decrypting"):
        values = client.decrypt(encrypted)
    if output is not None:
        save_array(output, values)
        display.note(f"wrote {output}: {shape_text(values.shape)}")
    if json:
        print_json(
            {
                "shape": list(values.shape),
                "file": None if output is None else str(output),
                "max_abs": float(np.abs(values).max()),
                "expected_error": program.plan.error,
                **({} if output is not None else {"values": values.tolist()}),
            }
        )
    elif output is None:
        rows = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values
        np.savetxt(sys.stdout, rows, fmt="%.9g", delimiter=",")
