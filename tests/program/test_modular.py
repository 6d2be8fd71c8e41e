"""Programs of integers modulo t: NumPy's integers with wrap-around, bit for bit, or a refusal that says why."""

from __future__ import annotations

import io
import json
import math
import pickle
from collections.abc import Callable
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
    UnsuitedError,
)
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.lang.modular import multiplied
from tests.corpus.machine import MACHINE
from tests.support.modular_runs import check, values_for
from tests.support.random_programs import NUMPY
from tests.support.runs import Parties, program_of, run_by_files

Array = NDArray[Any]
SMALL, MIDDLE, LARGE = 257, 65537, 2147352577  # = 1 mod 2^8, 2^16, 2^16


def ring(modulus: int = MIDDLE, n: int = 128, bits: tuple[float, ...] = (48.0,) * 6) -> Parameters:
    return make_parameters(n, bits, security=0, insecure=True, plain_modulus=modulus)


def toy(function: Callable[..., Any], modulus: int = MIDDLE, **rest: Any) -> cb.Program:
    given: dict[str, Any] = {"parameters": ring(modulus), "security": 0, "insecure": True}
    return program_of(function, **{**given, **rest})


def S(*shape: int, modulus: int = MIDDLE, **rest: Any) -> Any:
    return cb.secret(*shape, modulus=modulus, **rest)


def P(*shape: int, dtype: str = "int32") -> Any:
    return cb.public(*shape, dtype=dtype)


WIDE = np.array([2**63 - 1 - 7 * number for number in range(16)]).reshape(4, 4)


def _named(name: str) -> Callable[..., Any]:
    """A function of the library, of nodes, and of NumPy, of arrays of integers."""

    def call(x: Any, *rest: Any, **options: Any) -> Any:
        of_arrays = isinstance((x if isinstance(x, list) else [x])[0], np.ndarray)
        return getattr(NUMPY if of_arrays else cb, name)(x, *rest, **options)

    return call


polynomial, matrix_power = _named("polynomial"), _named("matrix_power")
concatenate, cumsum = _named("concatenate"), _named("cumsum")

PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]]]] = {
    "a @ b": (lambda a, b: a @ b, {"a": (3, 5), "b": (5, 2)}),
    "a * b + a - 3 b": (lambda a, b: a * b + a - 3 * b, {"a": (4, 4), "b": (4, 4)}),
    "a.T @ b * a - b": (lambda a, b: (a.T @ b) * a - b, {"a": (4, 4), "b": (4, 4)}),
    "clear product": (lambda a, w: a * (w @ w * (w + 3)) - w * (2**31 * w), {"a": (4, 4), "w": (4, 4)}),
    "chain": (lambda a, b: (a @ b) @ a, {"a": (4, 4), "b": (4, 4)}),
    "clear": (lambda a, w: w @ a + w, {"a": (4, 4), "w": (4, 4)}),
    "clear factor": (lambda a, w: a * w - w, {"a": (4, 4), "w": (4, 4)}),
    "constants": (lambda a: a @ np.arange(16).reshape(4, 4) + 7, {"a": (4, 4)}),
    "factors": (lambda a, b: 2**40 * a - (2**25 + 1) * b, {"a": (4, 4), "b": (4, 4)}),
    "vector": (lambda a, x: a @ x, {"a": (4, 6), "x": (6,)}),
    "inner": (lambda x, y: x @ y, {"x": (9,), "y": (9,)}),
    "slices": (lambda a, b: (a[:2] @ b[:, 1:]).sum(axis=0), {"a": (4, 4), "b": (4, 4)}),
    "square": (lambda a: a * a * a, {"a": (4, 4)}),
    "several": (lambda a, b: {"sum": a + b, "product": a @ b}, {"a": (4, 4), "b": (4, 4)}),
    "powers": (lambda a: a**5 + a**1, {"a": (4, 4)}),
    "polynomial": (lambda a: polynomial(a, [2**40, -1, 0, 5, 0, 1, 3]), {"a": (3, 4)}),
    "polynomial of one power": (lambda a: polynomial(a, [0, 0, 0, 0, 2**20]), {"a": (3, 4)}),
    "clear polynomial": (lambda a, w: polynomial(w, [1, 2, 0, 1]) * a, {"a": (4, 4), "w": (4, 4)}),
    "power of a matrix": (lambda a: matrix_power(a, 3), {"a": (3, 3)}),
    "slices of a product": (lambda a, b: (a @ b)[1:, ::-1] + 1, {"a": (4, 4), "b": (4, 4)}),
    "products beside one another": (
        lambda a, b: concatenate([a @ b, b @ a], axis=1) @ concatenate([a, b], axis=0),
        {"a": (4, 4), "b": (4, 4)},
    ),
    "sums on the way": (lambda a: cumsum(a, axis=0) @ a.sum(axis=1), {"a": (4, 4)}),
    "batches": (lambda a, b: (a @ b) ** 2, {"a": (2, 3, 4), "b": (2, 4, 2)}),
    "sum of a batch": (lambda a, b: (a @ b).sum(axis=0), {"a": (2, 3, 4), "b": (4, 2)}),
    "three dimensions": (lambda a, b: a * b - 3 * a, {"a": (2, 3, 4), "b": (2, 3, 4)}),
    "moved axes": (lambda a: a.transpose(1, 0, 2) + 1, {"a": (2, 3, 4)}),
    "large factors": (lambda a: (2**30 * a) * (2**30 + 1) + (2**70 + 1) * a, {"a": (4, 4)}),
    "large constants": (lambda a: a * WIDE + (a + WIDE[0]) @ WIDE - (2**60 + 1), {"a": (4, 4)}),
    "factors to nothing": (lambda a, b: (MIDDLE * 2**40 * a) * 2**20 + b, {"a": (4, 4), "b": (4, 4)}),
    "nothing left": (lambda a, b: a * MIDDLE + b, {"a": (4, 4), "b": (4, 4)}),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("modulus", [SMALL, MIDDLE])
def test_numpy_integers(name: str, modulus: int) -> None:
    function, shapes = PROGRAMS[name]
    operands = {one: P(*shape) if one == "w" else S(*shape, modulus=modulus) for one, shape in shapes.items()}
    program = toy(function, modulus, **operands)
    assert program.modulus == modulus
    check(program, function, values_for(program))


def test_blocks() -> None:
    options = {"ring_degree": 4096, "security": 0, "insecure": True, "block": 16, "machine": MACHINE}
    program = program_of(lambda a, b: a @ b, a=S(20, 33), b=S(33, 18), **options)
    assert program.plan.blocks["a.rows"] <= 16
    check(program, lambda a, b: a @ b, values_for(program))


@pytest.mark.parametrize(
    "method", ["outer-product", "skewed", "bicyclic", "fame", "diagonals", "e2dm", "fhe-mm"]
)
def test_every_method(method: str) -> None:
    params = ring(LARGE, 256, (49.0,) * 12)
    program = toy(
        lambda a, b: a @ b,
        LARGE,
        a=S(4, 4, modulus=LARGE),
        b=S(4, 4, modulus=LARGE),
        parameters=params,
        algorithm=method,
    )
    assert program.plan.algorithm.startswith(method)
    check(program, lambda a, b: a @ b, values_for(program))


@pytest.mark.parametrize("fill", [0, 1, LARGE - 1, LARGE // 2, LARGE // 2 + 1])
def test_entries_at_the_ends(fill: int) -> None:
    program = toy(
        lambda a, b: a @ b, LARGE, a=S(4, 4, modulus=LARGE), b=S(4, 4, modulus=LARGE), parameters=ring(LARGE)
    )
    check(program, lambda a, b: a @ b, {"a": np.full((4, 4), fill), "b": np.full((4, 4), fill)})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "uint64", "float64", "bool"])
def test_arrays_of_any_type(dtype: str) -> None:
    program = toy(lambda a: a + a, a=S(2, 3))
    limits = {"float64": (-(2**53), 2**53), "bool": (0, 1)}
    low, high = limits.get(dtype) or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = np.array([[low, high, 1], [0, high, low]], dtype)
    parties = Parties(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs({"a": values})))
    exact = np.array([[int(one) for one in row] for row in values], object)
    assert np.array_equal(found, 2 * exact % MIDDLE)


def test_a_deep_program() -> None:
    def function(a: Any) -> Any:
        for _ in range(7):
            a = a * a
        return a

    params = make_parameters(128, (49.0,) * 16, security=0, insecure=True, plain_modulus=LARGE)
    check(
        toy(function, LARGE, a=S(3, 3, modulus=LARGE), parameters=params),
        function,
        {"a": np.arange(9).reshape(3, 3) - 4},
    )


def test_a_secure_program_of_31_bits() -> None:
    def function(a: Any, b: Any) -> Any:
        return (a @ b) * a - b

    program = program_of(function, a=S(8, 8, modulus=LARGE), b=S(8, 8, modulus=LARGE), machine=MACHINE)
    assert program.plan.parameters.security == 128
    assert program.plan.parameters.plain_modulus == LARGE
    check(program, function, values_for(program))
    text = program.explain()
    assert f"integers modulo {LARGE}, exact: wrong with a chance below 2^-128" in text
    assert "expected error" not in text
    assert f"a 8x8 secret, modulo {LARGE}" in text
    assert "multiply" in program.explain(steps=True)
    assert program.worst_error == 0.0


def test_a_modulus_beyond_doubles() -> None:
    """Of a result at more than 2^1024: it is decrypted by its first limbs."""
    params = ring(LARGE, bits=(49.0,) * 24)
    program = toy(lambda a: a + a, LARGE, a=S(4, 4, modulus=LARGE), parameters=params)
    assert math.prod(params.q[: program.outputs[0].limbs]) > 1 << 1024
    check(program, lambda a: a + a, values_for(program))


def test_a_public_key() -> None:
    program = toy(lambda a, b: a @ b, a=S(4, 4, encryption="public-key"), b=S(4, 4))
    check(program, lambda a, b: a @ b, values_for(program))


def test_files_and_pickles(tmp_path: Path) -> None:
    program = toy(lambda a, b, w: (a @ b) * a - w, a=S(4, 4), b=S(4, 4), w=P(4, 4))
    values = values_for(program)
    run = run_by_files(program, values, tmp_path)
    assert np.array_equal(run.decrypted, run.expected)
    again = pickle.loads(pickle.dumps(program))
    assert (again.id, again.plan) == (program.id, program.plan)
    other = toy(
        lambda a, b, w: (a @ b) * a - w, SMALL, a=S(4, 4, modulus=SMALL), b=S(4, 4, modulus=SMALL), w=P(4, 4)
    )
    assert other.id != program.id


def test_a_client_without_the_weights() -> None:
    program = toy(lambda a, b: a @ b + np.arange(16).reshape(4, 4), a=S(4, 4), b=S(4, 4))
    file = io.BytesIO()
    program.save_client(file)
    client = cb.ClientProgram.load(file.getvalue(), insecure=True).client()
    assert client.program.modulus == MIDDLE
    values = values_for(program)
    server = program.server(client.evaluation_keys())
    found = client.decrypt(server.run(client.encrypt(values)))
    assert np.array_equal(found, program.evaluate(values))


def test_programs_of_real_numbers_are_other_programs() -> None:
    """Same ring and same text; neither keys nor ciphertexts of one serve the other."""
    modular = toy(lambda a: a + a, a=S(4, 4))
    values = modular.plan.parameters.to_dict()
    assert values.pop("plain_modulus") == MIDDLE
    params = Parameters.from_dict(values, security=0, insecure=True)
    real = program_of(
        lambda a: a + a, a=cb.secret(4, 4), parameters=params, security=0, insecure=True, form="blocks"
    )
    assert real.id != modular.id
    client = modular.client()
    with pytest.raises(MismatchError):
        real.server(client.evaluation_keys())
    with pytest.raises(MismatchError):
        Parties(real).server.run(client.encrypt({"a": np.ones((4, 4), int)}))


def test_products_in_the_clear_are_exact() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.integers(LARGE - 5, LARGE, (3, 40)), generator.integers(0, LARGE, (40, 2))
    assert np.array_equal(multiplied(x, y, LARGE), x.astype(object) @ y.astype(object) % LARGE)


REFUSED: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "relu": (lambda a: cb.relu(a), {"a": S(4, 4)}, "is something else"),
    "refresh": (lambda a: cb.refresh(a * a) * a, {"a": S(4, 4)}, "is something else"),
    "mean": (lambda a: a.mean(axis=0), {"a": S(4, 4)}, "may have fractions"),
    "half": (lambda a: a / 2, {"a": S(4, 4)}, "may have fractions"),
    "fractions": (lambda a: a @ np.full((4, 4), 0.5), {"a": S(4, 4)}, "may have fractions"),
    "real numbers": (lambda a, w: a @ w, {"a": S(4, 4), "w": cb.public(4, 4)}, "may have fractions"),
    "real secrets": (lambda a, b: a + b, {"a": S(4, 4), "b": cb.secret(4, 4)}, "have one modulus"),
    "two moduli": (lambda a, b: a + b, {"a": S(4, 4), "b": S(4, 4, modulus=SMALL)}, "have one modulus"),
    "large constant": (lambda a: a @ np.full((4, 4), 2.0**60), {"a": S(4, 4)}, "float64 may not hold"),
    "mean over windows": (lambda x: cb.avg_pool2d(x, 2), {"x": S(2, 4, 4)}, "may have fractions"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, operands, match = REFUSED[name]
    with pytest.raises((ParameterError, RangeError), match=match) as caught:
        cb.compile(function, operands)
    assert caught.value.advice


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"precision": 1e-3}, "precision= has no place"),
        ({"error": 0.1}, "error= has no place"),
        ({"form": "mixed"}, "by rows, or in slots"),
        ({"promise": "none"}, "for every input"),
        ({"parameters": make_parameters(8192, (40.0, 40.0))}, "another kind of plaintexts"),
    ],
)
def test_refused_options(options: dict[str, Any], match: str) -> None:
    with pytest.raises((ParameterError, MismatchError), match=match) as caught:
        program_of(lambda a, b: a @ b, a=S(4, 4), b=S(4, 4), **options)
    assert caught.value.advice


@pytest.mark.parametrize(
    ("modulus", "why"), [(2**16, "not prime"), (257, "not 1 modulo"), (65539, "not 1 modulo")]
)
def test_a_modulus_without_slots_is_refused_with_the_next_one(modulus: int, why: str) -> None:
    """Where results would be too large without wrapping around."""
    with pytest.raises(ParameterError, match=why) as caught:
        program_of(lambda a: a**100, a=S(4, 4, modulus=modulus))
    *near_ones, other = caught.value.advice
    assert near_ones and "need no slots" in other.write
    for one in near_ones:
        near = int(one.write.removeprefix("modulus="))
        assert program_of(lambda a: a * a, a=S(4, 4, modulus=near), machine=MACHINE).modulus == near


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"modulus": 1}, ParameterError),
        ({"modulus": (1 << 64) + 1}, ParameterError),
        ({"modulus": 257.0}, ParameterError),
        ({"modulus": True}, ParameterError),
        ({"modulus": 257, "bound": 3.0}, ParameterError),
        ({"modulus": 257, "exact": True}, ParameterError),
        ({"modulus": 257, "norm": 3.0}, ParameterError),
        ({"modulus": 257, "normalise": (0.0, 1.0)}, ParameterError),
        ({"modulus": 257, "dtype": "float64"}, ParameterError),
        ({"modulus": 257, "dtype": "nothing"}, DTypeError),
    ],
)
def test_declarations_that_are_refused(given: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        cb.secret(4, 4, **given)
    assert cb.secret(4, 4, modulus=257, dtype="uint64").whole


def test_arrays_that_are_refused() -> None:
    program = toy(lambda a: a + a, a=S(2, 2))
    client = program.client()
    for values, kind in (
        (np.full((2, 2), 0.5), RangeError),
        (np.full((2, 2), np.nan), RangeError),
        (np.full((2, 2), 2.0**60), RangeError),
        (np.ones((2, 3), int), ShapeError),
        (np.full((2, 2), 1j), DTypeError),
    ):
        with pytest.raises(kind):
            client.encrypt({"a": values})
        with pytest.raises(kind):
            program.evaluate({"a": values})


def test_what_programs_modulo_t_do_not_offer() -> None:
    program = toy(lambda a: a * a, a=S(2, 2))
    parties = Parties(program)
    result = parties.server.run(parties.inputs({"a": np.ones((2, 2), int)}))
    with pytest.raises(ParameterError, match="shared as they are"):
        parties.client.decrypt(result, share=cb.Sharing(entries=100))
    with pytest.raises(ParameterError, match="no errors to simulate"):
        program.simulate({"a": np.ones((3, 2, 2), int)})
    with pytest.raises(ParameterError, match="nothing else is declared"):
        program.with_encodings({"a": cb.Encoding(limbs=2, scale_bits=40.0)})
    assert all(one.inside for one in program.check({"a": np.full((2, 2), 10**12)}))


def test_a_program_that_is_too_deep_is_refused() -> None:
    def function(a: Any) -> Any:
        for _ in range(40):
            a = a * a
        return a

    with pytest.raises(ParameterError, match="has room for the errors of the program modulo") as caught:
        program_of(function, a=S(2, 2), ring_degree=4096, machine=MACHINE)
    assert caught.value.advice


@pytest.mark.parametrize(("modulus", "products"), [(40961, 4), (114689, 6)])
def test_a_modulus_without_slots_in_larger_rings(modulus: int, products: int) -> None:
    """Another one is advised, with which the program is planned."""

    def function(a: Any) -> Any:
        for _ in range(products):
            a = a * a
        return a

    with pytest.raises(ParameterError, match="has room for the errors of the program modulo") as caught:
        program_of(function, a=S(2, 2, modulus=modulus), machine=MACHINE)
    advised = caught.value.advice[0].write
    assert f"{modulus} has slots up to N = " in advised
    other = int(advised.removeprefix("modulus=").split(":")[0])
    assert program_of(function, a=S(2, 2, modulus=other), machine=MACHINE).modulus == other


def test_decisions_of_a_file_that_are_none_for_integers() -> None:
    program = toy(lambda a, b: (a @ b) * a, a=S(4, 4), b=S(4, 4))
    for change, message in (
        ({"form": "tensors"}, "needs a clear matrix"),
        ({"forms": {"3": "rows"}}, "in blocks of matrices, by rows, or as tensors"),
    ):
        header, values = program._content()
        header = json.loads(json.dumps(header))
        header["decisions"].update(change)
        with pytest.raises((FormatError, UnsuitedError), match=message):
            cb.Program._traced(header, values, program.plan.parameters, None)
    header, values = program._content()
    header = json.loads(json.dumps(header))
    next(iter(header["decisions"]["choices"].values())).update(method="features", options={})
    with pytest.raises(ParameterError, match="does not fit its factors"):
        cb.Program._traced(header, values, program.plan.parameters, None)
    halved = cb.compile(lambda a: (a @ a) / 2, {"a": cb.secret(4, 4)}, machine=MACHINE)
    header, values = halved._content()
    header = json.loads(json.dumps(header))
    header["operands"]["a"] = json.loads(json.dumps(program.operands["a"].declared))
    with pytest.raises(ParameterError, match="may have fractions"):
        cb.Program._traced(header, values, program.plan.parameters, None)


def test_a_file_of_another_kind_of_ring_is_refused() -> None:
    program = toy(lambda a: a + a, a=S(2, 2))
    header, values = program._content()
    real = {
        name: value for name, value in program.plan.parameters.to_dict().items() if name != "plain_modulus"
    }
    with pytest.raises((FormatError, MismatchError)):
        cb.Program._traced(header, values, Parameters.from_dict(real, security=0, insecure=True), None)


def test_small_constants_below_zero_are_as_small_as_they_are_planned() -> None:
    """Not t less as much: that would amplify errors beyond their room. Behind transpositions too."""

    def function(a: Any) -> Any:
        return np.ones((2, 1), int) @ ((np.array([[1, -2], [0, -1]])[:1] @ a.T) @ np.array([[-1], [2], [-1]]))

    program = program_of(function, a=S(3, 2, modulus=40973), machine=MACHINE, form="rows")
    check(program, function, values_for(program))
