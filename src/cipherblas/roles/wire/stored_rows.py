"""Encrypted rows that stay in their file: what is asked for is read, and checked, each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FormatError, RangeError, ShapeError
from cipherblas.common.memory import aligned_empty
from cipherblas.common.pickles import Rebuilt
from cipherblas.crypto import files
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.randomness import SEED_BYTES
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.matrices import CoefficientMatrix
from cipherblas.rlwe.matrices.matrix import check_residues, checked_scale, checked_shape
from cipherblas.rlwe.matrices.uniform import expand
from cipherblas.roles.wire.columns import by_rows
from cipherblas.roles.wire.stored import StoredParts

Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class StoredRows(Rebuilt):
    """A `CoefficientMatrix` in a file.

    Attributes:
        kind: which.
        params, shape, scale: as it has them.
        stored: the columns of its b part.
        uniform: its seed, or the columns of its a part.

    Raises:
        ShapeError, ParameterError: as of the matrix.
        FormatError, StorageError: when something is read: the file is damaged, or cannot be read any more.
    """

    kind: type[CoefficientMatrix]
    params: Parameters
    shape: tuple[int, int]
    scale: float
    stored: StoredParts
    uniform: bytes | StoredParts

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "scale", checked_scale(self.scale))
        self.kind.check_shape(self.params, self.shape)
        residues = self.stored.shape[1] if self.stored.ndim == 3 else 0
        self.kind.check_moduli(self.params, residues)
        (rows, cols), n = self.shape, self.params.n
        expected: Any = (cols, residues, rows), np.dtype(np.uint64)
        got: Any = self.stored.shape, self.stored.dtype
        if isinstance(self.uniform, StoredParts):
            expected += (n, residues, self._a_rows), np.dtype(np.uint64)
            got += self.uniform.shape, self.uniform.dtype
        else:
            expected, got = (*expected, SEED_BYTES), (*got, len(self.uniform))
        if got != expected:
            raise ShapeError("The encrypted rows have the wrong shape.", expected=expected, got=got)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the data."""
        uniform = self.uniform if isinstance(self.uniform, bytes) else self.a
        return self.kind(self.params, self.shape, self.scale, self.b, uniform).__reduce__()

    @property
    def NAME(self) -> str:
        """Of its kind."""
        return self.kind.NAME

    @property
    def basis(self) -> Basis:
        """The moduli of residues, as of the matrix."""
        return self.kind.basis_of(self.stored.shape[1])

    @property
    def extent(self) -> tuple[int, ...]:
        """Words of an entry first, as of the matrix."""
        return self.stored.shape[1], *self.shape

    @property
    def seed(self) -> bytes | None:
        """The public seed of the a part, or None."""
        return self.uniform if isinstance(self.uniform, bytes) else None

    @property
    def nbytes(self) -> int:
        """Bytes that were sent."""
        return self.stored.nbytes + (
            len(self.uniform) if isinstance(self.uniform, bytes) else self.uniform.nbytes
        )

    @property
    def _a_rows(self) -> int:
        return self.kind.a_rows(self.params, self.shape)

    @property
    def a(self) -> Words:
        """The a part."""
        if isinstance(self.uniform, bytes):
            return expand(self.params, self.uniform, self.basis, self._a_rows)
        return self._checked(by_rows(self.uniform.whole()))

    @property
    def b(self) -> Words:
        """The b part."""
        return self._checked(by_rows(self.stored.whole()))

    def a_columns(self, columns: NDArray[np.int64]) -> Words:
        """Some columns of the a part, in rising order."""
        if isinstance(self.uniform, bytes):
            return expand(self.params, self.uniform, self.basis, self._a_rows, columns)
        return self._columns(self.uniform, columns)

    def b_columns(self, columns: NDArray[np.int64]) -> Words:
        """Some columns of the b part, in rising order."""
        return self._columns(self.stored, columns)

    def _columns(self, parts: StoredParts, columns: NDArray[np.int64]) -> Words:
        found: Words = aligned_empty((*parts.shape[1:], len(columns)))
        for index in np.unique(columns // parts.each):
            start = index * parts.each
            first, last = np.searchsorted(columns, (start, start + parts.each))
            some = parts.read(int(index))[columns[first:last] - start]
            found[:, :, first:last] = some.transpose(1, 2, 0)
        return self._checked(found)

    @files.advised("ciphertext")
    def _checked(self, residues: Words) -> Words:
        try:
            check_residues(self.params, residues, self.basis)
        except RangeError as error:
            raise FormatError(f"{self.stored.reader.path}: {error}") from error
        return residues
