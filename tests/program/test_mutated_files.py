"""Files of every kind, changed in their structure under right checksums: a typed error, or a file that is used.

`scripts/fuzz_files.py` does the same for as long as one likes, and repeats what failed here.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.file_mutations import TOKENS, Sample, mutated, name_of, outcome, samples

MUTATIONS = 2_500  # of all files together
SECONDS = 30  # for one; it takes some milliseconds
NAMES = (
    *("program slots", "program rows", "program layers", "program function", "program results"),
    *("client program slots", "client program rows", "client program layers", "client program results"),
    *("secret key", "public key", "evaluation keys", "operand", "operand rows"),
    *("result", "result rows", "several results", "manifest", "matrix"),
    "key record",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    return {sample.name: sample for sample in samples(tmp_path_factory.mktemp("samples"))}


def test_samples_are_files_of_every_kind(written: dict[str, Sample], tmp_path: Path) -> None:
    from cipherblas.crypto.files import KINDS

    assert tuple(written) == NAMES
    assert {sample.kind for sample in written.values()} == set(KINDS)
    for sample in written.values():
        assert outcome(sample, sample.raw, tmp_path / "x") == "used"


@pytest.mark.parametrize("name", NAMES)
def test_mutated_files(written: dict[str, Sample], tmp_path: Path, name: str) -> None:
    sample, outcomes = written[name], Counter[str]()
    for number in range(MUTATIONS // len(NAMES)):
        mutation = name_of(0, sample, number)
        raw = mutated(random.Random(mutation), sample.raw)
        begun = time.monotonic()
        try:
            outcomes[outcome(sample, raw, tmp_path / "x")] += 1
        except BaseException:
            print(f"to repeat it: scripts/fuzz_files.py --repeat {mutation!r}")
            raise
        assert time.monotonic() - begun < SECONDS, mutation
    assert outcomes["FormatError"] > 50 and outcomes["used"] > 5, outcomes


def test_tokens_are_values_of_json() -> None:
    """Each of them is more than what Python's `json` would write: they must stand in a file as they are."""
    assert len(set(TOKENS)) == len(TOKENS)
    assert {"1e999", "NaN", "1" + "0" * 400} <= set(TOKENS)
