"""Chains of matrix products: their factors, and the same product associated in another way."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.operations import MatMul

# How a chain is associated: the number of a factor, or two parts that are multiplied.
Tree: TypeAlias = Union[int, "tuple[Tree, Tree]"]


@dataclass(frozen=True)
class Chain:
    """A product of factors that are no products themselves, or whose value is needed elsewhere too.

    Attributes:
        product: the node of the whole chain.
        factors: matrices, from left to right; the last one may be a vector.
        tree: how it is written.
    """

    product: Expression
    factors: tuple[Expression, ...]
    tree: Tree

    @functools.cached_property
    def lengths(self) -> tuple[int, ...]:
        """Dimensions along the chain, one more than there are factors; a vector has one column."""
        last = self.factors[-1].shape
        return (*(factor.shape[0] for factor in self.factors), last[1] if len(last) == 2 else 1)


def chains_of(expression: Expression) -> list[Chain]:
    """The secret chains of a program, each as long as it can be; every product is in one of them."""
    order = ordered(expression)
    uses = Counter(id(child) for node in order for child in node.children)
    inner = {
        id(child)
        for node in order
        if _links(node)
        for child in node.children
        if _links(child) and uses[id(child)] == 1
    }
    return [_chain(node, inner) for node in order if _links(node) and node.secret and id(node) not in inner]


def reassociated(expression: Expression, trees: Sequence[tuple[Chain, Tree]]) -> Expression:
    """The program with some of its chains associated in another way."""
    wanted = {id(chain.product): (chain, tree) for chain, tree in trees}
    made: dict[int, Expression] = {}
    for node in ordered(expression):
        if id(node) in wanted:
            chain, tree = wanted[id(node)]
            made[id(node)] = _multiplied([made[id(factor)] for factor in chain.factors], tree)
            continue
        children = [made[id(child)] for child in node.children]
        same = all(one is other for one, other in zip(children, node.children, strict=True))
        made[id(node)] = node if same else node.rebuilt(children)
    return made[id(expression)]


def _links(node: Expression) -> bool:
    """Whether a node is a product that others may be associated with: not one of two vectors."""
    return isinstance(node, MatMul) and len(node.left.shape) == 2


def _chain(product: Expression, inner: set[int]) -> Chain:
    factors: list[Expression] = []

    def tree_of(node: Expression) -> Tree:
        if node is not product and id(node) not in inner:
            factors.append(node)
            return len(factors) - 1
        left, right = node.children
        return tree_of(left), tree_of(right)

    tree = tree_of(product)
    return Chain(product, tuple(factors), tree)


def _multiplied(factors: Sequence[Expression], tree: Tree) -> Expression:
    if isinstance(tree, int):
        return factors[tree]
    left, right = tree
    return MatMul(_multiplied(factors, left), _multiplied(factors, right))
