"""What evaluators pass around: ciphertext handles, clear slot vectors, linear transforms."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import MismatchError
from cipherblas.evaluators.policy.approximate import rounding_norm
from cipherblas.evaluators.policy.interface import Scale
from cipherblas.rlwe.basis import Basis, FirstLimbs
from cipherblas.rlwe.key_policies import Step, total_step
from cipherblas.rlwe.noise import TRANSFORM_ERROR, SlotErrors

Slots: TypeAlias = NDArray[np.complex128]
OpenParts: TypeAlias = tuple[
    NDArray[np.bool_], NDArray[np.bool_]
]  # of slots: of real parts, of imaginary ones
Order = Literal["limb", "rotation"]  # of the loops of a linear transform


class Ledger:
    """Bytes of the ciphertexts that are alive, the largest value so far, and how many handles were booked; safe in
    threads."""

    __slots__ = ("handles", "live", "lock", "peak")

    def __init__(self) -> None:
        self.live = 0
        self.peak = 0
        self.handles = 0
        self.lock = threading.RLock()  # a handle may die, and release its bytes, within any of the methods

    def add(self, nbytes: int) -> None:
        """Book bytes that stay until `release`."""
        with self.lock:
            self.live += nbytes
            if self.live > self.peak:
                self.peak = self.live

    def release(self, nbytes: int) -> None:
        """Unbook bytes."""
        with self.lock:
            self.live -= nbytes

    def touch(self, nbytes: int) -> None:
        """Record working memory that an operation needs while it runs."""
        with self.lock:
            if self.live + nbytes > self.peak:
                self.peak = self.live + nbytes


class Ct:
    """A handle on one ciphertext of an evaluator, which books its bytes until it dies.

    Attributes:
        limbs: q-limbs left; `level = limbs - 1`.
        scale: what the slots are multiplied by.
        bound: upper bound on the absolute value of any slot, garbage slots included.
        errors: standard deviations of the error of one slot's real part, in units of the slot values.
        components: 2, or 3 after a product that was not relinearised.
        data: the evaluator's own representation (None in `Symbolic`).
    """

    __slots__ = (
        "_ledger",
        "_nbytes",
        "_number",
        "bound",
        "components",
        "data",
        "errors",
        "limbs",
        "scale",
    )

    def __init__(
        self,
        limbs: int,
        scale: Scale,
        bound: float,
        errors: SlotErrors,
        components: int,
        data: Any,
        ledger: Ledger | None = None,
        nbytes: int = 0,
    ) -> None:
        self._ledger = ledger
        self.limbs = limbs
        self.scale = scale
        self.bound = bound
        self.errors = errors
        self.components = components
        self.data = data
        if ledger is not None:
            self._nbytes = nbytes
            with ledger.lock:  # no call: planning books many
                ledger.live += nbytes
                if ledger.live > ledger.peak:
                    ledger.peak = ledger.live
                ledger.handles += 1
                self._number = ledger.handles

    def __del__(self) -> None:
        ledger = self._ledger
        if ledger is not None:
            with ledger.lock:
                ledger.live -= self._nbytes

    @property
    def basis(self) -> Basis:
        """The moduli of its residues."""
        return FirstLimbs(self.limbs)

    def twins(self, data: Sequence[Any]) -> list[Ct]:
        """Handles on other ciphertexts of which everything but the data is known to be the same; not booked."""
        limbs, scale, bound = self.limbs, self.scale, self.bound
        errors, components, new, found = self.errors, self.components, Ct.__new__, []
        for one in data:
            other = new(Ct)
            other.limbs, other.scale, other.bound = limbs, scale, bound
            other.errors, other.components, other.data = errors, components, one
            other._ledger = None
            found.append(other)
        return found

    def stream(self) -> None:
        """The next product is the only reader of the data: a lazy ciphertext need not keep them."""

    def stand_for(self, blocks: int, booked_after: int) -> None:
        """Book the bytes of so many like ciphertexts, unless this one is among the first handles of the ledger: it
        stands for them from now on."""
        if self._ledger is not None and self._number > booked_after:
            self._ledger.release((1 - blocks) * self._nbytes)
            self._nbytes *= blocks

    @property
    def noise(self) -> float:
        """Standard deviation of the error of one slot's real part."""
        return self.errors.deviation

    def error(self, entries: int) -> float:
        """Bound on the errors of so many slots together, but for a chance of 2^-FAILURE_BITS."""
        return self.errors.largest(entries, self.bound)

    def detached_errors(self) -> tuple[float, float]:
        """Standard deviations of the errors, independent and other ones, which are not counted from here on."""
        errors, self.errors = self.errors, SlotErrors()
        return math.hypot(errors.own, errors.mixed), errors.common + TRANSFORM_ERROR * self.bound

    @property
    def level(self) -> int:
        """limbs - 1."""
        return self.limbs - 1

    def __repr__(self) -> str:
        scale = f"2^{math.log2(self.scale):.2f}" if isinstance(self.scale, float) else self.scale
        return (
            f"Ct(limbs={self.limbs}, scale={scale}, bound={self.bound:.3g}, "
            f"noise={self.noise:.3g}, components={self.components})"
        )


def handles_in(blocks: Any) -> list[Ct]:
    """The different ciphertexts in nested lists."""
    return list({id(ct): ct for ct in _handles(blocks)}.values())


def _handles(blocks: Any) -> Iterator[Ct]:
    if isinstance(blocks, Ct):
        yield blocks
    elif isinstance(blocks, (list, tuple)):
        for part in blocks:
            yield from _handles(part)


Parts: TypeAlias = "Sequence[tuple[int, Plain]]"  # signs and vectors that are added up


class Plain:
    """A clear slot vector. Only a native or a clear evaluator computes its values, when it needs them.

    Args:
        key: identifies the values in encode caches; equal keys mean equal values.
        values: S numbers of any type, or a function of no arguments that makes them.
        bound: upper bound on the absolute value of any slot.
        keep: keep what the function returned (for values that are costly and used often).
        constant: the same in all runs of a program, so that its encodings are worth keeping; those of others are
            dropped with the run.
        blocks: so many vectors of other blocks, of other values, are encoded and used like this one, which stands for
            them where nothing is computed.
        parts: makes vectors of absolute values up to 1, of different keys, each with a sign, of which this one is the
            sum: they may be encoded in its place.
    """

    __slots__ = ("_kept", "_values", "blocks", "bound", "constant", "keep", "key", "parts")

    def __init__(
        self,
        key: Hashable,
        values: Callable[[], NDArray[Any]] | NDArray[Any],
        bound: float,
        *,
        keep: bool = False,
        constant: bool = False,
        blocks: int = 1,
        parts: Callable[[], Parts] | None = None,
    ) -> None:
        self.key = key
        self.parts = parts
        self._values = values
        self.bound = bound
        self.keep = keep
        self.constant = constant
        self.blocks = blocks
        self._kept: NDArray[Any] | None = None

    def values(self) -> NDArray[Any]:
        """Return the slots as float64 or complex128, so that no factor is multiplied in a narrower type. Do not write
        to them."""
        if self._kept is not None:
            return self._kept
        given = self._values() if callable(self._values) else self._values
        found = np.asarray(given, dtype=np.complex128 if np.iscomplexobj(given) else np.float64)
        if self.keep:
            self._kept = found
        return found

    def rolled(self, step: int) -> Plain:
        """The vector rotated left by `step`."""
        if step == 0:
            return self
        return self._mapped(("rotate", step, self.key), lambda: np.roll(self.values(), -step), self.bound)

    def conjugated(self) -> Plain:
        """The complex conjugate."""
        return self._mapped(("conjugate", self.key), lambda: np.conj(self.values()), self.bound)

    def times(self, factor: complex) -> Plain:
        """The vector multiplied by a number."""
        key = ("times", factor, self.key)
        return self._mapped(key, lambda: self.values() * factor, self.bound * abs(factor))

    def _mapped(self, key: Hashable, values: Callable[[], NDArray[Any]], bound: float) -> Plain:
        return Plain(key, values, bound, constant=self.constant, blocks=self.blocks)

    def __repr__(self) -> str:
        return f"Plain(key={self.key!r}, bound={self.bound:.3g})"


@dataclass(frozen=True)
class Polynomials:
    """Clear polynomials by which ring elements are multiplied: of few coefficients, those of the low powers of X.

    Attributes:
        shape: sums × terms × coefficients, the last a power of two.
        unit: a coefficient is unit · integer.
        integers: makes the int64 array of that shape.
    """

    shape: tuple[int, int, int]
    unit: float
    integers: Callable[[], NDArray[np.int64]]


@dataclass(frozen=True)
class ClearFactor:
    """A clear matrix as integers and their unit, for products on the server.

    Attributes:
        key: identifies the values; equal keys mean equal values.
        shape: m × k.
        bound: on the absolute value of an entry.
        unit: an entry is unit · integer, up to half a unit where it is not `exact`.
        exact: every entry is a whole number of units.
        integers: makes the matrix of integers, of an integer type or float64.
        row_sum: bound on the sum of absolute values in a row, where less is known to hold than k times `bound`.
        norm: bound on the singular values, where one is known.
        rounding: times the noise that it amplifies, that the rounding of a float64 GEMM may be.
    """

    key: Hashable
    shape: tuple[int, int]
    bound: float
    unit: float
    exact: bool
    integers: Callable[[], NDArray[Any]]
    row_sum: float = math.inf
    norm: float = math.inf
    rounding: float = 1.0

    def once(self) -> ClearFactor:
        """The same, whose integers are made once, for all that takes it."""
        return replace(self, integers=functools.cache(self.integers))

    def rows(self, start: int, stop: int) -> ClearFactor:
        """Some rows of it."""
        return self._part((start, stop), (0, self.shape[1]))

    def columns(self, start: int, stop: int) -> ClearFactor:
        """Some columns of it."""
        return self._part((0, self.shape[0]), (start, stop))

    def _part(self, rows: tuple[int, int], columns: tuple[int, int]) -> ClearFactor:
        integers, some = self.integers, (slice(*rows), slice(*columns))
        shape = rows[1] - rows[0], columns[1] - columns[0]
        return replace(self, key=(self.key, rows, columns), shape=shape, integers=lambda: integers()[some])

    @property
    def gain(self) -> float:
        """The ratio of a product's bound to that of its other factor."""
        return min(self.row_sum, self.shape[1] * self.bound)

    @property
    def largest_sum(self) -> float:
        """Bound on the sum of absolute integers in a row."""
        rounding = 0.0 if self.exact else 0.5 * self.shape[1]
        return min(max(self.gain / self.unit + rounding, 1.0), self.shape[1] * self.largest)

    @property
    def largest_norm(self) -> float:
        """Bound on the singular values of the matrix of integers."""
        rounding = 0.0 if self.exact else 0.5 * math.sqrt(math.prod(self.shape))
        return self.norm / self.unit + rounding

    @property
    def largest(self) -> float:
        """Bound on the integers, 1 at the least."""
        return max(math.floor(self.bound / self.unit + 0.5), 1)


@dataclass(frozen=True, eq=False)
class WeightGroup:
    """Clear slot vectors that are multiplied by ciphertexts of a list and summed up, encoded together.

    Attributes:
        key: identifies the values among the encoded weights; equal keys mean equal values.
        sources: position in the list of the ciphertext of every term.
        build: term → its S slots, of absolute value at most 1.
        stored: encoded once and kept for all runs.
        again: those of an earlier group, which are encoded by then where they are stored.
    """

    key: Hashable
    sources: Sequence[int]
    build: Callable[[int], NDArray[Any]]
    stored: bool = True
    again: bool = False


class Masks(Mapping["int | tuple[int, ...]", Plain]):
    """Diagonals by step, of different keys, each made when it is first asked for: planning asks for few of them.

    Args:
        steps: rotations or paths, all different.
        make: position of a step → its diagonal.
    """

    def __init__(self, steps: Iterable[Step], make: Callable[[int], Plain]) -> None:
        self._positions = {step: position for position, step in enumerate(steps)}
        self._make = make
        self._made: dict[Step, Plain] = {}

    def __getitem__(self, step: Step) -> Plain:
        found = self._made.get(step)
        if found is None:
            found = self._made[step] = self._make(self._positions[step])
        return found

    def __iter__(self) -> Iterator[Step]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)


class MaskGroup(Sequence[Plain]):
    """Constants of different keys that are always used together, made when one is asked for; equal keys mean equal
    values."""

    def __init__(self, key: Hashable, number: int, make: Callable[[], Sequence[Plain]]) -> None:
        self.key = key
        self._number, self._make = number, make
        self._made: Sequence[Plain] | None = None

    @overload
    def __getitem__(self, index: int) -> Plain: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Plain]: ...
    def __getitem__(self, index: int | slice) -> Plain | Sequence[Plain]:
        if self._made is None:
            self._made = self._make()
        return self._made[index]

    def __len__(self) -> int:
        return self._number


def different_keys(plains: Sequence[Plain]) -> list[Hashable] | None:
    """The keys of clear vectors; None where all are known to differ."""
    return None if isinstance(plains, MaskGroup) else [plain.key for plain in plains]


class GiantStep(NamedTuple):
    """Diagonals of a linear map that share a giant step, rotated back by it, and the baby steps that they take."""

    step: int
    babies: tuple[int, ...]
    plains: MaskGroup


class GroupedSteps(NamedTuple):
    """All diagonals of a linear map by giant step, and the baby steps that these take, in order."""

    groups: tuple[GiantStep, ...]
    babies: tuple[int, ...]

    @classmethod
    def of(cls, groups: tuple[GiantStep, ...]) -> GroupedSteps:
        """Return these giant steps with their baby steps."""
        return cls(groups, tuple(sorted({baby for group in groups for baby in group.babies})))


@dataclass(frozen=True, eq=False)
class Transform:
    """A linear map of slot vectors, given by its non-zero diagonals: y = Σ_z u_z ⊙ Rot_z(x) (FAME, Eq. 11).

    Attributes:
        terms: rotation step (or path) → diagonal u_z. Either every diagonal is a `Plain`, or every one is None,
            which stands for the constant 1: such a map is a sum of rotations and costs no level.
        row_sum: max_j Σ_z |u_z[j]|, the growth of the bound.
        row_norm: max_j sqrt(Σ_z |u_z[j]|²), the growth of independent noise.
        repeats: every diagonal is its first slots so many times: a power of two, not 2 nor 4.
        distinct: no slot's own error occurs twice in a slot of the sum, nor in that of sums that are made of it in this
            way; see `Evaluator.add_distinct`.
        walked: paths are walked under every key policy: all of a path but its last part is rotated first.
        grouped: number of baby steps → giant steps, made where it is asked for: a search applies one map many times.
    """

    terms: Mapping[Step, Plain | None]
    row_sum: float
    row_norm: float
    key: Hashable = field(default=None)
    repeats: int = 1
    distinct: bool = False
    walked: bool = False
    grouped: dict[int, GroupedSteps] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.terms, Masks) and self.terms:
            return
        if len({plain is None for plain in self.terms.values()}) != 1:
            raise MismatchError(
                "A transform needs diagonals, all given or all None.",
                expected="at least one, all given or all None",
                got="none or a mixture",
            )

    def __len__(self) -> int:
        return len(self.terms)

    @functools.cached_property
    def rounding_norm(self) -> float:
        """Norm of the errors that rounding the diagonals makes, in units of one: √n of n different ones."""
        terms = self.terms
        if isinstance(terms, Masks):
            return math.sqrt(len(terms))
        keys = [plain.key for plain in terms.values() if plain is not None]
        return rounding_norm([1.0] * len(terms), keys)

    @functools.cached_property
    def masked(self) -> bool:
        """Whether diagonals are multiplied (costs a level)."""
        return next(iter(self.terms.values())) is not None

    def part(self, number: int, count: int) -> Transform | None:
        """The terms whose offset is `number` modulo `count`, of last rotations in units of their divisor; None where
        there are none."""
        last = {step: step[-1] if isinstance(step, tuple) else step for step in self.terms}
        unit = math.gcd(*last.values()) or 1
        own = {step: plain for step, plain in self.terms.items() if last[step] // unit % count == number}
        if not own:
            return None
        return replace(self, terms=own, key=("part", self.key, number, count))

    @classmethod
    def of(cls, diagonals: Transform | Mapping[Step, Plain | None]) -> Transform:
        """Wrap a mapping of diagonals about whose rows nothing is known."""
        if isinstance(diagonals, Transform):
            return diagonals
        bounds = [1.0 if plain is None else plain.bound for plain in diagonals.values()]
        key = tuple((step, None if plain is None else plain.key) for step, plain in diagonals.items())
        return cls(dict(diagonals), sum(bounds), math.sqrt(sum(b * b for b in bounds)), key)

    def apply(self, values: NDArray[Any]) -> NDArray[Any]:
        """The map in the clear."""
        result: NDArray[Any] = np.zeros_like(values)
        for step, plain in self.terms.items():
            rotated = np.roll(values, -total_step(step))
            result = result + (rotated if plain is None else plain.values() * rotated)
        return result
