"""Programs of integers modulo any t by rows: Python's integers with wrap-around, whatever t and the operands are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.common.errors import LevelError, ParameterError, RangeError, UnmatchedError, UnsuitedError
from cipherblas.crypto.keys import generate_secret
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.crypto.plain_residues import multiplied_residues, reduced
from cipherblas.evaluators.policy.modular import ModularPolicy, PlainFactor
from cipherblas.rlwe.basis import OPERAND_BASIS, FirstLimbs
from cipherblas.rlwe.matrices.encryption import decrypt, decrypt_integers, encrypt_integers
from tests.corpus.machine import MACHINE
from tests.support.modular_runs import check, values_for
from tests.support.runs import Parties, listed, run_by_files, toy_rows

Array = NDArray[Any]
LARGE = 2**31 - 1
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]]]] = {
    "a @ b": (lambda a, b: a @ b, {"a": (3, 5), "b": (5, 2)}),
    "a @ b + 3 c": (lambda a, b, c: a @ b + 3 * c, {"a": (3, 5), "b": (5, 4), "c": (3, 4)}),
    "a.T @ a": (lambda a: a.T @ a, {"a": (5, 3)}),
    "chain": (lambda a, b: (a @ b) @ a, {"a": (4, 3), "b": (3, 4)}),
    "chain from the right": (lambda a, b: a @ (b @ a), {"a": (4, 3), "b": (3, 4)}),
    "clear": (lambda a, w: w @ a + w, {"a": (4, 4), "w": (4, 4)}),
    "clear on both sides": (lambda a, w: w @ a @ w.T - 5 * a, {"a": (4, 4), "w": (4, 4)}),
    "constants": (lambda a: a @ np.arange(16).reshape(4, 4) + 7, {"a": (4, 4)}),
    "several": (lambda a, b: {"s": a + b, "p": a @ b, "q": a - 2 * (a @ b)}, {"a": (4, 4), "b": (4, 4)}),
    "sum": (lambda a, b: 2**40 * a - b, {"a": (2, 6), "b": (2, 6)}),
    "transposed": (lambda a, b, w: (w @ a) @ b.T, {"a": (4, 6), "b": (3, 6), "w": (5, 4)}),
    "wide": (lambda a, b: a @ b, {"a": (2, 5), "b": (5, 300)}),
}


def S(*shape: int, modulus: int, **rest: Any) -> Any:
    return cb.secret(*shape, modulus=modulus, **rest)


def operands_of(shapes: dict[str, tuple[int, ...]], modulus: int) -> dict[str, Any]:
    return {
        name: cb.public(*shape, dtype="int32") if name == "w" else S(*shape, modulus=modulus)
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("modulus", [256, 65537, 2**32])
def test_python_integers(name: str, modulus: int) -> None:
    function, shapes = PROGRAMS[name]
    check_program(function, shapes, modulus)


def check_program(
    function: Callable[..., Any], shapes: dict[str, tuple[int, ...]], modulus: int, **options: Any
) -> cb.Program:
    program = toy_rows(function, **operands_of(shapes, modulus), machine=MACHINE, **options)
    assert (program.modulus, program.plan.form) == (modulus, "rows")
    check(program, function, values_for(program))
    return program


@pytest.mark.parametrize("modulus", [2, 3, 15, 255, 1000, 65536, LARGE, 2**31 - 2, 2**31, 2**32])
@pytest.mark.parametrize("operand_moduli", [False, True])
def test_any_modulus(modulus: int, operand_moduli: bool) -> None:
    program = check_program(
        lambda a, b: a @ b, {"a": (5, 7), "b": (7, 3)}, modulus, operand_moduli=operand_moduli
    )
    params = program.plan.parameters
    assert (params.operand_moduli is not None) == operand_moduli
    assert all(math.gcd(one, modulus) == 1 for one in (*params.q, *(params.operand_moduli or ())))


@pytest.mark.parametrize("fill", [0, 1, LARGE - 1, LARGE // 2, LARGE // 2 + 1])
@pytest.mark.parametrize("operand_moduli", [False, True])
def test_entries_at_the_ends(fill: int, operand_moduli: bool) -> None:
    shapes = {"a": (4, 9), "b": (9, 3)}
    program = toy_rows(
        lambda a, b: a @ b,
        **operands_of(shapes, LARGE),
        machine=MACHINE,
        operand_moduli=operand_moduli,
    )
    check(program, lambda a, b: a @ b, {name: np.full(shape, fill) for name, shape in shapes.items()})


def test_a_vector() -> None:
    operands = {"a": S(4, 6, modulus=65536), "x": S(6, modulus=65536)}
    program = cb.compile(lambda a, x: a @ x, operands, machine=MACHINE, security=0, insecure=True)
    assert program.plan.form == "rows"
    check(program, lambda a, x: a @ x, values_for(program))


def test_files(tmp_path: Path) -> None:
    def function(a: Any, b: Any, w: Any) -> Any:
        return {"p": a @ b, "q": w @ (a + 0 * b) - b}

    shapes = {"a": (4, 4), "b": (4, 4), "w": (4, 4)}
    program = toy_rows(function, **operands_of(shapes, 1000), machine=MACHINE, operand_moduli=None)
    values = values_for(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run_by_files(program, values, tmp_path)
    expected = function(**{name: value.astype(object) for name, value in values.items()})
    for one, want in zip(listed(program, found.decrypted), listed(program, expected), strict=True):
        assert np.array_equal(one, want % 1000)


def test_with_a_public_key() -> None:
    program = toy_rows(
        lambda a, b, w: w @ a + a @ b,
        a=S(4, 4, modulus=1000, encryption="public-key"),
        b=S(4, 4, modulus=1000),
        w=cb.public(4, 4, dtype="int8"),
        machine=MACHINE,
    )
    parties = Parties(program)
    generator = np.random.default_rng(0)
    values = {name: generator.integers(-100, 100, (4, 4)) for name in "abw"}
    encrypted = program.encryptor(parties.client.public_key()).encrypt({"a": values["a"]})
    encrypted |= parties.client.encrypt({"b": values["b"]})
    found = parties.client.decrypt(parties.server.run({**encrypted, "w": values["w"]}))
    expected = values["w"] @ values["a"] + values["a"] @ values["b"]
    assert np.array_equal(found, expected % 1000)


def test_a_product_of_two_computed_matrices_is_refused() -> None:
    with pytest.raises(ParameterError, match="Both factors of a product of rows") as caught:
        cb.compile(
            lambda a, b: (a @ b) @ (b @ a),
            {"a": S(4, 4, modulus=256), "b": S(4, 4, modulus=256)},
            machine=MACHINE,
        )
    assert caught.value.advice


def test_secure_rings_are_chosen_by_cost() -> None:
    def planned(size: int, modulus: int) -> Any:
        operands = {name: S(size, size, modulus=modulus) for name in "ab"}
        return cb.compile(lambda a, b: a @ b, operands, machine=MACHINE).plan

    assert planned(32, 65537).form == "blocks"  # which are faster
    assert planned(32, 65536).form == "rows"
    large = planned(1024, 2147352577)
    assert (large.form, large.parameters.security, large.parameters.n) == ("rows", 128, 4096)


# ---- encryption ----


def ring(modulus: int, **rest: Any) -> Parameters:
    return make_parameters(64, (40.0, 41.0), security=0, insecure=True, plain_modulus=modulus, **rest)


@pytest.mark.parametrize("modulus", [2, 256, 1000, LARGE])
def test_encryption_of_rows(modulus: int) -> None:
    params = ring(modulus)
    secret, generator = generate_secret(params, "p"), np.random.default_rng(modulus)
    values = reduced(generator.integers(0, modulus, (7, 20)), modulus)
    for limbs in (1, 2):
        found = encrypt_integers(secret, values, FirstLimbs(limbs))
        assert np.array_equal(decrypt_integers(secret, found), values % modulus)
        unit = next(one for one in range(3, modulus + 3) if math.gcd(one, modulus) == 1)
        assert np.array_equal(
            decrypt_integers(secret, found, unit), values * pow(unit, -1, modulus) % modulus
        )
    low = decrypt(secret, encrypt_integers(secret, values, FirstLimbs(2), low=True))
    assert np.array_equal(low.astype(np.int64) % modulus, values % modulus)
    errors = (low - values) / modulus
    assert 1 < errors.std() < 6 and np.array_equal(errors, np.rint(errors))


def test_what_is_not_encrypted() -> None:
    secret = generate_secret(ring(256), "p")
    with pytest.raises(RangeError, match="not the least one modulo 256"):
        encrypt_integers(secret, np.full((2, 2), 129), FirstLimbs(2))
    real = generate_secret(make_parameters(64, (40.0,), security=0, insecure=True), "p")
    with pytest.raises(ParameterError, match="parameters that have t"):
        encrypt_integers(real, np.zeros((2, 2), np.int64), FirstLimbs(1))


def test_used_up_room_is_noticed() -> None:
    secret = generate_secret(ring(256), "p")
    found = encrypt_integers(secret, np.zeros((2, 2), np.int64), FirstLimbs(1))
    off = np.zeros_like(found.b)
    off[0, 0, 0] = secret.params.q[0] // (2 * 256)  # as an error of the whole room
    with pytest.raises(RangeError, match="no room"):
        decrypt_integers(secret, replace(found, b=(found.b + off) % np.uint64(secret.params.q[0])))


@pytest.mark.parametrize("modulus", [2, 255, 256, 65537, LARGE, 2**31, 2**32])
def test_arrays_of_residues(modulus: int) -> None:
    generator = np.random.default_rng(modulus)
    q, factor = 1125899906842597, 987654321987654
    values = np.concatenate([generator.integers(-(2**62), 2**62, 50), [0, 1, -1, 2**62 - 1]])
    for unit in (1, modulus - 1, modulus // 2 + 1):
        found = reduced(values, modulus, unit)
        assert [int(one) % modulus for one in found] == [int(one) * unit % modulus for one in values]
        assert np.abs(found).max() <= modulus // 2
    assert [int(one) for one in multiplied_residues(values, factor, q)] == [
        int(one) * factor % q for one in values
    ]


# ---- the rules ----


def test_factors_of_rows() -> None:
    policy = ModularPolicy(ring(1000, operand_moduli=(253, 251, 247)))
    one, low, whole = PlainFactor(7), PlainFactor(3, low=True), FirstLimbs(2)
    assert policy.row_product(one, low) == PlainFactor(21) == policy.row_product(low, one)
    switched = policy.switched(one, OPERAND_BASIS, whole)
    assert policy.before_switch(switched, OPERAND_BASIS, whole) == one
    above, below = 253 * 251 * 247, math.prod(policy.ring.q)
    assert switched.value * above % 1000 == 7 * below % 1000
    assert policy.folded(PlainFactor(14), 2.0, one) == one  # 2 has no inverse modulo 1000
    assert policy.folded(PlainFactor(21), 3.0, None) == one
    assert policy.readable(one) and not policy.readable(PlainFactor(2)) and not policy.readable(low)
    with pytest.raises(UnmatchedError, match="one in the low form"):
        policy.row_product(one, one)
    with pytest.raises(UnmatchedError, match="factor modulo t"):
        policy.folded(one, 2.0, one)
    with pytest.raises(UnsuitedError, match="key switches"):
        policy.row_factors(one, (1.0, 1.0), (False, False))


def test_rows_without_room_are_refused() -> None:
    policy = ModularPolicy(ring(LARGE))
    room = 2.0 ** (policy.log_modulus(FirstLimbs(2)) - 1) / LARGE
    policy.check_rows(FirstLimbs(2), policy.usual, 1.0, 0.0, 0.8 * room)
    with pytest.raises(LevelError, match="no room in their modulus"):
        policy.check_rows(FirstLimbs(2), policy.usual, 1.0, 0.0, room)
    with pytest.raises(LevelError, match="no room in their modulus"):
        policy.check_rows(FirstLimbs(2), policy.usual, 1.0, room / 10, 0.0)
