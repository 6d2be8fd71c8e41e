"""Engine calls as programs of an element: Algorithm 3 with the limbs outside, divisions, products and sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

from cipherblas.crypto.digits import digit_ranges
from cipherblas_hardware.accelerator.assembler import (
    COEFFICIENTS,
    FIRST,
    SECOND,
    STREAMED,
    Assembler,
    Conversion,
    Slot,
)
from cipherblas_hardware.accelerator.isa import Arithmetic, Words

Term: TypeAlias = tuple[int, int, int, int, int]  # output, source, Galois element, key or -1, plaintext or -1
Pair: TypeAlias = tuple[Slot, Slot]  # of both components
LimbKey: TypeAlias = Sequence[
    Sequence[Sequence[Words]]
]  # residues of each digit, component and limb modulo Q·P
BANKS_OF_TOTALS = (SECOND, FIRST)  # by component; DiagIP adds products of sums that lie in the other bank
BANKS_OF_SUMS = (FIRST, SECOND)


class Lowering:
    """The passes of an engine's calls, one program each.

    Args:
        assembler: of the program.
        special: limbs of P, the last of the assembler's primes.
        alpha, digit_limbs: see `digit_ranges`.
    """

    def __init__(
        self, assembler: Assembler, special: int, alpha: int, digit_limbs: tuple[int, ...] | None = None
    ) -> None:
        self._to = assembler
        self._primes, self._alpha, self._digit_limbs = assembler.primes, alpha, digit_limbs
        first = len(assembler.primes) - special
        self._special = list(range(first, len(assembler.primes)))
        self._p = prod(self._primes[i] for i in self._special)
        self._deferred: list[Callable[[], None]] = []

    # ---- linear transforms, key switches ----

    def linear_transform(
        self,
        sources: Sequence[Words],
        terms: Sequence[Term],
        keys: Sequence[LimbKey],
        plaintexts: Sequence[Sequence[Words]],
        outputs: int,
        rescale: bool,
    ) -> None:
        """Sums of diagonals times rotated ciphertexts, as `engines.protocol` has them.

        Args:
            sources: residues, (2, limbs, N).
            terms: of the sums.
            keys: with all limbs modulo Q·P of the context; those of P are the last.
            plaintexts: residues of each limb modulo Q·P.
            outputs: number of sums.
            rescale: outputs have one limb less.
        """
        limbs = sources[0].shape[1]
        switched = sorted({source for _, source, _, key, _ in terms if key >= 0})
        extended = {output for output, _, _, key, _ in terms if key >= 0}  # sums modulo Q·P; others modulo Q
        digits = {source: self._decomposed(source, sources[source][1], limbs) for source in switched}

        def sums(limb: int) -> list[Pair]:
            own = self._limbs_of(sources, limb) if limb < limbs else None
            operands = {source: self._mod_up(limb, source, digits[source], own) for source in switched}
            totals = [self._totals(output) for output in range(outputs)]
            for output, total in enumerate(totals):
                mine = [term for term in terms if term[0] == output and (term[3] >= 0 or own)]
                for number, (_, source, galois, key, plaintext) in enumerate(mine):
                    if plaintext < 0:
                        places, first = total, number == 0
                    else:
                        diagonal = self._to.fetch("diagonal", STREAMED, plaintexts[plaintext][limb])
                        places, first = self._sums(), True
                    if key < 0:
                        assert own is not None
                        for component, place in enumerate(places):
                            times = self._p % self._primes[limb] if output in extended else 1
                            self._add("others", limb, own(source, component), place, first, times=times)
                    else:
                        kept = (lambda c: own(source, c) if c == 0 else None) if own else None  # noqa: B023
                        self._key_products(limb, operands[source], keys[key], places, first, galois, kept)
                    if plaintext >= 0:
                        self._diagonal_products(limb, places, total, diagonal, number == 0)
            self._settle()
            return totals

        used = sorted({output for output, *_ in terms})
        self._divided(sums, {output: output in extended for output in used}, limbs, int(rescale))

    def relinearise(self, x: Words, key: LimbKey, rescale: bool) -> None:
        """(b, a, c2) with the key of s², as `engines.protocol` has it; x: residues, (3, limbs, N)."""
        limbs = x.shape[1]
        digits = self._decomposed(1, x[2], limbs)

        def sums(limb: int) -> list[Pair]:
            own = self._limbs_of([x, x[1:]], limb) if limb < limbs else None
            operands = self._mod_up(limb, 1, digits, own)
            total = self._totals(0)
            kept = (lambda component: own(0, component)) if own else None
            self._key_products(limb, operands, key, total, True, 1, kept)
            return [total]

        self._divided(sums, {0: True}, limbs, int(rescale))

    def _decomposed(self, source: int, a: Words, limbs: int) -> list[Conversion]:
        """Decomp: coefficients of each digit."""
        found = []
        for digit, ids in enumerate(digit_ranges(limbs, self._alpha, self._digit_limbs)):
            conversion = Conversion(ids, self._primes)
            for number, i in enumerate(ids):
                incoming = self._to.fetch("incoming", COEFFICIENTS, a[i])
                y = self._to.slot(("coefficients", source, i), COEFFICIENTS, STREAMED)
                conversion.slots.append(y)
                self._to.inverse(incoming, y, i, conversion.factor(number), conversion.shift)
            self._to.count_overflow(conversion, self._to.slot(("overflow", source, digit), SECOND))
            found.append(conversion)
        return found

    def _limbs_of(self, sources: Sequence[Words], limb: int) -> Callable[[int, int], Slot]:
        """The slots of the input's own limbs, which stream in where they are used first."""
        found: dict[tuple[int, int], Slot] = {}

        def own(source: int, component: int) -> Slot:
            if (source, component) not in found:
                name = f"own {source} {component}"
                found[source, component] = self._to.fetch(name, STREAMED, sources[source][component][limb])
            return found[source, component]

        return own

    def _mod_up(
        self, limb: int, source: int, digits: Sequence[Conversion], own: Callable[[int, int], Slot] | None
    ) -> list[tuple[int, Slot]]:
        """The digits modulo the prime of a limb: number and slot of each, that which has the limb itself at the end."""
        found, last = [], []
        for number, conversion in enumerate(digits):
            if limb in conversion.ids:
                assert own is not None
                last.append((number, own(source, 1)))
            else:
                slot = self._to.slot(("digit", source, number), COEFFICIENTS, STREAMED)
                self._to.forward(self._to.convert(conversion, limb), slot, limb)
                found.append((number, slot))
        return found + last

    def _totals(self, output: int) -> Pair:
        first, second = (
            self._to.slot(("total", output, component), bank)
            for component, bank in enumerate(BANKS_OF_TOTALS)
        )
        return first, second

    def _sums(self) -> Pair:
        first, second = (
            self._to.slot(("sum", component), bank) for component, bank in enumerate(BANKS_OF_SUMS)
        )
        return first, second

    def _add(self, kind: str, limb: int, a: Slot, place: Slot, first: bool, **factor: Any) -> None:
        """Add a product to a sum, of which it is the first term or not."""
        if first:
            self._to.step(kind, Arithmetic.MUL, limb, a, place, **factor)
            self._settle()
        else:
            self._to.step(kind, Arithmetic.MAC, limb, a, place, c=place, **factor)

    def _key_products(
        self,
        limb: int,
        operands: Sequence[tuple[int, Slot]],
        key: LimbKey,
        places: Pair,
        first: bool,
        galois: int,
        kept: Callable[[int], Slot | None] | None,
    ) -> None:
        """KeyIP: products of rotated digits with their keys, and P times components that are kept."""
        rotated = self._to.rotated(galois)
        place_in_key = limb - len(self._primes) if limb in self._special else limb
        for component, place in enumerate(places):
            for turn, (number, digit) in enumerate(operands):
                words = key[number][component][place_in_key]
                self._add("keys", limb, digit, place, first and turn == 0, stream=words, **rotated)
            mine = kept(component) if kept else None
            if mine is not None:
                times = self._p % self._primes[limb]
                self._add("others", limb, mine, place, False, times=times, **rotated)

    def _diagonal_products(self, limb: int, sums: Pair, total: Pair, diagonal: Slot, first: bool) -> None:
        """DiagIP. The second product waits for a pass that does not read the bank of its sum: the next one that begins
        a sum."""
        self._add("diagonals", limb, sums[0], total[0], first, b=diagonal)
        self._deferred.append(lambda: self._add("diagonals", limb, sums[1], total[1], first, b=diagonal))

    def _settle(self) -> None:
        """Do what was put off."""
        while self._deferred:
            self._deferred.pop()()

    # ---- divisions ----

    def rescale(self, x: Words) -> None:
        """Division by the last limb, of any number of components; x: residues, (components, limbs, N)."""
        last = x.shape[1] - 1
        dropped = [Conversion([last], self._primes) for _ in x]
        for component, conversion in enumerate(dropped):
            source = self._to.fetch("incoming", COEFFICIENTS, x[component][last])
            conversion.slots.append(self._to.slot(("dropped", component, 0), COEFFICIENTS, STREAMED))
            self._drop(conversion, 0, source)
        for limb in range(last):
            for component, conversion in enumerate(dropped):
                total = self._to.fetch("whole", COEFFICIENTS, x[component][limb])
                self._divide(conversion, limb, total, 0, component)

    def _divided(
        self, sums: Callable[[int], list[Pair]], outputs: dict[int, bool], limbs: int, merged: int
    ) -> None:
        """ModDown: sums at all limbs, divided by the last limb if that is merged, and by P.

        Args:
            sums: those of all outputs at a limb.
            outputs: whether each is a sum modulo Q·P.
            limbs: of Q.
            merged: limbs of Q to divide by, 0 or 1.
        """
        last = list(range(limbs - merged, limbs))
        halves = {
            (output, component): Conversion([*last, *(self._special if extended else [])], self._primes)
            for output, extended in outputs.items()
            for component in range(2)
        }
        for limb in [*last, *(self._special if any(outputs.values()) else [])]:
            totals = sums(limb)
            for (output, component), conversion in halves.items():
                if limb in conversion.ids:
                    number = conversion.ids.index(limb)
                    other = (STREAMED, SECOND)[component]  # neither has the overflow that is counted of it
                    y = self._to.slot(("dropped", output, component, number), COEFFICIENTS, other)
                    conversion.slots.append(y)
                    self._drop(conversion, number, totals[output][component])
        for (output, component), conversion in halves.items():
            if conversion.ids:
                bank = BANKS_OF_TOTALS[component]
                self._to.count_overflow(conversion, self._to.slot(("dropped", output, component), bank))
        for limb in range(limbs - merged):
            totals = sums(limb)
            for (output, component), conversion in halves.items():
                total = totals[output][component]
                if conversion.ids:
                    self._divide(conversion, limb, total, output, component)
                else:
                    self._to.store(total, output, component, limb)

    def _drop(self, conversion: Conversion, number: int, source: Slot) -> None:
        """Coefficients of a limb that is divided by, of -x."""
        limb = conversion.ids[number]
        factor = -conversion.factor(number) % self._primes[limb]
        self._to.inverse(source, conversion.slots[number], limb, factor, conversion.shift)

    def _divide(self, conversion: Conversion, limb: int, total: Slot, output: int, component: int) -> None:
        """(x - [x]_D)/D modulo the prime of a limb, which leaves."""
        bank = BANKS_OF_SUMS[component % 2]
        converted = self._to.slot(("converted", component % 2), bank)
        self._to.forward(self._to.convert(conversion, limb), converted, limb)
        target = total if total.bank != COEFFICIENTS else self._to.slot(("quotient", component % 2), bank)
        times = pow(conversion.product, -1, self._primes[limb])
        self._to.step("divide", Arithmetic.ADDMUL, limb, converted, target, c=total, times=times)
        self._to.store(target, output, component, limb)

    # ---- products and sums ----

    def multiply_sum(
        self, lefts: Sequence[Words], rights: Sequence[Words], accumulator: Words | None
    ) -> None:
        """accumulator + Σ left·right: two components each, three of the sum."""
        pairs = [((0, 0),), ((0, 1), (1, 0)), ((1, 1),)]  # components whose products make each of the sum
        for limb in range(lefts[0].shape[1]):
            own = self._limbs_of(lefts, limb)
            for component, factors in enumerate(pairs):
                total = self._to.slot(("product", component), FIRST if component % 2 else SECOND)
                start = None if accumulator is None else accumulator[component][limb]
                added = None if start is None else self._to.fetch("added", COEFFICIENTS, start)
                for number, right in enumerate(rights):
                    for turn, (mine, other) in enumerate(factors):
                        first = number == 0 and turn == 0
                        fields: dict[str, Any] = {"stream": right[other][limb]}
                        if first and added is not None:
                            self._to.step(
                                "products", Arithmetic.MAC, limb, own(number, mine), total, c=added, **fields
                            )
                        else:
                            self._add("products", limb, own(number, mine), total, first, **fields)
                self._to.store(total, 0, component, limb)

    def scaled_sum(self, cts: Sequence[Words], values: Sequence[int], constant: int) -> None:
        """Σ ct·value + (constant, 0, …): integers of any size."""
        components, limbs = cts[0].shape[:2]
        for limb in range(limbs):
            q = self._primes[limb]
            for component in range(components):
                total = self._to.slot(("product", component), FIRST if component % 2 else SECOND)
                for number, (ct, value) in enumerate(zip(cts, values, strict=True)):
                    x = self._to.fetch("scaled", STREAMED, ct[component][limb])
                    fields: dict[str, Any] = {"times": value % q}
                    if number:
                        fields["c"] = total
                    elif constant and component == 0:
                        fields["c"] = constant % q
                    kind = Arithmetic.MAC if "c" in fields else Arithmetic.MUL
                    self._to.step("scaled", kind, limb, x, total, **fields)
                self._to.store(total, 0, component, limb)

    def add(self, x: Words, y: Words) -> None:
        """x + y, of components that both have."""
        for component in range(len(x)):
            for limb in range(x.shape[1]):
                left = self._to.fetch("left", STREAMED, x[component][limb])
                right = self._to.fetch("right", COEFFICIENTS, y[component][limb])
                total = self._to.slot(("product", component), FIRST if component % 2 else SECOND)
                self._to.step("sums", Arithmetic.ADD, limb, left, total, c=right)
                self._to.store(total, 0, component, limb)
