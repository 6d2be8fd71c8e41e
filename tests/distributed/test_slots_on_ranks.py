"""Products of blocks in slots on ranks that are threads, with several kernels, and what the ranks send and compute."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto.params import make_parameters
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.cuts import DiagonalCut, GridCut, cut_of, share
from cipherblas.distributed.dry_run import rank_runs
from cipherblas.distributed.grids import grid_3d
from cipherblas.distributed.in_process import run_ranks
from cipherblas.distributed.messages import Network
from cipherblas.distributed.ranks import PER_OFFSET, grid_of, own_blocks, ranks_of
from cipherblas.distributed.slots import DISTRIBUTIONS, FACTS
from cipherblas.lang.operands import Encryption
from cipherblas.roles.on_ranks import on_ranks
from tests.support.runs import toy, values_of

SHAPES = {  # of blocks of 8: square, flat, large M, slim, indivisible
    "square": (16, 16, 16),
    "flat": (24, 8, 16),
    "large M": (40, 8, 8),
    "slim": (8, 40, 8),
    "indivisible": (19, 21, 9),
}
OF_ANY_BLOCKS = [sharing for sharing in DISTRIBUTIONS if sharing not in ("t3d", "tdsc")]
OF_ANY_METHOD = [sharing for sharing in OF_ANY_BLOCKS if sharing not in PER_OFFSET]
ON_DIAGONALS = {"left": (24, 19, 8), "right": (5, 24, 24), "result": (24, 8, 22), "alone": (8, 8, 8)}


class InBlocks:
    """A product of secrets in blocks of 8, and its result on one process."""

    def __init__(
        self, shape: tuple[int, int, int], algorithm: str, encryption: Encryption = "secret-key"
    ) -> None:
        m, k, n = shape
        self.program = toy(
            lambda a, b: a @ b,
            a=cb.secret(m, k, encryption=encryption),
            b=cb.secret(k, n, encryption=encryption),
            algorithm=algorithm,
            block=8,
            form="blocks",
            precision=1e-2,
        )
        self.client, self.values = self.program.client(), values_of(self.program)
        public = self.program.encryptor(self.client.public_key()) if encryption == "public-key" else None
        self.sent = (public or self.client).encrypt(self.values)
        self.keys = self.client.evaluation_keys()
        server = self.program.server(self.keys)
        self.alone, self.counts = server.run(self.sent), server.last.counts

    def on(self, ranks: int, sharing: Any) -> list[tuple[Any, cb.Server]]:
        def work(communicator: Communicator) -> tuple[Any, cb.Server]:
            server = self.program.server(self.keys, communicator=communicator, sharing=sharing)
            return server.run(self.sent), server

        return run_ranks(ranks, work)

    @property
    def blocks(self) -> Cuboid:
        (m, k), n = self.program.operands["a"].shape, self.program.operands["b"].shape[1]
        return Cuboid(*(-(-length // 8) for length in (m, n, k)))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("algorithm", ["fame", "skewed", "bicyclic"])
def test_blocks_on_ranks(name: str, algorithm: str) -> None:
    """The residues of one process; messages and bytes as they were planned."""
    whole = InBlocks(SHAPES[name], algorithm)
    cases = [(2, "4d-s"), (3, "e3d"), (4, "4d-b")]
    if (name, algorithm) == ("square", "skewed"):
        cases = [*itertools.product((1, 2, 3, 4, 6, 8), OF_ANY_METHOD), (8, "t3d"), (9, "t3d")]
    for ranks, sharing in cases:
        check_shared(whole, ranks, sharing)


def check_shared(whole: InBlocks, ranks: int, sharing: Any) -> list[tuple[Any, cb.Server]]:
    """The residues of one process; messages, bytes and products as they were planned."""
    found = whole.on(ranks, sharing)
    result = found[0][0]
    for got, wanted in zip(result.ciphertexts, whole.alone.ciphertexts, strict=True):
        np.testing.assert_array_equal(got, wanted)
    for rank, (_, server) in enumerate(found):
        assert server.last.sent == server.rank_runs[rank].sent
        assert server.last.counts.products == server.rank_runs[rank].counts.products
    error = np.abs(whole.client.decrypt(result) - whole.program.evaluate(whole.values)).max()
    assert error < whole.program.plan.error
    return found


T = 2147352577  # = 1 mod 2^16


def test_exact_integers_by_residues_on_ranks() -> None:
    """Of each t the ciphertexts of one process, one t after another."""
    secrets = {name: cb.secret(19, 19, dtype="int64", exact=True, bound=2**31) for name in "ab"}
    program = toy(lambda a, b: (a @ b) * a, **secrets, algorithm="skewed", block=8)
    assert len(program.plan.moduli) > 1
    rng, client = np.random.default_rng(4), program.client()
    values = {name: rng.integers(-(2**31), 2**31, (19, 19)) for name in secrets}
    sent, keys = client.encrypt(values), client.evaluation_keys()
    alone = program.server(keys).run(sent)

    def work(communicator: Communicator) -> tuple[Any, cb.Server]:
        server = program.server(keys, communicator=communicator)
        return server.run(sent), server

    both = run_ranks(2, work)
    found, server = both[0]
    for got, wanted in zip(found.ciphertexts, alone.ciphertexts, strict=True):
        np.testing.assert_array_equal(got, wanted)
    shared = on_ranks(program, 2, Network(1e-6, 1e-9))
    for rank, (_, each) in enumerate(both):  # what was predicted, modulo all t
        assert each.last.sent == each.rank_runs[rank].sent == shared.runs[rank].sent
        assert each.last.counts.products == shared.runs[rank].counts.products > 0
    assert shared.to_dict()["moduli"] == list(program.plan.moduli)
    text = shared.explain()
    assert f"modulo {len(program.plan.moduli)} t" in text and f"{shared.runs[0].sent.nbytes:,}" in text
    first = rank_runs(program.plan.parameters, program.residues[0].listing, program.plan.decided, 2)
    assert shared.runs[0].sent.nbytes == len(program.plan.moduli) * first[0].sent.nbytes
    a, b = (values[name].astype(object) for name in "ab")
    np.testing.assert_array_equal(client.decrypt(found), (a @ b) * a)
    assert len(server.last.rank_times) == 2 and server.last.sent.messages > 0


@pytest.mark.parametrize("algorithm", ["fame", "skewed", "bicyclic", "fhe-mm"])
def test_integers_modulo_t_on_ranks(algorithm: str) -> None:
    """The residues of one process, of a product and of what is computed with it."""
    secrets = {"a": cb.secret(19, 19, modulus=T), "b": cb.secret(19, 19, modulus=T)}
    program = toy(
        lambda a, b: {"product": a @ b, "all": (a @ b) * a - 3 * b},
        **secrets,
        algorithm=algorithm,
        block=8,
        ring_degree=8192,
    )
    rng, client = np.random.default_rng(3), program.client()
    values = {name: rng.integers(0, T, (19, 19)) for name in secrets}
    sent, keys = client.encrypt(values), client.evaluation_keys()
    alone = program.server(keys).run(sent)
    a, b = (values[name].astype(object) for name in "ab")
    expected = {"product": a @ b % T, "all": ((a @ b) * a - 3 * b) % T}
    own = PER_OFFSET if algorithm == "fhe-mm" else ()
    for ranks, sharing in ((2, "4d-s"), (3, "e3d"), *((4, one) for one in ("4d-b", *own))):

        def work(communicator: Communicator, sharing: Any = sharing) -> tuple[Any, cb.Server]:
            server = program.server(keys, communicator=communicator, sharing=sharing)
            return server.run(sent), server

        found = run_ranks(ranks, work)
        for got, wanted in zip(found[0][0].ciphertexts, alone.ciphertexts, strict=True):
            np.testing.assert_array_equal(got, wanted)
        for rank, (_, server) in enumerate(found):
            assert server.last.sent == server.rank_runs[rank].sent
        for name, values_found in client.decrypt(found[0][0]).items():
            np.testing.assert_array_equal(values_found, expected[name])


@pytest.mark.parametrize("name", ON_DIAGONALS)
@pytest.mark.parametrize("algorithm", ["fhe-mm", "fame", "skewed", "bicyclic"])
def test_diagonals_of_blocks_on_ranks(name: str, algorithm: str) -> None:
    """TDSC: as many rotations as E3D takes, of all ranks together."""
    whole = InBlocks(ON_DIAGONALS[name], algorithm)
    for ranks in (1, 2, 3, 4) if algorithm == "skewed" else (2, 3):
        diagonal, each = check_shared(whole, ranks, "tdsc"), whole.on(ranks, "e3d")
        rotations = [sum(server.last.counts.rotations for _, server in found) for found in (diagonal, each)]
        assert rotations[0] == rotations[1]
        assert sum(server.last.counts.products for _, server in diagonal) == whole.counts.products


@pytest.mark.parametrize("name", SHAPES)
def test_what_t3d_and_tdsc_cannot_share(name: str) -> None:
    """Before anything is computed; T3D takes any blocks where there are ranks enough."""
    whole = InBlocks(SHAPES[name], "skewed")
    count = whole.blocks.volume
    with pytest.raises(cb.ParameterError, match=f"rank for every block product.*{count} ranks"):
        whole.on(count - 1, "t3d")
    if name == "large M":
        check_shared(whole, count, "t3d")
    with pytest.raises(cb.ParameterError, match="square grid of blocks"):
        whole.on(2, "tdsc")


def test_every_block_product_is_one_ranks() -> None:
    """And every block of the result is finished by one, of any cut."""
    for blocks in itertools.product((1, 2, 3, 5), repeat=3):
        for sharing, ranks in itertools.product(DISTRIBUTIONS, (1, 2, 3, 4, 7, 16)):
            try:
                cut = cut_of(Cuboid(*blocks), ranks, 4, sharing)
            except cb.ParameterError:
                least, other, most = sorted(blocks)
                refused = np.prod(blocks) > ranks if sharing == "t3d" else (least, other) != (1, most)
                assert sharing in ("t3d", "tdsc") and refused
                continue
            assert isinstance(cut, DiagonalCut if sharing == "tdsc" else GridCut)
            taking = range(cut.grid.volume)
            done = [one for rank in taking for one in cut.products(rank)]
            assert sorted(done) == list(itertools.product(*(range(blocks[axis]) for axis in (0, 1, 2))))
            finished = [place for rank in range(ranks) for place in cut.finished(rank)]
            assert sorted(finished) == list(itertools.product(range(blocks[0]), range(blocks[1])))
            for rank in taking:
                assert {(i, j) for i, j, _ in cut.products(rank)} == set(cut.results(rank))
                assert all(cut.results(other) == cut.results(rank) for other in cut.adding(rank))
                assert all(rank in cut.adding(other) for other in cut.adding(rank))


def check_on_two_ranks(program: cb.Program) -> None:
    """Ciphertexts are those of one process bit for bit, and what ranks send is what was planned."""
    client, values = program.client(), values_of(program)
    sent, keys = client.encrypt(values), client.evaluation_keys()
    alone = program.server(keys).run(sent)

    def work(communicator: Communicator) -> tuple[Any, cb.Server]:
        server = program.server(keys, communicator=communicator)
        return server.run(sent), server

    found = run_ranks(2, work)
    for got, wanted in zip(found[0][0].ciphertexts, alone.ciphertexts, strict=True):
        np.testing.assert_array_equal(got, wanted)
    for rank, (_, server) in enumerate(found):
        assert server.last.sent == server.rank_runs[rank].sent


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["blocks", "mixed"])
def test_products_and_what_follows_them(form: Any) -> None:
    """An entrywise product is every rank's own; what comes by rows enters slots on all.

    A transposition by rows has N key switches and more: on an INSECURE tiny ring.
    """
    operands = {"a": cb.secret(8, 8), "b": cb.secret(8, 8)}
    options: dict[str, Any] = {}
    if form == "mixed":
        q_bits = [50.0, *[40.0] * 5]
        tiny = make_parameters(256, q_bits, alpha=2, scale_bits=40.0, security=0, insecure=True)
        options = {"parameters": tiny, "ring_degree": None}
    program = toy(lambda a, b: (a @ b) * (a @ b), **operands, **options, form=form, precision=1e-2)
    check_on_two_ranks(program)


@pytest.mark.usefixtures("as_written")
@pytest.mark.filterwarnings("ignore")
def test_rows_with_a_ring_of_their_own() -> None:
    """Products of ring elements of both kinds, and what goes between the rings, on an INSECURE small ring."""
    query, key, value = np.random.default_rng(3).uniform(-1, 1, (3, 7, 5))
    program = toy(
        lambda x: cb.square(cb.refresh((x @ query) @ (x @ key).T)) @ (x @ value),
        **{"x": cb.secret(20, 7, bound=0.5), "ring_degree": 4096, "form": "mixed", "error": 40.0},
    )
    assert program.plan.parameters.row_degree == 512
    check_on_two_ranks(program)


@pytest.mark.filterwarnings("ignore")
def test_refreshes_that_share_an_a_part() -> None:
    """By every rank, with the shared keys."""
    operands = {"a": cb.secret(32, 8), "b": cb.secret(8, 448), "x": cb.secret(32, 448)}
    program = toy(
        lambda a, b, x: cb.refresh((a @ b) * x) * x,
        **operands,
        form="blocks",
        precision=1e-2,
        minimise="server",
    )
    assert program.plan.decided.sharing
    check_on_two_ranks(program)


def test_each_way_to_share_moves_less() -> None:
    """Rotations of all ranks: one process prepares each block once, and so do the ranks of 4D together."""
    whole = InBlocks((32, 16, 32), "skewed")
    alone = whole.counts.rotations
    total, busiest = {}, {}
    for sharing in OF_ANY_METHOD:
        rotations = [server.last.counts.rotations for _, server in whole.on(4, sharing)]
        total[sharing], busiest[sharing] = sum(rotations), max(rotations)
    assert alone == total["4d-b"] <= total["4d-s"] < total["e3d"]
    assert busiest["4d-b"] < busiest["4d-s"] < busiest["e3d"]


def test_the_grid_of_4d_is_its_own() -> None:
    """Eq. 6 puts ranks along the inner dimension, where nobody holds another's blocks."""
    whole = InBlocks((32, 32, 32), "fhe-mm")
    assert grid_of(whole.blocks, 4, 8, "4d") == (1, 1, 4) and grid_of(whole.blocks, 4, 8, "4d*") == (1, 2, 2)
    for sharing, grid in (("4d", (1, 1, 4)), ("4d*", (1, 2, 2))):
        for result, server in whole.on(4, sharing):
            assert [product.grid for product in server.rank_runs[0].products] == [grid]
            assert all(
                (got == wanted).all()
                for got, wanted in zip(result.ciphertexts, whole.alone.ciphertexts, strict=False)
            )


def test_bytes_of_a_reduction() -> None:
    """Slim shapes: every rank but the first of the inner dimension sends its sums once; one has the result."""
    whole = InBlocks((8, 64, 8), "bicyclic")
    grid = grid_3d(whole.blocks, 4)
    assert grid == (1, 1, 4)
    params = whole.program.plan.parameters
    (result,) = whole.alone.ciphertexts
    for rank, (_, server) in enumerate(whole.on(4, "4d-s")):
        limbs = params.limbs
        own = (FACTS + 3 * limbs * params.n) * 8 if rank else 3 * (FACTS * 8 + result.nbytes)
        assert server.last.sent.nbytes == own, rank


def test_shares_are_those_of_the_planning_functions() -> None:
    blocks, grid = Cuboid(5, 3, 7), Cuboid(2, 3, 2)
    for place in ranks_of(grid):
        own = own_blocks(blocks, grid, place)
        parts = [share(b, p, index) for b, p, index in zip(blocks, grid, place, strict=True)]
        assert tuple(map(len, parts)) == own
    assert [*share(7, 3, 0), *share(7, 3, 1), *share(7, 3, 2)] == list(range(7))


def test_a_way_to_share_that_there_is_not() -> None:
    whole = InBlocks((8, 8, 8), "skewed")
    with pytest.raises(cb.ParameterError, match="no such way"):
        whole.program.server(whole.keys, sharing="5d")  # type: ignore[arg-type]
