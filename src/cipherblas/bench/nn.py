"""MetaKernel's kernels, encrypted: ours, and the baselines on the same engine in the same run.

`seconds` is the server's evaluation with the weights encoded before; how long that took, and how many bytes they are,
stands beside it. Methods run one after the other: the weights of two would not fit the memory. A baseline that would
take longer than a limit is not run: its row holds the planner's prediction and says so.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas.bench.harness import SLOW, Row, Timing, params_fields, peak_memory, repeats_for, row
from cipherblas.bench.nn_shapes import KERNELS, Kernel, named
from cipherblas.bench.products import SERVER_TIME
from cipherblas.common.errors import CipherblasError
from cipherblas.methods.matvec_conv.registry import CONV_BASELINES, MATVEC_BASELINES, METAKERNEL
from cipherblas.rlwe.counts import Counts

RELATIVE_ERROR = 1e-5  # of the largest entry of the result, as in the paper
LIMIT_SECONDS = 600.0  # of a baseline, the encoding of its weights included
MEMORY_SHARE = 0.6  # of the memory that is available, for encoded weights
BASELINES = ("helib-bsgs", "fhelipe")
# Baselines whose predicted error no parameters bring down to the one asked for may err by so many times more.
RELAXED = (1, 32, 1024)


def run(
    kernels: Sequence[str] = (),
    *,
    baselines: Sequence[str] = BASELINES,
    threads: int = 1,
    budget: float = 2.0,
    limit: float = LIMIT_SECONDS,
    relative_error: float = RELATIVE_ERROR,
    **options: Any,
) -> Iterator[Row]:
    """Rows of `bench nn`, as they are measured: per kernel ours, then those baselines that offer it.

    Args:
        kernels: names; by default all.
        threads: of the server.
        budget: seconds spent on each case.
        limit: seconds beyond which a baseline is predicted instead of run.
        relative_error: of the largest entry of the result, that plans may err by.
        **options: further options of `compile`.

    Raises:
        ValueError: an unknown kernel or baseline.
    """
    from cipherblas import _core

    chosen = named(kernels, KERNELS)
    offered = {*CONV_BASELINES, *MATVEC_BASELINES}
    if not set(baselines) <= offered:
        raise ValueError(f"baseline: expected {' | '.join(sorted(offered))}, got {', '.join(baselines)}")
    _core.set_threads(threads)
    options = {"threads": threads, **options}
    for kernel in chosen:
        ours = _Case(kernel, relative_error, METAKERNEL, options)
        found = ours.measured(budget, threads)
        rate = ours.encoding_rate
        ours.drop()
        yield found
        for name in CONV_BASELINES if kernel.window else MATVEC_BASELINES:
            if name in baselines:
                yield _baseline(kernel, relative_error, name, options, budget, limit, rate, found["seconds"])


def _baseline(
    kernel: Kernel,
    relative_error: float,
    name: str,
    options: dict[str, Any],
    budget: float,
    limit: float,
    rate: float,
    ours: float,
) -> Row:
    """The row of a baseline: measured, predicted, or why it cannot be planned."""
    threads = options["threads"]
    case, reason, note = None, "", ""
    for factor in RELAXED:
        try:
            case = _Case(kernel, factor * relative_error, name, options)
            note = f"planned for a relative error of {factor * relative_error:.1g}" if factor > 1 else ""
            break
        except CipherblasError as error:
            reason = str(error)
    if case is None:
        return row("nn", kernel.name, algorithm=name, threads=threads, note=f"no plan: {reason}")
    plan = case.program.plan
    expected = 2 * plan.seconds + plan.counts.stored_bytes * rate
    if expected > limit or plan.counts.stored_bytes > MEMORY_SHARE * _available():
        reason = (
            f"{expected:.0f} s" if expected > limit else f"{plan.counts.stored_bytes >> 20} MiB of weights"
        )
        found = case.predicted(threads, f"predicted, not run ({reason})")
    else:
        found = case.measured(budget, threads)
    found["times_metakernel"] = found.get("seconds", plan.seconds) / ours
    if note:
        found["note"] = "; ".join(filter(None, (note, found.get("note"))))
    case.drop()
    return found


def _available() -> int:
    from cipherblas.common.limits import available_memory

    return available_memory() or 8 << 30


class _Case:
    """One kernel by one method: program and data; keys and ciphertexts when it is measured."""

    def __init__(self, kernel: Kernel, relative_error: float, name: str, options: dict[str, Any]) -> None:
        from cipherblas.lang.analysis import evaluate_clear, trace
        from cipherblas.lang.functions import conv2d, matvec
        from cipherblas.lang.operands import secret
        from cipherblas.roles.program import compile as compile_program

        random = np.random.default_rng(1)
        self.kernel, self.name = kernel, name
        self.weights = random.uniform(-1, 1, kernel.weight_shape)
        self.x = random.uniform(-1, 1, kernel.input_shape)

        def layer(x: Any) -> Any:
            if kernel.window is None:
                return matvec(self.weights, x)
            return conv2d(x, self.weights, padding=kernel.padding)

        operand = secret(*kernel.input_shape)
        node = trace(layer, {"x": operand})
        self.expected = evaluate_clear(node, {"x": self.x})
        precision = relative_error * float(np.abs(self.expected).max()) / node.bound
        forced = {"form": "tensors"} if name == METAKERNEL else {"algorithm": name}
        start = time.perf_counter()
        options = {**SERVER_TIME, **forced, **options}
        self.program = compile_program(layer, {"x": operand}, precision=precision, **options)
        self.stages = {"plan_seconds": time.perf_counter() - start}
        self.encoding_rate = math.nan

    def measured(self, budget: float, threads: int) -> Row:
        """The row of this case: a run that encodes the weights, then those that are timed."""
        plan = self.program.plan
        start = time.perf_counter()
        client = self.program.client()
        keys = client.evaluation_keys()
        self.stages["keygen_seconds"] = time.perf_counter() - start
        server = self.program.server(keys)
        start = time.perf_counter()
        x = client.encrypt({"x": self.x})
        self.stages["encrypt_seconds"] = time.perf_counter() - start
        server.run(x)
        self.stages["encode_seconds"] = server.encoding_seconds
        self.encoding_rate = server.encoding_seconds / max(plan.counts.stored_bytes, 1)
        counts: Counts = server.counts
        with peak_memory() as peak:
            result = server.run(x)
        runs = [server.seconds]
        for _ in range(repeats_for(runs[0], budget, 2, 50) if runs[0] <= SLOW else 0):
            server.run(x)
            runs.append(server.seconds)
        start = time.perf_counter()
        found = client.decrypt(result)
        self.stages["decrypt_seconds"] = time.perf_counter() - start
        error = float(np.abs(found - self.expected).max())
        return row(
            "nn",
            self.kernel.name,
            params=params_fields(plan.parameters),
            algorithm=plan.algorithm,
            threads=threads,
            timing=Timing(statistics.median(runs), min(runs), max(runs), len(runs)),
            error=error,
            relative_error=error / float(np.abs(self.expected).max()),
            rotations=counts.rotations,
            plaintexts=counts.plain_products,
            products=counts.plain_products,
            key_bytes=plan.key_bytes,
            upload_bytes=x["x"].nbytes,
            peak_bytes=peak.bytes,
            stored_bytes=plan.counts.stored_bytes,
            published_seconds=self._published(),
            predicted_seconds=plan.seconds,
            predicted_error=plan.error,
            **self.stages,
        )

    def predicted(self, threads: int, note: str) -> Row:
        """The row of this case from the plan alone."""
        plan = self.program.plan
        return row(
            "nn",
            self.kernel.name,
            params=params_fields(plan.parameters),
            algorithm=plan.algorithm,
            threads=threads,
            rotations=plan.counts.rotations,
            plaintexts=plan.counts.plain_products,
            products=plan.counts.plain_products,
            key_bytes=plan.key_bytes,
            upload_bytes=plan.upload_bytes,
            stored_bytes=plan.counts.stored_bytes,
            published_seconds=self._published(),
            predicted_seconds=plan.seconds,
            predicted_error=plan.error,
            estimated=True,
            note=note,
            **self.stages,
        )

    def _published(self) -> float | None:
        figures = self.kernel.published.get(self.name)
        seconds = None if figures is None else figures.seconds
        return seconds if seconds is not None and math.isfinite(seconds) else None

    def drop(self) -> None:
        """Give memory back before the next case."""
        from cipherblas import _core

        self.__dict__.clear()
        gc.collect()
        _core.trim_pool()
