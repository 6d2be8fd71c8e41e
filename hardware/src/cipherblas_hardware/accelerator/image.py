"""What lies in the memory of an accelerator: keys and plaintexts as plain residues, limb by limb."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas_hardware.accelerator.isa import Words
from cipherblas_hardware.accelerator.residues import product, transformed

MONTGOMERY_BITS = 52  # the core keeps keys times 2^52


def plain_key(context: _core.Context, key: Words) -> list[list[list[Words]]]:
    """Residues of a switching key, by digit, component and limb: of as many limbs of Q as it was made for, then of P.

    Args:
        context: the core's, of the parameters.
        key: as evaluation keys hold it, Montgomery form, packed.
    """
    moduli = list(context.moduli)
    special = len(moduli) - context.num_q
    found = []
    for digit in key:
        halves = []
        for half in digit:
            rows = context.unpack_key(half)
            own = moduli[: len(rows) - special] + moduli[context.num_q :]
            halves.append([_plain(row, q) for row, q in zip(rows, own, strict=True)])
        found.append(halves)
    return found


def _plain(row: Words, q: int) -> Words:
    """Residues without the factor of Montgomery's form."""
    return product(row, np.uint64(pow(1 << MONTGOMERY_BITS, -1, q)), q)


def plain_residues(coefficients: NDArray[np.int64], moduli: Sequence[int]) -> list[Words]:
    """Evaluations of a plaintext modulo each prime."""
    return [transformed(np.mod(coefficients, np.int64(q)).astype(np.uint64), q) for q in moduli]
