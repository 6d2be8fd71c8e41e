"""Bootstrapping at 128 bits of security: seconds, precision, keys.

`precision_bits` is -log2 of the largest error of any slot, of values between -1 and 1, over all runs; what is predicted
stands beside it. `levels_left` are those between one refresh and the next one.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas.bench.harness import Row, Timing, params_fields, peak_memory, repeats_for, row
from cipherblas.crypto.params import Parameters
from cipherblas.methods.bootstrapping.refresh import bootstrapping_of
from cipherblas.planner.chains import chain

SETS = {16: (15, 8), 15: (3, 3)}  # log2 of the ring degree → working levels, limbs per digit
MOST_RUNS = 20
MASKS = 6 << 30  # bytes of encoded diagonals that may be kept


def run(
    *, log_n: Sequence[int] = (16,), threads: int = 1, budget: float = 10.0, complex_slots: bool = False
) -> Iterator[Row]:
    """Rows of `bench bootstrap`.

    Args:
        log_n: log2 of the ring degrees.
        threads: of the server.
        budget: seconds spent on each case; at least three runs.
        complex_slots: complex numbers instead of real ones, which take a second EvalMod.

    Raises:
        ValueError: no set of parameters has such a degree.
    """
    from cipherblas import _core

    unknown = sorted(set(log_n) - set(SETS))
    if unknown:
        raise ValueError(f"log_n: expected some of {sorted(SETS)}, got {unknown}")
    _core.set_threads(threads)
    for degree in log_n:
        params = chain(1 << degree, *SETS[degree]).parameters(128, insecure=False)
        yield measured(params, threads, budget, not complex_slots)
        gc.collect()
        _core.trim_pool()


def measured(params: Parameters, threads: int, budget: float, real: bool) -> Row:
    """The row of one set of parameters."""
    from cipherblas.crypto import keys
    from cipherblas.engines.encodings import Encodings
    from cipherblas.evaluators.slots.native import Native
    from cipherblas.evaluators.slots.symbolic import Symbolic

    method = bootstrapping_of(params)
    before = method.levels_before + 1
    counted = Symbolic(params)
    method.run(counted, counted.fresh(None, bound=1.0, limbs=before), real)
    start = time.perf_counter()
    secret = keys.generate_secret(params)
    evaluation = keys.make_evaluation_keys(secret, counted.request)
    keygen = time.perf_counter() - start
    ev = Native(params, evaluation, encodings=Encodings(MASKS))
    context, random = params.context(), np.random.default_rng(1)
    scale = 2.0**params.scale_bits

    def once() -> tuple[float, float, Any]:
        values = random.uniform(-1, 1, params.slots).astype(np.complex128)
        if not real:
            values = values * np.exp(2j * np.pi * random.random(params.slots))
        fresh = keys.encrypt(secret, context.encode(values, scale), before).expand()
        ct = ev.fresh(fresh, bound=1.0, limbs=before)
        begin = time.perf_counter()
        result = method.run(ev, ct, real)
        seconds = time.perf_counter() - begin
        found = context.decode(keys.decrypt_coefficients(secret, result.data)) / result.scale
        errors = found - values
        return seconds, float(np.abs(errors.real if real else errors).max()), result

    first, worst, result = once()  # encodes the diagonals
    runs = []
    with peak_memory() as peak:
        seconds, error, _ = once()
    runs.append(seconds)
    worst = max(worst, error)
    for _ in range(repeats_for(seconds, budget, 2, MOST_RUNS)):
        seconds, error, _ = once()
        runs.append(seconds)
        worst = max(worst, error)
    counts, log_n = counted.counts, params.n.bit_length() - 1
    return row(
        "bootstrap",
        f"2^{log_n}, {'real' if real else 'complex'} slots",
        params=params_fields(params),
        algorithm="slots to coefficients first",
        threads=threads,
        timing=Timing.of(runs),
        error=worst,
        rotations=counts.rotations,
        products=counts.products,
        key_bytes=evaluation.nbytes,
        peak_bytes=peak.bytes,
        slots=params.slots,
        batch=1,
        levels_left=result.limbs - before,
        precision_bits=-math.log2(worst),
        predicted_bits=-math.log2(result.error(len(runs) * params.slots)),
        failure_bits=method.failure_bits - log_n,
        ntt_limbs=counts.ntt_limbs,
        mac_limbs=counts.mac_limbs,
        keygen_seconds=keygen,
        first_seconds=first,
    )
