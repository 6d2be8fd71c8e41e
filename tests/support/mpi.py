"""Commands and programs on ranks of MPI, with the launcher that is installed beside this interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MPIEXEC = str(Path(sys.executable).with_name("mpiexec"))
PATIENCE = 40  # seconds, on a busy machine


def started(ranks: int, arguments: Sequence[str], **options: object) -> subprocess.Popen[str]:
    """So many ranks of this interpreter, whose output is kept."""
    return subprocess.Popen(
        [MPIEXEC, "-n", str(ranks), sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        **options,  # type: ignore[call-overload]
    )


def on_ranks(ranks: int, *arguments: str, patience: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """The same, until it has ended."""
    command = [MPIEXEC, "-n", str(ranks), sys.executable, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=patience, env=environment(), check=False
    )


def environment() -> Mapping[str, str]:
    """NumPy's own threads would be as many for each rank as there are processors."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
