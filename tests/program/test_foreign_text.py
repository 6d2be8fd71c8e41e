"""What a file of somebody else can print: no control character, and nothing that its identity does not cover."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto import files
from cipherblas.crypto.keys import SecretKey
from cipherblas.planner.plan.explain import explain
from cipherblas.planner.plan.plan import KeySaving, Rejected
from tests.support.foreign_files import (
    ESCAPES,
    as_json,
    assert_harmless,
    content,
    failure,
    forge,
    identity,
    places,
    put,
)

RNG = np.random.default_rng(5)
FILTERS, WEIGHTS, CONSTANT = RNG.normal(size=(2, 1, 3, 3)), RNG.normal(size=(3, 32)), RNG.normal(size=(4, 3))

PROGRAMS: dict[str, Callable[[], cb.Program]] = {
    "slots": lambda: cb.compile(
        lambda a, b: 0.5 * (a @ b) - CONSTANT,
        {"a": cb.secret(4, 5, encryption="public-key"), "b": cb.secret(5, 3, bound=3.0)},
        algorithm="skewed",
    ),
    "rows": lambda: cb.compile(
        lambda w, x: w @ x, {"w": cb.public(4, 6), "x": cb.secret(6, 9)}, algorithm="gemm"
    ),
    "layers": lambda: cb.compile(
        lambda x: WEIGHTS @ cb.flatten(cb.square(cb.conv2d(x, FILTERS))), {"x": cb.secret(1, 6, 6)}
    ),
}


@pytest.fixture(scope="module", params=PROGRAMS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "program"
    PROGRAMS[request.param]().save(path)
    return path


def mutations(old: Any) -> list[Any]:
    """Other values for a leaf of a header: near, far, of another type."""
    if isinstance(old, bool) or old is None:
        return [not old, 7]
    if isinstance(old, (int, float)):
        return [old + 1, 2 * old + 1, 0, -1, 0.5, str(old), None]
    return ["x", old + "x", "", 3]


def said(program: cb.Program) -> str:
    return program.explain() + repr(program) + str(program.plan.to_dict())


def all_mutations(header: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    for place, old in places(header):
        for new in mutations(old):
            if place[-1] != "NAME" or (isinstance(new, str) and new != old):
                yield place, new


@pytest.mark.parametrize("rewritten", [False, True], ids=["identity kept", "identity made right"])
def test_what_is_printed_is_covered_by_the_identity(saved: Path, tmp_path: Path, rewritten: bool) -> None:
    """Every field of the file: a change is refused, or changes nothing that is said, or gives another program."""
    program = cb.Program.load(saved)
    expected, decided = said(program), program.plan.decisions()
    header, tensors, parameters = content(saved, "program")
    tried = other = 0
    for place, new in itertools.islice(all_mutations(header), 0, None, 2):  # one at least of every place
        changed = copy.deepcopy(header)
        put(changed, place, new)
        if rewritten and place[0] != "id":
            changed["id"] = identity(as_json(changed), tensors, parameters)
        files.write(tmp_path / "changed", "program", changed, tensors, parameters=parameters)
        tried += 1
        try:
            found = cb.Program.load(tmp_path / "changed")
        except cb.CipherblasError as error:
            assert_harmless(str(error))
            continue
        if found.id == program.id:
            # Predictions are for a machine of the file: they may change, decisions may not.
            same = said(found) == expected if place[0] != "planned_for" else found.plan.decisions() == decided
            assert same, (place, new)
        else:
            assert rewritten, (place, new)
            other += 1
    assert tried > 100
    assert (other > 5) == rewritten


def test_predictions_of_a_file_are_not_believed(saved: Path, tmp_path: Path) -> None:
    """A field of predictions, as files once had, says nothing."""
    lies = {
        "seconds": 1e-9,
        "threads": 1000,
        "weight_memory_bytes": 1,
        "rejected": [{"algorithm": ESCAPES, "reason": ESCAPES, "seconds": 1e9}],
        "key_saving": {"algorithm": ESCAPES, "key_policy": ESCAPES},
    }
    path = forge(saved, tmp_path / "lying", lambda header: header.update(plan=lies, counts=lies))
    expected, found = cb.Program.load(saved), cb.Program.load(path)
    assert (found.id, said(found)) == (expected.id, said(expected))
    assert found.plan.seconds > 1e-7 and found.plan.threads == expected.plan.threads != 1000


def test_no_string_of_a_program_reaches_a_terminal(saved: Path, tmp_path: Path) -> None:
    """Every word and every name of the file with escapes, under a right checksum and a right identity."""
    header, tensors, parameters = content(saved, "program")
    words = [(place, old) for place, old in places(header) if isinstance(old, str)]
    assert len(words) > 30
    loaded = 0
    for place, old in words:
        for new in (old + ESCAPES, ESCAPES + old, ESCAPES):
            changed = copy.deepcopy(header)
            put(changed, place, new)
            if place[0] != "id":
                changed["id"] = identity(as_json(changed), tensors, parameters)
            files.write(tmp_path / "changed", "program", changed, tensors, parameters=parameters)
            try:
                found = cb.Program.load(tmp_path / "changed")
            except cb.CipherblasError as error:
                assert_harmless(failure(error))
                continue
            loaded += 1
            assert_harmless(said(found))
            securities = [line for line in found.explain().splitlines() if line.startswith("security")]
            assert securities == ["security          128 bits"]
    assert loaded < len(words)  # what passes is what nothing reads


def test_names_of_tensors(saved: Path, tmp_path: Path) -> None:
    header, tensors, parameters = content(saved, "program")
    more = {**tensors, "more" + ESCAPES: np.zeros(3)}
    files.write(tmp_path / "more", "program", header, more, parameters=parameters)
    assert_harmless(said(cb.Program.load(tmp_path / "more")))
    renamed = {name + ESCAPES: tensor for name, tensor in tensors.items()}
    files.write(tmp_path / "renamed", "program", header, renamed, parameters=parameters)
    if tensors:
        with pytest.raises(cb.FormatError) as caught:
            cb.Program.load(tmp_path / "renamed")
        assert_harmless(failure(caught.value))


def test_no_string_of_any_other_file_reaches_a_terminal(tmp_path: Path) -> None:
    """Keys, operands and results with escapes in every word: refused, or used, and never shown raw."""
    program = PROGRAMS["slots"]()
    parameters, client = program.plan.parameters, program.client()
    sent, keys = client.encrypt({"a": np.eye(4, 5), "b": np.eye(5, 3)}), client.evaluation_keys()
    server = program.server(keys)
    result = server.run(sent)
    kinds: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], Any]]] = {
        "secret": ("secret-key", client.save, lambda path: cb.Client.load(path, program).decrypt(result)),
        "secret alone": ("secret-key", client.save, SecretKey.load),
        "public": (
            "public-key",
            client.public_key().save,
            lambda path: program.encryptor(cb.PublicKey.load(path)).encrypt({"a": np.eye(4, 5)})["a"],
        ),
        "keys": ("evaluation-keys", keys.save, lambda path: program.server(cb.EvaluationKeys.load(path))),
        "operand": (
            "ciphertext",
            sent["a"].save,
            lambda path: server.run({"a": cb.EncryptedOperand.load(path), "b": sent["b"]}),
        ),
        "result": (
            "ciphertext",
            result.save,
            lambda path: client.decrypt(cb.EncryptedResult.load(path)),
        ),
    }
    refused = 0
    for name, (kind, save, use) in kinds.items():
        save(tmp_path / name)
        use(tmp_path / name)
        header, tensors, _ = content(tmp_path / name, kind)
        for place, old in places(header):
            if not isinstance(old, str):
                continue
            changed = copy.deepcopy(header)
            put(changed, place, old + ESCAPES)
            files.write(tmp_path / "changed", kind, changed, tensors, parameters=parameters)
            try:
                assert_harmless(repr(use(tmp_path / "changed")))
            except cb.CipherblasError as error:
                refused += 1
                assert_harmless(failure(error))
        for tensor in tensors:
            files.write(
                *(tmp_path / "changed", kind, header),
                {old + ESCAPES * (old == tensor): values for old, values in tensors.items()},
                parameters=parameters,
            )
            with pytest.raises(cb.CipherblasError) as caught:
                use(tmp_path / "changed")
            assert_harmless(failure(caught.value))
    assert refused > 15


def test_explain_shows_no_control_character_whatever_the_plan_holds() -> None:
    program = PROGRAMS["slots"]()
    plan = copy.copy(program.plan)
    saving = KeySaving(ESCAPES, ESCAPES, 1, 1, 1, 1.0)  # type: ignore[arg-type]
    for name, value in (
        ("rejected", (Rejected(ESCAPES, ESCAPES, 1.0),)),
        ("key_saving", saving),
        ("decided", replace(plan.decided, key_policy=ESCAPES, blocks={ESCAPES: 3})),  # type: ignore[arg-type]
    ):
        object.__setattr__(plan, name, value)
    text = explain(plan, ESCAPES, {ESCAPES: program.operands["a"]}, [program.shape])
    assert_harmless(text)
    assert text.count("\n") == program.explain().split("\nnot taken:")[0].count("\n") + 3


@pytest.mark.parametrize(
    "name", ["a b", "a\x1b[2J", "a\nb", "1a", "", "a-b", "class", "a\u202e", "a" * 101, "a.b"]
)
def test_names_are_identifiers(name: str) -> None:
    with pytest.raises(cb.ParameterError, match="name of an operand") as caught:
        cb.compile(
            lambda **given: given[name] @ given["other"], {name: cb.secret(2, 2), "other": cb.secret(2, 2)}
        )
    assert_harmless(str(caught.value))


def test_names_of_other_alphabets() -> None:
    program = cb.compile(lambda α, été: α @ été, {"α": cb.secret(2, 2), "été": cb.secret(2, 2)})
    assert "α @ été" in program.explain()


def test_errors_show_no_control_characters() -> None:
    for kind in (cb.CipherblasError, cb.MissingKeyError, cb.StorageError):
        error = kind(f"message {ESCAPES}", expected=[ESCAPES], got=ESCAPES)
        assert_harmless(str(error))
        assert "\\x1b[2J" in str(error) and "\\u202e" in str(error) and "\\n" in str(error)
        assert error.got == ESCAPES  # as it is, for programs


def test_arrays_of_users() -> None:
    """The type of an array may have names of fields with anything in them."""
    program = PROGRAMS["slots"]()
    array = np.zeros((4, 5), dtype=[("x" + ESCAPES, "f8")])
    with pytest.raises(cb.DTypeError) as caught:
        program.client().encrypt({"a": array})
    assert_harmless(failure(caught.value))
