"""An element's ports to memory in the simulated hardware: rows arrive as they lie there, however the channels stall."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cipherblas_hardware.accelerator import verilated

LANES, WIDTH, PORTS = 8, 54, 4
BEATS = WIDTH // 2  # of a row
MEMORY = 256  # rows
START = 160  # cycles until the first rows are there, and after the last beat
LOADED, STREAMED = 0, 1  # kinds of rows


class Memory:
    """Random words, and a library that copies and reads rows of them."""

    def __init__(self, kept: Path) -> None:
        parameters = {"Dp": LANES, "Width": WIDTH, "Ports": PORTS}
        self._library = verilated.library("memory_ports", "memory_ports", parameters, kept)
        self._library.run.restype = ctypes.c_int64
        self._library.take_said.restype = ctypes.c_char_p

    def run(
        self,
        requests: list[tuple[int, int, int]],
        *,
        seed: int = 1,
        stalls: int = 0,
        latency: int = 20,
        periods: tuple[int, int] = (1000, 1000),
        beats: float = PORTS,
    ) -> int:
        """The cycles in which rows of the first kind are copied and those of the second one read; all must be right.

        Args:
            requests: kind, first row, rows.
            seed: of the words and stalls.
            stalls: of a hundred cycles, in each channel.
            latency: of the memory, in cycles of the ports.
            periods: of the clocks of lanes and ports.
            beats: that memory gives in a cycle of the ports.
        """
        rng = np.random.default_rng(seed)
        words = rng.integers(0, 1 << WIDTH, (MEMORY, LANES), dtype=np.uint64)
        rows = [
            np.concatenate([np.arange(0), *(np.arange(a, a + n) for one, a, n in requests if one == kind)])
            for kind in (LOADED, STREAMED)
        ]
        targets = (MEMORY // 2 + rng.permutation(MEMORY // 2)[: len(rows[LOADED])]).astype(np.uint64)
        memory, streamed = words.copy(), np.zeros((len(rows[STREAMED]), LANES), np.uint64)
        settings = np.array([seed, stalls, latency, *periods, round(1000 * beats)], np.uint64)
        table = np.array(requests, np.uint64)
        cycles = self._library.run(
            _pointer(settings),
            *(_pointer(memory), ctypes.c_uint64(MEMORY)),
            *(_pointer(table), ctypes.c_uint64(len(table))),
            *(_pointer(targets), ctypes.c_uint64(len(targets))),
            *(_pointer(streamed), ctypes.c_uint64(len(streamed))),
        )
        assert cycles > 0, self._library.take_said().decode() or cycles
        wanted = words.copy()
        wanted[targets.astype(int)] = words[rows[LOADED].astype(int)]
        assert (memory == wanted).all()
        assert (streamed == words[rows[STREAMED].astype(int)]).all()
        return int(cycles)


def _pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.fixture(scope="module")
def memory(kept: Path) -> Memory:
    return Memory(kept)


def requests(seed: int) -> list[tuple[int, int, int]]:
    """Of both kinds in a random order, from any row on, of one row and more."""
    rng = np.random.default_rng(seed)
    found, left = [], 100
    for _ in range(12):
        kind, rows = int(rng.integers(2)), int(rng.integers(1, 40))
        if kind == LOADED:
            rows = min(rows, left)
            left -= rows
        if rows:
            found.append((kind, int(rng.integers(MEMORY // 2 - rows)), rows))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_stalls_never_change_a_word(memory: Memory, seed: int) -> None:
    """All channels of AXI stall at random, and so does what takes rows; the clocks have any ratio."""
    rng = np.random.default_rng(seed)
    periods = int(rng.integers(500, 2000)), int(rng.integers(500, 2000))
    stalls, latency = int(rng.integers(1, 80)), int(rng.integers(1, 100))
    memory.run(requests(seed), seed=seed, stalls=stalls, latency=latency, periods=periods)


def test_ports_give_a_beat_in_each_cycle(memory: Memory) -> None:
    """Rows of both kinds share them evenly, in as many cycles as there are beats, and once the way."""
    cycles = memory.run([(LOADED, 0, 100), (STREAMED, 0, 100)])
    assert 0 < cycles - 200 * BEATS // PORTS < START


@pytest.mark.parametrize("beats", [1.0, 2.5])
def test_a_slow_memory_is_waited_for(memory: Memory, beats: float) -> None:
    """The cycles are those of its rate."""
    cycles = memory.run([(STREAMED, 0, 128), (LOADED, 0, 64)], beats=beats)
    assert 1.0 <= cycles / (192 * BEATS / beats) < 1.05


def test_rows_under_way_hide_the_latency_of_memory(memory: Memory) -> None:
    """Four of each kind at a port: two rows' beats of time, and more, for both kinds together."""
    asked = [(STREAMED, 0, 100), (LOADED, 0, 100)]
    near, far = (memory.run(asked, latency=latency) for latency in (1, 3 * BEATS))
    assert far - near < 4 * BEATS


def test_a_kind_that_is_not_taken_does_not_stop_the_other(memory: Memory) -> None:
    """Few rows of one kind are asked for behind many of the other, and all come."""
    alone = memory.run([(STREAMED, 0, 16)])
    both = memory.run([(LOADED, 0, 100), (STREAMED, 0, 16)])
    assert both < alone + memory.run([(LOADED, 0, 100)])
