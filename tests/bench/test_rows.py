"""Each benchmark runs, its results are right, and its rows have the promised fields. Nothing here asks how fast."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
import cipherblas_bench as bench
from cipherblas import _core
from cipherblas.report import machine_line
from cipherblas_bench import cc, harness, primitives
from cipherblas_bench.harness import Row
from cipherblas_bench.pc import AlikePublicCase
from cipherblas_bench.sets import FAME_SETS
from tests.support.bench_fields import check_fields
from tests.support.key_samples import moduli, residue_bits

pytestmark = pytest.mark.usefixtures("fewest_runs")


def check(found: Row, **expected: Any) -> None:
    """Its fields are those of the page on benchmarks, the row is JSON, the spread is a spread."""
    printed = json.loads(bench.to_json(found))
    assert {name: value for name, value in printed.items() if value is not None} == found
    check_fields([found])
    assert 0 < found["seconds_min"] <= found["seconds"] <= found["seconds_max"]
    assert found["runs"] >= 1
    assert found["threads"] == 1
    assert found["machine"] == machine_line()
    assert {name: found[name] for name in expected} == expected


def test_primitives_are_right() -> None:
    rows = list(bench.run_primitives(ring_degrees=[1 << 13], cases=primitives.CASES, budget=0.0))
    assert [found["case"] for found in rows] == list(primitives.CASES)
    for found in rows:
        check(found, bench="primitives")
        assert found["params"]["n"] == 1 << 13
        assert (found["params"]["limbs"], found["params"]["dnum"], found["params"]["security"]) == (4, 4, 128)
        # Largest source: public-key noise, 3.2·sqrt(4N/3)·sqrt(N/2)/2^40 = 2e-8 a slot, times 6 for the tail,
        # twice that in a product of two. Key switching and rescaling add less.
        assert found["error"] < 5e-7
        assert "peer" not in found
        assert "speedup" not in found
        assert set(harness.REQUIRED) - set(found) <= {"algorithm"}
    by_case = {found["case"]: found for found in rows}
    params = next(setting for setting in primitives.SETTINGS if setting.n == 1 << 13).parameters()
    bits = sum(residue_bits(moduli(params, 4)))
    assert by_case["rotate"]["key_bytes"] == 4 * 2 * (1 << 13) * bits // 8
    assert [name for name, found in by_case.items() if found["rotations"]] == ["rotate", "rotate_hoisted"]
    assert [name for name, found in by_case.items() if found["products"]] == ["multiply"]
    ciphertext = 2 * 4 * (1 << 13) * 8
    assert by_case["encrypt"]["upload_bytes"] == ciphertext
    assert ciphertext // 2 < by_case["encrypt_symmetric"]["upload_bytes"] < ciphertext // 2 + 100


def test_primitives_modulo_t_stand_beside_those_of_real_numbers() -> None:
    for found in bench.run_modular_primitives(cases=["rescale", "decrypt"], budget=0.0):
        check(found, bench="primitives", error=0.0)
        assert found["modular_over_float"] == found["seconds"] / found["float_seconds"] > 0


def test_the_ntt_follows_when_no_case_is_chosen() -> None:
    rows = list(bench.run_primitives(ring_degrees=[1 << 12], budget=0.0))
    assert [found["case"] for found in rows] == ["ntt per limb"] * len(_core.isas())
    assert {found["error"] for found in rows} == {0.0}


def test_the_two_orders_agree_and_are_right() -> None:
    rows = list(bench.run_linear_transform(sets=["A"], diagonals=6, budget=0.0))
    assert [(found["order"], found.get("baby_steps")) for found in rows] == [
        ("limb", None), ("rotation", None), ("limb", 4), ("rotation", 4),
    ]  # fmt: skip
    for found in rows:
        check(found, bench="linear-transform")
        # Key noise at P near q: 3.2·sqrt(5·N/12)·sqrt(N/2)/2^31.7 = 4e-6 a rotation; 6 of them, tail 6.
        assert found["error"] < 6 * 6 * 4e-6
        assert found["coarse_over_limb"] > 0
        assert set(harness.REQUIRED) <= set(found)
    assert [found["rotations"] for found in rows] == [5, 5, 4, 4]
    assert {(found["products"], found["upload_bytes"]) for found in rows} == {(6, 5 * (1 << 13) * 8 + 32)}


@pytest.mark.encrypted
@pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")
def test_bootstrapping_keeps_what_it_says() -> None:
    """On a toy ring."""
    from cipherblas.methods.bootstrapping.refresh import MANY
    from cipherblas.planner.rings.modulus_chains import TWO_ROUNDS, Profile, chain
    from cipherblas_bench import bootstrap

    params = chain(1 << 9, 3, 4).parameters(0, insecure=True)
    for real in (True, False):
        ours = bootstrap.Refreshes(params, real)
        found = bootstrap.measured(ours, 1, 0.0, ciphertexts=3, in_a_row=2)
        check(found, bench="bootstrap", ciphertexts=3)
        assert found["levels_left"] == 3 and found["slots"] == 256
        assert found["predicted_bits"] <= found["precision_bits"] < 25
        assert found["error"] == pytest.approx(2.0 ** -found["precision_bits"])
        steps = [found[f"{step}_seconds"] for step in bootstrap.STEPS]
        assert min(steps) > 0 and max(steps) < found["seconds_max"]
        in_a_row = list(zip(found["predicted_bits_in_a_row"], found["bits_in_a_row"], strict=True))
        assert len(in_a_row) == 2 and all(predicted <= bits for predicted, bits in in_a_row)
        several = bootstrap.of_a_batch(ours, 3, 1, 0.0, found["seconds"])
        check(several, bench="bootstrap", batch=3, ciphertexts=6)
        assert several["predicted_bits"] <= several["precision_bits"]
        assert several["share_of_single"] == pytest.approx(several["seconds"] / 3 / found["seconds"])
        if real:
            sharing = bootstrap.SharedRefreshes(ours, 4)
            shared = bootstrap.of_a_batch(ours, 4, 1, 0.0, found["seconds"], sharing)
            check(shared, bench="bootstrap", batch=4, ciphertexts=8, secrets=3)
            assert shared["predicted_bits"] <= shared["precision_bits"]
            assert shared["shared_key_bytes"] < shared["key_bytes"] and shared["keygen_seconds"] > 0
            grouped = bootstrap.of_a_batch(
                ours, 4, 1, 0.0, found["seconds"], bootstrap.SharedRefreshes(ours, 4, 1)
            )
            check(grouped, bench="bootstrap", batch=4, ciphertexts=8, secrets=1)
            assert grouped["shared_key_bytes"] < shared["shared_key_bytes"]
            conversions = [shared[f"{step}_seconds"] for step in bootstrap.CONVERSIONS]
            assert min(conversions) > 0 and max(conversions) < shared["seconds_max"]
    many = bootstrap.Refreshes(params, True, together=MANY)
    assert many.method.baby_steps > bootstrap.Refreshes(params, True, together=MANY - 1).method.baby_steps
    several = bootstrap.of_a_batch(many, MANY, 1, 0.0, found["seconds"])
    assert several["predicted_bits"] <= several["precision_bits"] < 25
    few = bootstrap.measured(bootstrap.Refreshes(params, True, 16, key_memory=1 << 20), 1, 0.0, ciphertexts=3)
    check(few, bench="bootstrap", ciphertexts=3, slots=16, key_memory_bytes=1 << 20)
    assert few["key_bytes"] > 1 << 20 and found["key_memory_bytes"] == found["key_bytes"]
    assert few["ntt_limbs"] < found["ntt_limbs"] and few["levels_left"] >= 3
    assert few["predicted_bits"] <= few["precision_bits"] < 25
    sines = chain(1 << 9, 8, 4, profile=Profile.of_sines(30.0)).parameters(0, insecure=True)
    relu = bootstrap.SinePolynomial.nearest(bootstrap.FUNCTIONS["relu"])
    assert relu.period == 5 and bootstrap.SinePolynomial.nearest(bootstrap.FUNCTIONS["identity"]).period > 5
    inside = bootstrap.Refreshes(sines, True, function=relu)
    row = bootstrap.measured(inside, 1, 0.0, ciphertexts=3)
    check(row, bench="bootstrap", ciphertexts=3, levels_left=1)
    assert row["predicted_bits"] <= row["precision_bits"] < 25 and 1e-3 < row["approximation"] < 1e-2
    pair = bootstrap.of_a_batch(inside, 2, 1, 0.0, row["seconds"])
    assert pair["predicted_bits"] <= pair["precision_bits"] < 25
    raised = bootstrap.Refreshes(chain(1 << 9, 3, 4, raised_first=True).parameters(0, insecure=True), True)
    row = bootstrap.measured(raised, 1, 0.0, ciphertexts=3)
    check(row, bench="bootstrap", ciphertexts=3, levels_left=3, algorithm="ModRaise first")
    assert row["predicted_bits"] <= row["precision_bits"] < found["precision_bits"]
    assert min(row[f"{step}_seconds"] for step in bootstrap.STEPS) > 0
    fine = bootstrap.Refreshes(
        chain(1 << 9, 4, 4, profile=TWO_ROUNDS).parameters(0, insecure=True), real=True, rounds=2
    )
    twice = bootstrap.measured(fine, 1, 0.0, ciphertexts=3)
    check(twice, bench="bootstrap", levels_left=3)
    assert 27 < twice["predicted_bits"] <= twice["precision_bits"]
    several = bootstrap.of_a_batch(fine, 2, 1, 0.0, twice["seconds"])
    assert 27 < several["predicted_bits"] <= several["precision_bits"]
    with pytest.raises(ValueError, match="slots: expected a power of two from 2 to 16384, got 12"):
        next(bench.run_bootstrap(log_n=(15,), slots=12))
    with pytest.raises(ValueError, match="log_n"):
        next(bench.run_bootstrap(log_n=(14,)))
    for options in ({"complex_slots": True}, {"slots": 16}, {"rounds": 2}, {"batches": [3]}):
        with pytest.raises(ValueError, match="shared: expected all slots"):
            next(bench.run_bootstrap(log_n=(15,), shared=True, **options))
    with pytest.raises(ValueError, match="log_n: expected 16 beside a peer"):
        next(bench.run_bootstrap(log_n=(15,), peer="openfhe"))
    with pytest.raises(ValueError, match="peer_setting: expected precise or deep, got best"):
        next(bench.run_bootstrap(peer="openfhe", peer_setting="best"))
    with pytest.raises(ValueError, match="peer: expected openfhe, got seal"):
        next(bench.run_bootstrap(peer="seal"))


@pytest.mark.encrypted
@pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")
def test_products_inside_of_bootstrapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a toy ring: what is refreshed is the product; a product that does not fit is made
    some columns at a time."""
    from cipherblas.planner.rings.modulus_chains import chain
    from cipherblas_bench import mambo

    params = chain(1 << 9, 3, 4).parameters(0, insecure=True)
    ours = mambo.Fused(params, stages=2, sampled=4)
    single, pair = mambo.by_itself(params, 1), mambo.of_two(ours)
    found = mambo.measured(ours, 12, 1, single, pair)
    check(found, bench="mambo", case="12x12 · 12x512", sampled=4)
    assert found["predicted_bits"] <= found["precision_bits"] < 25
    assert 0 < found["product_seconds"] < found["seconds"]
    assert found["throughput_of_single"] == pytest.approx(single / found["seconds"])
    monkeypatch.setattr(mambo, "MEMORY", 12 * 512 * 32)
    part = mambo.measured(ours, 12, 1, single, pair)
    check(part, bench="mambo", sampled=4)
    assert part["predicted_bits"] <= part["precision_bits"] < 25
    with pytest.raises(ValueError, match="log_n: expected one of"):
        next(bench.run_mambo(log_n=14))


def test_ntt_names_its_instruction_set() -> None:
    rows = list(bench.run_ntt(isas=["scalar"], ring_degrees=[1 << 12], budget=0.0))
    assert len(rows) == 1
    check(rows[0], bench="primitives", case="ntt per limb", algorithm="scalar", error=0.0)


def test_plain_products_are_right_and_have_a_yardstick() -> None:
    rows = list(bench.run_gemm([(33, 20, 41)], bits=50, budget=0.0))
    names = [found["algorithm"] for found in rows]
    assert names[0] == "float64"
    beside = {"bytes 15", "small bytes"} if "bytes" in _core.gemm_paths() else set()
    beside |= {"operands 64"} if "bytes" in _core.gemm_paths() else set()
    assert beside | {"blas", "blas 22", "small exact", "small rounded", "scalar"} <= set(names)
    for found in rows:
        check(found, bench="gemm", case="33x20x41")
        assert found["gemm_seconds"] == rows[0]["seconds"]
        assert found["times_gemm"] == found["seconds"] / rows[0]["seconds"]
        assert found.get("error", 0.0) == 0.0 or found["algorithm"] in ("small rounded", "operands 64")
        assert "OpenBLAS" in found["blas"]
    assert [found["params"]["logq"] for found in rows if found["algorithm"] in ("blas", "blas 22")] == [
        50,
        22,
    ]
    assert json.loads(bench.to_json(rows[0]))["params"] is None


def test_transposition_is_right() -> None:
    policies = ("fast", "light", "binary")
    rows = list(bench.run_transpose([(20, 32)], policies=policies, budget=0.0))
    assert [found["algorithm"] for found in rows] == list(policies)
    for found, keys, switches in zip(rows, (31, 10, 5), (1, 2, 2.5), strict=True):
        check(found, bench="transpose", case="20x32", keys=keys, key_bytes=keys * 2 * 2 * (1 << 12) * 50 // 8)
        # d rows' switches of deviation 61 (cpp/rlwe/row_switch.h at N = 2^12, P near q), and fresh noise 3.2.
        assert found["error"] < 7 * (32 * switches * 61**2 + 3.2**2) ** 0.5 / 2**40
        assert found["params"]["security"] == 128
        assert found["peak_bytes"] > found["key_bytes"]
        if found["algorithm"] != "light":  # which has fewer than 2·d
            assert found["rotations"] == {"fast": 31, "binary": 32 * 5 // 2}[found["algorithm"]]
        assert 31 <= found["rotations"] <= 32 * switches
        assert found["upload_bytes"] == 20 * 32 * 8 + 32


def test_product_is_right() -> None:
    rows = list(bench.run_cc([(5, 3, 4)], algorithm="outer-product", budget=0.0))
    assert len(rows) == 1
    check(rows[0], bench="cc", case="5x3x4", algorithm="outer-product", rotations=0)
    assert rows[0]["error"] < 1e-4 * 3
    assert rows[0]["products"] > 0
    assert rows[0]["upload_bytes"] > 0
    for stage in ("plan_seconds", "keygen_seconds", "encrypt_seconds", "expand_seconds", "decrypt_seconds"):
        assert rows[0][stage] >= 0


def test_products_modulo_t_stand_beside_the_float_form() -> None:
    rows = {
        "cc": next(bench.run_cc([(5, 3, 4)], modulus=65537, budget=0.0)),
        "pc": next(bench.run_pc([(5, 3, 4)], modulus=65537, dtypes=["int16"], budget=0.0)),
    }
    for name, found in rows.items():
        check(found, bench=name, case="5x3x4", error=0.0, modulus=65537)
        assert found["modular_over_float"] == found["seconds"] / found["float_seconds"] > 0
    with pytest.raises(ValueError, match="modulus"):
        next(bench.run_cc([(5, 3, 4)], modulus=65537, exact="int8"))
    with pytest.raises(ValueError, match="modulus"):
        next(bench.run_pc([(5, 3, 4)], modulus=65537, exact=True))


@pytest.mark.parametrize("dtype", ["int16"])
def test_exact_products_stand_beside_the_float_form(dtype: str) -> None:
    rows = [
        next(bench.run_cc([(5, 3, 4)], exact=dtype, budget=0.0)),
        next(bench.run_pc([(5, 3, 4)], exact=True, dtypes=[dtype], budget=0.0)),
    ]
    for name, found in zip(("cc", "pc"), rows, strict=True):
        check(found, bench=name, case="5x3x4", error=0.0, exact=True, dtype=dtype)
        assert found["exact_over_float"] == found["seconds"] / found["float_seconds"] > 0
        assert found["exact_over_same_error"] == found["seconds"] / found["same_error_seconds"] > 0
        assert found["float_params"]["logq"] <= found["same_error_params"]["logq"]
        assert found["float_params"]["logq"] <= found["params"]["logq"]
        assert 0.1 < found["predicted_error"] < 0.5


def test_what_is_compared_has_the_error_of_exact_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    case = type("Alike", (AlikePublicCase,), {"error": 0.3, "fixed": False})((4, 5, 6), {})
    assert case.program.plan.error <= 0.3 and case.right.dtype == np.float64
    case.check()
    monkeypatch.setattr(case.client, "decrypt", lambda _: case.left.astype(float) @ case.right + 0.31)
    with pytest.raises(harness.MeasurementError, match=r"off by 0\.31, where 0\.3 was asked for"):
        case.check()


def test_a_product_that_is_not_exact_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cb.Program, "whole", lambda _, each: [np.rint(one).astype(np.int64) + 1 for one in each[0]]
    )
    with pytest.raises(harness.MeasurementError, match="differs from NumPy's"):
        next(bench.run_cc([(2, 2, 2)], exact="int8", budget=0.0))


def test_both_loop_orders_share_a_program() -> None:
    rows = list(
        cc.product_rows(
            (4, 3, 5), None, None, 1, 0.0, {"algorithm": "fame", "threads": 1}, ("limb", "rotation")
        )
    )
    assert len(rows) == 2
    for found in rows:
        check(found, bench="cc", algorithm="fame")
        assert found["error"] < 1e-4 * 3
    assert rows[0]["rotations"] == rows[1]["rotations"] > 0
    assert rows[0]["key_bytes"] == rows[1]["key_bytes"]


def test_the_suite_is_measured_in_both_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    member = replace(FAME_SETS["A"], shapes=((8, 8, 4),))
    monkeypatch.setattr(cc, "FAME_SETS", {"A": member})
    rows = list(bench.run_cc(suite="fame", budget=0.0))
    assert [found["order"] for found in rows] == ["limb", "rotation"]
    for found in rows:
        check(found, bench="cc", case="8x8x4", algorithm="fame", set="A")
        assert found["params"]["n"] == 1 << 13 and found["params"]["limbs"] == 5
        assert found["coarse_over_limb"] == rows[1]["seconds"] / rows[0]["seconds"]


def test_two_products_in_a_row_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cc, "FAME_SETS", {"A": replace(FAME_SETS["A"], shapes=((8, 8, 8),))})
    (found,) = bench.run_cc(suite="fame", chain=True, budget=0.0)
    check(found, bench="cc", case="8x8x8, two in a row", algorithm="fame", set="A")
    assert found["error"] <= found["predicted_error"] < 1
    with pytest.raises(ValueError, match="chain: expected a suite"):
        next(bench.run_cc(chain=True))


def test_one_ciphertext_per_operand() -> None:
    found = next(bench.run_cc([(6, 6, 6)], one_ciphertext=True, budget=0.0))
    check(found, bench="cc", ciphertexts=2, one_ciphertext=True)
    assert found["error"] < 1e-4 * 6


def test_a_shape_beyond_the_peer_is_refused_before_any_work() -> None:
    with pytest.raises(bench.PeerError, match="at most 128, got 129"):
        next(bench.run_cc([(1, 129, 1)], peer="seal"))


def test_unknown_names_are_refused_before_any_work() -> None:
    with pytest.raises(ValueError, match="peer: expected one of seal, openfhe, got nobody"):
        next(bench.run_primitives(peer="nobody"))
    with pytest.raises(ValueError, match=r"cases: .* got transpose"):
        next(bench.run_primitives(cases=["transpose"]))
    with pytest.raises(ValueError, match="sets: expected some of A, B, C, got D"):
        next(bench.run_linear_transform(sets=["D"]))
    with pytest.raises(ValueError, match=r"instruction sets: .* got sse9"):
        next(bench.run_ntt(isas=["sse9"]))
    with pytest.raises(ValueError, match=r"ring degree: expected some of 4096, .*, got 100"):
        next(bench.run_ntt(ring_degrees=[100]))
    with pytest.raises(ValueError, match="ring degree: expected some of 8192, 32768, got 65536"):
        next(bench.run_primitives(peer="seal", ring_degrees=[1 << 16]))
    with pytest.raises(ValueError, match=r"kernel: expected Conv1 .*, got Conv9"):
        next(bench.run_nn_counts(["Conv9"]))
    with pytest.raises(ValueError, match="suite: expected neither algorithm nor order"):
        next(bench.run_cc(suite="fame", order="limb"))
    with pytest.raises(ValueError, match="bits: expected 4 to 50, got 51"):
        next(bench.run_gemm(bits=51))
    with pytest.raises(ValueError, match="policies: expected some of fast, light, binary, got slow"):
        next(bench.run_transpose(policies=["slow"]))
    with pytest.raises(ValueError, match="shape: expected 1 to 8192 rows and columns, got 1x8193"):
        next(bench.run_transpose([(1, 8193)]))
    with pytest.raises(ValueError, match="suite: expected fame, got lame"):
        next(bench.run_cc(suite="lame"))
    with pytest.raises(ValueError, match="exact: expected int8 or int16, got int32"):
        next(bench.run_cc(exact="int32"))
    with pytest.raises(ValueError, match="exact: expected neither suite, nor peer"):
        next(bench.run_cc(exact="int8", peer="seal"))
    with pytest.raises(ValueError, match=r"dtype: expected int8 \| int16, got float32"):
        next(bench.run_pc(exact=True, dtypes=["float32"]))
    with pytest.raises(ValueError, match="order: expected limb or rotation, got diagonal"):
        next(bench.run_cc(order="diagonal"))


def test_products_of_64_bits_have_no_key_and_no_wrong_entry() -> None:
    rows = list(bench.run_zn([1, 300], budget=0.0))
    check_fields(rows)
    for row, pairs in zip(rows, (1, 300), strict=True):
        assert row["case"].startswith(f"{pairs} pair") and row["error"] == row["key_bytes"] == 0
        assert row["products"] == row["plain_moduli"] and row["download_bytes"] > row["upload_bytes"]
    assert rows[0]["times_published"] < 1 and "published_seconds" not in rows[1]
    with pytest.raises(ValueError, match="expected 1 or more"):
        next(bench.run_zn([0]))
