"""Running a program without data: what the client sends, counts, keys, memory and error, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cipherblas.common.errors import CipherblasError
from cipherblas.common.limits import MASK_BYTES
from cipherblas.crypto.keys import KeyRequest
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.interface import ClearFactor
from cipherblas.evaluators.rows.symbolic import RowsSymbolic
from cipherblas.evaluators.slots.bookkeeping import T, Term
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Plain
from cipherblas.lang.nodes import Expression
from cipherblas.planner.truncation import truncation_error
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import Ring
from cipherblas.rlwe.traffic import Traffic
from cipherblas.runtime.executor import Choose, Executor, NodeFigures
from cipherblas.runtime.inputs import SymbolicInputs
from cipherblas.runtime.values import Choice, Decisions, Input, Output, Value


@dataclass(frozen=True)
class DryRun:
    """What one symbolic run of a program found.

    Attributes:
        inputs: what the client must send, in the order of first use.
        result: its handles carry limbs, scale, bound and noise.
        counts: operations of the whole run.
        keys: switching keys that the run asks for.
        working_bytes: peak of values, encoded plaintexts and workspaces that are alive together, what is kept for later
            runs included, and all operands, as far as the server makes them of what comes: they stay until the end.
        choices: how each node was computed of which that had to be decided.
        placed, crossed: numbers of the nodes whose form was asked for, and of those that were converted.
        nodes: what each took, where that was asked for.
        fixed_factors: the clear factors that have keys of their own.
        truncation: what terms that are left out add to the error.
    """

    inputs: tuple[Input, ...]
    result: Value
    counts: Counts
    keys: KeyRequest
    working_bytes: int
    choices: Mapping[int, Choice]
    nodes: tuple[NodeFigures, ...]
    fixed_factors: tuple[ClearFactor, ...]
    truncation: float
    placed: frozenset[int] = frozenset()
    crossed: frozenset[int] = frozenset()

    @property
    def error(self) -> float:
        """Predicted largest error of an entry of the result."""
        return self.result.error() + self.truncation

    @property
    def limbs(self) -> int:
        """Of the result."""
        return int(self.result.first().limbs)

    @property
    def magnitude_bits(self) -> float:
        """log2(scale · bound) of the result."""
        first = self.result.first()
        return math.log2(first.scale * first.bound)

    @property
    def rounding_error(self) -> float:
        """The part of the error that comes from clear factors that are rounded."""
        return float(max(getattr(handle, "bias", 0.0) / handle.scale for handle in self.result.handles))

    def output(self, n: int) -> Output:
        """How the result comes back."""
        value, first = self.result, self.result.first()
        components = getattr(first, "components", 2)
        return Output(value.shape, value.form, first.limbs, components, first.scale / value.unit, n)

    def traffic(self, n: int) -> Traffic:
        """What is sent, and what that costs."""
        output = self.output(n)
        back = output.form.download(output.limbs, output.components, n)
        return sum((sent(one, n) for one in self.inputs), back)

    def held_bytes(self, n: int) -> int:
        """Bytes of the operands as they came, which stay until the end."""
        return sum(one.form.resident_bytes(one.limbs, n, one.public_key)[0] for one in self.inputs)


def sent(one: Input, n: int) -> Traffic:
    """What a client sends for one use of an operand, and does for that."""
    return one.form.upload(one.limbs, n, one.public_key)


class TooSlowError(CipherblasError):
    """A candidate is not worth counting to its end."""


class _LimitedSymbolic(Symbolic):
    """Stops where the transforms alone, those of all blocks of the loops that are being counted, exceed a limit."""

    max_ntt_limbs = math.inf
    _before = 0  # transforms that were counted before the block that is now

    def _counted(self, number: int, work: Callable[[], T]) -> T:
        before, self._before = self._before, self._transforms
        result = super()._counted(number, work)
        self._before = before
        self._check_limit()
        return result

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


def dry_run(
    ring: Ring,
    expression: Expression,
    decisions: Decisions,
    *,
    mask_budget: int = MASK_BYTES,
    max_ntt_limbs: float = math.inf,
    choose: Choose | None = None,
    observed: bool = False,
) -> DryRun:
    """Run a program symbolically.

    Args:
        mask_budget: encoded masks and constants of so many bytes are kept in memory.
        choose: asked for decisions that are missing.
        observed: nodes are counted one by one.

    Raises:
        TooSlowError: it transforms more than `max_ntt_limbs` limbs.
        LevelError: the program spends more limbs than the ring has, or the modulus does not hold it.
        ShapeError: a block or a layer does not fit its method.
    """
    policy = decisions.key_policy

    def slots() -> Symbolic:
        counter = _LimitedSymbolic(ring, key_policy=policy, mask_budget=mask_budget)
        counter.max_ntt_limbs = max_ntt_limbs
        return counter

    evaluators = Evaluators(slots, lambda: RowsSymbolic(ring, key_policy=policy))
    inputs = SymbolicInputs()
    executor = Executor(evaluators, expression, decisions, inputs, choose=choose, observed=observed)
    result = executor.run()
    wanted = tuple(inputs.wanted.values())
    made = sum(one.form.resident_bytes(one.limbs, ring.n, one.public_key)[1] for one in wanted)
    return DryRun(
        inputs=wanted,
        result=result,
        counts=evaluators.counts,
        keys=evaluators.request,
        working_bytes=evaluators.peak_bytes + made,
        choices={number: choice for number, choice in executor.choices.items() if number in executor.asked},
        nodes=tuple(executor.figures),
        fixed_factors=tuple(executor.fixed_factors),
        truncation=truncation_error(expression),
        placed=frozenset(executor.placed),
        crossed=frozenset(executor.crossed),
    )
