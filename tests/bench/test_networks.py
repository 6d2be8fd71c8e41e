"""Rows of whole networks: every figure beside the library's own."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.nodes import OPERATIONS
from cipherblas.networks import TrainedNetwork
from cipherblas.planner.rings import modulus_chains, sizing
from cipherblas.runtime.listing import NodeSeconds
from cipherblas_bench import harness, networks, run_networks, to_json
from cipherblas_bench.networks import NetworkInputs
from tests.support.bench_fields import check_fields
from tests.support.onnx_models import deep, fire

pytestmark = [
    pytest.mark.encrypted,
    pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning"),
]
TOY: dict[str, Any] = {"security": 0, "insecure": True, "ring_degree": 4096}


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[cb.Program]]:
    """Those that were planned."""
    found: list[cb.Program] = []
    compiled = TrainedNetwork.compile

    def kept(network: TrainedNetwork, *given: Any, **options: Any) -> cb.Program:
        found.append(compiled(network, *given, **options))
        return found[-1]

    monkeypatch.setattr(TrainedNetwork, "compile", kept)
    yield found
    found.clear()


def inputs_of(network: TrainedNetwork, count: int = 3) -> NetworkInputs:
    """Images, of which all but one have the label of the clear network; and samples."""
    random = np.random.default_rng(3)
    images, samples = (random.uniform(-1, 1, (number, *network.shape)) for number in (count, 30))
    labels = network(images).argmax(axis=1)
    labels[0] = (labels[0] + 1) % len(network(images[0]))
    return NetworkInputs(images, labels, samples)


@pytest.fixture
def shallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings with so few levels that three functions are too many for them."""
    monkeypatch.setattr(modulus_chains, "MAX_WORKING_LEVELS", 5)
    monkeypatch.setattr(sizing, "MAX_INSECURE_LIMBS", 12)


def test_figures_are_those_of_the_library(shallow: None, programs: list[cb.Program]) -> None:
    """Of a network that is refreshed, and has the name and the shape of a published one."""
    network, told = cb.networks.from_onnx(deep()), list[str]()
    inputs = inputs_of(network)
    (row,) = run_networks({"resnet-20": network}, inputs, degree=7, error=1.0, progress=told.append, **TOY)
    (program,) = programs
    plan, params = program.plan, program.plan.parameters
    assert list(json.loads(to_json(row)))[: len(harness.REQUIRED)] == list(harness.REQUIRED)
    check_fields([row])
    assert (row["bench"], row["case"], row["algorithm"], row["threads"]) == (
        *("nn --models", "resnet-20"),
        *(plan.algorithm, 1),
    )
    assert (row["params"]["n"], row["params"]["logq"]) == (params.n, round(params.log_q, 1))
    assert row["key_bytes"] == plan.key_bytes and row["stored_bytes"] == plan.counts.stored_bytes
    refreshes = [node for node in plan.nodes if node.title.startswith("refresh")]
    assert row["refreshed_ciphertexts"] == sum(node.ciphertexts for node in refreshes) > 0
    assert (row["rotations"], row["products"]) == (plan.counts.rotations, plan.counts.products)
    assert (row["upload_bytes"], row["download_bytes"]) == (plan.upload_bytes, plan.result_bytes)
    assert (row["predicted_error"], row["predicted_peak_bytes"]) == (plan.error, plan.peak_bytes)
    assert 0 < row["rms_error"] <= row["error"] <= plan.error and row["outside"] == 0
    assert (row["images"], row["samples"], row["degree"], row["asked_error"]) == (3, 30, 7, 1.0)
    assert (row["clear_accuracy"], row["runs"]) == (2 / 3, 2) and "asked_agreement" not in row
    assert row["seconds_min"] <= row["seconds"] <= row["seconds_max"]
    assert row["cpu_seconds"] > 0
    parts = [row[f"{kind}_seconds"] for kind in networks.KIND_NAMES]
    assert min(parts) > 0 and sum(parts) <= 1.5 * row["seconds_max"]
    assert (
        row["encode_seconds"] <= row["first_run_seconds"] and row["first_seconds"] <= row["first_run_seconds"]
    )
    for name in ("plan", "keygen", "encrypt", "decrypt", "encode"):
        assert row[f"{name}_seconds"] > 0
    assert row["peak_bytes"] > plan.key_bytes and row["plan_peak_bytes"] > 0
    assert row["times_published"] == row["seconds"] / row["published_seconds"]
    assert any(what.startswith("resnet-20: planning, ") for what in told)
    assert {"resnet-20: making keys, 100 %", "resnet-20: image 3 of 3, 100 %"} <= set(told)


def test_scores_are_compared(programs: list[cb.Program]) -> None:
    """With those of the clear network, by labels and by errors; without labels and with one image some are missing."""
    network = cb.networks.from_onnx(fire())
    inputs = inputs_of(network)
    wrong = TrainedNetwork(network.shape, network.steps)
    rows = run_networks({"one": network, "two": wrong}, inputs, degree=15, error=1.0, **TOY)
    for row, program in zip(rows, programs, strict=False):
        found = np.stack([program.evaluate({"x": image}) for image in inputs.images])
        exact = network(inputs.images)
        assert row["rms_error"] == pytest.approx(np.sqrt(np.mean((found - exact) ** 2)), rel=0.3)  # and noise
        assert row["agreement"] == np.mean(found.argmax(axis=1) == exact.argmax(axis=1))
        assert row["accuracy"] == np.mean(found.argmax(axis=1) == inputs.labels)
        scores, clear = (np.array(row[name]) for name in ("scores", "clear_scores"))
        assert np.abs(clear - exact).max() <= 1e-4 and scores.shape == exact.shape
        assert np.abs(scores - clear).max() == pytest.approx(row["error"], abs=2e-4)
        assert "published_seconds" not in row
    (row,) = run_networks(
        *({"resnet20": network}, NetworkInputs(inputs.images[:1], None, inputs.samples)),
        degree=15,
        error=1.0,
        **TOY,
    )
    assert row["images"] == 1 and not {"seconds", "runs", "cpu_seconds", "accuracy", "clear_accuracy"} & set(
        row
    )
    assert json.loads(to_json(row))["seconds"] is None and row["first_seconds"] > 0


def test_images_that_leave_the_ranges_are_left_out(programs: list[cb.Program]) -> None:
    """And counted; where none is left that is said."""
    network = cb.networks.from_onnx(fire())
    given = inputs_of(network)
    images, samples = given.images.copy(), given.samples
    images[1] *= 4
    options = {"degree": 15, "error": 2.0, "bound": 4.0, **TOY}
    (row,) = run_networks({"fire": network}, NetworkInputs(images, given.labels, samples), **options)
    assert (row["images"], row["outside"], row["runs"]) == (2, 1, 1)
    assert row["clear_accuracy"] == 0.5 and row["error"] <= programs[0].plan.error
    with pytest.raises(cb.RangeError, match=r"No image stays .* got 2 outside"):
        list(run_networks({"fire": network}, NetworkInputs(4 * images[:2], None, samples), **options))


def test_an_agreement_chooses_the_degree() -> None:
    network = cb.networks.from_onnx(fire())
    (row,) = run_networks({"fire": network}, inputs_of(network, 1), agreement=0.9, **TOY)
    check_fields([row])
    assert row["asked_agreement"] == 0.9 and row["degree"] in (30, 62, 126, 254) and "asked_error" not in row


def test_kinds_are_operations() -> None:
    assert set(networks.KINDS) <= set(OPERATIONS)
    nodes = [
        NodeSeconds("conv2d", "conv2d 3x8x8 to 4x8x8", "tensors", 1, 1.0),
        NodeSeconds("matmul", "W @ x 4x8", "tensors", 1, 2.0),
        NodeSeconds("polynomial", "relu of degree 7", "tensors", 1, 4.0),
        NodeSeconds("multiply", "square 4", "tensors", 2, 8.0),
        NodeSeconds("multiply", "product 4", "tensors", 1, 16.0),
        NodeSeconds("refresh", "refresh 4", "tensors", 1, 32.0),
        NodeSeconds("refresh_sine", "refresh to a sine 4", "tensors", 1, 64.0),
        NodeSeconds("operand", "x 4", "tensors", 0, 128.0),
    ]
    assert networks.seconds_by_kind(nodes) == {
        "convolution": 1.0,
        "linear": 2.0,
        "activation": 12.0,
        "refresh": 96.0,
        "other": 144.0,
    }


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *(("resnet20", "resnet20"), ("ResNet-20", "resnet20"), ("ace_resnet20_cifar10", "resnet20")),
        *(
            ("resnet_20", "resnet20"),
            ("squeezenet", "squeezenet"),
            ("vgg-11", "vgg11"),
            ("MobileNet", "mobilenet"),
        ),
        *(("resnet200", None), ("resnet2", None), ("wideresnet20", None), ("vgg1", None), ("network", None)),
        ("alexnet_or_vgg11", None),
    ],
)
def test_published_networks_are_known_by_name(name: str, known: str | None) -> None:
    network = cb.networks.from_onnx(deep())
    found = networks.published_of(name, network)
    assert found == (None if known is None else networks.PUBLISHED[known])
    assert networks.published_of(name, cb.networks.from_onnx(fire())) is None


def test_published_parts_are_less_than_the_whole() -> None:
    for one in networks.PUBLISHED.values():
        assert 0 < one.linear < one.convolution < one.total and math.isfinite(one.total)


def refused() -> dict[str, tuple[Any, type[cb.CipherblasError], str]]:
    images = np.zeros((2, 3, 8, 8))
    far = images.copy()
    far[1, 2, 3, 4] = np.nan
    labels = np.array([0, 1])
    return {
        "images of another shape": (
            NetworkInputs(np.zeros((2, 3, 8, 9))),
            cb.ShapeError,
            "no inputs of fire",
        ),
        "one image": (NetworkInputs(images[0]), cb.ShapeError, "4 dimensions"),
        "no image": (NetworkInputs(images[:0]), cb.ShapeError, "none of them 0"),
        "NaN": (NetworkInputs(far), cb.RangeError, "NaN at"),
        "samples of another shape": (
            NetworkInputs(images, None, np.zeros((2, 1, 8, 8))),
            *(cb.ShapeError, "samples are no inputs"),
        ),
        "samples with NaN": (NetworkInputs(images, None, far), cb.RangeError, "NaN at"),
        "a label too few": (NetworkInputs(images, labels[:1]), cb.ShapeError, "one label for each image"),
        "a class too many": (NetworkInputs(images, np.array([0, 4])), cb.RangeError, "0 to 3"),
        "a class below zero": (NetworkInputs(images, np.array([-1, 0])), cb.RangeError, "0 to 3"),
        "labels that are not whole": (NetworkInputs(images, np.array([0.5, 1])), cb.DTypeError, "whole"),
    }


@pytest.mark.parametrize("name", refused())
def test_what_is_not_for_the_network_is_refused_before_anything_is_planned(
    name: str, programs: list[cb.Program]
) -> None:
    inputs, kind, message = refused()[name]
    first = TrainedNetwork((3, 8, 8), cb.networks.from_onnx(fire()).steps)
    with pytest.raises(kind, match=message):
        list(run_networks({"fire": first}, inputs, error=1.0, **TOY))
    assert not programs


def test_what_is_to_be_planned_for_is_asked(programs: list[cb.Program]) -> None:
    network = cb.networks.from_onnx(fire())
    inputs = inputs_of(network, 1)
    for options, message in (({}, "got none"), ({"error": 1.0, "agreement": 0.9}, "got both")):
        with pytest.raises(cb.ParameterError, match=message):
            list(run_networks({"fire": network}, inputs, **options))
    with pytest.raises(cb.ParameterError, match="no network"):
        list(run_networks({}, inputs, error=1.0))
    assert not programs
