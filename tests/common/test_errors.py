"""The exception family: readable, catchable as its builtin kin, and transportable between processes."""

from __future__ import annotations

import errno
import pickle

import pytest

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
