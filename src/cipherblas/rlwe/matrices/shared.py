"""Shared-a formats: several messages with one a part, each under a secret of its own, a·s_j + b_j = m_j.

A row of the matrix is cut into segments of N entries, the last one shorter; a segment of `count` entries lies in the
subring of degree bit_ceil(count), as a row of RlweRows does. The a part is paid once for all that share it: the GEMM
with a becomes small beside that with b. The dimension of the lattice stays N; T secrets cost log2 T bits of the proof
(see `crypto.security`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cipherblas.crypto.params import Parameters
from cipherblas.rlwe.matrices.matrix import CoefficientMatrix
from cipherblas.rlwe.matrices.rlwe import RlweRows


def segments(params: Parameters, cols: int) -> int:
    """Segments of N entries that a row of `cols` entries is cut into."""
    return -(-cols // params.n)


@dataclass(frozen=True, eq=False)
class SharedRows(CoefficientMatrix):
    """Rows longer than N: the segments of a row share its a part, segment j is under secret s_j.

    a: (limbs, rows, N); b: (limbs, rows, cols); secrets: segments of a row.
    """

    NAME: ClassVar[str] = "shared-rows"

    @classmethod
    def own_secrets(cls, params: Parameters, shape: tuple[int, int]) -> int:
        """One per segment."""
        return segments(params, shape[1])


@dataclass(frozen=True, eq=False)
class SharedBatch(CoefficientMatrix):
    """Many rows: segment c of all rows has the same a part, row j is under secret s_j.

    a: (limbs, segments, N); b: (limbs, rows, cols); secrets: rows of the matrix. U·M leaves the a part as it is and
    makes the secrets U·s: to be decrypted, or used further, it needs them.
    """

    NAME: ClassVar[str] = "shared-batch"
    ONE_A_PART: ClassVar[bool] = True

    @classmethod
    def a_rows(cls, params: Parameters, shape: tuple[int, int]) -> int:
        """One per segment."""
        return segments(params, shape[1])

    @classmethod
    def own_secrets(cls, params: Parameters, shape: tuple[int, int]) -> int:
        """One per row."""
        return shape[0]


def rows_format(length: int, n: int) -> type[RlweRows] | type[SharedRows]:
    """The format of rows of so many entries: shared-a rows where they are longer than N."""
    return RlweRows if length <= n else SharedRows
