"""What a plan says of the ways that it did not take."""

from __future__ import annotations

import re

import pytest

import cipherblas as cb
from cipherblas.planner.plan.explain import beside
from tests.corpus.machine import MACHINE


def test_the_form_that_is_taken_is_not_among_those_that_are_not() -> None:
    """It failed in smaller rings, which says nothing about the ring that carries it."""
    plan = cb.compile(
        lambda x: 0.5 * cb.relu(cb.assume(x, 1.0), precision=0.02),
        {"x": cb.secret(10)},
        precision=0.05,
        machine=MACHINE,
    ).plan
    assert plan.form == "tensors"
    assert [one.algorithm for one in plan.rejected] == ["gemm"]


@pytest.mark.parametrize(
    ("seconds", "taken", "text"),
    [
        (3.0, 2.0, "fame, 1.5 times"),
        (2.0, 2.0, "fame, 1.0 times"),
        (1.0, 2.0, "fame, faster here, slower in all"),
        (1.0, 0.0, "fame, 1000000000000.0 times"),
    ],
)
def test_what_was_nearly_taken(seconds: float, taken: float, text: str) -> None:
    assert beside("fame", seconds, taken) == text


def test_what_was_nearly_taken_never_seems_better() -> None:
    """Squared distances, where some products in fewer levels or better layouts are not the fastest ones."""
    program = cb.compile(
        lambda t, q: (t * t).sum(1)[:, None] - 2 * (t @ q.T) + (q * q).sum(1),
        {"t": cb.secret(135, 4), "q": cb.secret(15, 4)},
        form="blocks",
        machine=MACHINE,
    )
    found = list(program.plan.runners_up.values())
    assert any(text.endswith("faster here, slower in all") for text in found)
    times = [float(match[1]) for text in found if (match := re.search(r"([\d.]+) times$", text))]
    assert times and all(one >= 1 for one in times)
