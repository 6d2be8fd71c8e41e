"""An operand that is used at several levels in one layout is sent once; limbs are dropped where it is used later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import run, toy, values_of

S = cb.secret


def gradients(X: Any, w: Any) -> Any:
    """As logistic regression has them: the data at every step."""
    for _ in range(3):
        w = w - 0.01 * (X.T @ (X @ w))
    return w


# With ciphertexts that the client sends at most: one for each layout.
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any], int]] = {
    "cubes": (lambda x: x * x * x, {"x": S(4, 4)}, {}, 1),
    "products with itself": (lambda x: (x @ x) @ x, {"x": S(4, 4)}, {"algorithm": "outer-product"}, 2),
    "gradients": (gradients, {"X": S(6, 3), "w": S(3)}, {"algorithm": "diagonals"}, 6),
    "a vector in tensors": (
        lambda x: cb.polynomial(cb.square(x) * x, [0, 1, 0.5]) * x,
        {"x": S(5)},
        {"form": "tensors"},
        1,
    ),
}


@pytest.mark.encrypted
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_sent_with_more_limbs_is_not_sent_again(name: str) -> None:
    function, operands, options, most = PROGRAMS[name]
    program = toy(function, **operands, **options)
    assert program.plan.upload_ciphertexts <= most
    for operand in operands:
        inputs = program.inputs_of(operand)
        for one in inputs:
            alike = [
                other
                for other in inputs
                if (other.transposed, other.steps, other.form.key, other.scale, other.unit)
                == (one.transposed, one.steps, one.form.key, one.scale, one.unit)
            ]
            assert max(other.limbs for other in alike) == alike[-1].limbs
    run(program, values_of(program)).check()


def test_uploads_that_nobody_limits_may_be_those_of_refreshed_programs(monkeypatch: Any) -> None:
    """Where nothing else lacks: ciphertexts of deep programs are large."""
    monkeypatch.setattr("cipherblas.planner.search.budgets.MIN_UPLOAD", 1 << 10)
    monkeypatch.setattr("cipherblas.planner.search.budgets.UPLOAD_RATIO", 1)

    def squares(x: Any) -> Any:
        return cb.square(cb.square(x))

    program = toy(squares, x=S(4, 4))
    assert program.plan.upload_bytes > 1 << 10
    run(program, values_of(program)).check()
    with pytest.raises(cb.MemoryBudgetError, match=r"upload_budget is 1\.0 KiB"):
        toy(squares, x=S(4, 4), upload_budget=1 << 10)


def test_values_at_the_bounds_stay_within_the_promise() -> None:
    """Errors of one encryption meet in sums: they are not taken for independent ones."""
    program = toy(lambda x: x * x * x + x * x + x, x=S(4, 4))
    for filling in (1.0, -1.0, 0.0):
        values = {"x": np.full((4, 4), filling)}
        run(program, values).check()
