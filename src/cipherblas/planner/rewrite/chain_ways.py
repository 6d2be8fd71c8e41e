"""How a chain of matrix products is associated, by dynamic programming over its parts and their layouts.

The product of the factors from i to j - 1 may lie in several layouts and have several numbers of limbs; for each, the
cheapest way to it is kept: of all places to split it, all methods, and all layouts and limbs of both parts, which are
re-arranged where a method needs them otherwise. Nothing else is left out, so that the cheapest way to the whole chain
is that of all associations (as the greedy choice of FHE4DMM, Section VII-B-2, is not).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cipherblas.common.errors import FitError
from cipherblas.forms.blocks import grid_shape
from cipherblas.forms.layouts import Layout
from cipherblas.lang.analysis import has_public_key
from cipherblas.lang.chains import Chain, Tree
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.search.steps import Steps
from cipherblas.runtime.values import Choice

Span = tuple[int, int]  # factors from the first number to before the second one
Candidates = Callable[[tuple[int, int, int]], Iterable[Choice]]
Splits = Callable[[int, int], Iterable[int]]


@dataclass(frozen=True)
class Way:
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
    choices: Mapping[Span, Choice] = field(default_factory=dict)


class ChainWays:
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
        steps: Steps,
        top: int,
        candidates: Candidates,
        splits: Splits | None = None,
        most_moved: float = math.inf,
        limit: float = math.inf,
    ) -> None:
        self._chain, self._blocks, self._steps, self._most_moved = chain, blocks, steps, most_moved
        self._top, self._candidates, self._limit = top, candidates, limit
        self._splits: Splits = splits or (lambda i, j: range(i + 1, j))
        self._found: dict[Span, list[Way]] = {}

    def best(self) -> Way:
        """The cheapest way to the whole chain, until the client has the result.

        Raises:
            FitError: the ring carries none that takes less than the limit.
        """
        end = len(self._chain.factors)
        ways = [way for way in map(self._returned, self.ways(0, end)) if way.seconds < self._limit]
        if not ways:
            raise FitError(
                "No way of associating a chain fits the ring.", expected="more limbs", got=self._top
            )
        return min(ways, key=lambda way: way.seconds)

    def ways(self, i: int, j: int) -> list[Way]:
        """The cheapest ways to the product of the factors from i to j - 1, one for each layout and number of limbs."""
        if (i, j) not in self._found:
            self._found[i, j] = self._clear(i, j) if not self._secret(i, j) else self._computed(i, j)
        return self._found[i, j]

    def _clear(self, i: int, j: int) -> list[Way]:
        if j == i + 1:
            return [Way(0.0, self._top, i)]
        found = []
        for k in self._splits(i, j):
            (left,), (right,) = self.ways(i, k), self.ways(k, j)
            lengths = self._chain.lengths
            own = self._steps.clear_product(lengths[i], lengths[k], lengths[j])
            found.append(
                replace(left, seconds=left.seconds + right.seconds + own, tree=(left.tree, right.tree))
            )
        return [min(found, key=lambda way: way.seconds)]

    def _computed(self, i: int, j: int) -> list[Way]:
        best: dict[object, Way] = {}
        for k in self._splits(i, j):
            for way in self._products(i, k, j):
                assert way.layout is not None
                key = way.layout.key, way.limbs
                if way.seconds < min(self._limit, best[key].seconds if key in best else math.inf):
                    best[key] = way
        return list(best.values())

    def _products(self, i: int, k: int, j: int) -> Iterator[Way]:
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
        self, at: tuple[int, int, int], choice: Choice, algorithm: Algorithm, left: Way, right: Way
    ) -> Way:
        i, k, j = at
        grids, secret = (self._grid(i, k), self._grid(k, j)), (self._secret(i, k), self._secret(k, j))
        limbs, whole = min(left.limbs, right.limbs), j - i == len(self._chain.factors)
        own, limbs = self._steps.product(algorithm, grids, secret, limbs, ready=not whole)
        seconds = left.seconds + right.seconds + own
        choices = {**left.choices, **right.choices, (i, j): choice}
        return Way(seconds, limbs, (left.tree, right.tree), algorithm.out_layout, choices)

    def _in_layout(self, i: int, j: int, layout: Layout) -> list[Way]:
        """The cheapest ways to a value in a layout, ready to be multiplied, one for each number of limbs."""
        if not self._secret(i, j):
            return self.ways(i, j)
        grid = self._grid(i, j)
        if j == i + 1:
            factor, seconds = self._chain.factors[i], 0.0
            if factor.packable:
                seconds = self._steps.sent(layout, grid, has_public_key(factor), self._top)
            return [Way(seconds, self._top, i, layout)]
        best: dict[int, Way] = {}
        for way in self.ways(i, j) if layout.ciphertexts <= self._most_moved else ():
            assert way.layout is not None
            step = attempted(functools.partial(self._steps.relaid, way.layout, layout, grid, way.limbs))
            if isinstance(step, Infeasible):
                continue
            own, limbs = step
            if limbs not in best or way.seconds + own < best[limbs].seconds:
                best[limbs] = replace(way, seconds=way.seconds + own, layout=layout, limbs=limbs)
        return list(best.values())

    def _returned(self, way: Way) -> Way:
        assert way.layout is not None
        grid = self._grid(0, len(self._chain.factors))
        return replace(way, seconds=way.seconds + self._steps.returned(way.layout, grid, way.limbs))

    def _secret(self, i: int, j: int) -> bool:
        return any(factor.secret for factor in self._chain.factors[i:j])

    def _grid(self, i: int, j: int) -> tuple[int, int]:
        lengths, blocks = self._chain.lengths, self._blocks
        return grid_shape(lengths[i], lengths[j], blocks[i], blocks[j])
