"""Transposition of a matrix that is encrypted row by row, by coefficients (C-MT; Park, EUROCRYPT 2025).

One limb of 50 bits and one special prime, N = 2^12 or the least ring that holds the rows: a row is one
ciphertext. Timed is `matrices.transpose`, from coefficients to coefficients. The result is decrypted and compared with
NumPy entry by entry, in units of the entries, which are uniform on [-1, 1] and encrypted at scale 2^40.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas.crypto.keys import generate_secret, make_evaluation_keys
from cipherblas.crypto.params import make_parameters
from cipherblas.rlwe import matrices
from cipherblas.rlwe.matrices.encryption import decrypt, encrypt_rows
from cipherblas.rlwe.matrices.matrix import bit_ceil
from cipherblas.rlwe.matrices.transposition import (
    POLICIES,
    TransposePolicy,
    transpose_plan,
    transpose_size,
)
from cipherblas_bench.harness import Row, measure, params_fields, peak_memory, row

SCALE_BITS = 40.0
_MIN_RING_DEGREE = 1 << 12  # of 128 bits of security with two primes of 50 bits
MAX_SIZE = 1 << 13  # rows and columns


def run(
    shapes: Sequence[tuple[int, int]] = ((2048, 2048),),
    *,
    policies: Sequence[TransposePolicy] = ("fast", "light"),
    threads: int = 1,
    budget: float = 1.0,
) -> Iterator[Row]:
    """Rows of `bench transpose`: one per shape and key policy.

    Args:
        shapes: (rows, columns) of each matrix; the keys are those of the least power of two d that holds both.
        policies: some of "fast" (d keys and switches), "light" (about 2·sqrt(d) keys, 2·d switches), "binary"
            (log2(d) keys, d·log2(d)/2 switches).
        threads: of the core.
        budget: seconds spent on each.

    Raises:
        ValueError: an unknown policy, or a matrix without rows or columns or with more than 2^13 of them.
        MemoryBudgetError: the keys would not fit this machine's memory.
    """
    import cipherblas._core as _core

    unknown = sorted(set(policies) - set(POLICIES))
    if unknown:
        raise ValueError(f"policies: expected some of {', '.join(POLICIES)}, got {', '.join(unknown)}")
    for shape in shapes:
        if min(shape) < 1 or max(shape) > MAX_SIZE:
            raise ValueError(f"shape: expected 1 to {MAX_SIZE} rows and columns, got {shape[0]}x{shape[1]}")
    _core.set_threads(threads)
    for shape in shapes:
        case = _Case(*shape)
        for policy in policies:
            yield case.measure(policy, threads, budget)


class _Case:
    """An encrypted matrix and what it decrypts to."""

    def __init__(self, rows: int, columns: int) -> None:
        self.params = make_parameters(
            n=max(bit_ceil(max(rows, columns)), _MIN_RING_DEGREE),
            q_bits=[50.0],
            special_bits=50.0,
            special_limbs=1,
            scale_bits=SCALE_BITS,
        )
        self.secret = generate_secret(self.params)
        self.matrix = np.random.default_rng(1).uniform(-1, 1, (rows, columns))
        self.encrypted: Any = encrypt_rows(self.secret, self.matrix, 2.0**SCALE_BITS)

    def measure(self, policy: TransposePolicy, threads: int, budget: float) -> Row:
        keys = make_evaluation_keys(self.secret, matrices.transpose_request(self.encrypted, policy))

        def work() -> Any:
            return matrices.transpose(self.encrypted, keys, policy)

        with peak_memory() as peak:
            result = work()
        found = decrypt(self.secret, result)
        del result
        return row(
            "transpose",
            "{}x{}".format(*self.matrix.shape),
            params=params_fields(self.params),
            algorithm=policy,
            threads=threads,
            timing=measure(work, budget=budget),
            error=float(np.abs(found - self.matrix.T).max()),
            rotations=transpose_plan(transpose_size(self.params, self.matrix.shape), policy).switches,
            products=0,
            key_bytes=keys.nbytes,
            upload_bytes=self.encrypted.nbytes,
            keys=len(keys),
            peak_bytes=peak.bytes,
        )
