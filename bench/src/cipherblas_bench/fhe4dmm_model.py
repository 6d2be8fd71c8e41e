"""The performance model of FHE4DMM: what ranks of a grid compute and send, priced by rates that were measured here.

What a rank does is exact: block products, movements and collectives of `cipherblas.distributed`. Seconds of one
movement and of one product come from a run of FHE-MM on shapes, whose counts are priced by the machine's rates. As in
the paper ranks keep the blocks of the result that they have the sums of. Sums over the inner dimension are shared as
`distributed.slots` shares them: each of the ranks that have sums of a block adds up and finishes some of the blocks.

In 4D-B a shared block goes while the next one is prepared, and while a rank multiplies the blocks that it prepared
itself (`Communicator.receive_ahead`); in 4D what is shifted by an offset goes while ranks multiply what was shifted by
those before. What the all-gathers of ShiftByStep take beyond that, ranks wait for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from cipherblas.crypto.params import Parameters
from cipherblas.distributed.blocks import optimal_blocks
from cipherblas.distributed.cgemm import steps_of
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.messages import (
    Network,
    collectives_3d,
    collectives_4d,
    gather_rounds,
    latency_4d,
)
from cipherblas.distributed.ranks import (
    PER_BLOCK,
    PER_OFFSET,
    Distribution,
    RankWork,
    ciphertexts_held,
    grid_of,
    own_blocks,
    work_of,
)
from cipherblas.evaluators.slots.bookkeeping import DEFAULT_WORKING_BYTES
from cipherblas.evaluators.slots.movements import Movements
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct
from cipherblas.methods.matmul.baselines.fhe_mm import FheMm
from cipherblas.planner.predict.cost import Rates
from cipherblas.rlwe.counts import Counts

Made = TypeVar("Made")
SLOTS = 1 << 14  # S_o of Table V
CLASSES = ("Square", "Flat", "LargeM", "Slim")
LAYOUTS = {"Square": (16, 16, 16), "Flat": (128, 128, 1), "LargeM": (1024, 4, 1), "Slim": (16, 1, 1024)}
SMALLER = {"Square": (4, 4, 4), "Flat": (4, 4, 1), "LargeM": (8, 4, 1), "Slim": (2, 1, 32)}
DIVISORS = (1, 2, 4, 8, 16)
SHORT = 4  # numbers of blocks of dimensions that are not divided
METHODS: dict[str, Distribution] = {
    **{"baseline": "e3d", "4d-s": "4d-s", "4d*": "4d*", "4d": "4d", "4d-b": "4d-b"}
}


def class_shape(name: str, slots: int = SLOTS, divided_by: int | None = None) -> Cuboid:
    """(m, n, k) of a class of Table V whose blocks have so many slots; fewer blocks where there are fewer slots.

    With √slots = s blocks are s × s, or 8s × s/8, as in the paper. Of its block layouts [16, 16, 16], [128, 128, 1],
    [1024, 4, 1] and [16, 1, 1024] smaller ones keep [4, 4, 4], [4, 4, 1], [8, 4, 1] and [2, 1, 32].

    Args:
        divided_by: 1, 2, 4, 8 or 16: what its long dimensions have of the paper's blocks, divided by that, instead.

    Raises:
        ValueError: the slots are no power of four from 256 on, or are divided by something else.

    Source: FHE4DMM, Table V.
    """
    side = math.isqrt(slots)
    if side * side != slots or side & (side - 1) or side < 16:
        raise ValueError(f"slots: expected a power of four from 256 on, got {slots}")
    if divided_by is not None and divided_by not in DIVISORS:
        raise ValueError(f"divided_by: expected one of {DIVISORS}, got {divided_by}")
    blocks = LAYOUTS[name] if slots >= SLOTS or divided_by is not None else SMALLER[name]
    m, n, k = (-(-length // (divided_by or 1)) if length > SHORT else length for length in blocks)
    tall, thin = 8 * side, side // 8
    rows, columns, inner = {
        "Square": (side, side, side),
        "Flat": (side, side, thin),
        "LargeM": (tall, thin, thin),
        "Slim": (tall, thin, thin),
    }[name]
    return Cuboid(m * rows, n * columns, k * inner)


class Sent(NamedTuple):
    """Bytes of a ciphertext as the client sends it, of a part of RotateAlign modulo Q·P, after RotateAlign, after
    ShiftByStep, and of a sum of products."""

    fresh: int
    part: int
    aligned: int
    shifted: int
    summed: int


@dataclass(frozen=True)
class Prices:
    """Seconds on one rank.

    Attributes:
        aligned: RotateAlign of a block of A, and of one of B.
        parts: those of a rank's part of it, its share of the divisions too, where so many ranks share it.
        shifted: all steps of ShiftByStep of a block of A, and of one of B.
        stepped: the same one by one, each with a hoisting of its own.
        product: all products of ciphertexts in a block product, added up.
        finish: relinearisation, and what follows it, of a block of the result.
        addition: of a block of the result to another.
        encoding: of all masks of a block product.
        sent: what ranks send each other.
    """

    aligned: tuple[float, float]
    parts: Callable[[int, int], tuple[float, float]]
    shifted: tuple[float, float]
    stepped: tuple[float, float]
    product: float
    finish: float
    addition: float
    encoding: float
    sent: Sent


def prices(
    block: Cuboid, parameters: Parameters, rates: Rates, threads: int, limbs: int | None = None
) -> Prices:
    """Of FHE-MM on blocks of (m, n, k), by a run on shapes.

    Args:
        limbs: of both factors; all, without.
    """
    algorithm = FheMm(block.m, block.k, block.n, parameters.slots)
    ev = Symbolic(parameters)

    def priced(work: Callable[[], Made]) -> tuple[float, Made]:
        before = ev.counts.copy()
        made = work()
        counts: Counts = ev.counts - before
        counts.mask_encodings = counts.encode_ntt_limbs = 0  # masks are kept for all blocks
        return rates.seconds(counts, parameters.n, threads), made

    left, right = ([ev.fresh(None, bound=1.0, limbs=limbs)] for _ in range(2))
    before = ev.counts.copy()
    algorithm.prepare_left(ev, left)  # masks are encoded here
    algorithm.prepare_right(ev, right)
    masks: Counts = ev.counts - before
    encoded = Counts(encode_ntt_limbs=masks.encode_ntt_limbs)
    encoding = masks.mask_encodings * rates.encoding(parameters.n, threads)
    encoding += rates.seconds(encoded, parameters.n, threads)
    whole_left, lefts = priced(lambda: algorithm.prepare_left(ev, left))
    whole_right, rights = priced(lambda: algorithm.prepare_right(ev, right))
    steps = range(1, algorithm.terms)
    aligned = ev.linear_transform(ev.rescaled(left[0]), algorithm.align_left())
    moves = algorithm.movements()

    def shifting(at_once: int | None) -> tuple[float, float]:
        def of(move: Movements, ct: Ct) -> float:
            shifts = [move.shift(r) for r in steps]
            return priced(lambda: list(ev.linear_transforms(ct, shifts, at_once=at_once)))[0]

        return of(moves[0], aligned), of(moves[1], rights[0])

    @functools.cache
    def part(side: int, ranks: int) -> float:
        """Seconds of RotateAlign where so many ranks share it."""
        move = moves[side]
        x = ev.for_masks(move.filled(ev, (left, right)[side]))
        if ranks == 1:
            return priced(lambda: ev.linear_transform(x, move.align))[0]
        seconds, _ = priced(lambda: ev.transform_part(x, move.align, 1, ranks))
        divided, _ = priced(lambda: ev.transform_of_parts(x, move.align, [None] * ranks))
        return seconds + divided / ranks

    (shift_left, shift_right), stepped = shifting(None), shifting(1)
    product, total = priced(lambda: algorithm.multiply(ev, lefts, rights, None))
    addition, _ = priced(lambda: ev.add(total[0], total[0]))
    finish, _ = priced(lambda: algorithm.finish(ev, total))
    undivided = ev.undivided(left[0], None)
    sizes = (left[0], undivided, aligned, lefts[-1], total[0])
    words = [ct.components * ct.limbs * parameters.n for ct in sizes]
    filling = [
        whole - shift - part(side, 1)
        for side, (whole, shift) in enumerate(((whole_left, shift_left), (whole_right, shift_right)))
    ]
    return Prices(
        (whole_left - shift_left, whole_right - shift_right),
        lambda of_left, of_right: (filling[0] + part(0, of_left), filling[1] + part(1, of_right)),
        (shift_left, shift_right),
        stepped,
        product,
        finish,
        addition,
        encoding,
        Sent(*(8 * number for number in words)),
    )


@dataclass(frozen=True)
class Modelled:
    """A product on a grid of ranks.

    Attributes:
        blocks, grid: numbers of blocks, and of ranks, along rows, columns and inner dimension.
        work: of the busiest rank.
        aligned, shifted, products: its seconds in RotateAlign, ShiftByStep, MULT and what follows.
        mpi: seconds of messages that it waits for.
        hidden: seconds of messages that go while it computes.
        nbytes: of the ciphertexts that it holds.
        latency: Eq. 7 on this grid, with one all-gather of each side, as printed, and with all rounds, as in its text.
    """

    blocks: Cuboid
    grid: Cuboid
    work: RankWork
    aligned: float
    shifted: float
    products: float
    mpi: float
    hidden: float
    nbytes: int
    latency: tuple[float, float]

    @property
    def local(self) -> float:
        """Seconds of computation."""
        return self.aligned + self.shifted + self.products

    @property
    def total(self) -> float:
        """Seconds of all."""
        return self.local + self.mpi


def modelled(
    shape: Cuboid,
    slots: int,
    ranks: int,
    method: str,
    price: Prices,
    network: Network,
    layout: Cuboid | None = None,
) -> Modelled:
    """A product of this shape in blocks of so many slots, by one of `METHODS`.

    Args:
        layout: numbers of blocks; the optimal ones, without.

    Source: FHE4DMM, Sections V-A and V-C.
    """
    blocks = layout or optimal_blocks(shape, slots)
    steps = steps_of(shape, blocks)
    sharing = METHODS[method]
    grid = grid_of(blocks, ranks, steps, sharing)
    own = own_blocks(blocks, grid, (0, 0, 0))
    work = work_of(own, grid, steps, sharing)
    moves = float(work.left_moves), float(work.right_moves)
    by_offset = sharing in PER_OFFSET
    blocks_here = (own.m * own.k, own.n * own.k) if by_offset else moves
    aligning = price.parts(grid.n, grid.m) if by_offset else price.aligned
    aligned = sum(count * one for count, one in zip(blocks_here, aligning, strict=True))
    shifting = price.shifted
    if by_offset:
        shifting = (
            _shifting(price, 0, steps / grid.n, own.m),
            _shifting(price, 1, steps / grid.m, own.n),
        )
    shifted = sum(count * one for count, one in zip(moves, shifting, strict=True))
    finished = math.ceil(work.sums / grid.k)
    added = (
        work.sums * (grid.k - 1) / grid.k
    )  # a tree of p - 1 additions for each block, shared by the p ranks
    printed, in_rounds = (
        latency_4d(blocks, grid, steps, price.sent.fresh, network, rounds=rounds)
        for rounds in (1, gather_rounds(blocks, grid, steps))
    )
    waited, hidden = _mpi_seconds(own, grid, steps, sharing, price, network, aligned + shifted)
    return Modelled(
        blocks,
        grid,
        work,
        aligned,
        shifted,
        own.volume * price.product + finished * price.finish + math.ceil(added) * price.addition,
        waited,
        hidden,
        ciphertexts_held(own, sharing) * price.sent.fresh,
        (printed, in_rounds),
    )


def _shifting(price: Prices, side: int, offsets: float, blocks: int) -> float:
    """Seconds of ShiftByStep of a block, by as many offsets with one hoisting as fit the working memory with all blocks
    of a rank."""
    at_once = max(1, DEFAULT_WORKING_BYTES // (blocks * price.sent.aligned))
    hoistings = math.ceil(offsets / at_once)
    each = (price.stepped[side] - price.shifted[side]) / max(1.0, offsets - 1)
    return price.shifted[side] + each * min(hoistings - 1, offsets)


def _mpi_seconds(
    own: Cuboid,
    grid: Cuboid,
    steps: int,
    sharing: Distribution,
    price: Prices,
    network: Network,
    preparing: float,
) -> tuple[float, float]:
    """Of all collectives, each of ciphertexts of its level: those that a rank waits for, and those that it does not.

    Args:
        preparing: seconds in which a rank prepares its blocks.
    """
    sent = price.sent
    nbytes = {
        "broadcast": sent.fresh,
        "all-reduce": (sent.part + sent.aligned)
        / 2,  # of which a part goes to who divides, and back what it makes
        "all-gather": sent.shifted,
        "reduce": sent.summed,
    }
    taken = collectives_4d(own, grid, steps, 1) if sharing in PER_BLOCK else collectives_3d(own, grid, 1)
    seconds: dict[str, float] = dict.fromkeys(nbytes, 0.0)
    for one in taken:
        seconds[one.kind] += replace(one, nbytes=round(one.nbytes * nbytes[one.kind])).seconds(network)
    if sharing not in PER_OFFSET:
        seconds.pop("all-reduce")  # blocks are prepared whole
    gathered = seconds.pop("all-gather") / own.k  # of one inner block
    exposed = gathered
    if gathered and sharing in PER_OFFSET:
        computed = preparing / own.k + own.m * own.n * price.product
        exposed = min(max(gathered / steps, gathered - computed * (steps - 1) / steps), gathered)
    elif gathered:
        prepared = preparing / own.k
        pieces = max(1, own.m // grid.n + own.n // grid.m)  # that a rank prepares, one after the other
        multiplied = (own.m // grid.n) * (own.n // grid.m) * price.product  # of blocks that it prepared
        arrived = max(prepared + gathered / pieces, prepared / pieces + gathered)
        exposed = min(max(0.0, arrived - prepared - multiplied), gathered)
    return math.fsum(seconds.values()) + exposed * own.k, (gathered - exposed) * own.k
