"""What exact integers are for: dots, determinants, tables of counts, powers, covariances; beside Python's integers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.crypto.params import Parameters, make_parameters
from tests.corpus.machine import MACHINE
from tests.support.random_programs import NUMPY
from tests.support.runs import Parties, listed, program_of, run_by_files

Array = NDArray[Any]
T = 2147352577  # = 1 mod 2^16


def ring(limbs: int = 12) -> Parameters:
    """A toy ring; other t are the next ones below."""
    return make_parameters(256, (48.0,) * limbs, security=0, insecure=True, plain_modulus=T)


def toy(function: Callable[..., Any], limbs: int = 12, **rest: Any) -> cb.Program:
    options = {"parameters": ring(limbs), "security": 0, "insecure": True, "machine": MACHINE}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program_of(function, **{**options, **rest})


def whole(*shape: int, bound: float = 2**31, **rest: Any) -> Any:
    return cb.secret(*shape, dtype="int64", bound=bound, exact=True, **rest)


def check(program: cb.Program, function: Callable[..., Any], *several: dict[str, Array]) -> None:
    """Results for several values, by one set of keys, are those of Python's integers, of the type of their bound."""
    parties = Parties(program)
    for values in several:
        found = parties.client.decrypt(parties.server.run(parties.inputs(values)))
        exact = {name: np.vectorize(int, otypes=[object])(value) for name, value in values.items()}
        expected, evaluated = listed(program, function(**exact)), listed(program, program.evaluate(values))
        for one, other, want, figures in zip(
            listed(program, found), evaluated, expected, program.results, strict=True
        ):
            assert one.dtype == other.dtype == (np.int64 if figures.bound < 2**63 else object)
            assert np.array_equal(one, want) and np.array_equal(other, want)
    assert parties.server.last.counts == program.plan.counts


def ends(*shape: int, bound: int, seed: int = 0) -> list[dict[str, Array]]:
    """Of x and y: random values, all at one end or at the other, and zeros."""
    rng = np.random.default_rng(seed)
    found = [{name: rng.integers(-bound, bound, shape, endpoint=True) for name in "xy"}]
    found += [{name: np.full(shape, value) for name in "xy"} for value in (bound, -bound, 0)]
    return [*found, {"x": np.full(shape, bound), "y": np.full(shape, -bound)}]


@pytest.mark.parametrize("bits", [20, 31])
def test_products_and_dots(bits: int) -> None:
    def function(x: Any, y: Any) -> Any:
        return x * y, x @ y, 3 * x - y

    operands = {name: whole(24, bound=2**bits) for name in "xy"}
    check(toy(function, **operands), function, *ends(24, bound=2**bits))


def test_gram_matrices_of_narrow_arrays() -> None:
    def function(x: Any) -> Any:
        return x.T @ x

    program = toy(function, x=whole(9, 4, bound=2**40), algorithm="outer-product")
    narrow = [np.full((9, 4), np.iinfo(kind).min, kind) for kind in ("int8", "int16", "int32")]
    narrow += [np.full((9, 4), np.iinfo(kind).max, kind) for kind in ("uint8", "uint16", "uint32")]
    values = [*narrow, np.eye(9, 4) > 0, np.full((9, 4), 2**40), np.full((9, 4), -(2**40)), np.zeros((9, 4))]
    check(program, function, *({"x": one} for one in values))


def _minor(rows: list[Any], columns: list[int]) -> Any:
    """The determinant of the last rows, in these columns."""
    first, *others = rows
    if not others:
        return first[columns[0]]
    terms = [first[one] * _minor(others, [two for two in columns if two != one]) for one in columns]
    total = terms[0]
    for number, term in enumerate(terms[1:], 1):
        total = total - term if number % 2 else total + term
    return total


@pytest.mark.parametrize("size", [3, 4])
def test_determinants(size: int) -> None:
    """Of several matrices at once: an entry of all of them is a row."""

    def function(x: Any) -> Any:
        return _minor([x[size * row : size * row + size] for row in range(size)], list(range(size)))

    rng = np.random.default_rng(1)
    large = rng.integers(-(2**20), 2**20, (size * size, 5))
    large[size : 2 * size, 0] = large[:size, 0]  # of two equal rows: zero, by cancellation
    program = toy(function, x=whole(size * size, 5, bound=2**20), limbs=16)
    check(program, function, {"x": large}, {"x": np.full((size * size, 5), -(2**20))})
    found = function(large.astype(object))
    assert found[0] == 0
    assert found[1] == pytest.approx(np.linalg.det(large[:, 1].reshape(size, size).astype(float)), rel=1e-9)


def test_counts() -> None:
    """A contingency table, a histogram, and the sizes of intersections, of zeros and ones."""

    def function(x: Any, y: Any) -> Any:
        return {"table": x.T @ y, "histogram": x.sum(axis=0), "both": (x[:, :3] * y).sum(axis=0)}

    rng, people = np.random.default_rng(2), 40
    x, y = np.eye(5, dtype=int)[rng.integers(0, 5, people)], np.eye(3, dtype=bool)[rng.integers(0, 3, people)]
    operands = {"x": cb.secret(people, 5, modulus=T), "y": cb.secret(people, 3, modulus=T)}
    program = toy(function, **operands)
    found = Parties(program).run({"x": x, "y": y}).decrypted
    assert np.array_equal(found["table"], x.T @ y.astype(int))
    assert np.array_equal(found["histogram"], np.bincount(x.argmax(axis=1), minlength=5))
    assert np.array_equal(found["both"], (x[:, :3] & y).sum(axis=0))
    exact = {"x": cb.secret(people, 5, dtype="uint8", bound=1, exact=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rounded = program_of(
            lambda x: x.T @ x, **exact, security=0, insecure=True, ring_degree=4096, machine=MACHINE
        )
    assert np.array_equal(Parties(rounded).run({"x": x}).decrypted, np.diag(x.sum(axis=0)))


def test_polynomials() -> None:
    coefficients = [2**40, -1, 0, 5, -(2**20)]

    def function(x: Any) -> Any:
        return (cb if not isinstance(x, np.ndarray) else NUMPY).polynomial(x, coefficients)

    values = [np.array([0, 1, -1, 2**20, -(2**20), 12345])]
    check(toy(function, x=whole(6, bound=2**20), limbs=16), function, *({"x": one} for one in values))


@pytest.mark.parametrize("power", [5, 8])
def test_powers_of_matrices(power: int) -> None:
    """Fibonacci's numbers, and those of a matrix of larger entries."""

    def function(x: Any) -> Any:
        return (cb if not isinstance(x, np.ndarray) else NUMPY).matrix_power(x, power)

    program = toy(function, x=whole(2, 2, bound=9), limbs=16, algorithm="outer-product")
    fibonacci = np.array([[1, 1], [1, 0]])
    check(program, function, {"x": fibonacci}, {"x": np.full((2, 2), -9)}, {"x": np.zeros((2, 2), int)})
    found = Parties(program).run({"x": fibonacci}).decrypted
    assert found[0, 1] == {5: 5, 8: 21}[power]


def test_covariance_far_from_zero() -> None:
    """Of data at 1e5 ± 0.5 as E[xx'] - E[x]E[x]': exact, where float64 loses all but a few digits."""

    def function(x: Any) -> Any:
        mean = x.sum(axis=0).reshape(1, -1) / 30
        return x.T @ x / 30 - mean.T @ mean

    bits, rng = 12, np.random.default_rng(5)
    x = np.rint((1e5 + rng.uniform(-0.5, 0.5, (30, 3))) * 2**bits) / 2**bits
    program = toy(function, x=cb.secret(30, 3, bound=1e5 + 1, fixed_point=bits))
    found = Parties(program).run({"x": x}).decrypted
    exact = [[Fraction(int(value * 2**bits), 2**bits) for value in row] for row in x]
    means = [sum(column) / 30 for column in zip(*exact, strict=True)]
    expected = [
        [float(sum(row[i] * row[j] for row in exact) / 30 - means[i] * means[j]) for j in range(3)]
        for i in range(3)
    ]
    assert np.array_equal(found, expected)
    by_floats = np.abs(function(x) - expected).max()
    assert by_floats > 1e-7 > 1e3 * np.abs(np.cov(x.T, bias=True) - found).max()


def test_an_empty_slice_is_refused() -> None:
    for operand in (whole(4, 4), cb.secret(4, 4, modulus=T)):
        with pytest.raises(cb.ShapeError, match="at least one entry"):
            toy(lambda x: x[2:2] + 1, x=operand)


def test_saved_and_loaded(tmp_path: Path) -> None:
    def function(x: Any, y: Any) -> Any:
        return (x @ y) * x - y

    program = toy(function, limbs=14, **{name: whole(4, 4, bound=2**31) for name in "xy"})
    values = ends(4, 4, bound=2**31)[0]
    found = run_by_files(program, values, tmp_path).decrypted
    assert np.array_equal(found, function(*(values[name].astype(object) for name in "xy")))
