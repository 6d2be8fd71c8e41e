"""What is predicted of a program on several ranks, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cipherblas as cb
from cipherblas.distributed.messages import Network
from cipherblas.roles.on_ranks import fastest_on_ranks, on_ranks
from tests.support.runs import toy, toy_rows

FAST, SLOW = Network(0.0, 0.0), Network(1e-3, 1e-6)


def product() -> cb.Program:
    return toy_rows(lambda a, b: a @ b, a=cb.secret(256, 64), b=cb.secret(64, 256), precision=1e-2)


def test_time_is_that_of_the_busiest_and_of_its_messages() -> None:
    program = product()
    quick, slow = (on_ranks(program, 4, network) for network in (FAST, SLOW))
    assert quick.seconds == slow.seconds and max(quick.communication) == 0
    assert quick.total == max(quick.seconds) and 3 < quick.speedup <= 4
    for run, seconds in zip(slow.runs, slow.communication, strict=True):
        sent = run.sent
        assert seconds == pytest.approx(1e-3 * (sent.messages + sent.headers) + 1e-6 * sent.nbytes)
    assert slow.total > quick.total and slow.speedup < quick.speedup
    assert on_ranks(program, 1, SLOW).speedup == 1


def test_it_is_explained() -> None:
    text = on_ranks(product(), 4, SLOW).explain()
    names = ["ranks", "algorithm", "blocks", "time", "speed-up", "messages", "sent", "keys", "memory"]
    assert [line.split()[0] for line in text.splitlines()] == names
    assert json.loads(json.dumps(on_ranks(product(), 2, FAST).to_dict()))["ranks"] == 2


def test_messages_that_nothing_is_known_of_are_said_to_be_free() -> None:
    assert "communication" in on_ranks(product(), 4, SLOW).explain()
    assert "counted as free without --network FILE" in on_ranks(product(), 4, FAST).explain()
    assert "free" not in on_ranks(product(), 1, FAST).explain()


def test_memory_of_a_rank() -> None:
    """The right operand is whole on each, all else is divided. The first gathers the result."""
    program = product()
    n, inner, cols = program.plan.parameters.n, 64, 256
    each = 8 * inner * (n + cols)  # both operands by rows of the inner dimension
    found = {ranks: on_ranks(program, ranks, FAST) for ranks in (1, 2, 4, 8)}
    computed = {
        ranks: (plan.runs[-1].array_bytes or 0) - each - each // ranks for ranks, plan in found.items()
    }
    assert 0 < computed[8] < computed[4] < computed[2] < computed[1]
    assert computed[4] < computed[1] / 2
    for plan in found.values():
        first, *others = (run.array_bytes or 0 for run in plan.runs)
        assert len(set(others)) <= 1 and all(first >= one for one in others)
        assert max(plan.peak_bytes) <= found[1].peak_bytes[0]


def test_the_fastest_way_to_share_is_said() -> None:
    """Messages that cost nothing: who prepares least; messages that cost all: who sends least."""
    program = toy(
        lambda a, b: a @ b,
        a=cb.secret(16, 16),
        b=cb.secret(16, 16),
        algorithm="skewed",
        block=8,
        form="blocks",
        precision=1e-2,
    )
    possible = ["e3d", "4d-s", "4d-b"]  # of 2 × 2 × 2 blocks, by a method whose rotations ranks do not share
    every = {sharing: on_ranks(program, 4, FAST, sharing=sharing).total for sharing in possible}
    quick = fastest_on_ranks(program, 4, FAST)
    assert quick.total == min(every.values()) and set(quick.not_taken) == set(possible) - {quick.sharing}
    assert quick.not_taken == {
        sharing: seconds for sharing, seconds in every.items() if sharing != quick.sharing
    }
    assert f"--sharing '{quick.sharing}'" in quick.explain()
    for one in quick.others:  # and why
        assert f"{one.sharing}: {one.total:.3g} s (compute {max(one.seconds):.3g}, " in quick.explain()
    dear = fastest_on_ranks(program, 4, Network(0.0, 1.0))
    assert dear.runs[0].sent.nbytes == min(
        on_ranks(program, 4, FAST, sharing=sharing).runs[0].sent.nbytes for sharing in possible
    )
    assert not fastest_on_ranks(product(), 4, FAST).not_taken


def test_diagonals_are_said() -> None:
    program = toy(
        lambda a, b: a @ b,
        a=cb.secret(24, 24),
        b=cb.secret(24, 8),
        algorithm="skewed",
        block=8,
        form="blocks",
        precision=1e-2,
    )
    text = on_ranks(program, 2, FAST, sharing="tdsc").explain()
    assert "diagonals of 3×1×3 blocks (m×n×k), on 2 ranks" in text
    assert "1×1×2 ranks (m×n×k) of 3×1×3 blocks" in on_ranks(program, 2, FAST, sharing="e3d").explain()


@pytest.mark.parametrize("ranks", [0, -1, 1 << 20, 2.0])
def test_ranks_that_there_cannot_be(ranks: int) -> None:
    with pytest.raises(cb.ParameterError):
        on_ranks(product(), ranks, FAST)


def test_a_network_in_a_file(tmp_path: Path) -> None:
    SLOW.save(tmp_path / "network.json")
    assert Network.load(tmp_path / "network.json") == SLOW
    (tmp_path / "other.json").write_text('{"latency": -1, "byte_seconds": 0}')
    (tmp_path / "none.json").write_text("[]")
    for name in ("other.json", "none.json"):
        with pytest.raises(cb.FormatError):
            Network.load(tmp_path / name)
    with pytest.raises(cb.StorageError):
        Network.load(tmp_path / "missing")
