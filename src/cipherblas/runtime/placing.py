"""Required encodings of values by rows, and the values whose entries can stand at places of our choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cipherblas.forms.row_forms import Placing, RowForm
from cipherblas.lang.joins import JOINED, PART
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.rlwe.basis import Basis

UNMOVED = ("scale", "assume", "truncated")  # operations that change how values are read alone
LAID = (JOINED, PART)  # whose rows are those of encryptions


def lies_by_columns(node: Expression) -> bool:
    """How joins and parts lie, whose axis is that of the rows of encryptions."""
    return bool(node.parameters["axis"] == 1)


class RequiredRows(NamedTuple):
    """The encoding that a reader requires of a value: encrypted by columns or by rows, and for operands the scale. A
    value that was converted keeps its limbs, and its scale unless that must be matched.

    `basis`: of operands; None for all limbs. `matched`: the value is added to one of this scale. `placing`: its rows
    hold all N coefficients, with the entries there. `kind`: how an operand is encrypted.
    """

    by_columns: bool
    scale: Any
    basis: Basis | None = None
    matched: bool = False
    placing: Placing | None = None
    kind: type[RowForm] = RowForm


def placeable(node: Expression) -> bool:
    """Whether a value by rows can have all N coefficients, entries where they are wanted and zeros elsewhere: an
    operand, or products of it and clear factors on one side of it, since a transposition keeps no places."""
    by_columns: bool | None = None  # as all that was seen so far comes
    while not node.packable:
        if node.op == PART:
            lies, (node,) = lies_by_columns(node), node.children
        elif node.product:
            secret = [child for child in node.children if child.secret]
            if len(secret) != 1:
                return False
            lies, node = node.children[0].secret, secret[0]
        elif node.op in UNMOVED:
            (node,) = node.children
            continue
        else:
            return False
        if by_columns not in (None, lies):
            return False
        by_columns = lies
    return node.secret and node.operand is not None and not node.operand.public_key


def comes_from(node: Expression, form: str, form_of: Callable[[Expression], str]) -> bool:
    """Whether a value was computed in a form, but for what moves nothing."""
    while not node.packable:
        if form_of(node) == form:
            return True
        if node.op not in (*UNMOVED, PART):
            return False
        (node,) = node.children
    return False


def comes_by_columns(node: Expression) -> bool | None:
    """How a value that can be placed comes by itself: as its first product with a clear factor; None: in either way."""
    while not node.packable:
        if node.product:
            return node.children[0].secret
        if node.op == PART:
            return lies_by_columns(node)
        node = node.children[0]
    return None


def factor_of(node: Expression) -> Expression | None:
    """The product that a value is, but for what moves nothing; None where it is none."""
    while not node.product:
        if node.op not in (*UNMOVED, PART):
            return None
        node = node.children[0]
    return node


class Carried(NamedTuple):
    """A value by rows that is a number times some rows of a product with a clear factor.

    Attributes:
        product: of a secret operand and the clear factor.
        rows: of the encryption of the product.
        gain, sign: the number, and its sign.
    """

    product: Expression
    rows: tuple[int, int]
    gain: float
    sign: float


def carried(node: Expression, by_columns: bool) -> Carried | None:
    """Return the product that a placed value is made of; None if no clear factor can be moved to the other factor.

    Args:
        by_columns: how it is encrypted.
    """
    gain = sign = 1.0
    rows = (0, matrix_shape(node)[1 if by_columns else 0])
    while not node.product:
        if node.op == PART and lies_by_columns(node) == by_columns:
            start = int(node.parameters["start"])
            rows = rows[0] + start, rows[1] + start
        elif node.op == "scale":
            gain, factor = gain * float(node.gain(0)), float(node.parameters["factor"])
            sign = -sign if factor < 0 else sign
        elif node.op not in UNMOVED:
            return None
        node = node.children[0]
    secret = [child for child in node.children if child.secret]
    if len(secret) != 1 or not placeable(secret[0]) or not secret[0].packable:
        return None
    return Carried(node, rows, gain, sign) if node.children[0].secret == by_columns else None
