"""Polynomials and functions of encrypted values: several forms, several blocks, garbage beside entries, all ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

import cipherblas as cb
from cipherblas.lang.analysis import trace
from cipherblas.lang.graph import deduplicated
from cipherblas.methods.matvec_conv.baselines.imra import Pattern
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime import tensors
from tests.support.clear_runs import network_in_clear
from tests.support.runs import Run, run, run_by_files, toy, values_of

pytestmark = pytest.mark.encrypted

S = cb.secret


def weights(*shape: int, most: float = 1.0) -> Any:
    return np.random.default_rng(3).uniform(-most, most, shape)


def ends(program: cb.Program) -> dict[str, Any]:
    """Values over the whole range of each operand, its ends and zero among them."""
    found = {}
    for name, operand in program.operands.items():
        size = int(np.prod(operand.shape))
        values = np.linspace(-operand.bound, operand.bound, size)
        values[size // 2] = 0.0
        found[name] = np.random.default_rng(2).permutation(values).reshape(operand.shape)
    return found


def checked(function: Any, exact: Any, **arguments: Any) -> Run:
    """A toy run within its plan's error, of the function itself too, which the polynomial only approximates."""
    program = toy(function, **arguments)
    values = ends(program)
    found = run(program, values).check()
    assert (
        np.abs(found.decrypted - exact(**values)).max()
        <= program.plan.error
        <= program.plan.results[0].target
    )
    return found


# --- encrypted ---


@pytest.mark.parametrize("shape", [(60,), (7, 9)])
def test_a_polynomial_and_a_function_of_an_operand(shape: tuple[int, ...]) -> None:
    powers = [0.5, -1.0, 0.25, 2.0, 0.0, -1.5, 0.125, 1.0]
    checked(
        lambda x: cb.polynomial(x, powers),
        lambda x: np.polynomial.polynomial.polyval(x, powers),
        x=S(*shape, bound=1.5),
    )
    checked(
        lambda x: cb.sigmoid(x, precision=1e-4),
        lambda x: special.expit(x),
        x=S(*shape, bound=6.0),
        precision=1e-3,
    )


@pytest.mark.parametrize("bound", [1e-6, 1e6])
def test_extreme_ranges(bound: float) -> None:
    checked(
        lambda x: cb.tanh((3 / bound) * x, precision=1e-4),
        lambda x: np.tanh(3 / bound * x),
        x=S(3, 4, bound=bound),
        precision=1e-3,
    )


def test_an_argument_that_is_promised_to_be_positive() -> None:
    program = toy(lambda x: cb.inverse(x, lower=0.2, precision=1e-3), x=S(5, 3), precision=1e-2)
    values = {"x": np.linspace(0.2, 1.0, 15).reshape(5, 3)}
    found = run(program, values).check()
    assert np.abs(found.decrypted - 1 / values["x"]).max() <= program.plan.error


@pytest.mark.parametrize("algorithm", ["skewed", "bicyclic", "outer-product"])
def test_between_products_of_matrices_in_several_blocks(algorithm: str) -> None:
    """What other algorithms leave beside the entries is gone, and blocks that stand over hold zeros again."""

    def program(a: Any, b: Any) -> Any:
        return cb.exp(0.25 * (a @ b), precision=1e-4) @ b.T

    def exact(a: Any, b: Any) -> Any:
        return np.exp(0.25 * (a @ b)) @ b.T

    checked(program, exact, a=S(5, 6), b=S(6, 3), precision=1e-2, block=4, form="blocks", algorithm=algorithm)


def test_by_rows_and_in_blocks() -> None:
    w, v = weights(12, 8), weights(5, 12)
    found = checked(
        lambda x: v @ cb.tanh(cb.assume(w @ x, 3.0), precision=1e-3),
        lambda x: v @ np.tanh(w @ x),
        x=S(8, 6, bound=0.3),
        precision=1e-2,
        form="mixed",
    )
    assert "polynomial" not in found.program.explain() and "tanh of degree" in found.program.explain()


def test_after_a_layer_with_garbage_beside_its_entries() -> None:
    w, v = weights(12, 30), weights(4, 12)
    checked(
        lambda x: v @ cb.sigmoid(cb.assume(w @ x, 20.0), precision=1e-3),
        lambda x: v @ special.expit(w @ x),
        x=S(30),
        precision=1e-2,
    )


class Rotations:
    """The price of a layer is its number of rotations: the decisions do not depend on the machine."""

    def layer(self, pattern: Pattern, taps: int, inputs: int, outputs: int) -> float:
        return pattern.rotations(taps, inputs, outputs) + 0.1 * pattern.plaintexts(taps, inputs, outputs)

    def steps(self, babies: int, giants: int, plaintexts: int) -> float:
        return babies + giants + 0.1 * plaintexts


@pytest.mark.parametrize("masked", [True, False])
def test_garbage_beyond_the_interval(masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots beside the entries hold parts of sums, which cancel in the entries alone: they are masked, and would be
    enormous otherwise."""
    signs = np.ones((12, 30))
    signs[:, 15:] = -1.0
    node = deduplicated(trace(lambda x: cb.tanh(cb.assume(signs @ x, 2.0), precision=5e-5), {"x": S(30)}))
    ring = RingShape.from_bits(512, [50.0] * 3 + [30.0] * 12, [50.0], 1, 30.0)
    if not masked:
        monkeypatch.setattr(tensors, "_may_exceed", lambda *_: False)
        with pytest.raises(AssertionError):
            network_in_clear(ring, node, {"x": np.ones(30)}, Rotations(), "direct")
        return
    found = network_in_clear(ring, node, {"x": np.ones(30)}, Rotations(), "direct")
    np.testing.assert_allclose(found.result, np.zeros(12), rtol=0, atol=1e-9)


def test_rows_divided_by_what_was_computed_of_them() -> None:
    """A clear vector among secret matrices: decisions are of what runs, in which it is a column."""

    def divided(x: Any, inverse: Any, assume: Any) -> Any:
        total = assume(x @ np.ones(4) + 5.0, 9.0)
        return (x * inverse(total)[:, None]) @ weights(4, 3)

    checked(
        lambda x: divided(x, lambda t: cb.inverse(t, lower=1.0, precision=1e-4), cb.assume),
        lambda x: divided(x, np.reciprocal, lambda t, _: t),
        x=S(6, 4),
        precision=1e-2,
    )


def test_by_files_and_transposed(tmp_path: Path) -> None:
    program = toy(lambda x: cb.gelu(x, degree=6).T, x=S(3, 5, bound=2.0), precision=0.05)
    run_by_files(program, values_of(program), tmp_path).check()


def test_sign_and_relu() -> None:
    checked(lambda x: cb.relu(x, precision=0.02), lambda x: np.maximum(x, 0), x=S(40), precision=0.05)


def test_at_128_bits() -> None:
    program = cb.compile(lambda x: cb.sigmoid(x, precision=1e-4), {"x": S(100, bound=8.0)}, precision=1e-3)
    values = {"x": np.linspace(-8, 8, 100)}
    found = run(program, values).check()
    assert np.abs(found.decrypted - special.expit(values["x"])).max() <= program.plan.error
    assert "sigmoid of degree" in program.explain() and "sigmoid[" in program.explain()


def test_what_cannot_be_that_precise_is_refused() -> None:
    with pytest.raises(cb.PrecisionError, match="may err by"):
        toy(lambda x: cb.sigmoid(x, degree=3), x=S(4, bound=8.0))


def test_blocks_of_four_kinds_share_what_is_added() -> None:
    """p(0) is encoded once for each kind of block: full ones, those at the right, at the lower end, in the corner."""
    found = checked(lambda x: cb.exp(x, degree=4), lambda x: np.exp(x), x=S(7, 11), precision=1e-2, block=4)
    assert found.counts.mask_encodings == 4  # numbers in all slots are none
