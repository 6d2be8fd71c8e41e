"""Products that are computed last keep three components: no key, the same results."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import FormatError, MemoryBudgetError, MismatchError, ShapeError
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.in_process import run_ranks
from cipherblas.lang.analysis import trace
from cipherblas.lang.facts import facts_of
from cipherblas.lang.graph import as_matrices
from tests.corpus.machine import MACHINE
from tests.support.runs import Parties, comes_back, is_a_list, run, run_by_files, toy, values_of

T = 65537
KINDS: dict[str, dict[str, Any]] = {
    "real": {},
    "public key": {"encryption": "public-key"},
    "modulo t": {"modulus": T},
    "exact": {"dtype": "int16", "exact": True},
}
PROGRAMS: dict[str, Callable[..., Any]] = {
    "product": lambda a, b: a * b,
    "square": lambda a, b: a * a - b,
    "sum of products": lambda a, b: a * b + a * a - 3 * (b * b),
    "further sums": lambda a, b: 2 * (a * b + b) - 1 + a,
    "clear factors": lambda a, b: (np.full((3, 1), 2.0) * a) * b,
    "several": lambda a, b: {"p": a * b, "d": a - b},
    "result and sum": lambda a, b: (a * b, a * b + a),
}
RELINEARISED: dict[str, Callable[..., Any]] = {
    "of three factors": lambda a, b: a * b * a,
    "result and factor": lambda a, b: (a * b, a * b * a),
    "rotated": lambda a, b: cb.sum(a * b),
    "beside a product of matrices": lambda a, b: (a * b, a.T @ b),
    "beside a polynomial": lambda a, b: (a * b, b**4),
    "none": lambda a, b: a + b,
}


def program(name: str, kind: str = "real", **options: Any) -> cb.Program:
    """A small program, on a toy ring."""
    operands = {each: cb.secret(3, 5, **KINDS[kind]) for each in "ab"}
    return toy(PROGRAMS[name], **operands, machine=MACHINE, **{"minimise": "server", **options})


def check(one: cb.Program, seed: int = 1) -> None:
    """Right results, by no key, with the counts of the plan."""
    found = run(one, values_of(one, seed))
    if one.plan.parameters.plain_modulus is None:
        found.check()
    assert found.error == 0 or one.plan.parameters.plain_modulus is None
    assert found.counts == one.plan.counts and found.counts.relinearisations == 0


@pytest.mark.parametrize("name", [*PROGRAMS, *RELINEARISED])
def test_which_products_are_last(name: str) -> None:
    operands = {each: cb.secret(3, 5) for each in "ab"}
    graph = as_matrices(trace({**PROGRAMS, **RELINEARISED}[name], operands))
    assert graph is not None
    facts = facts_of(graph)
    assert facts.multiplies_last == (name in PROGRAMS)
    multiplied = {id(node) for node in facts.order if node.op == "multiply" and node.children[1].secret}
    if name in ("product", "sum of products", "several", "result and sum"):
        assert facts.last_products == multiplied
    if name in ("rotated", "none"):
        assert not facts.last_products


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_key(name: str, kind: str) -> None:
    one = program(name, kind)
    plan = one.plan
    assert plan.decided.unrelinearised and plan.key_bytes == 0 and not len(plan.keys)
    assert plan.parameters.p == () and plan.counts.relinearisations == 0
    assert 3 in [output.components for output in one.outputs]
    assert "none: products are not relinearised" in one.explain()
    comes_back(one)
    for modulo in one.residues:
        is_a_list(modulo)


@pytest.mark.encrypted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, kind: str) -> None:
    check(program(name, kind))


@pytest.mark.encrypted
@pytest.mark.parametrize("kind", KINDS)
def test_by_files(kind: str, tmp_path: Path) -> None:
    one = program("several", kind)
    found = run_by_files(one, values_of(one), tmp_path)
    assert found.error <= max(each.error for each in one.plan.results)


@pytest.mark.encrypted
@pytest.mark.parametrize("kind", KINDS)
def test_on_ranks(kind: str) -> None:
    """The residues of one process."""
    one = program("several", kind)
    parties = Parties(one)
    keys, inputs = parties.client.evaluation_keys(), parties.inputs(values_of(one))
    alone = parties.server.run(inputs)

    def work(communicator: Communicator) -> Any:
        return one.server(keys, communicator=communicator).run(inputs)

    for ranks in (1, 2, 3):
        result = run_ranks(ranks, work)[0]
        for got, wanted in zip(result.ciphertexts, alone.ciphertexts, strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.encrypted
@pytest.mark.parametrize("fill", [0.0, 1.0, -1.0])
def test_entries_at_the_bound(fill: float) -> None:
    for kind in ("real", "exact"):
        one = program("sum of products", kind)
        run(
            one, {name: np.full(each.shape, fill * int(each.bound)) for name, each in one.operands.items()}
        ).within()


@pytest.mark.parametrize("name", RELINEARISED)
def test_of_which_more_is_computed(name: str) -> None:
    one = toy(RELINEARISED[name], a=cb.secret(3, 5), b=cb.secret(3, 5), machine=MACHINE, form="blocks")
    assert not one.plan.decided.unrelinearised
    assert {output.components for output in one.outputs} == {2}


def test_the_other_way_is_told() -> None:
    assert "elementwise" in [one.algorithm for one in program("product").plan.rejected]
    slow = program("result and sum", minimise="end-to-end", link=1e7)  # results take most of the time
    assert slow.plan.keys.relinearise and not slow.plan.decided.unrelinearised
    assert "elementwise without keys" in slow.explain().split("not taken:")[1]
    fast = program("result and sum", minimise="end-to-end")
    (other,) = (one for one in fast.plan.rejected if one.algorithm == "elementwise")
    assert fast.plan.key_bytes == 0 and other.reason == "takes about as long"
    assert other.seconds is not None and other.seconds < fast.plan.minimised


def test_without_room_for_keys() -> None:
    one = program("result and sum", minimise="end-to-end", key_budget=0)
    assert one.plan.decided.unrelinearised and one.plan.key_bytes == 0
    with pytest.raises(MemoryBudgetError, match="key_budget"):
        toy(
            RELINEARISED["of three factors"],
            a=cb.secret(3, 5),
            b=cb.secret(3, 5),
            machine=MACHINE,
            key_budget=0,
        )


def test_a_secure_ring_is_smaller_without_special_primes() -> None:
    one = cb.compile(PROGRAMS["product"], {each: cb.secret(40, 40) for each in "ab"}, machine=MACHINE)
    params = one.plan.parameters
    assert params.security == 128 and params.n == 4096 and params.p == ()
    assert params.log_q <= 109  # of N = 4096, by the table


@pytest.mark.encrypted
def test_errors_for_a_worst_case_hold() -> None:
    one = program("sum of products", precision=1e-9)
    values = {name: np.ones(each.shape) for name, each in one.operands.items()}
    assert run(one, values).error <= one.worst_error
    parties = Parties(one)
    share = cb.Sharing(entries=15)
    shared = parties.client.decrypt(parties.server.run(parties.inputs(values)), share=share)
    assert np.abs(shared - one.evaluate(values)).max() <= 10 * share.deviation(one)


@pytest.mark.encrypted
def test_results_of_other_components_are_refused() -> None:
    parties = Parties(program("product"))
    result = parties.server.run(parties.inputs(values_of(parties.program)))
    (array,) = result.ciphertexts
    assert array.shape[0] == 3
    with pytest.raises(ShapeError):
        parties.client.decrypt(replace(result, ciphertexts=(array[:2],)))


def test_decisions_of_a_file() -> None:
    one = program("product")
    header, tensors = one._content()
    header = json.loads(json.dumps(header))
    assert header["decisions"]["unrelinearised"] is True
    relinearised = {**header, "decisions": {**header["decisions"], "unrelinearised": False}}
    with pytest.raises(MismatchError):
        cb.Program._read(relinearised, tensors, one.plan.parameters)
    other = toy(RELINEARISED["of three factors"], a=cb.secret(3, 5), b=cb.secret(3, 5), machine=MACHINE)
    header, tensors = other._content()
    header = json.loads(json.dumps(header))
    forged = {**header, "decisions": {**header["decisions"], "unrelinearised": True}}
    with pytest.raises(FormatError, match="of which more is computed"):
        cb.Program._read(forged, tensors, other.plan.parameters)


@pytest.mark.encrypted
def test_operands_are_expanded_one_by_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where they are large: the server then holds few of their ciphertexts at a time."""
    operands = {each: cb.secret(200, 70, modulus=T) for each in "ab"}
    plans = []
    for kept in (1 << 40, 0):
        monkeypatch.setattr("cipherblas.planner.predict.dry_run.KEPT_BYTES", kept)
        monkeypatch.setattr("cipherblas.roles.received.KEPT_BYTES", kept)
        monkeypatch.setattr("cipherblas.planner.predict.dry_run.streaming_batch", lambda nbytes: 2)
        one = toy(PROGRAMS["product"], **operands, machine=MACHINE, minimise="server")
        plans.append(one.plan)
        check(one)
        assert run_by_files(one, values_of(one), tmp_path).error == 0
    assert plans[0].streamed_bytes == 0 < plans[1].streamed_bytes
    assert plans[1].peak_bytes < plans[0].peak_bytes
    repeated = toy(lambda a, b: (a * b, a + b), **operands, machine=MACHINE, minimise="server")
    assert repeated.plan.streamed_bytes == 0  # each is taken twice
    check(repeated)


def test_products_of_wide_integers_take_the_smallest_ring() -> None:
    operands = {each: cb.secret(100, modulus=2**64) for each in "ab"}
    one = cb.compile(lambda a, b: a * b, operands, machine=MACHINE)
    assert one.plan.key_bytes == 0 and one.plan.parameters.n == 4096
    assert math.prod(one.plan.moduli) > 2**127
