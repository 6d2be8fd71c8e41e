"""What bounds an operation: counts that follow from the parameters, and sums that agree."""

from __future__ import annotations

import pytest

import cipherblas_bench as bench
from cipherblas_bench import roofline
from cipherblas_bench.primitives import SETTINGS
from tests.support.key_samples import moduli, residue_bits


def test_counts_and_sums() -> None:
    """N = 2^13, four limbs, a digit for each, one special prime."""
    n, limbs, hoisted = 1 << 13, 4, 8
    found = {row["case"]: row for row in bench.run_roofline(ring_degrees=[n], budget=0.0)}
    assert list(found) == list(roofline.CASES)
    digits_and_back = (
        limbs + limbs * limbs
    )  # inverse transforms of the source, and its digits at all other limbs
    mod_down = 2 * (
        1 + limbs
    )  # of either component: of the special limb, and what is subtracted of the others
    assert found["rotate"]["transforms_of_limbs"] == digits_and_back + mod_down
    assert found["rotate_hoisted"]["transforms_of_limbs"] == digits_and_back / hoisted + mod_down
    assert found["multiply"]["transforms_of_limbs"] == digits_and_back + mod_down
    assert found["rescale"]["transforms_of_limbs"] == 2 * limbs
    params = next(setting for setting in SETTINGS if setting.n == n).parameters()
    key = limbs * 2 * n * sum(residue_bits(moduli(params, limbs))) // 8
    ciphertext = 2 * limbs * n * 8
    assert found["rotate"]["streamed_bytes"] == key + 2 * ciphertext
    assert found["rotate_hoisted"]["streamed_bytes"] == round(key + ciphertext * (1 + 1 / hoisted))
    assert found["rescale"]["streamed_bytes"] == ciphertext + ciphertext * 3 // 4
    for row in found.values():
        parts = row["forward_seconds"] + row["inverse_seconds"] + row["mac_seconds"]
        assert row["compute_seconds"] == pytest.approx(parts)
        assert row["roofline_seconds"] == max(row["compute_seconds"], row["memory_seconds"])
        assert row[f"{row['limit']}_seconds"] == row["roofline_seconds"]
        assert row["times_roofline"] == pytest.approx(row["seconds_min"] / row["roofline_seconds"])
        assert 0 < row["times_sum"] <= row["times_roofline"]
        assert 0 <= row["huge_pages"] <= 1
        assert row["memory_seconds"] == pytest.approx(row["streamed_bytes"] / row["stream_rate"], rel=1e-6)
        assert row["error"] < 5e-7


def test_unknown_cases_and_ring_degrees_are_refused() -> None:
    with pytest.raises(ValueError, match="rotate, rotate_hoisted, multiply, rescale, got encode"):
        next(bench.run_roofline(cases=["encode"]))
    with pytest.raises(ValueError, match="8192, 32768, 65536, got 4096"):
        next(bench.run_roofline(ring_degrees=[4096]))
