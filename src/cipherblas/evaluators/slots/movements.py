"""How an operand of a block product is prepared: a transform, then others of its result, for one term each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Plain, Transform


class Movements(NamedTuple):
    """How an operand's block is prepared, in pieces that ranks share: what comes before, RotateAlign, ShiftByStep.

    Attributes:
        filled: what it is aligned from.
        align: RotateAlign, one masked transform.
        aligned: of what that gives the ciphertext that is shifted.
        first: of that one the first term's factor.
        shift: the transform to the factor of each further term.
        terms: of the sum of products, one factor each.
        baby_steps: of RotateAlign; None: every rotation has a key of its own, and ranks can share them.
    """

    filled: Callable[[Evaluator, Sequence[Ct | Plain]], Any]
    align: Transform
    aligned: Callable[[Evaluator, Any], Any]
    first: Callable[[Evaluator, Any], Any]
    shift: Callable[[int], Transform]
    terms: int
    baby_steps: int | None = None

    def prepared(self, ev: Evaluator, cts: Sequence[Ct | Plain]) -> list[Any]:
        """The factors of all terms."""
        with ev.stage("aligned"):
            options: dict[str, Any] = {"baby_steps": self.baby_steps, "double": self.baby_steps is not None}
            whole = ev.linear_transform(self.filled(ev, cts), self.align, **options)
            aligned = self.aligned(ev, whole)
        with ev.stage("shifted"):
            shifts = [self.shift(r) for r in range(1, self.terms)]
            return [self.first(ev, aligned), *ev.linear_transforms(aligned, shifts)]
