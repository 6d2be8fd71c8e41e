"""Operands whose encoding is given: limbs, scale, and an error that they come with."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import Parties

pytestmark = pytest.mark.encrypted

ERROR = 1e-3
ONES = np.ones((8, 3))


def S(*shape: int, **options: Any) -> Any:
    return cb.secret(*shape, **options)


# Program, operands, form, the operand that is given, limbs fewer than were planned, and more bits of the scale.
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any], str, str, int, float]] = {
    "left factor": (lambda a, b: a @ b, {"a": S(8, 8), "b": S(8, 8)}, "blocks", "a", 0, -3.5),
    "right factor": (lambda a, b: a @ b, {"a": S(8, 8), "b": S(8, 8, bound=3.0)}, "blocks", "b", 0, -2.7),
    "later factor": (
        *(lambda a, b, c: (a * b) * c, {"a": S(8, 8), "b": S(8, 8), "c": S(8, 8)}),
        *("blocks", "c", -1, -2.2),
    ),
    "shallow term": (
        *(lambda a, b, c: ((a * b) * b) * b + c * c, {"a": S(8, 8), "b": S(8, 8), "c": S(8, 8)}),
        *("blocks", "c", 1, -2.2),
    ),
    "product of a product": (
        *(lambda a, b, c: c @ (a @ b), {"a": S(8, 8), "b": S(8, 8), "c": S(8, 8)}),
        *("blocks", "c", -1, -2.2),
    ),
    "used twice": (lambda a: (a @ a.T) * a, {"a": S(8, 8)}, "blocks", "a", 0, -1.5),
    "public key": (lambda a: a @ ONES, {"a": S(8, 8, encryption="public-key")}, "blocks", "a", 0, -1.5),
    "vector": (lambda a: a * a * a, {"a": S(30)}, "tensors", "a", 0, -2.0),
    "by rows": (lambda a, b: a @ b, {"a": S(8, 8), "b": S(8, 8)}, "rows", "b", 0, -4.3),
    "by rows and clear": (lambda a: a @ ONES, {"a": S(8, 8)}, "rows", "a", 0, -4.3),
}


def planned(name: str) -> tuple[cb.Program, cb.Program, str, cb.Encoding]:
    function, operands, form, given, fewer, more = PROGRAMS[name]
    toy = {"security": 0, "insecure": True, "ring_degree": 4096}
    program = cb.compile(function, operands, form=form, **toy)
    usual = program.inputs_of(given)[0]
    bits = math.log2(usual.encoding_scale) + more
    encoding = cb.Encoding(usual.basis.words(program.plan.parameters) - fewer, bits, ERROR)
    return program, program.with_encodings({given: encoding}), given, encoding


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
@pytest.mark.filterwarnings("ignore::cipherblas.PrecisionWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_operands_come_as_they_are_given(name: str, tmp_path: Path) -> None:
    program, other, given, encoding = planned(name)
    assert other.plan.parameters == program.plan.parameters and other.id != program.id
    other.save(tmp_path / "program.cb")
    loaded = cb.Program.load(tmp_path / "program.cb", security=0, insecure=True)
    assert loaded.id == other.id and loaded.plan.error == other.plan.error

    rng = np.random.default_rng(7)
    values = {
        key: (one.bound - ERROR) * rng.uniform(-1, 1, one.shape) for key, one in program.operands.items()
    }
    off = rng.choice([-ERROR, ERROR], values[given].shape)
    parties = Parties(loaded)
    sent = parties.inputs({**values, given: values[given] + off})
    for wanted, feed in zip(loaded.inputs_of(given), sent[given].feeds, strict=True):
        assert math.isclose(wanted.encoding_scale, 2.0**encoding.scale_bits)
        assert {ct.extent[0] for ct in feed} == {encoding.limbs}
    error = np.abs(parties.client.decrypt(parties.server.run(sent)) - program.evaluate(values)).max()
    # What the operand comes with reaches the result, beyond what was promised without it, and is promised.
    assert program.plan.error < error or name not in ("left factor", "vector", "by rows and clear")
    assert error <= loaded.plan.error <= loaded.worst_error


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
@pytest.mark.filterwarnings("ignore::cipherblas.PrecisionWarning")
def test_without_an_error_the_usual_encoding_changes_nothing() -> None:
    function, operands, form, _, _, _ = PROGRAMS["left factor"]
    program = cb.compile(function, operands, form=form, security=0, insecure=True, ring_degree=4096)
    usual = program.inputs_of("a")[0]
    same = cb.Encoding(usual.limbs, math.log2(usual.encoding_scale))
    assert program.with_encodings({"a": same}).plan.error == pytest.approx(program.plan.error)
    assert program.with_encodings({}).id == program.id


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
@pytest.mark.filterwarnings("ignore::cipherblas.PrecisionWarning")
def test_what_cannot_be_given() -> None:
    operands = {"a": S(8, 8), "b": S(8, 8), "w": cb.public(8, 8)}
    toy = {"security": 0, "insecure": True, "ring_degree": 4096}
    program = cb.compile(lambda a, b, w: (a @ b) @ w, operands, form="blocks", **toy)
    wanted = program.inputs_of("a")[0]
    limbs, bits = wanted.limbs, math.log2(wanted.encoding_scale)
    for many, scale in ((limbs + 1, bits), (1, bits), (limbs, 100.0)):
        with pytest.raises(cb.LevelError, match="cannot be computed with operands that come so"):
            program.with_encodings({"a": cb.Encoding(many, scale)})
    for name in ("w", "x"):
        with pytest.raises(cb.MismatchError, match="no secret operand of that name"):
            program.with_encodings({name: cb.Encoding(limbs, bits)})
    with pytest.raises(cb.DTypeError, match="must be an Encoding"):
        program.with_encodings({"a": (limbs, bits)})  # type: ignore[dict-item]
    exact = {"a": cb.secret(4, 4, dtype="int8", exact=True)}
    whole = cb.compile(lambda a: a @ a, exact, form="rows", **toy)
    with pytest.raises(cb.ParameterError, match="not exact"):
        whole.with_encodings({"a": cb.Encoding(1, 10.0)})


@pytest.mark.parametrize(
    "given",
    [(0, 1.0, 0.0), (1.5, 1.0, 0.0), (1, math.nan, 0.0), (1, 901.0, 0.0), (1, 1.0, -1.0), ("1", 1.0, 0)],
)
def test_no_encodings(given: tuple[Any, ...]) -> None:
    with pytest.raises(cb.ParameterError, match="An encoding needs limbs"):
        cb.Encoding(*given)
