"""Products by GEMM on several ranks beside fewer: the same files, each run by `cipherblas run` under mpiexec.

The files are made once for a shape, and every rank reads them. Seconds are those of the server on the slowest rank,
with all messages; `speedup` is over the first number of ranks. The results of all runs must be the same residues, and
decrypt to the product. What is predicted comes from counts of each rank, rates of this machine, and α and β of messages
that were measured between two ranks in the same run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cipherblas.bench.harness import MeasurementError, Row, Timing, row
from cipherblas.distributed.messages import Network
from cipherblas.distributed.stages import RankTimes, slowest
from cipherblas.lang.operands import secret
from cipherblas.roles.messages import EncryptedResult
from cipherblas.roles.on_ranks import RankPlan, on_ranks
from cipherblas.roles.program import compile

BENCH = "distributed"
ROUNDS = 3


def run(
    shapes: Sequence[tuple[int, int, int]],
    ranks: Sequence[int] = (1, 2),
    *,
    threads: int = 1,
    rounds: int = ROUNDS,
    network_output: Path | None = None,
    **options: Any,
) -> Iterator[Row]:
    """Rows of the network, and of each shape on each number of ranks.

    Args:
        shapes: (m, k, n) of products of secrets.
        ranks: how many, in the order of the rows.
        threads: of each rank.
        rounds: runs of each, in turns.
        network_output: where α and β are kept, for `plan --network`.
        **options: of the plan.

    Raises:
        MeasurementError: a run failed, or ranks computed something else than one process.
    """
    found = json.loads(_launched(2, ["-m", "cipherblas.bench.ping"]))
    network = Network(found["latency"], found["byte_seconds"])
    if network_output is not None:
        network.save(network_output)
    yield row(
        BENCH,
        "network",
        seconds=network.latency,
        latency=network.latency,
        byte_seconds=network.byte_seconds,
        bytes_per_second=1 / network.byte_seconds if network.byte_seconds else None,
    )
    for shape in shapes:
        with tempfile.TemporaryDirectory(prefix="cipherblas-bench-") as folder:
            yield from _shape_rows(shape, ranks, Path(folder), network, threads, rounds, options)


def _shape_rows(
    shape: tuple[int, int, int],
    ranks: Sequence[int],
    folder: Path,
    network: Network,
    threads: int,
    rounds: int,
    options: Mapping[str, Any],
) -> Iterator[Row]:
    m, k, n = shape
    case = f"{m}x{k}x{n}"
    operands = {"a": secret(m, k), "b": secret(k, n)}
    program = compile(lambda a, b: a @ b, operands, **{"algorithm": "gemm", "threads": threads, **options})
    client = program.client()
    random = np.random.default_rng(1)
    values = {name: random.uniform(-1, 1, one.shape) for name, one in operands.items()}
    program.save(folder / "plan")
    for name, operand in client.encrypt(values).items():
        operand.save(folder / name)
    client.evaluation_keys().save(folder / "keys")
    runs: dict[int, list[dict[str, Any]]] = {count: [] for count in ranks}
    digests = set()
    for _ in range(rounds):
        for count in ranks:
            files = [str(folder / name) for name in ("plan", "keys")]
            command = [
                *("-m", "cipherblas.cli", "run", *files, "--json", "--quiet", "--threads", str(threads)),
                *("--a", str(folder / "a"), "--b", str(folder / "b"), "-o", str(folder / "result")),
            ]
            runs[count].append(json.loads(_launched(count, command)))
            digests.add(EncryptedResult.load(folder / "result").digest)
    if len(digests) != 1:
        raise MeasurementError(f"{case}: ranks computed other residues than one process")
    got = client.decrypt(EncryptedResult.load(folder / "result"))
    error = float(np.abs(got - values["a"] @ values["b"]).max())
    if error > program.plan.error:
        raise MeasurementError(f"{case}: off by {error:g}, where at most {program.plan.error:g} is right")
    base, least = Timing.of([one["seconds"] for one in runs[ranks[0]]]), _least(runs[ranks[0]])
    for count in ranks:
        timing = Timing.of([one["seconds"] for one in runs[count]])
        predicted = on_ranks(program, count, network, threads=threads)
        yield row(
            BENCH,
            case,
            algorithm=program.plan.algorithm,
            params={"n": program.plan.parameters.n, "limbs": program.plan.parameters.limbs},
            threads=threads,
            ranks=count,
            error=error,
            speedup=base.seconds / timing.seconds,
            peak_bytes=max(one["peak_bytes"] for one in runs[count]),
            **_stages(_least(runs[count]), least),
            key_bytes=program.plan.key_bytes,
            upload_bytes=program.plan.upload_bytes,
            **_predicted(predicted, timing),
            timing=timing,
        )


def _least(runs: Sequence[Mapping[str, Any]]) -> RankTimes:
    """Of the run in which the busiest rank took the least of its processor, the most of each stage on any rank."""
    each = [slowest([RankTimes(**rank) for rank in one["rank_times"]]) for one in runs]
    return min(each, key=lambda one: one.user + one.system)


def _stages(times: RankTimes, base: RankTimes) -> Row:
    """Where time went. Seconds of processors say what ranks would gain that have processors of their own."""
    return {
        "compute_seconds": times.compute,
        "communication_seconds": times.communication,
        "copy_seconds": times.copies,
        "user_seconds": times.user,
        "system_seconds": times.system,
        "processor_speedup": (base.user + base.system) / (times.user + times.system),
        "rank_peak_bytes": times.peak_bytes,
    }


def _predicted(plan: RankPlan, timing: Timing) -> Row:
    sent = [run.sent for run in plan.runs]
    return {
        "predicted_seconds": plan.total,
        "predicted_compute": max(plan.seconds),
        "predicted_communication": max(plan.communication),
        "predicted_speedup": plan.speedup,
        "predicted_over_measured": plan.total / timing.seconds,
        "sent_bytes": max(one.nbytes for one in sent),
        "sent_messages": max(one.messages for one in sent),
    }


def launcher(ranks: int) -> list[str]:
    """The command that starts so many ranks of this interpreter: of the MPI beside it, or of the system."""
    beside = Path(sys.executable).with_name("mpiexec")
    start = [str(beside) if beside.exists() else "mpiexec", "-n", str(ranks)]
    return [*start, sys.executable] if ranks > 1 else [sys.executable]


def _launched(ranks: int, arguments: Sequence[str]) -> str:
    """The output of so many ranks.

    Raises:
        MeasurementError: one failed, or there is no MPI.
    """
    try:
        done = subprocess.run([*launcher(ranks), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MeasurementError("no mpiexec: pip install 'cipherblas[distributed]'") from error
    if done.returncode:
        raise MeasurementError(f"{ranks} ranks failed: {done.stderr.strip()}")
    return done.stdout
