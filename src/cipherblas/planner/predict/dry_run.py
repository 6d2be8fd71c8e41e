"""Running a program without data: what the client sends, counts, keys, memory and error, before anything runs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cipherblas.common.errors import LevelError
from cipherblas.common.limits import KEPT_BYTES, MASK_BYTES, streaming_batch
from cipherblas.common.progress import Progress
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.keys import KeyRequest
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.symbolic import RowsSymbolic
from cipherblas.evaluators.slots.bookkeeping import Term
from cipherblas.evaluators.slots.shared import SharedSymbolic
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import ClearFactor, Plain
from cipherblas.lang.nodes import Expression
from cipherblas.lang.refreshing import is_refreshed
from cipherblas.planner.predict.feasible import TooSlowError
from cipherblas.planner.predict.promises import BOUNDS, Promise, Promised
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import Ring, limbs_of_level
from cipherblas.rlwe.traffic import Traffic
from cipherblas.runtime.executor import Executor, MethodChooser, NodeFigures
from cipherblas.runtime.inputs import SymbolicInputs
from cipherblas.runtime.listing import Listing
from cipherblas.runtime.tensors import TENSORS, least_levels
from cipherblas.runtime.values import Decisions, Input, MethodChoice, Output, StepError, Value

# Of residues of operands with moduli of their own, in encryption: how many a transform does together, and how many
# residues of primes are made in the time of one of theirs.
BYTE_BATCH, RESIDUE_WORDS = 2, 6


@dataclass(frozen=True)
class DryRun:
    """The figures of one symbolic run of a program.

    Attributes:
        inputs: what the client must send, in the order of first use.
        results: their handles carry limbs, scale, bound and noise.
        left: limbs that each result was computed with; of several, it is sent with fewer where these hold it.
        counts: operations of the whole run.
        keys: switching keys that the run asks for.
        working_bytes: peak of values, encoded plaintexts and workspaces that are alive together, what is kept for later
            runs included, and all operands, as far as the server makes them of what comes: they stay until the end.
        choices: how each node was computed of which that had to be decided.
        together: the most full ciphertexts of a value that is refreshed.
        streamed_bytes: of operands whose ciphertexts products expand one by one; `working_bytes` lacks them.
        read_forms, read_conversions: numbers of the nodes whose form was asked for, and of those that were converted.
        nodes: what each took, where that was asked for.
        fixed_factors: the clear factors that have keys of their own.
        scale_bits, level_limbs: of the ring.
        expression: what ran.
        promise: whom the errors are for.
        step_errors: of the nodes, by number, where the promise is found from them.
    """

    inputs: tuple[Input, ...]
    results: tuple[Value, ...]
    left: tuple[int, ...]
    counts: Counts
    keys: KeyRequest
    working_bytes: int
    choices: Mapping[int, MethodChoice]
    nodes: tuple[NodeFigures, ...]
    fixed_factors: tuple[ClearFactor, ...]
    scale_bits: float
    expression: Expression
    promise: Promise
    step_errors: Mapping[int, StepError]
    read_forms: frozenset[int] = frozenset()
    read_conversions: frozenset[int] = frozenset()
    together: int = 0
    streamed_bytes: int = 0
    level_limbs: int = 1

    @functools.cached_property
    def promised(self) -> tuple[Promised, ...]:
        """Predicted largest error of an entry, of each result, and what no ring changes of it."""
        return self.promise.errors(self.expression, self.results, self.step_errors)

    @property
    def errors(self) -> tuple[float, ...]:
        """Predicted largest error of an entry, of each result."""
        return tuple(one.error for one in self.promised)

    @property
    def limbs(self) -> int:
        """Of the result that the most are spent on."""
        return min(self.left)

    @property
    def magnitude_bits(self) -> float:
        """log2(scale · bound) of the result; of one with more limbs than another, what these do not hold."""
        return max(
            math.log2(value.first().scale * value.first().bound)
            - (limbs - self.limbs) / self.level_limbs * self.scale_bits
            for value, limbs in zip(self.results, self.left, strict=True)
        )

    @property
    def rounding_errors(self) -> tuple[float, ...]:
        """The part of each result's error that comes from clear factors that are rounded."""
        return tuple(
            float(
                max(
                    handle.policy.row_error(handle.scale, handle.bias, 0.0)
                    if hasattr(handle, "bias")
                    else 0.0
                    for handle in value.handles
                )
            )
            for value in self.results
        )

    def outputs(self, ring: Ring) -> tuple[Output, ...]:
        """How the results come back."""
        found = []
        for value in self.results:
            first = value.first()
            components = getattr(first, "components", 2)
            scale = first.scale if value.unit == 1.0 else first.scale / value.unit
            n = value.form.degree(ring)
            found.append(Output(value.shape, value.form, first.limbs, components, scale, n))
        return tuple(found)

    def traffic(self, ring: Ring) -> Traffic:
        """The traffic of the run."""
        back = [one.form.download(one.limbs, one.components, one.n) for one in self.outputs(ring)]
        return sum((*(sent(one, ring) for one in self.inputs), *back[1:]), back[0])

    def held_bytes(self, ring: Ring) -> int:
        """Bytes of the operands as they came, which stay until the end."""
        return sum(_resident(one, ring)[0] for one in self.inputs)


def sent(one: Input, ring: Ring) -> Traffic:
    """Return the traffic of one use of an operand, with the client's work for it."""
    words = one.basis.words(ring)
    found = one.form.upload(words, one.form.degree(ring), one.public_key)
    if not one.basis.of_operands:
        return found
    # Residues are made by themselves, two at a time by transforms, and drawn by two words for each of theirs.
    moduli = len(one.basis.moduli(ring))
    return replace(
        found,
        transforms=found.transforms // words * -(-moduli // BYTE_BATCH),
        encrypted_words=found.encrypted_words // words * moduli * RESIDUE_WORDS,
        seeded_words=2 * found.seeded_words,
    )


def _resident(one: Input, ring: Ring) -> tuple[int, int]:
    return one.form.resident_bytes(one.basis.words(ring), one.form.degree(ring), one.public_key)


class _LimitedSymbolic(Symbolic):
    """Stops where the transforms alone, those of all blocks of the loops that are being counted, exceed a limit."""

    max_ntt_limbs = math.inf
    _before = 0  # transforms that were counted before the block that is now

    def repeated(self, number: int, work: Callable[[], None]) -> None:
        before, self._before = self._before, self._transforms
        super().repeated(number, work)
        self._before = before
        self._check_limit()

    def _transform_data(
        self,
        sources: Sequence[Any],
        terms: Sequence[Term],
        outputs: int,
        limbs: int,
        rescale: bool,
        order: str | None,
    ) -> list[Any]:
        self._check_limit()
        return super()._transform_data(sources, terms, outputs, limbs, rescale, order)

    def _plain_product_data(
        self, plains: Sequence[Plain], scale: float, cts: Sequence[Any], accumulator: Any, limbs: int
    ) -> Any:
        self._check_limit()
        return super()._plain_product_data(plains, scale, cts, accumulator, limbs)

    @property
    def _transforms(self) -> int:
        return self.counts.ntt_limbs + self.counts.encode_ntt_limbs

    def _check_limit(self) -> None:
        done = self._transforms
        if done + (self._repeats - 1) * (done - self._before) > self.max_ntt_limbs:
            raise TooSlowError("the program transforms more limbs than it may", expected=self.max_ntt_limbs)


def counted_evaluators(
    ring: Ring,
    slots: Callable[[], Symbolic] | None = None,
    policy: KeyPolicy = "direct",
    mask_budget: int = MASK_BYTES,
) -> Evaluators:
    """Return counting evaluators, on a ring and on its ring of rows.

    Args:
        slots: makes that of slots; by default as those of the others, with this budget of masks.
    """
    rows = ring.family.rows
    return Evaluators(
        slots or (lambda: Symbolic(ring, key_policy=policy, mask_budget=mask_budget)),
        lambda: RowsSymbolic(rows, key_policy=policy),
        None if rows is ring else lambda: Symbolic(rows, key_policy=policy),
        lambda secrets: SharedSymbolic(ring, secrets, key_policy=policy),
    )


def listing_of(
    ring: Ring, expression: Expression, decisions: Decisions, mask_budget: int = MASK_BYTES
) -> Listing:
    """The instructions of a program; arguments as of `dry_run`.

    Raises:
        LevelError, ShapeError: as `dry_run` raises them.
    """
    listing = Listing()
    evaluators = counted_evaluators(ring, policy=decisions.key_policy, mask_budget=mask_budget)
    Executor(evaluators, expression, decisions, SymbolicInputs(), listing=listing).results()
    return listing


def dry_run(
    ring: Ring,
    expression: Expression,
    decisions: Decisions,
    *,
    mask_budget: int = MASK_BYTES,
    max_ntt_limbs: float = math.inf,
    choose: MethodChooser | None = None,
    observed: bool = False,
    progress: Progress | None = None,
    promise: Promise = BOUNDS,
) -> DryRun:
    """Run a program symbolically: count operations, memory and errors without data.

    Args:
        promise: whom its errors are predicted for.
        mask_budget: encoded masks and constants of so many bytes are kept in memory.
        choose: asked for decisions that are missing.
        observed: nodes are counted one by one.
        progress: called as that of `Executor`; what is counted once for many blocks is told at the end.

    Raises:
        TooSlowError: it transforms more than `max_ntt_limbs` limbs.
        LevelError: the program spends more limbs than the ring has, or the modulus does not hold it.
        Others of `feasible.INFEASIBLE`: a block or a layer does not fit its method, and so on.
    """
    policy = decisions.key_policy
    if decisions.form == TENSORS and not is_refreshed(expression):
        _check_levels(ring, expression)

    def slots() -> Symbolic:
        counter = _LimitedSymbolic(ring, key_policy=policy, mask_budget=mask_budget)
        counter.max_ntt_limbs = max_ntt_limbs
        return counter

    evaluators = counted_evaluators(ring, slots, policy)
    inputs = SymbolicInputs()
    if decisions.stepwise != promise.stepwise:
        decisions = replace(decisions, stepwise=promise.stepwise)
    executor = Executor(
        *(evaluators, expression, decisions, inputs, progress), choose=choose, observed=observed
    )
    results = executor.results()
    wanted = tuple(inputs.wanted.values())
    expanded = [_resident(one, ring)[1] for one in wanted]
    made, streamed_bytes = sum(expanded), 0
    large = [one for one, nbytes in zip(wanted, expanded, strict=True) if nbytes > KEPT_BYTES]
    if large:
        streamed_bytes = sum(_resident(one, ring)[1] for one in large if one.key in executor.streamed)
        made -= streamed_bytes
    sizes = [2 * one.basis.words(ring) * ring.n * WORD_BYTES for one in large if one.key in executor.taken]
    if sizes:  # some ciphertexts of both sides of a product at a time
        made += 2 * max(streaming_batch(each) * each for each in sizes)
    return DryRun(
        inputs=wanted,
        results=tuple(results),
        left=tuple(executor.left),
        counts=evaluators.counts,
        keys=evaluators.request,
        working_bytes=evaluators.peak_bytes + made,
        choices={
            number: choice for number, choice in executor.choices.items() if number in executor.read_choices
        },
        nodes=tuple(executor.figures),
        fixed_factors=tuple(executor.fixed_factors),
        scale_bits=ring.scale_bits,
        expression=expression,
        promise=promise,
        step_errors=executor.step_errors,
        read_forms=frozenset(executor.read_forms),
        read_conversions=frozenset(executor.read_conversions),
        together=executor.together,
        streamed_bytes=streamed_bytes,
        level_limbs=limbs_of_level(ring),
    )


def _check_levels(ring: Ring, expression: Expression) -> None:
    """Raise LevelError where a network spends more levels than a ring has, without a look at its layers."""
    needed = least_levels(expression) * limbs_of_level(ring) + 1
    if len(ring.q) < needed:
        raise LevelError(
            "The network spends more levels than the ring has.",
            expected=f"at least {needed} limbs",
            got=len(ring.q),
        )
