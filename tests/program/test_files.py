"""Programs, keys, operands and results through files, and between processes."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto import files
from cipherblas.planner.plan.plan import Plan
from cipherblas.rlwe.matrices import CoefficientMatrix
from tests.support.runs import Parties, lasting, run_by_files, values_of

PROGRAMS: dict[str, Callable[[], cb.Program]] = {
    "a @ b": lambda: cb.compile(lambda a, b: a @ b, {"a": cb.secret(5, 7), "b": cb.secret(7, 3)}),
    "blocked": lambda: cb.compile(
        lambda a, b: a @ b, {"a": cb.secret(9, 7), "b": cb.public(7, 5)}, block=4, algorithm="skewed"
    ),
    "chain": lambda: cb.compile(
        lambda a, b: (a @ b) @ a.T - 0.5 * np.ones((5, 5)),
        {"a": cb.secret(5, 4), "b": cb.secret(4, 4, bound=16)},
    ),
    "shared": lambda: cb.compile(lambda a: (lambda p: p * p + a)(a @ a), {"a": cb.secret(4, 4)}),
    "forgotten": lambda: cb.compile(lambda a, b: a + 0 * b, {"a": cb.secret(4, 4), "b": cb.secret(4, 4)}),
    "few keys": lambda: cb.compile(
        lambda a, b: a @ b,
        {"a": cb.secret(20, 20), "b": cb.secret(20, 20)},
        algorithm="fame",
        key_policy="binary",
    ),
}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> cb.Program:
    return PROGRAMS[request.param]()


def test_a_loaded_program_is_the_same(program: cb.Program, tmp_path: Path) -> None:
    program.save(tmp_path / "program")
    loaded = cb.Program.load(tmp_path / "program")
    assert loaded.id == program.id
    assert loaded.explain().splitlines() == lasting(program)
    assert loaded.plan == program.plan
    assert loaded.plan.to_dict() == {
        **program.plan.to_dict(),
        "rejected": [],
        "runners_up": {},
        "other_crossings": {},
        "key_saving": None,
    }
    assert loaded.operands == program.operands
    assert loaded.shape == program.shape
    assert loaded.outputs == program.outputs
    assert [feed.key for feed in map_feeds(loaded)] == [feed.key for feed in map_feeds(program)]
    loaded.save(tmp_path / "again")
    assert cb.Program.load(tmp_path / "again").id == program.id


def test_the_machine_of_a_file_changes_times_alone(program: cb.Program, tmp_path: Path) -> None:
    """Whoever writes the file chooses it, under the same identity: what is computed does not depend on it."""
    header, tensors = program._content()
    slower = {**header["planned_for"], "threads": 1, "link": 1e6, "mask_budget": 0, "minimise": "server"}
    rates = dict(slower["machine"]["rates"])
    for place, (name, rate) in enumerate(rates.items()):  # some a hundred times slower, others faster
        rates[name] = rate * 100.0 ** (place % 3 - 1) if isinstance(rate, float) else rate
    slower["machine"] = {**slower["machine"], "name": "other", "memory": 1 << 34, "rates": rates}
    files.write(
        tmp_path / "other",
        "program",
        {**header, "planned_for": slower},
        tensors,
        parameters=program.plan.parameters,
    )
    other = cb.Program.load(tmp_path / "other")
    assert other.id == program.id and other.plan.planned_for() == slower
    assert other.plan.stages.upload != program.plan.stages.upload
    for name in ("keys", "error", "parameters", "key_bytes", "upload_bytes", "levels", "results"):
        assert getattr(other.plan, name) == getattr(program.plan, name), name
    same, found = program.plan.counts, other.plan.counts  # but how often masks are encoded
    assert (found.rotations, found.products, found.moddowns) == (same.rotations, same.products, same.moddowns)
    assert other.worst_error == program.worst_error
    assert other.outputs == program.outputs
    assert [feed.key for feed in map_feeds(other)] == [feed.key for feed in map_feeds(program)]


def map_feeds(program: cb.Program) -> list[Any]:
    return [feed for name in program.operands for feed in program.inputs_of(name)]


def test_everything_through_files(program: cb.Program, tmp_path: Path) -> None:
    """Client and server meet in files alone, and the client starts anew in between."""
    run_by_files(program, values_of(program), tmp_path).check()


def test_results_through_files_are_bit_for_bit_the_same(program: cb.Program, tmp_path: Path) -> None:
    values = values_of(program)
    parties = Parties(program)
    client, server, inputs = parties.client, parties.server, parties.inputs(values)
    result = server.run(inputs)
    for name, value in inputs.items():
        if isinstance(value, cb.EncryptedOperand):
            value.save(tmp_path / name)
            inputs[name] = cb.EncryptedOperand.load(tmp_path / name)
            assert inputs[name].nbytes == value.nbytes
    again = server.run(inputs)
    for x, y in zip(result.ciphertexts, again.ciphertexts, strict=True):
        np.testing.assert_array_equal(x, y)
    result.save(tmp_path / "result")
    loaded = cb.EncryptedResult.load(tmp_path / "result")
    assert loaded.seconds == result.seconds
    np.testing.assert_array_equal(client.decrypt(loaded), client.decrypt(result))


def test_program_ids_tell_programs_apart() -> None:
    def compiled(factor: float = 1.0, rows: int = 4, **options: Any) -> str:
        made = cb.compile(
            lambda a, b: factor * (a @ b) + np.full((rows, 3), factor),
            {"a": cb.secret(rows, 5), "b": cb.secret(5, 3, bound=options.pop("bound", 1.0))},
            **options,
        )
        return made.id

    ids = [
        compiled(),
        compiled(factor=2.0),
        compiled(rows=5),
        compiled(bound=2.0),
        compiled(precision=1e-5),
        compiled(algorithm="fame"),
        compiled(security=192),
    ]
    assert len(set(ids)) == len(ids)
    assert compiled() == ids[0]


def test_constants_are_copied_when_the_program_is_compiled() -> None:
    weights = np.eye(4)
    program = cb.compile(lambda a: a @ weights, {"a": cb.secret(4, 4)})
    before = program.id
    weights[:] = 5
    values = values_of(program)
    client = program.client()
    result = program.server(client.evaluation_keys()).run(client.encrypt(values))
    assert program.id == before
    assert np.abs(client.decrypt(result) - values["a"]).max() <= program.plan.error


SERVER = """
import sys
from pathlib import Path
import numpy as np
import cipherblas as cb

inbox, outbox = map(Path, sys.argv[1:])
program = cb.Program.load(inbox / "program")
keys = cb.EvaluationKeys.load(inbox / "keys")
a = cb.EncryptedOperand.load(inbox / "a.ct")
b = cb.EncryptedOperand.load(inbox / "b.ct")
program.server(keys).run({"a": a, "b": b}).save(outbox / "c.ct")
print(program.id, program.explain())
"""


def test_a_server_in_another_process_that_sees_public_files_only(tmp_path: Path) -> None:
    public, private, outbox = (tmp_path / name for name in ("public", "private", "outbox"))
    for folder in (public, private, outbox):
        folder.mkdir()
    program = cb.compile(lambda a, b: (a @ b) @ a, {"a": cb.secret(4, 6), "b": cb.secret(6, 4)})
    program.save(public / "program")
    client = program.client()
    client.save(private / "secret-key")
    client.evaluation_keys().save(public / "keys")
    values = values_of(program)
    for name, ciphertext in client.encrypt(values).items():
        ciphertext.save(public / f"{name}.ct")
    done = subprocess.run(
        [sys.executable, "-c", SERVER, str(public), str(outbox)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    # Its times are predicted by the server's process, with the rates that it measured itself.
    times = ("expected time", "first run", "end to end")
    told, expected = done.stdout.strip().splitlines(), f"{program.id} {program.explain()}".splitlines()
    timed = [line.startswith(times) for line in told]
    assert sum(timed) == len(times)

    def lines_of_others(lines: list[str]) -> list[str]:
        text = "\n".join(lines).split("\nnodes, all")[0].split("\nnot taken:")[0]  # of nodes, too
        return [line for line in text.splitlines() if not line.startswith(times)]

    assert lines_of_others(told) == lines_of_others(expected)
    result = cb.EncryptedResult.load(outbox / "c.ct")
    again = cb.Client.load(private / "secret-key", program)
    assert np.abs(again.decrypt(result) - program.evaluate(values)).max() <= program.plan.error


def test_the_plan_as_json_is_complete() -> None:
    import json

    program = PROGRAMS["few keys"]()
    values = json.loads(json.dumps(program.plan.to_dict()))
    assert values["rotations"] == program.plan.counts.rotations > 0
    assert values["counts"]["products"] == values["products"]
    assert values["key_saving"]["key_policy"] == "direct"
    left_out = {
        "parameters",
        "decided",
        "keys",
        "error",
        "rejected",
        "runners_up",
        "other_conversions",
        "key_saving",
        "machine",
        "promise",
        "streamed_bytes",
    }  # under other names, or nested
    for name in Plan.__dataclass_fields__.keys() - left_out:
        assert values[name] == json.loads(json.dumps(getattr(program.plan, name), default=vars)), name
    assert values["machine"] == program.plan.machine.to_dict()
    assert values["promise"] == {"kind": "bounds"}
    assert values["seconds"] == program.plan.seconds > 0


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (cb.Program, {"work_budget", "progress"}),
        (cb.Client, {"program"}),
        (cb.PublicKey, set()),
        (cb.EvaluationKeys, {"lazy", "memory", "folder", "progress"}),
        (cb.EncryptedOperand, {"lazy", "progress"}),
        (cb.EncryptedResult, {"progress"}),
        (CoefficientMatrix, set()),
    ],
)
def test_every_kind_of_file_is_loaded_alike(kind: Any, more: set[str]) -> None:
    parameters = inspect.signature(kind.load).parameters
    assert next(iter(parameters)) == "path"
    assert {"security", "insecure"} | more == set(parameters) - {"path"}
    assert (parameters["security"].default, parameters["insecure"].default) == (128, False)
