"""Encrypted weights of products of features, many in a ciphertext, which the server takes apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import FitError, FormatError
from cipherblas.evaluators.slots.rotations import step_of
from cipherblas.forms.layouts import in_coefficients
from cipherblas.planner.search.features import FeatureStrategy
from cipherblas.roles.wire.packings import form_of_json
from cipherblas.runtime.blocks import COEFFICIENTS, FEATURES
from tests.corpus.machine import MACHINE
from tests.program.test_modular_features import S, features, network, ring
from tests.support.modular_runs import check, values_for
from tests.support.runs import Parties, comes_back, run, run_by_files, toy, values_of

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.encrypted]
SHAPES = {"x": (30, 6), "w": (6, 5), "v": (5, 4), "u": (4, 3)}
RNG = np.random.default_rng(4)


@pytest.fixture(params=[2, 4, 16, 64])
def each(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Planning packs so many weights, at most."""

    def families(strategy: Any, *_: Any) -> Any:
        yield ([strategy._candidate(n, request.param)] for n in strategy.degrees)

    monkeypatch.setattr(FeatureStrategy, "families", families)
    return int(request.param)


def packed(program: cb.Program) -> list[int]:
    choices = program.plan.decided.choices.values()
    return sorted(choice.options["each"] for choice in choices if choice.method == COEFFICIENTS)


def ciphertexts(each: int) -> int:
    """Of the operands."""
    return SHAPES["x"][1] + sum(-(-rows * cols // each) for rows, cols in list(SHAPES.values())[1:])


def test_integers(each: int) -> None:
    program = features(network, **{name: S(*shape) for name, shape in SHAPES.items()})
    assert packed(program) == [min(each, most) for most in (16, 32, 32)]
    assert program.plan.upload_ciphertexts == ciphertexts(each)
    assert f"{min(each, 16)} in a ciphertext" in program.explain()
    for seed in range(2):
        check(program, network, values_for(program, seed))
    comes_back(program)


def test_ends(each: int) -> None:
    program = features(network, **{name: S(*shape) for name, shape in SHAPES.items()})
    for number in (0, 1, -1, 65537 // 2, 65537 // 2 + 1):
        check(program, network, {name: np.full(shape, number) for name, shape in SHAPES.items()})


def test_real_numbers(each: int) -> None:
    operands = {name: cb.secret(*shape) for name, shape in SHAPES.items()}
    program = toy(network, form=FEATURES, precision=1e-2, **operands)
    assert packed(program) and program.plan.upload_ciphertexts == ciphertexts(each)
    run(program, values_of(program)).check()
    comes_back(program)
    for number in (0.0, 1.0, -1.0):
        Parties(program).run({name: np.full(shape, number) for name, shape in SHAPES.items()}).check()


def test_views_and_both_sides(each: int) -> None:
    def function(w: Any, x: Any) -> Any:
        return {"some": w[1:4, ::2] @ x[:4], "all": w @ x}

    program = features(function, w=S(5, 7), x=S(7, 30))
    assert packed(program)
    parties, values = Parties(program), values_for(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs(values)))
    wanted = function(**{name: value.astype(object) for name, value in values.items()})
    for name, value in found.items():
        assert np.array_equal(value, wanted[name] % 65537)


@pytest.mark.parametrize("kind", ["modulus", "fixed point", "real"])
def test_by_files(each: int, kind: str, tmp_path: Path) -> None:
    operand: Callable[..., Any] = {
        "modulus": S,
        "fixed point": lambda *shape: cb.secret(*shape, dtype="float64", fixed_point=4),
        "real": cb.secret,
    }[kind]
    operands = {name: operand(*SHAPES[name]) for name in ("x", "w")}
    program = (
        toy(lambda x, w: (x @ w) ** 2, form=FEATURES, precision=1e-2, **operands)
        if kind == "real"
        else features(lambda x, w: (x @ w) ** 2, **operands)
    )
    assert packed(program)
    values = {name: RNG.integers(-1, 2, one.shape) for name, one in program.operands.items()}
    run_by_files(program, values, tmp_path).check()


def test_planning_packs_what_is_slow_to_send() -> None:
    """At 128 bits; for the server alone there is nothing to gain."""

    def program(minimise: str, budget: int = 1 << 30) -> cb.Program:
        operands = {"x": S(2000, 16), "w": S(16, 64)}
        options: Any = {"minimise": minimise, "machine": MACHINE, "threads": 1, "form": FEATURES}
        return cb.compile(lambda x, w: x @ w + 1, operands, upload_budget=budget, **options)

    sent, kept = program("end-to-end"), program("server")
    assert packed(sent) and not packed(kept)
    assert sent.plan.upload_bytes < kept.plan.upload_bytes / 10
    within = program("server", kept.plan.upload_bytes // 4)  # slower, and all that there is
    assert packed(within) and within.plan.upload_bytes <= kept.plan.upload_bytes // 4


def test_automorphisms() -> None:
    for n in (16, 128, 4096):
        for level in range(n.bit_length() - 2):
            assert pow(5, step_of(n, level), 2 * n) == 1 + (n >> level)


def test_files_that_are_none() -> None:
    params = ring()
    for number in (3, 128):
        with pytest.raises(FormatError, match="packing"):
            form_of_json({"kind": "packed", "block": [2, 3], "each": number}, {}, params, "x")
    with pytest.raises(FitError):
        in_coefficients(2, 3, 64, 3)
