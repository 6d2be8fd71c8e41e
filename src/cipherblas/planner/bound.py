"""What a program in slots takes at least, before any way to compute it is counted."""

from __future__ import annotations

from cipherblas.expressions import Expression
from cipherblas.graph import products
from cipherblas.planner.cost import Rates

# A slot of a product of vectors adds up so many products of entries at most (complex packing).
TERMS_PER_SLOT = 2
# Polynomials that a product of ciphertexts, or of a plaintext and a ciphertext, multiplies.
SECRET_PRODUCTS, CLEAR_PRODUCTS = 4, 2


def least_seconds(expression: Expression, rates: Rates, threads: int) -> float:
    """Seconds of the multiply-adds of the program's products alone, at one limb and with every slot in use.

    An m × k by k × n product has m·k·n products of entries: with N/2 slots at least m·k·n / N products of vectors
    of N multiply-adds for each polynomial, whatever N, the algorithm and the blocks.
    """
    work = 0
    for node in products(expression):
        (m, k), n = node.left.shape, node.shape[1]
        both = node.left.secret and node.right.secret
        work += m * k * n * (SECRET_PRODUCTS if both else CLEAR_PRODUCTS)
    return work * 2 / TERMS_PER_SLOT * rates.mac / threads
