"""Writes the tables of docs/fame-rtl.md and draws its pictures, from what measure_rtl.py and trace_rtl.py store.

usage: draw_rtl.py [--write] [--pictures FOLDER]

Without arguments it prints the tables. Pictures need matplotlib.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from cipherblas_hardware.accelerator.isa import Factors, Pass
from cipherblas_hardware.accelerator.synthesis import Cells
from cipherblas_hardware.accelerator.timing import Timing
from cipherblas_hardware.model.configuration import WORD_BITS
from measured_pages import MEASURED, ROOT, Row, main, number, rows, table

PAGE = ROOT / "docs" / "fame-rtl.md"
NAMES = {"dsp": "DSP48E2", "lut": "LUT", "ff": "FF", "bram18": "BRAM18", "uram": "URAM"}
# Tables IV and V of the paper: processing elements, lanes of each, scratchpad of each; then cells of all.
PUBLISHED: dict[str, tuple[int, int, str, dict[str, int]]] = {
    "S": (2, 128, "864 KB", {"dsp": 5376, "lut": 636_000, "ff": 998_000, "bram18": 1024, "uram": 0}),
    "M": (2, 128, "7.6 MB", {"dsp": 5376, "lut": 701_000, "ff": 1_147_000, "bram18": 640, "uram": 192}),
    "L": (1, 256, "30.4 MB", {"dsp": 5376, "lut": 803_000, "ff": 1_660_000, "bram18": 3328, "uram": 672}),
}
BRAM18_BITS, URAM_BITS = 1024 * 18, 4096 * 72
# Of the Alveo U280, and its three dies, which are drawn as thirds of it.
DEVICE, DIES = {"lut": 1_304_000, "dsp": 9024, "bram18": 4032, "uram": 960}, 3
UNITS = {"KB": 2**10, "MB": 2**20}
BANKS: dict[str, list[dict[str, Any]]] = {  # of an element: two of each; "ultra" ones are URAM
    "S": [{"Dp": 128, "Depth": 512}] * 2,
    "M": [{"Dp": 128, "Depth": 512}, {"Dp": 128, "Depth": 4096, "Style": '"ultra"'}],
    "L": [{"Dp": 256, "Depth": 2048}, {"Dp": 256, "Depth": 8192, "Style": '"ultra"'}],
}
LOG_N = {"S": 13, "M": 15, "L": 16}  # of the parameter set of each


def measured() -> list[Row]:
    """A row per module."""
    return rows(MEASURED / "fame-rtl.jsonl")


def cells(found: list[Row], module: str, **parameters: Any) -> Cells:
    """Of the row of a module that has these parameters."""
    (row,) = [
        one for one in found if one["module"] == module and parameters.items() <= one["parameters"].items()
    ]
    return Cells(**{name: row[name] for name in NAMES})


def modules(found: list[Row]) -> str:
    """Cells of each."""
    body = [
        [
            f"`{row['module']}`",
            ", ".join(f"{name} = {str(value).strip(chr(34))}" for name, value in row["parameters"].items()),
            *(f"{row[name]:,}" for name in NAMES),
        ]
        for row in found
    ]
    return table(("module", "parameters", *NAMES.values()), body)


def element(found: list[Row], name: str, buffered: bool) -> dict[str, Cells]:
    """The parts of a processing element: modules times their number."""
    lanes, log_n = PUBLISHED[name][1], LOG_N[name]
    log_r = log_n - lanes.bit_length() + 1
    rotation = {"module": "temporal_network", "LogR": log_r} if buffered else {"module": "corner"}
    control = cells(found, "sequencer", LogR=log_r) + cells(found, "constants", LogN=log_n)
    for module in ("operand_rows", "result_rows"):
        control += cells(found, module, Dp=lanes, LogN=log_n)
    return {
        "lanes": cells(found, "lane_pair", Width=WORD_BITS) * (lanes // 2),
        "banks": sum((cells(found, "bank", **one) * 2 for one in BANKS[name]), Cells()),
        "permutation circuit": cells(found, **rotation, Dp=lanes) + cells(found, "lane_network", Dp=lanes),
        "addresses, constants, sequencer": control,
    }


def whole(found: list[Row], name: str, buffered: bool) -> Cells:
    """All elements of a configuration."""
    return sum(element(found, name, buffered).values(), Cells()) * PUBLISHED[name][0]


def beside(found: list[Row]) -> str:
    """The printed cells of each configuration, and those of its elements."""
    body = []
    for name, (_, _, _, printed) in PUBLISHED.items():
        body.append([f"**FAME-{name}**, printed", *(f"{printed[kind]:,}" for kind in NAMES)])
        for text, buffered in (("rows in another order, no buffers", False), ("buffers, as Fig. 4", True)):
            ours = whole(found, name, buffered)
            body.append([text, *(f"{getattr(ours, kind):,}" for kind in NAMES)])
            ratios = (number(getattr(ours, kind) / printed[kind]) if printed[kind] else "" for kind in NAMES)
            body.append(["÷ printed", *ratios])
    return table(("", *NAMES.values()), body)


def held(name: str) -> float:
    """Bytes that the four banks of an element hold."""
    return sum(2 * one["Depth"] * one["Dp"] * WORD_BITS / 8 for one in BANKS[name])


def rows_of_banks(name: str) -> str:
    """Two of each kind."""
    found = Counter[str]()
    for one in BANKS[name]:
        found[f"{one['Depth']:,} {'URAM' if 'Style' in one else 'BRAM'}"] += 2
    return ", ".join(f"{times} × {text}" for text, times in found.items())


def memory() -> str:
    """The capacity of the printed blocks, without one block per lane for the permutation circuits."""
    body = []
    for name, (elements, lanes, scratchpad, printed) in PUBLISHED.items():
        row_bits = lanes * WORD_BITS
        blocks = (printed["bram18"] - elements * lanes) // elements
        block_rows = blocks * BRAM18_BITS // row_bits
        ultra_rows = printed["uram"] // elements * URAM_BITS // row_bits
        size = (block_rows + ultra_rows) * row_bits / 8 / 2**20
        body.append(
            [
                *(f"FAME-{name}", elements, lanes, scratchpad, block_rows, ultra_rows),
                *(f"{number(size, 3)} MiB", rows_of_banks(name), f"{number(held(name) / 2**20, 3)} MiB"),
                number(held(name) / (float(scratchpad.split()[0]) * UNITS[scratchpad.split()[1]])),
            ]
        )
    header = (
        *("", "elements", "lanes", "scratchpad of each, printed"),
        *("rows in BRAM, of each", "rows in URAM, of each", "capacity of these, of each"),
        *("rows of the four banks here", "their capacity, of each", "÷ printed"),
    )
    return table(header, body)


def traces() -> str:
    """The elements and rings of the pictures."""
    body = []
    for row in rows(MEASURED / "fame-rtl-trace.jsonl"):
        if "signal" not in row:
            timing = Timing(row["lanes"], row["log_n"])
            primes = ", ".join(map(str, row["moduli"]))
            body.append(
                [row["trace"], timing.lanes, timing.n, timing.rows, primes, timing.to_lanes, timing.to_bank]
            )
    header = (
        "",
        "lanes",
        "N",
        "rows of a limb",
        "primes",
        "cycles to the lanes",
        "cycles until it is written",
    )
    return table(header, body)


def tables() -> dict[Any, str]:
    """Page and name → text."""
    found = measured()
    return {
        (PAGE, "traces"): traces(),
        (PAGE, "modules"): modules(found),
        (PAGE, "beside"): beside(found),
        (PAGE, "memory"): memory(),
    }


# ---- pictures ----

INK, EDGE, GREY = "#222222", "#555555", "#eeeeee"
COLOURS = ("#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc")


@dataclass(frozen=True)
class Trace:
    """What was stored of a simulation; see scripts/trace_rtl.py.

    Attributes:
        about: its first line.
        passes: of the window.
        signals: name → values, by cycle; of passes their numbers.
    """

    about: Row
    passes: list[Pass]
    signals: dict[str, list[int | None]]

    @classmethod
    def of(cls, name: str) -> Trace:
        """The one of a name."""
        about, *lines = (row for row in rows(MEASURED / "fame-rtl-trace.jsonl") if row["trace"] == name)
        passes = [Pass.decode(int(word, 16)) for word in about["passes"]]
        return cls(about, passes, {row["signal"]: row["values"] for row in lines})

    @property
    def first(self) -> int:
        """The cycle of the first value."""
        return int(self.about["first_cycle"])

    def spans(self, signal: str) -> list[tuple[int, int, int]]:
        """First cycle, cycles, and pass, while a signal belongs to one pass."""
        found, cycle = [], self.first
        for number_of_pass, run in groupby(self.signals[signal]):
            length = len(list(run))
            if number_of_pass is not None:
                found.append((cycle, length, number_of_pass))
            cycle += length
        return found

    def limb_rows(self, signal: str, of: str, field: str) -> list[float]:
        """Rows counted from the first one of their limb; nan where there is none."""
        return [
            float("nan") if row is None or one is None else row - getattr(self.passes[one], field)
            for row, one in zip(self.signals[signal], self.signals[of], strict=True)
        ]

    def value(self, signal: str, cycle: int) -> int | None:
        """In a cycle."""
        return self.signals[signal][cycle - self.first]


def _bars(axes: Any, trace: Trace, lines: Any, label: Any, colour: Any) -> None:
    """A line for each name, with a bar while it belongs to a pass; lines: (name, [(signal, text, whether), …])."""
    for place, (_, sources) in enumerate(lines):
        for signal, letter, mine in sources:
            for start, length, one in trace.spans(signal):
                if not mine(trace.passes[one]):
                    continue
                axes.broken_barh(
                    [(start, length)],
                    (-place - 0.4, 0.8),
                    facecolor=colour(one),
                    edgecolor=EDGE,
                    linewidth=0.6,
                )
                if length > 12:
                    text = label(one) if letter is None else letter
                    axes.text(start + length / 2, -place, text, ha="center", va="center", fontsize=7)
    axes.set_yticks([-place for place in range(len(lines))], [name for name, _ in lines])
    axes.set_ylim(-len(lines) + 0.4, 0.6)


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)


def _words(axes: Any, trace: Trace, lines: Any, pieces: Any, colour: Any) -> None:
    """The values of some cycles; lines: (name, signal, the signal of its pass, the field that a row counts from)."""
    x, ticks = 0.0, []
    for piece in pieces:
        for cycle in piece:
            ticks.append((x + 0.5, str(cycle)))
            for place, (_, signal, of, field) in enumerate(lines):
                word, one = trace.value(signal, cycle), trace.value(of, cycle)
                if word is not None and one is not None:
                    shown = word - getattr(trace.passes[one], field) if field else word
                    axes.broken_barh(
                        [(x, 1)], (-place - 0.4, 0.8), facecolor=colour(one), edgecolor=EDGE, linewidth=0.6
                    )
                    axes.text(x + 0.5, -place, str(shown), ha="center", va="center", fontsize=7)
            x += 1
        if piece is not pieces[-1]:
            axes.text(x + 0.3, -len(lines) / 2 + 0.5, "…", ha="center", va="center")
        x += 0.6
    axes.set_xlim(0, x - 0.6)
    axes.set_ylim(-len(lines) + 0.4, 0.6)
    axes.set_yticks([-place for place in range(len(lines))], [line[0] for line in lines])
    axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks])
    axes.tick_params(labelsize=8, length=0)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.set_xlabel("cycle")


def _figure(height: float, ratios: list[float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, height), facecolor="white", layout="constrained")
    return figure, figure.subplots(len(ratios), 1, height_ratios=ratios, squeeze=False)[:, 0]


def always(one: Pass) -> bool:
    """Of every pass."""
    return True


def _span(trace: Trace) -> tuple[int, int]:
    return trace.first, trace.first + len(trace.signals["issued"])


def transform_figure() -> Any:
    """A stage of an NTT."""
    trace = Trace.of("transform")
    figure, (bars, orders, words) = _figure(5.6, [1.1, 1.7, 2.2])
    lines = [
        ("address goes out", [("issued", None, always)]),
        ("in the lanes", [("in_lanes", None, always)]),
        ("result is written", [("written", None, always)]),
    ]

    def colour(one: int) -> str:
        return COLOURS[one % len(COLOURS)]

    _bars(bars, trace, lines, lambda one: f"stage {trace.passes[one].stage}", colour)
    cycles = range(*_span(trace))
    orders.step(
        cycles, trace.limb_rows("a_row", "issued", "a_row"), where="post", color="#3d6fa5", linewidth=0.9
    )
    orders.step(
        cycles, trace.limb_rows("d_row", "written", "d_row"), where="post", color="#7a4b00", linewidth=1.4
    )
    orders.set_ylabel("row of the limb", fontsize=8)
    orders.legend(["read, operand a", "written"], fontsize=7, loc="upper left", frameon=False)
    for axes in (bars, orders):
        axes.set_xlim(*_span(trace))
        _plain(axes)
    shown = [
        ("row read", "a_row", "issued", "a_row"),
        ("u, lane 0", "a0", "in_lanes", None),
        ("v, lane 1", "a1", "in_lanes", None),
        ("w", "b1", "in_lanes", None),
        ("u + v·w mod q", "r0", "written", None),
        ("u − v·w mod q", "r1", "written", None),
        ("row written", "d_row", "written", "d_row"),
    ]
    lanes = next(start for start, _, one in trace.spans("in_lanes") if start > 0)
    written = next(start for start, _, one in trace.spans("written") if start > 0)
    _words(words, trace, shown, [range(10), range(lanes + 15, written + 7)], colour)
    return figure


def work(one: Pass) -> str:
    """A few words on a pass of a rotation."""
    return {Factors.STREAM: "key", Factors.SCALAR: "times P", Factors.ROWS: "diagonal"}[one.factors]


def rotation_figure() -> Any:
    """A rotation of KeyIP and DiagIP."""
    trace = Trace.of("rotation")
    figure, (bars, words) = _figure(5.8, [3.4, 2.0])

    def colour(one: int) -> str:
        return {"key": COLOURS[0], "times P": COLOURS[2], "diagonal": COLOURS[1]}[work(trace.passes[one])]

    lines: list[Any] = [
        ("address goes out", [("issued", None, always)]),
        ("keys stream in", [("streamed", "key", always)]),
    ]
    for bank in range(4):
        reads = [
            ("issued", "a", lambda one, bank=bank: one.a_bank == bank),
            ("b_read", "b", lambda one, bank=bank: one.b_bank == bank),
            ("c_read", "c", lambda one, bank=bank: one.c_bank == bank),
        ]
        lines.append((f"bank {bank} is read", reads))
    lines += [
        (f"bank {bank} is written", [("written", "sum", lambda one, bank=bank: one.d_bank == bank)])
        for bank in sorted({one.d_bank for one in trace.passes})
    ]
    _bars(bars, trace, lines, lambda one: work(trace.passes[one]), colour)
    bars.set_xlim(*_span(trace))
    _plain(bars)
    shown = [
        ("row issued", "row", "issued", None),
        ("row read", "a_row", "issued", "a_row"),
        ("a, lane 0", "a0", "in_lanes", None),
        ("b, lane 0", "b0", "in_lanes", None),
        ("result, lane 0", "r0", "written", None),
        ("row written", "d_row", "written", "d_row"),
    ]
    lanes = next(start for start, _, _ in trace.spans("in_lanes") if start > 0)
    written = next(start for start, _, _ in trace.spans("written") if start > 0)
    _words(words, trace, shown, [range(10), range(lanes + 15, written + 7)], colour)
    return figure


def floor_figure() -> Any:
    """The three configurations on the dies of a U280, kinds of cells beside each other."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    found = measured()
    figure = Figure(figsize=(8.0, 4.6), facecolor="white", layout="constrained")
    panels = figure.subplots(1, len(PUBLISHED), sharey=True)
    for axes, (name, (elements, *_)) in zip(panels, PUBLISHED.items(), strict=True):
        parts = element(found, name, buffered=True)
        for column, (kind, available) in enumerate(DEVICE.items()):
            height = 0.0
            for _ in range(elements):
                for part, colour in zip(parts.values(), COLOURS, strict=True):
                    share = DIES * getattr(part, kind) / available
                    if share:
                        axes.add_patch(
                            Rectangle(
                                (column, height), 1, share, facecolor=colour, edgecolor=EDGE, linewidth=0.5
                            )
                        )
                    height += share
                axes.plot(
                    [column, column + 1], [height, height], color=INK, linewidth=1.6, solid_capstyle="butt"
                )
            axes.text(
                *(column + 0.5, min(height, DIES) + 0.04, f"{height / DIES:.0%}"),
                ha="center",
                va="bottom",
                fontsize=7,
            )
        for die in range(DIES):
            axes.add_patch(
                Rectangle((0, die), len(DEVICE), 1, facecolor="none", edgecolor=INK, linewidth=1.2)
            )
        axes.set_xlim(-0.1, len(DEVICE) + 0.1)
        axes.set_ylim(-0.05, DIES + 0.15)
        axes.set_xticks(
            [column + 0.5 for column in range(len(DEVICE))], ["LUT", "DSP", "BRAM18", "URAM"], fontsize=7
        )
        axes.set_yticks([die + 0.5 for die in range(DIES)], [f"die {die}" for die in range(DIES)], fontsize=8)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(f"FAME-{name}, {elements} element{'s' * (elements > 1)}", fontsize=9)
    marks = [Patch(facecolor=colour, edgecolor=EDGE) for colour in COLOURS]
    figure.legend(marks, list(parts), loc="outside lower center", ncols=4, fontsize=7, frameon=False)
    return figure


def figures() -> dict[str, Any]:
    """Two waveforms and the floor."""
    return {
        "fame-rtl-transform": transform_figure(),
        "fame-rtl-rotation": rotation_figure(),
        "fame-rtl-floor": floor_figure(),
    }


if __name__ == "__main__":
    sys.exit(main("draw_rtl", __doc__, tables, figures))
