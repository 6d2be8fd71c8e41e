"""The caches of a machine, and what `explain()` says of linear transforms beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cipherblas as cb
from cipherblas.common.errors import FormatError, ParameterError
from cipherblas.planner.plan.explain import size
from cipherblas.planner.predict.caches import Cache, caches_of
from cipherblas.planner.predict.machine import Machine
from cipherblas.rlwe.fast_memory import FastMemory
from tests.corpus.machine import MACHINE

SMALL, LARGE = Cache(2, 1 << 20, 1), Cache(3, 1 << 25, 8)


def described(folder: Path, **entries: tuple[str, str, str, str]) -> Path:
    for name, values in entries.items():
        (folder / name).mkdir()
        for file, text in zip(("level", "type", "size", "shared_cpu_list"), values, strict=True):
            (folder / name / file).write_text(text + "\n")
    return folder


def test_caches_as_linux_describes_them(tmp_path: Path) -> None:
    folder = described(
        tmp_path,
        index0=("1", "Data", "48K", "0"),
        index1=("1", "Instruction", "32K", "0"),
        index2=("3", "Unified", "32M", "0-3,8-11"),
        index3=("2", "Unified", "1024K", "0,4"),
        index4=("x", "Unified", "1K", "0"),
        index5=("4", "Unified", "much", "0"),
    )
    (tmp_path / "index6").mkdir()
    assert caches_of(folder) == (Cache(1, 48 << 10, 1), Cache(2, 1 << 20, 2), Cache(3, 32 << 20, 8))
    assert caches_of(tmp_path / "none") == ()


def test_machines_keep_their_caches(tmp_path: Path) -> None:
    """A machine without any is written as before."""
    known = replace(MACHINE, caches=(SMALL, LARGE))
    known.save(tmp_path / "known")
    assert Machine.load(tmp_path / "known") == known != MACHINE
    MACHINE.save(tmp_path / "unknown")
    assert "caches" not in (tmp_path / "unknown").read_text()
    assert Machine.load(tmp_path / "unknown") == MACHINE
    with pytest.raises(FormatError, match=r"machine.caches\[0\].nbytes"):
        Machine.from_dict({**known.to_dict(), "caches": [{"level": 2, "nbytes": 0, "processors": 1}]})
    with pytest.raises(ParameterError):
        replace(MACHINE, caches=(Cache(0, 1, 1),)).checked()


def explained(caches: tuple[Cache, ...], **options: Any) -> tuple[cb.Program, str]:
    operands = {"a": cb.secret(12, 12), "b": cb.secret(12, 12)}
    machine = replace(MACHINE, caches=caches)
    program = cb.compile(lambda a, b: a @ b, operands, machine=machine, algorithm="fame", **options)
    lines = [line for line in program.explain().splitlines() if line.startswith("fast memory")]
    return program, " ".join(lines)


def model(program: cb.Program) -> FastMemory:
    params = program.plan.parameters
    return FastMemory.of(params.n, params.limbs, params.special_limbs, params.dnum)


@pytest.mark.parametrize("order", ["limb", "rotation"])
def test_what_transforms_keep_beside_the_caches(order: str) -> None:
    program, text = explained((SMALL, LARGE), order=order)
    found = model(program)
    for name, words in (("limb", "limb by limb"), ("rotation", "rotation by rotation")):
        mine = f"{size(found.needed(name))} {words}" + " (this plan's)" * (name == order)
        assert mine in text
        assert f"{words} fits L{2 if found.needed(name) <= SMALL.nbytes else 3}" in text
    assert "L2 1.0 MiB, L3 32.0 MiB for 8 processors" in text


def test_what_would_spill() -> None:
    """With a cache that holds what the order by limbs needs, and with one that holds nothing."""
    program, _ = explained(())
    found = model(program)
    between = Cache(3, int(found.needed("limb")), 1)
    assert found.needed("limb") == between.nbytes < found.needed("rotation")
    _, text = explained((between,))
    spilled = size(found.spilled(between.nbytes, "rotation", 1))
    assert text.endswith(f"limb by limb fits L3; rotation by rotation spills, {spilled} per rotation")
    _, text = explained((Cache(2, 1, 1),))
    assert f"limb by limb spills, {size(found.spilled(1, 'limb', 1))} per transform" in text


def test_caches_that_are_not_known() -> None:
    _, text = explained(())
    assert text.endswith("caches not known")


def test_caches_decide_nothing() -> None:
    """The same program, whatever they are."""
    assert explained(())[0].id == explained((SMALL, LARGE))[0].id


def test_programs_without_linear_transforms_say_nothing() -> None:
    operands = {"a": cb.secret(12, 12), "b": cb.secret(12, 12)}
    program = cb.compile(lambda a, b: a @ b, operands, machine=MACHINE, algorithm="outer-product")
    assert program.plan.counts.linear_transforms == 0
    assert "fast memory" not in program.explain()
