"""Programs that refresh: planned, run, saved, and refused, on toy rings and at 128 bits."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.planner.rings import modulus_chains
from tests.support.foreign_files import forge
from tests.support.runs import Parties, program_of, run, toy

pytestmark = pytest.mark.encrypted

S = cb.secret
RANDOM = np.random.default_rng(11)
W1, W2 = RANDOM.uniform(-1, 1, (12, 16)) / 4, RANDOM.uniform(-1, 1, (5, 12)) / 4


def powers(x: Any) -> Any:
    """x^32 with two refreshes."""
    for step in range(5):
        x = x * x
        if step in (1, 3):
            x = cb.refresh(x)
    return x


def network(x: Any) -> Any:
    return W2 @ cb.refresh(cb.square(W1 @ x))


def check(program: cb.Program) -> None:
    """No entry is further off than predicted: random ones and zeros, all at a bound."""
    rng = np.random.default_rng(3)
    parties, values = Parties(program), {}
    for name, one in program.operands.items():
        random = rng.uniform(-one.bound, one.bound, one.shape)
        values[name] = np.where(rng.random(one.shape) < 0.3, 0.0, random)
    parties.run(values).check()
    parties.run({name: np.full(one.shape, -one.bound) for name, one in program.operands.items()}).check()


@pytest.mark.parametrize(
    ("function", "operands", "form"),
    [
        (powers, {"x": S(20, 20)}, "blocks"),
        (powers, {"x": S(60, 60)}, "blocks"),  # two ciphertexts
        (lambda a, b: cb.refresh(a @ b) @ b, {"a": S(8, 8), "b": S(8, 8, bound=0.5)}, "blocks"),
        (network, {"x": S(16)}, "tensors"),
        (lambda x: cb.refresh(cb.conv2d(x, np.ones((2, 1, 3, 3)), padding=1)), {"x": S(1, 8, 8)}, "tensors"),
        (lambda x: cb.refresh(cb.tanh(x)) + cb.refresh(x * x), {"x": S(9, 7, bound=2.0)}, "blocks"),
    ],
)
def test_programs_that_refresh(function: Any, operands: dict[str, Any], form: str) -> None:
    check(toy(function, **operands, form=form, precision=1e-2))


@pytest.mark.parametrize(("algorithm", "rounds"), [("bicyclic", 1), ("diagonals", 2)])
def test_products_that_leave_imaginary_parts(algorithm: str, rounds: int) -> None:
    """Of one, two, three and nine ciphertexts, which are refreshed two by two."""
    shapes = {"a": (3, 3), "b": (3, 6), "c": (9, 3), "d": (3, 9)}

    def function(a: Any, b: Any, c: Any, d: Any) -> Any:
        products = {"one": a @ a, "two": a @ b, "three": c @ a, "nine": c @ d}
        if rounds > 1:
            del products["one"], products["three"]
        return {name: cb.refresh(product, rounds=rounds) for name, product in products.items()}

    operands = {name: S(*shape) for name, shape in shapes.items()}
    program = toy(function, **operands, algorithm=algorithm, block=3, error=0.05)
    rng = np.random.default_rng(4)
    run(program, {name: rng.uniform(-1, 1, shape) for name, shape in shapes.items()}).check()


@pytest.mark.parametrize(("refresh", "squares"), [(cb.refresh, 4), (lambda x: x, 3)])
def test_slots_between_entries_that_hold_more_than_was_assumed(refresh: Any, squares: int) -> None:
    """Means of neighbours that begin in a column between are 0.5, and 50 times as much would grow with every square;
    the means that are asked for keep a bound of 0.02."""

    def function(x: Any) -> Any:
        means = 50 * refresh(cb.assume(cb.avg_pool2d(cb.square(x) - 0.5, 2), 0.02))
        for _ in range(squares):
            means = cb.square(means)
        return means

    program = toy(function, x=S(1, 32, 32), form="tensors", error=0.5)
    columns = np.tile([1.0, 0, 0, 1], 8) + np.zeros((1, 32, 1))
    x = 0.99 * columns + RANDOM.uniform(-0.004, 0.004, columns.shape)
    run(program, {"x": x}).check()


@pytest.mark.parametrize("policy", ["composed", "binary"])
def test_fewer_keys(policy: str) -> None:
    """More key switches, whose errors count."""
    check(toy(powers, x=S(9, 9), form="blocks", precision=1e-2, key_policy=policy))


def test_as_many_levels_as_are_spent_between_refreshes() -> None:
    def late(x: Any) -> Any:
        for _ in range(6):
            x = x * x
        return cb.refresh(x) * x

    few = toy(powers, x=S(4, 4), precision=1e-2)
    many = toy(late, x=S(4, 4), precision=1e-2)
    assert many.plan.parameters.limbs == few.plan.parameters.limbs + 5
    text = few.explain()
    assert "refresh 4x4" in text and "2 for a sparse secret" in text
    assert (
        "2, of one or two ciphertexts, slots to coefficients first, each back at 4 limbs; one is lost with "
        "probability below 2^-61" in text
    )
    check(many)


@pytest.mark.parametrize("shape", [(9, 9), (32, 448)])
def test_programs_with_modraise_first(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Planned, run, and from files, where it is what takes less; else it is not."""
    options = {"x": S(*shape), "form": "blocks", "precision": 0.1, "minimise": "server"}
    usual = toy(powers, **options)
    assert "slots to coefficients first" in usual.explain()
    monkeypatch.setattr(modulus_chains, "raises_first", lambda first, other: True)
    program = toy(powers, **options)
    assert "ModRaise first" in program.explain() and not program.plan.decided.sharing
    assert program.plan.parameters.limbs == usual.plan.parameters.limbs + 1
    check(program)
    monkeypatch.undo()
    program.save(tmp_path / "plan.cb")
    assert cb.Program.load(tmp_path / "plan.cb", insecure=True).explain() == program.explain()


def test_modraise_is_first_only_where_that_carries_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fame leaves beside the entries of a product is a bit too large for the single limb below."""
    monkeypatch.setattr(modulus_chains, "raises_first", lambda first, other: True)
    program = toy(
        lambda a, b: cb.refresh(a @ b), a=S(6, 6), b=S(6, 6), algorithm="fame", block=3, precision=0.1
    )
    assert "slots to coefficients first" in program.explain()
    check(program)


def test_two_rounds() -> None:
    """Far more precise than one, for a level more; found, and as the result says."""

    def fine(x: Any) -> Any:
        return cb.refresh(cb.refresh(x * x, rounds=2) * x, rounds=2) * x

    program = toy(fine, x=S(3, 5), error=2.0**-22)
    text = program.explain()
    assert "refresh(x * x, rounds=2)" in text and "refresh 3x5, rounds=2" in text
    assert program.plan.parameters.scale_bits == 46.0
    check(program)
    with pytest.raises(cb.PrecisionError):
        toy(lambda x: cb.refresh(x * x) * x, x=S(3, 5), error=2.0**-22)
    for rounds in (0, 3, 1.0, "2"):
        with pytest.raises(cb.ParameterError, match="one or two rounds"):
            toy(lambda x, rounds=rounds: cb.refresh(x * x, rounds=rounds), x=S(3, 5))


def test_a_chain_of_forty_products() -> None:
    """Squarings and products in turns, of which none enlarges errors: far deeper than any ring."""

    def deep(x: Any, y: Any) -> Any:
        for step in range(40):
            x = cb.assume(1 - 0.5 * (x * x), 1.0) if step % 2 else x * y
            if step % 4 == 3 and step < 39:
                x = cb.refresh(x)
        return x

    program = toy(deep, x=S(6, 6), y=S(6, 6), precision=1e-2)
    rng = np.random.default_rng(5)
    values = {name: rng.uniform(-1, 1, (6, 6)) for name in "xy"}
    for value in values.values():
        value[:3] = 1
    run(program, values).check()


def test_programs_keys_and_results_in_files(tmp_path: Path) -> None:
    program = toy(powers, x=S(5, 5), precision=1e-2)
    program.save(tmp_path / "plan.cb")
    program = cb.Program.load(tmp_path / "plan.cb", insecure=True)
    client = program.client()
    client.write_evaluation_keys(tmp_path / "keys")
    server = program.server(cb.EvaluationKeys.load(tmp_path / "keys", insecure=True))
    x = RANDOM.uniform(-1, 1, (5, 5))
    found = client.decrypt(server.run(client.encrypt({"x": x})))
    assert np.abs(found - x**32).max() <= program.plan.error
    assert program.plan.key_bytes == client.evaluation_keys().nbytes


def test_at_128_bits_it_takes_a_ring_for_it() -> None:
    program = program_of(powers, x=S(20, 20), precision=1e-2, key_policy="direct")
    parameters = program.plan.parameters
    assert parameters.n >= 1 << 15 and parameters.security == 128
    assert program.plan.key_bytes > 1 << 30


@functools.cache
def shared(**options: Any) -> cb.Program:
    """Of 7 or 16 ciphertexts, of which pairs share their a part."""
    given = {"x": S(32, 448), "form": "blocks", "precision": 1e-2, "minimise": "server"}
    return toy(lambda x: cb.refresh(x * x) * x, **{**given, **options})


@pytest.mark.parametrize(("shape", "pairs"), [((32, 448), 3), ((16, 2048), 7)])
def test_ciphertexts_that_share_their_a_part(shape: tuple[int, int], pairs: int) -> None:
    """Where the evaluation alone is to be fast, and what is left over one by one; plans say so."""
    program = shared(x=S(*shape))
    assert program.plan.decided.sharing == pairs
    assert program.plan.keys.shared == pairs
    text = program.explain()
    assert f"up to {pairs} with one a part" in text and f"for {pairs} with one a part" in text
    assert program.worst_error >= program.plan.error
    check(program)


def test_a_convolution_whose_channels_share_their_a_part() -> None:
    weights = RANDOM.uniform(-0.1, 0.1, (16, 1, 3, 3))
    program = toy(
        lambda x: cb.refresh(cb.conv2d(x, weights, padding=1)),
        **{"x": S(1, 32, 32), "form": "tensors", "precision": 1e-2, "minimise": "server"},
    )
    assert program.plan.decided.sharing == 5  # of which one has no pair
    check(program)


def test_gaps_that_means_leave_are_filled_before_layers(tmp_path: Path) -> None:
    """Fewer diagonals read an image of two ciphertexts, and a vector, once their channels are close together."""
    sizes = ((16, 4, 3, 3), 0.1), ((32, 16, 3, 3), 0.05), ((100, 128), 0.05)
    first, second, weights = (RANDOM.normal(size=size) * by for size, by in sizes)

    def network(x: Any) -> Any:
        x = cb.avg_pool2d(cb.refresh(cb.conv2d(x, first, padding=1)), 2)
        x = cb.avg_pool2d(cb.refresh(cb.conv2d(x, second, padding=1)), 4)
        return weights @ cb.flatten(x)

    program = toy(network, x=S(4, 16, 16), form="tensors", precision=1e-2)
    program.save(tmp_path / "program.cb")
    for one in (program, cb.Program.load(tmp_path / "program.cb", insecure=True)):
        options = [choice.options for choice in one.plan.decided.choices.values()]
        assert [some["copies"] for some in options if "copies" in some] == [2]  # as the client packs it
        layouts = [some["layout"]["filled"] for some in options if "layout" in some]
        assert sorted(layouts) == [1, 2]
        # One of them takes a level less, and is computed at no more limbs for that.
        assert len({node.limbs for node in one.plan.nodes if node.title.startswith("conv2d")}) == 1
        check(one)


def test_copies_of_a_result_have_parts_of_its_sums(tmp_path: Path) -> None:
    """Behind a stride, where copies of the result see the same entries at several distances."""
    first, second = (RANDOM.normal(size=size) * 0.1 for size in ((16, 4, 3, 3), (16, 16, 3, 3)))

    def network(x: Any) -> Any:
        x = cb.refresh(cb.conv2d(x, first, padding=1))
        return cb.conv2d(x, second, padding=1, stride=2)

    program = toy(network, x=S(4, 16, 16), form="tensors", precision=1e-2)
    program.save(tmp_path / "program.cb")
    for one in (program, cb.Program.load(tmp_path / "program.cb", insecure=True)):
        assert [choice.options.get("folded") for choice in one.plan.decided.choices.values()][-1]
        check(one)


def test_an_a_part_is_shared_where_keys_and_time_allow() -> None:
    """Not where keys come first, of few ciphertexts, in two rounds, or where slots are not full."""
    assert not shared(minimise="end-to-end").plan.decided.sharing
    larger = shared()
    assert not shared(key_budget=larger.plan.key_bytes // 3).plan.decided.sharing
    assert not shared(x=S(20, 200)).plan.decided.sharing
    twice = toy(lambda x: cb.refresh(x * x, rounds=2) * x, x=S(32, 448), error=2.0**-22, minimise="server")
    assert not twice.plan.decided.sharing


def test_shared_keys_and_programs_in_files(tmp_path: Path) -> None:
    program = shared()
    program.save(tmp_path / "plan.cb")
    program = cb.Program.load(tmp_path / "plan.cb", insecure=True)
    client = program.client()
    client.write_evaluation_keys(tmp_path / "keys")
    keys = cb.EvaluationKeys.load(tmp_path / "keys", insecure=True, memory=1 << 22)
    x = RANDOM.uniform(-1, 1, (32, 448))
    sent = client.encrypt({"x": x})
    server = program.server(keys)
    found = client.decrypt(server.run(sent))
    assert np.abs(found - x**3).max() <= program.plan.error
    assert server.last.counts == program.plan.counts
    assert program.plan.key_bytes == client.evaluation_keys().nbytes
    ordinary = shared(minimise="end-to-end").client().evaluation_keys()
    with pytest.raises(cb.CipherblasError):
        program.server(ordinary)


def test_foreign_files_that_share_an_a_part(tmp_path: Path) -> None:
    for name, shape in (("many", (32, 448)), ("few", (8, 8))):
        shared(x=S(*shape)).save(tmp_path / name)
    for name, pairs in (("many", 4), ("many", 0), ("many", 129), ("many", "3"), ("many", 7), ("few", 3)):

        def decide(header: dict[str, Any], pairs: Any = pairs) -> None:
            header["decisions"]["sharing"] = pairs

        forge(tmp_path / name, tmp_path / "forged", decide)
        with pytest.raises(cb.FormatError, match=r"sharing|share their a part"):
            cb.Program.load(tmp_path / "forged", insecure=True)


def test_results_are_not_shared_whose_worst_case_has_no_bound() -> None:
    program = toy(powers, x=S(5, 5), precision=1e-2)
    with pytest.raises(cb.PrecisionError, match="noise that sharing needs is larger than the result"):
        cb.Sharing(entries=25).deviation(program)


def test_refused() -> None:
    x = S(4, 4)
    with pytest.raises(cb.ParameterError, match="has all levels and cannot be refreshed"):
        toy(lambda x: cb.refresh(x + 1), x=x)
    with pytest.raises(cb.ParameterError, match="Only an encrypted node"):
        toy(lambda x, w: cb.refresh(w @ w) @ x, x=x, w=cb.public(4, 4))
    with pytest.raises(cb.DTypeError, match="must be a node of the program"):
        cb.refresh(np.ones((4, 4)))
    with pytest.raises(cb.ParameterError, match="not computed by rows alone"):
        toy(lambda a, b: cb.refresh(a @ b) @ b, a=x, b=x, form="rows")
    for options, advice in (
        ({"ring_degree": 1 << 14}, "the same without ring_degree="),
        ({"security": 192}, "security=128: at 128 bits of security it fits"),
    ):
        with pytest.raises(cb.PrecisionError, match=rf"(?s)Write: {advice}.* sparse secret does not reach"):
            program_of(powers, x=x, precision=1e-2, **options)
    with pytest.raises(cb.PrecisionError):
        toy(powers, x=x, precision=1e-7)
    with pytest.raises(
        cb.MemoryBudgetError, match=r"of keys, key_budget is .* KiB, a share of memory_budget"
    ):
        toy(powers, x=x, precision=1e-2, memory_budget=1 << 20)
