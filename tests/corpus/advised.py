"""What the refusal of a program says to write: it compiles."""

from __future__ import annotations

import dataclasses

import cipherblas as cb
from tests.corpus.case import Case
from tests.corpus.facts import without_lines
from tests.corpus.followed import FOLLOWED
from tests.support.advice import advised_options, any_plan_does, edited, is_rescaled

LONG = ("ring/2^12", "key budget/none, any", "key budget/1 MiB")  # whose advice takes longest
MAX_LINE_LENGTH = 400  # characters of a line


def advice_compiles(case: Case, error: cb.CipherblasError) -> None:
    """Everything that it says, one after the other."""
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
            changes = FOLLOWED[case.name][without_lines(advice.write)]
        with any_plan_does():
            dataclasses.replace(case, **changes).compiled()
