"""Matrix products modulo q against exact integers: all paths, any shape and strides, the bound of the rounded one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas._core as _core
from cipherblas.common import openblas
from tests.support.ring_oracle import centred

PATHS = ["auto", "scalar", "ifma", "strassen", "strassen2", "blas"]
SMALL_PATHS = ["auto", "scalar", "ifma", "exact"]
MODULI = [3, 97, _core.primes(1024, 22, 1)[0], _core.primes(1024, 36, 1)[0], _core.primes(1024, 50, 1)[0]]
MAX_MODULUS = MODULI[-1]
U_TYPES = [np.int8, np.int16, np.int32, np.int64, np.float64]
NARROW = 1 << 15  # entries, and moduli below 2^36, of the narrow path
NEEDS = {
    "narrow": "ifma",
    "bytes": "bytes",
    "ifma": "ifma",
    "strassen": "ifma",
    "strassen2": "ifma",
    "blas": "blas",
    "exact": "blas",
    "rounded": "blas",
}

Matrix = np.ndarray[Any, np.dtype[Any]]


def available(path: str) -> bool:
    return path in ("auto", "scalar") or NEEDS[path] in _core.gemm_paths()


def need(path: str) -> None:
    if not available(path):
        pytest.skip(f"no {path} on this machine")


def exact(a: Matrix, b: Matrix, modulus: int) -> Matrix:
    """The product in Python integers."""
    integers = a.astype(np.int64) if a.dtype.kind == "f" else a
    return (integers.astype(object) @ b.astype(object) % modulus).astype(np.uint64)


def residues(generator: np.random.Generator, shape: tuple[int, int], modulus: int) -> Matrix:
    """Uniform residues, and many of the largest ones."""
    entries = generator.integers(0, modulus, shape, dtype=np.uint64)
    entries[generator.random(shape) < 0.2] = modulus - 1
    entries[generator.random(shape) < 0.1] = modulus // 2
    return entries


VIEWS: dict[str, Callable[[Matrix], Matrix]] = {
    "rows": lambda x: x,
    "columns": lambda x: np.asfortranarray(x),
    "reversed": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "gaps": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3],
}


@st.composite
def products(draw: st.DrawFn, entries: Callable[..., Matrix] = residues) -> tuple[Matrix, Matrix, int]:
    m, k, n = (draw(st.integers(1, 32)) for _ in range(3))
    modulus = draw(st.sampled_from(MODULI))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    left, right = (VIEWS[draw(st.sampled_from(sorted(VIEWS)))] for _ in range(2))
    return left(entries(generator, (m, k), modulus)), right(residues(generator, (k, n), modulus)), modulus


def integers(generator: np.random.Generator, shape: tuple[int, int], _: int) -> Matrix:
    dtype = U_TYPES[generator.integers(len(U_TYPES))]
    bits = int(generator.integers(1, 53 if dtype == np.float64 else np.iinfo(dtype).bits))
    most = (1 << bits) - 1
    entries = generator.integers(-most, most, shape, endpoint=True)
    entries[generator.random(shape) < 0.2] = -most
    return entries.astype(dtype)


@pytest.mark.parametrize("path", PATHS)
@given(case=products())
def test_modular_product(path: str, case: tuple[Matrix, Matrix, int]) -> None:
    need(path)
    a, b, modulus = case
    want = exact(a, b, modulus)
    got = _core.modular_gemm(a, b, modulus, path)
    np.testing.assert_array_equal(got, want)
    again = _core.modular_gemm(a, b, modulus, path, out=got, accumulate=True)
    assert again is got
    np.testing.assert_array_equal(got, want * 2 % modulus)


@pytest.mark.parametrize("path", SMALL_PATHS)
@given(case=products(integers))
def test_small_product(path: str, case: tuple[Matrix, Matrix, int]) -> None:
    need(path)
    u, b, modulus = case
    want = exact(u, b, modulus)
    got = _core.small_gemm(u, b, modulus, path)
    np.testing.assert_array_equal(got, want)
    _core.small_gemm(u, b, modulus, path, out=got, accumulate=True)
    np.testing.assert_array_equal(got, want * 2 % modulus)


@given(case=products(lambda *args: np.clip(integers(*args).astype(np.int64), -NARROW, NARROW)))
def test_narrow_product(case: tuple[Matrix, Matrix, int]) -> None:
    need("narrow")
    u, b, modulus = case
    modulus = min(modulus, MODULI[3])
    b %= np.uint64(modulus)
    want = exact(u, b, modulus)
    got = _core.small_gemm(u, b, modulus, "narrow")
    np.testing.assert_array_equal(got, want)
    _core.small_gemm(u, b, modulus, "narrow", out=got, accumulate=True)
    np.testing.assert_array_equal(got, want * 2 % modulus)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.float64])
@pytest.mark.parametrize("k", [1024, 1025, 8193])
def test_the_largest_narrow_factors_do_not_overflow(k: int, dtype: Any) -> None:
    need("narrow")
    modulus = _core.primes(1024, 36, 1)[0]
    b = np.full((k, 3), modulus - 1, np.uint64)
    for entry in (-NARROW, NARROW - 1) if dtype == np.int16 else (-NARROW, NARROW):
        got = _core.small_gemm(np.full((5, k), entry, dtype), b, modulus, "narrow")
        assert (got == -entry * k % modulus).all()


BYTE_LIMITS = {np.int8: (-128, 127), np.int16: (-32639, 32639), np.float64: (-127, 127)}


@pytest.mark.parametrize("dtype", BYTE_LIMITS)
@pytest.mark.parametrize("modulus", [257, *MODULI[2:]])
@given(
    shape=st.tuples(*[st.integers(1, 70)] * 3),
    seed=st.integers(0, 2**32),
    view=st.sampled_from(sorted(VIEWS)),
)
def test_products_of_bytes(
    dtype: Any, modulus: int, shape: tuple[int, int, int], seed: int, view: str
) -> None:
    need("bytes")
    generator, (m, k, n) = np.random.default_rng(seed), shape
    least, most = BYTE_LIMITS[dtype]
    u = generator.integers(least, most, (m, k), endpoint=True)
    u[generator.random((m, k)) < 0.2], u[generator.random((m, k)) < 0.2] = least, most
    u, b = VIEWS[view](u.astype(dtype)), VIEWS[view](residues(generator, (k, n), modulus))
    want = exact(u, b, modulus)
    got = _core.small_gemm(u, b, modulus, "bytes")
    np.testing.assert_array_equal(got, want)
    _core.small_gemm(u, b, modulus, "bytes", out=got, accumulate=True)
    np.testing.assert_array_equal(got, want * 2 % modulus)


@pytest.mark.parametrize("modulus", [257, 12289, 40961, 65279])
@given(
    shape=st.tuples(*[st.integers(1, 70)] * 3),
    seed=st.integers(0, 2**32),
    view=st.sampled_from(sorted(VIEWS)),
)
def test_residues_of_two_bytes(modulus: int, shape: tuple[int, int, int], seed: int, view: str) -> None:
    need("bytes")
    generator, (m, k, n) = np.random.default_rng(seed), shape
    a, b = (VIEWS[view](residues(generator, size, modulus)) for size in ((m, k), (k, n)))
    np.testing.assert_array_equal(_core.modular_gemm(a, b, modulus, "bytes"), exact(a, b, modulus))


@pytest.mark.parametrize("modulus", [40961, MAX_MODULUS])
@pytest.mark.parametrize("k", [4096, 4097, 9000])
def test_the_largest_bytes_do_not_overflow(k: int, modulus: int) -> None:
    need("bytes")
    b = np.full((k, 3), modulus - 1, np.uint64)
    for entry in (-128, 127):
        got = _core.small_gemm(np.full((5, k), entry, np.int8), b, modulus, "bytes")
        assert (got == -entry * k % modulus).all()
    for entry in (-32639, 32639):
        got = _core.small_gemm(np.full((5, k), entry, np.int32), b, modulus, "bytes")
        assert (got == -entry * k % modulus).all()
    if modulus < 1 << 16:
        for residue in (modulus // 2, modulus // 2 + 1, modulus - 1):
            got = _core.modular_gemm(np.full((5, k), residue, np.uint64), b, modulus, "bytes")
            assert (got == -residue * k % modulus).all()


def test_what_is_too_large_for_bytes() -> None:
    need("bytes")
    b = np.ones((1, 1), np.uint64)
    with pytest.raises(ValueError, match="two signed bytes and a modulus from 128 on, got 32640 modulo 257"):
        _core.small_gemm(np.array([[32640]], np.int32), b, 257, "bytes")
    with pytest.raises(ValueError, match="got 1 modulo 127"):
        _core.small_gemm(np.array([[1]], np.int8), b, 127, "bytes")
    with pytest.raises(ValueError, match="modulo 65281"):
        _core.modular_gemm(b, b, 65281, "bytes")


def test_narrow_factors_are_checked() -> None:
    need("narrow")
    b = np.ones((1, 1), np.uint64)
    with pytest.raises(ValueError, match="up to 2\\^15 and a modulus below 2\\^36, got 32769"):
        _core.small_gemm(np.array([[NARROW + 1]], np.int32), b, MODULI[3], "narrow")
    with pytest.raises(ValueError, match="below 2\\^36"):
        _core.small_gemm(np.array([[1]], np.int32), b, MAX_MODULUS, "narrow")


@pytest.mark.parametrize(
    "shape",
    [(1, 4097, 1), (5, 2049, 3), (131, 257, 67), pytest.param((300, 600, 500), marks=pytest.mark.slow)],
)
def test_larger_products(shape: tuple[int, int, int]) -> None:
    """Against the reference path, which the products above compare with Python's integers."""
    m, k, n = shape
    generator = np.random.default_rng(7)
    for modulus in (MODULI[2], MAX_MODULUS):
        a, b = residues(generator, (m, k), modulus), residues(generator, (k, n), modulus)
        want = _core.modular_gemm(a, b, modulus, "scalar")
        for path in filter(available, PATHS):
            found = _core.modular_gemm(a, b, modulus, path)
            np.testing.assert_array_equal(found, want, f"{path} modulo {modulus}")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("k", [4096, 4097, 8193])
def test_the_largest_residues_do_not_overflow(path: str, k: int) -> None:
    need(path)
    for modulus in (MODULI[2], MAX_MODULUS):
        a = np.full((2, k), modulus - 1, np.uint64)
        got = _core.modular_gemm(a, a.T, modulus, path)
        assert (got == k % modulus).all()  # (-1)(-1) k
        half = np.full((k, 2), modulus // 2, np.uint64)
        got = _core.modular_gemm(a, half, modulus, path)
        assert (got == -k * (modulus // 2) % modulus).all()


def rounding_errors(u: Matrix, b: Matrix, modulus: int) -> Matrix:
    got = _core.small_gemm(u, b, modulus, "rounded").astype(object)
    return centred(got - exact(u, b, modulus).astype(object), modulus).astype(np.float64)


@given(case=products(integers))
def test_rounded_product_is_within_its_bound(case: tuple[Matrix, Matrix, int]) -> None:
    need("rounded")
    u, b, modulus = case
    largest = max(abs(int(x)) for x in u.flat)
    if largest < 1 << 40:
        errors = rounding_errors(u, b, modulus)
        assert np.abs(errors).max() <= _core.small_gemm_error(u.shape[1], largest, modulus)
    else:
        with pytest.raises(ValueError, match="below 2\\^40 on the rounded path"):
            _core.small_gemm(u, b, modulus, "rounded")


@pytest.mark.parametrize("k", [3, 1000, 1024, 1025, 4096])
@pytest.mark.parametrize("largest", [1, 128, 2**15, 2**31])
def test_the_bound_holds_for_hostile_sums(k: int, largest: int) -> None:
    need("rounded")
    index = np.arange(k)
    signs = np.stack(
        [np.ones(k), (-1) ** index, np.where(index < k // 2, 1, -1), np.where(index % 3, 1, -2) / 2]
    )
    u = np.rint(signs * largest)
    half = MAX_MODULUS // 2
    columns = [np.full(k, half), half - 2 * (index % 5), half + 1 + index % 7, index * 104729 % MAX_MODULUS]
    b = np.stack(columns, axis=1).astype(np.uint64)
    bound = _core.small_gemm_error(k, largest, MAX_MODULUS)
    assert np.abs(rounding_errors(u, b, MAX_MODULUS)).max() <= bound


@pytest.mark.parametrize("k", [512, 2048, 4096])
def test_the_typical_error_is_that_of_the_model(k: int) -> None:
    need("rounded")
    generator = np.random.default_rng(11)
    u = generator.choice([-999, 999], (24, k)).astype(np.int16)
    b = generator.integers(0, MAX_MODULUS, (k, 40), dtype=np.uint64)
    found = np.sqrt(np.mean(rounding_errors(u, b, MAX_MODULUS) ** 2))
    model = _core.small_gemm_rms(k, 999, MAX_MODULUS)
    assert _core.small_gemm_rms(k, 2.0**40, MAX_MODULUS) == np.inf
    assert model / 4 < found < 2 * model
    assert model < _core.small_gemm_error(k, 999, MAX_MODULUS)


def test_out_is_a_view_or_an_operand() -> None:
    generator = np.random.default_rng(3)
    a, b = (residues(generator, (12, 12), MAX_MODULUS) for _ in range(2))
    want = exact(a, b, MAX_MODULUS)
    store = np.full((24, 20), 7, np.uint64)
    view = store[::2, 3:15]
    for path in filter(available, PATHS):
        assert _core.modular_gemm(a, b, MAX_MODULUS, path, out=view) is view
        np.testing.assert_array_equal(view, want)
    assert (store[1::2] == 7).all() and (store[:, :3] == 7).all() and (store[:, 15:] == 7).all()
    square = a.copy()
    _core.modular_gemm(square, b, MAX_MODULUS, out=square)
    np.testing.assert_array_equal(square, want)
    square = a.copy()
    _core.modular_gemm(square.T, square, MAX_MODULUS, out=square, accumulate=True)
    np.testing.assert_array_equal(square, (exact(a.T, a, MAX_MODULUS) + a) % MAX_MODULUS)


def test_empty_products() -> None:
    for shape in [(0, 3, 2), (2, 0, 3), (2, 3, 0)]:
        m, k, n = shape
        a, b = np.zeros((m, k), np.uint64), np.zeros((k, n), np.uint64)
        for path in filter(available, PATHS):
            got = _core.modular_gemm(a, b, 97, path)
            assert got.shape == (m, n) and not got.any()
        assert _core.small_gemm(a.astype(np.int8), b, 97).shape == (m, n)
        if available("blas"):
            got = _core.double_gemm(a.astype(np.float64), b.astype(np.float64))
            assert got.shape == (m, n) and not got.any()


def test_double_product() -> None:
    if "blas" not in _core.gemm_paths():
        with pytest.raises(ValueError, match="scipy-openblas64"):
            _core.double_gemm(np.ones((1, 1)), np.ones((1, 1)))
        return
    generator = np.random.default_rng(2)
    for m, k, n in [(1, 1, 1), (7, 200, 300), (400, 30, 3)]:
        a, b = generator.standard_normal((m, k)), generator.standard_normal((k, n))
        bound = 2 * k * 2.0**-53 * (np.abs(a) @ np.abs(b))  # gamma_k of ours and of NumPy's
        for x, y in [(a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b))]:
            out = np.empty((m, n + 2))
            assert (np.abs(_core.double_gemm(x, y) - a @ b) <= bound).all()
            _core.double_gemm(x, y, out=out[:, :n])
            assert (np.abs(out[:, :n] - a @ b) <= bound).all()


def test_the_wheel_is_a_dependency_so_it_is_here() -> None:
    assert openblas.load()
    assert "OpenBLAS" in openblas.description()
    assert "blas" in _core.gemm_paths()


@pytest.mark.parametrize("threads", [1, 3])
def test_the_library_itself_never_starts_threads(threads: int) -> None:
    """One knob: a product is cut by the core, and each of its threads calls a BLAS of one thread."""
    if not openblas.load() or not hasattr(openblas._library, "scipy_openblas_get_num_threads64_"):
        pytest.skip("a BLAS that does not say")
    before = _core.threads()
    _core.set_threads(threads)
    try:
        _core.double_gemm(np.ones((300, 300)), np.ones((300, 300)))
    finally:
        _core.set_threads(before)
    assert openblas._library.scipy_openblas_get_num_threads64_() == 1


def test_without_a_blas_the_rest_works() -> None:
    """In a process of its own, whose import of the wheel fails."""
    script = """
import sys
sys.modules["scipy_openblas64"] = None
import numpy as np
import cipherblas._core as _core
from cipherblas.common import openblas
assert not openblas.load() and openblas.description() == "none"
assert "blas" not in _core.gemm_paths()
one = np.ones((2, 2), np.uint64)
assert (_core.modular_gemm(one, one, 97) == 2).all()
assert (_core.small_gemm(-one.astype(np.int8), one, 97) == 95).all()
for call in (lambda: _core.modular_gemm(one, one, 97, "blas"),
             lambda: _core.small_gemm(one.astype(np.int8), one, 97, "rounded"),
             lambda: _core.double_gemm(np.ones((1, 1)), np.ones((1, 1)))):
    try:
        call()
    except ValueError as error:
        assert "expected" in str(error) and "got" in str(error), error
    else:
        raise AssertionError("a path without its library")
"""
    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ,
    )
    assert result.returncode == 0, result.stderr


A = np.ones((2, 3), np.uint64)
B = np.ones((3, 4), np.uint64)
U = np.ones((2, 3), np.int8)
READ_ONLY = np.zeros((2, 4), np.uint64)
READ_ONLY.flags.writeable = False
BAD: list[tuple[str, Callable[[], object]]] = [
    ("modulus: expected an odd number", lambda: _core.modular_gemm(A, B, 96)),
    ("modulus: expected an odd number", lambda: _core.modular_gemm(A, B, 2**50 + 1)),
    (r"b: expected shape \(3, \*\), got shape \(2, 3\)", lambda: _core.modular_gemm(A, A, 97)),
    ("a: expected dtype uint64, got int64", lambda: _core.modular_gemm(A.astype(np.int64), B, 97)),
    (r"a: expected shape \(\*, \*\), got shape \(3,\)", lambda: _core.modular_gemm(A[0], B, 97)),
    ("a: expected residues below 97, got 97", lambda: _core.modular_gemm(97 * A, B, 97)),
    ("b: expected residues below 97, got 18446744073709551615", lambda: _core.small_gemm(U, B - 2, 97)),
    ("path: expected one of auto, scalar.*got fast", lambda: _core.modular_gemm(A, B, 97, "fast")),
    ("path: expected one of auto, scalar.*got strassen", lambda: _core.small_gemm(U, B, 97, "strassen")),
    ("path: expected one of auto, scalar.*got rounded", lambda: _core.modular_gemm(A, B, 97, "rounded")),
    ("u: expected dtype int8, int16, int32, int64 or float64, got uint64", lambda: _core.small_gemm(A, B, 97)),
    ("u: expected integers below 2\\^53", lambda: _core.small_gemm(U * 0.5, B, 97)),
    ("u: expected integers below 2\\^53.*got nan", lambda: _core.small_gemm(U * np.nan, B, 97)),
    ("out: expected an array to accumulate into, got None", lambda: _core.modular_gemm(A, B, 97, accumulate=True)),
    ("out: expected a writable array", lambda: _core.modular_gemm(A, B, 97, out=READ_ONLY)),
    (r"out: expected shape \(2, 4\), got shape \(4, 2\)",
     lambda: _core.modular_gemm(A, B, 97, out=np.zeros((4, 2), np.uint64))),
    ("out: expected contiguous rows", lambda: _core.modular_gemm(A, B, 97, out=np.zeros((4, 2), np.uint64).T)),
    ("out: expected residues below 97, got 97",
     lambda: _core.modular_gemm(A, B, 97, out=np.full((2, 4), 97, np.uint64), accumulate=True)),
    ("k: expected at least 1, got 0", lambda: _core.small_gemm_error(0, 1, 97)),
    ("max_u: expected at most 1099511627775", lambda: _core.small_gemm_error(1, 2**40, 97)),
    ("max_u: expected at least 0", lambda: _core.small_gemm_rms(1, -1.0, 97)),
    ("modulus: expected above 2, at most 2\\^50", lambda: _core.small_gemm_rms(1, 1, 2.0**51)),
    ("a: expected contiguous rows or columns", lambda: _core.double_gemm(np.ones((4, 4))[::2, ::2], np.ones((2, 1)))),
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), BAD)
def test_faults_name_what_was_expected(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()
