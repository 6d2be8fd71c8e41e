"""Random programs of integers modulo t, and of exact ones, on ciphertexts: every entry is that of Python's integers.

RANDOM_PROGRAMS=1000 tries more of them.
"""

from __future__ import annotations

import os

import pytest

from tests.support import integer_networks, modular_programs

COUNT, BATCH = int(os.environ.get("RANDOM_PROGRAMS", "24")), 6


@pytest.mark.encrypted
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_every_entry(first: int, exact: bool) -> None:
    """Few are too deep or too large for the ring, and none is refused for another reason."""
    outcomes = [modular_programs.checked(seed, exact=exact) for seed in range(first, first + BATCH)]
    assert set(outcomes) <= {"runs", modular_programs.TOO_DEEP, modular_programs.TOO_LARGE}
    assert outcomes.count("runs") >= BATCH // 2


@pytest.mark.encrypted
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_every_entry_of_networks(first: int, exact: bool) -> None:
    outcomes = [integer_networks.checked(seed, exact=exact) for seed in range(first, first + BATCH)]
    refused = {modular_programs.TOO_DEEP, modular_programs.TOO_LARGE}
    assert set(outcomes) <= {"runs", "runs by residues", *refused}
    assert sum(outcome not in refused for outcome in outcomes) >= BATCH // 2
