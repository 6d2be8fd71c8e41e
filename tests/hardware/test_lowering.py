"""Engine calls on the functional model of the accelerator: the words of the core, and the passes of the bookkeeping."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherblas.common.errors import FitError, MismatchError, ParameterError
from cipherblas.common.memory import aligned_empty
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import RingShape
from cipherblas_hardware.accelerator.assembler import COEFFICIENTS, SECOND, Assembler, Conversion, Fetch
from cipherblas_hardware.accelerator.image import plain_key, plain_residues
from cipherblas_hardware.accelerator.isa import Arithmetic, Modulus, Pass, ReadRows
from cipherblas_hardware.accelerator.lowering import Lowering
from cipherblas_hardware.accelerator.machine import Machine
from cipherblas_hardware.accelerator.residues import roots, transformed
from cipherblas_hardware.accelerator.schedule import scheduled
from cipherblas_hardware.accelerator.timing import Timing
from cipherblas_hardware.model.configuration import Configuration
from cipherblas_hardware.model.operations import Operation
from cipherblas_hardware.model.performance import Accelerator
from tests.support.element_runs import (
    TransformCase,
    costs,
    equal,
    hoisted,
    machine,
    modelled,
    runner,
)
from tests.support.ring_oracle import Ring

BITS = (50, 40, 41, 30, 45, 42)
N = 64


@st.composite
def rings(draw: st.DrawFn) -> Ring:
    """Limbs of unlike sizes, special limbs, digits of equal or unlike numbers of limbs."""
    limbs = draw(st.integers(1, 5))
    sizes: tuple[int, ...] = ()
    if draw(st.booleans()):
        cuts = sorted(draw(st.sets(st.integers(1, limbs - 1)))) if limbs > 1 else []
        sizes = tuple(b - a for a, b in zip([0, *cuts], [*cuts, limbs], strict=True))
    alpha = max(sizes) if sizes else draw(st.integers(1, limbs))
    return Ring(N, BITS[:limbs], draw(st.integers(1, 3)), alpha, draw(st.integers(0, 99)), digit_limbs=sizes)


@st.composite
def transforms(draw: st.DrawFn) -> TransformCase:
    """Sums of terms with keys and without, with diagonals or not."""
    ring = draw(rings())
    limbs = draw(st.integers(1, ring.num_q))
    sources, outputs = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    keys = [ring.random_key(ring.num_q) for _ in range(2)]  # made for more limbs than there may be
    plaintexts = [ring.small(1 << 20) for _ in range(2)]
    terms = []
    for output in range(outputs):
        with_plaintexts = draw(st.booleans())
        for _ in range(draw(st.integers(0, 3))):
            key = draw(st.integers(-1, 1))
            galois = 1 if key < 0 else 2 * draw(st.integers(0, N - 1)) + 1
            plaintext = draw(st.integers(0, 1)) if with_plaintexts else -1
            terms.append((output, draw(st.integers(0, sources - 1)), galois, key, plaintext))
    cts = [ring.random_ciphertext(limbs) for _ in range(sources)]
    return TransformCase(ring, cts, terms, keys, plaintexts, outputs, limbs > 1 and draw(st.booleans()))


@settings(max_examples=60)
@given(transforms(), st.sampled_from([4, 8]))
def test_linear_transforms(case: TransformCase, lanes: int) -> None:
    words, ran = case.on(machine(lanes, N))
    assert equal(words, case.core())
    keyed = {term[0] for term in case.terms if term[3] >= 0}
    if (
        keyed in (set(), {term[0] for term in case.terms})
        and len({term[0] for term in case.terms}) == case.outputs
    ):
        assert ran.tally.passes - ran.tally.overflow == modelled(case.ring, case.counts())


def overflow_passes(case: TransformCase) -> int:
    """Of Decomp, ModUp and ModDown: sources and targets of each conversion that has several sources."""
    ring, limbs = case.ring, case.sources[0].shape[1]
    digits = [len(ids) for ids in ring.digits(limbs)]
    extended = limbs + ring.special
    dropped = ring.special + case.rescale
    found = sum(extended for alpha in digits if alpha > 1)  # α sources, E - α targets
    return found + (2 * (dropped + limbs - case.rescale) if dropped > 1 else 0)


@pytest.mark.parametrize(
    ("lanes", "log_n", "bits", "special", "alpha", "rotations", "passes", "counted"),
    [
        (8, 8, (50, 40, 41, 42), 2, 2, 2, 352, 328),
        (8, 8, (50, 40, 41, 42, 43), 3, 3, 4, 587, 555),
        (8, 8, (50, 40, 41), 1, 1, 3, 306, 298),
        (16, 11, (50, 40, 41, 42), 2, 2, 2, 424, 400),
        (128, 13, (40, 35, 35, 35, 35), 1, 1, 2, 781, 769),
    ],
)
def test_hoisted_transforms(
    lanes: int, log_n: int, bits: Any, special: int, alpha: int, rotations: int, passes: int, counted: int
) -> None:
    """A whole one of Algorithm 3; the last has the lanes of FAME-S and the sizes of set A."""
    case = hoisted(Ring(1 << log_n, bits, special, alpha, 7), len(bits), rotations)
    words, ran = case.on(machine(lanes, 1 << log_n))
    assert equal(words, case.core())
    assert (ran.tally.passes, modelled(case.ring, case.counts())) == (passes, counted)
    assert ran.tally.overflow == overflow_passes(case) == passes - counted
    rows = (1 << log_n) // lanes
    assert ran.tally.cycles == ran.tally.scheduled
    if rows >= 64:  # of fewer rows, passes wait for what is on its way
        assert passes * rows < ran.tally.cycles < 1.02 * passes * rows


@pytest.mark.parametrize(("limbs", "special", "alpha"), [(4, 2, 2), (5, 3, 3), (3, 1, 1), (4, 4, 4)])
def test_twiddles_are_those_of_the_model(limbs: int, special: int, alpha: int) -> None:
    """Tables that stream in, of a transform, a relinearisation and a rescale."""
    ring, timing = Ring(N, BITS[:limbs], special, alpha), Timing(8, 6)
    case, x, sizes = hoisted(ring, limbs, 2), ring.random_ciphertext(limbs, 3), list(map(float, ring.moduli))
    keys = [plain_key(ring.context, each) for each in case.keys]
    plains = [plain_residues(each, ring.moduli) for each in case.plaintexts]
    relinearised, divided = Counts(), Counts()
    costs(ring).relinearise(relinearised, limbs)
    costs(ring).rescale(divided, 2, limbs)
    shape = RingShape(N, tuple(sizes[:limbs]), tuple(sizes[limbs:]), alpha, 40.0)
    model = Accelerator(Configuration("one", 1, 8, 100.0, twiddles=True), shape)

    def tables(call: Callable[[Lowering], None]) -> int:
        assembler = Assembler(timing, 1 << 13, 54, ring.moduli)
        call(Lowering(assembler, special, alpha))
        words = timing.twiddle_rows * timing.lanes
        return sum(isinstance(item, Fetch) and len(item.words) == words for item in assembler.items)

    for kind, counts, call in (
        (
            "transform",
            case.counts(),
            lambda to: to.linear_transform(case.sources, case.terms, keys, plains, 1, True),
        ),
        ("product", relinearised, lambda to: to.relinearise(x, keys[0], False)),
        ("product", divided, lambda to: to.rescale(x[:2])),
    ):
        assert tables(call) == model.twiddle_limbs(Operation(kind, limbs, counts))


@given(rings(), st.data())
def test_products(ring: Ring, data: st.DataObject) -> None:
    limbs = data.draw(st.integers(1, ring.num_q))
    number = data.draw(st.integers(1, 3))
    rescale = limbs > 1 and data.draw(st.booleans())
    lefts, rights = ([ring.random_ciphertext(limbs) for _ in range(number)] for _ in range(2))
    accumulator = ring.random_ciphertext(limbs, 3) if data.draw(st.booleans()) else None
    key = ring.random_key(limbs)
    ran = runner(ring, machine(8, N))
    total = ran.multiply_sum(lefts, rights, accumulator)
    kept = None if accumulator is None else aligned_empty(accumulator.shape)
    if kept is not None:  # the core writes to it
        kept[...] = accumulator
    assert np.array_equal(total, ring.context.multiply_sum(lefts, rights, kept))
    counts = Counts()
    costs(ring).multiply_sum(counts, number, limbs)
    assert ran.tally.passes == modelled(ring, counts)
    assert np.array_equal(ran.relinearise(total, key, rescale), ring.context.relinearise(total, key, rescale))
    costs(ring).relinearise(counts, limbs, rescale)
    assert ran.tally.passes - ran.tally.overflow == modelled(ring, counts)


@given(rings(), st.integers(2, 3), st.data())
def test_sums_and_divisions(ring: Ring, components: int, data: st.DataObject) -> None:
    x, y = (ring.random_ciphertext(ring.num_q, components) for _ in range(2))
    factors = data.draw(st.lists(st.integers(-(1 << 70), 1 << 70), min_size=2, max_size=2))
    constant = data.draw(st.integers(-(1 << 70), 1 << 70))
    ran = runner(ring, machine(4, N))
    assert np.array_equal(ran.add(x, y), ring.context.add(x, y))
    (want,) = ring.context.scaled_sums([([x, y], factors, constant)])
    assert np.array_equal(ran.scaled_sum([x, y], factors, constant), want)
    if ring.num_q > 1:
        before, counts = ran.tally.passes, Counts()
        assert np.array_equal(ran.rescale(x), ring.context.rescale(x))
        costs(ring).rescale(counts, components, ring.num_q)
        assert ran.tally.passes - before == modelled(ring, counts)


# --- base conversion ---


def converted(coefficients: list[int], primes: list[int], target: int) -> list[int]:
    """The coefficients of integers, given modulo each prime, modulo another prime."""
    timing = Timing(4, 6)
    assembler = Assembler(timing, 1 << 13, 54, [*primes, target])
    conversion = Conversion(range(len(primes)), assembler.primes)
    for number, q in enumerate(primes):
        residues = np.array([x % q for x in coefficients], dtype=np.uint64)
        source = assembler.fetch("incoming", COEFFICIENTS, transformed(residues, q))
        y = assembler.slot(number, COEFFICIENTS)
        conversion.slots.append(y)
        assembler.inverse(source, y, number, conversion.factor(number), conversion.shift)
    assembler.count_overflow(conversion, assembler.slot("overflow", SECOND))
    result = assembler.slot("result", COEFFICIENTS)
    assembler.forward(assembler.convert(conversion, len(primes)), result, len(primes))
    assembler.store(result, 0, 0, 0)
    program = scheduled(timing, 1 << 13, assembler.items)
    element = Machine(timing)
    element.set_moduli(assembler.moduli)
    (words,) = element.run(program.passes, program.events, program.stream).words
    return words.tolist()


@pytest.mark.parametrize("sources", range(1, 14))
def test_base_conversion(sources: int) -> None:
    """Exact and centred, at the edges of its range as well."""
    ring = Ring(N, tuple([50, 40, 45, 30] * 4)[:sources], 1, 1)
    primes, target = ring.moduli[:sources], ring.moduli[-1]
    product = prod(primes)
    near = product >> 40
    edges = [0, 1, -1, product // 2 - near, -(product // 2) + near]
    if sources == 1:
        edges += [product // 2, -(product // 2)]
    rng = np.random.default_rng(sources)
    random = [int(rng.integers(1 << 62)) * product // (1 << 62) - product // 2 for _ in range(N - len(edges))]
    whole = edges + random
    wanted = transformed(np.array([x % target for x in whole], dtype=np.uint64), target)
    assert converted(whole, primes, target) == wanted.tolist()


# --- refusals, and what the model itself checks ---


def test_a_scratchpad_that_is_too_small() -> None:
    case = hoisted(Ring(N, BITS[:4], 2, 2), 4, 2)
    element = Machine(Timing(8, 6), bank_rows=64)
    with pytest.raises(FitError, match="scratchpad"):
        case.on(element)


def test_coefficients_lie_in_two_banks_where_one_is_full() -> None:
    """14 limbs of coefficients and digits, and room for 13 in a bank."""
    case = hoisted(Ring(N, BITS[:4], 2, 2), 4, 2)
    words, _ = case.on(Machine(Timing(8, 6), bank_rows=13 * 8))
    assert equal(words, case.core())


def test_more_moduli_than_the_table_has() -> None:
    with pytest.raises(FitError, match="moduli"):
        Assembler(Timing(8, 6), 1 << 13, 54, [97] * 64)


@pytest.mark.parametrize("lanes", [3, 2, 32])
def test_lanes_that_cannot_be(lanes: int) -> None:
    with pytest.raises(ParameterError, match="lanes"):
        Timing(lanes, 6)


def test_rows_that_nothing_wrote_are_not_read() -> None:
    element = machine(8, N)
    element.set_moduli([Modulus.of(97)])
    with pytest.raises(MismatchError, match="not written"):
        element.run([Pass(Arithmetic.MUL, 0, 0, 0, 1, 0)], [], np.empty(0, np.uint64))
    with pytest.raises(MismatchError, match="not written"):
        element.run([], [ReadRows(0, 0, 0, 8)], np.empty(0, np.uint64))


def test_roots_are_those_of_the_core() -> None:
    ring = Ring(N, (50,), 1, 1)
    q = ring.moduli[0]
    unit = np.zeros(N, np.uint64)
    unit[1] = 1
    (mine,) = ring.context.rows_to_ntt(unit[None, None])
    assert np.array_equal(transformed(unit, q), mine[0])
    assert pow(int(roots(N, q)[1]), 2, q) == q - 1
