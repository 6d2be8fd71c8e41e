"""A program as a list: every instruction of a run, in order, with what it reads, and how its result lies.

`Executor` writes it while it runs a program without data: an instruction is a piece of work on whole values, such as
a task graph of blocks, a layer, a conversion, or what a client sends. Whatever must be decided is decided then; a
`Replay` computes the instructions with other evaluators and inputs, and decides nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from cipherblas.common.progress import Progress
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.forms.form import Form
from cipherblas.runtime.inputs import Inputs
from cipherblas.runtime.values import Cells, Value


class Stage(NamedTuple):
    """What instructions run on.

    Attributes:
        told: called with how much more is done.
    """

    evaluators: Evaluators
    inputs: Inputs
    told: Callable[[int], None]

    @property
    def slots(self) -> Evaluator:
        """For ciphertexts of slots."""
        return self.evaluators.slots


Work: TypeAlias = Callable[..., Iterable[Any]]
"""work(stage, *cells of the sources) → the rows of the result's cells. It reads nothing else that a run has made, and
holds none of it."""


@dataclass(frozen=True)
class Encoding:
    """How a value lies.

    Attributes:
        ciphertexts: or pieces of encrypted rows, or plaintexts.
        limbs, scale: of the first of them; of clear ones 0.
        form: None where the instruction leaves that of what it reads.
        unit: an entry is unit · what is encrypted; NaN where `form` is None.
    """

    ciphertexts: int
    limbs: int
    scale: float
    form: Form | None = None
    unit: float = math.nan


class Told(NamedTuple):
    """Whose seconds are counted together: those of a node, of its conversion, or of a part of it; see `NodeSeconds`."""

    title: str
    form: str
    secret: int


class At(NamedTuple):
    """Where instructions are written down.

    Attributes:
        node: number of the node in `ordered`.
        told: place in `Listing.told`.
    """

    node: int
    told: int


@dataclass
class Instruction:
    """One instruction.

    Attributes:
        number: its place, by which others name its result.
        node: number in `ordered` of the node that it belongs to.
        name: what is done.
        sources: the instructions whose results it reads.
        works: what computes it, the first from the sources, each other one from what the one before it left.
        encoding: of its result.
        told: whom its seconds belong to, by the number in `Listing.told`.
        ticks: of progress, when it is done.
        ends: the sources that no later one reads.
    """

    number: int
    node: int
    name: str
    sources: tuple[int, ...]
    works: list[Work]
    encoding: Encoding
    told: int
    ticks: int = 0
    ends: tuple[int, ...] = ()

    def run(self, stage: Stage, sources: Sequence[Cells]) -> Cells:
        """Its result."""
        found = self.works[0](stage, *sources)
        for work in self.works[1:]:
            found = work(stage, found)
        return Cells(found, self.number)


@dataclass
class Listing:
    """The instructions of a program.

    Attributes:
        told: those for whom seconds are counted, by number.
        results: how each result of the program lies, and the instruction that makes it.
        total: in which progress is counted.
    """

    instructions: list[Instruction] = field(default_factory=list)
    told: dict[int, Told] = field(default_factory=dict)
    results: tuple[tuple[Value, int], ...] = ()
    total: int = 0
    _begun: int = 0

    def __len__(self) -> int:
        return len(self.instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def begin(self, node: int) -> At:
        """A node, or a part of it, begins."""
        self._begun += 1
        return At(node, self._begun)

    def add(self, at: At, name: str, sources: Sequence[Cells], work: Work, cells: Cells) -> None:
        """Write down an instruction, which has made these cells.

        Raises:
            AssertionError: what it reads was made by none.
        """
        cells.made_by = len(self.instructions)
        read = tuple(source.made_by for source in sources)
        assert min(read, default=0) >= 0, name
        self.instructions.append(
            Instruction(cells.made_by, at.node, name, read, [work], _encoding(cells), at.told)
        )

    def add_to_last(self, cells: Cells, work: Work) -> None:
        """The last instruction made these cells, and does this with them too."""
        last = self.instructions[-1]
        assert last.number == cells.made_by, last.name
        last.works.append(work)

    def lies(self, value: Value) -> None:
        """A value is done."""
        one = self.instructions[value.cells.made_by]
        one.encoding = replace(one.encoding, form=value.form, unit=value.unit)

    def end(self, values: Sequence[Value], total: int) -> None:
        """All instructions are there."""
        self.results = tuple((value.holding(Cells()), value.cells.made_by) for value in values)
        self.total = total
        read = {number for _, number in self.results}
        for one in reversed(self.instructions):
            one.ends = tuple({source for source in one.sources if source not in read})
            read.update(one.sources)


def _encoding(cells: Cells) -> Encoding:
    first = cells[0][0][0]
    number = len(cells) * len(cells[0]) * len(cells[0][0])
    return Encoding(number, getattr(first, "limbs", 0), getattr(first, "scale", 0.0))


class Replay:
    """One run of a listing.

    Args:
        progress: called as progress(done, total).
        weights: how many are encoded, which count in progress.

    Attributes:
        seconds: by the numbers of `Listing.told`.
    """

    def __init__(
        self,
        listing: Listing,
        evaluators: Evaluators,
        inputs: Inputs,
        progress: Progress | None = None,
        weights: int = 0,
    ) -> None:
        self.listing, self._progress = listing, progress
        self.stage = Stage(evaluators, inputs, self.tick)
        self.seconds = dict.fromkeys(listing.told, 0.0)
        self._done, self._total = 0, weights + listing.total

    def tick(self, done: int = 1) -> None:
        """So much more is done."""
        self._done = min(self._done + done, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def results(self) -> list[Value]:
        """The results, in their order, still encrypted."""
        held: dict[int, Cells] = {}
        self.stage.evaluators.on_weights(self.tick)
        try:
            for one in self.listing:
                started = time.perf_counter()
                held[one.number] = one.run(self.stage, [held[source] for source in one.sources])
                for source in one.ends:
                    del held[source]
                self.seconds[one.told] += time.perf_counter() - started
                if one.ticks:
                    self.tick(one.ticks)
        finally:
            self.stage.evaluators.on_weights(None)  # circles would keep what the run holds
        if self._done < self._total:  # masks were counted among the weights
            self.tick(self._total - self._done)
        return [value.holding(held[number]) for value, number in self.listing.results]
