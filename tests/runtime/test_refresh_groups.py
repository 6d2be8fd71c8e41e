"""Which ciphertexts of a value are refreshed at one time: every one once, as a plan lists it."""

from __future__ import annotations

import pytest

from cipherblas.methods.bootstrapping.refresh import REFRESH_BATCH, SHARED_BATCH
from cipherblas.runtime.refreshing import RefreshGroups


@pytest.mark.parametrize("pairs", [0, 1, 2, 3])
def test_every_ciphertext_is_in_one_group(pairs: int) -> None:
    for number in range(1, 80):
        groups = RefreshGroups.of(number, pairs)
        equal, size = groups.shared
        assert groups.sharing + groups.together * REFRESH_BATCH + groups.rest == number
        assert 0 <= groups.rest < REFRESH_BATCH and groups.sharing % 2 == 0
        assert size == 2 * pairs * SHARED_BATCH and 0 <= groups.sharing - equal * size < max(size, 1)
        assert (groups.sharing == 0) == (pairs == 0 or number == 1)


@pytest.mark.parametrize(
    ("number", "pairs", "text"),
    [
        (1, 0, ""),
        (8, 0, ""),
        (18, 0, " in groups: 2 of 8, 1 of 2"),
        (19, 1, " in groups: 2 of 8, 1 of 2, 1 of 1"),
    ],
)
def test_groups_are_named(number: int, pairs: int, text: str) -> None:
    assert str(RefreshGroups.of(number, pairs)) == text
