"""Matrix products modulo q beside the plain float64 product of that shape, by the same BLAS and number of threads.

================  ==================================================================================================
float64           float64 matrices: the yardstick of the others
ifma              residues × residues, register tiles of 52-bit multiply-adds
strassen          the same with one level of Strassen's algorithm; `strassen2` with two
blas 22           residues × residues of 22 bits by exact float64 products: one up to k = 2048, chunks of it beyond
blas              residues × residues by exact float64 products of their digits
operands 64       residues modulo eight moduli of a byte by products of bytes, switched to a prime of 40 bits
bytes 15          residues × residues of 15 bits by exact products of two bytes each
small exact       int8 × residues by exact float64 products of the digits of the residues
small rounded     int8 × residues by one float64 product, rounded
small bytes       int8 × residues by exact products of bytes
small ifma        int8 × residues, register tiles
scalar            residues × residues in 128-bit integers: the reference; small shapes only
================  ==================================================================================================

All are measured in turns, into results that are there already. The first rows of each are compared with the reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cipherblas.crypto.fields import OPERAND_MODULI
from cipherblas_bench.harness import MeasurementError, Row, Timing, in_turns, local, peak_memory, row

YARDSTICK = "float64"
BYTE_BITS, MIN_BYTE_BITS = 15, 9  # of moduli from 256 to 65279
OPERANDS = 8  # moduli of a byte each
NARROW_BITS = 22  # one exact float64 product: (2^21)^2 · 2048 = 2^53
MAX_U = 127
REFERENCE_WORK = 1 << 27  # multiply-adds that the reference is asked for
CHECKED_ROWS = 4

Matrix = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """One path: what it computes, and the modulus it does that by (0: none)."""

    name: str
    work: Callable[[], Any]
    result: Callable[[], Matrix]
    reference: Callable[[], Matrix] | None = None
    modulus: int = 0
    bound: float = 0.0

    def error(self) -> float | None:
        """Largest difference from the reference in the first rows, centred."""
        if self.reference is None:
            return None
        want = self.reference()
        q = np.uint64(self.modulus)
        difference = (self.result()[: len(want)] + (q - want)) % q
        error = int(np.minimum(difference, q - difference).max())
        if error > self.bound:
            raise MeasurementError(f"{self.name}: off by {error}, where at most {self.bound:g} is right")
        return float(error)


def run(
    shapes: Sequence[tuple[int, int, int]] = ((1024, 1024, 1024),),
    *,
    bits: int = 50,
    threads: int = 1,
    budget: float = 1.0,
) -> Iterator[Row]:
    """Rows of `bench gemm`: one per shape and path.

    Args:
        shapes: (m, k, n) of the products.
        bits: of the modulus, at most 50; `blas 22` has its own.
        threads: of all paths.
        budget: seconds spent on each path.

    Raises:
        ValueError: bits out of range, or no BLAS (the yardstick) on this machine.
        MeasurementError: a path computed something wrong.
    """
    import cipherblas._core as _core

    if not 4 <= bits <= 50:
        raise ValueError(f"bits: expected 4 to 50, got {bits}")
    if "blas" not in _core.gemm_paths():
        raise ValueError("yardstick: expected the BLAS of scipy-openblas64, got none")
    _core.set_threads(threads)
    for shape in shapes:
        yield from _rows(shape, bits, threads, budget)
        _core.trim_pool()


def _rows(shape: tuple[int, int, int], bits: int, threads: int, budget: float) -> Iterator[Row]:
    import cipherblas._core as _core
    from cipherblas.common import openblas

    cases = list(_cases(shape, bits))
    runs = in_turns([local(case.work) for case in cases], budget=budget)
    timings = [Timing.of(seconds) for seconds in runs]
    yardstick = timings[0]
    for case, timing in zip(cases, timings, strict=True):
        with peak_memory() as peak:
            case.work()
        yield row(
            "gemm",
            "x".join(map(str, shape)),
            params={"logq": (case.modulus - 1).bit_length(), "limbs": 1} if case.modulus else None,
            algorithm=case.name,
            threads=threads,
            timing=timing,
            error=case.error(),
            peak_bytes=peak.bytes,
            gemm_seconds=yardstick.seconds,
            gemm_seconds_min=yardstick.seconds_min,
            times_gemm_of_least=timing.seconds_min / yardstick.seconds_min,
            max_u=MAX_U if case.name.startswith("small") else None,
            isa=_core.isa(),
            blas=openblas.description(),
        )


def _cases(shape: tuple[int, int, int], bits: int) -> Iterator[Case]:
    import cipherblas._core as _core

    m, k, n = shape
    generator = np.random.default_rng(5)
    left, right, double = generator.random((m, k)), generator.random((k, n)), np.empty((m, n))
    yield Case(YARDSTICK, lambda: _core.double_gemm(left, right, out=double), lambda: double)

    out = np.empty((m, n), np.uint64)
    q = _prime(bits)
    a, b = (generator.integers(0, q, size, dtype=np.uint64) for size in ((m, k), (k, n)))
    for path in ("ifma", "strassen", "strassen2", "blas"):
        if path in _core.gemm_paths():
            yield _modular(path, path, a, b, q, out)
    narrow = _prime(min(bits, NARROW_BITS))
    yield _modular(
        f"blas {narrow.bit_length()}", "blas", a % np.uint64(narrow), b % np.uint64(narrow), narrow, out
    )

    if "bytes" in _core.gemm_paths():
        yield _of_operands((m, k, n), generator)
    if "bytes" in _core.gemm_paths() and bits >= MIN_BYTE_BITS:
        short = _prime(min(bits, BYTE_BITS))
        name = f"bytes {short.bit_length()}"
        yield _modular(name, "bytes", a % np.uint64(short), b % np.uint64(short), short, out)

    u = generator.integers(-MAX_U, MAX_U, (m, k), endpoint=True).astype(np.int8)
    for path in ("exact", "rounded", *_small_paths(bits)):
        bound = _core.small_gemm_error(k, MAX_U, q) if path == "rounded" else 0.0
        yield Case(
            f"small {path}",
            lambda path=path: _core.small_gemm(u, b, q, path, out=out),  # type: ignore[misc]
            lambda path=path: _core.small_gemm(u, b, q, path),  # type: ignore[misc]
            lambda: _core.small_gemm(u[:CHECKED_ROWS], b, q, "scalar"),
            q,
            bound,
        )
    if m * k * n <= REFERENCE_WORK:
        yield _modular("scalar", "scalar", a, b, q, out)


def _small_paths(bits: int) -> tuple[str, ...]:
    """Beside those of the BLAS."""
    import cipherblas._core as _core

    least = {"ifma": 0, "bytes": MIN_BYTE_BITS}
    return tuple(path for path in least if path in _core.gemm_paths() and bits >= least[path])


def _modular(name: str, path: str, a: Matrix, b: Matrix, q: int, out: Matrix) -> Case:
    import cipherblas._core as _core

    return Case(
        name,
        lambda: _core.modular_gemm(a, b, q, path, out=out),
        lambda: _core.modular_gemm(a, b, q, path),
        lambda: _core.modular_gemm(a[:CHECKED_ROWS], b, q, "scalar"),
        q,
    )


def _of_operands(shape: tuple[int, int, int], generator: np.random.Generator) -> Case:
    """Residues modulo eight bytes, whose products are switched to a prime; the definition does it entry by entry."""
    import cipherblas._core as _core

    m, k, n = shape
    moduli = list(OPERAND_MODULI[:OPERANDS])
    prime = _prime(40)
    context = _core.Context(4096, [prime], [], 1)

    def operand(rows: int, cols: int) -> Matrix:
        words = generator.integers(0, 1 << 64, (rows * cols, 2), dtype=np.uint64)
        return np.asarray(_core.uniform_operands(words, moduli, 0)).reshape(1, rows, cols)

    x, y = operand(m, k), operand(k, n)

    def multiplied() -> Matrix:
        product: Matrix = context.multiply_operands(x, y, moduli, 1)[0]
        return product

    def defined() -> Matrix:
        whole, rows = math.prod(moduli), min(CHECKED_ROWS, m)
        total = np.zeros((rows, n), object)
        for i, p in enumerate(moduli):
            left, right = (
                (one[0] >> np.uint64(8 * i) & np.uint64(255)).astype(np.int64) for one in (x[:, :rows], y)
            )
            total += (left @ right % p).astype(object) * (whole // p * pow(whole // p, -1, p))
        switched = (2 * (total % whole) * prime + whole) // (2 * whole) % prime
        return np.asarray(switched, np.uint64)

    # Off by one where a fraction is close to one half.
    return Case(f"operands {8 * OPERANDS}", multiplied, multiplied, defined, prime, 1.0)


def _prime(bits: int) -> int:
    """A prime of so many bits: of a ring as those of ciphertexts are, as far as there is one."""
    import cipherblas._core as _core

    return _core.primes(8 if bits < 20 else 4096, bits, 1)[0] if bits > 5 else 13
