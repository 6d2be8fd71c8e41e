"""Every program of the corpus is planned as it is stored."""

from __future__ import annotations

import dataclasses
import difflib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import cipherblas as cb
from cipherblas.methods.layers import LAYER_METHODS
from cipherblas.methods.products import ALGORITHMS, GEMM
from cipherblas.planner.plan.plan import PlanOptions
from tests.corpus import storage
from tests.corpus.advised import LONG as LONG_ADVICE
from tests.corpus.advised import advice_compiles
from tests.corpus.facts import facts, planned
from tests.corpus.machine import MACHINE
from tests.corpus.programs import CASES
from tests.corpus.walked import multiplicity_is_a_walk, several
from tests.support.runs import comes_back, is_a_list

STORED = storage.read()
# Whose planning takes two thirds of the time.
LONG = "product/", "chain/", "several/", "fame/", "mixed/", "forms/", "clear/", "constant/"
# Small programs that between them need every kind of work.
SAMPLE = (
    "skewed/lengths 6 13 8",
    "gemm/square 12",
    "chain/by rows",
    "gemm/square 64",
    "clear/int8 by rows",
    "vector/two squares",
    "e2dm/lengths 6 13 8",
    "public key/one operand",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith(LONG)) for name in CASES]
)
def test_planned_as_stored(name: str) -> None:
    """`make corpus` stores what changed on purpose: see CONTRIBUTING.md.

    What was planned comes back from a pickle, its list of instructions takes what the plan says, and so does a walk
    over its blocks. What a refusal says to write compiles.
    """
    stored, case = STORED.get(name, []), CASES[name]

    def holds(program: cb.Program) -> None:
        comes_back(program)
        is_a_list(program)
        if several(stored):
            multiplicity_is_a_walk(program)

    def compiles(error: cb.CipherblasError) -> None:
        if not name.startswith(LONG_ADVICE):
            advice_compiles(case, error)

    found = storage.block(name, facts(case, also=holds, instead=compiles))
    if found != stored:
        difference = difflib.unified_diff(stored, found, "stored", "planned", lineterm="", n=1)
        pytest.fail("\n".join(["another plan (`make corpus` stores it):", *difference]), pytrace=False)


def test_the_file_has_each_program_once_in_order() -> None:
    assert list(STORED) == list(CASES)
    assert storage.FILE.read_text(encoding="utf-8") == storage.written(STORED.values())
    assert storage.FILE.stat().st_size < 1 << 20


def test_everything_that_can_be_asked_is_asked_by_some_program() -> None:
    asked = {name for case in CASES.values() for name in case.options} | {"machine"}
    assert set(PlanOptions.__dataclass_fields__) <= asked
    algorithms = {case.options.get("algorithm") for case in CASES.values()}
    assert {*ALGORITHMS, GEMM, *LAYER_METHODS} <= algorithms
    taken = {
        line.split()[1].rstrip(":")
        for lines in STORED.values()
        for line in lines
        if line.startswith("takes ")
    }
    assert {*ALGORITHMS, GEMM} <= taken


# --- does it bite? ---


def _changed(value: Any) -> Any:
    """A number that is a little larger."""
    if isinstance(value, bool):
        return not value
    return value + max(1, value // 1000) if isinstance(value, int) else 1.001 * value


def _numbers(record: Any) -> list[str]:
    """The fields of a dataclass that hold a number other than zero."""
    found = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return [name for name, value in found.items() if isinstance(value, (int, float)) and value]


def _with(program: cb.Program, **changes: Any) -> list[tuple[str, str]]:
    """The facts of a program whose plan says something else: nothing that it found out before is reused."""
    plan = program.plan
    try:
        program.plan = dataclasses.replace(plan, **changes)
        return planned(program)
    finally:
        program.plan = plan


@pytest.fixture(scope="module")
def sample() -> dict[str, cb.Program]:
    return {name: CASES[name].compiled() for name in SAMPLE}


def test_every_figure_of_a_plan_is_stored(sample: dict[str, cb.Program]) -> None:
    for name, program in sample.items():
        plan, before = program.plan, planned(program)
        assert storage.block(name, before)[1:] == STORED[name][-len(before) :]
        for field in _numbers(plan):
            assert _with(program, **{field: _changed(getattr(plan, field))}) != before, f"{name}: {field}"
        for field in ("error", "target", "rounding_error"):
            value = getattr(plan.results[0], field)
            results = (dataclasses.replace(plan.results[0], **{field: _changed(value)}),)
            assert not value or _with(program, results=results) != before, f"{name}: {field}"
        for part in ("counts", "traffic"):
            record = getattr(plan, part)
            for field in _numbers(record):
                other = dataclasses.replace(record, **{field: _changed(getattr(record, field))})
                assert _with(program, **{part: other}) != before, f"{name}: {part}.{field}"


def _is_rate(field: Any) -> bool:
    return field.type in (float, "float")


def _one_rate_changed(rates: Any, factor: float = 1.1) -> Iterator[tuple[str, Any]]:
    """A rate, or a record or tuple of rates, with one of them changed at a time, and where it stands."""
    if isinstance(rates, tuple):
        for index, part in enumerate(rates):
            for where, changed in _one_rate_changed(part, factor):
                yield f"[{index}]{where}", (*rates[:index], changed, *rates[index + 1 :])
    elif dataclasses.is_dataclass(rates):
        for field in dataclasses.fields(rates):
            for where, changed in _one_rate_changed(getattr(rates, field.name), factor):
                yield f".{field.name}{where}", dataclasses.replace(rates, **{field.name: changed})
    else:
        yield "", factor * rates


def test_every_rate_shows(sample: dict[str, cb.Program]) -> None:
    before = {name: _with(program) for name, program in sample.items()}
    for what, rates in _one_rate_changed(MACHINE.rates):
        machine = dataclasses.replace(MACHINE, rates=rates)
        assert any(_with(program, machine=machine) != before[name] for name, program in sample.items()), what


def test_another_machine_makes_other_plans() -> None:
    def taken(machine: cb.Machine) -> list[str]:
        found = facts(CASES["product/square 16"], machine)
        return [text for what, text in found if what == "takes"]

    before, rates = taken(MACHINE), MACHINE.rates
    slower = {
        field.name: 50 * getattr(rates, field.name) for field in dataclasses.fields(rates) if _is_rate(field)
    }
    assert slower
    others = [dataclasses.replace(rates, **{name: value}) for name, value in slower.items()]
    assert any(taken(dataclasses.replace(MACHINE, rates=other)) != before for other in others)
    name = "skewed/square 12"
    for change in ({"threads": 1}, {"memory": MACHINE.memory // 64}):
        machine = dataclasses.replace(MACHINE, **change)
        assert storage.block(name, facts(CASES[name], machine)) != STORED[name]


def test_nothing_else_of_the_machine_matters() -> None:
    """Another process with other hashes, instructions and threads."""
    code = (
        "from tests.corpus.facts import facts; from tests.corpus import storage\n"
        "from tests.corpus.programs import CASES\n"
        f"print(storage.written(storage.block(name, facts(CASES[name])) for name in {SAMPLE!r}), end='')"
    )
    elsewhere = {"PYTHONHASHSEED": "7", "CIPHERBLAS_ISA": "scalar", "CIPHERBLAS_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | elsewhere | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == storage.written(STORED[name] for name in SAMPLE)


def test_what_is_taken_is_not_listed_as_not_taken() -> None:
    for name, lines in STORED.items():
        forms = {line.split()[1] for line in lines if line.startswith("form ")}
        losers = {line.split()[2].rstrip(":") for line in lines if line.startswith("not taken ")}
        assert not forms & losers, name
