"""Batches of images: every image as by itself, in the clear, planned, saved, checked and encrypted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.planner.rings import modulus_chains, sizing
from tests.support.onnx_models import MODELS, Model, deep, fire, residual
from tests.support.runs import Parties

pytestmark = [
    pytest.mark.encrypted,
    pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning"),
]
TOY: dict[str, Any] = {"security": 0, "insecure": True}
SMALL: dict[str, Any] = {"ring_degree": 4096, **TOY}


@pytest.fixture
def shallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings with so few levels that three functions are too many for them."""
    monkeypatch.setattr(modulus_chains, "MAX_WORKING_LEVELS", 5)
    monkeypatch.setattr(sizing, "MAX_INSECURE_LIMBS", 12)


def images_of(network: Any, count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, *network.shape))


@pytest.mark.parametrize("name", MODELS)
def test_every_image_as_by_itself(name: str, tmp_path: Path) -> None:
    """Three at once, from files for server and client; one of zeros, and more than there are samples of batches."""
    network = cb.networks.from_onnx(MODELS[name]())
    program = network.compile(images_of(network, 20), degree=15, error=1.0, batch=3, **TOY)
    assert program.shape == (3, *network.scores) and program.operands["x"].shape == (3, *network.shape)
    program.save(tmp_path / "program")
    program.save_client(tmp_path / "client")
    loaded = cb.Program.load(tmp_path / "program", security=0, insecure=True)
    client = cb.ClientProgram.load(tmp_path / "client", security=0, insecure=True).client()
    server = loaded.server(client.evaluation_keys())
    images = images_of(network, 3, seed=2)
    images[1] = 0
    found = client.decrypt(server.run(client.encrypt({"x": images})))
    assert found.shape == (3, *network.scores)
    assert np.abs(found - network(images)).max() <= program.plan.error
    assert np.abs(found - program.evaluate({"x": images})).max() <= program.plan.error
    for wrong in (images[0], images[:2], np.concatenate([images, images])):
        with pytest.raises(cb.ShapeError):
            client.encrypt({"x": wrong})


@pytest.mark.parametrize("batch", [2, 4, 5])
def test_refreshed(shallow: None, batch: int) -> None:
    """Images that share ciphertexts, and those that are parts of complex ones: with the keys of one image."""
    network = cb.networks.from_onnx(deep())
    samples, images = images_of(network, 16), images_of(network, batch, seed=2)
    alone = network.compile(samples, degree=7, error=1.0, **SMALL).plan
    program = network.compile(samples, degree=7, error=1.0, batch=batch, **SMALL)
    plan, parties = program.plan, Parties(program)
    assert any(node.counts.modulus_raises for node in plan.nodes)
    found = parties.client.decrypt(parties.server.run(parties.inputs({"x": images})))
    assert np.abs(found - network(images)).max() <= plan.error
    assert plan.key_bytes <= 1.3 * alone.key_bytes
    refreshed = sum(node.ciphertexts for node in plan.nodes if node.counts.modulus_raises)
    assert refreshed < batch * sum(node.ciphertexts for node in alone.nodes if node.counts.modulus_raises)
    assert plan.seconds < batch * alone.seconds


@pytest.mark.parametrize(("batch", "key_budget"), [(2, None), (4, None), (4, 1 << 40)])
def test_two_images_in_one_complex_ciphertext(shallow: None, batch: int, key_budget: int | None) -> None:
    """Where each image takes ciphertexts of its own, convolutions take half of the rotations; keys of their own, by
    which ciphertexts share their a part, are taken where they are given a budget."""
    m = Model((3, 32, 32), 7)
    x = "x"
    for channels, outputs, step in ((3, 8, 2), (8, 8, 1), (8, 8, 1)):
        x = m.node("Relu", m.conv(x, channels, outputs, strides=[step, step]))
    x = m.node("Mul", x, x)
    network = cb.networks.from_onnx(m.file(m.dense(m.node("Flatten", m.node("GlobalAveragePool", x)), 8, 10)))
    samples, images = images_of(network, 8), images_of(network, batch, seed=2)
    options = {"key_budget": key_budget, "minimise": "server", **SMALL}
    program = network.compile(samples, degree=7, error=1.0, batch=batch, **options)
    assert (program.plan.decided.sharing > 0) == (key_budget is not None)
    assert any(choice.options.get("joined") for choice in program.plan.choices)
    parties = Parties(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs({"x": images})))
    assert np.abs(found - network(images)).max() <= program.plan.error


def test_more_images_than_samples() -> None:
    """Samples are repeated; their number is what it was."""
    network = cb.networks.from_onnx(fire())
    program = network.compile(images_of(network, 2), degree=15, error=1.0, bound=2.0, batch=5, **TOY)
    images = images_of(network, 5, seed=1)
    images[2:] = images[:3]
    assert np.abs(program.evaluate({"x": images}) - network(images)).max() <= program.plan.error


def test_vectors() -> None:
    """Rows of a matrix, whose products are those of matrices."""
    m = Model((8,), 1)
    network = cb.networks.from_onnx(m.file(m.dense(m.node("Relu", m.dense("x", 8, 16)), 16, 3)))
    program = network.compile(images_of(network, 20), degree=7, error=2.0, batch=5, **TOY)
    values, parties = images_of(network, 5, seed=2), Parties(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs({"x": values})))
    assert found.shape == (5, 3) and np.abs(found - network(values)).max() <= program.plan.error


def test_checked() -> None:
    """As one by one: images outside of the ranges are told apart within their batch, and a last batch is filled."""
    network = cb.networks.from_onnx(fire())
    samples, images = images_of(network, 24), images_of(network, 10, seed=2)
    labels = network(images).argmax(axis=1)
    images[4] *= 3
    found = []
    for batch in (None, 1, 4):
        program = network.compile(samples, bound=3.0, degree=15, error=1.0, batch=batch, **TOY)
        found.append(network.check(program, images, labels))
        assert (found[-1].count, found[-1].outside) == (10, 1)
        assert found[-1].clear is not None and found[-1].clear.accuracy == 1.0
    for one in found[1:]:
        assert one.approximated.agreement == found[0].approximated.agreement  # type: ignore[union-attr]
        assert one.approximated.largest == pytest.approx(found[0].approximated.largest)  # type: ignore[union-attr]
        assert 0.5 < one.noisy.rms / found[0].noisy.rms < 2  # type: ignore[union-attr]


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, "8"])
def test_what_is_no_batch(batch: Any) -> None:
    network = cb.networks.from_onnx(residual())
    with pytest.raises((cb.ShapeError, cb.DTypeError), match="batch"):
        network.compile(images_of(network, 4), degree=15, error=1.0, batch=batch, **TOY)


def test_several_numbers_are_taken_out_of_channels_alone() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (8, 3, 8, 8)).astype(np.uint8)
    network = cb.networks.from_onnx(residual(), normalise=((120.0, 115.0, 105.0), (60.0, 58.5, 62.0)))
    program = network.compile(pixels, degree=15, error=1.0, batch=2, **TOY)
    np.testing.assert_allclose(program.evaluate({"x": pixels[:2]}), network(pixels[:2]), atol=1.0)
    vector = cb.networks.from_onnx(MODELS["line"](), normalise=((1.0, 2.0, 3.0), 2.0))
    with pytest.raises(cb.MismatchError, match="no images"):
        vector.compile(images_of(vector, 8), degree=15, error=1.0, batch=2, **TOY)


def test_programs_of_ones_own() -> None:
    """Four dimensions, as PyTorch has them: layers, functions, sums and weights that are operands."""
    random = np.random.default_rng(3)
    filters, weights, more = (random.normal(0, 0.3, shape) for shape in ((4, 2, 3, 3), (10, 64), (2, 1, 1)))

    def network(x: Any, w: Any) -> Any:
        hidden = cb.square(cb.conv2d(x + more, filters, np.arange(4.0), padding=1))
        return {"scores": cb.flatten(cb.avg_pool2d(hidden, 2)) @ weights.T, "other": cb.flatten(x) @ w}

    operands = {"x": cb.secret(3, 2, 8, 8), "w": cb.public(128, 2)}
    program = cb.compile(network, operands, precision=1e-3, **TOY)
    values = {"x": random.uniform(-1, 1, (3, 2, 8, 8)), "w": random.uniform(-1, 1, (128, 2))}
    parties = Parties(program)
    found = parties.client.decrypt(
        parties.server.run({**parties.inputs({"x": values["x"]}), "w": values["w"]})
    )
    exact = program.evaluate(values)
    assert found["scores"].shape == (3, 10) and found["other"].shape == (3, 2)
    one = [
        {
            "scores": np.tensordot(weights, _hidden(image + more, filters), 1),
            "other": image.ravel() @ values["w"],
        }
        for image in values["x"]
    ]
    for name in found:
        np.testing.assert_allclose(exact[name], np.stack([image[name] for image in one]), atol=1e-9)
        np.testing.assert_allclose(
            found[name], exact[name], atol=max(map(float, np.atleast_1d(program.plan.error)))
        )


def _hidden(image: np.ndarray, filters: np.ndarray) -> np.ndarray:
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    found = np.einsum("ocij,chwij->ohw", filters, windows) + np.arange(4.0)[:, None, None]
    return np.asarray((found**2).reshape(4, 4, 2, 4, 2).mean(axis=(2, 4)).ravel())
