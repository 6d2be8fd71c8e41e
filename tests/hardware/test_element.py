"""Transforms, automorphisms, random and wrong programs on the simulated element: words and cycles."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cipherblas import _core
from cipherblas.common.errors import MismatchError, ParameterError
from cipherblas_hardware.accelerator.assembler import Assembler, Fetch, Item, Slot, Step, Store
from cipherblas_hardware.accelerator.isa import (
    TAKES_C,
    Arithmetic,
    Factors,
    Modulus,
    Outcome,
    Pass,
    Permutation,
    ReadRows,
    SetGalois,
    SetScalar,
    Words,
    WriteRows,
)
from cipherblas_hardware.accelerator.machine import Machine
from cipherblas_hardware.accelerator.schedule import scheduled
from cipherblas_hardware.accelerator.simulator import SimulatedElement
from cipherblas_hardware.accelerator.timing import Timing
from tests.support.element_runs import equal, hoisted
from tests.support.ring_oracle import Ring

Make = Callable[[Timing], SimulatedElement]
BANK_ROWS = 1 << 13
NONE = np.empty(0, np.uint64)


def run(element: Any, items: list[Item], moduli: list[Modulus]) -> Outcome:
    """Items as a program, whose cycles must be those of its schedule."""
    program = scheduled(element.timing, BANK_ROWS, items)
    element.set_moduli(moduli)
    outcome = element.run(program.passes, program.events, program.stream)
    assert outcome.cycles == program.cycles
    return Outcome(
        [outcome.words[program.places.index(place)] for place in sorted(program.places)], outcome.cycles
    )


@pytest.mark.parametrize("log_n", [8, 10, 12])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_transforms(simulated: Make, lanes: int, log_n: int) -> None:
    """Of zeros, ones, q - 1 and random words; and back, times a factor."""
    timing, element = Timing(lanes, log_n), simulated(Timing(lanes, log_n))
    n, rng = timing.n, np.random.default_rng(log_n)
    for bits in (30, 50):
        (q,) = primes = _core.primes(n, bits, 1)
        context = _core.Context(n, primes, _core.primes(n, 49, 1), 1)
        for x in (np.zeros(n), np.ones(n), np.full(n, q - 1), rng.integers(0, q, n)):
            x = x.astype(np.uint64)
            (evaluations,) = context.rows_to_ntt(x[None, None])[0]
            assembler = Assembler(timing, BANK_ROWS, element.width, primes)
            middle, end = assembler.slot("middle", 0), assembler.slot("end", 3)
            assembler.inverse(assembler.fetch("incoming", 0, evaluations), middle, 0, 3, 0)
            assembler.forward(middle, end, 0)
            for place, slot in enumerate((middle, end)):
                assembler.store(slot, place, 0, 0)
            coefficients, back = run(element, assembler.items, assembler.moduli).words
            assert (coefficients[timing.rotated_right] == x * np.uint64(3) % np.uint64(q)).all()
            assert (back == evaluations.astype(object) * 3 % q).all()


@pytest.mark.parametrize(("lanes", "log_n"), [(4, 8), (8, 10), (16, 12)])
def test_cycles_of_a_transform(simulated: Make, lanes: int, log_n: int) -> None:
    """log2(N) passes of N/dp rows, and once the way from the first address to the last row that can be read."""
    timing = Timing(lanes, log_n)
    primes = _core.primes(timing.n, 40, 1)
    element = simulated(timing)
    assembler = Assembler(timing, BANK_ROWS, element.width, primes)
    assembler.forward(
        assembler.fetch("incoming", 0, np.arange(timing.n, dtype=np.uint64)), assembler.slot("end", 3), 0
    )
    fetches = [item for item in assembler.items if isinstance(item, Fetch)]
    events = [WriteRows(0, one.slot.bank, one.slot.row, one.words) for one in fetches]
    passes = [item.one for item in assembler.items if isinstance(item, Step)]
    element.set_moduli(assembler.moduli)
    cycles = element.run(passes, events, NONE).cycles
    assert timing.rows >= 64
    assert cycles == log_n * timing.rows + timing.to_bank + 1
    assert element.issued == log_n * timing.rows


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_automorphisms(simulated: Make, lanes: int) -> None:
    """By every odd number, with a multiplication by what streams in, added to a limb: c + automorphism(a)·b."""
    timing = Timing(lanes, 8)
    element, rng = simulated(timing), np.random.default_rng(lanes)
    (q,) = primes = _core.primes(timing.n, 50, 1)
    context = _core.Context(timing.n, primes, _core.primes(timing.n, 49, 1), 1)
    a, b, c = (rng.integers(0, q, timing.n, dtype=np.uint64) for _ in range(3))
    for galois in range(1, 2 * timing.n, 2):
        one = Pass(
            Arithmetic.MAC,
            *(0, 0, 0, 1, 0),
            permutation=Permutation.AUTOMORPHISM,
            galois=galois % 64,
            factors=Factors.STREAM,
            c_bank=2,
        )
        events = [
            SetGalois(0, galois % 64, galois),
            WriteRows(0, 0, 0, a),
            WriteRows(0, 2, 0, c),
            ReadRows(1 << 10, 1, 0, timing.rows),
        ]
        element.set_moduli([Modulus.of(q, element.width)])
        (found,) = element.run([one], events, b).words
        image = context.automorphism(a[None], galois)[0].astype(object)
        assert (found == (image * b + c) % q).all(), galois


# --- random programs, on the hardware and on its functional model ---


@st.composite
def programs(draw: st.DrawFn, timing: Timing, q: int) -> list[Item]:
    """All operations, permutations and kinds of factors, on two limbs in each bank and a table of twiddle factors."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))

    def limb(rows: int = timing.rows) -> Words:
        return rng.integers(0, q, rows * timing.lanes, dtype=np.uint64)

    slots = [Slot(bank, rows * timing.rows) for bank in range(4) for rows in range(2)]
    table = Slot(2, 2 * timing.rows)
    items: list[Item] = [Fetch(slot, limb()) for slot in slots]
    items.append(Fetch(table, limb(timing.twiddle_rows)))
    items += [SetScalar(0, number, int(rng.integers(q))) for number in range(8)]
    items += [SetGalois(0, number, 2 * int(rng.integers(timing.n)) + 1) for number in range(4)]
    for _ in range(draw(st.integers(1, 16))):
        arithmetic, permutation = draw(st.sampled_from(Arithmetic)), draw(st.sampled_from(Permutation))
        factors, constant = draw(st.sampled_from(Factors)), draw(st.booleans())
        if permutation is Permutation.RIGHT and factors is Factors.STREAM:
            factors = (
                Factors.ROWS
            )  # what streams in comes in the order in which rows are issued, which is another one
        bank_b = 2 if factors is Factors.TWIDDLES else draw(st.integers(0, 3))
        bank_a, bank_c = draw(st.permutations([bank for bank in range(4) if bank != bank_b]))[:2]
        a, b, c = (slots[2 * bank + draw(st.integers(0, 1))] for bank in (bank_a, bank_b, bank_c))
        d = draw(st.sampled_from([slot for slot in slots if slot != a]))
        b = table if factors is Factors.TWIDDLES else b
        one = Pass(
            arithmetic,
            0,
            *(a.bank, a.row, d.bank, d.row),
            permutation=permutation,
            galois=draw(st.integers(0, 3)),
            factors=factors,
            stage=draw(st.integers(0, timing.log_n - 1)),
            constant=constant,
            scalar=draw(st.integers(0, 6)),
            c_scalar=draw(st.integers(0, 7)),
            b_bank=b.bank,
            b_row=b.row,
            c_bank=c.bank,
            c_row=c.row,
        )
        items.append(Step("any", one, limb() if factors is Factors.STREAM else None))
    return [*items, *(Store(slot, (0, 0, place)) for place, slot in enumerate(slots))]


@pytest.mark.parametrize(
    ("lanes", "log_n", "buffered"),
    [(4, 6, False), (4, 8, False), (8, 8, False), (16, 9, False), (8, 8, True)],
)
@given(data=st.data())
@settings(max_examples=20)
def test_random_programs(
    simulated: Make, lanes: int, log_n: int, buffered: bool, data: st.DataObject
) -> None:
    timing = Timing(lanes, log_n, buffered=buffered)
    q = data.draw(st.sampled_from([_core.primes(timing.n, bits, 1)[0] for bits in (25, 40, 50)]))
    items = data.draw(programs(timing, q))
    element = simulated(timing)
    moduli = [Modulus.of(q, element.width)]
    program = scheduled(timing, BANK_ROWS, items)
    # All limbs are there from the start on: a pass may write over one that no pass has read.
    events = [replace(one, cycle=0) if isinstance(one, WriteRows) else one for one in program.events]
    outcomes = []
    for one in (element, Machine(timing)):
        one.set_moduli(moduli)
        outcomes.append(one.run(program.passes, events, program.stream))
    found, wanted = outcomes
    assert all(np.array_equal(*pair) for pair in zip(found.words, wanted.words, strict=True))
    assert found.cycles == wanted.cycles == program.cycles


# --- whole transforms ---


@pytest.mark.parametrize(
    ("lanes", "log_n", "bits", "special", "alpha", "rotations"),
    [
        (8, 8, (50, 40, 41, 42), 2, 2, 2),
        (8, 8, (50, 40, 41, 42, 43), 3, 3, 4),
        (4, 8, (50, 40, 41), 1, 1, 3),
        (16, 11, (50, 40, 41, 42), 2, 2, 2),
    ],
)
def test_hoisted_transforms(
    simulated: Make, lanes: int, log_n: int, bits: Any, special: int, alpha: int, rotations: int
) -> None:
    """Algorithm 3 as a whole: the words of the core, in the cycles of the schedule."""
    case = hoisted(Ring(1 << log_n, bits, special, alpha, 7), len(bits), rotations)
    words, ran = case.on(simulated(Timing(lanes, log_n)))
    assert equal(words, case.core())
    assert ran.tally.cycles == ran.tally.scheduled


def test_buffers_give_the_same_words_later(simulated: Make) -> None:
    """The permutation circuit as Fig. 4 prints it: a pass is on its way for half a limb's rows and two cycles more."""
    case = hoisted(Ring(1 << 8, (50, 40, 41, 42), 2, 2, 7), 4, 2)
    (words, rows), (same, buffers) = (
        case.on(simulated(Timing(8, 8, buffered=buffered))) for buffered in (False, True)
    )
    assert equal(words, same) and equal(same, case.core())
    assert buffers.tally.cycles == buffers.tally.scheduled > rows.tally.cycles
    assert buffers.tally.passes == rows.tally.passes


# --- what a program must not do ---

TIMING = Timing(8, 7)
Q = 97


def refused(simulated: Make, passes: list[Pass], events: list[Any], match: str) -> None:
    element = simulated(TIMING)
    element.set_moduli([Modulus.of(Q)])
    with pytest.raises(MismatchError, match=match):
        element.run(passes, events, NONE)


def limb_at(bank: int, word: int = 1, cycle: int = 0) -> WriteRows:
    return WriteRows(cycle, bank, 0, np.full(TIMING.n, word, np.uint64))


def test_a_pass_that_waits_too_little_is_refused(simulated: Make) -> None:
    """Each wait of a transform is needed: with one cycle less a row is read before it is written."""
    items: list[Item] = [Fetch(Slot(0, 0), np.ones(TIMING.n, np.uint64)), SetScalar(0, 0, 1)]
    items += [
        Step("any", Pass(Arithmetic.MUL, 0, bank, 0, 1 - bank, 0, permutation=permutation))
        for bank, permutation in zip(
            itertools.cycle((0, 1)), (Permutation.LEFT, Permutation.RIGHT, Permutation.LEFT), strict=False
        )
    ]
    program = scheduled(TIMING, BANK_ROWS, items)
    waits = [number for number, one in enumerate(program.passes) if number and one.wait]
    assert waits
    for number in waits:
        passes = list(program.passes)
        passes[number] = replace(passes[number], wait=passes[number].wait - 1)
        refused(simulated, passes, program.events, "before it is written")


def test_rows_that_nothing_wrote_are_refused(simulated: Make) -> None:
    refused(simulated, [Pass(Arithmetic.MUL, 0, 0, 0, 1, 0)], [], "Operand a is read from row 0 of bank 0")
    refused(simulated, [], [ReadRows(0, 2, 5, 1)], "Row 5 of bank 2 leaves before")


@pytest.mark.parametrize("arithmetic", [one for one in Arithmetic if one in TAKES_C])
def test_two_operands_of_a_bank_are_refused(simulated: Make, arithmetic: Arithmetic) -> None:
    passes = [Pass(arithmetic, 0, 0, 0, 1, 0, c_bank=0)]
    refused(
        simulated,
        passes,
        [limb_at(0), SetScalar(0, 0, 1), SetScalar(0, 1, 1)],
        "Two operands are read from bank 0",
    )


def test_a_stream_that_ends_is_refused(simulated: Make) -> None:
    passes = [Pass(Arithmetic.MUL, 0, 0, 0, 1, 0, factors=Factors.STREAM)]
    refused(simulated, passes, [limb_at(0)], "takes a row of the stream, which has none")


def test_words_that_are_no_residues_are_refused(simulated: Make) -> None:
    passes = [Pass(Arithmetic.ADD, 0, 0, 0, 1, 0, c_bank=2)]
    refused(simulated, passes, [limb_at(0, Q), limb_at(2, Q)], "is no residue")


def test_rings_that_the_hardware_is_too_small_for(kept: Any) -> None:
    with pytest.raises(ParameterError, match="ring"):
        SimulatedElement(Timing(8, 10), largest_log_n=9, folder=kept)
    with pytest.raises(ParameterError, match="ring"):
        SimulatedElement(Timing(8, 17), folder=kept)
