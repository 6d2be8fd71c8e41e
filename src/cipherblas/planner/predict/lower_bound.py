"""What a program in slots takes at least, before any way to compute it is counted."""

from __future__ import annotations

from cipherblas.lang.facts import products
from cipherblas.lang.nodes import Expression
from cipherblas.planner.predict.cost import Rates
from cipherblas.rlwe.counts import Counts

# A slot of a product of vectors adds up so many products of entries at most (complex packing).
TERMS_PER_SLOT = 2


def least_counts(expression: Expression, n: int) -> Counts:
    """The multiply-adds of the program's products alone, and their plaintexts, at one limb and with every slot in use.

    An m × k by k × n product of matrices has m·k·n products of entries, and a product of vectors holds
    `TERMS_PER_SLOT` of them in each of the N/2 slots, whatever the algorithm and the blocks.

    Args:
        n: the least ring degree; larger ones need fewer products, of as many more multiply-adds.
    """
    counts = Counts()
    for node in products(expression):
        left, right = node.children
        (rows, inner), cols = left.shape, node.shape[1]
        vectors = rows * inner * cols // (TERMS_PER_SLOT * (n // 2))
        if left.secret and right.secret:
            counts.products += vectors
            counts.mac_limbs += 4 * vectors
        else:
            counts.plain_products += vectors
            counts.mac_limbs += 2 * vectors
            counts.operand_encodings += vectors
            counts.encode_ntt_limbs += vectors
    return counts


def least_seconds(expression: Expression, n: int, rates: Rates, threads: int) -> float:
    """Seconds of `least_counts`."""
    return rates.seconds(least_counts(expression, n), n, threads)
