"""Fresh ciphertexts whose data are made where a run first needs them, or for one product alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from cipherblas.evaluators.slots.values import Ct


@runtime_checkable
class Streamable(Protocol):
    """What makes the data of a ciphertext: to stay by a call, or for once."""

    def __call__(self) -> NDArray[Any]:
        """The data, which stay as long as they are held."""

    def streamed(self, room: NDArray[Any]) -> NDArray[Any]:
        """The data in an array of their shape that is used again, or where they are."""


class LazyCiphertext(Ct):
    """A handle whose data are made when they are first looked at, or (`stream`) for one product alone.

    Args:
        like: what is known of the ciphertext.
        make: its data, `Streamable` where a product may take them for once.
        upload: them as the evaluator has them.
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
        """As of every handle."""
        self._streamed = isinstance(self._make, Streamable)

    def is_streamed(self) -> bool:
        """Whether the next product takes the data for once."""
        return self._streamed and self._make is not None

    def streamed(self, room: NDArray[Any]) -> Any:
        """The data for the product that they are lent to; whoever comes after it has them made to stay."""
        make, streamed = self._make, self._streamed
        self._streamed = False
        if not streamed or make is None:
            return self.data
        assert isinstance(make, Streamable)
        return self._upload(make.streamed(room))
