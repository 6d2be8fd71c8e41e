"""RLWE rows and columns: one ciphertext of ring degree N per row (or column) of the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from cipherblas.common.errors import DTypeError, MismatchError, ParameterError, ShapeError
from cipherblas.crypto.params import Parameters
from cipherblas.rlwe.basis import OPERAND_BASIS, Basis
from cipherblas.rlwe.matrices.matrix import CoefficientMatrix, Matrix, bit_ceil, check_stackable


def _check_length(params: Parameters, length: int, what: str) -> None:
    if length > params.n:
        raise ShapeError(
            f"A {what} is longer than the ring degree.", expected=f"at most N = {params.n}", got=length
        )


@dataclass(frozen=True, eq=False)
class RlweRows(CoefficientMatrix):
    """Row i of the matrix in one RLWE ciphertext: b_i + a_i·s = scale·M_i, with a_i of degree N.

    Entry j is the coefficient of X^(j·N/d), where d, the least power of two that is at least the number of columns,
    is the degree of the subring that holds the row. Only these coefficients of b are stored, the first `cols` of
    them, so that for d < N a row is what a module ciphertext of degree d and rank N/d is.

    a: (limbs, rows, N); b: (limbs, rows, cols); cols at most N.
    """

    NAME: ClassVar[str] = "rlwe-rows"

    @classmethod
    def check_shape(cls, params: Parameters, shape: tuple[int, int]) -> None:
        """Raise ShapeError when a row is longer than N."""
        _check_length(params, shape[1], "row")

    @property
    def degree(self) -> int:
        """d: degree of the subring that holds a row."""
        return bit_ceil(self.shape[1])

    @property
    def T(self) -> RlweColumns:
        """The transposed matrix, as columns; the arrays are shared."""
        rows, cols = self.shape
        return RlweColumns(self.params, (cols, rows), self.scale, self.b, self.uniform, self.key_id)


@dataclass(frozen=True, eq=False)
class OperandRows(RlweRows):
    """The same modulo the moduli of operands: residue i of an entry is byte i % 8 of word i // 8.

    Arrays are (words, rows, columns). There are only products of two such matrices, which are switched to Q: no sums,
    multiples, or fewer limbs.
    """

    NAME: ClassVar[str] = "operand-rows"

    @classmethod
    def check_moduli(cls, params: Parameters, residues: int) -> None:
        """Raise ParameterError unless the parameters have so many words of them."""
        words = OPERAND_BASIS.words(params)
        if not words or residues != words:
            raise ParameterError(
                "The parameters have not so many moduli of operands.", expected=f"{words} words", got=residues
            )

    @classmethod
    def basis_of(cls, residues: int) -> Basis:
        """The moduli of operands."""
        return OPERAND_BASIS

    def _check_same(self, other: CoefficientMatrix) -> None:
        raise self._refused("added")

    def times(self: Matrix, factor: int | float) -> Matrix:
        """None: refused.

        Raises:
            DTypeError: always.
        """
        raise OperandRows._refused("multiplied by numbers")

    def drop(self: Matrix, limbs: int) -> Matrix:
        """None: refused.

        Raises:
            DTypeError: always.
        """
        raise OperandRows._refused("taken to other limbs")

    @property
    def T(self) -> RlweColumns:
        """None: refused.

        Raises:
            DTypeError: always.
        """
        raise self._refused("read as columns")

    @staticmethod
    def _refused(what: str) -> DTypeError:
        return DTypeError(
            f"Rows modulo the moduli of operands cannot be {what}.", expected="RlweRows", got="OperandRows"
        )


@dataclass(frozen=True, eq=False)
class RlweColumns(CoefficientMatrix):
    """Column j of the matrix in one RLWE ciphertext: the rows of the transposed matrix, see RlweRows.

    a: (limbs, cols, N); b: (limbs, cols, rows); rows at most N.
    """

    NAME: ClassVar[str] = "rlwe-columns"

    @classmethod
    def check_shape(cls, params: Parameters, shape: tuple[int, int]) -> None:
        """Raise ShapeError when a column is longer than N."""
        _check_length(params, shape[0], "column")

    @classmethod
    def b_shape(cls, shape: tuple[int, int]) -> tuple[int, int]:
        """The transposed shape."""
        return shape[1], shape[0]

    @property
    def degree(self) -> int:
        """d: degree of the subring that holds a column."""
        return bit_ceil(self.shape[0])

    @property
    def T(self) -> RlweRows:
        """The transposed matrix, as rows; the arrays are shared."""
        rows, cols = self.shape
        return RlweRows(self.params, (cols, rows), self.scale, self.b, self.uniform, self.key_id)


def joined(blocks: Sequence[RlweRows]) -> tuple[Parameters, tuple[int, int]]:
    """Parameters and shape of the matrix that the blocks of columns are.

    Raises:
        MismatchError, ShapeError: they do not fit each other.
    """
    given: Sequence[Any] = blocks
    good = all(isinstance(block, RlweRows) and not isinstance(block, OperandRows) for block in given)
    if not blocks or not good:
        raise MismatchError(
            "Blocks of a matrix must be RlweRows, at least one.",
            expected="RlweRows, at least one",
            got=[type(x).__name__ for x in blocks],
        )
    check_stackable(list(blocks))
    params, rows = blocks[0].params, blocks[0].shape[0]
    shapes = [block.shape for block in blocks]
    if any(shape[0] != rows for shape in shapes) or any(shape[1] != params.n for shape in shapes[:-1]):
        raise ShapeError(
            "The blocks of columns do not fit each other.",
            expected=f"{rows} rows and N = {params.n} columns but for the last",
            got=shapes,
        )
    return params, (rows, sum(shape[1] for shape in shapes))
