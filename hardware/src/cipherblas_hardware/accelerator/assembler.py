"""Passes of one program: slots of the scratchpad, entries of the tables, transforms and base conversions.

Places are chosen so that the operands of a pass, and operands b and c of the pass before, which are read a few cycles
later than its a, mostly lie in different banks:

    bank 0   coefficients: of the input, of dropped limbs; digits; limbs on their way to an inverse transform
    bank 1   sums of the first component, transforms
    bank 2   what streams in: twiddle factors, diagonals, limbs of the input that are not transformed; coefficients and
             digits for which bank 0 has no room
    bank 3   sums of the second component, transforms; its dropped limbs for which bank 0 has no room
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from cipherblas.common.errors import FitError
from cipherblas_hardware.accelerator.isa import (
    FLOOR_BITS,
    GALOIS_ELEMENTS,
    MODULI,
    SCALARS,
    Arithmetic,
    Factors,
    Modulus,
    Pass,
    Permutation,
    SetGalois,
    SetScalar,
    Words,
)
from cipherblas_hardware.accelerator.residues import roots, twiddles
from cipherblas_hardware.accelerator.timing import Timing
from cipherblas_hardware.model.configuration import BANKS

COEFFICIENTS, FIRST, STREAMED, SECOND = range(BANKS)
NOT_COUNTED = "overflow"  # kind of the passes that the bookkeeping of the library does not know


@dataclass(frozen=True)
class Slot:
    """Rows of a bank, from a first one on: of a limb, or of a table of twiddle factors."""

    bank: int
    row: int


@dataclass(frozen=True)
class Fetch:
    """Words from memory into a slot."""

    slot: Slot
    words: Words


@dataclass(frozen=True)
class Store:
    """A limb from a slot to memory: the place of the result that it is."""

    slot: Slot
    place: tuple[int, int, int]  # output, component, limb


@dataclass(frozen=True)
class Step:
    """A pass, whose wait is not known yet.

    Attributes:
        kind: of the passes that are counted together.
        one: the pass.
        stream: the limb that streams in as operand b.
    """

    kind: str
    one: Pass
    stream: Words | None = None


Item: TypeAlias = Fetch | Store | Step | SetScalar | SetGalois


class Conversion:
    """Exact, centred base conversion from limbs, whose coefficients lie in slots.

    Args:
        ids: of the limbs.
        moduli: of all limbs.
    """

    def __init__(self, ids: Sequence[int], moduli: Sequence[int]) -> None:
        self.ids, self.primes = tuple(ids), [moduli[i] for i in ids]
        self.product = prod(self.primes)
        self.slots: list[Slot] = []
        self.overflow: Slot | None = None  # of the sum whose six top bits are v; a single source has none

    def factor(self, number: int) -> int:
        """Of the coefficients of a source: (D/d_i)^-1."""
        prime = self.primes[number]
        return pow(self.product // prime, -1, prime)

    @property
    def shift(self) -> int:
        """Of a single source: y is x + h, and y - h is centred."""
        return self.primes[0] // 2 if len(self.primes) == 1 else 0


class Assembler:
    """The items of a program, in an order in which they can be done one after the other.

    Args:
        timing: of the element.
        bank_rows: of each of its banks.
        width: bits of a word.
        moduli: primes of the limbs; their numbers are those of limbs.

    Raises:
        FitError: there are more primes than the table has entries, or the program takes more rows than a bank has.
    """

    def __init__(self, timing: Timing, bank_rows: int, width: int, moduli: Sequence[int]) -> None:
        self.timing, self.width, self.primes = timing, width, list(moduli)
        self.items: list[Item] = []
        sizes = sorted({q.bit_length() for q in moduli})
        self.moduli = [Modulus.of(q, width) for q in moduli] + [Modulus.high(bits, width) for bits in sizes]
        self._high = {bits: len(moduli) + number for number, bits in enumerate(sizes)}
        if len(self.moduli) > MODULI:
            raise FitError(
                f"An element's table has {MODULI} moduli.",
                expected=f"at most {MODULI - len(sizes)} limbs modulo Q·P of {len(sizes)} sizes",
                got=len(moduli),
            )
        self._bank_rows, self._used = bank_rows, [0] * BANKS
        self._slots: dict[Hashable, Slot] = {}
        self._turns: Counter[str] = Counter()
        self._scalars, self._galois = _Table(SCALARS), _Table(GALOIS_ELEMENTS)
        self._tables: dict[tuple[int, bool], Slot] = {}

    # ---- places ----

    def slot(self, name: Hashable, *banks: int, rows: int | None = None) -> Slot:
        """The slot of a name, of a limb's size by default, in the first of some banks that has room.

        Raises:
            FitError: none has.
        """
        if name not in self._slots:
            rows = self.timing.rows if rows is None else rows
            bank = next((one for one in banks if self._used[one] + rows <= self._bank_rows), None)
            if bank is None:
                raise FitError(
                    "The scratchpad of an element is too small for this call.",
                    expected=f"at most {self._bank_rows} rows in a bank, of {self.timing.lanes} words each",
                    got=f"{self._used[banks[-1]] + rows} or more",
                    advice="more lanes, a smaller ring, or fewer outputs at once",
                )
            self._slots[name] = Slot(bank, self._used[bank])
            self._used[bank] += rows
        return self._slots[name]

    def fetch(self, name: str, bank: int, words: Words, rows: int | None = None, places: int = 2) -> Slot:
        """Words that stream in, into one of so many slots of a name in turns: the next come while these are used."""
        turn = self._turns[name] % places
        self._turns[name] += 1
        slot = self.slot((name, turn), bank, rows=rows)
        self.items.append(Fetch(slot, words))
        return slot

    def store(self, slot: Slot, output: int, component: int, limb: int) -> None:
        """A limb of the result leaves."""
        self.items.append(Store(slot, (output, component, limb)))

    def scalar(self, *values: int) -> int:
        """The number of the first of values that lie beside each other in the table."""
        number, new = self._scalars.number(values)
        if new:
            self.items += [SetScalar(0, number + k, value) for k, value in enumerate(values)]
        return number

    def rotated(self, galois: int) -> dict[str, Any]:
        """Fields of a pass whose operand a is permuted by an automorphism."""
        if galois == 1:
            return {}
        number, new = self._galois.number((galois,))
        if new:
            self.items.append(SetGalois(0, number, galois))
        return {"permutation": Permutation.AUTOMORPHISM, "galois": number}

    # ---- passes ----

    def step(
        self,
        kind: str,
        arithmetic: Arithmetic,
        modulus: int,
        a: Slot,
        d: Slot,
        *,
        b: Slot | None = None,
        c: Slot | int | None = None,
        times: int | None = None,
        stream: Words | None = None,
        **fields: Any,
    ) -> None:
        """Add a pass.

        Args:
            kind: of the passes that are counted together.
            arithmetic: the lanes' work.
            modulus: number of the limb, or of an entry with `high`.
            a, d: operand and result.
            b, times, stream: the factor: rows, a number, or a limb that streams in.
            c: the addend: rows, or a number.
            fields: others of the pass.
        """
        if b is not None:
            fields = {"factors": Factors.ROWS, "b_bank": b.bank, "b_row": b.row} | fields
        elif stream is not None:
            fields["factors"] = Factors.STREAM
        elif times is not None:
            fields["scalar"] = self.scalar(times)
        if isinstance(c, Slot):
            fields |= {"c_bank": c.bank, "c_row": c.row}
        elif c is not None:
            fields |= {"constant": True, "c_scalar": self.scalar(c)}
        one = Pass(arithmetic, modulus, a.bank, a.row, d.bank, d.row, **fields)
        self.items.append(Step(kind, one, stream))

    # ---- transforms of a limb, one pass for each stage ----

    def _table(self, limb: int, inverse: bool) -> Slot:
        """The slot of a prime's twiddle factors, which stay until two others of their direction have come."""
        if (limb, inverse) not in self._tables:
            name, timing = "inverse" if inverse else "forward", self.timing
            words = twiddles(timing, self.primes[limb], inverse)
            slot = self.fetch(name, STREAMED, words, timing.twiddle_rows)
            self._tables = {key: other for key, other in self._tables.items() if other != slot}
            self._tables[limb, inverse] = slot
        return self._tables[limb, inverse]

    def forward(self, source: Slot, target: Slot, limb: int) -> None:
        """The NTT of coefficients whose positions are rotated by one bit, as `inverse` leaves them."""
        table, last = self._table(limb, False), self.timing.log_n - 1
        for stage in range(last + 1):
            to = target if stage == last else self._beside(source)
            permutation = Permutation.LEFT if stage else Permutation.STRAIGHT
            fields: Any = {"factors": Factors.TWIDDLES, "stage": stage, "permutation": permutation}
            self.step("ntt", Arithmetic.FORWARD, limb, source, to, b=table, **fields)
            source = to

    def inverse(self, source: Slot, target: Slot, limb: int, factor: int, shift: int) -> None:
        """The inverse NTT, times a factor, plus a shift, which the last stage does."""
        q, n, table = self.primes[limb], self.timing.n, self._table(limb, True)
        scale = pow(n, -1, q) * factor % q
        for stage in reversed(range(self.timing.log_n)):
            permutation = Permutation.STRAIGHT if stage == self.timing.log_n - 1 else Permutation.RIGHT
            fields: Any = {"permutation": permutation}
            if stage:
                to = self._beside(source)
                fields |= {"factors": Factors.TWIDDLES, "stage": stage}
                self.step("ntt", Arithmetic.INVERSE, limb, source, to, b=table, **fields)
            else:
                to = target
                pair = self.scalar(scale, scale * int(roots(n, q, True)[1]) % q)
                fields |= {"factors": Factors.SCALAR_PAIR, "scalar": pair}
                self.step("ntt", Arithmetic.LAST, limb, source, to, c=shift, **fields)
            source = to

    def _beside(self, source: Slot) -> Slot:
        """Where a transform puts what it makes of a limb."""
        bank = SECOND if source.bank == FIRST else FIRST
        return self.slot("transform", bank) if bank == FIRST else self.slot("other transform", bank)

    # ---- base conversion ----

    def count_overflow(self, conversion: Conversion, slot: Slot) -> None:
        """1/2 + Σ y_i/d_i, with a fraction of so many bits that the whole part is the six top ones of a word."""
        if len(conversion.primes) == 1:
            return
        conversion.overflow = slot
        for number, (prime, y) in enumerate(zip(conversion.primes, conversion.slots, strict=True)):
            bits = prime.bit_length()
            reciprocal = (1 << bits - 1 + self.width) // prime
            addend = slot if number else 1 << self.width - FLOOR_BITS - 1
            fields: Any = {"high": True, "times": reciprocal}
            self.step(NOT_COUNTED, Arithmetic.MAC, self._high[bits], y, slot, c=addend, **fields)

    def convert(self, conversion: Conversion, limb: int) -> Slot:
        """Coefficients modulo another prime, rotated as those of the sources are."""
        q, low, target = self.primes[limb], self.slot("low", FIRST), self.slot("converted low", SECOND)
        if conversion.overflow is None:
            fields: Any = {"times": 1, "c": -conversion.shift % q}
            self.step("convert", Arithmetic.MAC, limb, conversion.slots[0], target, **fields)
            return target
        multiple = -conversion.product % q
        self.step(NOT_COUNTED, Arithmetic.MUL, limb, conversion.overflow, low, times=multiple, floor=True)
        for number, (prime, y) in enumerate(zip(conversion.primes, conversion.slots, strict=True)):
            to = target if number == len(conversion.primes) - 1 else low
            factor = conversion.product // prime % q
            self.step("convert", Arithmetic.MAC, limb, y, to, c=low, times=factor)
        return target


class _Table:
    """Numbers of entries of a table, in turns: what comes takes the place of what came first."""

    def __init__(self, size: int) -> None:
        self._size, self._next = size, 0
        self._numbers: dict[tuple[int, ...], int] = {}
        self._held: list[tuple[int, ...] | None] = [None] * size

    def number(self, values: tuple[int, ...]) -> tuple[int, bool]:
        """Of the first of some values, and whether they must be written."""
        if values in self._numbers:
            return self._numbers[values], False
        if self._next + len(values) > self._size:
            self._next = 0
        first = self._next
        self._next += len(values)
        for place in range(first, self._next):
            gone = self._held[place]
            if gone is not None:
                self._numbers.pop(gone, None)
            self._held[place] = values
        self._numbers[values] = first
        return first, True
