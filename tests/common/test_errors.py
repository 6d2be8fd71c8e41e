"""The exception family: readable, catchable as its builtin kin, and transportable between processes."""

from __future__ import annotations

import errno
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import cipherblas
from cipherblas.common import errors
from cipherblas.common.errors import (
    Advice,
    CipherblasError,
    MemoryBudgetError,
    MissingKeyError,
    StorageError,
    brief,
)

FAMILY = sorted(
    (
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, CipherblasError)
    ),
    key=lambda value: value.__name__,
)


@pytest.mark.parametrize("family", FAMILY, ids=lambda family: family.__name__)
def test_message_names_expected_and_got(family: type[CipherblasError]) -> None:
    error = family("wrong shape", expected=(2, 3), got=(3, 2))
    assert str(error) == "wrong shape (expected (2, 3), got (3, 2))."
    assert (error.message, error.expected, error.got) == ("wrong shape", (2, 3), (3, 2))
    assert str(family("wrong shape")) == "wrong shape"
    assert str(family("wrong shape", got=0)) == "wrong shape (got 0)."


@pytest.mark.parametrize("family", FAMILY, ids=lambda family: family.__name__)
def test_errors_cross_process_borders(family: type[CipherblasError]) -> None:
    error = family("wrong", expected="a", got="b")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is family
    assert str(again) == str(error)


@pytest.mark.parametrize(
    ("family", "builtin"),
    [
        (errors.ShapeError, ValueError),
        (errors.RangeError, ValueError),
        (errors.DTypeError, TypeError),
        (errors.MissingKeyError, KeyError),
        (errors.MemoryBudgetError, MemoryError),
        (errors.StorageError, OSError),
        (errors.VersionError, errors.FormatError),
    ],
)
def test_kin(family: type[CipherblasError], builtin: type[Exception]) -> None:
    assert issubclass(family, builtin)


def test_missing_key_is_readable() -> None:
    # KeyError itself would print the repr of its argument.
    assert str(MissingKeyError("no key for rotation by 3")) == "no key for rotation by 3"


def test_storage_error_keeps_errno() -> None:
    error = StorageError("cannot write x", got="no space", errno=errno.ENOSPC)
    assert error.errno == errno.ENOSPC
    assert str(error) == "cannot write x (got no space)."


def test_a_refusal_has_three_parts() -> None:
    advice = Advice("upload_budget=128 << 20", {"upload_budget": 128 << 20})
    error = MemoryBudgetError(
        "Too much.", expected=1, got=2, advice=[advice, "fewer rows"], cause="It is so."
    )
    assert error.sentence == brief(error) == "Too much (expected 1, got 2)."
    assert str(error).splitlines() == [
        "Too much (expected 1, got 2).",
        "  Write: upload_budget=128 << 20",
        "  Or: fewer rows",
        "  Cause: It is so.",
    ]
    assert error.advice[0].options == {"upload_budget": 128 << 20}
    assert error.lines(lambda one: one.write.upper())[2] == "Or: FEWER ROWS"
    again = pickle.loads(pickle.dumps(error))
    assert (again.advice, again.cause, str(again)) == (error.advice, error.cause, str(error))
    assert str(CipherblasError("Bad.", advice="a\nb")).splitlines() == ["Bad.", "  Write: a\\nb"]


def test_a_hostile_value_cannot_flood_the_message() -> None:
    assert len(str(CipherblasError("m", got="x" * 10**6))) < 1000


# Each class that callers can name has its own name as code, and a kind of it that they cannot tell has the same.
CODES = {
    "ApproximationError": "PrecisionError",
    "FitError": "ShapeError",
    "UnmatchedError": "MismatchError",
    "UnsuitedError": "ParameterError",
}


@pytest.mark.parametrize("family", FAMILY, ids=lambda family: family.__name__)
def test_errors_are_data(family: type[CipherblasError]) -> None:
    name = family.__name__
    assert family.code == CODES.get(name, name)
    assert (name in CODES) == (not hasattr(cipherblas, name))
    advice = [Advice("precision=1e-3", {"precision": 1e-3}), "another"]
    error = family("It is wrong.", expected=(2, 3), got="1\n", advice=advice, cause="It is so.")
    assert json.loads(json.dumps(error.to_dict())) == {
        "code": family.code,
        "message": "It is wrong.",
        "expected": "(2, 3)",
        "got": "1\\n",
        "advice": [
            {"write": "precision=1e-3", "options": {"precision": "0.001"}},
            {"write": "another", "options": {}},
        ],
        "cause": "It is so.",
    }


def test_kinds_of_other_modules_have_public_codes() -> None:
    """All that calls may raise in the end: those that the planner and ranks keep to themselves aside."""
    kinds = {kind for kind in _kinds(CipherblasError) if re.match(r"cipherblas\.(?!cli)", kind.__module__)}
    inner = {"TooSlowError", "HopelessError", "DearError", "RankError"}
    assert {kind.__name__ for kind in kinds if not hasattr(cipherblas, kind.code)} <= inner


def _kinds(family: type[CipherblasError]) -> list[type[CipherblasError]]:
    return [kind for own in family.__subclasses__() for kind in (own, *_kinds(own))]


FOLDER = "a secret place/of keys"  # with blanks, which end no path


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: cipherblas.Program.load(folder / "none.cb"),
        lambda folder: cipherblas.Program.load(folder),
        lambda folder: cipherblas.EvaluationKeys.load(folder),
        lambda folder: cipherblas.EncryptedResult.load(folder / "text"),
        lambda folder: cipherblas.EncryptedResult.load((folder / "text").open("rb")),
        lambda folder: cipherblas.inspect(folder / "texx"),
        lambda folder: cipherblas.inspect(folder / "array.npy"),
        lambda folder: cipherblas.Machine.load(folder / "text"),
        lambda folder: cipherblas.Machine.usual().save(folder / "missing" / "machine"),
        lambda folder: cipherblas.Machine.usual().save(folder),
    ],
)
def test_strangers_are_told_no_folders(act: Callable[[Path], object], tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    (folder / "text").write_text("no file of ours")
    (folder / "array.npy").write_bytes(b"\x93NUMPY and so on")
    with pytest.raises(CipherblasError) as found:
        act(folder)
    text = json.dumps(found.value.to_dict())
    assert str(tmp_path) not in text and "secret place" not in text
    assert str(folder) in str(found.value)  # the one who has the machine is told


def test_what_is_no_path_stays() -> None:
    for text in ("1/8 of them", "https://host/x/y", "client/server", "a / b", "and/or", "it is 3/4."):
        assert CipherblasError(text).to_dict()["message"] == text
    assert CipherblasError("See /srv/keys/a.ct, or ~/b/c.").to_dict()["message"] == "See a.ct, or c."
