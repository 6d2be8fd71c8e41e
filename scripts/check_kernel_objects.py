"""Check that the kernel objects for newer instruction sets share no code with the rest.

A header's inline function or template that is compiled in such an object is a weak definition; the linker
keeps one copy for the whole program, perhaps the one with AVX-512 instructions, and the program crashes on an
older processor.

usage: check_kernel_objects.py OBJECT...
"""

import subprocess
import sys
from pathlib import Path

WEAK_FUNCTION = "W"


def weak_definitions(object_file: str) -> list[str]:
    listing = subprocess.run(
        ["nm", "--demangle", "--defined-only", object_file], check=True, capture_output=True, text=True
    ).stdout
    rows = [line.split(maxsplit=2) for line in listing.splitlines()]
    return [row[2] for row in rows if len(row) == 3 and row[1] == WEAK_FUNCTION]


def main(objects: list[str]) -> int:
    newer = [name for name in objects if Path(name).name.startswith(("avx2", "avx512"))]
    failed = False
    for name in newer:
        for symbol in weak_definitions(name):
            failed = True
            print(f"{Path(name).name}: weak definition of {symbol}: give it internal linkage or move it out")
    print(f"{len(newer)} kernel objects checked")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
