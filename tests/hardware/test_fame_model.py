"""FAME's accelerator as a model: sizes of Tables IV and V, latencies, what other machines would change."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.rlwe.fast_memory import FastMemory
from cipherblas_bench.sets import FAME_SETS, Shape
from cipherblas_hardware import (
    CONFIGURATIONS,
    Accelerator,
    Configuration,
    Program,
    published_program,
    run_fame_model,
)
from cipherblas_hardware.model.configuration import WORD_BYTES, scratchpad_bytes
from cipherblas_hardware.model.fame_model import best_cpu
from cipherblas_hardware.model.operations import published_ring
from tests.support.fame import PUBLISHED_TRANSFORMS, ROTATIONS
from tests.support.scripts import script

KIB, MIB = 2**10, 2**20
TYPES = range(4)  # of shapes: I to IV
PAGES = script("measured_pages")  # which the next one imports
PICTURE = script("draw_accelerator")


@functools.cache
def program(name: str, shape: Shape, once: bool = False) -> Program:
    return published_program(shape, published_ring(FAME_SETS[name]), relinearise_once=once)


def seconds(name: str, shape: Shape, once: bool = False, **changes: Any) -> float:
    found = program(name, shape, once)
    return Accelerator(replace(CONFIGURATIONS[name], **changes), found.ring).latency(found).seconds


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """All products and variants, beside what was measured on a CPU."""
    return list(PICTURE.predicted())


# --- sizes ---


@pytest.mark.parametrize(
    ("name", "limbs", "printed"), [("A", 16, 864 * KIB), ("B", 36, 7.6 * MIB), ("C", 72, 30.4 * MIB)]
)
def test_scratchpads_of_table_iv(name: str, limbs: int, printed: float) -> None:
    """Four banks of 4, 9 and 18 limbs; Eq. 24 needs 12, 35 and 68."""
    member = FAME_SETS[name]
    limb = member.n * WORD_BYTES
    size = scratchpad_bytes(member.n, member.limbs, member.digits)
    assert size == limbs * limb
    assert size == pytest.approx(printed, rel=0.005)
    need = FastMemory.of(member.n, member.limbs, member.special_limbs, member.digits, WORD_BYTES).by_limbs
    assert need == {"A": 12, "B": 35, "C": 68}[name] * limb < size
    assert limb == {"A": 54, "B": 216, "C": 432}[name] * KIB
    configuration = CONFIGURATIONS[name]
    assert configuration.scratchpad_of(member.n, member.limbs, member.digits) == size


@pytest.mark.parametrize("name", FAME_SETS)
def test_dsp_of_table_v(name: str) -> None:
    assert CONFIGURATIONS[name].dsp == 5376


# --- operations ---


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", FAME_SETS)
def test_operations_are_those_of_the_dry_run(name: str, kind: int) -> None:
    """Every transform and product by itself; together they are what the run counts."""
    shape = FAME_SETS[name].shapes[kind]
    found = program(name, shape)
    k = shape[1]
    assert len(found.left) == len(found.right) == k + 1
    assert len(found.products) == found.counts.products == found.counts.relinearisations == k
    assert found.counts.rotations == ROTATIONS[name][kind]
    assert found.counts.linear_transforms == PUBLISHED_TRANSFORMS[name][kind]
    operations = (*found.left, *found.right, *found.products)
    assert sum(one.counts.rotations for one in operations) == found.counts.rotations
    assert sum(one.counts.ntt_limbs for one in operations) == found.counts.ntt_limbs
    assert sum(one.counts.key_bytes_read for one in operations) == found.counts.key_bytes_read
    assert {one.limbs for one in operations} == {len(found.ring.q) - level for level in range(3)}
    assert found.counts.hoistings >= found.counts.relinearisations + 2 * k


def test_products_that_are_relinearised_together() -> None:
    found = program("A", (64, 64, 64), True)
    assert (found.counts.relinearisations, found.counts.products) == (1, 64)
    assert found.counts.rotations == program("A", (64, 64, 64)).counts.rotations


def test_cycles_of_a_transform_by_hand() -> None:
    """ε^1 of 160³ at set C: 31 limbs, 3 digits, 2 rotations; ModUp, KeyIP, DiagIP, ModDown."""
    found = program("C", (160, 160, 160))
    accelerator = Accelerator(CONFIGURATIONS["C"], found.ring)
    one = found.left[2]
    limbs, special, digits, extended = 31, 12, 3, 43
    assert (one.limbs, one.counts.rotations, one.counts.plain_products) == (limbs, 2, 2)
    ntts = digits * extended + 2 * extended
    mod_up = sum(size * (extended - size) for size in (11, 11, 9))
    rotations = 2 * (2 * digits * extended + limbs + 2 * extended)
    mod_down = 2 * (special + 1 + 1) * (limbs - 1)
    passes = 16 * ntts + mod_up + rotations + mod_down
    load = accelerator.load(one)
    assert load.cycles == passes * (1 << 16) / 256
    keys, diagonals = 2 * 2 * digits * extended, 2 * extended
    ciphertexts = 2 * limbs + 2 * (limbs - 1) + 4 * (special + 1)
    assert load.hbm_bytes == (keys + diagonals + ciphertexts) * 432 * KIB
    assert load.spilled_bytes == 0
    assert 50 * MIB < ciphertexts * 432 * KIB < 110 * MIB  # Section IV: "roughly a hundred MB"


# --- latencies ---


def test_160_cubed_at_set_c() -> None:
    """About three seconds (Section VI-B): within a quarter, with hidden transfers or not. Nothing is fitted."""
    shape = (160, 160, 160)
    assert CONFIGURATIONS["C"].ntt_stages == 1.0
    for overlapped in (True, False):
        assert seconds("C", shape, overlapped=overlapped) == pytest.approx(3.0, rel=0.25)
    assert seconds("B", (128, 128, 128)) == pytest.approx(0.3, rel=0.25)
    assert 4e-3 < seconds("A", (64, 64, 64)) < 6e-3


@pytest.mark.parametrize("name", FAME_SETS)
def test_shapes_with_equal_rows_and_inner_are_faster(name: str) -> None:
    """Types I and IV below II and III: ω^i has two diagonals where m = k."""
    first, second, third, fourth = (seconds(name, shape) for shape in FAME_SETS[name].shapes)
    assert max(first, fourth) < min(second, third)


def test_speedups_over_the_cpu(rows: list[dict[str, Any]]) -> None:
    """Highest for squares in each set, as published. Over all sets it is not highest at 160³ here: in the paper, whose
    CPU code was another one, it is."""
    published = [row for row in rows if row["variant"] == "as published"]
    assert len(published) == 12
    for name in FAME_SETS:
        of_set = {row["case"]: row["speedup"] for row in published if row["set"] == name}
        size = max(FAME_SETS[name].shapes)[0]
        assert max(of_set, key=lambda case: of_set[case]) == f"{size}x{size}x{size}"
    (last,) = (row for row in published if "published_seconds" in row)
    assert (last["case"], last["published_seconds"], last["published_speedup"]) == (
        "160x160x160",
        3.0,
        1337.0,
    )
    assert last["times_published"] == last["predicted_seconds"] / 3.0


# --- other machines ---


@pytest.mark.parametrize("name", FAME_SETS)
def test_faster_parts_never_slow_down(name: str) -> None:
    member = FAME_SETS[name]
    for shape in member.shapes:
        usual, base = seconds(name, shape), CONFIGURATIONS[name]
        twice, eighth = (seconds(name, shape, hbm_bytes=factor * base.hbm_bytes) for factor in (2, 1 / 8))
        assert twice <= usual <= eighth
        assert seconds(name, shape, pes=4) < usual < seconds(name, shape, mhz=base.mhz / 2)
        assert seconds(name, shape, lanes=2 * base.lanes) < usual < seconds(name, shape, overlapped=False)
        assert seconds(name, shape, ntt_stages=2.0) < usual
        assert seconds(name, shape, once=True) < usual <= seconds(name, shape, order="rotation")


def test_clock_and_lanes_scale_what_does_not_wait() -> None:
    shape = (64, 64, 64)
    usual = seconds("A", shape, hbm_bytes=1e15)
    assert seconds("A", shape, hbm_bytes=1e15, lanes=256) == pytest.approx(usual / 2)
    assert seconds("A", shape, hbm_bytes=1e15, mhz=175.0) == pytest.approx(usual * 2)
    assert seconds("A", shape, hbm_bytes=1e15, pes=4) == pytest.approx(usual / 2)


def test_exact_conversions_by_hand() -> None:
    """ε^1 of 160³ at set C: sources + targets of three digits, and of 13 dropped limbs of both components; and a
    product, whose relinearisation drops 12."""
    found = program("C", (160, 160, 160))
    usual = CONFIGURATIONS["C"]
    exact = Accelerator(replace(usual, centred=True), found.ring)
    limbs, special = 31, 12
    transform, product = found.left[2], found.products[1]
    passes = 3 * (limbs + special) + 2 * (limbs + special)
    assert exact.overflow_passes(transform) == passes
    assert exact.overflow_passes(product) == 3 * (30 + special) + 2 * (30 + special)
    more = exact.load(transform).cycles - Accelerator(usual, found.ring).load(transform).cycles
    assert more == passes * (1 << 16) / 256
    assert exact.load(transform).hbm_bytes == Accelerator(usual, found.ring).load(transform).hbm_bytes


def test_twiddles_by_hand() -> None:
    """Two tables for each limb modulo Q·P."""
    found = program("C", (160, 160, 160))
    usual = CONFIGURATIONS["C"]
    streamed = Accelerator(replace(usual, twiddles=True), found.ring)
    transform = found.left[2]
    more = streamed.load(transform).hbm_bytes - Accelerator(usual, found.ring).load(transform).hbm_bytes
    assert more == 2 * (31 + 12) * 432 * KIB
    assert streamed.load(transform).cycles == Accelerator(usual, found.ring).load(transform).cycles


def test_what_is_not_published_costs_a_few_percent(rows: list[dict[str, Any]]) -> None:
    by = {(row["case"], row["variant"]): row for row in rows}
    for case, variant in by:
        if variant == "as simulated":
            ratio = by[case, variant]["predicted_seconds"] / by[case, "as published"]["predicted_seconds"]
            assert 1.0 < ratio < 1.05


def test_two_elements_run_both_operands_at_once() -> None:
    """One element takes as long as both transforms together; squares have equal ones, but for σ and τ's diagonals."""
    found = program("A", (64, 64, 64))
    base = replace(CONFIGURATIONS["A"], hbm_bytes=math.inf)
    accelerators = [Accelerator(replace(base, pes=pes), found.ring) for pes in (1, 2)]
    one, two = (accelerator.latency(found) for accelerator in accelerators)
    load = accelerators[0].load
    assert one.cycles == sum(load(each).cycles for each in (*found.left, *found.right, *found.products))
    pairs = zip(found.left, found.right, strict=True)
    together = sum(max(load(left).cycles, load(right).cycles) for left, right in pairs)
    assert two.cycles == together + sum(load(each).cycles for each in found.products) / 2


def test_a_small_scratchpad_spills() -> None:
    """What MO-HLT lacks is read for every limb that is made; with all it needs nothing is."""
    found = program("C", (160, 160, 160))
    need = 68 * 432 * KIB
    enough, half = (
        Accelerator(replace(CONFIGURATIONS["C"], scratchpad=size), found.ring).latency(found)
        for size in (need, need / 2)
    )
    assert enough.spilled_bytes == 0 < half.spilled_bytes
    assert half.hbm_bytes == enough.hbm_bytes + half.spilled_bytes
    assert half.seconds > enough.seconds
    big = replace(CONFIGURATIONS["C"], order="rotation", scratchpad=2 * 255 * MIB)
    assert Accelerator(big, found.ring).latency(found).spilled_bytes == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pes": 3}, "1 or an even number"),
        ({"pes": 0}, "1 or an even number"),
        ({"lanes": 0}, "above 0"),
        ({"hbm_bytes": -1.0}, "above 0"),
        ({"ntt_stages": math.nan}, "above 0"),
        ({"scratchpad": -1.0}, "at least 0 bytes"),
        ({"order": "both"}, "limb | rotation"),
    ],
)
def test_machines_that_cannot_be(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError) as raised:
        Configuration(**{"name": "x", "pes": 1, "lanes": 8, "mhz": 100.0, **change})
    assert raised.value.expected is not None and said in raised.value.expected


# --- rows ---


def test_rows_of_variants(rows: list[dict[str, Any]]) -> None:
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    assert variants[0] == "as published" and {"twice the HBM", "four PEs"} <= set(variants)
    assert len(rows) == 12 * len(variants)
    for row in rows:
        assert row["predicted_seconds"] >= row["compute_seconds"] > 0
        assert row["waiting_seconds"] == pytest.approx(row["predicted_seconds"] - row["compute_seconds"])
        assert ("note" in row) == (row["accelerator"]["dsp"] > 9024) == row["variant"].startswith("four PEs")
        json.dumps(row, allow_nan=False)


def test_other_shapes_and_sets() -> None:
    (row,) = run_fame_model(sets=["A"], shapes=[(10, 20, 30)], changes={"mhz": 100.0})
    assert (row["case"], row["variant"], row["accelerator"]["mhz"]) == ("10x20x30", "as given", 100.0)
    assert "published_seconds" not in row and "cpu_seconds" not in row and "times_faster" not in row
    with pytest.raises(ParameterError, match=r"expected A \| B \| C, got D"):
        next(run_fame_model(sets=["D"]))
    with pytest.raises(ShapeError, match="does not fit"):
        next(run_fame_model(sets=["A"], shapes=[(100, 100, 100)]))


def test_best_on_a_cpu() -> None:
    """By predictions where one method was not run, ours left out."""
    found = best_cpu(
        [
            {"case": "a", "algorithm": "fame", "seconds": 1.0, "predicted_seconds": 1.0},
            {"case": "a", "algorithm": "e2dm", "seconds": 2.0, "predicted_seconds": 4.0},
            {"case": "a", "algorithm": "hegmm", "predicted_seconds": 3.0, "estimated": True},
            {"case": "b", "algorithm": "e2dm", "seconds": 2.0, "predicted_seconds": 4.0},
            {"case": "b", "algorithm": "hegmm", "seconds": 5.0, "predicted_seconds": 3.0},
        ]
    )
    assert found == {"a": ("hegmm", 3.0, True), "b": ("e2dm", 2.0, False)}
    with pytest.raises(ParameterError, match="is none of"):
        best_cpu([{"case": "a"}])
    with pytest.raises(ParameterError, match="has no seconds"):
        best_cpu([{"case": "a", "algorithm": "e2dm"}])


def test_the_page_is_what_is_predicted() -> None:
    (((page, name), text),) = PICTURE.tables().items()
    assert PAGES.stored("draw_accelerator", page, name) == text
