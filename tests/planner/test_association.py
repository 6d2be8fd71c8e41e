"""Associations of chains: the dynamic program against all of them, and against what is written."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

import cipherblas as cb
from cipherblas.common.errors import FitError, LevelError
from cipherblas.lang.analysis import trace
from cipherblas.lang.graph import deduplicated, formula
from cipherblas.lang.matrix_chains import Chain, chains_of
from cipherblas.lang.nodes import Expression
from cipherblas.methods.products import build
from cipherblas.planner.plan.assembly import Predictions
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.rewrite.association import chain_tilings, fastest_association, reassociation
from cipherblas.planner.rewrite.chain_search import ChainAlternative, ChainSearch
from cipherblas.planner.search.block_methods import choices_of
from cipherblas.planner.search.method_prices import MethodPrices
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.values import MethodChoice
from tests.corpus.machine import MACHINE

OPTIONS = PlanOptions(machine=MACHINE)
RING = RingShape.for_depth(1024, 10)
STEPS = MethodPrices(RING, "direct", functools.partial(Predictions.of(OPTIONS).more_seconds, RING))
LENGTHS = (1, 4, 8)  # few, so that steps are counted once for many chains


def expression_of(lengths: tuple[int, ...], clear: tuple[bool, ...] = ()) -> Expression:
    names = "abcdefgh"[: len(lengths) - 1]
    kinds = [cb.public if one else cb.secret for one in clear] or [cb.secret] * len(names)
    operands = {
        name: kind(*lengths[i : i + 2]) for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }
    return deduplicated(trace(eval(f"lambda {', '.join(names)}: {' @ '.join(names)}"), operands))


def chain_of(lengths: tuple[int, ...], clear: tuple[bool, ...] = ()) -> Chain:
    (chain,) = chains_of(expression_of(lengths, clear))
    return chain


@functools.cache
def few_choices(block: tuple[int, int, int]) -> list[MethodChoice]:
    """The first options of each algorithm."""
    found: dict[str, MethodChoice] = {}
    for choice in choices_of(OPTIONS, block, RING.n // 2):
        found.setdefault(choice.method, choice)
    return list(found.values())


def ways_of(chain: Chain, top: int, **more: Any) -> ChainSearch:
    return ChainSearch(chain, chain.lengths, STEPS, top, few_choices, **more)


def left_to_right(i: int, j: int) -> list[int]:
    return [j - 1]


# --- all of them ---


def every_alternative(chain: Chain, top: int, i: int, j: int) -> Iterator[ChainAlternative]:
    """Every association, every method of each product: nothing is left out, and nothing is kept."""
    if j == i + 1:
        yield ChainAlternative(0.0, top, i)
        return
    block_at = chain.lengths
    for k in range(i + 1, j):
        block = block_at[i], block_at[k], block_at[j]
        secret = any(f.secret for f in chain.factors[i:k]), any(f.secret for f in chain.factors[k:j])
        pairs = itertools.product(
            every_alternative(chain, top, i, k), list(every_alternative(chain, top, k, j))
        )
        for left, right in pairs:
            tree, seconds = (left.tree, right.tree), left.seconds + right.seconds
            if not any(secret):
                own = STEPS.clear_product(*block)
                yield ChainAlternative(seconds + own, top, tree)
                continue
            for choice in few_choices(block):
                algorithm = build(choice.method, *block, RING.n // 2, choice.options)
                try:
                    x = laid(left, algorithm.left_layout, secret[0], top)
                    y = laid(right, algorithm.right_layout, secret[1], top)
                    limbs, ready = min(x[1], y[1]), j - i < len(chain.factors)
                    own, limbs = STEPS.product(algorithm, ((1, 1), (1, 1)), secret, limbs, ready)
                except (LevelError, FitError):
                    continue
                yield ChainAlternative(x[0] + y[0] + own, limbs, tree, algorithm.out_layout)


def laid(alternative: ChainAlternative, layout: Any, secret: bool, top: int) -> tuple[float, int]:
    if not secret:
        return alternative.seconds, top
    if alternative.layout is None:
        return STEPS.sent(layout, (1, 1), False, top), top
    own, limbs = STEPS.relaid(alternative.layout, layout, (1, 1), alternative.limbs)
    return alternative.seconds + own, limbs


def least(chain: Chain, top: int) -> float:
    alternatives = every_alternative(chain, top, 0, len(chain.factors))
    return min(
        (w.seconds + STEPS.returned(w.layout, (1, 1), w.limbs) for w in alternatives if w.layout),
        default=math.inf,
    )


def drawn(seed: int, most: int) -> Chain:
    """A random chain with a secret factor at least."""
    source = random.Random(seed)
    lengths = tuple(source.choice(LENGTHS) for _ in range(source.randint(3, most) + 1))
    clear = [source.random() < 0.25 for _ in lengths[1:]]
    clear[source.randrange(len(clear))] = False
    return chain_of(lengths, tuple(clear))


def best_or_none(alternatives: ChainSearch) -> ChainAlternative | None:
    try:
        return alternatives.best()
    except FitError:
        return None


@pytest.mark.parametrize("seed", range(8))
def test_up_to_four_factors_as_good_as_all_associations(seed: int) -> None:
    chain = drawn(seed, 4)
    for top in (3, 6, 10):
        found = best_or_none(ways_of(chain, top))
        assert (found.seconds if found else math.inf) == pytest.approx(least(chain, top), rel=1e-12)


def test_random_chains_are_never_slower_than_from_left_to_right() -> None:
    faster = 0
    for seed in range(8):
        chain = drawn(seed, 5)
        found, written = (
            best_or_none(ways_of(chain, 12, **more)) for more in ({}, {"splits": left_to_right})
        )
        assert found is not None
        if written is not None:
            assert found.seconds <= written.seconds
            faster += found.seconds < 0.9 * written.seconds
    assert faster > 1


def test_ways_say_what_they_take() -> None:
    """What the whole takes is the sum of its steps, and a limit leaves out what takes as long."""
    chain = chain_of((8, 8, 8, 8, 8))
    alternative = ways_of(chain, 10).best()
    assert set(alternative.choices) >= {(0, 4)} and len(alternative.choices) == 3
    assert best_or_none(ways_of(chain, 10, limit=alternative.seconds)) is None
    found = ways_of(chain, 10, limit=alternative.seconds * 1.0001).best()
    assert (found.seconds, found.tree) == (alternative.seconds, alternative.tree)


def test_few_limbs_carry_balanced_associations_alone() -> None:
    chain = chain_of((8,) * 7)
    tops = {
        more: next(top for top in range(2, 13) if best_or_none(ways_of(chain, top, splits=more)))
        for more in (None, left_to_right)
    }
    assert tops[None] < tops[left_to_right]


# --- programs ---


def test_a_vector_is_multiplied_first() -> None:
    other = reassociation(expression_of((64, 64, 64, 1)), OPTIONS)
    assert formula(other) == "a @ (b @ c)"


def test_four_matrices_are_multiplied_in_pairs() -> None:
    """Two levels in the place of four: a ring of half the size."""
    assert formula(reassociation(expression_of((24,) * 5), OPTIONS)) == "(a @ b) @ (c @ d)"


@pytest.mark.parametrize("lengths", [(8, 8, 8), (24, 24, 24, 24)])
def test_what_is_fastest_as_written_stays(lengths: tuple[int, ...]) -> None:
    expression = expression_of(lengths)
    assert reassociation(expression, OPTIONS) is expression


def test_one_secret_factor_is_left_to_the_user() -> None:
    expression = expression_of((8, 8, 8, 8), (True, True, False))
    assert reassociation(expression, OPTIONS) is expression


def test_no_way_within_a_limit_or_a_ring() -> None:
    chain = chain_of((8,) * 5)
    assert fastest_association(chain, OPTIONS, limit=1e-6) is None
    small = PlanOptions(machine=MACHINE, ring_degree=1 << 12)
    assert fastest_association(chain, small) is None


def test_blocks_of_a_chain_fit_however_it_is_associated() -> None:
    for blocks in chain_tilings((100, 30, 200, 1, 64), 2048, OPTIONS):
        for block in itertools.combinations(blocks, 3):
            assert any(True for _ in choices_of(OPTIONS, block, 2048))
