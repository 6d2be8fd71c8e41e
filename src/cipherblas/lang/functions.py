"""What users call: `conv2d`, `avg_pool2d`, `flatten`, `matvec`, `square`, `polynomial`, and `assume`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from cipherblas.common.arrays import finite_array, shape_text
from cipherblas.common.errors import DTypeError, ParameterError, ShapeError
from cipherblas.lang.arguments import integer_of, node_of, number_of, positive
from cipherblas.lang.batches import entrywise
from cipherblas.lang.exact import is_exact
from cipherblas.lang.facts import facts_of
from cipherblas.lang.layers import Assume, AvgPool2d, Conv2d, Flatten
from cipherblas.lang.nodes import Expression, as_node
from cipherblas.lang.operands import checked_bound
from cipherblas.lang.operations import Add, Constant, Multiply
from cipherblas.lang.polynomials import MAX_DEGREE, of_integers, of_powers, simplest, sum_of_powers

Pair = tuple[int, int]
PAIRS = "1, or (1, 2) for height and width"


def matvec(weights: Any, x: Expression) -> Expression:
    """Return W·x for an encrypted vector x of k entries, as `weights @ x` does.

    Args:
        weights: clear, rows × k: an array, or a node of a public operand.
        x: a node of shape (k,).

    Raises:
        ShapeError: the shapes do not fit. DTypeError, RangeError: not finite real numbers.
    """
    return as_node(weights, 2, "weights of a product") @ as_node(x, 1, "vector of a product")


def conv2d(
    x: Expression,
    weights: Any,
    bias: Any = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["same", "valid"] = 0,
    groups: int = 1,
) -> Expression:
    """Return the convolution of an encrypted image, or of several, with clear filters, as `torch.nn.functional.conv2d`
    does.

    Args:
        x: a node of shape (C, H, W), or (n, C, H, W) of n images.
        weights: clear, (O, C/groups, K1, K2): an array, or a node of a public operand.
        bias: clear, (O,), or None.
        stride, padding: one number, or one for height and one for width; padding may be "valid" (0) or "same"
            (stride 1 and an odd filter: the result is as large as the image).
        groups: divides C and O.

    Returns:
        A node of shape (O, H', W'), or (n, O, H', W'), H' = floor((H + 2·padding - K1)/stride) + 1.

    Levels: one; a bias costs none.

    Raises:
        ShapeError: shapes do not fit, groups do not divide, the filter exceeds the padded image, the padding the image.
        DTypeError, RangeError: not finite real numbers.
    """
    image = _images(x, "image of a convolution")
    filters = as_node(weights, 4, "filters of a convolution")
    steps = _pair(stride, "stride")
    kernel = filters.shape[2:]
    if isinstance(padding, str):
        pads = _named_padding(padding, kernel, steps)
    else:
        pads = _pair(padding, "padding")
    for size, pad in zip(image.shape[-2:], pads, strict=True):
        if pad > size:
            raise ShapeError(
                "The padding is larger than the image.", got=pad, advice=f"padding={size} at most"
            )
    result: Expression = Conv2d(image, filters, steps, pads, integer_of(groups, "The number of groups"))
    if bias is None:
        return result
    values = bias if isinstance(bias, Expression) else finite_array(bias, "a bias", (1,))
    if values.shape != (filters.shape[0],):
        raise ShapeError(
            "A bias needs one number for each filter.",
            got=shape_text(values.shape),
            advice=f"an array of shape ({filters.shape[0]},)",
        )
    if isinstance(values, Expression):
        raise DTypeError(
            "The bias of a convolution must be an array, and this one is a node of the program.",
            advice="cb.conv2d(x, weights) + bias.reshape(-1, 1, 1)",
        )
    return Add(result, Constant(np.broadcast_to(values[:, None, None], result.shape)))


def avg_pool2d(
    x: Expression,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    *,
    divisor_override: int | None = None,
) -> Expression:
    """Return the means over windows of an encrypted image, or of several, as `torch.nn.functional.avg_pool2d` does.

    Args:
        x: a node of shape (C, H, W), or (n, C, H, W) of n images.
        kernel_size: of the window, one number or two.
        stride: by default the window's.
        padding: zeros on all sides, at most half the window; the mean counts them.
        divisor_override: what sums over windows are divided by, in the place of the window's size; 1 leaves the sums,
            of which programs of integers are made.

    Levels: none without padding, else one.

    Raises:
        ShapeError: shapes do not fit. ParameterError: the divisor is not 1 at least.

    Examples:
        >>> import cipherblas as cb, numpy as np
        >>> sums = lambda x: cb.avg_pool2d(x, 2, divisor_override=1)
        >>> program = cb.compile(sums, {"x": cb.secret(1, 16, 16, modulus=65537)})
        >>> int(program.evaluate({"x": np.ones((1, 16, 16), int)}).max())
        4
    """
    image = _images(x, "image of a pooling layer")
    kernel = _pair(kernel_size, "window of a pooling layer")
    divisor = None if divisor_override is None else integer_of(divisor_override, "The divisor of a mean")
    return AvgPool2d(
        image,
        kernel,
        kernel if stride is None else _pair(stride, "stride"),
        _pair(padding, "padding"),
        divisor,
    )


def flatten(x: Expression) -> Expression:
    """Return an image of shape (C, H, W) as a vector of C·H·W entries, n images of shape (n, C, H, W) as a matrix of n
    rows. It costs nothing."""
    node_of(x, "What is flattened")
    return x if len(x.shape) == 1 else Flatten(_images(x, "tensor to flatten"))


def _images(x: Any, what: str) -> Expression:
    """A node of one image, or of several."""
    return as_node(x, 4 if isinstance(x, Expression) and len(x.shape) == 4 else 3, what)


@entrywise
def square(x: Expression) -> Expression:
    """Return the square of every entry. Levels: one. Key: relinearisation."""
    node_of(x, "What is squared")
    return Multiply(x, x)


@entrywise
def assume(x: Expression, bound: float, *, error: float | None = None) -> Expression:
    """Return x unchanged, with your promise that no entry exceeds `bound`, and optionally that no error exceeds
    `error`.

    Bounds grow with every product and layer: the worst case is usually far larger than the values that real data
    produce. Precision is relative to the bound of the result, and errors are
    predicted from the bounds of what is squared, so bounds measured on examples (with a margin) give smaller rings.

    The promise is checked nowhere, for the server cannot see a value. Where an entry exceeds it somewhat, errors may
    exceed the prediction; where it exceeds it many times over, the result may be wrong.

    Errors are predicted for the worst input, and multiply from step to step too. Where a program forgets them, as an
    iteration does that converges, or where you have found by other means what they are, `error` says so: predictions
    begin anew there, from an error of this size that may be the same in all entries. What the plan then says of the
    result holds as far as your promise does.

    Args:
        x: a node that depends on a secret operand.
        bound: of the absolute value of an entry; a bound above that of x changes nothing.
        error: of the absolute difference of an entry, as the server has it encrypted, to the one that was written: by
            encryption, and by approximations. Without it, errors are those that were predicted.

    Levels: none.

    Raises:
        DTypeError: no node, or no number. ParameterError: a node without secrets. RangeError: no positive number.
    """
    node_of(x, "What a bound is assumed of")
    number = number_of(bound, "bound that is assumed")
    if not x.secret:
        raise ParameterError(
            "A bound can only be assumed of an encrypted node, and this one is clear.",
            advice="bound=… where the clear operand is declared",
        )
    if error is None:
        return Assume(x, checked_bound(number))
    return Assume(x, checked_bound(number), positive(error, "error that is assumed"))


@entrywise
def polynomial(x: Expression, coefficients: Sequence[float]) -> Expression:
    """Return c0 + c1·x + c2·x² + … of every entry.

    A sum of several powers is computed in the Chebyshev basis on the interval that the bound of x gives, by some
    2·sqrt(degree) products (Paterson and Stockmeyer); so are those of integers modulo t, in powers; a single power,
    beside a linear term, and powers of exact integers by repeated squaring.
    Coefficients in the Chebyshev basis are exact but for one rounding each, 2^-53 of their size.

    Args:
        coefficients: from the constant on, as `numpy.polynomial.polynomial.polyval` takes them.

    Terms that lie far below the precision of the program are left out, and counted in its predicted error: those of
    coefficients that a fit leaves near zero.

    Levels: log2(degree + 1), rounded up; log2(degree) where the degree is a power of two, or for one power. One more
    where the slots of x are at no usual scale. Key: relinearisation from degree 2 on.

    Raises:
        ParameterError: no coefficient but the constant, or a degree above 255.
        RangeError: a coefficient that is not finite.
    """
    node_of(x, "The argument of a polynomial")
    if not isinstance(coefficients, (Sequence, np.ndarray)):
        raise DTypeError(
            "The coefficients of a polynomial must be numbers in order.",
            got=type(coefficients).__name__,
            advice="a list [c0, c1, c2, …] for c0 + c1·x + c2·x² + …",
        )
    values = [number_of(value, "coefficient of a polynomial") for value in coefficients]
    while values and values[-1] == 0:
        values.pop()
    if not 2 <= len(values) <= MAX_DEGREE + 1:
        raise ParameterError(
            "The degree of a polynomial is out of range.",
            got=max(len(values), 1) - 1,
            advice=f"at most {MAX_DEGREE + 1} coefficients, and two or more",
        )
    # In the Chebyshev basis they have fractions.
    exact = all(value.is_integer() for value in values) and (is_exact(x) or _is_whole(x))
    if x.modulus is not None:
        return of_integers(x, values)
    if exact or facts_of(x).fixed_point or sum(value != 0 for value in values[2:]) < 2:
        return sum_of_powers(x, values)
    return simplest(x, of_powers(values, x.bound), x.bound)


def _is_whole(x: Expression) -> bool:
    """Whether it is clear, and of whole numbers."""
    return not x.secret and facts_of(x).integral[id(x)]


def _named_padding(name: str, kernel: Sequence[int], stride: Pair) -> Pair:
    if name == "valid":
        return (0, 0)
    if name != "same":
        raise ParameterError(
            "The padding is not known.", got=repr(name), advice='"same", "valid", a number or two numbers'
        )
    if stride != (1, 1) or any(taps % 2 == 0 for taps in kernel):
        raise ShapeError(
            'The padding "same" needs stride 1 and a filter of odd size.',
            got=f"stride {stride}, filter {shape_text(kernel)}",
            advice=f"padding={(kernel[0] // 2, kernel[1] // 2)}",
        )
    return kernel[0] // 2, kernel[1] // 2


def _pair(value: Any, what: str) -> Pair:
    if isinstance(value, (str, bytes)):
        raise DTypeError(f"The {what} must be one or two integers.", got=repr(value), advice=PAIRS)
    several = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim > 0)
    values = tuple(value) if several else (value, value)
    if len(values) != 2:
        raise ShapeError(f"The {what} must be one or two integers.", got=values, advice=PAIRS)
    return integer_of(values[0], f"The {what}"), integer_of(values[1], f"The {what}")
