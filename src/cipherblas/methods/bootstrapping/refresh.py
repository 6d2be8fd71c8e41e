"""Bootstrapping: a ciphertext at its last levels becomes one with all working levels.

Slots to coefficients first: the message goes into the coefficients at the lowest limbs (StC); ModRaise reads them
modulo more primes, which adds multiples of q_0; these coefficients go into slots (CtS), where EvalMod takes the
multiples away. The chain of primes has segments, from below: q_0, what StC spends, the working levels, what EvalMod and
what CtS spend.

ModRaise first: the coefficients that the message has are raised, and StC comes last; its segment lies above the working
levels, and a limb below them serves to make messages as small as EvalMod takes them. A slot is a sum of all
coefficients then, with their errors.

EvalMod finds a sine. Of messages far smaller than q_0 it is a line; or else it is left a sine, of messages up to an
eighth of q_0 or a fifth, and a polynomial of it is what is wanted (`period`). Errors of the steps are errors of the
argument, and count 128 times less then, so that all primes are smaller, and so may be the degree of EvalMod.

Sources: Cheon, Han, Kim, Kim and Song, "Bootstrapping for approximate homomorphic encryption" (2018); transforms as in
`embedding`, EvalMod as in `modular_reduction`, sparse secrets as in `Evaluator.raise_modulus`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cipherblas.common.errors import LevelError, MismatchError, ShapeError
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.values import Rows
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.shared import Shared
from cipherblas.evaluators.slots.values import Ct, Plain, Transform
from cipherblas.forms.convert.coefficients import Halves, Packing, RowBundle, bundled_rows
from cipherblas.lang.refreshing import SINE_PERIOD
from cipherblas.methods.bootstrapping.embedding import coefficients_to_slots, slots_to_coefficients
from cipherblas.methods.bootstrapping.modular_reduction import ModularReduction
from cipherblas.rlwe.key_policies import Step, expand
from cipherblas.rlwe.noise import SPARSE_WEIGHT, TAIL, NoiseModel, SlotErrors, slot_tail, tail
from cipherblas.rlwe.rings import Ring

RANGE, DEGREE, DOUBLINGS = 13, 62, 1  # of EvalMod; see `Bootstrapping.failure_bits`
SINE_DEGREES = (56, 60, 62)  # of sines: those between take as many products as the next one
ROUNDING_BITS = 16.5  # of the scale, that errors of a sine take: what its polynomial is off by is less
# log2 of the slots from which on transforms have so many factors.
DOWN_IN_THREE, UP_IN_THREE, UP_IN_FOUR = 15, 9, 15
MIN_RATIO_BITS = (
    9.9  # log2 of q_0 over messages, with which the sine is precise; messages of larger scales are shrunk
)
MAX_DOWN, MAX_UP = 5, 4  # butterflies in a factor, where few slots are held
# Factors of coefficients to slots share what they divide by: those of one alone would be too small to be encoded well.
MIN_HELD, MIN_UP = 16, 2
REFRESH_BATCH = 8  # ciphertexts that `run_all` refreshes at one time
SHARED_BATCH = 4  # groups that share their a part each
SINE_SLACK = 2.0**-3  # by which errors may carry the messages of a sine beyond 1
SINE_RATIO_BITS = math.log2(SINE_PERIOD)  # of q_0, over the scale
SINE_GIANTS = 4  # see `Bootstrapping.giants`: keys are small in the rings of sines
MANY, MANY_BABY_STEPS = 4, (16, 16)  # from so many ciphertexts together on more baby steps are faster


@dataclass(frozen=True)
class Bootstrapping:
    """How ciphertexts are refreshed.

    Attributes:
        down: butterflies in each factor of slots to coefficients, first to last.
        up: the same of coefficients to slots.
        reduction: EvalMod.
        ratio_bits: log2 of q_0 over the largest message.
        baby_steps: of the transforms, down and up: more of them take less time, and more keys, which are small at the
            few limbs of the way down.
        giants: giant steps of a factor of coefficients to slots; one that takes more has twice the baby steps.
        held: slots from the first one on that are refreshed, 0 for all; what others hold is not read.
        repeated: those numbers are repeated in all others.
        spared: limbs at the top that are not used: `up` has so many factors less than the ring has limbs for.
        left: limbs of those that slots to coefficients are given, which `down` has no factors for.
        raised_first: ModRaise comes first, and slots to coefficients last.
        period: messages m become sin(2π·m / period), exactly so; 0: they stay what they are.
    """

    down: tuple[int, ...]
    up: tuple[int, ...]
    reduction: ModularReduction
    ratio_bits: float = 10.0
    baby_steps: tuple[int, int] = (16, 8)
    held: int = 0
    repeated: bool = False
    spared: int = 0
    left: int = 0
    raised_first: bool = False
    period: int = 0
    giants: int = 8

    @property
    def sine(self) -> bool:
        """Whether sines are found."""
        return self.period > 0

    def of_period(self, period: int) -> Bootstrapping:
        """The same for sines of another period."""
        reduction = replace(self.reduction, largest=(1 + SINE_SLACK) / period)
        return replace(self, reduction=reduction, ratio_bits=math.log2(period), period=period)

    def packed(self, held: int, repeated: bool = False) -> Bootstrapping:
        """The same for the first `held` slots alone, a power of two, whatever others hold: smaller transforms, which
        may take fewer limbs. For as many as the ring has slots it is this one itself, as where ModRaise is first."""
        log_held = max(MIN_HELD, held).bit_length() - 1
        down = min(len(self.down), -(-log_held // MAX_DOWN))
        up = min(len(self.up), max(MIN_UP, -(-log_held // MAX_UP)))
        if log_held >= sum(self.up) or self.raised_first:
            return self
        return replace(
            self,
            down=_lowest(log_held, down, whole=False) if self.sine else _shares(log_held, down),
            up=_shares(log_held, up),
            held=1 << log_held,
            repeated=repeated,
            spared=len(self.up) - up,
            left=len(self.down) - down,
        )

    def together(self, count: int) -> Bootstrapping:
        """The same for so many ciphertexts at a time: of many each takes less time, with more keys."""
        return replace(self, baby_steps=MANY_BABY_STEPS) if count >= MANY else self

    @property
    def levels_before(self) -> int:
        """Limbs beyond the first that a ciphertext needs."""
        return 1 if self.raised_first else len(self.down)

    @property
    def limbs_before(self) -> int:
        """Limbs of a ciphertext that it makes use of, where it has so many."""
        return self.levels_before + 1 + self.left

    @property
    def levels_after(self) -> int:
        """Limbs that are spent above those that the result has."""
        last = len(self.down) if self.raised_first else 0
        return len(self.up) + self.reduction.levels + self.spared + last

    def _held(self, ev: Evaluator) -> int:
        return self.held or ev.slots

    def limbs(self, top: int) -> int:
        """Of a ciphertext that was refreshed, or is as fresh, where the ring has `top`.

        Raises:
            LevelError: none would be left to compute with.
        """
        left = top - self.levels_after
        if left <= self.levels_before + 1:
            raise LevelError(
                "The ring has too few limbs for bootstrapping.",
                expected=f"at least {self.levels_after + self.levels_before + 2} limbs",
                got=top,
            )
        return left

    @property
    def failure_bits(self) -> float:
        """-log2 of the probability that a raised coefficient is beyond the range of EvalMod, per coefficient."""
        return self.reduction.failure_bits(self.reduction.range)

    def largest(self, ev: Evaluator) -> float:
        """The largest message at q_0, an integer, which EvalMod tells from the multiples of q_0."""
        return float(ev.params.q[0] * 2.0**-self.ratio_bits)

    def run(
        self,
        ev: Evaluator,
        x: Ct,
        real: bool = True,
        scale: float | None = None,
        largest: float | None = None,
    ) -> Ct:
        """The same slots at the limbs that are left below EvalMod.

        Levels: `levels_before` are needed. Keys: of the rotations of both transforms, conjugation, relinearisation,
        encapsulation.

        Args:
            x: no slot exceeds its bound, those that hold nothing included.
            real: every slot is a real number; imaginary parts are lost. Others take a second EvalMod.
            scale: of the result; by default the usual one.
            largest: message of those that go through the same steps: see `largest_message`.

        Raises:
            LevelError: too few limbs are left.
        """
        before = _before(ev, x)
        down = self.lowered if self.raised_first else self.in_coefficients
        most = ev.message_bound(x) if largest is None else largest
        (y,) = down(ev, [_message(ev, x, most)])  # what is off in a slot stays in it
        (found,) = self._sines(ev, [y], real, scale)
        result = self._joined(ev, found)
        if self.raised_first:
            result = self.last(ev, result, real, y.bound)
        return self._normalised(ev, result, y.scale, *before)

    def run_all(
        self, ev: Evaluator, cts: Sequence[Ct], scale: float | None = None, largest: float | None = None
    ) -> list[Ct]:
        """As `run`, of ciphertexts of real slots. Two by two, one is the imaginary part of the other while slots become
        coefficients and coefficients slots, so that both transforms and ModRaise are done once; and `REFRESH_BATCH` at
        a time, whose transforms read keys and diagonals once. The last one is alone where it is left.

        Args:
            cts: at the same limbs and scale, after the same operations.
            largest: message of them, and of others that go through the same steps: see `largest_message`.

        Raises:
            LevelError: too few limbs are left. MismatchError: they differ.
        """
        down = self.lowered if self.raised_first else self.in_coefficients
        largest = largest_message(ev, cts) if largest is None else largest
        found: list[Ct] = []
        paired = len(cts) // 2 * 2
        for start in range(0, paired, REFRESH_BATCH):
            some = cts[start : min(start + REFRESH_BATCH, paired)]
            zs = down(ev, self._paired(ev, some, largest), largest)
            parts = self._sines(ev, zs, False, scale)
            if self.raised_first:
                pairs = zip(zs, parts, strict=True)
                parts = [self._apart(ev, self._joined(ev, both), z.bound) for z, both in pairs]
            found += [
                self._normalised(ev, part, z.scale, *_before(ev, ct))
                for z, both, own in zip(zs, parts, zip(some[::2], some[1::2], strict=True), strict=True)
                for part, ct in zip(both, own, strict=True)
            ]
        return [*found, *(self.run(ev, ct, True, scale, largest) for ct in cts[paired:])]

    def _paired(self, ev: Evaluator, cts: Sequence[Ct], largest: float) -> list[Ct]:
        """Half as many, one of each two the imaginary part of the other, at the limbs that are read."""
        for ct in cts:
            ev.require_levels(ct, self.levels_before, "bootstrapping")
        messages = [ev.as_message(ev.drop(ct, min(ct.limbs, self.limbs_before))) for ct in cts]
        return [
            ev.bounded(ev.add(x, ev.times_monomial(y, ev.n // 2)), math.sqrt(2) * largest)
            for x, y in zip(messages[::2], messages[1::2], strict=True)
        ]

    def run_shared(
        self, ev: Evaluator, shared: Shared, cts: Sequence[Ct], scale: float | None = None
    ) -> list[Ct]:
        """As `run_all`, of ciphertexts of real slots, of which r pairs at a time share their a part from slots to
        coefficients to coefficients to slots: one decomposition serves all of them, and r + 1 products with keys take
        the place of 2·r. EvalMod is done one by one. What pairs are left share one as well where they are more than
        half of r, and are refreshed as by `run_all` where they are not.

        Keys: relinearisation of `ev`; those of `shared.request` for the rest; those of `run_all` for pairs that are
        left.

        Args:
            cts: at the same limbs and scale, after the same operations, of equal bounds; an even number.

        Raises:
            ShapeError: there is an odd number, or none. LevelError: too few limbs are left. MismatchError: ModRaise is
                first.

        Source: Bae, Cheon, Hanrot, Park, Stehlé (2024), as in `evaluators.slots.shared`.
        """
        self._require_coefficients_first("where ciphertexts share an a part")
        if len(cts) % 2 or not cts:
            raise ShapeError(
                "Ciphertexts are refreshed two by two where they share an a part.",
                expected="an even number from 2 on",
                got=len(cts),
            )
        each, found, largest = 2 * shared.secrets, list[Ct](), largest_message(ev, cts)
        groups = [cts[start : start + each] for start in range(0, len(cts), each)]
        left = groups.pop() if len(groups[-1]) <= shared.secrets else []
        for start in range(0, len(groups), SHARED_BATCH):
            found += self._of_shared(ev, shared, groups[start : start + SHARED_BATCH], scale, largest)
        return [*found, *self.run_all(ev, left, scale, largest)]

    def _of_shared(
        self,
        ev: Evaluator,
        shared: Shared,
        groups: Sequence[Sequence[Ct]],
        scale: float | None,
        largest: float,
    ) -> Iterator[Ct]:
        """Some groups of `run_shared`, whose transforms read keys and diagonals once."""
        joined = [self.to_shared(shared, self._paired(ev, cts, largest)) for cts in groups]
        joined = self.in_coefficients(shared, joined, largest)
        raised = [self.raised(shared, shared.drop(one, 1), one.scale) for one in joined]
        slots = self.in_slots(shared, raised, False)
        for cts, one, halves in zip(groups, joined, slots, strict=True):
            parts = zip(*(self.from_shared(shared, half, len(cts) // 2, ev) for half in halves), strict=True)
            for part, ct in zip(itertools.chain.from_iterable(parts), cts, strict=True):
                yield self._normalised(
                    ev, self._sine(ev, part, one.scale, scale), one.scale, *_before(ev, ct)
                )

    def refresh_twice(
        self, ev: Evaluator, cts: Sequence[Ct], real: bool = True, largest: float | None = None
    ) -> list[Ct]:
        """As `run_all`, in two rounds: what a refreshed ciphertext is off by is the difference to what it was. That is
        small, so it is refreshed enlarged, and taken away.

        Of all slots: those that hold nothing are off as well. Real ones have no imaginary parts afterwards.

        Levels: one more than `run`. Keys: the same.

        Args:
            real, largest: as for `run`.

        Source: Bae, Cheon, Cho, Kim, Kim, "META-BTS: Bootstrapping precision beyond the limit" (2022).
        """
        cts = [ev.drop(ct, self.levels_before + 1) for ct in cts]
        exact = [ev.as_message(ct) for ct in cts]
        first = self._round(ev, exact, real, exact[0].scale, largest)
        size = 2.0 ** math.ceil(
            math.log2(max(ct.error(ev.slots) for ct in first))
        )  # what none of them is off by
        off = []
        for before, after in zip(exact, first, strict=True):
            ct = ev.sub(before, ev.drop(after, before.limbs))
            if real:  # two by two, imaginary parts would be those of others
                ct = self._real(ev, ct)
            ct = ev.bounded(ev.assume_errors(ct, SlotErrors()), size)
            off.append(ev.scaled_up_to(ev.fold_into_scale(ct, 1 / size), before.scale))
        found = []
        for ct, after, less in zip(cts, first, self._round(ev, off, real, None), strict=True):
            after = self._real(ev, after) if real else after
            after = ev.assume_errors(after, ct.errors, ev.worst_error(ct) / ct.scale * after.scale)
            scale = 2.0**ev.params.scale_bits * ev.params.q[after.limbs - 1]
            found.append(ev.bounded(ev.rescale(ev.number_sum([(after, 1.0), (less, size)], scale)), ct.bound))
        return found

    def _real(self, ev: Evaluator, ct: Ct) -> Ct:
        """Real parts alone; errors are the caller's to keep."""
        bound = ct.bound
        return ev.bounded(ev.fold_into_scale(ev.add(ct, ev.conjugate(ct)), 0.5), bound)

    def _round(
        self,
        ev: Evaluator,
        cts: Sequence[Ct],
        real: bool,
        scale: float | None,
        largest: float | None = None,
    ) -> list[Ct]:
        if real:
            return self.run_all(ev, cts, scale, largest)
        return [self.run(ev, ct, False, scale, largest) for ct in cts]

    def of_rows(
        self, evs: Evaluators, x: Rows, packing: Packing, rescales: int, entries: int | None = None
    ) -> list[Halves]:
        """Encrypted rows as blocks of real slots, with all levels: what they have in coefficients is where ModRaise
        reads it, so that nothing goes to coefficients first.

        Levels: `rescales`, after which one limb is used. Keys: those of the tree (`bundled_rows`), of coefficients to
        slots, conjugation, relinearisation, encapsulation.

        Args:
            rescales: limbs to drop by rescaling.
            entries: of a row, those after them being zeros; by default all. Zeros in all second halves take no EvalMod.

        Raises:
            LevelError: entries are beyond the range of EvalMod at the limb that is left. MismatchError: ModRaise is
                first.
        """
        self._require_coefficients_first("of encrypted rows")
        ev = evs.slots
        short = entries is not None and entries <= packing.degree // 2
        joined = bundled_rows(evs, x, packing, rescales)
        for one in joined:
            largest = one.ct.bound + TAIL * one.errors.deviation + one.worst
            if largest * one.ct.scale > self.largest(ev):
                raise LevelError(
                    "Encrypted rows are too large for the limb at which they are refreshed.",
                    expected=f"{math.log2(self.largest(ev)):.1f} bits",
                    got=f"{math.log2(largest * one.ct.scale):.1f} bits",
                )

        def halves(some: Sequence[RowBundle]) -> list[Halves]:
            parts = self._sines(ev, [one.ct for one in some], real=short)
            found = []
            for one, both in zip(some, parts, strict=True):
                own = one.ct.scale, one.errors, one.worst, one.ct.bound
                left, *right = (self._normalised(ev, part, *own) for part in both)
                found.append(Halves(left, right[0] if right else None))
            return found

        each = REFRESH_BATCH // 2
        whole = len(joined) // each
        groups = ev.repeat(whole, lambda group: halves(joined[group * each : (group + 1) * each]))
        rest = joined[whole * each :]
        return [*itertools.chain.from_iterable(groups), *(halves(rest) if rest else [])]

    def _sines(
        self, ev: Evaluator, xs: Sequence[Ct], real: bool, scale: float | None = None
    ) -> list[list[Ct]]:
        """The coefficients of ciphertexts in slots, at all limbs that are left: real parts, and imaginary ones."""
        if self._raises_anew(ev):
            found = self.in_slots(ev, self.begun(ev, xs), real, done=1)
        else:
            found = self.in_slots(ev, [self.raised(ev, x, x.scale) for x in xs], real)
        return [
            [self._sine(ev, part, x.scale, scale) for part in parts]
            for x, parts in zip(xs, found, strict=True)
        ]

    def _sine(self, ev: Evaluator, part: Ct, shrunk: float, scale: float | None) -> Ct:
        """EvalMod of raised coefficients in slots, in units of the message, or of the sine."""
        if self.sine:
            wanted = 2.0**ev.params.scale_bits if scale is None else scale
            return ev.bounded(self.reduced(ev, part, wanted), self._largest_sine)
        gain = float(ev.params.q[0]) / (2 * math.pi * shrunk)  # of the sine: a message of 1 is 2π·scale / q_0
        wanted = (2.0**ev.params.scale_bits if scale is None else scale) * gain
        most = min(1.0, 2 * math.pi * 2.0**-self.ratio_bits * 1.01)
        return ev.fold_into_scale(ev.bounded(self.reduced(ev, part, wanted), most), gain)

    def _normalised(
        self, ev: Evaluator, result: Ct, shrunk: float, errors: SlotErrors, worst: float, bound: float
    ) -> Ct:
        """The result of `_sines`, with the errors that the values had before."""
        if self.sine:
            slope = 2 * math.pi / self.period
            missed = 2 * math.pi * self.reduction.polynomial_error(self.reduction.largest)
            errors, worst, bound = errors.times(slope), slope * worst, self._largest_sine
            errors = errors.with_own(result.errors.deviation).with_common(missed / tail(1.0))
            worst = ev.worst_error(result) + (worst + missed) * result.scale
            return ev.bounded(ev.assume_errors(result, errors, worst), bound)
        largest = 2.0**-self.ratio_bits
        missed = self.reduction.error(largest)
        if (
            self.raised_first
        ):  # of all coefficients: squares, and so cubes, add up to those of the largest one
            missed += (ev.n - 1) * self.reduction.polynomial_error(largest)
        missed *= float(ev.params.q[0]) / shrunk
        errors = errors.with_own(result.errors.deviation).with_common(missed / tail(1.0))
        worst = ev.worst_error(result) + (worst + missed) * result.scale
        return ev.bounded(ev.assume_errors(result, errors, worst), bound)

    def _require_coefficients_first(self, where: str) -> None:
        if self.raised_first:
            raise MismatchError(
                f"ModRaise is not first {where}.",
                expected="slots to coefficients first",
                got="ModRaise first",
            )

    def _joined(self, ev: Evaluator, parts: Sequence[Ct]) -> Ct:
        """Real parts and imaginary ones, where there are these."""
        result, *imaginary = parts
        for one in imaginary:
            result = ev.add(result, ev.times_monomial(one, ev.n // 2))
        return result

    def _apart(self, ev: Evaluator, u: Ct, bound: float) -> list[Ct]:
        """Slots to coefficients, last, of two ciphertexts of real slots as one, whose bound is given."""
        return self._halves(ev, self.last(ev, u, False, bound, 0.5), False)

    # ---- the steps of `run`, in this order ----

    def lowered(self, ev: Evaluator, xs: Sequence[Ct], largest: float | None = None) -> list[Ct]:
        """ModRaise first: messages at one limb, 2^ratio_bits times as small as it. Levels: 1. Keys: none.

        Args:
            largest: real or imaginary part of a slot; by default the largest bound.

        Raises:
            LevelError: too few limbs are left.
        """
        bound = max(x.bound for x in xs) if largest is None else math.sqrt(2) * largest
        for x in xs:
            ev.require_levels(x, self.levels_before, "bootstrapping")
        found = [ev.drop(x, 2) for x in xs]
        scale = min(self.largest(ev) / bound, *(x.scale for x in found)) * ev.params.q[1]
        return [ev.bounded(ev.rescale(ev.number_sum([(x, 1.0)], scale)), bound) for x in found]

    def in_coefficients(self, ev: Evaluator, xs: Sequence[Ct], largest: float | None = None) -> list[Ct]:
        """Slots to coefficients: the slots as coefficients at q_0, 2^ratio_bits times as small.

        Levels: `levels_before`. Keys: of the rotations of these transforms.

        Args:
            largest: real or imaginary part of a slot; by default the largest bound.

        Raises:
            LevelError: too few limbs are left.
        """
        for x in xs:
            ev.require_levels(x, self.levels_before, "bootstrapping")
        bound = max(x.bound for x in xs) if largest is None else largest
        if self.sine and bound > 1 + SINE_SLACK:  # EvalMod is near a sine no farther
            raise LevelError(
                "Errors carry messages beyond what a sine is found of.",
                expected=f"at most {1 + SINE_SLACK}",
                got=bound,
            )
        found = [self._shrunk(ev, x, bound) for x in xs]
        factor = self.largest(ev) / max(x.scale for x in found)
        factor = _rounded(factor) if self.sine else factor / bound  # alike for all sines, as in `in_slots`
        transforms = slots_to_coefficients(ev.slots, self.down, factor)
        for index, transform in enumerate(transforms):
            # The coefficients are the slots of x: they fit, though the slots of the result seem not to.
            most = bound * factor if index == len(transforms) - 1 else math.inf
            sizes = [x.bound for x in found]
            found = _applied(ev, found, transform, self.baby_steps[0], sizes, most)
        for steps in self._steps(ev):  # coefficients of X^(S/held), and no others
            found = [ev.bounded(ev.linear_transform(x, steps), bound * factor) for x in found]
        return [ev.fold_into_scale(x, 1 / factor) for x in found]

    def _shrunk(self, ev: Evaluator, x: Ct, bound: float) -> Ct:
        """At the limbs that are read: messages that are too large are divided by the limbs that are left. Diagonals of
        the transforms that did so would be small numbers, encoded coarsely."""
        x = ev.drop(x, min(x.limbs, self.limbs_before))
        while not self.sine and x.limbs > self.levels_before + 1 and bound * x.scale > self.largest(ev):
            most = self.largest(ev) / (bound * x.scale) * ev.params.q[x.limbs - 1]
            x = ev.bounded(ev.rescale(ev.scaled_up(x, max(0, math.floor(math.log2(most))))), x.bound)
        return ev.drop(x, self.levels_before + 1)

    def _steps(self, ev: Evaluator) -> list[Mapping[Step, Plain | None]]:
        """Sums of rotations, one after the other, that add up all by multiples of the slots that are held: four at a
        time, which share what is hoisted and a ModDown; two of the messages that four of would not fit q_0."""
        held, found = self._held(ev), list[Mapping[Step, Plain | None]]()
        while held < ev.slots:
            number = min(2 if self.sine else 4, ev.slots // held)
            found.append(dict.fromkeys(held * turn for turn in range(number)))
            held *= number
        return found

    def raised(self, ev: Evaluator, x: Ct, scale: float) -> Ct:
        """ModRaise with its key switches: coefficients over width · q_0, at all limbs.

        Levels: none; a ciphertext of one limb becomes one of all. Keys: encapsulation.

        Args:
            scale: of the coefficients at q_0.
        """
        whole = self._whole(ev, scale)
        bound = self._raised_bound(ev) * whole
        return ev.fold_into_scale(ev.raise_modulus(x, ev.top_limbs - self.spared, bound), 1 / whole)

    def _raises_anew(self, ev: Evaluator) -> bool:
        """Whether ModRaise and the first factor of coefficients to slots are one: of all slots, where nothing comes
        between them, and not of ciphertexts that share their a part."""
        return self._held(ev) == ev.slots and ev.key_policy == "direct" and not ev.shared_by

    def begun(self, ev: Evaluator, xs: Sequence[Ct]) -> list[Ct]:
        """`raised` and the first factor of coefficients to slots, whose rotations are switches from the sparse secret.

        Levels: of the raised ones 1. Keys: to the sparse secret, and from it with the rotations of that factor.

        Args:
            xs: coefficients at q_0.
        """
        xs = [ev.drop(x, 1) for x in xs]
        xs = [ev.fold_into_scale(x, 1 / self._whole(ev, x.scale)) for x in xs]
        limbs = ev.top_limbs - self.spared
        transform = self._factors(ev, self._gain(ev, xs[0].scale, limbs - len(self.up)))[0]
        found = ev.raise_and_transform(xs, limbs, self._raised_bound(ev), transform)
        largest, model = self._rms(ev, 0), NoiseModel(ev.params)
        results = []
        for x, ct in zip(xs, found, strict=True):
            before = math.hypot(x.errors.deviation, model.encapsulation(x.scale), model.raising(x.scale))
            errors = _errors_of(ev, limbs, x.scale, before, transform, largest)
            results.append(ev.assume_errors(ct, errors, ev.worst_error(ct)))
        return results

    def _whole(self, ev: Evaluator, scale: float) -> float:
        """width · q_0, in units of the message at q_0."""
        return float(ev.params.q[0]) * self.reduction.width / scale

    def _raised_bound(self, ev: Evaluator) -> float:
        """Of the slots of a raised ciphertext."""
        return slot_tail(ev.slots) * math.sqrt(ev.n) * self._deviation

    def _gain(self, ev: Evaluator, scale: float, left: int) -> float:
        """The factor of coefficients to slots, for EvalMod with so many limbs."""
        size = float(ev.params.q[max(left, 1) - 1])  # too few are refused where they are spent
        # Scales of ciphertexts that wait at others differ in their last bits here: rounded, they share what is encoded.
        return _rounded(size / (2 * scale))

    def _factors(self, ev: Evaluator, gain: float) -> list[Transform]:
        """Of coefficients to slots."""
        held = self._held(ev)
        return coefficients_to_slots(held, self.up, gain, repeated=ev.slots // held, cut=not self.repeated)

    def _rms(self, ev: Evaluator, index: int, gain: float = 1.0) -> float:
        """Root mean square of the slots that a factor is given."""
        rms = math.sqrt(2 * self._held(ev)) * self._deviation * gain ** (index / len(self.up))
        return float(rms * 2.0 ** -(sum(self.up[:index]) / 2))

    def to_shared(self, shared: Shared, cts: Sequence[Ct]) -> Ct:
        """Ciphertexts of one limb that come to share their a part. Levels: none. Keys: one for each."""
        return shared.shared(cts)

    def from_shared(self, shared: Shared, half: Ct, number: int, ev: Evaluator) -> list[Ct]:
        """Ordinary ciphertexts of what `in_slots` gives. Levels: none. Keys: one for each."""
        return shared.parts(half, number, ev)

    def in_slots(self, ev: Evaluator, us: Sequence[Ct], real: bool, done: int = 0) -> list[list[Ct]]:
        """Coefficients to slots and conjugation: of each N/2 coefficients of `raised` as the real slots of each result.

        Levels: one for each factor. Keys: of the rotations of these transforms, conjugation.

        Args:
            us: of the same limbs.
            real: the first half of the coefficients is all; else there are two ciphertexts of each.
            done: factors that were applied before.
        """
        us = [self._trace(ev, u) for u in us]
        left = us[0].limbs - len(self.up) + done
        if left < 1:
            raise LevelError(
                "No limbs are left for coefficients to slots.",
                expected=f"more than {len(self.up)}",
                got=us[0].limbs,
            )
        gain = self._gain(ev, us[0].scale, left)
        for index, transform in enumerate(self._factors(ev, gain)):
            if index < done:
                continue
            rms, baby_steps = self._rms(ev, index, gain), self.baby_steps[1]
            if len(transform.terms) > self.giants * baby_steps:
                baby_steps *= 2
            us = _applied(ev, us, transform, baby_steps, [rms] * len(us), math.inf)
        return [self._parts(ev, ev.fold_into_scale(u, 1 / gain), real) for u in us]

    def _trace(self, ev: Evaluator, u: Ct) -> Ct:
        """Coefficients of X^(S/held) alone."""
        model = NoiseModel(ev.params)
        for steps in self._steps(ev):
            most = u.bound
            switched = model.key_switch(u.limbs, u.scale), model.rounding(u.scale)
            errors = SlotErrors(math.hypot(u.errors.deviation, *switched), aligned=False)
            u = ev.fold_into_scale(ev.linear_transform(u, steps), 1 / len(steps))
            u = ev.bounded(ev.assume_errors(u, errors, ev.worst_error(u)), most)
        return u

    def last(self, ev: Evaluator, u: Ct, real: bool, bound: float, factor: float = 1.0) -> Ct:
        """ModRaise first: slots to coefficients after EvalMod, of all coefficients, or of the first half of those of
        real slots, which the others follow from.

        Levels: one for each factor. Keys: of the rotations of these transforms; conjugation for real slots.

        Args:
            bound: of a slot.
            factor: by which slots are multiplied.
        """
        for index, transform in enumerate(slots_to_coefficients(ev.slots, self.down, factor, halved=real)):
            rms = bound * 2.0 ** (sum(self.down[:index]) / 2)
            (u,) = _applied(ev, [u], transform, self.baby_steps[0], [rms], math.inf)
        if real:
            u = ev.add(u, ev.conjugate(u))
        return ev.bounded(u, bound)

    def reduced(self, ev: Evaluator, part: Ct, scale: float) -> Ct:
        """EvalMod: 2π times what coefficients are beyond whole multiples of q_0, over q_0.

        Levels: those of `reduction`. Keys: relinearisation.

        Args:
            part: of `in_slots`.
            scale: of the result.
        """
        return self.reduction.run(ev, part, scale)

    @property
    def _largest_sine(self) -> float:
        return math.sin(2 * math.pi * (1 + SINE_SLACK) / self.period)

    @property
    def _deviation(self) -> float:
        """Of a raised coefficient, over width · q_0."""
        return math.sqrt((SPARSE_WEIGHT + 1) / 12) / self.reduction.width

    def _parts(self, ev: Evaluator, u: Ct, real: bool) -> list[Ct]:
        """Real parts, and imaginary ones, of raised coefficients."""
        most = (self.reduction.range + self.reduction.largest) / self.reduction.width
        return [ev.bounded(ev.fold_into_scale(part, 0.5), most) for part in self._halves(ev, u, real)]

    def _halves(self, ev: Evaluator, u: Ct, real: bool) -> list[Ct]:
        """Twice the real parts, and twice the imaginary ones."""
        other = ev.conjugate(u)
        parts = [ev.add(u, other)]
        if not real:
            parts.append(ev.times_monomial(ev.sub(other, u), ev.n // 2))  # times i: -i(u - other)
        return parts


def bootstrapping_of(ring: Ring) -> Bootstrapping:
    """How ciphertexts of a ring are refreshed: the same for all rings of its degree, but for the size of messages and
    the order. Its chain says which: below the working levels, whose primes are as large as the scale, there are those
    that StC spends, or a single one; for sines they are as large as the scale too, and q_0 hardly larger."""
    ratio_bits = math.log2(ring.q[0]) - ring.scale_bits
    low = [math.log2(prime) for prime in ring.q[1:3]]
    if len(low) == 2 and abs(low[0] - ring.scale_bits) < 1 and abs(ratio_bits - SINE_RATIO_BITS) < 1:
        return _sines(ring.n.bit_length() - 2, _sine_degree(ring.scale_bits))
    raised_first = len(low) == 2 and low[0] < ring.scale_bits - 1 and abs(low[1] - ring.scale_bits) < 1
    return _bootstrapping(ring.n.bit_length() - 2, max(MIN_RATIO_BITS, ratio_bits), raised_first)


@functools.lru_cache(maxsize=64)
def _bootstrapping(log_slots: int, ratio_bits: float, raised_first: bool) -> Bootstrapping:
    """Factors of five butterflies at most; one with fewer where a level more takes less time."""
    down = 3 if log_slots >= DOWN_IN_THREE else 2
    up = 4 if log_slots >= UP_IN_FOUR else 3 if log_slots >= UP_IN_THREE else 2
    reduction = ModularReduction(RANGE, DEGREE, DOUBLINGS, 2.0**-MIN_RATIO_BITS)
    sizes = _shares(log_slots, down), _shares(log_slots, up)
    return Bootstrapping(*sizes, reduction, ratio_bits, raised_first=raised_first)


@functools.lru_cache(maxsize=64)
def _sines(log_slots: int, degree: int) -> Bootstrapping:
    """The same factors, of messages as large as the sine is told apart by."""
    usual = replace(_bootstrapping(log_slots, SINE_RATIO_BITS, False), giants=SINE_GIANTS)
    reduction, down = (
        ModularReduction(RANGE, degree, DOUBLINGS),
        _lowest(log_slots, len(usual.down), whole=True),
    )
    return replace(usual, reduction=reduction, down=down).of_period(SINE_PERIOD)


@functools.lru_cache(maxsize=64)
def _sine_degree(scale_bits: float) -> int:
    """The least degree of EvalMod whose polynomial is as near to the sine as a scale is precise; relative to messages
    all periods are alike."""
    largest, wanted = (1 + SINE_SLACK) / SINE_PERIOD, 2.0 ** (ROUNDING_BITS - scale_bits)
    reductions = (ModularReduction(RANGE, degree, DOUBLINGS, largest) for degree in SINE_DEGREES)
    fine = (one.degree for one in reductions if SINE_PERIOD * one.polynomial_error(largest) <= wanted)
    return next(fine, DEGREE)


def _rounded(number: float, bits: int = 40) -> float:
    """A positive number to so many bits."""
    mantissa, exponent = math.frexp(number)
    return math.ldexp(round(math.ldexp(mantissa, bits)), exponent - bits)


@functools.lru_cache(maxsize=64)
def _lowest(number: int, parts: int, whole: bool) -> tuple[int, ...]:
    """Butterflies of each factor of slots to coefficients, whose diagonals have the fewest limbs together: those of
    each factor have one less than those before it.

    Args:
        whole: of all slots, where diagonals of the last factor go around.
    """

    def limbs(sizes: tuple[int, ...]) -> int:
        diagonals = [(2 << size) - 1 for size in sizes]
        diagonals[-1] = 1 << sizes[-1] if whole else diagonals[-1]
        return sum(count * (parts + 1 - place) for place, count in enumerate(diagonals))

    most = number - parts + 1
    splits = itertools.product(range(1, most + 1), repeat=parts)
    return min((sizes for sizes in splits if sum(sizes) == number), key=limbs)


def _shares(number: int, parts: int) -> tuple[int, ...]:
    """A number in that many parts, the larger ones first."""
    return tuple((number + index) // parts for index in reversed(range(parts)))


def _before(ev: Evaluator, ct: Ct) -> tuple[SlotErrors, float, float]:
    """Errors of what is refreshed, the worst one, and the bound."""
    return ct.errors, ev.worst_error(ct) / ct.scale, ct.bound


def _message(ev: Evaluator, ct: Ct, largest: float) -> Ct:
    found = ev.as_message(ct)
    found.bound = largest
    return found


def largest_message(ev: Evaluator, cts: Sequence[Ct]) -> float:
    """Return a bound on the slots of ciphertexts to refresh, errors included. Slots to coefficients are encoded for it:
    ciphertexts that the same planned diagonals refresh get one number, whatever errors each of them has."""
    return max(map(ev.message_bound, cts), default=0.0)


def _applied(
    ev: Evaluator,
    xs: Sequence[Ct],
    transform: Transform,
    baby_steps: int,
    largest: Sequence[float],
    most: float,
) -> list[Ct]:
    """A factor of a transform applied to each x; `largest` as of `_errors_after`."""
    errors = [_errors_after(ev, x, transform, size) for x, size in zip(xs, largest, strict=True)]
    found = ev.linear_transform_of_each(xs, transform, baby_steps=baby_steps, most=most)
    return [ev.assume_errors(x, own, ev.worst_error(x)) for x, own in zip(found, errors, strict=True)]


def _errors_after(ev: Evaluator, x: Ct, transform: Transform, largest: float) -> SlotErrors:
    """Errors of the slots once a factor is applied, those of the steps of bootstrapping alone.

    They come from roundings of all coefficients: those of different slots are independent, and so is what the roundings
    of different diagonals make of slots. A factor keeps that, being a multiple of an orthogonal map.

    Args:
        largest: slot of x; of a raised ciphertext, whose slots are independent too, their root mean square.
    """
    model = NoiseModel(ev.params)
    rotated = math.hypot(model.key_switch(x.limbs, x.scale), model.rounding(x.scale))
    hops = max(len(expand(step, ev.key_policy, ev.slots)) for step in transform.terms)
    before = math.hypot(x.errors.deviation, math.sqrt(hops) * rotated)
    return _errors_of(ev, x.limbs, x.scale, before, transform, largest)


def _errors_of(
    ev: Evaluator, limbs: int, scale: float, before: float, transform: Transform, largest: float
) -> SlotErrors:
    """`_errors_after` of rotations with errors of this deviation."""
    model = NoiseModel(ev.params)
    encoding = model.encoding(float(ev.params.q[limbs - 1])) * largest * transform.rounding_norm
    own = math.hypot(transform.row_norm * before, encoding, model.rounding(scale))
    return SlotErrors(own, aligned=False)
