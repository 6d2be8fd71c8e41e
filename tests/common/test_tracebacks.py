"""Tracebacks of refusals, as users see them."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common import tracebacks

OPERANDS = {"x": cb.secret(8, 16)}


def layer(x: cb.Expression) -> cb.Expression:
    return x @ cb.relu(x)


def own_fault(x: cb.Expression) -> cb.Expression:
    raise ValueError("of the user")


def lines(call: Callable[[], object]) -> tuple[list[str], int]:
    """The functions of a traceback that are in this file, from outside, and how many others there are."""
    with pytest.raises(Exception) as found:  # noqa: PT011
        call()
    frames = traceback.extract_tb(found.value.__traceback__)
    here = [one.name for one in frames if one.filename == __file__]
    return here, len(frames) - len(here)


def test_lines_of_the_package_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tracebacks.SWITCH)
    here, others = lines(lambda: cb.compile(lambda x: layer(x) + 1, OPERANDS))
    assert here[-2:] == ["<lambda>", "layer"]
    assert others == 1
    client = cb.compile(lambda x: x + 1, OPERANDS).client()
    for call in (
        lambda: client.encrypt({"x": np.ones((3, 3))}),
        lambda: client.encrypt({"y": 1}),
        lambda: client.decrypt(1),
    ):
        assert lines(call)[1] == 1


def test_causes_are_shortened_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tracebacks.SWITCH)
    with pytest.raises(cb.PrecisionError) as found:
        cb.compile(lambda x: cb.sigmoid(x), OPERANDS, precision=1e-15)
    cause = found.value.__cause__
    assert all(
        tracebacks.PACKAGE not in one.filename for one in traceback.extract_tb(cause and cause.__traceback__)
    )


def test_other_errors_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are no refusals: somebody has to find their cause."""
    monkeypatch.delenv(tracebacks.SWITCH)
    assert lines(lambda: cb.compile(own_fault, OPERANDS))[1] > 1


def test_all_lines_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tracebacks.SWITCH, "full")
    assert lines(lambda: cb.compile(layer, OPERANDS))[1] > 3
