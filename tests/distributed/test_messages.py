"""Bytes and seconds of communication: sums over ranks are Eq. 5 and Eq. 6, their seconds Eq. 7."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ParameterError
from cipherblas.distributed.communicator import Communicator, RankError
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.grids import moved_3d, moved_4d
from cipherblas.distributed.in_process import run_ranks
from cipherblas.distributed.messages import (
    Collective,
    Network,
    collectives_3d,
    collectives_4d,
    gather_rounds,
    latency_4d,
    seconds,
)
from cipherblas.distributed.ranks import own_blocks, ranks_of

H = 1 << 20
NETWORK = Network(2e-6, 1 / 7e9)
dimensions = st.tuples(*[st.integers(1, 5)] * 3)


def broadcasts(collectives: Any) -> float:
    """Bytes in units of a broadcast's; what nobody shares is sent once all the same, by the client."""
    counted = [one for one in collectives if one.kind in ("broadcast", "reduce") or one.ranks > 1]
    return sum(one.nbytes * one.byte_factor / 2 for one in counted) / H


@given(dimensions, st.data(), st.integers(1, 12))
def test_sums_over_ranks_are_the_objectives(blocks: tuple[int, int, int], data: Any, steps: int) -> None:
    grid = Cuboid(*(data.draw(st.integers(1, length)) for length in blocks))
    own = [own_blocks(blocks, grid, rank) for rank in ranks_of(grid)]
    in_3d = sum(broadcasts(collectives_3d(one, grid, H)) for one in own)
    in_4d = sum(broadcasts(collectives_4d(one, grid, steps, H)) for one in own)
    assert in_3d == pytest.approx(moved_3d(blocks, grid))
    assert in_4d == pytest.approx(moved_4d(blocks, grid, steps))


def test_volume_of_a_rank() -> None:
    """Square on 2 x 2 x 2, R = 128: a = b' = c = 8."""
    found = collectives_4d(Cuboid(8, 8, 8), Cuboid(2, 2, 2), 128, H)
    kinds = ["broadcast", "broadcast", "reduce", "all-reduce", "all-reduce", "all-gather", "all-gather"]
    assert [one.kind for one in found] == kinds
    assert [one.nbytes // H for one in found] == [64, 64, 64, 64, 64, 64 * 128, 64 * 128]
    assert [one.rounds for one in found] == [1, 1, 1, 1, 1, 1024, 1024]


@pytest.mark.parametrize(
    ("kind", "messages", "byte_factor"),
    [("broadcast", 2 + 3, 2), ("all-gather", 2, 1), ("all-reduce", 4, 2), ("reduce", 4, 2)],
)
def test_collectives_of_four_ranks(kind: Any, messages: int, byte_factor: int) -> None:
    found = Collective(kind, 4, 1000).seconds(Network(1.0, 0.5))
    assert found == messages + 0.5 * byte_factor * 1000 * 3 / 4


@given(st.tuples(*[st.integers(0, 3)] * 3), st.tuples(*[st.integers(0, 3)] * 3), st.integers(1, 128))
def test_equation_7_is_the_sum_of_its_collectives(exponents: Any, more: Any, steps: int) -> None:
    """Of messages exactly, in either reading; of bytes it takes all of them, where collectives take (p - 1) / p."""
    grid = Cuboid(*(1 << bits for bits in exponents))
    blocks = Cuboid(*(p << bits for p, bits in zip(grid, more, strict=True)))
    own = own_blocks(blocks, grid, (0, 0, 0))
    collectives = collectives_4d(own, grid, steps, H)
    silent, endless = Network(NETWORK.latency, 0.0), Network(0.0, NETWORK.byte_seconds)
    in_rounds = latency_4d(blocks, grid, steps, H, silent, rounds=gather_rounds(blocks, grid, steps))
    assert in_rounds == pytest.approx(seconds(collectives, silent))
    once = [Collective(one.kind, one.ranks, one.nbytes) for one in collectives]
    assert latency_4d(blocks, grid, steps, H, silent) == pytest.approx(seconds(once, silent))
    most = latency_4d(blocks, grid, steps, H, endless)
    assert seconds(collectives, endless) <= most * (1 + 1e-12)
    passed = sum(one.nbytes * one.byte_factor for one in collectives if one.ranks > 1 or one.kind[0] in "br")
    assert most == pytest.approx(NETWORK.byte_seconds * passed)


def test_the_readings_of_equation_7() -> None:
    blocks, grid = Cuboid(16, 16, 16), Cuboid(2, 2, 2)
    assert gather_rounds(blocks, grid, 128) == 1024
    silent = Network(1.0, 0.0)
    assert latency_4d(blocks, grid, 128, H, silent) == 2 * 2 + 1 + 1 + 2 * 3
    assert latency_4d(blocks, grid, 128, H, silent, rounds=1024) == 12 + 1023 * 2


def test_one_rank_sends_nothing() -> None:
    assert seconds(collectives_4d(Cuboid(4, 4, 4), Cuboid(1, 1, 1), 8, H), NETWORK) == 0.0


@pytest.mark.parametrize("wrong", [(-1.0, 0.0), (0.0, math.inf), (math.nan, 0.0)])
def test_wrong_networks(wrong: tuple[float, float]) -> None:
    with pytest.raises(ParameterError, match="not negative"):
        Network(*wrong)


def test_a_rank_that_leaves_is_not_waited_for() -> None:
    """What it sent before is received."""

    def work(communicator: Communicator) -> None:
        if communicator.rank == 1:
            communicator.send("words", [np.arange(3, dtype=np.uint64)], 0)
            return
        if communicator.rank == 0:
            assert communicator.receive("words", 1)[0].tolist() == [0, 1, 2]
        communicator.barrier()

    with pytest.raises(RankError, match="Rank 1 failed: it left"):
        run_ranks(3, work)
