"""Fuzz the loading of files: structural mutations of every kind of file, checksums right, as the tests make them.

    python scripts/fuzz_files.py --seconds 3600            # random mutations, every failure once
    python scripts/fuzz_files.py --repeat "0/operand/17"   # one of them again, with its traceback
    python scripts/fuzz_files.py --atheris -max_total_time=3600 corpus/   # guided by coverage (pip install '.[fuzz]')

What follows --atheris is libFuzzer's. A failure is anything but a typed error of cipherblas, or half a minute.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SECONDS = 30.0  # for one file


class Drawn(random.Random):
    """Random choices taken from bytes, so that what changes a byte changes one choice; zeros where they end."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data, self._used = data, 0

    def getrandbits(self, count: int) -> int:
        nbytes = -(-count // 8)
        part = self._data[self._used : self._used + nbytes]
        self._used += nbytes
        return int.from_bytes(part, "little") & ((1 << count) - 1)

    def random(self) -> float:
        return self.getrandbits(16) / (1 << 16)


def run_randomly(seconds: float, seed: int, folder: Path) -> int:
    """Mutations until the time is over; the number of different failures."""
    from tests.support.file_mutations import mutated, name_of, outcome, samples

    made, end, number, failures = samples(folder), time.monotonic() + seconds, 0, set()
    while time.monotonic() < end:
        for sample in made:
            raw = mutated(random.Random(name_of(seed, sample, number)), sample.raw)
            begun = time.monotonic()
            try:
                outcome(sample, raw, folder / "x")
                if time.monotonic() - begun > SECONDS:
                    raise TimeoutError(f"{time.monotonic() - begun:.0f} seconds")
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                known = (type(error), place.filename, place.lineno)
                if known not in failures:
                    failures.add(known)
                    print(f"{name_of(seed, sample, number)}: {type(error).__name__}: {error}", flush=True)
        number += 1
    print(f"{number * len(made)} files, {len(failures)} failures")
    return len(failures)


def repeat(name: str, folder: Path) -> None:
    """One mutation again: its header, and what becomes of it."""
    from tests.support.file_mutations import Forged, mutated, outcome, samples

    wanted = name.split("/")[1]
    (sample,) = (sample for sample in samples(folder) if sample.name == wanted)
    raw = mutated(random.Random(name), sample.raw)
    length = int.from_bytes(raw[:8], "little")
    print(json.dumps(Forged.of(sample.raw).metadata["header"], indent=1))
    print(raw[8 : 8 + length].decode(errors="backslashreplace"))
    print(outcome(sample, raw, folder / "x"))


def run_guided(arguments: list[str], folder: Path) -> None:
    """libFuzzer chooses the mutations, by the code of cipherblas that they reach. It ends the process."""
    import atheris

    with atheris.instrument_imports(include=["cipherblas"]):
        from tests.support.file_mutations import mutated, outcome, samples
    made = samples(folder)

    def one(data: bytes) -> None:
        rng = Drawn(data)
        sample = made[rng.getrandbits(8) % len(made)]
        outcome(sample, mutated(rng, sample.raw), folder / "x")

    atheris.Setup([sys.argv[0], f"-timeout={SECONDS:.0f}", "-len_control=0", *arguments], one)
    atheris.Fuzz()


def main() -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to run")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations; 0 is the tests'")
    parser.add_argument("--repeat", metavar="NAME", help="one mutation, as it was named")
    parser.add_argument("--atheris", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="guided by coverage")
    given = parser.parse_args()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        if given.repeat is not None:
            repeat(given.repeat, Path(folder))
        elif given.atheris is not None:
            run_guided(given.atheris, Path(folder))
        else:
            return int(run_randomly(given.seconds, given.seed, Path(folder)) > 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
