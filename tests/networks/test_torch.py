"""Networks from modules of PyTorch: against PyTorch itself where it is installed, and with a stand-in for it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.onnx_models import fire

# ---- with a stand-in ----


class Module:
    """In the place of `torch.nn.Module`: its export is a file that there is."""

    training, content, fails = False, fire(), ""

    def modules(self) -> list[Module]:
        return [self]

    def parameters(self) -> Iterator[Any]:
        return iter(())

    def __call__(self, given: Any) -> Any:
        if given.shape[1:] != (3, 8, 8):
            raise RuntimeError("sizes differ\nand more")
        return given


class Mode:
    """In the place of `torch.overrides.TorchFunctionMode`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def export(module: Module, given: Any, stream: Any, **options: Any) -> None:
    if module.fails:
        raise RuntimeError(module.fails)
    stream.write(module.content)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name with what is called of it."""
    torch: Any = ModuleType("torch")
    torch.nn = SimpleNamespace(Module=Module)
    torch.onnx = SimpleNamespace(export=export)
    torch.overrides = ModuleType("torch.overrides")
    torch.overrides.TorchFunctionMode = Mode
    torch.no_grad, torch.zeros = contextlib.nullcontext, np.zeros
    names = ("__bool__", "__int__", "__float__", "__complex__", "__index__", "item", "tolist", "numpy")
    torch.Tensor = type("Tensor", (), {name: lambda self: None for name in names})
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.overrides", torch.overrides)


@pytest.mark.usefixtures("stand_in")
def test_an_export_is_read() -> None:
    network = cb.networks.from_torch(Module(), [3, 8, 8])
    assert (
        cb.networks.from_torch(Module(), (3, 8, 8), normalise=(0.5, 0.25), maxpool="exact").normalise
        is not None
    )
    assert network.shape == (3, 8, 8) and str(network) == str(cb.networks.from_onnx(fire()))


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    ("changes", "shape", "error", "messages"),
    [
        ({"training": True}, (3, 8, 8), cb.ParameterError, ("is in training mode", "module.eval()")),
        ({}, (3, 9, 8), cb.ShapeError, ("of this shape (got (3, 9, 8))", "RuntimeError: sizes differ")),
        ({}, (1, 3, 8, 8), cb.ShapeError, ("without the batch axis", "features")),
        ({}, (3, 0, 8), cb.ShapeError, ("one to three lengths",)),
        ({}, "3x8x8", cb.DTypeError, ("must be an integer",)),
        ({"fails": "no such operator"}, (3, 8, 8), cb.FormatError, ("cannot export", "no such operator")),
        ({"content": b"else"}, (3, 8, 8), cb.FormatError, ("The module is no file of ONNX",)),
    ],
)
def test_errors(
    changes: dict[str, Any], shape: Any, error: type[Exception], messages: tuple[str, ...]
) -> None:
    module = Module()
    vars(module).update(changes)
    with pytest.raises(error) as caught:
        cb.networks.from_torch(module, shape)
    assert all(message in str(caught.value) for message in messages), caught.value


@pytest.mark.usefixtures("stand_in")
def test_what_is_no_module() -> None:
    with pytest.raises(cb.DTypeError, match="from a module of PyTorch"):
        cb.networks.from_torch("network.onnx", (3, 8, 8))


@pytest.mark.usefixtures("stand_in")
def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, message in (("onnx", "the package onnx, which"), ("torch", "the package torch, is not")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(cb.ParameterError, match=message) as caught:
            cb.networks.from_torch(Module(), (3, 8, 8))
        assert "pip install torch onnx" in str(caught.value)


# ---- with PyTorch ----


def residual(torch: Any) -> Any:
    """A module with batch norms, a shortcut, decisions by shapes, and a softmax at its end."""
    nn = torch.nn

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, bias=False)
            self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(8)])
            self.drop, self.scores = nn.Dropout(), nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.norms[0](self.first(x)))
            x = nn.functional.silu(self.norms[1](self.second(x)) + x)
            x = nn.functional.avg_pool2d(x, x.size()[3]) if x.shape[3] > 1 else x
            return torch.softmax(self.scores(self.drop(x.view(x.size(0), -1))), dim=1)

    torch.manual_seed(0)
    module = Residual()
    with torch.no_grad():
        for norm in module.norms:
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.5, 2)
    return module


def test_a_module_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    module = residual(torch)
    with pytest.raises(cb.ParameterError, match="training mode"):
        cb.networks.from_torch(module, (3, 8, 8))
    network = cb.networks.from_torch(module.eval(), (3, 8, 8))
    assert network.left_out == ("Softmax",) and network.activations == 2
    assert not any("batchnorm" in str(step.layer) for step in network.steps)
    values = np.random.default_rng(0).uniform(-1, 1, (4, 3, 8, 8))
    with torch.no_grad():
        wanted = module(torch.tensor(values, dtype=torch.float32)).numpy()
    found = np.exp(network(values))
    np.testing.assert_allclose(found / found.sum(axis=1, keepdims=True), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(cb.ShapeError, match=r"of this shape \(got \(4, 8, 8\)\)"):
        cb.networks.from_torch(module, (4, 8, 8))


def test_pixels_as_they_are_and_maxima() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    pools = nn.MaxPool2d(3, 2, padding=1), nn.MaxPool2d(2, ceil_mode=True)
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3), pools[0], nn.ReLU(), pools[1], nn.Flatten(), nn.Linear(16, 2)
    ).eval()
    with pytest.raises(cb.UnsupportedNodeError, match="MaxPool"):
        cb.networks.from_torch(module, (3, 8, 8))
    network = cb.networks.from_torch(module, (3, 8, 8), normalise=(127.5, 64), maxpool="exact")
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 8, 8)).astype(np.uint8)
    with torch.no_grad():
        wanted = module((torch.tensor(pixels) - 127.5) / 64).numpy()
    np.testing.assert_allclose(network(pixels), wanted, rtol=1e-4, atol=1e-4)


def test_features_in_double_precision() -> None:
    torch = pytest.importorskip("torch")
    module = (
        torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double().eval()
    )
    network = cb.networks.from_torch(module, 6)
    values = np.random.default_rng(0).uniform(-1, 1, (3, 6))
    with torch.no_grad():
        np.testing.assert_allclose(network(values), module(torch.tensor(values)).numpy(), rtol=1e-9)


def test_one_dimension() -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    norm, pool = nn.BatchNorm1d(4), nn.AdaptiveAvgPool1d(1)
    layers = (
        nn.Conv1d(2, 4, 5, padding="same"),
        norm,
        nn.ReLU(),
        nn.AvgPool1d(2),
        nn.Conv1d(4, 4, 3, stride=2),
    )
    module = nn.Sequential(*layers, pool, nn.Flatten(), nn.Linear(4, 3)).eval()
    network = cb.networks.from_torch(module, (2, 24))
    values = np.random.default_rng(0).uniform(-1, 1, (3, 2, 24))
    with torch.no_grad():
        wanted = module(torch.tensor(values, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(network(values), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reads", ["bool(x.sum() > 0)", "x.mean().item()", "float(x[0, 0])", "x.tolist()"])
def test_decisions_by_values(reads: str) -> None:
    torch = pytest.importorskip("torch")

    class Decides(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            eval(reads)
            return 2 * x

    with pytest.raises(cb.UnsupportedNodeError, match="reads entries of a tensor in Python"):
        cb.networks.from_torch(Decides().eval(), 3)
