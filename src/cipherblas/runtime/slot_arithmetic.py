"""Matrices and tensors in slots: values with their units, what a client sends, and sums and products of such values.

Slots hold entries in a unit of their own: an entry is unit · slot. Operands are in units of their bounds, so that
slots are near 1 whatever the range of the data, and multiplying by a number changes the unit alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.scales import MAX_ENCODED_BITS, MAX_SMALL_INTEGER
from cipherblas.evaluators.slots.values import Plain
from cipherblas.forms.layouts import Layout
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operations import Leaf

Cts = list[Any]  # ciphertexts, or plaintexts where the operand is clear

RANGE_MARGIN = 2.0**12  # ranges that differ by less share a unit, at the cost of so much of the modulus
SCALE_SLACK = 0.2  # of log2 of the usual scale, by which scales are off when nothing is done about it
UNIT_TOLERANCE = 2.0**-46  # relative difference of two units below which they are the same


@dataclass(frozen=True)
class Choice:
    """How one product of the program is computed: an algorithm's name and its options."""

    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class BlockedValue:
    """A matrix as a grid of blocks; `cells[i][j]` are the ciphertexts (or plaintexts) of block (i, j).

    Attributes:
        unit: an entry of the matrix is unit · slot; may be negative.
    """

    shape: tuple[int, ...]
    layout: Layout
    cells: list[list[Cts]]
    secret: bool
    unit: float

    @property
    def grid(self) -> tuple[int, int]:
        return len(self.cells), len(self.cells[0])

    def first(self) -> Any:
        return self.cells[0][0][0]

    def blocks(self, ev: Evaluator, function: Callable[[int, int], Cts]) -> list[list[Cts]]:
        """function(i, j) for every block (i, j)."""
        rows, cols = self.grid
        return ev.each(rows, lambda i: ev.each(cols, lambda j: function(i, j)))

    def mapped(self, ev: Evaluator, function: Callable[[Any], Any]) -> BlockedValue:
        """The value with every ciphertext replaced."""
        cells = self.blocks(ev, lambda i, j: [function(ct) for ct in self.cells[i][j]])
        return replace(self, cells=cells)

    def zipped(
        self, ev: Evaluator, other: BlockedValue, function: Callable[[Any, Any], Any]
    ) -> list[list[Cts]]:
        """function(ct, other's ct) for every ciphertext; both have the same layout and grid."""
        return self.blocks(
            ev,
            lambda i, j: [function(a, b) for a, b in zip(self.cells[i][j], other.cells[i][j], strict=True)],
        )


@dataclass(frozen=True)
class FeedSpec:
    """What the client sends for one use of an operand: how it is packed, at how many limbs, scale and unit.

    `public_key`: it may be encrypted with the public key.
    """

    name: str
    transposed: bool
    shape: tuple[int, ...]
    layout: Layout
    grid: tuple[int, int]
    limbs: int
    scale: float
    unit: float
    public_key: bool = False

    @property
    def ciphertexts(self) -> int:
        return self.grid[0] * self.grid[1] * self.layout.ciphertexts

    @property
    def seeds(self) -> int:
        """Halves of ciphertexts that travel as a seed: none from the public key."""
        return 0 if self.public_key else self.ciphertexts

    def residue_bytes(self, n: int) -> int:
        """Bytes of the halves that travel as residues."""
        return (2 * self.ciphertexts - self.seeds) * self.limbs * n * 8

    def expanded_bytes(self, n: int) -> int:
        """Bytes of the whole ciphertexts that the server makes from seeds, and keeps beside the halves that came."""
        return 2 * self.seeds * self.limbs * n * 8

    @property
    def encoding_scale(self) -> float:
        """What an entry of the matrix is multiplied by to become a slot of the message."""
        return self.scale / self.unit

    def key(self) -> tuple[Any, ...]:
        return (
            *(self.name, self.transposed, self.layout.key, self.grid),
            *(self.limbs, self.scale, self.unit),
        )


class Feeds(Protocol):
    """Where the executor gets operands from: made up (planning), arrays (`Clear`) or ciphertexts (`Ckks`)."""

    def secret(self, spec: FeedSpec, bound: float) -> list[list[Cts]]:
        """The encrypted blocks of a secret operand, in its unit; no slot exceeds `bound`."""

    def public(self, node: Expression, layout: Layout, grid: tuple[int, int]) -> list[list[Cts]]:
        """The packed blocks (`Plain`s) of a part without secrets, in units of its bound."""

    def values(self, node: Expression) -> NDArray[np.float64]:
        """The values of a part without secrets."""


@dataclass(frozen=True)
class Like:
    """Limbs, scale and unit that an operand is to be encrypted with."""

    limbs: int
    scale: float
    unit: float


class SlotArithmetic:
    """Sums, products and units of values in slots, on any evaluator."""

    evaluator: Evaluator
    feeds: Feeds

    def _fresh(self, node: Expression) -> Like:
        """The usual way to encrypt an operand: all limbs, slots up to 1 at the scale of the parameters."""
        ev = self.evaluator
        return Like(ev.top_limbs, 2.0**ev.params.scale_bits, node.bound)

    def _fed(
        self, node: Leaf, layout: Layout, grid: tuple[int, int], shape: tuple[int, ...], like: Like | None
    ) -> BlockedValue:
        """A secret operand, as the client encrypts it."""
        like = self._fresh(node) if like is None else like
        bound = layout.slot_bound(node.bound / like.unit)
        # Coefficients beyond what the client encodes: the rest of the scale is a factor that the server multiplies.
        excess = max(0, math.ceil(math.log2(like.scale * bound)) - MAX_ENCODED_BITS)
        scale = like.scale / 2**excess
        spec = FeedSpec(
            *(node.name, node.transposed, shape, layout, grid),
            *(like.limbs, scale, like.unit, node.operand.public_key),
        )
        value = BlockedValue(shape, layout, self.feeds.secret(spec, bound), True, like.unit)
        return value.mapped(self.evaluator, lambda ct: self._enlarged(ct, excess)) if excess else value

    def _enlarged(self, ct: Any, bits: int) -> Any:
        """The same slots at a scale 2^bits larger."""
        while bits > 0:
            factor = min(1 << bits, MAX_SMALL_INTEGER)
            ct = self.evaluator.absorb(self.evaluator.multiply_scalar(ct, factor), 1 / factor)
            bits -= factor.bit_length() - 1
        return ct

    def _with_room(self, value: BlockedValue, bound: float) -> BlockedValue:
        """The value in units of a bound that is far larger than its own."""
        if bound <= RANGE_MARGIN * _true_bound(value):
            return value
        ev = self.evaluator
        factor, unit = abs(value.unit) / bound, math.copysign(bound, value.unit)
        value = replace(value.mapped(ev, lambda ct: ev.absorb(ct, factor)), unit=unit)
        return self._shed(value, 2.0 ** (2 * ev.params.scale_bits))

    def _shed(self, value: BlockedValue, scale: float) -> BlockedValue:
        """The value rescaled as often as it keeps at least `scale`: more would crowd out the larger term of a sum."""
        ev = self.evaluator
        while value.first().limbs > 1 and value.first().scale >= scale * ev.params.q[value.first().limbs - 1]:
            value = value.mapped(ev, ev.rescale)
        return value

    def _settled(self, value: BlockedValue) -> BlockedValue:
        """The value with a scale near a power of that of the parameters, so that rescaling leaves just one.

        Sums of terms with very different ranges have other scales.
        """
        if not value.secret:
            return value
        bits = self.evaluator.params.scale_bits
        powers = math.log2(value.first().scale) / bits
        if abs(powers - max(1, round(powers))) <= SCALE_SLACK:
            return value
        missing = math.ceil((max(1, math.ceil(powers)) - powers) * bits)
        return value.mapped(self.evaluator, lambda ct: self._enlarged(ct, missing))

    def _sum_with_clear(self, x: BlockedValue, y: BlockedValue) -> BlockedValue:
        ratio = y.unit / x.unit
        ev = self.evaluator
        cells = x.zipped(ev, y, lambda ct, plain: ev.add_plain(ct, plain.times(ratio)))
        return replace(x, cells=cells)

    def _sum_of_secrets(self, x: BlockedValue, y: BlockedValue) -> BlockedValue:
        """Both in one unit: by a small integer factor, which keeps the scale, or by a change of the smaller's scale."""
        ev, ratio = self.evaluator, abs(y.unit / x.unit)
        negative = (x.unit < 0) != (y.unit < 0)
        if _is_integer(ratio):
            factor = round(ratio)
            y = y.mapped(ev, lambda ct: ev.multiply_scalar(ct, factor)) if factor > 1 else y
            unit = x.unit
        elif _is_integer(1 / ratio):
            factor = round(1 / ratio)
            x = x.mapped(ev, lambda ct: ev.multiply_scalar(ct, factor))
            unit = math.copysign(y.unit, x.unit)
        elif _true_bound(x) >= _true_bound(y):
            unit = x.unit
            y = self._shed(y.mapped(ev, lambda ct: ev.absorb(ct, ratio)), x.first().scale)
        else:
            unit = math.copysign(y.unit, x.unit)
            x = self._shed(x.mapped(ev, lambda ct: ev.absorb(ct, 1 / ratio)), y.first().scale)
        return replace(x, cells=x.zipped(ev, y, ev.sub if negative else ev.add), unit=unit)

    def _multiply(self, a: Any, b: Any) -> Any:
        if isinstance(a, Plain) or isinstance(b, Plain):
            return self.evaluator.multiply(a, b)
        return self.evaluator.multiply_relinearised(a, b)


def _true_bound(value: BlockedValue) -> float:
    """Bound on the entries of the matrix itself."""
    return float(value.first().bound * abs(value.unit))


def _is_integer(value: float) -> bool:
    """Whether a ratio of units is a small integer."""
    return value <= RANGE_MARGIN and abs(value - round(value)) <= UNIT_TOLERANCE * value
