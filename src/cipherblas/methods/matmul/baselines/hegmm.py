"""General product by four linear transforms, in either order of the entries (HEGMM), a named baseline."""

from __future__ import annotations

from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.matmul.baselines.mirrored import Mirrored
from cipherblas.methods.matmul.fame import Fame


class Hegmm(Mirrored):
    """A·B = Σ_{i<k} (ε^i∘σ(A)) ⊙ (ω^i∘τ(B)), the maps that FAME took over, in compact column-major or row-major order.

    Diagonals as of `FamePublished`; mirrored (row-major) m and n change places: ω^i is cheap where m = k in
    column-major order, ε^i where n = k in row-major order.

    Depth 3. Unlike the published algorithm the k products are summed before one relinearisation.

    Args:
        mirrored: row-major operands.
    """

    name = "hegmm"
    title = "HEGMM: general product by four linear transforms"
    source = "Gao, Quan, Homsi, Wen, Wang 2024 (HEGMM, arXiv 2405.02238)"
    summary = (
        "published baseline for any shape, column-major or row-major, one ciphertext per operand, depth 3"
    )
    min_levels = 2
    baseline = True

    def _oriented(self, m: int, k: int, n: int) -> Algorithm:
        return Fame(m, k, n, self.slots, aligned=False)
