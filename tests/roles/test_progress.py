"""Every public call tells what it does, or is over within a second: a new one must be entered here, or this fails."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_origin

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.progress import Steps

pytestmark = pytest.mark.encrypted
# What takes no second: it looks at what is there, makes one small key, or enters a name.
SHORT_CALLS = (
    *("Client.load", "Client.public_key", "Client.save", "Program.client", "Program.encryptor"),
    *(
        "EvaluationKeys.check",
        "EvaluationKeys.expect",
        "EvaluationKeys.get",
        "EvaluationKeys.key",
        "EvaluationKeys.relinearisation",
    ),
    *(
        "EvaluationKeys.digest",
        "EvaluationKeys.only",
        "EvaluationKeys.keep_within",
        "EvaluationKeys.modulo",
        "PublicKey.modulo",
    ),
    *(
        "Machine.checked",
        "Machine.from_dict",
        "Machine.given",
        "Machine.here",
        "Machine.keep",
        "Machine.load",
        "Machine.save",
    ),
    *("Machine.to_dict", "Machine.usual", "Machine.to_bytes", "Machine.from_bytes"),
    *("Client.close", "Client.to_bytes", "Client.from_bytes", "PublicKey.to_bytes", "PublicKey.from_bytes"),
    *(
        "Program.arranged",
        "Program.encodings",
        "Program.explain",
        "Program.inputs_of",
        "Program.whole",
        "Program.evaluated_modulo",
    ),
    *("Program.check", "Sharing.ask_ledger"),
    *("ClientProgram.arranged", "ClientProgram.client", "ClientProgram.encryptor", "ClientProgram.of"),
    "Client.of",
    *("ClientProgram.inputs_of", "ClientProgram.whole", "ClientProgram.found_worst_errors"),
    *(
        "Program.server",
        "Run.cancel",
        "Server.prepare",
        "PublicKey.load",
        "PublicKey.save",
        "isa",
        "register",
        "register_engine",
    ),
    # Of a service: others are waited for, and `ServedJob.state` tells how it goes.
    *(
        "connect",
        "aconnect",
        "Service.ask",
        "Service.close",
        "Service.program",
        "Service.programs",
        "Service.publish",
    ),
    *("Service.send", "ServedProgram.client", "ServedClient.submit"),
    *("ServedJob.cancel", "ServedJob.encrypted", "ServedJob.result"),
    *("inspect", "FileFacts.to_dict", "RunReport.and_then", "RunReport.to_dict"),
    *(
        f"{kind}.{name}"
        for kind in ("JointClient", "Programs")
        for name in ("get", "items", "keys", "values")
    ),
    *("JointClient.close", "JointClient.save", "Programs.client", "Programs.load_client"),
    *("Program.encoding_id", "Program.made_for", "Program.owners_of"),
    *("ClientProgram.encoding_id", "ClientProgram.made_for", "ClientProgram.owners_of"),
    *("set_threads", "show_config", "threads"),
    *("lab.accumulate", "lab.block_product", "lab.column_major", "lab.computes", "lab.entry_index"),
    *("lab.make_parameters", "lab.register", "lab.split_path", "lab.unregister"),
)


class World:
    """A program with a constant, two operands, and all that is made of them; in files, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.function = lambda a, b: a @ b + np.full((9, 9), 0.5)
        self.operands = {"a": cb.secret(9, 9), "b": cb.secret(9, 9, encryption="public-key")}
        self.program = cb.compile(self.function, self.operands, block=4, precision=1e-8)
        self.client = self.program.client()
        self.keys = self.client.evaluation_keys()
        self.values = {"a": np.eye(9), "b": np.full((9, 9), 0.25)}
        self.encrypted = self.client.encrypt(self.values)
        self.server = self.program.server(self.keys)
        self.result = self.server.run(self.encrypted)
        self.encryptor = self.program.encryptor(self.client.public_key())
        self.program.save(folder / "program")
        self.program.save_client(folder / "client")
        self.keys.save(folder / "keys")
        self.encrypted["a"].save(folder / "operand")
        self.result.save(folder / "result")

    def bytes(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


Call = Callable[[World, Any], object]
# Whom `progress` is told steps, (done, total).
STEPS: dict[str, Call] = {
    "ClientProgram.load": lambda w, p: cb.ClientProgram.load(w.folder / "client", progress=p),
    "ClientProgram.save": lambda w, p: cb.ClientProgram.of(w.program).save(w.folder / "new", progress=p),
    "ClientProgram.from_bytes": lambda w, p: cb.ClientProgram.from_bytes(w.bytes("client"), progress=p),
    "ClientProgram.to_bytes": lambda w, p: cb.ClientProgram.of(w.program).to_bytes(progress=p),
    "Client.decrypt": lambda w, p: w.client.decrypt(w.result, of=w.encrypted, progress=p),
    "Client.encrypt": lambda w, p: w.client.encrypt({"a": w.values["a"]}, progress=p),
    "Client.evaluation_keys": lambda w, p: w.client.evaluation_keys(p),
    "Client.write_evaluation_keys": lambda w, p: w.client.write_evaluation_keys(w.folder / "new", p),
    "JointClient.evaluation_keys": lambda w, p: joint(w).evaluation_keys(p),
    "JointClient.write_evaluation_keys": lambda w, p: joint(w).write_evaluation_keys(w.folder / "new", p),
    "EncryptedOperand.from_bytes": lambda w, p: cb.EncryptedOperand.from_bytes(
        w.bytes("operand"), progress=p
    ),
    "EncryptedOperand.to_bytes": lambda w, p: w.encrypted["a"].to_bytes(progress=p),
    "EncryptedOperand.load": lambda w, p: cb.EncryptedOperand.load(w.folder / "operand", progress=p),
    "EncryptedOperand.save": lambda w, p: w.encrypted["a"].save(w.folder / "new", progress=p),
    "EncryptedResult.from_bytes": lambda w, p: cb.EncryptedResult.from_bytes(w.bytes("result"), progress=p),
    "EncryptedResult.to_bytes": lambda w, p: w.result.to_bytes(progress=p),
    "EncryptedResult.load": lambda w, p: cb.EncryptedResult.load(w.folder / "result", progress=p),
    "EncryptedResult.save": lambda w, p: w.result.save(w.folder / "new", progress=p),
    "Encryptor.encrypt": lambda w, p: w.encryptor.encrypt({"b": w.values["b"]}, progress=p),
    "EvaluationKeys.from_bytes": lambda w, p: cb.EvaluationKeys.from_bytes(w.bytes("keys"), progress=p),
    "EvaluationKeys.to_bytes": lambda w, p: w.keys.to_bytes(progress=p),
    "EvaluationKeys.load": lambda w, p: cb.EvaluationKeys.load(w.folder / "keys", progress=p),
    "EvaluationKeys.load_all": lambda w, p: cb.EvaluationKeys.load(w.folder / "keys", lazy=True).load_all(p),
    "EvaluationKeys.save": lambda w, p: w.keys.save(w.folder / "new", progress=p),
    "Machine.measure": lambda w, p: cb.Machine.measure("here", progress=p),
    "Run.result": lambda w, p: w.server.prepare(w.encrypted).result(p),
    "Program.simulate": lambda w, p: w.program.simulate(w.values, progress=p),
    "Program.evaluate": lambda w, p: w.program.evaluate(w.values, progress=p),
    "Program.found_worst_errors": lambda w, p: fresh(w).found_worst_errors(p),
    "Program.from_bytes": lambda w, p: cb.Program.from_bytes(w.bytes("program"), progress=p),
    "Program.to_bytes": lambda w, p: w.program.to_bytes(progress=p),
    "Program.load": lambda w, p: cb.Program.load(w.folder / "program", progress=p),
    "Program.with_encodings": lambda w, p: w.program.with_encodings({}, progress=p),
    "Program.save_client": lambda w, p: w.program.save_client(w.folder / "new", progress=p),
    "Program.save": lambda w, p: w.program.save(w.folder / "new", progress=p),
    "Server.load_keys": lambda w, p: w.program.server(
        cb.EvaluationKeys.load(w.folder / "keys", lazy=True)
    ).load_keys(p),
    "Server.run": lambda w, p: w.server.run(w.encrypted, progress=p),
    "Sharing.deviation": lambda w, p: cb.Sharing(1).deviation(fresh(w), progress=p),
    "Sharing.deviations": lambda w, p: cb.Sharing(1).deviations(fresh(w), p),
}
# Whom it is told words.
WORDS: dict[str, Call] = {
    "compile": lambda w, p: cb.compile(w.function, w.operands, progress=p),
    "compile_together": lambda w, p: cb.compile_together({"one": (w.function, w.operands)}, progress=p),
    "lab.run": lambda w, p: cb.lab.run(
        lambda ev, x: ev.add(x, ev.rotate(x, 1)), [np.ones(4096)], on="native", compare=True, progress=p
    ),
}


def joint(world: World) -> cb.JointClient:
    """A client of the program, as one of several."""
    return cb.Programs({"one": world.program}).client()


def fresh(world: World) -> cb.Program:
    """The program, of which nothing was asked yet."""
    return cb.Program.load(world.folder / "program")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("progress"))


def test_every_public_call_is_entered() -> None:
    found = set()
    for place, module in (("", cb), ("lab.", cb.lab)):
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and not place and not issubclass(value, (Exception, Warning)):
                found |= {f"{name}.{method}" for method in methods_of(value)}
            elif callable(value) and not isinstance(value, type) and not get_origin(value):
                found |= set() if of_the_language(value) else {place + name}
    entered = {*STEPS, *WORDS, *SHORT_CALLS}
    assert sorted(found - entered) == [], "entered nowhere"
    assert sorted(entered - found) == [], "no longer there"


@pytest.mark.parametrize("name", sorted({*STEPS, *WORDS}))
def test_progress_is_an_option(name: str) -> None:
    place: Any = cb
    for part in name.split("."):
        place = getattr(place, part)
    assert inspect.signature(place).parameters["progress"].default in (None, inspect.Parameter.empty)
    if name not in ("Program.found_worst_errors", "Sharing.deviations"):  # which others explain
        said = inspect.getdoc(place) or ""
        assert "progress" in said or "rguments" in said  # those of another call


@pytest.mark.parametrize("name", sorted(STEPS))
def test_steps(name: str, world: World) -> None:
    told: list[tuple[int, int]] = []
    STEPS[name](world, lambda *step: told.append(step))
    assert told[-1][0] == told[-1][1] > 0
    runs = [[told[0]]]  # one, or of a program's file one for its constants and one for its operations
    for step in told[1:]:
        runs.append([]) if step[1] != runs[-1][-1][1] else None
        runs[-1].append(step)
    assert len(runs) <= 1 + (name in ("Program.load", "Program.from_bytes"))
    for run in runs:
        done = [step[0] for step in run]
        assert done == sorted(done) and done[0] > 0 and done[-1] <= run[0][1]


@pytest.mark.parametrize("name", sorted(WORDS))
def test_words(name: str, world: World) -> None:
    told: list[str] = []
    WORDS[name](world, told.append)
    assert len(told) > 3 and all(told)


@pytest.mark.parametrize("name", sorted({*STEPS, *WORDS}))
def test_what_progress_raises_ends_the_call(name: str, world: World) -> None:
    (world.folder / "new").unlink(missing_ok=True)
    before = sorted(path.name for path in world.folder.iterdir())

    def enough(*told: Any) -> None:
        raise TimeoutError(told)

    with pytest.raises(TimeoutError):
        {**STEPS, **WORDS}[name](world, enough)
    assert sorted(path.name for path in world.folder.iterdir()) == before


def test_steps_of_several_threads_are_told_in_order() -> None:
    told: list[tuple[int, int]] = []
    steps = Steps(lambda *step: told.append(step), 1000)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: steps.tick(), range(1000)))
    assert told == [(done, 1000) for done in range(1, 1001)]
    steps.tick(0)
    assert len(told) == 1000


def methods_of(kind: type) -> list[str]:
    """The public methods of a class, those of its bases in the package included."""
    names = [name for name in dir(kind) if not name.startswith("_")]
    kinds = (types.FunctionType, classmethod, staticmethod)
    return [name for name in names if isinstance(inspect.getattr_static(kind, name), kinds)]


def of_the_language(function: Any) -> bool:
    """Such as `sum`: it makes a node of a program, and computes nothing."""
    return str(function.__module__).startswith("cipherblas.lang")
