"""Images that are dealt out to more channels: the same convolution, and the same results of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_clear, trace
from cipherblas.lang.nodes import Expression
from cipherblas.lang.windows import Window
from cipherblas.planner.rewrite import large_images
from cipherblas.planner.rewrite.large_images import dealt_out
from tests.support.runs import run, toy

SIZES = {  # kernel, padding, stride, rows, columns
    "as ResNets begin": (7, 3, 2, 16, 16),
    "as MobileNets begin": (3, 1, 2, 16, 15),
    "as AlexNet begins": (11, 2, 4, 32, 31),
    "without padding": (3, 0, 3, 10, 11),
    "rows left out": (1, 0, 2, 9, 9),
    "more padding than the filter": (5, 4, 3, 12, 13),
    "a filter as large as the image": (8, 0, 4, 8, 8),
}


@pytest.fixture(autouse=True)
def _small_ciphertexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_images, "LARGE", 48)


def _traced(function: Callable[..., Any], *shape: int) -> Expression:
    return trace(function, {"x": cb.secret(*shape)})


@pytest.mark.parametrize(("kernel", "padding", "stride", "height", "width"), SIZES.values(), ids=SIZES)
def test_the_same_results_by_windows_of_stride_1(
    kernel: int, padding: int, stride: int, height: int, width: int
) -> None:
    random = np.random.default_rng(0)
    weights = random.normal(size=(4, 3, kernel, kernel))
    written = _traced(lambda x: cb.conv2d(x, weights, stride=stride, padding=padding), 3, height, width)
    dealt = dealt_out(written)
    window = dealt.window
    assert isinstance(window, Window)
    assert window.stride == (1, 1) and window.shape[0] == 3 * stride**2
    assert dealt.shape == written.shape and dealt.bound == pytest.approx(written.bound)
    assert dealt.children[0].packable
    x = random.normal(size=(3, height, width))
    found, expected = (evaluate_clear(one, {"x": x}) for one in (dealt, written))
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: cb.conv2d(x, np.ones((2, 3, 3, 3)), padding=1),
        lambda x: cb.conv2d(x, np.ones((3, 1, 2, 2)), stride=2, groups=3),
        lambda x: cb.conv2d(x, np.ones((2, 3, 2, 2)), stride=(2, 1)),
        cb.square,
        lambda x: cb.conv2d(x, np.ones((3, 3, 2, 2)), stride=2) + cb.avg_pool2d(x, 2),
        lambda x: cb.conv2d(cb.square(x), np.ones((3, 3, 2, 2)), stride=2),
    ],
    ids=["stride 1", "groups", "two strides", "no convolution", "another reader", "of what is computed"],
)
def test_left_as_it_is(function: Callable[..., Any]) -> None:
    written = _traced(function, 3, 12, 12)
    assert dealt_out(written) is written


def test_small_images_are_left_as_they_are() -> None:
    written = _traced(lambda x: cb.conv2d(x, np.ones((2, 3, 2, 2)), stride=2), 3, 6, 6)
    assert dealt_out(written) is written


@pytest.mark.encrypted
def test_an_encrypted_image_is_dealt_out_by_the_client() -> None:
    random = np.random.default_rng(1)
    weights, x = random.normal(size=(4, 2, 3, 3)), random.uniform(-1, 1, (2, 10, 9))

    def function(x: Any) -> Any:
        return cb.square(cb.conv2d(x, weights, stride=2, padding=1))

    done = run(toy(function, x=cb.secret(2, 10, 9), precision=1e-3), {"x": x})
    done.check()
    (view,) = done.program.inputs_of("x")
    assert len(view.steps) == 4 and view.shape == (8 * 5 * 5, 1)
