"""Encrypted matrices in coefficient form, whose products with matrices are matrix products modulo q.

Nothing here holds or makes a secret: a server uses the types of this package. What a client needs is imported from
`cipherblas.rlwe.matrices.encryption`.
"""

from cipherblas.rlwe.matrices.matrix import CoefficientMatrix
from cipherblas.rlwe.matrices.rlwe import OperandRows, RlweColumns, RlweRows
from cipherblas.rlwe.matrices.shared import SharedBatch, SharedRows, rows_format
from cipherblas.rlwe.matrices.transposition import (
    transpose,
    transpose_blocks,
    transpose_blocks_request,
    transpose_request,
)

__all__ = [
    "CoefficientMatrix",
    "OperandRows",
    "RlweColumns",
    "RlweRows",
    "SharedBatch",
    "SharedRows",
    "rows_format",
    "transpose",
    "transpose_blocks",
    "transpose_blocks_request",
    "transpose_request",
]
