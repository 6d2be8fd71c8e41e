"""A service for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import cipherblas as cb
from tests.support.served import Served

pytest.importorskip("granian")
pytest.importorskip("urllib3")
WEIGHTS = np.random.default_rng(5).normal(0, 0.1, (6, 16))


@pytest.fixture(scope="session")
def program() -> cb.Program:
    return cb.compile(lambda x: WEIGHTS @ (x * x), {"x": cb.secret(16)})


@pytest.fixture(scope="session")
def slow_program() -> cb.Program:
    """A program whose run takes seconds."""
    return cb.compile(
        lambda a, b: a @ b, {"a": cb.secret(256, 256), "b": cb.secret(256, 256)}, block=32, form="blocks"
    )


@pytest.fixture(scope="session")
def _session_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("service") / "root").start()
    yield served
    assert served.stop() == 0


@pytest.fixture
def service(_session_service: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.setenv("CIPHERBLAS_CONFIG", str(tmp_path / "config"))
    return _session_service


@pytest.fixture
def own_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A service that a test may end."""
    monkeypatch.setenv("CIPHERBLAS_CONFIG", str(tmp_path / "config"))
    served = Served(tmp_path / "root")
    yield served
    if served.process is not None and served.process.poll() is None:
        served.kill()
