"""Prints what an extra of the installed package asks for, for `pip install`: the package need not be built again.

usage: extra_requirements.py EXTRA
"""

from __future__ import annotations

import importlib.metadata
import re
import sys


def main() -> int:
    (extra,) = sys.argv[1:]
    package = importlib.metadata.distribution("cipherblas")
    if extra not in (package.metadata.get_all("Provides-Extra") or ()):
        print(f"cipherblas has no extra {extra!r}", file=sys.stderr)
        return 1
    marker = re.compile(rf"""extra\s*==\s*["']{re.escape(extra)}["']""")
    for requirement in package.requires or ():
        text, _, condition = requirement.partition(";")
        if marker.fullmatch(condition.strip()):
            print(text.strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
