"""Where files are written: whole or not at all where a file stands or will stand, straight into devices and pipes."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cipherblas.common.errors import CipherblasError, StorageError
from cipherblas.crypto.files import format as form
from cipherblas.crypto.files.streams import is_written, name_of, written

DESCRIPTORS = Path("/proc")  # /dev/stdout and /dev/fd/3 are links to links in there


def write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextlib.contextmanager
def replacing(path: form.Target, nbytes: int = 0, *, private: bool = False) -> Iterator[int]:
    """A descriptor to write to, whose file takes the place of `path` when the block ends without error.

    The bytes go to a temporary file in the same directory, which replaces `path` once they are on the disk. Where
    `path` is a symbolic link, the file that it leads to is replaced, and the link stays. Nothing replaces a device, a
    pipe or an open file by its descriptor (/dev/stdout): these are written to. So are streams, of which the bytes are
    complete before the first of them is written.

    Args:
        path: where to; its directory must exist. Or a stream, as `open(path, "wb")` gives it.
        nbytes: how many bytes will be written.
        private: a file made here is readable by its owner only (mode 0600).

    Raises:
        StorageError: for any error of the operating system; the temporary file is removed.
    """
    if is_written(path):
        with _told(name_of(path)), written(path) as descriptor:
            yield descriptor
        return
    target = _target(path)
    try:
        if target.through:
            with _open_through(target.path) as descriptor:
                yield descriptor
        else:
            with _new_file(target.path, nbytes, private) as descriptor:
                yield descriptor
    except OSError as error:
        if isinstance(error, CipherblasError):
            raise
        raise _write_error(target.path, nbytes, error) from error


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """The error of a stream that the system refuses."""
    try:
        yield
    except OSError as error:
        if isinstance(error, CipherblasError):
            raise
        raise form.storage_error("write", name, error) from error


def save_bytes(path: form.Target, content: bytes, *, private: bool = False) -> None:
    """Write a file that is not of this format, as `replacing` does; StorageError where the system refuses."""
    with replacing(path, len(content), private=private) as descriptor:
        write_all(descriptor, memoryview(content))


def check_writable(path: form.Target) -> None:
    """Raise the StorageError of `replacing` where `path` cannot be written, before the work that is to fill it."""
    if is_written(path):
        return
    target = _target(path)
    try:
        if not target.through:
            temporary, descriptor = _open_beside(target.path, 0, private=True)
            os.close(descriptor)
            os.unlink(temporary)
        # To open a pipe would wait for its reader, and to close it again would tell the reader that all was said.
        elif not os.access(target.path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _write_error(target.path, 0, error) from error


class _Target(NamedTuple):
    path: Path  # of the file to replace, which is no link; or of what is to be written to
    through: bool  # whether it is written to: a device, a pipe, an open file


def _target(path: form.Target) -> _Target:
    """Return how to write to a path; raise StorageError for a directory, a socket, or an inaccessible path."""
    given = Path(name_of(path))
    try:
        mode = _mode(given)
        if mode is not None and (not stat.S_ISREG(mode) or _is_descriptor(given)):
            return _Target(given, through=True)
        return _Target(Path(os.path.realpath(given)), through=False)
    except OSError as error:
        raise _write_error(given, 0, error) from error
    except ValueError as error:  # a zero byte in the name
        raise StorageError(
            "This is no name of a file.", got=repr(name_of(path)), advice=form.A_NAME
        ) from error


def _mode(path: Path) -> int | None:
    """The mode of the file that a path leads to; None where nothing is there."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISSOCK(mode):
        raise OSError(errno.ENXIO, "a socket")
    return mode


def _is_descriptor(path: Path) -> bool:
    """Whether a path leads to an open file by its descriptor: /dev/stdout, /dev/fd/3, /proc/self/fd/3."""
    while path.is_symlink():
        folder = Path(os.path.realpath(path.parent))
        if folder.is_relative_to(DESCRIPTORS):
            return True
        path = folder / os.readlink(path)
    return False


@contextlib.contextmanager
def _open_through(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _new_file(target: Path, nbytes: int, private: bool) -> Iterator[int]:
    """A temporary file that takes the place of `target` when the block ends without error."""
    temporary, descriptor = _open_beside(target, nbytes, private)
    try:
        try:
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
        _sync_directory(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _open_beside(target: Path, nbytes: int, private: bool) -> tuple[Path, int]:
    """A new temporary file in the folder of `target`, open for writing."""
    temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.partial")
    if shutil.disk_usage(target.parent).free < nbytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    mode = 0o600 if private else 0o666
    return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def _write_error(target: Path, nbytes: int, error: OSError) -> StorageError:
    if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return form.storage_error("write", target, error)
    try:
        free = f", {shutil.disk_usage(target.parent).free} bytes free"
    except OSError:
        free = ""
    got = f"{error.strerror}{free}"
    return form.storage_error("write", target, error, expected=f"room for {nbytes} bytes", got=got)


def _sync_directory(directory: Path) -> None:
    """Make a rename durable; some file systems do not offer that, and then there is nothing to do."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
