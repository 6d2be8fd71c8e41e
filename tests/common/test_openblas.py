"""The BLAS of the products beside the libraries of others in one process."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import numpy as np
from cipherblas.common import openblas
assert openblas.load()
from scipy.linalg import svd
a = np.random.default_rng(0).normal(size=(64, 4))
u, s, vh = svd(a, full_matrices=False)
assert np.allclose((u * s) @ vh, a)
"""


def test_the_lapack_of_scipy_keeps_its_own_functions() -> None:
    """Names that both libraries have stay apart: SciPy asked for 16 GiB of work space, and refused."""
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
