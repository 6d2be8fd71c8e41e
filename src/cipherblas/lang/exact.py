"""Programs of exact integers: which they are, and what they are refused for.

A program with an operand that is declared `exact` computes with whole numbers alone. Its results are planned to err by
less than one half, and rounded when they are decrypted.
"""

from __future__ import annotations

from cipherblas.common.errors import ParameterError, RangeError
from cipherblas.lang.analysis import integral_nodes
from cipherblas.lang.facts import facts_of
from cipherblas.lang.graph import formula
from cipherblas.lang.modular import in_fixed_point, made_whole
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.results import labels_of, results_of

# Of every node: float64 numbers hold these integers, in clear parts and where results are compared with NumPy.
NODE_BITS = 53
# Of every result: the client decodes by float64 numbers, whose errors must leave room for those of encryption.
RESULT_BITS = 47
SMALLER = "a smaller bound=… of the operands"


def is_exact(expression: Expression) -> bool:
    """Whether a program computes exact integers, that is, an operand is declared as exact."""
    return facts_of(expression).exact


def check_exact(expression: Expression) -> None:
    """Check that a program of exact integers is one of whole numbers, of which every result can be decoded.

    Raises:
        ParameterError: a node is not known to hold whole numbers: an operand without an integer type, a constant or a
            factor with fractions, a division, a mean.
        RangeError: the bound of a node, or of a result, is too large.
    """
    whole, results = integral_nodes(expression), {id(node) for node in results_of(expression)}
    for node in ordered(expression):  # children first: the first one is to blame
        if not whole[id(node)]:
            raise ParameterError(
                f"A program of exact integers computes with whole numbers alone, and {_text(node)} may have fractions.",
                advice=(made_whole(node), *in_fixed_point(node), "operands without exact=True"),
            )
        if node.bound > 2.0**NODE_BITS and not node.root and id(node) not in results:
            raise RangeError(
                f"A program of exact integers has numbers that are too large: {_text(node)}.",
                expected=f"bounds up to 2^{NODE_BITS}",
                got=f"{node.bound:.3g}",
                advice=SMALLER,
            )
    for label, node in zip(labels_of(expression), results_of(expression), strict=True):
        if node.bound > 2.0**RESULT_BITS:
            of = f" {label!r}" if label else ""
            raise RangeError(
                f"The exact result{of} may be larger than what is decoded exactly.",
                expected=f"a bound up to 2^{RESULT_BITS}",
                got=f"{node.bound:.3g}",
                advice=SMALLER,
            )


def _text(node: Expression) -> str:
    return f"operand {node.name!r}" if node.operand is not None else formula(node)
