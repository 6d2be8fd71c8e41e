"""What encrypted operands and results are to Python: one line for people, and no arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import DTypeError, printable
from cipherblas.common.pickles import Rebuilt
from cipherblas.planner.plan.explain import size


class Sealed(Rebuilt):
    """An encrypted message: its repr tells what it is of, and NumPy makes no array of it."""

    __slots__ = ()

    remedy: ClassVar[str]  # how the values are had

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise DTypeError(f"An {type(self).__name__} is encrypted, not an array.", advice=self.remedy)

    def __repr__(self) -> str:
        sent: Any = self
        name = f"{sent.name!r}, " if hasattr(sent, "name") else ""
        of = f"program {sent.program_id[:8]}, key {sent.key_id[:8] or 'unknown'}"
        text = f"{type(self).__name__}({name}{_shapes(sent.shape)}, {size(sent.nbytes)}, {of})"
        return printable(text)


def _shapes(shape: Any) -> str:
    """One shape, or those of several results."""
    if isinstance(shape, Mapping):
        return ", ".join(f"{label}: {shape_text(one) or 'a number'}" for label, one in shape.items())
    if any(isinstance(one, tuple) for one in shape):
        return ", ".join(shape_text(one) or "a number" for one in shape)
    return shape_text(shape) or "a number"
