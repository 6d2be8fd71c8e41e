"""How many of some faults the tests catch: each is put into a copy of the sources, and the tests run until one fails.

    python scripts/mutants.py                 all of them; one line each, and the share that was caught
    python scripts/mutants.py --only 3 17     some of them
    python scripts/mutants.py --list          which there are, and whether each still has its place in the sources

A fault is a text of the sources that occurs once, wherever it stands, and what is written instead: files may move.
They are in `mutants.txt`: where a line was rewritten, its fault is spelled again there, with the same meaning.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src/cipherblas")
NOTHING_COLLECTED = 5  # pytest's exit status
SECONDS = 1500  # a run of the tests takes no longer: a fault that makes it endless is caught


class Mutant(NamedTuple):
    """A fault.

    Attributes:
        text: of the sources; it occurs once.
        fault: what stands there instead.
        tests: folders of `tests`, in the order in which they run.
    """

    text: str
    fault: str
    tests: str


def read() -> list[Mutant]:
    """Those of `mutants.txt`: lines of the sources after "-", what replaces them after "+"."""
    found, tests = [], ""
    for block in (ROOT / "scripts" / "mutants.txt").read_text().split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("tests:"):
            tests = lines[0].partition(":")[2]
            continue
        text, fault = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        found.append(Mutant(text, fault, tests))
    return found


def place_of(mutant: Mutant, root: Path) -> Path:
    """The one file that has its text."""
    found = [path for path in sorted(root.rglob("*.py")) if mutant.text in path.read_text()]
    if len(found) != 1 or found[0].read_text().count(mutant.text) != 1:
        raise LookupError(f"occurs in {len(found)} files, or more than once: {mutant.text}")
    return found[0]


def caught(mutant: Mutant, tree: Path) -> tuple[str, float]:
    """What caught it ("" where nothing did), and after how many seconds."""
    path, started = place_of(mutant, tree / PACKAGE), time.perf_counter()
    sound = path.read_text()
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "CIPHERBLAS_THREADS": "1",
        "HYPOTHESIS_PROFILE": "ci",
    }
    path.write_text(sound.replace(mutant.text, mutant.fault))
    try:
        for folder in mutant.tests.split():
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-n",
                "2",
                "-m",
                "not slow",
                f"tests/{folder}",
            ]
            run = subprocess.run(
                command, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS
            )
            if run.returncode == NOTHING_COLLECTED:
                raise LookupError(f"tests/{folder} has no tests")
            if run.returncode:
                lines = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return (lines or [f"tests/{folder}"])[0][:110], time.perf_counter() - started
    except subprocess.TimeoutExpired:
        return "no end", time.perf_counter() - started
    finally:
        path.write_text(sound)
    return "", time.perf_counter() - started


def main() -> int:
    """The command; the exit status is 1 where a fault has no place any more."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", type=int, nargs="*", metavar="N")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    mutants = read()
    numbers = range(len(mutants)) if options.only is None else options.only
    if options.list:
        for number in numbers:
            print(
                number, place_of(mutants[number], ROOT / PACKAGE).relative_to(ROOT), "|", mutants[number].text
            )
        return 0
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__")
        shutil.copytree(ROOT, tree, ignore=ignored)
        for number in numbers:
            by, seconds = caught(mutants[number], tree)
            found += bool(by)
            verdict = "caught" if by else "SURVIVED"
            print(
                f"{number:2d} {verdict:8s} {seconds:6.0f} s  {mutants[number].text[:60]:60s} {by}", flush=True
            )
    print(f"{found} of {len(numbers)} caught")
    return 0


if __name__ == "__main__":
    sys.exit(main())
