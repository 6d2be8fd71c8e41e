"""Runs a method of a layer on `Symbolic`, then on `Clear` restricted to the keys that `Symbolic` declared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.methods.matvec_conv.base import LayerMethod, Weights
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import RingShape

Array = NDArray[np.float64]


def weights_of(values: Array) -> Weights:
    """A clear factor: a matrix, or filters OIHW."""
    rows = np.abs(values).reshape(len(values), -1)
    norms = np.sqrt((rows**2).sum(axis=1))
    bound = max(float(rows.max()), 1e-9)
    row_sum, row_norm = max(float(rows.sum(axis=1).max()), bound), max(float(norms.max()), bound)
    return Weights("weights", lambda: values, bound, row_sum, row_norm)


def packed(method: LayerMethod, x: Array, rng: np.random.Generator) -> list[Array]:
    """The input of a method; garbage in [-1, 1] wherever the method allows it."""
    found = []
    for number in range(method.x.ciphertexts):
        slots = np.zeros(method.x.slots) if method.repeats else rng.uniform(-1, 1, method.x.slots)
        found.append(method.x.fill(slots, number, x.ravel()))
    return found


def unpacked(method: LayerMethod, slots: list[Any]) -> Array:
    """The result. All copies of an entry must agree, and other slots be zero where the layout says so."""
    out = method.out
    result = np.full(int(np.prod(out.shape)), np.nan)
    assert len(slots) == out.ciphertexts
    for number, vector in enumerate(slots):
        entries, places = out.entries(number)
        result[entries] = vector[places].real
        for copy in range(1, out.copies):
            again = vector[places + copy * (out.slots // out.copies)].real
            np.testing.assert_allclose(again, result[entries], rtol=0, atol=1e-4)
        if out.zero_padded:
            empty = out.vector(number, np.ones(len(result))) == 0
            np.testing.assert_allclose(vector[empty], 0, atol=1e-4)
    return result.reshape(out.shape)


def check(method: LayerMethod, values: Array, x: Array, expected: Array) -> Counts:
    """One run in the clear, entry by entry, with all bookkeeping as planned."""
    rng = np.random.default_rng(0)
    weights = weights_of(values)
    ring = RingShape.for_depth(method.x.slots, method.levels + 1)
    counter = Symbolic(ring)
    planned = method.run(
        counter, [counter.fresh(None, bound=1.0) for _ in range(method.x.ciphertexts)], weights
    )
    clear = Clear(ring, available=counter.request)
    inputs = [clear.encrypt(slots, bound=1.0) for slots in packed(method, x, rng)]
    results = method.run(clear, inputs, weights)
    assert clear.counts == counter.counts
    assert clear.request == counter.request
    for ct, plan in zip(results, planned, strict=True):
        assert (ct.limbs, ct.scale, ct.bound, ct.noise) == (plan.limbs, plan.scale, plan.bound, plan.noise)
        assert ct.limbs == len(ring.q) - method.levels
        assert np.abs(ct.data).max() <= ct.bound * (1 + 1e-9)
    result = unpacked(method, [ct.data for ct in results]) * weights.bound
    np.testing.assert_allclose(result, expected.reshape(result.shape), rtol=0, atol=1e-9)
    return counter.counts
