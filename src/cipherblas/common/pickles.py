"""Copies and pickles: of checked objects, which their constructors make again; none of what holds a secret.

NumPy's arrays leave a pickle of protocol 5 as buffers beside it, where the one who pickles asks for that. They
come back wherever the buffers lie: `rebuilt` moves what the kernels would have to copy for every use.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np

from cipherblas.common.errors import FormatError, SecretCopyError
from cipherblas.common.memory import aligned


class Rebuilt:
    """A dataclass whose copies and pickles are made, and so checked, by its constructor; only its fields travel."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        values = [getattr(self, field.name) for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return rebuilt, (type(self), *values)

    def _check_arrived(self) -> None:
        """Raise where the content is not what a file of it may hold, beyond what the constructor checks."""


Made = TypeVar("Made", bound=Rebuilt)


def rebuilt(kind: type[Made], *values: Any) -> Made:
    """Return an object made by its constructor from pickled arguments. Arrays are aligned, and checked like foreign
    input.

    Raises:
        FormatError: `kind` is not a class whose objects are pickled like this: it is not called.
    """
    given: Any = kind  # of a pickle, which may hold anything
    if not (isinstance(given, type) and issubclass(given, Rebuilt)):
        raise FormatError(
            "A pickle of cipherblas holds another object.",
            expected="a Rebuilt",
            got=repr(kind),
            advice="a new pickle, pickle.dumps(value), of what cipherblas made",
        )
    made = kind(*map(_in_place, values))
    made._check_arrived()
    return made


def _in_place(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_in_place, value)) if any(isinstance(item, np.ndarray) for item in value) else value
    return aligned(value) if isinstance(value, np.ndarray) else value


class NeverCopied:
    """An object with a secret key: `copy` and `pickle` refuse it with `refusal` and `instead`, in every protocol."""

    __slots__ = ()

    refusal: ClassVar[str]
    instead: ClassVar[str]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise SecretCopyError(self.refusal, advice=self.instead)

    def __reduce__(self) -> NoReturn:
        self.__reduce_ex__(0)

    def __getstate__(self) -> NoReturn:
        self.__reduce_ex__(0)

    def __copy__(self) -> NoReturn:
        self.__reduce_ex__(0)

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__reduce_ex__(0)
