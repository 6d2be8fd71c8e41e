"""Chains of products in programs, and other associations of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_clear, trace
from cipherblas.lang.graph import deduplicated, formula
from cipherblas.lang.matrix_chains import Tree, chains_of, reassociated
from cipherblas.lang.nodes import Expression


def program(text: str, **shapes: tuple[int, ...]) -> Expression:
    operands = {name: cb.secret(*shape) for name, shape in shapes.items()}
    return deduplicated(trace(eval(f"lambda {', '.join(shapes)}: {text}", {"cb": cb}), operands))


def trees(first: int, last: int) -> Iterator[Tree]:
    """All associations of the factors from `first` to `last`."""
    if first == last:
        yield first
    for split in range(first, last):
        for left in trees(first, split):
            for right in trees(split + 1, last):
                yield left, right


SQUARE = dict.fromkeys("abcd", (4, 4))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a @ b @ c @ d", ["a b c d"]),
        ("a @ (b @ c) @ d", ["a b c d"]),
        ("a @ b + c @ d", ["a b", "c d"]),
        ("(a @ b) @ (c + d)", ["a b c + d"]),
        ("(a @ b).T @ (c @ d)", ["b.T a.T c d"]),
        ("(a @ b) * (c @ d) @ a", ["a b", "c d", "(a @ b) * (c @ d) a"]),
        ("(a @ b) @ (a @ b) @ c + d", ["a b", "a @ b a @ b c"]),  # a @ b is computed once
        ("(a @ b, a @ b @ c @ d)", ["a b", "a @ b c d"]),
        ("cb.assume(a @ b, 2.0) @ c @ d", ["a b", "assume(a @ b, bound=2.0) c d"]),
    ],
)
def test_chains_of_programs(text: str, found: list[str]) -> None:
    expression = program(text, **SQUARE)
    assert [" ".join(map(formula, chain.factors)) for chain in chains_of(expression)] == found


def test_a_vector_ends_a_chain() -> None:
    (chain,) = chains_of(program("a @ b @ x", a=(5, 4), b=(4, 3), x=(3,)))
    assert (chain.lengths, chain.tree) == ((5, 4, 3, 1), ((0, 1), 2))


def test_a_product_of_vectors_is_in_no_chain() -> None:
    (chain,) = chains_of(program("y @ (a @ b @ x)", y=(5,), a=(5, 4), b=(4, 3), x=(3,)))
    assert chain.lengths == (5, 4, 3, 1)


def test_clear_programs_have_no_chains() -> None:
    weights = np.ones((4, 4))
    expression = program("a", **SQUARE)
    assert chains_of(expression) == []
    operands = {"a": cb.secret(4, 4), "w": cb.public(4, 4), "v": cb.public(4, 4)}
    (chain,) = chains_of(trace(lambda a, w, v: (w @ v) @ a @ weights, operands))
    assert [factor.secret for factor in chain.factors] == [False, False, True, False]


def of_tree(arrays: Sequence[Any], tree: Tree) -> Any:
    if isinstance(tree, int):
        return arrays[tree]
    return of_tree(arrays, tree[0]) @ of_tree(arrays, tree[1])


@given(st.lists(st.integers(1, 4), min_size=4, max_size=6), st.data())
def test_any_association_is_the_same_product(lengths: list[int], data: Any) -> None:
    names = "abcde"[: len(lengths) - 1]
    operands = {name: cb.secret(*lengths[i : i + 2]) for i, name in enumerate(names)}
    expression = trace(eval(f"lambda {', '.join(names)}: ({' @ '.join(names)}).T"), operands)
    (chain,) = chains_of(expression)
    tree = data.draw(st.sampled_from(list(trees(0, len(names) - 1))))
    other = reassociated(expression, [(chain, tree)])
    (found,) = chains_of(other)
    assert found.tree == tree and found.factors == chain.factors
    random = np.random.default_rng(1)
    values = {name: random.uniform(-1, 1, operand.shape) for name, operand in operands.items()}
    assert np.allclose(evaluate_clear(other, values), evaluate_clear(expression, values))
    assert other.bound == pytest.approx(expression.bound)


def test_what_is_around_chains_stays_as_it_is() -> None:
    expression = program("(a @ b @ c) * d + b @ c @ d", **SQUARE)
    first, second = chains_of(expression)
    other = reassociated(expression, [(first, (0, (1, 2))), (second, (0, (1, 2)))])
    assert formula(other) == "((a @ (b @ c)) * d) + (b @ (c @ d))"
    assert reassociated(expression, []) is expression


def test_chains_within_chains() -> None:
    expression = program("(a @ b @ c + d) @ b @ c", **SQUARE)
    inner, outer = chains_of(expression)
    other = reassociated(expression, [(outer, (0, (1, 2))), (inner, (0, (1, 2)))])
    assert formula(other) == "((a @ (b @ c)) + d) @ (b @ c)"
