"""Exact products with 16-bit clear factors, multiplied byte by byte: programs, errors, and where they are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.common.progress import Steps
from cipherblas.crypto.fields import MAX_PRIME_BITS
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.in_process import run_ranks
from cipherblas.forms import byte_rows
from cipherblas.forms.row_forms import ByteRowForm
from cipherblas.methods.products import RING
from cipherblas.planner.predict.dry_run import dry_run
from cipherblas.planner.rings.row_sizes import RowSize
from cipherblas.rlwe.noise import FAILURE_BITS
from cipherblas.roles.client import KeyOpener
from cipherblas.runtime.values import MethodChoice
from tests.support.runs import Parties, listed, run_by_files, toy_rows

Array = NDArray[np.int64]
INT16, RNG = np.iinfo(np.int16), np.random.default_rng(8)
WEIGHTS = RNG.integers(INT16.min, INT16.max, (7, 50), endpoint=True)
WEIGHTS[0, :3] = 128, -129, 300
WEIGHTS[1], WEIGHTS[2] = INT16.min, INT16.max


def S(*shape: int, **rest: Any) -> Any:
    return cb.secret(*shape, dtype="int16", exact=True, **rest)


def P(*shape: int, **rest: Any) -> Any:
    return cb.public(*shape, dtype="int16", **rest)


def in_bytes(program: cb.Program) -> list[bool]:
    """Of each result, whether it is a product with bytes."""
    forms = [one.form for one in program.outputs]
    return [isinstance(form, ByteRowForm) for form in forms]


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "by rows": (lambda a, b: a @ b, {"a": P(9, 40), "b": S(40, 30)}),
    "by columns": (lambda b, a: b @ a, {"a": P(40, 9), "b": S(30, 40)}),
    "transposed": (lambda a, b: a.T @ b.T, {"a": P(40, 9), "b": S(30, 40)}),
    "longer than the ring": (lambda a, b: a @ b, {"a": P(3, 4), "b": S(4, 700)}),
    "one entry": (lambda a, b: a @ b, {"a": P(1, 1), "b": S(1, 1)}),
    "constant": (lambda b: WEIGHTS @ b, {"b": S(50, 9)}),
    "small secrets": (lambda a, b: a @ b, {"a": P(9, 40), "b": cb.secret(40, 5, dtype="int8", exact=True)}),
    "unsigned": (
        lambda a, b: a @ b,
        {"a": cb.public(9, 40, dtype="uint8"), "b": cb.secret(40, 5, dtype="uint16", exact=True)},
    ),
    "of other signs": (lambda a, b: (-a) @ (-3 * b), {"a": P(9, 40), "b": S(40, 5)}),
    "multiples": (lambda a, b: -3 * (-(a @ b)), {"a": P(9, 40), "b": S(40, 5)}),
    "multiples of secrets": (lambda a, b: (-2 * (a @ b), a @ a.T), {"a": S(9, 12), "b": S(12, 5)}),
    "of a product": (
        lambda a, v, b: a @ (v @ b),
        {"a": P(9, 6), "v": cb.public(6, 40, dtype="int8"), "b": cb.secret(40, 5, dtype="int8", exact=True)},
    ),
    "public key": (lambda a, b: a @ b, {"a": P(9, 40), "b": S(40, 5, encryption="public-key")}),
    "secrets": (lambda a, b: a @ b, {"a": S(9, 40), "b": S(40, 30)}),
    "transposed secrets": (lambda a, b: b.T @ a.T, {"a": S(9, 40), "b": S(40, 30)}),
    "secrets, one of a byte": (
        lambda a, b: a @ b,
        {"a": cb.secret(9, 40, dtype="int8", exact=True), "b": S(40, 30)},
    ),
    "longer secrets than the ring": (lambda a, b: a @ b, {"a": S(40, 4), "b": S(4, 70)}),
    "its transpose and a matrix": (lambda a: a.T @ a, {"a": S(12, 9)}),
    "secrets, by the public key": (
        lambda a, b: a @ b,
        {"a": S(9, 20), "b": S(20, 5, encryption="public-key")},
    ),
    "parts of an operand": (lambda a: a[:3] @ a[:, 2:], {"a": S(8, 8)}),
    "several": (lambda a, c, b: {"x": a @ b, "y": c @ b}, {"a": P(9, 40), "c": P(3, 40), "b": S(40, 5)}),
}


def values_for(program: cb.Program, fill: str) -> dict[str, Array]:
    """Entries as large as they may be, with one sign or another, or zeros: as the bounds of operands say, 2^15 too."""
    found = {}
    for name, operand in program.operands.items():
        most = int(operand.bound)
        least = 0 if most in (255, 65535) else -most
        found[name] = {
            "least": np.full(operand.shape, least),
            "most": np.full(operand.shape, most),
            "mixed": np.where(np.indices(operand.shape).sum(0) % 2, least, most),
            "zeros": np.zeros(operand.shape, np.int64),
            "random": RNG.integers(least, most, operand.shape, endpoint=True),
        }[fill]
    return found


def check(program: cb.Program, function: Callable[..., Any], *each: dict[str, Array]) -> None:
    """Each of these values, all under one key."""
    parties = Parties(program)
    for values in each:
        found = listed(program, parties.client.decrypt(parties.server.run(parties.inputs(values))))
        whole = {name: value.astype(np.int64) for name, value in values.items()}
        for one, want in zip(found, listed(program, function(**whole)), strict=True):
            assert one.dtype == np.int64
            np.testing.assert_array_equal(one, want)
        assert parties.server.last.counts == program.plan.counts
    assert max(one.error for one in program.plan.results) < 0.5


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    function, operands = PROGRAMS[name]
    secrets = (
        sum(operand.secret for operand in operands.values()) > 1 or "transpose and" in name or "parts" in name
    )
    program = toy_rows(function, n=64 if secrets else 256, by_bytes=True, **operands)
    assert all(in_bytes(program))
    fills = [values_for(program, fill) for fill in ("least", "most", "mixed", "zeros", "random")]
    narrow = {
        key: value.clip(INT16.min, INT16.max).astype(np.int16)
        for key, value in values_for(program, "random").items()
    }
    check(program, function, *fills, narrow)


def test_vectors() -> None:
    """In a ring that is secure: as matrices of one column."""
    program = cb.compile(lambda a, b: a @ b, {"a": P(9, 40), "b": S(40)}, form="rows")
    assert in_bytes(program) == [True]
    check(program, lambda a, b: a @ b, values_for(program, "random"))


def test_fixed_weights() -> None:
    program = toy_rows(lambda b: WEIGHTS @ b, fixed=True, by_bytes=True, b=S(50, 9))
    assert all(in_bytes(program)) and len(program.plan.keys.weights) == 2 * len(WEIGHTS) + 1
    check(program, lambda b: WEIGHTS @ b, *(values_for(program, fill) for fill in ("least", "random")))


def test_the_modulus_is_16_bits_smaller() -> None:
    """But for the logarithm of rows that are twice as many. So a larger product fits the ring of a smaller one."""
    operands = {"a": P(300, 300), "b": S(300, 300)}
    whole, split = (
        toy_rows(lambda a, b: a @ b, by_bytes=wanted, **operands).plan.parameters for wanted in (False, True)
    )
    assert 15 < whole.log_q - split.log_q < 17
    plan = cb.compile(lambda a, b: a @ b, operands, form="rows").plan
    assert plan.parameters.n == 2048 and plan.parameters.security == 128


@pytest.mark.parametrize("fill", ["least", "random"])
def test_errors_before_rounding_are_as_planned(fill: str) -> None:
    """At real parameters: products with bytes are off as much as is planned, and never more."""
    program = cb.compile(lambda a, b: a @ b, {"a": P(60, 300), "b": S(300, 90)}, form="rows")
    assert in_bytes(program) == [True] and program.plan.parameters.security == 128
    values, (output,) = values_for(program, fill), program.outputs
    parties = Parties(program)
    result = parties.server.run(parties.inputs(values))
    assert isinstance(output.form, ByteRowForm)
    plain = replace(output, form=replace(output.form, rows_by_bytes=False))
    found = plain.opened(KeyOpener(parties.client._secret, Steps(None, 2)), result.ciphertexts)
    wanted = byte_rows.in_bytes(values["a"]).astype(np.int64) @ values["b"]
    assert found.shape == wanted.shape == (121, 90)
    assert 0.1 < np.abs(found - wanted).max() / program.plan.error <= 1


def test_moduli_of_secrets_are_those_of_bytes() -> None:
    """In the ring that is planned: as small as that of int8, where the factors are not cut 30 bits and a limb more."""
    a, b = (cb.secret(256, 256, dtype=kind, exact=True) for kind in ("int8", "int16"))
    bytes_, words = (
        cb.compile(lambda x, y: x @ y, {"x": x, "y": x}, form="rows", minimise="server").plan for x in (a, b)
    )
    assert words.choices[0].options["bytes"] and "bytes" not in bytes_.choices[0].options
    assert abs(words.parameters.log_q - bytes_.parameters.log_q) < 3
    assert words.parameters.operand_moduli == bytes_.parameters.operand_moduli
    assert len({params.key_limbs or params.limbs for params in (words.parameters, bytes_.parameters)}) == 1


@pytest.mark.parametrize("name", ["by rows", "secrets"])
def test_errors_of_results_that_are_shared(name: str) -> None:
    """Data that someone chose may bring a product with bytes to the next whole number, which counts 385 times for each
    factor that is cut. Who asks for smaller errors, which rounding does not need, gets matrices as they are."""
    function, operands = PROGRAMS[name]
    loose, words, tight = (
        toy_rows(function, n=64, by_bytes=wanted, **error, **operands)
        for wanted, error in ((True, {}), (False, {}), (None, {"error": 0.05}))
    )
    assert all(in_bytes(loose)) and not any(in_bytes(tight))
    assert tight.worst_error < words.worst_error < 385 / 2
    assert loose.worst_error > 385 / 2 or name == "secrets"  # in a ring so small, with keys so large
    sharing = cb.Sharing(entries=270)
    values = values_for(tight, "random")
    parties = Parties(tight)
    shared = parties.client.decrypt(parties.server.run(parties.inputs(values)), share=sharing)
    assert 0 < np.abs(shared - function(**values)).max() < 10 * sharing.deviation(tight)


REFUSED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "one byte": (lambda a, b: a @ b, {"a": cb.public(3, 4, dtype="int8"), "b": S(4, 3)}),
    "more than two": (lambda a, b: a @ b, {"a": cb.public(3, 4, bound=2**15 + 1, dtype="int32"), "b": S(4, 3)}),
    "secrets of one byte": (
        lambda a, b: a @ b,
        {name: cb.secret(4, 4, dtype="int8", exact=True) for name in "ab"},
    ),
    "a secret that is computed": (lambda a, b: (a + b) @ b, {"a": S(4, 4, bound=9e3), "b": S(4, 4)}),
    "real numbers": (lambda a, b: a @ b, {"a": P(3, 4), "b": cb.secret(4, 3, dtype="int16")}),
    "a term": (lambda a, b: a @ b + 1, {"a": P(3, 4), "b": S(4, 3)}),
    "a factor": (
        lambda v, a, b: v @ (a @ b),
        {"v": cb.public(2, 3, dtype="int8"), "a": P(3, 4), "b": S(4, 3)},
    ),
    "a result and its multiple": (lambda a, b: (a @ b, 2 * (a @ b)), {"a": P(4, 4), "b": S(4, 3)}),
    "of two results": (lambda a, b: (3 * (a @ b), 2 * (a @ b)), {"a": P(4, 4), "b": S(4, 3)}),
    "a multiple and a term": (lambda a, b: (2 * (a @ b), 2 * (a @ b) + 1), {"a": P(4, 4), "b": S(4, 3)}),
    "a result and a term": (lambda a, b: (a @ b, a @ b - b), {"a": P(4, 4), "b": S(4, 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_products_are_no_results_of_two_bytes(name: str) -> None:
    """None is planned so, and decisions that say otherwise are refused."""
    function, operands = REFUSED[name]
    program = toy_rows(function, n=64, **operands)
    assert not any(in_bytes(program))
    decided = program.plan.decided
    forged = replace(
        decided,
        choices={
            number: MethodChoice(choice.method, {**choice.options, "bytes": True})
            for number, choice in decided.choices.items()
        },
    )
    with pytest.raises(cb.ParameterError, match="which only results of exact 16-bit integers may be"):
        dry_run(program.plan.parameters, program.executed, forged)


def test_methods_that_are_no_gemms_take_no_bytes() -> None:
    function, operands = PROGRAMS["by rows"]
    program = toy_rows(function, by_bytes=True, **operands)
    ring = {number: MethodChoice(RING, one.options) for number, one in program.plan.decided.choices.items()}
    with pytest.raises(cb.ParameterError, match="which only results of exact 16-bit integers may be"):
        dry_run(program.plan.parameters, program.executed, replace(program.plan.decided, choices=ring))


def test_primes_that_fill_whole_bytes_are_no_larger_than_primes_may_be() -> None:
    """Of moduli of 92 bits the other one would have 52, which is more than words of the kernels hold."""
    program = cb.compile(
        lambda a, b, x: a @ (b @ x),
        {"a": cb.public(20, 30), "b": cb.public(30, 30), "x": cb.secret(30, 20)},
        precision=1e-7,
        form="rows",
    )
    assert max(program.plan.parameters.q) < 2**MAX_PRIME_BITS
    for bits in range(52, 101):
        size = RowSize(2048, bits, 0.0)
        if size.limbs == 2:
            first, second = replace(size, aligned=True).shape().q
            assert first * second == pytest.approx(2.0**bits) and np.log2(first) % 8 > 7.9


@pytest.mark.parametrize("name", ["by columns", "secrets", "public key"])
def test_files(name: str, tmp_path: Path) -> None:
    function, operands = PROGRAMS[name]
    program = toy_rows(function, n=64, by_bytes=True, **operands)
    values = values_for(program, "random")
    found = run_by_files(program, values, tmp_path)
    np.testing.assert_array_equal(listed(program, found.decrypted)[0], function(**values))


@pytest.mark.parametrize(
    "name", ["by rows", "by columns", "several", "secrets", "its transpose and a matrix"]
)
def test_ranks(name: str) -> None:
    function, operands = PROGRAMS[name]
    program = toy_rows(function, n=64, by_bytes=True, **operands)
    parties = Parties(program)
    values = values_for(program, "random")
    sent = parties.inputs(values)
    keys = parties.client.evaluation_keys()
    alone = program.server(keys).run(sent)

    def work(communicator: Communicator) -> Any:
        return program.server(keys, communicator=communicator).run(sent)

    found = run_ranks(3, work)[0]
    for got, wanted in zip(found.ciphertexts, alone.ciphertexts, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_explain_says_so() -> None:
    text = cb.compile(lambda a, b: a @ b, {"a": P(60, 300), "b": S(300, 90)}, form="rows").explain()
    assert "two bytes" in text and f"a chance below 2^-{FAILURE_BITS}" in text
