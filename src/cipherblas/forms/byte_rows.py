"""A matrix of 16-bit integers as one of bytes, and the products with it from those with the bytes.

Products with bytes are 256 times smaller than those with words, and amplify noise 256 times less, so that they are
exact modulo 16 bits less. What is clear is cut into signed bytes, since processors have products of these:

    U = 256·U1 + U0 + 128,    U·X = 256·(U1·X) + U0·X + 128·(1·X).

What is encrypted need only be small: U = 256·U1 + U0, U0 from -128 to 127 and U1 to 128.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BASE = 256
OFFSET = 128
MAX_VALUE = 2**15  # of U: 2^15 itself, which is no 16-bit integer, has an upper "byte" of 128


def rows_of(rows: int) -> int:
    """Rows of signed bytes of a matrix of so many rows."""
    return 2 * rows + 1


def in_bytes(values: NDArray[np.generic]) -> NDArray[np.integer[Any]]:
    """The upper bytes of all rows, the lower ones of all rows, and a row of ones."""
    rows, columns = values.shape
    words = np.asarray(values).astype(np.int16 if values.max(initial=0) < MAX_VALUE else np.int32, copy=False)
    found = np.empty((rows_of(rows), columns), np.int8 if words.itemsize == 2 else np.int16)
    np.right_shift(words, 8, out=found[:rows], casting="unsafe")
    np.subtract(words & (BASE - 1), OFFSET, out=found[rows:-1], casting="unsafe")
    found[-1] = 1
    return found


def in_digits(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The upper and the lower digits of all rows, of whole numbers."""
    upper = np.floor(values / BASE + 0.5)
    return np.concatenate([upper, values - BASE * upper])


def joined(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """The product with a matrix, from that with its bytes or digits, whose entries are off by less than one half."""
    whole = np.rint(products)
    rows = len(whole) // 2
    found = BASE * whole[:rows] + whole[rows : 2 * rows]
    return found + OFFSET * whole[-1] if len(whole) % 2 else found


def error(products: float) -> float:
    """Return a bound on the error of a product with a matrix, from that of the product with its bytes: none while
    rounding removes it. Of digits, the bound is an upper one."""
    return products if products < 0.5 else (BASE + 1 + OFFSET) * (products + 0.5)
