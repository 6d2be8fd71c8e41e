"""What plans predict beside what is measured: seconds of every stage, peak memory, bytes, error.

A spread of small programs of all forms is planned for this machine, measured now, and run for real by client and
server, each in a process of its own, so that its peak is its own. The machine is measured again beside each program, so
that a slow moment of a shared one meets both. Ratios are predicted ÷ measured: below 1 the model promises too much.
Errors and peaks are bounds, whose ratios are their slack.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas_bench.harness import (
    MeasurementError,
    Row,
    Timing,
    machine_of_predictions,
    params_fields,
    peak_memory,
    row,
)
from cipherblas_bench.own_process import in_own_process

# Those that are measured: `first_run` holds the loading of keys, the expansion of seeds and the encoding of masks.
# A later `run` expands seeds and evaluates; matrices by rows keep what was expanded.
STAGES = ("encrypt", "first_run", "run", "decrypt")
FIRST_RUNS = 4  # least of so many
MIN_RUNS, MAX_RUNS = 2, 20
NEAR, FAR = 1.25, 2.0  # what the median of the factors, and nine in ten, are to stay within
SHARE = 0.9


def weights(*shape: int, seed: int = 0) -> NDArray[np.float64]:
    """Uniform on [-1, 1]."""
    return np.random.default_rng(seed).uniform(-1, 1, shape)


@dataclass(frozen=True)
class Spec:
    """A program: what is computed, of which operands, planned how.

    Attributes:
        operands: kind (S secret, P clear, K encrypted by the public key) and shape.
    """

    function: Callable[..., Any]
    operands: Mapping[str, tuple[Any, ...]]
    options: Mapping[str, Any] = field(default_factory=dict)

    def declared(self) -> dict[str, Any]:
        from cipherblas.lang.operands import public, secret

        def made(kind: str, *shape: int) -> Any:
            if kind == "P":
                return public(*shape)
            return secret(*shape, encryption="public-key") if kind == "K" else secret(*shape)

        return {name: made(*operand) for name, operand in self.operands.items()}


def _square(x: Any) -> Any:
    from cipherblas.lang.functions import square

    return square(x)


def _network(x: Any) -> Any:
    from cipherblas.lang.functions import avg_pool2d, conv2d, flatten

    features = _square(conv2d(x, weights(4, 1, 3, 3), weights(4)))
    return weights(10, 144, seed=1) @ flatten(avg_pool2d(features, 2))


def _convolution(x: Any) -> Any:
    from cipherblas.lang.functions import conv2d

    return conv2d(x, weights(8, 4, 3, 3), padding=1)


def _product(m: int, k: int, n: int, **options: Any) -> Spec:
    return Spec(lambda a, b: a @ b, {"a": ("S", m, k), "b": ("S", k, n)}, options)


SERVER = {"minimise": "server"}
PROGRAMS: dict[str, Spec] = {
    # in blocks
    "secret 16x16 · 16x16": _product(16, 16, 16),
    "secret 64x64 · 64x64": _product(64, 64, 64),
    "secret 64x64 · 64x64 for the server": _product(64, 64, 64, **SERVER),
    "secret 96x40 · 40x120": _product(96, 40, 120),
    "secret 128x128 · 128x128": _product(128, 128, 128),
    "secret 128x128 · 128x128 for the server": _product(128, 128, 128, **SERVER),
    "secret 32x32 · 32x32 by fame": _product(32, 32, 32, algorithm="fame"),
    "secret 32x32 · 32x32 by bicyclic": _product(32, 32, 32, algorithm="bicyclic"),
    "secret 48x48 · 48x48 with few keys": _product(48, 48, 48, key_policy="binary"),
    "clear 40x60 · 60x50 in slots": Spec(
        lambda a, b: a @ b, {"a": ("P", 40, 60), "b": ("S", 60, 50)}, {"form": "blocks"}
    ),
    "chain of three": Spec(lambda a, b, c: a @ b @ c, dict.fromkeys("abc", ("S", 24, 24))),
    "sum of products": Spec(lambda a, b, c, d: a @ b + c.T @ d, dict.fromkeys("abcd", ("S", 40, 40))),
    "elementwise": Spec(lambda a, b: a * b + 0.5 * a, {"a": ("S", 200, 200), "b": ("S", 200, 200)}),
    "public key 32x32 · 32x32": Spec(lambda a, b: a @ b, {"a": ("K", 32, 32), "b": ("K", 32, 32)}),
    # by rows
    "clear 10x64 · 64x300": Spec(lambda a, b: a @ b, {"a": ("P", 10, 64), "b": ("S", 64, 300)}),
    "clear 512x512 · 512x512": Spec(
        lambda a, b: a @ b, {"a": ("P", 512, 512), "b": ("S", 512, 512)}, {"form": "rows"}
    ),
    "weights 300x1000 · 1000x500": Spec(lambda x: weights(300, 1000) @ x, {"x": ("S", 1000, 500)}),
    "fixed weights 4x2000 · 2000x1000": Spec(
        lambda x: weights(4, 2000) @ x, {"x": ("S", 2000, 1000)}, {"form": "rows"}
    ),
    "weights on both sides": Spec(lambda x: weights(12, 400) @ x @ weights(300, 8), {"x": ("S", 400, 300)}),
    "secret 40x40 · 40x40 by rows": _product(40, 40, 40, form="rows"),
    # by rows and in blocks
    "two layers of 64 columns and a square": Spec(
        lambda x: weights(10, 64, seed=1) @ _square(weights(64, 100) @ x),
        {"x": ("S", 100, 64)},
        {"form": "mixed"},
    ),
    # in tensors
    "layer 10x784": Spec(lambda x: weights(10, 784) @ x, {"x": ("S", 784)}, {"form": "tensors"}),
    "layer 256x256": Spec(lambda x: weights(256, 256) @ x, {"x": ("S", 256)}, {"form": "tensors"}),
    "layer 128x512 by helib-bsgs": Spec(
        lambda x: weights(128, 512) @ x, {"x": ("S", 512)}, {"algorithm": "helib-bsgs"}
    ),
    "two layers and a square": Spec(
        lambda x: weights(10, 64, seed=1) @ _square(weights(64, 100) @ x), {"x": ("S", 100)}
    ),
    "convolution": Spec(_convolution, {"x": ("S", 4, 16, 16)}),
    "convolution, square, pooling, layer": Spec(_network, {"x": ("S", 1, 14, 14)}),
}


def run(cases: Sequence[str] = (), *, threads: int = 1, budget: float = 1.0, **options: Any) -> Iterator[Row]:
    """Rows of `bench model`, as they are measured: one per program, and a summary of each quantity.

    Args:
        cases: names of `PROGRAMS`; by default all.
        threads: of client and server.
        budget: seconds spent on the evaluations of each program.
        **options: further options of `compile`, of every program.

    Raises:
        ValueError: an unknown program. MeasurementError: a result errs by more than its plan says.
    """
    import cipherblas._core as _core

    unknown = [name for name in cases if name not in PROGRAMS]
    if unknown:
        raise ValueError(f"case: expected {' | '.join(PROGRAMS)}, got {', '.join(unknown)}")
    _core.set_threads(threads)
    machine = machine_of_predictions().to_dict()
    rows = []
    for name in cases or PROGRAMS:
        rows.append(in_own_process(name, measured, name, threads, budget, {**options, "machine": machine}))
        yield rows[-1]
    yield from summary(rows, threads)


def measured(name: str, threads: int, budget: float, options: Mapping[str, Any]) -> Row:
    """The row of one program, measured in this process.

    Args:
        options: of `compile`; the machine as `Machine.to_dict` has it.
    """
    import cipherblas._core as _core
    from cipherblas.planner.predict import measuring
    from cipherblas.planner.predict.machine import Machine
    from cipherblas.roles.program import compile as compile_program

    _core.set_threads(threads)
    spec = PROGRAMS[name]
    options = {**spec.options, **options, "threads": threads}
    options["machine"] = Machine.from_dict(options["machine"])
    program = compile_program(spec.function, spec.declared(), **options)
    with tempfile.TemporaryDirectory() as folder:
        stages, found = _run(program, Path(folder), budget)
    plan = program.plan
    if found["error"] > plan.error:
        raise MeasurementError(f"{name}: the error is {found['error']:g}, predicted were {plan.error:g}")
    # A shared machine has slow moments: the rates are those of this one.
    beside = measuring.measured()
    predicted = replace(plan, machine=replace(plan.machine, rates=beside)).stages
    evaluations = found.pop("evaluations")
    expected = {
        "encrypt": predicted.encrypt,
        "first_run": predicted.first_run,
        "run": predicted.evaluate + (0.0 if plan.form == "rows" else predicted.expand),
        "decrypt": predicted.decrypt,
        "peak_bytes": plan.peak_bytes,
        "upload_bytes": plan.upload_bytes,
        "result_bytes": plan.result_bytes,
        "key_bytes": plan.key_bytes,
        "error": plan.error,
    }
    actual = {**{stage: min(runs) for stage, runs in stages.items()}, **found}
    counts = plan.counts
    return row(
        "model",
        name,
        params=params_fields(plan.parameters),
        algorithm=plan.algorithm,
        threads=threads,
        timing=Timing.of(evaluations),
        error=found["error"],
        rotations=counts.rotations,
        products=counts.products,
        key_bytes=found["key_bytes"],
        upload_bytes=found["upload_bytes"],
        peak_bytes=found["peak_bytes"],
        form=plan.form,
        measured=actual,
        predicted=expected,
        ratios={what: value / actual[what] for what, value in expected.items() if actual[what]},
    )


def _run(program: Any, folder: Path, budget: float) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """(seconds of the runs of each stage, what else was measured); the server is a process of its own."""
    import cipherblas._core as _core
    from cipherblas.roles.wire.messages import EncryptedResult

    client, random = program.client(), np.random.default_rng(7)
    values = {name: random.uniform(-1, 1, operand.shape) for name, operand in program.operands.items()}
    secret = {name: value for name, value in values.items() if program.operands[name].secret}
    by_public_key = any(operand.public_key for operand in program.operands.values())
    encryptor = program.encryptor(client.public_key()) if by_public_key else client
    client.write_evaluation_keys(folder / "keys")
    program.save(folder / "program")
    operands, encrypted = _timed(lambda: encryptor.encrypt(secret), budget / 4)
    for name, value in values.items():
        if name in secret:
            operands[name].save(folder / name)
        else:
            np.save(folder / f"{name}.npy", value)
    stages, found = in_own_process("a server", _served, folder, _core.threads(), budget)
    result = EncryptedResult.load(folder / "result")
    answer, decrypted = _timed(lambda: client.decrypt(result, of=operands), budget / 4)
    return {**stages, "encrypt": encrypted, "decrypt": decrypted}, {
        **found,
        "error": float(np.abs(answer - program.evaluate(values)).max()),
        "upload_bytes": sum(operand.nbytes for operand in operands.values()),
        "result_bytes": result.nbytes,
    }


def _served(folder: Path, threads: int, budget: float) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """The server's part of `_run`, whose peak is that of this process."""
    import cipherblas._core as _core
    from cipherblas.crypto.keys import EvaluationKeys
    from cipherblas.roles.program import Program
    from cipherblas.roles.wire.messages import EncryptedOperand

    _core.set_threads(threads)
    peak_bytes, first_runs = 0, []
    loaded: Any = None
    keys: Any = None
    server: Any = None
    result: Any = None
    operands = {
        name: EncryptedOperand.load(folder / name) if operand.secret else np.load(folder / f"{name}.npy")
        for name, operand in Program.load(folder / "program").operands.items()
    }
    for _ in range(FIRST_RUNS):  # of a program whose masks nobody encoded yet
        loaded = keys = server = result = None  # those of the run before
        loaded = Program.load(folder / "program")

        def first(loaded: Any = loaded) -> tuple[Any, Any, Any]:
            keys = EvaluationKeys.load(folder / "keys")
            server = loaded.server(keys)
            return keys, server, server.run(operands)

        _core.trim_pool()
        with peak_memory() as peak:
            (keys, server, result), seconds = _timed(first, 0.0, least=1)
        first_runs += seconds
        peak_bytes = max(peak_bytes, peak.bytes)
    evaluations: list[float] = []

    def run() -> Any:
        found = server.run(operands)
        evaluations.append(server.last.seconds)
        return found

    result, runs = _timed(run, budget)
    result.save(folder / "result")
    found = {"evaluations": evaluations, "peak_bytes": peak_bytes, "key_bytes": keys.nbytes}
    return {"first_run": first_runs, "run": runs}, found


def _timed(work: Callable[[], Any], budget: float, least: int = MIN_RUNS) -> tuple[Any, list[float]]:
    """(what some work returns, the seconds of each time that it was done)."""
    import cipherblas._core as _core

    # On one thread what others do with the processors is left out, as it is of the rates.
    clock = time.process_time if _core.threads() == 1 else time.perf_counter
    seconds: list[float] = []
    while len(seconds) < least or (sum(seconds) < budget and len(seconds) < MAX_RUNS):
        start = clock()
        result = work()
        seconds.append(clock() - start)
    return result, seconds


def factor(ratio: float) -> float:
    """How many times the larger of two numbers is the other."""
    return max(ratio, 1 / ratio)


def summary(rows: Iterable[Row], threads: int) -> Iterator[Row]:
    """A row for the seconds of all stages together, for each of them, for bytes, for peaks and for errors."""
    rows = list(rows)
    for what in ("seconds", *STAGES, "bytes", "peak_bytes", "error"):
        names = {"seconds": STAGES, "bytes": ("upload_bytes", "result_bytes", "key_bytes")}.get(what, (what,))
        ratios = [found["ratios"][name] for found in rows for name in names if name in found["ratios"]]
        if not ratios:
            continue
        factors = sorted(factor(ratio) for ratio in ratios)
        yield row(
            "model summary",
            what,
            threads=threads,
            ratio_median=statistics.median(ratios),
            ratio_least=min(ratios),
            ratio_largest=max(ratios),
            factor_median=statistics.median(factors),
            factor_of_nine_in_ten=factors[max(0, int(np.ceil(SHARE * len(factors))) - 1)],
            measured_cases=len(ratios),
        )
