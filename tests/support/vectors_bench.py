"""Drives a bench of `sim/vectors.cpp`: a set of words in, and a set of words out, in every cycle."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas_hardware.accelerator import verilated


class VectorsBench:
    """A module of the folder `sim` with inputs `x_i` and outputs `x_o`, arrays of 64-bit words."""

    def __init__(self, top: str, parameters: Mapping[str, int], outputs: int, kept: Path) -> None:
        self._library = verilated.library(top, "vectors", parameters, kept)
        self._outputs = outputs

    def __call__(self, x: NDArray[Any], latency: int) -> NDArray[np.uint64]:
        """Outputs that belong to the rows of x, uint64 (cycles, words), `latency` cycles after them."""
        padded = np.concatenate([x.astype(np.uint64), np.zeros((latency, x.shape[1]), np.uint64)])
        found = np.zeros((len(padded), self._outputs), np.uint64)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (padded, found)]
        self._library.run_vectors(*pointers, ctypes.c_uint64(len(padded)))
        return found[latency:]
