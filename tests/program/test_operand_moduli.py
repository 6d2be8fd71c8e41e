"""Products of secrets whose operands have moduli of their own: programs, errors, files, ranks, where there are none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.crypto.fields import OPERAND_MODULI
from cipherblas.crypto.keys import generate_secret
from cipherblas.crypto.params import make_parameters
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.in_process import run_ranks
from cipherblas.planner.plan.explain import shown_nodes
from cipherblas.rlwe.basis import OPERAND_BASIS
from cipherblas.rlwe.matrices import OperandRows, encryption, transpose_request
from cipherblas.rlwe.matrices.encryption import encrypt_rows
from tests.corpus.machine import MACHINE
from tests.support.runs import Parties, listed, run_by_files, toy_rows, values_of

pytestmark = pytest.mark.encrypted

RNG = np.random.default_rng(52)


def S(*shape: int, **rest: Any) -> Any:
    return cb.secret(*shape, **rest)


def E(*shape: int, dtype: str = "int8") -> Any:
    return cb.secret(*shape, dtype=dtype, exact=True)


def _with_its_multiple(a: Any, b: Any) -> Any:
    c = 2 * a
    return c @ b, c


def _with_its_rows(a: Any, b: Any) -> Any:
    c = a[:2]
    return c @ b, c


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "product": (lambda a, b: a @ b, {"a": S(9, 40), "b": S(40, 30)}),
    "transposed": (lambda a, b: b.T @ a.T, {"a": S(9, 40), "b": S(40, 30)}),
    "one entry": (lambda a, b: a @ b, {"a": S(1, 1), "b": S(1, 1)}),
    "as large as the ring": (lambda a, b: a @ b, {"a": S(64, 64), "b": S(64, 64)}),
    "longer than the ring": (lambda a, b: a @ b, {"a": S(70, 3), "b": S(3, 100)}),
    "bounds far apart": (lambda a, b: a @ b, {"a": S(5, 20, bound=1e6), "b": S(20, 5, bound=1e-6)}),
    "its transpose and a matrix": (lambda a: a.T @ a, {"a": S(12, 9)}),
    "a matrix and its transpose": (lambda a: a @ a.T, {"a": S(12, 9)}),
    "longer, and its transpose": (lambda a: a @ a.T, {"a": S(70, 5)}),
    "terms": (lambda a, b, c: 2 * (a @ b) - c + np.eye(5), {"a": S(5, 6), "b": S(6, 5), "c": S(5, 5)}),
    "of products": (
        lambda a, b, c: a @ b + 3 * (b @ c),
        {"a": S(5, 5), "b": S(5, 5), "c": S(5, 5)},
    ),
    "clear factors": (
        lambda a, b, w: w @ (a @ b) @ w.T,
        {"a": S(5, 6), "b": S(6, 5), "w": cb.public(7, 5), "error": 5.0},
    ),
    "a multiple of its transpose": (lambda a: (3 * a).T @ a, {"a": S(12, 9)}),
    "its square": (lambda a: a @ a, {"a": S(9, 9)}),
    "several": (lambda a, b: (a @ b, b.T @ b), {"a": S(5, 6), "b": S(6, 5)}),
    "a factor that is a result": (lambda a, b: (a @ b, a), {"a": S(9, 12), "b": S(12, 5)}),
    "a factor of integers that is a result": (lambda a, b: (b, a @ b), {"a": E(9, 12), "b": E(12, 5)}),
    "factors of its own": (lambda a: (a, a.T @ a, 2 * a, a[:2]), {"a": S(9, 12)}),
    "a multiple that is a result": (_with_its_multiple, {"a": S(9, 12), "b": S(12, 5)}),
    "some rows that are a result": (
        _with_its_rows,
        {"a": E(9, 12, dtype="int16"), "b": E(12, 5, dtype="int16")},
    ),
    "int8": (lambda a, b: a @ b, {"a": E(9, 40), "b": E(40, 30)}),
    "int16": (lambda a, b: a @ b, {"a": E(9, 40, dtype="int16"), "b": E(40, 30, dtype="int16")}),
    "int16, its transpose": (lambda a: a @ a.T, {"a": E(9, 40, dtype="int16")}),
    "uint8": (lambda a, b: a @ b, {"a": E(9, 40, dtype="uint8"), "b": E(40, 30)}),
}
# What has factors that are computed, or by a public key, has one modulus for all.
OTHERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "public key": (lambda a, b: a @ b, {"a": S(9, 9), "b": S(9, 9, encryption="public-key")}),
    "chain": (lambda a, b: (a @ b) @ a, {"a": S(5, 5), "b": S(5, 5)}),
    "of sums": (lambda a, b: (a + b) @ b, {"a": S(5, 5), "b": S(5, 5)}),
    "of a clear product": (lambda a, w: (w @ a) @ a, {"a": S(5, 5), "w": cb.public(5, 5)}),
    "of a clear matrix": (lambda a, w: w @ a, {"a": S(5, 5), "w": cb.public(5, 5)}),
}


def planned(name: str, **options: Any) -> cb.Program:
    function, operands = PROGRAMS[name]
    program = toy_rows(function, n=64, operand_moduli=True, **operands, **options)
    assert (program.plan.parameters.operand_moduli or ())[0] == OPERAND_MODULI[0]
    assert program.plan.parameters.limbs == 1
    return program


def extremes(program: cb.Program, sign: float) -> dict[str, NDArray[np.float64]]:
    """All entries as large as they may be, where they are whole with one sign as large as integers have it."""
    found = {}
    for name, operand in program.operands.items():
        fill = sign * operand.bound
        found[name] = np.full(operand.shape, fill if sign < 0 or not operand.whole else fill - 1)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    program = planned(name)
    parties = Parties(program)
    for values in (values_of(program), extremes(program, -1.0), extremes(program, 1.0)):
        if name == "uint8":
            values["a"] = np.abs(values["a"])
        found = listed(program, parties.client.decrypt(parties.server.run(parties.inputs(values))))
        wanted = listed(program, PROGRAMS[name][0](**values))
        for one, want, result in zip(found, wanted, program.plan.results, strict=True):
            assert np.abs(one - want).max() <= (0 if one.dtype == np.int64 else result.error)
    assert parties.server.last.counts == program.plan.counts
    assert program.plan.counts.operand_macs > 0


@pytest.mark.parametrize("together", [1, 7])
def test_rows_that_are_encrypted_together(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = planned("as large as the ring")
    words = -(-len(program.plan.parameters.operand_moduli or ()) // 8)
    monkeypatch.setattr(encryption, "STRIP_WORDS", together * words * 64)
    assert Parties(program).run(values_of(program)).error <= program.plan.error


@pytest.mark.parametrize("name", OTHERS)
def test_where_there_are_none(name: str) -> None:
    function, operands = OTHERS[name]
    program = toy_rows(function, n=64, operand_moduli=None, **operands)
    assert program.plan.parameters.operand_moduli is None
    parties, values = Parties(program), values_of(program)
    assert parties.run(values).error <= program.plan.error


def test_as_many_moduli_as_the_precision_takes() -> None:
    counts = []
    for error in (1.0, 1e-4, 1e-6, 1e-7):
        program = planned("product", error=error)
        moduli = program.plan.parameters.operand_moduli or ()
        counts.append(len(moduli))
        values = values_of(program)
        run = Parties(program).run(values)
        assert run.error <= program.plan.error <= error
    assert counts == sorted(set(counts)) and counts[0] < 8 < counts[-1]


@pytest.mark.parametrize("name", ["product", "int8", "its transpose and a matrix"])
def test_files(name: str, tmp_path: Path) -> None:
    program = planned(name)
    values = values_of(program)
    found = run_by_files(program, values, tmp_path)
    np.testing.assert_allclose(
        listed(program, found.decrypted)[0], PROGRAMS[name][0](**values), atol=program.plan.error
    )


@pytest.mark.parametrize("name", ["product", "longer than the ring", "its transpose and a matrix", "several"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks(name: str, ranks: int) -> None:
    program = planned(name)
    parties = Parties(program)
    sent, keys = parties.inputs(values_of(program)), parties.client.evaluation_keys()
    alone = program.server(keys).run(sent)

    def work(communicator: Communicator) -> Any:
        return program.server(keys, communicator=communicator).run(sent)

    found = run_ranks(ranks, work)[0]
    for got, wanted in zip(found.ciphertexts, alone.ciphertexts, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_real_parameters() -> None:
    """Planned by itself where the machine is fast at bytes, and secure."""
    operands = {"a": S(30, 300), "b": S(300, 20)}
    options: dict[str, Any] = {"form": "rows", "machine": MACHINE, "minimise": "server"}
    program = cb.compile(lambda a, b: a @ b, operands, **options)
    plan = program.plan
    assert plan.parameters.operand_moduli is not None
    assert plan.parameters.security == 128 and plan.parameters.log_qp >= 40
    text = program.explain()
    assert "of a byte (255 … " in text and "of bytes" in text
    assert [one.limbs for one in shown_nodes(plan)] == ["operand modulus"] * 2 + ["1 limb"]
    without = dataclasses.replace(MACHINE, rates=dataclasses.replace(MACHINE.rates, operands=None))
    other = cb.compile(lambda a, b: a @ b, operands, **{**options, "machine": without}).plan
    assert other.parameters.operand_moduli is None
    assert plan.parameters.log_q >= other.parameters.log_q  # what switches add may be shared
    exact = {name: E(*operand.shape) for name, operand in operands.items()}
    assert cb.compile(lambda a, b: a @ b, exact, **options).plan.parameters.operand_moduli is not None


@pytest.mark.parametrize(("n", "security"), [(4096, 192), (4096, 256), (8192, 128), (8192, 256)])
def test_plans_of_any_security_have_primes(n: int, security: int) -> None:
    """Two limbs only where they hold more than one; P is never smaller than a digit."""
    operands = {"a": S(20, 30), "b": S(30, 10)}
    options: dict[str, Any] = {"form": "rows", "security": security, "ring_degree": n, "machine": MACHINE}
    found = 0
    for precision in (0.3, 0.1, 1e-2, 1e-3, 1e-7, 1e-9, 1e-13):
        try:
            plan = cb.compile(lambda a, b: a @ b, operands, **options, precision=precision).plan
        except cb.PrecisionError:
            continue
        found += 1
        params = plan.parameters
        assert params.log_p >= params.log_q / params.limbs - 0.5
        assert plan.error <= precision * 30
    assert found >= 2


def test_errors_of_results_that_are_shared() -> None:
    """At worst no more times as large as without moduli of operands."""
    own, other = (
        toy_rows(*(PROGRAMS["product"][0], 64), operand_moduli=wanted, **PROGRAMS["product"][1])
        for wanted in (True, False)
    )
    assert own.plan.error < own.worst_error < 2 * other.worst_error


def test_what_is_sent_is_refused_elsewhere() -> None:
    """Operands modulo q_0 do not take the place of those with moduli of their own, and the other way round."""
    function, operands = PROGRAMS["product"]
    own, other = (toy_rows(function, n=64, operand_moduli=wanted, **operands) for wanted in (True, False))
    values = values_of(own)
    mine, theirs = Parties(own), Parties(other)
    (rows,) = mine.inputs(values)["a"].feeds[0]
    assert isinstance(rows, OperandRows)
    for call in (lambda: rows.add(rows), lambda: rows.times(2), lambda: rows.drop(1), lambda: rows.T):
        with pytest.raises(cb.DTypeError, match="moduli of operands"):
            call()
    with pytest.raises(cb.RangeError, match="does not fit"):
        encrypt_rows(mine.client._secret, np.ones((2, 2)), 2.0**61, kind=OperandRows)
    with pytest.raises(cb.MismatchError, match="RlweRows"):
        transpose_request(rows)
    with pytest.raises(cb.MismatchError):
        theirs.server.run(mine.inputs(values))
    with pytest.raises(cb.CipherblasError):
        dataclasses.replace(rows, b=rows.b[:, :, :1])
    damaged = rows.b.copy()
    damaged[0, 0, 0] |= 0xFF
    with pytest.raises(cb.RangeError, match="not below its modulus"):
        dataclasses.replace(rows, b=damaged).check_residues()


def test_saved_rows(tmp_path: Path) -> None:
    program = planned("int8")
    (rows,) = Parties(program).inputs(values_of(program))["a"].feeds[0]
    rows.save(tmp_path / "rows")
    low: dict[str, Any] = {"insecure": True, "security": 0}
    found = OperandRows.load(tmp_path / "rows", **low)
    np.testing.assert_array_equal(found.b, rows.b)
    np.testing.assert_array_equal(found.a, rows.a)
    assert found.basis == rows.basis == OPERAND_BASIS
    moduli = program.plan.parameters.operand_moduli or ()
    assert found.a.shape[0] == -(-len(moduli) // 8)
    for i, modulus in enumerate(moduli):
        residues = found.a[i // 8] >> np.uint64(8 * (i % 8)) & np.uint64(255)
        assert modulus - 9 < int(residues.max()) < modulus and int(residues.min()) < 9


@pytest.mark.parametrize(
    "moduli",
    [
        *(5, "255", (255.0,), (), (254,), (257,), (127,), (1 << 52,), (255, 0)),
        *((255, 153), (*OPERAND_MODULI, 181)),
    ],
)
def test_moduli_that_there_are_none_of(moduli: Any) -> None:
    params = planned("product").plan.parameters
    with pytest.raises(cb.ParameterError, match="moduli of operands"):
        dataclasses.replace(params, operand_moduli=moduli, insecure=True)
    with pytest.raises(cb.ParameterError, match="moduli of operands"):
        type(params).parsed({**params.to_dict(), "operand_moduli": moduli})


@pytest.mark.filterwarnings("ignore::cipherblas.common.errors.SecurityWarning")
def test_a_prime_holds_the_masks_of_operands() -> None:
    options: dict[str, Any] = {"special_limbs": 0, "insecure": True, "operand_moduli": (255,)}
    params = make_parameters(64, [16.5], **options)
    assert (
        encrypt_rows(generate_secret(params), np.ones((2, 5)), 4.0, kind=OperandRows).basis == OPERAND_BASIS
    )
    with pytest.raises(cb.ParameterError, match="No prime is large enough"):
        make_parameters(64, [15.5], **options)


def test_security_counts_the_moduli_of_operands() -> None:
    params = cb.compile(
        lambda a, w: w @ a, {"a": S(30, 30), "w": cb.public(4, 30)}, form="rows"
    ).plan.parameters
    assert params.n == 2048 and params.security == 128
    few, many = OPERAND_MODULI[:6], OPERAND_MODULI[:7]
    assert dataclasses.replace(params, operand_moduli=few).log_qp >= 47
    with pytest.raises(cb.SecurityError):
        dataclasses.replace(params, operand_moduli=many)
