"""Measures what docs/performance.md and the table of the README show, with `cipherblas bench`.

usage: measure_performance.py [--openfhe-python INTERPRETER] [--only WORD] [FILE]

Writes the rows that the benchmarks print to FILE (docs/measured/performance.jsonl), each with the command that made it
and the commit. It takes a quarter of an hour on two cores; nothing else may run beside it. SEAL must be installed
(`pip install '.[peers]'`); without an interpreter for OpenFHE its rows are left out.
`scripts/draw_performance.py --write` then puts them on the pages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "measured" / "performance.jsonl"
CC_SIZES, PC_SIZES, PEER_SIZES = (
    (64, 128, 256, 512, 1024, 2048),
    (64, 128, 256, 512, 1024, 2048, 4096),
    (32, 64, 128),
)


def shapes(sizes: tuple[int, ...]) -> list[str]:
    return [word for d in sizes for word in ("--shape", f"{d}x{d}x{d}")]


def commands(openfhe_python: str | None) -> Iterator[list[str]]:
    """The arguments of `cipherblas bench`."""
    yield ["cc", *shapes(PEER_SIZES), "--peer", "seal"]
    yield ["primitives", "--peer", "seal", "--case", "rotate", "--case", "multiply", "--case", "rescale"]
    if openfhe_python:
        cases = ["--case", "rotate", "--case", "multiply", "--case", "rescale"]
        yield ["primitives", "--peer", "openfhe", "--peer-python", openfhe_python, *cases]
    for threads in ("1", "2"):
        yield ["cc", *shapes(CC_SIZES), "--threads", threads]
        yield ["pc", *shapes(PC_SIZES), "--threads", threads]


def commit() -> str:
    """The commit at hand; with a + where tracked files differ from it."""
    said = subprocess.run(
        ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return said.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    parser.add_argument("--openfhe-python", metavar="INTERPRETER", help="CPython 3.10 that has OpenFHE")
    parser.add_argument("--only", default="", metavar="WORD", help="commands that contain this word")
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    for arguments in commands(given.openfhe_python):
        shown = " ".join(["cipherblas", "bench", *arguments])
        if given.openfhe_python:
            shown = shown.replace(given.openfhe_python, "python3.10")
        if given.only not in shown:
            continue
        print(shown, flush=True)
        program = [sys.executable, "-m", "cipherblas.cli", "bench", *arguments, "--json", "--quiet"]
        done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            return done.returncode
        for line in done.stdout.splitlines():
            rows.append({"command": shown, "commit": commit(), **json.loads(line)})
    given.file.parent.mkdir(parents=True, exist_ok=True)
    given.file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
