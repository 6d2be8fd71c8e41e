"""`cipherblas decrypt`: a result back into a NumPy file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from cipherblas.cli.arrays import save_array, save_arrays
from cipherblas.cli.keyfolder import open_client
from cipherblas.cli.options import (
    Debug,
    Insecure,
    Json,
    KeyFolder,
    Quiet,
    Security,
    Threads,
    output_option,
    use_threads,
)
from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import DTypeError, MismatchError
from cipherblas.crypto import files
from cipherblas.report import Display, print_json
from cipherblas.roles.client_side import ClientSide
from cipherblas.roles.sharing import MAX_BITS, MIN_BITS, Sharing
from cipherblas.roles.wire.messages import EncryptedOperand, EncryptedResult


def decrypt(
    keys: KeyFolder,
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="File that `run` wrote.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        output_option(
            "--output",
            "-o",
            help="The .npy file to write; of several results, the .npz file.",
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
            min=1,
            metavar="ENTRIES",
            help="Add noise so that others may see the numbers. ENTRIES is how many entries the key will ever share.",
            show_default="for the owner of the key alone",
        ),
    ] = None,
    share_bits: Annotated[
        int | None,
        typer.Option(
            min=MIN_BITS,
            max=MAX_BITS,
            metavar="BITS",
            help=f"Statistical security of what is shared, {MIN_BITS} to {MAX_BITS}.",
            show_default=str(MIN_BITS),
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

    Do not share decrypted numbers: their last digits depend on the secret key, and a server that sees a few results,
    even rounded ones, can find it. --share hides these digits under noise. It keeps a budget of ENTRIES beside the
    secret key, refuses what exceeds the budget, and shares no result twice. It protects against a server that
    computes what it is asked to, not against one that returns forged results.

    A result must come from the latest encryption of each operand with these keys, or from those given by --of.

    \b
    Examples:
      cipherblas decrypt keys/ C.ct -o C.npy
      cipherblas decrypt keys/ C.ct --of A-monday.ct --of B.ct -o C-monday.npy
      cipherblas decrypt keys/ C.ct --share 4096 -o C-public.npy
      cipherblas decrypt keys/ results.ct -o results.npz

    Only you may read the file that is written (mode 0600), unless --share makes its numbers fit for others.

    Several results go into one .npz file, under their names; those without names are arr_0, arr_1, …
    """
    if share_bits is not None and share is None:
        raise typer.BadParameter("--share-bits needs --share ENTRIES")
    use_threads(threads)
    display = Display(quiet=quiet)
    if output is not None:
        files.check_writable(output)
    with display.progress("reading the keys") as progress:
        client = open_client(keys, security, insecure, progress)
        program = client.program
        if output is not None and output.suffix == ".npy" and program.expression.root:
            raise typer.BadParameter("several results need a .npz file", param_hint="--output")
    accepted: dict[str, Any] = {"security": security, "insecure": insecure}
    with display.progress("reading the result") as progress:
        encrypted = EncryptedResult.load(result, **accepted, progress=progress)
    with display.progress("reading the operands") as progress:
        given = [EncryptedOperand.load(path, **accepted, progress=progress) for path in of or []]
        operands = _by_name(given)
    sharing = None if share is None else Sharing(share, MIN_BITS if share_bits is None else share_bits)
    with display.progress("decrypting") as progress:
        values = client.decrypt(encrypted, of=operands, share=sharing, progress=progress)
    if program.expression.root and isinstance(values, np.ndarray):
        values = tuple(values)  # of a batch, whose matrices have a name each in a file
    found = _labelled(values)
    if output is not None:
        _check_files_hold(found)
    if output is not None:
        with display.progress("writing"):
            if program.expression.root:
                save_arrays(output, found, private=sharing is None)
            else:
                save_array(output, values, private=sharing is None)
        shapes = (f"{label} {shape_text(one.shape)}".strip() for label, one in found.items())
        display.note(f"wrote {output}: {', '.join(shapes)}")
    if json:
        with display.progress("printing", printing=True):
            described = _described(found, program, sharing, output is None)
            file = None if output is None else str(output)
            print_json(
                {"file": file, **({"results": described} if program.expression.root else described[""])}
            )
    elif output is None:
        with display.progress("printing", printing=True):
            _print_rows(found)


def _described(
    found: Mapping[str, NDArray[Any]], program: ClientSide, sharing: Sharing | None, values: bool
) -> dict[str, dict[str, Any]]:
    """Each result as JSON, with its values or without."""
    noise = [None] * len(found) if sharing is None else sharing.deviations(program)
    return {
        label: {
            "shape": list(one.shape),
            "max_abs": max(float(one.max()), -float(one.min())),
            "expected_error": figures.error,
            "noise": sigma,
            **({"values": one.tolist()} if values else {}),
        }
        for (label, one), figures, sigma in zip(found.items(), program.plan.results, noise, strict=True)
    }


def _print_rows(found: Mapping[str, NDArray[Any]]) -> None:
    """The results on stdout, under their names."""
    for label, one in found.items():
        rows = one.reshape(-1, one.shape[-1]) if one.ndim > 1 else np.atleast_1d(one)
        numbers = "%d" if one.dtype.kind in "iuO" else "%.9g"
        np.savetxt(sys.stdout, rows, fmt=numbers, delimiter=",", header=label)


def _check_files_hold(found: Mapping[str, NDArray[Any]]) -> None:
    """Raise DTypeError where a result has Python's integers, of which NumPy's files are pickles."""
    wide = [label for label, one in found.items() if one.dtype == object]
    if wide:
        raise DTypeError(
            "The result may have integers beyond 64 bits, which no NumPy file holds.",
            got=", ".join(wide) or "exact integers",
            advice="the same without -o, which prints all digits, or with --json",
        )


def _labelled(values: Any) -> dict[str, NDArray[Any]]:
    """The results by name, as `numpy.savez` names what has none; the only one by nothing."""
    if isinstance(values, Mapping):
        return dict(values)
    if isinstance(values, tuple):
        return {f"arr_{place}": one for place, one in enumerate(values)}
    return {"": values}


def _by_name(operands: list[EncryptedOperand]) -> dict[str, EncryptedOperand]:
    """The operands of --of."""
    found: dict[str, EncryptedOperand] = {}
    for operand in operands:
        if found.setdefault(operand.name, operand).digest != operand.digest:
            raise MismatchError(
                f"The operand {operand.name!r} was encrypted twice.", expected="one encryption", got="two"
            )
    return found
