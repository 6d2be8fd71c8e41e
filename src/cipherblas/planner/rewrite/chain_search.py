"""How a chain of matrix products is associated, by dynamic programming over its parts and their layouts.

The product of the factors from i to j - 1 may lie in several layouts and have several numbers of limbs; for each, the
cheapest way to it is kept: of all places to split it, all methods, and all layouts and limbs of both parts, which are
re-arranged where a method needs them otherwise. Nothing else is left out, so that the cheapest way to the whole chain
is that of all associations (as the greedy choice of FHE4DMM, Section VII-B-2, is not).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cipherblas.common.errors import FitError
from cipherblas.forms.blocks import grid_shape
from cipherblas.forms.layouts import Layout
from cipherblas.lang.analysis import has_public_key
from cipherblas.lang.matrix_chains import Chain, Tree
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.search.method_prices import MethodPrices
from cipherblas.runtime.values import MethodChoice

Span = tuple[int, int]  # factors from the first number to before the second one
Candidates = Callable[[tuple[int, int, int]], Iterable[MethodChoice]]
Splits = Callable[[int, int], Iterable[int]]


@dataclass(frozen=True)
class ChainAlternative:
    """A way to the product of a part of a chain.

    Attributes:
        seconds: of all that is done for it.
        limbs: that are left.
        tree: how it is associated.
        layout: of its value; None of a clear one, which can be packed in any.
        choices: by the span of each product with ciphertexts, how it is computed.
    """

    seconds: float
    limbs: int
    tree: Tree
    layout: Layout | None = None
    choices: Mapping[Span, MethodChoice] = field(default_factory=dict)


def written_splits(tree: Tree) -> Splits:
    """Where the product of each span is split in one way to associate a chain."""
    found: dict[Span, list[int]] = {}

    def span(part: Tree) -> Span:
        if isinstance(part, int):
            return part, part + 1
        (start, middle), (_, stop) = map(span, part)
        found[start, stop] = [middle]
        return start, stop

    span(tree)
    return lambda i, j: found[i, j]


class ChainSearch:
    """The ways to one chain, cut into blocks in one way, on one ring.

    Factors that are computed themselves are taken to be there in any layout, with all limbs: what they take is the same
    for all associations, up to re-arranging them.

    Args:
        blocks: block lengths along the dimensions of the chain.
        steps: prices on the ring.
        top: limbs of what the client sends, at most those of the ring.
        candidates: the methods of a product of blocks (rows, inner length, columns) that are compared.
        splits: where the product of a span may be split; None: everywhere.
        most_moved: ciphertexts into which a block of a computed value may be re-arranged.
        limit: ways that take as many seconds or more are left out.
    """

    def __init__(
        self,
        chain: Chain,
        blocks: tuple[int, ...],
        steps: MethodPrices,
        top: int,
        candidates: Candidates,
        splits: Splits | None = None,
        most_moved: float = math.inf,
        limit: float = math.inf,
    ) -> None:
        self._chain, self._blocks, self._steps, self._most_moved = chain, blocks, steps, most_moved
        self._top, self._candidates, self._limit = top, candidates, limit
        self._splits: Splits = splits or (lambda i, j: range(i + 1, j))
        self._found: dict[Span, list[ChainAlternative]] = {}
        self._laid: dict[Hashable, list[ChainAlternative]] = {}  # by span and layout

    def best(self) -> ChainAlternative:
        """The cheapest way to the whole chain, until the client has the result.

        Raises:
            FitError: the ring carries none that takes less than the limit.
        """
        end = len(self._chain.factors)
        alternatives = [
            alternative
            for alternative in map(self._returned, self.alternatives(0, end))
            if alternative.seconds < self._limit
        ]
        if not alternatives:
            raise FitError(
                "No way of associating a chain fits the ring.", expected="more limbs", got=self._top
            )
        return min(alternatives, key=lambda alternative: alternative.seconds)

    def alternatives(self, i: int, j: int) -> list[ChainAlternative]:
        """The cheapest ways to the product of the factors from i to j - 1, one for each layout and number of limbs."""
        if (i, j) not in self._found:
            self._found[i, j] = self._clear(i, j) if not self._secret(i, j) else self._computed(i, j)
        return self._found[i, j]

    def _clear(self, i: int, j: int) -> list[ChainAlternative]:
        if j == i + 1:
            return [ChainAlternative(0.0, self._top, i)]
        found = []
        for k in self._splits(i, j):
            (left,), (right,) = self.alternatives(i, k), self.alternatives(k, j)
            lengths = self._chain.lengths
            own = self._steps.clear_product(lengths[i], lengths[k], lengths[j])
            found.append(
                replace(left, seconds=left.seconds + right.seconds + own, tree=(left.tree, right.tree))
            )
        return [min(found, key=lambda alternative: alternative.seconds)]

    def _computed(self, i: int, j: int) -> list[ChainAlternative]:
        best: dict[object, ChainAlternative] = {}
        for k in self._splits(i, j):
            for alternative in self._products(i, k, j):
                assert alternative.layout is not None
                key = alternative.layout.key, alternative.limbs
                if alternative.seconds < min(self._limit, best[key].seconds if key in best else math.inf):
                    best[key] = alternative
        return list(best.values())

    def _products(self, i: int, k: int, j: int) -> Iterator[ChainAlternative]:
        block = self._blocks[i], self._blocks[k], self._blocks[j]
        for choice in self._candidates(block):
            algorithm = self._steps.built(choice, block)
            rights = self._in_layout(k, j, algorithm.right_layout)
            for left in self._in_layout(i, k, algorithm.left_layout):
                for right in rights:
                    if left.seconds + right.seconds >= self._limit:
                        continue
                    product = functools.partial(self._product, (i, k, j), choice, algorithm, left, right)
                    found = attempted(product)
                    if not isinstance(found, Infeasible):
                        yield found

    def _product(
        self,
        at: tuple[int, int, int],
        choice: MethodChoice,
        algorithm: Algorithm,
        left: ChainAlternative,
        right: ChainAlternative,
    ) -> ChainAlternative:
        i, k, j = at
        grids, secret = (self._grid(i, k), self._grid(k, j)), (self._secret(i, k), self._secret(k, j))
        limbs, whole = min(left.limbs, right.limbs), j - i == len(self._chain.factors)
        own, limbs = self._steps.product(algorithm, grids, secret, limbs, ready=not whole)
        seconds = left.seconds + right.seconds + own
        choices = {**left.choices, **right.choices, (i, j): choice}
        return ChainAlternative(seconds, limbs, (left.tree, right.tree), algorithm.out_layout, choices)

    def _in_layout(self, i: int, j: int, layout: Layout) -> list[ChainAlternative]:
        """The cheapest ways to a value in a layout, ready to be multiplied, one for each number of limbs."""
        if not self._secret(i, j):
            return self.alternatives(i, j)
        key = i, j, layout.key
        if key not in self._laid:
            self._laid[key] = self._relaid(i, j, layout)
        return self._laid[key]

    def _relaid(self, i: int, j: int, layout: Layout) -> list[ChainAlternative]:
        """`_in_layout` of a value that depends on secrets."""
        grid = self._grid(i, j)
        if j == i + 1:
            factor, seconds = self._chain.factors[i], 0.0
            if factor.packable:
                seconds = self._steps.sent(layout, grid, has_public_key(factor), self._top)
            return [ChainAlternative(seconds, self._top, i, layout)]
        best: dict[int, ChainAlternative] = {}
        for alternative in self.alternatives(i, j) if layout.ciphertexts <= self._most_moved else ():
            assert alternative.layout is not None
            step = attempted(
                functools.partial(self._steps.relaid, alternative.layout, layout, grid, alternative.limbs)
            )
            if isinstance(step, Infeasible):
                continue
            own, limbs = step
            if limbs not in best or alternative.seconds + own < best[limbs].seconds:
                best[limbs] = replace(
                    alternative, seconds=alternative.seconds + own, layout=layout, limbs=limbs
                )
        return list(best.values())

    def _returned(self, alternative: ChainAlternative) -> ChainAlternative:
        assert alternative.layout is not None
        grid = self._grid(0, len(self._chain.factors))
        return replace(
            alternative,
            seconds=alternative.seconds + self._steps.returned(alternative.layout, grid, alternative.limbs),
        )

    def _secret(self, i: int, j: int) -> bool:
        return any(factor.secret for factor in self._chain.factors[i:j])

    def _grid(self, i: int, j: int) -> tuple[int, int]:
        lengths, blocks = self._chain.lengths, self._blocks
        return grid_shape(lengths[i], lengths[j], blocks[i], blocks[j])
