"""Promises by samples, and none: ranges and errors of deep programs, kept on other inputs of their distribution."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.nodes import WATCHER, ordered
from cipherblas.planner.plan import by_samples
from cipherblas.planner.plan.by_samples import BySamples
from cipherblas.planner.predict import simulation
from cipherblas.planner.predict.promises import BOUNDS, Measured
from tests.support.deep_programs import DeepProgram, deep_program

TOY: dict[str, Any] = {"security": 0, "insecure": True, "ring_degree": 4096}
RANDOM = np.random.default_rng(51)
FIRST = RANDOM.normal(size=(16, 24)) / 5
SECOND = RANDOM.normal(size=(10, 16)) / 4

pytestmark = [
    pytest.mark.encrypted,
    pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning"),
]


def relu(x: Any) -> Any:
    return np.maximum(x, 0.0)


def network(x: Any) -> Any:
    """Two layers with an activation of a low degree, which errs."""
    return SECOND @ cb.chebyshev(relu, FIRST @ x, degree=15)


def inputs(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 24)).clip(-4, 4)


def compiled(**options: Any) -> cb.Program:
    chosen = {"samples": {"x": inputs(50)}, "error": 0.5} | options
    return cb.compile(network, {"x": cb.secret(24, bound=4)}, **TOY, **chosen)


@pytest.fixture(scope="module")
def program() -> cb.Program:
    return compiled()


def written(x: Any) -> Any:
    return SECOND @ relu(FIRST @ x)


def test_large_samples_take_few_draws(program: cb.Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows in one sample show in few draws what many samples do."""

    def of_rows(x: Any) -> Any:
        return cb.chebyshev(relu, x @ FIRST.T, degree=15) @ SECOND.T

    drawn: list[int] = []
    whole = simulation.Simulation._drawn

    def counted(self: Any, expression: Any, steps: Any, draws: int, progress: Any = None) -> Any:
        drawn.append(draws)
        return whole(self, expression, steps, draws, progress)

    monkeypatch.setattr(simulation.Simulation, "_drawn", counted)
    monkeypatch.setattr(simulation, "MAX_DRAWN", 1 << 15)
    monkeypatch.setattr(simulation, "MAX_QUICKLY_DRAWN", 1 << 14)
    samples = {"x": inputs(50)[None]}
    few = cb.compile(of_rows, {"x": cb.secret(50, 24, bound=4)}, samples=samples, error=0.5, **TOY)
    assert simulation.MIN_QUICK_DRAWS <= min(drawn) < max(drawn) < simulation.QUICK_DRAWS
    assert 0.3 < few.plan.results[0].error / program.plan.results[0].error < 3


@pytest.mark.parametrize("number", [0, 3, 4, 8, 9, 12, 18, 23, 45])
def test_random_deep_programs_keep_their_promise(number: int) -> None:
    deep: DeepProgram = deep_program(number)
    draws = np.random.default_rng([number, 51])
    program = cb.compile(deep.function, deep.operands, samples=deep.samples(draws, 50), precision=0.1, **TOY)
    client = program.client()
    server = program.server(client.evaluation_keys())
    for _ in range(2):
        given = deep.inputs(draws)
        found = client.decrypt(server.run(client.encrypt(given)))
        exact = deep.clear(**given)
        pairs = (
            [(found, exact)] if not isinstance(found, dict) else [(found[key], exact[key]) for key in found]
        )
        for (one, other), figures in zip(pairs, program.plan.results, strict=True):
            assert np.abs(one - other).max() <= figures.error


def test_ranges_of_samples_are_bounds(program: cb.Program) -> None:
    (node,) = [one for one in ordered(program.expression) if one.op == "polynomial"]
    largest = np.abs(inputs(50) @ FIRST.T).max()
    assert node.parameters["reach"] == pytest.approx(1.5 * largest)
    wide = cb.compile(network, {"x": cb.secret(24, bound=4)}, error=3.0, **TOY)
    (other,) = [one for one in ordered(wide.expression) if one.op == "polynomial"]
    assert other.parameters["reach"] > 2 * node.parameters["reach"]


def test_slack_widens_the_ranges() -> None:
    (node,) = [one for one in ordered(compiled(slack=2.0, error=1.0).expression) if one.op == "polynomial"]
    assert node.parameters["reach"] == pytest.approx(2.0 * np.abs(inputs(50) @ FIRST.T).max())


def test_noise_and_approximation_are_told_apart(program: cb.Program) -> None:
    client = program.client()
    server = program.server(client.evaluation_keys())
    figures = program.plan.promise.figures[0]
    assert program.plan.error == figures.noise + figures.approximation
    for x in inputs(3, seed=7):
        found, polynomial = client.decrypt(server.run(client.encrypt({"x": x}))), program.evaluate({"x": x})
        assert np.abs(found - polynomial).max() <= figures.noise
        assert np.abs(polynomial - written(x)).max() <= figures.approximation
    assert figures.approximation_rms < figures.approximation
    assert figures.noise_rms < figures.noise


def test_the_promise_is_stated_everywhere(program: cb.Program, tmp_path: Path) -> None:
    assert "for inputs like the 50 samples, slack 1.5" in program.explain()
    assert program.plan.to_dict()["promise"]["kind"] == "samples"
    program.save(tmp_path / "plan")
    loaded = cb.Program.load(tmp_path / "plan", insecure=True)
    assert loaded.id == program.id
    assert loaded.plan.promise == program.plan.promise
    assert loaded.plan.error == program.plan.error
    assert copy.deepcopy(program).id == program.id
    client = loaded.client()
    result = loaded.server(client.evaluation_keys()).run(client.encrypt({"x": inputs(1)[0]}))
    assert result.promise == "samples"
    result.save(tmp_path / "result")
    assert cb.EncryptedResult.load(tmp_path / "result", insecure=True).promise == "samples"


def test_no_sample_is_in_the_file(tmp_path: Path) -> None:
    samples = inputs(3)
    compiled(samples={"x": samples}).save(tmp_path / "plan")
    held = (tmp_path / "plan").read_bytes()
    assert not any(
        value.tobytes() in held or repr(float(value)).encode() in held for value in samples.ravel()
    )


def test_promises_differ_in_their_identity(program: cb.Program) -> None:
    assert compiled(samples={"x": inputs(60)}).id != program.id


def test_forms_of_samples() -> None:
    one = compiled(samples={"x": inputs(1)[0]})
    assert isinstance(one.plan.promise, Measured)
    assert one.plan.promise.count == 1
    both = cb.compile(
        lambda w, x: w @ x,
        {"w": cb.public(3, 24), "x": cb.secret(24, bound=4)},
        samples={"w": FIRST[:3], "x": inputs(5)},
        **TOY,
    )
    assert both.plan.promise.figures[0].approximation == 0.0


def test_a_simulation_gives_the_same_figures_later(program: cb.Program, tmp_path: Path) -> None:
    found = program.simulate({"x": inputs(50)})
    assert found == program.plan.promise.figures[0]
    program.save(tmp_path / "plan")
    assert cb.Program.load(tmp_path / "plan", insecure=True).simulate({"x": inputs(50)}) == found
    wide = cb.compile(network, {"x": cb.secret(24, bound=4)}, error=3.0, **TOY)
    assert wide.simulate({"x": inputs(50)}).noise <= wide.plan.error


def test_inputs_out_of_range_are_found_in_the_clear(program: cb.Program) -> None:
    inside = program.check({"x": inputs(1, seed=3)[0]})
    assert len(inside) > 1
    assert all(found.inside for found in inside)
    outside = program.check({"x": 4 * np.sign(FIRST[0])})
    assert not outside[0].inside
    assert outside[0].largest > outside[0].bound


def test_agreement_decides_the_error() -> None:
    program = compiled(samples={"x": inputs(200)}, agreement=0.9, error=None)
    assert program.plan.promise.figures[0].agreement >= 0.9
    finer = compiled(samples={"x": inputs(200)}, agreement=0.94, error=None)
    assert finer.plan.error_target < program.plan.error_target


@pytest.mark.parametrize("agreement", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("count", [100, 4000])
def test_noise_of_the_deviation_leaves_so_many_labels(agreement: float, count: int) -> None:
    random = np.random.default_rng(2)
    margins = np.sort(np.abs(random.normal(0, 5, count)))
    deviation = by_samples._deviation(margins, 1 - by_samples._lost_in_the_mean(1 - agreement, count))
    drawn = random.normal(
        0, deviation * math.sqrt(2), (200_000 // count, count)
    )  # of the difference of two entries
    lost = np.mean(margins + drawn < 0)
    assert lost + math.sqrt(lost / 2 / count) == pytest.approx(1 - agreement, rel=0.1)


def test_more_samples_leave_more_to_noise_and_less_to_chance() -> None:
    shares = [by_samples._lost_in_the_mean(0.01, count) for count in (1, 100, 10_000, 10**8)]
    assert (
        shares == sorted(shares) and shares[0] > 0 and shares[1] == pytest.approx(0.005) and shares[3] < 0.01
    )
    assert by_samples._lost_in_the_mean(0.0, 100) == 0


def test_deviations_where_nothing_is_left() -> None:
    assert by_samples._deviation(np.array([-1.0, -1.0, 1.0]), 0.5) == 0.0
    assert by_samples._deviation(np.array([0.5, 1.0]), 1.0) == 0.0
    assert by_samples._deviation(np.array([math.inf, math.inf]), 0.9) == 0.0


def test_functions_that_name_no_precision_are_as_fine_as_the_samples_need() -> None:
    """Of half of what is asked for, the errors of three layers are more than all of it."""
    weights = np.random.default_rng(4).normal(size=(4, 12, 12)) / 4
    samples = np.random.default_rng(5).uniform(-1, 1, (20, 12, 2))

    def layers(x: Any, tanh: Any = cb.tanh) -> Any:
        for matrix in weights[:3]:
            x = tanh(3 * (matrix @ x))
        return weights[3] @ x

    program = cb.compile(layers, {"x": cb.secret(12, 2)}, samples={"x": samples}, precision=0.01, **TOY)
    assert any(one.parameters.get("error", 1) < 0.00125 for one in ordered(program.expression))
    (figures,) = program.plan.promise.figures
    client = program.client()
    x = np.random.default_rng(6).uniform(-1, 1, (12, 2))
    found = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"x": x})))
    assert figures.approximation < program.plan.error <= 0.01 * program.expression.bound
    assert np.abs(found - layers(x, np.tanh)).max() <= program.plan.error


def test_a_rare_draw_of_errors_that_leaves_its_range_makes_the_scale_larger(monkeypatch: Any) -> None:
    """While plans are compared few errors are drawn: the plan that is taken is simulated on more of them."""
    simulate, refused = BySamples.planned, []

    def planned(self: BySamples, *given: Any) -> Any:
        if not refused:
            refused.append(True)
            raise cb.PrecisionError(
                "The errors of the program carry a value out of its range on the samples."
            )
        return simulate(self, *given)

    usual = compiled()
    monkeypatch.setattr(BySamples, "planned", planned)
    program = compiled()
    assert refused
    assert program.plan.parameters.scale_bits > usual.plan.parameters.scale_bits
    assert program.plan.error < usual.plan.error


def test_agreement_that_polynomials_do_not_have_is_refused() -> None:
    with pytest.raises(cb.PrecisionError, match=r"agree with its functions on \d+.\d%"):
        cb.compile(
            lambda x: SECOND @ cb.chebyshev(relu, FIRST @ x, degree=2),
            {"x": cb.secret(24, bound=4)},
            samples={"x": inputs(200)},
            agreement=1.0,
            **TOY,
        )


def test_without_a_promise_steps_are_as_precise_as_asked() -> None:
    program = compiled(samples=None, promise="none", error=None, precision=1e-4)
    assert "promise           none" in program.explain()
    assert "error of a step   at most " in program.explain() and "expected error" not in program.explain()
    assert program.plan.to_dict()["promise"] == {"kind": "none"}
    client = program.client()
    result = program.server(client.evaluation_keys()).run(client.encrypt({"x": inputs(1)[0]}))
    assert result.promise == "none"
    assert np.abs(client.decrypt(result) - program.evaluate({"x": inputs(1)[0]})).max() < 0.1


def test_steps_of_a_deep_iteration_are_refused_by_bounds_and_run_without() -> None:
    """Units of values no longer grow where bounds are promised: nine steps of a map that stays where it is."""

    def iterated(x: Any) -> Any:
        for _ in range(9):
            x = cb.assume(3.0 * x * (1.0 - x), 1.0)
        return x

    program = cb.compile(iterated, {"x": cb.secret(4, 4)}, promise="none", **TOY)
    client = program.client()
    x = np.random.default_rng(1).uniform(0.1, 0.9, (4, 4))
    found = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"x": x})))
    assert np.abs(found - program.evaluate({"x": x})).max() < 1e-3


def test_the_usual_promise_is_as_it_was() -> None:
    program = cb.compile(lambda a: a @ a, {"a": cb.secret(4, 4)}, **TOY)
    assert program.plan.promise is BOUNDS
    assert "promise" not in program.plan.decisions()
    assert WATCHER.get() is None


@pytest.mark.parametrize("options", [{"promise": "none"}, {"samples": {"a": np.ones((3, 4, 4))}}])
def test_exact_integers_are_promised_for_every_input(options: dict[str, Any]) -> None:
    with pytest.raises(cb.ParameterError, match="for every input within the bounds"):
        cb.compile(lambda a: a @ a, {"a": cb.secret(4, 4, dtype="int8", exact=True)}, **TOY, **options)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"samples": {"y": inputs(3)}}, cb.MismatchError),
        ({"samples": inputs(3)}, cb.DTypeError),
        ({"samples": {"x": inputs(3)[:, :5]}}, cb.ShapeError),
        ({"samples": {"x": 2 * inputs(50).max() * np.ones((3, 24))}}, cb.RangeError),
        ({"samples": {"x": np.full((3, 24), np.nan)}}, cb.RangeError),
        ({"samples": {"x": np.zeros((0, 24))}}, cb.ShapeError),
        ({"slack": 1.0}, cb.ParameterError),
        ({"slack": "wide"}, cb.DTypeError),
        ({"agreement": 2.0, "error": None}, cb.ParameterError),
        ({"agreement": 0.9}, cb.ParameterError),
        ({"agreement": 0.9, "error": None, "precision": 1e-3}, cb.ParameterError),
        ({"promise": "samples", "samples": None}, cb.ParameterError),
        ({"promise": "every"}, cb.ParameterError),
        ({"agreement": 0.9, "samples": None, "error": None}, cb.ParameterError),
    ],
)
def test_what_is_refused(options: dict[str, Any], kind: type[cb.CipherblasError]) -> None:
    with pytest.raises(kind):
        compiled(**options)
    assert WATCHER.get() is None
