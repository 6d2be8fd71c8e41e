"""Programs of features on ranks: each computes the samples of some blocks, from the operands to the results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.in_process import run_ranks
from cipherblas.distributed.slots import Division, SlotsPlanned
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.runtime.blocks import COEFFICIENTS
from cipherblas.runtime.inputs import SymbolicInputs
from cipherblas.runtime.listing import Replay
from tests.support.runs import toy, values_of

RANKS = (2, 3, 5)  # more than there are blocks
MODULUS = 40961
RANDOM = np.random.default_rng(3)
FIRST, SECOND = (RANDOM.uniform(-1, 1, shape) for shape in ((5, 7), (3, 5)))

PROGRAMS: Mapping[str, tuple[Any, Mapping[str, Any], Mapping[str, Any]]] = {
    "clear weights": (
        lambda x: SECOND @ cb.square(FIRST @ x) + 1,
        {"x": cb.secret(7, 2100)},
        {"precision": 1e-2},
    ),
    "several results, samples along the rows": (
        lambda x: (x @ FIRST.T, x[:, :2] * x[:, 1:3], cb.square(x @ FIRST.T) @ SECOND.T),
        {"x": cb.secret(2100, 7)},
        {"precision": 1e-2},
    ),
    "encrypted weights": (
        lambda x, w, v: cb.square(x @ w) @ v,
        {"x": cb.secret(2100, 7), "w": cb.secret(7, 3), "v": cb.secret(3, 2)},
        {"precision": 1e-2},
    ),
    "modulo t": (
        lambda x, w: (x @ w + 3) ** 2,
        {"x": cb.secret(9000, 4, modulus=MODULUS), "w": cb.secret(4, 3, modulus=MODULUS)},
        {"ring_degree": 4096},
    ),
    "two operands": (
        lambda x, y: FIRST @ (x - y * x),
        {"x": cb.secret(7, 2100), "y": cb.secret(7, 2100)},
        {"precision": 1e-2},
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_of_samples_are_shared(name: str) -> None:
    """Ciphertexts are those of one process bit for bit; each rank multiplies its part, and sends what was planned."""
    function, operands, options = PROGRAMS[name]
    program = toy(function, **operands, form="features", **options)
    packed = any(choice.method == COEFFICIENTS for choice in program.plan.decided.choices.values())
    client, values = program.client(), values_of(program)
    sent, keys = client.encrypt(values), client.evaluation_keys()
    server = program.server(keys)
    alone, counts = server.run(sent), server.last.counts
    for ranks in RANKS:

        def work(communicator: Communicator) -> tuple[Any, cb.Server]:
            server = program.server(keys, communicator=communicator)
            return server.run(sent), server

        found = run_ranks(ranks, work)
        result, servers = found[0][0], [server for _, server in found]
        assert result.digest == alone.digest
        for rank, one in enumerate(servers):
            assert one.last.sent == one.rank_runs[rank].sent and one.last.counts.products <= counts.products
            assert (one.rank_runs[rank].counts.products, bool(one.last.sent.messages)) == (
                one.last.counts.products,
                rank > 0 and (one.last.counts.products if packed else one.last.counts.mac_limbs) > 0,
            )
        assert sum(one.last.counts.products for one in servers) == counts.products
        if packed:
            assert all(
                one.last.counts.rotations == counts.rotations for one in servers
            )  # weights, which all take apart
        else:
            assert sum(one.last.counts.mac_limbs for one in servers) == counts.mac_limbs
        assert max(one.last.counts.mac_limbs for one in servers) < counts.mac_limbs


def test_errors_of_a_handle_that_stands_for_many_blocks_are_added_once() -> None:
    """On the shapes of a rank, as in one process: of samples in 40 blocks, by weights whose sums are known."""
    program = toy(
        lambda x, w, v: cb.square(x @ w) @ v,
        x=cb.secret(40 * 1024, 7),
        w=cb.secret(7, 3, column_sum=2.0),
        v=cb.secret(3, 2, column_sum=1.5),
        form="features",
        precision=1e-2,
    )
    params, policy = program.plan.parameters, program.plan.key_policy

    def error(slots: Symbolic) -> float:
        evaluators = Evaluators(lambda: slots, lambda: pytest.fail("there are no rows"))
        (result,) = Replay(program.listing, evaluators, SymbolicInputs()).results()
        return result.error()

    def of_rank(communicator: Communicator) -> float:
        slots = SlotsPlanned(params, key_policy=policy)
        slots.division = Division(communicator, "4d-s")
        return error(slots)

    assert "errors" in {one.name for one in program.listing}
    (found,), planned = run_ranks(1, of_rank), error(Symbolic(params, key_policy=policy))
    assert 0.9 * planned < found <= planned  # which takes the terms of a sum to be alike
