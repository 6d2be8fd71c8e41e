"""Products by GEMM on ranks that are threads: residues of one process, and what was planned of messages and keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto.keys import Galois
from cipherblas.distributed.communicator import Communicator, Sent
from cipherblas.distributed.in_process import run_ranks
from tests.support.runs import listed, toy_rows, values_of

S, P = cb.secret, cb.public
RANKS = (1, 2, 3, 4, 6, 8)
WITH_ALL_RANKS = ("square", "slim", "indivisible", "clear chain", "sums")
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "square": (lambda a, b: a @ b, {"a": S(16, 16), "b": S(16, 16)}),
    "flat": (lambda a, b: a @ b, {"a": S(75, 3), "b": S(3, 75)}),
    "large M": (lambda a, b: a @ b, {"a": S(175, 4), "b": S(4, 3)}),
    "slim": (lambda a, b: a @ b, {"a": S(3, 150), "b": S(150, 3)}),
    "indivisible": (lambda a, b: a @ b, {"a": S(11, 13), "b": S(13, 67)}),
    "more columns than half the degree": (lambda a, b: a @ b, {"a": S(5, 8), "b": S(8, 35)}),
    "almost as many rows and columns": (lambda a, b: a @ b, {"a": S(63, 3), "b": S(3, 63)}),
    "clear": (lambda a, b: a @ b, {"a": P(11, 13), "b": S(13, 77)}),
    "right clear": (lambda a, b: a @ b, {"a": S(11, 13), "b": P(13, 9)}),
    "gram": (lambda a: a.T @ a, {"a": S(13, 15)}),
    "chain": (lambda a, b, c: (a @ b) @ c, {"a": S(5, 8), "b": S(8, 10), "c": S(10, 3)}),
    "clear chain": (lambda a, w, v: v @ (w @ a), {"a": S(5, 8), "w": P(10, 5), "v": P(75, 10)}),
    "sums": (
        lambda a, b, w, d: w @ (a @ b) + d,
        {"a": S(5, 8), "b": S(8, 10), "w": P(7, 5), "d": P(7, 10)},
    ),
    "secret sum": (lambda a, b, c: a @ b - c, {"a": S(5, 8), "b": S(8, 10), "c": S(5, 10)}),
    "both": (lambda a, b: (a @ b, b.T @ a.T), {"a": S(5, 8), "b": S(8, 10)}),
    "turned": (lambda a, w, v: w @ (a @ v), {"a": S(75, 5), "w": P(8, 75), "v": P(5, 3)}),
}


class OnRanks:
    """A program, what it is run with, and its result on one process."""

    def __init__(self, program: cb.Program) -> None:
        self.program, self.client = program, program.client()
        self.values = values_of(program)
        secret = {name: value for name, value in self.values.items() if program.operands[name].secret}
        self.sent = {**self.values, **self.client.encrypt(secret)}
        self.keys = self.client.evaluation_keys()
        self.alone = program.server(self.keys).run(self.sent)

    def on(self, ranks: int) -> list[tuple[Any, cb.Server]]:
        """The result and the server of each of so many ranks."""

        def work(communicator: Communicator) -> tuple[Any, cb.Server]:
            server = self.program.server(self.keys, communicator=communicator)
            return server.run(self.sent), server

        return run_ranks(ranks, work)


@pytest.mark.parametrize(
    ("name", "policy"),
    [  # "composed" with every program, the others in turns
        (name, policy)
        for number, name in enumerate(PROGRAMS)
        for policy in ("composed", ("direct", "binary")[number % 2])
    ],
)
def test_ranks_compute_what_one_process_does(name: str, policy: Any) -> None:
    function, operands = PROGRAMS[name]
    whole = OnRanks(toy_rows(function, n=64, key_policy=policy, precision=1e-2, **operands))
    every = policy == "composed" and name in WITH_ALL_RANKS
    for ranks in RANKS if every else (2, 3, 8) if policy == "composed" else (2, 3):
        found = whole.on(ranks)
        result = found[0][0]
        assert len(result.ciphertexts) == len(whole.alone.ciphertexts)
        for got, wanted in zip(result.ciphertexts, whole.alone.ciphertexts, strict=True):
            np.testing.assert_array_equal(got, wanted)
        for rank, (other, server) in enumerate(found):
            assert rank == 0 or not other.ciphertexts
            assert server.last.sent == server.rank_runs[rank].sent  # to the message, and to the byte
            assert server.last.counts == whole.program.plan.counts
            assert len(server.last.rank_times) == ranks
            assert all(one.communication > 0 and one.peak_bytes > 0 for one in server.last.rank_times)
    decrypted = listed(whole.program, whole.client.decrypt(result))
    expected = listed(whole.program, whole.program.evaluate(whole.values))
    for value, clear in zip(decrypted, expected, strict=True):
        assert np.abs(value - clear).max() < whole.program.plan.error


def test_bytes_of_a_transposition() -> None:
    """Of each of the two rings of rows, both parts, a rank has 1/p and sends all but 1/p of that; then the results."""
    n, ranks, limbs, rows, cols = 256, 4, 1, 64, 64
    whole = OnRanks(toy_rows(lambda a, b: a @ b, a=S(rows, 20), b=S(20, cols), precision=1e-2))
    assert len(whole.program.plan.parameters.q) == limbs
    words = 2 * n * (n // ranks) * (ranks - 1) // ranks
    exchanges = 4 * words * limbs
    result = (rows // ranks) * (n + cols) * limbs
    for rank, (_, server) in enumerate(whole.on(ranks)):
        assert server.last.sent.nbytes == 8 * (exchanges + (result if rank else 0))
        assert server.last.sent.headers == 2 * 4 * (ranks - 1) + (rank > 0)  # a and b apart


def test_clear_products_need_no_message_but_the_result() -> None:
    whole = OnRanks(toy_rows(lambda w, x: w @ x, w=P(40, 30), x=S(30, 64)))
    n, limbs = whole.program.plan.parameters.n, len(whole.program.plan.parameters.q)
    for rank, (_, server) in enumerate(whole.on(4)):
        assert server.last.sent.nbytes == (rank > 0) * 8 * limbs * 40 * (n + 64) // 4


def test_a_rank_has_the_keys_that_it_uses() -> None:
    """With a key for each automorphism, blocks of rows have different ones."""
    whole = OnRanks(toy_rows(lambda a, b: a @ b, a=S(64, 20), b=S(20, 64), precision=1e-2))
    plan = whole.program.plan
    servers = [server for _, server in whole.on(4)]
    asked = [set(run.keys.of(Galois)) for run in servers[0].rank_runs]
    assert set.union(*asked) == set(plan.keys.of(Galois))
    assert sum(map(len, asked)) == len(plan.keys.galois) == plan.parameters.n - 1
    for own, server in zip(asked, servers, strict=True):
        keys = server._equipment.keys
        assert set(keys.request.of(Galois)) == own
        for key in own:
            keys.get(key, 1)
        with pytest.raises(cb.MissingKeyError):
            keys.get(min(set(plan.keys.of(Galois)) - own), 1)


def test_every_rank_has_the_keys_of_fixed_weights_and_is_planned_to_use_them() -> None:
    """All of them compute the whole product, to which the plan counts its GEMM."""
    weights = (np.arange(40) % 7 - 3).reshape(5, 8)
    whole = OnRanks(toy_rows(lambda a: weights @ a, n=64, a=S(8, 70), fixed=True, error=1e-1))
    plan = whole.program.plan
    for rank, (result, server) in enumerate(whole.on(2)):
        run = server.rank_runs[rank]
        assert set(run.keys.limbs) == set(plan.keys.limbs) and len(plan.keys.limbs) == 5
        assert run.counts.float_macs == plan.counts.float_macs > 0
        if rank == 0:
            for got, wanted in zip(result.ciphertexts, whole.alone.ciphertexts, strict=True):
                np.testing.assert_array_equal(got, wanted)


def test_work_is_divided() -> None:
    """What the ranks compute together is what one does, but for the smaller halves of key switching."""
    whole = toy_rows(lambda a, b: a @ b, a=S(256, 64), b=S(64, 256), precision=1e-2)
    alone, *_ = _runs(whole, 1)
    for ranks in (2, 4, 8):
        runs = _runs(whole, ranks)
        assert sum(run.counts.modular_macs for run in runs) == alone.counts.modular_macs
        assert sum(run.counts.row_switches for run in runs) == alone.counts.row_switches
        assert max(run.counts.modular_macs for run in runs) * ranks == alone.counts.modular_macs
        assert max(run.counts.row_switches for run in runs) * ranks <= 1.02 * alone.counts.row_switches


def _runs(program: cb.Program, ranks: int) -> Any:
    from cipherblas.distributed.dry_run import rank_runs

    plan = program.plan
    return rank_runs(plan.parameters, program.listing, plan.decided, ranks)


def test_a_program_sends_nothing_alone() -> None:
    whole = OnRanks(toy_rows(lambda a, b: a @ b, a=S(8, 8), b=S(8, 8)))
    ((_, server),) = whole.on(1)
    assert server.last.sent == Sent()


@pytest.mark.parametrize("operand_moduli", [False, True])
def test_integers_modulo_t(operand_moduli: bool) -> None:
    operands = {name: S(11, 11, modulus=1000) for name in "ab"} | {"w": P(9, 11, dtype="int8")}
    program = toy_rows(lambda a, b, w: w @ (a @ b) - w, n=64, operand_moduli=operand_moduli, **operands)
    client, generator = program.client(), np.random.default_rng(0)
    values = {name: generator.integers(-100, 100, one.shape) for name, one in program.operands.items()}
    sent = {"w": values["w"], **client.encrypt({name: values[name] for name in "ab"})}
    keys = client.evaluation_keys()
    expected = (values["w"] @ (values["a"] @ values["b"]) - values["w"]) % 1000

    def work(communicator: Communicator) -> Any:
        return program.server(keys, communicator=communicator).run(sent)

    assert np.array_equal(client.decrypt(program.server(keys).run(sent)), expected)
    assert np.array_equal(client.decrypt(run_ranks(3, work)[0]), expected)
