"""The interface against which every algorithm is written, with all bookkeeping; subclasses only compute.

`Symbolic` computes nothing, `Clear` computes on NumPy slots, `Native` on ciphertexts: limbs, scales, bounds, noise,
counts and declared keys are the same for all three because they are kept here and in the classes below.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from cipherblas.common.errors import LevelError, ShapeError
from cipherblas.evaluators.policy.interface import Scale
from cipherblas.evaluators.slots import rotations
from cipherblas.evaluators.slots.bookkeeping import CONJUGATE
from cipherblas.evaluators.slots.products import Products
from cipherblas.evaluators.slots.values import Ct, OpenParts, Plain, Transform
from cipherblas.rlwe.key_policies import Step, total_step
from cipherblas.rlwe.noise import CoefficientNoise, SlotErrors

BETWEEN = "a change between rows and slots"
FORMER_NAMES = {
    "absorb": "fold_into_scale",
    "alike": "repeat",
    "enlarged": "scaled_up",
    "enlarged_to": "scaled_up_to",
}  # of methods


class Evaluator(Products):
    """Homomorphic operations on slot vectors.

    Scales: `multiply_sum` and `multiply_scalar` leave the product's scale (lazy); `rescaled` rescales before the
    next multiplication. Linear transforms rescale and keep the scale exactly.
    """

    if not TYPE_CHECKING:  # else every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            """Return a method by its former name, with a warning."""
            if name not in FORMER_NAMES:
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
                )
            warnings.warn(
                f"Evaluator.{name} is called {FORMER_NAMES[name]}.", DeprecationWarning, stacklevel=2
            )
            return getattr(self, FORMER_NAMES[name])

    # ---- inputs ----

    def fresh(
        self,
        data: Any,
        *,
        bound: float,
        limbs: int | None = None,
        scale: Scale | None = None,
        public_key: bool = False,
    ) -> Ct:
        """A handle on a freshly encrypted ciphertext.

        Args:
            data: the evaluator's representation (`Symbolic`: None; `Clear`: slots; `Native`: uint64 array).
            bound: largest absolute value of a slot.
            limbs: by default all.
            scale: by default the usual one, 2^scale_bits.
            public_key: encrypted with the public key (more noise).
        """
        limbs = self.top_limbs if limbs is None else limbs
        scale = self.policy.usual if scale is None else scale
        errors = self.policy.encrypted(scale, bound, public_key)
        return self.make(limbs, scale, bound, errors, 2, self._fresh_data(data), booked=False)

    def fresh_block(self, data: Sequence[Any], *, bound: float, **options: Any) -> list[Ct]:
        """`fresh` of several ciphertexts, at least one, that differ in their data alone."""
        first = self.fresh(data[0], bound=bound, **options)
        return [first, *first.twins(self._fresh_block_data(data[1:]))]

    def _fresh_data(self, data: Any) -> Any:
        """The evaluator's own representation of what `fresh` is given."""
        return data

    def _fresh_block_data(self, data: Sequence[Any]) -> list[Any]:
        return [self._fresh_data(one) for one in data]

    # ---- ring elements whose coefficients are the message ----

    def of_element(
        self, data: Any, *, limbs: int, scale: Scale, bound: float, transformed: bool = False
    ) -> Ct:
        """A handle on a ring element of `RowsEvaluator.elements`, whose message are coefficients up to `bound`.

        It has no errors: those of coefficients are the caller's to keep (`assume_errors`).

        Args:
            transformed: both parts were transformed before.
        """
        self.check_one_limb(BETWEEN)
        self.counts.encode_ntt_limbs += 0 if transformed else 2 * limbs
        return self.make(limbs, scale, bound, SlotErrors(), 2, data)

    def element_of(self, ct: Ct) -> Any:
        """The data of a ciphertext for `RowsEvaluator.of_elements`, for which both parts are transformed."""
        self.check_one_limb(BETWEEN)
        self.counts.encode_ntt_limbs += 2 * ct.limbs
        return ct.data

    def assume_errors(self, ct: Ct, errors: SlotErrors, worst: float = 0.0) -> Ct:
        """Return the same ciphertext with other errors, which the caller knows. `worst` is the largest one for the
        worst case, in units of the integer message."""
        ct.errors = errors
        return ct

    def depending(self, ct: Ct) -> Ct:
        """Another handle on a ciphertext that stands for several: what adds them up adds up the same errors."""
        return self.make(ct.limbs, ct.scale, ct.bound, ct.errors.everywhere(), ct.components, ct.data)

    def as_message(self, ct: Ct) -> Ct:
        """Another handle on a ciphertext, whose errors count as a part of its message: what is computed of it has the
        errors of its own steps alone, and the caller knows what the others change."""
        return self.make(ct.limbs, ct.scale, self.message_bound(ct), SlotErrors(), ct.components, ct.data)

    def message_bound(self, ct: Ct) -> float:
        """Bound on the slots of `as_message`."""
        return self.policy.message_bound(ct.bound, ct.noise)

    def worst_error(self, ct: Ct) -> float:
        """The largest error of a slot, in units of the integer message, where that is followed (`WorstCase`)."""
        return 0.0

    # ---- between this ring and that of rows ----

    def _joined_data(self, parts: Sequence[Any], inner: Any, limbs: int) -> Any:
        """One element of those of a smaller ring, None for 0, under our secret."""
        raise NotImplementedError

    def _parted_data(self, data: Any, inner: Any, limbs: int) -> Sequence[Any]:
        """The elements of a smaller ring that an element is made of, under its secret."""
        raise NotImplementedError

    def joined(self, parts: Sequence[Ct | None], inner: Evaluator) -> Ct:
        """Σ_u parts[u](X^k)·X^u, u below k = N/n: elements of the ring of rows, of degree n, as one of this ring, and
        switched to our secret. It has no errors: those of coefficients are the caller's to keep.

        Levels: none. Keys: those between the rings.

        Args:
            parts: k, of equal limbs and scales, not all None, which stands for 0.
            inner: the evaluator of the ring of rows.
        """
        self.check_one_limb(BETWEEN)
        there = [part for part in parts if part is not None]
        first, bound = there[0], max(part.bound for part in there)
        self._use_ring_switching_keys()
        inner.counts.ntt_limbs += 2 * first.limbs * len(there)
        self.costs.joined(self.counts, first.limbs)
        self.costs.switch(self.counts, first.limbs)
        self.ledger.touch(self.costs.switch_bytes(first.limbs))
        datas = [None if part is None else part.data for part in parts]
        return self.of_parts(self._joined_data(datas, inner, first.limbs), first, bound)

    def of_parts(self, data: Any, like: Ct, bound: float) -> Ct:
        """A handle on what `joined` made of ciphertexts like this one."""
        return self.make(like.limbs, like.scale, bound, SlotErrors(), 2, data)

    def parted(self, x: Ct, inner: Evaluator) -> list[Any]:
        """The inverse of `joined`: the data of N/n elements of the ring of rows, under its secret, for
        `RowsEvaluator.of_elements`. Errors are the caller's to keep.

        Levels: none. Keys: those between the rings.

        Raises:
            LevelError: the ring of rows has fewer limbs.
        """
        self.check_one_limb(BETWEEN)
        if x.limbs > inner.top_limbs:
            raise LevelError(
                "The ring of rows has fewer limbs.", expected=f"at most {inner.top_limbs}", got=x.limbs
            )
        self._use_ring_switching_keys()
        inner.counts.ntt_limbs += 2 * x.limbs * (self.n // inner.n)
        self._descending_costs.switch(self.counts, x.limbs)
        self._descending_costs.parted(self.counts, x.limbs)
        self.ledger.touch(self._descending_costs.switch_bytes(x.limbs))
        return list(self._parted_data(x.data, inner, x.limbs))

    def joined_variance(self, limbs: int) -> float:
        """Variance of the error that `joined` adds to a coefficient."""
        return CoefficientNoise(self.params).switch(limbs)

    def parted_variance(self, limbs: int) -> float:
        """Variance of the error that `parted` adds to a coefficient."""
        return CoefficientNoise(self.params.family.descending).switch(limbs)

    def worst_joined(self, limbs: int) -> float:
        """The largest error that `joined` adds, where that is followed."""
        return 0.0

    def worst_parted(self, limbs: int) -> float:
        """The largest error that `parted` adds, where that is followed."""
        return 0.0

    # ---- the modulus ----

    def raise_modulus(self, x: Ct, limbs: int, bound: float) -> Ct:
        """ModRaise: the same integers modulo q_0, read modulo more primes: the message plus q_0 times small integers.

        The ciphertext is switched to a sparse secret at q_0 and back at the top, so that the integers are small: their
        number h of nonzero coefficients bounds them (Bossuat, Troncoso-Pastoriza, Hubaux: sparse-secret encapsulation,
        eprint 2022/024). Levels: none; what is beyond the first limb is forgotten. Keys: those of encapsulation.

        Args:
            x: of two components.
            limbs: of the result.
            bound: of the slots of the result, multiples of q_0 included, as the caller knows.
        """
        rotations.check_switchable(x)
        self.check_one_limb("a refresh")
        if not 1 < limbs <= self.top_limbs:
            raise LevelError(
                "A modulus cannot be raised to so many limbs.", expected=f"2 to {self.top_limbs}", got=limbs
            )
        x = self.drop(x, 1)
        self._use_encapsulation_keys(limbs)
        self.costs.raised(self.counts, limbs)
        self.costs.switch(self.counts, limbs)
        self.ledger.touch(self.costs.switch_bytes(limbs))
        errors = self.policy.raised(x.errors, limbs, x.scale)
        return self.make(limbs, x.scale, bound, errors, 2, self._raise_data(x.data, limbs))

    def raise_and_transform(
        self, xs: Sequence[Ct], limbs: int, bound: float, diagonals: Transform | Mapping[Step, Plain | None]
    ) -> list[Ct]:
        """`raise_modulus` of every x, and a linear transform of what comes of it, in one: each rotation has a key from
        the sparse secret. Coefficients are below q_0 still, and so one digit, beside which few special primes are
        needed: a rotation takes a fraction of what it takes elsewhere.

        Levels: one of the limbs to which moduli are raised. Keys: to the sparse secret, and one from it for each
        diagonal.

        Args:
            xs: of two components, of equal scales.
            limbs: to which moduli are raised.
            bound: of the slots after that, as for `raise_modulus`.

        Source: the merged first matrix of eprint 2025/1403, without its diagonals in the keys.
        """
        self.check_one_limb("a refresh")
        if not 1 < limbs <= self.top_limbs:
            raise LevelError(
                "A modulus cannot be raised to so many limbs.", expected=f"2 to {self.top_limbs}", got=limbs
            )
        return rotations.raise_and_transform(self, xs, limbs, bound, Transform.of(diagonals))

    # ---- rotations and linear transforms ----

    def rotate_many(self, x: Ct | Plain, steps: Sequence[Step]) -> list[Any]:
        """Return rotations of one vector, computed with one hoisting. Levels: none. Keys: one per step (or per part;
        see the policy).

        Args:
            x: a ciphertext (2 components), or a clear vector, which is rotated in the clear for free.
            steps: slots to the left; a tuple is a path of partial steps. Step 0 costs nothing.
        """
        if isinstance(x, Plain):
            return [x.rolled(total_step(step) % self.slots) for step in steps]
        return rotations.rotate_many(self, x, steps)

    def rotate(self, x: Any, step: Step) -> Any:
        """One rotation; see `rotate_many`."""
        return self.rotate_many(x, [step])[0]

    def conjugate(self, x: Any) -> Any:
        """Complex conjugation of all slots. Key: the Galois element 2N - 1."""
        if isinstance(x, Plain):
            return x.conjugated()
        return rotations.rotate_atoms(self, x, [CONJUGATE])[0]

    def coefficient_parts(self, xs: Sequence[Ct], level: int, layers: int, outputs: int) -> list[Ct]:
        """Of polynomials in Y = X^(2^level) the first parts by exponents modulo 2^layers, part b as one in Y^(2^layers)
        after a division by Y^b; those of one after those of another. Levels: none. Keys: 2^layers - 1 rotations, with
        one hoisting for each polynomial.

        Source: Angel, Chen, Laine, Setty, "PIR with compressed queries and amortized query processing" (2018).

        Args:
            xs: at the same limbs, of two components; the bound of a part is theirs by 2^layers.
            layers: 1 to 3.
            outputs: parts that are wanted, at most 2^layers.
        """
        return rotations.coefficient_parts(self, xs, level, layers, outputs)

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
        """Σ_z u_z ⊙ Rot_z(x) (FAME, Algorithms 1 and 3). Levels: 1, none when every diagonal is None.

        Args:
            x: a ciphertext, or a clear vector.
            diagonals: step → diagonal.
            baby_steps: baby-step/giant-step with that many baby steps (in units of the steps' common
                divisor); by default all rotations are hoisted together.
            order: "limb" or "rotation", the loop order of the executor; by default the evaluator's.
            most: with baby steps, what no slot of the result exceeds, as the caller knows; or no coefficient, where it
                is the coefficients that what follows reads.
            double: with baby steps, a ModDown for each giant step instead of each baby step (double hoisting), where
                those are fewer, and diagonals that are encoded modulo P as well.

        The scale is unchanged: diagonals are encoded at the scale of the limb that the merged rescale drops.
        """
        transform = Transform.of(diagonals)
        if isinstance(x, Plain):
            return rotations.transform_plain(x, transform)
        if baby_steps is not None and transform.masked and len(transform) > 2:
            return rotations.transform_giant_steps(self, [x], transform, baby_steps, order, most, double)[0]
        return next(self.linear_transforms(x, [transform], order=order))

    def linear_transform_of_each(
        self,
        xs: Sequence[Ct],
        diagonals: Transform | Mapping[Step, Plain | None],
        *,
        baby_steps: int,
        most: float = math.inf,
    ) -> list[Ct]:
        """`linear_transform` with double hoisting of several ciphertexts at the same limbs: all of them read keys and
        diagonals together.

        Source: loop over limbs outside, ciphertexts inside, as the batches of Bae et al. (2024).
        """
        transform = Transform.of(diagonals)
        if transform.masked and len(transform) > 2:
            return rotations.transform_giant_steps(self, xs, transform, baby_steps, None, most, True)
        return [next(self.linear_transforms(x, [transform])) for x in xs]

    def counted_once(self, kind: Hashable, given: list[Ct], work: Callable[[], Ct]) -> Ct:
        """work(), which takes a ciphertext out of `given`, and does the same with all of one kind that have equal
        properties: `Symbolic` counts it once."""
        return work()

    def linear_transforms(
        self,
        x: Any,
        maps: Sequence[Transform | Mapping[Step, Plain | None]],
        *,
        order: str | None = None,
        at_once: int | None = None,
    ) -> Iterator[Any]:
        """Return several linear transforms of one vector, in order. They share rotations.

        Results are computed as the iterator advances, in groups whose buffers fit `working_bytes`.

        Args:
            at_once: the most results of one hoisting, which are there before all of them are asked for.
        """
        transforms = [Transform.of(diagonals) for diagonals in maps]
        if isinstance(x, Plain):
            return (rotations.transform_plain(x, transform) for transform in transforms)
        return rotations.transform_many(self, x, transforms, order, at_once)

    def transform_part(self, x: Ct, transform: Transform, number: int, count: int) -> Ct | None:
        """Of a linear transform with diagonals the terms whose offsets are `number` modulo `count`, added up modulo Q·P
        and divided by nothing; None where there are none. The sums of all parts are the transform, bit for bit.

        Keys: those of these rotations. x is as `for_masks` makes it.

        Source: FHE4DMM, Section V-A, the mapping phase of Step 2.1.
        """
        return rotations.transform_part(self, x, transform, number, count)

    def transform_of_parts(self, x: Ct, transform: Transform, parts: Sequence[Any]) -> Ct:
        """A linear transform of x from the data of all its parts, added up and divided once. Levels: 1."""
        return rotations.transform_of_parts(self, x, transform, parts)

    def rotate_sum(
        self,
        cts: Sequence[Ct],
        steps: Sequence[int],
        *,
        rescale: bool = False,
        bound: float = math.inf,
        errors: SlotErrors | None = None,
    ) -> Ct:
        """Σ_i Rot_{steps_i}(ct_i) with one ModDown for all (giant steps). Levels: 1 if `rescale`, which is merged
        with the ModDown. Keys: one per step, as `rotate_many`.

        Args:
            bound: of the slots of the sum, where the caller knows less than the sum of the terms' bounds.
            errors: of the sum before the rotations, where the caller knows less than the terms' errors together (terms
                whose weights are parts of one row).

        Raises:
            ShapeError: the lists differ in length or are empty.
            MismatchError, LevelError: the terms differ in scale, or no limb is left to rescale by.
        """
        if len(cts) != len(steps) or not cts:
            raise ShapeError(
                "A sum of rotations needs as many steps as terms.",
                expected="as many steps as terms",
                got=(len(cts), len(steps)),
            )
        return rotations.rotate_sum(self, cts, steps, rescale, bound, errors)

    @property
    def stage_seconds(self) -> Mapping[str, float]:
        """Seconds of stages so far, where they are measured."""
        return {}

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Work that belongs to a stage of a method, where seconds of stages are measured."""
        return contextlib.nullcontext()

    def repeat(
        self,
        number: int,
        work: Callable[[int], Any],
        ended: Callable[[], int] = lambda: 0,
        beside: Evaluator | None = None,
    ) -> list[Any]:
        """work(0) to work(number - 1), which do the same operations on other data.

        Args:
            ended: bytes of the ciphertexts that each of them is the last to read.
            beside: another evaluator that they use, of the same kind.
        """
        return [work(index) for index in range(number)]

    def own_lines(self, grid: Sequence[Sequence[list[Any]]], axis: int) -> Sequence[Sequence[list[Any]]]:
        """Of a grid of blocks, whose lines along an axis are computed apart, those that are computed here; the others
        are empty."""
        return grid

    def collected(self, grid: Sequence[Sequence[list[Any]]]) -> Sequence[Sequence[list[Any]]]:
        """A grid of `own_lines`, whole where results are told."""
        return grid

    def one_for_all(self, cts: list[Ct]) -> list[Ct]:
        """Ciphertexts of different blocks that differ in their data alone; in a dry run one of them stands for all."""
        return cts

    def bounded(self, ct: Ct, bound: float) -> Ct:
        """The same ciphertext; no slot exceeds `bound`, as the caller knows (a sum of vectors that do not overlap)."""
        ct.bound = min(ct.bound, bound)
        return ct

    def left_open(self, ct: Ct, parts: Callable[[], OpenParts]) -> Ct:
        """The same ciphertext, in some parts of whose slots may be anything within its bound. An interpreter in the
        clear puts something there, so that what reads it is found.

        Args:
            parts: tells the slots whose real parts, and those whose imaginary parts, these are.
        """
        return ct
