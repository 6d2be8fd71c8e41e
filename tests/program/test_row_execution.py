"""Expression graphs by GEMMs, on `RowsClear` against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.common.errors import ParameterError
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.clear import RowsClear
from cipherblas.forms.row_forms import RowForm, SharedRowForm
from cipherblas.lang.analysis import evaluate_clear, trace
from cipherblas.lang.facts import products
from cipherblas.lang.nodes import Expression
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.executor import Executor
from cipherblas.runtime.inputs import Inputs, fresh
from cipherblas.runtime.values import Decisions, Input, MethodChoice, Value
from tests.support.clear_runs import evaluators_of, numbered

N = 8
RING = RingShape.from_bits(N, [50.0] * 4, [50.0], 1, 20.0)


class ArrayInputs(Inputs):
    """Operands from arrays."""

    def __init__(self, values: dict[str, np.ndarray]) -> None:
        super().__init__(values)
        self.operands = values

    def secret(self, wanted: Input, bound: float, evaluators: Evaluators) -> list[list[list[Any]]]:
        ev, form = evaluators.rows, wanted.form
        assert isinstance(ev, RowsClear) and isinstance(form, RowForm)
        matrix = self.operands[wanted.name]
        matrix = matrix.T if wanted.transposed else matrix
        assert matrix.shape == form.shape
        if isinstance(form, SharedRowForm):
            data = [ev.encrypt_batch(matrix, wanted.scale)]
        else:
            data = [ev.encrypt(matrix[:, start:stop], wanted.scale) for start, stop in form.pieces]
        return fresh(wanted, bound, evaluators, iter(data))


def decrypted(ev: RowsClear, value: Value) -> np.ndarray:
    return value.rows.joined([ev.decrypt(piece) for piece in value.handles]) * value.unit


def executor(ev: RowsClear, node: Expression, values: Any, **options: Any) -> Executor:
    choices = numbered(node, [MethodChoice("gemm", options)] * len(products(node)))
    return Executor(evaluators_of(rows=ev), node, Decisions("rows", choices), ArrayInputs(values))


def check(
    function: Callable[..., Any],
    weight_bits: int = 30,
    fixed: bool = False,
    in_bytes: bool = False,
    **operands: Any,
) -> tuple[RowsClear, Value]:
    random = np.random.default_rng(5)
    node = trace(function, operands)
    values = {}
    for name, operand in operands.items():
        entries = random.uniform(-1, 1, operand.shape) * operand.bound
        values[name] = np.rint(entries) if operand.whole else entries
    ev = RowsClear(RING, 3)
    value = executor(ev, node, values, weight_bits=weight_bits, fixed=fixed, bytes=in_bytes).run()
    bound = max(piece.error(piece.shape[0] * piece.shape[1]) for piece in value.handles) + 1e-9 * node.bound
    np.testing.assert_allclose(decrypted(ev, value), evaluate_clear(node, values), rtol=0, atol=bound)
    return ev, value


lengths = st.integers(1, 20)


@given(m=lengths, k=lengths, n=lengths)
def test_products_of_any_shape(m: int, k: int, n: int) -> None:
    check(lambda a, b: a @ b, a=cb.secret(m, k), b=cb.secret(k, n))
    check(lambda w, x: w @ x, w=cb.public(m, k), x=cb.secret(k, n))
    check(lambda x, w: x @ w, x=cb.secret(m, k), w=cb.public(k, n))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, w: (a @ b) @ w,
        lambda a, b, w: w @ (a @ b),
        lambda a, b, w: (w @ a) @ b,
        lambda a, b, w: a @ (b @ w),
        lambda a, b, w: (a @ w) @ b.T,
        lambda a, b, w: (w @ a) @ (b @ w),
        lambda a, b, w: a @ b - 2 * (w @ a) + w,
        lambda a, b, w: -(a @ b).T @ w + 3.0,
        lambda a, b, w: a.T @ a + b,
        lambda a, b, w: (a @ b) @ a,
        lambda a, b, w: w @ a @ w,
    ],
)
def test_graphs(function: Callable[..., Any]) -> None:
    check(function, a=cb.secret(11, 11), b=cb.secret(11, 11, bound=3.0), w=cb.public(11, 11, bound=0.5))


@given(m=lengths, k=lengths, n=lengths)
def test_fixed_weights_of_any_shape(m: int, k: int, n: int) -> None:
    random = np.random.default_rng(m + k + n)
    ev, _ = check(lambda x: random.uniform(-1, 1, (m, k)) @ x, fixed=True, x=cb.secret(k, n))
    assert len(ev.request.weights) == m
    whole = random.integers(-128, 128, (n, k))
    ev, value = check(lambda x: 2 * (x @ whole.T) - 1, fixed=True, x=cb.secret(m, k))
    assert len(ev.request.weights) == n and not ev.request.galois
    assert value.rows.by_columns and value.handles[0].bias == 0.5  # of the number that is subtracted


def test_fixed_and_other_weights_in_one_sum() -> None:
    """More columns than N: both terms come in the same pieces."""
    constant = np.ones((4, 5))
    check(
        lambda x, w: constant @ x + w @ x,
        fixed=True,
        x=cb.secret(5, 2 * N + 3),
        w=cb.public(4, 5),
    )


@pytest.mark.parametrize("fixed", [False, True])
def test_terms_of_both_keys_in_one_sum(fixed: bool) -> None:
    """More columns than N: the public key encrypts pieces of N columns, and no batch with secrets of its own."""
    constant = np.ones((4, 5))
    ev, value = check(
        lambda x, y, z: constant @ x + constant @ y - z,
        fixed=fixed,
        x=cb.secret(5, 2 * N + 3, encryption="public-key"),
        y=cb.secret(5, 2 * N + 3),
        z=cb.secret(4, 2 * N + 3),
    )
    assert [piece.shape[1] for piece in value.handles] == [N, N, 3]
    assert len(ev.request.weights) == (4 if fixed else 0)


def test_whole_weights_are_not_rounded() -> None:
    _, value = check(lambda w, x: w @ x, w=cb.public(5, 7, dtype="int8"), x=cb.secret(7, 3), weight_bits=2)
    assert value.handles[0].bias == 0.0
    _, value = check(lambda w, x: w @ x, w=cb.public(5, 7), x=cb.secret(7, 3), weight_bits=6)
    assert value.handles[0].bias > 0


def test_a_product_of_secrets_needs_no_transposition_of_operands() -> None:
    ev, _ = check(lambda a, b: a @ b, a=cb.secret(5, 7), b=cb.secret(7, 3))
    assert ev.counts.transposes == 2
    ev, _ = check(lambda a, b, c: (a @ b) @ c, a=cb.secret(5, 7), b=cb.secret(7, 3), c=cb.secret(3, 4))
    assert ev.counts.transposes == 4
    ev, _ = check(lambda w, x: w @ x, w=cb.public(5, 7), x=cb.secret(7, 3))
    assert ev.counts.transposes == 0


def test_what_needs_slots_is_refused() -> None:
    with pytest.raises(ParameterError, match="no method by rows for square 3x3"):
        cb.compile(lambda a: a * a, {"a": cb.secret(3, 3)}, form="rows")


def test_clear_factors_of_two_bytes() -> None:
    """In the clear the products with bytes are put together as the client does it."""
    for function, w in ((lambda w, x: w @ x, (5, 7)), (lambda w, x: x @ w, (3, 5))):
        _, value = check(
            function,
            in_bytes=True,
            w=cb.public(*w, dtype="int16"),
            x=cb.secret(7, 3, dtype="int16", exact=True),
        )
        assert value.rows.cut[0] and value.rows.shape[0] == 11 and value.shape in ((5, 3), (7, 5))
