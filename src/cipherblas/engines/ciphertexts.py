"""Calls on ciphertexts and plaintexts: what each makes, costs and holds while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from cipherblas.crypto.params import factor_words
from cipherblas.engines.handles import (
    Addend,
    Ciphertext,
    Factor,
    Key,
    Message,
    Signed,
    Term,
    Words,
    largest,
)
from cipherblas.engines.operations import Shape, like, operation
from cipherblas.rlwe.costs import Costs
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import Ring


def at_limbs(x: Any, limbs: int) -> Shape:
    """The shape of a ciphertext at so many limbs."""
    return (x.shape[0], limbs, x.shape[2])


def longer(_: Any, x: Any, y: Any) -> Shape:
    """The shape of a sum: a missing component is 0."""
    return (max(x.shape[0], y.shape[0]), *x.shape[1:])


def _add_plain(costs: Costs, counts: Counts, x: Any, plaintext: Any) -> None:
    counts.adds += 1


def _scaled_sums(costs: Costs, counts: Counts, sums: Any) -> None:
    for cts, _, constant in sums:
        components, limbs, _ = cts[0].shape
        costs.scaled_sum(counts, len(cts), components, limbs, bool(constant))


def _integer_sums(costs: Costs, counts: Counts, integers: Any, cts: Any, accumulators: Any) -> None:
    (m, k), (components, limbs, _) = integers.shape, cts[0].shape
    costs.integer_sums(counts, m, k, components, limbs, largest(integers))


def _weighted_sums(costs: Costs, counts: Counts, weights: Any, terms: Any, cts: Any) -> None:
    for group in terms:
        costs.multiply_plain_sum(counts, len(group), cts[0].shape[1])


def _polynomial_sums(costs: Costs, counts: Counts, polynomials: Any, cts: Any) -> None:
    outputs, terms, count = polynomials.shape
    costs.polynomial_sums(counts, outputs, terms, cts[0].shape[1], count)


def _relinearised_sums(costs: Costs, counts: Counts, lefts: Any, rights: Any, key: Any, factor: int) -> None:
    limbs = lefts[0][0].shape[1]
    costs.relinearised_sums(counts, len(lefts), len(rights), len(lefts[0]), limbs, factor != 1)


def _multiply_rescale(
    costs: Costs,
    counts: Counts,
    x: Any,
    y: Any,
    key: Any,
    factor: int,
    added: Any,
    added_factor: int,
    constant: int,
    left_factor: int,
) -> None:
    _scaled_left(costs, counts, x, left_factor)
    costs.multiply_rescale(counts, x.shape[1], factor != 1, int(added is not None), bool(constant))


def _multiply_relinearise(costs: Costs, counts: Counts, x: Any, y: Any, key: Any, left_factor: int) -> None:
    _scaled_left(costs, counts, x, left_factor)
    costs.multiply_relinearise(counts, x.shape[1])


def _scaled_left(costs: Costs, counts: Counts, x: Any, factor: int) -> None:
    if factor != 1:
        costs.multiply_scalar(counts, *x.shape[:2])


def _giant_steps(
    costs: Costs,
    counts: Counts,
    sources: Any,
    babies: Any,
    giants: Any,
    keys: Any,
    plaintexts: Any,
    repeats: int,
) -> None:
    components, limbs, _ = sources[0].shape
    keyed = [key >= 0 for _, key in babies]
    sums = [(len(terms), sum(not keyed[baby] for baby, _ in terms)) for _, _, terms in giants]
    rotated = sum(key >= 0 for _, key, _ in giants)
    for _ in sources:
        counts.rotations += sum(keyed) + rotated
        costs.of_components(components).giant_steps(
            *(counts, limbs), babies=(len(babies), sum(keyed)), sums=sums, giants=rotated, repeats=repeats
        )


def _coefficient_parts(
    costs: Costs, counts: Counts, sources: Any, level: int, parts: int, outputs: int, keys: Any
) -> None:
    for x in sources:
        counts.rotations += parts - 1
        costs.coefficient_parts(counts, x.shape[1], parts, outputs)


def _sums_of_transforms(_: Ring, sources: Any, outputs: int, rescale: bool, **others: Any) -> list[Shape]:
    return [at_limbs(sources[0], sources[0].shape[1] - rescale)] * outputs


def _linear_transform(
    costs: Costs,
    counts: Counts,
    sources: Any,
    terms: Sequence[Term],
    keys: Any,
    plaintexts: Any,
    outputs: int,
    rescale: bool,
    order: str,
) -> None:
    components, limbs, _ = sources[0].shape
    switched = [term for term in terms if term[3] >= 0]
    counts.rotations += sum(element != 1 for _, _, element, _, _ in switched)
    costs.of_components(components).linear_transform(
        *(counts, limbs),
        decomposed=len({source for _, source, _, _, _ in switched}),
        switched=len(switched),
        unswitched=len(terms) - len(switched),
        outputs=outputs,
        rescale=rescale,
        masks=sum(plaintext >= 0 for *_, plaintext in terms),
        masks_in_place=sum(plaintext >= 0 > key for *_, key, plaintext in terms),
    )


class OnCiphertexts(Protocol):
    """Ciphertexts, and the plaintexts that they meet."""

    # ---- what enters and leaves ----

    @operation(made=lambda _, words: words.shape, shares=("words",))
    def upload(self, words: Words) -> Ciphertext:
        """Upload a ciphertext, uint64 (components, limbs, N). The array must not change while the handle lives."""
        ...

    @operation(made=lambda _, ciphertext: ciphertext.shape, shares=("ciphertext",))
    def download(self, ciphertext: Ciphertext) -> Words:
        """The words of a ciphertext, uint64 (components, limbs, N)."""
        ...

    @operation(made=lambda _, words: words.shape, shares=("words",))
    def upload_key(self, words: Words) -> Key:
        """A switching key as `EvaluationKeys` hold it: uint64 of `key_shape`, Montgomery form, packed."""
        ...

    @operation(made=lambda _, coefficients: coefficients.shape, shares=("coefficients",))
    def upload_message(self, coefficients: Signed) -> Message:
        """The coefficients of a plaintext, int64 (N,)."""
        ...

    # ---- plaintexts ----

    @operation(
        made=lambda ring, message, limbs: (limbs, ring.n),
        cost=lambda costs, counts, message, limbs: costs.encode(counts, 1, limbs),
    )
    def addend(self, message: Message, limbs: int) -> Addend:
        """A plaintext to be added to ciphertexts of so many limbs."""
        ...

    @operation(
        made=lambda ring, message, limbs: (factor_words(ring.n, ring.q[:limbs]),),
        cost=lambda costs, counts, message, limbs: costs.encode(counts, 1, limbs),
    )
    def factor(self, message: Message, limbs: int) -> Factor:
        """A plaintext to multiply ciphertexts of so many limbs by."""
        ...

    @operation(made=lambda _, addend: (2, *addend.shape))
    def encryption(self, addend: Addend) -> Ciphertext:
        """The ciphertext (m, 0) of a plaintext m, which hides nothing."""
        ...

    @operation()
    def weights_shape(self, limbs: int, terms: int, ciphertexts: int) -> tuple[int, ...]:
        """Shape of the uint64 array that holds the weights of one sum, for `weighted_sums` of so many ciphertexts.

        Weights can be more than any memory: they are arrays of the host (mapped ones, where memory is short), in an
        order that the engine chooses, and are kept from run to run.
        """
        ...

    @operation()
    def write_weights(self, weights: Words, first: int, messages: Sequence[Message]) -> None:
        """Write the factors of the terms from `first` on into an array of `weights_shape`."""
        ...

    # ---- sums and products ----

    @operation(made=lambda _, ciphertext, limbs: at_limbs(ciphertext, limbs), shares=("ciphertext",))
    def drop(self, ciphertext: Ciphertext, limbs: int) -> Ciphertext:
        """The first limbs; it may be a view."""
        ...

    @operation(made=lambda _, x, chosen: (len(chosen), *x.shape[1:]))
    def components(self, x: Ciphertext, chosen: Sequence[int]) -> Ciphertext:
        """Some components in this order, by their numbers; -1 stands for 0. It may be a view."""
        ...

    @operation(made=longer, cost=lambda costs, counts, x, y: costs.add(counts, *longer(None, x, y)[:2]))
    def add(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """x + y; equal limbs, a missing component is 0."""
        ...

    @operation(made=longer, cost=lambda costs, counts, x, y: costs.add(counts, *longer(None, x, y)[:2]))
    def sub(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """x - y; equal limbs, a missing component is 0."""
        ...

    @operation(made=like)
    def neg(self, x: Ciphertext) -> Ciphertext:
        """-x"""
        ...

    @operation(made=like, cost=_add_plain)
    def add_plain(self, x: Ciphertext, plaintext: Addend) -> Ciphertext:
        """x + (plaintext, 0, …)"""
        ...

    @operation(made=like, cost=lambda costs, counts, x, value: costs.multiply_scalar(counts, *x.shape[:2]))
    def multiply_scalar(self, x: Ciphertext, value: int) -> Ciphertext:
        """x times an integer of any size."""
        ...

    @operation(made=lambda _, sums: [cts[0].shape for cts, _, _ in sums], cost=_scaled_sums)
    def scaled_sums(
        self, sums: Sequence[tuple[Sequence[Ciphertext], Sequence[int], int]]
    ) -> list[Ciphertext]:
        """Σ_t ct_t·value_t + (constant, 0, …) of each (ciphertexts, values, constant): integers of any size; the terms
        of a sum have equal limbs and components."""
        ...

    @operation(
        made=lambda _, integers, cts, accumulators: [cts[0].shape] * len(integers),
        cost=_integer_sums,
        memory=lambda costs, integers, cts, accumulators: costs.integer_sum_bytes(*integers.shape),
    )
    def integer_sums(
        self, integers: NDArray[Any], cts: Sequence[Ciphertext], accumulators: Sequence[Ciphertext] | None
    ) -> list[Ciphertext]:
        """accumulator_i + Σ_t integers[i, t]·ct_t for every row i, exactly; the accumulators may be overwritten.

        Args:
            integers: of the host, of an integer type or float64.
            cts: of equal limbs and components.
            accumulators: earlier results of this call; None: zeros.
        """
        ...

    @operation(
        made=lambda _, lefts, rights, accumulator: (3, *lefts[0].shape[1:]),
        cost=lambda costs, counts, lefts, rights, accumulator: costs.multiply_sum(
            counts, len(lefts), lefts[0].shape[1]
        ),
        shares=("accumulator",),
    )
    def multiply_sum(
        self, lefts: Sequence[Ciphertext], rights: Sequence[Ciphertext], accumulator: Ciphertext | None
    ) -> Ciphertext:
        """accumulator + Σ left_t·right_t: two components each, three of the sum; the accumulator may be overwritten."""
        ...

    @operation(
        made=lambda _, plaintexts, cts, accumulator: cts[0].shape,
        cost=lambda costs, counts, plaintexts, cts, accumulator: costs.multiply_plain_sum(
            counts, len(cts), cts[0].shape[1]
        ),
        shares=("accumulator",),
    )
    def multiply_plain_sum(
        self, plaintexts: Sequence[Factor], cts: Sequence[Ciphertext], accumulator: Ciphertext | None
    ) -> Ciphertext:
        """accumulator + Σ plaintext_t·ciphertext_t, two components; the accumulator may be overwritten."""
        ...

    @operation(made=lambda _, weights, terms, cts: [cts[0].shape] * len(terms), cost=_weighted_sums)
    def weighted_sums(
        self, weights: Sequence[Words], terms: Sequence[Sequence[int]], cts: Sequence[Ciphertext]
    ) -> list[Ciphertext]:
        """Σ_t weight_t·ciphertext_{terms[t]} for each array of weights and its list of terms; two components."""
        ...

    @operation(
        made=lambda _, polynomials, cts: [cts[0].shape] * len(polynomials),
        cost=_polynomial_sums,
        memory=lambda costs, polynomials, cts: costs.polynomial_bytes(*polynomials.shape),
    )
    def polynomial_sums(self, polynomials: Signed, cts: Sequence[Ciphertext]) -> list[Ciphertext]:
        """Σ_t polynomial_t·ciphertext_t for every list of polynomials; two components.

        Args:
            polynomials: of the host, int64 (outputs, terms, count): coefficients from the constant one on, count a
                power of two from 8 to N.
        """
        ...

    @operation(
        made=lambda _, x: at_limbs(x, x.shape[1] - 1),
        cost=lambda costs, counts, x: costs.rescale(counts, *x.shape[:2]),
    )
    def rescale(self, x: Ciphertext) -> Ciphertext:
        """Division by the last limb, which is dropped: (x - [x]_q)/q."""
        ...

    # ---- key switching ----

    @operation(
        made=lambda _, x, key, rescale: (2, x.shape[1] - rescale, x.shape[2]),
        cost=lambda costs, counts, x, key, rescale: costs.relinearise(counts, x.shape[1], rescale),
        memory=lambda costs, x, **_: costs.switch_bytes(x.shape[1]),
    )
    def relinearise(self, x: Ciphertext, key: Key, rescale: bool = False) -> Ciphertext:
        """(b, a, c2) → (b, a) with the key of s²; with `rescale` divided by P·q, q the last limb, instead of P."""
        ...

    @operation(
        made=lambda _, x, **others: x.shape,
        cost=_multiply_relinearise,
        memory=lambda costs, x, **_: costs.switch_bytes(x.shape[1]),
    )
    def multiply_relinearise(
        self, x: Ciphertext, y: Ciphertext, key: Key, left_factor: int = 1
    ) -> Ciphertext:
        """`relinearise` of left_factor·x·y, an integer of any size."""
        ...

    @operation(
        made=lambda _, lefts, rights, **others: [lefts[0][0].shape] * (len(lefts) * len(rights)),
        cost=_relinearised_sums,
        memory=lambda costs, lefts, rights, **_: costs.sums_bytes(
            len(lefts), len(rights), lefts[0][0].shape[1]
        ),
    )
    def relinearised_sums(
        self,
        lefts: Sequence[Sequence[Ciphertext]],
        rights: Sequence[Sequence[Ciphertext]],
        key: Key,
        factor: int,
    ) -> list[Ciphertext]:
        """`relinearise` of `multiply_sum` of each list of left factors and each list of right ones, times an integer:
        of the first list of left factors with all lists of right ones, then of the second. All are of one length."""
        ...

    @operation(
        made=lambda _, x, **others: at_limbs(x, x.shape[1] - 1),
        cost=_multiply_rescale,
        memory=lambda costs, x, **_: costs.switch_bytes(x.shape[1]),
    )
    def multiply_rescale(
        self,
        x: Ciphertext,
        y: Ciphertext,
        key: Key,
        factor: int,
        added: Ciphertext | None,
        added_factor: int,
        constant: int,
        left_factor: int = 1,
    ) -> Ciphertext:
        """`relinearise`, with `rescale`, of left_factor·factor·x·y + added_factor·(added, 0) + (constant, 0, 0):
        integers of any size, two components and equal limbs of x, y and what is added. Costs are those of scaling x by
        the first of them, and the product by the second."""
        ...

    @operation(
        made=like,
        cost=lambda costs, counts, x, key: costs.switch(counts, x.shape[1]),
        memory=lambda costs, x, **_: costs.switch_bytes(x.shape[1]),
    )
    def switch(self, x: Ciphertext, key: Key) -> Ciphertext:
        """(b, a) under the secret that the key switches from, under the one that it switches to."""
        ...

    @operation(
        made=lambda _, x, limbs: at_limbs(x, limbs),
        cost=lambda costs, counts, x, limbs: costs.of_components(x.shape[0]).raised(counts, limbs),
    )
    def raised(self, x: Ciphertext, limbs: int) -> Ciphertext:
        """ModRaise: the residues modulo q_0 of a ciphertext of one limb, centred, modulo the first `limbs` primes."""
        ...

    @operation(
        made=lambda ring, message, limbs, repeats: (
            factor_words(ring.n, (*ring.q[:limbs], *ring.p)) // repeats,
        ),
        cost=lambda costs, counts, message, limbs, repeats: costs.encode_extended(counts, 1, limbs),
    )
    def extended_factor(self, message: Message, limbs: int, repeats: int) -> Factor:
        """A plaintext that `giant_steps` multiplies ciphertexts of so many limbs by: modulo Q·P.

        Args:
            repeats: r, where it is a polynomial in X^r: N/r of its residues modulo a prime say all. A power of two, not
                2 nor 4.
        """
        ...

    @operation(
        made=lambda _, sources, **others: [at_limbs(x, x.shape[1] - 1) for x in sources],
        cost=_giant_steps,
        memory=lambda costs, sources, giants, **_: (
            len(sources) * costs.giant_bytes(len(giants), sources[0].shape[1])
        ),
    )
    def giant_steps(
        self,
        sources: Sequence[Ciphertext],
        babies: Sequence[tuple[int, int]],
        giants: Sequence[tuple[int, int, Sequence[tuple[int, int]]]],
        keys: Sequence[Key],
        plaintexts: Sequence[Factor],
        repeats: int,
    ) -> list[Ciphertext]:
        """Of each source Σ_g automorphism_g(Σ_b plaintext·automorphism_b(source)), divided by the last limb in the same
        ModDown. Of an inner sum what the key switch decomposes is divided by P before, and nothing else.

        Args:
            sources: as of `linear_transform`, and so are the keys.
            babies: Galois element and number of its key, or -1 for the element 1; one of them at least has a key.
            giants: the same, and the terms: numbers of a baby step and of a plaintext.
            plaintexts: of `extended_factor`, for the limbs of the sources.
            repeats: of the plaintexts.
        """
        ...

    @operation(
        made=lambda _, sources, outputs, **others: [x.shape for x in sources for _ in range(outputs)],
        cost=_coefficient_parts,
        memory=lambda costs, sources, outputs, **_: (
            len(sources) * costs.giant_bytes(outputs, sources[0].shape[1])
        ),
    )
    def coefficient_parts(
        self, sources: Sequence[Ciphertext], level: int, parts: int, outputs: int, keys: Sequence[Key]
    ) -> list[Ciphertext]:
        """Of each source, a polynomial in Y = X^(2^level), its coefficients of Y^(b + parts·i) as those of Y^(parts·i),
        times `parts`: for b below `outputs`, one after the other. With σ_k the product of X → X^(1 + N/2^(level + j))
        over the binary digits j of k that are 1, part b is Σ_k σ_k(Y^-b·source), divided by P once.

        Source: Angel, Chen, Laine, Setty, "PIR with compressed queries and amortized query processing" (2018).

        Args:
            sources: two components and equal limbs.
            level: at most log2(N) - 1 - log2(parts).
            parts: 2, 4 or 8.
            outputs: at most `parts`.
            keys: those of σ_1, σ_2, …, parts - 1 of them.
        """
        ...

    @operation(
        made=_sums_of_transforms,
        cost=_linear_transform,
        memory=lambda costs, sources, outputs, **_: costs.transform_bytes(
            len(sources), outputs, sources[0].shape[1]
        ),
    )
    def linear_transform(
        self,
        sources: Sequence[Ciphertext],
        terms: Sequence[Term],
        keys: Sequence[Key],
        plaintexts: Sequence[Message],
        outputs: int,
        rescale: bool,
        order: str,
    ) -> list[Ciphertext]:
        """Sums of plaintext·automorphism(source), with one division by P per output.

        A source's a part is cut into digits, each the centred representative modulo its primes; the automorphism of a
        digit is multiplied by the digit's key, and P times the automorphism of the b part is added. The sum of all
        terms is divided by P, and with `rescale` by P·q, q the last limb, at once. All terms of an output have
        plaintexts, or none has; an output without terms is 0.

        Several messages may share their a part: a ciphertext is (b_1, …, b_r, a) then, r odd, and so are outputs. Each
        b_i takes part as b does, and the digits of a are multiplied by a key of r + 1 components.

        Args:
            sources: two components, or any even number that all have, and equal limbs.
            terms: as `Term` has them.
            keys: made for at least as many limbs as the sources have; with more than two components, each two of them
                as an ordinary key, ((r + 1)/2, *key_shape).
            plaintexts: what terms are multiplied by.
            outputs: number of sums.
            rescale: outputs have one limb less.
            order: "limb" or "rotation", the loop to keep outside; results are equal.
        """
        ...

    @operation(
        made=lambda ring, sources, **others: at_limbs(sources[0], sources[0].shape[1] + len(ring.p)),
        cost=lambda costs, counts, sources, terms, keys, plaintexts: _linear_transform(
            costs, counts, sources, terms, keys, plaintexts, 0, False, ""
        ),
        memory=lambda costs, sources, **_: costs.transform_bytes(len(sources), 0, sources[0].shape[1]),
    )
    def transform_sum(
        self,
        sources: Sequence[Ciphertext],
        terms: Sequence[Term],
        keys: Sequence[Key],
        plaintexts: Sequence[Message],
    ) -> Ciphertext:
        """One output of `linear_transform`, of two components, that is divided by nothing: modulo Q·P, the special
        limbs after the others. Ranks have a part of its terms each; `divide_sums` does the rest."""
        ...

    @operation(
        made=lambda ring, sums: at_limbs(sums[0], sums[0].shape[1] - len(ring.p) - 1),
        cost=lambda costs, counts, sums: costs.divide_sums(
            counts, sums[0].shape[1] - costs.special_limbs, len(sums)
        ),
        memory=lambda costs, sums: costs.transform_bytes(1, 1, sums[0].shape[1]),
    )
    def divide_sums(self, sums: Sequence[Ciphertext]) -> Ciphertext:
        """The sum of results of `transform_sum`, divided by P·q, q the last limb: what `linear_transform` with
        `rescale` makes of all their terms together, bit for bit."""
        ...
