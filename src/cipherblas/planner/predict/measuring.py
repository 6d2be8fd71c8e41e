"""What this machine takes for the elementary operations, measured on small rings and small matrices.

A second or two, or one in few rounds, so that a plan ranks its candidates, and predicts its time, for the
instruction set and the memory that will run it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common import openblas
from cipherblas.common.memory import aligned_empty
from cipherblas.common.progress import Progress, Steps
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.fields import OPERAND_MODULI
from cipherblas.crypto.files.format import hasher
from cipherblas.crypto.keys.evaluation import EvaluationKeys
from cipherblas.crypto.keys.key_id import Galois
from cipherblas.crypto.keys.switching import SwitchingKey, key_shape
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.crypto.randomness import SEED_BYTES, Purpose, streams, ternary
from cipherblas.crypto.randomness import uniform as random_residues
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.protocol import MakeEngine
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct, Plain
from cipherblas.planner.predict.cost import GemmRates, Rates, SwitchRates, ThreadRates
from cipherblas.rlwe.costs import MAPPED_BYTES
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import Step
from cipherblas.rlwe.rings import RingShape

MIN_SHARE = 0.3  # that a further thread brings; where less is found, the machine has other work just now
# Ring degrees and limbs at which key switches are measured, and rotations at once.
SWITCHES, ROTATIONS = ((1 << 12, 2), (1 << 14, 3)), 4
SHARED = (1 << 15, 3)  # of key switches that threads share
BITS = 24.0  # of limbs, which are one digit, as in most products
# Rotations of sums, whose difference is that of products with keys, and with masks; of sums with one digit for each
# limb, whose keys are larger.
FEW_ROTATED, MANY_ROTATED, MANY_DIGITS = 4, 28, 12
RING, LIMBS = 1 << 13, 4
SMALL_RING = 1 << 6  # of a call that has next to nothing to do
MIN_SECONDS = 1e-6  # seconds of what is measured as a difference
STREAMS = 2  # that are begun one after the other
DRAWN = 8  # polynomials of random residues at once, as in keys: more than a core's own caches hold
TERMS = 24  # of a sum of products
STREAMED_WORDS = 1 << 22  # of an array beyond the caches
# Everything is measured in turns, so that a slow moment of a shared machine meets each measurement once, and the median
# is taken: a machine that is shared is seldom as quiet as in its best moment.
ROUNDS, FEW_ROUNDS, ENOUGH = 7, 3, 2e-3  # seconds of one kind in a round

Work = Callable[[], object]


def _seconds(work: Work, clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start


def _typical(
    works: Mapping[str, Work], clock: Callable[[], float], rounds: int, steps: Steps
) -> dict[str, float]:
    """The median of rounds of each; a step for each round, and one for what is before."""
    first = {name: min(_seconds(work, clock), _seconds(work, clock)) for name, work in works.items()}
    found: dict[str, list[float]] = {name: [] for name in works}
    steps.tick()
    for _ in range(rounds):
        for name, work in works.items():
            _seconds(work, clock)  # may have to map memory again that the work before it gave back
            times = max(1, min(10, int(ENOUGH / max(first[name], 1e-9))))
            found[name].append(statistics.median(_seconds(work, clock) for _ in range(times)))
        steps.tick()
    return {name: statistics.median(each) for name, each in found.items()}


def measured(
    rounds: int | None = None, progress: Progress | None = None, make: MakeEngine = CpuEngine
) -> Rates:
    """The rates of an engine on this machine just now, by its calls; those of several threads with as many as are set
    (`set_threads`).

    Args:
        rounds: of measurements, by default `ROUNDS`.
        progress: called as progress(done, total), counted in rounds.
        make: makes the engines that compute. Calls of the processor are timed by what its thread takes, whatever else
            the machine does; those of others from beginning to end.
    """
    rounds = ROUNDS if rounds is None else rounds
    threads = _core.threads()
    clock = time.thread_time if make is CpuEngine else time.perf_counter
    steps = Steps(progress, rounds + 1 + (0 if threads < 2 else rounds))
    switches = {n: _Switches(make, n, limbs) for n, limbs in SWITCHES}
    openblas.load()
    few, many = (_Sums(make, RING, LIMBS, number) for number in (FEW_ROTATED, MANY_ROTATED))
    few_digits, many_digits = (
        _Sums(make, RING, LIMBS, number, alpha=1) for number in (FEW_ROTATED, MANY_DIGITS)
    )
    works = {**_on_the_host(), **_elementary(make), **_products(make)}
    works |= {f"switch {n}": switch.run for n, switch in switches.items()}
    works |= {"few": few.run, "many": many.run, "few masked": few.run_masked, "many masked": many.run_masked}
    works |= {"few digits": few_digits.run, "many digits": many_digits.run}
    _core.set_threads(1)
    try:
        found = _typical(works, clock, rounds, steps)
    finally:
        _core.set_threads(threads)
    faster = _together(make, threads, works["stream"], rounds, steps)
    points = RING * (RING.bit_length() - 1)
    words, start = LIMBS * RING, found["stream_start"] / STREAMS
    mac = found["mac"] / (4 * TERMS * words)
    keyed, masked = found["many"] - found["few"], found["many masked"] - found["few masked"]
    products, encoded = many.counts - few.counts, many.masked_counts - few.masked_counts
    stream = found["stream"] / (3 * STREAMED_WORDS * WORD_BYTES)
    transforms = masked - keyed - (encoded.mac_limbs - products.mac_limbs) * RING * mac
    transforms -= encoded.plain_bytes_read * stream
    each_byte, each_residue = _of_keys(
        (keyed, products),
        (found["many digits"] - found["few digits"], many_digits.counts - few_digits.counts),
        mac,
    )
    blank = Rates(
        ntt=max(transforms, MIN_SECONDS) / (encoded.encode_ntt_limbs * points),
        switching=tuple(SwitchRates(n, 0.0) for n in switches),
        threads=faster,
        encode=found["encode"] / points,
        pack=found["pack"] / RING,
        uniform=max(found["uniform"] - DRAWN * start, MIN_SECONDS) / (DRAWN * RING),
        stream_start=start,
        gaussian=max(found["gaussian"] - start, MIN_SECONDS) / RING,
        ternary=max(found["ternary"] - start, MIN_SECONDS) / RING,
        pack_key=found["pack_key"] / words,
        digest=found["digest"] / (words * WORD_BYTES),
        mac=mac,
        stream=stream,
        fresh=found["fresh"] / MAPPED_BYTES,
        call=found["call"],
        book=found["book"] / REPEATS,
        term=max(0.0, found["books"] - found["book"]) / REPEATS / (BOOKED - 1),
        floats=_gemm_rates(found, "small"),
        modular=_gemm_rates(found, "modular"),
        operands=_gemm_rates(found, "operands", OPERANDS) if f"operands {DEEP}" in found else None,
        keyed=each_byte - stream,
        switched=each_residue,
    )
    # What is left of a key switch when everything else has been taken away; its few keys stay in the caches.
    rates = []
    for n, switch in switches.items():
        rest = found[f"switch {n}"] - blank.seconds(replace(switch.counts, key_bytes_read=0), n)
        rest -= switch.counts.key_bytes_read * max(blank.keyed, 0.0)
        points = switch.counts.ntt_limbs * n * (n.bit_length() - 1)
        rates.append(SwitchRates(n, max(rest / points, 0.0)))
    return replace(blank, switching=tuple(rates))


def _of_keys(digit: tuple[float, Counts], digits: tuple[float, Counts], mac: float) -> tuple[float, float]:
    """Seconds per byte of key and per residue of a sum, both beyond multiply-adds, from sums of products with keys of
    one digit and of several: seconds and counts of each."""
    (one, single), (more, several) = (
        (seconds - counts.mac_limbs * RING * mac, counts) for seconds, counts in (digit, digits)
    )
    # one = single.key_bytes_read·byte + single.switched_limbs·RING·residue, and so for several digits.
    ratio = several.switched_limbs / single.switched_limbs
    byte = (more - ratio * one) / (several.key_bytes_read - ratio * single.key_bytes_read)
    byte = min(max(byte, 0.0), max(one, 0.0) / single.key_bytes_read)
    return byte, max(one - single.key_bytes_read * byte, 0.0) / (single.switched_limbs * RING)


def _together(make: MakeEngine, threads: int, stream: Work, rounds: int, steps: Steps) -> ThreadRates:
    """The speedup of so many threads: the median of rounds in which one and all take turns."""
    if threads < 2:
        return ThreadRates(1, 1.0, 1.0)
    works = {"switch": _Switches(make, *SHARED).run, "stream": stream}
    gains: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            alone, together = (_least_seconds(work, number) for number in (1, threads))
            gains[name].append(alone / together)
        steps.tick()
    compute, streaming = (statistics.median(found) for found in gains.values())
    least = 1 + MIN_SHARE * (threads - 1)
    return ThreadRates(threads, max(compute, least), max(streaming, 1.0))


def _least_seconds(work: Work, threads: int) -> float:
    """Of two runs on so many threads, the first of which may have to wake them."""
    _core.set_threads(threads)
    found = []
    for _ in range(2):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def _elementary(make: MakeEngine) -> dict[str, Work]:
    """Calls of an engine: on ciphertexts, with next to nothing to do, and on what no cache holds."""
    engine = make(make_parameters(RING, [40.0] * LIMBS, special_limbs=0))
    small = make(
        Parameters(SMALL_RING, tuple(_core.primes(SMALL_RING, 40, 1)), (), 1, 30.0, 0, insecure=True)
    )
    # What an engine makes is aligned, as ciphertexts are; others might be copied.
    ct, least = (
        one.neg(one.upload(np.zeros((2, limbs, n), np.uint64)))
        for one, limbs, n in ((engine, LIMBS, RING), (small, 1, SMALL_RING))
    )
    block = engine.upload_matrix(np.zeros((1, STREAMED_WORDS // RING, RING), np.uint64))
    one, other = (engine.add_matrices(block, block) for _ in range(2))
    return {
        "mac": lambda: engine.multiply_sum([ct] * TERMS, [ct] * TERMS, None),
        "call": lambda: small.add(least, least),
        "stream": lambda: engine.add_matrices(one, other),
    }


def _on_the_host() -> dict[str, Work]:
    """The timed work on words, limbs and bytes, and its bookkeeping."""
    context = make_parameters(RING, [40.0] * LIMBS, special_limbs=0).context()
    slots = np.linspace(-1, 1, RING // 2).astype(np.complex128)
    seed, purpose = bytes(SEED_BYTES), Purpose.CIPHERTEXT_UNIFORM
    words = streams(seed, Purpose.NOISE, [0], RING)
    plain = context.plaintext(np.arange(RING, dtype=np.int64), LIMBS)
    return {
        "encode": lambda: context.encode(slots, 2.0**30),
        "pack": lambda: _packed(RING // 2),
        "uniform": lambda: random_residues(context, seed, purpose, range(DRAWN), [0, 1] * (DRAWN // 2)),
        "stream_start": lambda: streams(seed, Purpose.NOISE, range(STREAMS), 8),
        "gaussian": lambda: (streams(seed, Purpose.NOISE, [0], RING), context.gaussian(words[0])),
        "ternary": lambda: ternary(context, seed, Purpose.EPHEMERAL),
        "pack_key": lambda: context.pack_key(plain),
        "digest": lambda: hasher().update(plain),
        "fresh": lambda: np.empty(MAPPED_BYTES, np.uint8).fill(1),
        **_bookkeeping(),
    }


REPEATS, BOOKED = 20, 16


def _bookkeeping() -> dict[str, Work]:
    """Evaluators keep books for a sum of one product, and for one of several."""
    ring = RingShape.from_bits(1 << 12, [40.0, 40.0], [40.0], 1, 30.0)
    counter = Symbolic(ring)
    ct = [counter.fresh(None, bound=1.0) for _ in range(2 * BOOKED)]

    def sums(length: int) -> Work:
        return lambda: [
            counter.multiply_sum(ct[:length], ct[BOOKED : BOOKED + length]) for _ in range(REPEATS)
        ]

    return {"book": sums(1), "books": sums(BOOKED)}


class _Rotations:
    """Evaluators for rotations of a ciphertext, under keys of zeros.

    Args:
        make: makes the engine.
        n: ring degree.
        alpha: limbs of a digit, by default all.
    """

    def __init__(
        self, make: MakeEngine, n: int, limbs: int, rotations: int, alpha: int | None = None
    ) -> None:
        params = make_parameters(n, [BITS] * limbs, alpha=alpha or limbs)
        self._steps = range(1, rotations + 1)

        def words() -> NDArray[np.uint64]:
            # Aligned, as those of programs are: others would be copied in each call.
            found = aligned_empty(key_shape(params, limbs))
            found.fill(0)
            return found

        names = [Galois(pow(5, step, 2 * n)) for step in self._steps]
        keys = [SwitchingKey(name, limbs, bytes(SEED_BYTES), words()) for name in names]
        self._native = Native(params, EvaluationKeys(params, "", keys), engine=make(params))
        zeros = params.context().neg(np.zeros((2, limbs, n), np.uint64))
        self._source = self._native.fresh(zeros, bound=1.0)

    def _counts(self, work: Callable[[Evaluator, Ct], object]) -> Counts:
        counter = Symbolic(self._native.params)
        work(counter, counter.fresh(None, bound=1.0))
        return counter.counts


class _Switches(_Rotations):
    """Some rotations, each a ciphertext.

    Attributes:
        counts: of what runs.
    """

    def __init__(self, make: MakeEngine, n: int, limbs: int) -> None:
        super().__init__(make, n, limbs, ROTATIONS)
        self.counts = self._counts(lambda ev, ct: ev.rotate_many(ct, self._steps))

    def run(self) -> object:
        return self._native.rotate_many(self._source, self._steps)


class _Sums(_Rotations):
    """The sum of some rotations, and of their products with masks.

    Attributes:
        counts, masked_counts: of what runs.
    """

    def __init__(
        self, make: MakeEngine, n: int, limbs: int, rotations: int, alpha: int | None = None
    ) -> None:
        super().__init__(make, n, limbs, rotations, alpha)
        values = np.linspace(-1, 1, n // 2)
        self._plain: dict[Step, Plain | None] = dict.fromkeys(self._steps)
        self._masked: dict[Step, Plain | None] = {
            step: Plain(("measured", step), values, 1.0, constant=True) for step in self._steps
        }
        self.counts = self._counts(lambda ev, ct: ev.linear_transform(ct, self._plain))
        self.masked_counts = self._counts(lambda ev, ct: ev.linear_transform(ct, self._masked))

    def run(self) -> object:
        return self._native.linear_transform(self._source, self._plain)

    def run_masked(self) -> object:
        return self._native.linear_transform(self._source, self._masked)


def _packed(slots: int) -> NDArray[np.complex128]:
    """A stand-in for packing: entries are gathered, scaled, and become complex numbers."""
    entries = np.linspace(-1, 1, slots)
    places = np.arange(slots)[::-1]
    return np.where(places >= 0, entries[places], 0.0).astype(np.complex128)


# A product is mostly input where its left factor is thin, mostly output where the sums are short.
THIN, SHORT, DEEP = (1, 1024, 2048), (512, 1, 2048), (512, 1024, 1024)
OPERANDS = 8  # moduli of operands that are measured together
SLOW = 2e-2  # seconds of a thin product of operands: nobody would plan for them


def _products(make: MakeEngine) -> dict[str, Work]:
    """All kinds of GEMM in each of these shapes; of operands not where bytes are multiplied one by one."""
    params = make_parameters(1 << 12, [40.0], special_limbs=0, operand_moduli=OPERAND_MODULI[:OPERANDS])
    engine, (prime,) = make(params), params.q

    def product(shape: tuple[int, int, int], kind: str) -> Work:
        m, k, n = shape
        left, right = ((1, m, k), (1, k, n))
        if kind == "operands":
            ones = np.uint64((1 << 8 * OPERANDS) // 255)
            x, y = (engine.upload_matrix(np.full(each, ones * np.uint64(77))) for each in (left, right))
            return lambda: engine.multiply_operands(x, y)
        # What the entries are takes no time.
        residues = engine.upload_matrix(np.full(right, prime // 3, np.uint64))
        if kind == "small":
            factor = np.full((m, k), 77, np.int8)
            return lambda: engine.multiply_integers(factor, residues, False)
        other = engine.upload_matrix(np.full(left, prime // 5, np.uint64))
        return lambda: engine.multiply_matrices(other, residues)

    if make is CpuEngine:
        of_bytes = "bytes" in _core.gemm_paths()
    else:
        of_bytes = min(_seconds(product(THIN, "operands"), time.perf_counter) for _ in range(2)) < SLOW
    kinds = ("small", "modular", *(["operands"] if of_bytes else []))
    return {f"{kind} {shape}": product(shape, kind) for kind in kinds for shape in (THIN, SHORT, DEEP)}


def _gemm_rates(found: Mapping[str, float], kind: str, moduli: int = 1) -> GemmRates:
    thin, short, deep = (found[f"{kind} {shape}"] / moduli for shape in (THIN, SHORT, DEEP))
    each_input, each_output = thin / (THIN[1] * THIN[2]), short / (SHORT[0] * SHORT[2])
    m, k, n = DEEP
    rest = deep - k * (m + n) * each_input - m * n * each_output
    return GemmRates(max(rest, 0.0) / (m * k * n), each_input, each_output)
