"""Programs whose chains of products are associated in the way that is predicted to be fastest.

A chain is looked at on nominal rings of growing modulus: those with few levels carry few associations, but are smaller
and faster. What is found is a proposal, which is planned like any program.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from cipherblas.common.errors import FitError
from cipherblas.common.progress import Tell
from cipherblas.lang.exact import is_exact
from cipherblas.lang.graph import check_constants, deduplicated
from cipherblas.lang.matrix_chains import Chain, chains_of, reassociated
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import results_of
from cipherblas.methods.products import ALGORITHMS, build, find
from cipherblas.planner.plan.assembly import Predictions
from cipherblas.planner.plan.passes import Following, Outcome, PlanRequest
from cipherblas.planner.plan.plan import RING_DEGREES, PlanOptions
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.rewrite.chain_search import ChainAlternative, ChainSearch, written_splits
from cipherblas.planner.rings.sizing import (
    BASE_LIMB_BITS,
    DRAFT_SCALE_BITS,
    PRIME_SPREAD_BITS,
    Sizing,
    budget_bits,
)
from cipherblas.planner.search.block_methods import Block, algorithm_names, choices_of, considered
from cipherblas.planner.search.losers import ABOUT
from cipherblas.planner.search.method_prices import MethodPrices
from cipherblas.planner.search.tilings import uniform_tilings
from cipherblas.rlwe.rings import Ring
from cipherblas.runtime.blocks import BLOCKS
from cipherblas.runtime.values import MethodChoice

BASE_LIMBS = 2  # that hold a result which was not rescaled
ALPHA = 1  # limbs per digit: the smallest modulus
MAX_LEVELS = 40  # that a chain may spend, where security sets no limit
PRODUCT_LEVELS = 4  # that a product spends at most, its factors re-arranged and rescaled
EXTRA_LEVELS = 3  # beyond those of the best way so far, that are looked at
MAX_MOVED = 4  # ciphertexts into which a block of a computed value may be re-arranged
MAX_FACTORS = 16  # of a chain that is associated
SLACK = 1.5  # times the seconds of what is written: nominal rings are not those of plans
NOISE_BITS = 16.0  # of the scale, beside those of the precision


def associated(request: PlanRequest, following: Following) -> Outcome:
    """The program as it is written, or with its chains of products associated in another way.

    What is written is taken where nothing else is clearly faster. Programs of exact integers are planned as they are
    written: bounds of what lies between may be larger in another association.
    """
    written = following(request)
    if is_exact(request.expression) or (request.any_plan and not isinstance(written, Infeasible)):
        return written
    limit = math.inf
    if not isinstance(written, Infeasible) and written.plan.form == BLOCKS:
        limit = SLACK * written.plan.minimised
    other = attempted(lambda: _otherwise(request, limit))
    if other is None or isinstance(other, Infeasible):
        return written
    found = following(other)
    if isinstance(found, Infeasible):
        return written
    if isinstance(written, Infeasible) or ABOUT * found.plan.minimised < written.plan.minimised:
        return found
    return written


def _otherwise(request: PlanRequest, limit: float) -> PlanRequest | None:
    """The program with its chains associated in another way; None where none is proposed.

    Its results must have the same bounds, since errors are relative to them.
    """
    expression = request.expression
    other = reassociation(expression, request.options, limit, request.tell)
    pairs = zip(results_of(expression), results_of(other), strict=True)
    if other is expression or not all(math.isclose(x.bound, y.bound, rel_tol=1e-9) for x, y in pairs):
        return None
    check_constants(other)
    return request.of(other, request.options.relative_to(other))


def reassociation(
    expression: Expression, options: PlanOptions, limit: float = math.inf, progress: Tell | None = None
) -> Expression:
    """The program with its chains associated as is predicted to be fastest in slots; itself where it is so written.

    A chain is left as it is where it has fewer than three factors or fewer than two secret ones, or where no ring
    carries it.

    Args:
        limit: of the seconds of a chain; slower ways are not looked for.
    """
    if options.algorithm is not None and options.algorithm not in ALGORITHMS:
        options = replace(options, algorithm=None)  # of another form: any product in slots tells chains apart
    found = []
    for chain in chains_of(expression):
        if 3 <= len(chain.factors) <= MAX_FACTORS and sum(factor.secret for factor in chain.factors) > 1:
            if progress is not None:
                progress(f"how {len(chain.factors)} factors are associated")
            alternative = fastest_association(chain, options, limit)
            if alternative is not None and alternative.tree != chain.tree:
                found.append((chain, alternative.tree))
    return deduplicated(reassociated(expression, found)) if found else expression


def fastest_association(
    chain: Chain, options: PlanOptions, limit: float = math.inf
) -> ChainAlternative | None:
    """The fastest way to a chain on any nominal ring, in any blocks; None where no ring carries it.

    Args:
        limit: slower ways, in seconds, are not looked for.
    """
    most = BASE_LIMBS + PRODUCT_LEVELS * (len(chain.factors) - 1)
    best, last = None, most  # the number of limbs that is looked at last
    written = written_splits(chain.tree)
    for steps, top in nominal_levels(options, limit):
        if top > last:
            break
        slots = steps.ring.n // 2
        candidates = functools.cache(functools.partial(_candidates, options, slots))
        for blocks in chain_tilings(chain.lengths, slots, options):
            # Where no limit is known, that of the way that is written is one.
            for splits in (None,) if limit < math.inf else (written, None):
                steps.limit = limit
                alternatives = ChainSearch(chain, blocks, steps, top, candidates, splits, MAX_MOVED, limit)
                found = attempted(alternatives.best, only=FitError)
                if isinstance(found, Infeasible):
                    continue
                best = found
                last, limit = min(most, top + EXTRA_LEVELS), best.seconds
    return best


def nominal_levels(options: PlanOptions, limit: float) -> Iterator[tuple[MethodPrices, int]]:
    """Rings that are secure, smallest first, and limbs of their operands: one for each number of levels to spend.

    What a step takes depends on the limbs that it is done with: all numbers of limbs share one ring of a degree.
    """
    predictions, policy = Predictions.of(options), options.key_policy or "direct"
    known = BASE_LIMBS - 1
    for ring in _nominal_rings(options):
        seconds = functools.partial(predictions.more_seconds, ring)
        steps, most = MethodPrices(ring, policy, seconds, limit), len(ring.q)
        for top in range(known + 1, most + 1):
            yield steps, top
        known = max(known, most)


def _nominal_rings(options: PlanOptions) -> Iterator[Ring]:
    """The rings of all degrees with as many limbs as are secure; the one that the options force."""
    if options.parameters is not None:
        yield options.parameters
        return
    scale_bits = max(DRAFT_SCALE_BITS, NOISE_BITS - math.log2(float(options.precision)))
    for n in RING_DEGREES if options.ring_degree is None else (options.ring_degree,):
        sizes = (
            Sizing(n, scale_bits, (BASE_LIMB_BITS,) * BASE_LIMBS + (scale_bits,) * spent, ALPHA)
            for spent in range(MAX_LEVELS)
        )
        secure = list(itertools.takewhile(functools.partial(_is_secure, options), sizes))
        if secure:
            yield secure[-1].shape()


def _candidates(options: PlanOptions, slots: int, block: Block) -> list[MethodChoice]:
    """Of each algorithm the options with the most and with the fewest ciphertexts: layouts between are left out."""
    found: list[MethodChoice] = []
    for _, choices in itertools.groupby(choices_of(options, block, slots), key=lambda choice: choice.method):
        by_layouts: dict[Hashable, list[MethodChoice]] = {}
        for choice in choices:
            algorithm = build(choice.method, *block, slots, choice.options)
            layouts = algorithm.left_layout.key, algorithm.right_layout.key, algorithm.out_layout.key
            by_layouts.setdefault(layouts, []).append(choice)
        groups = list(by_layouts.values())
        found += itertools.chain(groups[0], *groups[1:][-1:])
    return found


def _is_secure(options: PlanOptions, size: Sizing) -> bool:
    return size.log_qp + PRIME_SPREAD_BITS <= budget_bits(size.n, options.security, options.insecure)


def chain_tilings(lengths: Sequence[int], slots: int, options: PlanOptions) -> list[tuple[int, ...]]:
    """Block lengths along a chain: for each algorithm the longest with which any product of its parts fits."""
    found = {}
    for name in algorithm_names(options):
        algorithm = find(name)
        for tiling in uniform_tilings(dict(enumerate(lengths)), options.largest_block):
            blocks = tuple(tiling.values())
            if all(
                considered(options, algorithm, block) and algorithm.fits(*block, slots)
                for block in itertools.combinations(blocks, 3)
            ):
                found[blocks] = True
                break
    return list(found)
