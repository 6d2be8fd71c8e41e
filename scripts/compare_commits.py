"""Two commits beside each other: the same benchmarks in turns, and how much faster the second one is.

usage: compare_commits.py OLD NEW [--case "cc --shape 64x64x64"] … [--rounds 3] [--least 0.97] [--folder FOLDER]

OLD and NEW are commits, which are built in a virtual environment of their own below FOLDER (kept, and found again), or
COMMIT=PYTHON, an interpreter that has it installed. In every round each case runs once in each, in turns and in
processes of their own; of each row of a benchmark the least of its medians is compared, and so is the time of
`import cipherblas`. Ratios are the old one's seconds over the new one's: below --least they fail, and the script with
them.
Idle machines only: what else runs on them is measured too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# What must not become slower: see CONTRIBUTING.md.
CASES = (
    "primitives",
    "cc --shape 64x64x64 --algorithm outer-product",
    "cc --shape 64x64x64 --algorithm skewed",
    "cc --shape 160x160x160",
    "cc --shape 512x512x512",
    "cc --shape 4096x4096x4096",
    "pc --shape 4096x4096x4096",
    "transpose --shape 2048x2048",
    "nn",
)
FORMER = {"nn": "kernels"}  # benchmarks by the names that older commits have
IMPORT = "import time; start = time.perf_counter(); import cipherblas; print(time.perf_counter() - start)"
COMMAND = "from cipherblas.cli import main; main()"
IMPORTS = 7  # of which the fastest counts


class Installed:
    """A commit with an interpreter that has it installed."""

    def __init__(self, given: str, folder: Path) -> None:
        self.name, _, python = given.partition("=")
        self.python = Path(python) if python else self._built(folder)
        self._offered = self._command("bench", "--help").split()

    def _built(self, folder: Path) -> Path:
        commit = _output("git", "-C", str(ROOT), "rev-parse", "--verify", f"{self.name}^{{commit}}").strip()
        place = folder / commit[:12]
        python = place / "venv" / "bin" / "python"
        if not (place / "installed").exists():
            print(f"building {self.name} in {place}", file=sys.stderr)
            place.mkdir(parents=True, exist_ok=True)
            source = place / "source"
            if not source.exists():
                _run("git", "clone", "--quiet", str(ROOT), str(source))
            _run("git", "-C", str(source), "checkout", "--quiet", commit)
            _run(sys.executable, "-m", "venv", str(place / "venv"))
            separated = [
                str(source / name) for name in ("bench",) if (source / name / "pyproject.toml").exists()
            ]
            _run(str(python), "-m", "pip", "install", "--quiet", f"{source}[demo]", *separated)
            (place / "installed").touch()
        return python

    def rows(self, case: str) -> dict[str, float]:
        """Row → seconds of one run of a benchmark."""
        name, *arguments = case.split()
        if name not in self._offered:
            name = FORMER.get(name, name)
        output = self._command("bench", name, *arguments, "--json")
        found: dict[str, float] = {}
        for row in map(json.loads, filter(str.strip, output.splitlines())):
            row["bench"] = case.split()[0]
            seconds = row.get("seconds", row.get("median"))
            if isinstance(seconds, (int, float)):
                found[_label(row)] = float(seconds)
        return found

    def _command(self, *arguments: str) -> str:
        return _output(str(self.python), "-c", COMMAND, *arguments, cwd="/")

    def import_seconds(self) -> float:
        """Of the package, the fastest of some processes."""
        return min(float(_output(str(self.python), "-c", IMPORT, cwd="/")) for _ in range(IMPORTS))


def _label(row: dict[str, Any]) -> str:
    named = ("bench", "case", "algorithm", "kind", "method", "order", "n", "threads")
    return " ".join(str(row[name]) for name in named if row.get(name) not in (None, ""))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


def _output(*command: str, cwd: str | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=cwd, env=environment
    ).stdout


def compared(
    old: Installed, new: Installed, cases: list[str], rounds: int
) -> Iterator[tuple[str, float, float]]:
    """Row, seconds of the old one, seconds of the new one."""
    yield "import cipherblas", old.import_seconds(), new.import_seconds()
    for case in cases:
        best: tuple[dict[str, float], dict[str, float]] = ({}, {})
        for turn in range(rounds):
            for index in (0, 1) if turn % 2 == 0 else (1, 0):
                started = time.perf_counter()
                for label, seconds in (old, new)[index].rows(case).items():
                    best[index][label] = min(seconds, best[index].get(label, seconds))
                name = (old, new)[index].name
                print(f"{case}, {name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
        missing = best[0].keys() ^ best[1].keys()
        if missing:
            print(f"{case}: in one of them alone: {', '.join(sorted(missing))}", file=sys.stderr)
        for label in best[0]:
            if label in best[1]:
                yield label, best[0][label], best[1][label]


def main() -> int:
    """The command; returns 1 where a row is slower than it may be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--case", action="append", help="arguments of `cipherblas bench`; may be given again")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=float, default=0.97, help="least ratio of speeds (default 0.97)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "cipherblas-commits")
    options = parser.parse_args()
    old, new = Installed(options.old, options.folder), Installed(options.new, options.folder)
    slower = 0
    print(f"{'row':<60} {old.name[:12]:>12} {new.name[:12]:>12}  ratio")
    for label, before, after in compared(old, new, options.case or list(CASES), options.rounds):
        ratio = before / after
        slower += ratio < options.least
        mark = "" if ratio >= options.least else "  SLOWER"
        print(f"{label:<60} {before:>12.6f} {after:>12.6f}  {ratio:.2f}{mark}", flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
