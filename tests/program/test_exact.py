"""Programs of exact integers: int64 results, bit for bit those of NumPy, or a refusal that says why."""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.crypto import files
from cipherblas.lang.exact import RESULT_BITS
from cipherblas.planner.rings.sizing import MAX_SCALE_BITS
from cipherblas.rlwe.noise import FAILURE_BITS
from tests.corpus.machine import MACHINE
from tests.support.runs import Parties, listed, program_of, run_by_files, toy, toy_rows, values_of

Array = NDArray[Any]
FILLS: dict[str, Callable[[np.iinfo[Any], tuple[int, ...]], Array]] = {
    "least": lambda limits, shape: np.full(shape, limits.min),
    "most": lambda limits, shape: np.full(shape, limits.max),
    "mixed": lambda limits, shape: np.where(np.indices(shape).sum(0) % 2, limits.min, limits.max),
    "zeros": lambda limits, shape: np.zeros(shape, np.int64),
    "one entry": lambda limits, shape: np.pad([[limits.min]], [(0, n - 1) for n in shape]),
}


def S(*shape: int, dtype: str = "int8", **rest: Any) -> Any:
    return cb.secret(*shape, dtype=dtype, exact=True, **rest)


def P(*shape: int, dtype: str = "int8") -> Any:
    return cb.public(*shape, dtype=dtype)


def check(program: cb.Program, function: Callable[..., Any], values: dict[str, Array]) -> float:
    """Run, and compare with NumPy on int64; the largest error before rounding is that of the plan at most."""
    parties = Parties(program)
    result = parties.server.run(parties.inputs(values))
    found = listed(program, parties.client.decrypt(result))
    computed = function(**{name: value.astype(np.int64) for name, value in values.items()})
    expected = listed(program, computed)
    assert [one.dtype for one in found] == [np.int64] * len(found)
    worst = 0.0
    for one, want, evaluated, before, figures in zip(
        found,
        expected,
        listed(program, program.evaluate(values)),
        [None] * len(found) if program.plan.moduli else parties.client._decrypted(result, None),
        program.plan.results,
        strict=True,
    ):
        np.testing.assert_array_equal(one, want)
        np.testing.assert_array_equal(one, evaluated)
        if before is None:  # by residues there are no errors
            assert figures.error == figures.target == 0
            continue
        error = float(np.abs(before - want).max())
        assert error <= figures.error <= figures.target < 0.5
        worst = max(worst, error / figures.error)
    return worst


def filled(program: cb.Program, fill: str, dtype: str) -> dict[str, Array]:
    limits = np.iinfo(dtype)
    return {
        name: FILLS[fill](limits, operand.shape).astype(dtype) for name, operand in program.operands.items()
    }


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("way", ["clear by rows", "secret by rows", "secret in blocks"])
def test_extremes(way: str, dtype: str) -> None:
    def product(a: Any, b: Any) -> Any:
        return a @ b

    if way == "clear by rows":
        program = toy_rows(product, a=P(9, 40, dtype=dtype), b=S(40, 30, dtype=dtype))
    elif way == "secret by rows":
        program = toy_rows(product, n=64, a=S(9, 40, dtype=dtype), b=S(40, 30, dtype=dtype))
    else:
        program = toy(product, a=S(4, 6, dtype=dtype), b=S(6, 5, dtype=dtype), form="blocks")
    assert program.exact
    for fill in FILLS:
        check(program, product, filled(program, fill, dtype))


def test_entries_of_other_types_are_taken_where_they_are_whole() -> None:
    program = toy_rows(lambda a, b: a @ b, a=P(3, 4), b=S(4, 5))
    values = {name: np.trunc(one) for name, one in values_of(program).items()}
    parties = Parties(program)
    expected = (values["a"] @ values["b"]).astype(np.int64)
    for dtype in ("int8", "int16", "int64", "float32", "float64"):
        inputs = parties.inputs({name: np.clip(one, -128, 127).astype(dtype) for name, one in values.items()})
        clipped = np.clip(values["a"], -128, 127) @ np.clip(values["b"], -128, 127)
        np.testing.assert_array_equal(parties.client.decrypt(parties.server.run(inputs)), clipped)
    assert expected.dtype == np.int64
    lists = parties.inputs({"a": [[1, -128, 0, 127]] * 3, "b": [[True, 0, -128, 3.0, 1]] * 4})
    found = parties.client.decrypt(parties.server.run(lists))
    np.testing.assert_array_equal(found, [[0, 0, 0, 0, 0]] * 3)


@pytest.mark.parametrize(
    ("bad", "says"),
    [(0.5, "has fractions"), (np.nan, "finite"), (129, "beyond the planned range"), (np.inf, "finite")],
)
def test_encryption_and_servers_refuse_other_entries(bad: float, says: str) -> None:
    program = toy_rows(lambda a, b: a @ b, a=P(2, 2), b=S(2, 2))
    parties = Parties(program)
    values = np.array([[1.0, 2.0], [3.0, bad]])
    with pytest.raises(cb.RangeError, match=says):
        parties.client.encrypt({"b": values})
    encrypted = parties.client.encrypt({"b": np.ones((2, 2))})
    with pytest.raises(cb.RangeError, match=says):
        parties.server.run({"a": values, **encrypted})
    with pytest.raises(cb.RangeError, match=says):
        program.evaluate({"a": values, "b": np.ones((2, 2))})
    floats = cb.compile(lambda b: 2 * b, {"b": cb.secret(2, 2, dtype="int8")})
    with pytest.raises(cb.RangeError, match=says):  # without `exact` as well
        floats.client().encrypt({"b": values})


ROWS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "sum": (lambda a, b, c: a @ b + c, {"a": P(5, 6), "b": S(6, 4), "c": S(5, 4)}),
    "clear sum": (lambda a, b, c: a @ b - c, {"a": P(5, 6), "b": S(6, 4), "c": P(5, 4, dtype="int16")}),
    "factors": (lambda a, b: 3 * (a @ b) - 2 * (a.T @ b) + 7, {"a": P(6, 6), "b": S(6, 4)}),
    "right": (lambda b, w: b @ w, {"b": S(6, 4), "w": P(4, 3)}),
    "transposed": (lambda a, b: a.T @ b, {"a": S(6, 3), "b": S(6, 4)}),
    "chain": (lambda a, b, c: (a @ b) @ c, {"a": P(3, 4), "b": S(4, 5), "c": P(5, 2)}),
    "chain of secrets": (lambda a, b, c: (a @ b) @ c, {"a": S(3, 4), "b": S(4, 5), "c": P(5, 2)}),
    "constant": (lambda b: np.arange(-12, 12).reshape(4, 6) @ b, {"b": S(6, 3)}),
    "zeros": (lambda b: np.zeros((2, 6), np.int64) @ b, {"b": S(6, 3)}),
    "several": (lambda x, y: {"gram": x.T @ x, "moment": x.T @ y}, {"x": S(7, 2), "y": S(7, 1)}),
    "public key": (lambda a, b: a @ b, {"a": P(3, 4), "b": S(4, 3, encryption="public-key")}),
}


@pytest.mark.parametrize("name", ROWS)
def test_programs_by_rows(name: str) -> None:
    function, operands = ROWS[name]
    program = toy_rows(function, n=32, **operands)
    check(program, function, filled(program, "mixed", "int8"))
    rng = np.random.default_rng(5)
    values = {one: rng.integers(-128, 128, operand.shape) for one, operand in program.operands.items()}
    check(program, function, values)


def test_fixed_weights() -> None:
    weights = np.random.default_rng(2).integers(-128, 128, (3, 50))
    program = toy_rows(lambda b: weights @ b, n=64, fixed=True, b=S(50, 9))
    assert program.plan.keys.weights
    check(program, lambda b: weights @ b, filled(program, "least", "int8"))


SLOTS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "elementwise": (lambda a, b: a * b - 3 * a, {"a": S(4, 5), "b": S(4, 5)}),
    "squares": (lambda a, b: a * a + b * b, {"a": S(3, 3), "b": P(3, 3)}),
    "chain": (lambda a, b, c: (a @ b) @ c + c, {"a": S(3, 3), "b": S(3, 3), "c": S(3, 3)}),
    "vectors": (lambda w, x: w @ x, {"w": P(5, 8), "x": S(8)}),
    "polynomial": (lambda x: cb.polynomial(x, [1, -2, 3, 4]), {"x": S(6)}),
    "places": (
        lambda a: a[1:] @ a[:, :1] - a[::-1].sum(axis=1, keepdims=True)[:3] ** 3,
        {"a": S(4, 4, bound=9)},
    ),
    "a number": (lambda s, x: s * x - 3, {"s": S(), "x": S(4)}),
    "scalar product": (lambda x, y: x @ y, {"x": S(6), "y": S(6)}),
}


@pytest.mark.parametrize("name", SLOTS)
def test_programs_of_any_form(name: str) -> None:
    function, operands = SLOTS[name]
    program = toy(function, **operands)
    if name == "polynomial":
        function = lambda x: 1 - 2 * x + 3 * x**2 + 4 * x**3  # noqa: E731
    values = filled(program, "least", "int8")
    bounds = {one: int(operand.bound) for one, operand in program.operands.items()}
    values = {one: np.clip(value, -bounds[one], bounds[one]) for one, value in values.items()}
    check(program, function, values)


def test_a_network() -> None:
    filters = np.random.default_rng(4).integers(-8, 8, (2, 1, 3, 3))
    program = toy(lambda x: cb.flatten(cb.square(cb.conv2d(x, filters))), x=S(1, 5, 5, bound=16))
    values = {"x": np.random.default_rng(4).integers(-16, 17, (1, 5, 5))}
    found = Parties(program)
    result = found.client.decrypt(found.server.run(found.inputs(values)))
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, program.evaluate(values))


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed: int) -> None:
    """Sums of products of clear and secret integers, of random types and bounds."""
    choose = random.Random(seed)
    m, k, n = (choose.randint(1, 9) for _ in range(3))
    kinds = [choose.choice(["int8", "uint8", "int16", "int32"]) for _ in range(3)]
    factor, shift = choose.choice([1, -1, 5]), choose.choice([0, 9, -1000])
    a = P(m, k, dtype=kinds[0]) if choose.random() < 0.5 else S(m, k, dtype=kinds[0], bound=7)
    operands = {
        "a": a,
        "b": S(k, n, dtype=kinds[1], bound=choose.choice([1, 100])),
        "c": P(m, n, dtype=kinds[2]),
    }

    def function(a: Any, b: Any, c: Any) -> Any:
        return factor * (a @ b) + c + shift

    program = toy_rows(function, n=16, **operands)
    values = {}
    rng = np.random.default_rng(seed)
    for name, operand in program.operands.items():
        low = 0 if kinds["abc".index(name)] == "uint8" else -int(operand.bound)
        values[name] = rng.integers(low, int(operand.bound), operand.shape, endpoint=True)
    check(program, function, values)


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        pytest.param(lambda a, b: a @ b, {"a": P(64, 64), "b": S(64, 64)}, id="clear"),
        pytest.param(
            lambda a, b: a @ b + 1, {"a": P(20, 300, dtype="int16"), "b": S(300, 9, dtype="int16")}, id="int16"
        ),
        pytest.param(lambda a, b: a @ b, {"a": P(3, 4096), "b": S(4096, 5), "form": "rows"}, id="rounded GEMM"),
        pytest.param(lambda a, b: a @ b, {"a": S(16, 16), "b": S(16, 16)}, id="secret"),
    ],
)  # fmt: skip
def test_errors_of_real_parameters_are_below_one_half_as_planned(function: Any, operands: Any) -> None:
    """Before they are rounded: near enough to what is planned that the bound means something, and never above."""
    program = program_of(function, **operands)
    assert program.plan.parameters.security == 128
    kind = "int16" if program.operands["a"].bound > 128 else "int8"
    for fill in ("least", "mixed"):
        assert 0.02 < check(program, function, filled(program, fill, kind)) <= 1


def test_scales_in_slots_may_exceed_a_prime() -> None:
    """Where no limb is spent: rotations and products of secret int16 alone."""
    operands = {"a": S(32, 32, dtype="int16"), "b": S(32, 32, dtype="int16")}
    program = program_of(lambda a, b: a @ b, algorithm="skewed", **operands)
    params = program.plan.parameters
    assert (params.security, program.plan.form, program.plan.levels) == (128, "blocks", 0)
    assert params.scale_bits > MAX_SCALE_BITS > max(map(math.log2, params.q))
    for fill in ("least", "most", "mixed"):
        check(program, lambda a, b: a @ b, filled(program, fill, "int16"))


def test_rings_are_as_small_as_they_may_be() -> None:
    """One limb and one GEMM, as the float form has, for large products of clear int8; nothing is encrypted here."""
    for d in (256, 1024, 4096):
        plans = [
            cb.compile(lambda a, b: a @ b, {"a": P(d, d), "b": b}, minimise="server").plan
            for b in (S(d, d), cb.secret(d, d))
        ]
        exact, real = plans
        assert (exact.parameters.limbs, exact.form, exact.parameters.n) == (1, "rows", real.parameters.n)
        assert exact.counts == real.counts
        assert 0.24 < exact.error < 0.5


def test_large_products_of_secrets_stay_in_the_small_ring() -> None:
    """Their products fill a larger modulus than keys have; and integers of 16 bits take one limb for each GEMM. (What
    is added to something is not computed byte by byte.)"""
    for dtype, key_limbs, limbs in (("int8", 1, 2), ("int16", 2, 4)):
        operands = {"a": S(1024, 1024, dtype=dtype), "b": S(1024, 1024, dtype=dtype)}
        options: dict[str, Any] = {"form": "rows", "minimise": "server"}
        slow = replace(MACHINE, rates=replace(MACHINE.rates, operands=None))
        plan = cb.compile(lambda a, b: a @ b + 1, operands, **options, machine=slow).plan
        params = plan.parameters
        assert (params.n, params.limbs, params.key_limbs, params.security) == (4096, limbs, key_limbs, 128)
        assert params.log_q + params.log_p > 106 >= params.log_qp
        assert set(plan.keys.galois.values()) == {key_limbs}
        found = cb.compile(lambda a, b: a @ b + 1, operands, **options, machine=MACHINE).plan.parameters
        assert len(found.operand_moduli or ()) == {"int8": 8, "int16": 12}[dtype]
        assert (found.n, found.limbs, found.key_limbs, found.security) == (4096, key_limbs, None, 128)
        assert max(found.log_q + found.log_p, math.log2(math.prod(found.operand_moduli or ()))) <= 106
    operands = {"a": P(1024, 1024, dtype="int16"), "b": S(1024, 1024, dtype="int16")}
    # No product with bytes.
    plan = cb.compile(lambda a, b: a @ b + 1, operands, minimise="server", machine=slow).plan
    assert plan.parameters.limbs == 3
    assert plan.counts.float_macs == 3 * 1024 * 1024 * (4096 + 1024)


def test_clear_integers_of_16_bits_take_two_limbs_where_tiles_are_fast() -> None:
    """Of 34 bits: their products with 16-bit integers are below 2^52."""
    fast = replace(MACHINE.rates.modular, mac=1.7 * MACHINE.rates.floats.mac)
    machine = replace(MACHINE, isa="avx512ifma", rates=replace(MACHINE.rates, modular=fast, operands=None))
    operands = {"a": P(1024, 1024, dtype="int16"), "b": S(1024, 1024, dtype="int16")}
    plan = cb.compile(lambda a, b: a @ b + 1, operands, minimise="server", machine=machine).plan
    assert plan.parameters.limbs == 2 and max(plan.parameters.q) < 1 << 36
    assert plan.counts.float_macs == 0
    assert plan.counts.modular_macs == 1024 * 1024 * (4096 + 1024)  # of two limbs, one for two multiply-adds


def test_explain_states_the_promise() -> None:
    program = cb.compile(lambda a, b: a @ b, {"a": P(8, 8), "b": S(8, 8)})
    text = program.explain()
    assert (
        f"exact integers, int64: error below 1/2 before they are rounded, but for a chance below 2^-{FAILURE_BITS}"
        in text
    )
    assert "b 8x8 secret, whole numbers up to 128" in text
    assert "by exact integers, error=" in text
    assert f"with probability below 2^-{FAILURE_BITS}" in text
    assert "exact integers" not in cb.compile(lambda b: 2 * b, {"b": cb.secret(8, 8)}).explain()


def test_smaller_errors_may_be_asked_for() -> None:
    operands = {"a": P(8, 8), "b": S(8, 8)}
    for options in ({"error": 0.01}, {"precision": 1e-8}):
        program = cb.compile(lambda a, b: a @ b, operands, **options)
        assert program.exact and program.plan.error < 0.01
        check(program, lambda a, b: a @ b, filled(program, "least", "int8"))
    for options in ({"error": 0.5}, {"precision": 1e-4}, {"error": 100.0}):
        with pytest.raises(cb.ParameterError, match="err by less than one half"):
            cb.compile(lambda a, b: a @ b, operands, **options)


@pytest.mark.parametrize(
    ("function", "operands", "says"),
    [
        (lambda a, b: a @ b, {"a": cb.secret(4, 4), "b": S(4, 4)}, "operand 'a' may have fractions"),
        (lambda a, b: a @ b, {"a": cb.public(4, 4), "b": S(4, 4)}, "operand 'a' may have fractions"),
        (lambda b: b / 2, {"b": S(4, 4)}, r"0\.5 \* b may have fractions"),
        (lambda b: 0.5 * (b @ b), {"b": S(4, 4)}, r"0\.5 \* \(b @ b\) may have fractions"),
        (lambda b: b + 0.25, {"b": S(4, 4)}, r"constant\[4x4\] may have fractions"),
        (lambda b: cb.polynomial(b, [1, 1.5, 1, 1]), {"b": S(4, 4)}, "polynomial.* may have fractions"),
        (lambda b: b.mean(axis=0), {"b": S(4, 4)}, "may have fractions"),
        (lambda b: cb.avg_pool2d(b, 2), {"b": S(1, 4, 4)}, "avg_pool2d.* may have fractions"),
    ],
)
def test_what_is_not_whole_is_named(function: Any, operands: Any, says: str) -> None:
    with pytest.raises(cb.ParameterError, match=says):
        cb.compile(function, operands)


def test_what_cannot_be_decoded_is_refused() -> None:
    operands = {"a": S(64, 64, dtype="int32"), "b": S(64, 64, dtype="int16")}
    with pytest.raises(cb.RangeError, match=rf"larger than what is decoded exactly.*2\^{RESULT_BITS}"):
        cb.compile(lambda a, b: cb.assume(a @ b, 2.0 ** (RESULT_BITS + 1)), operands)
    with pytest.raises(cb.ParameterError, match="error= has no place"):  # residues compute it, without one
        cb.compile(lambda a, b: (a @ b) @ b, operands, error=0.1)
    with pytest.raises(cb.RangeError, match="numbers that are too large: b @ b"):
        cb.compile(lambda b: cb.assume(b @ b, 5), {"b": S(4, 4, dtype="int32")})


def test_results_at_the_largest_bound() -> None:
    operands = {"a": P(3, 2, dtype="int32"), "b": S(2, 3, dtype="int16")}
    program = toy_rows(lambda a, b: a @ b, n=64, **operands)
    assert program.expression.bound == 2.0**RESULT_BITS
    values = {"a": np.full((3, 2), -(1 << 31)), "b": np.full((2, 3), -(1 << 15))}
    values["b"][1, 1] += 1
    check(program, lambda a, b: a @ b, values)
    operands["b"] = S(2, 3, dtype="uint16", bound=1 + (1 << 15))
    with pytest.raises(cb.RangeError, match="decoded exactly"):
        toy_rows(lambda a, b: a @ b, n=64, **operands)


def test_a_modulus_that_is_too_large_is_named() -> None:
    b = S(4, 4, bound=2)
    with pytest.raises(cb.PrecisionError, match=r"(?s)The exact integers .*a modulus of \d+ bits.*at most"):
        cb.compile(lambda b: (((b @ b) @ b) @ b) @ b @ b @ b, {"b": b}, ring_degree=4096, error=0.1)
    b = S(4, 4, dtype="int16", bound=20000)
    with pytest.raises(cb.PrecisionError, match=r"(?s)a modulus of \d+ bits.*at most"):
        cb.compile(lambda b: b * b * b, {"b": b}, ring_degree=4096, error=0.1)


def test_cubes_take_a_scale_of_two_primes() -> None:
    program = cb.compile(lambda b: b * b * b, {"b": S(4, 4, dtype="int16", bound=20000)}, error=0.4)
    assert program.plan.parameters.level_limbs == 2 and program.plan.error < 0.5
    client = program.client()
    server = program.server(client.evaluation_keys())
    random = np.random.default_rng(0).integers(-20000, 20001, (4, 4))
    for values in (np.full((4, 4), 20000), np.full((4, 4), -20000), random):
        found = client.decrypt(server.run(client.encrypt({"b": values.astype(np.int16)})))
        assert found.dtype == np.int64 and (found == values.astype(np.int64) ** 3).all()


@pytest.mark.parametrize(
    ("declare", "error"),
    [
        (lambda: cb.secret(4, 4, exact=True), cb.ParameterError),
        (lambda: cb.secret(4, 4, exact=True, dtype="float32"), cb.ParameterError),
        (lambda: cb.secret(4, 4, dtype="int64"), cb.DTypeError),
        (lambda: cb.secret(4, 4, exact=True, dtype="int8", bound=129), cb.RangeError),
        (lambda: cb.secret(4, 4, exact=True, dtype="int8", bound=0.5), cb.ParameterError),
        (lambda: cb.secret(4, 4, exact=1, dtype="int8"), cb.DTypeError),
        (lambda: cb.secret(4, 4, dtype="words"), cb.DTypeError),
    ],
)
def test_operands_that_cannot_be_exact(declare: Any, error: Any) -> None:
    with pytest.raises(error):
        declare()


def test_forced_parameters_that_err_by_more_are_refused() -> None:
    coarse = toy(lambda a, b: a @ b, a=cb.secret(4, 4), b=cb.secret(4, 4), form="blocks").plan.parameters
    with pytest.raises(cb.CipherblasError):
        toy(lambda a, b: a @ b, a=S(4, 4), b=S(4, 4), parameters=coarse)


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_files_and_pickles(tmp_path: Path) -> None:
    program = toy_rows(lambda a, b, c: {"p": a @ b, "q": c}, n=32, a=P(3, 4), b=S(4, 3), c=S(2, 2))
    low = {"insecure": True}
    values = {
        name: np.trunc(np.clip(one, -128, 127)).astype(np.int8) for name, one in values_of(program).items()
    }
    done = run_by_files(program, values, tmp_path)
    for label, found in done.decrypted.items():
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, done.expected[label])
    loaded = cb.Program.load(tmp_path / "program", **low)
    assert (
        loaded.exact and loaded.explain().split("\nnot taken")[0] == program.explain().split("\nnot taken")[0]
    )
    assert pickle.loads(pickle.dumps(program)).id == copy.deepcopy(program).id == program.id
    other = toy_rows(lambda a, b: a @ b, a=cb.public(3, 4), b=cb.secret(4, 3))
    assert all("exact" not in declared for declared in other._identity()["operands"].values())


@pytest.mark.parametrize("error", [100.0, 1.5])
def test_files_that_claim_less_are_refused(error: float, tmp_path: Path) -> None:
    """A file whose plan errs by more than one half is no program of exact integers."""
    operands = {"a": P(8, 8), "b": cb.secret(8, 8, dtype="int8")}
    coarse = cb.compile(lambda a, b: a @ b, operands, error=error)
    header, tensors = coarse._content()
    header = copy.deepcopy(header)
    header["operands"]["b"]["exact"] = True
    files.write(tmp_path / "program", "program", header, tensors, parameters=coarse.plan.parameters)
    with pytest.raises(cb.CipherblasError, match="do not compute the result in exact integers"):
        cb.Program.load(tmp_path / "program")


def test_shared_results_have_noise_as_ever() -> None:
    program = toy_rows(lambda a, b: a @ b, a=P(2, 20), b=S(20, 3), error=1e-6)
    parties = Parties(program)
    values = filled(program, "least", "int8")
    share = cb.Sharing(entries=6)
    sigma = float(share.deviation(program))  # type: ignore[arg-type]
    found = parties.client.decrypt(parties.server.run(parties.inputs(values)), share=share)
    assert found.dtype == np.float64
    assert 0 < np.abs(found - program.evaluate(values)).max() < 10 * sigma
    assert program.worst_error >= program.plan.error  # type: ignore[operator]
