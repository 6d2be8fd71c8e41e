"""What `compile`, `secret` and `public` refuse: typed errors that name expected and got, in no time."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.work import MAX_NODES
from cipherblas.lang.analysis import evaluate_clear, trace

S, P = cb.secret, cb.public
PAIR = {"a": S(4, 4), "b": S(4, 4)}


def refused(kind: type[cb.CipherblasError], *words: str) -> Any:
    return pytest.raises(kind, match=("(?s)" + ".*".join(words)) if words else None)


@pytest.mark.parametrize("make", [S, P])
@pytest.mark.parametrize(
    ("arguments", "kind", "word"),
    [
        ((0, 4), cb.ShapeError, "rows"),
        ((4, 0), cb.ShapeError, "columns"),
        ((-1, 4), cb.ShapeError, "got -1"),
        ((1 << 40, 1), cb.ShapeError, "got 1099511627776"),
        ((4.0, 4), cb.DTypeError, "got 4.0"),
        ((True, 4), cb.DTypeError, "got True"),
        ((np.bool_(True), 4), cb.DTypeError, "integer"),
        (("4", 4), cb.DTypeError, "integer"),
        (((4, 4), 4), cb.DTypeError, "integer"),
        ((None, 4), cb.DTypeError, "integer"),
    ],
)
def test_sizes(make: Any, arguments: Any, kind: type[cb.CipherblasError], word: str) -> None:
    with refused(kind, word):
        make(*arguments)


def test_numpy_integers_are_sizes() -> None:
    assert S(np.int64(3), np.uint8(2)) == S(3, 2)


@pytest.mark.parametrize(
    ("bound", "kind"),
    [
        (0, cb.RangeError),
        (-1.0, cb.RangeError),
        (np.nan, cb.RangeError),
        (np.inf, cb.RangeError),
        (1e-300, cb.RangeError),
        (1e300, cb.RangeError),
        ("1", cb.DTypeError),
        (1j, cb.DTypeError),
        (True, cb.DTypeError),
    ],
)
def test_bounds(bound: Any, kind: type[cb.CipherblasError]) -> None:
    with refused(kind, "bound"):
        S(2, 2, bound=bound)


EXPRESSIONS: dict[str, tuple[Callable[[Any, Any], Any], type[cb.CipherblasError], str]] = {
    "inner dimensions": (
        lambda a, b: a @ np.ones((3, 4)),
        cb.ShapeError,
        "4x4 and 3x4.*the transpose of the right factor",
    ),
    "shapes of a sum": (lambda a, b: a + (a @ np.ones((4, 3))), cb.ShapeError, "expected 4x4, got 4x3"),
    "constant of another shape": (lambda a, b: a + np.ones((3, 4)), cb.ShapeError, "expected 4x4, got 3x4"),
    "node that would be broadcast": (
        lambda a, b: (np.ones((3, 4)) @ a) * np.ones((4, 4)),
        cb.ShapeError,
        "expected 3x4, got 4x4",
    ),
    "three dimensions": (lambda a, b: a @ np.ones((4, 4, 1, 1)), cb.ShapeError, "3 dimensions"),
    "empty dimension": (lambda a, b: a @ np.ones((4, 0)), cb.ShapeError, "none of them 0"),
    "ragged list": (lambda a, b: a * [[1.0], [1.0, 2.0]], cb.ShapeError, "rectangular"),
    "empty list": (lambda a, b: a @ [], cb.ShapeError, "3 dimensions"),
    "complex constant": (lambda a, b: a + np.full((4, 4), 1j), cb.DTypeError, "complex128"),
    "text": (lambda a, b: a + "b", cb.DTypeError, "got str"),
    "objects": (lambda a, b: a + np.full((4, 4), None), cb.DTypeError, "object"),
    "masked": (
        lambda a, b: a + np.ma.masked_array(np.ones((4, 4)), np.eye(4)),
        cb.DTypeError,
        "masked",
    ),
    "NaN": (lambda a, b: a + np.full((4, 4), np.nan), cb.RangeError, r"NaN at \[0, 0\]"),
    "infinity": (lambda a, b: a * [[1.0, -np.inf, 1.0, 1.0]], cb.RangeError, r"infinity at \[0, 1\]"),
    "NaN as a factor": (lambda a, b: np.nan * a, cb.RangeError, "finite"),
    "huge factor": (lambda a, b: a * 10**400, cb.RangeError, "too large"),
    "factors beyond range": (lambda a, b: (a * 1e150) @ (b * 1e150), cb.RangeError, "bound"),
    "division by zero": (lambda a, b: a / 0, cb.RangeError, "division by zero"),
    "division by a matrix": (lambda a, b: a / b, cb.DTypeError, "division"),
    "complex factor": (lambda a, b: a * 1j, cb.DTypeError, "complex"),
    "boolean factor": (lambda a, b: a * True, cb.DTypeError, "bool"),
    "np.asarray": (lambda a, b: np.asarray(a), cb.DTypeError, "cannot be converted to an array"),
    "a number returned": (lambda a, b: 3, cb.DTypeError, "not a value of type int"),
    "an array returned": (lambda a, b: np.ones((4, 4)), cb.DTypeError, "type ndarray"),
    "a pair with an array": (
        lambda a, b: (a @ b, np.ones((4, 4))),
        cb.DTypeError,
        "result 1 is a value of type ndarray",
    ),
    "a set returned": (lambda a, b: {a, b}, cb.DTypeError, "type set"),
    "no result": (lambda a, b: (), cb.ParameterError, "(?s)got 0.*1 to 256"),
    "no result by name": (lambda a, b: {}, cb.ParameterError, "(?s)got 0.*1 to 256"),
    "too many results": (lambda a, b: [a @ b] * 257, cb.ParameterError, "(?s)got 257.*1 to 256"),
    "nested results": (
        lambda a, b: (a, (b, a)),
        cb.DTypeError,
        "Results may not be nested: result 1 is itself",
    ),
    "nested by name": (
        lambda a, b: {"x": a, "y": {"z": b}},
        cb.DTypeError,
        "Results may not be nested: result 'y' is itself",
    ),
    "a name that is no name": (lambda a, b: {"x y": a @ b}, cb.ParameterError, "name of a result"),
    "a name that is a keyword": (lambda a, b: {"lambda": a @ b}, cb.ParameterError, "name of a result"),
    "a name that is a number": (lambda a, b: {1: a @ b}, cb.ParameterError, "name of a result"),
    "a long name": (lambda a, b: {"x" * 101: a @ b}, cb.ParameterError, "name of a result"),
    "one clear result": (
        lambda a, b: (a @ b, 0 * a),
        cb.MismatchError,
        "Result '1' does not depend on a secret",
    ),
    "nothing returned": (lambda a, b: None, cb.DTypeError, "not None"),
    "an operand forgotten": (lambda a, b: a @ a, cb.MismatchError, "the operand 'b'"),
    "no secret left": (lambda a, b: 0 * (a @ b), cb.MismatchError, "does not depend on a secret"),
}


def test_clear_operands_alone() -> None:
    with refused(cb.MismatchError, "needs a secret operand"):
        cb.compile(lambda a, b: a @ b, {"a": P(4, 4), "b": P(4, 4)})


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions(name: str) -> None:
    function, kind, word = EXPRESSIONS[name]
    with refused(kind, word):
        cb.compile(function, PAIR)


@pytest.mark.parametrize("function", [np.log, np.arctan2, np.frexp])
def test_numpy_ufuncs_that_are_not_computed(function: Any) -> None:
    with pytest.raises(TypeError):
        cb.compile(lambda a: function(*[a] * function.nin), {"a": S(4, 4)})


@pytest.mark.parametrize("function", [np.matmul, np.multiply, np.add, np.subtract])
def test_numpy_ufuncs_that_are_operators(function: Any) -> None:
    program = cb.compile(lambda a: function(a, a), {"a": S(4, 4)})
    values = np.arange(16.0).reshape(4, 4) / 16
    np.testing.assert_array_equal(program.evaluate({"a": values}), function(values, values))


def test_arrays_lists_and_numbers_mean_what_numpy_means() -> None:
    values = {"a": np.random.default_rng(1).uniform(-1, 1, (3, 4))}
    row, column = np.arange(4.0), np.arange(3.0)[:, None]
    for function in (
        lambda a: np.float64(2) * a - np.int32(3),
        lambda a: a * np.array(2.0) + row,
        lambda a: column * a - row,
        lambda a: row - a * column,
        lambda a: np.eye(3) @ a @ [[1, 2], [3, 4], [5, 6], [7, 8]],
        lambda a: sum([a, a, 2 * a]),
        lambda a: +a - -a,
        lambda a: (1 - a) / 4,
        lambda a: a.T.T + a,
    ):
        expected = function(values["a"])
        np.testing.assert_allclose(
            evaluate_clear(trace(function, {"a": S(3, 4)}), values), expected, atol=1e-12
        )


def test_transposing_twice_is_the_same_node() -> None:
    expression = trace(lambda a, b: a @ b, PAIR)
    assert expression.T.T is expression


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda a: a, r"takes .a., and the operands are named a, b"),
        (lambda a, b, c: a @ b, r"takes .a, b, c., and the operands are named a, b"),
        (lambda x, y: x @ y, "Write: .*'x': …, 'y': …"),
        (operator.matmul, "Write: lambda a, b: f"),
    ],
)
def test_parameters_of_the_function(function: Any, word: str) -> None:
    with refused(cb.MismatchError, word):
        cb.compile(function, PAIR)


def test_not_a_function() -> None:
    with refused(cb.DTypeError, "function"):
        cb.compile("a @ b", PAIR)  # type: ignore[arg-type]


def test_errors_of_the_function_itself_pass() -> None:
    with pytest.raises(ZeroDivisionError):
        cb.compile(lambda a, b: 1 / 0, PAIR)


NAMES = (
    "self",
    "program",
    "function",
    "operands",
    "options",
    "precision",
    "error",
    "block",
    "progress",
    "constant0",
)


@pytest.mark.parametrize("name", NAMES)
def test_operands_have_names_of_their_own(name: str, tmp_path: Path) -> None:
    """Options and parameters of methods may be called the same, also in files."""
    cb.compile(lambda **x: x[name] @ np.ones((2, 3)), {name: S(2, 2)}, precision=1e-3).save(tmp_path / "x")
    program = cb.Program.load(tmp_path / "x")
    client = program.client()
    values, steps = {name: np.eye(2)}, []
    encrypted = client.encrypt(values, progress=lambda *step: steps.append(step))
    result = program.server(client.evaluation_keys()).run(
        encrypted, progress=lambda *step: steps.append(step)
    )
    assert np.abs(client.decrypt(result, of=encrypted) - program.evaluate(values)).max() <= program.plan.error
    assert steps


def test_operands_by_keyword_are_told_the_line_to_write() -> None:
    """As they once were given."""
    program = cb.compile(lambda a, b: a @ b, PAIR)
    client = program.client()
    old: dict[str, Callable[..., Any]] = {
        r'compile(function, {"a": secret(…), "b": secret(…)}, …), got a, b by keyword': lambda: cb.compile(
            lambda a, b: a @ b, **PAIR, precision=1e-3
        ),
        'encrypt({"a": …, "b": …}), got a, b by keyword': lambda: client.encrypt(a=np.eye(4), b=np.eye(4)),
        'run({"b": …}), got b by keyword': lambda: program.server(client.evaluation_keys()).run({}, b=1),
        'evaluate({"a": …}), got a by keyword': lambda: program.evaluate(a=np.eye(4)),
        'encrypt({"a": …}), got ndarray': lambda: client.encrypt(np.eye(4)),
        'encrypt({"a": …}), got none': lambda: client.encrypt(),
        'compile(function, {"a": secret(…)}, …), got Operand, Operand': lambda: cb.compile(
            lambda a, b: a @ b, PAIR["a"], PAIR["b"]
        ),
    }
    for line, call in old.items():
        advice, got = map(re.escape, line.split(", got "))
        with refused(cb.DTypeError, f"(?s)Operands are given in one dictionary .got {got}.*Write: {advice}"):
            call()
    with refused(cb.MismatchError, "no option 'speed'"):
        cb.compile(lambda a, b: a @ b, PAIR, speed=3)
    with refused(cb.DTypeError, r"(?s)Operand 'b'.*secret or public .got ndarray.*Write: cb.secret\(4, 4\)"):
        cb.compile(lambda a, b: a @ b, {"a": S(4, 4), "b": np.eye(4)})  # type: ignore[dict-item]


def test_what_was_encrypted_goes_in_as_it_came() -> None:
    program = cb.compile(lambda a, b: a @ b, PAIR)
    client = program.client()
    encrypted = client.encrypt({"b": np.eye(4), "a": np.eye(4)})
    assert list(encrypted) == ["b", "a"] and all(encrypted[name].name == name for name in encrypted)
    server = program.server(client.evaluation_keys())
    with refused(cb.DTypeError, "Operand 'a' is secret.*encrypt returns a dictionary of them, got dict"):
        server.run({"a": client.encrypt({"a": np.eye(4)}), "b": encrypted["b"]})
    result = server.run(client.encrypt({"a": np.eye(4)}) | client.encrypt({"b": np.eye(4)}))
    assert np.abs(client.decrypt(result) - np.eye(4)).max() <= program.plan.error


def test_too_many_nodes() -> None:
    def sum_of(count: int) -> Callable[..., Any]:
        return lambda a, b: sum([b] * (count - 1), a)

    assert cb.compile(sum_of(300), PAIR).shape == (4, 4)
    with refused(cb.WorkBudgetError, f"too many nodes.*at most {MAX_NODES}"):
        cb.compile(sum_of(MAX_NODES + 1), PAIR)


def test_shared_parts_are_visited_once_not_once_for_every_path() -> None:
    def doubled(a: Any, b: Any) -> Any:
        weights, product = b, a @ b
        for _ in range(60):
            weights = weights + weights
        for _ in range(12):
            product = product + product
        return weights / 2.0**60 + product

    start = time.perf_counter()
    program = cb.compile(doubled, {"a": S(4, 4), "b": P(4, 4)})
    assert re.search(r"^program .* \* …\) \+ .* \+ …\)", program.explain())  # the outermost operations
    values = {"a": np.eye(4), "b": np.ones((4, 4))}
    np.testing.assert_allclose(program.evaluate(values), 4097 * np.ones((4, 4)))
    assert time.perf_counter() - start < 30


OPTIONS: list[tuple[dict[str, Any], type[cb.CipherblasError], str]] = [
    ({"speed": 3}, cb.MismatchError, "no option 'speed'"),
    ({"c": np.ones((4, 4))}, cb.MismatchError, "no option 'c'"),
    ({"precision": 0.0}, cb.PrecisionError, "between 0 and 1"),
    ({"precision": 1.0}, cb.PrecisionError, "between 0 and 1"),
    ({"precision": np.nan}, cb.PrecisionError, "between 0 and 1"),
    ({"precision": "1e-4"}, cb.DTypeError, "got str"),
    ({"precision": None}, cb.DTypeError, "got NoneType"),
    ({"error": 0.0}, cb.PrecisionError, "a positive number"),
    ({"error": np.nan}, cb.PrecisionError, "a positive number"),
    ({"error": np.inf}, cb.PrecisionError, "a positive number"),
    ({"error": 4.0}, cb.PrecisionError, "below the bound 4 of the result"),
    ({"error": 1e-17}, cb.PrecisionError, "expected 2e-16 at the least"),
    ({"error": "0.1"}, cb.DTypeError, "got str"),
    ({"error": 1e-3, "precision": 1e-4}, cb.ParameterError, "Both precision= and error= are given"),
    ({"security": 100}, cb.ParameterError, "128 | 192 | 256"),
    ({"security": 0}, cb.SecurityError, "insecure=True"),
    ({"security": "128"}, cb.DTypeError, "integer"),
    ({"algorithm": "magic"}, cb.ParameterError, "skewed | outer-product"),
    ({"algorithm": 3}, cb.DTypeError, "a name"),
    ({"memory_budget": "1G"}, cb.DTypeError, "integer"),
    ({"memory_budget": 0}, cb.ParameterError, "positive"),
    ({"memory_budget": True}, cb.DTypeError, "integer"),
    ({"key_budget": -1}, cb.ParameterError, "positive"),
    ({"upload_budget": np.inf}, cb.DTypeError, "integer"),
    ({"threads": 0}, cb.ParameterError, "positive"),
    ({"threads": 1.5}, cb.DTypeError, "got 1.5"),
    ({"block": 0}, cb.ParameterError, "positive"),
    ({"ring_degree": 5000}, cb.ParameterError, "power of two"),
    ({"ring_degree": 1 << 11}, cb.ParameterError, "power of two"),
    ({"key_policy": "few"}, cb.ParameterError, "direct | composed | binary"),
    ({"order": "random"}, cb.ParameterError, "limb | rotation"),
    ({"options": 3}, cb.DTypeError, "dictionary"),
    (
        {"options": {"speed": 3}, "algorithm": "skewed"},
        cb.ParameterError,
        "skewed does not take these options",
    ),
    ({"parameters": {"n": 4096}}, cb.DTypeError, "Parameters"),
]


@pytest.mark.parametrize(("options", "kind", "word"), OPTIONS, ids=[str(row[0]) for row in OPTIONS])
def test_options(options: dict[str, Any], kind: type[cb.CipherblasError], word: str) -> None:
    with refused(kind, word):
        cb.compile(lambda a, b: a @ b, PAIR, **options)


def test_budgets_may_be_floats_that_are_whole() -> None:
    assert cb.compile(lambda a, b: a @ b, PAIR, memory_budget=4e9).plan.peak_bytes < 4e9


OUT_OF_REACH: dict[str, tuple[dict[str, Any], type[cb.CipherblasError], str]] = {
    "precision": ({"precision": 1e-15}, cb.PrecisionError, "128-bit security.*a precision of 1e-15"),
    "precision of float64": ({"precision": 1e-17}, cb.PrecisionError, "cannot be reached.*got 1e-17"),
    "precision in a small ring": (
        {"precision": 1e-9, "ring_degree": 1 << 12, "security": 256},
        cb.PrecisionError,
        "256-bit security",
    ),
    "memory": ({"memory_budget": 1 << 20}, cb.MemoryBudgetError, "memory_budget is 1.0 MiB"),
    "keys": (
        {"key_budget": 1000, "algorithm": "skewed"},
        cb.MemoryBudgetError,
        "key_budget is 1000 B",
    ),
    "upload": ({"upload_budget": 100}, cb.MemoryBudgetError, "upload_budget is 100 B"),
}


@pytest.mark.parametrize("name", OUT_OF_REACH)
def test_what_no_plan_reaches(name: str) -> None:
    options, kind, word = OUT_OF_REACH[name]
    start = time.perf_counter()
    with refused(kind, word):
        cb.compile(lambda a, b: a @ b, PAIR, **options)
    assert time.perf_counter() - start < 30


def test_security_out_of_reach_of_a_deep_chain() -> None:
    def chain(a: Any, b: Any) -> Any:
        for _ in range(8):
            a = a @ b
        return a

    with refused(cb.CipherblasError, "256"):
        cb.compile(chain, PAIR, security=256, ring_degree=1 << 13, algorithm="outer-product")


def test_dimensions_beyond_every_machine() -> None:
    start = time.perf_counter()
    for sizes in ((10**6, 10**6, 10**6), (1, 10**7, 1), (10**7, 1, 10**7)):
        with pytest.raises(cb.MemoryBudgetError):
            cb.compile(lambda a, b: a @ b, {"a": S(*sizes[:2]), "b": S(*sizes[1:])}, memory_budget=1 << 28)
    assert time.perf_counter() - start < 60


def test_exhausted_levels_of_forced_parameters() -> None:
    shallow = cb.compile(lambda a, b: a @ b, PAIR).plan.parameters
    for function in (lambda a, b: (a @ b) @ a, lambda a, b: a * b * a, lambda a, b: (a @ b) * b):
        for algorithm in (None, "fame"):
            with pytest.raises(cb.LevelError) as caught:
                cb.compile(function, PAIR, parameters=shallow, algorithm=algorithm)
            assert caught.value.expected is not None
            assert caught.value.got is not None


def test_forced_parameters_say_what_precision_they_give() -> None:
    coarse = cb.compile(lambda a, b: a @ b, PAIR, precision=1e-3).plan.parameters
    program = cb.compile(lambda a, b: a @ b, PAIR, precision=1e-6, parameters=coarse)
    assert program.plan.parameters == coarse
    assert program.plan.error > program.plan.error_target
    assert "NOT reached" in program.explain()
