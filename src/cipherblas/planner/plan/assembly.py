"""From decisions and a dry run to a plan: once when it is found, once more when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cipherblas.common.errors import FormatError, ParameterError
from cipherblas.common.limits import weight_budget_of
from cipherblas.common.progress import Progress
from cipherblas.crypto.keys import KeyRequest
from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.slots.values import Order
from cipherblas.lang.facts import facts_of
from cipherblas.lang.graph import as_matrices, axes_of
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.results import labels_of, results_of
from cipherblas.planner.plan.plan import PROCESS_BYTES, PeerName, Plan, PlanOptions
from cipherblas.planner.plan.schema import check_decisions, check_planned_for
from cipherblas.planner.plan.targets import ResultFigures, check_promised, targets
from cipherblas.planner.predict.dry_run import DryRun, dry_run
from cipherblas.planner.predict.machine import Machine
from cipherblas.planner.predict.promises import promise_of
from cipherblas.planner.predict.stages import Minimise, Stages, key_bytes_at, predicted
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import Ring
from cipherblas.rlwe.traffic import Traffic
from cipherblas.runtime.blocks import BLOCKS
from cipherblas.runtime.rows import ROWS
from cipherblas.runtime.tensors import TENSORS
from cipherblas.runtime.values import Decisions, MethodChoice

# Blocks of the pool come in eight sizes per power of two: they are a sixteenth larger than asked for on average.
ROUNDING_SHARE = 16


@dataclass(frozen=True)
class Predictions:
    """The machine of predicted times, and the one of these times that a plan minimises."""

    machine: Machine
    threads: int
    minimise: Minimise
    link: float

    @classmethod
    def of(cls, options: PlanOptions) -> Predictions:
        """As the options ask."""
        machine = options.planned_for
        return cls(machine, options.threads or machine.threads, options.minimise, float(options.link))

    def stages(self, counts: Counts, traffic: Traffic, key_bytes: int, ring: Ring) -> Stages:
        """The predicted stages of a run."""
        return predicted(self.machine.rates, counts, traffic, key_bytes, ring, self.threads, self.link)

    def seconds(self, stages: Stages) -> float:
        """Seconds that a plan minimises."""
        return stages.minimised(self.minimise)

    def more_seconds(self, ring: Ring, counts: Counts, traffic: Traffic) -> float:
        """Seconds that some operations and messages add to that."""
        none = self.stages(Counts(), Traffic(), 0, ring)
        return self.seconds(self.stages(counts, traffic, 0, ring)) - self.seconds(none)


def assemble(
    expression: Expression,
    parameters: Parameters,
    decided: Decisions,
    run: DryRun,
    predictions: Predictions,
    *,
    order: Order,
    precision: float,
    error: float | tuple[float, ...] | None,
    mask_budget: int,
    for_peer: PeerName | None = None,
) -> Plan:
    """The plan of these decisions, of which `run` is the dry run with this `mask_budget`.

    Args:
        error: what was asked for instead of the precision.
    """
    if decided.form == BLOCKS:
        decided = replace(
            decided, blocks={axis: decided.blocks[axis] for axis in axes_of(expression).lengths}
        )
    key_bytes, traffic = key_bytes_of(run.keys, parameters), run.traffic(parameters)
    outputs = run.outputs(parameters)
    weights = min(run.counts.stored_bytes, weight_budget_of(predictions.machine.memory))
    return Plan(
        parameters=parameters,
        decided=replace(decided, stepwise=run.promise.stepwise),
        promise=run.promise,
        order=order,
        precision=precision,
        counts=run.counts,
        keys=run.keys,
        key_bytes=key_bytes,
        upload_bytes=traffic.upload_bytes,
        upload_ciphertexts=sum(one.form.ciphertexts for one in run.inputs),
        result_ciphertexts=sum(one.form.ciphertexts for one in outputs),
        result_bytes=traffic.result_bytes,
        levels=max(one.basis.levels_above(run.limbs, parameters) for one in run.inputs),
        peak_bytes=peak_bytes_of(run, key_bytes, parameters) + weights,
        results=tuple(
            ResultFigures(
                *(label, node.bound, found, target, rounding),
                one.form.download(one.limbs, one.components, one.n).result_bytes,
            )
            for label, node, found, target, rounding, one in zip(
                labels_of(expression),
                results_of(expression),
                run.errors,
                targets(expression, precision, error),
                run.rounding_errors,
                outputs,
                strict=True,
            )
        ),
        traffic=traffic,
        machine=predictions.machine,
        threads=predictions.threads,
        minimise=predictions.minimise,
        link=predictions.link,
        weight_memory_bytes=weights,
        held_bytes=run.held_bytes(parameters),
        streamed_bytes=run.streamed_bytes,
        mask_budget=mask_budget,
        nodes=run.nodes,
        asked_error=error,
        for_peer=for_peer,
    )


def replay(
    expression: Expression,
    decisions: Mapping[str, Any],
    planned_for: Mapping[str, Any],
    parameters: Parameters,
    progress: Progress | None = None,
) -> tuple[Plan, DryRun]:
    """The plan that was saved as `Plan.decisions` and `Plan.planned_for`, run without data again.

    All that it says follows from the decisions and from the machine of the file: nothing else is taken on its word.

    Raises:
        FormatError: these are no decisions, or they are for other parameters than those of their file.
    """
    check_decisions(decisions)
    check_planned_for(planned_for)
    if decisions["parameters"] != parameters.to_dict():
        raise FormatError(
            "The decisions are for other parameters than those of their file.",
            expected=parameters.to_dict(),
            got=decisions["parameters"],
        )
    choices = {
        int(number): MethodChoice(row["method"], row["options"])
        for number, row in decisions["choices"].items()
    }
    if parameters.plain_modulus is not None and (
        decisions["form"] not in (BLOCKS, ROWS, TENSORS) or decisions.get("forms")
    ):
        raise FormatError(
            "Integers modulo t are computed in blocks of matrices, by rows, or as tensors.",
            expected=f"{BLOCKS} | {ROWS} | {TENSORS}",
            got=", ".join(sorted({decisions["form"], *decisions.get("forms", {}).values()})),
        )
    forms = {int(number): form for number, form in decisions.get("forms", {}).items()}
    conversions = {int(number): options for number, options in decisions.get("crossings", {}).items()}
    sharing = decisions.get("sharing", 0)
    flags = {name: decisions.get(name, False) for name in ("unrelinearised", "halves")}
    decided = Decisions(
        *(
            decisions["form"],
            choices,
            decisions["blocks"],
            decisions["key_policy"],
            forms,
            conversions,
            sharing,
        ),
        **flags,
    )
    if (forms or conversions) and decided.form != ROWS:
        raise FormatError(
            "A program of several forms must be planned by rows.", expected=ROWS, got=decided.form
        )
    masks = planned_for["mask_budget"]
    runs = executed(expression, decided)
    _check_flags(runs, decided, parameters)
    most = len(ordered(runs)) - 1
    if any(number > most for number in choices):
        raise FormatError(
            "The decisions name a node that the program does not have.",
            expected=f"0 to {most}",
            got=max(choices),
        )
    promise = promise_of(decisions.get("promise"))
    if len(promise.figures) not in (0, len(results_of(expression))):
        raise FormatError(
            "The promise of the decisions is not for the results of the program.",
            expected=f"{len(results_of(expression))} results",
            got=len(promise.figures),
        )
    run = dry_run(
        *(parameters, runs, decided),
        mask_budget=masks,
        observed=True,
        progress=progress,
        promise=promise,
    )
    if run.choices != choices:
        unused = min(choices.keys() - run.choices.keys())
        raise FormatError(
            "The decisions choose a method for a node that needs none.",
            expected=f"none about node {unused}",
            got=choices[unused],
        )
    if sharing and not run.keys.shared:
        raise FormatError(
            "The decisions have ciphertexts share their a part that are not refreshed together.",
            expected=f"more than {sharing} ciphertexts of a value",
            got="fewer",
        )
    _check_used("forms", forms, frozenset(n for n in run.read_forms if forms.get(n) != decided.form))
    _check_used("crossings", conversions, run.read_conversions)
    precision, machine = float(decisions["precision"]), Machine.from_dict(planned_for["machine"])
    link = float(planned_for["link"])
    predictions = Predictions(machine, planned_for["threads"], planned_for["minimise"], link)
    error = _asked_error(expression, decisions.get("asked_error"), precision)
    options = {"order": decisions["order"], "precision": precision, "error": error, "mask_budget": masks}
    options["for_peer"] = decisions.get("for_peer")
    plan = assemble(runs, parameters, decided, run, predictions, **options)
    check_promised(plan.results)
    return plan, run


def _check_flags(expression: Expression, decided: Decisions, parameters: Parameters) -> None:
    """Raise FormatError where decisions of a file leave products, or pair integers, of a program that needs others."""
    facts, in_blocks = facts_of(expression), decided.form == BLOCKS
    if decided.unrelinearised and not (in_blocks and facts.multiplies_last):
        raise FormatError(
            "The decisions leave products as they are of which more is computed.",
            expected="relinearised products",
            got="three components",
        )
    modular = parameters.plain_modulus is not None
    if decided.halves and not (in_blocks and modular and facts.entrywise):
        raise FormatError(
            "The decisions lay entries in halves of slots that are not computed one by one.",
            expected="integers modulo t, entry by entry",
            got=decided.form,
        )


def _asked_error(expression: Expression, error: Any, precision: float) -> float | tuple[float, ...] | None:
    """The error that a file says was asked for instead of a precision; FormatError where that is another precision."""
    if error is None:
        return None
    results = results_of(expression)
    errors = tuple(error) if isinstance(error, list) else (error,) * len(results)
    if len(errors) != len(results) or (isinstance(error, list) and not expression.root):
        raise FormatError(
            "The number of errors that were asked for is not that of the results.",
            expected=f"{len(results)}",
            got=len(errors),
        )
    meant = min(each / node.bound for each, node in zip(errors, results, strict=True))
    if meant != precision:
        raise FormatError(
            "The precision of the decisions does not follow from the errors that were asked for.",
            expected=meant,
            got=precision,
        )
    return errors if isinstance(error, list) else error


def _check_used(what: str, given: Mapping[int, Any], used: frozenset[int]) -> None:
    """Raise FormatError where something was decided that nothing asks for."""
    if not given.keys() <= used:
        unused = min(given.keys() - used)
        raise FormatError(
            f"The decisions hold {what} that nothing asks for.",
            expected=f"none of node {unused}",
            got=given[unused],
        )


def executed(expression: Expression, decided: Decisions) -> Expression:
    """Return the program that runs: in blocks or by rows with vectors as matrices of one column.

    Raises:
        ParameterError: it has layers of images.
    """
    matrices = expression if decided.form == TENSORS else as_matrices(expression)
    if matrices is None:
        raise ParameterError(
            f"The form {decided.form!r} does not hold layers of images.",
            expected="matrices and vectors",
            got="layers of images",
        )
    return matrices


def peak_bytes_of(run: DryRun, key_bytes: int, ring: Ring) -> int:
    """Bytes that a server needs for a run, stored weights aside."""
    working = run.working_bytes
    return key_bytes + run.held_bytes(ring) + working + working // ROUNDING_SHARE + PROCESS_BYTES


def key_bytes_of(request: KeyRequest, ring: Ring) -> int:
    """Bytes in memory of the keys of a request."""
    return sum(
        number * key_bytes_at(ring.family.at(place, modulus), limbs)
        for (place, modulus, limbs), number in request.sizes.items()
    )
