"""Means as part of the convolutions before them: the same results, of fewer refreshed ciphertexts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import PrecisionError
from cipherblas.lang.analysis import evaluate_clear, trace
from cipherblas.lang.layers import AvgPool2d, Conv2d
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.planner.plan.passes import PlanRequest
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.feasible import Infeasible
from cipherblas.planner.rewrite.means import means_in_filters, with_means_in_filters
from tests.corpus.machine import MACHINE
from tests.support.runs import Parties, toy

CASES = {  # kernel, stride, padding and groups of the convolution, kernel and stride of the mean, rows, columns
    "as SqueezeNet": (3, 1, 1, 1, 2, 2, 8, 8),
    "rows left out": (3, 1, 1, 1, 2, 2, 9, 7),
    "overlapping": (3, 1, 0, 1, 3, 2, 11, 12),
    "with gaps between": (2, 1, 0, 1, 2, 3, 10, 11),
    "of a stride": (5, 2, 2, 1, 2, 2, 16, 15),
    "of groups": (3, 1, 1, 2, 2, 2, 8, 6),
    "of single channels": (3, 2, 1, 4, 3, 1, 12, 9),
    "one result": (4, 1, 0, 1, 3, 3, 6, 6),
}
WEIGHTS = np.random.default_rng(0).normal(size=(8, 4, 3, 3))


def _traced(function: Callable[..., Any], *shape: int) -> Expression:
    return trace(function, {"x": cb.secret(*shape)})


def _kinds(expression: Expression) -> list[str]:
    return [node.op for node in ordered(expression) if isinstance(node, (Conv2d, AvgPool2d))]


@pytest.mark.parametrize("images", [(), (3,)], ids=["one image", "several"])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "groups", "most", "apart", "height", "width"), CASES.values(), ids=CASES
)
def test_the_same_results_by_one_convolution(
    kernel: int,
    stride: int,
    padding: int,
    groups: int,
    most: int,
    apart: int,
    height: int,
    width: int,
    images: tuple[int, ...],
) -> None:
    random = np.random.default_rng(1)
    weights, bias = random.normal(size=(8, 4 // groups, kernel, kernel)), random.normal(size=8)

    def function(x: Any) -> Any:
        found = cb.conv2d(x, weights, bias, stride=stride, padding=padding, groups=groups)
        return cb.refresh(cb.avg_pool2d(cb.assume(found, 1000.0), most, apart))

    written = _traced(function, *images, 4, height, width)
    joined = means_in_filters(written)
    assert _kinds(written) == ["conv2d", "avg_pool2d"] and _kinds(joined) == ["conv2d"]
    assert joined.shape == written.shape and joined.bound <= written.bound * (1 + 1e-12)
    x = random.normal(size=(*images, 4, height, width))
    found, expected = (evaluate_clear(one, {"x": x}) for one in (joined, written))
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


def _convolved(x: Any, **options: Any) -> Any:
    return cb.conv2d(x, WEIGHTS, **{"padding": 1, **options})


def _read_beside_its_mean(x: Any) -> Any:
    found = _convolved(x)
    return cb.refresh(cb.avg_pool2d(found, 2)) + cb.conv2d(found, np.ones((8, 8, 2, 2)), stride=2)


def _read_beside_its_refresh(x: Any) -> Any:
    found = cb.avg_pool2d(_convolved(x), 2)
    return cb.refresh(found) + found


def _promised(x: Any) -> Any:
    return cb.refresh(cb.avg_pool2d(cb.assume(_convolved(x), 9.0, error=0.1), 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: cb.avg_pool2d(_convolved(x), 2),
        lambda x: cb.square(cb.avg_pool2d(_convolved(x), 2)),
        _read_beside_its_mean,
        _read_beside_its_refresh,
        _promised,
        lambda x: cb.refresh(cb.avg_pool2d(cb.square(_convolved(x)), 2)),
        lambda x: cb.refresh(cb.avg_pool2d(x, 2)),
        lambda x: cb.refresh(cb.avg_pool2d(_convolved(x), 4)),
        lambda x: cb.refresh(cb.avg_pool2d(_convolved(x), 2, padding=1)),
        lambda x: cb.refresh(cb.avg_pool2d(_convolved(x), 2, (2, 1))),
        lambda x: cb.refresh(cb.avg_pool2d(_convolved(x) + _convolved(x, groups=1), 2)),
    ],
    ids=[
        "not refreshed",
        "squared first",
        "read beside its mean",
        "read beside its refresh",
        "an error that is promised",
        "of squares",
        "of no convolution",
        "larger than the filters",
        "with padding",
        "two strides",
        "of a sum",
    ],
)
def test_left_as_it_is(function: Callable[..., Any]) -> None:
    written = _traced(function, 4, 8, 8)
    assert means_in_filters(written) is written


@pytest.mark.parametrize("carried", [True, False])
def test_where_it_cannot_be_planned_the_program_is_as_it_was(carried: bool) -> None:
    written = _traced(lambda x: cb.refresh(cb.avg_pool2d(_convolved(x), 2)), 4, 8, 8)
    asked: list[list[str]] = []

    def following(request: PlanRequest) -> Any:
        asked.append(_kinds(request.expression))
        return Infeasible(PrecisionError("None.")) if not carried and len(asked) == 1 else "a plan"

    found: Any = with_means_in_filters(PlanRequest(written, PlanOptions(machine=MACHINE)), following)
    assert found == "a plan"
    assert asked == [["conv2d"], ["conv2d", "avg_pool2d"]][: 1 if carried else 2]


@pytest.mark.encrypted
def test_fewer_ciphertexts_are_refreshed() -> None:
    """Zeros and values at their bounds among the images."""
    random = np.random.default_rng(2)
    first, second = random.normal(0, 0.2, (4, 1, 3, 3)), random.normal(0, 0.1, (8, 4, 3, 3))
    scores = random.normal(0, 0.1, (3, 8 * 8 * 8))

    def network(x: Any) -> Any:
        y = cb.chebyshev(np.tanh, cb.conv2d(x, first, padding=1), degree=7)
        y = cb.refresh(cb.avg_pool2d(cb.conv2d(y, second, np.ones(8), padding=1), 2))
        return scores @ cb.flatten(cb.chebyshev(np.tanh, y, degree=7))

    program = toy(network, x=cb.secret(1, 16, 16), error=30.0)
    (refreshed,) = (node for node in program.plan.nodes if node.counts.modulus_raises)
    assert refreshed.ciphertexts == 1 and "avg_pool2d" not in program.explain()
    parties = Parties(program)
    for image in (random.uniform(-1, 1, (1, 16, 16)), np.zeros((1, 16, 16)), -np.ones((1, 16, 16))):
        parties.run({"x": image}).check()
