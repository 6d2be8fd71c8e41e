"""What a program of the corpus is: a formula, operands and options, under a name that says what it is.

A formula is text, so that a block of the corpus shows it. It may use the operands, `cb`, `np`, and `W(*shape)`: weights
that are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.crypto.params import Parameters
from cipherblas.planner.predict.machine import Machine

from .machine import MACHINE


def W(*shape: int, most: float = 1.0, dtype: str = "float64", seed: int = 0) -> NDArray[Any]:
    """Weights from -most to most, by whole numbers and one division: the same bits everywhere."""
    count = int(np.prod(shape))
    steps = (np.arange(count, dtype=np.int64) * 7919 + (seed + 1) * 104729) % 2003 - 1001
    values = (steps * most / 1001).reshape(shape)
    return values.astype(dtype) if np.dtype(dtype).kind == "f" else np.rint(values).astype(dtype)


@dataclass(frozen=True)
class Declared:
    """An operand as it is written: `cb.secret(64, 64)`, in words `secret 64x64`."""

    kind: Callable[..., Any]
    shape: tuple[int, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [self.kind.__name__, "x".join(map(str, self.shape))]
        return " ".join([*words, *(f"{name}={value}" for name, value in self.keywords.items())])

    def made(self) -> Any:
        return self.kind(*self.shape, **self.keywords)


def S(*shape: int, **keywords: Any) -> Declared:
    return Declared(cb.secret, shape, keywords)


def P(*shape: int, **keywords: Any) -> Declared:
    return Declared(cb.public, shape, keywords)


def K(*shape: int, **keywords: Any) -> Declared:
    """A secret that the public key encrypts."""
    return S(*shape, encryption="public-key", **keywords)


@dataclass(frozen=True)
class Chosen:
    """A parameter set that is made when it is asked for."""

    name: str
    make: Callable[[], Parameters]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Case:
    """One program. Options are those of `cb.compile`."""

    name: str
    formula: str
    operands: Mapping[str, Declared]
    options: Mapping[str, Any]

    @property
    def declared(self) -> str:
        """The operands in words."""
        return ", ".join(f"{name} {operand}" for name, operand in self.operands.items())

    @property
    def function(self) -> Callable[..., Any]:
        """The formula as a function of the operands."""
        names = {"cb": cb, "np": np, "W": W}
        found: Callable[..., Any] = eval(f"lambda {', '.join(self.operands)}: {self.formula}", names)
        return found

    def compiled(self, machine: Machine = MACHINE, **instead: Any) -> cb.Program:
        """The program, planned anew; errors as `cb.compile`.

        Args:
            instead: options, instead of its own.
        """
        operands = {name: operand.made() for name, operand in self.operands.items()}
        options = {
            name: value.make() if isinstance(value, Chosen) else value
            for name, value in {**self.options, **instead}.items()
        }
        return cb.compile(self.function, operands, machine=machine, cache=False, **options)


CASES: dict[str, Case] = {}


def case(name: str, formula: str, **arguments: Any) -> None:
    """Enter a program; of the arguments, operands are those that are declared with `S`, `P` or `K`."""
    if name in CASES:
        raise ValueError(f"two programs of the corpus are called {name}")
    operands = {key: value for key, value in arguments.items() if isinstance(value, Declared)}
    options = {key: value for key, value in arguments.items() if key not in operands}
    CASES[name] = Case(name, formula, operands, options)


def product(name: str, lengths: tuple[int, int, int], **options: Any) -> None:
    """Enter an m×k by k×n product of two secrets."""
    m, k, n = lengths
    case(name, "a @ b", a=S(m, k), b=S(k, n), **options)
