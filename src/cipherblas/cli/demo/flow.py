"""One job of the demonstration from plan to comparison: client here, server in a process of its own.

The two share a folder of files, as they would share a network: plan, evaluation keys, ciphertexts and clear
operands go out, an encrypted result comes back. The secret key is never written.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.cli.arrays import save_array
from cipherblas.cli.keyfolder import folder_bytes
from cipherblas.common.errors import CipherblasError
from cipherblas.crypto.keys import FreshCiphertext
from cipherblas.report import Display
from cipherblas.roles.client import Client
from cipherblas.roles.program import Program
from cipherblas.roles.wire.messages import EncryptedResult

PLAN, KEYS, RESULT = "plan.cb", "evaluation", "result.ct"


class ServerFailed(CipherblasError):
    """The server's process ended with an error; its message stands on stderr."""


@dataclass
class Job:
    """A program, its operands, and what was measured on the way."""

    title: str
    program: Program
    operands: Mapping[str, NDArray[np.float64]]
    seconds: dict[str, float] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    ciphertext: NDArray[np.uint64] | None = None  # one limb of the first operand, as the server sees it
    result: NDArray[np.float64] | None = None
    expected: NDArray[np.float64] | None = None

    @property
    def errors(self) -> NDArray[np.float64]:
        """Distance of every entry from NumPy's."""
        assert self.result is not None and self.expected is not None
        return np.abs(self.result - self.expected)

    @property
    def bound(self) -> float:
        """The reference of the relative error: for A @ B, max|A|·max|B|·k."""
        return self.program.expression.bound

    def run(self, folder: Path, display: Display, threads: int | None) -> None:
        """Keys, encryption, the server, decryption; fills the measured fields.

        Raises:
            ServerFailed: the server ended with an error.
        """
        folder.mkdir()
        client = self._send(folder, display)
        self._serve(folder, display, threads)
        with self._timed("decrypt"), display.progress(f"{self.title}: decrypting") as progress:
            encrypted = EncryptedResult.load(folder / RESULT, progress=progress)
            self.result = client.decrypt(encrypted, progress=progress)
        self.files[RESULT] = folder_bytes(folder / RESULT)
        with self._timed("NumPy"), display.progress(f"{self.title}: NumPy") as progress:
            self.expected = self.program.evaluate(self.operands, progress=progress)

    def _send(self, folder: Path, display: Display) -> Client:
        program = self.program
        with display.progress(f"{self.title}: writing the plan") as progress:
            program.save(folder / PLAN, progress=progress)
        client = program.client()
        (folder / KEYS).mkdir()
        with self._timed("keys"), display.progress(f"{self.title}: making keys") as progress:
            client.write_evaluation_keys(folder / KEYS, progress)
        with self._timed("encrypt"):
            for name, operand in program.operands.items():
                if not operand.secret:
                    with display.progress(f"{self.title}: writing {name}"):
                        save_array(folder / f"{name}.npy", np.asarray(self.operands[name]))
                    continue
                with display.progress(f"{self.title}: encrypting {name}") as progress:
                    encrypted = client.encrypt({name: self.operands[name]}, progress=progress)[name]
                    encrypted.save(folder / f"{name}.ct", progress=progress)
                if self.ciphertext is None:
                    first = encrypted.feeds[0][0]
                    words = first.data if isinstance(first, FreshCiphertext) else first.b
                    self.ciphertext = np.array(words[0]).ravel()
        self.files |= {path.name: folder_bytes(path) for path in folder.iterdir()}
        return client

    def _serve(self, folder: Path, display: Display, threads: int | None) -> None:
        command = [
            sys.executable,
            "-m",
            "cipherblas",
            "run",
            PLAN,
            KEYS,
            "-o",
            RESULT,
            "--json",
            "--quiet",
        ]
        for name, operand in self.program.operands.items():
            command += ["--operand", f"{name}={name}.{'ct' if operand.secret else 'npy'}"]
        if threads is not None:
            command += ["--threads", str(threads)]
        with self._timed("server"), display.progress(f"{self.title}: the server computes"):
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise ServerFailed("The server's process failed.", expected="exit code 0", got=done.returncode)
        self.server = json.loads(done.stdout)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start
