"""The server holds no secret: its memory and its files are searched for the key in every form."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import toy_rows

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/mem")

# Runs in a process of its own. It gets the needles only after the work is done, as SHA-free fingerprints would not
# do: from standard input, each byte complemented, so that the input itself is not a hit.
SCANNER = """
import sys

def scan():
    needles = [bytes(255 - byte for byte in bytes.fromhex(line)) for line in sys.stdin.read().split()]
    own = [id(needle) for needle in needles]
    found = [0] * len(needles)
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps.read().splitlines():
            fields = line.split()
            if not fields[1].startswith("rw") or fields[-1] in ("[vvar]", "[vsyscall]"):
                continue
            start, end = (int(part, 16) for part in fields[0].split("-"))
            position, tail = start, b""
            while position < end:
                try:
                    memory.seek(position)
                    block = memory.read(min(1 << 24, end - position))
                except (OSError, OverflowError, ValueError):
                    break
                if not block:
                    break
                for index, needle in enumerate(needles):
                    spot = block.find(needle)
                    while spot >= 0:
                        address = position + spot
                        # The needle's own bytes object, and what this loop copied of it, do not count.
                        if not own[index] <= address < own[index] + 256:
                            found[index] += 1
                        spot = block.find(needle, spot + 1)
                position += len(block)
                del block
    print(*found)
"""

SERVER = (
    SCANNER
    + """
import numpy as np
import cipherblas as cb
folder = sys.argv[1]
program = cb.Program.load(folder + "/program", insecure=True)
server = program.server(cb.EvaluationKeys.load(folder + "/keys", insecure=True))
def load(name):
    if not program.operands[name].secret:
        return np.load(folder + "/" + name + ".npy")
    return cb.EncryptedOperand.load(folder + "/" + name, insecure=True)
server.run({"a": load("a"), "b": load("b")}).save(folder + "/c")
scan()
"""
)

ENCRYPTOR = (
    SCANNER
    + """
import numpy as np
import cipherblas as cb
folder = sys.argv[1]
program = cb.Program.load(folder + "/program")
encryptor = program.encryptor(cb.PublicKey.load(folder + "/public-key"))
encryptor.encrypt({"b": np.load(folder + "/b.npy")})["b"].save(folder + "/b")
scan()
"""
)

CLIENT = (
    SCANNER
    + """
import cipherblas as cb
program = cb.Program.load(sys.argv[1] + "/program", insecure=True)
client = cb.Client.load(sys.argv[2], program, insecure=True)
scan()
"""
)


def _needles(client: cb.Client) -> dict[str, bytes]:
    """Windows of the secret in the forms in which it exists or could exist."""
    secret = client._secret
    coefficients = secret.coefficients()
    ntt = secret.ntt()
    middle = len(coefficients) // 2
    found = {
        "seed": bytes(secret._seed),
        "int64 coefficients": coefficients[middle : middle + 16].tobytes(),
        "int8 coefficients": coefficients[middle : middle + 64].astype(np.int8).tobytes(),
        "first limb": ntt[0, middle : middle + 8].tobytes(),
        "last limb": ntt[-1, middle : middle + 8].tobytes(),
    }
    if len(ntt) == 1:  # the same bytes: each would find the other in the scanner
        del found["last limb"]
    return found


def _scan(script: str, needles: dict[str, bytes], *arguments: str) -> list[int]:
    lines = "\n".join(bytes(255 - byte for byte in needle).hex() for needle in needles.values())
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return [int(number) for number in run.stdout.split()]


@linux
@pytest.mark.parametrize(
    ("left", "compiled"),
    [
        (cb.secret(6, 6), lambda f, **operands: cb.compile(f, operands, algorithm="skewed")),
        (cb.secret(6, 6), functools.partial(toy_rows, n=256, key_policy="composed")),
        (cb.public(6, 6), lambda f, **operands: cb.compile(f, operands, form="rows")),
    ],
    ids=["slots", "rows", "rows with a clear operand"],
)
def test_neither_memory_nor_files_of_the_server_hold_the_secret(
    tmp_path: Path, left: Any, compiled: Callable[..., cb.Program]
) -> None:
    public, private = tmp_path / "public", tmp_path / "private"
    public.mkdir()
    private.mkdir()
    program = compiled(lambda a, b: a @ b, a=left, b=cb.secret(6, 6))
    client = program.client()
    program.save(public / "program")
    client.evaluation_keys().save(public / "keys")
    a, b = np.random.default_rng(4).uniform(-1, 1, (2, 6, 6))
    if left.secret:
        client.encrypt({"a": a})["a"].save(public / "a")
    else:
        np.save(public / "a.npy", a)
    client.encrypt({"b": b})["b"].save(public / "b")
    client.save(private / "secret")
    needles = _needles(client)

    counts = _scan(SERVER, needles, str(public))
    assert counts == [0] * len(needles), dict(zip(needles, counts, strict=True))
    for file in public.iterdir():
        content = file.read_bytes()
        assert not [name for name, needle in needles.items() if needle in content], file

    assert needles["seed"] in (private / "secret").read_bytes()
    if left.secret and program.plan.form == "blocks":  # the same search finds the key where it is
        found = dict(zip(needles, _scan(CLIENT, needles, str(public), str(private / "secret")), strict=True))
        assert found["int64 coefficients"] > 0
        assert found["first limb"] > 0

    result = cb.EncryptedResult.load(public / "c", insecure=True)
    assert (np.abs(client.decrypt(result) - a @ b) <= program.plan.error).all()


@linux
@pytest.mark.parametrize("form", ["blocks", "rows"])
def test_neither_memory_nor_files_of_an_encryptor_hold_the_secret(tmp_path: Path, form: str) -> None:
    public, private = tmp_path / "public", tmp_path / "private"
    public.mkdir()
    private.mkdir()
    program = cb.compile(
        lambda a, b: a @ b,
        {"a": cb.public(6, 6), "b": cb.secret(6, 6, encryption="public-key")},
        form=form,
        ring_degree=4096,
    )
    client = program.client()
    program.save(public / "program")
    client.public_key().save(public / "public-key")
    a, b = np.random.default_rng(4).uniform(-1, 1, (2, 6, 6))
    np.save(public / "b.npy", b)
    client.save(private / "secret")
    needles = _needles(client)

    counts = _scan(ENCRYPTOR, needles, str(public))
    assert counts == [0] * len(needles), dict(zip(needles, counts, strict=True))
    for file in public.iterdir():
        content = file.read_bytes()
        assert not [name for name, needle in needles.items() if needle in content], file

    sent = cb.EncryptedOperand.load(public / "b")
    result = program.server(client.evaluation_keys()).run({"a": a, "b": sent})
    assert (np.abs(client.decrypt(result) - a @ b) <= program.plan.error).all()


def test_a_server_takes_public_keys_only() -> None:
    program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(3, 3), "b": cb.secret(3, 3)})
    client = program.client()
    for stranger in (client, client._secret, None):
        with pytest.raises(cb.DTypeError):
            program.server(stranger)  # type: ignore[arg-type]


def test_a_refused_entry_is_not_in_the_message() -> None:
    operands = {"a": cb.secret(4, 4), "b": cb.secret(4, 4, dtype="int8", bound=100)}
    client = cb.compile(lambda a, b: a @ b, operands, security=0, insecure=True, ring_degree=4096).client()
    fine = np.zeros((4, 4))
    for values in (
        {"a": fine + 2.3982, "b": fine},
        {"a": fine, "b": fine + 0.3982},
        {"a": fine, "b": fine + 119},
    ):
        with pytest.raises(cb.RangeError) as refused:
            client.encrypt(values)
        assert not re.search("2[.]3982|3982|119", str(refused.value))
