"""Values with one ciphertext for each channel, whose slots are the positions of many images.

The samples of a convolution are positions: image·P + position. What is flattened after it, channel by channel, has
samples that are images: of an image the positions of a channel are entries of one row, and lie in the same slots as
before. So nothing is computed, and products with it add up neighbouring slots.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from cipherblas.forms.layouts import Layout, in_halves, row_major, transposed, with_garbage
from cipherblas.lang.arrangements import Arrange
from cipherblas.lang.graph import axes_of
from cipherblas.lang.nodes import Expression, matrix_shape, ordered


class Flattening(NamedTuple):
    """Of a value whose samples are positions of images.

    Attributes:
        axis: along which samples lie, before and after: 0 where columns are ciphertexts, 1 where rows are.
        positions: P of each image, a power of two.
        channels: those that it takes, in order.
    """

    axis: int
    positions: int
    channels: list[int]


@functools.lru_cache(maxsize=64)
def flattening(node: Expression) -> Flattening | None:
    """The channels that an arrangement flattens, with the positions of each side by side in the row (column) of an
    image; None for any other node."""
    if not isinstance(node, Arrange) or len(node.shape) != 2 or len(node.children[0].shape) != 2:
        return None
    before, after = matrix_shape(node.children[0]), matrix_shape(node)
    for axis in (0, 1):
        positions, rest = divmod(before[axis], after[axis])
        if rest or positions < 2 or positions & (positions - 1) or after[1 - axis] % positions:
            continue
        places = node.index()
        entries = np.divmod(places, before[1])
        samples, channels = entries if axis == 0 else (entries[1].T, entries[0].T)
        of_images = (after[axis], after[1 - axis] // positions, positions)
        there = np.arange(before[axis]).reshape(after[axis], 1, positions)
        first = channels.reshape(of_images)[0, :, 0]
        if (
            bool((places >= 0).all())
            and bool((samples.reshape(of_images) == there).all())
            and bool((channels.reshape(of_images) == first[:, None]).all())
        ):
            return Flattening(axis, positions, [int(channel) for channel in first])
    return None


class Positions(NamedTuple):
    """Where a program has images whose positions were samples.

    Attributes:
        axis: along which samples lie; None where nothing is flattened.
        each: P of an image.
        images: the axes along which images lie.
        flat: those of flattened channels.
    """

    axis: int | None = None
    each: int = 1
    images: frozenset[str] = frozenset()
    flat: frozenset[str] = frozenset()


@functools.lru_cache(maxsize=16)
def positions_of(expression: Expression) -> Positions | None:
    """Of a program; None where values are flattened in different ways."""
    axes, kinds = axes_of(expression), set[tuple[int, int]]()
    images, samples, flat = set[str](), set[str](), set[str]()
    for node in ordered(expression):
        found = flattening(node) if node.secret else None
        if found is not None:
            names, before = axes.of(node), axes.of(node.children[0])
            kinds.add((found.axis, found.positions))
            images.add(names[found.axis])
            flat.add(names[1 - found.axis])
            samples.add(before[found.axis])
    if not kinds:
        return Positions()
    if len(kinds) > 1 or images & samples or flat & (images | samples):
        return None
    return Positions(*kinds.pop(), frozenset(images), frozenset(flat))


def of_images(images: int, width: int, each: int, axis: int, slots: int, modular: bool) -> Layout:
    """The layout of a block of images: entry number k of an image at place image·each + k.

    Modulo t there are two places in each slot, and those without an entry hold anything: they cost no room. Of real
    numbers they are empty.

    Args:
        width: entries of an image: those of all its positions, or one.
        axis: 0 where images are rows, 1 where they are columns.
    """
    if not modular:
        layout = row_major(images, width, slots, stride=each)
        return layout if axis == 0 else transposed(layout)
    layout = in_halves(width, images, slots, each)
    layout = transposed(layout) if axis == 0 else layout
    return layout if width == each else with_garbage(layout)
