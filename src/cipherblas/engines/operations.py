"""The table of an engine's calls: what each makes, what it costs, and what it holds while it runs, in one record each.

The records stand at the calls of the protocol, by `operation`. From them follow `Recording`'s calls and counts, the
engine of shapes, and the tests: of every engine's words, of the counts of the kernels, and of the border of the core.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from cipherblas.rlwe.costs import Costs
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import Ring

Shape: TypeAlias = tuple[int, ...]
Method = TypeVar("Method", bound=Callable[..., Any])

KINDS = ("Ciphertext", "Matrix", "Key", "Message", "Addend", "Factor")
_KIND = re.compile(rf"\b({'|'.join(KINDS)})\b")


@dataclass(frozen=True)
class Operation:
    """One call of an engine.

    Functions of arguments take these by name, whatever has the shape of a handle in the place of it.

    Attributes:
        name: of the call.
        signature: with the engine as the first parameter.
        made: the shape of its result, or of each, from the ring and the arguments, in words of the host; None where it
            makes no handle and no words.
        cost: adds what it costs to counts, from the costs of the ring and the arguments; None: nothing.
        memory: bytes that it holds beside arguments and results, from costs and arguments; None: next to none.
        shares: arguments whose memory the results may share, one for each result; where there is an argument
            `in_place`, only with that.
    """

    name: str
    signature: inspect.Signature
    made: Callable[..., Any] | None = None
    cost: Callable[..., object] | None = None
    memory: Callable[..., int] | None = None
    shares: tuple[str, ...] = ()

    @cached_property
    def kind(self) -> str | None:
        """One of `KINDS`; None where it returns words of the host, or nothing."""
        found = _KIND.search(str(self.signature.return_annotation))
        return found.group(1) if found else None

    def arguments(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, in order, with defaults."""
        bound = self.signature.bind(None, *args, **options)
        bound.apply_defaults()
        return dict(list(bound.arguments.items())[1:])

    def shapes(self, ring: Ring, arguments: Mapping[str, Any]) -> Any:
        """Of the result, or of each, as the call returns them."""
        return None if self.made is None else self.made(ring, **arguments)

    def counts(self, costs: Costs, arguments: Mapping[str, Any]) -> Counts:
        """Book the cost of a call."""
        found = Counts()
        if self.cost is not None:
            self.cost(costs, found, **arguments)
        return found

    def held(self, costs: Costs, arguments: Mapping[str, Any]) -> int:
        """Bytes that it holds while it runs, beside arguments and results."""
        return 0 if self.memory is None else self.memory(costs, **arguments)

    def shared(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments whose memory the results share."""
        if not arguments.get("in_place", True):
            return ()
        return tuple(arguments[name] for name in self.shares)


OPERATIONS: dict[str, Operation] = {}


def operation(
    made: Callable[..., Any] | None = None,
    cost: Callable[..., object] | None = None,
    *,
    memory: Callable[..., int] | None = None,
    shares: tuple[str, ...] = (),
) -> Callable[[Method], Method]:
    """Enter a call of the protocol in the table; see `Operation`."""

    def entered(method: Method) -> Method:
        name = method.__name__
        OPERATIONS[name] = Operation(name, inspect.signature(method), made, cost, memory, shares)
        return method

    return entered


def like(_: Ring, **arguments: Any) -> Shape:
    """The shape of the first argument."""
    found: Shape = next(iter(arguments.values())).shape
    return found
