"""4D as published: of each rank exactly the rotations, keys, ciphertexts and messages that the formulas say."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto.keys.key_id import Galois
from cipherblas.distributed import slots
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.dry_run import rank_runs
from cipherblas.distributed.messages import Collective, collectives_4d
from cipherblas.distributed.ranks import (
    PER_OFFSET,
    ciphertexts_ahead,
    ciphertexts_held,
    grid_of,
    own_blocks,
    ranks_of,
    rotation_keys,
    work_of,
)
from cipherblas.distributed.slots import FACTS
from cipherblas.evaluators.slots.values import Ledger
from tests.distributed.test_slots_on_ranks import SHAPES, InBlocks, check_shared

WORD = 8


@pytest.fixture(scope="module")
def square() -> InBlocks:
    """4 × 4 × 4 blocks of 8 × 8."""
    return InBlocks((32, 32, 32), "fhe-mm")


@pytest.mark.parametrize("name", SHAPES)
def test_rotations_inside_blocks_on_ranks(name: str) -> None:
    """The residues of one process; messages, bytes and products as they were planned."""
    whole = InBlocks(SHAPES[name], "fhe-mm")
    for ranks, sharing in itertools.product((1, 2, 3, 4, 6, 8), PER_OFFSET):
        check_shared(whole, ranks, sharing)


def offsets(length: int, number: int, count: int) -> int:
    """Those below a length, but 0, that a rank takes of so many that share."""
    return len([offset for offset in range(number, length, count) if offset])


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("sharing", PER_OFFSET)
def test_rotations_keys_and_messages_of_each_rank(square: InBlocks, ranks: int, sharing: Any) -> None:
    blocks, side = square.blocks, 8
    params = square.program.plan.parameters
    grid = grid_of(blocks, ranks, side, sharing)
    found = square.on(ranks, sharing)
    total: dict[str, int] = {"all-reduce": 0, "all-gather": 0}
    (result,) = {ct.shape for ct in square.alone.ciphertexts}
    top, alpha, words = params.limbs, len(params.p), 2 * params.n
    for number, (i, j, t) in enumerate(ranks_of(grid)):
        server, own = found[number][1], own_blocks(blocks, grid, (i, j, t))
        left, right = own.m * own.k, own.n * own.k
        of_left, of_right = offsets(side, j, grid.n), offsets(side, i, grid.m)
        # Aligned and shifted: of A two rotations for an offset, and one of the grid down by a row; of B one.
        rotations = 2 * left * (2 * of_left + (of_left > 0)) + 2 * right * of_right
        assert server.last.counts.rotations == rotations == server.rank_runs[number].counts.rotations
        work = work_of(own, grid, side, sharing)
        if side % (grid.n * grid.m) == 0:  # offsets, 0 among them, that it takes of each block
            assert work.left_moves * side == left * len(range(j, side, grid.n))
            assert work.right_moves * side == right * len(range(i, side, grid.m))
        assert server.last.counts.products == work.products
        # Keys: those of the pruning rule, and no other.
        wanted = {
            params.context().galois_element(offset if side_of == "left" else offset * side)
            for side_of, offset in rotation_keys(Cuboid(side, side, side), grid, (i, j, t), sharing)
        }
        held = {key.element for key in server.rank_runs[number].keys.limbs if isinstance(key, Galois)}
        assert held == wanted
        # Messages. Sums go to the root of a block, modulo Q·P; it sends the aligned block to all that hold it.
        sent = dict.fromkeys(("sums", "left", "right", "shifted"), 0)
        for count, place, group, aligned, some in (
            (left, j, grid.n, "left", of_left),
            (right, i, grid.m, "right", of_right),
        ):
            as_root = len(range(place, count, group))
            sent["sums"] += (count - as_root) * (group > 1)
            sent[aligned] += as_root * (group - 1)
            sent["shifted"] += some * count * (group - 1)
        limbs = {"left": top - 1, "right": top - 2, "shifted": top - 2}
        nbytes = sent["sums"] * (top + alpha) * words * WORD
        nbytes += sum(sent[kind] * limbs[kind] * words * WORD for kind in limbs)
        nbytes += (sent["left"] + sent["right"] + sent["shifted"]) * FACTS * WORD
        group = [other for other, place in enumerate(ranks_of(grid)) if place[:2] == (i, j)]
        own_sums = own.m * own.n
        share, more = divmod(own_sums, len(group))
        roots = share + (group.index(number) < more)
        if len(group) > 1:
            # A binary tree for each root, of whom the others send once.
            nbytes += (own_sums - roots) * (FACTS + 3 * (top - 2) * params.n) * WORD
        nbytes += (ranks - 1) * roots * (FACTS * WORD + int(np.prod(result)) * WORD)
        assert server.last.sent.nbytes == nbytes
        total["all-reduce"] += sent["sums"] + sent["left"] + sent["right"]
        total["all-gather"] += sent["shifted"]
    # Together what the collectives of Eq. 6 pass on; offset 0 is no rotation, and not sent.
    each = [
        one
        for place in ranks_of(grid)
        for one in collectives_4d(own_blocks(blocks, grid, place), grid, side, 1)
        if one.kind in total
    ]
    assert total["all-reduce"] == passed(each, "all-reduce")
    assert total["all-gather"] * side == passed(each, "all-gather") * (side - 1)


def passed(each: list[Collective], kind: str) -> int:
    """Ciphertexts that ranks send in collectives of a kind, all together."""
    found = sum(
        one.byte_factor * one.nbytes * (one.ranks - 1) / one.ranks for one in each if one.kind == kind
    )
    return round(found)


def test_a_key_that_another_rank_has_is_missing(square: InBlocks) -> None:
    """What is left of the keys of one rank is not enough for another offset."""
    for _, server in square.on(8, "4d*"):
        held, every = server.load_keys(), square.keys
        own: Any = server._equipment.keys
        assert held is None and len(server.rank_runs[0].keys) < len(square.program.plan.keys)
        for key, limbs in every.request.limbs.items():
            if key in own.request.limbs:
                own.get(key, limbs)
            else:
                with pytest.raises(cb.MissingKeyError):
                    own.get(key, limbs)


def test_keys_of_a_square_on_eight_ranks() -> None:
    """Blocks of 16 × 16: 30 rotation keys, of which a rank has 22 or 23, and in 4D* 15 or 16."""
    block = Cuboid(16, 16, 16)
    for sharing, least, most in (("4d", 22, 23), ("4d*", 15, 16)):
        found: Any = sharing
        grid = grid_of(Cuboid(4, 4, 4), 8, 16, found)
        counts = {len(rotation_keys(block, grid, place, found)) for place in ranks_of(grid)}
        assert (min(counts), max(counts)) == (least, most)
    assert len(rotation_keys(block, Cuboid(1, 1, 1), (0, 0, 0), "4d")) == 30


def limit_memory(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    """Evaluators of this kind have no working memory."""
    init = kind.__init__

    def limited(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        self.working_bytes = 0

    monkeypatch.setattr(kind, "__init__", limited)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("sharing", PER_OFFSET)
def test_ciphertexts_that_a_rank_holds(
    square: InBlocks, ranks: int, sharing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of Table IV, and what is said to be there besides: the most that a rank has at once as it multiplies, the
    caller's operands apart, whose place the aligned blocks take."""
    found: dict[int, int] = {}
    added = slots._Product._added

    def noted(self: Any, sums: Any) -> Any:
        found[self.rank] = self.ev.ledger.peak
        return added(self, sums)

    monkeypatch.setattr(slots.SlotsPlanned, "_handle_bytes", lambda self, components, limbs: 1)
    monkeypatch.setattr(Ledger, "touch", lambda self, nbytes: None)
    monkeypatch.setattr(slots._Product, "_added", noted)
    limit_memory(monkeypatch, slots.SlotsPlanned)
    plan = square.program.plan
    rank_runs(plan.parameters, square.program.listing, plan.decided, ranks, sharing)
    grid = grid_of(square.blocks, ranks, 8, sharing)
    owns = [own_blocks(square.blocks, grid, place) for place in ranks_of(grid)]
    most = [ciphertexts_held(own, sharing) + ciphertexts_ahead(own, grid) for own in owns]
    assert max(found.values()) == max(most)
    for number, own in enumerate(
        owns
    ):  # where it shares both sides one of them may always be a rank's own offset
        less = min(own.m, own.n) if min(grid.m, grid.n) > 1 else 0
        assert most[number] - less <= found[number] <= most[number]


def test_offsets_have_one_hoisting_where_memory_allows(
    square: InBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same residues, rotations and messages in both; fewer hoistings, which is what the planner prices."""
    plan = square.program.plan
    large = square.on(4, "4d*")
    with monkeypatch.context() as limited:
        limit_memory(limited, slots.SlotsRanks)
        small = square.on(4, "4d*")
    for (_, one), (_, other) in zip(large, small, strict=True):
        assert one.last.counts.rotations == other.last.counts.rotations and one.last.sent == other.last.sent
        assert one.last.counts.hoistings < other.last.counts.hoistings
    for found in (large, small):
        for got, wanted in zip(found[0][0].ciphertexts, square.alone.ciphertexts, strict=True):
            np.testing.assert_array_equal(got, wanted)
    runs = rank_runs(plan.parameters, square.program.listing, plan.decided, 4, "4d*")
    assert [run.counts.hoistings for run in runs] == [server.last.counts.hoistings for _, server in large]
