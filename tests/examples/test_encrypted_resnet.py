"""The residual network, small and not trained: planned by samples, refreshed, and labelled as in the clear."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import encrypted_resnet
from cipherblas.planner.rings import sizing
from residual.network import ResNet

SIDE = 8
CHANNELS = (2, 2, 4, 8)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    random = np.random.default_rng(2)
    weights: dict[str, np.ndarray] = {}

    def layer(conv: str, norm: str, outputs: int, inputs: int) -> None:
        weights[f"{conv}.weight"] = random.normal(size=(outputs, inputs, 3, 3)) / np.sqrt(9 * inputs)
        weights[f"{norm}.weight"] = random.uniform(0.8, 1.2, outputs)
        weights[f"{norm}.bias"] = random.normal(size=outputs) * 0.1
        weights[f"{norm}.running_mean"] = random.normal(size=outputs) * 0.1
        weights[f"{norm}.running_var"] = random.uniform(0.8, 1.2, outputs)

    layer("conv1", "bn1", CHANNELS[0], 3)
    for stage in (1, 2, 3):
        layer(f"layer{stage}.0.conv1", f"layer{stage}.0.bn1", CHANNELS[stage], CHANNELS[stage - 1])
        layer(f"layer{stage}.0.conv2", f"layer{stage}.0.bn2", CHANNELS[stage], CHANNELS[stage])
    weights["linear.weight"] = random.normal(size=(4, CHANNELS[3]))
    weights["linear.bias"] = random.normal(size=4)
    np.savez(tmp_path / "weights.npz", **weights)
    pixels = random.integers(0, 256, (20, SIDE, SIDE, 3)).astype(np.uint8)
    np.savez(tmp_path / "images.npz", images=pixels, labels=random.integers(0, 4, 20))
    return {name: str(tmp_path / f"{name}.npz") for name in ("weights", "images")}


def arguments(files: dict[str, str], *more: str) -> list[str]:
    given = ["--weights", files["weights"], "--images", files["images"], "--calibration", files["images"]]
    return [*given, "--degree", "31", "--error", "2", "--toy", *more]


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_labels_are_those_of_the_clear_network(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "MAX_INSECURE_LIMBS", 12)  # so that refreshes are needed
    plan = str(tmp_path / "plan")
    assert encrypted_resnet.main(arguments(files, "--plan", plan)) == 0
    shown = capsys.readouterr().out
    assert "1 of 1 labelled as in the clear" in shown
    assert "for inputs like the 20 samples" in shown
    assert "refreshes         6" in shown
    assert "  refresh " in shown and "  conv2d " in shown and "  relu " in shown
    assert encrypted_resnet.main(arguments(files, "--plan", plan)) == 0  # planned before
    assert "planned on" not in capsys.readouterr().out


def test_the_clear_network_is_the_program_without_approximations(files: dict[str, str]) -> None:
    weights = dict(np.load(files["weights"]))
    network = ResNet(weights)
    image = encrypted_resnet.load_images(Path(files["images"]), 1).pixels[0]
    scores = encrypted_resnet.clear_scores(network, image)
    assert scores.shape == (4,)
    assert [block.stride for block in network.blocks] == [1, 2, 2]


def test_refusals(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert encrypted_resnet.main(arguments({**files, "images": "/no/such.npz"})) == 1
    assert "encrypted_resnet: error:" in capsys.readouterr().err
