"""What was shared under a key, and what may still be."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass, field

from cipherblas.common.errors import MismatchError, SecurityError
from cipherblas.roles.sharing import Sharing

NEW_KEY = "program.client(), for a new key with a budget of its own"


@dataclass
class Budget:
    """The sharing that was begun, its spent entries, and digests of the results that were shared."""

    sharing: Sharing | None = None
    spent: int = 0
    shared: dict[str, None] = field(default_factory=dict)

    def spend(self, sharing: Sharing, entries: int, digest: str) -> None:
        """Take entries for the result of this digest.

        Raises:
            SecurityError: they are not there, or the result was shared before.
            MismatchError: another sharing was begun.
        """
        if self.sharing is not None and self.sharing != sharing:
            raise MismatchError(
                "The budget of a key cannot be changed.",
                expected=self.sharing,
                got=sharing,
                advice=(f"share=cb.{self.sharing}", NEW_KEY),
                cause="The noise of what was shared is made for so many entries.",
            )
        if digest in self.shared:
            raise SecurityError(
                "This result was shared before.",
                expected="a result that was not shared",
                got=digest[:16],
                advice="server.run(client.encrypt(operands)), a result of its own; or the values that were shared",
                cause="What is decrypted twice has its noise averaged out.",
            )
        left = sharing.entries - self.spent
        if entries > left:
            raise SecurityError(
                "The result exceeds the entries that may still be shared under this key.",
                expected=f"at most {left} of {sharing.entries} entries",
                got=entries,
                advice=f"share=cb.Sharing(entries={entries}), or more" if self.sharing is None else NEW_KEY,
            )
        self.sharing = sharing
        self.spent += entries
        self.shared[digest] = None

    def merge(self, other: Budget) -> None:
        """Take in what is known elsewhere of the same key: nothing that was spent is forgotten.

        A key belongs to a program, so that all its results have the same number of entries.
        """
        if self.sharing is not None and other.sharing is not None and self.sharing != other.sharing:
            raise MismatchError(
                "Two records of a key have different budgets.",
                expected=other.sharing,
                got=self.sharing,
                advice="client.save(path) with another path",
            )
        self.sharing = self.sharing or other.sharing
        each = max((known.spent // len(known.shared) for known in (self, other) if known.shared), default=0)
        self.shared.update(other.shared)
        self.spent = each * len(self.shared)


class ProcessBudget:
    """The budget of a key in this process: one object for all clients with this key.

    Attributes:
        lock: held by the thread that changes the budget.
    """

    def __init__(self) -> None:
        self.budget, self.lock = Budget(), threading.Lock()
        self._process = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether it is a copy that a fork made, which another process spends as well."""
        return os.getpid() != self._process


_known: weakref.WeakValueDictionary[str, ProcessBudget] = weakref.WeakValueDictionary()
_known_lock = threading.Lock()


def budget_here(key_id: str) -> ProcessBudget:
    """Return the budget of a key in this process; it lives as long as somebody holds it."""
    with _known_lock:
        return _known.setdefault(key_id, ProcessBudget())
