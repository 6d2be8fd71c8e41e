"""Small files that ask for much work: refused before it starts, at compile time as at load."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common import work
from cipherblas.crypto import files
from tests.support.foreign_files import as_json, choice_of, content

Change = Callable[[dict[str, Any]], None]
MAX_LENGTH = 1 << 24  # rows or columns of an operand
SECONDS = 30  # what is refused takes a fraction of a second

PROGRAMS: dict[str, Callable[[], cb.Program]] = {
    "slots": lambda: cb.compile(
        lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)}, algorithm="skewed"
    ),
    "clear rows": lambda: cb.compile(
        lambda w, x: w @ x, {"w": cb.public(8, 8), "x": cb.secret(8, 8)}, algorithm="gemm"
    ),
    "secret rows": lambda: cb.compile(
        lambda a, b: a @ b,
        {"a": cb.secret(8, 8), "b": cb.secret(8, 8)},
        algorithm="gemm",
        key_policy="direct",
    ),
    "convolution": lambda: cb.compile(
        lambda x, w: cb.conv2d(x, w, padding=1),
        {"x": cb.secret(1, 8, 8), "w": cb.public(2, 1, 3, 3)},
        ring_degree=8192,
    ),
    "vector": lambda: cb.compile(
        lambda x, w: w @ x, {"x": cb.secret(64), "w": cb.public(8, 64)}, ring_degree=8192, form="tensors"
    ),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("programs")
    paths = {}
    for name, make in PROGRAMS.items():
        paths[name] = folder / name.replace(" ", "-")
        make().save(paths[name])
    return paths


def shapes(**changed: tuple[int, ...]) -> Change:
    def change(header: dict[str, Any]) -> None:
        for name, shape in changed.items():
            header["operands"][name]["shape"] = list(shape)

    return change


def options(index: int, **changed: Any) -> Change:
    return lambda header: choice_of(header, index)["options"].update(changed)


def blocks(length: int) -> Change:
    return lambda header: header["decisions"].update(
        blocks=dict.fromkeys(header["decisions"]["blocks"], length)
    )


def nodes(count: int) -> Change:
    """Many nodes, none deep."""
    return lambda header: header["graph"].extend([{"op": "add", "of": [2, 2]}] * count)


def both(*changes: Change) -> Change:
    def change(header: dict[str, Any]) -> None:
        for one in changes:
            one(header)

    return change


def changed(path: Path, target: Path, change: Change) -> Path:
    header, tensors, parameters = content(path, "program")
    header = as_json(header)
    change(header)
    files.write(target, "program", header, tensors, parameters=parameters)
    return target


@pytest.mark.parametrize(
    ("program", "change"),
    [
        ("slots", shapes(a=(512, 512), b=(512, 512))),
        ("slots", shapes(a=(MAX_LENGTH, MAX_LENGTH), b=(MAX_LENGTH, MAX_LENGTH))),
        ("slots", shapes(a=(8, MAX_LENGTH), b=(MAX_LENGTH, 8))),
        ("slots", both(shapes(a=(128, 128), b=(128, 128)), blocks(1))),
        ("slots", nodes(5000)),
        ("secret rows", shapes(a=(MAX_LENGTH, MAX_LENGTH), b=(MAX_LENGTH, MAX_LENGTH))),
        ("secret rows", shapes(a=(8, MAX_LENGTH), b=(MAX_LENGTH, MAX_LENGTH))),
        ("convolution", shapes(w=(MAX_LENGTH, 1, 3, 3))),
        ("convolution", shapes(x=(1, MAX_LENGTH, 8))),
        ("convolution", shapes(x=(1, MAX_LENGTH, 4096))),
        ("convolution", shapes(x=(1, 4096, 4096), w=(2, 1, 4096, 4096))),
        ("convolution", shapes(x=(1 << 15, 8, 8), w=(1 << 15, 1 << 15, 3, 3))),
        ("vector", both(shapes(x=(MAX_LENGTH,), w=(8, MAX_LENGTH)), options(0, channels=1))),
        ("vector", both(shapes(w=(MAX_LENGTH, 64)), options(1, each=1))),
    ],
)
def test_much_work_from_few_bytes(
    saved: dict[str, Path], tmp_path: Path, program: str, change: Change
) -> None:
    begun = time.monotonic()
    with pytest.raises(cb.WorkBudgetError) as caught:
        cb.Program.load(changed(saved[program], tmp_path / "x", change))
    assert caught.value.expected is not None and caught.value.got is not None
    assert time.monotonic() - begun < SECONDS


@pytest.mark.parametrize("bits", [0, -1, 65, 1 << 31, 1 << 33, 1 << 62, 16.0, True, "16", None])
def test_bits_of_weights(saved: dict[str, Path], tmp_path: Path, bits: Any) -> None:
    path = changed(saved["clear rows"], tmp_path / "x", options(0, weight_bits=bits))
    with pytest.raises(cb.FormatError, match=r"weight_bits.*expected a whole number from 1 to 64"):
        cb.Program.load(path)


def test_constants_that_multiply_to_more_than_fits(tmp_path: Path) -> None:
    """A column times a row of a million entries each: sixteen megabytes that ask for eight terabytes."""
    program = cb.compile(
        lambda w, x: w @ x + np.ones((2, 1)) @ np.ones((1, 2)),
        {"w": cb.public(2, 2), "x": cb.secret(2, 2)},
        algorithm="gemm",
    )
    program.save(tmp_path / "x")

    def change(header: dict[str, Any]) -> None:
        header["operands"]["w"].update(shape=[1 << 20, 2])
        header["operands"]["x"].update(shape=[2, 1 << 20])
        header["graph"] = [
            {"op": "operand", "name": "w", "transposed": False},
            {"op": "operand", "name": "x", "transposed": False},
            {"op": "matmul", "of": [0, 1]},
            {"op": "constant", "name": "column"},
            {"op": "constant", "name": "row"},
            {"op": "matmul", "of": [3, 4]},
            {"op": "add", "of": [2, 5]},
        ]

    header, _, parameters = content(tmp_path / "x", "program")
    header = as_json(header)
    change(header)
    tensors = {"column": np.ones((1 << 20, 1)), "row": np.ones((1, 1 << 20))}
    files.write(tmp_path / "y", "program", header, tensors, parameters=parameters)
    with pytest.raises(cb.WorkBudgetError, match="constants"):
        cb.Program.load(tmp_path / "y")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("share", [0.5, 0.999, 1.0])
def test_budgets_are_kept_to_the_step(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, share: float
) -> None:
    """On both sides: what was compiled within a budget is loaded within it."""
    counted: list[work.Work] = []
    make = work.Work.__init__

    def recorded(self: work.Work) -> None:
        make(self)
        counted.append(self)

    monkeypatch.setattr(work.Work, "__init__", recorded)
    cb.Program.load(saved[program])
    needed = max(one.steps for one in counted)
    assert 0 < needed < work.MAX_STEPS / 10
    budget = int(share * needed)
    if share == 1.0:
        cb.Program.load(saved[program], work_budget=budget)
    else:
        with pytest.raises(cb.WorkBudgetError, match="work_budget"):
            cb.Program.load(saved[program], work_budget=budget)
    try:
        with work.budget_of(budget):
            found = PROGRAMS[program]()
    except cb.CipherblasError:
        return
    found.save(tmp_path / "x")
    assert cb.Program.load(tmp_path / "x", work_budget=budget).id == found.id


def test_a_graph_of_many_paths() -> None:
    """2^60 paths lead to the operand: it is looked at once."""

    def doubled(w: Any, x: Any) -> Any:
        for _ in range(60):
            w = w + w
        return w @ x

    program = cb.compile(
        doubled, {"w": cb.public(2, 2, dtype="int8"), "x": cb.secret(2, 2)}, algorithm="gemm"
    )
    assert program.plan.algorithm == "gemm"


def test_a_value_that_is_needed_at_many_scales() -> None:
    """Every way through the graph asks for another scale: that many cannot be counted."""

    def mixed(w: Any, x: Any) -> Any:
        y = w @ x
        for step in range(30):
            y = (0.3 + step / 100) * y + 0.7 * y
        return y

    with work.budget_of(1 << 10), pytest.raises(cb.WorkBudgetError):
        cb.compile(mixed, {"w": cb.public(2, 2), "x": cb.secret(2, 2)}, algorithm="gemm")


def test_operations_that_were_made_by_hand(saved: dict[str, Path], tmp_path: Path) -> None:
    """What a layer of another type, or of no type, takes from a header."""
    header, tensors, parameters = content(saved["convolution"], "program")
    for fields in (
        {"stride": []},
        {"stride": [1]},
        {"stride": [1, 1, 1]},
        {"stride": [1.0, 1]},
        {"padding": [0.5, 0]},
        {"padding": [True, 0]},
        {"padding": "11"},
        {"groups": 1.0},
        {"groups": None},
        {"groups": []},
        {"of": [0]},
        {"of": [0, 0.0]},
        {"of": None},
        {"op": []},
        {"new": 1},
    ):
        other = copy.deepcopy(as_json(header))
        (row,) = (row for row in other["graph"] if row["op"] == "conv2d")
        row.update(fields)
        files.write(tmp_path / "x", "program", other, tensors, parameters=parameters)
        with pytest.raises(cb.FormatError) as caught:
            cb.Program.load(tmp_path / "x")
        assert caught.value.expected is not None


def test_a_program_without_secrets_is_not_loaded(saved: dict[str, Path], tmp_path: Path) -> None:
    def change(header: dict[str, Any]) -> None:
        for operand in header["operands"].values():
            operand.update(secret=False)

    for path in saved.values():
        with pytest.raises(cb.MismatchError, match="secret"):
            cb.Program.load(changed(path, tmp_path / "x", change))


def test_a_network_whose_layers_are_rearranged_is_loaded(tmp_path: Path) -> None:
    """The layout that an image is brought into before a layer is part of the decisions."""
    random = np.random.default_rng(1)
    first, second = random.normal(size=(16, 3, 3, 3)) / 5, random.normal(size=(64, 16, 3, 3)) / 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = cb.compile(
            lambda x: cb.conv2d(cb.avg_pool2d(cb.conv2d(x, first, padding=1), 2), second, padding=1),
            {"x": cb.secret(3, 32, 32)},
            precision=1e-2,
            ring_degree=1 << 14,
        )
    assert any("layout" in choice.options for choice in program.plan.choices)
    program.save(tmp_path / "x")
    assert cb.Program.load(tmp_path / "x").id == program.id
