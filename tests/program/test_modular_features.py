"""Integers modulo t, exact integers and fixed point in ciphertexts of one feature each, against Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.common.errors import MismatchError, ParameterError
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.runtime.blocks import FEATURES
from tests.corpus.machine import MACHINE
from tests.support.modular_runs import check, values_for
from tests.support.runs import Parties, comes_back, is_a_list, program_of, run_by_files

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.encrypted]
Array = NDArray[Any]
SMALL, MIDDLE, LARGE = 257, 65537, 2147352577
SLOTS = 128  # N of toy rings: two samples in a slot
RNG = np.random.default_rng(3)
FIRST, SECOND = RNG.integers(-9, 9, (5, 7)), RNG.integers(-(2**31), 2**31, (3, 5))
BIAS = RNG.integers(-100, 100, (5, 1))


def ring(modulus: int = MIDDLE, limbs: int = 10) -> Parameters:
    return make_parameters(SLOTS, (48.0,) * limbs, security=0, insecure=True, plain_modulus=modulus)


def features(function: Callable[..., Any], modulus: int = MIDDLE, **rest: Any) -> cb.Program:
    given: dict[str, Any] = {"parameters": ring(modulus), "security": 0, "insecure": True, "form": FEATURES}
    program = program_of(function, **{**given, **rest})
    assert program.plan.algorithm == FEATURES
    return program


def S(*shape: int, modulus: int = MIDDLE, **rest: Any) -> Any:
    return cb.secret(*shape, modulus=modulus, **rest)


def square(x: Any) -> Any:
    return x * x


def layers(x: Any) -> Any:
    return SECOND @ square(FIRST @ x + BIAS) - 5


def network(x: Any, w: Any, v: Any, u: Any) -> Any:
    """Five products one after another, all of them of secrets."""
    return square(square(x @ w) @ v) @ u


def several(x: Any, w: Any) -> Any:
    hidden = x @ w
    return {"squares": square(hidden), "hidden": 3 * hidden - 1, "some": hidden[:, ::2] @ FIRST[:3, :2]}


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]]]] = {
    "layers": (layers, {"x": (7, 30)}),
    "along the rows": (lambda x: square(x @ FIRST.T + BIAS.T) @ SECOND.T, {"x": (30, 7)}),
    "one sample": (layers, {"x": (7, 1)}),
    "all slots": (layers, {"x": (7, SLOTS)}),
    "one sample more than slots": (layers, {"x": (7, SLOTS + 1)}),
    "many along the rows": (lambda x: square(x @ FIRST.T), {"x": (5 * SLOTS + 1, 7)}),
    "one product": (lambda x: FIRST @ x, {"x": (7, 30)}),
    "large weights": (lambda x: square(SECOND @ square(SECOND.T[:, :2] @ x)), {"x": (2, 30)}),
    "zero weights": (lambda x: square(FIRST @ x) - np.zeros((5, 7), int) @ x, {"x": (7, 30)}),
    "narrow weights": (lambda x: square(FIRST.astype(np.int8) @ x), {"x": (7, 30)}),
    "secret weights": (lambda w, x: square(w @ x), {"w": (5, 7), "x": (7, SLOTS + 1)}),
    "five products": (network, {"x": (SLOTS + 1, 6), "w": (6, 5), "v": (5, 4), "u": (4, 3)}),
    "several results": (several, {"x": (SLOTS + 1, 7), "w": (7, 5)}),
    "secret and clear weights": (lambda w, x: SECOND @ square(w @ x + BIAS), {"w": (5, 7), "x": (7, 30)}),
    "weights, arranged": (lambda w, x: w[1:4, ::2] @ x[:4], {"w": (5, 7), "x": (7, 30)}),
    "different divisions": (lambda x, y: (FIRST @ x) * x[:5] * y + x[:5], {"x": (7, 30), "y": (5, 1)}),
    "a polynomial": (
        lambda x: sum(number * (FIRST @ x) ** power for power, number in enumerate((2**20, -1, 3), 1)),
        {"x": (7, 30)},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("modulus", [SMALL, MIDDLE, LARGE])
def test_numpy_integers(name: str, modulus: int) -> None:
    function, shapes = PROGRAMS[name]
    operands = {one: S(*shape, modulus=modulus) for one, shape in shapes.items()}
    limbs = {"ring": 16} if modulus == LARGE else {}
    given = {"parameters": ring(modulus, 16)} if limbs else {}
    program = features(function, modulus, **operands, **given)
    check(program, function, values_for(program))
    comes_back(program)
    is_a_list(program)


def test_ends_and_zeros() -> None:
    program = features(network, x=S(SLOTS, 3), w=S(3, 2), v=S(2, 2), u=S(2, 1))
    for number in (0, 1, -1, MIDDLE // 2, MIDDLE // 2 + 1, MIDDLE, 2**63 - 1, -(2**63)):
        check(program, network, {name: np.full(one.shape, number) for name, one in program.operands.items()})


def test_clear_operand() -> None:
    program = features(
        lambda w, x: square(w @ x) - w[:, :1], w=cb.public(5, 7, dtype="int32"), x=S(7, SLOTS + 3)
    )
    check(program, lambda w, x: square(w @ x) - w[:, :1], values_for(program))


@pytest.mark.parametrize("exact", [False, True])
def test_by_files(exact: bool, tmp_path: Path) -> None:
    operand = cb.secret(7, SLOTS + 1, dtype="int64", exact=True, bound=9) if exact else S(7, SLOTS + 1)
    program = features(layers, x=operand)
    run_by_files(program, {"x": RNG.integers(-9, 9, (7, SLOTS + 1))}, tmp_path).check()


@pytest.mark.parametrize("bound", [1, 2**20, 2**40])
def test_exact_integers(bound: int) -> None:
    def operand(*shape: int) -> Any:
        return cb.secret(*shape, dtype="int64", exact=True, bound=bound)

    program = features(network, x=operand(SLOTS + 1, 4), w=operand(4, 3), v=operand(3, 3), u=operand(3, 2))
    assert len(program.plan.moduli) > (bound > 1)
    parties = Parties(program)
    for number in (0, bound, -bound, None):
        values = {
            name: RNG.integers(-bound, bound, one.shape, endpoint=True)
            if number is None
            else np.full(one.shape, number)
            for name, one in program.operands.items()
        }
        found = parties.client.decrypt(parties.server.run(parties.inputs(values)))
        wanted = network(**{name: value.astype(object) for name, value in values.items()})
        assert np.array_equal(found, wanted)


def test_fixed_point() -> None:
    def operand(*shape: int) -> Any:
        return cb.secret(*shape, dtype="float64", fixed_point=10, bound=2)

    program = features(network, x=operand(SLOTS + 1, 4), w=operand(4, 3), v=operand(3, 3), u=operand(3, 2))
    values = {name: RNG.uniform(-2, 2, one.shape) for name, one in program.operands.items()}
    parties = Parties(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs(values)))
    assert np.array_equal(found, program.evaluate(values))
    fixed = {name: np.rint(value * 1024).astype(int).astype(object) for name, value in values.items()}
    assert np.array_equal(found, (network(**fixed) / 2**110).astype(float))


def test_without_slots_it_is_refused() -> None:
    without = make_parameters(SLOTS, (48.0,) * 4, security=0, insecure=True, plain_modulus=2**20)
    with pytest.raises(ParameterError, match="has no slots"):
        features(layers, 2**20, x=S(7, 30, modulus=2**20), parameters=without)
    with pytest.raises(MismatchError, match="another kind of plaintexts"):
        features(layers, SMALL, x=S(7, 30))
    with pytest.raises(ParameterError, match="samples"):
        program_of(lambda x: (FIRST @ x).T @ (FIRST @ x), x=S(7, 30), form=FEATURES, machine=MACHINE)


def test_planning_finds_the_form() -> None:
    program = cb.compile(
        lambda x, w, v: square(x @ w) @ v,
        {"x": S(5000, 8), "w": S(8, 4), "v": S(4, 2)},
        machine=MACHINE,
        minimise="server",
    )
    assert program.plan.algorithm == FEATURES
    few = cb.compile(
        lambda x, w: square(x @ w), {"x": S(8, 8), "w": S(8, 8)}, machine=MACHINE, minimise="server"
    )
    assert few.plan.algorithm != FEATURES


def _random(chance: Random) -> tuple[Callable[..., Any], dict[str, tuple[int, int]], str]:
    """A program of a few lines, samples along the rows."""
    samples, width = chance.choice((30, SLOTS - 1, SLOTS, SLOTS + 1, 2 * SLOTS)), chance.randint(1, 6)
    shapes, lines, known = {"x0": (samples, width)}, [], [("x0", width, 0)]
    for number in range(chance.randint(2, 6)):
        name, columns, depth = chance.choice(known)
        kind = chance.choice(("secret", "clear", "square", "entries", "sum", "slice", "number"))
        like = [one for one in known if one[1] == columns]
        other, _, other_depth = chance.choice(like)
        if kind in ("secret", "clear"):
            after = chance.randint(1, 5)
            shape = columns, after
            if kind == "secret":
                shapes[f"w{number}"] = shape
                line, depth = f"{name} @ w{number}", depth + 1
            else:
                rows = [[chance.choice((0, 1, -1, chance.randint(-(2**31), 2**31))) for _ in range(after)]
                        for _ in range(columns)]  # fmt: skip
                line = f"{name} @ np.array({rows})"
            columns = after
        elif kind == "square":
            line, depth = f"{name} * {name}", depth + 1
        elif kind == "entries":
            line, depth = f"{name} * {other}", max(depth, other_depth) + 1
        elif kind == "sum":
            line, depth = f"{name} {chance.choice('+-')} {other}", max(depth, other_depth)
        elif kind == "slice":
            start = chance.randrange(columns)
            line, columns = f"{name}[:, {start}:]", columns - start
        else:
            line = f"{chance.choice((-1, 2, 2**31 - 1))} * {name} + {chance.randint(-9, 9)}"
        if depth <= 4:
            lines.append(f"y{number} = {line}")
            known.append((f"y{number}", columns, depth))
    last = [name for name, _, _ in known if name != "x0"] or ["x0 * x0"]
    text = "\n    ".join([f"def function({', '.join(shapes)}):", *lines, f"return [{', '.join(last)}]"])
    space: dict[str, Any] = {"np": np}
    exec(text, space)
    return space["function"], shapes, text


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int) -> None:
    chance = Random(f"features {seed}")
    function, shapes, text = _random(chance)
    if "@" not in text:
        pytest.skip("no product")
    modulus = chance.choice((SMALL, MIDDLE, LARGE))
    operands = {name: S(*shape, modulus=modulus) for name, shape in shapes.items() if name in text}
    program = features(lambda **nodes: function(**nodes), modulus, parameters=ring(modulus, 20), **operands)
    parties, values = Parties(program), values_for(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs(values)))
    wanted = function(**{name: value.astype(object) for name, value in values.items()})
    for one, want in zip(found, wanted, strict=True):
        assert np.array_equal(one, want % modulus), text
