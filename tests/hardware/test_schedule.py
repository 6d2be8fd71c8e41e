"""The schedule of a program against its rules, checked cycle by cycle: rows, ports, streams, tables."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from cipherblas_hardware.accelerator.assembler import Assembler
from cipherblas_hardware.accelerator.image import plain_key, plain_residues
from cipherblas_hardware.accelerator.isa import (
    Factors,
    Pass,
    Permutation,
    ReadRows,
    SetGalois,
    SetScalar,
    WriteRows,
)
from cipherblas_hardware.accelerator.lowering import Lowering
from cipherblas_hardware.accelerator.schedule import Schedule, scheduled
from cipherblas_hardware.accelerator.timing import Timing
from tests.support.element_runs import hoisted
from tests.support.ring_oracle import Ring

ROWS = 1 << 13


def program(timing: Timing, alpha: int, rotations: int) -> Schedule:
    """Of a transform."""
    ring = Ring(timing.n, (50, 40, 41, 42), 2, alpha, 3)
    case = hoisted(ring, 4, rotations)
    assembler = Assembler(timing, ROWS, 54, ring.moduli)
    keys = [plain_key(ring.context, key) for key in case.keys]
    plains = [plain_residues(each, ring.moduli) for each in case.plaintexts]
    Lowering(assembler, 2, alpha).linear_transform(case.sources, case.terms, keys, plains, 1, True)
    return scheduled(timing, ROWS, assembler.items)


def twiddle_row(timing: Timing, stage: int, row: int) -> int:
    """Of the table, for a row of a limb: half a row for each of the first stages, then the words of each stage."""
    half = timing.lanes // 2
    before = sum(max(half, 1 << earlier) for earlier in range(stage))
    return (before + row * half % max(half, 1 << stage)) // timing.lanes


def operand_rows(timing: Timing, one: Pass, galois: int) -> list[tuple[str, int, int, int, int]]:
    """Port, bank, row, cycle after the start, and number of the row, of all rows that a pass reads and writes."""
    found = []
    for i in range(timing.rows):
        half = (i >> 1) + (i & 1) * (timing.rows // 2)
        a, out = i, half if one.permutation is Permutation.RIGHT else i
        if one.permutation is Permutation.LEFT:
            a = half
        elif one.permutation is Permutation.AUTOMORPHISM:
            a = int(timing.automorphism(galois)[i * timing.lanes]) // timing.lanes
        found.append(("read", one.a_bank, one.a_row + a, i))
        if one.factors is Factors.ROWS:
            found.append(("read", one.b_bank, one.b_row + out, i + timing.skew))
        if one.factors is Factors.TWIDDLES:
            row = one.b_row + twiddle_row(timing, one.stage, out)
            found.append(("read", one.b_bank, row, i + timing.skew))
        if one.reads_c:
            found.append(("read", one.c_bank, one.c_row + out, i + timing.skew))
        found.append(("write", one.d_bank, one.d_row + out, i + timing.to_bank))
    return [(*each, i) for i, each in enumerate(found)]


def starts(timing: Timing, found: Schedule) -> list[int]:
    """The cycle in which each pass begins."""
    waits = itertools.accumulate(one.wait for one in found.passes)
    return [wait + number * timing.rows for number, wait in enumerate(waits)]


def violations(timing: Timing, found: Schedule) -> set[str]:
    """The rules that a schedule breaks."""
    broken = set()
    galois = {}
    sets = sorted((e for e in found.events if isinstance(e, SetGalois)), key=lambda e: e.cycle)
    ports: defaultdict[Any, int] = defaultdict(int)
    # Accesses of each row in the order of the program, which is that of passes; events are placed among them by cycle.
    touched: defaultdict[tuple[int, int], list[tuple[int, str, int]]] = defaultdict(list)
    begins = starts(timing, found)
    for number, (one, start) in enumerate(zip(found.passes, begins, strict=True)):
        if one.permutation is Permutation.AUTOMORPHISM:
            galois = {e.number: e.value for e in sets if e.cycle <= start}
        for port, bank, row, delay, _ in operand_rows(timing, one, galois.get(one.galois, 1)):
            ports[port, bank, start + delay] += 1
            touched[bank, row].append((start + delay, port, number))
    if any(count > 1 for count in ports.values()):
        broken.add("a port is used twice in a cycle")
    loads = defaultdict(list)
    for event in found.events:
        if isinstance(event, WriteRows):
            for row in range(event.row, event.row + len(event.words) // timing.lanes):
                loads[event.bank, row].append(event.cycle)
    for place, accesses in touched.items():
        written: dict[int, int] = {number: cycle for cycle, port, number in accesses if port == "write"}
        for cycle, port, number in accesses:
            if port == "read":
                before = [c for other, c in written.items() if other < number]
                sources = [*before, *(c for c in loads[place] if c <= cycle)]
                if not sources or (
                    before and max(before) >= cycle and not any(c > max(before) for c in loads[place])
                ):
                    broken.add("a row is read before it is written")
                if any(c <= cycle for other, c in written.items() if other > number):
                    broken.add("a row is written before it is read")
                if written.get(number, cycle + 1) <= cycle:
                    broken.add("a pass reads what it has written")
    used: defaultdict[int, list[int]] = defaultdict(list)
    for one, start in zip(found.passes, begins, strict=True):
        for number in {one.scalar, one.scalar + (one.factors is Factors.SCALAR_PAIR)}:
            used[number] += range(start + timing.skew - 1, start + timing.skew + timing.rows + 1)
    for event in found.events:
        if isinstance(event, SetScalar) and event.cycle > 0 and event.cycle in used[event.number]:
            broken.add("a scalar changes while it is used")
    return broken


@pytest.mark.parametrize(("lanes", "log_n", "alpha", "rotations"), [(4, 7, 2, 2), (8, 8, 1, 1), (4, 6, 3, 2)])
def test_schedules_keep_the_rules(lanes: int, log_n: int, alpha: int, rotations: int) -> None:
    timing = Timing(lanes, log_n)
    found = program(timing, alpha, rotations)
    assert violations(timing, found) == set()
    assert found.cycles == starts(timing, found)[-1] + timing.rows + timing.to_bank + 1
    assert sum(found.waits.values()) == sum(one.wait for one in found.passes)
    assert [event.cycle for event in found.events] == sorted(event.cycle for event in found.events)


@pytest.mark.parametrize("rule", ["read before it is written", "port is used twice"])
def test_broken_schedules_are_noticed(rule: str) -> None:
    """Without the cycles that passes wait."""
    timing = Timing(4, 6)
    found = program(timing, 2, 2)
    hasty = replace(found, passes=[replace(one, wait=0) for one in found.passes])
    assert any(rule in each for each in violations(timing, hasty))


def test_a_transform_of_enough_rows_waits_for_nothing() -> None:
    """log2(N)·N/dp cycles and the way through the lanes, where half a limb is longer than that."""
    timing = Timing(4, 10)
    assembler = Assembler(timing, ROWS, 54, Ring(1 << 10, (50,), 1, 1).moduli)
    source = assembler.slot("source", 0)
    assembler.forward(source, assembler.slot("target", 0), 0)
    found = scheduled(timing, ROWS, assembler.items)
    first = found.passes[0].wait  # for the twiddle factors
    assert found.cycles - first == 10 * timing.rows + timing.to_bank + 1
    assert any(isinstance(event, WriteRows) for event in found.events)
    assert not any(isinstance(event, ReadRows) for event in found.events)
