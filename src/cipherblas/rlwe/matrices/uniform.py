"""The a part of a fresh matrix, expanded from its public seed."""

from __future__ import annotations

import numpy as np

from cipherblas.common.memory import Array, aligned_empty, check_memory
from cipherblas.crypto import randomness
from cipherblas.crypto.params import Parameters


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

    words = aligned_empty((1, params.n + randomness.UNIFORM_SPARE_WORDS))
    for limb, row in np.ndindex(limbs, rows):  # one after the other: see `randomness.streams`
        randomness.keystream(seed, randomness.Purpose.MATRIX_UNIFORM, limb << 32 | row, words)
        a[limb, row] = np.asarray(context.uniform(words, [limb]))[0]
    return a
