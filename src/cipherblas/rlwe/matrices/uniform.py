"""The a part of a fresh matrix, expanded from its public seed."""

from __future__ import annotations

import numpy as np

from cipherblas.common.memory import Array, aligned_empty, check_memory, in_threads
from cipherblas.crypto import randomness
from cipherblas.crypto.params import Parameters

_ROWS_PER_TASK = 32


def expand(params: Parameters, seed: bytes, limbs: int, rows: int) -> Array:
    """The a part of a seed: row i of limb l is stream l·2^32 + i, modulo q_l.

    Returns:
        uint64 (limbs, rows, N), each limb below its prime.

    Raises:
        MemoryBudgetError: it would not fit this machine's memory (a small file can ask for much).
    """
    check_memory(limbs * rows * params.n * 8, "expanding the a part of a matrix")
    a = aligned_empty((limbs, rows, params.n))
    context = params.context()

    def fill(task: tuple[int, int]) -> None:
        limb, start = task
        words = aligned_empty((1, params.n + randomness.UNIFORM_SPARE_WORDS))
        for row in range(start, min(start + _ROWS_PER_TASK, rows)):
            randomness.keystream(seed, randomness.Purpose.MATRIX_UNIFORM, limb << 32 | row, words)
            a[limb, row] = np.asarray(context.uniform(words, [limb]))[0]

    in_threads(fill, [(limb, start) for limb in range(limbs) for start in range(0, rows, _ROWS_PER_TASK)])
    return a
