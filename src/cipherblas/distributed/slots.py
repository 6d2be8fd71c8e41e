"""Products of blocks in slots on a grid of ranks: a schedule of the task graph that one process runs, with any kernel.

A rank adds up its block products (`cuts`); ranks that have sums of the same blocks add these, each block by a binary
tree of additions modulo q whose root finishes it, and each is the root of some. All ranks then get the blocks of the
result, as whatever comes after a product is done by every rank. How movements inside block products are shared
(`Distribution`): "t3d", "e3d" and "tdsc" move both operands in every block product; "4d-s" prepares each block of a
rank once; in "4d*" and "4d", which differ in their grids, the ranks that hold the same blocks prepare some of them
each, and send them to each other: a block goes while the next one is prepared, and while others are multiplied.

Sums modulo q are exact: the residues are those of one process. Source: FHE4DMM, Sections III-A, IV and V. What is
shared in 4D here are whole blocks of a kernel's prepared operands, not the rotations inside one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

import numpy as np

from cipherblas.common.errors import ParameterError
from cipherblas.distributed.communicator import Communicator, Words
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.cuts import GridCut, Place, cut_of
from cipherblas.distributed.ranks import PER_BLOCK, PER_PRODUCT, Distribution
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct
from cipherblas.rlwe.noise import SlotErrors
from cipherblas.runtime.schedule import SCHEDULES, Done, Grid, local
from cipherblas.runtime.tasks import TaskGraph, Template

SCHEDULE = "ranks"
FACTS = 4 + len(SlotErrors._fields)  # numbers that go with each ciphertext; one more modulo t
DISTRIBUTIONS: tuple[Distribution, ...] = get_args(Distribution)


class OnGrid(NamedTuple):
    """A product: numbers of its blocks, and of the ranks that share them."""

    blocks: Cuboid
    grid: Cuboid


@dataclass
class Division:
    """Who takes part, and how movements are shared.

    Attributes:
        products: those so far.
        used: of a run on shapes, the blocks of factors that this rank has looked at, by their first ciphertexts.
    """

    communicator: Communicator
    distribution: Distribution
    products: list[OnGrid] = field(default_factory=list)
    used: list[tuple[Ct, Place]] = field(default_factory=list)


class _Lines:
    """Blocks of samples that never meet: each rank computes those of some lines, from the operands to the results."""

    division: Division
    look_at: Callable[[Sequence[Any], Place], Sequence[Any]]

    def own_lines(self, grid: Sequence[Sequence[list[Any]]], axis: int) -> Sequence[Sequence[list[Any]]]:
        """As `Evaluator.own_lines`: lines are dealt out in turns."""
        communicator = self.division.communicator

        def block(given: list[Any], *place: int) -> list[Any]:
            own = place[axis] % communicator.size == communicator.rank
            return [*self.look_at(given, (place[0], place[1]))] if own else []

        return [[block(given, i, j) for j, given in enumerate(row)] for i, row in enumerate(grid)]

    def collected(self, grid: Sequence[Sequence[list[Any]]]) -> Sequence[Sequence[list[Any]]]:
        """As `Evaluator.collected`: on the first rank."""
        blocks = {(i, j): block for i, row in enumerate(grid) for j, block in enumerate(row) if block}
        places = np.array(list(blocks), np.int64).reshape(-1, 2).view(np.uint64)
        own = [places, *_packed(self, [ct for block in blocks.values() for ct in block])]
        for rank, found in enumerate(self.division.communicator.gather("blocks", own) or ()):
            if rank == self.division.communicator.rank or not found[0].size:
                continue
            cts = _unpacked(self, found[1:])
            each = len(cts) // len(found[0])
            for number, (i, j) in enumerate(found[0].view(np.int64).tolist()):
                blocks[i, j] = cts[number * each : (number + 1) * each]
        return [[blocks.get((i, j), []) for j in range(len(row))] for i, row in enumerate(grid)]


class SlotsRanks(_Lines, Native):
    """`Native`, on a rank: products are shared."""

    schedule = SCHEDULE
    division: Division

    def look_at(self, block: Sequence[Any], place: Place) -> Sequence[Any]:
        """A block of a factor, which this rank needs."""
        return block

    def words(self, ct: Ct) -> Words:
        """The residues of a ciphertext."""
        words: Words = self.engine.download(ct.data)
        return words

    def ciphertext(self, words: Words, like: Sequence[float]) -> Ct:
        """A ciphertext of another rank."""
        return _made(self, self.engine.upload(words), like)


class SlotsPlanned(_Lines, Symbolic):
    """`Symbolic`, on a rank."""

    schedule = SCHEDULE
    division: Division

    def look_at(self, block: Sequence[Any], place: Place) -> Sequence[Any]:
        """A block of a factor, which this rank needs: noted."""
        if isinstance(block[0], Ct):
            self.division.used.append((block[0], place))
        return block

    def downloaded(self, data: Any) -> None:
        """Nothing is sent for that."""

    def words(self, ct: Ct) -> Words:
        """Residues that take no memory."""
        return np.broadcast_to(np.uint64(0), (ct.components, ct.limbs, self.n))

    def ciphertext(self, words: Words, like: Sequence[float]) -> Ct:
        """A handle without data."""
        return _made(self, None, like)


def _made(ev: Evaluator, data: Any, like: Sequence[float]) -> Ct:
    limbs, components, bound, own, mixed, common, aligned, covered, spread, *scale = like
    errors = ev.policy.errors_kind(own, mixed, common, bool(aligned), covered, spread)
    return ev.make(int(limbs), ev.policy.of_facts(scale), bound, errors, int(components), data)


def _packed(ev: Any, cts: Sequence[Ct]) -> list[Words]:
    """Ciphertexts in one message: what is known of them, then their residues."""
    known = [(ct.limbs, ct.components, ct.bound, *ct.errors, *ev.policy.facts(ct.scale)) for ct in cts]
    facts = np.array(known, np.float64) if known else np.empty((0, FACTS))
    return [facts.view(np.uint64), *map(ev.words, cts)]


def _unpacked(ev: Any, arrays: Sequence[Words]) -> list[Ct]:
    known, words = arrays[0], arrays[1:]
    facts = np.ascontiguousarray(known).view(np.float64) if known.size else np.empty((0, FACTS))
    return [ev.ciphertext(one, fact.tolist()) for one, fact in zip(words, facts, strict=True)]


def on_grid(
    graph: TaskGraph, ev: Evaluator, sources: Sequence[Grid], done: Done | None
) -> list[list[list[Any]]]:
    """The schedule: products on a grid of ranks; anything else on every rank."""
    if not {"prepare left", "multiply once", "finish"} <= graph.works.keys():
        return local(graph, ev, sources, done)
    return [_Product(graph, ev, sources, done).run()]


class _Product:
    """The blocks of a product of which one rank has some."""

    def __init__(self, graph: TaskGraph, ev: Any, sources: Sequence[Grid], done: Done | None) -> None:
        self.works, self.ev, self.done = graph.works, ev, done
        self.left, self.right = sources
        division: Division = ev.division
        self.communicator, self.distribution = division.communicator, division.distribution
        self.blocks = Cuboid(len(self.left), len(self.right[0]), len(self.right))
        self.cut = cut_of(self.blocks, self.communicator.size, graph.terms, self.distribution)
        division.products.append(OnGrid(self.blocks, self.cut.grid))
        self.rank = self.communicator.rank

    def run(self) -> list[list[Any]]:
        """All blocks of the result."""
        finished: dict[Place, list[Ct]] = {}
        if self.rank < self.cut.grid.volume:
            sums: dict[Place, Any] = {}
            if self.distribution in PER_PRODUCT:
                self._multiply_each(sums)
            else:
                self._multiply_prepared(sums)
            whole = self._added(sums)
            finished = {place: self.works["finish"](self.ev, one) for place, one in whole.items()}
        return self._everywhere(finished)

    # ---- sums of block products ----

    def _multiply_each(self, sums: dict[Place, Any]) -> None:
        """Every block product by itself."""
        for i, j, t in self.cut.products(self.rank):
            left = self.ev.look_at(self.left[i][t], (i, t))
            right = self.ev.look_at(self.right[t][j], (t, j))
            sums[i, j] = self.works["multiply once"](self.ev, left, right, sums.get((i, j)))
            self._tick()

    def _multiply_prepared(self, sums: dict[Place, Any]) -> None:
        """Blocks are prepared once, in 4D by one of the ranks that hold them."""
        assert isinstance(self.cut, GridCut)
        rows, columns, inner = self.cut.own(self.rank)
        for t in inner:
            right = _Side("prepare right", {j: (self.right[t][j], (t, j)) for j in columns}, 0)
            left = _Side("prepare left", {i: (self.left[i][t], (i, t)) for i in rows}, 1)
            sides = (right, left)
            groups = [self._sharing_ranks(side) for side in sides]
            orders = [self._order(side, group) for side, group in zip(sides, groups, strict=True)]
            coming = [
                (side, rank, number)
                for side, order in zip(sides, orders, strict=True)
                for rank, number in order
                if rank != self.rank
            ]
            arrived = self.communicator.receive_ahead("blocks", [rank for _, rank, _ in coming])
            for side, group, order in zip(sides, groups, orders, strict=True):
                self._prepare_own(side, group, [number for rank, number in order if rank == self.rank])
            self._multiply_new(sums, left.made, right.made, itertools.product(left.made, right.made))
            for (side, _, number), message in zip(coming, arrived, strict=True):
                side.made[number] = _unpacked(self.ev, message)
                new = (
                    itertools.product([number], right.made)
                    if side is left
                    else itertools.product(left.made, [number])
                )
                self._multiply_new(sums, left.made, right.made, new)
            self.communicator.finish()

    def _multiply_new(
        self,
        sums: dict[Place, Any],
        left: Mapping[int, Any],
        right: Mapping[int, Any],
        places: Iterable[Place],
    ) -> None:
        for i, j in places:
            sums[i, j] = self.works["multiply"](self.ev, left[i], right[j], sums.get((i, j)))
            self._tick()

    def _tick(self) -> None:
        if self.done is not None:
            self.done(Template("multiply", steps=1))

    def _sharing_ranks(self, side: _Side) -> list[int]:
        """The ranks that prepare blocks of a side together."""
        assert isinstance(self.cut, GridCut)
        return self.cut.along(self.rank, side.axis) if self.distribution in PER_BLOCK else [self.rank]

    @staticmethod
    def _order(side: _Side, group: Sequence[int]) -> list[tuple[int, int]]:
        """Who prepares which block, in turns, in the order in which they are ready."""
        return [(group[place % len(group)], number) for place, number in enumerate(side.blocks)]

    def _prepare_own(self, side: _Side, group: Sequence[int], numbers: Sequence[int]) -> None:
        """This rank's blocks, each of which goes to the others as soon as it is ready."""
        others = [rank for rank in group if rank != self.rank]
        for number in numbers:
            made = self.works[side.work](self.ev, self.ev.look_at(*side.blocks[number]))
            side.made[number] = made
            words = _packed(self.ev, _listed(made)) if others else []
            for rank in others:
                self.communicator.send("blocks", words, rank)

    # ---- from sums to the result ----

    def _added(self, sums: dict[Place, list[Ct]]) -> dict[Place, list[Ct]]:
        """The blocks that this rank finishes, each the sum of those of all ranks that have sums of it."""
        group = self.cut.adding(self.rank)
        if len(group) == 1:
            return {place: sums[place] for place in self.cut.finished(self.rank)}
        found: dict[Place, list[Ct]] = {}
        for root in group:
            places = self.cut.finished(root)
            if not places:
                continue
            message = _packed(self.ev, [ct for place in places for ct in sums[place]])
            length = len(sums[places[0]])
            for place in places:
                del sums[place]
            total = self.communicator.reduce("sum", message, self._plus, root, group)
            if total is not None:
                cts = iter(_unpacked(self.ev, total))
                found = {place: list(itertools.islice(cts, length)) for place in places}
        return found

    def _plus(self, mine: Sequence[Words], theirs: Sequence[Words]) -> list[Words]:
        pairs = zip(_unpacked(self.ev, mine), _unpacked(self.ev, theirs), strict=True)
        return _packed(self.ev, [self.ev.add(x, y) for x, y in pairs])

    def _everywhere(self, finished: Mapping[Place, list[Ct]]) -> list[list[Any]]:
        """The result's blocks, from the ranks that finished them, on all."""
        message = _packed(self.ev, [ct for cts in finished.values() for ct in cts])
        found: dict[Place, list[Ct]] = dict(finished)
        each = self.communicator.all_gather("blocks", message)
        for rank, arrays in enumerate(each):
            places = self.cut.finished(rank)
            if rank == self.rank or not places:
                continue
            cts = _unpacked(self.ev, arrays)
            length = len(cts) // len(places)
            for number, place in enumerate(places):
                found[place] = cts[number * length : (number + 1) * length]
        return [[found[i, j] for j in range(self.blocks.n)] for i in range(self.blocks.m)]


@dataclass
class _Side:
    """The blocks of one operand at an inner index.

    Attributes:
        work: what prepares them.
        blocks: by their number, with their places.
        axis: along which ranks differ that hold the same blocks.
        made: those that are prepared so far.
    """

    work: str
    blocks: Mapping[int, tuple[Any, Place]]
    axis: int
    made: dict[int, Any] = field(default_factory=dict)


def _listed(prepared: Any) -> list[Ct]:
    """The ciphertexts that a kernel prepares of a block, where these are a list.

    Raises:
        ParameterError: it is something else, which this rank cannot send.
    """
    if not all(isinstance(one, Ct) for one in prepared):
        raise ParameterError(
            "Prepared blocks of this method cannot be shared by ranks.",
            expected='lists of ciphertexts, or sharing="4d-s"',
            got=sorted({type(one).__name__ for one in prepared}),
        )
    return list(prepared)


SCHEDULES[SCHEDULE] = on_grid
