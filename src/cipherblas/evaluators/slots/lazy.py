"""Lazy ciphertexts: their data are made when a run first reads them, or streamed: made for one product alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from cipherblas.evaluators.slots.values import Ct


@runtime_checkable
class Streamable(Protocol):
    """Makes the data of a ciphertext: by a call, to be kept, or `streamed`, for one product."""

    def __call__(self) -> NDArray[Any]:
        """The data, in an array of their own."""

    def streamed(self, room: NDArray[Any], factor: int) -> NDArray[Any]:
        """The data times an integer, in `room`, an array that the next ciphertext uses again, or where they lie
        already."""


class LazyCiphertext(Ct):
    """A handle whose data are made when they are first read, or, after `stream`, for one product alone.

    Args:
        like: handle whose limbs, scale, bound and errors it has.
        make: makes the data; a `Streamable` can stream them, too.
        upload: turns data into the evaluator's representation.
    """

    __slots__ = ("_held", "_make", "_streamed", "_upload")

    def __init__(self, like: Ct, make: Callable[[], Any], upload: Callable[[Any], Any]) -> None:
        super().__init__(like.limbs, like.scale, like.bound, like.errors, like.components, None)
        self._make: Callable[[], Any] | None = make
        self._upload = upload
        self._streamed = False

    @property
    def data(self) -> Any:
        """The evaluator's own representation."""
        make = self._make  # another thread may make the same meanwhile
        if make is not None:
            self._held, self._make = self._upload(make()), None
        return self._held

    @data.setter
    def data(self, value: Any) -> None:
        self._held, self._make = value, None

    def stream(self) -> None:
        """The next product is the only reader of the data."""
        self._streamed = isinstance(self._make, Streamable)

    def is_streamed(self) -> bool:
        """Whether the next product streams the data."""
        return self._streamed and self._make is not None

    def streamed(self, room: NDArray[Any], factor: int = 1) -> Any:
        """The data for one product; a later reader has them made again, and kept.

        Args:
            factor: that streamed data are multiplied by.
        """
        make, streamed = self._make, self._streamed
        self._streamed = False
        if not streamed or make is None:
            assert factor == 1, "not streamed"
            return self.data
        assert isinstance(make, Streamable)
        return self._upload(make.streamed(room, factor))
