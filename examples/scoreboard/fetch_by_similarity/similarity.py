"""The program of the workload, and where its files lie: what every stage shares.

The database, the query and the payloads are encrypted; the server holds the program and the evaluation keys.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cipherblas as cb

THRESHOLD = 0.8
# Similarities nearer to the threshold than this may count as matches or not.
MARGIN = 0.05
RECORDS = (1_000, 50_000, 1_000_000, 20_000_000)
DIMENSIONS = (128, 128, 256, 512)
NAMES = ("toy", "small", "medium", "large")
SMALL = 1
PAYLOAD = 7
MAX_PAYLOAD = 4095
UNIT = 1.001  # the largest similarity, of vectors of length one in single precision
GIB = 1 << 30


def matches(db: Any, query: Any, precision: float) -> Any:
    """1 for records that are similar to the query, 0 for the others."""
    similarity = cb.assume(db @ query, UNIT)
    return cb.greater(similarity, THRESHOLD, margin=MARGIN, precision=precision)


def fetch(db: Any, query: Any, payloads: Any) -> dict[str, Any]:
    """The payloads of the matches, zero elsewhere, and which records match."""
    match = matches(db, query, precision=2e-5)
    found = {f"payload_{column}": payloads[:, column] * match for column in range(PAYLOAD)}
    return {**found, "match": match}


def count(db: Any, query: Any) -> Any:
    """The number of matches."""
    return cb.sum(matches(db, query, precision=0.2 / db.shape[0]))


@dataclass(frozen=True)
class Stage:
    """What the harness asks a stage for, and where it reads and writes.

    Attributes:
        size: number of the instance.
        count_only: the number of matches is asked for, not their payloads.
        root: the folder of the harness.
    """

    size: int
    count_only: bool
    root: Path

    @classmethod
    def of(cls, arguments: list[str] | None = None) -> Stage:
        """From the command line of a stage."""
        parser = argparse.ArgumentParser(description="A stage of the workload fetch-by-similarity.")
        parser.add_argument("size", type=int, choices=range(len(RECORDS)))
        parser.add_argument("--count_only", action="store_true")
        options, _ = parser.parse_known_args(arguments)  # the harness hands its seed to all of them
        return cls(options.size, options.count_only, Path.cwd())

    @property
    def records(self) -> int:
        return RECORDS[self.size]

    @property
    def dimension(self) -> int:
        return DIMENSIONS[self.size]

    @property
    def data(self) -> Path:
        return self.root / "datasets" / NAMES[self.size]

    @property
    def io(self) -> Path:
        return self.root / "io" / NAMES[self.size]

    @property
    def uploads(self) -> Path:
        return self.io / "ciphertexts_upload"

    @property
    def query(self) -> Path:
        return self.uploads / "query.bin"

    @property
    def results(self) -> Path:
        return self.io / "ciphertexts_download" / "results.bin"

    @property
    def keys(self) -> Path:
        return self.io / "keys"

    @property
    def secret_key(self) -> Path:
        return self.io / "client" / "secret-key"

    @property
    def decrypted(self) -> Path:
        return self.io / "client" / "decrypted.npz"

    def compiled(self) -> cb.Program:
        """The program, planned for two threads of this machine."""
        operands = {
            "db": cb.secret(self.records, self.dimension),
            "query": cb.secret(self.dimension),
        }
        options: dict[str, Any] = {
            "algorithm": "diagonals",  # the query is one ciphertext
            "threads": 2,
            "minimise": "server",
            "upload_budget": 3 * GIB,
            "key_budget": GIB,
        }
        if self.size > SMALL:  # the database stays in its file
            options |= {"upload_budget": 1024 * GIB, "memory_budget": 1024 * GIB}
        if self.count_only:
            return cb.compile(count, operands, error=0.45, **options)
        operands["payloads"] = cb.secret(self.records, PAYLOAD, bound=MAX_PAYLOAD)
        errors = {f"payload_{column}": 0.4 for column in range(PAYLOAD)}
        return cb.compile(fetch, operands, error={**errors, "match": 1e-3}, **options)

    def program(self) -> cb.Program:
        """As `compiled` was saved."""
        return cb.Program.load(self.io / "program")

    def client(self) -> cb.Client:
        """With the secret key that was made for the program."""
        return cb.Client.load(self.secret_key, self.program())

    def read(self, name: str, kind: type, columns: int) -> np.ndarray:
        """A file of the data set."""
        return np.fromfile(self.data / name, dtype=kind).reshape(-1, columns)
