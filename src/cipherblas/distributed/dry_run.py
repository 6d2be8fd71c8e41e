"""What each rank of a run does, holds, sends and which keys it uses, by a run on shapes alone.

The evaluator is that of the real run. Its engine is `ShapeEngine`; its messages hand over shapes, and are counted as
real ones are.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.work import Work
from cipherblas.crypto.keys.key_id import KeyId
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.params import Parameters
from cipherblas.distributed.communicator import Communicator, Sent, Words
from cipherblas.distributed.cuts import Place
from cipherblas.distributed.in_process import run_ranks
from cipherblas.distributed.matrices import OperandShare, Share, Taken
from cipherblas.distributed.ranks import Distribution
from cipherblas.distributed.rows import RowsRanks
from cipherblas.distributed.shares import Indices, Shares
from cipherblas.distributed.slots import Division, OnGrid, SlotsPlanned
from cipherblas.engines.handles import Matrix
from cipherblas.engines.shapes import Memory, ShapeEngine
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.values import EncryptedMatrix, MultiSecretRows, Rows
from cipherblas.evaluators.slots.shared import SharedSymbolic
from cipherblas.evaluators.slots.values import ClearFactor, Ct
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.counts import Counts
from cipherblas.runtime.inputs import SymbolicInputs
from cipherblas.runtime.listing import Listing, Replay
from cipherblas.runtime.values import Decisions, Handles, Input


@dataclass(frozen=True)
class RankRun:
    """The work of one rank of a run.

    Attributes:
        rank: which.
        counts: what it computes.
        sent: what it sends.
        keys: the switching keys that it uses.
        products: those in slots, with their blocks and the grid of ranks.
        used: of operands that are factors of products in slots the blocks that it reads, by `Input.key`.
        taken: of pieces of operands by rows what it reads, likewise.
        array_bytes: the most that its matrices take at once, operands included; None where it has more than rows.
    """

    rank: int
    counts: Counts
    sent: Sent
    keys: KeyRequest
    products: tuple[OnGrid, ...] = ()
    used: Mapping[Hashable, frozenset[Place]] = field(default_factory=dict)
    taken: Mapping[Hashable, Sequence[frozenset[Taken]]] = field(default_factory=dict)
    array_bytes: int | None = None

    def and_then(self, other: RankRun) -> RankRun:
        """Both runs of this rank, one after another, by keys that serve both: of one program modulo several t."""
        both = None
        if self.array_bytes is not None and other.array_bytes is not None:
            both = max(self.array_bytes, other.array_bytes)
        return replace(
            self,
            counts=self.counts + other.counts,
            sent=self.sent + other.sent,
            keys=self.keys.joined(other.keys),
            array_bytes=both,
        )


def in_turn(each: Sequence[Sequence[RankRun]]) -> list[RankRun]:
    """The runs of all ranks, of several runs of them all, one after another."""
    return [functools.reduce(RankRun.and_then, runs) for runs in zip(*each, strict=True)]


def rank_runs(
    parameters: Parameters,
    listing: Listing,
    decisions: Decisions,
    size: int,
    distribution: Distribution = "4d-s",
) -> list[RankRun]:
    """The runs of so many ranks, on shapes.

    Raises:
        CipherblasError: as a dry run of the program raises it.
    """

    def one(communicator: Communicator) -> RankRun:
        counts, row_counts, keys, memory = Counts(), Counts(), _KeysAsked(parameters), Memory()
        policy, division = decisions.key_policy, Division(communicator, distribution)

        def slots() -> SlotsPlanned:
            planned = SlotsPlanned(parameters, key_policy=policy)
            planned.division = division
            return planned

        own = parameters.family.rows
        row_keys = keys if own is parameters else _KeysAsked(own)
        evaluators = Evaluators(
            slots,
            lambda: _Planned(own, row_keys, communicator, row_counts, decisions, memory),
            None if own is parameters else lambda: SlotsPlanned(own, key_policy=policy),
            lambda secrets: SharedSymbolic(parameters, secrets, key_policy=policy),
        )
        inputs = _Inputs()
        for value in Replay(listing, evaluators, inputs).results():
            for handle in value.handles:
                value.form.evaluator(evaluators).downloaded(handle.data)
        row_counts.fresh_bytes = memory.most  # what is given back serves again
        if "rows" in vars(evaluators):  # both parts of an encryption are one operation
            row_counts.adds = evaluators.rows.counts.adds
            row_counts.rescales = evaluators.rows.counts.rescales
        asked, inner = keys.asked, row_keys.asked
        if own is not parameters:
            if "elements" in vars(evaluators):
                inner = inner.joined(evaluators.elements.request)
                row_counts = row_counts + evaluators.elements.counts
            row_counts = row_counts.in_ring(own.n, parameters.n)
            asked = asked.joined(inner.in_rows())
        counts = counts + row_counts
        if "slots" in vars(evaluators):
            for evaluator in (evaluators.slots, *evaluators.all_shared):
                asked = asked.joined(evaluator.request)
                counts = counts + evaluator.counts
        most = None if {"slots", "elements"} & vars(evaluators).keys() else memory.most + memory.given
        return RankRun(
            communicator.rank,
            counts,
            communicator.sent,
            asked,
            tuple(division.products),
            inputs.used(division.used),
            inputs.taken(),
            most,
        )

    return run_ranks(size, one, copies=False)


class _Inputs(SymbolicInputs):
    """Operands on shapes, that are known again where a product uses them."""

    def __init__(self) -> None:
        super().__init__()
        self._first: list[tuple[Any, Hashable]] = []  # ciphertexts of blocks
        self._by_rows: dict[Hashable, list[OperandShare]] = {}

    def secret(self, wanted: Input, bound: float, evaluators: Evaluators) -> list[list[Handles]]:
        """Fresh handles, noted."""
        found = super().secret(wanted, bound, evaluators)
        pieces = [handle.data for handle in found[0][0]]
        if isinstance(pieces[0], OperandShare):
            self._by_rows[wanted.key] = pieces
        else:
            self._first.append((found[0][0][0], wanted.key))
        return found

    def used(self, looked_at: Sequence[tuple[Ct, Place]]) -> dict[Hashable, frozenset[Place]]:
        """Of each operand the blocks that were looked at."""
        keys = {id(first): key for first, key in self._first}
        places: dict[Hashable, set[Place]] = {}
        for ct, place in looked_at:
            if id(ct) in keys:
                places.setdefault(keys[id(ct)], set()).add(place)
        return {key: frozenset(each) for key, each in places.items()}

    def taken(self) -> dict[Hashable, list[frozenset[Taken]]]:
        """Of each operand by rows what was looked at of its pieces."""
        return {key: [frozenset(one.taken) for one in pieces] for key, pieces in self._by_rows.items()}


class _KeysAsked:
    """Notes which keys are asked for."""

    def __init__(self, params: Parameters) -> None:
        self.params, self._asked = params, dict[KeyId, int]()

    def get(self, key: KeyId, limbs: int) -> None:
        self._asked[key] = max(limbs, self._asked.get(key, 0))

    @property
    def asked(self) -> KeyRequest:
        return KeyRequest(dict(self._asked))


class _PlannedOperand(OperandShare):
    """`OperandShare` on shapes."""

    def __init__(
        self, memory: Memory, words: int, a_rows: int, shape: tuple[int, int], shares: Shares, rank: int
    ) -> None:
        nowhere: Any = None
        super().__init__(nowhere, shape, shares, rank)
        self._memory, self._words, self._a_rows = memory, words, a_rows

    def _read(self, is_b: bool, columns: Indices | None) -> Words:
        width = self._width(is_b) if columns is None else len(columns)
        return self._memory.operand(self._words, self.shape[0] if is_b else self._a_rows, width)


class _Planned(RowsRanks):
    """`RowsRanks` on shapes."""

    def __init__(
        self,
        params: Parameters,
        keys: _KeysAsked,
        communicator: Communicator,
        counts: Counts,
        decisions: Decisions,
        memory: Memory,
    ) -> None:
        engine = ShapeEngine.engine(params, counts, memory)
        self.memory = memory
        super().__init__(params, keys, communicator, engine=engine, key_policy=decisions.key_policy)
        self._own, self.work = counts, Work()  # which an evaluator of slots shares

    def downloaded(self, data: Any) -> tuple[Any, ...]:
        """Count the messages that gather a result."""
        self.gathered(data)
        return ()

    def _pair(self, limbs: int, rows: int, cols: int) -> tuple[Words, Words]:
        """An a and a b part."""
        return self.memory.array(limbs, rows, self.n), self.memory.array(limbs, rows, cols)

    def fresh(self, data: Any, shape: tuple[int, int], **options: Any) -> Rows:
        """An operand of this shape."""
        return super().fresh(self._operand(options["basis"], shape, shape[0]), shape, **options)

    def fresh_batch(self, data: Any, shape: tuple[int, int], **options: Any) -> MultiSecretRows:
        """The same, of rows that share their a parts."""
        own = self._operand(options["basis"], shape, -(-shape[1] // self.n))
        return super().fresh_batch(own, shape, **options)

    def _operand(self, basis: Basis, shape: tuple[int, int], a_rows: int) -> OperandShare:
        return _PlannedOperand(self.memory, basis.words(self.params), a_rows, shape, self.shares, self.rank)

    def _empty(self, shape: tuple[int, ...], zero: bool = False) -> Words:
        return self.memory.array(*shape)

    def _fill(self, place: Words, words: Words) -> None:
        self._own.moved_bytes += 2 * words.nbytes

    def _picked(self, x: Matrix, rows: Indices | None = None, columns: Indices | None = None) -> Matrix:
        limbs, height, width = x.shape
        if rows is not None:
            return self.memory.array(limbs, len(rows), width)
        assert columns is not None
        return self.memory.array(limbs, height, len(columns))

    def _at_places(self, words: Words, places: Indices, height: int, across: int) -> Words:
        self._own.moved_bytes += len(words) * height * self.n * 8
        return self.memory.array(len(words), height, self.n)

    def _joined(self, x: Share, found: Sequence[Sequence[Words]]) -> Share:
        whole = self._pair(len(found[0][0]), *x.shape)
        others = [one for rank, some in enumerate(found) if rank != self.rank for one in some]
        self.memory.pass_through(sum(one.nbytes for one in others))
        return Share(*whole, "replicated", x.shape)

    def _integers(self, factor: ClearFactor) -> Any:
        """They are not needed: a factor has their shape and size."""
        return factor

    def _elements_data(self, x: Rows, start: int, stop: int) -> list[Any]:
        self._look_at(x)
        return [None] * (stop - start)

    def _look_at(self, x: EncryptedMatrix) -> None:
        """At all of it."""
        whole = self.gathered_share(x.data)
        for part in (whole.a, whole.b):
            self._words(part)

    def _of_elements_data(
        self, datas: Sequence[Any], shape: tuple[int, int], held: int, scale: float
    ) -> Share:
        return Share(*self._pair(len(self.params.q), *shape), "replicated", shape)

    def _plus_message(self, b: Matrix, values: NDArray[np.float64], x: Rows) -> Matrix:
        return b
