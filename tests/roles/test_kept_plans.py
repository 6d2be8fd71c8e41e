"""Plans that are kept on disk: the same program is not planned twice, and no other one takes its plan."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.roles import kept_plans
from cipherblas.roles import program as programs
from tests.corpus.machine import MACHINE

OPERANDS = {"x": cb.secret(8, 16)}
INTEGERS = {name: cb.secret(8, 8, modulus=65537) for name in ("a", "b")}
WEIGHTS = np.random.default_rng(0).uniform(-1, 1, (16, 4))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where plans are kept."""
    monkeypatch.setenv("CIPHERBLAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(kept_plans.SWITCH)
    return tmp_path / "cache" / "plans"


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each program that is planned anew."""
    calls: list[str] = []
    plan = programs.planned_as_asked

    def counted(*args: Any) -> Any:
        calls.append("planned")
        return plan(*args)

    monkeypatch.setattr(programs, "planned_as_asked", counted)
    return calls


def sines(x: Any) -> Any:
    return cb.chebyshev(math.sin, x, degree=7)


def steeper(x: Any) -> Any:
    return cb.chebyshev(lambda t: math.sin(1.5 * t), x, degree=7)


SAME: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "product": (lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)}, {}),
    "operands in another order": (lambda x, a: x @ a, {"x": cb.secret(8, 8), "a": cb.public(8, 8)}, {}),
    "weights that are folded": (lambda x: (x @ WEIGHTS) * 0.5 + np.ones(4), OPERANDS, {}),
    "several results": (lambda x: {"gram": x.T @ x, "sum": cb.sum(x)}, OPERANDS, {"error": 1e-3}),
    "functions": (lambda x: cb.sigmoid(x @ WEIGHTS), OPERANDS, {}),
    "a function of a part": (lambda x: cb.sigmoid(x[:4] @ WEIGHTS) + cb.tanh(x.T)[:4, :4], OPERANDS, {}),
    "a coarser precision": (lambda x: cb.relu(x @ WEIGHTS / 16), OPERANDS, {}),
    "samples": (
        lambda x: cb.relu(x @ WEIGHTS),
        OPERANDS,
        {"samples": {"x": np.linspace(-1, 1, 256).reshape(2, 8, 16)}, "error": 0.5},
    ),
    "vectors": (lambda v: WEIGHTS.T @ v, {"v": cb.secret(16)}, {"form": "tensors"}),
    "images": (
        lambda x: cb.conv2d(x, np.ones((2, 1, 3, 3)), padding=1),
        {"x": cb.secret(1, 8, 8)},
        {},
    ),
    "integers modulo t": (
        lambda a, b: a * b,
        {"a": cb.secret(8, 8, modulus=65537), "b": cb.secret(8, 8, modulus=65537)},
        {},
    ),
    "exact integers by residues": (
        lambda a, b: (a * b) * b,
        {n: cb.secret(4, 4, bound=1 << 20, dtype="int64", exact=True) for n in ("a", "b")},
        {},
    ),
    "fixed point": (lambda a: a @ a.T, {"a": cb.secret(4, 4, fixed_point=10, bound=4)}, {}),
}


def test_the_second_process_takes_the_plan(folder: Path, planned: list[str]) -> None:
    """Everything is the same: identity, predictions, what was not taken, warnings, and the results in the clear."""
    failed = []
    for name, (function, operands, options) in SAME.items():
        found: list[tuple[cb.Program, list[str]]] = []
        planned.clear()
        for _ in range(2):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                found.append((cb.compile(function, operands, **options), [str(one.message) for one in told]))
        (first, said), (second, again) = found
        same = (first.id, first.plan, first.explain(), said) == (
            second.id,
            second.plan,
            second.explain(),
            again,
        )
        if not same or planned != ["planned"] or second.written is None:
            failed.append((name, same, list(planned)))
    assert not failed
    assert len(list(folder.iterdir())) == len(SAME)


def test_a_kept_plan_computes(folder: Path) -> None:
    x = np.random.default_rng(1).uniform(-1, 1, (8, 16))
    for _ in range(2):
        program = cb.compile(SAME["weights that are folded"][0], OPERANDS)
        client = program.client()
        result = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"x": x})))
        assert np.abs(result - ((x @ WEIGHTS) * 0.5 + 1)).max() <= program.plan.error


OTHERS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "itself": (lambda x: sines(x), OPERANDS, {}),
    "another function of the same name": (lambda x: steeper(x), OPERANDS, {}),
    "other weights": (lambda x: sines(x @ WEIGHTS / 16), OPERANDS, {}),
    "one entry of the weights": (
        lambda x: sines(x @ (WEIGHTS + np.eye(16, 4) * 2.0**-40) / 16),
        OPERANDS,
        {},
    ),
    "another bound": (lambda x: sines(x), {"x": cb.secret(8, 16, bound=0.5)}, {}),
    "another shape": (lambda x: sines(x), {"x": cb.secret(16, 8)}, {}),
    "another error": (lambda x: sines(x), OPERANDS, {"error": 1e-3}),
    "more security": (lambda x: sines(x), OPERANDS, {"security": 192}),
    "for a server": (lambda x: sines(x), OPERANDS, {"minimise": "server"}),
    "another link": (lambda x: sines(x), OPERANDS, {"link": 1e6}),
    "another order": (lambda x: sines(x.T).T, OPERANDS, {}),
}


def test_other_programs_are_planned(folder: Path, planned: list[str]) -> None:
    for function, operands, options in OTHERS.values():
        cb.compile(function, operands, **options)
    assert len(planned) == len(OTHERS)
    assert len(list(folder.iterdir())) == len(OTHERS)


def test_samples_are_part_of_the_text(folder: Path, planned: list[str]) -> None:
    function, operands, options = SAME["samples"]
    cb.compile(function, operands, **options)
    cb.compile(function, operands, **{**options, "samples": {"x": options["samples"]["x"] * 0.5}})
    assert len(planned) == 2


def test_functions_that_are_chosen_later_are_told_apart(folder: Path, planned: list[str]) -> None:
    """By their values: the polynomials that stand for both meanwhile are the same."""
    for wave in (0.0, 1e-6, 0.0):
        cb.compile(lambda x, w=wave: cb.chebyshev(lambda t: math.sin(t) + w * math.sin(40 * t), x), OPERANDS)
    assert len(planned) == 2


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-9], lambda raw: b"", lambda raw: raw.replace(b"known", b"knowm")]
)
def test_a_damaged_file_is_planned_again(
    folder: Path, planned: list[str], damage: Callable[[bytes], bytes]
) -> None:
    for _ in range(2):
        cb.compile(lambda x: x @ WEIGHTS, OPERANDS)
        (path,) = folder.iterdir()
        path.write_bytes(damage(path.read_bytes()))
    assert len(planned) == 2


def test_plans_are_private(folder: Path) -> None:
    cb.compile(lambda x: x @ WEIGHTS, OPERANDS)
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    assert WEIGHTS.tobytes() not in path.read_bytes()  # the program has them


def test_a_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv(kept_plans.SWITCH)
    for cache in (str(tmp_path / "file"), "", "relative"):
        monkeypatch.setenv("CIPHERBLAS_CACHE", cache)
        cb.compile(lambda x: x @ WEIGHTS, OPERANDS)
    assert len(planned) == 3
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_planned_anew_when_asked(folder: Path, planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        cb.compile(lambda x: x @ WEIGHTS, OPERANDS, cache=False)
    assert not folder.exists()
    cb.compile(lambda x: x @ WEIGHTS, OPERANDS)
    monkeypatch.setenv(kept_plans.SWITCH, "0")
    cb.compile(lambda x: x @ WEIGHTS, OPERANDS)
    assert len(planned) == 4


def test_without_security_nothing_is_kept(folder: Path) -> None:
    cb.compile(lambda x: x @ WEIGHTS, OPERANDS, security=0, insecure=True)
    assert not folder.exists()


def test_more_memory(
    folder: Path, planned: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A plan that the memory was plenty for stays, whatever there is later; one that needed most of it is looked for
    again where there is more, and one that needs more than there is too."""
    peak = cb.compile(lambda x: x @ WEIGHTS, OPERANDS, cache=False).plan.peak_bytes
    planned.clear()
    for memory, anew in ((16 * peak, 1), (64 * peak, 1), (2 * peak, 1), (peak // 2, 2)):
        path = tmp_path / f"{memory}.json"
        cb.Machine.from_dict({**MACHINE.to_dict(), "memory": memory}).save(path)
        monkeypatch.setenv("CIPHERBLAS_MACHINE", str(path))
        try:
            cb.compile(lambda x: x @ WEIGHTS, OPERANDS)
        except cb.MemoryBudgetError:
            pass
        assert len(planned) == anew


def test_the_oldest_plans_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        cb.compile(lambda x: x @ WEIGHTS, {"x": cb.secret(8, 16, bound=1 + number)})
        for path in folder.iterdir():
            os.utime(path, ns=(1, path.stat().st_mtime_ns - 1000))
    size = max(path.stat().st_size for path in folder.iterdir())
    monkeypatch.setattr(kept_plans, "MAX_FOLDER_BYTES", 2 * size)
    cb.compile(lambda x: x @ WEIGHTS, {"x": cb.secret(8, 16, bound=9)})
    assert len(list(folder.iterdir())) <= 3
