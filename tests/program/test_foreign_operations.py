"""Operations from outside of the package: compiled, saved, loaded and run like those of the house."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.graph import formula
from tests.support.clip_square import clip_square
from tests.support.runs import run, run_by_files

WEIGHTS = np.random.default_rng(4).uniform(-1, 1, (6, 30)) / 8
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "tensors": (lambda x: WEIGHTS @ clip_square(x, 0.25) + 1, {"x": cb.secret(30, bound=0.5)}),
    "blocks": (lambda a, b: clip_square(a @ b, 3.0) + a, {"a": cb.secret(5, 5), "b": cb.secret(5, 5)}),
}


@pytest.mark.parametrize("form", PROGRAMS)
def test_an_operation_from_outside(form: str, tmp_path: Path) -> None:
    function, operands = PROGRAMS[form]
    program = cb.compile(function, operands)
    assert program.plan.form == form and "test_clip_square(" in formula(program.expression)
    values = {
        name: np.random.default_rng(8).uniform(-0.5, 0.5, operand.shape) for name, operand in operands.items()
    }
    run(program, values).check()
    run_by_files(program, values, tmp_path).check()


def test_by_rows_there_is_no_method() -> None:
    with pytest.raises(cb.ParameterError, match="no method by rows for test_clip_square 5x5 to 5x5"):
        cb.compile(lambda a: clip_square(a @ a, 3.0), {"a": cb.secret(5, 5)}, form="rows")


def test_where_an_operation_is_not_known_its_programs_are_refused(tmp_path: Path) -> None:
    function, operands = PROGRAMS["tensors"]
    cb.compile(function, operands).save(tmp_path / "program")
    script = "import sys, cipherblas as cb; cb.Program.load(sys.argv[1])"
    found = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "program"], capture_output=True, text=True
    )
    assert found.returncode and "FormatError" in found.stderr and "test_clip_square" in found.stderr
