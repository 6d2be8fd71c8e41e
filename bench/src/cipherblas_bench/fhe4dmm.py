"""The experiments of FHE4DMM: its four classes of shapes, scaled down, on real ranks, and its model to 256 ranks.

`bench distributed --suite fhe4dmm`. Published figures stand beside the model's: those of the paper's text, Table VI and
the speed-ups over its baseline of Section VII-A, since Fig. 7 to 9 are pictures. They were measured with other
parameters, on 64 threads a rank. The paper's baseline uses diagonal blocks (Huang et al., TDSC 2023) where it can, and
E3D elsewhere. Real ranks run both, where they can; in the model the baseline is E3D throughout, which moves as much.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cipherblas._core as _core
from cipherblas.common.errors import ParameterError
from cipherblas.distributed.blocks import optimal_blocks, slots_needed
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.grids import moved_3d
from cipherblas.distributed.messages import Network, collectives_3d, seconds
from cipherblas.distributed.ranks import Distribution, grid_of
from cipherblas.distributed.slots import DISTRIBUTIONS
from cipherblas.lang.operands import secret
from cipherblas.methods.matmul.baselines.fhe_mm import FheMm
from cipherblas.roles.program import Program, compile
from cipherblas_bench.distributed import (
    BENCH,
    TIMES,
    OnRanks,
    check_sent,
    least_of,
    network_here,
    network_row,
    stages,
)
from cipherblas_bench.fhe4dmm_model import CLASSES, METHODS, SLOTS, Modelled, class_shape, modelled, prices
from cipherblas_bench.harness import (
    Row,
    Timing,
    machine_of_predictions,
    params_fields,
    row,
)

RANKS = (1, 2, 4, 8)
MODEL_RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SCALED_SLOTS = 1 << 12
FIGURE_7, FIGURE_8, FIGURE_9, TABLE_6 = (8, 128), 64, 8, 256  # ranks
WEAK = 8  # ranks that have eight times the work of one
FIGURE_1, FIGURE_1A_SECONDS, FIGURE_1A_SPEEDUP, FIGURE_1A_BYTES = (
    16,
    401.42,
    15.52,
    546e9,
)  # ranks; as published
FIGURE_1B_GRIDS = (Cuboid(4, 1, 4), Cuboid(1, 1, 16))
EQUATION_7 = ("equation_7_seconds", "equation_7_rounds_seconds")
LINEAR = 0.95  # of an efficiency that counts as linear
PUBLISHED = "FHE4DMM (2024), Section VII-A"
SPEEDUPS = {"Square": (4.31, 3.61), "Flat": (16.62, 9.72), "LargeM": (10.59, 5.88), "Slim": (14.44, 13.09)}
LARGE_NETWORKS = {  # Table VI: shape, seconds of local computation and of MPI
    "Square": (Cuboid(4096, 4096, 4096), 171.979, 0.255),
    "Slim": (Cuboid(32768, 16, 32768), 65.1457, 10.9836),
}
PAPERS = Network(2e-6, 8 / 56e9)  # InfiniBand of 56 Gb/s; the latency is not published
# Table V: of BGV with a t of 31 bits, whose ring is cyclotomic of a degree that is no power of two.
PARAMETERS = {
    name: {"n": n, "logq": 503, "security": security}
    for names, n, security in ((("Square", "Flat"), 19072, 128.358), (("LargeM", "Slim"), 19456, 128.012))
    for name in names
}
UNLIMITED = 1 << 60


def run(
    classes: Sequence[str] = CLASSES,
    ranks: Sequence[int] = RANKS,
    *,
    slots: int = SCALED_SLOTS,
    divided_by: int | None = None,
    sharings: Sequence[Distribution] = DISTRIBUTIONS,
    threads: int = 1,
    rounds: int = 5,
    times: int = TIMES,
    model: bool = True,
    modulus: int | None = None,
) -> Iterator[Row]:
    """Rows of the networks, of real runs of the classes, and of the model.

    Args:
        classes: of Table V.
        ranks: of real runs.
        slots: of a block in real runs, a power of four from 256 on; see `class_shape`.
        divided_by: what the numbers of blocks of Table V are divided by in real runs; see `class_shape`.
        sharings: ways to share movements in real runs of several ranks.
        threads: of a rank.
        rounds: processes of each, in turns.
        times: runs of a process, more where they are short; of one alone, the first is what counts.
        model: rows of the model too.
        modulus: t of integers modulo t, as in the paper, in place of real numbers.

    Raises:
        MeasurementError: a run failed, sent other than planned messages, or computed something else than one process.
        ValueError: there are no blocks of so many slots.
    """
    here = network_here() if ranks else None
    if here is not None:
        yield network_row("network of this machine", here)
        for name in classes:
            with tempfile.TemporaryDirectory(prefix="cipherblas-bench-") as folder:
                shape = class_shape(name, slots, divided_by)
                blocks = optimal_blocks(shape, slots)
                program = program_of(shape, blocks, threads, modulus)
                product = OnRanks(program, Path(folder), threads, times)
                cases: list[tuple[Distribution, int]] = [("4d-s", 1)] if 1 in ranks else []
                cases += [
                    (sharing, count)
                    for sharing in sharings
                    for count in ranks
                    if count > 1 and _can(sharing, blocks, count)
                ]
                yield from _real(name, product, blocks, cases, here, rounds)
    if not model:
        return
    yield network_row("network of the model", PAPERS)
    yield from figure_1_rows(threads)
    for name in classes:
        yield from model_rows(name, threads, modulus)


def program_of(
    shape: Cuboid, blocks: Cuboid, threads: int, modulus: int | None = None, **options: Any
) -> Program:
    """A product by FHE-MM in so many blocks, of real numbers or of integers modulo t."""
    block = shape.parts(blocks)
    return compile(
        lambda a, b: a @ b,
        {
            "a": secret(shape.m, shape.k, modulus=modulus),
            "b": secret(shape.k, shape.n, modulus=modulus),
        },
        **{
            "algorithm": FheMm.name,
            "form": "blocks",
            "block": (block.m, block.k, block.n),
            **({"precision": 1e-2} if modulus is None else {}),
            "minimise": "server",
            "threads": threads,
            "upload_budget": UNLIMITED,
            **options,
        },
    )


def _real(
    name: str,
    product: OnRanks,
    blocks: Cuboid,
    cases: Sequence[tuple[Distribution, int]],
    network: Network,
    rounds: int,
) -> Iterator[Row]:
    """A class, scaled down, on real ranks, however they share the movements of data; one rank moves each block once."""
    threads, processors = product.threads, int(_core.processors())
    runs: dict[tuple[Distribution, int], list[dict[str, Any]]] = {case: [] for case in cases}
    for _ in range(rounds):
        for sharing, count in cases:
            runs[sharing, count].append(product.run(count, "--sharing", sharing))
    error = product.checked()
    first, ranks = cases[0]
    alone = product.predicted(ranks, network, first)
    for sharing, count in cases:
        found, base = runs[sharing, count], runs[cases[0]]
        timing = Timing.of([one["seconds"] for one in found])
        planned = product.predicted(count, network, sharing)
        check_sent(product.case, planned, found)
        (place,) = planned.runs[0].products or (None,)
        yield product.row(
            timing,
            planned,
            alone,
            case=f"{name} {product.case}",
            algorithm=f"{FheMm.name} {sharing}",
            error=error,
            rotations=max(one.counts.rotations for one in planned.runs),
            products=max(one.counts.products for one in planned.runs),
            oversubscribed=count * threads > processors,
            blocks="x".join(map(str, blocks)),
            grid="x".join(map(str, place.grid)) if place else "1x1x1",
            speedup=Timing.of([one["seconds"] for one in base]).seconds / timing.seconds,
            seconds_mean=statistics.fmean(one["seconds"] for one in found),
            first_seconds=Timing.of([one["first_seconds"] for one in found]).seconds,
            peak_bytes=max(one["peak_bytes"] for one in found),
            **stages(least_of(found), least_of(base)),
        )


def _can(sharing: Distribution, blocks: Cuboid, ranks: int) -> bool:
    """Whether so many ranks can share blocks so: T3D has a rank for each product, TDSC diagonals."""
    try:
        grid_of(blocks, ranks, 1, sharing)
    except ParameterError:
        return False
    return True


def model_rows(name: str, threads: int, modulus: int | None = None) -> Iterator[Row]:
    """The model of a class at its published size."""
    if modulus is not None:
        plan = _block_product(class_shape(name), threads, modulus)[1].plan
        yield row(
            BENCH,
            f"Table V {name}",
            algorithm=FheMm.name,
            params=params_fields(plan.parameters),
            modulus=modulus,
            published_params=PARAMETERS[name],
            published_source="FHE4DMM (2024), Table V",
        )
    found = _modelled(name, class_shape(name), MODEL_RANKS, threads, modulus)
    alone = found["4d", 1].total
    for (method, count), one in found.items():
        yield _row(f"{name} model", method, count, one, threads) | {
            "efficiency": found[method, 1].total / (count * one.total),
            "speedup": alone / one.total,
            "speedup_over_baseline": found["baseline", count].total / one.total,
            **(dict(zip(EQUATION_7, one.latency, strict=True)) if method == "4d" else {}),
        }
    yield from _figures(name, found, threads)
    if name == "Square":
        yield weak_scaling_row(name, found["4d", WEAK], threads, modulus)
    if name in LARGE_NETWORKS:
        shape, local, mpi = LARGE_NETWORKS[name]
        largest = _modelled(name, shape, [TABLE_6], threads, modulus)["4d", TABLE_6]
        yield _row(f"Table VI {name}", "4d", TABLE_6, largest, threads) | {
            "published_local_seconds": local,
            "published_mpi_seconds": mpi,
            "published_seconds": local + mpi,
            "published_source": "FHE4DMM (2024), Table VI",
        }


def figure_1_rows(threads: int) -> Iterator[Row]:
    """Fig. 1: 512³ in 4³ blocks on one machine and on several; 512×512 · 512×32 in one block product a rank, on two
    grids that pass as many ciphertexts on."""
    shape, blocks = Cuboid(512, 512, 512), Cuboid(4, 4, 4)
    found = _modelled("Square", shape, (1, FIGURE_1), threads)
    alone = found["baseline", 1]
    for count in (1, FIGURE_1):
        one = found["baseline", count]
        yield _row("Fig. 1(a)", "baseline", count, one, threads) | {
            "speedup": alone.total / one.total,
            "published_seconds": FIGURE_1A_SECONDS if count == 1 else None,
            "published_speedup": None if count == 1 else FIGURE_1A_SPEEDUP,
            "published_source": "FHE4DMM (2024), Fig. 1(a)",
        }
        assert one.blocks == blocks
    block, program = _block_product(shape, threads, None)
    longer = shape.m // block.m  # ciphertexts and keys are as many as an edge is long
    larger = 2 * slots_needed(shape) // program.plan.parameters.n
    yield row(
        BENCH,
        "Fig. 1(a), one block",
        algorithm=FheMm.name,
        threads=threads,
        peak_bytes=program.plan.peak_bytes * longer * larger,
        published_peak_bytes=FIGURE_1A_BYTES,
        published_source="FHE4DMM (2024), Fig. 1(a)",
    )
    slim = Cuboid(512, 32, 512)
    for grid in FIGURE_1B_GRIDS:
        block, program = _block_product(slim.parts(grid), threads, None)
        price = prices(block, program.plan.parameters, machine_of_predictions().rates, threads)
        own, total = Cuboid(1, 1, 1), program.plan.counts
        yield row(
            BENCH,
            f"Fig. 1(b) {'x'.join(map(str, grid))}",
            algorithm=f"{FheMm.name} t3d",
            threads=threads,
            ranks=grid.volume,
            grid="x".join(map(str, grid)),
            rotations=total.rotations,
            products=total.products,
            local_seconds=sum((*price.aligned, *price.shifted, price.product, price.finish)),
            mpi_seconds=seconds(collectives_3d(own, grid, price.sent.fresh), PAPERS),
            passed_ciphertexts=moved_3d(grid, grid),
            published_source="FHE4DMM (2024), Fig. 1(b)",
        )


def weak_scaling_row(name: str, eight: Modelled, threads: int, modulus: int | None) -> Row:
    """A square product on one rank, and one of twice its lengths on eight: as much for each."""
    m, n, k = class_shape(name)
    alone = _modelled(name, Cuboid(m // 2, n // 2, k // 2), (1,), threads, modulus)["4d", 1]
    return row(
        BENCH,
        f"Fig. 8 {name}, weak scaling",
        algorithm=f"{FheMm.name} 4d",
        threads=threads,
        ranks=WEAK,
        seconds=eight.total,
        alone_seconds=alone.total,
        efficiency=alone.total / eight.total,
        published_claim="similar execution time",
        published_source=PUBLISHED,
    )


def _modelled(
    name: str, shape: Cuboid, ranks: Sequence[int], threads: int, modulus: int | None = None
) -> dict[tuple[str, int], Modelled]:
    _core.set_threads(threads)
    block, program = _block_product(shape, threads, modulus)
    price = prices(block, program.plan.parameters, machine_of_predictions().rates, threads)
    return {
        (method, count): modelled(shape, SLOTS, count, method, price, PAPERS)
        for method in METHODS
        for count in ranks
    }


def _block_product(shape: Cuboid, threads: int, modulus: int | None) -> tuple[Cuboid, Program]:
    """A block of a shape at its published size, and the program of the product of two."""
    block = shape.parts(optimal_blocks(shape, SLOTS))
    options = {"ring_degree": 2 * SLOTS, "memory_budget": UNLIMITED, "key_budget": UNLIMITED}
    return block, program_of(block, Cuboid(1, 1, 1), threads, modulus, **options)


def _row(case: str, method: str, ranks: int, one: Modelled, threads: int) -> Row:
    return row(
        BENCH,
        case,
        algorithm=f"{FheMm.name} {method}",
        threads=threads,
        ranks=ranks,
        seconds=one.total,
        local_seconds=one.local,
        mpi_seconds=one.mpi,
        hidden_mpi_seconds=one.hidden,
        blocks="x".join(map(str, one.blocks)),
        grid="x".join(map(str, one.grid)),
        movements=float(one.work.left_moves + one.work.right_moves),
        products=one.work.products,
        held_bytes=one.nbytes,
    )


def _figures(name: str, found: Mapping[tuple[str, int], Modelled], threads: int) -> Iterator[Row]:
    """The figures of Fig. 7 to 9 for a class."""
    first, last = FIGURE_7
    over = [
        found["baseline", count].total / found["4d", count].total
        for count in MODEL_RANKS
        if first <= count <= last
    ]
    most, mean = SPEEDUPS[name]
    yield row(
        BENCH,
        f"Fig. 7 {name}",
        algorithm=f"{FheMm.name} 4d",
        threads=threads,
        speedup_over_baseline=max(over),
        mean_speedup_over_baseline=sum(over) / len(over),
        published_speedup_over_baseline=most,
        published_mean_speedup_over_baseline=mean,
        published_source=PUBLISHED,
    )
    if name in LARGE_NETWORKS:
        least = min(
            found["4d", 1].total / (count * found["4d", count].total)
            for count in MODEL_RANKS
            if count <= FIGURE_8
        )
        yield row(
            BENCH,
            f"Fig. 8 {name}",
            algorithm=f"{FheMm.name} 4d",
            threads=threads,
            ranks=FIGURE_8,
            efficiency=least,
            linear=least >= LINEAR,
            published_claim="nearly linear speedup to 64 machines",
            published_source=PUBLISHED,
        )
    for method in METHODS:
        one = found[method, FIGURE_9]
        yield row(
            BENCH,
            f"Fig. 9 {name}",
            algorithm=f"{FheMm.name} {method}",
            threads=threads,
            ranks=FIGURE_9,
            movements=float(one.work.left_moves + one.work.right_moves),
            rotate_align_part=one.aligned / one.total,
            shift_by_step_part=one.shifted / one.total,
            products_part=one.products / one.total,
            mpi_part=one.mpi / one.total,
            times_baseline=one.total / found["baseline", FIGURE_9].total,
        )
