"""`cipherblas run`: the server's command. It reads public files only and holds no secret."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.arrays import lengths_of, load_array
from cipherblas.cli.keyfolder import without_secret_key
from cipherblas.cli.options import (
    NAMES,
    Debug,
    Insecure,
    Json,
    PlanFile,
    Quiet,
    Security,
    Threads,
    bytes_option,
    named_files,
    output_option,
    use_threads,
)
from cipherblas.cli.ranks import ranks, threads_of_rank
from cipherblas.common.process import peak_bytes
from cipherblas.crypto import files
from cipherblas.crypto.keys import EvaluationKeys
from cipherblas.report import Display, duration, print_json, size
from cipherblas.roles.program import Program
from cipherblas.roles.wire.messages import EncryptedOperand


class Distribution(str, Enum):
    """Ways to share the movements of blocks."""

    one_product = "t3d"
    none = "e3d"
    diagonals = "tdsc"
    per_rank = "4d-s"
    whole_blocks = "4d-b"
    all_ranks_on_3d_grid = "4d*"
    all_ranks = "4d"


def _file_option(name: str) -> Any:
    return typer.Option(
        f"--{name}",
        metavar="FILE",
        help=f"Operand {name}: ciphertexts, or .npy if it is clear.",
        show_default=False,
    )


def run(
    plan: PlanFile,
    evaluation_keys: Annotated[
        Path,
        typer.Argument(
            metavar="EVALUATION-KEYS", help="The `evaluation` folder of `keygen`.", show_default=False
        ),
    ],
    output: Annotated[
        Path,
        output_option("--output", "-o", help="Encrypted result to write.", show_default=False),
    ],
    a: Annotated[Path | None, _file_option("a")] = None,
    b: Annotated[Path | None, _file_option("b")] = None,
    c: Annotated[Path | None, _file_option("c")] = None,
    d: Annotated[Path | None, _file_option("d")] = None,
    operand: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="An operand of any name; repeatable.")
    ] = None,
    key_memory: Annotated[
        int | None,
        bytes_option(
            "--key-memory",
            "Memory for evaluation keys; if they need more, the rest is kept in a temporary file.",
            "all",
        ),
    ] = None,
    key_folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where that file goes.", show_default="the system's temporary folder"
        ),
    ] = None,
    weight_budget: Annotated[
        int | None,
        bytes_option(
            "--weight-budget",
            "Memory for the encoded weights of a network; the others go into a temporary file.",
            "half of what is available",
        ),
    ] = None,
    weight_folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where that temporary file lies.",
            show_default="the system's folder for temporary files",
        ),
    ] = None,
    sharing: Annotated[
        Distribution,
        typer.Option(help="How MPI ranks divide the rotations of a product."),
    ] = Distribution.per_rank,
    security: Security = 128,
    insecure: Insecure = False,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run a program on encrypted operands, with public keys only; under mpiexec on several ranks.

    \b
    Examples:
      cipherblas run plan.cb evaluation/ --a A.ct --b B.ct -o C.ct
      cipherblas run plan.cb evaluation/ --a weights.npy --b X.ct -o Y.ct
      cipherblas run plan.cb evaluation/ --operand weights=W.npy --operand x=X.ct -o Y.ct
      cipherblas run network.cb evaluation/ --operand x=image.ct --weight-budget 4GiB -o scores.ct
      mpiexec -n 4 cipherblas run plan.cb evaluation/ --a A.ct --b B.ct -o C.ct
    """
    given = locals()
    paths = named_files({name: given[name] for name in NAMES}, operand or [])
    with ranks(quiet) as communicator:
        files.check_writable(output)
        if weight_folder is not None:
            files.check_writable(weight_folder / "cipherblas-weights")
        alone, rank = communicator is None, 0 if communicator is None else communicator.rank
        use_threads(threads if alone or threads is not None else threads_of_rank())
        display = Display(quiet=quiet or rank > 0)
        with display.progress("reading the plan") as progress:
            program = Program.load(plan, security=security, insecure=insecure, progress=progress)
        _check_names(program, paths)
        operands: dict[str, Any] = {}
        for name, declared in program.operands.items():
            path = paths[name]
            with display.progress(f"reading {name}") as progress:
                if declared.secret:
                    operands[name] = EncryptedOperand.load(
                        path, security=security, insecure=insecure, lazy=True, progress=progress
                    )
                else:
                    operands[name] = load_array(path, (len(declared.shape),))
        with display.progress("reading the evaluation keys") as progress:
            keys = EvaluationKeys.load(
                without_secret_key(evaluation_keys),
                security=security,
                insecure=insecure,
                lazy=True,
                memory=key_memory,
                folder=key_folder,
            )
            server = program.server(
                keys,
                weight_budget=weight_budget,
                weight_folder=weight_folder,
                communicator=communicator,
                sharing=sharing.value,
            )
            server.load_keys(progress)  # once it is known that they are of this program
        with display.progress("computing") as progress:
            result = server.run(operands, progress=progress)
            report = server.last
        if rank == 0:
            with display.progress("writing") as progress:
                result.save(output, progress=progress)
        if communicator is not None:
            communicator.barrier()  # no rank ends before the result is written
    if rank:
        return
    if json:
        print_json(
            {
                "program": program.id,
                "file": str(output),
                "shape": lengths_of(result.shape),
                "ciphertexts": len(result.ciphertexts),
                "bytes": result.nbytes,
                **report.to_dict(),
                "peak_bytes": peak_bytes(),  # of this process, reading included
                **({} if communicator is None else {"ranks": communicator.size}),
            }
        )
    encoded = f", weights encoded in {duration(report.encoding_seconds)}" if report.encoding_seconds else ""
    display.note(
        f"wrote {output}: {size(result.nbytes)}, computed in {duration(report.seconds)}{encoded}, "
        f"peak memory {size(peak_bytes())}"
    )


def _check_names(program: Program, paths: dict[str, Path]) -> None:
    missing = [name for name in program.operands if name not in paths]
    unknown = [name for name in paths if name not in program.operands]
    if unknown:
        raise typer.BadParameter(
            f"the program has no operand {', '.join(unknown)}: expected {', '.join(program.operands)}"
        )
    if missing:
        options = " ".join(
            f"--{name} FILE" if name in NAMES else f"--operand {name}=FILE" for name in missing
        )
        raise typer.BadParameter(f"operands of the program are missing: add {options}")
