"""Products of integers of 64 bits, entry by entry modulo 2^64: the workload "Zn" of the FHE benchmarking suite of
HomomorphicEncryption.org.

Pairs are uniform. Timed is what a server does from encrypted operands in memory to the result; `evaluate_seconds` is
that without the expansion of seeds. Every product is compared with NumPy's uint64.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas_bench.harness import Row, Timing, in_turns, params_fields, peak_memory, row
from cipherblas_bench.products import SERVER_TIME

MODULUS = 1 << 64
SIZES = (1, 1_000, 100_000, 10_000_000)  # pairs, of the workload
# Seconds of computing that the workload's page reports of its reference implementation, by the number of pairs.
PUBLISHED = {1: 1.40, 1_000: 1077.0}
REFERENCE = "the suite's reference, TFHE-rs"


def run(
    sizes: Sequence[int] = SIZES[:3], *, threads: int = 1, budget: float = 1.0, **options: Any
) -> Iterator[Row]:
    """Rows of `bench zn`: one per number of pairs.

    Args:
        threads: of the core.
        budget: seconds spent on each.
        options: of `compile`.

    Raises:
        ValueError: a number of pairs below 1.
        MemoryBudgetError: the ciphertexts would not fit this machine's memory.
    """
    import cipherblas._core as _core

    if min(sizes) < 1:
        raise ValueError(f"pairs: expected 1 or more, got {min(sizes)}")
    _core.set_threads(threads)
    for size in sizes:
        yield _measured(size, threads, budget, {**SERVER_TIME, "threads": threads, **options})


def _measured(size: int, threads: int, budget: float, options: dict[str, Any]) -> Row:
    from cipherblas.lang.operands import secret
    from cipherblas.roles.program import compile as compile_program

    rng, stages = np.random.default_rng(1), dict[str, float]()
    a, b = rng.integers(0, MODULUS, (2, size), dtype=np.uint64)
    began = time.perf_counter()

    def done(stage: str) -> None:
        nonlocal began
        now = time.perf_counter()
        stages[stage] = now - began
        began = time.perf_counter()

    operands = {name: secret(size, modulus=MODULUS) for name in ("a", "b")}
    program = compile_program(lambda a, b: a * b, operands, **options)
    done("plan_seconds")
    client = program.client()
    server = program.server(client.evaluation_keys())
    done("keygen_seconds")
    encrypted = client.encrypt({"a": a, "b": b})
    done("encrypt_seconds")
    with peak_memory() as peak:
        result = server.run(encrypted)
    began = time.perf_counter()
    found = client.decrypt(result)
    done("decrypt_seconds")
    download = result.nbytes
    wrong = int(np.count_nonzero(found != a * b))
    del result, found
    evaluations: list[float] = []

    def side(repeats: int) -> list[float]:
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            evaluations.append(server.run(encrypted).seconds)
            seconds.append(time.perf_counter() - start)
        return seconds

    timing = Timing.of(in_turns([side], budget=budget)[0])
    plan, published = program.plan, PUBLISHED.get(size)
    return row(
        "zn",
        f"{size} pair{'s' if size > 1 else ''}",
        params=params_fields(plan.parameters),
        algorithm=plan.algorithm,
        threads=threads,
        timing=timing,
        error=wrong,
        rotations=plan.counts.rotations,
        products=plan.counts.products,
        key_bytes=plan.key_bytes,
        upload_bytes=sum(one.nbytes for one in encrypted.values()),
        download_bytes=download,
        peak_bytes=peak.bytes,
        modulus=MODULUS,
        plain_moduli=len(plan.moduli),
        evaluate_seconds=Timing.of(evaluations).seconds,
        published_seconds=published,
        times_published=published and timing.seconds / published,
        published_in=published and REFERENCE,
        predicted_seconds=plan.seconds,
        predicted_peak_bytes=plan.peak_bytes,
        **stages,
    )
