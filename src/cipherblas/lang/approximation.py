"""Any function of one number on every entry, by its Chebyshev series on an interval that the entries do not leave."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev as series
from numpy.typing import NDArray

from cipherblas.common.errors import DTypeError, ParameterError, PrecisionError, RangeError
from cipherblas.lang.arguments import integer_of, node_of, number_of, positive
from cipherblas.lang.batches import entrywise
from cipherblas.lang.deferred import COARSEST, Deferred, Fitted, placed
from cipherblas.lang.layers import Assume
from cipherblas.lang.nodes import Expression, Numeric, Written
from cipherblas.lang.polynomials import MAX_DEGREE, MAX_NAME_LENGTH, RANGE_TOLERANCE, Polynomial, simplest

MAX_SERIES_TERMS = 1023  # terms of the series that is cut off
NEGLIGIBLE = 2.0**-48  # of the largest coefficient: rounding, where a function is odd or even
UNIFORM_POINTS, POINTS_PER_DEGREE = 4097, 64  # at which the error is measured
ERROR_MARGIN = 1.02  # the error between two of them, relative to that at one
FITTED_PER_DEGREE = 8  # arguments that a polynomial is fitted to
BEYOND_WEIGHTS = (
    1e-2,
    1e-3,
    1e-4,
    1e-5,
    1e-6,
    1e-8,
)  # of errors beyond the interval that counts, against those on it
NEAR_ENOUGH = 1.1  # times the least error that could be
MAX_BEYOND = 2.0  # what a polynomial is beyond it, over the largest value of its function
FINITE = "interval=(low, high), promised=True, where the function is finite and no entry is outside"
MIN_DISTANCE = 2.0**-30  # of two of them, of which a slope is taken


class Fit(NamedTuple):
    """A polynomial for a function on [low, high]: coefficients on that interval, and its largest error; `size` is the
    largest absolute value of the function, `slope` its largest slope."""

    coefficients: tuple[float, ...]
    error: float
    size: float
    slope: float


@entrywise
def chebyshev(
    f: Numeric,
    x: Expression,
    *,
    interval: tuple[float, float] | None = None,
    degree: int | None = None,
    precision: float | None = None,
    promised: bool = False,
    name: str | None = None,
) -> Expression:
    """Return f of every entry, approximated by a polynomial: the Chebyshev series of f on an interval, truncated.

    Args:
        f: any Python function of one real number, or of an array as NumPy's functions are; it is called on numbers of
            the interval when the program is written, and is no part of it.
        x: an encrypted node.
        interval: (low, high) that the entries of x lie in; by default [-bound, bound] of x.
        degree: of the polynomial, at most 255; None: the least that reaches `precision`.
        precision: the largest error allowed, relative to the largest |f| on the interval. Without it and a `degree`
            `cb.compile` chooses: as fine as the precision of the program needs it.
        promised: the interval is your promise, as that of `cb.assume`; otherwise it must contain [-bound, bound].
        name: in formulas; by default that of f.

    Outside of the interval the polynomial is nothing like f, and grows without bound.

    Levels: ⌈log2(degree + 1)⌉, and one more where the slots of x are at no usual scale. Products: some 2·sqrt(degree).
    Key: relinearisation.

    Errors: |f - p| is measured at some 4000 points and more, taken with a margin, and is part of the error that the
    plan predicts. That is no proof for a function that changes much between two of these points.

    Raises:
        RangeError: entries of x could leave the interval, or f is not finite on it.
        PrecisionError: no degree up to 255 reaches the precision.
        ParameterError, DTypeError: of the arguments.
    """
    node_of(x, "The argument of a function")
    low, high = _interval(x, interval, promised)
    title = getattr(f, "__name__", "function") if name is None else name
    title = (title if title.isascii() and title.isidentifier() else "function")[:MAX_NAME_LENGTH]
    number, asked = _degree(degree), _precision(precision, degree)

    def fit(x: Expression, precision: float) -> Fitted:
        low, high = _interval(x, interval, promised)
        found = fitted(f, low, high, number, precision)
        return Fitted(on_interval(x, found, low, high, title, f), found.size)

    function = "chebyshev" if name is None else name
    if number is None and asked is None:
        return Deferred(
            *(x, function, fit, (id(f), low, high, promised), lambda t: values_of(f, np.clip(t, low, high))),
            name=title,
        )
    return called(function, x, fit(x, COARSEST if asked is None else asked).node)


def called(function: str, x: Expression, node: Expression) -> Expression:
    """The node that a function of this name makes of x: it knows the name beside its place."""
    return placed(node, x, None if node.place is None else node.place._replace(function=function))


def on_interval(x: Expression, fit: Fit, low: float, high: float, name: str, f: Numeric) -> Expression:
    """The polynomial of x that stands for f, of entries in [low, high] by the bound of x or by a promise."""
    centre, reach = (low + high) / 2, (high - low) / 2
    moved = x - centre if centre else x
    if moved.bound > reach * (1 + RANGE_TOLERANCE):
        moved = Assume(moved, reach)
    if any(fit.coefficients[2:]):
        node: Expression = Polynomial(moved, fit.coefficients, reach, fit.error, name, fit.slope)
    else:
        node = simplest(moved, fit.coefficients, reach, fit.error)
    node.written = Written(lambda t: values_of(f, np.clip(t + centre, low, high)), moved)
    return node


def fitted(f: Numeric, low: float, high: float, degree: int | None, precision: float) -> Fit:
    """The series of a function on an interval, with the least degree that reaches a precision, or with a given one."""
    centre, reach = (low + high) / 2, (high - low) / 2

    def moved(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return values_of(f, np.clip(centre + reach * t, low, high))

    full = _interpolated(moved)
    full[np.abs(full) <= NEGLIGIBLE * np.abs(full).max()] = 0.0
    points = _points(MAX_DEGREE if degree is None else degree)
    exact = moved(points)
    size, slope = float(np.abs(exact).max()), _largest_slope(points, exact) / reach

    def cut(number: int) -> Fit:
        coefficients = full[: number + 1]
        error = _largest_error(points, exact, coefficients)
        return Fit(tuple(map(float, coefficients)), error, size, slope)

    if degree is not None:
        return cut(degree)
    wanted = precision * size
    late = np.flatnonzero(np.abs(full) > wanted)
    least = max(1, int(late[-1]) if len(late) else 1)  # a term that is left out is an error of its size
    for number in range(least, MAX_DEGREE + 1):
        fit = cut(number)
        if fit.error <= wanted:
            return fit
    reached = cut(MAX_DEGREE).error / size
    narrow = fitted(f, centre - reach / 4, centre + reach / 4, MAX_DEGREE, precision)
    smaller = ["cb.assume(x, bound), a smaller interval of its argument"]
    raise PrecisionError(
        f"No polynomial of degree {MAX_DEGREE} is so near to the function on its interval.",
        got=f"an error of {reached:.3g} of its largest value, {precision:g} wanted",
        advice=[
            f"precision={1.1 * reached:.2g} of the function",
            *(smaller if narrow.error <= precision * narrow.size else ()),
        ],
    )


def fitted_beyond(f: Numeric, most: float, end: float, degree: int) -> Fit:
    """The polynomial of a degree on [-end, end], by least squares, that is near to a function on [-most, most], and
    beyond no more than `MAX_BEYOND` times as large: it follows f there as little as that takes.

    Returns:
        A fit whose error, size and slope are those on [-most, most].
    """
    # Arguments are as dense at ±end as a polynomial may change there.
    count = FITTED_PER_DEGREE * (degree + 1)
    t = np.cos((2 * np.arange(count) + 1) * math.pi / (2 * count))
    values, within = values_of(f, end * t), np.abs(end * t) <= most
    points = _points(degree)
    exact = values_of(f, most * points)
    size, powers = float(np.abs(exact).max()), series.chebvander(t, degree)
    found: list[Fit] = []
    for weight in BEYOND_WEIGHTS:
        weights = np.where(within, 1.0, weight)
        solved = np.linalg.lstsq(powers * weights[:, None], values * weights, rcond=None)[0].astype(
            np.float64
        )
        solved[np.abs(solved) <= NEGLIGIBLE * np.abs(solved).max()] = 0.0
        if found and np.abs(series.chebval(points, solved)).max() > MAX_BEYOND * size:
            break
        error = _largest_error(points * (most / end), exact, solved)
        found.append(Fit(tuple(map(float, solved)), error, size, _largest_slope(points, exact) / most))
    least = min(fit.error for fit in found)
    return next(fit for fit in found if fit.error <= NEAR_ENOUGH * least)


def _interpolated(f: Numeric) -> NDArray[np.float64]:
    """As `chebinterpolate`, whose powers are found once."""
    points, powers = _nodes()
    with np.errstate(all="ignore"):  # sums of the largest doubles, whose polynomial is refused
        found: NDArray[np.float64] = np.dot(powers.T, f(points))
        found[0] /= len(points)
        found[1:] /= 0.5 * len(points)
    return found


@functools.lru_cache(maxsize=1)
def _nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The points of an interpolation, and T_0, T_1, … of each."""
    points = np.asarray(series.chebpts1(MAX_SERIES_TERMS + 1))
    return points, np.asarray(series.chebvander(points, MAX_SERIES_TERMS))


def values_of(f: Numeric, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """A function at many points; one of single numbers is called for each.

    Raises:
        RangeError: it is not finite. DTypeError: it is no function of one real number.
    """
    found = _of_array(f, points)
    if found is None:
        found = np.array([_value_of(f, float(point)) for point in points])
    if not np.isfinite(found).all():
        at = points[~np.isfinite(found)][0]
        raise RangeError(
            "The function is not finite on its interval.", got=f"{at:g} as argument", advice=FINITE
        )
    return found


def _of_array(f: Numeric, points: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The values of a function at all points at once; None where it takes no arrays, and is called for each number."""
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(f(points))
    except Exception:  # whatever it raises: a dictionary, a branch, `math` know no arrays
        return None
    if found.shape != points.shape or found.dtype.kind not in "bfiu":
        return None
    return found.astype(np.float64)


def _value_of(f: Numeric, point: float) -> float:
    """A function at one point, where those of `math` raise an error instead of an infinity."""
    what = "The function is not finite on its interval."
    try:
        with np.errstate(all="ignore"):
            value = f(point)
    except (ValueError, ArithmeticError) as error:
        raise RangeError(what, got=f"{point:g} as argument ({error})", advice=FINITE) from error
    except Exception as error:
        raise DTypeError(
            "A function that is approximated must take every number of its interval.",
            got=f"{type(error).__name__} at {point:g}: {error}",
            advice="a function of one number, or of an array of numbers: np.tanh, or lambda t: t / (1 + t * t)",
        ) from error
    try:
        return float(value.item() if isinstance(value, np.ndarray) else value)
    except OverflowError as error:
        raise RangeError(what, got=f"{point:g} as argument ({error})", advice=FINITE) from error
    except (TypeError, ValueError) as error:
        raise DTypeError(
            "A function that is approximated must return a real number.",
            got=f"{type(value).__name__} at {point:g}",
            advice="a function that returns one number for each, as np.tanh does",
        ) from error


def _points(degree: int) -> NDArray[np.float64]:
    """Where errors are measured: evenly, and as dense at the ends as a polynomial can change there. They are rounded,
    so that no two differ by the error of a processor's cosine alone."""
    count = POINTS_PER_DEGREE * (degree + 1)
    dense = np.cos(np.arange(count + 1) * math.pi / count)
    return np.union1d(np.round(dense, 12), np.round(np.linspace(-1.0, 1.0, UNIFORM_POINTS), 12))


def _largest_error(
    points: NDArray[np.float64], exact: NDArray[np.float64], coefficients: NDArray[np.float64]
) -> float:
    """Of a polynomial: the largest at the points, with a margin that grows with what every other point misses of it."""
    with np.errstate(all="ignore"):
        off = np.abs(series.chebval(points, coefficients) - exact)
    largest, seen = float(off.max()), float(off[::2].max())
    rounding = 2.0**-48 * float(np.abs(exact).max())
    return largest * ERROR_MARGIN + 2 * (largest - seen) + rounding


def _largest_slope(points: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    """Of a function with these values: the largest between two points, with a margin as that of the error."""

    def between(step: int) -> float:
        distances, change = np.diff(points[::step]), np.diff(exact[::step])
        seen = distances > MIN_DISTANCE
        return float(np.abs(change[seen] / distances[seen]).max())

    largest, seen = between(1), between(2)
    return largest * ERROR_MARGIN + 2 * max(0.0, largest - seen)


def _interval(x: Expression, interval: Any, promised: bool) -> tuple[float, float]:
    if interval is None:
        return -x.bound, x.bound
    try:
        low, high = interval
    except (TypeError, ValueError):
        raise DTypeError(
            "An interval must be two numbers.", got=repr(interval), advice="interval=(low, high)"
        ) from None
    low, high = number_of(low, "low end of an interval"), number_of(high, "high end of an interval")
    if not low < high:
        raise RangeError(
            "An interval must have a length.",
            got=f"{low}, {high}",
            advice=f"interval=({high:g}, {low:g})" if high < low else "interval=(low, high), low below high",
        )
    if not promised and x.bound > min(high, -low) * (1 + RANGE_TOLERANCE):
        raise RangeError(
            "The entries could leave the interval of the function.",
            expected=f"a bound of at most {max(0.0, min(high, -low)):g}",
            got=x.bound,
            advice=(
                "promised=True, where no entry is outside of the interval",
                "cb.assume(x, bound), where its entries stay below",
            ),
        )
    return low, high


def _degree(value: Any) -> int | None:
    if value is None:
        return None
    number = integer_of(value, "The degree")
    if not 1 <= number <= MAX_DEGREE:
        raise ParameterError(
            "The degree of a polynomial is out of range.",
            got=number,
            advice=f"a degree from 1 to {MAX_DEGREE}",
        )
    return number


def _precision(value: Any, degree: Any) -> float | None:
    if value is None:
        return None
    if degree is not None:
        raise ParameterError(
            "A function takes a degree or a precision, not both.",
            advice=("degree=… alone, and the error is what it achieves", "precision=… alone"),
        )
    return positive(value, "precision of a function", 1.0)
