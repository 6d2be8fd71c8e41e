"""MAMBO (Bae et al. 2024): a product with a clear matrix between slots to coefficients and ModRaise.

d rows of N real numbers, each of two ciphertexts of real slots, go to coefficients at two limbs; there W @ X is a GEMM
modulo q; what it gives is raised and goes back to slots. Beside it, in the same run, ciphertexts that are refreshed one
by one without a product, and two by two.

The product is that of all d rows. The transforms before it and the refreshes after it are those of `sampled` rows,
whose seconds are taken for all; both are done together, as all would be in groups, and compared with NumPy. Where
the rows and those of the result do not fit the memory that is allowed together, the product is computed for as many
columns at a time as do, and of the result the sampled rows are kept.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.values import Rows
from cipherblas.evaluators.slots.values import ClearFactor, Ct
from cipherblas.forms.convert.coefficients import Halves, Packing, slots_to_rows
from cipherblas.methods.bootstrapping.refresh import bootstrapping_of
from cipherblas.planner.rings.modulus_chains import chain
from cipherblas.rlwe.basis import FirstLimbs
from cipherblas.rlwe.rings import LOW_LIMBS
from cipherblas.runtime.conversions import REFRESHED_SHARE
from cipherblas.runtime.row_products.clear_factors import rounded
from cipherblas_bench.bootstrap import MASKS, SETS, Refreshes, bits, released
from cipherblas_bench.harness import Row, Timing, params_fields, peak_memory, row

SIZES = (256, 768)
STAGES = 3
WEIGHT_BITS = 12
SAMPLED = 4
RUNS = 2  # of the transforms and refreshes of the sampled rows, after one that encodes
MEMORY = 8 << 30  # bytes of the rows of a product and of its result
T = TypeVar("T")


class Fused:
    """Keys, evaluators and the steps of one set of parameters, for so many rows together."""

    def __init__(self, params: Parameters, stages: int = STAGES, sampled: int = SAMPLED) -> None:
        from cipherblas.crypto import keys
        from cipherblas.engines.encodings import Encodings
        from cipherblas.evaluators.rows.native import RowsNative
        from cipherblas.evaluators.rows.symbolic import RowsSymbolic
        from cipherblas.evaluators.slots.native import Native
        from cipherblas.evaluators.slots.symbolic import Symbolic

        self.params, self.sampled = params, sampled
        self.packing = Packing(params.n, params.n, stages)
        self.method = bootstrapping_of(params).together(2 * sampled)
        dry = Evaluators(lambda: Symbolic(params), lambda: RowsSymbolic(params))
        slots = [dry.slots.fresh(None, bound=1.0, limbs=self.limbs) for _ in range(3)]
        self.method.run_all(dry.slots, slots[1:])
        self.refreshed(dry, self.to_rows(dry, [Halves(*slots[:2])] * sampled, 1.0))
        self.secret = keys.generate_secret(params)
        evaluation = keys.make_evaluation_keys(self.secret, dry.request)
        self.key_bytes = evaluation.nbytes
        native = Native(params, evaluation, encodings=Encodings(MASKS))
        self.engine = native.engine
        self.evs = Evaluators(lambda: native, lambda: RowsNative(params, evaluation, engine=native.engine))
        self.random = np.random.default_rng(1)

    @property
    def limbs(self) -> int:
        """Of what goes to coefficients at two limbs, or is refreshed without a product."""
        return LOW_LIMBS + self.packing.stages

    def scale(self, largest: float) -> float:
        """Of rows whose product has entries up to `largest`."""
        last = float(np.prod([float(prime) for prime in self.params.q[1:LOW_LIMBS]]))
        return REFRESHED_SHARE * self.method.largest(self.evs.slots) * last / largest

    def encrypted(self) -> Ct:
        """Random real slots, at the limbs at which they wait."""
        from cipherblas.crypto import keys

        values = self.random.uniform(-1, 1, self.params.slots).astype(np.complex128)
        coefficients = self.params.context().encode(values, 2.0**self.params.scale_bits)
        fresh = keys.encrypt(self.secret, coefficients, self.limbs).expand()
        return self.evs.slots.fresh(fresh, bound=1.0, limbs=self.limbs)

    def to_rows(self, evs: Evaluators, pairs: list[Halves], scale: float) -> Rows:
        """Two ciphertexts each as one row of N entries."""
        return slots_to_rows(evs, pairs, len(pairs), self.packing, scale, low=True)

    def refreshed(self, evs: Evaluators, x: Rows) -> list[Halves]:
        """Rows as two ciphertexts each, with all levels."""
        return self.method.of_rows(evs, x, self.packing, LOW_LIMBS - 1)

    def rows(self, matrix: NDArray[np.float64], scale: float) -> Rows:
        """The rows of a matrix, as `to_rows` would leave them, encrypted by the secret key."""
        from cipherblas.rlwe.matrices.encryption import encrypt_rows

        sent = encrypt_rows(self.secret, matrix, scale, LOW_LIMBS)
        found: Rows = self.evs.rows.fresh(
            (sent.a, sent.b), matrix.shape, bound=1.0, scale=scale, basis=FirstLimbs(LOW_LIMBS)
        )
        return found


def run(
    *, sizes: Sequence[int] = SIZES, log_n: int = 16, threads: int = 1, sampled: int = SAMPLED
) -> Iterator[Row]:
    """Rows of `bench mambo`.

    Args:
        sizes: d, of the clear matrices.
        log_n: log2 of the ring degree.
        threads: of the server.
        sampled: rows that are refreshed, together.

    Raises:
        ValueError: no set of parameters has such a degree.
    """
    import cipherblas._core as _core

    if log_n not in SETS:
        raise ValueError(f"log_n: expected one of {sorted(SETS)}, got {log_n}")
    _core.set_threads(threads)
    params = chain(1 << log_n, *SETS[log_n]).parameters(128, insecure=False)
    single = by_itself(params, sampled)
    released()
    ours = Fused(params, sampled=sampled)
    pair = of_two(ours)
    for size in sizes:
        yield measured(ours, size, threads, single, pair)


def by_itself(params: Parameters, sampled: int) -> float:
    """Seconds of a ciphertext that is refreshed by itself, with keys and diagonals that are best for one."""
    alone = Refreshes(params, real=True)
    alone.once()  # encodes the diagonals
    return statistics.median(alone.once()[0]["whole"] for _ in range(sampled + 1))


def of_two(ours: Fused) -> float:
    """Seconds of a ciphertext of two that are refreshed together; diagonals are encoded before."""
    ev = ours.evs.slots
    cts = [ours.encrypted() for _ in range(2)]
    ours.method.run_all(ev, cts)
    return statistics.median(
        _timed(lambda: ours.method.run_all(ev, cts))[0] / 2 for _ in range(ours.sampled + 1)
    )


def measured(ours: Fused, size: int, threads: int, single: float, pair: float) -> Row:
    """The row of one size.

    Args:
        single, pair: seconds of a ciphertext that is refreshed by itself, and of one of two.
    """
    n, sampled = ours.params.n, ours.sampled
    weights = ours.random.uniform(-1, 1, (size, size))
    unit = 2.0**-WEIGHT_BITS
    integers = rounded(weights, unit, WEIGHT_BITS)
    factor = ClearFactor(("mambo", size), (size, size), 1.0, unit, False, lambda: integers, float(size), 1.0)
    scale = ours.scale(float(size)) * unit
    pairs = [Halves(ours.encrypted(), ours.encrypted()) for _ in range(sampled)]
    ours.to_rows(ours.evs, pairs, scale)  # encodes the masks of this scale
    to_rows = functools.partial(ours.to_rows, ours.evs, pairs, scale)
    down = statistics.median(_timed(to_rows)[0] for _ in range(RUNS)) / sampled
    with peak_memory() as peak:
        product, up, error, predicted = _multiplied(ours, factor, integers, weights, scale)
    rows = product / size
    together = (down + rows + up) / 2
    return row(
        "mambo",
        f"{size}x{size} · {size}x{n}",
        params=params_fields(ours.params),
        algorithm="gemm between slots to coefficients and ModRaise",
        threads=threads,
        timing=Timing.of([together]),
        error=error,
        key_bytes=ours.key_bytes,
        peak_bytes=peak.bytes,
        slots=ours.params.slots,
        sampled=sampled,
        single_seconds=single,
        pair_seconds=pair,
        throughput_of_single=single / together,
        throughput_of_pair=pair / together,
        product_seconds=rows / 2,
        product_share=rows / 2 / together,
        precision_bits=bits(error / size),
        predicted_bits=bits(predicted / size),
    )


def _multiplied(
    ours: Fused, factor: ClearFactor, integers: NDArray[Any], weights: NDArray[np.float64], scale: float
) -> tuple[float, float, float, float]:
    """Seconds of the product of all rows and of a row's refresh, the largest error of what was refreshed, and a bound
    on it."""
    from cipherblas.crypto import keys

    size, n, sampled = len(weights), ours.params.n, ours.sampled
    matrix = ours.random.uniform(-1, 1, (size, n))
    rows, right = ours.rows(matrix, scale), weights[:sampled] @ matrix
    del matrix
    each = 2 * LOW_LIMBS * 8 * size  # bytes of a column of the rows, a and b
    if 2 * each * n <= MEMORY:
        seconds, product = _timed(functools.partial(ours.evs.rows.clear_product, factor, rows))
        few = ours.evs.rows.rows_of(product, 0, sampled)
        del product
    else:
        seconds, few = _in_parts(ours, factor, integers, rows, max(1, min(n, MEMORY // (8 * each))))
    del rows
    up, refreshed = _refreshes(ours, few)
    largest, predicted, layout = 0.0, 0.0, ours.packing.layout(False)
    for expected, halves in zip(right, refreshed, strict=True):
        for half, ct in zip(np.split(expected[None], 2, axis=1), halves, strict=True):
            assert ct is not None
            slots = ours.params.context().decode(keys.decrypt_coefficients(ours.secret, ct.data)) / ct.scale
            largest = max(largest, float(np.abs(slots.real - layout.pack(half)[0].real).max()))
            predicted = max(predicted, ct.error(sampled * n))
    return seconds, up, largest, predicted


def _refreshes(ours: Fused, rows: Rows) -> tuple[float, list[Halves]]:
    """Seconds for each of these rows, which are refreshed together, and what became of them."""
    ours.refreshed(ours.evs, rows)
    runs = [_timed(lambda: ours.refreshed(ours.evs, rows)) for _ in range(RUNS)]
    return statistics.median(seconds for seconds, _ in runs) / rows.shape[0], runs[-1][1]


def _in_parts(
    ours: Fused, factor: ClearFactor, integers: NDArray[Any], x: Rows, columns: int
) -> tuple[float, Rows]:
    """Seconds of the product, so many columns at a time, and its first rows."""
    engine, sampled, total = ours.engine, ours.sampled, 0.0
    product, kept = ours.evs.rows.clear_product(factor.rows(0, sampled), x), []  # what is known of these rows
    for part in x.data:
        pieces = []
        for start in range(0, ours.params.n, columns):
            piece = engine.copied(engine.cut(part, columns=slice(start, start + columns)))
            seconds, found = _timed(functools.partial(engine.multiply_integers, integers, piece, True))
            total += seconds
            pieces.append(np.array(engine.cut(found, rows=slice(0, sampled))))
        kept.append(engine.upload_matrix(np.concatenate(pieces, axis=2)))
    product.data = tuple(kept)
    return total, product


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
