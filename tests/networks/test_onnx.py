"""Networks from files of ONNX against onnxruntime, in the clear and encrypted."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_clear, trace
from cipherblas.lang.nodes import ordered
from cipherblas.lang.operations import Leaf
from cipherblas.lang.polynomials import Polynomial
from cipherblas.lang.samples import Samples
from cipherblas.networks.functions import FUNCTIONS
from cipherblas.networks.instead import KNOWN
from cipherblas.networks.layers import Activation, Convolution
from cipherblas.networks.reader import OPERATORS
from cipherblas.planner.plan.by_samples import BySamples
from tests.support.onnx_models import MODELS, Model, depthwise, fire, loaded, residual, shapes
from tests.support.random_onnx import random_network
from tests.support.runs import Parties

TOY = {"security": 0, "insecure": True, "ring_degree": 4096}


def by_runtime(content: bytes, values: np.ndarray, result: str | None = None) -> np.ndarray:
    """The result that onnxruntime computes, or that of another node."""
    model = loaded(content)
    if result is not None:
        model.graph.output[0].name = result
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": values.astype(np.float32)})
    return np.asarray(found)


def before_softmax(content: bytes) -> str | None:
    """The name of what a softmax at the end reads."""
    last = loaded(content).graph.node[-1]
    return str(last.input[0]) if last.op_type == "Softmax" else None


@pytest.mark.parametrize("name", MODELS)
def test_in_the_clear(name: str) -> None:
    content = MODELS[name]()
    network = cb.networks.from_onnx(content)
    values = np.random.default_rng(0).uniform(-1, 1, (5, *network.shape))
    wanted = by_runtime(content, values, before_softmax(content))
    np.testing.assert_allclose(network(values), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(network(values[2]), wanted[2], rtol=1e-5, atol=1e-5)
    assert network.scores == wanted.shape[1:]


def test_what_is_folded() -> None:
    """Batch norms into convolutions, a slice and zeros into one, both branches of a join into one convolution."""
    network = cb.networks.from_onnx(residual())
    layers = [str(step.layer) for step in network.steps]
    assert sum(layer.startswith("conv") for layer in layers) == 4 and "conv 4 to 8, 1x1, stride 2x2" in layers
    network = cb.networks.from_onnx(fire())
    wide = [step.layer for step in network.steps if isinstance(step.layer, Convolution)][1:]
    assert [layer.weights.shape for layer in wide] == [(8, 4, 3, 3)]
    assert network.activations == 2 and network.left_out == ("Softmax",)
    assert str(network).endswith("left to the client: Softmax")


@pytest.mark.parametrize("signs", [("Add", "Add"), ("Sub", "Add"), ("Add", "Sub")])
def test_convolutions_of_one_value_that_are_added_are_one(signs: tuple[str, str]) -> None:
    """Of several sizes and pads, with strides and groups; but not where the filters would grow, and not one that is
    read besides."""
    random = np.random.default_rng(2)

    def layers(*own: dict[str, Any], again: bool = False) -> list[str]:
        m = Model((4, 7, 8), 1)
        found = [m.conv("x", 4, 4, **one) for one in own]
        total = m.node(signs[1], m.node(signs[0], found[0], found[1]), found[2])
        content = m.file(m.node("Mul", total, m.node("Relu", found[0])) if again else total)
        network, values = cb.networks.from_onnx(content), random.uniform(-1, 1, (3, 4, 7, 8))
        np.testing.assert_allclose(network(values), by_runtime(content, values), atol=1e-5)
        return [type(step.layer).__name__ for step in network.steps]

    three, one, five = {"kernel": 3}, {"kernel": 1}, {"kernel": 5}
    assert layers(three, one, five) == layers(one, one, three) == ["Convolution"]
    assert layers({"kernel": 2, "pads": [1, 0, 0, 1]}, one, three) == ["Convolution"]
    assert layers(*({**size, "strides": [2, 1]} for size in (three, one, five))) == ["Convolution"]
    assert layers(*({**size, "groups": 2} for size in (one, three, one))) == ["Convolution"]
    two = ["Convolution", "Convolution", "SignedSum"]
    assert layers(one, one, {**three, "groups": 2}) == two
    assert layers(three, five, {**three, "groups": 4}) == two
    assert layers(three, one, five, again=True).count("Convolution") == 3


def test_filters_that_would_grow_stay_apart() -> None:
    """One of 3x1 and one of 1x3, whose sum would be one of 3x3."""
    m = Model((2, 6, 6))
    shapes = {(3, 1): [1, 0, 1, 0], (1, 3): [0, 1, 0, 1]}
    found = [
        m.node("Conv", "x", m.constant(m.normal(2, 2, *size)), pads=pads) for size, pads in shapes.items()
    ]
    content = m.file(m.node("Add", *found))
    network, values = cb.networks.from_onnx(content), np.random.default_rng(0).uniform(-1, 1, (2, 2, 6, 6))
    np.testing.assert_allclose(network(values), by_runtime(content, values), atol=1e-5)
    assert len(network.steps) == 3


@pytest.mark.parametrize("several", [False, True])
def test_what_is_done_to_every_channel_is_done_once_to_a_join(several: bool) -> None:
    """Means and functions, one behind the other, whether one or two nodes read the join; of other windows they stay."""
    m = Model((3, 8, 8))
    windows = {"kernel_shape": [2, 2], "strides": [2, 2]}
    branches = [
        m.node("AveragePool", m.node("Relu", m.conv("x", 3, count, kernel)), **windows)
        for count, kernel in ((2, 1), (3, 3), (1, 3))
    ]
    joined = m.node("Concat", *branches, axis=1)
    content = m.file(m.node("Mul", joined, m.node("Sigmoid", joined)) if several else joined)
    network, values = cb.networks.from_onnx(content), np.random.default_rng(0).uniform(-1, 1, (2, 3, 8, 8))
    np.testing.assert_allclose(network(values), by_runtime(content, values), atol=1e-5)
    names = [type(step.layer).__name__ for step in network.steps]
    assert names[:3] == ["Convolution", "Activation", "Pooling"] and len(names) == (4 if several else 3)
    m = Model((3, 8, 8))
    pools = [{"kernel_shape": [size, size], "strides": [4, 4]} for size in (4, 3)]
    found = [m.node("AveragePool", m.conv("x", 3, 2), **pool) for pool in pools]
    content = m.file(m.node("Concat", *found, axis=1))
    network = cb.networks.from_onnx(content)
    np.testing.assert_allclose(network(values), by_runtime(content, values), atol=1e-5)
    assert sum(type(step.layer).__name__ == "Pooling" for step in network.steps) == 2


def test_a_network_is_printed_in_words() -> None:
    layers = [str(step.layer) for step in cb.networks.from_onnx(shapes()).steps]
    assert "times 1, plus numbers" in layers and layers[-1] == "times -1"
    assert "sum" in [str(step.layer) for step in cb.networks.from_onnx(residual()).steps]


def test_values_that_others_read_are_not_folded() -> None:
    """A batch norm of a convolution that is added as well, and a convolution whose value is joined twice."""
    m = Model((2, 4, 4))
    x = m.conv("x", 2, 2)
    both = m.node("Add", m.norm(x, 2), x)
    content = m.file(m.node("Concat", both, x, m.node("Relu", x), x, axis=1))
    values = np.random.default_rng(0).uniform(-1, 1, (3, 2, 4, 4))
    np.testing.assert_allclose(cb.networks.from_onnx(content)(values), by_runtime(content, values), atol=1e-5)


def test_values_that_are_read_under_two_names() -> None:
    """A batch norm of one name of a convolution, and a function of the other; a convolution behind a function that is
    joined, which is added later."""
    m = Model((2, 4, 4))
    x = m.conv("x", 2, 2)
    content = m.file(m.node("Add", m.norm(m.node("Identity", x), 2), m.node("Relu", x)))
    values = np.random.default_rng(0).uniform(-1, 1, (3, 2, 4, 4))
    np.testing.assert_allclose(cb.networks.from_onnx(content)(values), by_runtime(content, values), atol=1e-5)
    m = Model((2, 4, 4))
    x, y = m.conv("x", 2, 2), m.conv("x", 2, 2)
    both = m.node("Concat", m.node("Relu", x), m.node("Relu", y), axis=1)
    content = m.file(m.node("Concat", both, x, axis=1))
    np.testing.assert_allclose(cb.networks.from_onnx(content)(values), by_runtime(content, values), atol=1e-5)


@pytest.mark.encrypted
@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
@pytest.mark.parametrize("name", MODELS)
def test_encrypted(name: str, tmp_path: Path) -> None:
    """By samples, saved and loaded: as the clear network, within the promise."""
    (tmp_path / "network.onnx").write_bytes(MODELS[name]())
    network = cb.networks.from_onnx(tmp_path / "network.onnx")
    random = np.random.default_rng(1)
    samples = random.uniform(-1, 1, (20, *network.shape))
    network.compile(samples, degree=15, error=1.0, **TOY).save(tmp_path / "program")
    program = cb.Program.load(tmp_path / "program", security=0, insecure=True)
    parties = Parties(program)
    for values in (random.uniform(-1, 1, network.shape), np.zeros(network.shape)):
        found = parties.client.decrypt(parties.server.run(parties.inputs({"x": values})))
        assert found.shape == network.scores
        assert np.abs(found - network(values)).max() <= program.plan.error


MEAN, DEVIATION = (120.0, 115.0, 105.0), (60.0, 58.5, 62.0)


def taken_out(pixels: np.ndarray) -> np.ndarray:
    """As a network wants pixels."""
    mean, deviation = (np.reshape(one, (3, 1, 1)) for one in (MEAN, DEVIATION))
    return np.asarray((pixels - mean) / deviation)


@pytest.mark.encrypted
@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_pixels_as_they_are(tmp_path: Path) -> None:
    """In the clear, planned, checked and encrypted, from both files; at the border zeros stand for the mean."""
    content = residual()
    network, plain = (
        cb.networks.from_onnx(content, normalise=(MEAN, DEVIATION)),
        cb.networks.from_onnx(content),
    )
    pixels = np.random.default_rng(1).integers(0, 256, (20, 3, 8, 8)).astype(np.uint8)
    np.testing.assert_allclose(network(pixels), by_runtime(content, taken_out(pixels)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(network(pixels[0]), plain(taken_out(pixels[0])), rtol=1e-12)
    assert str(network).splitlines()[0].split()[1:3] == ["mean", "(120,"]
    program = network.compile(pixels, degree=15, error=1.0, **TOY)
    operand = program.operands["x"]
    assert operand.bound == pytest.approx(1.5 * np.abs(taken_out(pixels)).max())
    assert f"secret, {network.normalise}" in program.explain()
    program.save(tmp_path / "program")
    program.save_client(tmp_path / "client")
    loaded = cb.Program.load(tmp_path / "program", security=0, insecure=True)
    client = cb.ClientProgram.load(tmp_path / "client", security=0, insecure=True).client()
    assert loaded.operands == client.program.operands == program.operands and loaded.id == program.id
    server = loaded.server(client.evaluation_keys())
    for image in (pixels[0], np.zeros((3, 8, 8), np.uint8), np.full((3, 8, 8), 255.0)):
        found = client.decrypt(server.run(client.encrypt({"x": image})))
        assert np.abs(found - network(image)).max() <= program.plan.error
        assert np.abs(found - loaded.evaluate({"x": image})).max() <= program.plan.error
    assert all(one.inside for one in loaded.check({"x": pixels[0]}))
    assert loaded.simulate({"x": pixels}).noise == program.plan.promise.figures[0].noise
    assert network.check(loaded, pixels).noisy is not None
    with pytest.raises(cb.MismatchError, match="takes its inputs otherwise"):
        plain.check(loaded, taken_out(pixels))
    with pytest.raises(cb.RangeError, match="taken out, has an entry beyond") as caught:
        client.encrypt({"x": 3.0 * pixels[0]})  # not in bytes
    low, high = (float(one) for one in re.findall(r"[-\d.]+(?=[,)])", str(caught.value.advice[1]))[-2:])
    assert low < 0 and high > 255
    client.encrypt({"x": np.clip(3.0 * pixels[0], low, high)})


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_operands_of_other_programs_are_normalised_alike() -> None:
    network = cb.networks.from_onnx(fire(), normalise=(MEAN, 60))
    options: dict[str, Any] = {"promise": "none", "precision": 1e-2, **TOY}
    program = cb.compile(
        lambda x: 2.0 * network.encrypted(x, degree=3), {"x": network.operand(2.0)}, **options
    )
    pixels = np.full((3, 8, 8), 110.0)
    plain = cb.networks.from_onnx(fire()).operand(2.0)
    alike = cb.compile(
        lambda x: 2.0 * cb.networks.from_onnx(fire()).encrypted(x, degree=3), {"x": plain}, **options
    )
    left = (pixels - np.reshape(MEAN, (3, 1, 1))) / 60
    np.testing.assert_allclose(program.evaluate({"x": pixels}), alike.evaluate({"x": left}), rtol=1e-9)
    with pytest.raises(cb.MismatchError, match="encrypted otherwise than the network takes"):
        cb.compile(lambda x: network.encrypted(x), {"x": plain}, **options)


@pytest.mark.parametrize(
    ("normalise", "error"),
    [
        (0.5, cb.DTypeError),
        ((0.5,), cb.DTypeError),
        ((0.5, "a"), cb.DTypeError),
        ((0.5, 0.0), cb.RangeError),
        ((np.nan, 1.0), cb.RangeError),
        ((MEAN[:2], 1.0), cb.ShapeError),
        ((0.5, (1.0,) * 4), cb.ShapeError),
    ],
)
def test_what_is_no_mean_and_deviation(normalise: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        cb.networks.from_onnx(residual(), normalise=normalise)


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_inputs_at_the_edge_of_a_range() -> None:
    """Errors of encryption carry them out of it: they are counted, and others are compared."""
    network, random = cb.networks.from_onnx(fire()), np.random.default_rng(5)
    program = network.compile(random.uniform(-1, 1, (20, 3, 8, 8)), bound=3.0, degree=15, error=1.0, **TOY)
    values = random.uniform(-1, 1, (3, 3, 8, 8))
    inside, beyond = 1.0, 3.0
    while beyond - inside > 1e-6:  # until they are as good as at the edge
        middle = (inside + beyond) / 2
        if program.check({"x": middle * values[0]})[0].inside:
            inside = middle
        else:
            beyond = middle
    edge = inside * values[:1]
    found = network.check(program, np.concatenate([edge, values[1:]]))
    assert (found.count, found.outside, found.carried) == (3, 0, 1)
    assert found.noisy is not None and "1 of the others carried out" in str(found)
    alone = network.check(program, edge)
    assert alone.carried == 1 and (alone.noisy is None or alone.noisy.largest < 1.0)
    assert replace(alone, noisy=None).clear is not None and "noisy" not in str(replace(alone, noisy=None))


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_a_check_without_encryption(tmp_path: Path) -> None:
    """Of inputs like the samples, and of one that is far from them."""
    network, random = cb.networks.from_onnx(fire()), np.random.default_rng(5)
    program = network.compile(random.uniform(-1, 1, (20, 3, 8, 8)), bound=3.0, degree=15, error=1.0, **TOY)
    values = random.uniform(-1, 1, (12, 3, 8, 8))
    labels = network(values).argmax(axis=1)
    labels[:3] = (labels[:3] + 1) % 4
    found = network.check(program, values, labels)
    clear, approximated, noisy = (one for one in (found.clear, found.approximated, found.noisy) if one)
    assert (found.count, found.outside, clear.accuracy, clear.agreement, clear.rms) == (12, 0, 0.75, 1.0, 0.0)
    exact = network(values)
    off = np.abs(np.stack([program.evaluate({"x": value}) for value in values]) - exact)
    assert approximated.largest == pytest.approx(off.max()) and approximated.agreement > 0.5
    assert 0 < noisy.rms <= noisy.largest < 1.0 and noisy.rms > 0.5 * approximated.rms
    assert "75.0%" in str(found) and "0 of them outside" in str(found)
    far = network.check(program, np.concatenate([3 * values[:1], values[1:3]]))
    assert (far.outside, far.carried) == (1, 0) and far.noisy is not None and far.noisy.accuracy is None
    assert "right" not in str(far)
    assert network.check(program, 3 * values[:1]).noisy is None
    steps: list[tuple[int, int]] = []
    program.save(tmp_path / "program")
    loaded = cb.Program.load(tmp_path / "program", security=0, insecure=True)
    again = network.check(loaded, values, labels, progress=lambda *step: steps.append(step))
    assert again == found and steps[-1] == (12 + 64, 12 + 64)
    other = cb.compile(lambda x: np.ones((3, 192)) @ cb.flatten(x), {"x": cb.secret(3, 8, 8)}, **TOY)
    with pytest.raises(cb.MismatchError, match="not one of this network"):
        network.check(other, values)
    for wrong in (
        lambda: network.check(program, values[0]),
        lambda: network.check(program, values[:, :, :4]),
        lambda: network.check(program, values[:0]),
        lambda: network.check(program, values, labels[:2]),
    ):
        with pytest.raises(cb.ShapeError):
            wrong()


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
@pytest.mark.parametrize("normalise", [None, (3.0, 2.0)])
def test_an_input_of_zeros_keeps_the_promise_where_it_is_a_sample(normalise: Any) -> None:
    """Every ReLU of it errs in the same way, and all of these errors add up; those of other samples do not."""
    m = Model((8,), 1)
    hidden = m.node("Relu", m.node("MatMul", "x", m.constant(m.random.normal(size=(8, 64)))))
    network = cb.networks.from_onnx(
        m.file(m.node("MatMul", hidden, m.constant(np.ones((64, 1))))), normalise=normalise
    )
    mean, deviation = normalise or (0.0, 1.0)
    samples = mean + deviation * np.random.default_rng(1).uniform(-1, 1, (100, 8))
    zeros = np.full(8, mean)
    program = network.compile(np.concatenate([samples, zeros[None]]), degree=14, error=30.0, **TOY)

    def off(value: np.ndarray) -> float:
        return float(np.abs(program.evaluate({"x": value}) - network(value)).max())

    errors = [off(value) for value in samples]
    assert off(zeros) > 1.5 * max(errors)  # the slack of what samples err by
    assert off(zeros) <= program.plan.promise.figures[0].approximation <= program.plan.error
    assert all(one.inside for one in program.check({"x": zeros}))


def test_the_degree_follows_from_the_agreement() -> None:
    network = cb.networks.from_onnx(residual())
    samples = np.random.default_rng(1).uniform(-1, 1, (100, *network.shape))
    found = []
    for agreement in (0.6, 0.999):
        program = network.compile(samples, agreement=agreement, **TOY)
        found.append(max(node.degree for node in ordered(program.expression) if isinstance(node, Polynomial)))
        assert program.plan.promise.figures[0].agreement >= agreement - 0.05
    assert found[0] <= found[1]
    with pytest.raises(cb.ParameterError, match="agreement"):
        network.compile(samples, agreement=2.0, **TOY)
    with pytest.raises(cb.CipherblasError):
        network.compile(agreement=0.9, **TOY)


@pytest.mark.parametrize("agreement", [0.95, 1.0])
def test_polynomials_of_a_high_degree_leave_noise_the_room_that_functions_do(agreement: float) -> None:
    network = cb.networks.from_onnx(residual())
    operand = cb.secret(*network.shape)
    values = {"x": np.random.default_rng(1).uniform(-1, 1, (100, *network.shape))}
    rooms = []
    for degree in (3, 254):
        samples = Samples(values, {"x": operand}, 1.5)
        with samples.watching():
            written = trace(functools.partial(network.encrypted, degree=degree), {"x": operand})
        rooms.append(BySamples(samples, written, agreement).room(written))
    off = [abs(room - 1) for room in rooms]  # of that beside the functions themselves
    assert off[0] > off[-1] and off[-1] < 0.02


def test_nothing_is_refreshed_as_the_network_is_written() -> None:
    network = cb.networks.from_onnx(residual())
    assert network.activations == 3
    nodes = ordered(network.encrypted(Leaf("x", cb.secret(*network.shape)), degree=3))
    assert "refresh" not in [node.op for node in nodes]


@pytest.mark.parametrize("part", range(8))
def test_random_networks(part: int) -> None:
    """In the clear as onnxruntime has them; as expressions, which are what is encrypted, the same."""
    differing = []
    for seed in range(part, 400, 8):
        content = random_network(seed, functions=seed % 16 < 8)
        network = cb.networks.from_onnx(content)
        values = np.random.default_rng(seed).uniform(-1, 1, (2, *network.shape)).astype(np.float32)
        found, wanted = network(values), by_runtime(content, values)
        size = max(1.0, np.abs(wanted).max())
        good = found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-3, atol=1e-4 * size)
        if good and not network.activations:
            expression = network.encrypted(Leaf("x", cb.secret(*network.shape)))
            image = values[0].astype(np.float64)
            good = np.allclose(
                evaluate_clear(expression, {"x": image}), network(image), rtol=1e-9, atol=1e-9 * size
            )
        differing += [] if good else [seed]
    assert differing == []


# ---- what is refused ----


def refused(m: Model, result: str) -> str:
    with pytest.raises(cb.UnsupportedNodeError) as caught:
        cb.networks.from_onnx(m.file(result))
    return str(caught.value)


def test_all_nodes_that_cannot_be_computed_are_named() -> None:
    m = Model((2, 8, 8))
    x = m.node("MaxPool", m.conv("x", 2, 2), kernel_shape=[2, 2])
    y = m.node("LSTM", "x", m.constant(1.0), m.constant(1.0))
    message = refused(m, m.node("Add", x, y))
    assert "The file has 2 nodes that cannot be computed encrypted" in message
    assert "node2 (MaxPool): maxima" in message and "node3 (LSTM): steps that read" in message
    assert 'Write: for node2 (MaxPool): maxpool="exact"' in message
    assert "; for node3 (LSTM): convolutions or dense layers" in message
    m = Model((2, 8, 8))
    x = m.node("GlobalMaxPool", "x")
    message = refused(m, m.node("Add", m.node("MaxPool", "x", kernel_shape=[2, 2]), x))
    assert 'Write: for node1 (GlobalMaxPool), node2 (MaxPool): maxpool="exact"' in message


def test_what_to_write_is_said_of_operators_that_there_are() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas()} | {"Attention", "RMSNormalization"}
    assert set(KNOWN) <= known and not set(KNOWN) & {*OPERATORS, *FUNCTIONS}


@pytest.mark.parametrize(
    ("operator", "constants", "attributes", "why"),
    [
        ("AveragePool", [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, "count_include_pad"),
        ("AveragePool", [], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, "beyond the image"),
        ("Pow", [3.0], {}, "Mul of the value and its square"),
        ("Div", [[[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]]]], {}, "one number, or one for each channel"),
        ("Transpose", [], {"perm": [0, 2, 1, 3]}, "change places"),
        ("Flatten", [], {"axis": 2}, "joins images of a batch"),
        ("PRelu", [[[[0.1]], [[0.2]]]], {}, "PReLU with one slope"),
        ("Conv", [np.ones((2, 3, 3, 3))], {}, "do not fit"),
        ("Cast", [], {"to": 7}, "not rounded to integers"),
        ("Div", [0.0], {}, "not finite"),
        ("Conv", [np.ones((2, 2, 3, 3))], {"pads": [9, 0, 0, 0]}, "padding is larger"),
        ("Softmax", [], {}, "not the end"),
        ("Sqrt", [], {}, "Softplus or Tanh"),
        ("Max", [0.5], {}, "Add(y, Relu(Sub(x, y)))"),
        ("InstanceNormalization", [[1.0, 1.0], [0.0, 0.0]], {}, "BatchNormalization, and train again"),
        ("Transpose", [], {"perm": [0, 1, 2, 3, 4]}, "onnx.checker.check_model"),
        ("MyOperator", [], {}, "a network of operators of the table"),
    ],
)
def test_reasons(operator: str, constants: list, attributes: dict, why: str) -> None:  # type: ignore[type-arg]
    m = Model((2, 8, 8))
    x = m.node(operator, "x", *(m.constant(one) for one in constants), **attributes)
    assert why in refused(m, m.node("Relu", x))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(cb.FormatError, match="is no file of ONNX"):
        cb.networks.from_onnx(b"nothing of the kind")
    with pytest.raises(cb.FormatError, match="is no file of ONNX"):
        cb.networks.from_onnx(b"")
    with pytest.raises(cb.StorageError, match="cannot be read"):
        cb.networks.from_onnx(tmp_path / "missing.onnx")
    m = Model((2, 8, 8))
    with pytest.raises(cb.FormatError, match="not finite"):
        cb.networks.from_onnx(m.file(m.node("Add", "x", m.constant(np.nan))))
    m = Model((2, 8, 8))
    with pytest.raises(cb.FormatError, match="another operator set"):
        cb.networks.from_onnx(m.file(m.node("Relu", "x"), opset=6))
    m = Model((2, "h", 8))  # type: ignore[arg-type]
    with pytest.raises(cb.FormatError, match="a shape that cannot be encrypted"):
        cb.networks.from_onnx(m.file(m.node("Relu", "x")))
    model = loaded(residual())
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], "elsewhere")
    with pytest.raises(cb.FormatError, match="weights in other files"):
        cb.networks.from_onnx(model.SerializeToString())


def test_damaged_nodes_and_those_of_other_domains() -> None:
    m = Model((2, 8, 8))
    message = refused(m, m.node("Relu", m.node("Conv", "x")))
    assert "node1 (Conv): its inputs or attributes" in message
    m = Model((2, 8, 8))
    x = m.node("Pad", "x", m.constant([0, 0, 0, 0, 0, 10**12, 0, 0], np.int64))
    assert "more than 65536 channels" in refused(m, x)
    m = Model((2, 8, 8))
    assert "but of com.example" in refused(m, m.node("Relu", "x", domain="com.example"))


@pytest.mark.parametrize("name", MODELS)
def test_mutated_files(name: str) -> None:
    """Whatever a file holds, it is read, or refused with an error of ours."""
    content, random = MODELS[name](), np.random.default_rng(7)
    for _ in range(150):
        changed = bytearray(content)
        for place in random.integers(0, len(content), 3):
            changed[place] = random.integers(0, 256)
        try:
            cb.networks.from_onnx(bytes(changed))
        except cb.CipherblasError:
            pass


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_polynomials_that_are_too_coarse() -> None:
    """The error names a degree, which is an option of networks."""
    network, samples = cb.networks.from_onnx(fire()), np.random.default_rng(1).uniform(-1, 1, (20, 3, 8, 8))
    for asked in ({"error": 0.05}, {"agreement": 1.0}):
        with pytest.raises(cb.PrecisionError, match="degree=6") as caught:
            network.compile(samples, degree=2, **asked, **TOY)
        assert "Polynomials of degree 2 stand for" in str(caught.value)
        assert caught.value.advice[0].options == {"degree": 6}


def test_inputs_of_another_shape() -> None:
    network = cb.networks.from_onnx(residual())
    for refused in (
        lambda: network(np.zeros((3, 9, 8))),
        lambda: network.compile(np.zeros((4, 3, 9, 8)), **TOY),
        lambda: network.compile(np.zeros((0, 3, 8, 8)), **TOY),
    ):
        with pytest.raises(cb.ShapeError, match=r"network|The samples"):
            refused()


def test_what_is_no_array_of_numbers() -> None:
    network = cb.networks.from_onnx(residual())
    for values in (
        np.full((1, 3, 8, 8), np.nan),
        np.zeros((1, 3, 8, 8), complex),
        np.full((1, 3, 8, 8), "a"),
    ):
        for take in (network, lambda values: network.compile(values, **TOY)):
            with pytest.raises((cb.DTypeError, cb.RangeError), match=r"input of the network|samples"):
                take(values)


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_samples_of_zeros() -> None:
    program = cb.networks.from_onnx(depthwise()).compile(np.zeros((5, 4, 9, 9)), degree=3, error=0.5, **TOY)
    assert program.operands["x"].bound == 1.0


def test_functions_keep_their_names() -> None:
    network = cb.networks.from_onnx(residual())
    layer = next(step.layer for step in network.steps if isinstance(step.layer, Activation))
    assert layer.name == "Relu"
