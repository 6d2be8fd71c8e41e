"""Toy rings for calls of engines, random or extreme arguments in them, and which calls are made."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.memory import aligned
from cipherblas.crypto.fields import OPERAND_MODULI
from cipherblas.crypto.keys.switching import pack
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.engines.protocol import Engine

Words: TypeAlias = NDArray[np.uint64]
RingSizes: TypeAlias = tuple[Any, ...]  # as `toy` takes them


@functools.cache
def toy(
    n: int,
    q_bits: tuple[float, ...],
    alpha: int,
    special_limbs: int | None,
    digit_limbs: tuple[int, ...] | None = None,
    operand_moduli: tuple[int, ...] | None = None,
) -> Parameters:
    """INSECURE."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_parameters(
            *(n, list(q_bits)),
            special_limbs=special_limbs,
            alpha=alpha,
            scale_bits=30.0,
            insecure=True,
            digit_limbs=digit_limbs,
            operand_moduli=operand_moduli,
        )


# Least rings and larger ones; one prime per digit and several; keys packed by 48 bits (all primes below 2^48) and 50.
RINGS: dict[str, RingSizes] = {
    "N=8": (8, (50.0, 40.0, 40.0, 45.0), 2, None),
    "N=16 packed": (16, (46.0, 40.0, 40.0, 40.0), 1, 2),
    "N=64": (64, (50.0, 50.0, 40.0, 40.0, 40.0), 2, None),
    "N=64, one digit": (64, (44.0, 36.0, 36.0), 3, 3),
    "N=64, unlike digits": (64, (50.0, 40.0, 40.0, 40.0, 50.0), 3, None, (1, 3, 1)),
    "N=64, half words": (64, (45.0, 31.0, 33.0, 29.0), 2, None),
    "N=512 packed": (512, (45.0, 38.0, 38.0, 38.0), 2, 2),
}
SMALL = {name: RINGS[name] for name in ("N=8", "N=16 packed", "N=64, one digit")}
OPERANDS: dict[str, RingSizes] = {
    f"{count} moduli to {limbs} limbs": (16, (45.0, 33.0)[:limbs], 1, None, None, OPERAND_MODULI[:count])
    for count in (1, 2, 7, 8, 9, 16)
    for limbs in (1, 2)
}


@dataclass
class Draw:
    """Random or extreme arguments of calls in one ring."""

    params: Parameters
    extreme: bool
    random: np.random.Generator

    @property
    def top(self) -> int:
        """All limbs."""
        return self.params.limbs

    @property
    def n(self) -> int:
        """The ring degree."""
        return self.params.n

    def residues(self, shape: tuple[int, ...], q: int) -> Words:
        if self.extreme:
            return self.random.choice(np.array([0, q - 1], np.uint64), shape)
        return self.random.integers(0, q, shape, np.uint64)

    def ciphertext(self, limbs: int, components: int = 2) -> Words:
        return aligned(
            np.stack([self.residues((components, self.n), q) for q in self.params.q[:limbs]], axis=1)
        )

    def matrix(self, limbs: int, rows: int, cols: int) -> Words:
        return np.stack([self.residues((rows, cols), q) for q in self.params.q[:limbs]])

    def key(self, limbs: int) -> Words:
        digits = self.params.digits(limbs)
        primes = [*self.params.q[:limbs], *self.params.p]
        rows = np.stack([self.residues((digits, 2, self.n), q) for q in primes], axis=2)
        return np.ascontiguousarray(pack(self.params, rows))

    def message(self, bits: int = 40) -> NDArray[np.int64]:
        edge = 1 << bits
        if self.extreme:
            return self.random.choice(np.array([-edge, 0, edge]), self.n)
        return self.random.integers(-edge, edge, self.n)

    def operand(self, rows: int, cols: int) -> Words:
        """Residues modulo all moduli of operands, a byte each."""
        moduli = self.params.operand_moduli or ()
        words = np.zeros((-(-len(moduli) // 8), rows, cols), np.uint64)
        for i, modulus in enumerate(moduli):
            words[i // 8] |= self.residues((rows, cols), modulus) << np.uint64(8 * (i % 8))
        return words


class Watched:
    """An engine whose calls are noted."""

    def __init__(self, engine: Engine, made: set[str]) -> None:
        self._engine, self._made = engine, made

    def __getattr__(self, name: str) -> Any:
        self._made.add(name)
        return getattr(self._engine, name)
