"""Options are monotone: to name what the planner would take anyway, or more of it, never makes a plan worse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.refreshing import is_refreshed
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.rings import modulus_chains, sizing
from cipherblas.planner.search.budgets import Budgets, budgets_of, secret_entries
from tests.support.runs import TOY, toy

S = cb.secret
WEIGHTS = np.random.default_rng(1).normal(size=(16, 16)) / 64


@pytest.fixture(scope="module", autouse=True)
def shallow() -> Any:
    """Rings with so few levels that short programs are too deep for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modulus_chains, "MAX_WORKING_LEVELS", 5)
        patch.setattr(sizing, "MAX_INSECURE_LIMBS", 12)
        yield


def dense_layers(x: Any) -> Any:
    for _ in range(6):
        x = cb.assume(cb.square(WEIGHTS @ x) - 0.5, 1.0)
    return x


def products(x: Any) -> Any:
    for _ in range(6):
        x = cb.assume(x @ x / 8, 1.0)
    return x


PROGRAMS: dict[str, tuple[Callable[..., Any], Mapping[str, Any], float]] = {
    "product": (lambda x, y: x @ y, {"x": S(8, 8), "y": S(8, 8)}, 0.01),
    "layers": (dense_layers, {"x": S(16)}, 0.3),
    "products": (products, {"x": S(8, 8)}, 0.7),
}


@pytest.fixture(scope="module", params=PROGRAMS)
def planned(request: pytest.FixtureRequest) -> tuple[Any, cb.Program]:
    function, operands, error = PROGRAMS[request.param]

    def planned_with(**options: Any) -> cb.Program:
        return toy(function, **operands, **{"error": error, **options})

    return planned_with, planned_with()


def budgets(program: cb.Program) -> Budgets:
    """Those that a plan had where none was named."""
    expression = program.expression
    return budgets_of(PlanOptions(**TOY), secret_entries(expression), is_refreshed(expression))


# What the planner takes where nothing is said.
TAKEN: dict[str, Callable[[cb.Program], Any]] = {
    "error": lambda program: program.plan.asked_error,
    "memory_budget": lambda program: budgets(program).memory,
    "key_budget": lambda program: budgets(program).keys,
    "upload_budget": lambda program: budgets(program).upload,
    "ring_degree": lambda program: program.plan.parameters.n,
    "form": lambda program: "mixed" if program.plan.decided.forms else program.plan.form,
    "algorithm": lambda program: program.plan.algorithm,
    "key_policy": lambda program: program.plan.key_policy,
    "order": lambda program: program.plan.order,
    "threads": lambda program: program.plan.threads,
    "parameters": lambda program: program.plan.parameters,
    "minimise": lambda program: program.plan.minimise,
    "promise": lambda program: program.plan.promise.name,
    "slack": lambda program: 1.5,
    "range": lambda program: "promised",
    "link": lambda program: program.plan.link,
    "machine": lambda program: program.plan.machine,
    "block": lambda program: None if program.plan.form == "tensors" else 1 << 17,  # it is of matrices
}
# Of deep programs these are named together, since none of them forces a part of the plan; of a product each alone.
BESIDE = ("threads", "minimise", "promise", "slack", "range", "link", "machine", "order")
# Of these more may be given: so many times.
AMOUNTS = {"error": 1.4, "memory_budget": 3, "key_budget": 3, "upload_budget": 3, "threads": 2, "link": 10}


@pytest.mark.parametrize("options", [(one,) for one in TAKEN if one not in BESIDE] + [BESIDE], ids="-".join)
def test_what_is_taken_anyway_may_be_named(planned: tuple[Any, cb.Program], options: tuple[str, ...]) -> None:
    planned_with, program = planned
    each = [options] if is_refreshed(program.expression) else [(one,) for one in options]
    for names in each:
        found = planned_with(**{name: TAKEN[name](program) for name in names})
        assert found.plan.minimised <= 1.001 * program.plan.minimised, names


@pytest.mark.parametrize("option", AMOUNTS)
def test_more_of_it_is_no_worse(planned: tuple[Any, cb.Program], option: str) -> None:
    planned_with, program = planned
    found = planned_with(**{option: AMOUNTS[option] * TAKEN[option](program)})
    assert found.plan.minimised <= 1.001 * program.plan.minimised


def test_every_option_is_looked_at() -> None:
    # `error` in other words; those of TOY; what asks for another promise, or for other clients
    others = {"precision", "security", "insecure", "options", "samples", "agreement", "for_peer"}
    assert others | set(TAKEN) == set(PlanOptions.__dataclass_fields__)


MISSPELLED = [
    *[("form", "block", "blocks"), ("form", "Rows", "rows"), ("form", "mixture", "mixed")],
    *[("order", "limbs", "limb"), ("key_policy", "bianry", "binary"), ("key_policy", "DIRECT", "direct")],
    *[("minimise", "servr", "server"), ("minimise", "end_to_end", "end-to-end")],
    *[("promise", "sample", "samples"), ("promise", "bound", "bounds"), ("range", "clamp", "clamped")],
    *[("algorithm", "Gemm", "gemm"), ("algorithm", "fhe_mm", "fhe-mm")],
]


@pytest.mark.parametrize(("option", "written", "meant"), MISSPELLED)
def test_the_nearest_value_is_advised(option: str, written: str, meant: str) -> None:
    with pytest.raises(cb.ParameterError) as caught:
        PlanOptions.given({option: written, **TOY})
    (advice,) = caught.value.advice
    assert (advice.write, advice.options) == (f'{option}="{meant}"', {option: meant})
    samples = {"samples": {"x": np.zeros((2, 4))}} if meant == "samples" else {}
    assert getattr(PlanOptions.given({**advice.options, **samples, **TOY}), option) == meant


@pytest.mark.parametrize("option", ["form", "order", "key_policy", "minimise", "promise", "algorithm"])
def test_where_no_value_is_near_the_option_is_left_out(option: str) -> None:
    with pytest.raises(cb.ParameterError) as caught:
        PlanOptions.given({option: "?", **TOY})
    assert [advice.write for advice in caught.value.advice] == [f"the same without {option}="]


def test_a_misspelled_option_is_named() -> None:
    with pytest.raises(cb.MismatchError) as caught:
        PlanOptions.given({"minimize": "server", **TOY})
    assert [advice.write for advice in caught.value.advice] == ["minimise=", "the same without minimize="]
