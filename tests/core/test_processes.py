"""The core under threads of the interpreter and in forked processes."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cipherblas._core as _core
from tests.support.ring_oracle import Ring


def work(ring: Ring) -> list[np.ndarray]:
    ring.generator = np.random.default_rng(5)
    x, key = ring.random_ciphertext(4), ring.random_key(4)
    terms = [(o, 0, ring.context.galois_element(o + 1), 0, -1) for o in range(6)]
    return ring.context.linear_transform([x], terms, [key], [], 6, False, "limb")


def test_calls_from_many_threads_agree() -> None:
    ring = Ring(n=1 << 11)
    expected = work(ring)
    rings = [Ring(n=1 << 11) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(work, rings):
            np.testing.assert_array_equal(np.stack(result), np.stack(expected))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_hang() -> None:
    before = _core.threads()
    _core.set_threads(2)
    try:
        ring = Ring(n=1 << 11)
        expected = work(ring)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(60)  # a hang ends the child with a signal
                same = all(np.array_equal(a, b) for a, b in zip(work(ring), expected, strict=True))
                status = 0 if same else 2
            finally:
                sys.stdout.flush()
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        _core.set_threads(before)
