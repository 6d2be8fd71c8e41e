"""The client's folder: its copy of the program, the secret key, and apart from them what the server gets.

keys/program        the planned program, or what a client needs of it
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

from cipherblas.common.errors import MismatchError, StorageError
from cipherblas.common.progress import Progress
from cipherblas.roles.client import Client
from cipherblas.roles.client_program import KIND as CLIENT_KIND
from cipherblas.roles.client_program import ClientProgram
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
                f"Cannot write {path}: it is {'a folder with files' if target.is_dir() else 'a file'}.",
                errno=errno.EEXIST,
                advice="a new or an empty folder",
                cause="Keys are never overwritten.",
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
    if not (folder / PROGRAM).exists():
        got = "another folder" if folder.is_dir() else "a file" if folder.exists() else "nothing there"
        around = folder.parent if (folder.parent / SECRET).is_file() else None
        raise StorageError(
            f"Cannot read {folder}.",
            expected="a folder that `cipherblas keygen` wrote",
            got=got,
            advice=f"cipherblas keygen PROGRAM -o {folder if got == 'nothing there' else 'keys'}"
            if around is None
            else str(around),
        )
    program = load_client_side(folder / PROGRAM, security, insecure, progress)
    return Client.load(folder / SECRET, program, security=security, insecure=insecure)


def load_client_side(
    path: Path, security: int, insecure: bool, progress: Progress
) -> Program | ClientProgram:
    """A program, whole or without weights; progress and errors as `Program.load`."""
    try:
        return Program.load(path, security=security, insecure=insecure, progress=progress)
    except MismatchError as error:
        if error.got != CLIENT_KIND:
            raise
    return ClientProgram.load(path, security=security, insecure=insecure, progress=progress)


def without_secret_key(path: Path) -> Path:
    """A file or folder of evaluation keys; StorageError for the folder of a client."""
    if (path / SECRET).exists() and (path / EVALUATION).is_dir():
        raise StorageError(
            f"{path} is the folder of a client.",
            advice=str(path / EVALUATION),
            cause="It holds the secret key, which a server must not have.",
        )
    return path


def folder_bytes(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
