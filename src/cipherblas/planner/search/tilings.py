"""Ways to cut a product into blocks that fit the slots."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from cipherblas.lang.facts import facts_of, products
from cipherblas.lang.graph import Axes
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operations import Leaf
from cipherblas.methods.matmul.base import Algorithm

K = TypeVar("K", bound=Hashable)

MIN_BLOCK = 8  # smaller blocks only where the matrix itself is smaller
TILINGS_KEPT = 10
# Of the blocks of whole programs, longest first; those from 2^10 to 2^15 are of long and thin matrices.
UNIFORM_LENGTHS = (
    *(1 << 17, *(1 << bits for bits in range(15, 9, -1))),
    *(512, 256, 192, 160, 128, 112, 96, 80, 64, 56, 48, 40, 32, 24, 16, 12, 8),
)
# A rotation costs about so many products: ModDown alone is some ten transforms against four multiplications.
_ROTATION_IN_PRODUCTS = 4
_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)


def block_lengths(length: int) -> list[int]:
    """Distinct block lengths for an axis, longest first."""
    lengths = {}
    for count in (*_COUNTS, 160, 192, 224, 256, 320, 384, 448, 512):
        block = -(-length // count)
        if count == 1 or block >= MIN_BLOCK:
            lengths[block] = -(-length // block)
    return sorted(lengths, reverse=True)


def tilings_of_one(
    algorithm: type[Algorithm],
    shape: tuple[int, int, int],
    slots: int,
    block: int | tuple[int, int, int] | None,
) -> Iterator[tuple[int, int, int]]:
    """Block lengths of one product, in the order of the option `block`."""
    if not isinstance(block, tuple):
        yield from single_product_tilings(algorithm, shape, slots, block)
        return
    bm, bk, bn = (min(length, most) for length, most in zip(shape, block, strict=True))
    if (algorithm.blocks_inner or bk == shape[1]) and algorithm.fits(bm, bk, bn, slots):
        yield bm, bk, bn


def single_product_tilings(
    algorithm: type[Algorithm], shape: tuple[int, int, int], slots: int, largest: int | None = None
) -> Iterator[tuple[int, int, int]]:
    """Maximal (bm, bk, bn): for each bm and bk the largest bn that fits, dominated ones left out.

    What fits a number of rows fits fewer, and with fewer columns: so both lists are walked once for each bk.
    """
    rows, inner, cols = (_capped(block_lengths(length), largest) for length in shape)
    cols.reverse()
    for bk in inner if algorithm.blocks_inner else inner[:1]:
        fitting = 0  # of the columns, shortest first
        for bm in rows:
            before = fitting
            while fitting < len(cols) and algorithm.fits(bm, bk, cols[fitting], slots):
                fitting += 1
            if fitting > before:
                yield bm, bk, cols[fitting - 1]


def promising(
    tilings: Iterable[tuple[int, int, int]], shape: tuple[int, int, int], kept: int = TILINGS_KEPT
) -> list[tuple[int, int, int]]:
    """The tilings worth counting: fewest rotations and products if both are about one per inner index of a block."""

    def work(block: tuple[int, int, int]) -> int:
        m, k, n = (-(-length // size) for length, size in zip(shape, block, strict=True))
        return block[1] * k * (_ROTATION_IN_PRODUCTS * (m + n) + m * n)

    return sorted(tilings, key=work)[:kept]


def uniform_tilings(lengths: Mapping[K, int], largest: int | None = None) -> Iterator[dict[K, int]]:
    """Block lengths for the axes of a whole program, whose lengths are given, all near one target length."""
    seen = set()
    for target in UNIFORM_LENGTHS:
        cap = target if largest is None else min(target, largest)
        blocks = {axis: _even(length, cap) for axis, length in lengths.items()}
        key = tuple(blocks.values())
        if key not in seen:
            seen.add(key)
            yield blocks


def widened(expression: Expression, axes: Axes, blocks: Mapping[str, int]) -> dict[str, int]:
    """The blocks with equal lengths along what differs between products of one packed factor.

    Layouts of a factor depend on the blocks of the other one: with equal ones, the client sends it once for all.
    """
    found = dict(blocks)
    for side in (0, 1):
        others: dict[int, set[str]] = {}  # by factor, the axes of results that are not its own
        for node in products(expression):
            factor = node.children[side]
            if factor.secret and factor.packable:
                others.setdefault(id(factor), set()).add(axes.of(node)[1 - side])
        for names in others.values():
            found.update(dict.fromkeys(names, max(found[name] for name in names)))
    return found


def stretched(
    expression: Expression, axes: Axes, blocks: Mapping[str, int], slots: int
) -> Iterator[dict[str, int]]:
    """Blocks as long as an operand that is broadcast along the other axis: fewer of them differ."""
    for node in facts_of(expression).order:
        if not isinstance(node, Leaf) or len(node.shape) != 2 or not node.secret:
            continue
        for other, one in (axes.of(node), axes.of(node)[::-1]):
            length, repeated = axes.lengths[other], node.repeated[axes.of(node).index(one)]
            if repeated and axes.lengths[one] > 1 and blocks[other] < length <= slots:
                yield {**blocks, other: length, one: _even(axes.lengths[one], slots // length)}


def fits_all(
    algorithm: type[Algorithm], expression: Expression, axes: Axes, blocks: Mapping[str, int], slots: int
) -> bool:
    """Whether every product of the program fits with these blocks."""
    for node in facts_of(expression).order:
        if node.linear or not node.secret:
            continue
        rows, cols = (blocks[axis] for axis in axes.of(node))
        if node.product:
            fits = algorithm.fits(rows, blocks[axes.of(node.children[0])[1]], cols, slots)
        else:
            fits = rows * cols <= slots
        if not fits:
            return False
    return True


def _even(length: int, cap: int) -> int:
    count = -(-length // cap)
    return -(-length // count)


def _capped(lengths: list[int], largest: int | None) -> list[int]:
    if largest is None:
        return lengths
    return [length for length in lengths if length <= largest] or [min(lengths[-1], largest)]
