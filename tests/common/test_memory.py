"""Arrays that lie one after the other, as one; and what errors of memory and of work say to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cipherblas.common import limits
from cipherblas.common.errors import MemoryBudgetError, StorageError, WorkBudgetError
from cipherblas.common.memory import aligned_empty, check_memory, mapped_file, stacked
from cipherblas.common.work import MAX_COMPILED_STEPS, PARTS, Work, budget_of, check_nodes


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


def test_what_memory_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = "the same where 1048576 MiB are free: on this machine, or on another one"
    with pytest.raises(MemoryBudgetError, match="Making keys needs more memory") as caught:
        check_memory(1 << 40, "making keys")
    assert caught.value.advice[0].write == needed
    monkeypatch.setattr(limits, "available_memory", lambda: 1 << 20)
    with pytest.raises(MemoryBudgetError) as caught:
        limits.check_available(1 << 40, "a test")
    assert caught.value.advice[0].write == needed
    limits.check_available(1 << 20, "a test")
    for nbytes in (1 << 61, 1 << 63):
        with pytest.raises(MemoryBudgetError) as caught:
            aligned_empty((nbytes,), np.uint8)
        assert caught.value.advice


def test_a_file_goes_where_it_is_advised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="Keys that memory does not hold") as caught:
        mapped_file(3 << 19, "Keys", tmp_path / "none", "key_folder")
    assert [one.write for one in caught.value.advice] == [
        "key_folder=… that there is, on a disk with 2 MiB free",
    ]
    (tmp_path / "none").mkdir()
    assert len(mapped_file(3 << 19, "Keys", tmp_path / "none", "key_folder")) == 3 << 19


def test_work_that_is_too_much_says_what_to_write() -> None:
    with budget_of(10), pytest.raises(WorkBudgetError) as caught:
        Work().spend(11)
    assert [one.write.split(",")[0] for one in caught.value.advice] == [
        "Program.load(path",
        PARTS.split(",")[0],
    ]
    with budget_of(MAX_COMPILED_STEPS):
        Work().spend(11)
        with pytest.raises(WorkBudgetError) as caught:
            Work().spend(MAX_COMPILED_STEPS + 1)
    assert [one.write for one in caught.value.advice] == [PARTS]
    with pytest.raises(WorkBudgetError):
        check_nodes(1 << 20)
