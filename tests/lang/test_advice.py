"""Every refusal of what a user writes says what to write instead, and that is taken: each is provoked and followed."""

from __future__ import annotations

import functools
import math
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import trace
from cipherblas.lang.batches import Batch
from cipherblas.lang.operands import Operand
from cipherblas.lang.results import flattened
from cipherblas.lang.samples import Samples
from tests.support.advice import is_rescaled
from tests.support.advised import DECLARED, WRITTEN
from tests.support.error_sites import sites

MAX_LINE_LENGTH = 400  # characters of a line
OF_FILES, BEFORE = "a field of a file", "checked before, of what a user writes"
# Errors without advice, by file and function, and why: no program comes there, or nothing can be written instead.
WITHOUT = {
    "arrangements.read": OF_FILES,
    "graph.from_json": OF_FILES,
    "graph._reference": OF_FILES,
    "operations._named": OF_FILES,
    "joins.__init__": BEFORE,
    "layers.__init__": BEFORE,
    "layers._image_shape": BEFORE,
    "operations.__init__": BEFORE,
    "polynomials._check": BEFORE,
    "refreshing.__init__": BEFORE,
    "results.__init__": BEFORE,
}
# Errors with advice that the tables do not provoke, and what does.
RESIDUES = "tests/program/test_residues.py"
ELSEWHERE = {
    **dict.fromkeys(("crt.check_exact_bounds", "crt.exact_numbers", "crt.finished"), RESIDUES),
    **dict.fromkeys(
        ("fixed_point._in_integers", "fixed_point._pieces", "fixed_point.fixed_numbers"), RESIDUES
    ),
    **dict.fromkeys(("fixed_point.in_integers", "modular.check_integers"), RESIDUES),
    **dict.fromkeys(("modular.check_one_modulus", "modular.whole_numbers"), RESIDUES),
    "deferred._fitted": "advice of another error",
    "exact.check_exact": "tests/corpus",
    "nodes.operation": "who writes an operation of their own",
    "polynomials.__init__": BEFORE,
    "polynomials._check": BEFORE,
    "samples.made": "bounds are refused before values overflow",
}
A = np.arange(16.0).reshape(4, 4) / 16 - 0.5
OPERANDS = {
    "x": cb.secret(4),
    "a": cb.secret(4, 4),
    "d": cb.secret(4, 4),
    "b": cb.secret(4, 6),
    "c": cb.secret(3, 5),
    "t": cb.secret(1, 6, 6),
    "n": cb.secret(),
    "long": cb.secret(100000),
    "p": cb.public(4, 4),
}


def _values(*shape: int) -> Any:
    return np.linspace(-0.5, 0.5, math.prod(shape)).reshape(shape)


NAMES = {
    **{"cb": cb, "np": np, "math": math, "functools": functools, "A": A, "W": _values, "run": trace},
    **{"Batch": Batch, "Operand": Operand, "Samples": Samples, "flattened": flattened},
    "OPERANDS": {name: OPERANDS[name] for name in ("a", "x")},
}


def _written(formula: str) -> None:
    def function(**nodes: Any) -> Any:
        batches = {"batch": Batch([nodes["a"], nodes["d"]]), "batch3": Batch([nodes["a"]] * 3)}
        return eval(formula, {**NAMES, **nodes, **batches})

    trace(function, OPERANDS)


def _declared(formula: str) -> None:
    eval(formula, dict(NAMES))


CASES = [(_written, *case) for case in WRITTEN.items()] + [(_declared, *case) for case in DECLARED.items()]


@pytest.mark.parametrize(("run", "formula", "followed"), [pytest.param(*case, id=case[1]) for case in CASES])
def test_advice_is_taken(run: Any, formula: str, followed: dict[str, str]) -> None:
    with pytest.raises(cb.CipherblasError) as caught:
        run(formula)
    error = caught.value
    advice = [one.write for one in error.advice if not is_rescaled(one)]
    assert advice == list(followed), str(error)
    assert all(len(line) <= MAX_LINE_LENGTH for line in str(error).splitlines())
    for changed in followed.values():
        run(changed)


def test_errors_without_advice_are_known() -> None:
    assert {site.function for site in sites(["lang"]) if not site.advised} == set(WITHOUT)


def test_all_advice_is_provoked() -> None:
    """Where an error with advice is made, one of the tables comes by."""
    provoked = set()
    for run, formula, _ in CASES:
        try:
            run(formula)
        except cb.CipherblasError as error:
            for frame in traceback.extract_tb(error.__traceback__)[-2:]:
                provoked.add(f"{Path(frame.filename).stem}:{frame.lineno}")
    missing = {
        site.function: site.line for site in sites(["lang"]) if site.advised and site.line not in provoked
    }
    assert set(missing) == set(ELSEWHERE), sorted(set(missing).symmetric_difference(ELSEWHERE))
