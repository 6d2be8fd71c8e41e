"""Synthesises modules of the accelerator by Yosys and stores their cells in docs/measured/fame-rtl.jsonl, a row each.

usage: measure_rtl.py [--again]

Rows that are stored already, of the same sources and version of Yosys, are kept. A pair of lanes takes a minute or two,
a network of 128 lanes three.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cipherblas_hardware.accelerator import verilated
from cipherblas_hardware.accelerator.synthesis import synthesised

STORED = Path(__file__).resolve().parent.parent / "docs" / "measured" / "fame-rtl.jsonl"
MODULES: list[tuple[str, dict[str, Any]]] = [
    ("mod_add", {"Width": 54}),
    ("mod_mul", {"Width": 54, "Tiled": 1}),
    ("mod_mul", {"Width": 50, "Tiled": 1}),
    ("mod_mul", {"Width": 54, "Tiled": 0}),
    ("mod_mul", {"Width": 50, "Tiled": 0}),
    ("lane_pair", {"Width": 54, "Tiled": 1}),
    ("lane_pair", {"Width": 50, "Tiled": 1}),
    ("bank", {"Dp": 128, "Width": 54, "Depth": 512}),
    ("bank", {"Dp": 128, "Width": 54, "Depth": 4096, "Style": '"ultra"'}),
    ("bank", {"Dp": 256, "Width": 54, "Depth": 2048}),
    ("bank", {"Dp": 256, "Width": 54, "Depth": 8192, "Style": '"ultra"'}),
    ("operand_rows", {"Dp": 128, "LogN": 13}),
    ("operand_rows", {"Dp": 128, "LogN": 15}),
    ("operand_rows", {"Dp": 256, "LogN": 16}),
    ("result_rows", {"Dp": 128, "LogN": 13}),
    ("result_rows", {"Dp": 128, "LogN": 15}),
    ("result_rows", {"Dp": 256, "LogN": 16}),
    ("sequencer", {"LogR": 6}),
    ("sequencer", {"LogR": 8}),
    ("constants", {"Width": 54, "LogN": 13}),
    ("constants", {"Width": 54, "LogN": 15}),
    ("constants", {"Width": 54, "LogN": 16}),
    ("corner", {"Dp": 128, "Width": 54}),
    ("corner", {"Dp": 256, "Width": 54}),
    ("temporal_network", {"Dp": 128, "Width": 54, "LogR": 6}),
    ("temporal_network", {"Dp": 128, "Width": 54, "LogR": 8}),
    ("temporal_network", {"Dp": 256, "Width": 54, "LogR": 8}),
    ("lane_network", {"Dp": 16, "Width": 54}),
    ("lane_network", {"Dp": 128, "Width": 54}),
    ("lane_network", {"Dp": 256, "Width": 54}),
    ("read_port", {"Dp": 128, "Width": 54}),
    ("write_port", {"Dp": 128, "Width": 54}),
]


def digest(module: str) -> str:
    """Of the sources of a module and of those that it holds."""
    texts, left = dict[str, str](), [module]
    while left:
        name = left.pop()
        texts[name] = (verilated.RTL / f"{name}.sv").read_text(encoding="utf-8")
        held = set(re.findall(r"^\s*(\w+) #\($", texts[name], re.MULTILINE)) & set(verilated.MODULES)
        left += held - texts.keys()
    return hashlib.sha256("".join(texts[name] for name in sorted(texts)).encode()).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--again", action="store_true", help="synthesise all modules, also those that are stored"
    )
    again = parser.parse_args().again
    lines = STORED.read_text(encoding="utf-8").splitlines() if STORED.exists() and not again else []
    stored = [json.loads(line) for line in lines]
    found = []
    for module, parameters in MODULES:
        made = {"sources": digest(module), "yosys": importlib.metadata.version("pyosys")}
        row = {"module": module, "parameters": parameters, **made}
        kept = [one for one in stored if {name: one[name] for name in row} == row]
        if not kept:
            kept = [row | asdict(synthesised(module, parameters))]
            print(kept[0], flush=True)
        found += kept
        others = [one for one in stored if one not in found]  # until their turn comes
        text = "".join(f"{json.dumps(one)}\n" for one in [*found, *others])
        STORED.write_text(text, encoding="utf-8")
    STORED.write_text("".join(f"{json.dumps(one)}\n" for one in found), encoding="utf-8")


if __name__ == "__main__":
    main()
