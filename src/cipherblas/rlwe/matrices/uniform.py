"""The a part of a fresh matrix, expanded from its public seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.memory import Array, aligned_empty, check_memory
from cipherblas.crypto import randomness
from cipherblas.crypto.params import Parameters
from cipherblas.rlwe.rings import moduli_at


def expand(
    params: Parameters, seed: bytes, limbs: int, rows: int, columns: NDArray[np.int64] | None = None
) -> Array:
    """The a part of a seed: row i of limb l is stream l·2^32 + i, modulo q_l, or the modulus number l of operands.

    Args:
        limbs: of the matrix; `operand_level` for the moduli of operands.
        columns: of the N that are kept, if not all.

    Returns:
        uint64 (limbs, rows, N or fewer), each limb below its modulus.

    Raises:
        MemoryBudgetError: it would not fit this machine's memory (a small file can ask for much).
    """
    width, count = params.n if columns is None else len(columns), len(moduli_at(params, limbs))
    check_memory(count * rows * width * 8, "expanding the a part of a matrix")
    a = aligned_empty((count, rows, width))
    if not width:
        return a
    context = params.context()
    moduli = moduli_at(params, limbs)

    words = aligned_empty((1, params.n + randomness.UNIFORM_SPARE_WORDS))
    for limb, row in np.ndindex(len(moduli), rows):  # one after the other: see `randomness.streams`
        randomness.keystream(seed, randomness.Purpose.MATRIX_UNIFORM, limb << 32 | row, words)
        if limbs > params.limbs:
            # Not one in 2^56 of the words is among those that an odd modulus leaves over.
            drawn = words[0, : params.n] % np.uint64(moduli[limb])
        else:
            drawn = np.asarray(context.uniform(words, [limb]))[0]
        a[limb, row] = drawn if columns is None else drawn[columns]
    return a
