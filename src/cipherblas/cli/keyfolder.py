"""The client's folder: its copy of the program, the secret key, and apart from them what the server gets.

keys/program        the planned program
keys/secret-key     readable by its owner only; never leaves this folder
keys/secret-key.record  the latest encryptions with the key, and what of its budget was shared; stays with the key
keys/secret-key.lock    held by who changes the record, and how many results were shared; stays with the key
keys/public-key     where the plan has operands for it: to be given to those who encrypt them
keys/evaluation/    public evaluation keys: to be copied to the server
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cipherblas.common.errors import StorageError
from cipherblas.common.progress import Progress
from cipherblas.roles.client import Client
from cipherblas.roles.program import Program

PROGRAM, SECRET, PUBLIC, EVALUATION = "program", "secret-key", "public-key", "evaluation"


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name `path` when the block ends without error; else nothing is left.

    Raises:
        StorageError: `path` is a file or holds files (keys are never overwritten), or the system refuses.
    """
    target = Path(os.path.abspath(path))
    temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.partial")
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StorageError(
                f"Cannot write {path}.",
                expected="a new or an empty folder (keys are never overwritten)",
                got="a folder with files" if target.is_dir() else "a file",
                errno=errno.EEXIST,
            )
        try:
            temporary.mkdir(mode=0o700)
            yield temporary
            temporary.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except StorageError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"Cannot write {path}.", got=reason, errno=error.errno) from error


def open_client(folder: Path, security: int, insecure: bool, progress: Progress) -> Client:
    """The client of a folder that `keygen` wrote; progress and errors as `Program.load` and `Client.load`."""
    if not folder.is_dir():
        got = "a file" if folder.exists() else "nothing there"
        raise StorageError(
            f"Cannot read {folder}.", expected="a folder that `cipherblas keygen` wrote", got=got
        )
    program = Program.load(folder / PROGRAM, security=security, insecure=insecure, progress=progress)
    return Client.load(folder / SECRET, program, security=security, insecure=insecure)


def folder_bytes(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
