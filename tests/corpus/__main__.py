"""Plans the corpus anew and writes its file: `python -m tests.corpus [--seconds] [PART …]`.

With parts of names, only the programs whose names hold one of them. Prints the names of blocks that changed, and with
--seconds what each program took to plan, the slowest first.
"""

from __future__ import annotations

import argparse
import time

from .facts import facts
from .programs import CASES
from .storage import FILE, block, read, written


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="of the names of programs; all by default")
    parser.add_argument("--seconds", action="store_true", help="say how long each took to plan")
    options = parser.parse_args()
    known = read()
    kept = {name: lines for name, lines in known.items() if name in CASES}
    seconds: dict[str, float] = {}
    for name, case in CASES.items():
        if not options.parts or any(part in name for part in options.parts):
            started = time.process_time()
            kept[name] = block(name, facts(case))
            seconds[name] = time.process_time() - started
    FILE.write_text(written([kept[name] for name in CASES if name in kept]), encoding="utf-8")
    for what, names in (
        ("new", kept.keys() - known.keys()),
        ("gone", known.keys() - kept.keys()),
        ("changed", {name for name in kept.keys() & known.keys() if kept[name] != known[name]}),
    ):
        for name in sorted(names):
            print(f"{what}: {name}")
    if options.seconds:
        for name in sorted(seconds, key=seconds.__getitem__, reverse=True):
            print(f"{seconds[name]:7.2f} s  {name}")
    print(f"{len(seconds)} programs planned in {sum(seconds.values()):.1f} s of processor time")


if __name__ == "__main__":
    main()
