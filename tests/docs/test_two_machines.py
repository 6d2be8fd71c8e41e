"""The guide for two machines, carried out: a folder for each machine, every command, every script."""

from __future__ import annotations

import glob
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cipherblas.cli.app import app
from tests.support import documents

pytestmark = pytest.mark.encrypted

GUIDE = documents.ROOT / "docs" / "two-machines.md"
MACHINES = ("client", "server", "source")
REMOTE = re.compile(rf"({'|'.join(MACHINES)}):project/(.*)")


@pytest.fixture
def machines(tmp_path: Path) -> dict[str, Path]:
    """A folder each for client, server and source of data; they share nothing."""
    folders = {name: tmp_path / name for name in MACHINES}
    for folder in folders.values():
        folder.mkdir()
    return folders


def execute(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copy(machines: dict[str, Path], own: str, arguments: list[str]) -> None:
    """`scp`, called on the machine `own`."""
    recursive = "-r" in arguments
    *sources, target = [argument for argument in arguments if argument != "-r"]

    def place(name: str) -> Path:
        remote = REMOTE.fullmatch(name)
        return machines[remote[1]] / remote[2] if remote else machines[own] / name

    for source in sources:
        (path,) = [Path(found) for found in glob.glob(str(place(source)))]
        into = place(target)
        into = into / path.name if into.is_dir() else into
        if path.is_dir():
            assert recursive, f"{source} is a folder: scp needs -r"
            shutil.copytree(path, into)
        else:
            shutil.copyfile(path, into)


def line_of_shell(machines: dict[str, Path], line: str) -> None:
    match = re.fullmatch(rf"({'|'.join(MACHINES)})\$ (.+)", line)
    assert match, f"a line of the guide has no prompt: {line}"
    folder = machines[match[1]]
    program, *arguments = shlex.split(match[2])
    if program == "scp":
        assert match[1] != "server"
        copy(machines, match[1], arguments)
    elif program == "cipherblas":  # in this process: one start of Python for all of them
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{line}\n{result.output}"
    else:
        assert program == "python"
        execute(folder, sys.executable, *arguments)


def scripts() -> dict[str, tuple[str, str]]:
    """File → (machine, text) of the guide's scripts."""
    found = {}
    for block in documents.blocks(GUIDE, "python"):
        title = re.match(rf"# ({'|'.join(MACHINES)}): (\w+\.py)\n", block.text)
        assert title, "a script of the guide has no title"
        found[title[2]] = title[1], block.text
    return found


def secret_files(folder: Path) -> list[Path]:
    return [
        path for path in folder.rglob("*") if path.is_file() and b'"secret-key"' in path.read_bytes()[:4096]
    ]


def test_commands(machines: dict[str, Path]) -> None:
    """All commands in their order; all results are right; no secret key leaves the client's folder."""
    *blocks, last = [block.text.splitlines() for block in documents.blocks(GUIDE, "console")]
    for line in (line for block in [*blocks, last] for line in block):
        line_of_shell(machines, line)
    client, server = machines["client"], machines["server"]
    a, b, c = (np.load(client / f"{name}.npy") for name in "ABC")
    assert np.abs(c - a @ b).max() <= 1e-4 * a.shape[1]
    w, x, y = np.load(server / "W.npy"), np.load(client / "x.npy"), np.load(client / "y.npy")
    assert np.abs(y - w @ x).max() <= 1e-4 * 3 * w.shape[1]
    source = machines["source"]
    v, z, u = np.load(client / "V.npy"), np.load(source / "z.npy"), np.load(client / "u.npy")
    assert np.abs(u - v @ z).max() <= 1e-4 * v.shape[1]
    # The source's script makes a file like that of its command: what follows the command is done again.
    (source / "z.ct").unlink()
    (source / "bring.py").write_text(scripts()["bring.py"][1], encoding="utf-8")
    execute(source, sys.executable, "bring.py")
    (command,) = [number for number, line in enumerate(last) if "--public-key" in line]
    (client / "u.npy").unlink()
    for line in last[command + 1 :]:
        line_of_shell(machines, line)
    assert np.abs(np.load(client / "u.npy") - v @ z).max() <= 1e-4 * v.shape[1]
    assert secret_files(client)
    assert not secret_files(server) and not secret_files(source)


def test_scripts(machines: dict[str, Path]) -> None:
    """The scripts of client and server, each in a process and a folder of its own; the source's is run above."""
    found = scripts()
    for name, (machine, text) in found.items():
        (machines[machine] / name).write_text(text, encoding="utf-8")
    owners = {"prepare.py": "client", "compute.py": "server", "finish.py": "client", "bring.py": "source"}
    assert {name: machine for name, (machine, _) in found.items()} == owners
    client, server = machines["client"], machines["server"]
    random = np.random.default_rng(3)
    np.save(client / "A.npy", random.uniform(-1, 1, (96, 64)))
    np.save(client / "B.npy", random.uniform(-1, 1, (64, 80)))
    execute(client, sys.executable, "prepare.py")
    for name in ("plan.cb", "evaluation-keys", "A.ct", "B.ct"):
        shutil.copyfile(client / name, server / name)
    execute(server, sys.executable, "compute.py")
    shutil.copyfile(server / "C.ct", client / "C.ct")
    execute(client, sys.executable, "finish.py")
    a, b, c = (np.load(client / f"{name}.npy") for name in "ABC")
    assert np.abs(c - a @ b).max() <= 1e-4 * a.shape[1]
    assert not secret_files(server)
