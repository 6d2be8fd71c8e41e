"""Exact products of 16-bit clear factors and operands with moduli of their own: residues of weights, not bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.progress import Steps
from cipherblas.crypto.fields import OPERAND_MODULI
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.in_process import run_ranks
from cipherblas.planner.predict.dry_run import dry_run
from cipherblas.rlwe.matrices import OperandRows
from cipherblas.roles.client import KeyOpener
from cipherblas.runtime.values import MethodChoice
from tests.corpus.machine import MACHINE
from tests.program.test_exact_bytes import PROGRAMS as IN_BYTES
from tests.program.test_exact_bytes import P, S, check, values_for
from tests.support.runs import Parties, listed, run_by_files, toy_rows

pytestmark = pytest.mark.encrypted

FILLS = ("least", "most", "mixed", "zeros", "random")
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    **{
        name: IN_BYTES[name]
        for name in (
            *("by rows", "by columns", "transposed", "one entry", "constant", "small secrets", "unsigned"),
            *("of other signs", "multiples", "several"),
        )
    },
    "longer than the ring": (lambda a, b: a @ b, {"a": P(3, 4), "b": S(4, 150)}),
    "many terms": (lambda a, b: a @ b, {"a": P(2, 3000), "b": S(3000, 3)}),
    "a term": (lambda a, b, c: a @ b - 5 * c + 7, {"a": P(9, 40), "b": S(40, 5), "c": S(9, 5)}),
    "two products": (
        lambda a, b, v, c: a @ b + v @ c,
        {"a": P(9, 40), "b": S(40, 5), "v": P(9, 3), "c": S(3, 5)},
    ),
    "a factor of a factor": (
        lambda v, a, b: v @ (a @ b),
        {"v": cb.public(2, 9, dtype="int8"), "a": P(9, 40), "b": cb.secret(40, 5, dtype="int8", exact=True)},
    ),
    "beside one of bytes": (
        lambda a, v, b: (a @ b, v @ b),
        {"a": P(9, 40), "v": cb.public(4, 40, dtype="int8"), "b": S(40, 5)},
    ),
    "beside secrets": (
        lambda a, b, c, d: (a @ b, c @ d),
        {"a": P(9, 8), "b": S(8, 5), "c": S(9, 4), "d": S(4, 5)},
    ),
    "its own result": (lambda a, b: (b, a @ b), {"a": P(9, 40), "b": S(40, 5)}),
}


def planned(name: str, n: int = 64) -> cb.Program:
    function, operands = PROGRAMS[name]
    program = toy_rows(function, n=n, by_bytes=False, operand_moduli=True, **operands)
    assert program.plan.parameters.operand_moduli is not None
    assert any(choice.options.get("moduli") for choice in program.plan.choices)
    assert program.plan.counts.operand_macs > 0
    assert name == "beside secrets" or not program.plan.keys.galois
    return program


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    program = planned(name)
    check(program, PROGRAMS[name][0], *(values_for(program, fill) for fill in FILLS))


def test_messages_of_operands_are_words() -> None:
    """In a sum with a product of secrets what weights multiply would be encrypted at a scale that no word holds."""

    def function(a: Any, b: Any, c: Any, d: Any) -> Any:
        return a @ b + c @ d

    operands = {"a": P(9, 8), "b": S(8, 5), "c": S(9, 4), "d": S(4, 5)}
    for wanted in (True, None):
        program = toy_rows(function, n=64, operand_moduli=wanted, by_bytes=False, **operands)
        check(program, function, *(values_for(program, fill) for fill in FILLS))


def test_real_parameters() -> None:
    """Planned by itself where the machine is fast at bytes, and secure."""
    operands = {"a": P(5, 1000), "b": S(1000)}
    options: dict[str, Any] = {"form": "rows", "machine": MACHINE, "minimise": "server"}
    program = cb.compile(lambda a, b: a @ b, operands, **options)
    plan = program.plan
    assert [choice.options.get("moduli") for choice in plan.choices] == [True]
    assert plan.parameters.operand_moduli == OPERAND_MODULI[:9] and plan.parameters.security == 128
    assert "of a byte (255 … 227)" in program.explain()
    check(program, lambda a, b: a @ b, *(values_for(program, fill) for fill in ("least", "random")))
    without = replace(MACHINE, rates=replace(MACHINE.rates, operands=None))
    other = cb.compile(lambda a, b: a @ b, operands, **{**options, "machine": without}).plan
    assert other.parameters.operand_moduli is None


def test_errors_before_rounding_are_as_planned() -> None:
    program = planned("many terms", n=128)
    (output,), parties = program.outputs, Parties(program)
    assert program.plan.error < program.worst_error
    for fill, runs in (
        ("least", 6),
        ("random", 2),
    ):  # one alone may be near zero: entries that are equal err alike
        values, errors = values_for(program, fill), []
        for _ in range(runs):
            result = parties.server.run(parties.inputs(values))
            found = output.opened(KeyOpener(parties.client._secret, Steps(None, 2)), result.ciphertexts)
            errors.append(np.abs(found - values["a"].astype(np.int64) @ values["b"]).max())
        assert 0.03 < max(errors) / program.plan.error <= 1


@pytest.mark.parametrize("name", ["by rows", "by columns", "a term", "longer than the ring", "several"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks(name: str, ranks: int) -> None:
    program = planned(name)
    parties = Parties(program)
    sent, keys = parties.inputs(values_for(program, "random")), parties.client.evaluation_keys()
    alone = program.server(keys).run(sent)

    def work(communicator: Communicator) -> Any:
        return program.server(keys, communicator=communicator).run(sent)

    found = run_ranks(ranks, work)[0]
    for got, wanted in zip(found.ciphertexts, alone.ciphertexts, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["by columns", "longer than the ring", "its own result"])
def test_files(name: str, tmp_path: Path) -> None:
    program = planned(name)
    values = values_for(program, "random")
    found = run_by_files(program, values, tmp_path)
    wanted = PROGRAMS[name][0](**values)
    np.testing.assert_array_equal(
        listed(program, found.decrypted)[-1], wanted[-1] if isinstance(wanted, tuple) else wanted
    )


def test_moduli_are_those_that_the_result_takes() -> None:
    """As many bytes as its bits and those of its error: no more than of the weights' own bytes and the result's."""
    program, other = planned("by rows"), toy_rows(PROGRAMS["by rows"][0], n=64, **PROGRAMS["by rows"][1])
    moduli = program.plan.parameters.operand_moduli or ()
    bits = np.log2(np.array(moduli, float)).sum()
    assert bits - 8 < np.log2(2 * 40 * 2.0**30) + np.log2(2 * 3.2 * 10 * 2.0**15 * np.sqrt(40)) < bits + 1
    (rows,) = Parties(program).inputs(values_for(program, "random"))["b"].feeds[0]
    assert isinstance(rows, OperandRows)
    assert other.plan.parameters.operand_moduli is None


REFUSED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "one byte": (lambda a, b: a @ b, {"a": cb.public(3, 4, dtype="int8"), "b": S(4, 3)}),
    "more than two": (lambda a, b: a @ b, {"a": cb.public(3, 4, bound=2**15 + 1, dtype="int32"), "b": S(4, 3)}),
    "real weights": (
        lambda a, b: a @ b,
        {"a": cb.public(3, 4, bound=300), "b": cb.secret(4, 3, dtype="int16")},
    ),
    "a secret that is computed": (
        lambda a, b, c: a @ (b + c),
        {"a": P(3, 4), "b": S(4, 3, bound=9e3), "c": S(4, 3, bound=9e3)},
    ),
    "public key": (lambda a, b: a @ b, {"a": P(3, 4), "b": S(4, 3, encryption="public-key")}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_products_take_no_residues(name: str) -> None:
    """None is planned so, and decisions that say otherwise are refused, where operands have moduli of their own."""
    function, operands = REFUSED[name]
    program = toy_rows(function, n=64, operand_moduli=None, **operands)
    assert not any(choice.options.get("moduli") for choice in program.plan.choices)
    decided = program.plan.decided
    forged = replace(
        decided,
        choices={
            number: MethodChoice(choice.method, {"weight_bits": 20, "moduli": True})
            for number, choice in decided.choices.items()
        },
    )
    params = planned("by rows").plan.parameters
    with pytest.raises(cb.ParameterError, match="decided to be one of residues"):
        dry_run(params, program.executed, forged)
