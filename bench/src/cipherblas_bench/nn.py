"""MetaKernel's kernels, encrypted: ours, and the baselines on the same engine in the same run.

`seconds` is the server's evaluation with the weights encoded before; how long that took, and how many bytes they are,
stands beside it. Methods run one after the other: the weights of two would not fit the memory. With a budget of memory
for weights the others are read from a file in every run. A baseline that would
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

from cipherblas.common.errors import CipherblasError
from cipherblas.methods.layers import CONV_BASELINES, MATVEC_BASELINES, METAKERNEL
from cipherblas.planner.predict.machine import Machine
from cipherblas.rlwe.counts import Counts
from cipherblas_bench.harness import SLOW, Row, Timing, params_fields, peak_memory, repeats_for, row
from cipherblas_bench.nn_published import published_depth, published_parameters
from cipherblas_bench.nn_shapes import KERNELS, Kernel, named
from cipherblas_bench.products import SERVER_TIME, planned_fields

RELATIVE_ERROR = 1e-5  # of the largest entry of the result, as in the paper
LIMIT_SECONDS = 600.0  # of a baseline, the encoding of its weights included
MEMORY_SHARE = 0.6  # of the memory that is available, for encoded weights
BASELINES = ("helib-bsgs", "fhelipe")
# Baselines whose predicted error no parameters bring down to the one asked for may err by so many times more.
RELAXED = (1, 32, 1024)
UNLIMITED = dict.fromkeys(("memory_budget", "key_budget", "upload_budget"), 1 << 62)


def run(
    kernels: Sequence[str] = (),
    *,
    baselines: Sequence[str] = BASELINES,
    threads: int = 1,
    budget: float = 2.0,
    limit: float = LIMIT_SECONDS,
    relative_error: float = RELATIVE_ERROR,
    published_ring: bool = False,
    weight_budget: int | None = None,
    **options: Any,
) -> Iterator[Row]:
    """Rows of `bench nn`, as they are measured: per kernel ours, then those baselines that offer it.

    Args:
        kernels: names; by default all.
        threads: of the server.
        budget: seconds spent on each case.
        limit: seconds beyond which a baseline is predicted instead of run.
        relative_error: of the largest entry of the result, that plans may err by.
        published_ring: all methods take the ring of the paper, as near as our primes get (`nn_published`); ours is
            predicted, too, where it takes longer or more memory than there is.
        weight_budget: bytes of memory for encoded weights; those beyond lie in a temporary file, and a run reads them.
            By default weights that do not fit the memory are not run.
        **options: further options of `compile`.

    Raises:
        ValueError: an unknown kernel or baseline.
    """
    import cipherblas._core as _core

    chosen = named(kernels, KERNELS)
    offered = {*CONV_BASELINES, *MATVEC_BASELINES}
    if not set(baselines) <= offered:
        raise ValueError(f"baseline: expected {' | '.join(sorted(offered))}, got {', '.join(baselines)}")
    _core.set_threads(threads)
    options = {"threads": threads, **options}
    if published_ring:
        options = {
            "machine": Machine.usual(),
            **UNLIMITED,
            **options,
        }  # one for all; weights are bounded below
    for kernel in chosen:
        others = _kernel(
            *(kernel, baselines, relative_error, published_ring, budget, limit, weight_budget), options
        )
        ours = next(others)
        yield ours
        for one in others:
            _compared(one, ours)
            yield one


def _kernel(
    kernel: Kernel,
    baselines: Sequence[str],
    relative_error: float,
    published_ring: bool,
    budget: float,
    limit: float,
    weight_budget: int | None,
    options: dict[str, Any],
) -> Iterator[Row]:
    """Rows of one kernel: ours first."""
    rate = 0.0
    for name in (METAKERNEL, *(CONV_BASELINES if kernel.window else MATVEC_BASELINES)):
        if name != METAKERNEL and name not in baselines:
            continue
        given = options
        if published_ring:
            given = {"parameters": published_parameters(published_depth(kernel, name)), **options}
        case, note = _planned(kernel, relative_error, name, given)
        if case is None:
            yield row("nn", kernel.name, algorithm=name, threads=options["threads"], note=note)
            continue
        case.weight_budget = weight_budget
        reason = case.too_much(limit, rate) if published_ring or name != METAKERNEL else ""
        if reason:
            found = case.predicted(options["threads"], f"predicted, not run ({reason})")
        else:
            found = case.measured(budget, options["threads"])
            rate = rate or case.encoding_rate
        case.drop()
        if note:
            found["note"] = "; ".join(filter(None, (note, found.get("note"))))
        yield found


def _planned(
    kernel: Kernel, relative_error: float, name: str, options: dict[str, Any]
) -> tuple[_Case | None, str]:
    """The case of a method, or None; and what is to be said of its plan.

    Raises:
        CipherblasError: ours has no plan.
    """
    reason = ""
    for factor in RELAXED:
        try:
            case = _Case(kernel, factor * relative_error, name, options)
        except CipherblasError as error:
            if name == METAKERNEL:
                raise
            reason = str(error)
            continue
        return case, f"planned for a relative error of {factor * relative_error:.1g}" if factor > 1 else ""
    return None, f"no plan: {reason}"


def _compared(other: Row, ours: Row) -> None:
    """Enter what compares a baseline with ours: measured seconds where both were run, else those predicted of both.

    A measured time is never set against a predicted one: other work on the machine lengthens the former alone.
    """
    field = "seconds" if "seconds" in other and "seconds" in ours else "predicted_seconds"
    if field not in other:
        return
    other["times_metakernel"] = other[field] / ours[field]
    other["times_rotations"] = other["rotations"] / ours["rotations"]
    if "published_seconds" in other:
        other["published_times_metakernel"] = other["published_seconds"] / ours["published_seconds"]


def _available() -> int:
    from cipherblas.common.limits import available_memory

    return available_memory() or 8 << 30


class _Case:
    """One kernel by one method: program and data; keys and ciphertexts when it is measured.

    Attributes:
        weight_budget: bytes of memory for encoded weights; None where all must fit.
    """

    weight_budget: int | None = None

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

    def too_much(self, limit: float, rate: float) -> str:
        """Why it is not run: seconds, at so many per encoded byte, or bytes; nothing where it is."""
        plan, available = self.program.plan, _available()
        stored = plan.counts.stored_bytes
        expected = 2 * plan.seconds + stored * rate
        if expected > limit:
            return f"{expected:.0f} s"
        if self.weight_budget is not None:
            stored = min(stored, self.weight_budget)
        elif stored > MEMORY_SHARE * available:
            return f"{stored >> 20} MiB of weights"
        needed = stored + plan.peak_bytes
        return f"{needed >> 20} MiB of weights, keys and values" if needed > available else ""

    def measured(self, budget: float, threads: int) -> Row:
        """The row of this case: a run that encodes the weights, then those that are timed."""
        plan = self.program.plan
        start = time.perf_counter()
        client = self.program.client()
        keys = client.evaluation_keys()
        self.stages["keygen_seconds"] = time.perf_counter() - start
        server = self.program.server(keys, weight_budget=self.weight_budget)
        start = time.perf_counter()
        x = client.encrypt({"x": self.x})
        self.stages["encrypt_seconds"] = time.perf_counter() - start
        server.run(x)
        self.stages["encode_seconds"] = server.last.encoding_seconds
        self.encoding_rate = server.last.encoding_seconds / max(plan.counts.stored_bytes, 1)
        counts: Counts = server.last.counts
        with peak_memory() as peak:
            result = server.run(x)
        runs = [server.last.seconds]
        for _ in range(repeats_for(runs[0], budget, 2, 50) if runs[0] <= SLOW else 0):
            server.run(x)
            runs.append(server.last.seconds)
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
            weight_budget=self.weight_budget,
            flops=self.kernel.flops,
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
            threads=threads,
            **planned_fields(plan),
            plaintexts=plan.counts.plain_products,
            products=plan.counts.plain_products,
            stored_bytes=plan.counts.stored_bytes,
            flops=self.kernel.flops,
            published_seconds=self._published(),
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
        import cipherblas._core as _core

        self.__dict__.clear()
        gc.collect()
        _core.trim_pool()
