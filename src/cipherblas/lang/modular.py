"""Programs of integers modulo t: which they are, and what they are refused for.

A program whose secret operands are declared with `modulus=t` computes as NumPy's integers do, and wraps around at t:
its results are the integers from 0 to t - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import finite_array, real_array, shape_text
from cipherblas.common.errors import ParameterError, RangeError, ShapeError
from cipherblas.lang.facts import facts_of
from cipherblas.lang.graph import formula
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import CLEAR_BITS, MAX_MODULUS, Operand

# What is computed modulo t: arrangements of operands, products, sums, whole factors, layers that are made of these.
MOVED = frozenset({"arrange", "flatten"})  # entries at other places
LAYERS = frozenset({"conv2d", "avg_pool2d"})
COMPUTED = MOVED | LAYERS | {"operand", "view", "constant", "matmul", "add", "multiply", "scale", "results"}
PIECE_BITS = 16  # of factors of a product in the clear: sums of 2^21 products of pieces are exact


def modulus_of(expression: Expression) -> int | None:
    """The t of a program of integers modulo t; None of any other."""
    return facts_of(expression).modulus


def check_modular(expression: Expression) -> None:
    """Check that a program of integers modulo t is one of whole numbers, sums and products.

    Raises:
        ParameterError: secret operands have different moduli, or one has none; an operation is another one, or a number
            has fractions. RangeError: numbers in the clear are too large.
    """
    check_one_modulus(expression)
    check_integers(expression, f"Integers modulo {facts_of(expression).modulus}")


def check_one_modulus(expression: Expression) -> None:
    """Raise ParameterError where secret operands have different moduli, or one has none."""
    nodes = facts_of(expression).nodes
    secret = {node.name: node.operand for node in nodes if node.operand is not None and node.operand.secret}
    modulus = next((one.modulus for one in secret.values() if one.modulus is not None), None)
    for name, operand in secret.items():
        if operand.modulus != modulus:
            raise ParameterError(
                "The secret operands of a program have one modulus, or none of them has.",
                expected=f"modulus={modulus}",
                got=f"{name!r} with " + ("none" if operand.modulus is None else f"modulus={operand.modulus}"),
                advice=f"cb.secret(…, modulus={modulus}) for {name!r}",
            )


def check_integers(expression: Expression, what: str) -> None:
    """Check that a program is one of whole numbers, sums and products.

    Args:
        what: such numbers are called.

    Raises:
        ParameterError: an operation is another one, or a number has fractions. RangeError: numbers in the clear are too
            large.
    """
    facts = facts_of(expression)
    whole = facts.integral
    for node in facts.nodes:
        if node.op not in COMPUTED:
            raise ParameterError(
                f"{what} are added, subtracted and multiplied, and {_text(node)} is something else.",
                got=node.op,
                advice=(
                    "@, +, -, * of operands, their transposes and slices, and whole numbers",
                    f"operands without {'exact=True' if facts.modulus is None else 'modulus=…'}: real numbers have "
                    "functions",
                ),
            )
        if not whole[id(node)]:
            raise ParameterError(
                f"{what} are whole numbers, and {_text(node)} may have fractions.",
                advice=(made_whole(node), *(() if facts.modulus is not None else in_fixed_point(node))),
            )
        given = (
            abs(node.parameters.get("factor", 0.0)) if node.children else 0.0 if node.secret else node.bound
        )
        if given >= 2.0**CLEAR_BITS:
            raise RangeError(
                f"What is given in the clear has numbers that float64 may not hold: {_text(node)}.",
                expected=f"below 2^{CLEAR_BITS}",
                got=f"{given:.3g}",
                advice="the same reduced modulo t before, as an array of integers",
            )


def made_whole(node: Expression) -> str:
    """The advice of whole numbers in the place of a node that may have fractions."""
    if node.operand is not None:
        return "dtype=np.int32, or another integer type, where the operand is declared"
    if node.op not in COMPUTED:
        return "@, +, -, * of operands, their transposes and slices, and whole numbers"
    if node.op == "avg_pool2d":
        return "divisor_override=1, for sums over windows; divide the decrypted result"
    return "whole constants and factors, and sums in place of means; divide the decrypted result"


def in_fixed_point(node: Expression) -> tuple[str, ...]:
    """The advice of fractions that are exact, where an operation that has them makes them."""
    computed = node.op in COMPUTED and node.operand is None
    return ("fixed_point=… of the operands: means and fractions are exact",) if computed else ()


def _text(node: Expression) -> str:
    return f"operand {node.name!r}" if node.operand is not None else formula(node)


def residues(values: object, name: str, operand: Operand) -> NDArray[np.float64]:
    """An array of whole numbers modulo t, of least absolute value, as it is encrypted; it names no entry.

    Raises:
        DTypeError, ShapeError, RangeError: not whole numbers of the operand's shape; as floating point they have at
            most 53 bits.
    """
    assert operand.modulus is not None
    wide = whole_numbers(values, name, operand, "a modulus")
    each = np.atleast_1d(wide)  # of a number, that one
    reduced = each % (operand.modulus if wide.dtype == object else wide.dtype.type(operand.modulus))
    return centred(reduced.astype(np.int64), operand.modulus).astype(np.float64).reshape(wide.shape)


def whole_numbers(values: object, name: str, operand: Operand, declared: str) -> NDArray[Any]:
    """An array of whole numbers as int64 or uint64, or of Python's integers; it names no entry.

    Args:
        declared: what the operand was declared with.

    Raises:
        DTypeError, ShapeError, RangeError: not whole numbers of the operand's shape; as floating point they have at
            most 53 bits.
    """
    if isinstance(values, np.ndarray) and values.dtype == object and all(map(_is_integer, values.flat)):
        array = values
    else:
        array = real_array(values, f"operand {name!r}")
    if array.shape != operand.shape:
        raise ShapeError(
            f"Operand {name!r} has another shape than it was declared with.",
            expected=shape_text(operand.shape),
            got=shape_text(array.shape),
            advice="an array of the declared shape",
        )
    if array.dtype.kind == "f":
        finite_array(array, f"operand {name!r}", (array.ndim,))
        if not (array == np.rint(array)).all():
            raise RangeError(
                f"Operand {name!r} was declared with {declared} and has fractions.",
                advice=("np.rint of the array", "another operand, of real numbers"),
            )
        if (np.abs(array) > 2.0**CLEAR_BITS).any():
            raise RangeError(
                f"Operand {name!r} has floating-point numbers that are too large to be whole for certain.",
                advice="an array of int64 or uint64",
            )
        array = array.astype(np.int64)
    return (
        array if array.dtype == object else array.astype(np.uint64 if array.dtype.kind == "u" else np.int64)
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def centred(values: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    """Integers from 0 to t - 1 as those of least absolute value."""
    return np.where(values > modulus // 2, values - modulus, values)


def evaluate_modular(
    expression: Expression, values: Mapping[str, NDArray[Any]], modulus: int
) -> list[NDArray[np.int64]]:
    """The results of a program of integers modulo t, or of a part of it, in NumPy, from 0 to t - 1.

    Args:
        values: of all operands, whole numbers.
    """
    found: dict[int, NDArray[np.int64]] = {}
    for node in facts_of(expression).nodes:
        if node.operand is not None:
            given = values[node.name].reshape(node.operand.shape)
            for step in node.steps:
                given = step(given)
            value = _reduced(given.T if node.transposed else given, modulus)
        else:
            parts = [found[id(child)] for child in node.children]
            if node.op == "matmul":
                value = multiplied(parts[0], parts[1], modulus)
            elif node.op == "conv2d":
                value = _convolved(node, parts[0], parts[1], modulus)
            elif node.op == "avg_pool2d":
                value = _reduced(node.evaluate([parts[0].astype(np.float64)]), modulus)
            elif node.op == "multiply":
                value = parts[0] * parts[1] % modulus
            elif node.op == "add":
                value = (parts[0] + parts[1]) % modulus
            elif node.op in MOVED:
                value = _arranged(node, parts[0])
            elif node.op == "scale":
                value = parts[0] * (int(node.parameters["factor"]) % modulus) % modulus
            else:
                value = _reduced(node.evaluate([]), modulus)
        found[id(node)] = value
    results = expression.children if expression.root else (expression,)
    return [found[id(result)] for result in results]


def _arranged(node: Expression, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same entries at other places; float64 holds residues."""
    return np.asarray(node.evaluate([values.astype(np.float64)])).astype(np.int64)


def _reduced(values: NDArray[Any], modulus: int) -> NDArray[np.int64]:
    return np.asarray(values).astype(np.int64) % modulus


def multiplied(x: NDArray[np.int64], y: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    """x @ y modulo t, of integers from 0 to t - 1 below 2^31."""
    return _by_halves(np.matmul, x, y, modulus)


def _convolved(
    node: Expression, x: NDArray[np.int64], y: NDArray[np.int64], modulus: int
) -> NDArray[np.int64]:
    """A convolution modulo t, likewise."""
    return _by_halves(lambda image, filters: node.evaluate([image, filters]), x, y, modulus)


def _by_halves(
    product: Callable[[NDArray[np.float64], NDArray[np.float64]], Any],
    x: NDArray[np.int64],
    y: NDArray[np.int64],
    modulus: int,
) -> NDArray[np.int64]:
    """A sum of products modulo t, of integers from 0 to t - 1 below 2^31: of halves, which float64 adds up exactly."""
    total: NDArray[np.int64] = np.zeros(1, np.int64)
    for shift_x in (0, PIECE_BITS):
        for shift_y in (0, PIECE_BITS):
            pieces = [
                (part >> shift & (1 << PIECE_BITS) - 1).astype(np.float64)
                for part, shift in ((x, shift_x), (y, shift_y))
            ]
            found = np.asarray(product(pieces[0], pieces[1])).astype(np.int64) % modulus
            total = (total + found * pow(2, shift_x + shift_y, modulus)) % modulus
    return total.reshape(np.shape(found))


__all__ = [
    "MAX_MODULUS",
    "centred",
    "check_modular",
    "evaluate_modular",
    "modulus_of",
    "multiplied",
    "residues",
]
