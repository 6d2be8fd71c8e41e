"""The predicted peak of the server against what a server process really used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb

SERVER = """
import sys
from pathlib import Path
import cipherblas as cb

folder = Path(sys.argv[1])
program = cb.Program.load(folder / "program")
server = program.server(cb.EvaluationKeys.load(folder / "keys"))
parameters = program.plan.parameters
inputs = {name: cb.EncryptedOperand.load(folder / name, parameters, program.id) for name in program.operands}
server.run(**inputs)
status = Path("/proc/self/status").read_text()  # ru_maxrss may be that of the process that started this one
print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize(
    ("size", "options"),
    [
        (64, {"algorithm": "fame", "ring_degree": 1 << 14}),
        (96, {"algorithm": "skewed"}),
        (160, {"algorithm": "outer-product", "upload_budget": 1 << 30}),
    ],
)
def test_peak_memory(tmp_path: Path, size: int, options: dict[str, Any]) -> None:
    program = cb.compile(lambda a, b: a @ b, a=cb.secret(size, size), b=cb.secret(size, size), **options)
    program.save(tmp_path / "program")
    client = program.client()
    client.write_evaluation_keys(tmp_path / "keys")
    for name, operand in client.encrypt(a=np.eye(size), b=np.eye(size)).items():
        operand.save(tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", SERVER, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 1.1 * program.plan.peak_bytes
    assert program.plan.peak_bytes <= 3 * int(done.stdout)
