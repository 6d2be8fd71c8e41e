"""Threads and instruction sets, and the environment variables that choose them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
import cipherblas._core as _core
from cipherblas.common import environment


@pytest.mark.parametrize("text", ["abc", "0", "-1", "2.0", "4097", "1e3", " 2", "٣", "9" * 30])
def test_no_number_of_threads(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("CIPHERBLAS_THREADS", text)
    for call in (environment.check, cb.threads, cb.isa, lambda: cb.set_threads(1)):
        with pytest.raises(cb.ParameterError, match=r"CIPHERBLAS_THREADS .*expected 1 to 4096"):
            call()


@pytest.mark.parametrize("name", ["CIPHERBLAS_THREADS", "CIPHERBLAS_ISA"])
def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "")
    environment.check()


def test_every_instruction_set_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _core.isas():
        monkeypatch.setenv("CIPHERBLAS_ISA", name)
        environment.check()
    for name in ("avx9", "AVX2", "scalar "):
        monkeypatch.setenv("CIPHERBLAS_ISA", name)
        with pytest.raises(cb.ParameterError, match="CIPHERBLAS_ISA"):
            environment.check()


@pytest.mark.parametrize("used", ["compile", "Program", "Server"])
@pytest.mark.parametrize("variable", ["CIPHERBLAS_THREADS=abc", "CIPHERBLAS_ISA=avx9"])
def test_the_first_use_of_the_library_says_so(used: str, variable: str) -> None:
    name, _, value = variable.partition("=")
    code = (
        "import cipherblas as cb\n"
        "try:\n"
        f"    cb.{used}\n"
        "except cb.ParameterError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), name: value},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert name in done.stdout and repr(value) in done.stdout


def test_threads_are_set(request: pytest.FixtureRequest) -> None:
    before = cb.threads()
    request.addfinalizer(lambda: cb.set_threads(before))
    for count in (3, np.int64(2)):
        cb.set_threads(count)  # type: ignore[arg-type]
        assert cb.threads() == count


@pytest.mark.parametrize("count", ["two", 2.0, None, [1]])
def test_numbers_of_threads_are_integers(count: Any) -> None:
    with pytest.raises(cb.DTypeError, match="number of threads must be an integer"):
        cb.set_threads(count)


@pytest.mark.parametrize("count", [0, -1, 4097, 1 << 70])
def test_numbers_of_threads_are_in_range(count: int) -> None:
    with pytest.raises(cb.ParameterError, match="expected 1 to 4096"):
        cb.set_threads(count)
