"""OpenFHE at the client's side: its JSON by known answers, and round trips where CIPHERBLAS_OPENFHE_PYTHON has it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb

S = cb.secret
OPENFHE = cb.interop.openfhe
HERE = Path(__file__).resolve().parent
ANSWERS = HERE / "answers" / "openfhe"
PYTHON = os.environ.get("CIPHERBLAS_OPENFHE_PYTHON")
TOY = {"security": 0, "insecure": True}

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")


def answer(name: str) -> bytes:
    return (ANSWERS / name).read_bytes()


@pytest.fixture(scope="module")
def program() -> cb.Program:
    return cb.Program.from_bytes(answer("program"), insecure=True)


def run(program: cb.Program, folder: Path, names: Mapping[str, int]) -> tuple[Any, Any, dict[str, Any]]:
    """The client with OpenFHE's key, the result and the operands."""
    client = program.client(secret=OPENFHE.secret_key(program, (folder / "secret-key").read_bytes()))
    operands = {
        name: OPENFHE.operand(program, name, [(folder / f"{name}-{i}").read_bytes() for i in range(count)])
        for name, count in names.items()
    }
    return client, program.server(client.evaluation_keys()).run(operands), operands


def test_known_answers(program: cb.Program) -> None:
    clear = {name: np.array(one) for name, one in json.loads(answer("values.json")).items()}
    client, computed, operands = run(program, ANSWERS, {"a": 1, "b": 1})
    found, expected = client.decrypt(computed, of=operands), clear["a"] ** 2 * clear["b"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=program.plan.error)
    (stream,) = OPENFHE.result(program, computed, answer("a-0"))
    written = json.loads(stream)["value0"]["ptr_wrapper"]["data"]
    words = [[one["v"]["ptr_wrapper"]["data"]["v"] for one in polynomial["v"]] for polynomial in written["v"]]
    np.testing.assert_array_equal(np.array(words, np.uint64), computed.ciphertexts[0])
    assert written["l"] == program.plan.parameters.limbs - len(words[0])
    params = OPENFHE.parameters(answer("context"), **TOY)
    assert params == program.plan.parameters


def test_damaged_streams_are_refused(program: cb.Program) -> None:
    """Any one field of the JSON removed, or of another type: an error of ours, or a stream that says the same."""
    reads: dict[str, Callable[[bytes], Any]] = {
        "a-0": lambda data: OPENFHE.operand(program, "a", [data]),
        "secret-key": lambda data: OPENFHE.secret_key(program, data),
        "context": lambda data: OPENFHE.parameters(data, **TOY),
    }
    for name, read in reads.items():
        whole = answer(name)
        for data in (b"", whole[:-1], b"[" * 100000, b"1", b'{"value0": ' + b"9" * 5000 + b"}", b"\xff"):
            with pytest.raises(cb.FormatError):
                read(data)
        with pytest.raises(cb.DTypeError):
            read("a path")  # type: ignore[arg-type]
        content = json.loads(whole)
        for place, key in fields(content):
            kept = place[key]
            for other in (None, [], {}, -1, 1 << 70, "x", 0.5, float("nan")):
                place[key] = other
                try:
                    read(json.dumps(content).encode())
                except cb.CipherblasError:
                    pass
            place[key] = kept


def fields(value: Any) -> list[tuple[Any, Any]]:
    """All places in JSON; of long lists of words the first two."""
    keys: Any = list(value) if isinstance(value, dict) else range(len(value) if len(value) < 5 else 2)
    below = [one for key in keys if isinstance(value[key], (dict, list)) for one in fields(value[key])]
    return [(value, key) for key in keys] + below


def test_foreign_streams_are_refused(program: cb.Program) -> None:
    content = json.loads(answer("a-0"))
    held = content["value0"]["ptr_wrapper"]["data"]

    def refused(error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            OPENFHE.operand(program, "a", [json.dumps(content).encode()])

    held["s"] *= 2
    refused(cb.MismatchError, "scale")
    held["s"] /= 2
    words = held["v"][0]["v"][0]["v"]["ptr_wrapper"]["data"]
    words["v"][0] = words["m"]["v"]
    refused(cb.RangeError, "below its prime")
    words["m"]["v"] += 2
    refused(cb.MismatchError, "other parameters")
    other = json.loads(answer("a-0"))
    other["value0"]["ptr_wrapper"]["data"]["value0"]["kt"] = "0" * 32
    foreign = OPENFHE.operand(program, "a", [json.dumps(other).encode()])
    client, computed, operands = run(program, ANSWERS, {"a": 1, "b": 1})
    with pytest.raises(cb.MismatchError, match="different key pairs"):
        program.server(client.evaluation_keys()).run({**operands, "a": foreign})
    with pytest.raises(cb.MismatchError, match="another key pair"):
        OPENFHE.result(program, computed, json.dumps(other).encode())


def test_its_parameters_are_judged_by_our_table() -> None:
    with pytest.raises(cb.SecurityError):
        OPENFHE.parameters(answer("context"))
    content = json.loads(answer("context"))
    built = content["value0"]["ptr_wrapper"]["data"]["cc"]["ptr_wrapper"]["data"]["value0"]["value0"][
        "value0"
    ]
    ring = built["elp"]["ptr_wrapper"]["data"]
    ring["p"][0]["ptr_wrapper"]["data"]["value0"]["cm"]["v"] = (1 << 59) + 1
    with pytest.raises(cb.ParameterError, match="too large"):
        OPENFHE.parameters(json.dumps(content).encode(), **TOY)
    with pytest.raises(cb.ParameterError, match="primes that OpenFHE chose"):
        cb.compile(lambda a: a @ a, {"a": S(8, 8)}, for_peer="openfhe")


PROGRAMS: dict[str, tuple[Callable[..., Any], Mapping[str, Any], tuple[int, ...]]] = {
    "product": (lambda a, b: a @ b, {"a": S(24, 20), "b": S(20, 28)}, (8192, 1, 47, 37)),
    "fewer limbs": (lambda a, b: a * b * a, {"a": S(30, 10, bound=2.0), "b": S(30, 10)}, (8192, 2, 49, 38)),
}


@pytest.mark.skipif(PYTHON is None, reason="CIPHERBLAS_OPENFHE_PYTHON names no interpreter with OpenFHE")
@pytest.mark.parametrize("name", PROGRAMS)
def test_round_trips(name: str, tmp_path: Path) -> None:
    function, operands, asked = PROGRAMS[name]

    def worker(*arguments: Any) -> None:
        command = [str(PYTHON), str(HERE / "openfhe_worker.py"), str(tmp_path), *map(str, arguments)]
        subprocess.run(command, check=True, timeout=300)

    worker("make", *asked)
    params = OPENFHE.parameters((tmp_path / "context").read_bytes())
    program = cb.compile(function, operands, for_peer="openfhe", parameters=params, precision=1e-2)
    random = np.random.default_rng(2)
    clear = {each: random.uniform(-one.bound, one.bound, one.shape) for each, one in program.operands.items()}
    vectors = {each: OPENFHE.vectors(program, each, clear[each]) for each in clear}
    as_pairs = {each: [[(z.real, z.imag) for z in one] for one in found] for each, found in vectors.items()}
    (tmp_path / "vectors.json").write_text(json.dumps(as_pairs))
    worker("encrypt")
    client, computed, encrypted = run(
        program, tmp_path, {each: len(found) for each, found in vectors.items()}
    )
    for number, stream in enumerate(OPENFHE.result(program, computed, (tmp_path / "a-0").read_bytes())):
        (tmp_path / f"result-{number:03d}").write_bytes(stream)
    worker("decrypt")
    decoded = [np.array(one) @ [1, 1j] for one in json.loads((tmp_path / "decoded.json").read_text())]
    found, expected = OPENFHE.values(program, decoded), function(**clear)
    np.testing.assert_allclose(found, expected, rtol=0, atol=program.plan.error)
    np.testing.assert_allclose(found, client.decrypt(computed, of=encrypted), rtol=0, atol=1e-9)
