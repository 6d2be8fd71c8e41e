"""Programs of features on ranks: each computes all of a product."""

from __future__ import annotations

import numpy as np
import pytest

import cipherblas as cb
from tests.distributed.test_slots_on_ranks import check_on_two_ranks
from tests.support.runs import toy


@pytest.mark.filterwarnings("ignore")
def test_products_with_clear_weights() -> None:
    first, second = (np.random.default_rng(3).uniform(-1, 1, shape) for shape in ((5, 7), (3, 5)))
    program = toy(
        lambda x: second @ cb.square(first @ x) + 1,
        **{"x": cb.secret(7, 2100), "form": "features", "precision": 1e-2},
    )
    check_on_two_ranks(program)
