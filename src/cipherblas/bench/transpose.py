"""Transposition of a matrix that is encrypted row by row, by coefficients (C-MT; Park, EUROCRYPT 2025).

One limb of 50 bits and one special prime, N = 2^12 or the least ring that holds the rows: a row is one
ciphertext. Timed is `_core.Context.transpose_rows` alone, from coefficients to coefficients. The result is
decrypted and compared with NumPy entry by entry, in units of the entries, which are uniform on [-1, 1] and
encrypted at scale 2^40.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cipherblas import randomness
from cipherblas.bench.harness import Row, measure, params_fields, peak_memory, row
from cipherblas.keys import KeyRequest, SecretKey, generate_secret, make_evaluation_keys
from cipherblas.memory import Array
from cipherblas.params import Parameters, make_parameters

POLICIES = ("fast", "light", "binary")
SCALE_BITS = 40.0
LEAST_ROWS, MOST_ROWS = 8, 1 << 13  # of what the core transposes
_LEAST_RING = 1 << 12  # of 128 bits of security with two primes of 50 bits


def run(
    shapes: Sequence[tuple[int, int]] = ((2048, 2048),),
    *,
    policies: Sequence[str] = ("fast", "light"),
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
    from cipherblas import _core

    unknown = sorted(set(policies) - set(POLICIES))
    if unknown:
        raise ValueError(f"policies: expected some of {', '.join(POLICIES)}, got {', '.join(unknown)}")
    for shape in shapes:
        if min(shape) < 1 or max(shape) > MOST_ROWS:
            raise ValueError(f"shape: expected 1 to {MOST_ROWS} rows and columns, got {shape[0]}x{shape[1]}")
    _core.set_threads(threads)
    for shape in shapes:
        case = _Case(*shape)
        for policy in policies:
            yield case.measure(policy, threads, budget)


class _Case:
    """An encrypted matrix and what it decrypts to."""

    def __init__(self, rows: int, columns: int) -> None:
        self.d = max(1 << (max(rows, columns) - 1).bit_length(), LEAST_ROWS)
        self.params = make_parameters(
            n=max(self.d, _LEAST_RING),
            q_bits=[50.0],
            special_bits=50.0,
            special_limbs=1,
            scale_bits=SCALE_BITS,
        )
        self.context = self.params.context()
        self.secret = generate_secret(self.params)
        self.matrix = np.random.default_rng(1).uniform(-1, 1, (rows, columns))
        self.a, self.b = encrypt_rows(self.secret, self.matrix, self.d)

    def measure(self, policy: str, threads: int, budget: float) -> Row:
        elements = self.context.transpose_elements(self.d, policy)
        made = make_evaluation_keys(self.secret, KeyRequest(dict.fromkeys(elements, 1)))
        keys = [made.get(element, 1) for element in elements]

        def work() -> tuple[Array, Array]:
            return self.context.transpose_rows(self.a, self.b, keys, policy)

        with peak_memory() as peak:
            result = work()
        rows, columns = self.matrix.shape
        found = decrypt_rows(self.secret, *result)[:columns, :rows]
        del result
        return row(
            "transpose",
            f"{rows}x{columns}",
            params=params_fields(self.params),
            algorithm=policy,
            threads=threads,
            timing=measure(work, budget=budget),
            error=float(np.abs(found - self.matrix.T).max()),
            key_bytes=made.nbytes,
            keys=len(keys),
            peak_bytes=peak.bytes,
        )


def encrypt_rows(secret: SecretKey, matrix: Array, d: int) -> tuple[Array, Array]:
    """Rows (rows, columns) as ciphertexts by coefficients, entry j at the power j·N/d of X, columns <= d.

    Returns:
        (a, b), uint64 (1, rows, N) and (1, rows, d), b at the powers of X^(N/d) alone.
    """
    params = secret.params
    context, rows = params.context(), len(matrix)
    purpose = randomness.Purpose.CIPHERTEXT_UNIFORM
    a = randomness.uniform(context, randomness.fresh_seed(), purpose, range(rows), [0] * rows)
    plain = randomness.noise(context, rows)[:, :d]
    plain[:, : matrix.shape[1]] += np.rint(matrix * 2.0**params.scale_bits).astype(np.int64)
    b = (plain - _products(secret, a, d)) % params.q[0]
    return a[np.newaxis], b.astype(np.uint64)[np.newaxis]


def decrypt_rows(secret: SecretKey, a: Array, b: Array) -> Array:
    """The entries (rows, d) of one-limb rows as `encrypt_rows` gives them, float64."""
    params: Parameters = secret.params
    q = params.q[0]
    phase = (_products(secret, a[0], b.shape[2]) + b[0].astype(np.int64)) % q
    centred = np.where(phase > q // 2, phase - q, phase)
    return np.asarray(centred / 2.0**params.scale_bits)


def _products(secret: SecretKey, a: Array, d: int) -> Array:
    """The d coefficients of each a·s that a row keeps, centred: int64 (rows, d). One limb is exact in float64."""
    context = secret.params.context()
    ciphertext = np.zeros((2, 1, context.n), np.uint64)
    products = np.empty((len(a), d), np.int64)
    for found, coefficients in zip(products, a, strict=True):
        ciphertext[1] = context.plaintext(coefficients.astype(np.int64), 1)
        found[:] = context.phase(secret.ntt(), ciphertext)[:: context.n // d]
    return products
