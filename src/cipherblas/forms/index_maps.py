"""Re-arrangements of slots as linear transforms: every output slot takes at most one input slot."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.slots.values import Masks, Plain, Transform
from cipherblas.rlwe.key_policies import Step, total_step

# Target slot → source slot, `EMPTY` where the output is zero.
SlotMap = NDArray[np.int64]


def rotations_of(source: SlotMap, period: int | None = None) -> list[int]:
    """The rotations that a map needs, ascending, modulo the slots (or the period of its input)."""
    slots = len(source)
    used = source >= 0
    steps = (source - np.arange(slots))[used] % (period or slots)
    return [int(step) for step in np.unique(steps)]


def masked_map(
    key: Hashable,
    slots: int,
    steps: Iterable[Step],
    source: Callable[[], SlotMap],
    period: int | None = None,
    imaginary: tuple[int, Callable[[], SlotMap]] | None = None,
) -> Transform:
    """The transform of a map whose rotations are known, without evaluating the map.

    Args:
        key: identifies the map in encode caches.
        steps: rotations or paths; those that are equal modulo the slots (or the period) are merged.
        source: makes the map when a mask is needed.
        period: the input repeats with this period, so that rotations count modulo it.
        imaginary: a sign and a second map, for the imaginary part of the output; no slot may take the same
            rotation in both. The input must be real: then no slot grows by more than sqrt(2).
    """
    modulus = period or slots
    different: dict[int, Step] = {}
    for step in steps:
        different.setdefault(total_step(step) % modulus, step)
    residues = list(different)

    def mask(index: int) -> Plain:
        residue = residues[index]
        values = functools.partial(_mask, source, imaginary, residue, modulus)
        return Plain((key, "mask", residue), values, 1.0, constant=True)

    growth = 1.0 if imaginary is None else math.sqrt(2)
    return Transform(Masks(different.values(), mask), growth, growth, key)


def _mask(
    source: Callable[[], SlotMap],
    imaginary: tuple[int, Callable[[], SlotMap]] | None,
    step: int,
    modulus: int,
) -> NDArray[Any]:
    mask: NDArray[Any] = _selected(source(), step, modulus)
    if imaginary is not None:
        sign, second = imaginary
        mask = mask + 1j * sign * _selected(second(), step, modulus)
    return mask


def _selected(slots: SlotMap, step: int, modulus: int) -> NDArray[np.float64]:
    offset = (slots - np.arange(len(slots))) % modulus
    return np.where((slots >= 0) & (offset == step), 1.0, 0.0)


def pure_rotation(step: Step, key: Hashable) -> Transform:
    """A rotation as a transform without diagonals, which costs no level."""
    return Transform({step: None}, 1.0, 1.0, key)
