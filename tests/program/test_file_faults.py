"""Damaged, newer, and hostile but well-formed files at the level of programs, clients and servers."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.crypto import files
from cipherblas.crypto.files import format as form
from cipherblas.crypto.files import reading, writing
from cipherblas.lang import graph
from tests.support.foreign_files import choice_of

VALUES = {
    "a": np.random.default_rng(1).uniform(-1, 1, (5, 7)),
    "b": np.random.default_rng(2).uniform(-1, 1, (7, 3)),
}


class Flow:
    """One program with its files, and what reads each of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = cb.compile(
            lambda a, b: a @ b + np.ones((5, 3)),
            {"a": cb.secret(5, 7), "b": cb.secret(7, 3)},
            algorithm="skewed",
        )
        self.client = self.program.client()
        self.keys = self.client.evaluation_keys()
        self.server = self.program.server(self.keys)
        self.inputs: dict[str, cb.EncryptedOperand] = self.client.encrypt(VALUES)
        self.result = self.server.run(self.inputs)
        self.writers: dict[str, Callable[[Path], None]] = {
            "program": self.program.save,
            "secret key": self.client.save,
            "evaluation keys": self.keys.save,
            "operand": self.inputs["a"].save,
            "result": self.result.save,
        }
        self.readers: dict[str, Callable[[Path], Any]] = {
            "program": cb.Program.load,
            "secret key": lambda path: cb.Client.load(path, self.program),
            "evaluation keys": cb.EvaluationKeys.load,
            "operand": cb.EncryptedOperand.load,
            "result": cb.EncryptedResult.load,
        }
        for name, write in self.writers.items():
            write(folder / name)
            self.readers[name](folder / name)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    return Flow(tmp_path_factory.mktemp("flow"))


KINDS = ("program", "secret key", "evaluation keys", "operand", "result")


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_is_noticed(flow: Flow, tmp_path: Path, kind: str, data: st.DataObject) -> None:
    raw = bytearray((flow.folder / kind).read_bytes())
    if data.draw(st.booleans(), "truncate"):
        raw = raw[: data.draw(st.integers(0, len(raw) - 1), "length")]
    else:
        for _ in range(data.draw(st.integers(1, 3), "flips")):
            # Headers are small against the tensors: half of the flips go there.
            end = len(raw) if data.draw(st.booleans()) else min(4000, len(raw))
            raw[data.draw(st.integers(0, end - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "damaged"
    path.write_bytes(raw)
    if raw == (flow.folder / kind).read_bytes():  # two flips that cancel
        return
    with pytest.raises((cb.FormatError, cb.MismatchError)) as caught:
        flow.readers[kind](path)
    assert str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_every_kind_of_file_for_every_other(flow: Flow, kind: str, other: str) -> None:
    if kind != other:
        with pytest.raises((cb.MismatchError, cb.FormatError)):
            flow.readers[kind](flow.folder / other)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_other_programs(flow: Flow, tmp_path: Path, kind: str) -> None:
    (tmp_path / "image").write_bytes(b"\x89PNG\r\n" + bytes(range(256)) * 20)
    with pytest.raises(cb.FormatError):
        flow.readers[kind](tmp_path / "image")


@pytest.mark.parametrize("kind", KINDS)
def test_newer_versions(flow: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    for module in (form, writing, reading):
        if hasattr(module, "FORMAT_VERSION"):
            monkeypatch.setattr(module, "FORMAT_VERSION", 99)
    # The key alone: a client reads the record that lies beside its key file, which is of this version.
    (flow.client._secret.save if kind == "secret key" else flow.writers[kind])(tmp_path / "newer")
    monkeypatch.undo()
    with pytest.raises(cb.VersionError, match="99"):
        flow.readers[kind](tmp_path / "newer")


@pytest.mark.parametrize("kind", KINDS)
def test_missing_files_and_folders(flow: Flow, tmp_path: Path, kind: str) -> None:
    with pytest.raises(cb.StorageError):
        flow.readers[kind](tmp_path / "missing")
    with pytest.raises((cb.StorageError, cb.FormatError)):
        flow.readers[kind](tmp_path)
    with pytest.raises(cb.StorageError):
        flow.writers[kind](tmp_path / "no" / "such" / "folder")
    assert list(tmp_path.iterdir()) == []


def test_files_of_another_program(flow: Flow, tmp_path: Path) -> None:
    """Another program with the very same parameters."""
    other = cb.compile(
        lambda a, b: a @ b - np.ones((5, 3)), {"a": cb.secret(5, 7), "b": cb.secret(7, 3)}, algorithm="skewed"
    )
    assert other.plan.parameters == flow.program.plan.parameters
    with pytest.raises(cb.MismatchError, match="another program"):
        cb.Client.load(flow.folder / "secret key", other)
    with pytest.raises(cb.MismatchError, match="another program"):
        other.server(cb.EvaluationKeys.load(flow.folder / "evaluation keys"))
    client = other.client()
    with pytest.raises(cb.MismatchError, match="another program"):
        client.decrypt(cb.EncryptedResult.load(flow.folder / "result"))
    client.encrypt({"a": VALUES["a"]})["a"].save(tmp_path / "operand")
    with pytest.raises(cb.MismatchError, match="another program"):
        flow.server.run({"a": cb.EncryptedOperand.load(tmp_path / "operand"), "b": flow.inputs["b"]})


def test_files_of_other_parameters(flow: Flow, tmp_path: Path) -> None:
    """They claim to be of this very program."""
    params = dataclasses.replace(flow.program.plan.parameters, scale_bits=39.0)
    dataclasses.replace(flow.inputs["a"], parameters=params).save(tmp_path / "operand")
    with pytest.raises(cb.MismatchError, match="Operand 'a' belongs to other parameters"):
        flow.server.run({"a": cb.EncryptedOperand.load(tmp_path / "operand"), "b": flow.inputs["b"]})
    dataclasses.replace(flow.result, parameters=params).save(tmp_path / "result")
    with pytest.raises(cb.MismatchError, match="The result belongs to other parameters"):
        flow.client.decrypt(cb.EncryptedResult.load(tmp_path / "result"))
    made = [flow.keys.key(key) for key in flow.keys.request.limbs]
    cb.EvaluationKeys(params, flow.program.id, made, flow.keys.key_id).save(tmp_path / "keys")
    with pytest.raises(cb.MismatchError, match="The key set belongs to other parameters"):
        flow.program.server(cb.EvaluationKeys.load(tmp_path / "keys", lazy=True))


def test_what_loads_a_client_is_told_in_which_order(flow: Flow) -> None:
    with pytest.raises(cb.DTypeError, match=r"Write: cb.Client.load\(path, program\)"):
        cb.Client.load(flow.program, flow.folder / "secret key")  # type: ignore[arg-type]


# --- programs that are well-formed files but no programs ---


def rewritten(flow: Flow, tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The program's file with another header, under a right checksum."""
    header, tensors = files.read(flow.folder / "program", "program")
    header = copy.deepcopy({key: header[key] for key in header if key != "parameters"})
    change(header)
    path = tmp_path / "hostile"
    files.write(path, "program", header, tensors, parameters=flow.program.plan.parameters)
    return path


def first(header: dict[str, Any], op: str) -> dict[str, Any]:
    return next(row for row in header["graph"] if row["op"] == op)


def renamed(header: dict[str, Any], name: str) -> None:
    """Call operand a otherwise, everywhere."""
    header["operands"][name] = header["operands"].pop("a")
    first(header, "operand").update(name=name)
    blocks = header["decisions"]["blocks"]
    header["decisions"]["blocks"] = {axis.replace("a.", f"{name}."): blocks[axis] for axis in blocks}


HOSTILE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no graph": lambda h: h.pop("graph"),
    "empty graph": lambda h: h.update(graph=[]),
    "graph of numbers": lambda h: h.update(graph=[1, 2]),
    "graph that is text": lambda h: h.update(graph="a @ b"),
    "unknown operation": lambda h: first(h, "matmul").update(op="inverse"),
    "operation that is a list": lambda h: first(h, "matmul").update(op=["matmul"]),
    "reference to itself": lambda h: first(h, "matmul").update(of=[2, 2]),
    "reference forward": lambda h: first(h, "matmul").update(of=[0, 4]),
    "negative reference": lambda h: first(h, "matmul").update(of=[0, -1]),
    "one factor": lambda h: first(h, "matmul").update(of=[0]),
    "factors the wrong way": lambda h: first(h, "matmul").update(of=[1, 0]),
    "unknown operand": lambda h: first(h, "operand").update(name="z"),
    "operand's name a list": lambda h: first(h, "operand").update(name=["a"]),
    "missing constant": lambda h: first(h, "constant").update(name="constant7"),
    "zero factor": lambda h: h["graph"].append({"op": "scale", "factor": 0.0, "of": [0]}),
    "factor that is text": lambda h: h["graph"].append({"op": "scale", "factor": "x", "of": [0]}),
    "no operands": lambda h: h.update(operands={}),
    "operand without a shape": lambda h: h["operands"]["a"].pop("shape"),
    "operand with no columns": lambda h: h["operands"]["a"].update(shape=[5, 0]),
    "operand of a fractional size": lambda h: h["operands"]["a"].update(shape=[2.5, 7]),
    "operand with a negative bound": lambda h: h["operands"]["a"].update(bound=-1.0),
    "operand with a field too many": lambda h: h["operands"]["a"].update(colour="red"),
    "another size": lambda h: h["operands"]["a"].update(shape=[6, 7]),
    "another bound": lambda h: h["operands"]["a"].update(bound=2.0),
    "secret made public": lambda h: h["operands"]["a"].update(secret=False),
    "unknown algorithm": lambda h: choice_of(h).update(method="magic"),
    "unknown option": lambda h: choice_of(h)["options"].update(magic=1),
    "option of a wrong type": lambda h: choice_of(h)["options"].update(baby_steps="2"),
    "option out of range": lambda h: choice_of(h)["options"].update(baby_steps=-1),
    "no choices": lambda h: h["decisions"].update(choices={}),
    "a list of choices": lambda h: h["decisions"].update(choices=[]),
    "a choice of no node": lambda h: h["decisions"]["choices"].update({"99": choice_of(h)}),
    "a number with a sign": lambda h: h["decisions"]["choices"].update({"-1": choice_of(h)}),
    "a number in other digits": lambda h: h["decisions"]["choices"].update({"٣": choice_of(h)}),
    "a number written twice": lambda h: h["decisions"]["choices"].update({"02": choice_of(h)}),
    "a very long number": lambda h: h["decisions"]["choices"].update({"9" * 5000: choice_of(h)}),
    "choices that are text": lambda h: h["decisions"].update(choices="skewed"),
    "no blocks": lambda h: h["decisions"].update(blocks={}),
    "block of zero": lambda h: h["decisions"]["blocks"].update({"a.rows": 0}),
    "negative block": lambda h: h["decisions"]["blocks"].update({"a.rows": -3}),
    "block that is text": lambda h: h["decisions"]["blocks"].update({"a.rows": "x"}),
    "huge block": lambda h: h["decisions"]["blocks"].update({"a.rows": 1 << 40}),
    "unknown policy": lambda h: h["decisions"].update(key_policy="magic"),
    "unknown order": lambda h: h["decisions"].update(order="magic"),
    "no precision": lambda h: h["decisions"].pop("precision"),
    "other precision": lambda h: h["decisions"].update(precision=0.5),
    "no parameters": lambda h: h["decisions"].pop("parameters"),
    "weaker parameters": lambda h: h["decisions"]["parameters"].update(security=256),
    "other parameters": lambda h: h["decisions"]["parameters"].update(scale_bits=20.0),
    "operand's name no identifier": lambda h: renamed(h, "a b"),
    "operand's name a keyword": lambda h: renamed(h, "lambda"),
    "operand's name reserved": lambda h: renamed(h, "progress"),
    "operand's name very long": lambda h: renamed(h, "a" * 5000),
    "operand's name with an escape": lambda h: renamed(h, "a\x1b[2J"),
    "other parameters than the file's": lambda h: h["decisions"]["parameters"].update(security=0),
    "algorithm with an escape": lambda h: choice_of(h).update(method="skewed\x1b[2J"),
    "option with an escape": lambda h: choice_of(h)["options"].update({"x\x1b[2J": 1}),
    "text of an option with an escape": lambda h: choice_of(h)["options"].update(x="\x1b[2J"),
    "no identity": lambda h: h.pop("id"),
    "another identity": lambda h: h.update(id="0" * 64),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs(flow: Flow, tmp_path: Path, name: str) -> None:
    path = rewritten(flow, tmp_path, HOSTILE[name])
    start = time.perf_counter()
    with pytest.raises(cb.CipherblasError) as caught:
        cb.Program.load(path)
    assert time.perf_counter() - start < 30
    assert len(str(caught.value)) < 2000


def test_the_rewriting_itself_is_faithful(flow: Flow, tmp_path: Path) -> None:
    assert cb.Program.load(rewritten(flow, tmp_path, lambda header: None)).id == flow.program.id


def test_a_hostile_grid_is_not_walked(flow: Flow, tmp_path: Path) -> None:
    def change(header: dict[str, Any]) -> None:
        for name, sizes in (("a", (1 << 24, 1 << 24)), ("b", (1 << 24, 1 << 24))):
            header["operands"][name].update(shape=sizes)
        header["graph"] = [row for row in header["graph"] if row["op"] in ("operand", "matmul")]
        header["decisions"]["blocks"] = {"a.rows": 1, "a.cols": 1, "b.cols": 1}

    start = time.perf_counter()
    with pytest.raises(cb.CipherblasError, match="block"):
        cb.Program.load(rewritten(flow, tmp_path, change))
    assert time.perf_counter() - start < 30


@pytest.mark.parametrize(
    ("count", "refusal"), [(3_000, "not the one that its file names"), (5_000, "too many nodes")]
)
def test_a_hostile_depth_is_not_recursed(flow: Flow, tmp_path: Path, count: int, refusal: str) -> None:
    def change(header: dict[str, Any]) -> None:
        rows = header["graph"]
        for number in range(count):  # bounds stay what they are
            rows.append({"op": "scale", "of": [len(rows) - 1], "factor": (-0.5, -2.0)[number % 2]})

    with pytest.raises(cb.CipherblasError, match=refusal):
        cb.Program.load(rewritten(flow, tmp_path, change))


# --- operands and results that are not what was planned ---


def test_operands_with_other_ciphertexts(flow: Flow) -> None:
    a, b = flow.inputs["a"], flow.inputs["b"]
    (feed,) = a.feeds
    fewer_limbs = replace(feed[0], limbs=1, data=np.ascontiguousarray(feed[0].data[:1]))
    for wrong, word in (
        (replace(a, feeds=()), r"expected \[1\], got \[\]"),
        (replace(a, feeds=(feed * 2,)), r"expected \[1\], got \[2\]"),
        (replace(a, feeds=(feed, feed)), r"expected \[1\], got \[1, 1\]"),
        (replace(a, feeds=((fewer_limbs,),)), r"got FreshCiphertext \(1, \d+\)"),
        (replace(a, shape=(7, 5)), "expected 5x7, got 7x5"),
    ):
        with pytest.raises(cb.ShapeError, match=word):
            flow.server.run({"a": wrong, "b": b})
    with pytest.raises(cb.MismatchError, match="another name"):
        flow.server.run({"a": replace(a, name="b"), "b": b})
    with pytest.raises(cb.MismatchError, match="expected a, b, got b"):
        flow.server.run({"b": b})
    with pytest.raises(cb.MismatchError, match="expected a, b, got a, b, c"):
        flow.server.run({"a": a, "b": b, "c": a})


def test_operand_files_with_wrong_content(flow: Flow, tmp_path: Path) -> None:
    header, tensors = files.read(flow.folder / "operand", "ciphertext")
    header = {key: header[key] for key in header if key != "parameters"}
    parameters = flow.program.plan.parameters
    data, seed = tensors["feed0.data"], tensors["feed0.seed"]
    too_large = data.copy()
    too_large[0, 0, 5] = parameters.q[0]
    changes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "residue": ({}, {"feed0.data": too_large}),
        "signed": ({}, {"feed0.data": data.astype(np.int64)}),
        "more limbs": ({}, {"feed0.data": np.concatenate([data] * 3, axis=1)}),
        "another degree": ({}, {"feed0.data": np.ascontiguousarray(data[:, :, :100])}),
        "flat": ({}, {"feed0.data": data.ravel()}),
        "short seed": ({}, {"feed0.seed": np.ascontiguousarray(seed[:, :16])}),
        "seeds of words": ({}, {"feed0.seed": np.tile(seed.astype(np.int64), 1)}),
        "number of feeds": ({"feeds": 2}, {}),
        "feeds that are text": ({"feeds": "many"}, {}),
        "shape of no rows": ({"shape": [0, 4]}, {}),
        "shape of text": ({"shape": ["x", "y"]}, {}),
        "no name": ({"name": None}, {}),
    }
    for name, (fields, replaced) in changes.items():
        changed = {key: value for key, value in {**header, **fields}.items() if value is not None}
        path = tmp_path / "operand"
        files.write(path, "ciphertext", changed, {**tensors, **replaced}, parameters=parameters)
        with pytest.raises(cb.FormatError):
            pytest.fail(f"{name}: {flow.readers['operand'](path)}")


def test_results_with_other_ciphertexts(flow: Flow) -> None:
    result = flow.result
    (ct,) = result.ciphertexts
    outside = ct.copy()
    outside[1, 0, 3] = flow.program.plan.parameters.q[0]
    three = np.concatenate([ct, ct[:1]])
    cases: list[tuple[tuple[Any, ...], type[cb.CipherblasError]]] = [
        ((), cb.ShapeError),
        ((ct, ct), cb.ShapeError),
        ((ct[:, :1],), cb.ShapeError),
        ((ct[:1],), cb.ShapeError),
        ((three,), cb.ShapeError),
        ((ct[:, :, :100],), cb.ShapeError),
        ((outside,), cb.RangeError),
        ((ct.astype(np.int64),), cb.DTypeError),
    ]
    for ciphertexts, kind in cases:
        with pytest.raises(kind) as caught:
            flow.client.decrypt(replace(result, ciphertexts=ciphertexts))
        assert kind is cb.RangeError or None not in (
            caught.value.expected,
            caught.value.got,
        )  # a residue stays secret
    with pytest.raises(cb.MismatchError):
        flow.client.decrypt(replace(result, program_id="0" * 64))
    with pytest.raises(cb.DTypeError, match="EncryptedResult"):
        flow.client.decrypt(flow.inputs["a"])  # type: ignore[arg-type]


def test_result_files_with_wrong_content(flow: Flow, tmp_path: Path) -> None:
    header, tensors = files.read(flow.folder / "result", "ciphertext")
    header = {key: header[key] for key in header if key != "parameters"}
    stack = tensors["result"]
    changes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "no tensor": ({}, {"other": stack}),
        "one component": ({}, {"result": np.ascontiguousarray(stack[:, :1])}),
        "flat": ({}, {"result": stack.ravel()}),
        "signed": ({}, {"result": stack.astype(np.int64)}),
        "seconds of text": ({"seconds": "long"}, {"result": stack}),
        "no shape": ({"shape": None}, {"result": stack}),
    }
    for name, (fields, replaced) in changes.items():
        changed = {key: value for key, value in {**header, **fields}.items() if value is not None}
        path = tmp_path / "result"
        files.write(path, "ciphertext", changed, replaced, parameters=flow.program.plan.parameters)
        with pytest.raises(cb.FormatError):
            pytest.fail(f"{name}: {flow.readers['result'](path)}")


def test_an_operand_that_vanishes_is_noticed_and_nothing_is_left(flow: Flow, tmp_path: Path) -> None:
    flow.inputs["a"].save(tmp_path / "a.ct")
    loaded = flow.readers["operand"](tmp_path / "a.ct")
    (tmp_path / "a.ct").unlink()
    result = flow.server.run({"a": loaded, "b": flow.inputs["b"]})  # it was read, not mapped: no fault later
    error = np.abs(flow.client.decrypt(result) - flow.program.evaluate(VALUES)).max()
    assert error <= flow.program.plan.error
    with pytest.raises(cb.StorageError):
        flow.readers["operand"](tmp_path / "a.ct")


def test_graphs_in_json_hold_no_values_of_operands(flow: Flow) -> None:
    text = str(graph.to_json(flow.program.expression))
    assert "array" not in text
    assert len(text) < 1000
