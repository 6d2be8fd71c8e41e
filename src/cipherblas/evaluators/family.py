"""The evaluators of one run, for slots and for encrypted rows, of one kind: symbolic, worst case, clear or native.

They share the ledger of memory and the budget of work; counts and declared keys are those of both.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.shared import Shared
from cipherblas.evaluators.slots.values import Ledger
from cipherblas.rlwe.counts import Counts


class Evaluators:
    """The evaluators of one run. Each is made when a program first needs it.

    Args:
        make_elements: for ring elements of the ring of rows, where that is another one than the ring of slots.
        make_shared: for so many ciphertexts of slots that share their a part.
    """

    def __init__(
        self,
        make_slots: Callable[[], Evaluator],
        make_rows: Callable[[], RowsEvaluator],
        make_elements: Callable[[], Evaluator] | None = None,
        make_shared: Callable[[int], Shared] | None = None,
    ) -> None:
        self._make_slots, self._make_rows, self._make_elements = make_slots, make_rows, make_elements
        self._make_shared, self._shared = make_shared, dict[int, Shared]()
        self._inner: list[
            Evaluator | RowsEvaluator
        ] = []  # those of the ring of rows, where it is another one
        self._made: list[Evaluator | RowsEvaluator] = []
        self._on_weights: Callable[[int], None] | None = None

    @functools.cached_property
    def slots(self) -> Evaluator:
        """For ciphertexts of slots."""
        evaluator = self._make_slots()
        evaluator.on_weights = self._on_weights
        self._share(evaluator)
        return evaluator

    @functools.cached_property
    def rows(self) -> RowsEvaluator:
        """For matrices that are encrypted by rows."""
        evaluator = self._make_rows()
        self._share(evaluator)
        if self._make_elements is not None:
            self._inner.append(evaluator)
        return evaluator

    @functools.cached_property
    def elements(self) -> Evaluator:
        """For elements of the ring of rows, whose coefficients are the message: that of slots, or one of its kind."""
        if self._make_elements is None:
            return self.slots
        evaluator = self._make_elements()
        self._share(evaluator)
        self._inner.append(evaluator)
        return evaluator

    def shared(self, secrets: int) -> Shared:
        """For so many ciphertexts of slots that share their a part.

        Raises:
            ParameterError: there is none of this kind.
        """
        if secrets not in self._shared:
            if self._make_shared is None:
                raise ParameterError(
                    "There is no evaluator of ciphertexts that share their a part here.",
                    expected="ordinary ciphertexts",
                    got=f"{secrets} that share one",
                )
            evaluator = self._make_shared(secrets)
            evaluator.beside(self.slots)
            self._made.append(evaluator)
            self._shared[secrets] = evaluator
        return self._shared[secrets]

    @property
    def all_shared(self) -> tuple[Shared, ...]:
        """The evaluators of ciphertexts that share their a part, as far as they were made."""
        return tuple(self._shared.values())

    def sibling(self) -> Evaluators:
        """Evaluators of another thread of the same run: they share memory, encodings and keys, and count anew until
        `join`."""
        return Evaluators(
            lambda: self.slots.sibling(),
            lambda: self.rows.sibling(),
            None if self._make_elements is None else lambda: self.elements.sibling(),
            lambda secrets: self.shared(secrets).sibling(),
        )

    def join(self, sibling: Evaluators) -> None:
        """Take over what siblings counted and declared; their thread is done."""
        for name in ("slots", "rows", "elements"):
            if name in vars(sibling) and (name != "elements" or self._make_elements is not None):
                getattr(self, name).join(getattr(sibling, name))
        for secrets, one in sibling._shared.items():
            self.shared(secrets).join(one)

    def _share(self, evaluator: Evaluator | RowsEvaluator) -> None:
        if self._made:
            evaluator.ledger, evaluator.work = self._made[0].ledger, self._made[0].work
        self._made.append(evaluator)

    def on_weights(self, callback: Callable[[int], None] | None) -> None:
        """Have numbers of weights told that are encoded."""
        self._on_weights = callback
        if "slots" in vars(self):
            self.slots.on_weights = callback

    @property
    def ledger(self) -> Ledger:
        """Memory of the values that are alive."""
        return self._made[0].ledger if self._made else self.slots.ledger

    @property
    def counts(self) -> Counts:
        """Operations so far, in limbs of the ring of slots."""
        found = [one.counts for one in self._made if one not in self._inner]
        own = functools.reduce(operator.add, found[1:], found[0].copy() if found else Counts())
        if not self._inner:
            return own
        inner = sum((one.counts for one in self._inner), Counts())
        return own + inner.in_ring(self._inner[0].n, self.slots.n)

    @property
    def request(self) -> KeyRequest:
        """The evaluation keys that the operations so far needed."""
        own = [one.request for one in self._made if one not in self._inner]
        inner = [one.request for one in self._inner if len(one.request)]
        if inner:
            own.append(functools.reduce(KeyRequest.joined, inner).in_rows())
        return functools.reduce(KeyRequest.joined, own or [KeyRequest()])

    @property
    def peak_bytes(self) -> int:
        """Largest number of bytes of live values, working buffers and encoded plaintexts, in this run or a later one,
        which finds all masks; operands left out."""
        return max((evaluator.peak_bytes for evaluator in self._made), default=0)

    @property
    def encoding_seconds(self) -> float:
        """Spent on weights that were not stored yet."""
        return float(sum(getattr(evaluator, "encoding_seconds", 0.0) for evaluator in self._made))

    def spend(self, steps: int, what: str) -> None:
        """Announce so many steps of a loop, which have a budget."""
        for evaluator in self._made[:1]:
            evaluator.spend(steps, what)
