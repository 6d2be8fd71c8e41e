"""Arrays that lie one after the other, as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cipherblas.common.memory import aligned_empty, stacked


def filled(*shape: int) -> Any:
    room = aligned_empty(shape)
    room[...] = np.arange(room.size, dtype=np.uint64).reshape(shape)
    return room


def test_what_lies_in_one_block_is_not_copied() -> None:
    room = filled(3, 2, 4, 8)
    blocks = [room[i, j] for i in range(3) for j in range(2)]
    found = stacked(blocks)
    np.testing.assert_array_equal(found, np.stack(blocks))
    assert np.shares_memory(found, room) and found.flags.c_contiguous
    some = stacked(blocks[2:5])
    np.testing.assert_array_equal(some, np.stack(blocks[2:5]))
    assert np.shares_memory(some, room)
    del room, blocks, some
    np.testing.assert_array_equal(found[-1], np.arange(160, 192).reshape(4, 8))


ROOM = filled(4, 5, 6)


@pytest.mark.parametrize(
    "parts",
    [
        [ROOM[1], ROOM[0]],
        [ROOM[0], ROOM[2]],
        [ROOM[0], ROOM[0]],
        [ROOM[0], ROOM[1].copy()],
        [filled(5, 6), filled(5, 6)],
        [ROOM[0, :, :3], ROOM[1, :, :3]],
        [ROOM[0].view(np.int64), ROOM[1].view(np.float64)],
        [ROOM[0].T, ROOM[1].T],
    ],
)
def test_what_does_not_is(parts: list[Any]) -> None:
    found = stacked(parts)
    np.testing.assert_array_equal(found, np.stack(parts))
    assert not any(np.shares_memory(found, part) for part in parts)


def test_one() -> None:
    np.testing.assert_array_equal(stacked([ROOM[3]]), ROOM[3:])
