"""Computed matrices as one value and parts of one, encrypted, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.encrypted,
    pytest.mark.usefixtures("as_written"),
]
INSECURE: dict[str, Any] = {"form": "mixed", "insecure": True, "security": 0, "ring_degree": 4096}
RNG = np.random.default_rng(7)


def uniform(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.uniform(-1, 1, shape)


QUERY, KEY, VALUE, LAST = uniform(7, 10), uniform(7, 10), uniform(7, 12), uniform(12, 3)
WHOLE = uniform(6, 9)


def attention(X: Any, cuts: Any = 2, heads: int = 2, by: int = 1) -> Any:
    """Heads whose scores, and what they weigh, are refreshed as one value."""
    x = X if by == 1 else X.T
    queries, keys, values = (cb.split(x @ part, cuts, axis=1) for part in (QUERY, KEY, VALUE))
    scores = [cb.assume(q @ k.T, 8.0) for q, k in zip(queries, keys, strict=True)]
    weights = cb.split(cb.square(cb.refresh(cb.joined(scores, axis=1))), heads, axis=1)
    found = cb.joined([w @ v for w, v in zip(weights, values, strict=True)], axis=1)
    return cb.assume(found, 400.0) @ LAST


def across(X: Any) -> Any:
    """Columns of a joined value, from the middle of one head to that of the next, of which less is promised."""
    queries, keys = (cb.split(X @ part, 2, axis=1) for part in (QUERY, KEY))
    scores = [cb.assume(q @ k.T, 8.0) for q, k in zip(queries, keys, strict=True)]
    weights = cb.square(cb.refresh(cb.joined([scores[0], 0.25 * scores[1]], axis=1)))
    _, some, _ = cb.split(weights, [13, 33], axis=1)
    return cb.assume(cb.assume(some, 50.0) @ (X @ VALUE), 400.0) @ LAST


def rows_of(X: Any) -> Any:
    """Joined and cut along rows, one part longer than the other."""
    parts = cb.split(WHOLE @ cb.square(X), [2], axis=0)
    whole = cb.square(cb.refresh(cb.joined([2.0 * parts[1], parts[0]], axis=0)))
    return VALUE[:6].T @ cb.joined(cb.split(whole, [1, 3], axis=0)[::-1], axis=0)


def turned(X: Any) -> Any:
    """What lies by rows, joined along columns."""
    left = WHOLE @ cb.square(X)
    right = cb.square(X).T @ WHOLE.T
    return cb.square(cb.refresh(cb.joined([left, right.T], axis=1)))


# What is computed, of X of a shape, the error that is allowed, and how often a modulus is raised.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, int], float, int]] = {
    "heads": (attention, (32, 7), 1e3, 1),
    "heads that begin within an element": (attention, (20, 7), 1e3, 1),
    "heads of unequal widths": (lambda X: attention(X, cuts=[3, 4, 9], heads=4), (12, 7), 1e3, 1),
    "parts across heads, with smaller bounds": (across, (20, 7), 20.0, 1),
    "rows": (rows_of, (9, 5), 40.0, 1),
    "what lies by rows, along columns": (turned, (9, 5), 2.0, 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_against_numpy(name: str) -> None:
    """Entries of every size, and at their bound."""
    function, shape, allowed, raised = PROGRAMS[name]
    program = cb.compile(function, {"X": cb.secret(*shape, bound=0.5)}, **INSECURE, error=allowed)
    assert program.plan.error < program.worst_error
    client = program.client()
    server = program.server(client.evaluation_keys())
    for x in (0.5 * uniform(*shape), 0.5 * np.sign(uniform(*shape))):
        x[0], x[:, 1] = 0, 0.5
        found = client.decrypt(server.run(client.encrypt({"X": x})))
        assert server.last.counts == program.plan.counts and server.last.counts.modulus_raises == raised
        error = np.abs(found - program.evaluate({"X": x})).max()
        assert error < min(program.plan.error, 0.02 * np.abs(found).max())
