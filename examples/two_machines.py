"""Client and server as two processes that share nothing but a folder of files.

The server multiplies a public weight matrix with encrypted inputs. Run it alone to see both sides at work, or
copy the folder `outbox` between two machines and run `two_machines.py serve outbox` on the other one.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import cipherblas as cb


def ask(outbox: Path) -> tuple[cb.Client, np.ndarray]:
    """The client: writes a program, evaluation keys and an encrypted operand. Keeps the secret key to itself."""
    inputs = np.random.default_rng(2).normal(size=(64, 100)).clip(-4, 4)
    program = cb.compile(
        lambda weights, x: weights @ x, {"weights": cb.public(10, 64), "x": cb.secret(64, 100, bound=4)}
    )
    client = program.client()
    outbox.mkdir()
    program.save(outbox / "program")
    client.write_evaluation_keys(outbox / "evaluation-keys")
    client.encrypt({"x": inputs})["x"].save(outbox / "x.ct")
    return client, inputs


def serve(outbox: Path) -> None:
    """The server: knows the weights and the files of the client, which are all public."""
    program = cb.Program.load(outbox / "program")
    keys = cb.EvaluationKeys.load(outbox / "evaluation-keys")
    x = cb.EncryptedOperand.load(outbox / "x.ct")
    program.server(keys).run({"weights": weights(), "x": x}).save(outbox / "y.ct")


def weights() -> np.ndarray:
    """What the server's owner has trained."""
    return np.random.default_rng(3).uniform(-1, 1, (10, 64))


def receive(outbox: Path, client: cb.Client, inputs: np.ndarray) -> None:
    """The client again: decrypts, and here compares with NumPy."""
    program = client.program
    y = client.decrypt(cb.EncryptedResult.load(outbox / "y.ct"))
    error = np.abs(y - weights() @ inputs).max()
    print(f"largest error {error:.1e}, allowed {program.plan.error_target:.1e}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            box = Path(folder) / "outbox"
            asked = ask(box)
            subprocess.run([sys.executable, __file__, "serve", str(box)], check=True)
            receive(box, *asked)
