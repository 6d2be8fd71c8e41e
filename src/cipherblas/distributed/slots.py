"""Products of blocks in slots on a grid of ranks: a schedule of the task graph that one process runs, with any kernel.

Rank (i, j, t) of a grid has some rows, columns and inner blocks, and adds up its block products; ranks along the inner
dimension add theirs by a binary tree of additions modulo q; the first of them finishes the blocks of the result, which
all ranks then get, as whatever comes after a product is done by every rank. How movements inside block products are
shared (`Sharing`): "3d" moves both operands in every block product; "4d-s" prepares each block of a rank once; in "4d*"
and "4d", which differ in their grids, the ranks that hold the same blocks prepare some of them each, and gather them.

Sums modulo q are exact: the residues are those of one process. Source: FHE4DMM, Sections III-A, IV and V. What is
shared in 4D here are whole blocks of a kernel's prepared operands, not the rotations inside one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from cipherblas.common.errors import ParameterError
from cipherblas.distributed.communicator import Communicator, Words
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.ranks import TOGETHER, Sharing, grid_of, ranks_of
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct
from cipherblas.rlwe.noise import SlotErrors
from cipherblas.runtime.schedule import SCHEDULES, Done, Grid, local
from cipherblas.runtime.tasks import TaskGraph, Template

SCHEDULE = "ranks"
FACTS = 4 + len(SlotErrors._fields)  # numbers that go with each ciphertext
SHARINGS: tuple[Sharing, ...] = ("3d", "4d-s", "4d*", "4d")


class OnGrid(NamedTuple):
    """A product: numbers of its blocks, and of the ranks that share them."""

    blocks: Cuboid
    grid: Cuboid


@dataclass
class Division:
    """Who takes part, and how movements are shared.

    Attributes:
        products: those so far.
    """

    communicator: Communicator
    sharing: Sharing
    products: list[OnGrid] = field(default_factory=list)


class SlotsRanks(Native):
    """`Native`, on a rank: products are shared."""

    schedule = SCHEDULE
    division: Division

    def words(self, ct: Ct) -> Words:
        """The residues of a ciphertext."""
        words: Words = self.engine.download(ct.data)
        return words

    def ciphertext(self, words: Words, like: Sequence[float]) -> Ct:
        """A ciphertext of another rank."""
        return _made(self, self.engine.upload(words), like)


class SlotsPlanned(Symbolic):
    """`Symbolic`, on a rank."""

    schedule = SCHEDULE
    division: Division

    def words(self, ct: Ct) -> Words:
        """Residues that take no memory."""
        return np.broadcast_to(np.uint64(0), (ct.components, ct.limbs, self.n))

    def ciphertext(self, words: Words, like: Sequence[float]) -> Ct:
        """A handle without data."""
        return _made(self, None, like)


def _made(ev: Evaluator, data: Any, like: Sequence[float]) -> Ct:
    limbs, components, scale, bound, own, mixed, common, aligned = like
    errors = SlotErrors(own, mixed, common, bool(aligned))
    return ev.make(int(limbs), scale, bound, errors, int(components), data)


def _packed(ev: Any, cts: Sequence[Ct]) -> list[Words]:
    """Ciphertexts in one message: what is known of them, then their residues."""
    known = [(ct.limbs, ct.components, ct.scale, ct.bound, *ct.errors) for ct in cts]
    facts = np.array(known, np.float64).reshape(len(cts), FACTS)
    return [facts.view(np.uint64), *map(ev.words, cts)]


def _unpacked(ev: Any, arrays: Sequence[Words]) -> list[Ct]:
    known, words = arrays[0], arrays[1:]
    facts = np.ascontiguousarray(known).view(np.float64) if known.size else np.empty((0, FACTS))
    return [ev.ciphertext(one, fact.tolist()) for one, fact in zip(words, facts, strict=True)]


def share(length: int, parts: int, index: int) -> range:
    """The blocks of a part: neighbours, the first parts having one more where they do not divide."""
    size, more = divmod(length, parts)
    start = index * size + min(index, more)
    return range(start, start + size + (index < more))


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
        self.blocks = Cuboid(len(self.left), len(self.right[0]), len(self.right))
        division: Division = ev.division
        self.communicator, self.sharing = division.communicator, division.sharing
        self.grid = grid_of(self.blocks, self.communicator.size, graph.terms, self.sharing)
        division.products.append(OnGrid(self.blocks, self.grid))
        self.places = list(ranks_of(self.grid))  # by rank; further ranks have nothing to multiply
        self.number = {place: rank for rank, place in enumerate(self.places)}

    def run(self) -> list[list[Any]]:
        """All blocks of the result."""
        rank, finished = self.communicator.rank, {}
        if rank < len(self.places):
            sums = self._reduced(self._products())
            if sums is not None:
                finished = {place: self.works["finish"](self.ev, one) for place, one in sums.items()}
        return self._everywhere(finished)

    def _own(self, rank: int) -> tuple[range, range, range]:
        """Rows, columns and inner blocks of a rank."""
        i, j, t = self.places[rank]
        b, p = self.blocks, self.grid
        return share(b.m, p.m, i), share(b.n, p.n, j), share(b.k, p.k, t)

    def _products(self) -> dict[tuple[int, int], list[Ct]]:
        """The sums of this rank's block products."""
        rows, columns, inner = self._own(self.communicator.rank)
        sums: dict[tuple[int, int], Any] = {}
        for t in inner:
            if self.sharing == "3d":
                for i, j in itertools.product(rows, columns):
                    sums[i, j] = self.works["multiply once"](
                        self.ev, self.left[i][t], self.right[t][j], sums.get((i, j))
                    )
                    self._tick()
                continue
            right = self._prepared("prepare right", {j: self.right[t][j] for j in columns}, 0)
            left = self._prepared("prepare left", {i: self.left[i][t] for i in rows}, 1)
            for i, j in itertools.product(rows, columns):
                sums[i, j] = self.works["multiply"](self.ev, left[i], right[j], sums.get((i, j)))
                self._tick()
        return sums

    def _tick(self) -> None:
        if self.done is not None:
            self.done(Template("multiply", steps=1))

    def _prepared(self, name: str, blocks: Mapping[int, Any], axis: int) -> dict[int, Any]:
        """Blocks prepared: in 4D some of them by each of the ranks that hold them, which differ along `axis`."""
        work, ev = self.works[name], self.ev
        place = self.places[self.communicator.rank]
        along = self.grid[axis]
        if self.sharing not in TOGETHER or along == 1:
            return {number: work(ev, block) for number, block in blocks.items()}
        i, j, t = place
        others = [(index, j, t) if axis == 0 else (i, index, t) for index in range(along)]
        group = [self.number[other] for other in others]
        mine = [number for place_of, number in enumerate(blocks) if place_of % along == place[axis]]
        made = {number: work(ev, blocks[number]) for number in mine}
        words = [array for number in mine for array in _packed(ev, _listed(made[number]))]
        lengths = np.array([len(made[number]) for number in mine], np.uint64)
        found: dict[int, Any] = {}
        for index, message in enumerate(self.communicator.all_gather("blocks", [lengths, *words], group)):
            count, arrays = message[0], message[1:]
            numbers = [number for place_of, number in enumerate(blocks) if place_of % along == index]
            for number, length in zip(numbers, count.tolist(), strict=True):
                some, arrays = arrays[: length + 1], arrays[length + 1 :]  # one array of facts for each block
                found[number] = made[number] if number in made else _unpacked(ev, some)
        return found

    def _reduced(self, sums: dict[tuple[int, int], list[Ct]]) -> dict[tuple[int, int], list[Ct]] | None:
        """The sums over the inner dimension, on the first of its ranks; None on the others."""
        if self.grid.k == 1:
            return sums
        i, j, _ = self.places[self.communicator.rank]
        group = [self.number[i, j, t] for t in range(self.grid.k)]
        lengths = [len(cts) for cts in sums.values()]

        def add(mine: Sequence[Words], theirs: Sequence[Words]) -> list[Words]:
            pairs = zip(_unpacked(self.ev, mine), _unpacked(self.ev, theirs), strict=True)
            return _packed(self.ev, [self.ev.add(x, y) for x, y in pairs])

        message = _packed(self.ev, [ct for cts in sums.values() for ct in cts])
        total = self.communicator.reduce("sum", message, add, group[0], group)
        if total is None:
            return None
        cts = iter(_unpacked(self.ev, total))
        return {
            place: list(itertools.islice(cts, length)) for place, length in zip(sums, lengths, strict=True)
        }

    def _everywhere(self, finished: Mapping[tuple[int, int], list[Ct]]) -> list[list[Any]]:
        """The result's blocks, from the ranks that finished them, on all."""
        message = _packed(self.ev, [ct for cts in finished.values() for ct in cts])
        found: dict[tuple[int, int], list[Ct]] = dict(finished)
        each = self.communicator.all_gather("blocks", message)
        for rank, arrays in enumerate(each):
            if rank == self.communicator.rank or len(arrays) == 1:
                continue
            rows, columns, _ = self._own(rank)
            places = list(itertools.product(rows, columns))
            cts = _unpacked(self.ev, arrays)
            length = len(cts) // len(places)
            for number, place in enumerate(places):
                found[place] = cts[number * length : (number + 1) * length]
        return [[found[i, j] for j in range(self.blocks.n)] for i in range(self.blocks.m)]


def _listed(prepared: Any) -> list[Ct]:
    """What a kernel prepares of a block, where it is a list of ciphertexts.

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
