"""What is true of a graph, found once: graphs do not change."""

from __future__ import annotations

import functools
from collections import Counter

from cipherblas.lang.nodes import Expression, ordered

SUMS = frozenset({"add", "scale", "assume", "truncated"})  # whose terms may have any number of components


class Facts:
    """Of a graph, by its last node.

    Attributes:
        order: the distinct nodes, children before parents.
        digest: of its content, once that was asked for (`content_digest`).
    """

    digest: str | None = None

    def __init__(self, node: Expression) -> None:
        self.order = tuple(ordered(node))

    @functools.cached_property
    def nodes(self) -> tuple[Expression, ...]:
        """The nodes with a value: all but the root of several results."""
        return tuple(node for node in self.order if not node.root)

    @functools.cached_property
    def number(self) -> dict[int, int]:
        """The place of a node among `nodes`, by its id."""
        return {id(node): number for number, node in enumerate(self.nodes)}

    @functools.cached_property
    def uses(self) -> Counter[int]:
        """How often a node is a child, by its id."""
        return Counter(id(child) for node in self.order for child in node.children)

    @functools.cached_property
    def readers(self) -> dict[int, tuple[Expression, ...]]:
        """The nodes that are computed from a node, by its id, each once and in order."""
        found: dict[int, dict[int, Expression]] = {id(node): {} for node in self.order}
        for node in self.order:
            for child in node.children:
                found[id(child)][id(node)] = node
        return {key: tuple(nodes.values()) for key, nodes in found.items()}

    @functools.cached_property
    def products(self) -> tuple[Expression, ...]:
        """The matrix products that depend on secret data, operands first."""
        return tuple(node for node in self.order if node.product and node.secret)

    @functools.cached_property
    def last_products(self) -> frozenset[int]:
        """The ids of the elementwise products of encrypted factors that nothing is computed of but sums, which are
        results."""
        found, added = set[int](), set[int]()
        for node in reversed(self.order):
            if node.secret and all(one.root or id(one) in added for one in self.readers[id(node)]):
                if node.op in SUMS:
                    added.add(id(node))
                elif _is_product_of_secrets(node):
                    found.add(id(node))
        return frozenset(found)

    @functools.cached_property
    def multiplies_last(self) -> bool:
        """Whether elementwise products are the last thing that is computed, sums aside, and nothing before them needs
        a key."""
        last, without_keys = self.last_products, {*SUMS, "operand", "view"}
        others = (node for node in self.nodes if node.secret and id(node) not in last)
        return bool(last) and all(
            node.op in without_keys or (node.op == "multiply" and not _is_product_of_secrets(node))
            for node in others
        )

    @functools.cached_property
    def entrywise(self) -> bool:
        """Whether every entry of what is encrypted is computed of those at the same place."""
        computed = SUMS | {"multiply", "polynomial"}
        return all(node.op in computed or node.packable for node in self.nodes if node.secret)

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Of the operands that went into it, those multiplied by zero included."""
        return frozenset().union(*(node.names for node in self.order))

    @functools.cached_property
    def operations(self) -> frozenset[str]:
        """Every operation that there is."""
        return frozenset(node.op for node in self.order)

    @functools.cached_property
    def exact(self) -> bool:
        """Whether it computes exact integers: an operand is declared so."""
        return any(node.operand is not None and node.operand.exact for node in self.order)

    @functools.cached_property
    def modulus(self) -> int | None:
        """t of a program of integers modulo t: that of the first node that has one."""
        return next((node.modulus for node in self.nodes if node.modulus is not None), None)

    @functools.cached_property
    def fixed_point(self) -> bool:
        """Whether an operand is in fixed point."""
        return any(node.operand is not None and node.operand.fixed_point is not None for node in self.order)

    @functools.cached_property
    def constant(self) -> bool:
        """Whether its values are known before operands are: there is none."""
        return all(node.operand is None for node in self.order)

    @functools.cached_property
    def public_key(self) -> bool:
        """Whether the public key may encrypt an operand."""
        return any(node.operand is not None and node.operand.public_key for node in self.order)

    @functools.cached_property
    def integral(self) -> dict[int, bool]:
        """By the id of a node, whether its entries are known to be whole numbers."""
        found: dict[int, bool] = {}
        for node in self.order:
            found[id(node)] = node.integral([found[id(child)] for child in node.children])
        return found

    @functools.cached_property
    def sheds(self) -> bool:
        """Whether the error of some node is less than those of what it is made of let it be."""
        return any(node.sheds for node in self.order)


def _is_product_of_secrets(node: Expression) -> bool:
    return node.op == "multiply" and all(child.secret for child in node.children)


def facts_of(node: Expression) -> Facts:
    """Return the facts of the graph below a node. The node caches them."""
    found = node.facts
    if not isinstance(found, Facts):
        found = node.facts = Facts(node)
    return found


def operands_of(node: Expression) -> frozenset[str]:
    """Return the names of all operands of a graph, including those multiplied by zero."""
    return facts_of(node).names


def products(node: Expression) -> tuple[Expression, ...]:
    """Every distinct matrix product that depends on secret data, operands first."""
    return facts_of(node).products
