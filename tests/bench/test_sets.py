"""FAME's parameter sets and cost model."""

from __future__ import annotations

import pytest

from cipherblas.bench.sets import FAME_SETS, fast_memory
from cipherblas.crypto.security import max_log_qp


def test_cost_model_gives_the_published_sizes() -> None:
    """Section III-B2 and Eq. 24 for set C: ciphertext 27 MB, product about 255 MB, MO-HLT about 29 MB (2^20)."""
    model = fast_memory(1 << 16, 32, 12, 3, word_bytes=1693 / 32 / 8)
    mebibytes = {name: value / 2**20 for name, value in model.items()}
    assert mebibytes["ciphertext"] == pytest.approx(27, abs=1)
    assert mebibytes["product"] == pytest.approx(255, rel=0.02)
    assert mebibytes["mo_hlt"] == pytest.approx(29, abs=1)


def test_cost_model_of_set_a() -> None:
    """Ciphertext 0.43 MB, product about 3.6 MB."""
    model = fast_memory(1 << 13, 4, 1, 1, word_bytes=218 / 4 / 8)
    assert model["ciphertext"] / 2**20 == pytest.approx(0.43, abs=0.01)
    assert model["product"] / 2**20 == pytest.approx(3.6, rel=0.05)


@pytest.mark.parametrize("name", FAME_SETS)
def test_sets_are_secure_and_have_the_published_numbers(name: str) -> None:
    member = FAME_SETS[name]
    params = member.parameters()
    assert params.security >= 128
    assert params.log_q + params.log_p <= max_log_qp(member.n, 128)
    assert params.log_q + params.log_p == pytest.approx(member.log_qp, abs=0.5)
    assert params.dnum == {"A": 5, "B": 2, "C": 3}[name]
    assert len(member.shapes) == 4
