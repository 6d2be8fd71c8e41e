"""Data far from zero: a scale that is too large is refused with what makes it smaller, and that is planned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import Parties, toy

TOY: dict[str, Any] = {"x": cb.secret(64, 3, bound=100001), "error": 1e-5, "ring_degree": 1 << 14}


def test_less_a_clear_number_variances_are_planned() -> None:
    with pytest.raises(cb.PrecisionError, match=r"cb.assume\(x - c, spread\)") as refused:
        toy(lambda x: x.var(axis=0), **TOY)
    assert "within a spread of a clear number c" in str(refused.value)
    program = toy(lambda x: cb.assume(x - 1e5, 0.5).var(axis=0), **TOY)
    values = 1e5 + np.random.default_rng(62).uniform(-0.5, 0.5, (64, 3))
    run = Parties(program).run({"x": values})
    assert np.abs(run.decrypted - values.var(axis=0)).max() <= program.plan.error <= 1e-5
