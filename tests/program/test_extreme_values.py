"""Zeros, whole numbers of every size, terms far apart, precisions that nothing reaches: they run, or it is said why."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.evaluators.rows.symbolic import RowsSymbolic
from cipherblas.lang.operations import Constant
from cipherblas.rlwe.basis import FirstLimbs
from cipherblas.rlwe.rings import RingShape
from tests.support.runs import Run, program_of, run

FORMS = ("blocks", "rows")
EXACT = 2.0**53  # integers up to which are exact in float64


def ran(function: Callable[..., Any], values: dict[str, Any], **arguments: Any) -> Run:
    """Compiled and run, within the predicted error."""
    return run(program_of(function, **arguments), values).check()


@pytest.mark.parametrize("form", ["blocks", "rows", None])
@pytest.mark.parametrize("shape", [(8, 8), (8, 1)])
def test_a_factor_of_zeros(form: Any, shape: tuple[int, int]) -> None:
    x = {"x": np.ones(shape)}
    found = ran(lambda x: np.zeros((8, 8)) @ x, x, x=cb.secret(*shape), form=form)
    assert not found.expected.any()
    ran(lambda x: x.T @ np.zeros((8, 8)), x, x=cb.secret(*shape), form=form)
    ran(lambda x: np.eye(8) @ x + np.zeros((8, 8)) @ x, x, x=cb.secret(*shape), form=form)


def test_zeros_in_networks() -> None:
    x = {"x": np.ones(8)}
    for form in ("tensors", "rows"):
        ran(lambda x: np.zeros((5, 8)) @ x, x, x=cb.secret(8), form=form)
    ran(lambda x: np.zeros(8) * x + np.zeros(8), x, x=cb.secret(8))
    image = {"x": np.ones((1, 4, 4))}
    ran(lambda x: cb.conv2d(x, np.zeros((2, 1, 3, 3)), np.zeros(2)), image, x=cb.secret(1, 4, 4))


def test_a_large_factor_of_zeros() -> None:
    ran(lambda x: np.zeros((256, 256)) @ x, {"x": np.ones((256, 8))}, x=cb.secret(256, 8))


@pytest.mark.parametrize("form", FORMS)
def test_an_operand_of_whole_numbers_that_can_hold_only_zero(form: Any) -> None:
    values = {"w": np.zeros((4, 4)), "x": np.ones((4, 4))}
    w = cb.public(4, 4, bound=1e-3, dtype="int8")
    ran(lambda w, x: w @ x, values, w=w, x=cb.secret(4, 4), form=form)


@pytest.mark.parametrize("form", [*FORMS, None])
@pytest.mark.parametrize(
    "largest",
    [
        1.0,
        2.0**31,
        EXACT / 32,
        EXACT / 16 - 1,
        EXACT / 16,
        1e14,
        EXACT - 1,
        EXACT,
        2.0**63,
        1e100,
    ],
)
def test_whole_constants_of_every_size(largest: float, form: Any) -> None:
    """Sums of 16 of them are exact in float64 up to 2^53 / 16; beyond they are rounded as any other weights."""
    rng = np.random.default_rng(7)
    w = np.rint(rng.choice([-1.0, 0.3, 1.0], (16, 16)) * largest)
    ran(lambda x: w @ x, {"x": rng.uniform(-1, 1, (16, 2))}, x=cb.secret(16, 2), form=form)


@pytest.mark.parametrize("form", FORMS)
def test_products_of_clear_whole_numbers(form: Any) -> None:
    """They exceed what float64 holds exactly, and what the GEMMs take as integers."""
    rng = np.random.default_rng(8)
    p = rng.integers(-(2**31), 2**31, (8, 8), dtype=np.int32)
    values = {"p": p, "x": rng.uniform(-1, 1, (8, 8))}
    operands: dict[str, Any] = {"p": cb.public(8, 8, dtype="int32"), "x": cb.secret(8, 8)}
    for function in (lambda p, x: (p @ p) @ x, lambda p, x: (p @ p @ p) @ x, lambda p, x: (p * p + p) @ x):
        ran(function, values, form=form, **operands)


def test_weights_are_rounded_to_what_keys_can_be_made_of() -> None:
    """Keys of fixed weights are sums of secrets that are exact in float64; a precision beyond that is not planned."""
    w = np.random.default_rng(9).uniform(-1, 1, (3, 2048))
    found = 0
    for precision in (1e-10, 1e-12, 1e-14):
        try:
            program = cb.compile(lambda x: w @ x, {"x": cb.secret(2048)}, form="rows", precision=precision)
        except cb.PrecisionError:
            continue
        run(program, {"x": np.ones(2048)})
        found += 1
    assert found


@pytest.mark.parametrize("form", [*FORMS, "tensors"])
def test_terms_far_larger_than_what_is_encrypted(form: Any) -> None:
    """What float64 loses of a large clear term is part of the prediction."""
    rng = np.random.default_rng(10)
    shape = (34,) if form == "tensors" else (2, 34)
    for ratio in (2.0**20, 2.0**40, 2.0**60):
        values = {"x": rng.choice([-1.0, 1.0], shape), "c": ratio * rng.choice([-1.0, 1.0], shape)}
        operands: dict[str, Any] = {"x": cb.secret(*shape), "c": cb.public(*shape, bound=ratio)}
        if form != "rows":  # there is no product
            ran(lambda x, c: 0.5 * (x + c), values, form=form, **operands)
        identity = np.eye(shape[0])
        ran(lambda x, c, w=identity: w @ x - c, values, form=form, **operands)


def test_terms_whose_errors_have_squares_beyond_a_double() -> None:
    """Errors add up in squares; their sum must not overflow where a term is 10^280 times as large as another one."""
    for form in ("blocks", "tensors"):
        shape = (5,) if form == "tensors" else (1, 5)
        operands: dict[str, Any] = {
            "x": cb.secret(*shape, bound=1e-100),
            "c": cb.public(*shape, bound=4e180),
        }
        for function in (lambda x, c: x - c, lambda x, c: x * c - c):
            try:
                program = cb.compile(function, operands, form=form)
            except cb.PrecisionError:
                continue
            run(program, {"x": np.full(shape, 1e-100), "c": np.full(shape, 4e180)}).check()


def test_norms_of_constants_neither_overflow_nor_vanish() -> None:
    for size in (1e-170, 1e-100, 1.0, 1e100, 1e170):
        node = Constant(np.full((2, 4), size))
        assert math.isclose(node.row_norm, 2 * size)
        assert math.isclose(node.row_sum, 4 * size)


def test_a_batch_that_does_not_fit_the_modulus_is_refused_by_the_count() -> None:
    counter = RowsSymbolic(RingShape.from_bits(2048, [24.0], [50.0], 1, 20.0))
    with pytest.raises(cb.LevelError, match="does not fit the modulus"):
        counter.fresh_batch(None, (4, 4), bound=1.0, scale=2.0**24, basis=FirstLimbs(1))


@pytest.mark.parametrize(
    ("form", "shape"), [("blocks", (4, 4)), ("rows", (4, 4)), (None, (4, 4)), ("tensors", (4,))]
)
@pytest.mark.parametrize("precision", [1e-16, 1e-300])
def test_a_precision_beyond_float64_cannot_be_reached(form: Any, shape: Any, precision: float) -> None:
    with pytest.raises(cb.PrecisionError, match=r"cannot be reached.*expected 2e-16"):
        cb.compile(lambda x: np.eye(4) @ x, {"x": cb.secret(*shape)}, form=form, precision=precision)


def test_a_precision_that_no_modulus_reaches_is_named() -> None:
    with pytest.raises(cb.PrecisionError, match=r"3e-16 cannot be reached.*precision=… from"):
        cb.compile(lambda x: np.full((4, 4), 1 / 3) @ x, {"x": cb.secret(4, 4)}, form="rows", precision=3e-16)


@pytest.mark.parametrize("ring_degree", [1 << 14, 1 << 15])
def test_primes_that_are_too_few_are_replaced_by_larger_ones(ring_degree: int) -> None:
    """A coarse precision asks for nine primes near 2^22; at N = 2^14 there are fewer."""

    def chain(x: Any) -> Any:
        for _ in range(8):
            x = np.full((2, 2), 0.7) @ x
        return x

    x = {"x": np.ones(2)}
    ran(chain, x, x=cb.secret(2), precision=0.5, form="tensors", ring_degree=ring_degree)


def test_a_vector_declared_with_whole_numbers_may_be_given_as_floats() -> None:
    operands: dict[str, Any] = {"x": cb.secret(8), "v": cb.public(8, dtype="int8")}
    values = {"x": np.ones(8), "v": np.arange(8.0)}
    found = ran(lambda x, v: x * v, values, **operands)
    client = found.program.client()
    with pytest.raises(cb.RangeError, match="has fractions"):
        found.program.server(client.evaluation_keys()).run(
            {**client.encrypt({"x": np.ones(8)}), "v": np.full(8, 0.5)}
        )
