"""What every product algorithm offers: layouts, preparation of one block, product of two, finish."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from cipherblas.common.errors import FitError, ShapeError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.movements import Movements
from cipherblas.evaluators.slots.values import Ct, Plain
from cipherblas.forms.layouts import Layout

# Partial results of one output block. Not relinearised; owned by the algorithm; updated in place.
Accumulator = list[Ct]
Operand = Sequence["Ct | Plain"]
AnyMap = TypeVar("AnyMap", bound=Callable[..., Any])


def made_once(method: AnyMap) -> AnyMap:
    """A map of an algorithm, made once for each of its numbers: planning counts one algorithm on many rings."""
    name = method.__name__

    @functools.wraps(method)
    def found(self: Algorithm, *numbers: Any) -> Any:
        key = (name, *numbers)
        if key not in self._maps:
            self._maps[key] = method(self, *numbers)
        return self._maps[key]

    return found  # type: ignore[return-value]


class Algorithm(ABC):
    """An m×k · k×n block product in slots, for one pair of blocks that fit into the slots.

    A product of block grids prepares every block once (`prepare_left`, `prepare_right`), accumulates the block
    products that belong to one output block (`multiply`), then closes each output block (`finish`). A clear
    operand is a list of `Plain`s and runs through the same code.

    Attributes:
        name: for `algorithm=` and files.
        title: for people.
        source: citation.
        summary: when to use it, one line.
        baseline: here to be measured against; planned only when it is asked for by name.
        blocks_inner: whether long inner dimensions are cut into blocks; False where any length fits.
        streamed: whether a product of two secret blocks has each ciphertext of its left, or of its right one, in one
            term of a sum of products, as it comes and nowhere else.
        min_levels: rescales inside (the last product's rescale is left to whoever needs it); of the class, the least
            over all options; of an object, exactly.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    summary: ClassVar[str]
    baseline: ClassVar[bool] = False
    blocks_inner: ClassVar[bool] = True
    min_levels: int = 0
    streamed: tuple[bool, bool] = (False, False)

    left_layout: Layout
    right_layout: Layout
    out_layout: Layout

    def __init__(self, m: int, k: int, n: int, slots: int) -> None:
        if min(m, k, n) < 1:
            raise ShapeError(
                "A product of blocks needs positive dimensions.",
                expected="positive dimensions",
                got=f"{m}×{k} · {k}×{n}",
            )
        if slots < 1 or slots & (slots - 1):
            raise ShapeError(
                "The number of slots must be a power of two.", expected="a power of two", got=slots
            )
        self.m, self.k, self.n, self.slots = m, k, n, slots
        self._maps: dict[Hashable, Any] = {}

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The options that rebuild this object: `type(self)(m, k, n, slots, **options)`."""

    @abstractmethod
    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Everything that depends on one left block alone."""

    @abstractmethod
    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Everything that depends on one right block alone."""

    @abstractmethod
    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """Add one block product to an accumulator (None: a new one)."""

    @abstractmethod
    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise and do what is left: the output block in `out_layout`."""

    def multiply_once(
        self, ev: Evaluator, left: Operand, right: Operand, accumulator: Accumulator | None
    ) -> Accumulator:
        """`multiply` of two blocks that no other product uses: need not hold all that is prepared."""
        return self.multiply(ev, self.prepare_left(ev, left), self.prepare_right(ev, right), accumulator)

    def movements(self) -> tuple[Movements, Movements] | None:
        """How a left and a right block are prepared, where that is in pieces that ranks can share."""
        return None

    @classmethod
    @abstractmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """Option sets worth comparing for a block of this size; nothing when it does not fit."""

    @classmethod
    def worthwhile(cls, m: int, k: int, n: int) -> bool:
        """Whether this may be the fastest way for a block of this size; else it is planned when it is asked for."""
        return True

    @classmethod
    def fits(cls, m: int, k: int, n: int, slots: int, **options: Any) -> bool:
        """Whether a block of this size fits into the slots."""
        try:
            cls(m, k, n, slots, **options)
        except FitError:
            return False
        return True

    def _refuse(self, needed: Any, what: str = "slots") -> FitError:
        return FitError(
            f"A block product {self.m}×{self.k} · {self.k}×{self.n} by {self.name} does not fit.",
            expected=f"at most {self.slots} {what}",
            got=needed,
        )

    def __repr__(self) -> str:
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        return f"{type(self).__name__}({self.m}, {self.k}, {self.n}, slots={self.slots}{options})"


def accumulate(
    ev: Evaluator, accumulator: Accumulator | None, position: int, lefts: Sequence[Any], rights: Sequence[Any]
) -> Ct:
    """Add Σ left ⊙ right to one ciphertext of an accumulator."""
    return ev.multiply_sum(lefts, rights, None if accumulator is None else accumulator[position])


def split_path(count: int, unit: int, baby_steps: int | None) -> int | tuple[int, int]:
    """The rotation by count·unit, as (giant, baby) parts when baby steps are given."""
    if baby_steps is None:
        return count * unit
    giant = count // baby_steps * baby_steps
    return (giant * unit, (count - giant) * unit)
