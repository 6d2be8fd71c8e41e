"""The operands of a real run: what was sent, and what is made of it."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.limits import KEPT_BYTES
from cipherblas.common.memory import Array, aligned_empty, in_threads
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.keys import FreshCiphertext
from cipherblas.crypto.params import Parameters
from cipherblas.distributed.dry_run import RankRun
from cipherblas.distributed.matrices import OperandShare
from cipherblas.distributed.shares import Shares
from cipherblas.evaluators.family import Evaluators
from cipherblas.forms.slot_forms import SlotForm
from cipherblas.lang.modular import centred, evaluate_modular
from cipherblas.lang.nodes import Expression
from cipherblas.roles.planned import PlannedProgram
from cipherblas.roles.wire.messages import EncryptedOperand
from cipherblas.runtime.inputs import Inputs, fresh
from cipherblas.runtime.values import Handles, Input


class ReceivedInputs(Inputs):
    """Operands of a real run. Regenerates the seeded halves of small ones; those of large ones where the run uses them.

    Args:
        run: of a rank of several, what it does: only what that uses of operands is read and regenerated, and the rest
            if it is looked at after all.
        ranks: how many.
    """

    def __init__(
        self,
        program: PlannedProgram,
        encrypted: Mapping[str, EncryptedOperand],
        clear: Mapping[str, NDArray[Any]],
        run: RankRun | None = None,
        ranks: int = 1,
    ) -> None:
        super().__init__(clear)
        self._clock, params = _Clock(), program.plan.parameters
        self._modulus = params.plain_modulus
        receiver = _Whole(self._clock) if run is None else _OfRank(params, run, ranks)
        self._data = {
            wanted.key: wanted.form.received(receiver, feed, wanted.key)
            for name, operand in encrypted.items()
            for wanted, feed in zip(program.inputs_of(name), operand.feeds, strict=True)
        }

    @property
    def seconds(self) -> float:
        """Seconds of expanding seeds since the run began."""
        return self._clock.seconds

    def _evaluated(self, node: Expression, narrow: bool) -> NDArray[Any]:
        if self._modulus is None or node.operand is not None:
            return super()._evaluated(node, narrow)
        (found,) = evaluate_modular(node, self._clear, self._modulus)
        return centred(found, self._modulus).astype(np.float64)  # no larger than the bound of the node

    def secret(self, wanted: Input, bound: float, evaluators: Evaluators) -> list[list[Handles]]:
        """The operand's ciphertexts; each use of the operand is handed out once."""
        return fresh(wanted, bound, evaluators, iter(self._data[wanted.key]))


class _Clock:
    """Times work that several threads may do at once, which counts once.

    Attributes:
        seconds: so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()
        self._working, self._since = 0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._since = time.perf_counter() if self._working == 0 else self._since
            self._working += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._working -= 1
            if self._working == 0:
                self.seconds += time.perf_counter() - self._since


class _Feed:
    """The ciphertexts of one use of an operand, which a run expands one by one where products take them once, and all
    of them together where one is wanted to stay."""

    def __init__(self, feed: Sequence[FreshCiphertext], clock: _Clock) -> None:
        self._feed, self._clock = feed, clock
        self._made: list[Any] | None = None
        self._lock = threading.Lock()

    def ciphertexts(self) -> list[_Expanded]:
        """All of them."""
        return [_Expanded(self, number) for number in range(len(self._feed))]

    def kept(self, number: int) -> Array:
        """One of all, which are made now if they were not."""
        with self._lock:
            if self._made is None:
                with self._clock:
                    self._made = _expanded(self._feed)
            found: Array = self._made[number]
        return found

    def streamed(self, number: int, room: Array, factor: int) -> Array:
        """One of them, times an integer."""
        with self._clock:
            return self._feed[number].expand(room, factor)


class _Expanded:
    """A ciphertext of a feed: `evaluators.slots.lazy.Streamable`."""

    __slots__ = ("_feed", "_number")

    def __init__(self, feed: _Feed, number: int) -> None:
        self._feed, self._number = feed, number

    def __call__(self) -> Array:
        """Expanded, to stay."""
        return self._feed.kept(self._number)

    def streamed(self, room: Array, factor: int) -> Array:
        """Expanded, times an integer, in an array that is used again."""
        return self._feed.streamed(self._number, room, factor)


class _Whole:
    """All of what was sent: small feeds expanded; of large ones ciphertexts that are where a run uses them."""

    def __init__(self, clock: _Clock) -> None:
        self._clock = clock

    def ciphertexts(self, form: SlotForm, feed: Sequence[Any], key: Hashable) -> list[Any]:
        """Of slots."""
        if _expanded_bytes(feed) <= KEPT_BYTES:
            return _expanded(feed)
        return [*_Feed(feed, self._clock).ciphertexts()]

    def matrices(self, feed: Sequence[Any], key: Hashable) -> list[Any]:
        """Of coefficients, with what was sent as seeds."""
        return [(rows.a, rows.b) for rows in feed]


class _OfRank:
    """A receiver for one of several ranks: ciphertexts of others are expanded if they are looked at after all."""

    def __init__(self, params: Parameters, run: RankRun, ranks: int) -> None:
        self._run, self._shares = run, Shares(params.family.rows.n, ranks)

    def ciphertexts(self, form: SlotForm, feed: Sequence[Any], key: Hashable) -> list[Any]:
        """Functions that give the ciphertexts of a feed, those of some blocks expanded now."""
        columns, count = form.grid[1], form.layout.ciphertexts
        used, numbers = self._run.used.get(key, frozenset()), form.numbers
        own = sorted({numbers[(i * columns + j) * count + one] for i, j in used for one in range(count)})
        found: list[Any] = [ct.expand for ct in feed]
        for number, data in zip(own, _expanded([feed[number] for number in own]), strict=True):
            found[number] = functools.partial(_itself, data)
        return found

    def matrices(self, feed: Sequence[Any], key: Hashable) -> list[Any]:
        """The pieces of rows of a feed, of which some parts are taken now."""
        found = [OperandShare(rows, rows.shape, self._shares, self._run.rank) for rows in feed]
        for operand, parts in zip(found, self._run.taken.get(key, ()), strict=False):
            for part in parts:
                operand.take(*part)
        return found


def _itself(data: Any) -> Any:
    return data


def _expanded_bytes(feed: Sequence[FreshCiphertext]) -> int:
    return sum(2 * ct.limbs * ct.params.n * WORD_BYTES for ct in feed)


def _expanded(feed: Sequence[FreshCiphertext]) -> list[Any]:
    """The ciphertexts that were sent for one use of an operand, seeds expanded.

    Ciphertexts that are expanded lie in one array: the system gives large ones large pages, and products read many of
    their ciphertexts side by side.
    """
    seeded = [ct for ct in feed if ct.seed is not None]
    places: dict[int, Any] = {}
    if seeded:
        room = aligned_empty((len(seeded), 2, *seeded[0].extent))
        places = {id(ct): place for ct, place in zip(seeded, room, strict=True)}
    # Most of it is that memory is filled for the first time.
    return in_threads(lambda ct: ct.expand(places.get(id(ct))), feed, _expanded_bytes(seeded))
