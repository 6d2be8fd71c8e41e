"""Writes the tables of docs/fame-rtl.md from docs/measured/fame-rtl.jsonl, which measure_rtl.py stores.

usage: draw_rtl.py [--write]
"""

from __future__ import annotations

import sys
from typing import Any

from cipherblas_hardware.accelerator.synthesis import Cells
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


def element(found: list[Row], width: int, buffered: bool) -> Cells:
    """A processing element of 128 lanes: modules times their number."""
    total = cells(found, "lane_pair", Width=width) * 64 + cells(found, "bank", Depth=512) * 4
    total += cells(found, "temporal_network" if buffered else "corner") + cells(found, "lane_network", Dp=128)
    for name in ("operand_rows", "result_rows", "sequencer", "constants"):
        total += cells(found, name)
    return total


def beside(found: list[Row]) -> str:
    """FAME-S: two elements, and the printed cells."""
    elements, _, _, printed = PUBLISHED["S"]
    body = [["printed", *(f"{printed[name]:,}" for name in NAMES)]]
    for text, buffered in (("rows in another order, no buffers", False), ("buffers, as Fig. 4", True)):
        ours = element(found, WORD_BITS, buffered) * elements
        body.append([text, *(f"{getattr(ours, name):,}" for name in NAMES)])
        ratios = (number(getattr(ours, name) / printed[name]) if printed[name] else "" for name in NAMES)
        body.append(["÷ printed", *ratios])
    return table(("FAME-S", *NAMES.values()), body)


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
            [f"FAME-{name}", elements, lanes, scratchpad, block_rows, ultra_rows, f"{number(size, 3)} MiB"]
        )
    header = (
        *("", "elements", "lanes", "scratchpad of each, printed"),
        *("rows in BRAM, of each", "rows in URAM, of each", "capacity of these, of each"),
    )
    return table(header, body)


def tables() -> dict[Any, str]:
    """Page and name → text."""
    found = measured()
    return {
        (PAGE, "modules"): modules(found),
        (PAGE, "beside"): beside(found),
        (PAGE, "memory"): memory(),
    }


if __name__ == "__main__":
    sys.exit(main("draw_rtl", __doc__, tables, dict))
