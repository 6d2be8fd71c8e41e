"""The facts of one run, measured, beside what its plan predicted. They hold no operands."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from cipherblas.distributed.communicator import Sent
from cipherblas.distributed.stages import RankTimes
from cipherblas.planner.plan.explain import duration, size
from cipherblas.planner.plan.plan import Plan
from cipherblas.rlwe.counts import Counts
from cipherblas.runtime.listing import NodeSeconds


@dataclass(frozen=True)
class RunPrediction:
    """The figures of a plan that a `RunReport` stands beside: those of one process, on several ranks too.

    Attributes:
        counts, peak_bytes: of the plan.
        seconds: of the evaluation alone.
        encoding_seconds: of a first run, for what is encoded once: masks and constants, which are part of the other
            seconds where they are measured, and weights.
    """

    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    encoding_seconds: float = 0.0
    peak_bytes: int = 0

    @classmethod
    def of(cls, plan: Plan) -> RunPrediction:
        """The figures of a plan."""
        return cls(plan.counts, plan.seconds, plan.stages.encode, plan.peak_bytes)


@dataclass(frozen=True)
class RunReport:
    """The figures of one run: `result.report`, `run.report`, and of the run that a server did last `server.last`.

    Attributes:
        counts: operations. They are equal to those of the plan, but for masks that are encoded again for lack of
            memory.
        seconds: duration of the evaluation alone, in which clear operands are encoded; on several ranks that of the
            slowest, messages included.
        node_seconds: by node, in the order of computation: operation, title, form, encrypted parts, seconds. They
            include encoding of weights, and expansion of streamed ciphertexts.
        encoding_seconds: for encoding weights that are constants of the program, not part of the other seconds. Only
            the first run of a network encodes them; later runs find them stored.
        peak_bytes: the most memory of the process during the run, in bytes: its keys, what the pool keeps, and other
            runs beside it are part of it. It is looked at a hundred times a second at most; the most that the process
            ever had is exact.
        sent: traffic from this rank to others.
        rank_times: of every rank, where its time went; of one process, its own.
        predicted: the same by the plan.
    """

    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    node_seconds: tuple[NodeSeconds, ...] = ()
    encoding_seconds: float = 0.0
    peak_bytes: int = 0
    sent: Sent = field(default_factory=Sent)
    rank_times: tuple[RankTimes, ...] = ()
    predicted: RunPrediction = field(default_factory=RunPrediction)

    def __str__(self) -> str:
        """Measured beside predicted, in a few lines."""
        foreseen = self.predicted
        rows = [
            ("evaluation", duration(self.seconds), duration(foreseen.seconds)),
            ("peak memory", size(self.peak_bytes), size(foreseen.peak_bytes)),
            *(
                (name.replace("_", " "), f"{done}", f"{foreseen.counts.to_dict()[name]}")
                for name, done in self.counts.to_dict().items()
                if name in SHOWN and (done or foreseen.counts.to_dict()[name])
            ),
        ]
        return "\n".join(f"{name:<16} {measured:>10}, predicted {other}" for name, measured, other in rows)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    def and_then(self, other: RunReport) -> RunReport:
        """The figures of two runs, one after the other."""
        return RunReport(
            self.counts + other.counts,
            self.seconds + other.seconds,
            (*self.node_seconds, *other.node_seconds),
            self.encoding_seconds + other.encoding_seconds,
            max(self.peak_bytes, other.peak_bytes),
            self.sent + other.sent,
            tuple(a.and_then(b) for a, b in zip(self.rank_times, other.rank_times, strict=True)),
            self.predicted,
        )


SHOWN = ("rotations", "relinearisations", "products", "plain_products")  # of the counts, in text
