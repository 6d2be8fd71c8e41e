"""What every refusal of the corpus says to write is written: it compiles."""

from __future__ import annotations

import dataclasses

import pytest

import cipherblas as cb
from tests.corpus import storage
from tests.corpus.case import Case
from tests.corpus.facts import without_lines
from tests.corpus.followed import FOLLOWED
from tests.corpus.programs import CASES
from tests.support.advice import advised_options, edited, is_rescaled

LONG = (
    "chain/",
    "ring/2^12",
    "key budget/none, any",
    "key budget/1 MiB",
)  # whose planning takes most of the time
MAX_LINE_LENGTH = 400  # characters of a line
REFUSED = [
    name for name, lines in storage.read().items() if any(line.startswith("refused ") for line in lines)
]


def _refusal(case: Case) -> cb.CipherblasError:
    with pytest.raises(cb.CipherblasError) as caught:
        case.compiled()
    return caught.value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith(LONG)) for name in REFUSED]
)
def test_advice_compiles(name: str) -> None:
    case = CASES[name]
    error = _refusal(case)
    assert error.advice, str(error)
    assert all(len(line) <= MAX_LINE_LENGTH for line in str(error).splitlines()), str(error)
    assert not {"inf", "nan"} & set(str(error.sentence).split()), str(error)
    for advice in error.advice:
        if is_rescaled(advice):
            changes = {
                "formula": edited(case.formula, advice.call),
                "options": advised_options(case.options, advice),
            }
        else:
            changes = FOLLOWED[name][without_lines(advice.write)]
        dataclasses.replace(case, **changes).compiled()


def test_all_that_is_followed_is_advised() -> None:
    written = {
        (name, line.split(maxsplit=1)[1])
        for name, lines in storage.read().items()
        for line in lines
        if line.startswith("write ")
    }
    assert {(name, text) for name, texts in FOLLOWED.items() for text in texts} <= written
