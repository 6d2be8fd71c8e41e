"""Operands and constants of every type: computed with as if they were float64, and large ones kept as they are."""

from __future__ import annotations

import inspect
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_clear, trace
from tests.support.runs import run, toy

Array = NDArray[Any]
Parts = dict[str, Array]

# Of every type values that overflow as soon as they are added, multiplied, negated or divided by a bound in it.
MAX_ENTRY: dict[str, Any] = {
    "bool": True,
    **{name: np.iinfo(name).min for name in ("int8", "int16", "int32", "int64")},
    **{name: np.iinfo(name).max for name in ("uint8", "uint16", "uint32", "uint64")},
    "float16": np.float16(-65504),
    "float32": np.finfo(np.float32).max,
    "float64": -1e50,
    "longdouble": np.longdouble("1.23456789012345678901e50"),
}
SHAPES = {"blocks": (4, 4), "rows": (4, 4), "tensors": (4,)}
FORMULAS: dict[str, dict[str, Callable[..., Any]]] = {
    "blocks": {
        "sums": lambda w, x, three: (w - x) * three + (x - w) / three + w.T,
        "products": lambda w, x, three: w @ x + x @ w.T,
        "elementwise": lambda w, x, three: -(w * x) + x * w,
        "clear parts": lambda w, x, three: (-w + w @ w - w * w).T @ x,
    },
    "rows": {
        "sums": lambda w, x, three: (w - w @ x) * three + (w @ x - w) / three + w.T,
        "products": lambda w, x, three: -(w @ x) - (w.T @ x),
        "right": lambda w, x, three: x @ w + w - w.T,
        "clear parts": lambda w, x, three: (-w + w @ w - w * w).T @ x,
    },
    "tensors": {
        "sums": lambda v, x, three: (v - x) * three + (x - v) / three,
        "products": lambda w, v, x, three: w @ x + w.T @ x + v,
        "elementwise": lambda v, x, three: v * x - x * v * three,
        "clear parts": lambda w, v, x, three: (-w + w @ w - w * w).T @ x - (v * v + v),
    },
}


def extremes(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """The largest magnitude of a type in some places, in others what there is between (subnormal numbers too)."""
    kind = np.dtype(dtype)
    values = (rng.random(shape) < 0.5).astype(kind)
    if kind.kind in "iuf":
        values[rng.random(shape) < 0.2] = 100
    if kind.kind == "f":
        values[rng.random(shape) < 0.2] = np.finfo(kind).smallest_subnormal
        values[rng.random(shape) < 0.3] = -MAX_ENTRY[dtype]
    values.flat[:: max(1, values.size // 3)] = MAX_ENTRY[dtype]
    return values


def found_and_expected(
    formula: Callable[..., Any], clear: Parts, x: Array, three: Any, constants: bool, form: Any, slack: float
) -> tuple[cb.Program, Array, Array]:
    """The decrypted result beside NumPy's in float64; clear parts are constants, or operands of slack·bound. On an
    INSECURE ring: no others are searched."""

    def bound(values: Array) -> float:
        return float(np.abs(values.astype(np.float64)).max())

    declared: dict[str, Any] = {"x": cb.secret(*x.shape, bound=bound(x))}
    if constants:
        program = toy(lambda x: formula(**clear, x=x, three=three), **declared, form=form, precision=1e-6)
    else:
        declared |= {name: cb.public(*w.shape, bound=slack * bound(w)) for name, w in clear.items()}
        program = toy(lambda **nodes: formula(**nodes, three=three), **declared, form=form, precision=1e-6)
    result = run(program, {"x": x, **({} if constants else clear)}).within().decrypted
    wide = {name: w.astype(np.float64) for name, w in clear.items()}
    return program, result, formula(**wide, x=x.astype(np.float64), three=float(three))


@pytest.mark.parametrize("dtype", MAX_ENTRY)
@pytest.mark.parametrize(("form", "name"), [(form, name) for form, some in FORMULAS.items() for name in some])
def test_nothing_is_computed_in_a_narrow_type(dtype: str, form: str, name: str) -> None:
    """Constants, clear operands and what is encrypted, in every type and operation; numbers of that type too."""
    rng = np.random.default_rng(1)
    formula = FORMULAS[form][name]
    shapes = {"w": (4, 4), "v": (4,)}
    clear = {
        part: extremes(dtype, shapes[part], rng)
        for part in inspect.signature(formula).parameters
        if part in shapes
    }
    x = extremes(dtype, SHAPES[form], rng)
    three = 3.0 if dtype == "bool" else np.dtype(dtype).type(3)
    # Arrays as constants in every second type, and in the others of the next operation; NumPy computes clear parts of
    # arrays before a node sees them.
    places = list(MAX_ENTRY).index(dtype) + list(FORMULAS[form]).index(name)
    constants = places % 2 == 1 and name != "clear parts"
    program, found, expected = found_and_expected(formula, clear, x, three, constants, form, 4.0)
    assert program.plan.form == form
    assert np.abs(found - expected).max() <= program.plan.error


@pytest.mark.parametrize("dtype", MAX_ENTRY)
def test_layers_of_images_take_every_type(dtype: str) -> None:
    """Filters, a bias, a clear image that is added and one that is multiplied."""
    rng = np.random.default_rng(2)
    clear = {
        "f": extremes(dtype, (2, 2, 2, 2), rng),
        "i": extremes(dtype, (2, 3, 3), rng),
        "b": extremes(dtype, (2,), rng),
    }
    x = extremes(dtype, (2, 4, 4), rng)
    wide = {name: values.astype(np.float64) for name, values in clear.items()}
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (2, 2), axis=(1, 2))
    product = np.einsum("oikl,ihwkl->ohw", wide["f"], windows)
    expected = (product + wide["b"][:, None, None] - wide["i"]) * wide["i"]
    declared = {
        name: cb.public(*clear[name].shape, bound=4 * float(np.abs(wide[name]).max())) for name in "fi"
    }
    secret = cb.secret(2, 4, 4, bound=float(np.abs(x.astype(np.float64)).max()))
    for constants in (True, False):
        given = {name: clear[name] for name in "fi"} if constants else {}

        def network(x: Any, given: Parts = given, **nodes: Any) -> Any:
            parts = {**nodes, **given}
            return (cb.conv2d(x, parts["f"], clear["b"]) - parts["i"]) * parts["i"]

        program = cb.compile(network, {"x": secret, **({} if constants else declared)}, precision=1e-6)
        operands = {} if constants else {name: clear[name] for name in "fi"}
        found = run(program, {"x": x, **operands}).decrypted
        assert np.abs(found - expected).max() <= program.plan.error


@pytest.mark.parametrize(
    ("dtype", "bound", "precision"), [("float16", 1e5, 1e-4), ("float16", 3.0, 1e-6), ("float32", 1e39, 1e-4)]
)
def test_a_bound_beyond_the_type_of_a_factor(dtype: str, bound: float, precision: float) -> None:
    """A bound is no number of the operand's type: to divide by it in that type gives zeros."""
    rng = np.random.default_rng(3)
    w = (rng.uniform(-1, 1, 32) * min(bound, float(np.finfo(dtype).max))).astype(dtype)
    x = rng.uniform(-1, 1, 32)
    program = cb.compile(
        lambda x, w: x * w, {"x": cb.secret(32), "w": cb.public(32, bound=bound)}, precision=precision
    )
    found = run(program, {"x": x, "w": w}).decrypted
    assert np.abs(found - x * w.astype(np.float64)).max() <= program.plan.error


LAID_OUT: dict[str, Callable[[Array], Any]] = {
    "other byte order": lambda w: w.astype(w.dtype.newbyteorder()),
    "Fortran order": np.asfortranarray,
    "every second entry": lambda w: np.repeat(np.repeat(w, 2, 0), 2, 1)[::2, ::2],
    "backwards": lambda w: np.ascontiguousarray(w[::-1, ::-1])[::-1, ::-1],
    "read-only": lambda w: np.frombuffer(w.tobytes(), w.dtype).reshape(w.shape),
    "subclass": lambda w: w.view(np.recarray),
    "masked, nothing hidden": np.ma.masked_array,
    "list": lambda w: w.tolist(),
}


@pytest.fixture(scope="module")
def sums_of_products() -> tuple[cb.Program, cb.Program]:
    return tuple(
        cb.compile(
            lambda w, x: w @ x,
            {"w": cb.public(4, 3, bound=1e9), "x": cb.secret(3, 4, bound=1e9)},
            form=form,
        )
        for form in ("blocks", "rows")
    )


@pytest.mark.parametrize("layout", LAID_OUT)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float16", "float32", "float64"])
def test_any_layout_in_memory(layout: str, dtype: str, sums_of_products: Any) -> None:
    rng = np.random.default_rng(4)
    w, x = (rng.integers(0, 100, shape).astype(dtype) for shape in ((4, 3), (3, 4)))
    given, secret = LAID_OUT[layout](w), LAID_OUT[layout](x)
    expected = w.astype(np.float64) @ x.astype(np.float64)
    for program in sums_of_products:
        found = run(program, {"w": given, "x": secret})
        assert np.abs(found.decrypted - expected).max() <= program.plan.error
        assert np.array_equal(found.expected, expected)
    node = trace(lambda x: given @ x, {"x": cb.secret(3, 4, bound=100)})
    assert np.array_equal(evaluate_clear(node, {"x": x}), expected)


def test_scalars_and_arrays_without_dimensions() -> None:
    """Numbers of any type are factors and terms; as a matrix they are refused."""
    x = np.arange(1.0, 5.0).reshape(2, 2)
    for dtype in MAX_ENTRY:
        if dtype == "bool":
            continue
        kind = np.dtype(dtype)
        for number in (kind.type(100), np.array(100, kind), np.array(100, kind.newbyteorder())):
            for formula in (
                lambda x, n: x * n,
                lambda x, n: n * x,
                lambda x, n: x / n,
                lambda x, n: x + n,
                lambda x, n: n - x,
            ):
                node = trace(lambda x, n=number, f=formula: f(x, n), {"x": cb.secret(2, 2, bound=4)})
                assert np.array_equal(evaluate_clear(node, {"x": x}), formula(x, 100.0))
            with pytest.raises((cb.ShapeError, cb.DTypeError)):
                trace(lambda x, n=number: x @ n, {"x": cb.secret(2, 2)})


def test_what_holds_no_real_numbers_is_refused(sums_of_products: Any) -> None:
    program = sums_of_products[0]
    client = program.client()
    server = program.server(client.evaluation_keys())
    x = client.encrypt({"x": np.ones((3, 4))})["x"]
    hidden = np.ma.masked_array(np.ones((4, 3)), np.eye(4, 3))
    wrong: list[tuple[Any, type[cb.CipherblasError]]] = [
        (np.ones((4, 3), complex), cb.DTypeError),
        (np.ones((4, 3), object), cb.DTypeError),
        (np.full((4, 3), "1"), cb.DTypeError),
        (np.zeros((4, 3), "m8[s]"), cb.DTypeError),
        (np.zeros((4, 3), [("a", "f4")]), cb.DTypeError),
        ([[10**400] * 3] * 4, cb.DTypeError),
        (hidden, cb.DTypeError),
        (np.array(1.0), cb.ShapeError),
        (np.full((4, 3), np.longdouble("1e4000")), cb.RangeError),
        (np.full((4, 3), np.float16(np.inf)), cb.RangeError),
        (np.full((4, 3), np.uint64(2**64 - 1)), cb.RangeError),
        (np.full((4, 3), np.iinfo(np.int64).min), cb.RangeError),
    ]
    for value, kind in wrong:
        with pytest.raises(kind):
            server.run({"w": value, "x": x})
        with pytest.raises(kind):
            client.encrypt(
                {"x": value.T if isinstance(value, np.ndarray) else list(map(list, zip(*value, strict=True)))}
            )
    for value, _ in wrong[:-2]:
        with pytest.raises(cb.CipherblasError):
            trace(lambda x, w=value: w @ x, {"x": cb.secret(3, 4)})


@pytest.mark.parametrize("declared", ["int8", None])
def test_the_memory_of_a_run_has_no_float64_copy_of_a_narrow_operand(declared: str | None) -> None:
    """A float64 operand is used as it is: what a narrow one takes beyond that is conversion."""
    d = 1024
    program = cb.compile(
        lambda w, x: w @ x,
        {"w": cb.public(d, d, dtype=declared, bound=None if declared else 100.0), "x": cb.secret(d, 1)},
        form="rows",
    )
    client = program.client()
    server = program.server(client.evaluation_keys())
    x = client.encrypt({"x": np.ones((d, 1))})["x"]
    w = np.random.default_rng(2).integers(-100, 101, (d, d)).astype(np.int8)

    def peak(matrix: np.ndarray) -> int:
        server.run({"w": matrix, "x": x})
        tracemalloc.start()
        server.run({"w": matrix, "x": x})
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    full = peak(w.astype(np.float64))
    for dtype in ("int8", "float16", "float32") if declared is None else ("int8", "int32"):
        assert peak(w.astype(dtype)) <= full + 8 * w.size // 4
