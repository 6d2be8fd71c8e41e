"""Exact integers by their residues: programs are computed modulo several t, and results put together from these.

The product T of all t exceeds twice the largest absolute value that a result may have, so that nothing wraps around
(the Chinese remainder theorem). Whatever a program has on the way may be larger. Results that are wanted modulo another
number are reduced at the end; where that number divides T, they need no bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import RangeError, capitalized
from cipherblas.lang import graph
from cipherblas.lang.facts import facts_of
from cipherblas.lang.fixed_point import fixed_numbers
from cipherblas.lang.joins import without_joins
from cipherblas.lang.modular import COMPUTED, centred, check_integers, whole_numbers
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from cipherblas.lang.results import labels_of, results_of

MAX_BITS = 512  # of the product of all t
BOUND_ROUNDING = 2.0**-20  # relative, of bounds, which are doubles
WRAPS = 2147352577 * 2146959361  # of 62 bits
WORD_BITS = 62  # of products of t whose residues are put together in int64
INT64 = 2.0**63  # from which on a result is no int64
WORD = 1 << 64


def is_computed(expression: Expression) -> bool:
    """Whether a program of exact integers can be computed by residues: it has sums and products alone."""
    return facts_of(without_joins(expression)).operations <= COMPUTED


def wanted_modulus(operands: Mapping[str, Operand]) -> int | None:
    """The number that results of exact integers are reduced by at the end; None for nothing."""
    return next((one.modulus for one in operands.values() if one.exact and one.modulus is not None), None)


def is_bounded(expression: Expression) -> bool:
    """Whether there are t enough for the bounds of all results."""
    return all(node.bound < 2.0 ** (MAX_BITS - 2) for node in results_of(expression))


def check_exact_bounds(expression: Expression, bounded: bool = True) -> None:
    """Check that a program of whole numbers can be computed by residues.

    Args:
        bounded: its results must have bounds.

    Raises:
        ParameterError: something is not a whole number for certain. RangeError: numbers in the clear are too large, or
            results.
    """
    check_integers(without_joins(expression), "Exact integers")
    modulus = wanted_modulus(operands_in(expression))
    smaller = (
        ("a smaller bound=… of the operands", "modulus=…, modulo which results wrap around")
        if modulus is None
        else (f"modulus={WRAPS}, a product of primes with slots: modulo such numbers programs wrap around",)
    )
    reduced = None
    if modulus is not None:
        reduced = f"Modulo {modulus} the program is computed without wrapping around, and reduced at the end."
    for label, node in zip(labels_of(expression), results_of(expression), strict=True):
        if bounded and not node.bound < 2.0 ** (MAX_BITS - 2):
            of = f" {label!r}" if label else ""
            raise RangeError(
                f"The exact result{of} may be larger than what is computed.",
                expected=f"a bound below 2^{MAX_BITS - 2}",
                got=f"{node.bound:.3g}",
                advice=smaller,
                cause=reduced,
            )


def least_product(expression: Expression) -> int:
    """The least product of all t of which the results of a program are told apart."""
    largest = max(node.bound for node in results_of(expression))
    return 2 * math.ceil(largest * (1 + BOUND_ROUNDING)) + 1


def holds(expression: Expression, operands: Mapping[str, Operand], moduli: Sequence[int]) -> bool:
    """Whether results are known from their residues."""
    product, modulus = math.prod(moduli), wanted_modulus(operands)
    if modulus is not None and product % modulus == 0:
        return True
    return is_bounded(expression) and product >= least_product(expression)


def with_operands(expression: Expression, operands: Mapping[str, Operand]) -> Expression:
    """The same program of operands that are declared otherwise."""
    constants = {name: one.values for name, one in graph.constants(expression).items()}
    return graph.from_json(graph.to_json(expression), operands, constants)


def declared_modulo(operands: Mapping[str, Operand], modulus: int) -> dict[str, Operand]:
    """Operands of exact integers as those of the same program modulo t."""
    most = max(1.0, modulus // 2)
    return {
        name: Operand(one.shape, True, most, True, one.encryption, modulus=modulus)
        if one.secret
        else Operand(one.shape, False, min(one.bound, most), True)
        for name, one in operands.items()
    }


def as_exact(operands: Mapping[str, Operand]) -> dict[str, Operand]:
    """Operands of integers modulo t as exact integers whose results are reduced at the end."""
    return {name: replace(one, exact=True) if one.secret else one for name, one in operands.items()}


def operands_in(expression: Expression) -> dict[str, Operand]:
    """The operands of a graph, by name."""
    return {node.name: node.operand for node in facts_of(expression).nodes if node.operand is not None}


def exact_numbers(values: object, name: str, operand: Operand) -> NDArray[Any]:
    """An array of an operand of exact integers, or of whole numbers in the clear, checked: int64, uint64 or Python's
    integers; it names no entry.

    Raises:
        DTypeError, ShapeError, RangeError: not whole numbers of the operand's shape within its bound.
    """
    if operand.fixed_point is not None:
        return fixed_numbers(values, name, operand)
    modulus = operand.modulus
    found = whole_numbers(values, name, operand, "an integer type" if modulus is None else "a modulus")
    if modulus is not None:
        return _reduced(found, modulus)
    if max(int(found.max()), -int(found.min())) > operand.bound:
        raise RangeError(
            f"Operand {name!r} has an entry beyond the planned range, which is {operand.bound:g} in absolute value.",
            advice=(
                "bound=… where the operand is declared, the largest absolute value that an entry may have",
                f"np.clip({name}, {-operand.bound:g}, {operand.bound:g}) in place of {name}",
            ),
        )
    return found


def _reduced(values: NDArray[Any], modulus: int) -> NDArray[Any]:
    """The integers of least absolute value that are the same modulo a number."""
    if values.dtype != object and modulus < INT64:
        return centred(np.asarray(values % values.dtype.type(modulus)).astype(np.int64), modulus)
    if values.dtype == np.uint64 and modulus == WORD:
        return values.view(np.int64)
    if max(int(values.max()), -int(values.min())) <= modulus // 2:
        return values
    reduced = np.atleast_1d(values.astype(object)) % modulus
    return np.asarray(np.where(reduced > modulus // 2, reduced - modulus, reduced)).reshape(values.shape)


def residues_of(values: NDArray[Any], modulus: int) -> NDArray[np.float64]:
    """Integers modulo t, of least absolute value, as they are encrypted."""
    each = np.atleast_1d(values)  # of a number, that one
    if each.dtype != object:  # of a narrow type t is no number
        each = each.astype({"u": np.uint64, "f": np.float64}.get(each.dtype.kind, np.int64))
    reduced = each % (modulus if each.dtype == object else each.dtype.type(modulus))
    return centred(reduced.astype(np.int64), modulus).astype(np.float64).reshape(values.shape)


def joined(
    parts: Sequence[NDArray[np.int64]], moduli: Sequence[int], modulus: int | None = None
) -> NDArray[Any]:
    """The integers of least absolute value that have these residues: int64 where the product of all t is below 2^62,
    else Python's integers; or, where only their residues modulo a `modulus` that divides 2^64 are wanted, integers of
    the same residues, as uint64.

    Args:
        parts: for each t below 2^31 the residues from 0 to t - 1.
    """
    shape = np.shape(parts[0])
    digits, product = _mixed_radix([np.atleast_1d(part) for part in parts], moduli), math.prod(moduli)
    if modulus is not None and WORD % modulus == 0:
        return _joined_words(digits, moduli).reshape(shape)
    wide = product.bit_length() > WORD_BITS
    found: NDArray[Any] = np.zeros(digits[0].shape, object if wide else np.int64)
    for digit, one in zip(reversed(digits), reversed(moduli), strict=True):
        found = np.asarray(found * one + (digit.astype(object) if wide else digit))
    return np.asarray(np.where(found > product // 2, found - product, found)).reshape(shape)


def _joined_words(digits: Sequence[NDArray[np.int64]], moduli: Sequence[int]) -> NDArray[np.uint64]:
    """The same modulo 2^64, without integers of more than a word."""
    product = math.prod(moduli)
    found, rest = np.zeros(digits[0].shape, np.uint64), product // 2
    beyond = np.zeros(found.shape, bool)  # of the digits so far, the most significant of which comes last
    for digit, one in zip(digits, moduli, strict=True):
        rest, half = divmod(rest, one)
        beyond = (digit > half) | ((digit == half) & beyond)
    for digit, one in zip(reversed(digits), reversed(moduli), strict=True):
        found = found * np.uint64(one) + digit.view(np.uint64)
    found[beyond] -= np.uint64(product % WORD)
    return found


def _mixed_radix(parts: Sequence[NDArray[np.int64]], moduli: Sequence[int]) -> list[NDArray[np.int64]]:
    """The digits of integers from 0 on with these residues: d_0 + t_0·(d_1 + t_1·(d_2 + …))."""
    digits: list[NDArray[np.int64]] = []
    for part, modulus in zip(parts, moduli, strict=True):
        value, product = np.zeros_like(part), 1
        for digit, before in zip(digits, moduli, strict=False):
            value = (value + digit % modulus * product) % modulus
            product = product * before % modulus
        digits.append((part - value) % modulus * pow(product, -1, modulus) % modulus)
    return digits


def finished(values: NDArray[Any], bound: float, modulus: int | None, what: str) -> NDArray[Any]:
    """A result in the type that its bound, or its modulus, gives it: int64, uint64 or Python's integers.

    Raises:
        RangeError: an entry exceeds the bound.
    """
    if modulus is not None:
        if values.dtype == np.uint64 and modulus == WORD:
            return values
        each = np.atleast_1d(values)
        wanted = np.uint64(modulus) if each.dtype == np.uint64 else modulus
        reduced = np.asarray(each % wanted).reshape(np.shape(values))
        return reduced.astype(np.int64 if modulus <= 1 << 63 else np.uint64)
    limit = math.ceil(bound * (1 + BOUND_ROUNDING))
    if not -limit <= int(values.min()) <= int(values.max()) <= limit:  # the message tells no value
        raise RangeError(
            f"{capitalized(what)} of shape {shape_text(np.shape(values))} has an entry beyond its bound: it was not "
            "computed as planned.",
            expected=f"at most {bound:g} in absolute value",
            advice="server.run(operands), of a server of this program",
        )
    return np.asarray(values.astype(np.int64 if bound < INT64 else object))
