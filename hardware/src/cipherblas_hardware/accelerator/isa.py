"""Instructions of the accelerator: their fields, and the tables that they name entries of.

A COMPUTE instruction is a `Pass`: one limb through the lanes, N/dp rows of dp words. Its fields lie in 128 bits, the
first one of `FIELDS` in the most significant of them, as a packed structure of SystemVerilog has them.

What happens beside passes is an `Event`: words come into a bank or leave it, a table gets an entry. Each has the cycle,
counted from the start of the program, before whose clock edge it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FormatError, ParameterError
from cipherblas_hardware.accelerator.timing import Timing
from cipherblas_hardware.model.configuration import BANKS, WORD_BITS

Words = NDArray[np.uint64]

INSTRUCTION_BITS = 128
MODULI, SCALARS, GALOIS_ELEMENTS = 64, 256, 64  # entries of the tables
FLOOR_BITS = 6  # of an overflow's whole part, above its fraction
HIGH_SHIFT = 5  # a sum of overflows takes products a·b >> (bits of the prime + 5)


class Arithmetic(IntEnum):
    """The lanes' work on operands a, b and c; u and v are the even and the odd word of a pair."""

    MUL = 0  # a·b
    MAC = 1  # c + a·b
    ADD = 2  # a + c
    FORWARD = 3  # u + v·b, u - v·b
    INVERSE = 4  # u + v, (u - v)·b
    LAST = 5  # c + (u + v)·b_even, c + (u - v)·b_odd
    ADDMUL = 6  # (a + c)·b


class Permutation(IntEnum):
    """The order in which the words of operand a come to the lanes."""

    STRAIGHT = 0
    LEFT = 1  # word i at position rotl(i), the index rotated left by one bit
    RIGHT = 2  # the opposite
    AUTOMORPHISM = 3  # X → X^g of evaluations


class Factors(IntEnum):
    """Where operand b comes from."""

    SCALAR = 0  # one word for all lanes
    SCALAR_PAIR = 1  # one for the even lanes, the next of the table for the odd ones
    ROWS = 2  # rows of a bank
    TWIDDLES = 3  # rows of a bank, by stage: word j of a row serves pair j
    STREAM = 4  # the next rows of what streams in: keys


# Name and bits of each field, the most significant one first.
FIELDS = {
    "reserved": 9,
    "arithmetic": 3,
    "permutation": 2,
    "galois": 6,
    "factors": 3,
    "stage": 4,
    "modulus": 6,
    "high": 1,
    "floor": 1,
    "constant": 1,
    "scalar": 8,
    "c_scalar": 8,
    "a_bank": 2,
    "b_bank": 2,
    "c_bank": 2,
    "d_bank": 2,
    "a_row": 13,
    "b_row": 13,
    "c_row": 13,
    "d_row": 13,
    "wait": 12,
    "wait_load": 1,
    "wait_store": 1,
    "give_load": 1,
    "give_store": 1,
}
assert sum(FIELDS.values()) == INSTRUCTION_BITS and 1 << FIELDS["a_bank"] == BANKS


@dataclass(frozen=True)
class Pass:
    """A COMPUTE instruction.

    Attributes:
        arithmetic: the lanes' work.
        permutation: of operand a.
        galois: number of the Galois element, in its table.
        factors: the kind of operand b.
        stage: of the transform, whose twiddle factors operand b is.
        modulus: number in the table of moduli.
        high: products are shifted right and not reduced, as the entry of the modulus says.
        floor: operand a is its six top bits.
        constant: operand c is a scalar, else rows of a bank.
        scalar, c_scalar: numbers in the table of scalars.
        a_bank, …, d_row: bank and first row of the operands and of the result.
        wait: cycles before the pass starts, after the one before it: no row is read before it is written.
        wait_load, wait_store: it takes a token of the queue of loads, of stores; give_load, give_store: it gives one.
    """

    arithmetic: Arithmetic
    modulus: int
    a_bank: int
    a_row: int
    d_bank: int
    d_row: int
    permutation: Permutation = Permutation.STRAIGHT
    galois: int = 0
    factors: Factors = Factors.SCALAR
    stage: int = 0
    high: bool = False
    floor: bool = False
    constant: bool = False
    scalar: int = 0
    c_scalar: int = 0
    b_bank: int = 0
    b_row: int = 0
    c_bank: int = 0
    c_row: int = 0
    wait: int = 0
    wait_load: bool = False
    wait_store: bool = False
    give_load: bool = False
    give_store: bool = False

    @property
    def reads_b(self) -> bool:
        """Whether operand b comes from a bank."""
        return self.factors in (Factors.ROWS, Factors.TWIDDLES)

    @property
    def reads_c(self) -> bool:
        """Whether operand c comes from a bank."""
        return self.arithmetic in TAKES_C and not self.constant

    def encode(self) -> int:
        """The instruction's 128 bits, as an integer.

        Raises:
            ParameterError: a number does not fit its field.
        """
        word = 0
        for name, bits in FIELDS.items():
            value = int(getattr(self, name, 0))
            if not 0 <= value < 1 << bits:
                raise ParameterError(
                    f"The field {name!r} of an instruction has {bits} bits.",
                    expected=f"from 0 to {(1 << bits) - 1}",
                    got=value,
                )
            word = word << bits | value
        return word

    @classmethod
    def decode(cls, word: int) -> Pass:
        """The opposite of `encode`.

        Raises:
            FormatError: the bits are no instruction.
        """
        found, left = {}, word
        for name, bits in reversed(FIELDS.items()):
            found[name], left = left & (1 << bits) - 1, left >> bits
        if (
            left
            or found.pop("reserved")
            or found["factors"] >= len(Factors)
            or found["arithmetic"] >= len(Arithmetic)
        ):
            raise FormatError(
                "These bits are no instruction.",
                expected=f"{INSTRUCTION_BITS} bits, the reserved ones 0, arithmetic below {len(Arithmetic)} and "
                f"factors below {len(Factors)}",
                got=hex(word),
            )
        kinds: dict[str, Any] = {
            "arithmetic": Arithmetic,
            "permutation": Permutation,
            "factors": Factors,
        } | {name: bool for name, bits in FIELDS.items() if bits == 1}
        return cls(**{name: kinds.get(name, int)(value) for name, value in found.items()})

    def __str__(self) -> str:
        """The instruction as one line of assembly."""
        b = {
            Factors.SCALAR: f"s{self.scalar}",
            Factors.SCALAR_PAIR: f"s{self.scalar}:s{self.scalar + 1}",
            Factors.ROWS: _place(self.b_bank, self.b_row),
            Factors.TWIDDLES: f"{_place(self.b_bank, self.b_row)}.stage{self.stage}",
            Factors.STREAM: "stream",
        }[self.factors]
        a = _place(self.a_bank, self.a_row)
        if self.permutation is Permutation.AUTOMORPHISM:
            a = f"automorphism{self.galois}({a})"
        elif self.permutation is not Permutation.STRAIGHT:
            a = f"{self.permutation.name.lower()}({a})"
        operands = [f"floor({a})" if self.floor else a]
        if self.arithmetic is not Arithmetic.ADD:
            operands.append(b)
        if self.arithmetic in TAKES_C:
            operands.append(f"s{self.c_scalar}" if self.constant else _place(self.c_bank, self.c_row))
        name = self.arithmetic.name.lower() + ".high" * self.high
        tokens = [
            name.replace("_", " ")
            for name in ("wait_load", "wait_store", "give_load", "give_store")
            if getattr(self, name)
        ]
        after = "".join(f"  ; {text}" for text in [f"wait {self.wait}"] * (self.wait > 0) + tokens)
        return f"{_place(self.d_bank, self.d_row)} = {name} {', '.join(operands)} mod m{self.modulus}{after}"


TAKES_C = (Arithmetic.MAC, Arithmetic.ADD, Arithmetic.LAST, Arithmetic.ADDMUL)
assert {field.name for field in fields(Pass)} | {"reserved"} == set(FIELDS)


def _place(bank: int, row: int) -> str:
    return f"{bank}[{row}]"


def encoded(passes: Iterable[Pass]) -> NDArray[np.uint32]:
    """Instructions as the hardware takes them, uint32 (passes, 4): the least significant word first."""
    words = [one.encode() for one in passes]
    return np.array(
        [[word >> 32 * k & 0xFFFFFFFF for k in range(INSTRUCTION_BITS // 32)] for word in words], np.uint32
    ).reshape(-1, INSTRUCTION_BITS // 32)


@dataclass(frozen=True)
class Modulus:
    """An entry of the table of moduli.

    Attributes:
        q: for the adders.
        q_mul: for the multiplier; 0 where it does not reduce.
        mu: floor(2^(b + width)/q) - 2^width, b the bits of q; the top bit of the reciprocal is implied.
        shift: b; of products that are not reduced, by how many bits they are shifted right.
    """

    q: int
    q_mul: int
    mu: int
    shift: int

    @classmethod
    def of(cls, q: int, width: int = WORD_BITS) -> Modulus:
        """The entry of a prime below 2^width."""
        bits = q.bit_length()
        if not 2 <= bits <= width:
            raise ParameterError(
                f"Lanes of {width} bits take no such prime.", expected=f"below 2^{width}", got=q
            )
        return cls(q, q, (1 << bits + width) // q - (1 << width), bits)

    @classmethod
    def high(cls, bits: int, width: int = WORD_BITS) -> Modulus:
        """The entry of passes with `high`, whose operand a has residues of a prime of so many bits."""
        return cls((1 << width) - 1, 0, 0, bits + HIGH_SHIFT)


@dataclass(frozen=True)
class WriteRows:
    """Words come into a bank, from a row on: uint64 (rows·lanes,)."""

    cycle: int
    bank: int
    row: int
    words: Words


@dataclass(frozen=True)
class ReadRows:
    """Rows of a bank leave it; `Element.run` returns their words in the order of these events."""

    cycle: int
    bank: int
    row: int
    rows: int


@dataclass(frozen=True)
class SetScalar:
    """The table of scalars gets an entry."""

    cycle: int
    number: int
    value: int


@dataclass(frozen=True)
class SetGalois:
    """The table of Galois elements gets an entry, an odd number below 2·N."""

    cycle: int
    number: int
    value: int


Event = WriteRows | ReadRows | SetScalar | SetGalois


@dataclass(frozen=True)
class Outcome:
    """A program's result: the words of its `ReadRows`, and the cycles from its first pass to its last written row."""

    words: list[Words]
    cycles: int


class Element(Protocol):
    """A processing element: the functional model, or the simulated hardware.

    Attributes:
        timing: of lanes, ring degree, and registers of the multipliers.
        bank_rows: rows of each bank.
        width: bits of a word.
    """

    timing: Timing
    bank_rows: int
    width: int

    def set_moduli(self, moduli: Sequence[Modulus]) -> None:
        """Fill the table of moduli, from entry 0 on."""
        ...

    def run(self, passes: Sequence[Pass], events: Sequence[Event], stream: Words) -> Outcome:
        """Run a program.

        Args:
            passes: with the cycles that they wait.
            events: by cycle. Cycle 0 is the one in which the first pass issues its first row if it waits for nothing;
                an event is done before the rows of its cycle are read, and sees rows written in the cycle before.
            stream: rows that passes with `Factors.STREAM` take, one after the other, uint64 (rows·lanes,).
        """
        ...
