"""Files when the system refuses: typed errors, and nothing half-written is left."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cipherblas.common.errors import FormatError, MismatchError, StorageError
from cipherblas.crypto import files
from cipherblas.crypto.files import reading, writing
from tests.support.file_samples import TOY, tensors, write

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"gone.*expected a ciphertext, got No such file") as caught:
        files.read(tmp_path / "gone", "ciphertext", insecure=True)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(StorageError, match="got a directory"):
        files.read(tmp_path, "ciphertext", insecure=True)
    with pytest.raises(StorageError):
        files.read(tmp_path / "x" / "y", "ciphertext", insecure=True)
    with pytest.raises(StorageError):
        files.read("a\0b", "ciphertext", insecure=True)
    for target in (tmp_path, tmp_path / "gone" / "x", Path("/proc/x"), Path()):
        for make in (write, files.check_writable):
            with pytest.raises(StorageError, match="Cannot write"):
                make(target)
    assert list(tmp_path.iterdir()) == []


def test_the_check_of_a_target_leaves_what_is_there(tmp_path: Path) -> None:
    raw = write(tmp_path / "x")
    for target in (tmp_path / "x", tmp_path / "y"):
        files.check_writable(target)
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]
    assert (tmp_path / "x").read_bytes() == raw


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    for folder in ("files", "links"):
        (tmp_path / folder).mkdir()
    raw = write(tmp_path / "files" / "x")
    (tmp_path / "files" / "x").write_bytes(b"earlier")
    (tmp_path / "links" / "one").symlink_to("../files/x")
    (tmp_path / "links" / "two").symlink_to("one")
    (tmp_path / "links" / "new").symlink_to("../files/y")
    for link, file in (("two", "x"), ("new", "y")):
        files.check_writable(tmp_path / "links" / link)
        write(tmp_path / "links" / link)
        assert (tmp_path / "links" / link).is_symlink()
        assert (tmp_path / "files" / file).read_bytes() == raw
        assert not (tmp_path / "files" / file).is_symlink()
    assert sorted(one.name for one in (tmp_path / "files").iterdir()) == ["x", "y"]
    assert sorted(one.name for one in (tmp_path / "links").iterdir()) == ["new", "one", "two"]
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "nowhere").symlink_to("gone/x")
    (tmp_path / "folder").symlink_to("files")
    for name in ("circle", "nowhere", "folder"):
        for make in (write, files.check_writable):
            with pytest.raises(StorageError, match="Cannot write"):
                make(tmp_path / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
@pytest.mark.parametrize("link", [False, True])
def test_a_device_is_written_to(tmp_path: Path, link: bool) -> None:
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices cannot be made in this container")
    (tmp_path / "link").symlink_to("null")
    target = tmp_path / "link" if link else device
    files.check_writable(target)
    files.write(target, "ciphertext", {}, tensors(), parameters=TOY)
    files.save_bytes(target, b"text", private=True)
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert os.readlink(tmp_path / "link") == "null"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link", "null"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    raw = write(tmp_path / "x")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    files.check_writable(pipe)  # nobody reads yet: it does not wait
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    files.write(pipe, "ciphertext", {}, tensors(), parameters=TOY)
    reader.join(30)
    assert len(found[0]) == len(raw)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_an_open_file_is_written_to_by_its_descriptor(tmp_path: Path) -> None:
    """As /dev/stdout is, where the shell redirects it: what the shell opened stays in place, and is not cut."""
    with (tmp_path / "out").open("wb", buffering=0) as stream:
        stream.write(b"before ")
        inode = (tmp_path / "out").stat().st_ino
        (tmp_path / "link").symlink_to(f"/dev/fd/{stream.fileno()}")
        for target in (f"/dev/fd/{stream.fileno()}", tmp_path / "link"):
            files.check_writable(target)
            files.save_bytes(target, b"text ")
    assert (tmp_path / "out").read_bytes() == b"before text text "
    assert (tmp_path / "out").stat().st_ino == inode


def test_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for make in (write, files.check_writable):
            with pytest.raises(StorageError, match="Cannot write"):
                make(tmp_path / "socket")
    assert stat.S_ISSOCK((tmp_path / "socket").lstat().st_mode)


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="special file"):
        files.read(tmp_path / "pipe", "ciphertext", insecure=True)


def test_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "x")
    if os.geteuid() == 0:  # root may read everything: let the system call refuse instead
        refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        def refuse(*arguments: Any, **options: Any) -> int:
            raise refused

        monkeypatch.setattr(os, "open", refuse)
    else:
        (tmp_path / "x").chmod(0)
        tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="Permission") as caught:
            files.read(tmp_path / "x", "ciphertext", insecure=True)
        assert caught.value.errno == errno.EACCES
        with pytest.raises(StorageError, match="Permission"):
            write(tmp_path / "y")
    finally:
        monkeypatch.undo()
        tmp_path.chmod(0o700)


def test_modes(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        write(tmp_path / "public")
        write(tmp_path / "private", "secret-key", private=True)
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "public").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_a_private_file_is_private_from_its_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    whole = writing.write_all

    def spy(descriptor: int, data: memoryview) -> None:
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        whole(descriptor, data)

    monkeypatch.setattr(writing, "write_all", spy)
    write(tmp_path / "private", "secret-key", private=True)
    assert seen
    assert set(seen) == {0o600}


@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EIO, "I/O"),
        KeyboardInterrupt(),
        MemoryError(),
    ],
    ids=["full", "broken", "ctrl-c", "memory"],
)
@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, earlier: bool, call: str
) -> None:
    if earlier:
        write(tmp_path / "x")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def fail(*arguments: Any) -> int:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(StorageError if isinstance(failure, OSError) else type(failure)) as caught:
            write(tmp_path / "x")
    if isinstance(failure, OSError):
        assert caught.value.errno == failure.errno
    if getattr(failure, "errno", 0) == errno.ENOSPC:
        assert "expected room for" in str(caught.value)
        assert "bytes free" in str(caught.value)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_full_disk_is_noticed_before_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    opened: list[Any] = []
    monkeypatch.setattr(writing, "write_all", lambda *details: opened.append(details))
    with pytest.raises(StorageError, match="100 bytes free"):
        write(tmp_path / "x")
    assert opened == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_size_limit_of_the_system(tmp_path: Path) -> None:
    script = (
        "import resource, sys, numpy as np\n"
        "from cipherblas.crypto import files\n"
        "from cipherblas.common.errors import StorageError\n"
        "from cipherblas.crypto.params import Parameters\n"
        "toy = Parameters(16, (97, 193), (257,), 1, 6.0, 0, insecure=True)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "try:\n"
        "    files.write(sys.argv[1], 'ciphertext', {}, {'b': np.zeros(100000, np.uint8)}, parameters=toy)\n"
        "except StorageError as error:\n"
        "    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "x")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "expected room for" in result.stdout, result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_vanishes_before_it_is_opened(tmp_path: Path) -> None:
    write(tmp_path / "x")
    (tmp_path / "x").unlink()
    with pytest.raises(StorageError):
        files.read(tmp_path / "x", "ciphertext", insecure=True)


def test_a_file_that_vanishes_while_open_is_still_read(tmp_path: Path) -> None:
    write(tmp_path / "x")
    with files.Reader(tmp_path / "x", "ciphertext", insecure=True) as reader:
        (tmp_path / "x").unlink()
        np.testing.assert_array_equal(reader.read("b"), tensors()["b"])


def read_all(reader: files.Reader) -> None:
    for name in reader.tensors:
        reader.read(name)


@pytest.mark.parametrize("left", [0, 4, 100, -1])
def test_a_file_that_shrinks_while_open(tmp_path: Path, left: int) -> None:
    raw = write(tmp_path / "x")
    with files.Reader(tmp_path / "x", "ciphertext", insecure=True) as reader:
        os.truncate(tmp_path / "x", left % len(raw))
        with pytest.raises(StorageError, match="became shorter"):
            read_all(reader)


def test_a_file_that_shrinks_before_its_header_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "x")
    judge = reading._parse_container

    def shrink(*details: Any) -> Any:
        os.truncate(tmp_path / "x", 0)
        return judge(*details)

    monkeypatch.setattr(reading, "_parse_container", shrink)
    with pytest.raises((FormatError, StorageError)):
        files.read(tmp_path / "x", "ciphertext", insecure=True)


def test_a_file_truncated_all_the_while_kills_no_process(tmp_path: Path) -> None:
    """Another process truncates and restores it while it is read: the header, megabytes of it, and the data."""
    files.write(tmp_path / "x", "ciphertext", {"long": "é" * 2_000_000}, tensors(), parameters=TOY)
    raw = (tmp_path / "x").read_bytes()
    script = (
        "import sys, time\n"
        "from cipherblas.crypto import files\n"
        "from cipherblas.common.errors import CipherblasError\n"
        "end, read, refused = time.monotonic() + 1, 0, 0\n"
        "while time.monotonic() < end or not (read and refused) and time.monotonic() < end + 60:\n"
        "    try:\n"
        "        files.read(sys.argv[1], 'ciphertext', insecure=True)\n"
        "        read += 1\n"
        "    except CipherblasError:\n"
        "        refused += 1\n"
        "print('read' if read else '', 'refused' if refused else '')\n"
    )
    reader = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "x")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with (tmp_path / "x").open("r+b") as file:
        pause = 0.001
        while reader.poll() is None:
            os.truncate(file.fileno(), 100)
            os.pwrite(file.fileno(), raw, 0)
            time.sleep(pause)
            pause = pause * 1.2 if pause < 0.1 else 0.001
    assert reader.communicate()[0].split() == ["read", "refused"]
    assert reader.returncode == 0


def test_a_file_overwritten_while_open(tmp_path: Path) -> None:
    write(tmp_path / "x")
    with files.Reader(tmp_path / "x", "ciphertext", insecure=True) as reader:
        with (tmp_path / "x").open("r+b") as file:
            file.seek(-1000, os.SEEK_END)
            file.write(b"?" * 1000)
        with pytest.raises(FormatError, match="damaged"):
            read_all(reader)


def test_a_read_error_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "x")
    with files.Reader(tmp_path / "x", "ciphertext", insecure=True) as reader:

        def fail(*details: Any) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "preadv", fail)
        with pytest.raises(StorageError) as caught:
            reader.read("b")
        assert caught.value.errno == errno.EIO
        with pytest.raises(StorageError):
            files.read(tmp_path / "x", "ciphertext", insecure=True)


def test_no_descriptor_is_lost(tmp_path: Path) -> None:
    raw = write(tmp_path / "x")
    (tmp_path / "bad").write_bytes(raw[:-1])
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        files.read(tmp_path / "x", "ciphertext", insecure=True)
        with pytest.raises(FormatError):
            files.read(tmp_path / "bad", "ciphertext", insecure=True)
        with pytest.raises(MismatchError):
            files.read(tmp_path / "x", "program", insecure=True)
    assert len(os.listdir("/dev/fd")) == before
