"""Encoding of the masks of FHE-MM: each by itself, and as sums of columns that are encoded once (FHE4DMM, VI-A-1).

Both sides encode all masks of one d×d×d block product at the limbs that they are used at, without transforms to
residues, which are the same. The paper encodes by polynomial additions, one for each slot that is not zero;
`slot_additions` counts these, and those of parts, for both sides. Our encoder takes a Fourier transform for any mask.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.slots.encoder import PlainEncoder
from cipherblas.evaluators.slots.values import Plain
from cipherblas.methods.matmul.baselines.fhe_mm import FheMm
from cipherblas_bench.harness import Row, Timing, in_turns, local, params_fields, row
from cipherblas_bench.products import SecretCase
from cipherblas_bench.sets import FAME_SETS, FameSet

SIZES = (16, 32, 64, 128)
UNLIMITED = 1 << 60  # bytes: what is predicted need not fit


def run(*, sizes: Sequence[int] = SIZES, threads: int = 1, budget: float = 1.0) -> Iterator[Row]:
    """Rows of `bench masks`: for each d one of masks by themselves and one of sums of columns.

    Args:
        sizes: d of d×d×d block products, powers of two whose d² entries fit the slots.
        threads: of the transforms.
        budget: seconds spent on each side.

    Raises:
        ValueError: a size for which there is no ring.
    """
    import cipherblas._core as _core

    _core.set_threads(threads)
    for size in sizes:
        member = next((one for one in FAME_SETS.values() if size * size <= one.n // 2), None)
        if size < 2 or size & (size - 1) or member is None:
            most = math.isqrt(FAME_SETS["C"].n // 2)
            raise ValueError(f"size: expected a power of two from 2 to {most}, got {size}")
        yield from _rows(size, member, threads, budget)


def masks(size: int, params: Parameters, composed: bool) -> list[tuple[float, list[Plain]]]:
    """The masks of a block product, by the scale that they are encoded at; not `composed` without their parts."""
    algorithm = FheMm(size, size, size, params.slots)
    aligned = [algorithm.align_left(), algorithm.align_right()]
    shifted = [algorithm.shift_left(r) for r in range(1, algorithm.terms)]
    found = []
    for level, transforms in ((1, aligned), (2, shifted)):
        plains = [plain for one in transforms for plain in one.terms.values() if plain is not None]
        if not composed:
            plains = [Plain(plain.key, plain.values, plain.bound, constant=True) for plain in plains]
        found.append((float(params.q[-level]), plains))
    return found


def encoded(size: int, params: Parameters, composed: bool) -> PlainEncoder:
    """Encode them all, with an encoder that has nothing yet."""
    encoder = PlainEncoder(params.context(), params.slots)
    for scale, plains in masks(size, params, composed):
        for _ in encoder.all(plains, scale):
            pass
    return encoder


def slot_additions(size: int, params: Parameters, encoder: PlainEncoder, composed: bool) -> int:
    """Additions of polynomials where a vector is encoded slot by slot: one for each slot that is not zero, of a grid of
    d² slots, of all vectors that are embedded; and additions of parts."""
    grid, total = size * size, encoder.additions
    for scale, plains in masks(size, params, composed):
        embedded: dict[Hashable, Plain] = {}
        for plain in plains:
            for _, part in [(1, plain)] if plain.parts is None else plain.parts():
                embedded[part.key, scale] = part
        total += sum(int(np.count_nonzero(part.values()[:grid])) for part in embedded.values())
    return total


def _rows(size: int, member: FameSet, threads: int, budget: float) -> Iterator[Row]:
    params = member.parameters()
    sides = {"each mask": False, "sums of columns": True}
    runs = in_turns(
        [local(lambda composed=composed: encoded(size, params, composed)) for composed in sides.values()],  # type: ignore[misc]
        budget=budget,
    )
    timings = [Timing.of(found) for found in runs]
    plan = SecretCase.compile(
        (size, size, size),
        {
            "parameters": params,
            "algorithm": FheMm.name,
            "threads": threads,
            "memory_budget": UNLIMITED,
            "key_budget": UNLIMITED,
        },
    ).plan
    for (name, composed), timing in zip(sides.items(), timings, strict=True):
        encoder = encoded(size, params, composed)
        yield row(
            "masks",
            "x".join([str(size)] * 3),
            params=params_fields(params),
            algorithm=f"{FheMm.name}, {name}",
            threads=threads,
            timing=timing,
            rotations=plan.counts.rotations,
            products=plan.counts.products,
            key_bytes=plan.key_bytes,
            upload_bytes=plan.upload_bytes,
            masks=sum(len(plains) for _, plains in masks(size, params, composed)),
            embedded=encoder.encodings,
            slot_additions=slot_additions(size, params, encoder, composed),
            predicted_seconds=plan.seconds,
            times_masks=timing.seconds / timings[0].seconds,
        )
