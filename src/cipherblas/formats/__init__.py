"""Encrypted matrices in coefficient form, whose products with matrices are matrix products modulo q.

Nothing here holds or makes a secret: a server uses the types of this package. What a client needs is imported from
`cipherblas.formats.encryption`.
"""

from cipherblas.formats.matrix import CoefficientMatrix
from cipherblas.formats.module import ModuleRows
from cipherblas.formats.rlwe import RlweColumns, RlweRows
from cipherblas.formats.shared import SharedBatch, SharedRows

__all__ = ["CoefficientMatrix", "ModuleRows", "RlweColumns", "RlweRows", "SharedBatch", "SharedRows"]
