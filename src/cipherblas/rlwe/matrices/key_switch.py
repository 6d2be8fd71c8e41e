"""Key switching of ring elements in coefficient form, by the linear-transform executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cipherblas.common.memory import Array
from cipherblas.crypto.params import Parameters


class Switched(NamedTuple):
    """Two sums per output in the coefficient domain, uint64 (limbs, outputs, N) each: by the first component of the
    keys (b), and by the second (a)."""

    first: Array
    second: Array


def switch(
    params: Parameters, x: Array, keys: Array, terms: Sequence[tuple[int, int, int]], outputs: int
) -> Switched:
    """Sums of key switches: every element is decomposed once, every output divided by P once.

    Args:
        x: uint64 (limbs, count, N), coefficients.
        keys: uint64 (keys, *key_shape), Montgomery NTT form, packed, for at least as many limbs.
        terms: (output, element, key).
        outputs: number of sums.
    """
    context = params.context()
    limbs, count, n = x.shape
    ciphertexts = np.zeros((count, 2, limbs, n), np.uint64)
    ciphertexts[:, 1] = context.rows_to_ntt(np.ascontiguousarray(x))
    # Galois element 1: nothing is permuted; the b part of these ciphertexts is 0.
    planned = [(output, element, 1, key, -1) for output, element, key in terms]
    sums = np.stack(
        context.linear_transform(list(ciphertexts), planned, list(keys), [], outputs, False, "limb")
    )
    first, second = (context.rows_from_ntt(np.ascontiguousarray(sums[:, part])) for part in (0, 1))
    return Switched(np.asarray(first), np.asarray(second))
