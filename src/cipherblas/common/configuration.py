"""The versions, the processor and the libraries of an installation, for reports of faults."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import Any, Literal

import numpy as np

from cipherblas.common import environment, openblas
from cipherblas.common.errors import ParameterError, in_place_of
from cipherblas.common.limits import available_memory

OPTIONAL = ("scipy", "scikit-learn", "pandas", "pyarrow", "onnx", "torch", "matplotlib", "mpi4py")


def show_config(mode: Literal["stdout", "dicts"] = "stdout") -> dict[str, Any] | None:
    """Print the versions, the instruction set, the BLAS, the threads and the memory that cipherblas finds here.

    Args:
        mode: "stdout" prints a line for each, "dicts" returns them.

    Optional libraries are named where they are installed; none is imported.

    Raises:
        ParameterError: another mode, or an environment variable that cannot be followed.

    Examples:
        >>> show_config(mode="dicts")["threads"] >= 1
        True
    """
    if mode not in ("stdout", "dicts"):
        raise ParameterError(
            "The mode of a configuration is not known.",
            got=repr(mode),
            advice=in_place_of(mode, ("stdout", "dicts"), 'mode="{}"') or 'mode="dicts"',
        )
    memory = available_memory()
    found = {
        "cipherblas": sys.modules["cipherblas"].__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "instruction set": environment.isa(),
        "threads": environment.threads(),
        "BLAS": openblas.description(),
        "available memory": "not known" if memory is None else f"{memory / 2**30:.1f} GiB",
        "optional": {name: version for name in OPTIONAL if (version := _version(name)) is not None},
    }
    if mode == "dicts":
        return found
    others = ", ".join(f"{name} {version}" for name, version in found.pop("optional").items()) or "none"
    for name, value in {**found, "optional libraries": others}.items():
        print(f"{name:<20}{value}")
    return None


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
