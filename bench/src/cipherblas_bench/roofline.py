"""What bounds an operation of the scheme: its transforms and multiplications, or the memory that it streams.

The kernels count what one operation does (`_core.count_kernels`): words that are transformed, multiply-adds modulo a
prime, bytes of keys. The rates are measured in the same process, each by the kernel alone on what lies in the caches,
and a stream of words from memory by NumPy. What would take longer, compute or memory, is the limit; a run that does
not overlap them takes the sum of both. Some kernels do in one pass what is two alone, so that a run may stay below
either. Everything is processor time of one thread, the least of several runs, so that it means something on a machine
that others use; what others take of its memory remains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cipherblas.common.memory import aligned_empty
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.params import Parameters
from cipherblas_bench.harness import Row, Timing, peak_memory, row
from cipherblas_bench.primitives import HOISTED, SETTINGS, Primitives

CASES = ("rotate", "rotate_hoisted", "multiply", "rescale")
STREAM_BYTES = 1 << 28  # beyond every cache
TERMS, LIMBS = 24, 2  # of the sum of products, whose operands stay in the second-level cache
MACS = ("products", "conversions", "scalings")


def run(
    *, ring_degrees: Sequence[int] = (), cases: Sequence[str] | None = None, budget: float = 1.0
) -> Iterator[Row]:
    """Rows of `bench primitives --roofline`: one per setting and case, as they are measured, on one thread.

    Args:
        ring_degrees: restrict to these N.
        cases: restrict to these of `CASES`.
        budget: seconds spent on each case.

    Raises:
        ValueError: an unknown case, or a ring degree at which nothing is measured.
    """
    import cipherblas._core as _core

    unknown = sorted(set(cases or ()) - set(CASES))
    if unknown:
        raise ValueError(f"cases: expected some of {', '.join(CASES)}, got {', '.join(unknown)}")
    offered = [setting.n for setting in SETTINGS]
    missing = sorted(set(ring_degrees) - set(offered))
    if missing:
        raise ValueError(
            f"ring degree: expected some of {', '.join(map(str, offered))}, got {', '.join(map(str, missing))}"
        )
    _core.set_threads(1)
    stream = stream_rate(budget)
    for setting in SETTINGS:
        if ring_degrees and setting.n not in ring_degrees:
            continue
        ours = Primitives(setting.parameters())
        rates = compute_rates(ours.params, budget / 4)
        for case in cases or CASES:
            yield _row(ours, case, rates, stream, budget)
        del ours
        _core.trim_pool()


def _row(ours: Primitives, case: str, rates: dict[str, float], stream: float, budget: float) -> Row:
    operations = HOISTED if case == "rotate_hoisted" else 1
    work = ours.cases[case]
    counted = {name: words / operations for name, words in kernel_words(work).items()}
    inputs, outputs = ciphertext_bytes(ours.params, case)
    moved = counted["key_bytes"] + inputs / operations + outputs
    parts = {
        "forward_seconds": counted["forward"] * rates["forward"],
        "inverse_seconds": counted["inverse"] * rates["inverse"],
        "mac_seconds": sum(counted[name] for name in MACS) * rates["mac"],
        "memory_seconds": moved / stream,
    }
    compute = sum(parts.values()) - parts["memory_seconds"]
    with peak_memory() as peak:
        found = processor_seconds(work, budget)
    timing = Timing.of(found, operations)
    bound = max(compute, parts["memory_seconds"])
    return row(
        "roofline",
        case,
        **ours.fields(case),
        threads=1,
        timing=timing,
        peak_bytes=peak.bytes,
        streamed_bytes=round(moved),
        transforms_of_limbs=round((counted["forward"] + counted["inverse"]) / ours.params.n, 1),
        macs=round(sum(counted[name] for name in MACS)),
        stream_rate=stream,
        **parts,
        compute_seconds=compute,
        roofline_seconds=bound,
        limit="compute" if compute >= parts["memory_seconds"] else "memory",
        times_roofline=timing.seconds_min / bound,
        times_sum=timing.seconds_min / (compute + parts["memory_seconds"]),
        huge_pages=huge_share(),
    )


def ciphertext_bytes(params: Parameters, case: str) -> tuple[int, int]:
    """Bytes of the operands and of one result: what is not a key, and is read or written at least once."""
    limb = params.n * WORD_BYTES
    one = 2 * params.limbs * limb
    if case == "multiply":
        return 2 * one, one
    return one, one - 2 * limb if case == "rescale" else one


def kernel_words(work: Callable[[], Any]) -> dict[str, int]:
    """The words that the kernels count in one run."""
    import cipherblas._core as _core

    _core.count_kernels(True)
    try:
        work()
        return dict(_core.kernel_counts())
    finally:
        _core.count_kernels(False)


def processor_seconds(work: Callable[[], Any], budget: float) -> list[float]:
    """Of this thread, for as many runs as take so long: three at least, the first one left out."""
    work()
    found: list[float] = []
    end = time.monotonic() + budget
    while len(found) < 3 or time.monotonic() < end:
        start = time.thread_time()
        work()
        found.append(time.thread_time() - start)
    return found


def compute_rates(params: Parameters, budget: float) -> dict[str, float]:
    """Seconds of a word of either transform, and of a multiply-add modulo one of these primes."""
    context = params.context()
    some = np.zeros((1, 1, params.n), np.uint64)
    polynomials = context.rows_to_ntt(some)
    ciphertext = context.neg(np.zeros((2, min(LIMBS, params.limbs), params.n), np.uint64))
    works: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
        "forward": (lambda: context.rows_to_ntt(some), ("forward",)),
        "inverse": (lambda: context.rows_from_ntt(polynomials), ("inverse",)),
        "mac": (lambda: context.multiply_sum([ciphertext] * TERMS, [ciphertext] * TERMS, None), MACS),
    }
    return {
        name: min(processor_seconds(work, budget)) / sum(kernel_words(work)[what] for what in counted)
        for name, (work, counted) in works.items()
    }


def stream_rate(budget: float) -> float:
    """Bytes of a second that one thread reads from memory, one after the other."""
    block = aligned_empty((STREAM_BYTES // WORD_BYTES,))
    block.fill(1)
    return STREAM_BYTES / min(processor_seconds(block.sum, budget / 4))


def huge_share() -> float | None:
    """The part of this process's memory that lies in huge pages; None where the system does not say."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    sizes = {name: int(rest[0]) for name, *rest in (line.split() for line in lines[1:])}
    return sizes["AnonHugePages:"] / max(sizes["Rss:"], 1)
