"""The number-theoretic transform for each instruction set and ring degree.

The instruction set of a process is fixed when its core is loaded (environment variable CIPHERBLAS_ISA), so each
one is measured in a process of its own. Timed is what turns a message's signed coefficients into one limb:
reduction modulo q and the forward transform; per limb, over eight limbs of 50 bits, on one thread. `error` is that
of the coefficients that come back from a product with X, in integers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas_bench.harness import MeasurementError, Row, Timing, measure, peak_memory, row

LIMBS, BITS = 8, 50
RING_DEGREES = tuple(1 << log_n for log_n in range(12, 18))


def run(
    *, isas: Sequence[str] | None = None, ring_degrees: Sequence[int] = RING_DEGREES, budget: float = 0.5
) -> Iterator[Row]:
    """Rows of the NTT part of `bench primitives`: one per ring degree and instruction set.

    Args:
        isas: instruction sets; by default all that this machine has.
        ring_degrees: the N.
        budget: seconds spent on each.

    Raises:
        ValueError: an instruction set that this machine or build lacks; another ring degree.
        MeasurementError: the process of an instruction set failed.
    """
    import cipherblas._core as _core

    usable = _core.isas()
    unknown = sorted(set(isas or ()) - set(usable))
    if unknown:
        raise ValueError(f"instruction sets: expected some of {', '.join(usable)}, got {', '.join(unknown)}")
    check_ring_degrees(ring_degrees, RING_DEGREES)
    found: dict[tuple[int, str], dict[str, float]] = {}
    for isa in isas or usable:
        environment = {**os.environ, "CIPHERBLAS_ISA": isa, "CIPHERBLAS_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = f"from cipherblas_bench.ntt import child\nchild({list(ring_degrees)!r}, {budget!r})"
        result = subprocess.run(
            [sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise MeasurementError(
                f"the {isa} process ended with status {result.returncode}: {result.stderr[-2000:]}"
            )
        for line in result.stdout.splitlines():
            fields = json.loads(line)
            found[fields.pop("n"), fields.pop("isa")] = fields
    for (n, isa), fields in sorted(found.items(), key=lambda item: item[0][0]):
        timing = Timing(fields["seconds"], fields["seconds_min"], fields["seconds_max"], int(fields["runs"]))
        yield row(
            "primitives",
            "ntt per limb",
            params={"n": n, "logq": BITS, "limbs": 1},
            algorithm=isa,
            threads=1,
            timing=timing,
            error=fields["error"],
            peak_bytes=int(fields["peak_bytes"]),
            isa=isa,
        )


def check_ring_degrees(asked: Sequence[int], offered: Sequence[int]) -> None:
    """Raise ValueError unless all that were asked for are measured."""
    unknown = sorted(set(asked) - set(offered))
    if unknown:
        raise ValueError(
            f"ring degree: expected some of {', '.join(map(str, offered))}, got {', '.join(map(str, unknown))}"
        )


def child(ring_degrees: Sequence[int], budget: float) -> None:
    """Measure this process's instruction set; a line of JSON per ring degree on stdout."""
    import cipherblas._core as _core

    _core.set_threads(1)
    for n in ring_degrees:
        context = _core.Context(n, _core.primes(n, BITS, LIMBS), [], 1)
        coefficients = np.random.default_rng(3).integers(-(1 << 40), 1 << 40, n)
        with peak_memory() as peak:
            timing = measure(lambda: context.plaintext(coefficients, LIMBS), budget=budget, operations=LIMBS)  # noqa: B023
        fields = {"error": _error(context, coefficients), "peak_bytes": peak.bytes, **timing.fields()}
        print(json.dumps({"n": n, "isa": _core.isa(), **fields}), flush=True)


def _error(context: Any, coefficients: NDArray[np.int64]) -> float:
    """Largest difference of X·m, computed by transforms, from what NumPy makes of the coefficients m."""
    x = np.zeros_like(coefficients)
    x[1] = 1
    product = context.multiply(context.plaintext(coefficients, LIMBS), context.plaintext(x, LIMBS))
    expected = np.concatenate((-coefficients[-1:], coefficients[:-1]))
    moduli = np.array(context.moduli[:LIMBS], dtype=np.int64)[:, None]
    found = context.rows_from_ntt(product[None])[:, 0].astype(np.int64)
    return float(np.abs(np.where(found > moduli // 2, found - moduli, found) - expected).max())
