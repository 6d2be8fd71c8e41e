"""Encrypted matrices in coefficient form, whose products with matrices are matrix products modulo q.

Nothing here holds or makes a secret: a server uses the types and conversions of this package. What a client needs is
imported from `cipherblas.formats.encryption` and `cipherblas.formats.generation`.
"""

from cipherblas.formats.conversion import (
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
from cipherblas.formats.conversion_keys import ConversionKeys, ConversionRequest
from cipherblas.formats.matrix import CoefficientMatrix
from cipherblas.formats.module import ModuleRows
from cipherblas.formats.rlwe import RlweColumns, RlweRows
from cipherblas.formats.shared import SharedBatch, SharedRows, rows_format
from cipherblas.formats.transposition import (
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
