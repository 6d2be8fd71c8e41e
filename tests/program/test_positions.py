"""Networks whose ciphertexts are channels, with the positions of images in slots, against Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.common.errors import FitError, FormatError, ParameterError
from cipherblas.crypto.periodic import side_by_side
from cipherblas.crypto.residue_slots import residue_slots
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.in_process import run_ranks
from cipherblas.forms.layouts import in_coefficients
from cipherblas.lang.operations import Leaf
from cipherblas.planner.search.features import FeatureStrategy
from cipherblas.roles.wire.packings import form_of_json
from cipherblas.runtime.blocks import COEFFICIENTS, FEATURES
from cipherblas.runtime.positions import flattening
from tests.corpus.machine import MACHINE
from tests.program.test_modular_features import LARGE, SLOTS, S, features, ring, square
from tests.support.modular_runs import check, values_for
from tests.support.runs import Parties, comes_back, is_a_list, program_of, run, run_by_files, toy, values_of

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.encrypted]
Array = NDArray[Any]
TAPS, CHANNELS, UNITS, CLASSES = 4, 3, 10, 2
RNG = np.random.default_rng(5)


def flattened(y: Any, images: int) -> Any:
    """Channel by channel: images × (channels · positions)."""
    return y.reshape(images, -1, y.shape[1]).transpose(0, 2, 1).reshape(images, -1)


def network(images: int) -> Callable[..., Any]:
    def function(x: Any, filters: Any, hidden: Any, last: Any) -> Any:
        return square(flattened(square(x @ filters), images) @ hidden) @ last

    return function


def transposed(images: int) -> Callable[..., Any]:
    """The same with samples along the columns."""

    def function(x: Any, filters: Any, hidden: Any, last: Any) -> Any:
        y = square(filters @ x)
        y = y.reshape(y.shape[0], images, -1).transpose(0, 2, 1).reshape(-1, images)
        return last @ square(hidden @ y)

    return function


def shapes(images: int, positions: int) -> dict[str, tuple[int, int]]:
    return {
        "x": (images * positions, TAPS),
        "filters": (TAPS, CHANNELS),
        "hidden": (CHANNELS * positions, UNITS),
        "last": (UNITS, CLASSES),
    }


def operands(images: int, positions: int, kind: Callable[..., Any] = S) -> dict[str, Any]:
    return {name: kind(*shape) for name, shape in shapes(images, positions).items()}


@pytest.fixture(params=[1, 2, 16, 64])
def each(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Planning packs so many weights, at most."""

    def families(strategy: Any, *_: Any) -> Any:
        yield ([strategy._candidate(n, request.param)] for n in strategy.degrees)

    monkeypatch.setattr(FeatureStrategy, "families", families)
    return int(request.param)


# Positions, images: in one ciphertext, in several, and none that fill the last one.
SIZES = [(2, 20), (2, 2 * SLOTS // 2 + 1), (4, SLOTS // 4), (4, 70), (16, 9), (16, 17), (64, 3), (64, 1)]


@pytest.mark.parametrize(("positions", "images"), SIZES)
def test_integers(positions: int, images: int, each: int) -> None:
    function = network(images)
    program = features(function, parameters=ring(limbs=14), **operands(images, positions))
    packed = [one for one in program.plan.decided.choices.values() if one.method == COEFFICIENTS]
    beside = positions < SLOTS // 2  # else a block of weights is as long as there are slots
    assert len(packed) == (2 + beside if each > 1 else 0)
    check(program, function, values_for(program))
    comes_back(program)


@pytest.mark.parametrize(("positions", "images"), [(4, 70), (16, 9)])
def test_samples_along_the_columns(positions: int, images: int, each: int) -> None:
    function = transposed(images)
    turned = {name: S(*shape[::-1]) for name, shape in shapes(images, positions).items()}
    program = features(function, parameters=ring(limbs=14), **turned)
    check(program, function, values_for(program))
    comes_back(program)


@pytest.mark.parametrize(("positions", "images"), [(2, 70), (4, 20), (16, 9)])
def test_real_numbers(positions: int, images: int, each: int) -> None:
    program = toy(network(images), form=FEATURES, precision=1e-2, **operands(images, positions, cb.secret))
    run(program, values_of(program)).check()
    for number in (0.0, 1.0, -1.0):
        Parties(program).run(
            {name: np.full(one.shape, number) for name, one in program.operands.items()}
        ).check()


def test_ends_and_a_large_modulus() -> None:
    function, kind = network(9), lambda *shape: S(*shape, modulus=LARGE)
    program = features(function, LARGE, parameters=ring(LARGE, 20), **operands(9, 16, kind))
    for number in (0, 1, -1, LARGE // 2, LARGE // 2 + 1, LARGE, 2**63 - 1, -(2**63)):
        check(program, function, {name: np.full(one.shape, number) for name, one in program.operands.items()})
    is_a_list(program)


def test_what_else_is_computed() -> None:
    """Clear numbers, one image's entries, several results, channels that are left out."""

    def function(x: Any, filters: Any, hidden: Any, last: Any, z: Any) -> Any:
        y = square(x @ filters + np.arange(CHANNELS))
        some, flat = flattened(y[:, 1:], 20), flattened(y, 20)
        units = flat @ hidden + np.arange(UNITS)
        return {
            "squares": square(units) @ last + z,
            "units": 3 * units[:, ::2],
            "some": (some - 7) @ hidden[4:],
            "y": y,
        }

    given = operands(20, 4)
    program = features(function, parameters=ring(limbs=14), **given, z=S(20, CLASSES))
    values = values_for(program)
    parties = Parties(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs(values)))
    wanted = function(**{name: value.astype(object) for name, value in values.items()})
    for name, value in found.items():
        assert np.array_equal(value, wanted[name] % 65537), name


@pytest.mark.parametrize("kind", ["modulus", "fixed point", "real"])
def test_by_files(each: int, kind: str, tmp_path: Path) -> None:
    operand: Callable[..., Any] = {
        "modulus": S,
        "fixed point": lambda *shape: cb.secret(*shape, dtype="float64", fixed_point=4),
        "real": cb.secret,
    }[kind]
    given = operands(9, 16, operand)
    program = (
        toy(network(9), form=FEATURES, precision=1e-2, **given)
        if kind == "real"
        else features(network(9), parameters=ring(limbs=14), **given)
    )
    values = {name: RNG.integers(-1, 2, one.shape) for name, one in program.operands.items()}
    run_by_files(program, values, tmp_path).check()


def test_an_arrangement_is_recognised() -> None:
    y: Any = Leaf("x", cb.secret(8, 2)) @ Leaf("w", cb.secret(2, 3))
    assert flattening(flattened(y, 2)) == (0, 4, [0, 1, 2])
    turned: Any = Leaf("w", cb.secret(3, 2)) @ Leaf("x", cb.secret(2, 8))
    turned = turned.reshape(3, 2, 4).transpose(0, 2, 1).reshape(12, 2)
    assert flattening(turned) == (1, 4, [0, 1, 2])
    assert flattening(flattened(y, 4)[:, 2:]) == (0, 2, [1, 2])
    others = (
        y.reshape(2, 12),
        flattened(y, 2)[::-1],
        flattened(y, 2)[:, ::-1],
        y.T,
        y,
    )
    assert not any(map(flattening, others))


def test_ranks_share_images() -> None:
    """Ciphertexts are those of one process, and each rank multiplies its part."""
    program = features(network(70), parameters=ring(limbs=14), **operands(70, 4))
    client, values = program.client(), values_for(program)
    sent, keys = client.encrypt(values), client.evaluation_keys()
    server = program.server(keys)
    alone, products = server.run(sent), server.last.counts.products
    for ranks in (2, 3, 5):

        def work(communicator: Communicator) -> tuple[Any, int]:
            server = program.server(keys, communicator=communicator)
            return server.run(sent), server.last.counts.products

        found = run_ranks(ranks, work)
        assert found[0][0].digest == alone.digest
        assert sum(count for _, count in found) == products > max(count for _, count in found)


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "clear weights": (lambda x, filters: flattened(x @ filters, 20) @ np.ones((12, 5), int), "not encrypted"),
    "position by position": (lambda x, filters: (x @ filters).reshape(20, -1), "moves samples"),
    "no power of two": (lambda x, filters: flattened(x @ filters, 16), "moves samples"),
    "two ways": (
        lambda x, filters: (flattened(x @ filters, 20), flattened(x @ filters, 40)),
        "in different ways",
    ),
    "some positions": (lambda x, filters: flattened(x @ filters, 20)[:, 2:], "moves samples"),
    "some images": (lambda x, filters: flattened(x @ filters, 20)[2:], "moves samples"),
    "again": (lambda x, filters: flattened(flattened(x @ filters, 20), 10), "moves samples"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(ParameterError, match=reason):
        program_of(function, x=S(80, TAPS), filters=S(TAPS, CHANNELS), form=FEATURES, machine=MACHINE)


def test_planning_takes_rings_that_hold_an_image() -> None:
    """At 128 bits: those of 2048 slots do not."""
    kind: Any = {"dtype": "int64", "exact": True, "bound": 3}
    program = cb.compile(
        lambda x, filters, hidden: flattened(x @ filters, 2) @ hidden,
        {
            "x": cb.secret(8192, TAPS, **kind),
            "filters": cb.secret(TAPS, 2, **kind),
            "hidden": cb.secret(8192, 2, **kind),
        },
        form=FEATURES,
        machine=MACHINE,
        threads=1,
        upload_budget=1 << 30,
    )
    assert program.plan.parameters.n >= 8192


@pytest.mark.parametrize("period", [2, 8, 32])
def test_side_by_side(period: int) -> None:
    """Every polynomial is the one whose slots repeat its vector."""
    n, modulus = 2 * SLOTS, LARGE
    count = n // (2 * period)
    vectors = RNG.integers(-(2**40), 2**40, (count, period))
    found = side_by_side(vectors, n, modulus)
    transforms = residue_slots(n, modulus)
    for number, vector in enumerate(vectors):
        alone = np.zeros(n, np.int64)
        alone[:: n // (2 * period)] = found[number :: n // (2 * period)]
        wanted = np.tile(vector % modulus, n // 2 // period)
        assert np.array_equal(transforms.halves(alone) % modulus, np.stack([wanted, wanted]))
        real = np.zeros(n)
        real[:: n // (2 * period)] = side_by_side(vector[None] / 2.0**40, n, None)[:: n // (2 * period)]
        roots = np.exp(1j * np.pi / n * np.array([pow(5, slot, 2 * n) for slot in range(period)]))
        values = real @ roots[None, :] ** np.arange(n)[:, None]
        assert np.allclose(values, vector / 2.0**40, atol=1e-12)


def test_files_that_are_none() -> None:
    params = ring()
    fine = {"kind": "packed", "block": [8, 3], "each": 4, "repeated": [4, 1], "lines": 2, "by_columns": True}
    assert form_of_json(fine, {}, params, "x").ciphertexts == 2
    for wrong in ({"repeated": [3, 1]}, {"repeated": [2, 2]}, {"each": 32}, {"lines": 4}, {"block": [6, 3]}):
        with pytest.raises(FormatError, match="packing"):
            form_of_json({**fine, **wrong}, {}, params, "x")
    with pytest.raises(FitError):
        in_coefficients(8, 3, 64, 4, (32, 1))
