"""What a layout leaves open is read by nothing: every operation on what every product leaves, in the clear, where
imaginary parts and slots without entries hold random numbers as large as entries."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.shared import SharedClear
from cipherblas.forms.layouts import EMPTY, Layout, column_major, with_garbage, with_imaginary_garbage
from cipherblas.lang.analysis import evaluate_results, trace
from cipherblas.lang.graph import Axes, deduplicated
from cipherblas.lang.nodes import ordered
from cipherblas.methods.products import ALGORITHMS, build
from cipherblas.planner.predict.dry_run import dry_run
from cipherblas.planner.rings.modulus_chains import chain
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.blocks import LAYOUT_PRESERVING
from cipherblas.runtime.executor import Executor
from cipherblas.runtime.slots import SlotRun
from cipherblas.runtime.values import Decisions, MethodChoice, Value
from tests.support.clear_runs import ClearInputs, Rotations, evaluators_of, network_in_clear

N, BLOCK = 256, 3
EXACT, REFRESHED = 1e-9, 2.0**-9  # of the bound: with ModRaise first all coefficients are off
SHAPES = {"one": (3, 3), "two": (3, 6), "three": (9, 3), "nine": (9, 9)}  # of a product, in blocks of 3


@functools.cache
def ring(raised_first: bool = False) -> RingShape:
    """One whose programs can refresh, with enough levels for what is computed between."""
    sizing = chain(N, 9, 3, raised_first=raised_first)
    special = [50.0] * sizing.alpha
    return RingShape.from_bits(N, list(sizing.q_bits), special, sizing.alpha, sizing.scale_bits)


def deep_ring() -> RingShape:
    """One without refreshes, and with levels for composed polynomials."""
    return RingShape.from_bits(N, [50.0] + [40.0] * 60, [50.0] * 12, 12, 40.0)


def producers() -> Iterator[tuple[str, dict[str, Any]]]:
    """Of every algorithm that leaves garbage one for each kind of it, and one that leaves none."""
    found = set()
    for name in sorted(ALGORITHMS):
        for options in ALGORITHMS[name].candidates(BLOCK, BLOCK, BLOCK, N // 2):
            out = build(name, BLOCK, BLOCK, BLOCK, N // 2, options).out_layout
            kind = name, out.imaginary_garbage, out.empty_garbage
            if kind not in found and (out.open or name == "diagonals"):
                found.add(kind)
                yield name, options


def results(p: Any, x: Any, right: Any, left: Any) -> dict[str, Any]:
    """Every operation on a product p, and on one that was refreshed; x has its shape."""
    again = cb.refresh(p)
    found = {
        "itself": p,
        "scaled": -2.5 * p,
        "and an operand": p + x,
        "and a number": p + 1.5,
        "twice": p + p * x,
        "squared": p * p,
        "times an operand": x * p,
        "times numbers": p * np.full(p.shape, 0.5),
        "polynomial": cb.polynomial(p, [0.5, 0.25, 0.125]),
        "left factor": p @ right,
        "right factor": left @ p,
        "transposed": (p @ right).T + right.T @ p.T,
        "assumed": cb.assume(p, 2.0) * x,
        "polynomial of what was assumed": cb.polynomial(cb.assume(p, 1.2), [0.5, 0.25, 0.125, 0, 0, 0.25]),
        "arranged": p.reshape(p.size, 1),
        "turned round": p[::-1, ::-1] * x,
    }
    return (
        found
        | refreshes(p, x)
        | {
            "refreshed, more than itself": again + p,
            "refreshed, squared": again * again,
            "refreshed, left factor": again @ right,
            "refreshed, polynomial": cb.polynomial(again, [0.5, 0.25, 0.125]),
            "refreshed twice": cb.refresh(again * x),
        }
    )


def refreshes(p: Any, x: Any, **_: Any) -> dict[str, Any]:
    """Refreshes of a product p alone."""
    return {
        "refreshed": cb.refresh(p),
        "in two rounds": cb.refresh(p, rounds=2),
        "sum, refreshed": cb.refresh(p + x),
        "bounded, refreshed": cb.refresh(cb.assume(p, 2.0)),
    }


def check(
    ring: RingShape,
    function: Any,
    shape: tuple[int, int],
    method: str,
    options: Mapping[str, Any],
    in_place: bool = False,
    **decided: Any,
) -> None:
    """Every result of a function of a product of that shape is right in the clear, with the keys that were declared."""
    m, n = shape
    shapes = {"a": (m, BLOCK), "b": (BLOCK, n), "x": shape, "right": (n, BLOCK), "left": (BLOCK, m)}
    labels: list[str] = []

    def program(**given: Any) -> dict[str, Any]:
        found = function(given.pop("a") @ given.pop("b"), **given)
        labels.extend(found)
        return {f"result_{number}": node for number, node in enumerate(found.values())}

    operands = {name: cb.secret(*size) for name, size in shapes.items()}
    expression = deduplicated(trace(program, operands))
    choices = {}
    for number, node in enumerate(one for one in ordered(expression) if not one.root):
        if node.product:
            choices[number] = MethodChoice(method, options)
        elif in_place and node.op == "multiply" and not all(part.packable for part in node.children):
            choices[number] = MethodChoice(LAYOUT_PRESERVING)
    blocks = {
        axis: max(BLOCK, length * (max(shape) == BLOCK)) for axis, length in Axes(expression).lengths.items()
    }
    decisions = Decisions("blocks", choices, blocks, **decided)
    counted = dry_run(ring, expression, decisions)
    clear = Clear(ring, available=counted.keys)
    rng = np.random.default_rng(3)
    values = {name: rng.uniform(-0.6, 0.6, size) for name, size in shapes.items()}
    evaluators = evaluators_of(clear, shared=lambda secrets: SharedClear(ring, secrets))
    found = Executor(evaluators, expression, decisions, ClearInputs(values)).results()
    assert "sharing" in decided or clear.counts == counted.counts
    for label, value, wanted in zip(labels, found, evaluate_results(expression, values), strict=True):
        vectors = [ct.data for ct in value.handles]
        for ct in value.handles:
            assert np.abs(ct.data).max() <= ct.bound * (1 + REFRESHED), (label, shape, method)
        allowed = (REFRESHED if "refreshed" in label or "rounds" in label else EXACT) * value.first().bound
        off = np.abs(value.slots.joined(vectors, value.shape) - wanted / value.unit).max()
        assert off <= allowed, (label, shape, method, off)


@pytest.mark.parametrize(("method", "options"), list(producers()))
def test_every_operation_on_every_product(method: str, options: Mapping[str, Any]) -> None:
    for name, shape in SHAPES.items():
        check(ring(), results if name != "nine" else refreshes, shape, method, options)


@pytest.mark.parametrize("method", ["bicyclic", "diagonals"])
def test_products_that_are_refreshed_with_modraise_first(method: str) -> None:
    for shape in (SHAPES["one"], SHAPES["three"]):
        check(ring(True), refreshes, shape, method, {})


def test_refreshed_products_that_share_their_a_part() -> None:
    """Slots are full, since those without an entry hold garbage."""
    check(ring(), refreshes, (9, 9), "bicyclic", {}, sharing=3)


def test_products_of_products_where_they_lie() -> None:
    def squares(p: Any, x: Any, **_: Any) -> dict[str, Any]:
        return {"squared": p * p, "times an operand": p * x, "squared, refreshed": cb.refresh(p * p) * p}

    for method in ("bicyclic", "outer-product", "skewed"):
        check(ring(), squares, (9, 3), method, {}, in_place=True)


FILTERS = np.random.default_rng(1).uniform(-1, 1, (3, 2, 3, 3))
LAYERS: dict[str, Any] = {
    "convolution": lambda x: cb.conv2d(x, FILTERS, padding=1),
    "strides": lambda x: cb.conv2d(x, FILTERS, padding=1, stride=2),
    "sums of neighbours": lambda x: cb.avg_pool2d(x, 2),
    "square of an operand": lambda x: x * x,
}
AFTER: dict[str, Any] = {
    "itself": lambda x: x,
    "squared": lambda x: x * x,
    "twice": lambda x: x + x * x,
    "and a number": lambda x: x + 1.0,
    "assumed": lambda x: cb.square(cb.assume(x, x.bound / 2)),
    "polynomial": lambda x: cb.polynomial(x, [0.5, 0.25, 0, 0.125]),
    "refreshed": cb.refresh,
    "in two rounds": lambda x: cb.refresh(x, rounds=2),
    "refreshed and assumed": lambda x: cb.square(cb.refresh(cb.assume(x, x.bound / 2))),
    "refreshed, polynomial": lambda x: cb.polynomial(cb.refresh(x), [0.5, 0.25, 0, 0.125]),
    "refreshed, neighbours": lambda x: cb.avg_pool2d(cb.refresh(x), 2),
}


@pytest.mark.parametrize("size", [6, 16])  # of one ciphertext, and of several
@pytest.mark.parametrize("layer", LAYERS)
def test_every_operation_on_every_layer(layer: str, size: int) -> None:
    x = np.random.default_rng(2).uniform(-0.3, 0.3, (2, size, size))
    for name, after in AFTER.items():
        expression = deduplicated(
            trace(lambda x, after=after: after(LAYERS[layer](x)), {"x": cb.secret(*x.shape)})
        )
        allowed = REFRESHED if "refresh" in name or "rounds" in name else EXACT
        found = network_in_clear(ring(), expression, {"x": x}, Rotations(), "direct", allowed)
        (wanted,) = evaluate_results(expression, {"x": x})
        assert np.abs(found.result - wanted).max() <= allowed * expression.bound, (layer, name)


def signs(x: Any) -> Any:
    return cb.sign(x, margin=0.02, precision=0.01)


STEEP: dict[str, Any] = {
    "relu by signs": lambda x: cb.relu(x, precision=1e-4),
    "signs": signs,
    "signs times another": lambda x: signs(x) * (x + 0.25 * x),
    "signs and a sum": lambda x: 0.5 * (signs(x) + x),
    "signs of two": lambda x: signs(x) * signs(0.5 * x + 0.25),
    "signs of signs": lambda x: signs(0.5 * signs(x)),
    "tanh": lambda x: cb.tanh(30 * x, precision=0.2),
}


@pytest.mark.parametrize("steep", STEEP)
def test_errors_of_zeros_are_not_magnified(steep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is off in slots without an entry stays as small as it is, wherever entries are computed from it."""
    off, found, laid, rng = 2.0**-34, [], SlotRun.laid, np.random.default_rng(4)

    def with_errors(run: SlotRun, *arguments: Any) -> Value:
        value = laid(run, *arguments)
        for number, ct in enumerate(value.handles):
            if ct.data is not None and value.tensor.zero_padded:
                empty = value.layout.index(number).real == EMPTY
                ct.data = ct.data + off * rng.choice((-1, 1), empty.shape) * empty
                found.append(empty.any())
        return value

    monkeypatch.setattr(SlotRun, "laid", with_errors)
    weights = [rng.choice((-1, 1), (8, 8)) * rng.uniform(0.2, 0.6, (8, 8)) for _ in range(2)]
    x = rng.uniform(-1, 1, (8, 5))

    def network(x: Any) -> Any:
        y = STEEP[steep](cb.assume(weights[0] @ x, 4.0) / 4.0)
        return weights[1] @ cb.assume(y, 1.0)

    expression = deduplicated(trace(network, {"x": cb.secret(*x.shape)}))
    run = network_in_clear(deep_ring(), expression, {"x": x}, Rotations(), "direct", 1.0)
    assert any(found)
    (wanted,) = evaluate_results(expression, {"x": x})
    assert np.abs(run.result - wanted).max() <= 30 * off


def test_what_is_left_open_holds_numbers_as_large_as_the_bound() -> None:
    ev = Clear(ring())

    def opened(layout: Layout) -> Any:
        ct = ev.encrypt(layout.pack(np.full((2, 3), 0.5))[0], bound=1.0)
        return ev.left_open(ct, lambda: layout.open_parts(0)).data

    plain = column_major(2, 3, ev.slots)
    empty = plain.index(0).real == EMPTY
    imaginary = with_imaginary_garbage(plain, "imaginary")
    np.testing.assert_array_equal(opened(plain), plain.pack(np.full((2, 3), 0.5))[0])
    for layout in (with_garbage(plain), imaginary, with_garbage(imaginary)):
        found = opened(layout)
        np.testing.assert_array_equal(found.real[~empty], 0.5)
        assert np.abs(found).max() <= 1
        if layout.empty_garbage:
            assert np.abs(found[empty]).min() >= 0.5
        else:
            assert not found.real[empty].any()
        if layout.imaginary_garbage:
            assert np.abs(found.imag[~empty]).min() >= 0.25
        else:
            assert not found.imag.any()
