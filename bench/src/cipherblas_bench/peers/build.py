"""What can be told of the build of a library that came as a wheel: its tags, and the instruction sets in its code."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Registers and mnemonics by which disassembled code gives away the widest instruction set that it holds.
_SETS = (
    ("AVX-512 IFMA", r"\bvpmadd52[lh]uq\b"),
    ("AVX-512", r"%zmm\d"),
    ("AVX2", r"\b(?:vpmuludq|vpaddq|vpermq|vpsubq|vfmadd\w+)\b.*%ymm\d"),
    ("AVX", r"%ymm\d"),
)


def described(module: str) -> dict[str, Any]:
    """Of an installed module: interpreter, distribution, tags of the wheel, instruction sets of extension modules.

    The instruction sets are those of the code, found by disassembling: code for a set need not be run on every
    machine. Where there is no `objdump` they are unknown (None).
    """
    distribution = importlib.metadata.distribution(importlib.metadata.packages_distributions()[module][0])
    wheel = distribution.read_text("WHEEL") or ""
    found = {
        "python": platform.python_version(),
        "distribution": f"{distribution.metadata['Name']} {distribution.version}",
        "wheel": re.findall(r"^Tag: (.+)$", wheel, re.MULTILINE),
    }
    libraries = [Path(str(distribution.locate_file(file))) for file in distribution.files or ()]
    return {**found, "instruction_sets": instruction_sets(path for path in libraries if ".so" in path.name)}


def instruction_sets(files: Iterable[Path]) -> list[str] | None:
    """Vector instruction sets beyond the x86-64 baseline that occur in the machine code of these files."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    missing = {name: re.compile(pattern) for name, pattern in _SETS}
    for file in files:
        command = [objdump, "-d", "--no-show-raw-insn", str(file)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if "%ymm" in line or "%zmm" in line or "vpmadd52" in line:
                    for name in [name for name, pattern in missing.items() if pattern.search(line)]:
                        del missing[name]
    return [name for name, _ in _SETS if name not in missing]


if __name__ == "__main__":
    print(json.dumps(described(sys.argv[1])))
