"""What a program takes on several ranks, before anything runs: compute, communication, keys and bytes of each rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cipherblas.common.errors import ParameterError
from cipherblas.distributed.dry_run import RankRun, in_turn, rank_runs
from cipherblas.distributed.messages import Network
from cipherblas.distributed.ranks import Distribution
from cipherblas.distributed.shares import Shares
from cipherblas.distributed.slots import DISTRIBUTIONS
from cipherblas.planner.plan.assembly import ROUNDING_SHARE, key_bytes_of
from cipherblas.planner.plan.explain import size
from cipherblas.planner.plan.plan import PROCESS_BYTES
from cipherblas.planner.predict.machine import Machine
from cipherblas.roles.planned import PlannedProgram
from cipherblas.runtime.blocks import FEATURES
from cipherblas.runtime.rows import ROWS

MAX_RANKS = 1024


@dataclass(frozen=True)
class RankPlan:
    """A program on so many ranks.

    Attributes:
        ranks: how many.
        threads: of each.
        runs: what each does.
        seconds: predicted compute of each, messages apart.
        communication: predicted seconds of each rank's messages: latency for each, and its bytes.
        alone: predicted seconds of one rank with as many threads.
        peak_bytes: predicted memory of each; of programs with slots no more than that of one process.
        others: other ways to share products in slots, which are predicted to take longer.
    """

    ranks: int
    threads: int
    runs: tuple[RankRun, ...]
    seconds: tuple[float, ...]
    communication: tuple[float, ...]
    alone: float
    peak_bytes: tuple[int, ...]
    program: PlannedProgram
    sharing: Distribution
    others: tuple[RankPlan, ...] = ()

    @property
    def not_taken(self) -> Mapping[Distribution, float]:
        """Other ways to share products in slots, and the predicted seconds of all."""
        return {one.sharing: one.total for one in self.others}

    @property
    def total(self) -> float:
        """Of the slowest rank: ranks wait for each other."""
        return max(self.seconds) + max(self.communication)

    @property
    def speedup(self) -> float:
        """Over one rank."""
        return self.alone / self.total

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        each = zip(self.runs, self.seconds, self.communication, self.peak_bytes, strict=True)
        return {
            "ranks": self.ranks,
            "threads": self.threads,
            **({"moduli": list(self.program.plan.moduli)} if self.program.plan.moduli else {}),
            "seconds": self.total,
            "speedup": self.speedup,
            "sharing": self.sharing,
            "not_taken": dict(self.not_taken),
            "alone_seconds": self.alone,
            "each": [
                {
                    "compute_seconds": compute,
                    "communication_seconds": communication,
                    "messages": run.sent.messages,
                    "bytes": run.sent.nbytes,
                    "keys": len(run.keys),
                    "peak_bytes": peak,
                }
                for run, compute, communication, peak in each
            ],
        }

    def explain(self) -> str:
        """The same as text."""
        plan = self.program.plan
        compute, communication = max(self.seconds), max(self.communication)
        rows = [
            ("ranks", f"{self.ranks}, {self.threads} {'thread' if self.threads == 1 else 'threads'} each"),
            ("algorithm", _algorithm(self.program, self.sharing)),
            *self._residues(),
            *self._others(),
            *self._divided(),
            ("time", f"{self.total:.3g} s: compute {compute:.3g} s, {self._messages(communication)}"),
            ("speed-up", f"{self.speedup:.2f} over one rank ({self.alone:.3g} s)"),
            ("messages", f"{_range([run.sent.messages for run in self.runs])} a rank"),
            ("sent", f"{_range([run.sent.nbytes for run in self.runs])} bytes a rank"),
            ("keys", f"{_range([len(run.keys) for run in self.runs])} of {len(plan.keys)} a rank"),
            ("memory", f"{size(max(self.peak_bytes))} a rank, {size(plan.peak_bytes)} in one process"),
        ]
        return "\n".join(f"{name:<10} {text}" for name, text in rows)

    def _messages(self, seconds: float) -> str:
        """Seconds of messages as text, or a note that no network is given."""
        if seconds == 0 and any(run.sent.messages for run in self.runs):
            return "and messages, which are counted as free without --network FILE (bench distributed --network-output)"
        return f"communication {seconds:.3g} s"

    def _residues(self) -> list[tuple[str, str]]:
        """A note that all t are among the figures."""
        times = len(self.program.plan.moduli)
        if not times:
            return []
        return [
            ("residues", f"modulo {times} t, one after another: all figures are those of all, keys apart")
        ]

    def _others(self) -> list[tuple[str, str]]:
        """Ways to share that take longer, and why."""
        if not self.others:
            return []
        return [
            ("run with", f"--sharing '{self.sharing}', whose compute and messages together are the least:"),
            *(("", f"{one.sharing}: {one.price()}") for one in (self, *self.others)),
        ]

    def price(self) -> str:
        """Seconds, what they are made of, and keys, of the rank that has most of each."""
        compute, communication = max(self.seconds), max(self.communication)
        keys = max(len(run.keys) for run in self.runs)
        return f"{self.total:.3g} s (compute {compute:.3g}, messages {communication:.3g}; {keys} keys a rank)"

    def _divided(self) -> list[tuple[str, str]]:
        """How products are cut: in slots blocks and grids of ranks, by rows the blocks of key switches."""
        found = []
        if ROWS in self.program.plan.decided.every_form:
            shares = Shares(self.program.plan.parameters.family.rows.n, self.ranks)
            blocks = _range([len(blocks) for blocks in shares.all_blocks])
            of = f"{shares.parts} a rank, of {shares.height} rows of a transposition"
            found.append(("blocks", f"{blocks} of {of}"))
        for product in self.runs[0].products:
            cut, grid = ("×".join(map(str, one)) for one in product)
            if self.sharing == "tdsc":
                text = f"diagonals of {cut} blocks (m×n×k), on {product.grid.volume} ranks"
                found.append(("blocks", text))
            else:
                found.append(("grid", f"{grid} ranks (m×n×k) of {cut} blocks"))
        return found


def _algorithm(program: PlannedProgram, sharing: Distribution) -> str:
    rows, slots = "GEMM form: rows of products and key switches shared", f"products in slots: {sharing}"
    decided = program.plan.decided
    forms = decided.every_form
    if forms == (ROWS,):
        return rows
    if any(choice.method == FEATURES for choice in decided.choices.values()):
        return "features: blocks of samples shared, from the operands to the results"
    return f"{rows}; {slots}" if ROWS in forms else slots


def _range(values: list[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def on_ranks(
    program: PlannedProgram,
    ranks: int,
    network: Network,
    *,
    machine: Machine | None = None,
    threads: int = 1,
    sharing: Distribution = "4d-s",
) -> RankPlan:
    """Predict a program on so many ranks.

    Args:
        program: what is run.
        ranks: how many, each on processors of its own.
        network: between any two of them.
        machine: of every rank; by default the usual one.
        threads: of each rank.
        sharing: of products in slots; see `Program.server`.

    Raises:
        ParameterError: no rank, or more than can be counted.

    Source: the α-β model of FHE4DMM, Section V-C, on messages that were counted one by one.
    """
    if type(ranks) is not int or not 1 <= ranks <= MAX_RANKS:
        raise ParameterError(
            "There cannot be so many ranks.", got=ranks, advice=f"ranks= from 1 to {MAX_RANKS}"
        )
    plan = program.plan
    rates, n = (machine or Machine.usual()).rates, plan.parameters.n
    runs = _runs(program, ranks, sharing)
    alone = runs if ranks == 1 else _runs(program, 1, sharing)
    return RankPlan(
        ranks,
        threads,
        tuple(runs),
        tuple(rates.seconds(run.counts, n, threads) for run in runs),
        tuple(
            network.latency * (run.sent.messages + run.sent.headers) + network.byte_seconds * run.sent.nbytes
            for run in runs
        ),
        rates.seconds(alone[0].counts, n, threads),
        (plan.peak_bytes,) if ranks == 1 else tuple(rank_bytes(program, run) for run in runs),
        program,
        sharing,
    )


def _runs(program: PlannedProgram, ranks: int, sharing: Distribution) -> list[RankRun]:
    """The runs of each rank: of exact integers by residues modulo each t, one after another."""
    each = ((one.plan.parameters, one.listing, one.plan.decided, ranks, sharing) for one in program.residues)
    return in_turn([rank_runs(*one) for one in each])


def fastest_on_ranks(
    program: PlannedProgram,
    ranks: int,
    network: Network,
    *,
    machine: Machine | None = None,
    threads: int = 1,
) -> RankPlan:
    """`on_ranks` with the way to share products in slots that is predicted to be fastest; of equal ones the default.

    Raises:
        ParameterError: no rank, or more than can be counted.
    """
    usual = on_ranks(program, ranks, network, machine=machine, threads=threads)
    if not any(run.products for run in usual.runs):
        return usual
    found = [usual]
    for sharing in DISTRIBUTIONS:
        if sharing != usual.sharing:
            try:
                one = on_ranks(program, ranks, network, machine=machine, threads=threads, sharing=sharing)
            except ParameterError:  # blocks of this method, or so many of them, cannot be shared so
                continue
            found.append(one)
    best = min(found, key=lambda one: one.total)
    return replace(best, others=tuple(one for one in found if one is not best))


def rank_bytes(program: PlannedProgram, run: RankRun) -> int:
    """Bytes that a rank needs: its matrices, its keys and the process."""
    if run.array_bytes is None:
        return program.plan.peak_bytes + program.plan.streamed_bytes
    keys = key_bytes_of(run.keys, program.plan.parameters)
    keys += program.plan.upload_bytes - program.residues[0].plan.upload_bytes  # operands modulo other t
    return keys + run.array_bytes + run.array_bytes // ROUNDING_SHARE + PROCESS_BYTES
