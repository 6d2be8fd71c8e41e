"""Products in slots on real ranks of MPI: every way to share, every kernel, bit for bit what one process computes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.distributed.cuts import cut_of
from cipherblas.distributed.ranks import PER_OFFSET
from cipherblas.distributed.slots import DISTRIBUTIONS
from tests.distributed.test_slots_on_ranks import ON_DIAGONALS, SHAPES, InBlocks, T
from tests.support.mpi import PATIENCE, on_ranks
from tests.support.runs import toy

KERNELS = ("fhe-mm", "fame", "skewed", "bicyclic")
BLOCKS = {
    **SHAPES,
    "three": (20, 8, 8),
    **{f"diagonals {name}": shape for name, shape in ON_DIAGONALS.items()},
}
ON_RANKS = {  # which shapes, of which each kernel computes some: all of them with all kernels run on threads
    2: (*SHAPES, *(f"diagonals {name}" for name in ON_DIAGONALS)),
    3: ("indivisible", "diagonals left", "three"),
    4: ("square", "flat", "diagonals result", "three"),
}
RUNS = """
import json, sys
from pathlib import Path
import cipherblas as cb
from cipherblas.distributed.mpi import MpiCommunicator

folder = Path(sys.argv[1])
communicator, found = MpiCommunicator(), {}
for name, sharings in json.loads(sys.argv[2]).items():
    program = cb.Program.load(folder / name / "plan", insecure=True)
    keys = cb.EvaluationKeys.load(folder / name / "keys", insecure=True)
    sent = {x: cb.EncryptedOperand.load(folder / name / x, insecure=True) for x in "ab"}
    for sharing in sharings:
        server = program.server(keys, communicator=communicator, sharing=sharing)
        found[f"{name} {sharing}"] = server.run(sent).digest
        assert server.last.sent == server.rank_runs[communicator.rank].sent
if communicator.rank == 0:
    (folder / f"found-{communicator.size}").write_text(json.dumps(found))
communicator.barrier()
"""


def with_kernel(shape: str) -> str:
    """Neighbours in the list of shapes have unlike kernels."""
    return f"{KERNELS[list(BLOCKS).index(shape) % len(KERNELS)]} {shape}"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, InBlocks]]:
    """In files: each shape with its kernel."""
    folder, found = tmp_path_factory.mktemp("slots"), {}
    for name in {one for names in ON_RANKS.values() for one in map(with_kernel, names)}:
        kernel, shape = name.split(maxsplit=1)
        whole = InBlocks(BLOCKS[shape], kernel)
        place = folder / name
        place.mkdir()
        whole.program.save(place / "plan")
        whole.keys.save(place / "keys")
        for operand, one in whole.sent.items():
            one.save(place / operand)
        found[place.name] = whole
    return folder, found


@pytest.mark.parametrize("ranks", ON_RANKS)
def test_every_way_to_share(programs: tuple[Path, dict[str, InBlocks]], ranks: int) -> None:
    """Square, flat, large M, slim, indivisible, and squares of blocks; what is sent is what was planned."""
    folder, programs_of = programs
    each = {name: programs_of[name] for name in map(with_kernel, ON_RANKS[ranks])}
    wanted = {
        name: [
            one
            for one in DISTRIBUTIONS
            if shares(whole, ranks, one) and (one not in PER_OFFSET or name.startswith("fhe-mm"))
        ]
        for name, whole in each.items()
    }
    done = on_ranks(ranks, "-c", RUNS, str(folder), json.dumps(wanted), patience=3 * PATIENCE)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / f"found-{ranks}").read_text())
    assert len(found) == sum(map(len, wanted.values()))
    assert {name.split()[-1] for name in found} == set(DISTRIBUTIONS)
    for name, whole in each.items():
        for sharing in wanted[name]:
            assert found[f"{name} {sharing}"] == whole.alone.digest, (name, sharing)


def test_integers_modulo_t(tmp_path: Path) -> None:
    """The ciphertexts of one process, of a product and of what is computed with it."""
    program = toy(
        lambda a, b: (a @ b) * a - 3 * b,
        a=cb.secret(19, 19, modulus=T),
        b=cb.secret(19, 19, modulus=T),
        block=8,
        ring_degree=8192,
    )
    rng, client = np.random.default_rng(3), program.client()
    sent = client.encrypt({name: rng.integers(0, T, (19, 19)) for name in "ab"})
    keys, place = client.evaluation_keys(), tmp_path / "modular"
    place.mkdir()
    program.save(place / "plan")
    keys.save(place / "keys")
    for name, one in sent.items():
        one.save(place / name)
    sharings = ["4d-s", "4d-b", "e3d"]
    done = on_ranks(2, "-c", RUNS, str(tmp_path), json.dumps({"modular": sharings}))
    assert done.returncode == 0, done.stderr
    alone = program.server(keys).run(sent).digest
    found = json.loads((tmp_path / "found-2").read_text())
    assert found == {f"modular {sharing}": alone for sharing in sharings}


FAILS = """
import sys
from pathlib import Path
import cipherblas as cb
from cipherblas.distributed.mpi import MpiCommunicator

folder = Path(sys.argv[1])
communicator = MpiCommunicator()
program = cb.Program.load(folder / "plan", insecure=True)
keys = cb.EvaluationKeys.load(folder / "keys", insecure=True)
sent = {x: cb.EncryptedOperand.load(folder / x, insecure=True, lazy=True) for x in "ab"}
server = program.server(keys, communicator=communicator, sharing=sys.argv[2])
if communicator.rank == 1:
    server._equipment.keys._keys.clear()
server.run(sent)
"""


@pytest.mark.parametrize("sharing", ["4d*", "4d-b"])
def test_a_rank_that_fails_while_others_wait_for_its_blocks(
    programs: tuple[Path, dict[str, InBlocks]], sharing: str
) -> None:
    """In 4D, and in 4D-B, where a thread waits for them: all ranks end, and say why."""
    folder, _ = programs
    done = on_ranks(4, "-c", FAILS, str(folder / "fhe-mm square"), sharing)
    assert done.returncode != 0
    assert re.search(r"RankError: Rank 1 failed: .*There is no evaluation key for", done.stderr), done.stderr


def shares(whole: InBlocks, ranks: int, sharing: object) -> bool:
    """Whether there are ranks enough, or diagonals."""
    try:
        cut_of(whole.blocks, ranks, 1, sharing)  # type: ignore[arg-type]
    except cb.ParameterError:
        return False
    return True
