"""The a part of a fresh matrix, expanded from its public seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.memory import Array, aligned_empty, check_memory
from cipherblas.crypto import randomness
from cipherblas.crypto.params import Parameters


def expand(
    params: Parameters, seed: bytes, limbs: int, rows: int, columns: NDArray[np.int64] | None = None
) -> Array:
    """The a part of a seed: row i of limb l is stream l·2^32 + i, modulo q_l.

    Args:
        columns: of the N that are kept, if not all.

    Returns:
        uint64 (limbs, rows, N or fewer), each limb below its prime.

    Raises:
        MemoryBudgetError: it would not fit this machine's memory (a small file can ask for much).
    """
    width = params.n if columns is None else len(columns)
    check_memory(limbs * rows * width * 8, "expanding the a part of a matrix")
    a = aligned_empty((limbs, rows, width))
    if not width:
        return a
    context = params.context()

    words = aligned_empty((1, params.n + randomness.UNIFORM_SPARE_WORDS))
    for limb, row in np.ndindex(limbs, rows):  # one after the other: see `randomness.streams`
        randomness.keystream(seed, randomness.Purpose.MATRIX_UNIFORM, limb << 32 | row, words)
        drawn = np.asarray(context.uniform(words, [limb]))[0]
        a[limb, row] = drawn if columns is None else drawn[columns]
    return a
