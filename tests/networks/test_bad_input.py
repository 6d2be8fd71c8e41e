"""What users give networks by mistake: each is refused before work, in a sentence that says what."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cipherblas as cb
from tests.support.onnx_models import Model, loaded

TOY: dict[str, Any] = {"security": 0, "insecure": True, "ring_degree": 4096}
SHAPE = (2, 4, 4)
SAMPLES = np.random.default_rng(1).uniform(-1, 1, (20, *SHAPE))
IMAGE = SAMPLES[0]
pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")


def content(**constant: Any) -> bytes:
    m = Model(SHAPE, 1)
    x = m.node("Constant", **constant) if constant else m.constant(0.5)
    return m.file(m.dense(m.node("Flatten", m.node("Relu", m.node("Add", "x", x))), 32, 3))


@functools.cache
def network() -> cb.networks.TrainedNetwork:
    return cb.networks.from_onnx(content())


@functools.cache
def program() -> cb.Program:
    return network().compile(SAMPLES, degree=7, error=1.0, **TOY)


@functools.cache
def client() -> cb.Client:
    return program().client()


def with_external_data(where: str) -> bytes:
    """A file whose weights are said to lie in another one."""
    model = loaded(content())
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], where)
    return bytes(model.SerializeToString())


def constant_elsewhere() -> bytes:
    """As an attribute of a node."""
    tensor = onnx.numpy_helper.from_array(np.float32(0.5), "half")
    onnx.external_data_helper.set_external_data(tensor, "../weights")
    return content(value=tensor)


GIVEN: dict[str, tuple[Any, type[Exception], str]] = {
    "an image beyond the samples": (
        lambda: client().encrypt({"x": 2.0 * IMAGE}),
        cb.RangeError,
        "Operand 'x' has an entry beyond the planned range, which is 1.4",
    ),
    "an image in bytes": (
        lambda: client().encrypt({"x": np.full(SHAPE, 255, np.uint8)}),
        cb.RangeError,
        "beyond the planned range",
    ),
    "an image with NaN": (
        lambda: client().encrypt({"x": np.full(SHAPE, np.nan)}),
        cb.RangeError,
        "must hold finite numbers",
    ),
    "channels last": (lambda: client().encrypt({"x": IMAGE.T}), cb.ShapeError, "expected 2x4x4, got 4x4x2"),
    "several images": (lambda: client().encrypt({"x": SAMPLES}), cb.ShapeError, "must be an image"),
    "channels last, in the clear": (lambda: network()(IMAGE.T), cb.ShapeError, "inputs of another shape"),
    "samples of one image": (lambda: network().compile(IMAGE), cb.ShapeError, "samples are no inputs"),
    "samples as text": (lambda: network().compile([["a"] * 4] * 4), cb.DTypeError, "must hold real numbers"),
    "samples beyond the bound": (
        lambda: network().compile(SAMPLES, bound=0.5, **TOY),
        cb.RangeError,
        "beyond the planned range, which is 0.5",
    ),
    "samples with NaN": (
        lambda: network().compile(np.full((3, *SHAPE), np.nan)),
        cb.RangeError,
        "The samples must hold finite numbers",
    ),
    "a bound of zero": (lambda: network().compile(SAMPLES, bound=0.0, **TOY), cb.RangeError, "out of range"),
    "little memory": (
        lambda: network().compile(SAMPLES, degree=7, error=1.0, memory_budget=1 << 16, **TOY),
        cb.MemoryBudgetError,
        "memory_budget",
    ),
    "an agreement and an error": (
        lambda: network().compile(SAMPLES, error=1.0, agreement=0.9, **TOY),
        cb.ParameterError,
        "give it or an error",
    ),
    "an option that there is not": (
        lambda: network().compile(SAMPLES, degre=7),
        cb.MismatchError,
        "\n  Write: degree=",
    ),
    "an option of programs, misspelt": (
        lambda: network().compile(SAMPLES, eror=7),
        cb.MismatchError,
        "\n  Write: error=",
    ),
    "a program of another network": (
        lambda: network().check(cb.compile(lambda x: x @ x, {"x": cb.secret(3, 3)}, **TOY), SAMPLES),
        cb.MismatchError,
        "not one of this network",
    ),
    "external data": (
        lambda: cb.networks.from_onnx(with_external_data("weights")),
        cb.FormatError,
        "has weights in other files",
    ),
    "external data outside of the folder": (
        lambda: cb.networks.from_onnx(with_external_data("../../../etc/hostname")),
        cb.FormatError,
        "has weights in other files",
    ),
    "external data of a constant": (
        lambda: cb.networks.from_onnx(constant_elsewhere()),
        cb.FormatError,
        "has weights in other files",
    ),
    "weights with NaN in a constant": (
        lambda: cb.networks.from_onnx(content(value=onnx.numpy_helper.from_array(np.float32(np.nan)))),
        cb.FormatError,
        "has weights that are not finite",
    ),
    "weights that are not finite, as numbers": (
        lambda: cb.networks.from_onnx(content(value_float=np.inf)),
        cb.CipherblasError,
        "not finite",
    ),
    "a folder": (lambda: cb.networks.from_onnx(Path()), cb.StorageError, "cannot be read"),
}


@pytest.mark.encrypted
@pytest.mark.parametrize("name", GIVEN)
def test_it_is_refused(name: str) -> None:
    act, error, message = GIVEN[name]
    with pytest.raises(error) as caught:
        act()
    first = str(caught.value).splitlines()[0]
    assert message in str(caught.value) and re.match(r"[A-Z'.]", first) and len(first) < 400, str(
        caught.value
    )
