"""Scales beyond one prime: a level of two limbs, where and only where the error that is asked for needs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.planner.rings.sizing import MAX_SCALE_BITS, MAX_WIDE_SCALE_BITS
from cipherblas.rlwe.noise.slots import TRANSFORM_ROUNDING
from tests.support.runs import Parties, comes_back, run_by_files, toy

RNG = np.random.default_rng(49)
W = RNG.uniform(-1, 1, (8, 8))
FAR = {"x": 1e5 + RNG.uniform(-0.5, 0.5, (16, 3))}
NEAR = {"x": RNG.uniform(-1, 1, (8, 8)), "y": RNG.uniform(-1, 1, (8, 8))}


class Case(NamedTuple):
    function: Callable[..., Any]
    operands: dict[str, Any]
    values: dict[str, Any]
    error: float
    options: Mapping[str, Any] = MappingProxyType({})


def _centred(x: Any) -> Any:
    return x - x.mean(axis=0)


OF_FAR = {"x": cb.secret(16, 3, bound=100001)}
OF_NEAR = {"x": cb.secret(8, 8), "y": cb.secret(8, 8)}
BY_SLOTS, BY_COLUMNS = {"algorithm": "skewed"}, {"algorithm": "outer-product"}
CASES = {
    "covariances": Case(
        lambda x: _centred(x).T @ _centred(x) / 16, OF_FAR, FAR, 0.0025, {"algorithm": "outer-product"}
    ),
    "variances": Case(lambda x: x.var(axis=0), OF_FAR, FAR, 0.0025, BY_COLUMNS),
    "x @ w": Case(lambda x, y: (x @ W) * y, OF_NEAR, NEAR, 3e-11, BY_SLOTS),
    "x * y": Case(lambda x, y: x * y * x, OF_NEAR, NEAR, 1e-11),
    "sums": Case(lambda x, y: (x * y).sum(axis=0) * x[0], OF_NEAR, NEAR, 1e-10, BY_SLOTS),
    "products": Case(lambda x, y: x @ y @ x, OF_NEAR, NEAR, 1e-11, BY_SLOTS),
    "polynomial": Case(lambda x: 0.5 + x - 0.3 * x**3 + 0.1 * x**6, {"x": cb.secret(8, 8)}, NEAR, 1e-11),
    "clear addend": Case(lambda x, y: x * x * y + W, OF_NEAR, NEAR, 1e-11),
}


def planned(case: Case, **more: Any) -> cb.Program:
    return toy(case.function, **case.operands, error=case.error, **{**case.options, **more})


@pytest.mark.parametrize("name", CASES)
def test_errors_that_one_prime_does_not_reach(name: str) -> None:
    case = CASES[name]
    program = planned(case)
    plan = program.plan
    assert plan.form == "blocks" and plan.parameters.level_limbs == 2
    assert MAX_SCALE_BITS < plan.parameters.scale_bits <= MAX_WIDE_SCALE_BITS
    parties = Parties(program)
    values = {one: case.values[one] for one in case.operands}
    found = parties.client.decrypt(parties.server.run(parties.inputs(values)))
    error = float(np.abs(np.asarray(found) - case.function(**values)).max())
    assert error <= plan.error <= plan.error_target == pytest.approx(case.error)
    assert parties.server.last.counts == plan.counts


@pytest.mark.filterwarnings("ignore::cipherblas.common.errors.SecurityWarning")
@pytest.mark.parametrize("name", [*CASES, "layer"])
def test_scales_beyond_the_integers_of_clear_vectors(name: str) -> None:
    """Clear vectors have 61 bits, and a factor makes up for the rest."""
    params = make_parameters(
        4096, [49.0] * 4 + [33.0] * 12, alpha=4, scale_bits=66.0, security=0, insecure=True, level_limbs=2
    )
    layer = Case(lambda x: (x @ W) ** 2 @ W.T, {"x": cb.secret(8)}, {"x": NEAR["x"][0]}, 1.0)
    case = CASES.get(name, layer)
    operands, form = case.operands, "tensors" if name == "layer" else "blocks"
    program = cb.compile(
        case.function, operands, parameters=params, security=0, insecure=True, form=form, **case.options
    )
    plan = program.plan
    assert plan.parameters == params and Symbolic(params).policy.mask_bits == 5
    parties = Parties(program)
    values = {one: case.values[one] for one in case.operands}
    found = parties.client.decrypt(parties.server.run(parties.inputs(values)))
    assert float(np.abs(np.asarray(found) - case.function(**values)).max()) <= plan.error
    assert parties.server.last.counts == plan.counts


def test_files() -> None:
    case = CASES["x * y"]
    program = planned(case)
    comes_back(program)


def test_parties_of_files(tmp_path: Path) -> None:
    case = CASES["variances"]
    run_by_files(planned(case), case.values, tmp_path).check()


def test_a_coarser_error_takes_one_prime() -> None:
    case = CASES["polynomial"]
    plan = planned(case._replace(error=1e-6)).plan
    assert plan.parameters.level_limbs is None and "level_limbs" not in plan.parameters.to_dict()


def test_what_no_scale_reaches_is_refused_with_the_largest() -> None:
    case = CASES["polynomial"]
    with pytest.raises(cb.PrecisionError, match="70 bits allowed"):
        planned(case._replace(error=1e-15))


def test_a_plan_says_how_its_scale_is_made() -> None:
    text = planned(CASES["x * y"]).explain()
    (line,) = (line for line in text.splitlines() if line.startswith("scale "))
    assert line.endswith(", of 2 primes: a level takes 2 limbs")
    assert "levels spent" in text


# ---- parameters ----


def wide(**more: Any) -> Parameters:
    arguments = {"scale_bits": 58.0, "security": 0, "insecure": True, "level_limbs": 2, **more}
    return make_parameters(256, [48.0, 48.0, 29.0, 29.0, 29.0, 29.0], **arguments)


@pytest.mark.filterwarnings("ignore::cipherblas.common.errors.SecurityWarning")
def test_parameters_keep_the_limbs_of_a_level() -> None:
    params = wide()
    stored = json.loads(json.dumps(params.to_dict()))
    assert stored["level_limbs"] == 2
    assert Parameters.from_dict(stored, insecure=True) == params
    assert replace(params, level_limbs=None, insecure=True).fingerprint() != params.fingerprint()


@pytest.mark.parametrize("number", [0, 1, 3, 2.0, True, "2"])
def test_other_limbs_of_a_level_are_refused(number: Any) -> None:
    with pytest.raises(cb.ParameterError, match="limbs of a level"):
        wide(level_limbs=number)


@pytest.mark.filterwarnings("ignore::cipherblas.common.errors.SecurityWarning")
def test_a_level_is_two_limbs_everywhere() -> None:
    params = wide()
    ev = Symbolic(params)
    x = ev.fresh(None, bound=1.0)
    square = ev.multiply_relinearised(x, x)
    assert ev.rescale(square).limbs == ev.rescaled(square).limbs == x.limbs - 2
    assert ev.rescale(square).scale == pytest.approx(x.scale**2 / params.q[-1] / params.q[-2])
    assert ev.counts.rescales == 3 * 2
    moved = ev.add(square, ev.rescaled(square))  # brought to one scale, which takes no level here
    assert moved.limbs == x.limbs - 2
    with pytest.raises(cb.LevelError, match="No limb is left"):
        ev.rescale(ev.drop(x, 2))
    with pytest.raises(cb.LevelError, match="at least 7 limbs"):
        ev.require_levels(x, 3, "a product")


@pytest.mark.filterwarnings("ignore::cipherblas.common.errors.SecurityWarning")
def test_what_takes_a_level_for_one_limb_refuses() -> None:
    ev = Native(wide(), None)
    x = Symbolic(wide()).fresh(None, bound=1.0)
    for call in (
        lambda: ev.raise_modulus(x, 2, 1.0),
        lambda: ev.element_of(x),
        lambda: ev.of_element(None, limbs=1, scale=1.0, bound=1.0),
        lambda: ev.joined([x], ev),
        lambda: ev.parted(x, ev),
    ):
        with pytest.raises(cb.ParameterError, match="one limb"):
            call()


@pytest.mark.filterwarnings("ignore::cipherblas.common.errors.SecurityWarning")
def test_a_refresh_is_refused_with_forced_parameters() -> None:
    with pytest.raises(cb.CipherblasError):
        toy(lambda x: cb.refresh(x * x) * x, x=cb.secret(8, 8), parameters=wide())


# ---- the rounding of double precision ----


@pytest.mark.parametrize("kind", ["uniform", "signs", "far", "mask"])
def test_transforms_of_clear_vectors_err_as_is_counted(kind: str) -> None:
    """Against sums in extended precision, at a scale that rounds coefficients far less."""
    n = 256
    params = make_parameters(n, [48.0], special_limbs=0, security=0, insecure=True)
    slots, rng, scale = n // 2, np.random.default_rng(3), 2.0**60
    values = {
        "uniform": rng.uniform(-1, 1, slots),
        "signs": rng.choice([-1.0, 1.0], slots),
        "far": 1 - rng.uniform(0, 1e-5, slots),
        "mask": (np.arange(slots) < slots // 2) * 1.0,
    }[kind]
    coefficients = params.context().encode(values, scale, 7).astype(np.longdouble)
    turns = np.array([pow(5, j, 2 * n) for j in range(slots)])[:, None] * np.arange(n) % (2 * n)
    pi = np.arctan(np.longdouble(1)) * 4
    found = (coefficients * np.cos(pi * np.arange(2 * n).astype(np.longdouble) / n)[turns]).sum(
        axis=1
    ) / scale
    errors = (found - values).astype(float)
    deviation = TRANSFORM_ROUNDING * np.sqrt(np.log2(n))
    assert np.sqrt((errors**2).mean()) <= deviation
    assert np.abs(errors).max() <= 8 * deviation
