"""Where the files of the workload lie: what every stage shares.

The server holds `program.cb`, the network with its weights; the client `client.cb`, the same without them. Both are
made once, before the harness runs: `cipherblas import NETWORK.onnx … -o program.cb --client-output client.cb`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb

HERE = Path(__file__).parent
NAMES = ("single", "small", "medium", "large")


@dataclass(frozen=True)
class Stage:
    """What the harness asks a stage for, and where it reads and writes.

    Attributes:
        size: number of the instance.
        root: the folder of the harness.
    """

    size: int
    root: Path

    @classmethod
    def of(cls, arguments: list[str] | None = None) -> Stage:
        """From the command line of a stage."""
        parser = argparse.ArgumentParser(description="A stage of the workload ml-inference.")
        parser.add_argument("size", type=int, choices=range(len(NAMES)))
        options, _ = parser.parse_known_args(arguments)
        return cls(options.size, Path.cwd())

    @property
    def pixels(self) -> Path:
        return self.root / "datasets" / NAMES[self.size] / "intermediate" / "test_pixels.txt"

    @property
    def io(self) -> Path:
        return self.root / "io" / NAMES[self.size]

    @property
    def keys(self) -> Path:
        return self.io / "public_keys"

    @property
    def secret_key(self) -> Path:
        return self.io / "secret_key" / "secret-key"

    @property
    def images(self) -> Path:
        return self.io / "client" / "images.npy"

    @property
    def uploads(self) -> Path:
        return self.io / "ciphertexts_upload"

    @property
    def downloads(self) -> Path:
        return self.io / "ciphertexts_download"

    @property
    def scores(self) -> Path:
        return self.io / "client" / "scores.npy"

    @property
    def predictions(self) -> Path:
        return self.io / "encrypted_model_predictions.txt"

    def client(self) -> cb.Client:
        """With the secret key that was made for the program."""
        return cb.Client.load(self.secret_key, client_program())

    def pixels_of_images(self) -> NDArray[np.float64]:
        """The images of the harness: a line each, as many numbers as the network takes, from 0 to 1."""
        shape = client_program().operands["x"].shape
        pixels = np.loadtxt(self.pixels, ndmin=2)
        if pixels.shape[1] != np.prod(shape):
            raise SystemExit(
                f"{self.pixels} has images of {pixels.shape[1]} numbers; the network takes {np.prod(shape)}."
            )
        return pixels.reshape(-1, *shape)


def client_program() -> cb.ClientProgram:
    """The program as the client has it."""
    return cb.ClientProgram.load(HERE / "client.cb")


def server_program() -> cb.Program:
    """The program as the server has it."""
    return cb.Program.load(HERE / "program.cb")


def made(path: Path) -> Path:
    """The path, in a folder that there is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def numbered(folder: Path) -> list[Path]:
    """The files of a folder that have numbers for names, in their order."""
    return sorted(folder.iterdir(), key=lambda path: int(path.name))
