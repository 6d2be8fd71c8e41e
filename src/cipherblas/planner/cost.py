"""Seconds from counts: what one NTT, one multiply-add and one streamed byte cost on this machine.

The rates are measured once per process on a small ring and small matrices (some 200 milliseconds in all), so a plan
ranks its candidates, and predicts its time, for the instruction set and the memory that will run it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.counts import Counts
from cipherblas.evaluators.row_costs import MAPPED_BYTES
from cipherblas.files.format import hasher
from cipherblas.params import make_parameters
from cipherblas.randomness import SEED_BYTES, Purpose, streams
from cipherblas.randomness import uniform as random_residues


@dataclass(frozen=True)
class GemmRates:
    """Cost of one kind of GEMM on residues, on one thread.

    Attributes:
        mac: seconds per multiply-add.
        input: seconds per entry of a factor (read from memory, checked, converted).
        output: seconds per entry of the product.
    """

    mac: float
    input: float
    output: float

    def seconds(self, macs: int, inputs: int, outputs: int) -> float:
        """Seconds of so many multiply-adds, entries of factors and entries of products."""
        return macs * self.mac + inputs * self.input + outputs * self.output


@dataclass(frozen=True)
class Rates:
    """Cost of the elementary operations on one thread.

    Attributes:
        ntt: seconds per point and per layer (a limb costs N·log2(N) of them).
        encode: seconds per point and per layer of the embedding of a plaintext.
        pack: seconds per coefficient of a plaintext whose slots are laid out.
        uniform: seconds per residue that is expanded from a seed.
        gaussian: seconds per coefficient of an error.
        pack_key: seconds per residue of a key that is packed.
        digest: seconds per byte of a file that is read and checked.
        mac: seconds per modular multiply-add.
        stream: seconds per byte of key, plaintext or row read from memory, or written.
        fresh: seconds per byte of memory that the system maps while it is written.
        call: seconds per call into the core.
        floats: of float64 GEMMs.
        modular: of exact GEMMs modulo a 40-bit prime.
    """

    ntt: float
    encode: float
    pack: float
    uniform: float
    gaussian: float
    pack_key: float
    digest: float
    mac: float
    stream: float
    fresh: float
    call: float
    floats: GemmRates
    modular: GemmRates

    def seconds(self, counts: Counts, n: int, threads: int = 1) -> float:
        """Predicted seconds of `counts` in a ring of degree `n`; the work in limbs is shared by the threads."""
        transforms = (counts.ntt_limbs + counts.encode_ntt_limbs) * self.ntt
        transforms += counts.operand_encodings * self.encode
        work = transforms * n * (n.bit_length() - 1) + counts.mac_limbs * n * self.mac
        work += self.floats.seconds(counts.float_macs, counts.float_inputs, counts.float_outputs)
        work += self.modular.seconds(counts.modular_macs, counts.modular_inputs, counts.modular_outputs)
        moved = counts.key_bytes_read + counts.plain_bytes_read + counts.moved_bytes
        memory = moved * self.stream + counts.fresh_bytes * self.fresh
        calls = counts.hoistings + counts.relinearisations + counts.rescales + counts.moddowns + counts.adds
        return (work + memory) / threads + calls * self.call


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
    """Measure the rates (cached for the process; about 200 ms)."""
    from cipherblas import _core

    n, limbs = 1 << 13, 4
    context = make_parameters(n, [40.0] * limbs, special_limbs=0).context()
    threads = _core.threads()
    _core.set_threads(1)
    try:
        coefficients = np.arange(n, dtype=np.int64)
        ntt = _best(lambda: context.plaintext(coefficients, limbs)) / (limbs * n * 13)
        slots = np.linspace(-1, 1, n // 2).astype(np.complex128)
        encode = _best(lambda: context.encode(slots, 2.0**30)) / (n * 13)
        pack = _best(lambda: _packed(n // 2)) / n
        seed, purpose = bytes(SEED_BYTES), Purpose.CIPHERTEXT_UNIFORM
        uniform = _best(lambda: random_residues(context, seed, purpose, range(2), range(2))) / (2 * n)
        words = streams(seed, Purpose.NOISE, [0], n)
        gaussian = _best(lambda: (streams(seed, Purpose.NOISE, [0], n), context.gaussian(words[0]))) / n
        plain = context.plaintext(coefficients, limbs)
        packing = _best(lambda: context.pack_key(plain)) / plain.size
        digest = _best(lambda: hasher().update(plain)) / plain.nbytes
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
    fresh = _best(lambda: np.empty(MAPPED_BYTES, np.uint8).fill(1), 1) / MAPPED_BYTES
    floats, modular = _gemm_rates()
    return Rates(
        ntt=ntt,
        encode=encode,
        pack=pack,
        uniform=uniform,
        gaussian=gaussian,
        pack_key=packing,
        digest=digest,
        mac=products / (4 * count * limbs * n),
        stream=stream,
        fresh=fresh,
        call=call,
        floats=floats,
        modular=modular,
    )


def _packed(slots: int) -> NDArray[np.complex128]:
    """What packing does, about: entries are gathered, scaled, and become complex numbers."""
    entries = np.linspace(-1, 1, slots)
    places = np.arange(slots)[::-1]
    return np.where(places >= 0, entries[places], 0.0).astype(np.complex128)


# A product is mostly input where its left factor is thin, mostly output where the sums are short.
THIN, SHORT, DEEP = (1, 1024, 2048), (512, 1, 2048), (384, 512, 512)


def _gemm_rates() -> tuple[GemmRates, GemmRates]:
    """Rates of the two kinds of GEMM."""
    from cipherblas import _core, blas

    blas.load()
    prime = _core.primes_near(1 << 12, 2.0**40, 1)[0]
    random = np.random.default_rng(0)

    def product(shape: tuple[int, int, int], small: bool) -> Callable[[], object]:
        m, k, n = shape
        right = random.integers(0, prime, (k, n), dtype=np.uint64)
        out = np.empty((m, n), np.uint64)
        if small:
            factor = random.integers(-127, 128, (m, k)).astype(np.int8)
            return lambda: _core.small_gemm(factor, right, prime, "rounded", out)
        left = random.integers(0, prime, (m, k), dtype=np.uint64)
        return lambda: _core.modular_gemm(left, right, prime, "auto", out)

    def rates(small: bool) -> GemmRates:
        thin, short, deep = (_best(product(shape, small), 3) for shape in (THIN, SHORT, DEEP))
        each_input, each_output = thin / (THIN[1] * THIN[2]), short / (SHORT[0] * SHORT[2])
        m, k, n = DEEP
        rest = deep - k * (m + n) * each_input - m * n * each_output
        return GemmRates(rest / (m * k * n), each_input, each_output)

    threads = _core.threads()
    _core.set_threads(1)
    try:
        return rates(small=True), rates(small=False)
    finally:
        _core.set_threads(threads)
