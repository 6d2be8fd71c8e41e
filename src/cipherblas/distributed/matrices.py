"""What a rank has of encryptions by rows, and what it takes of operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from cipherblas.distributed.communicator import Words
from cipherblas.distributed.shares import Indices, Shares
from cipherblas.engines.handles import Matrix

REPLICATED, ROWS, COLUMNS = "replicated", "rows", "columns"
TRANSPOSED = "turned"  # of an operand: those columns that are this rank's rows of the transpose
Taken: TypeAlias = tuple[bool, str]  # of a b part? all of it, or some columns


@dataclass
class Share:
    """The part of an encryption that one rank holds: some rows, some columns, or all.

    Attributes:
        a, b: matrices of residues.
        kind: "replicated", "rows" or "columns".
        shape: of the whole encryption: rows and columns of b.
        made: all of it, where it was asked for.
    """

    a: Matrix
    b: Matrix
    kind: str
    shape: tuple[int, int]
    made: Share | None = None

    def with_parts(self, a: Matrix, b: Matrix) -> Share:
        """Others, of the same rows and columns."""
        return Share(a, b, self.kind, self.shape)


class Source(Protocol):
    """Where an operand comes from: a `CoefficientMatrix`, or one in its file."""

    shape: tuple[int, int]

    @property
    def a(self) -> Words: ...

    @property
    def b(self) -> Words: ...

    def a_columns(self, columns: Indices) -> Words: ...

    def b_columns(self, columns: Indices) -> Words: ...


class OperandShare(Share):
    """An operand, which every rank could have whole: it takes what it looks at, once.

    Attributes:
        taken: what it has so far.
        upload: brings words to the engine.
    """

    def __init__(self, source: Source, shape: tuple[int, int], shares: Shares, rank: int) -> None:
        self.kind, self.shape, self.made = REPLICATED, shape, None
        self.taken: dict[Taken, Words] = {}
        self.upload: Callable[[Words], Matrix] = lambda words: words
        self._source, self._shares, self._rank = source, shares, rank

    @property
    def a(self) -> Matrix:
        """The a part, whole."""
        return self.upload(self.take(False, REPLICATED))

    @property
    def b(self) -> Matrix:
        """The b part, whole."""
        return self.upload(self.take(True, REPLICATED))

    def columns(self, is_b: bool, kind: str) -> Matrix | None:
        """This rank's columns of a part; None where they are all, or all are there."""
        if (is_b, REPLICATED) in self.taken or len(self._own(is_b, kind)) == self._width(is_b):
            return None
        return self.upload(self.take(is_b, kind))

    def take(self, is_b: bool, kind: str) -> Words:
        """All of a part, or this rank's columns of it."""
        if (is_b, kind) not in self.taken:
            own = None if kind == REPLICATED else self._own(is_b, kind)
            self.taken[is_b, kind] = self._read(is_b, own)
        return self.taken[is_b, kind]

    def _width(self, is_b: bool) -> int:
        return self.shape[1] if is_b else self._shares.n

    def _own(self, is_b: bool, kind: str) -> Indices:
        width = self._width(is_b)
        if kind == TRANSPOSED:
            return self._shares.rows(width, self._rank)
        return np.arange(width)[self._shares.columns(width, self._rank)]

    def _read(self, is_b: bool, columns: Indices | None) -> Words:
        if columns is None:
            return self._source.b if is_b else self._source.a
        return self._source.b_columns(columns) if is_b else self._source.a_columns(columns)
