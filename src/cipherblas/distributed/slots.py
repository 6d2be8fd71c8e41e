"""Products of blocks in slots on a grid of ranks: a schedule of the task graph that one process runs, with any kernel.

A rank adds up its block products (`cuts`); ranks that have sums of the same blocks add these, each block by a binary
tree of additions modulo q whose root finishes it, and each is the root of some. All ranks then get the blocks of the
result, as whatever comes after a product is done by every rank. How movements inside block products are shared
(`Distribution`): "t3d", "e3d" and "tdsc" move both operands in every block product; "4d-s" prepares each block of a
rank once. In "4d*" and "4d", which differ in their grids, the ranks that hold the same blocks share the rotations
inside each: of RotateAlign a rank adds up those by some offsets; sums go to one of them, which divides them, and back
comes the aligned block. Then, offset after offset, one of them shifts all these blocks, and each multiplies. That is of
kernels with `Movements`. In "4d-b", of any kernel, these ranks prepare some of the blocks each, whole, and send them to
each other: a block goes while the next one is prepared, and while others are multiplied.

Sums modulo q, and modulo Q·P, are exact: the residues are those of one process. Source: FHE4DMM, Sections III-A, IV and
V, Algorithm 4, whose loop over the inner blocks is the outer one here: ranks shift by their offsets at one time.
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
from cipherblas.distributed.ranks import PER_BLOCK, PER_OFFSET, PER_PRODUCT, Distribution
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.movements import Movements
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

    def data(self, words: Words) -> Any:
        """The residues of another rank."""
        return self.engine.upload(words)


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

    def data(self, words: Words) -> None:
        """A handle has none."""


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
    return [_made(ev, ev.data(one), fact.tolist()) for one, fact in zip(words, facts, strict=True)]


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
            elif self.distribution in PER_OFFSET:
                self._multiply_shifted(sums)
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

    def _multiply_shifted(self, sums: dict[Place, Any]) -> None:
        """Blocks are aligned, then multiplied offset by offset, shifted by one of the ranks that hold them."""
        assert isinstance(self.cut, GridCut)
        movements: tuple[Movements, Movements] | None = self.works["movements"]()
        if movements is None or movements[0].baby_steps is not None:
            raise ParameterError(
                "Ranks cannot share the rotations inside a block of this method.",
                expected="fhe-mm, without baby steps",
                advice='sharing="4d-b", which shares whole blocks, or sharing="4d-s"',
            )
        rows, columns, inner = self.cut.own(self.rank)
        places = [(i, t) for t in inner for i in rows], [(t, j) for t in inner for j in columns]
        grids, axes = (self.left, self.right), (1, 0)
        aligned = [
            self._aligned(
                move, {(i, j): (grid[i][j], (i, j)) for i, j in own}, self.cut.along(self.rank, axis)
            )
            for move, grid, own, axis in zip(movements, grids, places, axes, strict=True)
        ]
        for t in inner:
            left = self._shifts(movements[0], {i: aligned[0].pop((i, t)) for i in rows}, 1)
            right = self._shifts(movements[1], {j: aligned[1].pop((t, j)) for j in columns}, 0)
            for r in range(movements[0].terms):
                lefts, rights = left.factors(r), right.factors(r)
                for i, j in itertools.product(rows, columns):
                    sums[i, j] = self.works["multiply"](self.ev, [lefts[i]], [rights[j]], sums.get((i, j)))
                del lefts, rights
                left.used(r)
                right.used(r)
            del left, right  # before those of the next inner index are there
            self.communicator.finish()
            for _ in itertools.product(rows, columns):
                self._tick()

    def _aligned(
        self, move: Movements, blocks: Mapping[Place, tuple[Any, Place]], group: Sequence[int]
    ) -> dict[Place, Any]:
        """RotateAlign of blocks that the ranks of a group hold, each the root of some: each rank has a part of the
        rotations, and an all-reduce adds them up."""
        ev, found = self.ev, dict[Place, Any]()
        for start in range(0, len(blocks), len(group)):
            some = dict(zip(group, list(blocks)[start:], strict=False))  # of each root its block
            filled = {place: move.filled(ev, ev.look_at(*blocks[place])) for place in some.values()}
            if len(group) == 1 or not all(isinstance(one, Ct) for one in filled.values()):
                for place, one in filled.items():
                    with ev.stage("aligned"):
                        found[place] = move.aligned(ev, ev.linear_transform(one, move.align))
                continue
            parts = [rank for number, rank in enumerate(group) if move.align.part(number, len(group))]
            own: list[Any] = []
            for root, place in some.items():
                with ev.stage("aligned"):
                    filled[place] = ev.for_masks(filled[place])
                    part = ev.transform_part(filled[place], move.align, group.index(self.rank), len(group))
                if root == self.rank:
                    own = [] if part is None else [part.data]
                elif part is not None:
                    self.communicator.send("sum", [ev.words(part)], root)
                del part
            if self.rank in some:
                for rank in parts:
                    if rank != self.rank:
                        own += [ev.data(words) for words in self.communicator.receive("sum", rank)]
                place = some[self.rank]
                with ev.stage("aligned"):
                    whole = ev.transform_of_parts(filled[place], move.align, own)
                    found[place] = move.aligned(ev, whole)
                self._send_to(group, [found[place]])
            for root, place in some.items():
                if root != self.rank:
                    (found[place],) = _unpacked(ev, self.communicator.receive("blocks", root))
            self.communicator.finish()
        return found

    def _shifts(self, move: Movements, aligned: Mapping[int, Any], axis: int) -> _Shifts:
        assert isinstance(self.cut, GridCut)
        group = self.cut.along(self.rank, axis)
        if not all(isinstance(one, Ct) for one in aligned.values()):
            group = [self.rank]
        return _Shifts(self, move, aligned, group)

    def _send_to(self, group: Sequence[int], cts: Sequence[Ct]) -> None:
        """To the other ranks of a group."""
        others = [rank for rank in group if rank != self.rank]
        words = _packed(self.ev, cts) if others else []
        for rank in others:
            self.communicator.send("blocks", words, rank)

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
        for number in numbers:
            made = self.works[side.work](self.ev, self.ev.look_at(*side.blocks[number]))
            side.made[number] = made
            self._send_to(group, _listed(made) if len(group) > 1 else [])

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


class _Shifts:
    """ShiftByStep of the blocks of an operand at an inner index: each rank of a group shifts all of them by its
    offsets, those of its number modulo the ranks, and sends them to the others, one offset ahead of its use.

    Blocks are shifted by as many offsets with one hoisting as fit the evaluator's working memory, one at least.

    Source: FHE4DMM, Section VI-A-3: limited and large memory.
    """

    def __init__(
        self, product: _Product, move: Movements, aligned: Mapping[int, Any], group: Sequence[int]
    ) -> None:
        self._product, self._move, self._aligned, self._group = product, move, aligned, group
        own = [r for r in range(1, move.terms) if self._owner(r) == product.rank]
        shifts = [move.shift(r) for r in own]
        ev, alone = product.ev, len(group) == 1
        handles = [one for one in aligned.values() if isinstance(one, Ct)]
        at_once = max(1, ev.working_bytes // max(1, sum(map(ev.ct_bytes, handles))))
        self._coming = {
            number: ev.linear_transforms(one, shifts, at_once=at_once) for number, one in aligned.items()
        }
        self._offsets = iter(own)
        self._ahead: dict[int, Any] = {}
        self._alone = alone
        if not alone:
            self._shift()

    def _owner(self, r: int) -> int:
        return self._group[r % len(self._group)]

    def _shift(self) -> None:
        """All blocks by the next offset of this rank, if there is one."""
        if next(self._offsets, None) is not None:
            with self._product.ev.stage("shifted"):
                self._ahead = {number: next(coming) for number, coming in self._coming.items()}
            self._product._send_to(self._group, list(self._ahead.values()))

    def factors(self, r: int) -> dict[int, Any]:
        """The blocks shifted by r."""
        if r == 0:
            ev = self._product.ev
            return {number: self._move.first(ev, one) for number, one in self._aligned.items()}
        if self._alone:
            self._shift()
        if self._owner(r) == self._product.rank:
            made, self._ahead = self._ahead, {}
            return made
        message = self._product.communicator.receive("blocks", self._owner(r))
        return dict(zip(self._aligned, _unpacked(self._product.ev, message), strict=True))

    def used(self, r: int) -> None:
        """The blocks shifted by r are not needed any more: the next offset."""
        if r and not self._alone and self._owner(r) == self._product.rank:
            self._shift()


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
