"""A recorded run: the same words, counts that are those of the plan, lifetimes, and a replay by the calls alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import cipherblas as cb
from cipherblas import public, secret
from cipherblas.engines import registry
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.operations import KINDS
from cipherblas.engines.recording import Recording
from cipherblas.methods.products import ALGORITHMS
from tests.support.reference_engine import ReferenceEngine
from tests.support.runs import toy, toy_rows, values_of

pytestmark = pytest.mark.encrypted

RNG = np.random.default_rng(8)
KERNEL, DENSE = RNG.uniform(-1, 1, (2, 2, 3, 3)), RNG.uniform(-1, 1, (4, 32))
SQUARE = {"a": secret(4, 4)}

PROGRAMS: dict[str, Callable[[], cb.Program]] = {
    **{
        name: lambda name=name: toy(lambda a, b: a @ b, a=secret(5, 6), b=secret(6, 4), algorithm=name)
        for name in ALGORITHMS
    },
    "blocks": lambda: toy(lambda a, b: a @ b, a=secret(6, 7), b=secret(7, 5), block=4),
    "chain": lambda: toy(lambda a: a @ a @ a.T, **SQUARE),
    "constants": lambda: toy(lambda a: (2.5 - a @ np.eye(4)[:, :3]) / 3, **SQUARE),
    "entrywise": lambda: toy(lambda a: (a @ a) * (a - 1) - a * a, **SQUARE),
    "binary": lambda: toy(lambda a: a @ a, key_policy="binary", order="rotation", **SQUARE),
    "polynomial": lambda: toy(lambda x: cb.polynomial(x, [0.1, 0.5, 0, 0.2, 0.1]), x=secret(8)),
    "network": lambda: toy(
        lambda x: DENSE @ cb.flatten(cb.square(cb.conv2d(x, KERNEL, padding=1))), x=secret(2, 4, 4)
    ),
    "rows": lambda: toy_rows(lambda a, b: a @ b, n=64, a=secret(3, 20), b=secret(20, 5), error=1e-2),
    "clear rows": lambda: toy_rows(
        lambda a, w: w @ a @ a.T, n=64, a=secret(3, 3), w=public(5, 3), error=1e-1
    ),
    "fixed weights": lambda: toy_rows(
        lambda a: (np.arange(40) % 7 - 3).reshape(5, 8) @ a, n=64, a=secret(8, 70), fixed=True, error=1e-1
    ),
}


# What evaluators count beside calls: what they ask for, what is kept from run to run, and both parts of an encryption
# by rows together.
BESIDE = {
    *("linear_transforms", "scalar_products", "mask_encodings", "operand_encodings", "weight_encodings"),
    *("weight_limbs", "stored_bytes", "adds", "moved_bytes"),
}


@pytest.fixture
def recording() -> Iterator[Recording]:
    found = Recording(words=True)
    cb.register_engine("recorded", found.engine)
    yield found
    registry.unregister_engine("recorded")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_recorded_run(name: str, recording: Recording) -> None:
    program = PROGRAMS[name]()
    client, values = program.client(), values_of(program)
    keys = client.evaluation_keys()
    hidden = {name: values[name] for name, one in program.operands.items() if one.secret}
    operands = {**values, **client.encrypt(hidden)}
    expected = program.server(keys).run(operands).ciphertexts
    found = program.server(keys, engine="recorded").run(operands).ciphertexts
    assert all(np.array_equal(one, other) for one, other in zip(expected, found, strict=True))
    # What it was for is what the plan has counted.
    counted, plan = vars(recording.counts()), vars(program.plan.counts)
    shown = plan.keys() - BESIDE
    assert {field: counted[field] for field in shown} == {field: plan[field] for field in shown}
    # What is read was made before, and is still held.
    for number, call in enumerate(recording.calls):
        assert all(one.made <= number for one in call.reads)
        assert all(one.dropped is None or one.dropped >= number for one in call.reads)
        assert all(
            one.made == number and one.kind in KINDS for one in call.makes if call.name != "upload_key"
        )
    # The calls alone compute the same, on any engine.
    words = recording.replayed(CpuEngine)
    assert sum(one.size for one in words) == sum(one.size for one in expected)
    assert all(np.array_equal(one, other) for one, other in zip(words, recording.replayed(), strict=True))
    left = np.concatenate([one.ravel() for one in words])
    assert np.array_equal(np.sort(left), np.sort(np.concatenate([one.ravel() for one in expected])))


def test_the_reference_engine_replays_what_the_processor_computed(recording: Recording) -> None:
    program = toy(lambda a: (a @ a) * a, algorithm="fame", **SQUARE)
    client = program.client()
    server = program.server(client.evaluation_keys(), engine="recorded")
    result = server.run(client.encrypt(values_of(program)))
    words = recording.replayed(ReferenceEngine)
    for one, other in zip(words, result.ciphertexts, strict=True):
        assert np.array_equal(one, other)


def test_what_a_run_makes_goes_with_it(recording: Recording) -> None:
    program = toy(lambda a: a @ a, **SQUARE)
    client = program.client()
    server = program.server(client.evaluation_keys(), engine="recorded")
    server.run(client.encrypt(values_of(program)))
    del server
    ciphertexts = [one for one in recording.data if one.kind == "Ciphertext"]
    assert ciphertexts and all(one.dropped is not None for one in ciphertexts)
    assert {one.limbs for one in ciphertexts} <= set(range(1, program.plan.parameters.limbs + 1))


def test_without_words_arrays_are_shapes() -> None:
    found = Recording()
    cb.register_engine("recorded", found.engine)
    program = toy(lambda a: a @ a, **SQUARE)
    client = program.client()
    program.server(client.evaluation_keys(), engine="recorded").run(client.encrypt(values_of(program)))
    registry.unregister_engine("recorded")
    upload = next(call for call in found.calls if call.name == "upload")
    assert upload.arguments["words"][-1] == program.plan.parameters.n
    assert found.engines[upload.engine] == program.plan.parameters
    assert found.times()["download"] == 1
