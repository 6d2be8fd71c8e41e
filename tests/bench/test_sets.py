"""FAME's parameter sets."""

from __future__ import annotations

import pytest

from cipherblas.crypto.security import max_log_qp
from cipherblas_bench.sets import FAME_SETS


@pytest.mark.parametrize("name", FAME_SETS)
def test_sets_are_secure_and_have_the_published_numbers(name: str) -> None:
    member = FAME_SETS[name]
    params = member.parameters()
    assert params.security >= 128
    assert params.log_q + params.log_p <= max_log_qp(member.n, 128)
    assert params.log_q + params.log_p == pytest.approx(member.log_qp, abs=0.5)
    assert params.dnum == {"A": 5, "B": 2, "C": 3}[name]
    assert len(member.shapes) == 4
    assert member.digits == {"A": 1, "B": 2, "C": 3}[name]  # β of Table II; of set A see `FameSet`
