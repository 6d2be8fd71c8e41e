"""What a kind of product by rows says: which products it is for, what it asks of factors, how it computes, which rings
carry it, and what it takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeAlias, TypeVar

from cipherblas.common.errors import ParameterError
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.lang.nodes import Expression
from cipherblas.methods.products import GEMM
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.counts import Counts
from cipherblas.runtime.executor import Computed
from cipherblas.runtime.inputs import Inputs
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.row_pieces import RowPieces

Size = TypeVar("Size", covariant=True)


Factor: TypeAlias = Callable[[Inputs], ClearFactor]
"""The integers of a clear factor, of the inputs of a run; all else of it is the same in every run."""


@dataclass(frozen=True)
class FactorRequest:
    """The encodings that a product requests of its factors.

    Attributes:
        requirements: encodings of secret factors, by side: 0 for the left one, 1 for the right one. Only one of two
            secret factors where one encryption serves as both.
        clear: the integers of the clear factor; None where both are secret.
        in_bytes: these integers are bytes, and so the rows of the product are those of bytes.
    """

    requirements: Mapping[int, RequiredRows]
    clear: Factor | None = None
    in_bytes: bool = False

    @property
    def factor(self) -> Factor:
        """The integers of the clear factor of a product that has one."""
        assert self.clear is not None
        return self.clear

    def before_switch(self, run: RowPieces, basis: Basis) -> FactorRequest:
        """The same in another basis, from which the product is switched."""
        policy = run.ev.policy
        requirements = {
            side: required._replace(scale=policy.before_switch(required.scale, basis, run.basis), basis=basis)
            for side, required in self.requirements.items()
        }
        return replace(self, requirements=requirements)


class RingSearch(Protocol[Size]):
    """The planner's side of the search for rings of a program with products of one kind.

    Attributes:
        switched: the program switches keys.
    """

    @property
    def switched(self) -> bool: ...

    def without_keys(self) -> Sequence[Size]:
        """The smallest modulus that reaches the precision, whole and cut into smaller primes."""

    def with_keys(self) -> Sequence[Size]:
        """The smallest modulus; the smallest ones with primes by which products are divided before keys are switched;
        the smallest beside operands with moduli of their own."""

    def of_operands(self) -> Sequence[Size]:
        """The smallest modulus beside operands with moduli of their own, as many as their messages leave words."""


class RowProduct(ABC):
    """One kind of product by rows. It has no state: what it keeps for a run it leaves in `RowPieces.kept`.

    Attributes:
        name: in the table of kinds.
        method: the name of the method with which plans choose it.
        in_pieces: results come in pieces of N columns, whatever operands could have.
        explained: a line of `explain()` about programs with products of this kind.
    """

    name: ClassVar[str]
    method: ClassVar[str] = GEMM
    in_pieces: ClassVar[bool] = False
    explained: ClassVar[tuple[str, str] | None] = None

    @classmethod
    @abstractmethod
    def applies(cls, product: Expression, program: Expression) -> bool:
        """Whether a product of a program can be one of this kind."""

    @abstractmethod
    def request(
        self, run: RowPieces, product: Expression, required: RequiredRows, bounds: tuple[float, float]
    ) -> FactorRequest:
        """Return the encodings that a product requests of its factors, for a required encoding of its result.

        Args:
            bounds: of both factors, as they are multiplied.
        """

    @abstractmethod
    def compute(
        self, run: RowPieces, product: Expression, required: RequiredRows, request: FactorRequest
    ) -> Computed:
        """The product, of factors as they were asked for."""

    @abstractmethod
    def counts(self, product: Expression, n: int, limbs: int) -> Counts:
        """The multiply-adds of a product of so many limbs in a ring of degree n."""

    def orientation(self, product: Expression) -> bool | None:
        """How a product comes by itself (by columns?), by its clear factor; None: in either way."""
        left, right = product.children
        return None if left.secret and right.secret else left.secret

    @abstractmethod
    def scale(self, run: RowPieces, product: Expression, known: Sequence[float]) -> float:
        """The scale, about, that a product comes in because its factors have these of their own."""

    def sizes(self, search: RingSearch[Size]) -> Sequence[Size]:
        """The rings that may carry a program with products of this kind, the usual one first."""
        return search.with_keys() if search.switched else search.without_keys()


class Variant(RowProduct):
    """A kind that changes how another one is computed, to which it leaves what it does not change. A plan chooses it by
    an option of its name.

    Attributes:
        alone: the planner does not combine it with other variants.
    """

    alone: ClassVar[bool] = False

    def __init__(self, beneath: RowProduct) -> None:
        self.beneath = beneath

    @classmethod
    def considered(cls, program: Expression, rounded_alone: bool) -> bool:
        """Whether the planner compares it, where it applies.

        Args:
            rounded_alone: of exact integers no smaller errors are asked than rounding takes away.
        """
        return True

    @classmethod
    def taken(cls, run: RowPieces, product: Expression) -> bool:
        """Whether a product is one of this kind where a plan chooses it.

        Raises:
            ParameterError: it can be none, and a plan should not have said so.
        """
        return run.run.choice(product).method == cls.method and cls.applies(product, run.run.node)

    def request(
        self, run: RowPieces, product: Expression, required: RequiredRows, bounds: tuple[float, float]
    ) -> FactorRequest:
        return self.beneath.request(run, product, required, bounds)

    def compute(
        self, run: RowPieces, product: Expression, required: RequiredRows, request: FactorRequest
    ) -> Computed:
        return self.beneath.compute(run, product, required, request)

    def counts(self, product: Expression, n: int, limbs: int) -> Counts:
        return self.beneath.counts(product, n, limbs)

    def orientation(self, product: Expression) -> bool | None:
        return self.beneath.orientation(product)

    def scale(self, run: RowPieces, product: Expression, known: Sequence[float]) -> float:
        return self.beneath.scale(run, product, known)

    def sizes(self, search: RingSearch[Size]) -> Sequence[Size]:
        return self.beneath.sizes(search)


def refuse(product: Expression, what: str, expected: str) -> ParameterError:
    """Return the error for a plan that chooses a kind for an unsuited product."""
    return ParameterError(what, expected=expected, got=product.title)
