"""From decisions and their trace to a plan: once when it is found, once more when it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cipherblas.common.limits import MASK_BYTES
from cipherblas.crypto.keys import KeyRequest
from cipherblas.crypto.params import Parameters, key_words
from cipherblas.crypto.randomness import SEED_BYTES
from cipherblas.evaluators.slots.values import Order
from cipherblas.lang.graph import Axes
from cipherblas.lang.nodes import Expression
from cipherblas.planner.cost import calibrate
from cipherblas.planner.plan import Plan, PlanOptions, Route
from cipherblas.planner.stages import DEFAULT_LINK, Minimise, Stages, Traffic, predicted, slot_traffic
from cipherblas.planner.trace import Trace, trace
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import Ring
from cipherblas.runtime.row_execution import RowFeed
from cipherblas.runtime.slot_arithmetic import Choice, FeedSpec

# Memory that a process needs beside what the plan counts: interpreter, libraries, NTT tables, idle blocks of the pool.
PROCESS_BYTES = 150 << 20
# Blocks of the pool come in eight sizes per power of two: they are a sixteenth larger than asked for on average.
ROUNDING_SHARE = 16


@dataclass(frozen=True)
class Predictions:
    """What times are predicted for, and which of them a plan makes least; None: made elsewhere, nobody knows."""

    threads: int
    minimise: Minimise | None
    link: float

    @classmethod
    def of(cls, options: PlanOptions) -> Predictions:
        """As the options ask."""
        from cipherblas import _core

        return cls(options.threads or int(_core.threads()), options.minimise, float(options.link))

    @classmethod
    def here(cls) -> Predictions:
        """Of a plan that was made before: this machine, over the usual link."""
        from cipherblas import _core

        return cls(int(_core.threads()), None, DEFAULT_LINK)

    def stages(self, counts: Counts, traffic: Traffic, key_bytes: int, ring: Ring) -> Stages:
        """The predicted stages of a run."""
        return predicted(calibrate(), counts, traffic, key_bytes, ring, self.threads, self.link)

    def seconds(self, stages: Stages) -> float:
        """What a plan makes least."""
        return stages.minimised(self.minimise)


@dataclass(frozen=True)
class Decisions:
    """What must be known to run a program: see `Plan.decisions`."""

    parameters: Parameters
    choices: tuple[Choice, ...]
    blocks: Mapping[str, int]
    key_policy: KeyPolicy
    order: Order
    precision: float

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], parameters: Parameters) -> Decisions:
        """Rebuild from `Plan.decisions`, which have been checked by `planner.schema`."""
        choices = tuple(Choice(row["algorithm"], row["options"]) for row in values["choices"])
        policy, order, precision = values["key_policy"], values["order"], float(values["precision"])
        return cls(parameters, choices, values["blocks"], policy, order, precision)


def assemble(
    expression: Expression,
    decided: Decisions,
    run: Trace,
    predictions: Predictions,
    route: Route = "slots",
    weight_memory: int = 0,
    mask_budget: int = MASK_BYTES,
) -> Plan:
    """The plan of these decisions, whose trace is `run`.

    `weight_memory`: bytes of encoded weights that stay in memory. `mask_budget`: that of the trace.
    """
    parameters = decided.parameters
    key_bytes = key_bytes_of(run.keys, parameters)
    upload_bytes = upload_bytes_of(run.feeds, parameters)
    result = run.ciphertexts
    return Plan(
        parameters=parameters,
        choices=decided.choices,
        blocks={axis: decided.blocks[axis] for axis in Axes(expression).lengths} if route == "slots" else {},
        key_policy=decided.key_policy,
        order=decided.order,
        precision=decided.precision,
        counts=run.counts,
        keys=run.keys,
        key_bytes=key_bytes,
        upload_bytes=upload_bytes,
        upload_ciphertexts=sum(feed.ciphertexts for feed in run.feeds),
        result_ciphertexts=len(result),
        result_bytes=sum(parameters.ciphertext_bytes(ct.limbs, ct.components) for ct in result),
        levels=parameters.limbs - result[0].limbs,
        peak_bytes=key_bytes + upload_bytes + resident_bytes(run.working_bytes) + weight_memory,
        error=run.error,
        error_target=decided.precision * expression.bound,
        traffic=slot_traffic(run.feeds, result, parameters.n),
        threads=predictions.threads,
        minimise=predictions.minimise,
        link=predictions.link,
        route=route,
        weight_memory_bytes=weight_memory,
        mask_budget=mask_budget,
        layers=run.layers,
    )


def replay_slots(
    expression: Expression,
    decisions: Mapping[str, Any],
    parameters: Parameters,
    predictions: Predictions,
    mask_budget: int,
) -> tuple[Plan, Trace]:
    """The plan of saved decisions, traced again."""
    decided = Decisions.from_dict(decisions, parameters)
    run = trace(
        *(decided.parameters, expression, decided.choices, decided.blocks, decided.key_policy),
        mask_budget=mask_budget,
    )
    return assemble(expression, decided, run, predictions, mask_budget=mask_budget), run


def upload_bytes_of(feeds: Iterable[FeedSpec | RowFeed], ring: Ring) -> int:
    """Bytes that the client sends: residues and seeds."""
    return sum(feed.residue_bytes(ring.n) + feed.seeds * SEED_BYTES for feed in feeds)


def resident_bytes(working_bytes: int) -> int:
    """Bytes of a process whose ciphertexts and workspaces take so many, keys aside."""
    return working_bytes + working_bytes // ROUNDING_SHARE + PROCESS_BYTES


def key_bytes_of(request: KeyRequest, ring: Ring) -> int:
    """Bytes in memory of the keys of a request."""
    special, words = len(ring.p), key_words(ring.n, (*ring.q, *ring.p))

    def one(limbs: int) -> int:
        return -(-limbs // ring.alpha) * 2 * (limbs + special) * words * 8

    return sum(one(limbs) for limbs in request.limbs_by_number(0).values())
