"""A small file and what it must hold, for the tests of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cipherblas.crypto import files
from cipherblas.crypto.params import Parameters

TOY = Parameters(n=16, q=(97, 193), p=(257,), alpha=1, scale_bits=6.0, security=0, insecure=True)
OTHER = Parameters(n=16, q=(97, 193), p=(257,), alpha=2, scale_bits=6.0, security=0, insecure=True)


def tensors() -> dict[str, np.ndarray]:
    words = np.arange(96, dtype=np.uint64).reshape(2, 3, 16) * np.uint64(0x123456789ABCDEF)
    return {
        "seeds": np.arange(7, dtype=np.uint8),
        "b": words,
        "scale": np.array(2.5),
        "none": np.zeros((0, 4)),
    }


def write(path: Path, kind: str = "ciphertext", **changes: Any) -> bytes:
    files.write(path, kind, {"program_id": "abc", "names": ["x"]}, tensors(), parameters=TOY, **changes)
    return path.read_bytes()


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
