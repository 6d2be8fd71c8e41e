"""Plans of networks for people: the figures of every layer, the encoded weights, what a replay says again."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common import limits
from cipherblas.rlwe.counts import Counts
from tests.support.runs import lasting, run

pytestmark = pytest.mark.encrypted

RANDOM = np.random.default_rng(5)
FILTERS, WEIGHTS = RANDOM.uniform(-1, 1, (2, 1, 3, 3)), RANDOM.uniform(-1, 1, (4, 18))
CORNERS = RANDOM.uniform(-1, 1, (3, 2, 2, 2))


def network(x: cb.expressions.Expression) -> cb.expressions.Expression:
    squares = cb.square(cb.conv2d(x, FILTERS))
    return WEIGHTS @ cb.flatten(cb.avg_pool2d(squares, 2))


def compiled(**options: Any) -> cb.Program:
    return cb.compile(network, {"x": cb.secret(1, 8, 8)}, precision=1e-3, **options)


def test_layers_add_up() -> None:
    """Operands and layers in their order; their figures are those of the whole run."""
    plan = compiled().plan
    assert [found.title for found in plan.nodes] == [
        "x 1x8x8",
        "conv2d 1x8x8 to 2x6x6",
        "square 2x6x6",
        "avg_pool2d 2x6x6 to 2x3x3",
        "flatten 2x3x3 to 18",
        "W @ x 4x18",
    ]
    assert sum((found.counts for found in plan.nodes), Counts()) == plan.counts
    assert [found.choice for found in plan.nodes if found.choice is not None] == list(plan.choices)


def test_explained() -> None:
    """Slots and ciphertexts, no rows of matrices; each layer on a line."""
    program = compiled()
    text = program.explain()
    assert (
        "slots)" in text and " up (" in text and "encrypted rows" not in text and "coefficients" not in text
    )
    lines = text.split("nodes, all tensors:\n")[1].splitlines()
    shown = [found for found in program.plan.nodes if "flatten" not in found.title]  # which takes nothing
    for line, found in zip(lines, shown, strict=True):
        assert line.startswith(f"  {found.title}  ")
        assert (f"{found.counts.rotations} rotation" in line) == (found.counts.rotations > 0)
        assert (f"{found.counts.plain_products} plaintext" in line) == (found.counts.plain_products > 0)
    assert "relinearisation" in lines[2] and "metakernel" in lines[1] and "metakernel" in lines[4]


def test_weights_in_memory(tmp_path: Path) -> None:
    """The peak holds the encoded weights that stay in memory, up to half of what the machine has available."""
    here = cb.Machine.here()
    whole = compiled(machine=here).plan
    stored = whole.counts.stored_bytes
    assert whole.weight_memory_bytes == stored > 0
    budget = stored // 3
    program = compiled(machine=dataclasses.replace(here, memory=2 * budget), memory_budget=1 << 34)
    assert program.plan.weight_memory_bytes == budget
    assert whole.peak_bytes - program.plan.peak_bytes == stored - budget
    assert (
        "in a file as far as half of the free disk holds it, the rest encoded anew in each run"
        in program.explain()
    )
    assert "keys and weights included" in program.explain()
    program.save(tmp_path / "program")
    again = cb.Program.load(tmp_path / "program")
    assert again.plan == program.plan
    assert again.explain().splitlines() == lasting(program)


def test_weights_need_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server runs where what the plan needs beside keys and weights is available, and not with less."""
    program = compiled()
    client = program.client()
    keys = client.evaluation_keys()
    x = client.encrypt({"x": np.zeros((1, 8, 8))})["x"]
    plan = program.plan
    least = plan.peak_bytes - plan.weight_memory_bytes - keys.nbytes
    monkeypatch.setattr(limits, "available_memory", lambda: least)
    program.server(keys, weight_budget=0).run({"x": x})
    monkeypatch.setattr(limits, "available_memory", lambda: least - 1)
    with pytest.raises(cb.MemoryBudgetError):
        program.server(keys, weight_budget=0).run({"x": x})


def test_default_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "available_memory", lambda: 6 << 30)
    assert limits.default_weight_budget() == 3 << 30
    monkeypatch.setattr(limits, "available_memory", lambda: None)
    assert limits.default_weight_budget() == 4 << 30


def test_progress_of_a_run() -> None:
    """A call as weights are ready and one per layer, the input among them."""
    program = compiled()
    client = program.client()
    runner = program.server(client.evaluation_keys())
    seen: list[tuple[int, int]] = []
    x = RANDOM.uniform(-1, 1, (1, 8, 8))
    result = runner.run(client.encrypt({"x": x}), progress=lambda done, total: seen.append((done, total)))
    total = program.plan.counts.plain_products + 6  # input, convolution, square, mean, flatten, product
    assert len(seen) > 6 and seen == sorted(seen) and seen[-1] == (total, total)
    assert np.abs(client.decrypt(result) - program.evaluate({"x": x})).max() <= program.plan.error_target
    assert runner.last.counts == program.plan.counts


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(lambda x: cb.avg_pool2d(x, 2, padding=1), id="mean"),
        pytest.param(lambda x: cb.conv2d(x, CORNERS, stride=2, padding=1), id="stride"),
        pytest.param(lambda x: cb.conv2d(x, CORNERS, stride=(1, 2), padding=1), id="stride across"),
        pytest.param(lambda x: cb.conv2d(x, CORNERS, padding=1), id="larger"),
    ],
)
def test_results_beyond_the_image(layer: Any) -> None:
    """Results that reach beyond the image's last column take one level: the input is packed with room for them."""
    program = cb.compile(layer, {"x": cb.secret(2, 6, 6)}, precision=1e-3)
    assert program.plan.levels == 1
    run(program, {"x": RANDOM.uniform(-1, 1, (2, 6, 6))}).check()


def test_known_weights_ask_gemms_for_the_same_error() -> None:
    """Weights with a few large entries: the bound of the result is far below that of a product of matrices."""
    weights = np.random.default_rng(3).normal(size=(10, 784))
    plans = [
        cb.compile(lambda x: weights @ x, {"x": cb.secret(784)}, precision=1e-5, form=form).plan
        for form in ("rows", "tensors")
    ]
    assert plans[0].error_target == pytest.approx(plans[1].error_target)
    assert plans[1].error_target == pytest.approx(1e-5 * np.abs(weights).sum(axis=1).max())
    assert all(plan.error <= plan.error_target for plan in plans)
