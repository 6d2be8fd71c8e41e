"""FAME's product as a list of operations: an interpreter of the same description as all others, which writes down what
it is told to do."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cipherblas.crypto.keys import KeyRequest
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct, Plain, Transform
from cipherblas.methods.matmul.baselines.fame_published import FamePublished
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import Step
from cipherblas.rlwe.rings import Ring, RingShape
from cipherblas_bench.sets import FameSet, Shape
from cipherblas_hardware.model.configuration import WORD_BITS

SCALE_BITS = WORD_BITS - 5  # two limbs have room for a product of two scales


@dataclass(frozen=True)
class Operation:
    """One step of Algorithm 2.

    Attributes:
        kind: a linear transform (HLT), or a product with its relinearisation, rescale and addition (Mult, Add).
        limbs: of its input, ℓ + 1.
        counts: what the bookkeeping of all evaluators counts for it alone.
    """

    kind: Literal["transform", "product"]
    limbs: int
    counts: Counts


@dataclass(frozen=True)
class Program:
    """Algorithm 2 for one shape.

    Attributes:
        shape: m, k, n.
        ring: N, limbs, special limbs, limbs of a digit.
        left, right: σ and all ε^i; τ and all ω^i.
        products: one per i.
        counts: of everything.
        request: the keys that it takes.
    """

    shape: Shape
    ring: Ring
    left: tuple[Operation, ...]
    right: tuple[Operation, ...]
    products: tuple[Operation, ...]
    counts: Counts
    request: KeyRequest


class AsPrinted(Evaluator):
    """An evaluator that does operations one by one, as Algorithms 2 and 3 print them: to be mixed into another one.

    Every transform is hoisted by itself, and every product is relinearised and rescaled before it is added, where our
    evaluators hoist several transforms of a ciphertext at once and relinearise a sum.
    """

    relinearise_once = False  # sums are relinearised here, too

    def _recorded(self, kind: Literal["transform", "product"], limbs: int, work: Callable[[], Ct]) -> Ct:
        """The result of one operation."""
        return work()

    def check_room(self, limbs: int, scale: float, bound: float, noise: float) -> None:
        """Set A as printed has more noise than room; who decrypts sees what comes out."""

    def linear_transform(
        self,
        x: Any,
        diagonals: Transform | Mapping[Step, Plain | None],
        *,
        baby_steps: int | None = None,
        order: str | None = None,
        most: float = math.inf,
        double: bool = False,
    ) -> Any:
        """One transform; there are no baby steps in Algorithm 3."""
        return next(self.linear_transforms(x, [diagonals], order=order))

    def linear_transforms(
        self, x: Any, maps: Sequence[Transform | Mapping[Step, Plain | None]], **options: Any
    ) -> Iterator[Any]:
        """Transforms, each by itself."""
        several = super().linear_transforms
        for one in maps:
            yield self._recorded("transform", x.limbs, several(x, [one], **options).__next__)

    def multiply_sum(
        self,
        lefts: Sequence[Any],
        rights: Sequence[Any],
        accumulator: Ct | None = None,
        *,
        dependent: bool = False,
    ) -> Ct:
        """Products, each relinearised and rescaled before it is added; with `relinearise_once` only the last sum is."""
        for x, y in zip(lefts, rights, strict=True):
            limbs = min(x.limbs, y.limbs)
            accumulator = self._recorded("product", limbs, functools.partial(self._added, x, y, accumulator))
        assert accumulator is not None
        return accumulator

    def _added(self, x: Ct, y: Ct, accumulator: Ct | None) -> Ct:
        if self.relinearise_once:
            return super().multiply_sum([x], [y], accumulator)
        product = self.rescale(super().relinearise(super().multiply_sum([x], [y])))
        return product if accumulator is None else self.add(accumulator, product)

    def relinearise(self, ct: Ct) -> Ct:
        """The end of a sum whose products are not relinearised; else nothing is left to do."""
        if ct.components == 2:
            return ct
        return self._recorded(
            "product", ct.limbs, lambda: self.rescale(super(AsPrinted, self).relinearise(ct))
        )


class Recorder(AsPrinted, Symbolic):
    """Writes down operations as they are printed, with what is counted for each."""

    def __init__(self, ring: Ring, *, relinearise_once: bool = False) -> None:
        super().__init__(ring)
        self.relinearise_once = relinearise_once
        self._operations: list[Operation] = []

    def taken(self) -> tuple[Operation, ...]:
        """The operations since the last call."""
        operations, self._operations = self._operations, []
        return tuple(operations)

    def _recorded(self, kind: Literal["transform", "product"], limbs: int, work: Callable[[], Ct]) -> Ct:
        before = self.counts.copy()
        result = work()
        self._operations.append(Operation(kind, limbs, self.counts - before))
        return result


def published_ring(member: FameSet) -> RingShape:
    """A parameter set as Table II prints it: L + 1 and k limbs of 54 bits, β digits.

    Set A has one digit of five limbs and one special limb there. That decrypts nothing, since P must not be smaller
    than a digit; it is what the published times are of.
    """
    alpha = -(-member.limbs // member.digits)
    return RingShape.from_bits(
        member.n, [WORD_BITS] * member.limbs, [WORD_BITS] * member.special_limbs, alpha, SCALE_BITS
    )


def published_program(shape: Shape, ring: Ring, *, relinearise_once: bool = False) -> Program:
    """The operations of `fame-published` for m×k · k×n.

    Args:
        shape: m, k, n.
        ring: of the ciphertexts.
        relinearise_once: the sum of products, as our evaluators do, in place of every product, as printed.

    Raises:
        ShapeError: the matrices do not fit the slots. LevelError: the ring has too few limbs.
    """
    algorithm = FamePublished(*shape, ring.n // 2)
    recorder = Recorder(ring, relinearise_once=relinearise_once)
    lefts = algorithm.prepare_left(recorder, [recorder.fresh(None, bound=1.0)])
    left = recorder.taken()
    rights = algorithm.prepare_right(recorder, [recorder.fresh(None, bound=1.0)])
    right = recorder.taken()
    algorithm.finish(recorder, algorithm.multiply(recorder, lefts, rights, None))
    return Program(shape, ring, left, right, recorder.taken(), recorder.counts, recorder.request)
