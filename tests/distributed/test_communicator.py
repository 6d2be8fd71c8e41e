"""What a rank reads from another is bounded, and of the form that it waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cipherblas.common.errors import MemoryBudgetError, MismatchError
from cipherblas.distributed import communicator
from cipherblas.distributed.communicator import KINDS, MARK
from cipherblas.distributed.in_process import run_ranks
from cipherblas.distributed.mpi import room_for

WORDS = KINDS.index("words")


def received(header: list[int], into: Any = None) -> list[Any]:
    """What rank 1 makes of a header of rank 0, and of some words after it."""

    def rank(here: communicator.Communicator) -> list[Any]:
        if here.rank == 0:
            here._put(np.array(header, np.uint64), 1)
            here._put(np.arange(6, dtype=np.uint64), 1)
            return []
        return here.receive("words", 0, into)

    return run_ranks(2, rank)[1]


def test_a_header_of_ours() -> None:
    first, second = received([MARK, WORDS, 2, 2, 2, 2, 0, 0, 1, 2, 0, 0, 0])
    np.testing.assert_array_equal(first, [[0, 1], [2, 3]])
    np.testing.assert_array_equal(second, [4, 5])


@pytest.mark.parametrize(
    "header",
    [
        [],
        [MARK],
        [MARK, WORDS],
        [MARK + 1, WORDS, 0],
        [MARK, len(KINDS), 0],
        [MARK, WORDS + 1, 0],
        [MARK, WORDS, 1],
        [MARK, WORDS, 0, 1, 2, 0, 0, 0],
        [MARK, WORDS, 2, 1, 2, 0, 0, 0],
        [MARK, WORDS, 1, 1, 2, 0, 0],
        [MARK, WORDS, 1, 5, 2, 1, 1, 1],
        [MARK, WORDS, 1, 1 << 63, 2, 1, 1, 1],
        [MARK, WORDS, 1 << 63, 1, 2, 0, 0, 0],
    ],
)
def test_other_headers(header: list[int]) -> None:
    with pytest.raises(MismatchError, match="Rank 0 sent"):
        received(header)


@pytest.mark.parametrize("shape", [(1 << 45,), (1 << 20, 1 << 20, 1 << 20, 1 << 20), (1 << 63, 1 << 63)])
def test_arrays_that_no_memory_holds(shape: tuple[int, ...]) -> None:
    header = [MARK, WORDS, 1, len(shape), *shape, *[0] * (4 - len(shape))]
    with pytest.raises(MemoryBudgetError, match="rank 0 sends needs more memory"):
        received(header)


def test_messages_that_no_memory_holds() -> None:
    assert room_for(3, 2).shape == (2,)
    with pytest.raises(MemoryBudgetError, match="rank 3 sends needs more memory"):
        room_for(3, 1 << 45)
    with pytest.raises(MismatchError, match="Rank 3 sent a message that nobody can read"):
        room_for(3, -32766)
