"""Convolutions of multiplexed images against NumPy: every slot of every ciphertext, through strides and groups."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from cipherblas.common.errors import FitError
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.forms.tensors import TensorLayout, contiguous, grid
from cipherblas.lang.layers import _windows
from cipherblas.lang.windows import Window
from cipherblas.methods.matvec_conv import multiplexed
from cipherblas.methods.matvec_conv.base import Weights
from cipherblas.methods.matvec_conv.multiplexed import ConvMultiplexed, multiplexed_output, rotations_by_unit
from cipherblas.rlwe.rings import RingShape


class Layer(NamedTuple):
    """A convolution of a network."""

    outputs: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    groups: int = 1
    unit: int = 32


NETWORKS = {
    "two strides": (
        2048,
        (3, 16, 16),
        [Layer(8), Layer(16, stride=2), Layer(16), Layer(32, stride=2), Layer(5)],
    ),
    "shortcuts and depthwise": (
        *(2048, (8, 16, 16)),
        [Layer(8, groups=8), Layer(32, 1, 2, 0), Layer(32, groups=32), Layer(7, 4, 4, 0)],
    ),
    "several ciphertexts": (1024, (5, 16, 16), [Layer(8, unit=16), Layer(6, padding=0), Layer(9, stride=2)]),
    "units that are not full": (512, (3, 16, 16), [Layer(4, 5, padding=2), Layer(16, stride=2), Layer(33)]),
    "segments": (
        *(512, (3, 32, 32)),
        [
            *(Layer(8, 7, 2, 3), Layer(8), Layer(20, stride=2), Layer(20, 5, padding=2, groups=4)),
            *(Layer(9, 1, 2, 0), Layer(9, groups=9), Layer(9, 4, 4, 0, groups=9)),
        ],
    ),
    "segments without a stride": (256, (2, 20, 16), [Layer(3), Layer(4, stride=4), Layer(6)]),
}


def convolved(x: NDArray[np.float64], weights: NDArray[np.float64], window: Window) -> NDArray[np.float64]:
    parts = zip(np.split(weights, window.groups), np.split(_windows(x, window), window.groups), strict=True)
    return np.concatenate([np.tensordot(w, v, axes=([1, 2, 3], [0, 3, 4])) for w, v in parts])


def dense(shape: tuple[int, int, int], slots: int) -> TensorLayout:
    channels, height, width = shape
    if height * width > slots:
        return contiguous(shape, slots, rows=4)
    options = {"channels": min(channels, slots // (height * width)), "pitch": height * width, "row": width}
    return grid(shape, slots, options)


def weights_of(values: NDArray[np.float64], name: str) -> Weights:
    sums = np.abs(values).sum((1, 2, 3)).max(), np.sqrt((values**2).sum((1, 2, 3)).max())
    return Weights(name, lambda: values, 1.0, float(sums[0]), float(sums[1]))


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, paired: bool, folded: bool) -> None:
    slots, shape, layers = NETWORKS[name]
    rng = np.random.default_rng(1)
    x, layout, ev = (
        rng.uniform(-1, 1, shape),
        dense(shape, slots),
        Clear(RingShape.for_depth(slots, len(layers) + 1)),
    )
    folds = 0
    cts = [ev.fresh(layout.vector(place, x.ravel()) + 0j, bound=1.0) for place in range(layout.ciphertexts)]
    for number, layer in enumerate(layers):
        sizes = (layer.kernel,) * 2, (layer.stride,) * 2, (layer.padding,) * 2
        window = Window(layout.shape, layer.outputs, *sizes, layer.groups)
        weights = rng.uniform(-1, 1, window.weight_shape)
        several = folded and bool(rotations_by_unit(layout, window, paired, folded=True))
        folds += several
        method = ConvMultiplexed(layout, window, layer.unit, paired, folded=several)
        cts = [ev.rescaled(ct) for ct in method.run(ev, cts, weights_of(weights, f"layer {number}"))]
        x, layout = convolved(x, weights, window), method.out
        assert layout.zero_padded and len(cts) == layout.ciphertexts
        for place, ct in enumerate(cts):
            np.testing.assert_allclose(ct.data, layout.vector(place, x.ravel()), atol=1e-9 * np.abs(x).max())
    if name in ("two strides", "shortcuts and depthwise"):  # there are copies of results
        assert bool(folds) == folded


BATCHES = {
    "one each, two, four together": (
        4,
        1024,
        [Layer(4), Layer(8, stride=2), Layer(16, stride=2), Layer(3, 4, 1, 0)],
    ),
    "three": (3, 1024, [Layer(4), Layer(6, stride=2), Layer(16, stride=2), Layer(5, 1, 1, 0)]),
    "five in groups": (5, 1024, [Layer(3, groups=3), Layer(12, stride=2, groups=3), Layer(12, groups=12)]),
    "several ciphertexts each": (2, 512, [Layer(5), Layer(9, stride=2), Layer(4)]),
    "room for more": (2, 8192, [Layer(4), Layer(4, stride=2)]),
}


@pytest.mark.parametrize("kind", ["", "paired", "joined", "folded"])
@pytest.mark.parametrize("name", BATCHES)
def test_batches(name: str, kind: str) -> None:
    """Several images by the filters of one: every slot, and as many encoded weights as those that differ."""
    images, slots, layers = BATCHES[name]
    rng, shape = np.random.default_rng(2), (3, 16, 16)
    x, layout = rng.uniform(-1, 1, (images, *shape)), grid_of_images(images, shape, slots)
    ev, joined = Clear(RingShape.for_depth(slots, len(layers) + 1)), 0
    cts = [ev.fresh(layout.vector(place, x.ravel()) + 0j, bound=1.0) for place in range(layout.ciphertexts)]
    for number, layer in enumerate(layers):
        sizes = (layer.kernel,) * 2, (layer.stride,) * 2, (layer.padding,) * 2
        window = Window.of_images(x.shape, layer.outputs, *sizes, layer.groups)
        weights = rng.uniform(-1, 1, window.weight_shape)
        try:
            method = ConvMultiplexed(layout, window, layer.unit, **({kind: True} if kind else {}))
            joined += kind == "joined"
        except FitError:  # of few images no half lies in ciphertexts of its own
            assert kind in ("joined", "folded")
            method = ConvMultiplexed(layout, window, layer.unit)
        cts = [ev.rescaled(ct) for ct in method.run(ev, cts, weights_of(weights, f"layer {number}"))]
        one = replace(window, shape=x.shape[1:], outputs=layer.outputs, groups=layer.groups, images=1)
        x, layout = np.stack([convolved(image, weights, one) for image in x]), method.out
        assert layout.zero_padded and len(cts) == layout.ciphertexts
        for place, ct in enumerate(cts):
            np.testing.assert_allclose(ct.data, layout.vector(place, x.ravel()), atol=1e-9 * np.abs(x).max())
    halves = "one each, two, four together", "several ciphertexts each"
    assert bool(joined) == (kind == "joined" and name in halves)


def grid_of_images(images: int, shape: tuple[int, int, int], slots: int) -> TensorLayout:
    channels, height, width = shape
    options = {"channels": min(channels, slots // (height * width)), "pitch": height * width, "row": width}
    return grid((images * channels, height, width), slots, options)


def test_stages_of_a_batch_share_ciphertexts_and_weights() -> None:
    """Eight images of a residual network: eight, four, two ciphertexts, and the weights of one of them."""
    x = grid_of_images(8, (16, 32, 32), 1 << 14)
    windows, x = [], [x]
    for outputs, step in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        channels, size, _ = x[-1].shape
        window = Window.of_images((8, channels // 8, size, size), outputs, (3, 3), (step, step), (1, 1), 1)
        windows.append(window)
        x.append(multiplexed_output(x[-1], window))
    assert [one.ciphertexts for one in x[1:]] == [8, 4, 4, 2, 2]
    for layout, window in zip(x, windows, strict=False):
        method = ConvMultiplexed(layout, window, 64)
        assert set(method._alike) == {0}
        ev = Symbolic(RingShape.for_depth(1 << 14, 2))
        cts = [ev.fresh(None, bound=1.0) for _ in range(layout.ciphertexts)]
        method.run(ev, cts, weights_of(np.ones(window.weight_shape), "ones"))
        each = ev.counts.plain_products // method.out.ciphertexts * cts[0].limbs * 8 << 15
        assert ev.counts.stored_bytes == each
        alone = rotations_by_unit(layout, window)[64][2]
        assert rotations_by_unit(layout, window, joined=True)[64][2] == alone // 2


@pytest.mark.parametrize(("paired", "folded"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("unit", [1, 16, 64, 128])
@pytest.mark.parametrize("slots", [2048, 128], ids=["whole", "segments"])
@pytest.mark.parametrize("marked", [multiplexed.MARKED, 0], ids=["marked", "sorted"])
def test_rotations_and_plaintexts_are_what_is_counted(
    unit: int, paired: bool, folded: bool, slots: int, marked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiplexed, "MARKED", marked)
    rotations_by_unit.cache_clear()
    multiplexed._distances.cache_clear()
    x = multiplexed_output(dense((8, 16, 16), slots), Window((8, 16, 16), 16, (3, 3), (2, 2), (1, 1)))
    folded = folded and slots == 2048  # several copies of the result
    window = Window(x.shape, 16, (3, 3), (2, 2) if folded else (1, 1), (1, 1))
    method = ConvMultiplexed(x, window, unit, paired, folded=folded)
    ev = Symbolic(RingShape.for_depth(slots, 2))
    babies, giants, plaintexts = rotations_by_unit(x, window, paired, folded=folded)[unit]
    cts = [ev.fresh(None, bound=1.0) for _ in range(x.ciphertexts)]
    method.run(ev, cts, weights_of(np.ones(window.weight_shape), "ones"))
    assert ev.counts.rotations == babies + giants
    assert ev.counts.plain_products == plaintexts == method.plaintexts


def test_stages_of_a_residual_network_lie_in_one_ciphertext_each() -> None:
    """Strides leave rooms that channels fill: the layouts that the plan of such networks is made for."""
    slots, x = 1 << 14, contiguous((16, 32, 32), 1 << 14)
    second = multiplexed_output(x, Window((16, 32, 32), 32, (3, 3), (2, 2), (1, 1)))
    third = multiplexed_output(second, Window((32, 16, 16), 64, (3, 3), (2, 2), (1, 1)))
    assert [(one.ciphertexts, one.copies, one.col) for one in (second, third)] == [(1, 2, 2), (1, 4, 4)]
    assert [one.layout.active_slots for one in (second, third)] == [(slots // 2, True), (slots // 4, True)]


def test_a_mean_of_an_image_in_segments_lies_in_the_first_ones() -> None:
    """Channels keep their places: no two of them are as far from their means."""
    x = multiplexed_output(dense((4, 16, 16), 128), Window((4, 16, 16), 8, (3, 3), (2, 2), (1, 1)))
    mean = multiplexed_output(x, Window((8, 8, 8), 8, (8, 8), (8, 8), groups=8))
    assert (x.ciphertexts, x.segments, mean.ciphertexts, mean.segments) == (4, 2, 2, 1)
    assert [mean.channel_place(c)[1] for c in range(8)] == [x.channel_place(c)[1] for c in range(8)]


@pytest.mark.parametrize(
    "window",
    [Window((4, 16, 16), 4, (3, 3), (2, 1), (1, 1)), Window((4, 16, 16), 4, (3, 3), (1, 1), (2, 2))],
    ids=["two strides", "results that are wider"],
)
def test_refused(window: Window) -> None:
    with pytest.raises(FitError):
        ConvMultiplexed(dense((4, 16, 16), 1024), window, 16)
    with pytest.raises(FitError):
        rotations_by_unit(dense((4, 16, 16), 1024), window)


def test_a_stride_divides_the_rows_of_a_segment() -> None:
    x = contiguous((2, 12, 12), 72, rows=6)
    assert multiplexed_output(x, Window((2, 12, 12), 2, (3, 3), (3, 3))).ciphertexts == 2
    with pytest.raises(FitError, match="divide the rows"):
        multiplexed_output(x, Window((2, 12, 12), 2, (4, 4), (4, 4)))
