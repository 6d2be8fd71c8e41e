"""Encrypted values while a program runs, what was decided about it, and what goes in and comes out.

A value counts in a unit of its own: an entry is unit · slot, or unit · what a row encrypts. Operands in slots are in
units of their bounds, so that slots are near 1 whatever the range of the data, and multiplying by a number changes the
unit alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from cipherblas.forms.form import Form, Matrix, Opener
from cipherblas.forms.layouts import Layout
from cipherblas.forms.row_forms import RowForm
from cipherblas.forms.slot_forms import SlotForm, TensorForm
from cipherblas.forms.tensors import TensorLayout
from cipherblas.lang.steps import Step
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.key_policies import KeyPolicy

Handles = list[Any]  # ciphertexts or encrypted rows, or plaintexts where the value is clear
NOBODY = -1


class Cells(list[list[Handles]]):
    """The blocks of a value, row after row.

    Attributes:
        made_by: the number of the instruction that made them, where these are written down.
    """

    __slots__ = ("made_by",)

    def __init__(self, rows: Iterable[list[Handles]] = (), made_by: int = NOBODY) -> None:
        super().__init__(rows)
        self.made_by = made_by


def handles_of(cells: Cells) -> Handles:
    """Of all blocks."""
    return [handle for row in cells for cell in row for handle in cell]


@dataclass(frozen=True)
class MethodChoice:
    """The method of one node, or the packing of an operand: its name and options."""

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def flags(self) -> frozenset[str]:
        """The names of the options that are set."""
        return frozenset(name for name, value in self.options.items() if value)


class StepError(NamedTuple):
    """The error that one node makes of its own, as if all that it is made of had none: standard deviations of an entry.

    Attributes:
        own: of a part that differs from entry to entry.
        common: of a part that may depend in any way on the entries, and on one another.
    """

    own: float = 0.0
    common: float = 0.0

    def beside(self, other: StepError) -> StepError:
        """The larger parts of both."""
        return StepError(max(self.own, other.own), max(self.common, other.common))

    def and_then(self, other: StepError) -> StepError:
        """Of two steps, one after the other."""
        return StepError(math.hypot(self.own, other.own), self.common + other.common)


@dataclass(frozen=True)
class Decisions:
    """The decisions about a program that hold on any ring.

    Attributes:
        form: of its values: "blocks", "tensors" or "rows".
        choices: by the number of the node in `ordered`.
        blocks: block lengths along the axes of a program in blocks; see `lang.graph.Axes`.
        forms: of the computed nodes whose form is another one, by number.
        conversions: options of the conversions of values that are asked for in another form, by the number of the node.
        sharing: so many pairs of ciphertexts share their a part where they are refreshed; 0 where none do.
        unrelinearised: the products that are computed last keep three components, and so do results that are sums of
            them (`Facts.last_products`).
        halves: slots hold two integers modulo t each (`Layout.halves`).
        stepwise: the error of each node is kept by itself (`StepError`), and not followed through the program.
    """

    form: str
    choices: Mapping[int, MethodChoice] = field(default_factory=dict)
    blocks: Mapping[str, int] = field(default_factory=dict)
    key_policy: KeyPolicy = "direct"
    forms: Mapping[int, str] = field(default_factory=dict)
    conversions: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    sharing: int = 0
    stepwise: bool = False
    unrelinearised: bool = False
    halves: bool = False

    @property
    def every_form(self) -> tuple[str, ...]:
        """The forms of the program's values, its own first."""
        return tuple(dict.fromkeys((self.form, *self.forms.values())))


@dataclass
class Value:
    """A matrix, a vector or an image in one form: its ciphertexts, and the unit of its entries.

    Attributes:
        cells: `cells[i][j]` are the handles of block (i, j); tensors and encrypted rows are one block.
        unit: may be negative.
        magnified: errors of zeros in slots without an entry are so many times as large as those of a masked value.
    """

    shape: tuple[int, ...]
    form: Form
    cells: Cells
    unit: float
    secret: bool = True
    magnified: float = 1.0

    def holding(self, cells: Cells) -> Value:
        """A value that lies like this one."""
        return replace(self, cells=cells)

    @property
    def slots(self) -> SlotForm:
        """The form of a value in slots."""
        return cast(SlotForm, self.form)

    @property
    def rows(self) -> RowForm:
        """The form of a value by rows."""
        return cast(RowForm, self.form)

    @property
    def tensor(self) -> TensorLayout:
        """Where the entries of a tensor lie."""
        return cast(TensorForm, self.form).tensor

    @property
    def layout(self) -> Layout:
        return self.slots.layout

    @property
    def handles(self) -> Handles:
        """Of all blocks."""
        return handles_of(self.cells)

    def first(self) -> Any:
        return self.cells[0][0][0]

    def step_error(self) -> StepError:
        """The errors of the entries, which are no longer counted from here on."""
        found = StepError()
        for handle in {id(handle): handle for handle in self.handles}.values():
            own, common = handle.detached_errors()
            found = found.beside(StepError(own * abs(self.unit), common * abs(self.unit)))
        return found

    def error(self) -> float:
        """Bound on the errors of all entries, but for a chance of 2^-FAILURE_BITS."""
        entries = self.form.entries(self.shape)
        different = {id(handle): handle for handle in self.handles}  # in a dry run one stands for many
        encrypted = float(max(handle.error(entries) for handle in different.values()) * abs(self.unit))
        return self.form.error(encrypted)


@dataclass(frozen=True)
class Input:
    """The encoding of an operand for one use in the program; a client sends it.

    Attributes:
        transposed: the transpose of the operand is packed.
        shape: of what is packed; a vector or an image is a column.
        basis, scale: of the encryption.
        unit: an entry is unit · what is encrypted.
        public_key: it may be encrypted with the public key.
        steps: how the operand is arranged first.
    """

    name: str
    transposed: bool
    shape: tuple[int, int]
    form: Form
    basis: Basis
    scale: Any
    unit: float = 1.0
    public_key: bool = False
    steps: tuple[Step, ...] = ()

    @property
    def key(self) -> Hashable:
        """Equal for uses that one encryption serves."""
        return self.name, self.steps, self.transposed, self.form.key, self.basis, self.scale, self.unit

    @property
    def limbs(self) -> int:
        """The number of limbs.

        Raises:
            LevelError: an operand with moduli of its own has none.
        """
        return self.basis.limbs

    @property
    def encoding_scale(self) -> Any:
        """The factor between an entry and its integer in the message; of integers modulo t, whose unit is 1, a
        `PlainFactor`."""
        return self.scale if self.unit == 1.0 else self.scale / self.unit


@dataclass(frozen=True)
class Output:
    """How a result of a program comes back.

    Attributes:
        shape: as it is computed: in blocks and by rows, a vector is a column.
        limbs, components: of its ciphertexts.
        scale: an entry times this is one of the message; may be negative.
        n: ring degree.
    """

    shape: tuple[int, ...]
    form: Form
    limbs: int
    components: int
    scale: Any
    n: int

    @property
    def working_bytes(self) -> int:
        """Memory that decryption takes: what the form does, and the matrix twice: in blocks, or before it is turned."""
        return 8 * (self.form.opened_words(self.n) + 2 * math.prod(self.shape))

    def opened(self, by: Opener, arrays: Sequence[NDArray[np.uint64]]) -> Matrix:
        """The result that checked arrays hold, in the shape in which it was computed."""
        return self.form.opened(by, arrays, self.scale, self.shape)

    def check(self, arrays: tuple[NDArray[np.uint64], ...]) -> None:
        """Raise ShapeError unless the arrays have the planned number and shapes."""
        self.form.check(arrays, self.limbs, self.components, self.n)
