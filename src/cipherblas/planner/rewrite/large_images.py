"""Images that no ciphertext holds a channel of: the client takes them apart, so that channels are smaller and more.

A convolution of stride s reads rows that are s apart for one tap of its filter, and rows that are s apart and one
further on for the next one. Of an image whose rows and columns are dealt out to s² channels, rows r, r + s, r + 2s, …
to one, it is a convolution of stride 1 with s² times as many channels and filters of an s-th of the rows: the same
products. An operand is dealt out for no level, by whoever encrypts it, and channels that were cut into segments, with
rotations for what lies beyond a cut, are whole.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cipherblas.lang.arrangements import Arrange
from cipherblas.lang.facts import facts_of
from cipherblas.lang.layers import Conv2d
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operations import Constant
from cipherblas.lang.steps import Step
from cipherblas.lang.windows import Window
from cipherblas.planner.plan.passes import Following, Outcome, PlanRequest
from cipherblas.planner.predict.feasible import Infeasible
from cipherblas.planner.rings.modulus_chains import USUAL_DEGREE

LARGE = USUAL_DEGREE // 2  # slots: channels of more entries are cut


def with_images_dealt_out(request: PlanRequest, following: Following) -> Outcome:
    """The program with operands dealt out to more channels where one is too large and a stride reads it; as it is
    where that cannot be planned."""
    dealt = dealt_out(request.expression)
    if dealt is request.expression:
        return following(request)
    request.tell("images dealt out to more channels")
    found = following(request.of(dealt))
    return following(request) if isinstance(found, Infeasible) else found


def dealt_out(expression: Expression) -> Expression:
    """The program with convolutions of stride 1 in the place of those with a stride that read a large operand; itself
    where there is none, or something else reads it too."""
    order = facts_of(expression).order
    if not any(_is_large(node) for node in order):
        return expression
    readers: dict[int, list[Expression]] = {}
    for node in order:
        for child in node.children:
            readers.setdefault(id(child), []).append(node)
    made: dict[int, Expression] = {}
    for node in order:
        image = node.children[0] if node.children else node
        if _strides(node) and _is_large(image) and all(map(_strides, readers[id(image)])):
            assert isinstance(node, Conv2d)
            made[id(node)] = _dealt_out(node)
            continue
        parts = [made[id(child)] for child in node.children]
        changed = any(a is not b for a, b in zip(parts, node.children, strict=True))
        made[id(node)] = node.rebuilt(parts) if changed else node
    return made[id(expression)]


def _is_large(node: Expression) -> bool:
    """Whether a node is an encrypted image that is to be dealt out."""
    return node.packable and node.secret and len(node.shape) == 3 and math.prod(node.shape[1:]) > LARGE


def _strides(node: Expression) -> bool:
    """Whether a node is a convolution by constants that steps over rows and columns."""
    if not isinstance(node, Conv2d) or not isinstance(node.weights, Constant):
        return False
    window = node.window
    return window.groups == 1 and window.stride[0] == window.stride[1] > 1


def _dealt_out(node: Conv2d) -> Expression:
    """The same of its image, dealt out."""
    window, step = node.window, node.window.stride[0]
    assert isinstance(node.weights, Constant)
    (channels, height, width), outputs = window.shape, window.outputs
    rows, columns = (_Axis.of(window, axis) for axis in (0, 1))
    image = node.image
    sides = ((0, 0), (0, rows.length * step - height), (0, columns.length * step - width))
    for part in (
        Step("pad", sides),
        Step("reshape", (channels * rows.length, step, columns.length, step)),
        Step("transpose", (1, 3, 0, 2)),
        Step("reshape", (step * step * channels, rows.length, columns.length)),
    ):
        image = Arrange.of(image, part)
    weights = np.zeros((outputs, step, step, channels, rows.taps, columns.taps))
    places = np.ix_(range(window.kernel[0]), range(window.kernel[1]))
    (i, row), (j, column) = rows.of_taps(window.kernel[0]), columns.of_taps(window.kernel[1])
    for y, x in zip(*(one.ravel() for one in np.broadcast_arrays(*places)), strict=True):
        weights[:, i[y], j[x], :, row[y], column[x]] = node.weights.values[:, :, y, x]
    filters = Constant(weights.reshape(outputs, -1, rows.taps, columns.taps), node.weights.replaces)
    return Conv2d(image, filters, (1, 1), (rows.padding, columns.padding))


class _Axis:
    """Rows, or columns, of an image that is dealt out: so many that windows of stride 1, with as many zeros before the
    first as behind the last, are as many as those of the stride.

    Attributes:
        length: of one channel.
        padding: on either side.
        taps: of the filter, zeros among them.
    """

    def __init__(self, step: int, shift: int, length: int, padding: int, taps: int) -> None:
        self.step, self._shift, self.length, self.padding, self.taps = step, shift, length, padding, taps

    @classmethod
    def of(cls, window: Window, axis: int) -> _Axis:
        """Of the rows (0) or the columns (1) of a convolution."""
        size, results = window.shape[1 + axis], window.out_shape[1 + axis]
        step, shift, kernel = window.stride[axis], window.padding[axis], window.kernel[axis]
        padding, last = -(-shift // step), (kernel - 1 - shift) // step
        length = max(-(-size // step), results + last - padding)
        return cls(step, shift, length, padding, length - results + 2 * padding + 1)

    def of_taps(self, kernel: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each tap, which of the channels that a channel becomes it reads, and by which tap of the new filter."""
        places = np.arange(kernel) - self._shift
        return places % self.step, places // self.step + self.padding
