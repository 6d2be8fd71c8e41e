"""Which products of exact integers are computed byte by byte (`forms.byte_rows`), and which factors are cut."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from cipherblas.common.gemm_paths import BYTE_LARGEST
from cipherblas.forms import byte_rows
from cipherblas.lang.analysis import whole_nodes
from cipherblas.lang.exact import is_exact
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.results import results_of


class Sides(NamedTuple):
    """Factors of a product that are cut into bytes."""

    left: bool = False
    right: bool = False


def sides_of(root: Expression) -> dict[int, Sides]:
    """By the id of a product, which factors may be cut into bytes.

    It is a result of a program of exact integers, which the client puts together, or a result is a multiple of it, and
    it is no factor or term of anything else. Of two secret factors both are operands, which the client cuts; of others
    the clear one is cut.
    """
    if not is_exact(root):
        return {}
    results = results_of(root)
    uses = Counter(id(child) for node in ordered(root) if not node.root for child in node.children)
    found = {}
    for result in results:
        node, most = result, 0
        while node.op == "scale" and uses[id(node)] <= most:
            node, most = node.children[0], 1
        once = uses[id(node)] <= most and (node is result or all(node is not other for other in results))
        if node.product and len(node.children) == 2 and once:
            sides = Sides(*(_may_be_cut(node, child) for child in node.children))
            if any(sides):
                found[id(node)] = sides
    return found


def _may_be_cut(product: Expression, factor: Expression) -> bool:
    secrets = all(child.secret and child.operand is not None for child in product.children)
    return (secrets or not factor.secret) and has_two_bytes(factor)


def has_two_bytes(node: Expression) -> bool:
    """Whether the entries of a matrix are 16-bit integers, and not of 8 bits."""
    return whole_nodes(node)[id(node)] and BYTE_LARGEST < node.bound <= byte_rows.MOST


def bounds(product: Expression, sides: Sides) -> tuple[float, float]:
    """Bounds of both factors, as they are multiplied."""
    left, right = (
        float(byte_rows.OFFSET) if cut else child.bound
        for cut, child in zip(sides, product.children, strict=True)
    )
    return left, right


def growth(product: Expression, sides: Sides) -> float:
    """The bound of what is computed over that of the product: less than one, or more where weights are known."""
    left, right = bounds(product, sides)
    return product.children[0].shape[-1] * left * right / product.bound
