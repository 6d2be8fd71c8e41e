"""`cipherblas run` under mpiexec: the files of one machine, the result of one process; ranks that fail end the run."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.roles.wire.messages import EncryptedResult
from tests.support.mpi import PATIENCE, on_ranks, started
from tests.support.runs import toy_rows, values_of

SECONDS = 20  # within which all ranks have ended, on a busy machine: some of them wait for a processor
RESOURCES = """
import resource, sys
from mpi4py import MPI
from pathlib import Path
import cipherblas as cb
from cipherblas.distributed.mpi import MpiCommunicator

folder, wanted = Path(sys.argv[1]), sys.argv[2]
communicator = MpiCommunicator()
program = cb.Program.load(folder / "plan", insecure=True)
keys = cb.EvaluationKeys.load(folder / "keys", insecure=True)
sent = {name: cb.EncryptedOperand.load(folder / name, insecure=True) for name in "ab"}
server = program.server(keys, communicator=communicator)
if communicator.rank == 1:
    if wanted == "exit":
        sys.exit()
    if wanted == "error":
        raise ValueError("a fault of one rank's own")
    if wanted == "memory":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 4096,) * 2)
    if wanted == "keys":
        server._equipment.keys._keys.clear()
found = len(server.run(sent).ciphertexts)
(folder / f"{wanted}-{communicator.rank}").write_text(str(found))  # outputs of ranks may mix
communicator.barrier()
"""


@dataclass(frozen=True)
class Files:
    """A program with its keys and operands in files, and the result of one process."""

    folder: Path
    program: cb.Program
    client: cb.Client
    alone: EncryptedResult

    def command(self, output: str, **others: str) -> list[str]:
        names = {"plan": "plan", "keys": "keys", "a": "a", "b": "b", **others}
        paths = {name: str(self.folder / file) for name, file in names.items()}
        files = [paths["plan"], paths["keys"], "--a", paths["a"], "--b", paths["b"]]
        return ["-m", "cipherblas", "run", *files, "-o", str(self.folder / output), "--insecure"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("ranks")
    program = toy_rows(lambda a, b: a @ b, a=cb.secret(64, 300), b=cb.secret(300, 70), precision=1e-2)
    client, values = program.client(), values_of(program)
    program.save(folder / "plan")
    client.encrypt(values)["a"].save(folder / "a-again")
    for name, operand in client.encrypt(values).items():
        operand.save(folder / name)
    keys = client.evaluation_keys()
    keys.save(folder / "keys")
    sent = {name: cb.EncryptedOperand.load(folder / name, insecure=True) for name in "ab"}
    client.evaluation_keys().save(folder / "keys-again")
    return Files(folder, program, client, program.server(keys).run(sent))


def test_files_of_one_machine_unchanged(files: Files) -> None:
    done = on_ranks(4, *files.command("result"), "--json")
    assert done.returncode == 0, done.stderr
    result = EncryptedResult.load(files.folder / "result", insecure=True)
    assert result.digest == files.alone.digest
    assert dict(result.operands) == dict(files.alone.operands)
    assert '"ranks": 4' in done.stdout and done.stdout.count('"program"') == 1
    assert np.abs(files.client.decrypt(result) - files.program.evaluate(values_of(files.program))).max() < 1


@pytest.mark.parametrize(
    ("others", "what"),
    [({"a": "a-again"}, "operand 'a'"), ({"keys": "keys-again"}, "set of evaluation keys")],
)
def test_ranks_with_other_files(files: Files, others: dict[str, str], what: str) -> None:
    """Every rank says which one, and what; one rank's own mount of a folder, say."""
    script = (
        "import os, sys; from cipherblas.cli import main; "
        "sys.argv = eval(sys.argv[1 + int(os.environ['PMI_RANK'])]); main()"
    )
    commands = [files.command("other"), files.command("other", **others)]
    done = on_ranks(2, "-c", script, *(repr(["cipherblas", *one[2:]]) for one in commands))
    assert done.returncode != 0
    assert done.stderr.count(f"Rank 1 holds another {what} than rank 0") == 2
    assert not list(files.folder.glob("*other*"))


def test_a_rank_that_is_killed(files: Files) -> None:
    """By the system, for its memory, say: the launcher ends the others, and its own process says which it was."""
    running = started(3, files.command("killed"))
    assert running.stderr is not None
    said = ""
    while (found := re.search(r"rank 1 of 3 \(process (\d+)", said)) is None:
        line = running.stderr.readline()
        assert line, said
        said += line
    os.kill(int(found[1]), signal.SIGKILL)
    begun = time.monotonic()
    _, rest = running.communicate(timeout=PATIENCE)
    assert time.monotonic() - begun < SECONDS
    assert running.returncode != 0
    assert re.search(r"error: rank 1 of 3 \(process \d+ on .*\) was ended by SIGKILL", said + rest)
    assert not list(files.folder.glob("*killed*"))
    assert on_ranks(2, *files.command("killed")).returncode == 0  # another try
    again = EncryptedResult.load(files.folder / "killed", insecure=True)
    assert again.digest == files.alone.digest


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("memory", "MemoryError|The machine is out of memory|There is not enough memory"),
        ("keys", "There is no evaluation key for"),
    ],
)
def test_a_rank_that_fails_on_its_way(files: Files, wanted: str, text: str) -> None:
    """It says why, and so do those that waited for it."""
    begun = time.monotonic()
    done = on_ranks(2, "-c", RESOURCES, str(files.folder), wanted)
    assert time.monotonic() - begun < SECONDS
    assert done.returncode != 0 and not (files.folder / f"{wanted}-0").exists()
    assert re.search(rf"RankError: Rank 1 failed: .*({text})", done.stderr), done.stderr


def test_ranks_through_the_library(files: Files) -> None:
    done = on_ranks(2, "-c", RESOURCES, str(files.folder), "nothing")
    assert done.returncode == 0, done.stderr
    found = [(files.folder / f"nothing-{rank}").read_text() for rank in range(2)]
    assert found == [str(len(files.alone.ciphertexts)), "0"]


@pytest.mark.parametrize(("wanted", "ranks"), [("exit", 2), ("error", 3)])
def test_a_rank_that_leaves_before_the_run(files: Files, wanted: str, ranks: int) -> None:
    """Without an error, or by one that the library knows nothing of: the others say which rank it was, and end."""
    begun = time.monotonic()
    done = on_ranks(ranks, "-c", RESOURCES, str(files.folder), wanted)
    assert time.monotonic() - begun < SECONDS
    assert done.returncode != 0 and not (files.folder / f"{wanted}-0").exists()
    assert re.search(r"RankError: Rank 1 failed: it left, and rank [02] waits for it", done.stderr), (
        done.stderr
    )
    assert wanted == "exit" or "a fault of one rank's own" in done.stderr


COMES = """
import sys
from mpi4py import MPI
from cipherblas.distributed.mpi import MpiCommunicator

if MPI.COMM_WORLD.Get_rank() != 1:
    MpiCommunicator(patience=2.0)
"""


def test_a_rank_that_never_comes() -> None:
    begun = time.monotonic()
    done = on_ranks(2, "-c", COMES)
    assert time.monotonic() - begun < SECONDS
    assert done.returncode != 0 and "MismatchError: Not every rank has made an MpiCommunicator" in done.stderr


OTHER_LENGTH = """
import sys
import numpy as np
from cipherblas.common.errors import CipherblasError
from cipherblas.distributed.communicator import KINDS, MARK
from cipherblas.distributed.mpi import MpiCommunicator

here = MpiCommunicator()
announced, sent = map(int, sys.argv[1:])
if here.rank == 0:
    here._put(np.array([MARK, KINDS.index("words"), 1, 1, announced, 0, 0, 0], np.uint64), 1)
    here._put(np.zeros(sent, np.uint64), 1)
    here.finish()
else:
    try:
        here.receive("words", 0)
    except CipherblasError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("announced", [6, 10000])
@pytest.mark.parametrize("difference", [-1, 1])
def test_an_array_of_another_length_than_it_announced(announced: int, difference: int) -> None:
    done = on_ranks(2, "-c", OTHER_LENGTH, str(announced), str(announced + difference))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("MismatchError Rank 0 sent an array of another length"), done.stdout
