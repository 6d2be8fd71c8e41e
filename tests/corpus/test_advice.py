"""What every refusal of the corpus says to write is written: it compiles. Here those of which that takes long; the
others as they are planned, in `test_corpus.py`."""

from __future__ import annotations

import pytest

import cipherblas as cb
from tests.corpus import storage
from tests.corpus.advised import LONG, advice_compiles
from tests.corpus.followed import FOLLOWED
from tests.corpus.programs import CASES


def refused(lines: list[str]) -> bool:
    return any(line.startswith("refused ") for line in lines)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [name for name, lines in storage.read().items() if name.startswith(LONG) and refused(lines)]
)
def test_advice_compiles(name: str) -> None:
    with pytest.raises(cb.CipherblasError) as caught:
        CASES[name].compiled()
    advice_compiles(CASES[name], caught.value)


def test_all_that_is_followed_is_advised() -> None:
    written = {
        (name, line.split(maxsplit=1)[1])
        for name, lines in storage.read().items()
        for line in lines
        if line.startswith("write ")
    }
    assert {(name, text) for name, texts in FOLLOWED.items() for text in texts} <= written
