"""A program as a list: every instruction of a run, in order, with what it reads, and how its result lies.

`Executor` writes it while it runs a program without data: an instruction is a piece of work on whole values, such as
a task graph of blocks, a layer, a conversion, or what a client sends. Whatever must be decided is decided then; a
`Replay` computes the instructions with other evaluators and inputs, and decides nothing.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from cipherblas.common.errors import ParameterError
from cipherblas.common.progress import Progress
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.rows.values import MultiSecretRows, Rows
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.forms.form import Form
from cipherblas.lang.nodes import Expression
from cipherblas.methods.matmul.ring_elements import Elements
from cipherblas.rlwe.counts import Counts
from cipherblas.runtime.inputs import Inputs
from cipherblas.runtime.values import NOBODY, Cells, Value, handles_of


class RunContext(NamedTuple):
    """The evaluators, inputs and progress with which instructions run.

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

    @property
    def rows(self) -> RowsEvaluator:
        """For matrices that are encrypted by rows."""
        return self.evaluators.rows


Work: TypeAlias = Callable[..., Iterable[Any]]
"""work(stage, *cells of the sources) → the rows of the result's cells. It reads nothing else that a run has made, and
holds none of it."""


@dataclass(frozen=True)
class ResultEncoding:
    """How a value lies.

    Attributes:
        ciphertexts: or encrypted rows, or plaintexts.
        limbs, scale: of the first of them; 0 of clear ones, and no limbs where the moduli are those of operands.
        form: None where the instruction leaves that of what it reads.
        unit: an entry is unit · what is encrypted; NaN where `form` is None.
    """

    ciphertexts: int
    limbs: int
    scale: float
    form: Form | None = None
    unit: float = math.nan


@dataclass(frozen=True)
class NodeSeconds:
    """How long one node of a program took, what it is made of apart.

    Attributes:
        op: the operation of the node, as files name it.
        title: of the node.
        form: in which it was computed, or "… to …" where its value was converted; or a step of its own: EXTRACTION of
            rows from ring elements, or OPERAND, its conversion to ring elements.
        secret: how many of the nodes that it is made of are encrypted.
        seconds: measured.
    """

    op: str
    title: str
    form: str
    secret: int
    seconds: float


class At(NamedTuple):
    """Where instructions are written down.

    Attributes:
        node: number of the node in `ordered`.
        told: whom seconds belong to, by the place in `Listing.told`.
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
        told: whom its seconds belong to, by the place in `Listing.told`.
        counts: what it takes.
        working_bytes: the most memory that it takes beside what there is before, encodings aside.
        held_bytes: memory of all ciphertexts that are held when it begins, operands aside.
        passes_on: the sources whose memory its result holds.
        ticks: of progress, when it is done.
    """

    number: int
    node: int
    name: str
    sources: tuple[int, ...]
    works: list[Work]
    encoding: ResultEncoding
    told: int
    counts: Counts
    working_bytes: int
    held_bytes: int
    passes_on: tuple[int, ...] = ()
    ticks: int = 0

    def run(self, context: RunContext, sources: Sequence[Cells]) -> Cells:
        """Its result."""
        found = self.works[0](context, *sources)
        for work in self.works[1:]:
            found = work(context, found)
        return Cells(found, self.number)


@dataclass
class Listing:
    """The instructions of a program.

    Attributes:
        told: for whom seconds are counted, without these.
        results: how each result of the program lies, and the instruction that makes it.
        total: in which progress is counted.
    """

    instructions: list[Instruction] = field(default_factory=list)
    told: list[NodeSeconds] = field(default_factory=list)
    results: tuple[tuple[Value, int], ...] = ()
    total: int = 0

    def __len__(self) -> int:
        return len(self.instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def begin(self, number: int, node: Expression, form: str) -> At:
        """A node begins, its conversion, or a part of it."""
        secret = sum(child.secret for child in node.children)
        self.told.append(NodeSeconds(node.op, node.title, form, secret, 0.0))
        return At(number, len(self.told) - 1)

    def add(self, at: At, name: str, sources: Sequence[Cells], work: Work, context: RunContext) -> Cells:
        """Write down an instruction, and compute it.

        Raises:
            ParameterError: what it reads was made by none.
        """
        read, evaluators = tuple(map(_made_by, sources)), context.evaluators
        before, ledger = evaluators.counts, evaluators.ledger
        live, peak, ledger.peak = ledger.live, ledger.peak, ledger.live
        cells = Cells(work(context, *sources), len(self.instructions))
        took, ledger.peak = ledger.peak - live, max(peak, ledger.peak)
        kept = ledger.live == live  # of what it read
        self.instructions.append(
            Instruction(
                *(cells.made_by, at.node, name, read, [work], _encoding(cells), at.told),
                counts=evaluators.counts - before,
                working_bytes=took,
                held_bytes=live,
                passes_on=tuple(
                    source.made_by for source in sources if kept or source[0][0][0] is cells[0][0][0]
                ),
            )
        )
        return cells

    def add_to_last(self, cells: Cells, work: Work) -> None:
        """The last instruction made these cells, and does this with them too."""
        last = self.instructions[-1]
        assert last.number == cells.made_by, last.name
        last.works.append(work)

    def lies(self, value: Value, detached: bool) -> None:
        """A value is done; `detached`: its errors are no longer counted from here on (`Value.step_error`)."""
        one = self.instructions[_made_by(value.cells)]
        if detached and one.works[-1] is not _detached:
            one.works.append(_detached)
        one.encoding = replace(one.encoding, form=value.form, unit=value.unit)

    def end(self, values: Sequence[Value], total: int) -> None:
        """All instructions are there."""
        self.results = tuple((value.holding(Cells()), value.cells.made_by) for value in values)
        self.total = total

    @property
    def peak_bytes(self) -> int:
        """Most memory of ciphertexts at a time, in this order of the instructions; operands and encodings aside."""
        return max((one.held_bytes + one.working_bytes for one in self.instructions), default=0)

    @property
    def ends(self) -> list[int]:
        """The instruction after which the ciphertexts that each one makes are needed no more; for those of results the
        number of all."""
        found = list(range(len(self.instructions)))
        for _, number in self.results:
            found[number] = len(self.instructions)
        for one in reversed(self.instructions):
            for source in one.sources:
                found[source] = max(found[source], one.number)
            for source in one.passes_on:
                found[source] = max(found[source], found[one.number])
        return found

    @property
    def readers(self) -> Counter[int]:
        """How many instructions read the result of another one; a result of the program is read once more."""
        read = Counter(source for one in self.instructions for source in set(one.sources))
        read.update({number for _, number in self.results})
        return read


def _detached(context: RunContext, cells: Cells) -> Cells:
    for handle in handles_of(cells):
        handle.detached_errors()
    return cells


def _made_by(cells: Any) -> int:
    """The instruction that made cells."""
    if not isinstance(cells, Cells) or cells.made_by == NOBODY:
        raise ParameterError(
            "A method made the ciphertexts of a value by itself, and not as an instruction of the program.",
            advice="value.holding(run.perform(name, [x.cells], work)), or run.mapped(name, x, work)",
            got="cells that no instruction made",
        )
    return cells.made_by


def _encoding(cells: Cells) -> ResultEncoding:
    first = cells[0][0][0]
    if isinstance(first, Elements):
        return ResultEncoding(len(first.cts), first.cts[0].limbs, first.cts[0].scale)
    number = len(cells) * len(cells[0]) * len(cells[0][0])
    if isinstance(first, (Rows, MultiSecretRows)):
        number = sum(piece.shape[0] for piece in cells[0][0])
    limbs = first.basis.primes if hasattr(first, "basis") else 0
    return ResultEncoding(number, limbs, getattr(first, "scale", 0.0))


class Replay:
    """One run of a listing.

    Args:
        progress: called as progress(done, total).
        weights: how many are encoded, which count in progress.

    Attributes:
        held: what instructions have made, and others will read.
    """

    def __init__(
        self,
        listing: Listing,
        evaluators: Evaluators,
        inputs: Inputs,
        progress: Progress | None = None,
        weights: int = 0,
    ) -> None:
        self.listing, self.evaluators, self.inputs, self._progress = listing, evaluators, inputs, progress
        self._seconds = [0.0] * len(listing.told)
        self.held: dict[int, Cells] = {}
        self._left = listing.readers
        self._done, self._total = 0, weights + listing.total

    @property
    def context(self) -> RunContext:
        """Context of the instructions, made anew: a reference cycle would keep the data of the run alive."""
        return RunContext(self.evaluators, self.inputs, self.tick)

    @property
    def seconds(self) -> tuple[NodeSeconds, ...]:
        """Seconds of each node, each conversion, and each part that is timed separately."""
        return tuple(
            NodeSeconds(one.op, one.title, one.form, one.secret, took)
            for one, took in zip(self.listing.told, self._seconds, strict=True)
        )

    def tick(self, done: int = 1) -> None:
        """So much more is done."""
        self._done = min(self._done + done, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def results(self) -> list[Value]:
        """The results, in their order, still encrypted."""
        self.evaluators.on_weights(self.tick)
        try:
            self._run()
        finally:
            self.evaluators.on_weights(None)  # as `context`
        if self._done < self._total:  # masks were counted among the weights
            self.tick(self._total - self._done)
        values = [value.holding(self.held[number]) for value, number in self.listing.results]
        self.held.clear()
        return values

    def _run(self) -> None:
        for one in self.listing:
            self.finish(one, self.compute(one, self.context))

    def compute(self, one: Instruction, context: RunContext) -> Cells:
        """Compute one instruction, and return its result."""
        started = time.perf_counter()
        cells = one.run(context, [self.held[source] for source in one.sources])
        self._seconds[one.told] += time.perf_counter() - started
        return cells

    def finish(self, one: Instruction, cells: Cells) -> None:
        """An instruction has made this; what nobody reads any more goes."""
        self.held[one.number] = cells
        for source in {*one.sources, one.number}:
            self._left[source] -= source != one.number
            if not self._left[source]:
                del self.held[source]
        if one.ticks:
            self.tick(one.ticks)
