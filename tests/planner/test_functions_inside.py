"""Functions behind refreshes, computed of the sines that refreshes find: which programs are rewritten, what their
values are, and that they keep their promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Transform
from cipherblas.lang.analysis import evaluate_results, trace
from cipherblas.lang.approximation import fitted
from cipherblas.lang.elementary import gelu_of_array
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.polynomials import Polynomial
from cipherblas.lang.refreshing import REFRESH, SINE, SINE_PERIODS, RefreshedSine
from cipherblas.methods.bootstrapping.embedding import slots_to_coefficients
from cipherblas.methods.bootstrapping.refresh import Bootstrapping, bootstrapping_of
from cipherblas.methods.polynomial.paterson_stockmeyer import PatersonStockmeyer
from cipherblas.planner.predict.dry_run import dry_run
from cipherblas.planner.rewrite.activations import SINE_REACH, functions_inside
from cipherblas.planner.rings.modulus_chains import Profile, chain
from cipherblas.rlwe.noise import SlotErrors
from cipherblas.runtime.refreshing import _refreshed
from cipherblas.runtime.tensors import TensorRun
from cipherblas.runtime.values import Value
from tests.support.runs import toy

RANDOM = np.random.default_rng(4)
FIRST, SECOND, SHORT = (
    RANDOM.uniform(-0.1, 0.1, shape) for shape in ((4, 4, 3, 3), (8, 4, 3, 3), (8, 4, 1, 1))
)
WIDE = RANDOM.uniform(-0.1, 0.1, (16, 16, 1, 1))
FUNCTIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "relu": lambda t: np.maximum(t, 0.0),
    "tanh": np.tanh,
    "silu": lambda t: t / (1 + np.exp(-t)),
    "sigmoid": lambda t: 1 / (1 + np.exp(-t)),
    "clip": lambda t: np.clip(t, -1.0, 1.0),
    "even": lambda t: np.cos(t),
    "gelu": gelu_of_array,
    "hard_swish": lambda t: t * np.clip(t / 6 + 0.5, 0.0, 1.0),
    "identity": lambda t: t,
}
WAYS = {"bounds": {}, "samples": {"typical": True}, "clamped": {"clamped": True}}
BEYOND = (1.5, 2.0, 5.0)  # times its bound, that an argument may be


def layer(x: Expression, weights: NDArray[np.float64], stride: int = 1) -> Expression:
    return cb.conv2d(x, weights, stride=stride, padding=weights.shape[2] // 2)


def activated(x: Expression, name: str = "relu", degree: int = 62) -> Expression:
    return cb.chebyshev(FUNCTIONS[name], cb.refresh(x), degree=degree)


def evaluate(node: Expression, values: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    return evaluate_results(node, values)[0]


def residual(x: Expression) -> Expression:
    """Two layers, a stride, and a shortcut with filters of its own."""
    y = activated(layer(x, FIRST))
    return activated(layer(y, SECOND, 2) + layer(y, SHORT, 2))


def traced(function: Callable[[Expression], Expression]) -> Expression:
    return trace(function, {"x": cb.secret(4, 8, 8)})


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "identity"])
@pytest.mark.parametrize("degree", [14, 31])
@pytest.mark.parametrize("way", WAYS)
def test_the_function_of_a_sine_is_as_near_as_the_polynomial(name: str, degree: int, way: str) -> None:
    written = traced(lambda x: activated(layer(x, 4 * np.eye(4)[:, :, None, None]), name, degree))
    inside = functions_inside(written, **WAYS[way])
    assert inside is not None and isinstance(inside, Polynomial)
    assert facts_of(inside).operations.isdisjoint({REFRESH}) and SINE in facts_of(inside).operations
    x = RANDOM.choice([-1.0, -0.5, 0.0, 1e-3, 0.7, 1.0], (4, 8, 8))
    expected, found = FUNCTIONS[name](4 * x), evaluate(inside, {"x": x})
    assert np.abs(found - expected).max() <= inside.missed * (1 + 1e-9) + 1e-12
    assert inside.missed <= max(1.15 * written.missed, 1e-6)  # smooth functions are less so of a sine
    assert inside.degree < 1 << degree.bit_length()  # no level more


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if name not in ("clip", "identity")]
)  # lines here
def test_clamped_functions_are_bounded_whatever_their_argument(name: str) -> None:
    """Arguments may be five times their bound here."""

    def written(x: Expression) -> Expression:
        return activated(cb.assume(layer(x, 5 * np.eye(4)[:, :, None, None]), 1.0), name, 30)

    x = np.zeros((4, 8, 8))
    x.flat[: 2 * len(BEYOND)] = [sign * times / 5 for times in BEYOND for sign in (1, -1)]
    largest = np.abs(FUNCTIONS[name](np.linspace(-1, 1, 100))).max()
    clamped, free = (functions_inside(traced(written), clamped=way) for way in (True, False))
    assert clamped is not None and free is not None
    assert np.abs(evaluate(clamped, {"x": x})).max() <= clamped.bound < 2.1 * largest
    if name == "relu":  # others are so smooth that their polynomials are near to them beyond
        assert np.abs(evaluate(free, {"x": x})).max() > 10 * largest
    (sine,) = (node for node in facts_of(clamped).order if node.op == SINE)
    assert 0.5 < sine.parameters["clamped"] < 1.6 and "clamped" in sine.title


def test_the_period_is_the_shortest_whose_polynomials_are_near_enough() -> None:
    """Where arguments are far from their bounds, short ones err less; where they may be anywhere, long ones do."""

    def period(name: str, degree: int, typical: bool) -> int:
        inside = functions_inside(traced(lambda x: activated(layer(x, FIRST), name, degree)), typical=typical)
        assert inside is not None
        (sine,) = (node for node in facts_of(inside).order if node.op == SINE)
        return int(sine.parameters.get("period", SINE_PERIODS[0]))

    assert [period("relu", 62, typical) for typical in (False, True)] == [8, 5]
    assert period("silu", 8, True) > 5  # arcsin is steep at the end of a short one
    assert min(SINE_PERIODS) == 5 and max(SINE_PERIODS) == 8


@pytest.mark.parametrize(
    "function",
    [
        lambda x: cb.refresh(layer(x, FIRST)),
        lambda x: activated(layer(x, FIRST)) + cb.chebyshev(np.tanh, layer(x, FIRST), degree=7),
        lambda x: cb.chebyshev(np.tanh, cb.refresh(layer(x, FIRST), rounds=2), degree=7),
        lambda x: (lambda y: cb.chebyshev(np.tanh, y, degree=7) + y)(cb.refresh(layer(x, FIRST))),
    ],
    ids=["no function", "one without a refresh", "two rounds", "read beside its function"],
)
def test_what_is_rewritten_and_what_is_not(function: Callable[[Expression], Expression]) -> None:
    written = traced(function)
    inside = functions_inside(written)
    alone = all(node.op != REFRESH or node.parameters["rounds"] == 1 for node in facts_of(written).order)
    has_function = written.op != REFRESH
    if inside is not None:
        assert alone and has_function
        assert REFRESH not in facts_of(inside).operations
    else:
        assert not has_function or written.op == "add" or not alone


def crossed(x: Expression) -> Expression:
    """A term of two sums, of which either becomes a sine."""
    y = layer(activated(layer(x, FIRST)), FIRST)
    return activated(y + layer(activated(y + layer(x, FIRST)), FIRST))


def test_terms_of_two_sines_have_powers_of_two_as_units() -> None:
    """None takes a level to be like another."""
    expression = functions_inside(traced(crossed))
    assert expression is not None
    facts = facts_of(expression)
    run = TensorRun.__new__(TensorRun)
    vars(run)["run"] = SimpleNamespace(refreshed=True, readers=lambda node: facts.readers[id(node)])
    layers = [node for node in facts.order if node.op == "conv2d"]
    alone, *terms = sorted(layers, key=lambda node: any(one.op == "add" for one in facts.readers[id(node)]))
    (sine,) = facts.readers[id(alone)]
    assert math.log2(run.unit_of(alone, 3.0) / sine.parameters["reach"]) % 1 == 0
    assert [run.unit_of(node, 3.0) for node in terms] == [4.0] * 3


def test_sines_share_what_slots_to_coefficients_encode(monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes one sine has a unit that is a power of two times its reach."""
    program = toy(residual, x=cb.secret(4, 8, 8), form="tensors", error=0.5)
    units: dict[float, float] = {}  # by reach
    factors = set()

    def refreshed(run: TensorRun, x: Value, node: Expression, method: Bootstrapping) -> Value:
        units[node.parameters["reach"]] = x.unit
        return _refreshed(run, x, node, method)

    def recorded(slots: int, sizes: Sequence[int], factor: float, **options: Any) -> list[Transform]:
        factors.add(factor)
        return slots_to_coefficients(slots, sizes, factor, **options)

    monkeypatch.setattr("cipherblas.runtime.refreshing._refreshed", refreshed)
    monkeypatch.setattr("cipherblas.methods.bootstrapping.refresh.slots_to_coefficients", recorded)
    dry_run(program.plan.parameters, program.executed, program.plan.decided)
    assert len(units) == 2
    assert all(math.log2(unit / reach) % 1 == 0 for reach, unit in units.items())
    assert all(math.log2(factor / min(factors)) % 1 == 0 for factor in factors)


def test_a_residual_network_keeps_its_promise(tmp_path: Path) -> None:
    """Random images, zeros, and pixels at their bound; saved and loaded again; one ciphertext is refreshed a layer."""
    program = toy(residual, x=cb.secret(4, 8, 8), form="tensors", error=0.5)
    assert SINE in facts_of(program.expression).operations
    assert program.plan.counts.modulus_raises == 2
    # The first layer spends a limb that refreshes spend as well, and the first function begins where others do.
    ring = program.plan.parameters
    operand = program.plan.nodes[0]
    assert operand.title.startswith("x ")
    assert operand.limbs == bootstrapping_of(ring).limbs(ring.limbs) + 1
    program.save(tmp_path / "network.cb")
    again = cb.Program.load(tmp_path / "network.cb", insecure=True)
    assert again.id == program.id
    client = again.client()
    server = again.server(client.evaluation_keys())
    for x in (RANDOM.uniform(-1, 1, (4, 8, 8)), np.zeros((4, 8, 8)), RANDOM.choice([-1.0, 1.0], (4, 8, 8))):
        found = client.decrypt(server.run(client.encrypt({"x": x})))
        assert np.abs(found - evaluate(program.expression, {"x": x})).max() <= again.plan.error
        assert np.abs(found - written_values(x)).max() <= again.plan.error <= 0.5
    assert server.last.counts == again.plan.counts


def written_values(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """By NumPy, with ReLU itself."""

    def convolved(
        image: NDArray[np.float64], weights: NDArray[np.float64], stride: int = 1
    ) -> NDArray[np.float64]:
        around = weights.shape[2] // 2
        padded = np.pad(image, ((0, 0), (around, around), (around, around)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], axis=(1, 2))
        return np.asarray(np.einsum("chwij,ocij->ohw", windows[:, ::stride, ::stride], weights))

    relu = FUNCTIONS["relu"]
    y = relu(convolved(x, FIRST))
    return relu(convolved(y, SECOND, 2) + convolved(y, SHORT, 2))


@pytest.mark.parametrize("way", ["promised", "clamped"])
def test_any_function_keeps_its_promise(way: str) -> None:
    """All of one refreshed value: smooth ones and kinks, even and odd ones, as precise as the plan says."""
    names = [name for name in FUNCTIONS if name != "identity"]

    def all_of_them(x: Expression) -> dict[str, Expression]:
        y = cb.refresh(layer(x, 4 * np.eye(4)[:, :, None, None]))
        return {name: cb.chebyshev(FUNCTIONS[name], y, degree=30, name=name) for name in names}

    program = toy(all_of_them, x=cb.secret(4, 8, 8), form="tensors", error=0.3, range=way)
    assert SINE in facts_of(program.expression).operations
    client = program.client()
    server = program.server(client.evaluation_keys())
    promised = {one.label: one.error for one in program.plan.results}
    for x in (RANDOM.uniform(-1, 1, (4, 8, 8)), np.zeros((4, 8, 8)), RANDOM.choice([-1.0, 1.0], (4, 8, 8))):
        found = client.decrypt(server.run(client.encrypt({"x": x})))
        for name in names:
            assert np.abs(found[name] - FUNCTIONS[name](4 * x)).max() <= promised[name] <= 0.3, name


def deep(x: Expression) -> Expression:
    """Ranges that arguments may leave: five times of the first one."""
    y = activated(cb.assume(layer(x, 5 * np.eye(4)[:, :, None, None]), 1.0), degree=30)
    return activated(cb.assume(layer(y, FIRST), 1.0), degree=30)


def test_clamped_networks_give_bounded_results_for_inputs_beyond_their_ranges(tmp_path: Path) -> None:
    x = RANDOM.uniform(-0.2, 0.2, (4, 8, 8))
    for way in ("promised", "clamped"):
        program = toy(deep, x=cb.secret(4, 8, 8), form="tensors", error=0.3, range=way)
        program.save(tmp_path / "network.cb")
        program = cb.Program.load(tmp_path / "network.cb", insecure=True)
        assert ("clamped for" in program.explain()) == (way == "clamped")
        client = program.client()
        server = program.server(client.evaluation_keys())

        def run(times: float) -> NDArray[np.float64]:
            sent = client.encrypt({"x": times * x})  # noqa: B023
            return np.asarray(client.decrypt(server.run(sent)))  # noqa: B023

        assert np.abs(run(1.0) - evaluate(program.expression, {"x": x})).max() <= program.plan.error
        if way == "promised":
            with pytest.raises(cb.RangeError):  # what grows without bound is not decrypted
                run(BEYOND[1])
            continue
        for times in BEYOND:
            assert np.abs(run(times)).max() <= program.expression.bound + program.plan.error < 2


def test_what_cannot_be_clamped_is_refused() -> None:
    with pytest.raises(cb.ParameterError, match="clamped") as refused:
        toy(lambda x: cb.square(layer(x, FIRST)), x=cb.secret(4, 8, 8), form="tensors", range="clamped")
    (advice,) = refused.value.advice
    assert advice.options == {"range": "promised"}


@pytest.mark.slow
def test_a_layer_of_128_bits_keeps_its_promise() -> None:
    """16,384 values at N = 2^15, the smallest ring in which a sparse secret is secure."""

    def network(x: Expression) -> Expression:
        return activated(layer(x, WIDE), degree=126)

    program = cb.compile(network, {"x": cb.secret(16, 32, 32)}, error=0.1, range="clamped")
    assert program.plan.parameters.n == 1 << 15 and program.plan.parameters.security == 128
    client = program.client()
    server = program.server(client.evaluation_keys())
    x = RANDOM.uniform(-1, 1, (16, 32, 32))
    x[:, ::2] = np.sign(x[:, ::2])
    found = client.decrypt(server.run(client.encrypt({"x": x})))
    expected = FUNCTIONS["relu"](np.einsum("oc,chw->ohw", WIDE[:, :, 0, 0], x))
    assert np.abs(found - expected).max() <= program.plan.error <= 0.1


def test_errors_carry_no_argument_beyond_the_interval_of_a_kink() -> None:
    """A polynomial whose interval is made wider afterwards has large coefficients, which errors of powers multiply."""
    inside = functions_inside(traced(lambda x: activated(layer(x, FIRST), "relu", 126)), typical=True)
    assert inside is not None and isinstance(inside, Polynomial)
    sine = inside.x
    assert isinstance(sine, RefreshedSine)
    assert sine.bound / inside.reach == pytest.approx(1 / (1 + SINE_REACH))
    narrow = fitted(lambda s: np.maximum(np.arcsin(s) / sine.rate, 0.0), -sine.bound, sine.bound, 126, 0.0)
    ring = chain(1 << 15, 8, 4, profile=Profile.of_sines(29.0)).shape()

    def deviation(coefficients: Sequence[float], reach: float) -> float:
        """Of the value of an argument that is off as a refreshed one is."""
        ev = Symbolic(ring)
        t = ev.fresh(None, bound=1.0, limbs=11)
        t = ev.assume_errors(t, SlotErrors().with_own(2.0**-12.5))
        method = PatersonStockmeyer(coefficients, inside.bound)
        return method.run(ev, t, rescaled=True, most=sine.bound / reach).errors.deviation

    assert 2 * deviation(inside.coefficients, inside.reach) < deviation(narrow.coefficients, sine.bound)


def test_functions_whose_small_terms_were_left_out_are_those_that_were_written() -> None:
    written = traced(lambda x: activated(layer(x, FIRST), "relu", 62))
    assert isinstance(written, Polynomial)
    cut = written.shortened(written.error / 4)
    assert isinstance(cut, Polynomial) and cut.degree < written.degree and cut.missed > written.missed
    inside = functions_inside(cut)
    assert inside is not None and inside.missed < cut.missed
    cut.written = None  # then the polynomial is all that is known, and what it is off by counts
    inside = functions_inside(cut)
    assert inside is not None and inside.missed >= cut.missed


def test_functions_of_one_refreshed_value_share_its_sine() -> None:
    def both(x: Expression) -> dict[str, Expression]:
        y = cb.refresh(layer(x, FIRST))
        return {"a": cb.chebyshev(np.tanh, y, degree=15), "b": cb.chebyshev(np.cos, y, degree=14)}

    inside = functions_inside(trace(both, {"x": cb.secret(4, 8, 8)}))
    assert inside is not None
    assert sum(node.op == SINE for node in facts_of(inside).order) == 1


def test_what_is_refused_is_told_by_the_way_that_comes_nearest() -> None:
    """Refreshes of lines are a thousand times less precise here."""
    options = {"x": cb.secret(4, 8, 8), "form": "tensors"}

    def network(x: Expression) -> Expression:
        return activated(layer(x, FIRST), "tanh", 31)

    with pytest.raises(cb.PrecisionError) as refused:
        toy(network, error=1e-6, **options)
    (advice, *_) = refused.value.advice
    assert 1e-6 < advice.options["error"] < 1e-4
    assert SINE in facts_of(toy(network, **options, **advice.options).expression).operations
