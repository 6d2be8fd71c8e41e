"""What this machine takes for the elementary operations, measured on small rings and small matrices.

About half a second in all, so that a plan ranks its candidates, and predicts its time, for the instruction set and the
memory that will run it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cipherblas import _core
from cipherblas.common import openblas
from cipherblas.crypto.files.format import hasher
from cipherblas.crypto.keys.evaluation import EvaluationKeys
from cipherblas.crypto.keys.switching import SwitchingKey, key_shape
from cipherblas.crypto.params import make_parameters
from cipherblas.crypto.randomness import SEED_BYTES, Purpose, streams
from cipherblas.crypto.randomness import uniform as random_residues
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.planner.cost import GemmRates, Rates, SwitchRates
from cipherblas.rlwe.costs import MAPPED_BYTES
from cipherblas.rlwe.rings import RingShape

LEAST_SHARE = 0.3  # that a further thread brings; where less is found, the machine has other work just now
# Ring degrees and limbs at which key switches are measured, and rotations at once.
SWITCHES, ROTATIONS = ((1 << 12, 2), (1 << 14, 3)), 4


def _best(function: Callable[[], object], repeats: int = 5) -> float:
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measured() -> Rates:
    """The rates of this machine just now; those of several threads with as many as are set (`set_threads`)."""
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
        mac = products / (4 * count * limbs * n)
        book, term = _bookkeeping()
        switching = tuple(_switch_rates(*case, mac, threads) for case in SWITCHES)
    finally:
        _core.set_threads(threads)
    block = np.ones(1 << 22, dtype=np.uint64)
    target = np.empty_like(block)
    stream = _best(lambda: np.copyto(target, block), 3) / (2 * block.nbytes)
    fresh = _best(lambda: np.empty(MAPPED_BYTES, np.uint8).fill(1), 1) / MAPPED_BYTES
    floats, modular = _gemm_rates()
    return Rates(
        ntt=ntt,
        switching=switching,
        encode=encode,
        pack=pack,
        uniform=uniform,
        gaussian=gaussian,
        pack_key=packing,
        digest=digest,
        mac=mac,
        stream=stream,
        fresh=fresh,
        call=call,
        book=book,
        term=term,
        floats=floats,
        modular=modular,
    )


def _bookkeeping() -> tuple[float, float]:
    """Seconds that evaluators keep books for a sum of products, and for each product in it."""
    ring, repeats, terms = RingShape.from_bits(1 << 12, [40.0, 40.0], [40.0], 1, 30.0), 50, 16
    counter = Symbolic(ring)
    ct = [counter.fresh(None, bound=1.0) for _ in range(2 * terms)]

    def sums(length: int) -> Callable[[], object]:
        return lambda: [counter.multiply_sum(ct[:length], ct[terms : terms + length]) for _ in range(repeats)]

    one, many = (_best(sums(length), 3) / repeats for length in (1, terms))
    return one, max(0.0, (many - one) / (terms - 1))


def _switch_rates(n: int, limbs: int, mac: float, threads: int) -> SwitchRates:
    """Of some rotations of a ciphertext, under keys of zeros; the core's threads are left at one."""
    params = make_parameters(n, [34.0] * limbs)
    steps = range(1, ROTATIONS + 1)
    words = np.zeros(key_shape(params, limbs), np.uint64)
    keys = [SwitchingKey(pow(5, step, 2 * n), limbs, bytes(SEED_BYTES), words.copy()) for step in steps]
    native, counter = Native(params, EvaluationKeys(params, "", keys)), Symbolic(params)
    zeros = params.context().neg(np.zeros((2, limbs, n), np.uint64))
    source = native.fresh(zeros, bound=1.0)
    counter.rotate_many(counter.fresh(None, bound=1.0), steps)
    counts = counter.counts

    def seconds() -> float:
        return _best(lambda: native.rotate_many(source, steps), 3)

    alone = seconds()
    _core.set_threads(threads)
    speedup = alone / seconds() if threads > 1 else 1.0
    _core.set_threads(1)
    points = counts.ntt_limbs * n * (n.bit_length() - 1)
    ntt = (alone - counts.mac_limbs * n * mac) / points
    return SwitchRates(n, max(ntt, 0.0), threads, max(speedup, 1 + LEAST_SHARE * (threads - 1)))


def _packed(slots: int) -> NDArray[np.complex128]:
    """What packing does, about: entries are gathered, scaled, and become complex numbers."""
    entries = np.linspace(-1, 1, slots)
    places = np.arange(slots)[::-1]
    return np.where(places >= 0, entries[places], 0.0).astype(np.complex128)


# A product is mostly input where its left factor is thin, mostly output where the sums are short.
THIN, SHORT, DEEP = (1, 1024, 2048), (512, 1, 2048), (384, 512, 512)


def _gemm_rates() -> tuple[GemmRates, GemmRates]:
    """Rates of the two kinds of GEMM."""
    openblas.load()
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
        return GemmRates(max(rest, 0.0) / (m * k * n), each_input, each_output)

    threads = _core.threads()
    _core.set_threads(1)
    try:
        return rates(small=True), rates(small=False)
    finally:
        _core.set_threads(threads)
