"""Degrees and ranges that users give by names of nodes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnxruntime
import pytest

import cipherblas as cb
from cipherblas.lang.nodes import ordered
from cipherblas.lang.polynomials import Polynomial
from tests.support.onnx_models import Model, fire, loaded, residual
from tests.support.runs import Parties

TOY: dict[str, Any] = {"security": 0, "insecure": True, "ring_degree": 4096}
SAMPLES = np.random.default_rng(1).uniform(-1, 1, (20, 3, 8, 8))
pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")


def polynomials(program: cb.Program) -> dict[int, float]:
    """Degrees of the polynomials of a program, and bounds of their arguments, in their order."""
    found = [node for node in ordered(program.expression) if isinstance(node, Polynomial)]
    return {node.degree: node.children[0].bound for node in found}


def arguments(content: bytes, values: np.ndarray) -> dict[str, float]:
    """The largest absolute value of what ReLUs read, by onnxruntime."""
    model = loaded(content)
    relus = {node.name: node.input[0] for node in model.graph.node if node.op_type == "Relu"}
    del model.graph.output[:]
    model.graph.output.extend(loaded(content).graph.output[:0])
    for name in relus.values():
        model.graph.output.add().name = name
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": values.astype(np.float32)})
    return {name: float(np.abs(one).max()) for name, one in zip(relus, found, strict=True)}


def test_ranges_that_samples_give() -> None:
    network = cb.networks.from_onnx(residual())
    found = network.ranges(SAMPLES, slack=1.0)
    assert list(found) == ["node3", "node6", "node12"]
    assert found == pytest.approx(arguments(residual(), SAMPLES), rel=1e-4)
    assert network.ranges(SAMPLES)["node3"] == pytest.approx(1.5 * found["node3"])
    with pytest.raises(cb.ShapeError, match="no inputs of the network"):
        network.ranges(SAMPLES[0])


def dense() -> cb.networks.TrainedNetwork:
    """node2 and node6 are ReLUs, node4 a hyperbolic tangent."""
    m = Model((6,), 3)
    x = m.node("Relu", m.dense("x", 6, 6))
    x = m.node("Tanh", m.dense(x, 6, 6))
    return cb.networks.from_onnx(m.file(m.node("Relu", m.dense(x, 6, 6))))


VECTORS = np.random.default_rng(0).uniform(-1, 1, (20, 6))


def test_ranges_take_the_place_of_measured_ones() -> None:
    """Wider and narrower ones; polynomials are made for them."""
    options = {"activation": {"node2": 13, "node4": 14, "node6": 15}, "error": 1.0, **TOY}
    measured = polynomials(dense().compile(VECTORS, **options))
    assert list(measured) == [13, 14, 15]
    ranges = {"node4": 1.2 * measured[14], "node6": 0.9 * measured[15]}
    given = polynomials(dense().compile(VECTORS, ranges=ranges, **options))
    assert given == pytest.approx({**measured, 14: ranges["node4"], 15: ranges["node6"]})


def test_ranges_that_samples_leave_are_refused() -> None:
    largest = dense().ranges(VECTORS, slack=1.0)["node4"]
    with pytest.raises(cb.RangeError, match="The samples leave the range of node4") as caught:
        dense().compile(VECTORS, ranges={"node4": 0.99 * largest}, **TOY)
    write = caught.value.advice[0].write
    followed = eval(write[len("ranges=") : write.index("}") + 1])
    assert followed["node4"] > largest
    dense().compile(VECTORS, ranges=followed, degree=7, error=1.0, **TOY)


@pytest.mark.encrypted
def test_ranges_without_samples() -> None:
    """Encrypted and in range, a network without samples is as its polynomials are, and these near to its functions."""
    network = cb.networks.from_onnx(residual())
    ranges = network.ranges(SAMPLES)
    with warnings.catch_warnings():
        warnings.simplefilter("error", cb.PrecisionWarning)
        program = network.compile(degree=31, ranges=ranges, promise="none", precision=1e-4, **TOY)
    assert list(polynomials(program).values()) == list(ranges.values())[-1:]
    parties = Parties(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs({"x": SAMPLES[0]})))
    assert np.abs(found - program.evaluate({"x": SAMPLES[0]})).max() < 0.02
    assert np.abs(found - network(SAMPLES[0])).max() < 0.3


def grows() -> bytes:
    """Two ReLUs behind large weights: what any input could give is far above what inputs give."""
    m = Model((30,), 3)
    x = m.node("Relu", m.node("MatMul", "x", m.constant(2 * m.random.normal(size=(30, 30)))))
    return m.file(m.node("Relu", m.node("MatMul", x, m.constant(2 * m.random.normal(size=(30, 30))))))


def test_bounds_that_grow_are_warned_of() -> None:
    network = cb.networks.from_onnx(grows())
    options = {"degree": 3, "promise": "none", "precision": 1e-2, **TOY}
    with pytest.warns(cb.PrecisionWarning, match="what node4 of the network may read") as caught:
        network.compile(**options)
    said = next(str(one.message) for one in caught if one.category is cb.PrecisionWarning)
    assert "times the largest input" in said and "ranges={'node4': …}" in said
    samples = np.random.default_rng(0).uniform(-1, 1, (20, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("error", cb.PrecisionWarning)
        network.compile(ranges=network.ranges(samples), **options)
        network.compile(samples, degree=15, error=100.0, **TOY)
        cb.networks.from_onnx(fire()).compile(**options)


def test_degrees_of_nodes_and_operators() -> None:
    for activation, degrees in (
        ({"Relu": 7}, [7, 11, 7]),
        ({"Relu": 7, "node6": 13}, [7, 11, 13]),
        ({"Tanh": np.int64(5), "node2": 3}, [3, 5, 11]),
        (None, [11, 11, 11]),
    ):
        program = dense().compile(VECTORS, degree=11, activation=activation, error=1.0, **TOY)
        nodes = [node for node in ordered(program.written) if isinstance(node, Polynomial)]  # type: ignore[arg-type]
        assert [node.degree for node in nodes] == degrees


def test_an_agreement_chooses_the_other_degrees() -> None:
    program = dense().compile(VECTORS, agreement=0.7, activation={"node2": 13}, **TOY)
    degrees = [node.degree for node in ordered(program.expression) if isinstance(node, Polynomial)]
    assert 13 in degrees and max(degrees) >= 30


def test_an_error_chooses_the_least_degree_that_is_near_enough() -> None:
    for error, degree in ((0.1, 62), (0.01, 126)):
        program = dense().compile(VECTORS, activation={"Tanh": 31}, error=error, **TOY)
        assert sorted(polynomials(program)) == [31, degree]


def test_polynomials_that_are_too_coarse() -> None:
    with pytest.raises(cb.PrecisionError, match="higher degrees in activation") as caught:
        dense().compile(VECTORS, activation={"Relu": 2, "Tanh": 2}, error=0.01, **TOY)
    assert "Polynomials of degree 2 stand for" in str(caught.value)
    with pytest.raises(cb.PrecisionError, match="degree=8") as caught:
        dense().compile(VECTORS, degree=3, activation={"node2": 2}, error=0.01, **TOY)
    assert "Polynomials of degree 2 and 3 stand for" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"activation": {"Rellu": 7}}, cb.ParameterError, "expected Relu, node3, node6, node12, got Rellu"),
        ({"activation": {"Rellu": 7}}, cb.ParameterError, "Write: activation={'Relu': …}"),
        ({"activation": {"node1": 7}}, cb.ParameterError, "no function of the name 'node1'"),
        ({"activation": {3: 7}}, cb.ParameterError, "no function of the name '3'"),
        ({"activation": 7}, cb.DTypeError, "Write: activation={'Relu': 254}"),
        ({"activation": {"Relu": 7.5}}, cb.DTypeError, "The degree of Relu must be an integer"),
        ({"activation": {"Relu": 1000}}, cb.ParameterError, "255"),
        ({"ranges": {"Relu": 7.0}}, cb.ParameterError, "no node of the name 'Relu'"),
        ({"ranges": {"node33": 7.0}}, cb.ParameterError, "Write: ranges={'node3': …}"),
        ({"ranges": [7.0]}, cb.DTypeError, "ranges of a network is given by names"),
        ({"ranges": {"node3": "wide"}}, cb.DTypeError, "range of node3 must be a number"),
        ({"ranges": {"node3": 0.0}}, cb.RangeError, "out of range"),
        ({"ranges": {"node3": np.inf}}, cb.RangeError, "must be finite"),
    ],
)
def test_names_and_numbers_that_there_are_not(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    network = cb.networks.from_onnx(residual())
    with pytest.raises(error) as caught:
        network.compile(SAMPLES, **options, **TOY)
    assert message in str(caught.value)
