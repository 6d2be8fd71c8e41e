"""Ends without warning: of the front, of a worker, of the disk's room."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.service.remote import Service
from cipherblas.service.settings import Settings
from cipherblas.service.store import Store
from tests.service.test_threats import announced, part, refused
from tests.support.served import Served

pytestmark = pytest.mark.encrypted


def _until(there: Service, job: str, state: str) -> dict[str, Any]:
    """The facts of a job as soon as it is in a state, which it must reach."""
    end = time.monotonic() + 60
    while (facts := json.loads(there.ask("GET", f"/v1/jobs/{job}").data))["state"] != state:
        assert facts["state"] in ("queued", "running") and time.monotonic() < end
        time.sleep(0.02)
    return dict(facts)


def test_killed_front_loses_nothing(own_service: Served, slow_program: cb.Program, tmp_path: Path) -> None:
    there = own_service.start().connect("tenant")
    client = there.publish(slow_program).client(tmp_path / "key")
    operands = client.client.encrypt({"a": np.eye(256) / 2, "b": np.eye(256)})
    addresses = {name: there.send(one.to_bytes()) for name, one in operands.items()}
    fields = {"program": slow_program.id, "keys": client._keys, "operands": addresses}
    upload = operands["a"].to_bytes()[:-1]  # interrupted, and never to be valid
    place = announced(there, upload)
    part(there, place, 0, upload[: 1 << 20])
    job = json.loads(there.ask("POST", "/v1/jobs", fields).data)["job"]
    while json.loads(there.ask("GET", f"/v1/jobs/{job}").data)["state"] == "queued":
        time.sleep(0.02)
    workers = own_service.workers()
    own_service.kill()
    end = time.monotonic() + 10
    while any(Path(f"/proc/{pid}/stat").exists() for pid in workers) and time.monotonic() < end:
        time.sleep(0.05)  # workers end with the front
    assert not any(Path(f"/proc/{pid}/stat").exists() for pid in workers)
    own_service.start()
    assert there.ask("HEAD", place).headers["Upload-Offset"] == str(1 << 20)
    _until(there, job, "running")
    (worker,) = own_service.workers()
    os.kill(worker, signal.SIGKILL)  # in the middle of the run
    facts = _until(there, job, "done")
    assert own_service.workers() != [worker]
    result = cb.EncryptedResult.from_bytes(there.ask("GET", facts["result"]).data)
    there.ask("DELETE", f"/v1/jobs/{job}")
    assert json.loads(there.ask("POST", "/v1/jobs", fields).data)["job"] == job
    assert _until(there, job, "done")["sha256"] == facts["sha256"]  # of a run that nothing ended
    found = client.client.decrypt(result, of=operands)
    assert np.abs(found - np.eye(256) / 2).max() <= slow_program.plan.error_target
    assert own_service.stop() == 0
    assert Store(Settings(own_service.root)).check(whole=True) == []


def test_full_disk(own_service: Served, program: cb.Program) -> None:
    own_service.options = ("--disk", "40KiB")
    there = own_service.start().connect("filling")
    error = refused(507, there.send, program.client().evaluation_keys().to_bytes())
    assert "no room" in str(error)
    assert list((own_service.root / "uploads").iterdir()) == []
