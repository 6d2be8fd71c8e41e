"""Why there is no plan: what the alternative that came nearest lacks is told, and the options that are advised do."""

from __future__ import annotations

from typing import Any

import pytest

import cipherblas as cb
from cipherblas.common.errors import Advice
from cipherblas.planner.rings import modulus_chains, sizing
from cipherblas.planner.search.budgets import Need, over_budget
from cipherblas.planner.search.refusals import nearest
from tests.support.runs import toy

S = cb.secret
PAIR = {"a": S(16, 16), "b": S(16, 16)}


def squares(x: Any) -> Any:
    for _ in range(14):
        x = cb.assume(x * x, 1.0)
    return x


def product(a: Any, b: Any) -> Any:
    return a @ b


def test_the_nearest_alternative_is_told_and_what_lifts_the_others_is_advised() -> None:
    keys = over_budget("a method", {"key_budget": Need(8 << 20, 1 << 20)})
    upload = over_budget("another", {"upload_budget": Need(3 << 20, 2 << 20, "by default")})
    imprecise = cb.PrecisionError("It is not precise enough.", advice=Advice("error=0.2", {"error": 0.2}))
    imprecise.shortfall = 1.0
    found = nearest([cb.PrecisionError("There is no ring."), keys, imprecise, upload])
    assert found is upload and found.shortfall == pytest.approx(0.585, abs=1e-3)
    assert [one.write for one in found.advice] == ["upload_budget=3 << 20", "error=0.2", "key_budget=8 << 20"]
    assert str(found).splitlines()[0] == (
        "No plan fits the budgets; the nearest one, by another, uploads 3.0 MiB, upload_budget is 2.0 MiB, by default."
    )


def test_budgets_that_lack_together_are_advised_together() -> None:
    needs = {"key_budget": Need(4 << 20, 1 << 20), "memory_budget": Need(100 << 20, 50 << 20)}
    found = over_budget("a method", needs)
    assert found.shortfall == 3.0
    (advice,) = found.advice
    assert advice.options == {"key_budget": 4 << 20, "memory_budget": 102 << 20}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"upload_budget": 100}, "upload_budget"),
        ({"key_budget": 1000, "algorithm": "skewed"}, "key_budget"),
        ({"memory_budget": 1 << 19, "algorithm": "skewed"}, "memory_budget"),
        ({"upload_budget": 1000, "key_budget": 1000, "algorithm": "skewed"}, "upload_budget"),
    ],
    ids=["upload", "keys", "memory", "several"],
)
def test_the_budgets_that_are_advised_do(options: dict[str, Any], named: str) -> None:
    with pytest.raises(cb.MemoryBudgetError) as caught:
        toy(product, **PAIR, **options)
    assert named in caught.value.advice[0].options and f"{named}=" in str(caught.value)
    toy(product, **PAIR, **{**options, **caught.value.advice[0].options})


@pytest.mark.parametrize("asked", [{"error": 1e-6}, {"precision": 1e-6}])
def test_what_refreshed_values_lack_is_told(monkeypatch: pytest.MonkeyPatch, asked: dict[str, float]) -> None:
    monkeypatch.setattr(modulus_chains, "MAX_WORKING_LEVELS", 5)
    monkeypatch.setattr(sizing, "MAX_INSECURE_LIMBS", 12)
    with pytest.raises(cb.PrecisionError, match=r"refreshed values are .* times less precise") as caught:
        toy(squares, x=S(8, 8), **asked)
    advice = caught.value.advice[0]
    assert advice.options.keys() == asked.keys()
    program = toy(squares, x=S(8, 8), **advice.options)
    assert 0.5 * program.plan.error_target < program.plan.error  # no coarser than it must be
