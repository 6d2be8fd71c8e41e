"""Every function of the core, every array and integer that it takes: changed in type, layout, shape, sharing and size.

Whatever is passed, the answer is that of C-contiguous copies of the arguments, or an exception. Run under the address
sanitizer (`make sanitize-python`), this is also the test that nothing outside of the arrays is read or written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas
import cipherblas._core as _core
from cipherblas.common import openblas
from cipherblas.common.memory import aligned_empty
from tests.support.border_calls import CALLS, CT, CT3, PROPERTIES, WITHOUT, Array, C, N

OUTPUTS = ("out", "accumulator")
ERRORS = (ValueError, TypeError, OverflowError, MemoryError)


def function(name: str) -> Callable[..., Any]:
    return getattr(C if CALLS[name].context else _core, name)  # type: ignore[no-any-return]


def called(name: str, arguments: dict[str, Any]) -> Any:
    """The call by name of argument: a name that the function does not have fails."""
    return function(name)(**arguments)


def test_every_function_is_here() -> None:
    """A new one without a line in `border_calls` fails."""
    functions = {n for n in dir(_core) if not n.startswith("_") and callable(getattr(_core, n))}
    methods = {n for n in dir(C) if not n.startswith("_")}
    assert methods - PROPERTIES == {name for name, call in CALLS.items() if call.context}
    assert functions - WITHOUT == {name for name, call in CALLS.items() if not call.context}


def test_every_argument_is_here() -> None:
    """As the stub has them, which so agrees with the module: calls are by name."""
    stub = (Path(cipherblas.__file__).parent / "_core.pyi").read_text()
    for name, call in CALLS.items():
        wanted = "__init__" if name == "Context" else name
        found = re.search(rf"def {wanted}\(\s*(.*?)\)\s*->", stub, re.DOTALL)
        assert found is not None, f"{name} is not in _core.pyi"
        known = set(re.findall(r"(?:^|[(,]\s*)(\w+)\s*:", found[1]))
        given = set(call.arguments)
        assert given <= known and known - given <= {"accumulate", "out", "out_a", "out_b"}, (
            name,
            known,
            given,
        )


def copied(value: Any) -> Any:
    """The same argument in memory of its own, C-contiguous and aligned."""
    if isinstance(value, np.ndarray):
        return value.copy() if value.dtype.hasobject else shifted(value, 0)
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return value


def results(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [one for item in value for one in results(item)]
    return [value]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every array and number in an argument, with its path."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from places(item, (*path, name))
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            yield from places(item, (*path, position))
    else:
        yield path, value


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {
            name: replaced(item, path[1:], new) if name == path[0] else item for name, item in value.items()
        }
    items = [replaced(item, path[1:], new) if i == path[0] else item for i, item in enumerate(value)]
    return tuple(items) if isinstance(value, tuple) else items


def shifted(x: Array, offset: int) -> Array:
    """The same entries, `offset` bytes beyond a multiple of 64."""
    raw = np.empty(x.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    result: Array = raw[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    result[...] = x
    return result


def in_a_structure(x: Array) -> Array:
    """Steps that are no multiple of the item, at odd addresses."""
    packed = np.zeros(x.shape, np.dtype([("flag", "u1"), ("x", x.dtype)]))
    packed["x"] = x
    return packed["x"]


def exactly(x: Array) -> Array:
    """In a block of its own that ends with the array: what is read beyond is found by the sanitizer."""
    return np.frombuffer(bytearray(x.tobytes()), x.dtype).reshape(x.shape)


# What holds the same entries otherwise.
SAME: dict[str, Callable[[Array], Array]] = {
    "exactly its bytes": exactly,
    "64 bytes beyond": lambda x: shifted(x, 64),
    "8 bytes beyond": lambda x: shifted(x, 8),
    "1 byte beyond": lambda x: shifted(x, 1),
    # Aligned, so that rows can be used where they lie if the function heeds their strides.
    "Fortran order": lambda x: shifted(x.T, 0).T,
    "every second row": lambda x: shifted(np.repeat(x, 2, axis=0), 0)[::2],
    "every second row of each": lambda x: shifted(np.repeat(x, 2, axis=-2), 0)[..., ::2, :],
    "every second entry": lambda x: shifted(np.repeat(x, 2, axis=-1), 0)[..., ::2],
    "reversed rows": lambda x: shifted(x[::-1], 0)[::-1],
    "reversed entries": lambda x: shifted(x[..., ::-1], 0)[..., ::-1],
    "first axis last": lambda x: shifted(x.swapaxes(0, -1), 0).swapaxes(0, -1),
    "with gaps": lambda x: shifted(np.pad(x, [(0, 1)] * x.ndim), 0)[(slice(0, -1),) * x.ndim],
    "with wide gaps": lambda x: shifted(np.pad(x, [(0, 8)] * x.ndim), 0)[(slice(0, -8),) * x.ndim],
    "in a structure": in_a_structure,
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}
# What holds others; the answer is that of a copy, if there is one.
OTHER: dict[str, Callable[[Array], Array]] = {
    "one row for all": lambda x: np.broadcast_to(shifted(x[:1], 0), x.shape),
    "one row for all of each": lambda x: np.broadcast_to(shifted(x[..., :1, :], 0), x.shape),
    "one entry for each row": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "one entry for all": lambda x: np.broadcast_to(x.reshape(-1)[:1].reshape((1,) * x.ndim), x.shape),
    "no rows": lambda x: x[:0],
    "no entries": lambda x: x[..., :0],
    "one row less": lambda x: x[:-1],
    "one entry less": lambda x: x[..., :-1],
    "one row more": lambda x: np.concatenate([x, x[:1]]),
    "one dimension less": lambda x: x[0],
    "one dimension more": lambda x: x[None],
    "no dimension": lambda x: x.reshape(-1)[0],
    "overlapping windows": lambda x: np.lib.stride_tricks.as_strided(x, x.shape, (x.itemsize,) * x.ndim),
}
# What is never taken.
REFUSED: dict[str, Callable[[Array], Any]] = {
    "swapped bytes": lambda x: x.astype(x.dtype.newbyteorder()),
    "other width": lambda x: x.astype(
        {"u": "u8" if x.itemsize == 4 else "u4", "i": "u8", "f": "f4", "c": "c8"}[x.dtype.kind]
    ),
    "objects": lambda x: x.astype(object),
    "booleans": lambda x: x != 0,
    "dates": lambda x: np.zeros(x.shape, "M8[s]"),
    "text": lambda x: "array",
    "a number": lambda x: 3,
}
# More than can be addressed, without taking memory.
HUGE: dict[str, Callable[[Array], Array]] = {
    f"2^{bits} {what}": (
        lambda x, bits=bits, axis=axis: np.lib.stride_tricks.as_strided(
            x,
            tuple(1 << bits if i == axis % x.ndim else length for i, length in enumerate(x.shape)),
            tuple(0 if i == axis % x.ndim else step for i, step in enumerate(x.strides)),
        )
    )
    for bits in (31, 32, 33, 56)
    for axis, what in ((0, "rows"), (-1, "entries"))
}
HUGE["2^32 + 1 rows"] = lambda x: np.lib.stride_tricks.as_strided(
    x, ((1 << 32) + 1, *x.shape[1:]), (0, *x.strides[1:])
)
NUMBERS = [
    -(2**63) - 1,
    -(2**63),
    -(2**31) - 1,
    -1,
    0,
    2**31 - 1,
    2**31,
    2**32,
    2**32 + 1,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
]
FLOATS = [0.0, -0.0, -1.0, float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, 2.0**63]

ARRAYS = [
    (name, path)
    for name, call in CALLS.items()
    for path, value in places(call.arguments)
    if isinstance(value, np.ndarray)
]
INTEGERS = [
    (name, path)
    for name, call in CALLS.items()
    for path, value in places(call.arguments)
    if isinstance(value, int) and not isinstance(value, bool)
]
REALS = [
    (name, path) for name, call in CALLS.items() for path, v in places(call.arguments) if isinstance(v, float)
]


def described(place: tuple[str, tuple[Any, ...]]) -> str:
    return f"{place[0]}-{'.'.join(map(str, place[1]))}"


def value_at(name: str, path: tuple[Any, ...]) -> Any:
    value: Any = CALLS[name].arguments
    for step in path:
        value = value[step]
    return value


def same(found: Any, expected: Any) -> None:
    found, expected = results(found), results(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        elif not isinstance(one, _core.Context):
            assert one == other or one != one


@pytest.fixture(autouse=True)
def _blas() -> None:
    if not openblas.load():
        pytest.skip("no BLAS")


def agrees(name: str, path: tuple[Any, ...], make: Callable[[Array], Any]) -> bool:
    """Whether the call with a changed array was answered: then as with copies of all arguments. False: refused."""
    arguments = copied(CALLS[name].arguments)
    try:
        changed = make(value_at(name, path))
    except (ValueError, TypeError, IndexError):
        return False  # this array has no such form
    given = replaced(arguments, path, changed)
    plain = copied(given)
    before = copied(changed)
    try:
        found = called(name, given)
    except ERRORS:
        if isinstance(before, np.ndarray) and path[0] in OUTPUTS:
            np.testing.assert_array_equal(changed, before)  # a refused call wrote nothing
        return False
    same(found, called(name, plain))
    if isinstance(changed, np.ndarray) and path[0] not in OUTPUTS:
        np.testing.assert_array_equal(changed, before)
    return True


@pytest.mark.parametrize("place", ARRAYS, ids=described)
def test_layouts(place: tuple[str, tuple[Any, ...]]) -> None:
    """The same entries otherwise in memory give the same answer, or are refused."""
    name, path = place
    expected = called(name, copied(CALLS[name].arguments))
    assert agrees(name, path, copied)
    answered = 0
    for make in SAME.values():
        try:
            changed = make(value_at(name, path))
        except (ValueError, IndexError):  # AxisError is both
            continue  # a vector has no such form
        arguments = replaced(copied(CALLS[name].arguments), path, changed)
        try:
            found = called(name, arguments)
        except ERRORS:
            continue
        same(found, expected)
        answered += 1
    assert answered >= 1


@pytest.mark.parametrize("place", ARRAYS, ids=described)
def test_other_entries(place: tuple[str, tuple[Any, ...]]) -> None:
    for make in OTHER.values():
        agrees(*place, make)


@pytest.mark.parametrize("place", ARRAYS, ids=described)
def test_types(place: tuple[str, tuple[Any, ...]]) -> None:
    for what, make in REFUSED.items():
        if what == "swapped bytes" and value_at(*place).dtype.itemsize == 1:
            continue
        assert not agrees(*place, make), f"{what} was taken"


@pytest.mark.parametrize("place", ARRAYS, ids=described)
def test_huge_arrays(place: tuple[str, tuple[Any, ...]]) -> None:
    """Arrays that repeat a few entries 2^31 times and more: their sizes overflow, or no machine holds the result."""
    name, path = place
    for make in HUGE.values():
        try:
            changed = make(value_at(name, path))
        except ValueError:
            continue  # beyond what NumPy itself can address
        arguments = replaced(copied(CALLS[name].arguments), path, changed)
        with pytest.raises(ERRORS):
            called(name, arguments)


@pytest.mark.parametrize("place", INTEGERS, ids=described)
def test_integers(place: tuple[str, tuple[Any, ...]]) -> None:
    """Integers at the limits of all types raise, but where they are valid: none wraps around."""
    name, path = place
    for number in NUMBERS:
        try:
            called(name, replaced(copied(CALLS[name].arguments), path, number))
        except ERRORS:
            continue
        assert number in TAKEN.get((name, path[0]), ()), f"{number} was taken as {path}"
    _core.set_threads(CALLS["set_threads"].arguments["count"])


# What is valid among NUMBERS.
ANY = tuple(NUMBERS)
SIGNED = tuple(number for number in NUMBERS if -(2**63) <= number < 2**63)
TAKEN: dict[tuple[str, str], tuple[int, ...]] = {
    ("coefficient_parts", "level"): (0,),
    ("transpose_classes", "first"): (0,),
    ("transpose_steps", "blocks"): (0,),
    ("transpose_blocks", "blocks"): (0,),
    ("primes", "count"): (0,),
    ("primes", "exclude"): tuple(n for n in NUMBERS if 0 <= n < 2**64),
    ("primes_near", "count"): (0,),
    ("primes_near", "exclude"): tuple(n for n in NUMBERS if 0 <= n < 2**64),
    ("small_gemm_error", "k"): tuple(n for n in NUMBERS if 0 < n < 2**63),
    ("small_gemm_error", "max_u"): (0, 2**31 - 1, 2**31, 2**32, 2**32 + 1),
    ("small_gemm_rms", "k"): tuple(n for n in NUMBERS if 0 < n < 2**63),
    # A modulus is any odd number below 2^50: the entries of the operands are checked against it.
    ("small_gemm_error", "modulus"): (2**31 - 1, 2**32 + 1),
    ("empty", "bytes"): tuple(n for n in NUMBERS if 0 <= n <= 2**33),
    ("encode", "dither"): tuple(n for n in NUMBERS if 0 <= n < 2**64),
    ("encode_all", "dithers"): tuple(n for n in NUMBERS if 0 <= n < 2**64),
    ("encrypt_rows", "dither"): tuple(n for n in NUMBERS if 0 <= n < 2**64),
    ("encrypt_operand_rows", "dither"): tuple(n for n in NUMBERS if 0 <= n < 2**64),
    ("encrypt_operand_integers", "message_factors"): (0,),
    ("encrypt_operand_integers", "error_factors"): (0,),
    ("encrypt_rows_public", "dither"): tuple(n for n in NUMBERS if 0 <= n < 2**64),
    ("write_weights", "first"): (0,),
    ("uniform", "moduli_index"): (0,),
    ("expand", "factor"): ANY,
    ("scale_limbs", "factor"): ANY,
    ("multiply_scalar", "value"): ANY,
    ("scaled_sums", "sums"): ANY,
    ("relinearised_sums", "factor"): ANY,
    ("encrypt_symmetric", "factor"): ANY,
    ("encrypt_public", "factor"): ANY,
    ("multiply_relinearise", "left_factor"): ANY,
    ("multiply_rescale", "left_factor"): ANY,
    ("multiply_rescale", "factor"): ANY,
    ("multiply_rescale", "added_factor"): ANY,
    ("multiply_rescale", "constant"): ANY,
    ("giant_steps", "babies"): (-1, 0),
    ("giant_steps", "giants"): (-1, 0),
    ("galois_element", "step"): SIGNED,
    ("weighted_sums", "terms"): (0,),
    ("linear_transform", "terms"): (-1, 0),
    ("uniform_operands", "word"): (0,),
    ("are_operands", "word"): (0,),
    ("gram_operands", "least"): tuple(n for n in NUMBERS if 0 < n < 2**63),
}


def test_integers_of_steps_are_taken_modulo_the_slots() -> None:
    for number in SIGNED:
        assert C.galois_element(number) == pow(5, number % (N // 2), 2 * N)


@pytest.mark.parametrize("place", REALS, ids=described)
def test_reals(place: tuple[str, tuple[Any, ...]]) -> None:
    """NaN, infinities and extremes raise or give finite results."""
    name, path = place
    for number in FLOATS:
        try:
            found = called(name, replaced(copied(CALLS[name].arguments), path, number))
        except ERRORS:
            continue
        # By its documentation the root mean square is infinite for integers that the path does not take.
        assert np.isfinite(number) or (name, path[0]) == ("small_gemm_rms", "max_u"), f"{number} was taken"
        for result in results(found):
            assert np.isfinite(result).all() or path[0] in ("max_u", "scale")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (name, path)
        for name, path in ARRAYS
        if value_at(name, path).dtype.kind in "fc" and name != "double_gemm"
    ],
)
def test_not_finite(name: str, path: tuple[Any, ...]) -> None:
    """Floats that become integers are finite."""
    for number in (np.nan, np.inf, -np.inf, 1e308):
        changed = value_at(name, path).copy()
        changed.reshape(-1)[-1] = number
        if name == "decode":
            continue  # floats to floats
        with pytest.raises(ValueError, match="finite"):
            called(name, replaced(copied(CALLS[name].arguments), path, changed))


def test_an_accumulator_has_memory_of_its_own() -> None:
    for name, factor in (
        ("multiply_sum", "lefts"),
        ("multiply_sum", "rights"),
        ("multiply_plain_sum", "cts"),
    ):
        arguments = copied(CALLS[name].arguments)
        accumulator = C.neg(CT3) if name == "multiply_sum" else C.neg(CT)
        arguments["accumulator"] = accumulator
        arguments[factor][0] = accumulator[:2]
        before = accumulator.copy()
        with pytest.raises(ValueError, match="memory of its own"):
            called(name, arguments)
        np.testing.assert_array_equal(accumulator, before)


@pytest.mark.parametrize("name", ["modular_gemm", "small_gemm", "double_gemm"])
def test_a_product_into_its_operand(name: str) -> None:
    """As if the operand were elsewhere, or refused."""
    arguments = copied(CALLS[name].arguments)
    square = arguments["b"][:, :7].copy()
    left = next(iter(arguments))
    arguments |= {left: arguments[left][[0, 1, 2, 3, 4, 0, 1]], "b": square}
    plain = copied(arguments) | {"out": square.copy()}
    if name == "double_gemm":
        with pytest.raises(ValueError, match="memory of its own"):
            called(name, arguments | {"out": square})
    else:
        same(called(name, arguments | {"out": square}), called(name, plain))


@pytest.mark.parametrize("name", ["transpose_classes", "transpose_blocks"])
def test_rows_are_transformed_where_they_lie(name: str) -> None:
    """All of them, or elsewhere: a result over a part of what is read is refused."""
    outputs = {"x": "out"} if name == "transpose_classes" else {"a": "out_a", "b": "out_b"}
    arguments = copied(CALLS[name].arguments)
    plain = called(name, copied(arguments))
    own = {out: arguments[given] for given, out in outputs.items()}
    found = called(name, arguments | own)
    same(found, plain)
    for one, given in zip([found] if len(own) == 1 else found, own.values(), strict=True):
        assert one is given
    for given, out in outputs.items():
        fresh = copied(CALLS[name].arguments)
        limbs, *rest = fresh[given].shape
        both = aligned_empty((limbs + 1, *rest))
        both[:limbs] = fresh[given]
        with pytest.raises(ValueError, match=f"{out}: expected {given} itself, or memory of its own"):
            called(name, fresh | {given: both[:limbs], out: both[1:]})
        with pytest.raises(ValueError, match=f"{out}: expected"):
            called(name, fresh | {out: both})


def test_products_beyond_memory() -> None:
    """The size of the result is checked before it is taken: 2^32 x 2^32 entries wrapped around to none."""
    one = np.ones((1, 1), np.uint64)
    for bits in (20, 30, 31, 32, 33, 40):
        tall, wide = np.broadcast_to(one, (1 << bits, 1)), np.broadcast_to(one, (1, 1 << bits))
        calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
            (_core.modular_gemm, (tall, wide, 97)),
            (_core.small_gemm, (tall.view(np.int64), wide, 97)),
            (_core.double_gemm, (tall.view(np.float64), wide.view(np.float64))),
        ]
        for call, arguments in calls:
            with pytest.raises((MemoryError, ValueError)) as error:
                call(*arguments)
            assert "expected" in str(error.value)
