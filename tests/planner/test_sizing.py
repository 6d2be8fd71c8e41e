"""Chains that a ring carries are planned and run; what no ring carries is refused with the node that is to blame."""

from __future__ import annotations

import functools
import itertools
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common import work
from cipherblas.common.errors import LevelError
from cipherblas.lang.operations import Leaf
from cipherblas.planner.rings.sizing import MAX_INSECURE_LIMBS, NoRingError, draft, drafted
from cipherblas.planner.search.refusals import widest
from cipherblas.rlwe.rings import RingShape
from tests.support.runs import TOY, program_of, run, toy

pytestmark = pytest.mark.encrypted

S = cb.secret
DIRECT: dict[str, Any] = {"algorithm": "skewed", "key_policy": "direct"}


def eighth(a: Any) -> Any:
    for _ in range(3):
        a = a @ a
    return a


def chain(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any:
    return a @ b @ c @ d @ e @ f @ g


def iterated(a: Any, x: Any) -> Any:
    for _ in range(5):
        x = a @ x
    return x


def check(function: Callable[..., Any], precision: float, **arguments: Any) -> cb.Program:
    """Compile, run and compare with NumPy: no entry is further off than the plan predicts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = program_of(function, precision=precision, **arguments)
        rng = np.random.default_rng(5)
        values = {
            name: rng.choice([-1.0, -0.3, 0.7, 1.0], operand.shape) * operand.bound
            for name, operand in program.operands.items()
        }
        run(program, values).check()
    assert program.plan.error_target == precision * program.expression.bound
    return program


def test_a_result_of_three_limbs_is_planned_and_decrypted() -> None:
    """a^8 of 8×8 at 1e-7: the unrescaled last product takes more than two limbs of 50 bits."""
    program = check(eighth, 1e-7, a=S(8, 8), **TOY, **DIRECT)
    bits = program.outputs[0].scale * program.expression.bound
    assert math.log2(bits) > 100


def test_a_chain_that_spends_more_limbs_than_the_first_draft() -> None:
    """Nine products of 2×2, nearly two limbs each; factors between keep them in their order."""
    operands = {name: S(2, 2) for name in "abcdefghij"}
    program = check(
        lambda **factors: functools.reduce(lambda x, y: 0.5 * (x @ y), factors.values()),
        1e-3,
        **operands,
        **TOY,
        algorithm="bicyclic",
        key_policy="direct",
    )
    assert program.plan.parameters.limbs > 14


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "precision", "shapes"),
    [
        (chain, 1e-6, dict.fromkeys("abcdefg", (8, 8))),
        (iterated, 1e-6, {"a": (8, 8), "x": (8, 1)}),
    ],
)
def test_chains_at_128_bits(
    function: Callable[..., Any], precision: float, shapes: dict[str, tuple[int, int]]
) -> None:
    check(function, precision, **{name: S(*shape) for name, shape in shapes.items()})


def at_bound(program: cb.Program) -> None:
    """Every entry is the largest one: messages are as large as the base limbs were made for."""
    for sign in (1.0, -1.0):
        operands = program.operands.items()
        run(program, {name: np.full(each.shape, sign * each.bound) for name, each in operands}).check()


def test_limbs_below_the_scale_save_a_ring_where_only_weights_are_rescaled() -> None:
    weights = np.random.default_rng(1).uniform(-1, 1, (16, 3, 3, 3))

    def layer(x: Any) -> Any:
        return cb.conv2d(x, weights, padding=1)

    program = check(layer, 4.1e-6, x=S(3, 32, 32), form="tensors", ring_degree=4096)
    parameters = program.plan.parameters
    assert math.log2(parameters.q[-1]) < parameters.scale_bits - 0.5
    at_bound(program)


def test_little_headroom_saves_a_ring() -> None:
    a, b = S(20, 30, encryption="public-key"), S(30, 7)
    program = check(lambda a, b: a @ b, 1e-4, a=a, b=b, form="blocks")
    assert program.plan.parameters.n == 4096
    at_bound(program)


def test_a_draft_grows_until_it_carries_the_program() -> None:
    def run(ring: RingShape) -> int:
        if len(ring.q) < 50:
            raise LevelError("too few")
        return len(ring.q)

    ring, limbs = drafted(run, 1 << 16, 30.0, 1747.0)
    assert len(ring.q) == limbs == len(draft(1 << 16, 30.0, 4).q)
    with pytest.raises(NoRingError, match=r"At N = 4096 .* more than 14 limbs.* 5 are allowed"):
        drafted(run, 1 << 12, 30.0, 106.0)


def test_drafts_end_where_security_sets_no_limit() -> None:
    def run(ring: RingShape) -> None:
        raise LevelError("too few")

    with pytest.raises(NoRingError, match=f"{MAX_INSECURE_LIMBS} are allowed"):
        drafted(run, 1 << 12, 30.0, math.inf)


def test_the_widest_node_is_that_of_the_largest_range() -> None:
    a, b = Leaf("a", S(8, 8, bound=1e6)), Leaf("b", S(8, 8))
    node, bits = widest((a @ b) * 1e3 + 1e12)
    assert node.shape == (8, 8) and bits == pytest.approx(math.log2(8.001), abs=0.01)
    product = (b @ b) @ b
    assert widest(product) == (product, 6.0)
    assert widest(a).bits == 0.0


def test_a_refusal_names_the_node_its_bound_and_what_would_help() -> None:
    """Not before the largest ring was tried: precisions beyond the primes, at any degree."""

    def run(a: Any) -> Any:
        return a @ a @ a

    with pytest.raises(cb.PrecisionError) as caught:
        cb.compile(run, {"a": S(4, 4)}, precision=1e-14, form="blocks", algorithm="skewed")
    text = str(caught.value)
    assert "No parameters of 128-bit security compute the program to a precision of 1e-14" in text
    assert re.search(
        r"the widest range of values is that of the result of matmul \(test_sizing.py, line \d+\)", text
    )
    assert "cb.assume" in text and "stay below 16" in text
    precision = caught.value.advice[0].options["precision"]
    assert 1e-14 < precision <= 1e-6
    cb.compile(run, {"a": S(4, 4)}, precision=precision, form="blocks", algorithm="skewed")
    assert "At N = 131072 the program needs a scale of" in text and "bits allowed" in text


def test_a_network_that_no_ring_carries_is_refused_likewise() -> None:
    with pytest.raises(cb.PrecisionError) as caught:
        cb.compile(lambda x: cb.square(cb.square(np.full((2, 4), 3.0) @ x)), {"x": S(4)}, precision=1e-15)
    text = str(caught.value)
    assert "No parameters of 128-bit security compute the program to a precision of 1e-15" in text
    assert (
        "the widest range of values is that of" in text
        and "At N = 131072 the program needs a scale of" in text
    )


def test_a_budget_that_refuses_the_rings_that_would_do_is_named() -> None:
    with pytest.raises(cb.MemoryBudgetError, match="key_budget"):
        cb.compile(eighth, {"a": S(8, 8)}, precision=1e-6, form="blocks", algorithm="skewed", key_budget=1000)


def test_work_that_is_not_done_is_no_lack_of_memory() -> None:
    """GEMMs take too much work to be counted, blocks find no ring: no budget of bytes is to blame."""
    with work.budget_of(1 << 11), pytest.raises(cb.PrecisionError, match="No parameters"):
        cb.compile(eighth, {"a": S(8, 8)}, precision=1e-15)
    with work.budget_of(1 << 11), pytest.raises(cb.WorkBudgetError, match="too much work to be counted"):
        cb.compile(eighth, {"a": S(8, 8)}, precision=1e-2, upload_budget=100)


# --- bounds of known weights, and promised ones ---

RANDOM = np.random.default_rng(8)


def weights(rows: int, cols: int) -> Any:
    return RANDOM.normal(0, 1 / np.sqrt(cols), (rows, cols))


def test_bounds_of_products_with_known_weights_are_sums_of_rows() -> None:
    w, x = weights(6, 9), Leaf("x", S(9, 4, bound=3.0))
    rows = np.abs(w).sum(axis=1).max()
    assert (w @ x).bound == pytest.approx(3 * rows)
    assert (x.T @ w.T).bound == pytest.approx(3 * rows)
    assert ((w @ x).T).bound == pytest.approx(3 * rows)
    assert (w @ Leaf("v", S(9))).bound == pytest.approx(rows)
    assert ((2 * Leaf("y", S(4, 6))) @ (w * 0.5)).bound == pytest.approx(np.abs(w).sum(axis=0).max())
    secret_matrix = Leaf("m", S(5, 9))
    assert (secret_matrix @ w[0]).bound == pytest.approx(np.abs(w[0]).sum())
    assert (np.zeros((2, 9)) @ x).bound > 0


@pytest.mark.parametrize("form", ["rows", "blocks"])
def test_known_weights_reach_the_precision_of_their_sums(form: str) -> None:
    """Rows with one large entry among small ones: their sums are far below nine times the largest entry."""
    w = weights(5, 9) / 50
    w[:, 0] = 1.0
    program = check(lambda x: w.T @ (w @ x), 1e-4, x=S(9, 4), form=form, **{**TOY, "ring_degree": 1 << 13})
    assert program.expression.bound < 12  # 45 by largest entries


def test_worst_cases_of_known_weights_hold() -> None:
    from cipherblas.planner.plan.worst_case import worst_errors

    w = weights(5, 9)
    for form in ("rows", "blocks"):
        program = check(lambda x: w @ x, 1e-4, x=S(9, 4), form=form, **TOY)
        assert program.plan.error <= worst_errors(program.executed, program.plan)[0]


def test_promised_bounds_of_matrices() -> None:
    """Iterations of a matrix whose powers stay small: without the promise bounds grow eightfold each time."""
    a = np.linalg.qr(RANDOM.normal(size=(8, 8)))[0] / 2

    def iterate(x: Any, bound: float | None = None) -> Any:
        for _ in range(4):
            x = x @ x
            x = x if bound is None else cb.assume(x, bound)
        return x

    program = toy(lambda x: iterate(x, 0.5), x=S(8, 8), precision=1e-4, ring_degree=1 << 13)
    assert program.expression.bound == 0.5
    assert iterate(Leaf("x", S(8, 8))).bound == 8.0**15
    run(program, {"x": a}).check()
    assert program.plan.error <= 5e-5
    transposed = cb.assume(Leaf("x", S(8, 4)), 0.25).T
    assert transposed.shape == (4, 8) and transposed.bound == 0.25


@pytest.mark.parametrize("form", ["rows", "blocks"])
def test_promises_hold_on_both_forms(form: str) -> None:
    w = weights(6, 6)
    plain = check(lambda x: w @ (w @ x), 1e-4, x=S(6, 5), form=form, **{**TOY, "ring_degree": 1 << 13})
    promised = check(
        lambda x: w @ cb.assume(w @ x, 5.0), 1e-4, x=S(6, 5), form=form, **{**TOY, "ring_degree": 1 << 13}
    )
    assert promised.expression.bound <= plain.expression.bound


def sigmoid_network(*sizes: int) -> Callable[[Any], Any]:
    """Linear layers with a cubic sigmoid between them; of a batch, one column each."""
    layers = [(weights(n, k), RANDOM.normal(0, 0.1, n)) for k, n in itertools.pairwise(sizes)]

    def network(x: Any) -> Any:
        for number, (w, b) in enumerate(layers):
            x = w @ x + (b if len(x.shape) == 1 else b[:, None])
            if number + 1 < len(layers):
                x = x * x * x * -0.004 + x * 0.197 + 0.5
        return x

    return network


def test_a_batch_through_a_network_of_sigmoids() -> None:
    """Planned for a batch of 100, as one vector is; run for fewer vectors and a layer less."""
    large = cb.compile(sigmoid_network(32, 32, 16, 10), {"x": S(32, 100)}, precision=1e-3).plan
    assert large.error <= large.error_target
    check(sigmoid_network(16, 16, 10), 1e-3, x=S(16, 30))


def test_a_small_batch_through_a_small_network() -> None:
    w = weights(3, 6)
    check(
        lambda x: w @ ((x * x) * x * -0.004 + x * 0.197 + 0.5) + 0.25,
        1e-3,
        x=S(6, 5),
        **{**TOY, "ring_degree": 1 << 13},
    )
