"""Products by GEMM, or other programs, on several ranks beside fewer: the same files, each run by `one_rank` under
mpiexec.

The files are made once for a shape, and every rank reads them. Seconds are those of the server on the slowest rank,
with all messages, of a run that is not its process's first, which is what plans predict; `speedup` is over the first
number of ranks. The results of all runs must be the same residues, and decrypt to the product. What is predicted comes
from counts of each rank, rates of this machine, which is measured at the end of each process by as many ranks at once,
and α and β of messages that were measured between two ranks in the same run.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.distributed.communicator import Sent
from cipherblas.distributed.messages import Network
from cipherblas.distributed.ranks import Distribution
from cipherblas.distributed.stages import RankTimes, slowest
from cipherblas.lang.operands import secret
from cipherblas.planner.predict.machine import Machine
from cipherblas.roles.on_ranks import RankPlan, on_ranks
from cipherblas.roles.program import Program, compile
from cipherblas.roles.wire.messages import EncryptedResult
from cipherblas_bench.harness import MeasurementError, Row, Timing, params_fields, row

BENCH = "distributed"
ROUNDS = 3
TIMES = 2  # runs of a process, of which the first is apart
# Seconds that short runs of a process take together, about, and how many they are at most.
ENOUGH, MAX_TIMES = 0.5, 12


def run(
    shapes: Sequence[tuple[int, int, int]],
    ranks: Sequence[int] = (1, 2),
    *,
    threads: int = 1,
    rounds: int = ROUNDS,
    times: int = TIMES,
    network_output: Path | None = None,
    **options: Any,
) -> Iterator[Row]:
    """Rows of the network, and of each shape on each number of ranks.

    Args:
        shapes: (m, k, n) of products of secrets.
        ranks: how many, in the order of the rows.
        threads: of each rank.
        rounds: processes of each, in turns.
        times: runs of a process, more where they are short; of one alone, the first is what counts.
        network_output: where α and β are kept, for `plan --network`.
        **options: of the plan.

    Raises:
        MeasurementError: a run failed, or ranks computed something else than one process.
    """
    network = network_here()
    if network_output is not None:
        network.save(network_output)
    yield network_row("network", network)
    for shape in shapes:
        with tempfile.TemporaryDirectory(prefix="cipherblas-bench-") as folder:
            yield from _shape_rows(shape, ranks, Path(folder), network, threads, (rounds, times), options)


def network_here() -> Network:
    """Between two ranks on this machine.

    Raises:
        MeasurementError: there is no MPI.
    """
    found = json.loads(_launched(2, ["-m", "cipherblas_bench.ping"]))
    return Network(found["latency"], found["byte_seconds"])


def network_row(case: str, network: Network) -> Row:
    """A row of α and β."""
    return row(
        BENCH,
        case,
        seconds=network.latency,
        latency=network.latency,
        byte_seconds=network.byte_seconds,
        bytes_per_second=1 / network.byte_seconds if network.byte_seconds else None,
    )


def _shape_rows(
    shape: tuple[int, int, int],
    ranks: Sequence[int],
    folder: Path,
    network: Network,
    threads: int,
    often: tuple[int, int],
    options: Mapping[str, Any],
) -> Iterator[Row]:
    rounds, times = often
    operands = {"a": secret(*shape[:2]), "b": secret(*shape[1:])}
    program = compile(lambda a, b: a @ b, operands, **{"algorithm": "gemm", "threads": threads, **options})
    product = OnRanks(program, folder, threads, times)
    runs: dict[int, list[dict[str, Any]]] = {count: [] for count in ranks}
    for _ in range(rounds):
        for count in ranks:
            runs[count].append(product.run(count))
    error = product.checked()
    base, least = Timing.of([one["seconds"] for one in runs[ranks[0]]]), least_of(runs[ranks[0]])
    planned = product.predicted(ranks[0], network)
    for count in ranks:
        timing = Timing.of([one["seconds"] for one in runs[count]])
        yield product.row(
            timing,
            product.predicted(count, network),
            planned,
            error=error,
            speedup=base.seconds / timing.seconds,
            first_seconds=Timing.of([one["first_seconds"] for one in runs[count]]).seconds,
            peak_bytes=max(one["peak_bytes"] for one in runs[count]),
            **stages(least_of(runs[count]), least),
        )


class OnRanks:
    """A program in files, which any number of ranks run.

    Args:
        program: of secrets; a @ b without `values`.
        folder: where its files are kept.
        threads: of each rank.
        times: runs of a process; more where they are short, unless it is one.
        values: what is encrypted, by name.
        case: its name in rows.
    """

    def __init__(
        self,
        program: Program,
        folder: Path,
        threads: int,
        times: int = TIMES,
        *,
        values: Mapping[str, NDArray[Any]] | None = None,
        case: str | None = None,
    ) -> None:
        self.program, self.folder, self.threads = program, folder, threads
        often = math.ceil(ENOUGH / program.plan.stages.evaluate)
        self.times = times if times < 2 else max(times, min(often, MAX_TIMES))
        self.case = case or _shape_text(program)
        self._client = program.client()
        self._values = dict(values or _random_values(program))
        program.save(folder / "plan")
        for name, operand in self._client.encrypt(self._values).items():
            operand.save(folder / name)
        self._client.evaluation_keys().save(folder / "keys")
        _core.trim_pool()  # ranks need the memory
        self._digests: set[str] = set()
        # This one beside each run, by the number of ranks: a shared one is slower now, faster then.
        self._machines: defaultdict[int, list[Machine]] = defaultdict(list)

    def run(self, ranks: int, *options: str) -> dict[str, Any]:
        """The figures of `one_rank` on so many ranks.

        Raises:
            MeasurementError: it failed.
        """
        command = [
            *("-m", "cipherblas_bench.one_rank", str(self.folder)),
            *("--threads", str(self.threads), "--times", str(self.times), *options),
        ]
        found: dict[str, Any] = json.loads(_launched(ranks, command))
        self._digests.add(EncryptedResult.load(self.folder / "result").digest)
        self._machines[ranks].append(Machine.from_dict(found.pop("machine")))
        return found

    def predicted(self, ranks: int, network: Network, sharing: Distribution = "4d-s") -> RankPlan:
        """The plan of so many ranks with the median of the seconds predicted for this machine beside each such run."""
        found = [
            on_ranks(self.program, ranks, network, machine=one, threads=self.threads, sharing=sharing)
            for one in self._machines[ranks]
        ]
        return sorted(found, key=lambda one: one.total)[len(found) // 2]

    def checked(self) -> float:
        """The error of the result, which must be the same of all runs.

        Raises:
            MeasurementError: it is another one, or wrong.
        """
        if len(self._digests) != 1:
            raise MeasurementError(f"{self.case}: ranks computed other residues than one process")
        got = self._client.decrypt(EncryptedResult.load(self.folder / "result"))
        right = self.program.evaluate(self._values)
        whole = self.program.exact or self.program.modulus is not None
        error = float(np.mean(got != right) if whole else np.abs(got - right).max())
        if error > self.program.plan.error:
            raise MeasurementError(
                f"{self.case}: off by {error:g}, where at most {self.program.plan.error:g} is right"
            )
        return error

    def row(self, timing: Timing, predicted: RankPlan, base: RankPlan, **fields: Any) -> Row:
        """A row of a run, with what was predicted of it, and of the run that its speed-up is over."""
        plan = self.program.plan
        return row(
            BENCH,
            fields.pop("case", self.case),
            algorithm=fields.pop("algorithm", plan.algorithm),
            params=params_fields(plan.parameters),
            threads=self.threads,
            ranks=predicted.ranks,
            key_bytes=plan.key_bytes,
            upload_bytes=plan.upload_bytes,
            **fields,
            **_predicted(predicted, base, timing, fields["user_seconds"] + fields["system_seconds"]),
            timing=timing,
        )


def _shape_text(program: Program) -> str:
    (m, k), n = program.operands["a"].shape, program.operands["b"].shape[1]
    return f"{m}x{k}x{n}"


def _random_values(program: Program) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(1)
    return {
        name: random.uniform(-1, 1, one.shape)
        if one.modulus is None
        else random.integers(0, one.modulus, one.shape)
        for name, one in program.operands.items()
    }


def check_sent(case: str, planned: RankPlan, runs: Sequence[Mapping[str, Any]]) -> Sent:
    """What all ranks sent together: each in every run what was planned for it, to the byte.

    Raises:
        MeasurementError: one sent something else.
    """
    expected = [run.sent for run in planned.runs]
    for run in runs:
        for rank, (one, sent) in enumerate(zip(run["sent"], expected, strict=True)):
            if Sent(**one) != sent:
                raise MeasurementError(f"{case}: rank {rank} sent {Sent(**one)}, where {sent} was planned")
    return sum(expected, Sent())


def least_run(runs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Of several the one whose server took the least."""
    return min(runs, key=lambda one: float(one["seconds"]))


def least_of(runs: Sequence[Mapping[str, Any]]) -> RankTimes:
    """Of the run in which the busiest rank took the least of its processor, the most of each stage on any rank."""
    each = [slowest([RankTimes(**rank) for rank in one["rank_times"]]) for one in runs]
    return min(each, key=lambda one: one.user + one.system)


def stages(times: RankTimes, base: RankTimes) -> Row:
    """Where time went. Seconds of processors say what ranks would gain that have processors of their own."""
    return {
        "compute_seconds": times.compute,
        "communication_seconds": times.communication,
        "copy_seconds": times.copies,
        "aligned_seconds": times.aligned,
        "shifted_seconds": times.shifted,
        "user_seconds": times.user,
        "system_seconds": times.system,
        "processor_speedup": (base.user + base.system) / (times.user + times.system),
        "rank_peak_bytes": times.peak_bytes,
    }


def _predicted(plan: RankPlan, base: RankPlan, timing: Timing, processor: float) -> Row:
    """The predicted figures; no seconds where the plan takes kernels of which this machine has no rate."""
    sent = [run.sent for run in plan.runs]
    figures = {
        "predicted_seconds": plan.total,
        "predicted_compute": max(plan.seconds),
        "predicted_communication": max(plan.communication),
        "predicted_speedup": base.total / plan.total,
        "predicted_over_measured": plan.total / timing.seconds,
        "predicted_over_processor": plan.threads * max(plan.seconds) / processor,
    }
    return {
        **{name: value if math.isfinite(value) else None for name, value in figures.items()},
        "predicted_peak_bytes": max(plan.peak_bytes),
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
        raise MeasurementError("no mpiexec: pip install mpi4py mpich") from error
    if done.returncode:
        raise MeasurementError(f"{ranks} ranks failed: {done.stderr.strip()}")
    return done.stdout
