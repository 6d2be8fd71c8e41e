"""What a message between two ranks takes: run by `bench distributed` under mpiexec, on two ranks.

Rank 0 prints {"latency": α, "byte_seconds": β} in seconds: α of a message of one word with its header, β of the bytes
of a large one beyond that; one way, the least of several rounds.
"""

from __future__ import annotations

import json
import time

import numpy as np

from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.mpi import MpiCommunicator

ROUNDS, SMALL_PER_ROUND = 5, 50
WORDS = 1 << 22  # 32 MiB


def _round(communicator: Communicator, words: np.ndarray, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        if communicator.rank == 0:
            communicator.send("words", [words], 1)
            communicator.receive("words", 1)
        else:
            communicator.receive("words", 0)
            communicator.send("words", [words], 0)
        communicator.finish()
    return (time.perf_counter() - start) / (2 * times)


def main() -> None:
    """Both ranks."""
    communicator = MpiCommunicator()
    small, large = np.zeros(1, np.uint64), np.zeros(WORDS, np.uint64)
    latency = min(_round(communicator, small, SMALL_PER_ROUND) for _ in range(ROUNDS))
    whole = min(_round(communicator, large, 1) for _ in range(ROUNDS))
    if communicator.rank == 0:
        seconds = max(whole - latency, 0.0) / large.nbytes
        print(json.dumps({"latency": latency, "byte_seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
