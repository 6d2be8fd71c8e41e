"""What was measured of a machine, for people."""

from __future__ import annotations

import platform
from pathlib import Path

from rich.table import Table

import cipherblas._core as _core
from cipherblas.planner.plan.explain import duration, size
from cipherblas.planner.predict.caches import Cache
from cipherblas.planner.predict.cost import SwitchRates, ThreadRates
from cipherblas.planner.predict.machine import Machine
from cipherblas.report.tables import plan_table

RING = 1 << 13  # of the rates that are shown of one ring


def machine_line() -> str:
    """This machine in a line: processor, usable cores, instruction set of the kernels, memory, system."""
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    cores, memory = _core.processors(), (_core.total_memory() or 0) / 2**30
    return (
        f"{model}, {cores} cores, {_core.isa()}, {memory:.0f} GiB, {platform.system()} {platform.release()}"
    )


def machine_table(machine: Machine) -> Table:
    """A machine as a table of two columns; rates are of one thread where nothing else is said."""
    rates, points = machine.rates, RING * (RING.bit_length() - 1)
    rows = [
        ("processor", machine.processor),
        ("instruction set", machine.isa),
        ("threads", f"{machine.threads}"),
        ("memory", "not known" if machine.memory is None else f"{size(machine.memory)} available"),
        *((f"cache L{cache.level}", _cache(cache)) for cache in machine.caches),
        ("NTT", f"{duration(points * rates.ntt)} for a limb of N = {RING}"),
        *((f"key switch, N = {rate.n}", _switching(rate)) for rate in rates.switching),
        *(
            (f"{rates.threads.tried} threads", _threads(rates.threads))
            for _ in range(rates.threads.tried > 1)
        ),
        ("encoding", f"{duration(points * rates.encode + RING * rates.pack)} for a plaintext of N = {RING}"),
        ("call", f"{duration(rates.call)}, and {duration(rates.book)} to keep books of it"),
        ("float64 GEMM", f"{_rate(rates.floats.mac)} multiply-adds"),
        ("exact GEMM", f"{_rate(rates.modular.mac)} multiply-adds modulo a prime of 40 bits"),
        ("seeds", f"{size(8 / rates.uniform)}/s expanded"),
        ("memory, in use", f"{size(1 / rates.stream)}/s"),
        ("memory, new", f"{size(1 / rates.fresh)}/s"),
    ]
    return plan_table("\n".join(f"{name}  {value}" for name, value in rows), f"machine {machine.name}")


def _cache(cache: Cache) -> str:
    return size(cache.nbytes) + f", shared by {cache.processors} processors" * (cache.processors > 1)


def _switching(rate: SwitchRates) -> str:
    return f"{duration(rate.ntt * rate.n * (rate.n.bit_length() - 1))} for a limb's transform"


def _threads(rates: ThreadRates) -> str:
    return (
        f"{rates.compute:.2f} times as fast in the caches, {rates.stream:.2f} times as many bytes from memory"
    )


def _rate(seconds: float) -> str:
    return "countless" if seconds <= 0 else f"{1e-9 / seconds:.2f} billion/s of"
