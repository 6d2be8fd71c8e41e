"""Into how many blocks a product is cut, so that each block product fits the slots: the optimal block layout.

Source: FHE4DMM (Chen, Hua, Hong, Zhu, Jin), Section IV-A, Algorithm 2 and Theorem 1; its change for 4D, Section V-B.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.security import max_log_qp
from cipherblas.distributed.cuboid import Cuboid, checked

MAX_LOG_DEGREE = 17  # of the table of secure moduli


def slots_needed(shape: tuple[int, int, int]) -> int:
    """Slots that one block product takes: max(m, k) · max(k, n).

    Source: FHE4DMM, Eq. 1, for the product of Zhu et al. (ESORICS 2023).
    """
    m, n, k = shape
    return max(m, k) * max(k, n)


def optimal_slots(noise_bits: float, message_bits: float, security: int = 128) -> int:
    """S_o, the slots of the smallest ring whose modulus has room for a circuit's noise beside its message.

    The paper's Appendix A, which defines it, is not printed; its text says that noise and security determine it, and
    that log2(q/t) limits noise.

    Args:
        noise_bits: log2 of the largest noise, with what key switching takes: log2(q/t) of BGV.
        message_bits: of t, or of a scale and what it multiplies.
        security: 128, 192 or 256.

    Returns:
        N/2.

    Raises:
        ParameterError: there is no such security, or no ring is large enough.

    Source: FHE4DMM, Sections II-A and III-C.

    Examples:
        >>> optimal_slots(503 - 31, 31)  # Table V
        16384
    """
    for bits in range(3, MAX_LOG_DEGREE + 1):
        if noise_bits + message_bits <= max_log_qp(1 << bits, security):
            return 1 << bits - 1
    raise ParameterError(
        "No ring is large enough for so much noise.",
        expected=f"at most {max_log_qp(1 << MAX_LOG_DEGREE, security):g} bits of noise and message",
        got=noise_bits + message_bits,
    )


def optimal_blocks(shape: tuple[int, int, int], slots: int) -> Cuboid:
    """Numbers of blocks [b_m, b_n, b_k] whose products fit the slots, with the fewest block products b_m·b_n·b_k.

    Of those with as few, the one with the least b_m + b_n, which needs the fewest movements of data, then the least
    b_m. Where all lengths are powers of two and the slots a power of four, Algorithm 2 gives it, with its sub-cases
    corrected; in other cases it is searched, blocks being rounded up.

    Args:
        shape: (m, n, k) of an m × k by k × n product.
        slots: S_o, that each block product may take.

    Raises:
        ShapeError: a dimension is no positive integer.
        ParameterError: there is no slot.

    Source: FHE4DMM, Algorithm 2 with the choice of Section V-B-2 in its case 2.

    Examples:
        >>> optimal_blocks((256, 64, 256), 128 * 128)
        Cuboid(m=1, n=1, k=4)
        >>> optimal_blocks((1000, 30, 50), 1 << 13)
        Cuboid(m=7, n=1, k=1)
    """
    lengths = checked(shape, "dimensions of a product")
    if type(slots) is not int or slots < 1:
        raise ParameterError(
            "A block product needs a slot at least.", expected="a positive integer", got=slots
        )
    if slots_needed(lengths) <= slots:
        return Cuboid(1, 1, 1)
    side = math.isqrt(slots)
    if side * side == slots and all(value & (value - 1) == 0 for value in (*lengths, side)):
        return _algorithm_2(lengths, side)
    return min(_fitting(lengths, slots), key=lambda blocks: (blocks.volume, blocks.m + blocks.n, blocks))


def _algorithm_2(lengths: Cuboid, side: int) -> Cuboid:
    """Algorithm 2 for powers of two and side² slots, where one block product does not do."""
    return _long_inner(lengths, side) if lengths.k >= side else _short_inner(lengths, side)


def _long_inner(lengths: Cuboid, side: int) -> Cuboid:
    """Case 1, k ≥ √S_o.

    Two sub-cases differ from the print. In (1.2) it is the smaller of m and n that stays whole. (1.3) holds where the
    larger of m and n is √S_o or more, not where the largest of all three times k is S_o or more: as printed, it misses
    the fewest blocks, or breaks Eq. 4.
    """
    m, n, k = lengths
    slots, least, most = side * side, min(m, n), max(m, n)
    if least >= side:  # (1.1)
        return Cuboid(m // side, n // side, k // side)
    if m * n >= slots:  # (1.2)
        cut = m * n // slots
        return Cuboid(cut, 1, k // least) if m >= n else Cuboid(1, cut, k // least)
    if most >= side:  # (1.3)
        return Cuboid(1, 1, most * k // slots)
    return Cuboid(1, 1, k // side)  # (1.4)


def _short_inner(lengths: Cuboid, side: int) -> Cuboid:
    """Case 2, k < √S_o: the least of the three dimensions stays whole, the others x ≥ y have x·y / S_o parts together.

    In (2.2) neither is cut so far that it is shorter than the least one; the print bounds b_x by y / z instead, against
    its own Table V.
    """
    m, n, k = lengths
    z, y, x = sorted(lengths)
    together = x * y // (side * side)
    if k > min(m, n):  # (2.1): y is k
        cut = min(together, y // z)
        rest = together // cut
        return Cuboid(rest, 1, cut) if m >= n else Cuboid(1, rest, cut)
    of_rows = [b for b in _powers(together) if b <= m // z and together // b <= n // z]  # (2.2): z is k
    b_m = min(of_rows, key=lambda b: (b + together // b, b))
    return Cuboid(b_m, together // b_m, 1)


def _powers(most: int) -> Iterator[int]:
    """The powers of two up to a number."""
    return (1 << bits for bits in range(most.bit_length()))


def _fitting(lengths: Cuboid, slots: int) -> Iterator[Cuboid]:
    """For each number of blocks along k and m, the fewest along n with which they fit, as far as they are worth it.

    Rows of a block that are fewer than its inner length save no slots.
    """
    m, n, k = lengths
    for inner in _part_lengths(k, math.isqrt(slots)):
        for rows in _part_lengths(m, slots // inner):
            columns = slots // max(rows, inner)
            if columns >= inner:
                yield Cuboid(-(-m // rows), -(-n // columns), -(-k // inner))
            if rows <= inner:
                break


def _part_lengths(length: int, most: int) -> Iterator[int]:
    """Lengths of parts, none longer than `most`, longest first, each with another number of parts."""
    part = min(length, most)
    while part >= 1:
        count = -(-length // part)
        yield -(-length // count)
        part = -(-length // count) - 1
