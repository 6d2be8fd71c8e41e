"""The machine that the corpus is planned for: forced rates, threads and memory, on whatever machine it is planned.

Nothing else of a machine reaches a plan: instruction sets, cores and control groups do so through these three alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cipherblas as cb
from cipherblas.common import limits
from cipherblas.planner import cost
from cipherblas.planner.cost import GemmRates, Rates, SwitchRates

# Two cores with AVX2, about as they were measured; rounded, so that nobody takes them for a measurement.
RATES = Rates(
    ntt=4e-10,
    switching=(
        SwitchRates(n=1 << 12, ntt=7e-10, threads=2, speedup=1.7),
        SwitchRates(n=1 << 14, ntt=9e-10, threads=2, speedup=1.8),
    ),
    encode=1e-9,
    pack=5e-9,
    uniform=8e-9,
    gaussian=12e-9,
    pack_key=6e-10,
    digest=1.2e-9,
    mac=6e-10,
    stream=5e-11,
    fresh=2e-10,
    call=5e-6,
    book=12e-6,
    term=4e-6,
    floats=GemmRates(mac=5e-11, input=3e-9, output=12e-9),
    modular=GemmRates(mac=2.7e-10, input=3e-9, output=5e-9),
)
THREADS = 2
MEMORY = 16 << 30  # bytes that are available


@contextmanager
def forced(rates: Rates = RATES, threads: int = THREADS, memory: int = MEMORY) -> Iterator[None]:
    """In the block every plan is made and predicted for this machine."""
    before = cb.threads()
    given: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (cost.calibrate, lambda: rates),
        (limits.available_memory, lambda: memory),
    ]
    cb.set_threads(threads)
    for real, fake in given:
        _replace(real, fake)
    try:
        yield
    finally:
        for real, fake in given:
            _replace(fake, real)
        cb.set_threads(before)


def _replace(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Bind every name of the package that stands for `old` to `new`, in whatever module it was imported."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "cipherblas":
            for key, value in list(vars(module).items()):
                if value is old:
                    setattr(module, key, new)
