"""Counts what a hoisted linear transform reads from and writes to memory, by a simulated last cache.

usage: simulate_traffic.py [--set NAME] [--diagonals D] [--cache MIB] [FILE]

Virtual machines have no counters of cache misses. Valgrind's cachegrind runs `bench linear-transform`'s transform of
one of FAME's sets twice, with one run of it and with two: what the second run misses is its traffic. Keys and diagonals
are read once each by any order and counted by the kernels; what is left are ciphertexts, which FAME's Section IV says
to be "roughly a hundred MB" for a transform of set C. Valgrind has no AVX-512: the kernels are those of AVX2. Appends
rows to FILE (docs/measured/traffic.jsonl). Needs valgrind; set A takes a minute, set C half an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from cipherblas.report.rates import machine_line
from measure_performance import commit
from measured_pages import MEASURED

LINE_BYTES = 64
WAYS = 16
ORDERS = ("limb", "rotation")


def inside(name: str, diagonals: int, order: str, runs: int) -> None:
    """In the simulator: so many runs; what the kernels count of one is printed."""
    import cipherblas._core as _core
    from cipherblas_bench.linear_transform import Transform
    from cipherblas_bench.sets import FAME_SETS

    _core.set_threads(1)
    transform = Transform(FAME_SETS[name].parameters(), diagonals, None)
    for number in range(runs):
        _core.count_kernels(number == 0)
        transform.run(order)
        if number == 0:
            counted = {one: int(value) for one, value in dict(_core.kernel_counts()).items()}
    plain = sum(one.nbytes for one in transform.plaintexts)
    print(json.dumps({"counts": counted, "plaintext_bytes": plain, "key_bytes": transform.key_bytes}))


def missed(arguments: list[str], cache: int) -> tuple[int, dict[str, object]]:
    """Lines that a process missed in its last cache, reading and writing, and what it printed."""
    simulator = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]
    simulator += [f"--LL={cache},{WAYS},{LINE_BYTES}", sys.executable, __file__, *arguments]
    environment = {**os.environ, "CIPHERBLAS_ISA": "avx2", "CIPHERBLAS_THREADS": "1"}
    done = subprocess.run(simulator, capture_output=True, text=True, check=True, env=environment)
    found = re.search(r"LLd misses:\s+([\d,]+)", done.stderr)
    if found is None:
        raise SystemExit(f"valgrind printed no misses: {done.stderr[-500:]}")
    return int(found[1].replace(",", "")), json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path, default=MEASURED / "traffic.jsonl")
    parser.add_argument("--set", default="C", choices=("A", "B", "C"))
    parser.add_argument("--diagonals", type=int, default=8)
    parser.add_argument("--cache", type=int, default=32, metavar="MIB", help="of the last cache (32)")
    parser.add_argument("--order", choices=ORDERS, action="append", help="repeatable; both by default")
    parser.add_argument("--runs", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.runs is not None:
        inside(given.set, given.diagonals, given.order[0], given.runs)
        return 0
    for order in given.order or ORDERS:
        asked = ["--set", given.set, "--diagonals", str(given.diagonals), "--order", order]
        once, _ = missed([*asked, "--runs", "1"], given.cache << 20)
        twice, known = missed([*asked, "--runs", "2"], given.cache << 20)
        row = {
            "command": " ".join(["scripts/simulate_traffic.py", *asked, "--cache", str(given.cache)]),
            "commit": commit(),
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine_line(),
            "set": given.set,
            "order": order,
            "diagonals": given.diagonals,
            "cache_bytes": given.cache << 20,
            "missed_bytes": (twice - once) * LINE_BYTES,
            **known,
        }
        print(json.dumps(row), flush=True)
        with given.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
