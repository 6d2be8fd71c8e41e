"""Operands whose mean and deviation are taken out where they are encrypted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import Parties, run_by_files, toy

RANDOM = np.random.default_rng(5)
WEIGHTS = RANDOM.normal(0, 0.3, (5, 8))
MEAN, DEVIATION = RANDOM.uniform(-3, 3, 8), RANDOM.uniform(0.5, 2, 8)
pytestmark = [
    pytest.mark.encrypted,
    pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning"),
]

OPERANDS: dict[str, tuple[Any, Any, Any]] = {
    "vector": (lambda x: WEIGHTS @ x, cb.secret(8, bound=4, normalise=(MEAN, DEVIATION)), (8,)),
    "public key": (
        lambda x: WEIGHTS @ x,
        cb.secret(8, bound=4, normalise=(MEAN.tolist(), 2), encryption="public-key"),
        (8,),
    ),
    "matrix": (lambda x: x @ x.T, cb.secret(8, 3, bound=4, normalise=(MEAN, 1.5)), (8, 1)),
    "number": (lambda x: x * x, cb.secret(bound=4, normalise=(1.5, [0.25])), ()),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_encrypted(name: str, tmp_path: Path) -> None:
    """As the program of what is left, in the clear and encrypted, from files."""
    function, operand, axis = OPERANDS[name]
    program = toy(function, x=operand, precision=1e-3)
    mean, deviation = (
        np.broadcast_to(np.reshape(one, axis if np.size(one) > 1 else ()), operand.shape)
        for one in (operand.normalise.mean, operand.normalise.deviation)
    )
    left = RANDOM.uniform(-4, 4, operand.shape)
    given = mean + deviation * left
    np.testing.assert_allclose(program.evaluate({"x": given}), function(left), rtol=1e-9, atol=1e-9)
    found = run_by_files(program, {"x": given}, tmp_path)
    found.check()
    assert np.abs(found.decrypted - function(left)).max() <= program.plan.error


def test_samples_are_given_as_inputs_are() -> None:
    operand = cb.secret(8, bound=4, normalise=(MEAN, DEVIATION))
    left = RANDOM.uniform(-1, 1, (30, 8))
    found = [
        toy(lambda x: cb.square(WEIGHTS @ x), x=one, samples={"x": values}, error=1e-2).plan
        for one, values in ((operand, MEAN + DEVIATION * left), (cb.secret(8, bound=4), left))
    ]
    assert found[0].results[0].bound == pytest.approx(found[1].results[0].bound)


def test_bytes_are_not_rounded() -> None:
    program = toy(lambda x: 2.0 * x, x=cb.secret(4, normalise=(127.5, 127.5)), precision=1e-6)
    parties = Parties(program)
    pixels = np.array([0, 1, 200, 255], np.uint8)
    found = parties.client.decrypt(parties.server.run(parties.inputs({"x": pixels})))
    assert np.abs(found - (pixels / 127.5 - 1) * 2).max() <= program.plan.error
    assert program.operands["x"] == cb.secret(4, normalise=([127.5], (127.5,)))
    assert program.id != toy(lambda x: 2.0 * x, x=cb.secret(4), precision=1e-6).id


def test_values_that_overflow_are_refused() -> None:
    client = toy(lambda x: 2.0 * x, x=cb.secret(4, normalise=(0.0, 1e-9)), precision=1e-3).client()
    with pytest.raises(cb.RangeError, match="taken out, has an entry beyond"):
        client.encrypt({"x": np.full(4, 1e308)})
