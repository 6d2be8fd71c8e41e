"""Prints what an extra of a distribution of this repository asks for, for `pip install`: none is built again.

usage: extra_requirements.py EXTRA
"""

from __future__ import annotations

import importlib.metadata
import re
import sys

PACKAGES = ("cipherblas", "cipherblas-bench", "cipherblas-hardware")


def main() -> int:
    (extra,) = sys.argv[1:]
    packages = [
        importlib.metadata.distribution(name)
        for name in ("cipherblas", "cipherblas-bench", "cipherblas-hardware")
    ]
    offered = [one for one in packages if extra in (one.metadata.get_all("Provides-Extra") or ())]
    if not offered:
        print(f"cipherblas has no extra {extra!r}", file=sys.stderr)
        return 1
    marker = re.compile(rf"""extra\s*==\s*["']{re.escape(extra)}["']""")
    for requirement in (line for one in offered for line in one.requires or ()):
        text, _, condition = requirement.partition(";")
        if marker.fullmatch(condition.strip()):
            print(text.strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
