"""Programs on the engine of the accelerator: the words of the processor, and which calls it computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas import public, secret
from cipherblas.common.errors import MismatchError, ParameterError, StorageError, UnsuitedError
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.engines import registry
from cipherblas_hardware.accelerator.engine import ACCELERATED, FameEngine, MakeElement, on_machine, on_rtl
from tests.support.plug_ins import write_metadata
from tests.support.runs import toy, values_of

pytestmark = [pytest.mark.encrypted, pytest.mark.filterwarnings("ignore")]


class Watched(FameEngine):
    """The engine on the functional model, known to the test."""

    made: list[FameEngine] = []  # noqa: RUF012

    def __init__(self, params: Parameters, **options: Any) -> None:
        super().__init__(params, **options)
        self.made.append(self)


@pytest.fixture
def watched() -> Iterator[list[FameEngine]]:
    """Engines of the name "watched"."""
    Watched.made.clear()
    cb.register_engine("watched", Watched)
    yield Watched.made
    registry.unregister_engine("watched")


def parameters(limbs: int = 5) -> Parameters:
    """An INSECURE ring of 128 slots."""
    sizes = [50.0, 50.0, *[40.0] * (limbs - 2)]
    return make_parameters(256, sizes, alpha=2, scale_bits=40.0, security=0, insecure=True)


def run(program: cb.Program, engine: str) -> tuple[Any, float]:
    """The ciphertexts of the result, and the largest error of what they decrypt to."""
    client, values = program.client(), values_of(program)
    keys, expected = client.evaluation_keys(), program.evaluate(values)
    hidden = {name: values[name] for name, operand in program.operands.items() if operand.secret}
    operands = {**values, **client.encrypt(hidden)}
    result = program.server(keys, engine=engine).run(operands)
    wanted = program.server(keys).run(operands)
    for mine, core in zip(result.ciphertexts, wanted.ciphertexts, strict=True):
        assert np.array_equal(mine, core)
    return result.ciphertexts, float(np.abs(client.decrypt(result) - expected).max())


@pytest.mark.parametrize(("m", "k", "n"), [(4, 4, 4), (3, 5, 2)])
def test_the_published_product(m: int, k: int, n: int, watched: list[FameEngine]) -> None:
    """Algorithm 2: every ciphertext is compared with the processor's, and the result decrypts to A·B."""
    program = toy(
        lambda a, b: a @ b,
        a=secret(m, k),
        b=secret(k, n),
        algorithm="fame-published",
        parameters=parameters(),
        ring_degree=None,
    )
    _, error = run(program, "watched")
    assert error <= program.plan.error
    tally = watched[0].tally
    assert tally.passes > 1000 and tally.cycles == tally.scheduled
    assert not watched[0].elsewhere
    counts = program.plan.counts
    # The core divides every sum of a call by P where one of them is modulo Q·P, the accelerator those that are.
    counted = counts.ntt_limbs * 8 + counts.mac_limbs
    assert 0 < 0.95 * counted < tally.passes - tally.overflow - tally.kinds["sums"] < counted


def test_two_products_one_after_the_other(watched: list[FameEngine]) -> None:
    program = toy(
        lambda a, b, c: a @ b @ c,
        a=secret(3, 4),
        b=secret(4, 3),
        c=secret(3, 2),
        algorithm="fame-published",
        parameters=parameters(9),
        ring_degree=None,
    )
    _, error = run(program, "watched")
    assert error <= program.plan.error
    assert not watched[0].elsewhere


def test_a_program_in_the_hardware(simulated: MakeElement) -> None:
    """Two products one after the other: the engine raises where a word is not the processor's."""
    made: list[FameEngine] = []

    def engine(params: Parameters) -> FameEngine:
        made.append(FameEngine(params, simulated, strict=True))
        return made[-1]

    cb.register_engine("hardware", engine)
    program = toy(
        lambda a, b, c: a @ b @ c,
        a=secret(3, 4),
        b=secret(4, 3),
        c=secret(3, 2),
        algorithm="fame-published",
        parameters=parameters(9),
        ring_degree=None,
    )
    _, error = run(program, "hardware")
    registry.unregister_engine("hardware")
    assert error <= program.plan.error
    assert made[0].tally.programs > 10 and made[0].tally.cycles == made[0].tally.scheduled


def test_other_programs(watched: list[FameEngine]) -> None:
    """Of a chosen product, clear operands, sums, and functions: what the accelerator lacks is the processor's."""
    given: dict[str, Any] = {"parameters": parameters(7), "ring_degree": None}
    for program in (
        toy(lambda a, w: 2.5 * (a @ w) - a, a=secret(4, 4), w=public(4, 4), **given),
        toy(lambda a: a * a - a, a=secret(4, 4), **given),
    ):
        _, error = run(program, "watched")
        assert error <= program.plan.error
    assert all(engine.tally.programs for engine in watched)


# --- single calls ---


@pytest.fixture(scope="module")
def cts() -> dict[str, Any]:
    """Random words of a toy ring."""
    params = parameters(3)
    rng = np.random.default_rng(2)

    def words(components: int, limbs: int = 3) -> Any:
        rows = [rng.integers(0, q, (components, params.n), dtype=np.uint64) for q in params.q[:limbs]]
        return np.ascontiguousarray(np.stack(rows, axis=1))

    context = params.context()
    digits, moduli = 2, [*params.q, *params.p]
    key = np.stack(
        [
            np.stack(
                [
                    context.pack_key(
                        np.stack([rng.integers(0, q, params.n, dtype=np.uint64) for q in moduli])
                    )
                    for _ in range(2)
                ]
            )
            for _ in range(digits)
        ]
    )
    return {"params": params, "two": [words(2), words(2)], "three": words(3), "key": key}


def test_calls_are_compared(cts: dict[str, Any]) -> None:
    """Every call that the accelerator has, beside the processor's, which `FameEngine` compares."""
    engine = FameEngine(cts["params"], strict=True)
    (x, y), three, key = cts["two"], cts["three"], cts["key"]
    calls: dict[str, Any] = {
        "linear_transform": ([x, y], [(0, 0, 5, 0, -1), (0, 1, 1, -1, -1)], [key], [], 1, True, "limb"),
        "switch": (x, key),
        "relinearise": (three, key, True),
        "multiply_sum": ([x, y], [y, x], None),
        "multiply_relinearise": (x, y, key, 3),
        "relinearised_sums": ([[x], [y]], [[y]], key, 7),
        "multiply_rescale": (x, y, key, 3, y, -2, 5, 1),
        "rescale": (three,),
        "add": (x, three),
        "sub": (x, three),
        "neg": (x,),
        "multiply_scalar": (x, -(1 << 60)),
        "scaled_sums": ([([x, y], [3, -5], 7)],),
    }
    assert calls.keys() == set(ACCELERATED)
    for name, arguments in calls.items():
        before = engine.tally.programs
        found = getattr(engine, name)(*arguments)
        wanted = getattr(super(FameEngine, engine), name)(*arguments)
        for mine, core in zip(
            found if isinstance(found, list) else [found],
            wanted if isinstance(wanted, list) else [wanted],
            strict=True,
        ):
            assert np.array_equal(mine, core), name
        assert engine.tally.programs > before


def test_a_wrong_word_is_noticed(cts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FameEngine(cts["params"])
    plain = engine._runner.add
    monkeypatch.setattr(engine._runner, "add", lambda x, y: plain(x, y) + np.uint64(1))
    x, y = cts["two"]
    with pytest.raises(MismatchError, match=r"words of add are not those of the processor"):
        engine.add(x, y)
    assert FameEngine(cts["params"], compared=False).add(x, y).shape == x.shape


def test_calls_that_the_accelerator_lacks(cts: dict[str, Any]) -> None:
    engine, strict = FameEngine(cts["params"]), FameEngine(cts["params"], strict=True)
    x, _ = cts["two"]
    engine.add_plain(x, x[0])
    assert engine.elsewhere == {"add_plain": 1}
    with pytest.raises(UnsuitedError, match="does not compute add_plain"):
        strict.add_plain(x, x[0])
    three = cts["three"][[0, 1, 2, 0]]
    with pytest.raises(UnsuitedError, match="does not compute linear_transform"):
        strict.linear_transform([three], [(0, 0, 1, -1, -1)], [], [], 1, False, "limb")


def test_lanes_that_a_ring_has(cts: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="no such lanes"):
        FameEngine(cts["params"], lanes=256)
    assert on_machine(cts["params"]).beside(cts["params"]).tally.programs == 0


# --- engines of other distributions ---


def test_the_engines_of_this_distribution() -> None:
    assert {"fame-machine", "fame-rtl"} <= set(registry.engine_names())
    assert registry.maker_of("fame-machine") is on_machine
    assert registry.maker_of("fame-rtl") is on_rtl


def test_engines_are_brought(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By entry points, loaded when they are asked for."""
    place = "cipherblas_hardware.accelerator.engine:on_machine"
    write_metadata(
        tmp_path, "brings_engines", {}, {"brought": place, "broken": "no_module_of_this_name:engine"}
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.engine_names()[-2:] == ["broken", "brought"] or "brought" in registry.engine_names()
    assert registry.maker_of("brought") is on_machine
    with pytest.raises(StorageError, match="cannot be loaded"):
        registry.maker_of("broken")
    with pytest.raises(ParameterError, match="brought"):
        registry.maker_of("neither")
