"""Sums of products of vectors in slots, relinearisation, and what they do to scales, bounds and errors."""

from __future__ import annotations

import functools
import itertools
import math
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from cipherblas.common.errors import LevelError, MismatchError, ShapeError
from cipherblas.evaluators.policy.approximate import rounding_norm
from cipherblas.evaluators.policy.interface import Found, Numbers, Scale
from cipherblas.evaluators.slots.bookkeeping import Term
from cipherblas.evaluators.slots.scales import Levels
from cipherblas.evaluators.slots.values import (
    ClearFactor,
    Ct,
    GiantStep,
    Plain,
    Polynomials,
    Transform,
    WeightGroup,
    different_keys,
)
from cipherblas.rlwe.noise import SlotErrors, worst

SUMMED = 128  # ciphertexts that a clear matrix multiplies at a time
MAX_SUMS = 512  # of products, whose bounds and errors are remembered


class Products(Levels):
    """Products of slot vectors, and the hooks of all that is more than a sum; see `Evaluator`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sums: dict[Hashable, Found] = {}

    # ---- hooks: data in, data out; no bookkeeping ----

    @abstractmethod
    def _rotate_data(self, data: Any, steps: Sequence[int], limbs: int) -> list[Any]: ...

    @abstractmethod
    def _transform_data(
        self,
        sources: Sequence[Any],
        terms: Sequence[Term],
        outputs: int,
        limbs: int,
        rescale: bool,
        order: str | None,
    ) -> list[Any]: ...

    def _undivided_data(self, sources: Sequence[Any], terms: Sequence[Term], limbs: int) -> Any:
        """The sum of terms modulo Q·P, which ranks have a part of; an interpreter without ranks computes none."""

    def _divide_sums_data(self, parts: Sequence[Any]) -> Any:
        """The rescaled sum of such sums."""

    def _giant_steps_data(
        self,
        datas: Sequence[Any],
        babies: Sequence[int],
        groups: Sequence[GiantStep],
        scale: float,
        limbs: int,
        repeats: int,
    ) -> list[Any]:
        """Of each Σ_g Rot_g(Σ_b u_{g,b} ⊙ Rot_b(x)), rescaled."""
        terms = [Term(0, index, group.step % self.slots, None) for index, group in enumerate(groups)]
        found = []
        for data in datas:
            rotated = dict(zip(babies, self._rotate_data(data, babies, limbs), strict=True))
            sums = [
                self._plain_product_data(
                    group.plains, scale, [rotated[baby] for baby in group.babies], None, limbs
                )
                for group in groups
            ]
            found += self._transform_data(sums, terms, 1, limbs, True, None)
        return found

    def _coefficient_parts_data(
        self, datas: Sequence[Any], level: int, steps: Sequence[int], outputs: int, limbs: int
    ) -> list[Any]:
        """See `Engine.coefficient_parts`; its automorphisms are rotations by these steps."""
        found = []
        for data in datas:
            for b in range(outputs):
                power = -(b << level) % (2 * self.n)
                x = self._times_monomial_data(data, power % self.n, limbs) if power else data
                x = self._scale_data(x, -1, -1.0) if power >= self.n else x
                found.append(functools.reduce(self._add_data, self._rotate_data(x, steps, limbs), x))
        return found

    @abstractmethod
    def _raise_data(self, data: Any, limbs: int) -> Any: ...

    def _raised_data(
        self,
        datas: Sequence[Any],
        bound: float,
        steps: Sequence[int],
        group: GiantStep,
        scale: float,
        limbs: int,
        repeats: int,
    ) -> list[Any]:
        """Of each x, whose modulus is raised to so many limbs and whose slots are up to `bound` then, the sum of the
        group's diagonals ⊙ Rot_step(x), rescaled."""
        raised = [self._raise_data(data, limbs) for data in datas]
        return self._giant_steps_data(raised, steps, [group], scale, limbs, repeats)

    @abstractmethod
    def _product_data(self, lefts: Sequence[Any], rights: Sequence[Any], accumulator: Any) -> Any: ...

    @abstractmethod
    def _plain_product_data(
        self, plains: Sequence[Plain], scale: float, cts: Sequence[Any], accumulator: Any, limbs: int
    ) -> Any: ...

    @abstractmethod
    def _weighted_sums_data(
        self, groups: Sequence[WeightGroup], scale: float, cts: Sequence[Any], limbs: int
    ) -> list[Any]: ...

    @abstractmethod
    def _polynomial_sums_data(self, polynomials: Polynomials, cts: Sequence[Any]) -> list[Any]: ...

    @abstractmethod
    def _matrix_product_data(self, factor: ClearFactor, cts: Sequence[Ct], limbs: int) -> list[Any]:
        """Σ_t factor[i, t]·ct_t, in units of the factor's; ciphertexts may be lazy."""

    @abstractmethod
    def _relinearise_data(self, data: Any, limbs: int) -> Any: ...

    def _relinearised_product_data(self, x: Any, y: Any, limbs: int) -> Any:
        return self._relinearise_data(self._product_data([x], [y], None), limbs)

    def _relinearised_sums_data(
        self, lefts: Sequence[Sequence[Any]], rights: Sequence[Sequence[Any]], limbs: int
    ) -> list[Any]:
        return [
            self._relinearise_data(self._product_data(own, each, None), limbs)
            for own in lefts
            for each in rights
        ]

    def _product_rescale_data(
        self,
        x: Any,
        y: Any,
        added: Sequence[Any],
        values: Sequence[float],
        numbers: Numbers,
        scale: float,
        limbs: int,
    ) -> Any:
        product = self._relinearised_product_data(x, y, limbs)
        return self._rescale_data(self._number_sum_data([product, *added], values, numbers, scale, limbs))

    def _relinearise_rescale_data(self, data: Any, limbs: int) -> Any:
        return self._rescale_data(self._relinearise_data(data, limbs))

    # ---- products ----

    def multiply_sum(
        self,
        lefts: Sequence[Any],
        rights: Sequence[Any],
        accumulator: Ct | None = None,
        *,
        dependent: bool = False,
    ) -> Ct:
        """Σ_t left_t ⊙ right_t, lazily reduced, not relinearised, not rescaled.

        One side may be `Plain`; it is encoded at the usual scale for its largest bound, or what the accumulator's
        scale asks for, and the result keeps 2 components; otherwise it has 3. Operands are dropped to the smallest
        number of limbs among them. Own errors (see `SlotErrors`) of different terms are taken as independent, as in
        products of matrices, where they are those of different entries; those of the two sides are not.

        Args:
            accumulator: an earlier result, updated in place and returned.
            dependent: own errors of ciphertexts in different terms may be the same ones, as of powers of one.

        Raises:
            ShapeError: the lists differ in length or are empty.
            MismatchError: the products differ in scale.
            LevelError: the sum does not fit the modulus.
        """
        lefts, rights = list(lefts), list(rights)
        if len(lefts) != len(rights) or not lefts:
            raise ShapeError(
                "A sum of products needs two lists of equal length.",
                expected="two lists of equal length",
                got=(len(lefts), len(rights)),
            )
        if isinstance(lefts[0], Plain):
            lefts, rights = rights, lefts
        if Plain in map(type, lefts):
            raise ShapeError(
                "Only one side of a product of ciphertexts may be clear.",
                expected="one clear side at most",
                got="both",
            )
        plain = isinstance(rights[0], Plain)
        cts = lefts if plain else lefts + rights
        levels = {ct.limbs for ct in cts}
        if accumulator is not None:
            levels.add(accumulator.limbs)
        if len(levels) > 1:
            lefts = self._dropped(lefts, min(levels))
        if plain:
            self.counts.operand_encodings += sum(not right.constant for right in rights)
            lefts = [self.for_masks(ct) for ct in lefts]
            total = None if accumulator is None else accumulator.scale
            scale = self.policy.clear_scale(max(plain.bound for plain in rights), lefts[0].scale, total)
            return self.weighted_sum(lefts, rights, scale, accumulator)
        if len(levels) > 1:
            rights = self._dropped(rights, min(levels))
        result = self._products(lefts, rights, accumulator, dependent)
        result.data = self._handles_product_data(lefts, rights, None if accumulator is None else result.data)
        return result

    def _handles_product_data(self, lefts: Sequence[Ct], rights: Sequence[Ct], accumulator: Any) -> Any:
        """The data of a sum of products of equal limbs."""
        return self._product_data([x.data for x in lefts], [y.data for y in rights], accumulator)

    def multiply(self, x: Any, y: Any) -> Ct:
        """x ⊙ y; see `multiply_sum`."""
        return self.multiply_sum([x], [y])

    def multiply_relinearised(self, x: Ct, y: Ct) -> Ct:
        """x ⊙ y with two components: `relinearise(multiply(x, y))` at once, so that the third is never stored.

        Key: relinearisation. Errors: as `multiply_sum`.
        """
        x, y = self._dropped([x, y], min(x.limbs, y.limbs))
        result = self._relinearised(self._products([x], [y], None))
        self.costs.fused_product(self.counts, result.limbs)
        result.data = self._relinearised_product_data(x.data, y.data, result.limbs)
        return result

    def relinearised_sums(
        self, lefts: Sequence[Sequence[Ct]], rights: Sequence[Sequence[Ct]], bound: float = math.inf
    ) -> list[list[Ct]]:
        """`relinearise` of `multiply_sum` of each list of left factors and each list of right ones, at once: those of a
        list of left factors are a list. All factors have equal limbs, all lists one length.

        Key: relinearisation. Errors: as `multiply_sum`.

        Args:
            bound: of slots, or coefficients, that mean something; others may be anything modulo Q.
        """
        limbs, number = lefts[0][0].limbs, len(rights)
        scaled = self.policy.product_factor != 1
        self.costs.relinearised_sums(self.counts, len(lefts), number, len(lefts[0]), limbs, scaled)
        self.ledger.touch(self.costs.sums_bytes(len(lefts), number, limbs))
        self._use_relinearisation_key(limbs)
        known: dict[Hashable, tuple[Any, ...]] = {}  # in a dry run most lists have the same ciphertexts

        def made(own: Sequence[Ct], each: Sequence[Ct], key: Hashable) -> Ct:
            if key not in known:
                known[key] = self._sum_of_products(own, each, bound)
            limbs, scale, most, errors = known[key]
            return self.make(limbs, scale, most, errors, 2, None)

        keys = [[tuple(map(id, one)) for one in side] for side in (lefts, rights)]
        results = [
            [made(own, each, (left, right)) for each, right in zip(rights, keys[1], strict=True)]
            for own, left in zip(lefts, keys[0], strict=True)
        ]
        factors = [[[ct.data for ct in one] for one in side] for side in (lefts, rights)]
        data = iter(self._relinearised_sums_data(factors[0], factors[1], limbs))
        for result in itertools.chain.from_iterable(results):
            result.data = next(data)
        return results

    def _sum_of_products(self, lefts: Sequence[Ct], rights: Sequence[Ct], most: float) -> tuple[Any, ...]:
        """Limbs, scale, bound and errors of such a sum, relinearised."""
        scale, bound, errors = self._product_terms(lefts, rights)
        place = lefts[0].limbs, scale
        return (*place, min(bound, most), self.policy.key_switched(errors, place, place))

    def multiply_rescaled(
        self,
        x: Ct,
        y: Ct,
        value: float,
        scale: Scale,
        added: tuple[Ct, float] | None = None,
        constant: float = 0.0,
    ) -> Ct:
        """value·x ⊙ y + number·z + constant, relinearised and rescaled with one ModDown: `rescale` of a `number_sum` of
        `multiply_relinearised`, but no sum is stored, and nothing is rounded twice. Levels: 1.

        Args:
            scale: before it is rescaled; see `number_sum`.
            added: z, of two components, and its number.

        Raises:
            LevelError: no limb is left to rescale by.
        """
        others = [] if added is None else [added[0]]
        limbs = min(ct.limbs for ct in (x, y, *others))
        self.require_levels(min((x, y, *others), key=lambda ct: ct.limbs), 1, "a product")
        x, y, *others = self._dropped([x, y, *others], limbs)
        product = self._relinearised(self._products([x], [y], None), rescale=True)
        values = [value, *(() if added is None else added[1:])]
        numbers = self.policy.numbers([product, *others], values, scale, constant)
        self.counts.scalar_products += len(values)
        self.costs.fused_product(self.counts, limbs)
        self.costs.fused_sum(self.counts, limbs, numbers.factors[0] != 1, len(others), bool(constant))
        data = self._product_rescale_data(
            x.data, y.data, [ct.data for ct in others], values, numbers, scale, limbs
        )
        return self._rescaled(scale, numbers.bound, numbers.errors, limbs, self._level_done(data, limbs))

    def relinearise_rescaled(self, ct: Ct) -> Ct:
        """`rescale` of `relinearise`, with one ModDown. Levels: 1. Key: relinearisation, for three components."""
        if ct.components == 2:
            return self.rescale(ct)
        self.require_levels(ct, 1, "a product")
        found = self._relinearised(ct, rescale=True)
        data = self._relinearise_rescale_data(ct.data, ct.limbs)
        return self._rescaled(ct.scale, ct.bound, found.errors, ct.limbs, self._level_done(data, ct.limbs))

    def _rescaled(self, scale: Scale, bound: float, errors: SlotErrors, limbs: int, data: Any) -> Ct:
        """The handle of what was divided by the last of `limbs` limbs, or those of a level, together with P."""
        left = self.below(limbs)
        after = self.policy.divided(scale, limbs, left)
        errors = self.policy.rounded(errors, (limbs, scale), (left, after))
        return self.make(left, after, bound, errors, 2, data)

    def _products(
        self,
        lefts: Sequence[Ct],
        rights: Sequence[Ct],
        accumulator: Ct | None,
        dependent: bool = False,
    ) -> Ct:
        """The handle of a sum of products at equal limbs, everything but its data."""
        limbs = lefts[0].limbs
        scale, bound, errors = self._product_terms(lefts, rights)
        if dependent:
            each = [self.policy.products([x], [y])[2] for x, y in zip(lefts, rights, strict=True)]
            errors = functools.reduce(lambda x, y: x.plus(y), each)
        self.costs.multiply_sum(self.counts, len(lefts), limbs)
        if self.policy.product_factor != 1:  # of the only left factor, or of the sum
            self.costs.multiply_scalar(self.counts, 2 if len(lefts) == 1 else 3, limbs)
        return self._accumulator(accumulator, 3, limbs, scale, bound, errors)

    def weighted_sum(
        self,
        cts: Sequence[Ct],
        plains: Sequence[Plain],
        plain_scale: Scale,
        accumulator: Ct | None = None,
        *,
        rows: tuple[float, float] | None = None,
        most: float = math.inf,
    ) -> Ct:
        """Σ_t plain_t ⊙ ct_t with the clear vectors encoded at a given scale; see `multiply_sum`.

        Args:
            rows: `row_sum` and `row_norm` of the clear vectors together, where they are known (see `Transform`).
            most: what no slot, or no coefficient, of the sum exceeds that this is a part of.
        """
        # Rotations of one vector, of which there may be many, are alike: one of them is looked at.
        kinds = {(id(ct.errors), ct.bound, ct.scale, ct.limbs): ct for ct in cts}.values()
        limbs = min(ct.limbs for ct in kinds)
        self.check_encoded(plains, plain_scale)
        policy = self.policy
        scale = policy.product(cts[0].scale, plain_scale)
        for ct in kinds:
            policy.check_same(policy.product(ct.scale, plain_scale), scale)
        if rows is None:
            bound = sum([ct.bound * plain.bound for ct, plain in zip(cts, plains, strict=True)])
            errors = policy.weighted(cts, [plain.bound for plain in plains])
        else:
            bound = max(ct.bound for ct in kinds) * rows[0]
            errors = policy.mapped(worst(ct.errors for ct in kinds), rows, len(cts))
        norm = rounding_norm([ct.bound for ct in cts], different_keys(plains))
        errors = errors.with_common(policy.encoding_error(plain_scale, 1.0, norm, bound))
        bound = min(bound, most)
        self.costs.encode(self.counts, len(cts), len(cts) * limbs)
        self.costs.multiply_plain_sum(self.counts, len(cts), limbs)
        result = self._accumulator(accumulator, 2, limbs, scale, bound, errors)
        passing = self._book_encodings(plains, plain_scale, limbs, self.costs.factor_bytes(limbs))
        self.ledger.touch(min(passing, self.working_bytes))
        data = self._plain_product_data(
            plains, plain_scale, [ct.data for ct in cts], None if accumulator is None else result.data, limbs
        )
        result.data = data
        return result

    def baby_sums(
        self, rotated: Mapping[int, Ct], groups: Sequence[GiantStep], transform: Transform, most: float
    ) -> list[Ct]:
        """Of every giant step the sum of its baby rotations times their diagonals."""
        scale = self.mask_scale(next(iter(rotated.values())).limbs)
        rows = transform.row_sum, transform.row_norm
        return [
            self.weighted_sum(
                [rotated[baby] for baby in group.babies], group.plains, scale, rows=rows, most=most
            )
            for group in groups
        ]

    def weighted_sums(
        self,
        cts: Sequence[Ct],
        groups: Sequence[WeightGroup],
        plain_scale: Scale,
        *,
        rows: tuple[float, float],
        parts: int = 1,
    ) -> list[Ct]:
        """Σ_t group_t ⊙ cts[group.sources_t] for every group, lazily reduced, not rescaled. Levels: none.

        Args:
            cts: of equal scale; they are dropped to the smallest number of limbs among them.
            plain_scale: at which the clear vectors are encoded.
            rows: largest sum of absolute values, and root of a sum of squares, that a slot sees in a group.
            parts: `rows` are those of so many slots together, which the caller adds up: a slot is given an equal share
                of their errors.

        Raises:
            ShapeError: there is nothing to sum. MismatchError: the ciphertexts differ in scale.
            LevelError: a sum does not fit the modulus.
        """
        if not groups or not all(group.sources for group in groups):
            raise ShapeError("A weighted sum has no terms.", expected="at least one term each", got="none")
        # Rotations of one vector are alike, down to one object of errors: one of them is looked at.
        kinds = [*{(id(ct.errors), ct.bound, ct.scale, ct.limbs): ct for ct in cts}.values()]
        limbs = min(ct.limbs for ct in kinds)
        if any(ct.limbs != limbs for ct in kinds):
            cts = kinds = self._dropped(cts, limbs)
        for ct in kinds:
            self.policy.check_same(ct.scale, cts[0].scale)
        bound, terms = max(ct.bound for ct in kinds), max(len(group.sources) for group in groups)
        errors = self.policy.mapped(worst(ct.errors for ct in kinds), rows, terms).share(parts)
        for group in groups:
            terms = len(group.sources)
            self.costs.multiply_plain_sum(self.counts, terms, limbs)
            if group.stored and not group.again:
                self.costs.write_weights(self.counts, terms, limbs)
            elif not group.stored:
                self.costs.encode(self.counts, terms, terms * limbs)
            self.counts.operand_encodings += terms * (not group.stored)
        scale = self.policy.product(cts[0].scale, plain_scale)
        data = self._weighted_sums_data(groups, plain_scale, [ct.data for ct in cts], limbs)
        return [
            self.make(
                *(limbs, scale, bound * rows[0]),
                *(
                    errors.with_common(self.encoding_error(plain_scale, bound, len(group.sources), rows[0])),
                    2,
                    found,
                ),
            )
            for group, found in zip(groups, data, strict=True)
        ]

    def polynomial_sums(self, cts: Sequence[Ct], polynomials: Polynomials, bound: float) -> list[Ct]:
        """Σ_t polynomial_t · ct_t for every list of clear polynomials: elements whose coefficients are the message.

        They have no errors: those of coefficients are the caller's to keep (`of_element`). Levels: none. Keys: none.

        Args:
            cts: of equal limbs and scales.
            bound: of the coefficients that mean something.

        Raises:
            ShapeError: a polynomial is missing. LevelError: the message does not fit the modulus.
        """
        outputs, terms, count = polynomials.shape
        if terms != len(cts):
            raise ShapeError("Every factor needs a polynomial.", expected=f"{len(cts)} terms", got=terms)
        first = cts[0]
        self.costs.polynomial_sums(self.counts, outputs, terms, first.limbs, count)
        self.ledger.touch(self.costs.polynomial_bytes(outputs, terms, count))
        data = self._polynomial_sums_data(polynomials, [ct.data for ct in cts])
        scale = self.policy.absorbed(first.scale, polynomials.unit)
        return [self.make(first.limbs, scale, bound, SlotErrors(), 2, one) for one in data]

    def matrix_product(self, factor: ClearFactor, cts: Sequence[Ct]) -> list[Ct]:
        """Σ_t factor[i, t]·ct_t for every row i of a clear matrix, by one integer each. Levels: none; the scale grows
        by what a unit of the factor is. Keys: none.

        Args:
            factor: its integers are exact, or rounded up or down by chance.
            cts: of equal scale; they are dropped to the smallest number of limbs among them.

        Raises:
            ShapeError: the factor has another number of columns. MismatchError: the ciphertexts differ in scale.
            LevelError: a sum does not fit the modulus.
        """
        rows, terms = factor.shape
        if terms != len(cts):
            raise ShapeError(
                "Every ciphertext needs a column of the clear matrix.",
                expected=f"{len(cts)} columns",
                got=terms,
            )
        # In a dry run one of them stands for all.
        kinds = {(id(ct.errors), ct.bound, ct.scale, ct.components): ct for ct in cts}.values()
        limbs, first = min(ct.limbs for ct in cts), cts[0]
        for ct in kinds:
            self.policy.check_same(ct.scale, first.scale)
        cts = self._dropped(cts, limbs)
        most = max(ct.bound for ct in kinds)
        bound, sums = most * factor.gain, factor.unit * factor.largest_sum
        errors = worst(ct.errors for ct in kinds).mapped(sums, math.sqrt(factor.unit * factor.largest * sums))
        if not factor.exact:
            errors = errors.with_common(0.5 * factor.unit * math.sqrt(terms) * most)
        for start in range(0, terms, SUMMED):
            inner = min(SUMMED, terms - start)
            self.costs.integer_sums(self.counts, rows, inner, first.components, limbs, factor.largest)
        working = min(SUMMED, terms) * self._handle_bytes(first.components, limbs)
        self.ledger.touch(working + self.costs.integer_sum_bytes(rows, min(SUMMED, terms)))
        scale = self.policy.absorbed(first.scale, factor.unit)
        made = self._matrix_product_data(factor.once(), cts, limbs)
        return self.make_all(made, (limbs, scale, bound, errors, first.components))

    def encoding_error(self, plain_scale: Scale, bound: float, terms: int, row_sum: float) -> float:
        """Return the error of a sum of products, with slots up to `bound`, that comes from the encoding of clear
        vectors of different keys, whose absolute values add up to `row_sum` in a slot."""
        return self.policy.encoding_error(plain_scale, bound, math.sqrt(terms), bound * row_sum)

    def _product_terms(self, lefts: Sequence[Ct], rights: Sequence[Ct]) -> Found:
        """Scale, bound and errors of a sum of products. Most blocks of a grid are alike: what was found is kept."""
        cts, number = [*lefts, *rights], len(lefts)
        most = max({ct.components for ct in cts})
        if most > 2:
            raise MismatchError(
                "A factor of a product was not relinearised.", expected="2 components", got=most
            )
        if len(set(map(id, cts))) < 2 * number:
            return self.policy.products(lefts, rights)
        if number > 1 and _are_twins(lefts) and _are_twins(rights):
            return self.policy.equal_products(lefts[0], rights[0], number)
        key = tuple([(ct.errors, ct.bound, ct.scale, ct.components) for ct in cts])
        if number > 1 and key.count(key[0]) >= number and key == key[:1] * number + key[-1:] * number:
            return self.policy.equal_products(lefts[0], rights[0], number)
        found = self._sums.get(key)
        if found is None:
            if len(self._sums) >= MAX_SUMS:
                self._sums.clear()
            found = self._sums[key] = self.policy.products(lefts, rights)
        return found

    def _accumulator(
        self,
        accumulator: Ct | None,
        components: int,
        limbs: int,
        scale: Scale,
        bound: float,
        errors: SlotErrors,
    ) -> Ct:
        """A new handle for a sum, or the given one grown by it."""
        if accumulator is None:
            return self.make(limbs, scale, bound, errors, components, None)
        if accumulator.components != components:
            raise MismatchError(
                "The accumulator has another number of components than the sum.",
                expected=f"{components} components",
                got=accumulator.components,
            )
        if accumulator.limbs != limbs:
            raise LevelError(
                "The accumulator has another number of limbs than the sum.",
                expected=f"{limbs} limbs",
                got=accumulator.limbs,
            )
        self.policy.check_same(accumulator.scale, scale)
        accumulator.bound += bound
        accumulator.errors = accumulator.errors.plus_distinct(errors)
        self.check_room(limbs, scale, accumulator.bound, accumulator.noise)
        return accumulator

    def relinearise(self, ct: Ct) -> Ct:
        """Three components to two. Key: relinearisation. A ciphertext of two components is returned as it is."""
        if ct.components == 2:
            return ct
        result = self._relinearised(ct)
        result.data = self._relinearise_data(ct.data, ct.limbs)
        return result

    def _relinearised(self, ct: Ct, rescale: bool = False) -> Ct:
        """The handle of a relinearised ciphertext, everything but its data; with `rescale` as it is before the division
        that it is rounded by.
        """
        limbs, place = ct.limbs, (ct.limbs, ct.scale)
        self._use_relinearisation_key(limbs)
        self.costs.relinearise(self.counts, limbs, rescale)
        self.ledger.touch(self.costs.switch_bytes(limbs))
        errors = self.policy.key_switched(ct.errors, place, None if rescale else place)
        return self.make(limbs, ct.scale, ct.bound, errors, 2, None)


def _are_twins(cts: Sequence[Ct]) -> bool:
    """Whether ciphertexts share their properties, as `Ct.twins` do: objects are compared, not what they hold."""
    first = cts[0]
    errors, bound, scale, components = first.errors, first.bound, first.scale, first.components
    for ct in cts:
        if ct.errors is not errors or ct.bound is not bound or ct.scale is not scale:
            return False
        if ct.components != components:
            return False
    return True
