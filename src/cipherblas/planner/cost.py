"""Seconds from counts: what one NTT, one multiply-add and one streamed byte cost on this machine.

The rates are measured once per process on a small ring and small matrices (some 50 milliseconds in all), so a plan
ranks its candidates, and predicts its time, for the instruction set and the memory that will run it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cipherblas.evaluators.counts import Counts
from cipherblas.params import make_parameters


@dataclass(frozen=True)
class Rates:
    """Cost of the elementary operations on one thread.

    Attributes:
        ntt: seconds per point and per layer (a limb costs N·log2(N) of them).
        mac: seconds per modular multiply-add.
        stream: seconds per byte of key or plaintext read from memory.
        call: seconds per call into the core.
        float_mac: seconds per multiply-add of a float64 GEMM.
        modular_mac: seconds per multiply-add of an exact GEMM modulo a 40-bit prime.
    """

    ntt: float
    mac: float
    stream: float
    call: float
    float_mac: float
    modular_mac: float

    def seconds(self, counts: Counts, n: int, threads: int = 1) -> float:
        """Predicted seconds of `counts` in a ring of degree `n`; the work in limbs is shared by the threads."""
        limbs = counts.ntt_limbs + counts.encode_ntt_limbs
        work = limbs * n * (n.bit_length() - 1) * self.ntt + counts.mac_limbs * n * self.mac
        work += counts.float_macs * self.float_mac + counts.modular_macs * self.modular_mac
        streamed = (counts.key_bytes_read + counts.plain_bytes_read) * self.stream
        calls = counts.hoistings + counts.relinearisations + counts.rescales + counts.moddowns + counts.adds
        return (work + streamed) / threads + calls * self.call


def _best(function: Callable[[], object], repeats: int = 5) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


@functools.lru_cache(maxsize=1)
def calibrate() -> Rates:
    """Measure the rates (cached for the process; about 50 ms)."""
    from cipherblas import _core

    n, limbs = 1 << 13, 4
    context = make_parameters(n, [40.0] * limbs, special_limbs=0).context()
    threads = _core.threads()
    _core.set_threads(1)
    try:
        coefficients = np.arange(n, dtype=np.int64)
        ntt = _best(lambda: context.plaintext(coefficients, limbs)) / (limbs * n * 13)
        plain = context.plaintext(coefficients, limbs)
        ct = context.neg(np.stack([plain, plain]))  # arrays of the core are aligned; others would be copied
        small = context.drop(ct, 1)
        count = 24  # distinct operands, so that they stream through the caches as in a real product
        lefts, rights = ([context.neg(ct) for _ in range(count)] for _ in range(2))
        products = _best(lambda: context.multiply_sum(lefts, rights, None))
        call = _best(lambda: context.add(small, small))
    finally:
        _core.set_threads(threads)
    block = np.ones(1 << 22, dtype=np.uint64)
    target = np.empty_like(block)
    stream = _best(lambda: np.copyto(target, block), 3) / (2 * block.nbytes)
    float_mac, modular_mac = _gemm_rates()
    return Rates(
        ntt=ntt,
        mac=products / (4 * count * limbs * n),
        stream=stream,
        call=call,
        float_mac=float_mac,
        modular_mac=modular_mac,
    )


def _gemm_rates() -> tuple[float, float]:
    """Seconds per multiply-add of the two kinds of GEMM on one thread, at a size where both are near their best."""
    from cipherblas import _core, blas

    blas.load()
    length, prime = 384, _core.primes_near(1 << 12, 2.0**40, 1)[0]
    random = np.random.default_rng(0)
    factor = random.integers(-127, 128, (length, length)).astype(np.int8)
    left, right = (random.integers(0, prime, (length, length), dtype=np.uint64) for _ in range(2))
    out = np.empty_like(left)
    threads = _core.threads()
    _core.set_threads(1)
    try:
        small = _best(lambda: _core.small_gemm(factor, right, prime, "rounded", out), 3)
        modular = _best(lambda: _core.modular_gemm(left, right, prime, "auto", out), 3)
    finally:
        _core.set_threads(threads)
    return small / length**3, modular / length**3
