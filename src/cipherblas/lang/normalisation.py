"""Mean and deviation of an operand, which the client takes out of entries before it encrypts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import is_scalar, real_number
from cipherblas.common.errors import DTypeError, RangeError, ShapeError

MAX_MEAN = MAX_DEVIATION = 2.0**600  # quotients of usual numbers stay finite
MIN_DEVIATION = 1 / MAX_DEVIATION
ADVICE = "normalise=(mean, deviation), two numbers, or one of each for every channel"


@dataclass(frozen=True)
class Normalisation:
    """An entry x of an operand is encrypted as (x - mean)/deviation.

    Attributes:
        mean, deviation: of all entries, or one for each place along the first axis: the channels of an image, the
            entries of a vector.

    Raises:
        RangeError: the mean is no finite number, or the deviation no positive one.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("mean", "deviation"):
            object.__setattr__(self, name, tuple(float(one) for one in getattr(self, name)))
        means = all(abs(one) <= MAX_MEAN for one in self.mean)
        if not means or not all(MIN_DEVIATION <= one <= MAX_DEVIATION for one in self.deviation):
            raise RangeError(
                "An operand is normalised by finite means and positive deviations.",
                got=f"mean {_text(self.mean)}, deviation {_text(self.deviation)}",
                advice=ADVICE,
            )

    @classmethod
    def given(cls, value: Any) -> Normalisation:
        """Of a pair of numbers, or of sequences of numbers.

        Raises:
            DTypeError: it is no such pair. RangeError: see the class.
        """
        if isinstance(value, cls):
            return value
        pair = tuple(value) if isinstance(value, (tuple, list)) else ()
        if len(pair) != 2:
            raise DTypeError(
                "A normalisation is a pair of mean and deviation.", got=type(value).__name__, advice=ADVICE
            )
        return cls(*map(_numbers, pair))

    def check_shape(self, shape: Sequence[int]) -> None:
        """Raise ShapeError unless an operand of this shape can be normalised so."""
        lengths = {len(self.mean), len(self.deviation)} - {1}
        if lengths - set(shape[:1]):
            raise ShapeError(
                "A normalisation has another number of means or deviations than the operand has channels.",
                expected=f"1 or {shape[0]}" if shape else "1",
                got=f"{len(self.mean)} and {len(self.deviation)}",
                advice=ADVICE,
            )

    def of(self, values: NDArray[np.float64], dimensions: int) -> NDArray[np.float64]:
        """Arrays of so many dimensions, or several of them along further axes in front, as they are encrypted."""
        lengths = (-1, *(1,) * (dimensions - 1)) if dimensions else ()
        mean, deviation = (np.reshape(one, lengths) for one in (self.mean, self.deviation))
        with np.errstate(over="ignore"):  # an infinity is beyond every bound
            return np.asarray((values - mean) / deviation)

    def before(self, bound: float) -> tuple[float, float]:
        """The interval of entries that are surely within a bound when they are encrypted."""
        pairs = list(zip(*np.broadcast_arrays(self.mean, self.deviation), strict=True))
        low = max(float(mean - bound * deviation) for mean, deviation in pairs)
        return low, min(float(mean + bound * deviation) for mean, deviation in pairs)

    def __str__(self) -> str:
        return f"mean {_text(self.mean)} and deviation {_text(self.deviation)} taken out"


def _numbers(value: Any) -> tuple[float, ...]:
    """A number, or several."""
    try:
        found = (value,) if is_scalar(value) else tuple(value)
    except TypeError:
        found = ()
    if not found or not all(is_scalar(one) for one in found):
        raise DTypeError(
            "Mean and deviation of an operand must be numbers.", got=type(value).__name__, advice=ADVICE
        )
    return tuple(real_number(one) for one in found)


def _text(numbers: Sequence[float]) -> str:
    same = len(set(numbers)) == 1
    return f"{numbers[0]:.6g}" if same else f"({', '.join(f'{one:.6g}' for one in numbers)})"
