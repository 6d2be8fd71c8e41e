"""`cipherblas keygen`: a secret key, and the public and evaluation keys that the plan declares."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cipherblas.cli.keyfolder import (
    EVALUATION,
    PROGRAM,
    PUBLIC,
    SECRET,
    folder_bytes,
    load_client_side,
    new_folder,
)
from cipherblas.cli.options import (
    Debug,
    Insecure,
    Json,
    PlanFile,
    Quiet,
    Security,
    Threads,
    output_option,
    use_threads,
)
from cipherblas.report import Display, print_json, size


def keygen(
    plan: PlanFile,
    output: Annotated[
        Path,
        output_option(
            "--output",
            "-o",
            metavar="KEYS",
            help="Folder to write: a new or an empty one.",
            show_default=False,
        ),
    ],
    security: Security = 128,
    insecure: Insecure = False,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make the keys of a program, given whole or as its file for clients.

    KEYS/secret-key stays with the client. KEYS/evaluation/ is public: copy that folder, and no other file of KEYS,
    to the server. KEYS/public-key is there when the plan has operands that are encrypted with the public key: give it,
    with the plan, to those who encrypt them.

    \b
    Examples:
      cipherblas keygen plan.cb -o keys/
      scp -r plan.cb keys/evaluation/ server:
    """
    use_threads(threads)
    display = Display(quiet=quiet)
    with display.progress("reading the plan") as progress:
        program = load_client_side(plan, security, insecure, progress)
    client = program.client()
    public = any(operand.public_key for operand in program.operands.values())
    with new_folder(output) as folder:
        with display.progress("writing the plan and the secret key") as progress:
            program.save(folder / PROGRAM, progress=progress)
            client.save(folder / SECRET)
            if public:
                client.public_key().save(folder / PUBLIC)
        (folder / EVALUATION).mkdir()
        with display.progress("making evaluation keys") as progress:
            client.write_evaluation_keys(folder / EVALUATION, progress)
    keys = program.plan.keys
    written = folder_bytes(output / EVALUATION)
    if json:
        print_json(
            {
                "program": program.id,
                "secret_key": str(output / SECRET),
                "public_key": str(output / PUBLIC) if public else None,
                "evaluation_keys": str(output / EVALUATION),
                "keys": len(keys),
                "file_bytes": written,
                "memory_bytes": program.plan.key_bytes,
            }
        )
    display.note(f"secret key       {output / SECRET} (keep it)")
    if public:
        display.note(f"public key       {output / PUBLIC} (for those who encrypt)")
    display.note(
        f"evaluation keys  {output / EVALUATION}: {len(keys)} keys, {size(written)} (for the server)"
    )
