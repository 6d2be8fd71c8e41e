"""The a part of a fresh matrix, expanded from its public seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.memory import Array, aligned_empty, check_memory
from cipherblas.crypto import randomness
from cipherblas.crypto.params import Parameters
from cipherblas.rlwe.basis import Basis


def expand(
    params: Parameters,
    seed: bytes,
    basis: Basis,
    rows: int,
    columns: NDArray[np.int64] | None = None,
    first: int = 0,
) -> Array:
    """The a part of a seed: row i of limb l is stream l·2^32 + i, modulo q_l; of operands, of word l of their residues.

    Args:
        basis: of the matrix.
        rows: how many.
        columns: of the N that are kept, if not all.
        first: of the rows.

    Returns:
        uint64 (limbs, rows, N or fewer), each limb below its modulus; of operands (words, rows, N or fewer).

    Raises:
        MemoryBudgetError: it would not fit this machine's memory (a small file can ask for much).
    """
    width, count = params.n if columns is None else len(columns), basis.words(params)
    check_memory(count * rows * width * 8, "expanding the a part of a matrix")
    a = aligned_empty((count, rows, width))
    if not width:
        return a
    context = params.context()
    moduli = list(params.operand_moduli or ())
    spare = (
        params.n if basis.of_operands else randomness.UNIFORM_SPARE_WORDS
    )  # two words for each of operands

    words = aligned_empty((1, params.n + spare))
    for limb, row in np.ndindex(count, rows):  # one after the other: see `randomness.streams`
        randomness.keystream(seed, randomness.Purpose.MATRIX_UNIFORM, limb << 32 | first + row, words)
        if basis.of_operands:
            drawn = np.asarray(_core.uniform_operands(words.reshape(params.n, 2), moduli, limb))
        else:
            drawn = np.asarray(context.uniform(words, [limb]))[0]
        a[limb, row] = drawn if columns is None else drawn[columns]
    return a
