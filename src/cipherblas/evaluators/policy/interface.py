"""The rules of plaintexts, as evaluators ask for them: scales, errors, the room of a modulus, numbers.

An evaluator holds a policy and passes scales and errors on; only the policy calculates with a scale, and knows what
errors a step adds. So evaluators are written once for every kind of plaintext, and a further kind is one more member.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import LevelError, UnsuitedError
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.noise import CoefficientNoise, SlotErrors, Spread
from cipherblas.rlwe.rings import Ring, limbs_of_level

Scale: TypeAlias = Any  # of a member's own kind; hashable
Errors: TypeAlias = SlotErrors  # the same, with the methods of `SlotErrors`
Place: TypeAlias = tuple[int, Scale]  # limbs and scale of a ciphertext
Real = TypeVar("Real", float, NDArray[np.float64])
Found: TypeAlias = tuple[Scale, float, Errors]  # scale, bound and errors of a sum

MAX_SMALL_INTEGER = 1 << 20  # of factors that multiply a ciphertext and leave its scale


class Handle(Protocol):
    """The properties of a ciphertext that rules depend on."""

    @property
    def limbs(self) -> int: ...
    @property
    def scale(self) -> Scale: ...
    @property
    def bound(self) -> float: ...
    @property
    def errors(self) -> Errors: ...


class RowsHandle(Protocol):
    """The properties of an encrypted matrix that rules depend on; see `evaluators.rows.values.Rows`."""

    shape: tuple[int, int]
    scale: Scale
    bound: float
    noise: float
    bias: float
    independent: bool
    norm: float

    @property
    def total(self) -> float: ...
    @property
    def together(self) -> Spread: ...
    def weighed_by(self, other: Any) -> float: ...


class RowErrors(NamedTuple):
    """Errors of rows, in units of the message: deviation, largest systematic one, and what is known of all together."""

    noise: float
    bias: float
    spread: Spread

    def times(self, factor: float) -> RowErrors:
        """Of a multiple."""
        return RowErrors(self.noise * factor, self.bias * factor, self.spread.times(factor))


class Match(NamedTuple):
    """A way to another scale: at so many limbs times an integer, which gives a scale; a rescale follows where these are
    more limbs than wanted."""

    limbs: int
    factor: int
    scale: Scale


@dataclass(frozen=True)
class Numbers:
    """The data of a sum of ciphertexts times numbers.

    Attributes:
        factors: the integer next to each number at the scale of the sum.
        missed: by which it differs, at most.
        constant: what is added, or 0.
        bound, errors: of the sum.
    """

    factors: Sequence[int]
    missed: Sequence[float]
    constant: float
    bound: float
    errors: Errors


class PlaintextPolicy(ABC):
    """The rules of one kind of plaintext in one ring.

    Attributes:
        usual: scale of fresh ciphertexts.
        product_factor: an integer that every product of two ciphertexts is multiplied by.
        errors_kind: the class of errors of ciphertexts of slots.
        approximate: plaintexts are real and complex numbers.
        mask_bits: by which the scale of a ciphertext grows before it meets masks; see `mask`.

    Args:
        level_limbs: limbs that a rescale drops; by default those of the ring.
    """

    usual: Scale
    mask_bits: int
    product_factor: int = 1
    errors_kind: type[SlotErrors] = SlotErrors
    approximate: bool = True

    def __init__(self, ring: Ring, level_limbs: int | None = None) -> None:
        self.ring = ring
        self.level_limbs = limbs_of_level(ring) if level_limbs is None else level_limbs
        self._sizes: dict[tuple[int, int], float] = {}

    def size(self, before: int, after: int) -> float:
        """The product of the limbs between two numbers of limbs: the divisor of what is rescaled from one to the
        other."""
        found = self._sizes.get((before, after))
        if found is None:
            found = self._sizes[before, after] = math.prod(map(float, self.ring.q[after:before]))
        return found

    def divisor(self, before: Basis, after: Basis) -> float:
        """The same between a basis and a smaller one.

        Raises:
            LevelError: no double holds it.
        """
        if before.of_operands:
            moduli = (before.moduli(self.ring), after.moduli(self.ring))
            above, below = (math.prod(map(float, some)) for some in moduli)
            return above / below
        found = self.size(before.limbs, after.limbs)
        if not math.isfinite(found):
            raise LevelError(
                "Rows are divided by too many limbs at once.",
                expected="limbs whose product is below 2^1024",
                got=f"{before.limbs - after.limbs} limbs",
            )
        return found

    def log_modulus(self, basis: Basis) -> float:
        """log2 of the product of all moduli."""
        return math.fsum(math.log2(q) for q in basis.moduli(self.ring))

    # ---- the algebra of scales ----

    @abstractmethod
    def product(self, x: Scale, y: Scale) -> Scale:
        """The scale of a product of two values."""

    @abstractmethod
    def divided(self, scale: Scale, before: int, after: int) -> Scale:
        """The scale after a rescale from one number of limbs to another."""

    @abstractmethod
    def switched(self, scale: Scale, before: Basis, after: Basis) -> Scale:
        """The scale after a switch of rows from one basis to a smaller one."""

    @abstractmethod
    def before_switch(self, scale: Scale, before: Basis, after: Basis) -> Scale:
        """The scale before a switch of rows that leaves one."""

    @abstractmethod
    def row_product(self, x: Scale, y: Scale) -> Scale:
        """The scale of a product of two matrices encrypted by rows, before what follows it divides it."""

    @abstractmethod
    def scaled(self, scale: Scale, factor: float) -> Scale:
        """The scale of a value that read as `factor` times itself has a scale."""

    @abstractmethod
    def folded(self, scale: Scale, factor: float, wanted: Scale | None) -> Scale:
        """The scale of rows that are read as a multiple, which was wanted at a scale, or at any."""

    @abstractmethod
    def in_scale(self, factor: float) -> tuple[float, float]:
        """The part of a factor of rows that a scale takes, and the unit of what is left."""

    @abstractmethod
    def row_factors(
        self, scale: Scale, bounds: tuple[float, float], unswitched: tuple[bool, bool]
    ) -> tuple[Scale, Scale]:
        """The scales of a left and a right matrix whose product is wanted at a scale.

        Args:
            unswitched: which of them are encryptions, or sums and multiples of such: no key was switched, and nothing
                was divided.
        """

    @abstractmethod
    def row_root(self, scale: Scale) -> Scale | None:
        """The scale of a matrix whose product with its transpose is wanted at a scale, where one encryption may be both
        factors."""

    @abstractmethod
    def widest(self, room: float, bound: float) -> Scale:
        """The scale of a result of entries up to a bound whose message may have so many bits."""

    @abstractmethod
    def readable(self, scale: Scale) -> bool:
        """Whether whoever decrypts rows of a scale finds their values."""

    @abstractmethod
    def absorbed(self, scale: Scale, factor: float) -> Scale:
        """The scale at which the same integers stand for `factor` times the value."""

    def absorbed_errors(self, errors: Errors, factor: float) -> Errors:
        """The errors of what is read so."""
        return errors.times(factor)

    @abstractmethod
    def mask(self, limbs: int) -> Scale:
        """The scale of clear vectors after whose product with a ciphertext, which was made `mask_bits` larger before,
        a rescale leaves that of the ciphertext."""

    def facts(self, scale: Scale) -> tuple[float, ...]:
        """Return the numbers that say a scale in a message to another rank."""
        return (float(scale),)

    def of_facts(self, facts: Sequence[float]) -> Scale:
        """Return the scale that such numbers say."""
        (scale,) = facts
        return scale

    def fresh(self, wanted: Scale) -> Scale:
        """The scale of a fresh ciphertext that is added to one of this scale."""
        return wanted

    @abstractmethod
    def masked(self, scale: Scale) -> Scale:
        """The scale that such a product and its rescale leave, of the larger one."""

    @abstractmethod
    def same(self, x: Scale, y: Scale) -> bool:
        """Whether two scales count as one."""

    @abstractmethod
    def check_same(self, got: Scale, expected: Scale) -> None:
        """Raise UnmatchedError unless two terms of a sum have one scale."""

    @abstractmethod
    def match(self, scale: Scale, wanted: Scale, limbs: int, most: int) -> Match:
        """The way of a ciphertext of `most` limbs to fewer limbs and a scale.

        Raises:
            LevelError: it takes more limbs. UnmatchedError: there is none.
        """

    @abstractmethod
    def meeting(self, x: Place, y: Place) -> Place:
        """The limbs and the scale at which two ciphertexts are added."""

    @abstractmethod
    def enlargement(self, scale: Scale, wanted: Scale) -> int:
        """The largest integer that a scale may be multiplied by to be at most the wanted one, or 1."""

    @abstractmethod
    def is_rescaled(self, scale: Scale) -> bool:
        """Whether products and transforms expect such a scale."""

    # ---- errors of ciphertexts of slots ----

    @abstractmethod
    def encrypted(self, scale: Scale, bound: float, public_key: bool = False) -> Errors:
        """The errors of a fresh ciphertext with slots up to a bound; the same object for like ciphertexts."""

    @abstractmethod
    def rounded(self, errors: Errors, before: Place, after: Place, components: int = 2) -> Errors:
        """The errors after a division, whose result is rounded."""

    @abstractmethod
    def key_switched(
        self, errors: Errors, before: Place, after: Place | None = None, number: int = 1
    ) -> Errors:
        """The errors after a sum of so many key switches, and the division behind it; None: not divided yet."""

    @abstractmethod
    def raised(self, errors: Errors, limbs: int, scale: Scale) -> Errors:
        """The errors after the two key switches by which a modulus is raised."""

    @abstractmethod
    def raised_anew(self, errors: Errors, scale: Scale) -> Errors:
        """The same where the second one is of coefficients below q_0, and is not divided yet."""

    @abstractmethod
    def products(self, lefts: Sequence[Handle], rights: Sequence[Handle]) -> Found:
        """Scale, bound and errors of a sum of products.

        Raises:
            UnmatchedError: they differ in scale.
        """

    @abstractmethod
    def equal_products(self, x: Handle, y: Handle, number: int) -> Found:
        """Scale, bound and errors of a sum of so many different terms with the properties of x ⊙ y."""

    @abstractmethod
    def weighted(self, cts: Sequence[Handle], weights: Sequence[float]) -> Errors:
        """The errors of Σ_t w_t·ct_t with |w_t| as given; a ciphertext that occurs several times has one error."""

    @abstractmethod
    def mapped(self, errors: Errors, rows: tuple[float, float], terms: int, encoded: bool = True) -> Errors:
        """The errors of a sum of so many ciphertexts, or rotations of one, times clear vectors.

        Args:
            errors: of each of them.
            rows: largest sum of absolute values, and root of a sum of squares, that a slot sees in the vectors.
            encoded: they are encoded; else every vector is 1.
        """

    @abstractmethod
    def times(self, x: Handle, factor: int, size: float, scale: Scale) -> Errors:
        """The errors of x times an integer that stands for a number of this size at the new scale."""

    # ---- errors of rows, in units of the message ----

    @abstractmethod
    def row_steps(self) -> CoefficientNoise:
        """Variances of what single steps add."""

    @abstractmethod
    def message_share(self, scale: Scale, bound: float) -> float:
        """The part of a fresh message, at most, that counts as an error."""

    @abstractmethod
    def row_product_errors(self, left: RowsHandle, right: RowsHandle, independent: bool) -> RowErrors:
        """The errors that both factors bring to their product, before what follows it divides it.

        Args:
            left: the transpose of the left factor.
            independent: the errors of one have nothing in common with those of the other.
        """

    @abstractmethod
    def row_error(self, scale: Scale, message: float, rounding: float) -> float:
        """The error in values of a decrypted matrix, of one in units of the message and of float64."""

    @abstractmethod
    def clear_bound(self, bound: float) -> float:
        """Bound on clear entries up to one as they are multiplied."""

    @abstractmethod
    def clear_entries(self, values: NDArray[Any]) -> NDArray[Any]:
        """Clear entries as they are multiplied, where their bound is more than `clear_bound`."""

    # ---- the room of a modulus ----

    @abstractmethod
    def magnitude(self, scale: Scale, value: Real) -> Real:
        """The message that stands for a number, or for each of an array, before it is rounded."""

    @abstractmethod
    def in_values(self, scale: Scale, message: Real) -> Real:
        """The number that a message stands for, or each of an array."""

    @abstractmethod
    def message_bound(self, bound: float, noise: float) -> float:
        """Bound on slots together with their errors, of this deviation."""

    @abstractmethod
    def fits(self, limbs: int, scale: Scale, bound: float, noise: float) -> bool:
        """Whether so many limbs have room for slots up to a bound, with errors of this deviation."""

    @abstractmethod
    def check_room(self, limbs: int, scale: Scale, bound: float, noise: float) -> None:
        """Raise LevelError where they have not."""

    @abstractmethod
    def check_rows(self, basis: Basis, scale: Scale, bound: float, noise: float, bias: float) -> None:
        """Raise LevelError where encrypted rows do not fit a modulus, with errors in units of the message."""

    # ---- clear vectors and numbers ----

    @abstractmethod
    def clear_scale(self, bound: float, scale: Scale, total: Scale | None) -> Scale:
        """The scale of clear vectors that multiply ciphertexts of a scale, whose products are added to a total."""

    @abstractmethod
    def addend(self, scale: Scale, bound: float) -> tuple[Scale, int]:
        """The scale at which a clear vector is encoded, and the integer that it is multiplied by then, to be added."""

    @abstractmethod
    def addend_error(self, scale: Scale, bound: float) -> float:
        """The error of a clear vector that is encoded at that scale, to be added."""

    @abstractmethod
    def check_encoded(self, scale: Scale, bounds: Iterable[float]) -> None:
        """Raise UnmatchedError where clear vectors cannot be encoded at their scale."""

    @abstractmethod
    def encoding_error(self, scale: Scale, bound: float, norm: float, largest: float) -> float:
        """The error that the encoding of clear vectors makes in a sum, up to `largest`, of what they multiply.

        Args:
            bound: of that.
            norm: `rounding_norm` of the vectors.
        """

    @abstractmethod
    def integer(self, value: float) -> int | None:
        """The integer that multiplies a ciphertext in the place of a number; None where the scale absorbs that."""

    @abstractmethod
    def numbers(
        self, cts: Sequence[Handle], values: Sequence[float], scale: Scale, constant: float
    ) -> Numbers:
        """The integers that stand for numbers in a sum of ciphertexts times these, at a scale."""

    @abstractmethod
    def constant(self, value: float, scale: Scale, limbs: int) -> int:
        """The integer that stands for a number at a scale, to be added."""

    @abstractmethod
    def residues(self, values: NDArray[np.float64], scale: Scale, limbs: int) -> NDArray[np.uint64]:
        """limbs × … residues of the integers that stand for numbers, to be added.

        Raises:
            RangeError: they are not finite.
        """


def check_approximate(policy: PlaintextPolicy, what: str) -> None:
    """Raise UnsuitedError unless plaintexts are real and complex numbers, which `what` needs."""
    if not policy.approximate:
        raise UnsuitedError(
            f"Integers modulo t have no {what}.", expected="slots, by Symbolic or Native", got=what
        )
