"""`cipherblas decrypt`: a result back into a NumPy file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from cipherblas.cli.arrays import save_array
from cipherblas.cli.keyfolder import open_client
from cipherblas.cli.options import Debug, Insecure, Json, KeyFolder, Quiet, Security, Threads, use_threads
from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import MismatchError
from cipherblas.crypto import files
from cipherblas.report import Display, print_json
from cipherblas.roles.messages import EncryptedOperand, EncryptedResult
from cipherblas.roles.sharing import LEAST_BITS, MOST_BITS, Sharing


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
    of: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Encrypted operand that the result must be of; repeatable.",
            show_default="the latest encryption with these keys of each operand",
        ),
    ] = None,
    share: Annotated[
        int | None,
        typer.Option(
            metavar="ENTRIES",
            help="Make the numbers fit to be shared; ENTRIES: of all results that will ever be shared under the key.",
            show_default="for the owner of the key alone",
        ),
    ] = None,
    share_bits: Annotated[
        int | None,
        typer.Option(
            metavar="BITS",
            help=f"Statistical security of what is shared, {LEAST_BITS} to {MOST_BITS}.",
            show_default=str(LEAST_BITS),
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

    Keep decrypted numbers to yourself: their last digits tell about the secret key, and a server that sees a few
    results, or rounded ones, can find it. To share them use --share, which hides these digits under noise, and
    keeps count: beside the secret key it keeps a budget of ENTRIES, refuses what exceeds it, and shares no result
    twice. It protects results of a server that computes what it is asked to, not of one that returns what it likes.

    A result must be of the latest encryption with these keys of each operand, or of those given by --of.

    \b
    Examples:
      cipherblas decrypt keys/ C.ct -o C.npy
      cipherblas decrypt keys/ C.ct --of A-monday.ct --of B.ct -o C-monday.npy
      cipherblas decrypt keys/ C.ct --share 4096 -o C-public.npy
    """
    if share_bits is not None and share is None:
        raise typer.BadParameter("--share-bits needs --share ENTRIES")
    use_threads(threads)
    display = Display(quiet=quiet)
    if output is not None:
        files.check_writable(output)
    with display.progress("reading the keys"):
        client = open_client(keys, security, insecure)
        program = client.program
        encrypted = EncryptedResult.load(result, security=security, insecure=insecure)
        given = [EncryptedOperand.load(path, security=security, insecure=insecure) for path in of or []]
        operands = _by_name(given)
    sharing = None if share is None else Sharing(share, LEAST_BITS if share_bits is None else share_bits)
    with display.progress("decrypting"):
        values = client.decrypt(encrypted, of=operands, share=sharing)
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
                "noise": None if sharing is None else sharing.deviation(program),
                **({} if output is not None else {"values": values.tolist()}),
            }
        )
    elif output is None:
        rows = values.reshape(-1, values.shape[-1]) if values.ndim > 1 else values
        np.savetxt(sys.stdout, rows, fmt="%.9g", delimiter=",")


def _by_name(operands: list[EncryptedOperand]) -> dict[str, EncryptedOperand]:
    """The operands of --of."""
    found: dict[str, EncryptedOperand] = {}
    for operand in operands:
        if found.setdefault(operand.name, operand).digest != operand.digest:
            raise MismatchError(f"operand {operand.name!r}", expected="one encryption", got="two")
    return found
