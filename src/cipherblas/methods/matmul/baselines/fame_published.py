"""FAME's product in its published form, a named baseline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cipherblas.methods.matmul.fame import Fame


class FamePublished(Fame):
    """A·B = Σ_{i<k} (ε^i∘σ(A)) ⊙ (ω^i∘τ(B)) as printed: compact column-major operands, every map one transform.

    k products and 2·(k + 1) transforms, whose non-zero diagonals (FAME, Eq. 12-15, Table I) are rotations and plain
    products: 2·min(m,k) - 1 of σ, 2·min(n,k) - 1 of τ, one of ε^i for each time that the columns i … i+n-1 wrap
    around k, and of ω^i for the rows i … i+m-1, times n where m ≠ k. A diagonal by 0 needs no rotation, and where the
    matrices fill a cycle of slots two diagonals may be one; the paper counts neither. Its ⌊n/k⌋ + 1 of ε is one too
    small where n leaves a remainder above 1.

    Depth 3. Unlike the published algorithm the k products are summed before one relinearisation.
    """

    name = "fame-published"
    title = "FAME as published: general product by four linear transforms"
    source = "Xu, Kannan, Prasanna: FAME, Algorithms 1 to 3"
    summary = "published baseline for any shape, one ciphertext per operand, depth 3"
    baseline = True

    def __init__(self, m: int, k: int, n: int, slots: int) -> None:
        super().__init__(m, k, n, slots, aligned=False)

    @property
    def options(self) -> dict[str, Any]:
        return {}

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """There are no options."""
        if cls.fits(m, k, n, slots):
            yield {}
