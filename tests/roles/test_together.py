"""Programs that are compiled together: one parameter set, one client, one set of keys; shared encryptions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.distributed.in_process import run_ranks
from tests.support.runs import toy_rows

pytestmark = pytest.mark.encrypted
S = cb.secret
RANDOM = np.random.default_rng(7)


def network(seed: int) -> Callable[[Any], Any]:
    """Two layers of one shape, with weights of their own."""
    rng = np.random.default_rng(seed)
    first, second = rng.uniform(-0.3, 0.3, (16, 24)), rng.uniform(-0.3, 0.3, (4, 16))
    return lambda x: second @ cb.square(first @ x)


def networks() -> cb.Programs[cb.Program]:
    operands = {"x": S(24)}
    written = {f"n{seed}": (network(seed), operands) for seed in range(3)}
    return cb.compile_together(written, precision=1e-3)


@pytest.fixture(scope="module")
def three() -> cb.Programs[cb.Program]:
    return networks()


def checked(programs: cb.Programs[cb.Program], client: cb.JointClient, keys: Any, name: str) -> None:
    """A program of several computes what it should, with the keys of all."""
    program = programs[name]
    values = {key: RANDOM.uniform(-1, 1, one.shape) for key, one in program.operands.items()}
    result = program.server(keys).run(client[name].encrypt(values))
    error = np.abs(client[name].decrypt(result) - program.evaluate(values)).max()
    assert error <= program.plan.error_target


def test_three_networks_take_one_upload_of_keys(three: cb.Programs[cb.Program], tmp_path: Path) -> None:
    fingerprints = {one.plan.parameters.fingerprint() for one in three.values()}
    assert len(three) == 3 and len(fingerprints) == 1 and len({one.id for one in three.values()}) == 3
    client = three.client()
    client.write_evaluation_keys(tmp_path / "keys")
    keys = cb.EvaluationKeys.load(tmp_path / "keys")
    facts = cb.inspect(tmp_path / "keys")
    assert (keys.program_id, facts.program_id) == ("", "") and facts.key_id == keys.key_id != ""
    assert keys.request == three.keys_needed and keys.nbytes == three.key_bytes
    assert three.key_bytes < sum(one.plan.key_bytes for one in three.values())
    assert all(one.plan.keys.limbs.keys() <= keys.request.limbs.keys() for one in three.values())
    for name in three:
        checked(three, client, keys, name)


def test_one_encryption_serves_all(three: cb.Programs[cb.Program]) -> None:
    client = three.client()
    keys, x = client.evaluation_keys(), RANDOM.uniform(-1, 1, 24)
    sent = cb.EncryptedOperand.from_bytes(client["n0"].encrypt({"x": x})["x"].to_bytes())
    for name, program in three.items():
        result = cb.EncryptedResult.from_bytes(program.server(keys).run({"x": sent}).to_bytes())
        assert (
            np.abs(client[name].decrypt(result) - program.evaluate({"x": x})).max()
            <= program.plan.error_target
        )
        client[name].decrypt(result, of={"x": sent})
    later = client["n2"].encrypt({"x": x})
    with pytest.raises(cb.MismatchError, match="latest encryption"):  # one record for all of them
        client["n0"].decrypt(three["n0"].server(keys).run({"x": sent}))
    client["n0"].decrypt(three["n0"].server(keys).run(later))


def test_saved_and_loaded_again(three: cb.Programs[cb.Program], tmp_path: Path) -> None:
    client = three.client()
    client.save(tmp_path / "key")
    keys = client.evaluation_keys()
    for name, program in three.items():
        program.save(tmp_path / name)
        program.save_client(tmp_path / f"{name}.client")
    again = cb.Programs({name: cb.Program.load(tmp_path / name) for name in three})
    assert {name: one.id for name, one in again.items()} == {name: one.id for name, one in three.items()}
    checked(again, again.load_client(tmp_path / "key"), keys, "n1")
    light = cb.Programs({name: cb.ClientProgram.load(tmp_path / f"{name}.client") for name in three})
    x = RANDOM.uniform(-1, 1, 24)
    remote = light.load_client(tmp_path / "key")
    assert light["n0"].encoding_id("x") == three["n0"].encoding_id("x") == three["n1"].encoding_id("x")
    sent = remote["n0"].encrypt({"x": x})
    result = three["n1"].server(keys).run(sent)
    assert np.abs(remote["n1"].decrypt(result) - three["n1"].evaluate({"x": x})).max() <= 1e-1
    alone = cb.Client.load(tmp_path / "key", three["n2"])  # the same key file, for one of them
    alone.decrypt(three["n2"].server(keys).run(alone.encrypt({"x": x})))
    assert remote.evaluation_keys().request == keys.request


def test_programs_of_different_depth_and_form() -> None:
    weights = RANDOM.uniform(-1, 1, (8, 8))
    programs = cb.compile_together(
        {
            "product": (lambda a, b: a @ b, {"a": S(8, 8), "b": S(8, 8)}),
            "deep": (lambda a: cb.square(cb.square(weights @ a) * 0.01), {"a": S(8, 8)}),
            "table": (lambda a: a * a + a, {"a": S(8, 8)}),
        }
    )
    client = programs.client()
    keys = client.evaluation_keys()
    for name in programs:
        checked(programs, client, keys, name)


def test_what_lies_otherwise_is_refused() -> None:
    """The same operand, with another bound."""
    programs = cb.compile_together(
        {"a": (lambda x: x * x, {"x": S(8)}), "b": (lambda x: x * x, {"x": S(8, bound=3.0)})}
    )
    client = programs.client()
    keys = client.evaluation_keys()
    sent = client["a"].encrypt({"x": np.ones(8)})
    with pytest.raises(cb.MismatchError, match="alike"):
        programs["b"].server(keys).run(sent)
    checked(programs, client, keys, "b")


def test_a_result_is_no_operand(three: cb.Programs[cb.Program]) -> None:
    client = three.client()
    keys = client.evaluation_keys()
    result = three["n0"].server(keys).run(client["n0"].encrypt({"x": np.ones(24)}))
    with pytest.raises(cb.MismatchError, match="No program is planned for what another one leaves"):
        three["n1"].server(keys).run({"x": result})


def test_keys_of_others_are_refused(three: cb.Programs[cb.Program], tmp_path: Path) -> None:
    client, other = three.client(), three.client()
    sent = client["n0"].encrypt({"x": np.ones(24)})
    with pytest.raises(cb.MismatchError, match="different key pairs"):
        three["n0"].server(other.evaluation_keys()).run(sent)
    own = three["n0"].client()
    with pytest.raises(cb.MismatchError, match="another program"):
        three["n1"].server(own.evaluation_keys())
    own.save(tmp_path / "own")
    with pytest.raises(cb.MismatchError, match="one program"):
        three.load_client(tmp_path / "own")
    few = three["n0"].server(client.evaluation_keys())
    assert few.run(sent).key_id == client.evaluation_keys().key_id
    stranger = cb.compile(lambda x: x * x, {"x": S(24)})
    with pytest.raises(cb.MismatchError, match="parameters"):
        stranger.server(client.evaluation_keys())
    with pytest.raises(cb.MismatchError, match="different parameters"):
        cb.Programs({"n0": three["n0"], "other": stranger})
    with client:
        client["n1"].encrypt({"x": np.ones(24)})
    assert client.closed
    with pytest.raises(cb.SecurityError):
        client["n1"].encrypt({"x": np.ones(24)})


def test_a_missing_key_is_named(three: cb.Programs[cb.Program]) -> None:
    keys = three.client().evaluation_keys()
    own = three["n0"].plan.keys
    assert three["n0"].server(keys.only(own)).program is three["n0"]
    first = next(iter(own.limbs))
    fewer = keys.only(type(own)({key: limbs for key, limbs in own.limbs.items() if key != first}))
    with pytest.raises(cb.MissingKeyError):
        three["n0"].server(fewer)


def test_ranks_have_the_words_of_one_process() -> None:
    programs = cb.compile_together(
        {
            "sum": (lambda a, b: a @ b + a, {"a": S(8, 8), "b": S(8, 8)}),
            "product": (lambda a, b: a @ b, {"a": S(8, 8), "b": S(8, 8)}),
        },
        block=4,
    )
    client = programs.client()
    keys = client.evaluation_keys()
    values = {name: RANDOM.uniform(-1, 1, (8, 8)) for name in "ab"}
    for name, program in programs.items():
        sent = client[name].encrypt(values)
        alone = program.server(keys).run(sent)
        found = run_ranks(2, lambda at: program.server(keys, communicator=at).run(sent))  # noqa: B023
        assert found[0].digest == alone.digest


def test_exact_programs_modulo_one_t() -> None:
    both = {"a": S(6, 6, modulus=65537), "b": S(6, 6, modulus=65537)}
    programs = cb.compile_together(
        {"product": (lambda a, b: a * b, both), "sum": (lambda a, b: a * a + b, both)}
    )
    client = programs.client()
    keys = client.evaluation_keys()
    values = {name: RANDOM.integers(0, 65537, (6, 6)) for name in "ab"}
    for name, program in programs.items():
        result = program.server(keys).run(client[name].encrypt(values))
        assert np.array_equal(client[name].decrypt(result), program.evaluate(values))


def test_features() -> None:
    weights = [RANDOM.uniform(-0.2, 0.2, (4, 6)) for _ in range(2)]
    programs = cb.compile_together(
        {f"w{i}": (lambda x, w=w: cb.square(w @ x), {"x": S(6, 64)}) for i, w in enumerate(weights)},
        form="features",
        precision=1e-2,
    )
    client = programs.client()
    keys, x = client.evaluation_keys(), RANDOM.uniform(-1, 1, (6, 64))
    sent = client["w0"].encrypt({"x": x})
    for name, program in programs.items():
        found = client[name].decrypt(program.server(keys).run(sent))
        assert np.abs(found - program.evaluate({"x": x})).max() <= program.plan.error_target


def test_keys_that_are_made_from_weights_serve_one_program() -> None:
    program = toy_rows(
        lambda b: np.ones((3, 50)) @ b, n=64, fixed=True, b=cb.secret(50, 9, dtype="int8", exact=True)
    )
    assert program.plan.keys.weights
    with pytest.raises(cb.ParameterError, match="made from its weights"):
        cb.Programs({"fixed": program})


def test_programs_that_no_set_serves() -> None:
    with pytest.raises(cb.ParameterError, match="No parameter set serves all"):
        cb.compile_together(
            {"real": (lambda x: x * x, {"x": S(8)}), "whole": (lambda x: x * x, {"x": S(8, modulus=65537)})}
        )
    with pytest.raises(cb.DTypeError, match="dictionary"):
        cb.compile_together([lambda x: x])  # type: ignore[arg-type]
    with pytest.raises(cb.DTypeError, match="dictionary"):
        cb.Programs([1])  # type: ignore[arg-type]
    with pytest.raises(cb.ParameterError, match="no program to compile"):
        cb.compile_together({})
