"""What is advised in place of options that no plan meets: less security comes last, and is said."""

from __future__ import annotations

from typing import Any

import pytest

import cipherblas as cb
from cipherblas.common.errors import MemoryBudgetError
from cipherblas.planner import asking
from cipherblas.planner.plan.passes import PlanRequest
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.feasible import Infeasible
from tests.corpus.machine import MACHINE


def _advised(monkeypatch: pytest.MonkeyPatch, fits: Any, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    """What is advised where programs are planned with the options that fit, and no others."""

    def planned(request: PlanRequest) -> Infeasible | None:
        return None if fits(request.options) else Infeasible(MemoryBudgetError("It does not fit."))

    monkeypatch.setattr(asking, "planned", planned)
    with pytest.raises(MemoryBudgetError) as caught:
        cb.compile(lambda a: a * a, {"a": cb.secret(4)}, **options)
    return [(one.write, dict(one.options)) for one in caught.value.advice]


def test_less_security_is_the_next_level(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _advised(monkeypatch, lambda options: options.security < 256, security=256)
    assert found == [("security=192: at 192 bits of security it fits", {"security": 192})]


def test_less_security_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def fits(options: PlanOptions) -> bool:
        return options.security == 128 or (options.ring_degree is None and options.form is None)

    found = _advised(monkeypatch, fits, security=192, ring_degree=8192, form="blocks")
    assert found == [("the same without form= and ring_degree=", {"form": None, "ring_degree": None})]


def test_less_security_and_fewer_options(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _advised(
        monkeypatch,
        lambda options: options.security == 128 and options.form is None,
        security=192,
        form="blocks",
    )
    both = "the same without form=, and security=128: at 128 bits of security it fits"
    assert found == [(both, {"form": None, "security": 128})]


def test_no_less_than_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _advised(monkeypatch, lambda options: options.security == 0) == []
    assert _advised(monkeypatch, lambda options: options.security == 0, security=192) == []


@pytest.mark.parametrize(("asked", "advised"), [(1, 128), (100, 128), (129, 192), (300, 256)])
def test_a_level_that_there_is_not(asked: int, advised: int) -> None:
    with pytest.raises(cb.ParameterError, match="no such level of security") as caught:
        cb.compile(lambda a: a * a, {"a": cb.secret(4)}, security=asked)
    assert [one.options for one in caught.value.advice] == [{"security": advised}]


def test_advice_that_does_is_not_planned_in_other_ways() -> None:
    said: list[str] = []
    operands = {name: cb.secret(8, 8) for name in "abcd"}
    with pytest.raises(cb.PrecisionError) as caught:
        cb.compile(
            lambda a, b, c, d: a @ b @ c @ d,
            operands,
            ring_degree=4096,
            machine=MACHINE,
            progress=said.append,
        )
    assert caught.value.advice[0].write == "the same without ring_degree="
    tried = said.index("whether the same without ring_degree= does")
    other = "how 4 factors are associated"
    assert other in said[:tried] and other not in said[tried:]
