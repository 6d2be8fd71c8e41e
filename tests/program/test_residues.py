"""Exact integers by their residues modulo several t, and numbers in fixed point: Python's integers, bit for bit."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.common.errors import (
    DTypeError,
    FormatError,
    MismatchError,
    ParameterError,
    RangeError,
    ShapeError,
)
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.lang import crt
from tests.corpus.machine import MACHINE
from tests.support.random_programs import NUMPY
from tests.support.runs import Parties, comes_back, is_a_list, listed, program_of, run_by_files

Array = NDArray[Any]
LARGE = 2147352577  # = 1 mod 2^16
BOUNDS = [1, 255, 2**20, 2**31, 2**47 + 1, 2**63]


def ring(n: int = 64, limbs: int = 10) -> Parameters:
    return make_parameters(n, (48.0,) * limbs, security=0, insecure=True, plain_modulus=LARGE)


def toy(function: Callable[..., Any], **rest: Any) -> cb.Program:
    given = {"parameters": ring(), "security": 0, "insecure": True, "machine": MACHINE}
    return program_of(function, **{**given, **rest})


def E(*shape: int, bound: Any = 2**31, **rest: Any) -> Any:
    return cb.secret(*shape, dtype="int64", exact=True, bound=bound, **rest)


def P(*shape: int, dtype: str = "int32") -> Any:
    return cb.public(*shape, dtype=dtype)


def values_of(program: cb.Program, fill: str = "random", seed: int = 0) -> dict[str, Array]:
    """Entries from -bound to bound; or all at an end, or zero."""
    rng, found = np.random.default_rng(seed), {}
    for name, one in program.operands.items():
        most = min(int(one.bound), 2**63 - 1)
        values = rng.integers(-most, most, one.shape, endpoint=True)
        ends = {"random": values, "most": most, "least": -most, "zeros": 0}[fill]
        found[name] = np.broadcast_to(np.asarray(ends), one.shape)
    return found


def decrypted(program: cb.Program, values: dict[str, Array]) -> list[Array]:
    parties = Parties(program)
    found = listed(program, parties.client.decrypt(parties.server.run(parties.inputs(values))))
    assert parties.server.last.counts == program.plan.counts
    return found


def check(program: cb.Program, function: Callable[..., Any], values: dict[str, Array]) -> list[Array]:
    """Run, and compare with Python's integers; the results."""
    found = decrypted(program, values)
    expected = listed(program, function(**{name: value.astype(object) for name, value in values.items()}))
    for one, clear, want, node in zip(
        found, listed(program, program.evaluate(values)), expected, program.results, strict=True
    ):
        assert one.dtype == clear.dtype == (np.int64 if node.bound < 2**63 else object)
        assert one.shape == clear.shape == np.shape(want)
        assert np.array_equal(one, want) and np.array_equal(clear, want)
    return found


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]]]] = {
    "product": (lambda a, b: a @ b, {"a": (3, 5), "b": (5, 2)}),
    "entries": (lambda a, b: a * b, {"a": (4, 4), "b": (4, 4)}),
    "chain": (lambda a, b: (a @ b) @ a, {"a": (4, 4), "b": (4, 4)}),
    "powers": (lambda a: a**3 - 7 * a, {"a": (4, 4)}),
    "sums": (lambda a, b: a.T @ b + a - 2 * b + 5, {"a": (4, 4), "b": (4, 4)}),
    "dot": (lambda a, b: a @ b, {"a": (6,), "b": (6,)}),
    "clear": (lambda a, w: w @ a + w * (w @ w), {"a": (4, 4), "w": (4, 4)}),
    "several": (lambda a, b: {"p": a @ b, "q": (a * a).T, "r": a[0] - b[:, 1]}, {"a": (4, 4), "b": (4, 4)}),
    "pair": (lambda a, b: (a * b, a - b), {"a": (3,), "b": (3,)}),
    "number": (lambda a, b: a * b, {"a": (), "b": ()}),
    "factor": (lambda a: a * 2**40 + 1, {"a": ()}),
}


def operands_of(name: str, bound: int = 2**31) -> dict[str, Any]:
    shapes = PROGRAMS[name][1]
    return {one: P(*shape) if one == "w" else E(*shape, bound=bound) for one, shape in shapes.items()}


@pytest.mark.encrypted
@pytest.mark.parametrize("fill", ["random", "most", "least", "zeros"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_entry(name: str, fill: str) -> None:
    function = PROGRAMS[name][0]
    program = toy(function, **operands_of(name))
    assert program.exact and program.modulus is None and math.lcm(*program.plan.moduli) > 2**32
    check(program, function, values_of(program, fill))


@pytest.mark.encrypted
@pytest.mark.parametrize("bound", BOUNDS)
def test_every_bound(bound: int) -> None:
    def function(a: Any, b: Any) -> Any:
        return (a * b) * a - b

    program = toy(function, a=E(4, bound=bound), b=E(4, bound=bound))
    least = 2 * (bound**3 + bound)
    assert math.prod(program.plan.moduli) > least
    assert math.prod(program.plan.moduli[1:]) <= least * (1 + 2**-10) + 1  # no more than are needed
    for fill in ("random", "most", "least", "zeros"):
        check(program, function, values_of(program, fill))


@pytest.mark.encrypted
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_types_of_operands_and_of_arrays(dtype: str) -> None:
    limits = np.iinfo(dtype)
    program = toy(lambda a: a * a - a, a=cb.secret(3, dtype=dtype, exact=True))
    values = {"a": np.array([limits.min, limits.max, limits.max // 2], dtype)}
    check(program, lambda a: a * a - a, values)
    whole = [int(one) for one in values["a"]]
    for given in (np.array(whole, object), [0, 1, 2], np.array([0.0, 1.0, 2.0]), [True, False, True]):
        found = decrypted(program, {"a": given})[0]
        assert np.array_equal(found, np.asarray(given).astype(object) ** 2 - np.asarray(given).astype(object))


@pytest.mark.encrypted
def test_files_keys_and_counts(tmp_path: Path) -> None:
    def function(a: Any, b: Any, w: Any) -> Any:
        return {"p": (a @ b) @ a, "q": (w @ (a * b)).T}

    program = toy(
        function, a=E(4, 4, encryption="public-key"), b=E(4, 4, bound=2**62), w=P(4, 4), key_policy="composed"
    )
    moduli = program.plan.moduli
    comes_back(program)
    is_a_list(program.residues[0])
    values = values_of(program)
    found = run_by_files(program, values, tmp_path).decrypted
    expected = function(**{name: value.astype(object) for name, value in values.items()})
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    one = toy(
        function,
        a=cb.secret(4, 4, modulus=LARGE, encryption="public-key"),
        b=cb.secret(4, 4, modulus=LARGE),
        w=P(4, 4),
        key_policy="composed",
    )
    assert program.plan.keys == one.plan.keys  # one set serves every t
    assert program.plan.counts == one.plan.counts * len(moduli)
    assert program.plan.upload_bytes == one.plan.upload_bytes * len(moduli)


@pytest.mark.encrypted
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "float32", "float64"])
def test_clear_arrays_of_narrow_types(dtype: str) -> None:
    program = toy(lambda a, w: w @ a, a=E(3, 2, bound=2**60), w=cb.public(2, 3, dtype="int64", bound=2**40))
    values = values_of(program)
    w = np.array([[1, 0, 127], [100, 3, 5]])
    found = decrypted(program, {**values, "w": w.astype(dtype)})[0]
    assert np.array_equal(found, w.astype(object) @ values["a"])


@pytest.mark.encrypted
def test_joined_matrices_and_parts_are_sums_and_slices() -> None:
    def function(a: Any, b: Any) -> Any:
        upper, lower = cb.split(cb.joined([a * b, a * a], axis=0), 2)
        return upper * a - lower

    program = toy(function, a=E(2, 3), b=E(2, 3))
    values = values_of(program)
    a, b = (values[name].astype(object) for name in "ab")
    assert np.array_equal(decrypted(program, values)[0], a * b * a - a * a)


@pytest.mark.encrypted
def test_each_residue_has_a_seed_of_its_own() -> None:
    program = toy(lambda a: a * a, a=E(4))
    operand = Parties(program).client.encrypt({"a": [1, 2, 3, 4]})["a"]
    seeds = [part.seed for feed in operand.feeds for part in feed]
    assert len(seeds) == len(set(seeds)) == len(program.plan.moduli) > 1


@pytest.mark.encrypted
def test_a_program_for_clients() -> None:
    def function(a: Any, w: Any) -> Any:
        return a * a, w @ a

    program = toy(function, a=E(4, 4), w=P(4, 4))
    file = io.BytesIO()
    program.save_client(file)
    known = cb.ClientProgram.load(file.getvalue(), insecure=True)
    client, values = known.client(), values_of(program)
    server = program.server(client.evaluation_keys())
    found = client.decrypt(server.run({**client.encrypt({"a": values["a"]}), "w": values["w"]}))
    a, w = (values[name].astype(object) for name in "aw")
    assert np.array_equal(found[0], a * a) and np.array_equal(found[1], w @ a)


@pytest.mark.encrypted
def test_other_keys_and_damaged_results() -> None:
    program = toy(lambda a: a * a, a=E(4))
    parties, other = Parties(program), Parties(program)
    encrypted = parties.client.encrypt({"a": [1, -2, 3, 2**31]})
    with pytest.raises(MismatchError, match="different key pairs"):
        other.server.run(encrypted)
    result = parties.server.run(encrypted)
    with pytest.raises(MismatchError, match="another key pair"):
        other.client.decrypt(result)
    fewer = replace(result, ciphertexts=result.ciphertexts[:-1])
    with pytest.raises(ShapeError):
        parties.client.decrypt(fewer)
    swapped = replace(result, ciphertexts=result.ciphertexts[::-1])
    with pytest.raises(RangeError):  # of residues that belong to no integer within the bound
        parties.client.decrypt(swapped)
    assert list(parties.client.decrypt(result)) == [1, 4, 9, 2**62]
    few = replace(encrypted["a"], feeds=encrypted["a"].feeds[:-1])
    with pytest.raises(ShapeError, match="another number of ciphertexts"):
        parties.server.run({"a": few})


def test_plans_of_files_are_checked() -> None:
    program = toy(lambda a: a * a, a=E(4))
    header, tensors = program._content()
    header = json.loads(json.dumps(header))
    for moduli, error in (
        (program.plan.moduli[:-1], ParameterError),  # results would wrap around
        ((*program.plan.moduli, LARGE), ParameterError),
        ((LARGE, *program.plan.moduli[1:-1], LARGE), ParameterError),
        ((LARGE, 6), ParameterError),
        ((), FormatError),
        ((LARGE, 1), FormatError),
    ):
        forged = {**header, "decisions": {**header["decisions"], "moduli": list(moduli)}}
        with pytest.raises(error):
            cb.Program._read(forged, tensors, program.plan.parameters)


# ---- results modulo a number that has no slots ----


@pytest.mark.encrypted
@pytest.mark.parametrize("modulus", [2**33, 2**63, 2**64 - 59, 2**64])
def test_results_modulo_wide_numbers(modulus: int) -> None:
    program = toy(
        lambda a, b: a * b + a - 3, a=cb.secret(4, modulus=modulus), b=cb.secret(4, modulus=modulus)
    )
    assert program.modulus == modulus
    kind = np.uint64 if modulus > 2**63 else np.int64
    assert f"modulo {modulus}, {kind.__name__}, by whoever decrypts them" in program.explain()
    a = np.array([2**64 - 1, 0, modulus - 1, modulus // 2], np.uint64)
    b = np.array([-(2**63), 2**63 - 1, -1, modulus // 4])
    comes_back(program)
    file = io.BytesIO()
    program.save(file)
    assert cb.Program.load(file.getvalue(), insecure=True).id == program.id
    wanted = (a.astype(object) * b + a.astype(object) - 3) % modulus
    for found in (decrypted(program, {"a": a, "b": b})[0], program.evaluate({"a": a, "b": b})):
        assert found.dtype == kind and np.array_equal(found.astype(object), wanted)


def test_a_product_of_primes_with_slots_has_no_bound() -> None:
    t, u = 2147352577, 2146959361
    program = cb.compile(lambda a: a**8, {"a": cb.secret(64, modulus=t * u)}, machine=MACHINE)
    assert program.plan.moduli == (t, u)


@pytest.mark.parametrize("modulus", [1000, 2**16, 2**32, 2**31 - 1])
def test_what_has_no_slots_is_computed_without_wrapping_around(modulus: int) -> None:
    program = cb.compile(
        lambda a, b: a * b, {name: cb.secret(8, modulus=modulus) for name in "ab"}, machine=MACHINE
    )
    assert program.exact and program.modulus == modulus
    values = {"a": np.arange(8) * 12345678901, "b": -np.arange(8) - 2**40}
    assert np.array_equal(program.evaluate(values), values["a"].astype(object) * values["b"] % modulus)


def test_moduli_are_one() -> None:
    with pytest.raises(ParameterError, match="one modulus, or none"):
        toy(lambda a, b: a * b, a=cb.secret(4, modulus=2**64), b=cb.secret(4, modulus=2**63))
    with pytest.raises(ParameterError, match="one modulus, or none"):
        toy(lambda a, b: a * b, a=cb.secret(4, modulus=2**64), b=E(4))
    with pytest.raises(ParameterError, match="from 2 to"):
        cb.secret(4, modulus=2**64 + 1)


# ---- fixed point ----


def F(*shape: int, bits: int = 20, bound: float = 4.0, **rest: Any) -> Any:
    return cb.secret(*shape, bound=bound, fixed_point=bits, **rest)


def fractions(values: Array, bits: int) -> Array:
    return np.asarray(
        np.vectorize(lambda one: Fraction(round(one * 2**bits), 2**bits), otypes=[object])(values)
    )


def rounded(values: Any) -> Array:
    return np.asarray(np.vectorize(float, otypes=[float])(values))


FIXED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "product": (lambda x, y: x.T @ y, lambda x, y: x.T @ y),
    "sums of products": (lambda x, y: x * y + 2 * x - y * y * y, lambda x, y: x * y + 2 * x - y * y * y),
    "factors": (lambda x, y: 0.1 * x - y / 3 + 0.25, lambda x, y: x / 10 - y / 3 + Fraction(1, 4)),
    "factors of factors": (lambda x, y: 0.1 * (0.1 * (x * y)) - x, lambda x, y: x * y / 100 - x),
    "means": (lambda x, y: x - cb.mean(x, axis=0) + y, lambda x, y: x - x.sum(0) / 5 + y),
    "polynomial": (
        lambda x, y: cb.polynomial(x, [0.5, -1.25, 0, 0.1]) - y,
        lambda x, y: Fraction(1, 2) - x * Fraction(5, 4) + x**3 / 10 - y,
    ),
    "itself": (lambda x, y: (x, 0.5 * y), lambda x, y: (x, y / 2)),
    "places": (lambda x, y: x[1:3] - y[:2], lambda x, y: x[1:3] - y[:2]),
}


@pytest.mark.encrypted
@pytest.mark.parametrize("name", FIXED)
def test_fixed_point(name: str) -> None:
    function, exactly = FIXED[name]
    program = toy(lambda x, y: function(x, y), x=F(5, 3), y=F(5, 3, bits=7))
    comes_back(program)
    rng = np.random.default_rng(3)
    for values in (
        {one: rng.uniform(-4, 4, (5, 3)) for one in "xy"},
        {"x": np.full((5, 3), 4.0), "y": np.full((5, 3), -4.0)},
        {one: np.zeros((5, 3)) for one in "xy"},
    ):
        wanted = exactly(fractions(values["x"], 20), fractions(values["y"], 7))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        clear = listed(program, program.evaluate(values))
        for found, same, want in zip(decrypted(program, values), clear, wanted, strict=True):
            assert found.dtype == same.dtype == np.float64
            assert np.array_equal(found, rounded(want)) and np.array_equal(same, found)


@pytest.mark.encrypted
def test_covariance_far_from_zero() -> None:
    """Of data at 1e5 ± 0.5, whose squares are 1e10: what doubles lose, fixed point has."""

    def covariance(x: Any) -> Any:
        centred = x - cb.mean(x, axis=0)
        return centred.T @ centred / (x.shape[0] - 1)

    program = toy(covariance, x=F(16, 3, bits=24, bound=1e5 + 1))
    values = 1e5 + np.random.default_rng(5).uniform(-0.5, 0.5, (16, 3))
    exact = fractions(values, 24)
    exact = exact - exact.sum(0) / 16
    found = decrypted(program, {"x": values})[0]
    assert np.array_equal(found, rounded(exact.T @ exact / 15))
    assert np.abs(found - np.cov(values.T)).max() < 1e-6


@pytest.mark.encrypted
def test_determinants_and_counting() -> None:
    def function(m: Any, x: Any) -> Any:
        (a, b, c), (d, e, f), (g, h, i) = ([m[row, col] for col in range(3)] for row in range(3))
        return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g), cb.sum(x * x)

    program = toy(function, m=E(3, 3, bound=10**6), x=E(64, bound=1))
    m = np.random.default_rng(6).integers(-(10**6), 10**6, (3, 3))
    m[0, 0] = 10**6
    x = np.arange(64) % 3 - 1
    (a, b, c), (d, e, f), (g, h, i) = m.astype(object)
    wanted = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    found = decrypted(program, {"m": m, "x": x})
    assert int(found[0]) == wanted and int(found[1]) == np.count_nonzero(x)


@pytest.mark.encrypted
def test_clear_operands_in_fixed_point(tmp_path: Path) -> None:
    program = toy(
        lambda x, w, v, n: (x @ w) * v - n,
        x=F(2, 3),
        w=cb.public(3, 2, bound=2.0),
        v=cb.public(2, 2, fixed_point=3),
        n=P(2, 2),
    )
    rng = np.random.default_rng(8)
    values = {name: rng.uniform(-1, 1, one.shape) for name, one in program.operands.items()}
    values["n"] = np.array([[2**31 - 1, -(2**31)], [0, 1]])
    x, w, v = (fractions(values[name], bits) for name, bits in (("x", 20), ("w", 20), ("v", 3)))
    found = run_by_files(program, values, tmp_path).decrypted
    assert np.array_equal(found, rounded((x @ w) * v - values["n"].astype(object)))


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"fixed_point": 0}, ParameterError, "from 1 to 52"),
        ({"fixed_point": 1.5}, ParameterError, "from 1 to 52"),
        ({"fixed_point": 8, "dtype": "int8"}, ParameterError, "an integer type"),
        ({"fixed_point": 8, "exact": True}, ParameterError, "can be exact|nothing else"),
        ({"fixed_point": 8, "modulus": 65537}, ParameterError, "fixed_point"),
        ({"fixed_point": 8, "row_sum": 1.0}, ParameterError, "row_sum"),
        ({"dtype": "int64"}, DTypeError, "at most 32 bits"),
    ],
)
def test_declarations_that_contradict(given: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        cb.secret(4, 4, **given)


def test_what_is_refused_in_fixed_point() -> None:
    with pytest.raises(ParameterError, match="in fixed point, or of whole numbers"):
        toy(lambda x, y: x * y, x=F(4), y=cb.secret(4))
    with pytest.raises(ParameterError, match="is something else"):
        toy(lambda x: cb.tanh(x, precision=0.1), x=F(4))
    with pytest.raises(RangeError, match="no float64 is the ratio"):
        toy(lambda x: 0.123456789012345 * (0.987654321098765 * x) + x * x, x=F(4))
    with pytest.raises(RangeError, match="more bits in fixed point"):
        toy(lambda x, w: x * w, x=F(4), w=cb.public(4, bound=2.0**40))
    program = toy(lambda x: x * x, x=F(4, bound=1.0))
    for bad, says in ((1.001, "beyond the planned range"), (math.nan, "finite")):
        with pytest.raises(RangeError, match=says):
            program.client().encrypt({"x": [0, 0, 0, bad]})
    parties = Parties(program)
    result = parties.server.run(parties.client.encrypt({"x": np.zeros(4)}))
    with pytest.raises(ParameterError, match="share"):
        parties.client.decrypt(result, share=cb.Sharing(entries=8))


# ---- the Chinese remainder theorem ----


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_integers_from_residues(count: int) -> None:
    moduli = (2147352577, 65537, 2146959361, 12289, 257, 2**31 - 2, 17, 1999, 40961)[:count]
    product = math.prod(moduli)
    ends = [0, 1, -1, product // 2, -(product // 2) + (product % 2 == 0)]
    rng = np.random.default_rng(count)
    values = np.array(
        ends + [int(one) * product // 2**63 for one in rng.integers(-(2**62), 2**62, 20)], object
    )
    found = crt.joined([(values % one).astype(np.int64) for one in moduli], moduli)
    assert np.array_equal(found, values) and found.dtype == (np.int64 if product < 2**62 else object)
    number = crt.joined([np.asarray(int(values[3]) % one) for one in moduli], moduli)
    assert number.shape == () and int(number) == values[3]
    for modulus in (1, 2, 2**40, 2**63, 2**64):  # by words
        words = crt.joined([(values % one).astype(np.int64) for one in moduli], moduli, modulus)
        reduced = crt.finished(words, 0.0, modulus, "a result")
        assert words.dtype == np.uint64 and np.array_equal(reduced, values % modulus)
        assert reduced.dtype == (np.uint64 if modulus > 2**63 else np.int64)


def test_results_beyond_what_is_computed_are_refused() -> None:
    with pytest.raises(RangeError, match="larger than what is computed"):
        toy(lambda a: a**9, a=E(4, bound=2**60))
    with pytest.raises(RangeError, match="float64 may not hold"):
        toy(lambda a: a * a + 2**60, a=E(4))
    with pytest.raises(ParameterError, match="may have fractions"):
        toy(lambda a: a * a / 2, a=E(4))


def test_names_of_numpy_compute_the_same() -> None:
    values = np.arange(6).reshape(2, 3)
    program = toy(lambda a: cb.cumsum(a, axis=1) @ cb.concatenate([a, a]).T, a=E(2, 3))
    wanted = NUMPY.cumsum(values, axis=1) @ NUMPY.concatenate([values, values]).T
    assert np.array_equal(program.evaluate({"a": values}), wanted)


def test_the_budget_of_uploads_is_that_of_all_residues() -> None:
    """And what is advised is enough, and no more than it needs by a MiB."""

    def planned(**options: Any) -> int:
        wide = cb.secret(20_000, dtype="int64", exact=True, bound=2.0**40)
        return cb.compile(lambda a, b: (a * b) * a, {"a": wide, "b": wide}, **options).plan.upload_bytes

    needed = planned()
    assert planned(upload_budget=needed) == needed
    with pytest.raises(cb.MemoryBudgetError, match="modulo each of 4 numbers t") as refused:
        planned(upload_budget=needed // 2)
    advised = refused.value.advice[0].options["upload_budget"]
    assert needed <= advised < needed + 4 * 2**20
    assert planned(upload_budget=advised) == needed
