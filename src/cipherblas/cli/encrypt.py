"""`cipherblas encrypt`: one matrix, vector or image into one file of ciphertexts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cipherblas.cli.arrays import load_array
from cipherblas.cli.keyfolder import load_client_side, open_client
from cipherblas.cli.options import Debug, Insecure, Json, Quiet, Security, Threads, output_option, use_threads
from cipherblas.common.progress import Progress
from cipherblas.crypto import files
from cipherblas.crypto.keys import PublicKey
from cipherblas.report import Display, print_json, size
from cipherblas.roles.client_side import ClientSide
from cipherblas.roles.encryptor import Encryptor


def encrypt(
    keys: Annotated[
        Path,
        typer.Argument(
            metavar="KEYS",
            help="Folder that `keygen` wrote, with the secret key; with --public-key the program file.",
            show_default=False,
        ),
    ],
    array: Annotated[
        Path,
        typer.Argument(
            metavar="ARRAY", help="A .npy file: a matrix, a vector or an image.", show_default=False
        ),
    ],
    output: Annotated[
        Path,
        output_option("--output", "-o", help="File of ciphertexts to write.", show_default=False),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Name of the operand that the array is encrypted as.",
            show_default="the only one, or that of the file's name or shape",
        ),
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Encrypt with this public key, without the secret key.", show_default=False
        ),
    ] = None,
    security: Security = 128,
    insecure: Insecure = False,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Encrypt a matrix, a vector or an image for a program.

    \b
    Examples:
      cipherblas encrypt keys/ A.npy -o A.ct
      cipherblas encrypt keys/ measurements.npy --as b -o B.ct
      cipherblas encrypt plan.cb B.npy --public-key public-key -o B.ct
    """
    use_threads(threads)
    display = Display(quiet=quiet)
    files.check_writable(output)
    with display.progress("reading the array"):
        values = load_array(array, (1, 2, 3, 4), wide=True)
    with display.progress("reading the keys") as progress:
        owner = (
            open_client(keys, security, insecure, progress)
            if public_key is None
            else _encryptor(keys, public_key, security, insecure, progress)
        )
    operand = name if name is not None else _operand_of(owner.program, array, values.shape, public_key)
    with display.progress(f"encrypting {operand}") as progress:
        encrypted = owner.encrypt({operand: values}, folder=output.parent, progress=progress)[operand]
    with display.progress("writing") as progress:
        encrypted.save(output, progress=progress)
    ciphertexts = sum(len(feed) for feed in encrypted.feeds)
    if json:
        print_json(
            {
                "operand": operand,
                "shape": list(values.shape),
                "ciphertexts": ciphertexts,
                "bytes": encrypted.nbytes,
                "encryption": encrypted.encryption,
                "file": str(output),
            }
        )
    plural = "s" if ciphertexts != 1 else ""
    display.note(
        f"wrote {output}: operand {operand}, {ciphertexts} ciphertext{plural}, {size(encrypted.nbytes)}"
    )


def _encryptor(plan: Path, public_key: Path, security: int, insecure: bool, progress: Progress) -> Encryptor:
    program = load_client_side(plan, security, insecure, progress)
    return program.encryptor(PublicKey.load(public_key, security=security, insecure=insecure))


def _operand_of(program: ClientSide, path: Path, shape: tuple[int, ...], public_key: Path | None) -> str:
    """The secret operand that a file holds, where only one answer is possible."""
    secret = {
        name: operand
        for name, operand in program.operands.items()
        if operand.secret and (public_key is None or operand.public_key)
    }
    if len(secret) == 1:
        return next(iter(secret))
    named = [name for name in secret if name == path.stem] or [
        name for name in secret if name.lower() == path.stem.lower()
    ]
    if len(named) == 1:
        return named[0]
    fitting = [name for name, operand in secret.items() if operand.shape == shape]
    if len(fitting) == 1:
        return fitting[0]
    raise typer.BadParameter(f"which operand is {path}? Give one of {', '.join(secret)}", param_hint="--as")
