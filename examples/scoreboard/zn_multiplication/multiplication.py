"""The program of the workload, and where its files lie: what every stage shares.

Pairs of integers of 64 bits are encrypted, and multiplied modulo 2^64. The server has the program and no keys: results
keep three components.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cipherblas as cb

MODULUS = 1 << 64
SIDES = {"a": "lhs.txt", "b": "rhs.txt"}  # operand → file of the data set


@dataclass(frozen=True)
class Stage:
    """What the harness asks a stage for, and where it reads and writes.

    Attributes:
        size: name of the instance.
        root: the folder of the harness.
    """

    size: str
    root: Path

    @classmethod
    def of(cls, arguments: list[str] | None = None) -> Stage:
        """From the command line of a stage."""
        parser = argparse.ArgumentParser(description="A stage of the workload Zn-multiplication.")
        parser.add_argument("size", help="name of the instance")
        options, _ = parser.parse_known_args(arguments)  # some are told the number of pairs, too
        return cls(options.size, Path.cwd())

    @property
    def data(self) -> Path:
        return self.root / "datasets" / self.size

    @property
    def io(self) -> Path:
        return self.root / "io" / self.size

    @property
    def uploads(self) -> Path:
        return self.io / "ciphertexts_upload"

    @property
    def results(self) -> Path:
        return self.io / "ciphertexts_download" / "products"

    @property
    def keys(self) -> Path:
        return self.io / "public_keys" / "none"

    @property
    def secret_key(self) -> Path:
        return self.io / "private_keys" / "secret-key"

    @property
    def decrypted(self) -> Path:
        return self.io / "private_keys" / "products.npy"

    def compiled(self) -> cb.Program:
        """The program for all pairs, planned for the threads of this machine."""
        (pairs,) = {len(self.read(name)) for name in SIDES}
        operands = {name: cb.secret(pairs, modulus=MODULUS) for name in SIDES}
        options: dict[str, Any] = {"minimise": "server", "upload_budget": 1 << 33}
        return cb.compile(lambda a, b: a * b, operands, **options)

    def program(self) -> cb.Program:
        """As `compiled` was saved."""
        return cb.Program.load(self.io / "program")

    def client(self) -> cb.Client:
        """With the secret key that was made for the program."""
        return cb.Client.load(self.secret_key, self.program())

    def read(self, name: str) -> np.ndarray:
        """The integers of an operand: decimal, one on each line."""
        lines = (self.data / SIDES[name]).read_text(encoding="ascii").split()
        return np.array(lines, dtype=np.uint64)
