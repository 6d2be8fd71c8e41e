"""Encrypted matrices in coefficient form, whose products with matrices are matrix products modulo q.

Nothing here holds or makes a secret: a server uses the types and conversions of this package. What a client needs is
imported from `cipherblas.rlwe.matrices.encryption` and `cipherblas.rlwe.matrices.generation`.
"""

from cipherblas.rlwe.matrices.conversion import (
    module_to_rlwe,
    module_to_rlwe_request,
    rlwe_to_module,
    rlwe_to_shared_batch,
    rlwe_to_shared_batch_request,
    rlwe_to_shared_rows,
    rlwe_to_shared_rows_request,
    shared_to_rlwe,
    shared_to_rlwe_request,
)
from cipherblas.rlwe.matrices.conversion_keys import ConversionKeys, ConversionRequest
from cipherblas.rlwe.matrices.matrix import CoefficientMatrix
from cipherblas.rlwe.matrices.module import ModuleRows
from cipherblas.rlwe.matrices.rlwe import RlweColumns, RlweRows
from cipherblas.rlwe.matrices.shared import SharedBatch, SharedRows, rows_format
from cipherblas.rlwe.matrices.transposition import (
    transpose,
    transpose_blocks,
    transpose_blocks_request,
    transpose_request,
)

__all__ = [
    "CoefficientMatrix",
    "ConversionKeys",
    "ConversionRequest",
    "ModuleRows",
    "RlweColumns",
    "RlweRows",
    "SharedBatch",
    "SharedRows",
    "module_to_rlwe",
    "module_to_rlwe_request",
    "rlwe_to_module",
    "rlwe_to_shared_batch",
    "rlwe_to_shared_batch_request",
    "rlwe_to_shared_rows",
    "rlwe_to_shared_rows_request",
    "rows_format",
    "shared_to_rlwe",
    "shared_to_rlwe_request",
    "transpose",
    "transpose_blocks",
    "transpose_blocks_request",
    "transpose_request",
]
