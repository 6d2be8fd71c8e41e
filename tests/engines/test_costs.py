"""What the table says that calls cost is what the kernels of the core do for them."""

from __future__ import annotations

import numpy as np
import pytest

from cipherblas.common import openblas
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.shapes import ShapeEngine
from tests.support.engine_calls import CASES, Cases
from tests.support.engine_draws import Draw, toy
from tests.support.kernels import counted

WHERE = [
    (cases, ring)
    for cases in CASES
    for ring in ("N=64", "N=64, unlike digits", "N=64, half words", "N=512 packed", "N=64, one digit")
    if ring in cases.rings and "beside" not in cases.names  # transforms of another ring are counted there
]


@pytest.mark.parametrize(("cases", "ring"), WHERE, ids=[f"{c.names[-1]}, {ring}" for c, ring in WHERE])
def test_costs_are_those_of_the_kernels(cases: Cases, ring: str) -> None:
    openblas.load()
    params = toy(*cases.rings[ring])
    draw, n = Draw(params, False, np.random.default_rng(1)), params.n
    for call in cases.calls(draw):
        shapes = ShapeEngine(params)
        call(shapes)
        with counted(n) as kernels:
            call(CpuEngine(params))
        counts, words = shapes.counts, kernels.words
        lifts = words["lifts"]
        # Weights are kept: what their encoding takes is counted by those who keep them.
        transformed = words["forward"] + words["inverse"] - lifts * ("write_weights" in cases.names)
        # Of polynomials a part of the layers is counted in whole limbs.
        rounded = n // 2 if "polynomial_sums" in cases.names else 0
        assert abs(transformed - n * (counts.ntt_limbs + counts.encode_ntt_limbs)) <= rounded
        # Into Montgomery form, which multiply-adds of encodings are, unless they are added.
        multiplied = words["products"] + words["conversions"] + words["scalings"]
        assert multiplied - n * counts.mac_limbs in (0, lifts)
        if (
            "relinearise_rows" in cases.names or "transpose_rows" in cases.names
        ):  # from the caches, row by row
            assert words["key_bytes"] >= counts.key_bytes_read > 0
        elif "transpose_blocks" not in cases.names:
            assert words["key_bytes"] == counts.key_bytes_read
        assert words["plain_bytes"] == counts.plain_bytes_read
