"""Integers modulo t that are computed entry by entry, two in a slot."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import FormatError, ShapeError
from cipherblas.crypto.params import make_parameters
from cipherblas.forms.layouts import EMPTY, in_halves
from tests.corpus.machine import MACHINE
from tests.support.runs import Parties, comes_back, is_a_list, listed, program_of, run_by_files

T = 2147352577  # = 1 mod 2^16
N = 64
KINDS: dict[str, dict[str, Any]] = {
    "modulo t": {"modulus": T},
    "public key": {"modulus": T, "encryption": "public-key"},
    "exact": {"dtype": "int32", "exact": True},
    "fixed point": {"fixed_point": 8, "bound": 4.0},
}
PROGRAMS: dict[str, Callable[..., Any]] = {
    "product": lambda a, b: a * b,
    "sums": lambda a, b: 3 * (a * b) - b + 7,
    "power": lambda a, b: a**5 - 2 * a**2 + b,
    "clear": lambda a, b: np.arange(77).reshape(7, 11) * a + b,
    "broadcast": lambda a, b: a * b[:1] - b[:, :1],
    "several": lambda a, b: {"p": a * b * a, "d": a - b},
}


def program(name: str, kind: str = "modulo t", shape: tuple[int, int] = (7, 11)) -> cb.Program:
    params = make_parameters(N, [48.0] * 12, security=0, insecure=True, plain_modulus=T)
    operands = {each: cb.secret(*shape, **KINDS[kind]) for each in "ab"}
    options = {"parameters": params, "security": 0, "insecure": True, "machine": MACHINE, "form": "blocks"}
    return program_of(PROGRAMS[name], **operands, **options)


def values_of(one: cb.Program, fill: str = "random") -> dict[str, Any]:
    rng = np.random.default_rng(3)
    found = {}
    for name, operand in one.operands.items():
        most = 4 if operand.fixed_point is not None else min(int(operand.bound), 2**31 - 1)
        values = {"most": most, "least": -most, "zero": 0}.get(fill, rng.integers(-most, most, operand.shape))
        found[name] = np.broadcast_to(values, operand.shape)
    return found


def check(one: cb.Program, values: dict[str, Any]) -> None:
    parties = Parties(one)
    found = listed(one, parties.client.decrypt(parties.server.run(parties.inputs(values))))
    for result, wanted in zip(found, listed(one, one.evaluate(values)), strict=True):
        assert np.array_equal(result, wanted)
    assert parties.server.last.counts == one.plan.counts


@pytest.mark.encrypted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_entry(name: str, kind: str) -> None:
    one = program(name, kind)
    assert one.plan.decided.halves and one.plan.form == "blocks"
    assert "of two integers each" in one.explain()
    check(one, values_of(one))


@pytest.mark.encrypted
@pytest.mark.parametrize("fill", ["most", "least", "zero"])
def test_entries_at_the_ends(fill: str) -> None:
    one = program("sums", "exact")
    check(one, values_of(one, fill))


@pytest.mark.parametrize(
    ("shape", "halves"), [((1, 32), False), ((1, 33), True), ((64, 1), True), ((13, 17), True)]
)
def test_there_are_two_where_one_is_not_enough(shape: tuple[int, int], halves: bool) -> None:
    one = program("product", shape=shape)
    assert one.plan.decided.halves == halves
    assert one.plan.result_ciphertexts == -(-shape[0] * shape[1] // N) or shape == (13, 17)


def test_products_of_matrices_have_one_in_a_slot() -> None:
    params = make_parameters(4 * N, [48.0] * 12, security=0, insecure=True, plain_modulus=T)
    options = {"parameters": params, "security": 0, "insecure": True, "machine": MACHINE}
    one = program_of(lambda a: (a @ a) * a, a=cb.secret(16, 16, modulus=T), **options)
    assert not one.plan.decided.halves


@pytest.mark.encrypted
def test_files_and_clients_without_weights(tmp_path: Path) -> None:
    one = program("several", "exact")
    values, wanted = values_of(one), one.evaluate(values_of(one))
    comes_back(one)
    is_a_list(one.residues[0])
    found = run_by_files(one, values, tmp_path).decrypted
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    file = io.BytesIO()
    one.save_client(file)
    client = cb.ClientProgram.load(file.getvalue(), insecure=True).client()
    again = client.decrypt(one.server(client.evaluation_keys()).run(client.encrypt(values)))
    assert all(np.array_equal(again[name], wanted[name]) for name in wanted)


def test_decisions_of_a_file_that_halve_what_is_rotated() -> None:
    params = make_parameters(N, [48.0] * 12, security=0, insecure=True, plain_modulus=T)
    options = {"parameters": params, "security": 0, "insecure": True, "machine": MACHINE}
    one = program_of(lambda a: a @ a, a=cb.secret(4, 4, modulus=T), **options)
    header, tensors = one._content()
    header = json.loads(json.dumps(header))
    forged = {**header, "decisions": {**header["decisions"], "halves": True}}
    with pytest.raises(FormatError, match="not computed one by one"):
        cb.Program._read(forged, tensors, params)


def test_a_layout_in_halves() -> None:
    layout = in_halves(5, 9, 32)
    matrix = np.arange(45.0).reshape(5, 9)
    (both,) = layout.pack(matrix)
    assert both.shape == (2, 32) and not layout.open
    assert np.array_equal(both.reshape(-1)[:45], matrix.T.reshape(-1)) and not both.reshape(-1)[45:].any()
    assert np.array_equal(layout.unpack([both]), matrix)
    imag = layout.index(0).imag
    assert imag is not None and (imag == EMPTY).sum() == 64 - 45
    with pytest.raises(ShapeError, match="wrong length"):
        layout.unpack([both[0]])


@pytest.mark.encrypted
def test_operands_that_are_sent_more_often_modulo_one_t_than_modulo_another(tmp_path: Path) -> None:
    """Where a prime of the modulus is 1 modulo a t, factors of messages stay as they are."""

    def function(a: Any, b: Any) -> Any:
        return a * b * a + b + 2

    operands = {
        "a": cb.secret(70, 60, modulus=2**16),
        "b": cb.secret(70, 60, modulus=2**16, encryption="public-key"),
    }
    one = program_of(function, **operands, machine=MACHINE, minimise="server")
    assert len({len(modulo.inputs_of("b")) for modulo in one.residues}) > 1
    rng = np.random.default_rng(0)
    values = {name: rng.integers(-(2**62), 2**62, (70, 60)) for name in "ab"}
    check(one, values)
    assert np.array_equal(run_by_files(one, values, tmp_path).decrypted, one.evaluate(values))
