"""What comes back from a server, as the plan knows it beforehand: what the client checks before it decrypts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ShapeError
from cipherblas.forms.blocks import join
from cipherblas.forms.layouts import Layout


@dataclass(frozen=True)
class RowResultSpec:
    """How the result of a program by GEMMs comes back: encrypted by rows, or by columns, in pieces of N columns.

    Attributes:
        shape: of the matrix.
        by_columns: what is encrypted by rows is the transpose.
        pieces: rows × columns of each encryption; its a part and its b part are two arrays.
        limbs: q-limbs.
        scale: an entry times this is the message; may be negative.
    """

    shape: tuple[int, int]
    by_columns: bool
    pieces: tuple[tuple[int, int], ...]
    limbs: int
    scale: float
    n: int

    @property
    def working_bytes(self) -> int:
        """Memory that decryption takes: the pieces, and the matrix before and after it is turned."""
        return 3 * 8 * math.prod(self.shape)

    def check(self, ciphertexts: tuple[NDArray[np.uint64], ...]) -> None:
        """Raise ShapeError unless the arrays have the planned number and shape."""
        expected = [
            shape
            for rows, cols in self.pieces
            for shape in ((self.limbs, rows, self.n), (self.limbs, rows, cols))
        ]
        got = [array.shape for array in ciphertexts]
        if got != expected:
            raise ShapeError("arrays of the result", expected=expected, got=got)


@dataclass(frozen=True)
class ResultSpec:
    """How the result of a program comes back: blocks in a layout, or one tensor, at some limbs and scale."""

    shape: tuple[int, ...]
    layout: Layout
    grid: tuple[int, int]
    limbs: int
    components: int
    scale: float
    n: int

    @property
    def ciphertexts(self) -> int:
        return self.grid[0] * self.grid[1] * self.layout.ciphertexts

    @property
    def working_bytes(self) -> int:
        """Memory that decryption takes: the complex slots of all ciphertexts, the blocks, and the matrix."""
        return 8 * (self.ciphertexts * self.n + 2 * math.prod(self.shape))

    def assemble(self, vectors: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """The result that the slots of its ciphertexts hold."""
        size = self.layout.ciphertexts
        blocks = [
            [self.layout.unpack(vectors[(i * self.grid[1] + j) * size :][:size]) for j in range(self.grid[1])]
            for i in range(self.grid[0])
        ]
        return join(blocks, *self.shape) if len(self.shape) == 2 else blocks[0][0].reshape(self.shape)

    def check(self, ciphertexts: tuple[NDArray[np.uint64], ...]) -> None:
        """Raise ShapeError unless the ciphertexts have the planned number and shape."""
        if len(ciphertexts) != self.ciphertexts:
            raise ShapeError("ciphertexts of the result", expected=self.ciphertexts, got=len(ciphertexts))
        for ct in ciphertexts:
            if ct.shape != (self.components, self.limbs, self.n):
                raise ShapeError(
                    "a ciphertext of the result",
                    expected=f"({self.components}, {self.limbs}, {self.n})",
                    got=str(ct.shape),
                )
