"""The machine as a value: its file, what a plan takes from it, and that nothing else of a computer reaches a plan."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import cipherblas as cb
from cipherblas.cli.app import app
from cipherblas.common.limits import MASK_BYTES
from cipherblas.engines.cpu import CpuEngine
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict import machine as machines
from cipherblas.planner.predict import measuring
from cipherblas.planner.predict.machine import MARK, MAX_TEXT_LENGTH, VERSION, Machine
from tests.corpus.machine import MACHINE
from tests.support.engine_draws import Watched

S = cb.secret


def compiled(**options: Any) -> cb.Program:
    operands = {"a": S(32, 32), "b": S(32, 32)}
    return cb.compile(lambda a, b: a @ b, operands, **{"machine": MACHINE, **options})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    MACHINE.save(tmp_path / "server.json")
    return tmp_path / "server.json"


# --- the file ---


def test_round_trip(file: Path) -> None:
    assert Machine.load(file) == cb.Machine.load(str(file)) == MACHINE
    assert Machine.from_dict(MACHINE.to_dict()) == pickle.loads(pickle.dumps(MACHINE)) == MACHINE
    unknown = replace(MACHINE, memory=None)
    unknown.save(file)
    assert Machine.load(file) == unknown
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_what_is_measured_can_be_saved(tmp_path: Path) -> None:
    found = Machine.measure("my server")
    assert (found.name, found.isa, found.threads) == ("my server", cb.isa(), cb.threads())
    found.save(tmp_path / "machine")
    assert Machine.load(tmp_path / "machine") == found
    assert Machine.here().name == found.processor


def test_rates_are_those_of_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose calls are timed, on a ring for each kind of work."""
    for name, shape in (("THIN", (1, 8, 16)), ("SHORT", (8, 1, 16)), ("DEEP", (8, 16, 16))):
        monkeypatch.setattr(measuring, name, shape)
    made: set[str] = set()
    rates = measuring.measured(1, make=lambda params: Watched(CpuEngine(params), made))
    assert {
        *("add", "add_matrices", "multiply_sum", "linear_transform"),
        *("multiply_integers", "multiply_matrices", "multiply_operands"),
    } <= made
    assert rates.operands is not None and rates.mac > 0 and rates.ntt > 0
    with pytest.raises(cb.ParameterError, match="There is no such engine"):
        Machine.measure(engine="none")


def test_rates_are_measured_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads and memory are those of now."""
    rates, threads = Machine.here().rates, cb.threads()

    def again() -> Any:
        raise AssertionError("measured again")

    monkeypatch.setattr(measuring, "measured", again)
    monkeypatch.setattr(machines, "available_memory", lambda: 12345)
    cb.set_threads(3)
    try:
        here = Machine.here()
    finally:
        cb.set_threads(threads)
    assert here.rates is rates and (here.threads, here.memory) == (3, 12345)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The folder of measurements is a new one, and another process begins; what was measured, whenever it is."""
    monkeypatch.setenv(machines.FOLDER, str(tmp_path / "caches" / "cipherblas"))
    found: list[Any] = []

    def measured(*given: Any, **named: Any) -> Any:
        found.append(replace(MACHINE.rates, mac=MACHINE.rates.mac * (1 + len(found))))
        return found[-1]

    monkeypatch.setattr(measuring, "measured", measured)
    machines._rates_here.cache_clear()
    yield found
    machines._rates_here.cache_clear()


def of_another_process() -> Machine:
    machines._rates_here.cache_clear()
    return Machine.here()


def test_rates_are_kept_for_other_processes(kept: list[Any], tmp_path: Path) -> None:
    """Of as many threads; `cipherblas machine` renews them."""
    first = Machine.here()
    assert of_another_process().rates == first.rates == kept[0] and len(kept) == 1
    (file,) = (tmp_path / "caches" / "cipherblas").iterdir()
    assert Machine.load(file).rates == first.rates
    threads = cb.threads()
    cb.set_threads(threads + 1)
    try:
        assert of_another_process().rates == kept[1]
    finally:
        cb.set_threads(threads)
    assert of_another_process().rates == first.rates and len(kept) == 2
    assert CliRunner().invoke(app, ["machine", "--quiet"]).exit_code == 0
    assert of_another_process().rates == kept[2] != first.rates and len(kept) == 3


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\0" * 100000, b'{"cipherblas-machine": 1}', b'{"cipherblas-machine": 2}']
)
def test_a_damaged_file_of_rates_is_written_anew(kept: list[Any], tmp_path: Path, content: bytes) -> None:
    Machine.here()
    (file,) = (tmp_path / "caches" / "cipherblas").iterdir()
    file.write_bytes(content)
    assert of_another_process().rates == kept[1]
    assert of_another_process().rates == kept[1] and len(kept) == 2


def test_where_nothing_can_be_kept(kept: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured, in every process, and no file is written."""
    (tmp_path / "file").touch()
    for folder in ("", "relative", str(tmp_path / "file"), str(tmp_path / "file" / "below")):
        monkeypatch.setenv(machines.FOLDER, folder)
        before = len(kept)
        assert of_another_process().rates == kept[-1] and Machine.here().keep() is None
        assert of_another_process().rates == kept[-1] and len(kept) == before + 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_usual_folder_of_rates(kept: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(machines.FOLDER)
    for name, path in (("XDG_CACHE_HOME", tmp_path / "own"), ("HOME", tmp_path / "home" / ".cache")):
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv(name, str(path.parent if name == "HOME" else path))
        found = Machine.here().keep()
        assert found is not None and found.parent == path / "cipherblas" and found.is_file()


def test_the_usual_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a machine programs are planned for that of the variable's file, or for this one, which is measured."""
    other = replace(MACHINE, name="other")
    other.save(tmp_path / "other.json")
    monkeypatch.setenv(machines.VARIABLE, str(tmp_path / "other.json"))
    monkeypatch.setattr(machines, "_rates_here", lambda: pytest.fail("measured"))
    program = cb.compile(lambda a, b: a @ b, {"a": S(8, 8), "b": S(8, 8)})
    assert program.plan.machine == other
    assert program.id == cb.compile(lambda a, b: a @ b, {"a": S(8, 8), "b": S(8, 8)}, machine=other).id
    assert compiled(machine=MACHINE).plan.machine == MACHINE
    monkeypatch.setenv(machines.VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(cb.ParameterError, match="CIPHERBLAS_MACHINE names no file") as caught:
        cb.compile(lambda a, b: a @ b, {"a": S(8, 8), "b": S(8, 8)})
    assert [one.write for one in caught.value.advice] == [  # both are done above and below
        "CIPHERBLAS_MACHINE=FILE, with the file that cipherblas machine -o FILE wrote",
        "unset CIPHERBLAS_MACHINE, to plan for this machine",
    ]
    (tmp_path / "other.json").write_text("{}")
    monkeypatch.setenv(machines.VARIABLE, str(tmp_path / "other.json"))
    with pytest.raises(cb.FormatError):
        cb.compile(lambda a, b: a @ b, {"a": S(8, 8), "b": S(8, 8)})
    monkeypatch.setattr(machines, "_rates_here", lambda: MACHINE.rates)
    for unset in (
        lambda: monkeypatch.setenv(machines.VARIABLE, ""),
        lambda: monkeypatch.delenv(machines.VARIABLE),
    ):
        unset()
        found = cb.compile(lambda a, b: a @ b, {"a": S(8, 8), "b": S(8, 8)}).plan.machine
        assert (found.rates, found.name) == (MACHINE.rates, found.processor)


def test_damaged_files(file: Path) -> None:
    """Cut anywhere, or with other bytes: an error of ours."""
    whole = file.read_bytes()
    for length in range(0, len(whole) - 2, 97):
        file.write_bytes(whole[:length])
        with pytest.raises(cb.FormatError):
            Machine.load(file)
    for content in (
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{}",
        b"[" * 100_000,
        whole + b" " * (1 << 17),
        b'{"a":NaN}',
    ):
        file.write_bytes(content)
        with pytest.raises(cb.FormatError):
            Machine.load(file)


def leaves(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, (dict, list)):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, one in inner for found in leaves(one, (*place, key))]
    return [place]


def changed(place: tuple[Any, ...], new: Any) -> dict[str, Any]:
    values = copy.deepcopy(MACHINE.to_dict())
    where: Any = values
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = new
    return values


@pytest.mark.parametrize("place", leaves(MACHINE.to_dict()), ids=lambda place: ".".join(map(str, place)))
def test_every_field_is_checked(place: tuple[Any, ...]) -> None:
    texts = ("name", "processor", "isa")
    wrong = [True, [], {}, -1, math.inf, math.nan, 1e300, 1 << 63]
    wrong += (
        [1, "", "a\x1b[2J", "é", "x" * (MAX_TEXT_LENGTH + 1), None] if place[0] in texts else ["1", 2.5e5]
    )
    if place[0] != "memory":
        wrong.append(None)
    for new in wrong:
        with pytest.raises(cb.FormatError):
            Machine.from_dict(changed(place, new))


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.update(extra=1),
        lambda values: values["rates"].update(extra=1),
        lambda values: values.pop("isa"),
        lambda values: values["rates"].pop("book"),
        lambda values: values["rates"].update(switching=[]),
        lambda values: values["rates"]["switching"].reverse(),
        lambda values: values["rates"]["switching"][0].update(n=5000),
        lambda values: values["rates"].update(call=0),  # then some plans would take no time
        lambda values: values.update({MARK: 0}),
        lambda values: values.pop(MARK),
    ],
)
def test_foreign_files(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))
    with pytest.raises(cb.FormatError, match=r"server\.json"):
        Machine.load(file)


def test_files_that_are_no_machines(file: Path, tmp_path: Path) -> None:
    values = json.loads(file.read_text())
    made = "the file that cipherblas machine -o FILE, or Machine.save(FILE), wrote"
    for version, write in (
        (VERSION + 1, "pip install --upgrade cipherblas"),
        (1, f"{made} with this version"),
    ):
        file.write_text(json.dumps({**values, MARK: version}))
        with pytest.raises(cb.VersionError) as old:
            Machine.load(file)
        assert old.value.advice[0].write == write
    compiled().save(tmp_path / "program")
    with pytest.raises(cb.FormatError) as damaged:
        compiled(machine=tmp_path / "program")
    assert [one.write for one in damaged.value.advice] == [
        f"a new copy of {made}",
        "cb.Machine.measure(), or cipherblas machine -o FILE, on that machine",
    ]
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(cb.StorageError) as missing:
            compiled(machine=path)
        assert missing.value.advice[-1].write == made
    MACHINE.save(file)
    assert compiled(machine=file).plan.machine == MACHINE


def test_wrong_machines(tmp_path: Path) -> None:
    with pytest.raises(
        cb.DTypeError, match=r"must be a Machine, or the path of its file .got dict"
    ) as caught:
        compiled(machine=MACHINE.to_dict())
    assert [one.write for one in caught.value.advice] == [
        "cb.Machine.from_dict(values)",
        "the same without machine=",
    ]
    assert compiled(machine=Machine.from_dict(MACHINE.to_dict())).plan.machine == MACHINE
    with pytest.raises(cb.DTypeError) as caught:
        compiled(machine=3)
    assert caught.value.advice[0].write == "cb.Machine.load(path)"
    for wrong in (
        replace(MACHINE, threads=0),
        replace(MACHINE, name="two\nlines"),
        replace(MACHINE, rates=replace(MACHINE.rates, ntt=math.nan)),
    ):
        with pytest.raises(cb.ParameterError) as refused:
            compiled(machine=wrong)
        assert refused.value.advice[1].write == "cb.Machine.measure(), this machine as it is"
        with pytest.raises(cb.ParameterError):
            wrong.save(tmp_path / "wrong")
    assert refused.value.advice[0].write == "a number from 1e-15 to 1 in that field"
    assert not list(tmp_path.iterdir())
    with pytest.raises(cb.ParameterError, match="name of a machine"):
        Machine.measure("")


# --- what a plan takes from it ---

ELSEWHERE = """
import sys, cipherblas as cb
import numpy as np
S = cb.secret
W = np.ones((10, 60))
for function, operands in (
    (lambda a, b: a @ b, {"a": S(24, 24), "b": S(24, 24)}),
    (lambda a, b: (a @ b) * (a @ b), {"a": S(12, 8), "b": S(8, 12)}),
    (lambda b: W @ b, {"b": S(60, 40)}),
    (lambda x: W[:, :10] @ cb.square(W @ x), {"x": S(60)}),
):
    program = cb.compile(function, operands, machine=sys.argv[1])
    print(program.id, program.explain(), sep="\\n")
"""


def test_plans_are_the_same_everywhere(file: Path) -> None:
    """In other processes, with other instructions, threads and hashes."""
    found = []
    for number, variables in enumerate(
        ({"CIPHERBLAS_ISA": "scalar", "CIPHERBLAS_THREADS": "1"}, {"CIPHERBLAS_THREADS": "5"})
    ):
        process = subprocess.run(
            [sys.executable, "-c", ELSEWHERE, os.fspath(file)],
            env={**os.environ, **variables, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr
        found.append(process.stdout)
    assert found[0] == found[1]
    assert found[0].count("corpus (two cores, avx2, 2 threads, 16.0 GiB available)") == 4


def test_nothing_is_measured_for_a_given_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nor for a program that is loaded, or saved again."""

    def measured() -> Any:
        raise AssertionError("this machine was asked")

    monkeypatch.setattr(measuring, "measured", measured)
    monkeypatch.setattr(machines, "available_memory", measured)
    machines._rates_here.cache_clear()
    program = compiled()
    program.save(tmp_path / "program")
    again = cb.Program.load(tmp_path / "program")
    again.save(tmp_path / "again")
    assert (tmp_path / "program").read_bytes() == (tmp_path / "again").read_bytes()
    assert again.plan.stages == program.plan.stages
    assert again.explain() == program.explain().split("\nnot taken:")[0]
    for one in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program)):
        assert (one.id, one.explain()) == (again.id, again.explain())


def test_a_program_keeps_what_this_machine_was_measured_to_be(tmp_path: Path) -> None:
    program = compiled(machine=None, threads=3, link=1e8, memory_budget=1 << 30)
    program.save(tmp_path / "program")
    again = cb.Program.load(tmp_path / "program")
    assert again.plan == program.plan and again.id == program.id
    assert again.plan.machine == program.plan.machine and again.plan.threads == 3
    assert again.explain() == program.explain().split("\nnot taken:")[0]


def test_the_machine_decides() -> None:
    """Slow transforms are avoided, memory bounds, threads share; the identity is of the decisions alone."""
    plan, rates = compiled().plan, MACHINE.rates
    slow = tuple(replace(one, ntt=300 * one.ntt) for one in rates.switching)
    slow_switches = replace(MACHINE, rates=replace(rates, switching=slow))
    other = compiled(machine=slow_switches).plan
    assert other.counts.rotations < plan.counts.rotations
    small = PlanOptions(machine=replace(MACHINE, memory=1 << 30)).planned_for
    assert (
        compiled(machine=small).plan.mask_budget == (1 << 30) * 4 // 5 // 8 < plan.mask_budget == MASK_BYTES
    )
    with pytest.raises(cb.MemoryBudgetError):
        compiled(machine=replace(MACHINE, memory=100 << 20))
    assert compiled(machine=replace(MACHINE, threads=7)).plan.threads == 7
    assert compiled(threads=1).plan.threads == 1
    named = compiled(machine=replace(MACHINE, name="another"))
    assert named.id == compiled().id and "another (two cores" in named.explain()


def test_explain_names_the_machine() -> None:
    plain = replace(MACHINE, name="two cores", memory=None, threads=1)
    (line,) = [line for line in compiled(machine=plain).explain().splitlines() if line.startswith("machine")]
    assert line.split("  ", 1)[1].strip() == "two cores (avx2, 1 thread)"
