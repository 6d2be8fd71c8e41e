"""The model of FHE4DMM's experiments: its classes and layouts, what ranks move, and what follows from that."""

from __future__ import annotations

from pathlib import Path

import pytest

from cipherblas.distributed.blocks import optimal_blocks
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.messages import Network
from cipherblas.planner.predict.machine import Machine
from cipherblas_bench import fhe4dmm, run_fhe4dmm
from cipherblas_bench.distributed import OnRanks
from cipherblas_bench.fhe4dmm_model import CLASSES, METHODS, SLOTS, class_shape, modelled, prices
from cipherblas_bench.sets import MODULUS_31_BITS

TABLE_5 = {
    "Square": ((2048, 2048, 2048), (16, 16, 16)),
    "Flat": ((16384, 16384, 16), (128, 128, 1)),
    "LargeM": ((1048576, 64, 16), (1024, 4, 1)),
    "Slim": ((16384, 16, 16384), (16, 1, 1024)),
}
SMALLER = {"Square": (4, 4, 4), "Flat": (4, 4, 1), "LargeM": (8, 4, 1), "Slim": (2, 1, 32)}
MOVED = {  # on 8 ranks by the baseline, 4D-S, 4D*, 4D and 4D-B
    "Square": (1024, 128, 64, 64, 64),
    "Flat": (4096, 96, 32, 32, 32),
    "LargeM": (1024, 132, 128.5, 128.5, 128.5),
    "Slim": (4096, 2176, 2176, 2176, 2176),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_those_of_table_5(name: str) -> None:
    shape, blocks = TABLE_5[name]
    assert class_shape(name) == shape
    assert optimal_blocks(shape, SLOTS) == blocks
    for slots in (256, 1024, 4096):
        assert optimal_blocks(class_shape(name, slots), slots) == SMALLER[name]


@pytest.mark.parametrize("name", CLASSES)
def test_classes_with_fewer_of_the_blocks_of_table_5(name: str) -> None:
    whole = TABLE_5[name][1]
    for slots, divided_by in ((256, 4), (4096, 4), (4096, 2), (1 << 14, 16), (1024, 1)):
        expected = tuple(length // divided_by if length > 4 else length for length in whole)
        assert optimal_blocks(class_shape(name, slots, divided_by), slots) == expected
    assert class_shape(name, SLOTS, 1) == class_shape(name)
    with pytest.raises(ValueError, match="divided_by"):
        class_shape(name, 4096, 3)


@pytest.mark.parametrize("slots", [64, 512, 1000])
def test_slots_that_there_are_not(slots: int) -> None:
    with pytest.raises(ValueError, match="power of four"):
        class_shape("Square", slots)


@pytest.fixture(scope="module")
def small() -> object:
    shape = class_shape("Square", 256)
    program = fhe4dmm.program_of(shape, optimal_blocks(shape, 256), 1)
    block = shape.parts(optimal_blocks(shape, 256))
    return program, prices(block, program.plan.parameters, Machine.usual().rates, 1)


def test_prices_add_up_to_the_plan(small: tuple[object, object]) -> None:
    """All of a product on one rank, but for the encoding of masks and what all blocks share."""
    program, price = small
    shape = class_shape("Square", 256)
    one = modelled(shape, 256, 1, "4d-s", price, Network(0.0, 0.0))  # type: ignore[arg-type]
    counts = program.plan.counts.copy()  # type: ignore[attr-defined]
    counts.mask_encodings = counts.encode_ntt_limbs = 0
    whole = Machine.usual().rates.seconds(counts, program.plan.parameters.n, 1)  # type: ignore[attr-defined]
    assert one.total == pytest.approx(whole, rel=0.05)
    assert one.mpi == 0


@pytest.mark.parametrize("name", CLASSES)
def test_movements_of_eight_ranks(name: str, small: tuple[object, object]) -> None:
    """Section VII-A: 128 of 4D-S become 64."""
    _, price = small
    shape = class_shape(name)
    found = {method: modelled(shape, SLOTS, 8, method, price, fhe4dmm.PAPERS) for method in METHODS}  # type: ignore[arg-type]
    for one, moved in zip(found.values(), MOVED[name], strict=True):
        assert one.work.left_moves + one.work.right_moves == moved
        assert one.local == one.aligned + one.shifted + one.products and one.total > one.local
    assert found["4d-s"].grid == found["4d*"].grid == found["baseline"].grid
    if name == "Square":
        assert found["baseline"].grid == (2, 2, 2) and found["4d"].grid == (1, 1, 8)
        assert found["4d"].nbytes == 352 * price.sent.fresh  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CLASSES)
def test_messages_that_go_while_a_rank_computes(name: str, small: tuple[object, object]) -> None:
    """No more than all of those that 4D gathers, and none where no time passes; the others are waited for."""
    _, price = small
    shape = class_shape(name)
    for ranks in (2, 8, 64, 256):
        one, slow, still = (
            modelled(shape, SLOTS, ranks, "4d*", price, Network(0.0, seconds))  # type: ignore[arg-type]
            for seconds in (1e-10, 1.0, 0.0)
        )
        together = one.mpi + one.hidden
        assert slow.mpi + slow.hidden == pytest.approx(together * 1e10)
        assert 0 <= one.hidden < together and still.mpi == still.hidden == 0
        assert slow.hidden <= slow.local * (1 + 1e-6)
        if one.grid.m == one.grid.n == 1:
            assert one.hidden == 0


def test_integers_modulo_t() -> None:
    """The parameters that one block product needs at the size of the paper, and a run whose every entry is right."""
    rows = list(run_fhe4dmm(["Slim"], [], modulus=MODULUS_31_BITS))
    (one,) = (row for row in rows if row["case"] == "Table V Slim")
    assert one["params"]["n"] == 1 << 15 and one["params"]["security"] == 128
    assert 31 * 3 < one["params"]["logq"] < one["published_params"]["logq"] == 503
    assert {"Slim model", "Table VI Slim"} <= {row["case"] for row in rows}


def test_a_product_of_integers_modulo_t_on_ranks(tmp_path: Path) -> None:
    shape = class_shape("Slim", 256)
    program = fhe4dmm.program_of(shape, optimal_blocks(shape, 256), 1, MODULUS_31_BITS)
    product = OnRanks(program, tmp_path, 1, 1)
    product.run(1, "--sharing", "4d-s")
    assert product.checked() == 0.0


def test_rows_of_the_model() -> None:
    rows = list(run_fhe4dmm(["Square", "Slim"], []))
    cases = {row["case"] for row in rows}
    assert {"Fig. 7 Square", "Fig. 8 Slim", "Fig. 9 Square", "Table VI Slim"} <= cases
    of = {row["case"]: row for row in rows if row["case"].startswith("Fig. 1(b)")}
    assert of["Fig. 1(b) 4x1x4"]["passed_ciphertexts"] == of["Fig. 1(b) 1x1x16"]["passed_ciphertexts"] == 48
    assert of["Fig. 1(b) 4x1x4"]["rotations"] > 2 * of["Fig. 1(b) 1x1x16"]["rotations"]
    (several,) = (row for row in rows if row["case"] == "Fig. 1(a)" and row["ranks"] > 1)
    assert 15 < several["speedup"] < several["ranks"]
    (whole,) = (row for row in rows if row["case"] == "Fig. 1(a), one block")
    assert whole["peak_bytes"] > 2 * 512 * 2 * 8 * (1 << 19)  # all shifted blocks of a limb at once
    (weak,) = (row for row in rows if row["case"] == "Fig. 8 Square, weak scaling")
    assert (
        weak["efficiency"] == pytest.approx(weak["alone_seconds"] / weak["seconds"])
        and weak["efficiency"] > 0.9
    )
    for row in rows:
        if "model" in row["case"] and "efficiency" in row:
            assert 0 < row["efficiency"] <= 1 + 1e-9
            assert row["seconds"] == pytest.approx(row["local_seconds"] + row["mpi_seconds"])
        if row["case"] == "Square model" and row["algorithm"] == "fhe-mm 4d" and row["ranks"] >= 64:
            assert (
                0 < row["equation_7_seconds"] < row["equation_7_rounds_seconds"]
            )  # where ranks share blocks
        if row["case"].startswith("Fig. 9"):
            parts = ("rotate_align_part", "shift_by_step_part", "products_part", "mpi_part")
            assert sum(row[part] for part in parts) == pytest.approx(1)
    linear = {row["case"]: row["linear"] for row in rows if "linear" in row}
    assert linear["Fig. 8 Slim"] and linear["Fig. 8 Square"]
    (table,) = (row for row in rows if row["case"] == "Table VI Slim")
    assert Cuboid(*map(int, table["grid"].split("x"))) == (1, 1, 256)
    assert table["published_seconds"] == pytest.approx(76.1293)
