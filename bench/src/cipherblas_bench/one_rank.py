"""One rank of a program in files, several times in one process: run by `bench distributed`, under mpiexec.

Rank 0 writes the result, and prints JSON: seconds of the first run, in which memory is handed out page by page and
masks are encoded, and of the fastest later one; what the ranks did and sent in that one, and the nodes of rank 0; and
the machine as this rank finds it, measured while the others measure theirs: ranks on one machine have less of its
memory and its clock than one alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import cipherblas._core as _core
from cipherblas.common.process import peak_bytes
from cipherblas.crypto.keys import EvaluationKeys
from cipherblas.distributed.communicator import Communicator, Sent
from cipherblas.distributed.mpi import MpiCommunicator, ranks_launched
from cipherblas.roles.program import Program
from cipherblas.roles.wire.messages import EncryptedOperand, EncryptedResult
from cipherblas_bench.harness import machine_of_predictions


def main(arguments: Sequence[str] | None = None) -> None:
    """Every rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="plan, keys, a and b; result is written there")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--sharing", default="4d-s")
    given = parser.parse_args(arguments)
    _core.set_threads(given.threads)
    communicator = MpiCommunicator() if ranks_launched() > 1 else None
    try:
        found, result = _runs(given, communicator)
        if communicator is None or communicator.rank == 0:
            result.save(given.folder / "result")
        if communicator is not None:
            communicator.barrier()
        found["machine"] = machine_of_predictions().to_dict()
        if communicator is None or communicator.rank == 0:
            print(json.dumps(found), flush=True)
        if communicator is not None:
            communicator.barrier()
    except BaseException as error:
        if communicator is not None:
            communicator.failed(error)
        raise


def _runs(given: Any, communicator: Communicator | None) -> tuple[dict[str, Any], EncryptedResult]:
    """The runs of this rank, and the result of the last."""
    program = Program.load(given.folder / "plan")
    lazy = communicator is not None
    sent = {name: EncryptedOperand.load(given.folder / name, lazy=lazy) for name in program.operands}
    keys = EvaluationKeys.load(given.folder / "keys", lazy=True)
    server = program.server(keys, communicator=communicator, sharing=given.sharing)
    server.load_keys()
    runs: list[dict[str, Any]] = []
    result: EncryptedResult | None = None
    for _ in range(given.times):
        result = None  # the memory of a run is that of one result
        result = server.run(sent)
        ranks = [asdict(one) for one in server.last.rank_times]
        sent_by_each = _of_all(communicator, server.last.sent)
        nodes = [asdict(one) for one in server.last.node_seconds]
        runs.append(
            {"seconds": server.last.seconds, "sent": sent_by_each, "rank_times": ranks, "nodes": nodes}
        )
    assert result is not None
    least = min(runs[1:] or runs, key=lambda one: float(one["seconds"]))
    return {**least, "first_seconds": runs[0]["seconds"], "peak_bytes": peak_bytes()}, result


def _of_all(communicator: Communicator | None, sent: Sent) -> list[dict[str, int]]:
    """What every rank sent, on rank 0."""
    if communicator is None:
        return [asdict(sent)]
    words = np.array(list(asdict(sent).values()), np.uint64)
    found = communicator.gather("times", [words]) or [[words]]
    return [dict(zip(asdict(sent), map(int, one[0]), strict=True)) for one in found]


if __name__ == "__main__":
    main()
