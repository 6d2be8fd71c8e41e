"""A small program carried through all commands once, for the tests of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.commands import succeed


@dataclass(frozen=True)
class Flow:
    """The files of one program, a @ b with a 5x7 and b 7x3, both secret."""

    folder: Path
    A: NDArray[np.float64]
    B: NDArray[np.float64]

    def __getattr__(self, name: str) -> Path:
        return (
            self.folder
            / {
                "plan": "plan.cb",
                "keys": "keys",
                "evaluation": "keys/evaluation",
                "secret": "keys/secret-key",
                "a": "A.ct",
                "b": "B.ct",
                "c": "C.ct",
                "a_npy": "A.npy",
                "b_npy": "B.npy",
            }[name]
        )


@pytest.fixture(scope="session")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    """Everything up to the encrypted result; tests must not change these files."""
    random = np.random.default_rng(7)
    made = Flow(tmp_path_factory.mktemp("flow"), random.uniform(-1, 1, (5, 7)), random.uniform(-1, 1, (7, 3)))
    np.save(made.a_npy, made.A)
    np.save(made.b_npy, made.B)
    succeed("plan", "--a", "5x7", "--b", "7x3", "-o", made.plan)
    succeed("keygen", made.plan, "-o", made.keys)
    succeed("encrypt", made.keys, made.a_npy, "-o", made.a)
    succeed("encrypt", made.keys, made.b_npy, "--as", "b", "-o", made.b)
    succeed("run", made.plan, made.evaluation, "--a", made.a, "--b", made.b, "-o", made.c)
    return made


@pytest.fixture(autouse=True)
def unchanged_record(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test encrypts with the keys of `flow` is not their latest encryption for the next test."""
    if "flow" not in request.fixturenames:
        yield
        return
    record = request.getfixturevalue("flow").keys / "secret-key.record"
    before = record.read_bytes()
    yield
    record.write_bytes(before)
