"""`error=`, the largest error of an entry, in place of `precision=`, which is relative to the bound of the result."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto import files

WEIGHTS = np.linspace(-2, 2, 6 * 8).reshape(6, 8)

PROGRAMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "blocks": (lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8, bound=3.0)}),
    "rows": (lambda a: WEIGHTS @ a, {"a": cb.secret(8, 8)}),
    "a vector by rows": (lambda a: WEIGHTS @ a, {"a": cb.secret(8)}),
    "tensors": (lambda a: cb.square(WEIGHTS @ a), {"a": cb.secret(8)}),
}
FORMS = {"blocks": "blocks", "rows": "rows", "a vector by rows": "rows", "tensors": "tensors"}


def compiled(name: str, **options: Any) -> cb.Program:
    function, operands = PROGRAMS[name]
    return cb.compile(function, operands, form=FORMS[name], **options)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("error", [0.1, 1e-3])
def test_it_is_the_precision_times_the_bound(name: str, error: float) -> None:
    program = compiled(name, error=error)
    plan, bound = program.plan, program.expression.bound
    assert plan.asked_error == error and plan.error <= error * (1 + 1e-12)
    assert plan.error_target == pytest.approx(error, rel=1e-12) and plan.precision == error / bound
    relative = compiled(name, precision=error / bound)
    assert relative.plan.asked_error is None
    assert (relative.plan.parameters, relative.plan.choices) == (plan.parameters, plan.choices)


def test_a_run_keeps_to_it() -> None:
    program = compiled("blocks", error=2e-5)
    client = program.client()
    rng = np.random.default_rng(0)
    values = {"a": rng.uniform(-1, 1, (8, 8)), "b": rng.uniform(-3, 3, (8, 8))}
    result = program.server(client.evaluation_keys()).run(client.encrypt(values))
    assert np.abs(client.decrypt(result) - program.evaluate(values)).max() <= 2e-5


def test_explain_says_what_was_asked() -> None:
    assert "(asked: 0.001 by error=0.001)" in compiled("blocks", error=1e-3).explain()
    assert "(asked: 0.024 by precision=0.001)" in compiled("blocks", precision=1e-3).explain()


def test_terms_that_are_left_out_do_not_count_twice() -> None:
    """A sum that was cut has another bound; the error asked for is that of the program which runs."""
    program = cb.compile(
        lambda x: cb.polynomial(x, [0.1, 0.5, 0.0, 0.25, 0, 0, 0, 1e-12]), {"x": cb.secret(8)}, error=1e-3
    )
    assert "truncated" in json.dumps(program._identity())
    assert program.plan.precision == 1e-3 / program.expression.bound


@pytest.mark.parametrize("name", PROGRAMS)
def test_files_hold_it(name: str, tmp_path: Path) -> None:
    program = compiled(name, error=1e-2)
    program.save(tmp_path / "program")
    loaded = cb.Program.load(tmp_path / "program")
    assert (loaded.id, loaded.plan) == (program.id, program.plan)
    assert "by error=0.01" in loaded.explain() and program.plan.to_dict()["asked_error"] == 1e-2
    assert "asked_error" not in compiled(name).plan.decisions()  # files without it are those of before


@pytest.mark.parametrize("error", [1.0, 1e300, 0, -1, "0.01", True, None])
def test_files_that_claim_another_error_are_refused(error: Any, tmp_path: Path) -> None:
    program = compiled("blocks", error=1e-2)
    header, tensors = program._content()
    header = copy.deepcopy(header)
    header["decisions"]["asked_error"] = error
    files.write(tmp_path / "program", "program", header, tensors, parameters=program.plan.parameters)
    with pytest.raises(cb.FormatError):
        cb.Program.load(tmp_path / "program")
