"""Layers of a network on one encrypted input with clear weights: what every method offers, and what they share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError, ShapeError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Plain, WeightGroup
from cipherblas.forms.tensors import TensorLayout, grid
from cipherblas.lang.windows import Window

Builder = Callable[[], NDArray[Any]]


@dataclass(frozen=True)
class Weights:
    """The clear factor of a layer: rows × columns of a product, or OIHW of a convolution.

    Attributes:
        key: identifies the values in caches of encoded weights.
        values: makes the array; called when weights are encoded.
        bound: on the absolute value of a weight.
        row_sum: largest sum of absolute weights that one output sees.
        row_norm: largest root of a sum of squares that one output sees.
        stored: encoded once and kept for later runs.
    """

    key: Hashable
    values: Builder
    bound: float
    row_sum: float
    row_norm: float
    stored: bool = True

    def group(
        self,
        place: Hashable,
        sources: Sequence[int],
        build: Callable[[int], NDArray[Any]],
        again: bool = False,
    ) -> WeightGroup:
        """Slot vectors of weights in units of the bound; see `Evaluator.weighted_sums`.

        Args:
            place: identifies them within the layer.
            sources: position of the ciphertext that each is multiplied by.
            build: term → slots.
            again: there was a group at this place before.
        """

        def in_units(term: int) -> NDArray[Any]:
            slots = np.asarray(build(term))
            return slots / self.bound if np.iscomplexobj(slots) else slots.astype(np.float64) / self.bound

        return WeightGroup((self.key, self.bound, place), sources, in_units, self.stored, again)

    @property
    def rows(self) -> tuple[float, float]:
        """`row_sum` and `row_norm` in units of the bound."""
        return self.row_sum / self.bound, self.row_norm / self.bound


class LayerMethod(ABC):
    """One way to compute a layer, for one layout of its input: ciphertexts in, ciphertexts out, one level.

    Attributes:
        name: for `algorithm=` and files.
        title: for people.
        source: citation.
        baseline: here to be measured against; planned only when it is asked for by name.
        x: layout of the input.
        out: layout of the result.
        levels: rescales inside.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    baseline: ClassVar[bool] = True
    levels: int = 1

    x: TensorLayout
    out: TensorLayout

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The options that rebuild this object from the layer and the layout of its input; JSON-ready."""

    @abstractmethod
    def run(self, ev: Evaluator, cts: Sequence[Ct], weights: Weights) -> list[Ct]:
        """The layer's result, in `out`.

        Raises:
            LevelError: too few limbs.
        """

    @property
    @abstractmethod
    def plaintexts(self) -> int:
        """Encoded weights."""

    @property
    @abstractmethod
    def padded_weights(self) -> int:
        """Slots of all plaintexts that hold weights, those of padded lengths included."""

    @property
    def steps(self) -> int:
        """Steps of `cipherblas.common.work` that it takes, without looking at them one by one."""
        return self.plaintexts

    @property
    def repeats(self) -> bool:
        """Whether the input is repeated: every entry must stand once, and all other slots must be zero."""
        return False

    @property
    def trivial_rotations(self) -> int:
        """Rotations of the published count that cost nothing: by zero slots, of zeros, or done before."""
        return 0

    def check_input(self) -> None:
        """Raise ShapeError where the input must be repeated but other slots are not zero."""
        if self.repeats and not self.x.alone:
            raise ShapeError(
                "The input of a layer that repeats it must have zeros in all other slots.",
                expected="zeros in all other slots",
                got="garbage",
            )


def check_vector(x: TensorLayout, title: str) -> int:
    """The number of entries of a vector that stands in the first slots of one ciphertext, in order.

    Raises:
        ShapeError: it stands elsewhere.
    """
    length = math.prod(x.shape)
    if x.ciphertexts > 1 or not np.array_equal(x.entries(0)[1], np.arange(length)):
        raise FitError(
            f"The vector of {title} must lie in the first slots of one ciphertext.",
            expected="the first slots of one ciphertext",
            got=x.key,
        )
    return length


def vector_layout(shape: tuple[int, int, int], slots: int) -> TensorLayout:
    """The entries in order from the first slot of one ciphertext on, as `check_vector` asks.

    Raises:
        ShapeError: they do not fit.
    """
    channels, height, width = shape
    options = {"channels": channels, "pitch": height * width, "row": width}
    return grid(shape, slots, options)


def check_unit(window: Window, title: str) -> None:
    """Raise ShapeError unless a convolution has stride 1 and one group."""
    if window.stride != (1, 1) or window.groups != 1:
        raise FitError(
            f"The convolution cannot be computed by {title}.",
            expected="stride 1, one group",
            got=f"stride {window.stride}, {window.groups} groups",
        )


class OneVectorMethod(LayerMethod):
    """W·x of one ciphertext, the entries of x in its first slots and anything elsewhere, to one ciphertext.

    Raises:
        ShapeError: W has more rows or columns than there are slots, or x lies elsewhere.
    """

    def __init__(self, x: TensorLayout, rows: int) -> None:
        columns = check_vector(x, self.title)
        if rows > x.slots:
            raise FitError(
                f"The matrix of {self.title} has too many rows.", expected=f"at most {x.slots} rows", got=rows
            )
        self.x, self.rows, self.columns = x, rows, columns
        self.out = TensorLayout((rows, 1, 1), x.slots, rows, 1, 1, 1, 1)

    @staticmethod
    def input_layout(shape: tuple[int, int, int], rows: int, slots: int) -> TensorLayout:
        """Where the entries of the vector must lie."""
        return vector_layout(shape, slots)

    @property
    def options(self) -> dict[str, Any]:
        return {}


def entries_plain(
    layout: TensorLayout,
    ciphertext: int,
    key: Hashable,
    values: Builder,
    bound: float,
    unit: float = 1.0,
    *,
    constant: bool,
) -> Plain:
    """A clear tensor, C-contiguous, packed as one ciphertext of a layout in a unit; `constant` as of `Plain`."""

    def build() -> NDArray[np.float64]:
        found: NDArray[np.float64] = layout.vector(ciphertext, values().reshape(-1)) / unit
        return found

    return Plain((key, layout.key, ciphertext), build, bound, constant=constant)


def masked(ev: Evaluator, cts: Sequence[Ct], layout: TensorLayout) -> list[Ct]:
    """The entries alone: every other slot becomes zero. Levels: 1."""
    results = []
    for index, ct in enumerate(cts):
        ct = ev.rescaled(ct)
        ones = entries_plain(
            layout, index, "ones", lambda: np.broadcast_to(1.0, math.prod(layout.shape)), 1.0, constant=True
        )
        product = ev.weighted_sum([ev.for_masks(ct)], [ones], ev.mask_scale(ct.limbs))
        results.append(ev.rescale(product))
    return results
