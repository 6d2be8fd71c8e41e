"""Simulates a transform and a rotation on the accelerator's hardware and stores what its signals are in some cycles.

usage: trace_rtl.py [--folder FOLDER]

Stores docs/measured/fame-rtl-trace.jsonl: of each trace a line about it and a line per signal. Needs Verilator;
building the element takes a minute, and it is kept in FOLDER or where `fame-sim` keeps it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cipherblas import _core
from cipherblas_hardware.accelerator.assembler import Assembler
from cipherblas_hardware.accelerator.isa import INSTRUCTION_BITS, Factors, Pass, Permutation, SetGalois
from cipherblas_hardware.accelerator.lowering import Lowering
from cipherblas_hardware.accelerator.schedule import scheduled
from cipherblas_hardware.accelerator.simulator import SimulatedElement
from cipherblas_hardware.accelerator.timing import Timing
from cipherblas_hardware.model.configuration import WORD_BITS
from measure_rtl import digest

STORED = Path(__file__).resolve().parent.parent / "docs" / "measured" / "fame-rtl-trace.jsonl"
LANES, BANK_ROWS, LARGEST = 4, 1 << 11, 8  # of one element for both
BITS = 13  # of the primes: words that a page has room for
STAGE = 3  # of the transform
SHOWN = 2  # lanes whose words are stored
BEFORE, AFTER = 3, 3  # cycles of a window around what it is of


def samples(file: Path) -> Iterator[dict[str, int]]:
    """The element's signals in each cycle of a VCD, settled before the clock's edge."""
    names: dict[str, list[str]] = {}
    state: dict[str, int] = {}
    scopes: list[str] = []

    def now() -> dict[str, int]:
        return {name: state[code] for code, each in names.items() for name in each if code in state}

    for line in file.read_text(encoding="ascii").splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == "$scope":
            scopes.append(words[2])
        elif words[0] == "$upscope":
            scopes.pop()
        elif words[0] == "$var" and scopes == ["TOP", "element"]:
            names.setdefault(words[3], []).append(words[4])
        elif words[0][0] == "#" and state:
            found = now()
            if not found["clk_i"]:
                yield found
        elif words[0][0] == "b":
            state[words[1]] = int(words[0][1:], 2)
        elif words[0][0] in "01":
            state[words[0][1:]] = int(words[0][0])


def values(cycle: dict[str, int], log_r: int) -> dict[str, Any]:
    """What is stored of a cycle: passes as integers of 128 bits, and None where a signal says nothing."""

    def control(name: str) -> int | None:
        found = cycle[name]
        return found & (1 << INSTRUCTION_BITS) - 1 if found >> INSTRUCTION_BITS + log_r else None

    banks, lanes, done = control("at_banks"), control("at_lanes"), control("done")
    issued = cycle["current"] if cycle["issue"] else None
    b_read, c_read = banks if cycle["reads_b"] else None, banks if cycle["reads_c"] else None
    found: dict[str, Any] = {
        "issued": issued,
        "row": None if issued is None else cycle["row"],
        "a_row": None if issued is None else cycle["a_row"],
        "b_read": b_read,
        "b_row": None if b_read is None else cycle["b_row"],
        "c_read": c_read,
        "c_row": None if c_read is None else cycle["c_row"],
        "streamed": control("choosing") if cycle["stream_ready_o"] else None,
        "in_lanes": lanes,
        "written": done,
        "d_row": None if done is None else cycle["d_row"],
    }
    for operand, name, valid in (
        *(("a", "a_lanes", lanes), ("b", "b_lanes", lanes), ("c", "c_lanes", lanes)),
        ("r", "result", done),
    ):
        for lane in range(SHOWN):
            word = cycle[name] >> lane * WORD_BITS & (1 << WORD_BITS) - 1
            found[f"{operand}{lane}"] = None if valid is None else word
    return found


def traced(
    name: str,
    assembler: Assembler,
    folder: Path | None,
    first: Callable[[Pass], bool],
    last: Callable[[Pass], bool],
) -> list[dict[str, Any]]:
    """The lines of a program, from the first row of a pass until all rows that were issued before another are written.

    Args:
        name: of the trace.
        assembler: that has the program.
        folder: where built elements are kept.
        first: whether a pass is the first of the window.
        last: whether a pass is the first one after it.
    """
    timing = assembler.timing
    program = scheduled(timing, BANK_ROWS, assembler.items)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "trace.vcd"
        element = SimulatedElement(timing, BANK_ROWS, WORD_BITS, LARGEST, folder, trace=file)
        element.set_moduli(assembler.moduli)
        element.run(program.passes, program.events, program.stream)
        del element  # which closes the file
        log_r = LARGEST - timing.lane_bits
        found = [values(cycle, log_r) for cycle in samples(file)]
    decoded = [None if one["issued"] is None else Pass.decode(one["issued"]) for one in found]
    begin = next(k for k, one in enumerate(decoded) if one and first(one))
    after = next(k for k, one in enumerate(decoded) if k > begin and one and last(one))
    window = found[begin - BEFORE : after + timing.to_bank + AFTER]
    passes: list[int] = []
    for one in window:
        for word in (
            one[signal] for signal in ("written", "in_lanes", "streamed", "b_read", "c_read", "issued")
        ):
            if word is not None and word not in passes:
                passes.append(word)
    about = {
        "trace": name,
        "lanes": timing.lanes,
        "log_n": timing.log_n,
        "first_cycle": -BEFORE,
        "moduli": assembler.primes,
        "galois": [item.value for item in assembler.items if isinstance(item, SetGalois)],
        "passes": [f"{word:032x}" for word in passes],
        "sources": digest("element"),
        "verilator": importlib.metadata.version("verilator"),
    }
    by_pass = ("issued", "b_read", "c_read", "streamed", "in_lanes", "written")
    lines = []
    for signal in window[0]:
        column = [one[signal] for one in window]
        if signal in by_pass:
            column = [None if word is None else passes.index(word) for word in column]
        lines.append({"trace": name, "signal": signal, "values": column})
    return [about, *lines]


def transform(rng: np.random.Generator) -> Assembler:
    """An NTT of 2^8 words."""
    timing = Timing(LANES, LARGEST)
    primes = _core.primes(timing.n, BITS, 1)
    assembler = Assembler(timing, BANK_ROWS, WORD_BITS, primes)
    words = rng.integers(0, primes[0], timing.n, dtype=np.uint64)
    assembler.forward(assembler.fetch("incoming", 0, words), assembler.slot("end", 3), 0)
    return assembler


def rotations(rng: np.random.Generator) -> Assembler:
    """A transform of three rotations by Algorithm 3, two limbs and a special one, of a digit each, N = 2^7."""
    timing = Timing(LANES, LARGEST - 1)
    primes = _core.primes(timing.n, BITS, 3)

    def residues(*which: int) -> list[Any]:
        return [rng.integers(0, primes[k], timing.n, dtype=np.uint64) for k in which]

    assembler = Assembler(timing, BANK_ROWS, WORD_BITS, primes)
    source = np.array([residues(0, 1) for _ in range(2)])
    keys = [[[residues(0, 1, 2) for _ in range(2)] for _ in range(2)] for _ in range(3)]
    terms = [(0, 0, pow(5, k + 1, 2 * timing.n), k, k) for k in range(3)]
    plaintexts = [residues(0, 1, 2) for _ in terms]
    Lowering(assembler, 1, 1).linear_transform([source], terms, keys, plaintexts, 1, False)
    return assembler


def simulated(folder: Path | None = None) -> list[dict[str, Any]]:
    """The lines of both traces; built elements are kept in a folder."""
    rng = np.random.default_rng(1)

    def stage(wanted: int) -> Callable[[Pass], bool]:
        return lambda one: one.stage == wanted

    def key_product(rotation: int) -> Callable[[Pass], bool]:
        def found(one: Pass) -> bool:
            rotated = one.permutation is Permutation.AUTOMORPHISM and one.factors is Factors.STREAM
            return rotated and (one.galois, one.modulus) == (rotation, 0)

        return found

    lines = traced("transform", transform(rng), folder, stage(STAGE), stage(STAGE + 1))
    return lines + traced("rotation", rotations(rng), folder, key_product(1), key_product(2))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="where the built element is kept")
    lines = simulated(parser.parse_args().folder)
    STORED.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
