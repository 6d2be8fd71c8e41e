"""One method for each node of a program in blocks, by dynamic programming over the graph.

A node's value may lie in several layouts; for each, the cheapest way to it is kept: its own work, that of its children
in the layouts that it asks for, and what it takes to re-arrange them. Each step is counted by itself without data, on
the ring of a plan that is known; the whole program is counted again afterwards, as any candidate is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cipherblas.common.errors import FitError
from cipherblas.forms.blocks import grid_shape
from cipherblas.forms.layouts import Layout, column_major
from cipherblas.lang.analysis import has_public_key
from cipherblas.lang.arrangements import Arrange
from cipherblas.lang.facts import facts_of
from cipherblas.lang.graph import axes_of
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.lang.results import results_of
from cipherblas.planner.plan.explain import beside
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.search.method_prices import Grid, MethodPrices, Seconds
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import Ring
from cipherblas.runtime.arranged import places_of
from cipherblas.runtime.blocks import BLOCKS, LAYOUT_PRESERVING, gated, in_place, multiply
from cipherblas.runtime.executor import METHODS
from cipherblas.runtime.values import MethodChoice

Candidates = Callable[[Expression], Iterator[MethodChoice]]


@dataclass(frozen=True)
class Alternative:
    """A way to a value.

    Attributes:
        seconds: of all that is done for it, its children's included.
        layout, limbs: that the value has.
        choices: by the number of a node.
    """

    seconds: float
    layout: Layout
    limbs: int
    choices: Mapping[int, MethodChoice]


class Assignment:
    """Methods for the nodes of one program, cut into blocks in one way, on one ring.

    Args:
        seconds: what counts and traffic take.
        candidates: the methods of a product that are compared.
        level: what a limb that is spent is taken to cost, in seconds.
        limit: what takes more seconds by its multiplications alone is not counted.
        known: what single steps were found to take; kept for assignments that differ in `level` alone.
    """

    def __init__(
        self,
        expression: Expression,
        ring: Ring,
        blocks: Mapping[str, int],
        policy: KeyPolicy,
        seconds: Seconds,
        candidates: Candidates,
        level: float,
        limit: float,
        known: dict[Any, Any] | None = None,
    ) -> None:
        self.expression, self.ring, self.blocks = expression, ring, blocks
        self._steps = MethodPrices(ring, policy, seconds, limit, known)
        self._candidates, self._level = candidates, level
        order = facts_of(expression).order
        self._numbers = {id(node): number for number, node in enumerate(order)}
        parents: dict[int, set[int]] = {}
        for node in order:
            for child in node.children:
                parents.setdefault(id(child), set()).add(id(node))
        self._shared = {child for child, found in parents.items() if len(found) > 1}
        self._axes = axes_of(expression)
        self._alternatives: dict[int, list[Alternative]] = {}
        self._methods: dict[int, dict[str, float]] = {}  # node → method → seconds of its fastest way
        self._taken: dict[int, str] = {}

    def runners_up(self) -> dict[int, str]:
        """By the number of a product, the fastest of the other methods, in the layouts that it leaves its value in."""
        found = {}
        for number, seconds in self._methods.items():
            ranked = sorted(seconds, key=seconds.__getitem__)
            if len(ranked) > 1:
                taken = self._taken.get(number, ranked[0])
                other = next(name for name in ranked if name != taken)
                found[number] = beside(other, seconds[other], seconds[taken])
        return found

    def best(self) -> Mapping[int, MethodChoice]:
        """The choices of the cheapest way to the result.

        Raises:
            FitError, LevelError: there is none.
        """
        committed: dict[int, MethodChoice] = {}
        for node in facts_of(self.expression).order:
            if not node.secret or node.packable or node.root:
                continue
            alternatives = self._alternatives_of(node)
            if id(node) in self._shared:  # its parents find it as it is cheapest, and pay for it once
                best = min(alternatives, key=self._weight)
                committed.update(best.choices)
                alternatives = [replace(best, seconds=0.0, choices={})]
            self._alternatives[id(node)] = alternatives
        if self.expression.packable:
            return {}
        choices = dict(committed)
        for result in results_of(self.expression):
            if not result.packable:
                costs = functools.partial(self._returned, result)
                choices.update(min(self._alternatives[id(result)], key=costs).choices)
        self._taken = {number: choice.method for number, choice in choices.items()}
        return choices

    def _weight(self, alternative: Alternative) -> float:
        return alternative.seconds + self._level * (len(self.ring.q) - alternative.limbs)

    def _returned(self, result: Expression, alternative: Alternative) -> float:
        """The weight of a way to a result that is sent back."""
        return self._weight(alternative) + self._steps.returned(
            alternative.layout, self._grid(result, alternative.layout), alternative.limbs
        )

    # --- nodes ---

    def _alternatives_of(self, node: Expression) -> list[Alternative]:
        if node.product:
            found = list(self._products(node))
        elif node.linear:
            found = list(self._sums(node))
        elif isinstance(node, Arrange):
            found = list(self._arranged(node))
        else:
            found = list(self._elementwise(node))
        best: dict[Any, Alternative] = {}
        for alternative in found:
            key = alternative.layout.key
            if key not in best or self._weight(alternative) < self._weight(best[key]):
                best[key] = alternative
        if not best:
            raise FitError("No method computes a node of the program.", expected="one", got=node.title)
        return list(best.values())

    def _products(self, node: Expression) -> Iterator[Alternative]:
        rows, inner = self._axes.of(node.children[0])
        block = self.blocks[rows], self.blocks[inner], self.blocks[self._axes.of(node)[1]]
        for choice in self._candidates(node):
            alternative = attempted(functools.partial(self._product, node, choice, block))
            if isinstance(alternative, Infeasible):
                continue
            methods = self._methods.setdefault(self._numbers[id(node)], {})
            methods[choice.method] = min(methods.get(choice.method, math.inf), alternative.seconds)
            yield alternative

    def _product(self, node: Expression, choice: MethodChoice, block: tuple[int, int, int]) -> Alternative:
        algorithm = self._steps.built(choice, block)
        sides = list(zip(node.children, (algorithm.left_layout, algorithm.right_layout), strict=True))
        alternatives = [self._in_layout(child, layout) for child, layout in sides]
        limbs = min(alternative.limbs for alternative in alternatives)
        grids = self._grid(*sides[0]), self._grid(*sides[1])
        secret = node.children[0].secret, node.children[1].secret
        own, left = self._steps.product(algorithm, grids, secret, limbs)
        return self._alternative(node, algorithm.out_layout, left, own, alternatives, choice)

    def _sums(self, node: Expression) -> Iterator[Alternative]:
        """Sums, and what changes units and bounds alone."""
        computed = [child for child in node.children if child.secret and not child.packable]
        for alternative in self._alternatives[id(computed[0])]:
            sides = [alternative, *(self._in_layout(other, alternative.layout) for other in computed[1:])]
            limbs = min(side.limbs for side in sides)
            yield self._alternative(node, alternative.layout, limbs, 0.0, sides, None)

    def _arranged(self, node: Arrange) -> Iterator[Alternative]:
        """Entries at other places, from any layout of the child."""
        (child,) = node.children
        layout, before = self._dense(node), self._dense(child)
        if layout is None or before is None:
            return
        for alternative in (
            [self._in_layout(child, before)] if child.packable else self._alternatives[id(child)]
        ):
            grids = self._grid(child, alternative.layout), self._grid(node, layout)
            found = attempted(functools.partial(self._moved, node, alternative, layout, grids))
            if not isinstance(found, Infeasible):
                yield found

    def _moved(
        self, node: Arrange, alternative: Alternative, layout: Layout, grids: tuple[Grid, Grid]
    ) -> Alternative:
        source, target = places_of(alternative.layout, grids[0], layout, grids[1], node)
        own, limbs = self._steps.relaid(source, target, (1, 1), alternative.limbs)
        return self._alternative(node, layout, limbs, own, [alternative], None)

    def _dense(self, node: Expression) -> Layout | None:
        """Of a block of a node, where slots hold one."""
        rows, cols = self._axes.of(node)
        fits = self.blocks[rows] * self.blocks[cols] <= self.ring.n // 2
        return column_major(self.blocks[rows], self.blocks[cols], self.ring.n // 2) if fits else None

    def _elementwise(self, node: Expression) -> Iterator[Alternative]:
        dense = self._dense(node)
        if dense is not None:
            yield from self._feasibly_multiplied(node, dense, None)
        computed = [child for child in node.children if child.secret and not child.packable]
        if not computed or METHODS.get((BLOCKS, node.op)) not in (multiply, gated):
            return  # methods of others know nothing of it
        for alternative in self._alternatives[id(computed[0])]:
            layout = in_place(alternative.layout)
            if layout is not None:
                yield from self._feasibly_multiplied(node, layout, MethodChoice(LAYOUT_PRESERVING))

    def _feasibly_multiplied(
        self, node: Expression, layout: Layout, choice: MethodChoice | None
    ) -> Iterator[Alternative]:
        found = attempted(functools.partial(self._multiplied, node, layout, choice))
        if not isinstance(found, Infeasible):
            yield found

    def _multiplied(self, node: Expression, layout: Layout, choice: MethodChoice | None) -> Alternative:
        different = {id(child): child for child in node.children}.values()
        sides = [self._in_layout(child, layout) for child in different]
        limbs = min(side.limbs for side in sides)
        secret = tuple(child.secret for child in node.children)
        own, left = self._steps.multiplied(layout, self._grid(node, layout), secret, limbs)
        return self._alternative(node, layout, left, own, sides, choice)

    def _alternative(
        self,
        node: Expression,
        layout: Layout,
        limbs: int,
        own: float,
        sides: list[Alternative],
        choice: MethodChoice | None,
    ) -> Alternative:
        choices = {number: one for side in sides for number, one in side.choices.items()}
        if choice is not None:
            choices[self._numbers[id(node)]] = choice
        return Alternative(own + sum(side.seconds for side in sides), layout, limbs, choices)

    # --- steps ---

    def _in_layout(self, node: Expression, layout: Layout) -> Alternative:
        """The cheapest way to a value in a layout, ready to be multiplied."""
        top = len(self.ring.q)
        if not node.secret:
            return Alternative(0.0, layout, top, {})
        grid = self._grid(node, layout)
        if node.packable:
            return Alternative(self._steps.sent(layout, grid, has_public_key(node), top), layout, top, {})
        found = []
        for alternative in self._alternatives[id(node)]:
            step = attempted(
                functools.partial(self._steps.relaid, alternative.layout, layout, grid, alternative.limbs)
            )
            if not isinstance(step, Infeasible):
                own, limbs = step
                found.append(
                    replace(alternative, seconds=alternative.seconds + own, layout=layout, limbs=limbs)
                )
        if not found:
            raise FitError(
                "No layout of a node can be re-arranged into the one that is needed.",
                expected="one that can be re-arranged",
                got=node.title,
            )
        return min(found, key=self._weight)

    def _grid(self, node: Expression, layout: Layout) -> tuple[int, int]:
        return grid_shape(*matrix_shape(node), layout.rows, layout.cols)
