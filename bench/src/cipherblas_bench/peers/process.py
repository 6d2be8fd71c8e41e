"""A peer library in a process of its own: started, asked and ended here.

A process keeps the peer's memory out of our peak and gives each peer the interpreter that its wheel needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

WORKERS = {
    "seal": ("seal_worker", "seal"),
    "seal-bgv": ("seal_bgv_worker", "seal"),
    "openfhe": ("openfhe_worker", "openfhe"),
    "openfhe-bgv": ("openfhe_bgv_worker", "openfhe"),
    "openfhe-bootstrap": ("openfhe_bootstrap", "openfhe"),
    "e2dm-seal": ("e2dm_seal", "seal"),
    "seal-tasks": ("seal_library", "seal"),
    "openfhe-tasks": ("openfhe_library", "openfhe"),
    "openfhe-numpy": ("openfhe_numpy_worker", "openfhe_numpy"),
    "tenseal": ("tenseal_worker", "tenseal"),
    "e2dm-stages": ("cipherblas_bench.e2dm_native", "cipherblas"),  # ours, in a process like the others
}
FOLDER = Path(__file__).parents[1]  # where `-m` finds this folder as a package of its own
PACKAGE = __package__.rpartition(".")[2]
_INSTALL = {
    "seal": "pip install seal-python (CPython 3.11 and up has wheels)",
    "tenseal": "pip install tenseal",
    "openfhe_numpy": "pip install openfhe-numpy in a CPython 3.10 environment and pass its interpreter",
    "cipherblas": "pip install cipherblas",
    "openfhe": "pip install openfhe in a CPython 3.10 environment and pass its interpreter",
}


class PeerError(RuntimeError):
    """The peer is not installed in the interpreter given, failed, or ended early."""


def _environment(python: str | None, threads: int) -> dict[str, str]:
    environment = dict(os.environ)
    if python is not None:
        environment.pop("PYTHONPATH", None)  # meant for this interpreter
    return environment | {"OMP_NUM_THREADS": str(threads)}


def build_of(module: str, *, python: str | None = None) -> dict[str, Any]:
    """The facts that an interpreter can tell of the wheel that it has a library from: see build.py.

    Raises:
        PeerError: the interpreter cannot be run, or lacks the module.
    """
    interpreter = python or sys.executable
    try:
        done = subprocess.run(
            [interpreter, "-m", f"{PACKAGE}.build", module],
            capture_output=True, text=True, check=False, env=_environment(python, 1), cwd=FOLDER,
        )  # fmt: skip
    except OSError as failure:
        raise PeerError(f"cannot run the interpreter {interpreter}: {failure.strerror}") from failure
    if done.returncode:
        raise PeerError(f"{interpreter} does not tell what it has of {module}: {done.stderr[-500:].strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Peer:
    """A running worker. Use as a context manager.

    Parameters: `name` of `WORKERS`; `setup`, the set-up request of that worker; `python`, the interpreter
    that has the peer's wheel (this one by default); `threads` of the peer; `variables` of its environment.
    """

    def __init__(
        self,
        name: str,
        setup: dict[str, Any],
        *,
        python: str | None = None,
        threads: int = 1,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        worker, module = WORKERS[name]
        self.name = name
        interpreter = python or sys.executable
        environment = _environment(python, threads) | dict(variables or {})
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed in close)
        try:
            self._process = subprocess.Popen(
                [interpreter, "-m", worker if "." in worker else f"{PACKAGE}.{worker}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
                env=environment,
                cwd=FOLDER,
            )
        except OSError as failure:
            self._stderr.close()
            raise PeerError(f"cannot run the interpreter {interpreter}: {failure.strerror}") from failure
        try:
            self.ready: dict[str, Any] = self._ask(setup)["ready"]
        except PeerError as failure:
            self.close()
            if f"No module named '{module}'" in str(failure):
                raise PeerError(f"{interpreter} has no {module}: {_INSTALL[module]}") from None
            raise

    def measure(self, case: str, repeats: int) -> list[float]:
        """Seconds of each of `repeats` runs of one case."""
        return [float(value) for value in self._ask({"case": case, "repeats": repeats})["seconds"]]

    def laps(self, repeats: int) -> list[dict[str, float]]:
        """Seconds of each stage of each of `repeats` runs of a worker that has stages; `rescaled` keeps the largest
        error."""
        answer = self._ask({"laps": repeats})
        self.ready |= {name: answer[name] for name in ("error", "peak_bytes")}
        return [dict(lap) for lap in answer["laps"]]

    def close(self) -> None:
        if self._process.stdin and not self._process.stdin.closed:
            with contextlib.suppress(OSError):
                self._process.stdin.write('{"quit": true}\n')
                self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._stderr.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            code = self._process.wait()
            self._stderr.seek(0)
            said = self._stderr.read()[-2000:].strip()
            raise PeerError(f"the {self.name} process ended with status {code}: {said}")
        answer: dict[str, Any] = json.loads(line)
        if "failure" in answer:
            raise PeerError(f"{self.name}: {answer['failure']}")
        return answer

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
