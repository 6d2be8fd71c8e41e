"""What a plan is: everything that was decided and predicted before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cipherblas.evaluators.counts import Counts
from cipherblas.execution import Choice
from cipherblas.keys import KeyRequest
from cipherblas.params import Parameters


@dataclass(frozen=True)
class PlanOptions:
    """What the user asks of a plan.

    Attributes:
        precision: largest error of an entry, relative to the bound of the result (for A @ B: max|A|·max|B|·k).
        security: 128, 192 or 256 bits; anything less needs `insecure`.
        insecure: accept parameters below the table (warns; stamped into every file).
        algorithm: name of the algorithm for every product; None lets the planner choose.
        memory_budget: bytes that the server may use; None takes four fifths of the memory available now.
        key_budget: bytes of evaluation keys in memory; None takes half of the memory budget.
        upload_budget: bytes that the client may upload for the secret operands together.
        ring_degree: force N; None lets the planner choose.
        block: largest block length along any dimension; None lets the planner choose.
        options: options of the forced algorithm (for experiments).
        key_policy: force "direct", "composed" or "binary"; None lets the key budget decide.
        order: loop order of the linear transforms, "limb" (MO-HLT) or "rotation" (coarse).
        threads: threads that the time is predicted for; None takes the present setting.
        parameters: force a parameter set (for comparisons with published sets).
    """

    precision: float = 1e-4
    security: int = 128
    insecure: bool = False
    algorithm: str | None = None
    memory_budget: int | None = None
    key_budget: int | None = None
    upload_budget: int = 64 << 20
    ring_degree: int | None = None
    block: int | None = None
    options: Mapping[str, Any] | None = None
    key_policy: str | None = None
    order: str = "limb"
    threads: int | None = None
    parameters: Parameters | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary without what is at its default."""
        values = {}
        for name, value in self.__dict__.items():
            if value != getattr(PlanOptions, name, None) and name != "parameters":
                values[name] = value
        return values


@dataclass(frozen=True)
class Rejected:
    """A candidate that was not taken, and why."""

    algorithm: str
    reason: str
    seconds: float | None = None


@dataclass(frozen=True)
class Plan:
    """A decided program: parameters, algorithms, blocks, and what the run will cost.

    The figures come from running the program itself with the `Counter`, so they are those of the code that runs.
    """

    parameters: Parameters
    choices: tuple[Choice, ...]
    blocks: Mapping[str, int]
    key_policy: str
    order: str
    precision: float
    counts: Counts
    keys: KeyRequest
    key_bytes: int
    upload_bytes: int
    upload_ciphertexts: int
    result_ciphertexts: int
    result_bytes: int
    levels: int
    peak_bytes: int
    error: float
    error_target: float
    seconds: float
    threads: int
    rejected: tuple[Rejected, ...] = field(default=(), compare=False)

    @property
    def algorithm(self) -> str:
        """The algorithm of the products, joined by commas where they differ; "elementwise" without products."""
        names = list(dict.fromkeys(choice.algorithm for choice in self.choices))
        return ", ".join(names) if names else "elementwise"

    def decisions(self) -> dict[str, Any]:
        """What must be known to run the plan again: JSON-ready, the base of the program's identity."""
        return {
            "parameters": self.parameters.to_dict(),
            "choices": [{"algorithm": c.algorithm, "options": dict(c.options)} for c in self.choices],
            "blocks": dict(self.blocks),
            "key_policy": self.key_policy,
            "order": self.order,
            "precision": self.precision,
        }

    def to_dict(self) -> dict[str, Any]:
        """Decisions and predictions, JSON-ready."""
        params = self.parameters
        return {
            "algorithm": self.algorithm,
            "n": params.n,
            "log_q": round(params.log_q, 2),
            "log_p": round(params.log_p, 2),
            "limbs": params.limbs,
            "special_limbs": params.special_limbs,
            "dnum": params.dnum,
            "security": params.security,
            "scale_bits": params.scale_bits,
            "levels": self.levels,
            "upload_ciphertexts": self.upload_ciphertexts,
            "upload_bytes": self.upload_bytes,
            "result_ciphertexts": self.result_ciphertexts,
            "rotations": self.counts.rotations,
            "products": self.counts.products,
            "rotation_keys": len(self.keys.galois),
            "key_bytes": self.key_bytes,
            "peak_bytes": self.peak_bytes,
            "expected_error": self.error,
            "seconds": self.seconds,
            "threads": self.threads,
            "counts": asdict(self.counts),
            **self.decisions(),
        }
