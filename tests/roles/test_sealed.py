"""Encrypted operands and results in the hands of somebody who takes them for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import toy_rows

pytestmark = [
    pytest.mark.encrypted,
    pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning"),
]


@pytest.fixture(scope="module")
def sent() -> tuple[cb.EncryptedOperand, cb.EncryptedResult, cb.EncryptedResult]:
    """An operand, a result, and two results by their names."""
    weights = np.eye(3)
    one = toy_rows(lambda x: weights @ x, x=cb.secret(3, 4))
    several = toy_rows(lambda x: {"left": weights @ x, "right": weights @ x + weights @ x}, x=cb.secret(3, 4))
    found = []
    for program in (one, several):
        client = program.client()
        sent = client.encrypt({"x": np.ones((3, 4))})
        found += [sent["x"], program.server(client.evaluation_keys()).run(sent)]
    return found[0], found[1], found[3]


def test_no_array_is_made_of_what_is_encrypted(sent: tuple[Any, ...]) -> None:
    operand, *results = sent
    for make in (np.asarray, np.array, lambda x: np.asarray(x, np.float64), lambda x: np.add(x, 1.0), np.sum):
        with pytest.raises(cb.DTypeError, match=r"EncryptedOperand is encrypted, not an array"):
            make(operand)
        for result in results:
            with pytest.raises(cb.DTypeError, match=r"client\.decrypt\(result\), which gives its values"):
                make(result)


def test_a_line_for_people(sent: tuple[Any, ...]) -> None:
    operand, result, several = sent
    for one in sent:
        assert len(repr(one)) < 160 and "\n" not in repr(one)
        assert f"program {one.program_id[:8]}, key {one.key_id[:8]}" in repr(one)
    assert repr(operand).startswith("EncryptedOperand('x', 3x4, ")
    assert repr(result).startswith("EncryptedResult(3x4, ")
    assert repr(several).startswith("EncryptedResult(left: 3x4, right: 3x4, ")


def test_parameters_in_a_line() -> None:
    parameters = cb.compile(lambda a: 2 * a, {"a": cb.secret(4)}, form="tensors").plan.parameters
    assert repr(parameters).startswith(f"Parameters(N = {parameters.n}, ") and len(repr(parameters)) < 120
    assert "128 bits of security" in repr(parameters)
