"""Programs published, keys sent, jobs computed: through real processes, and decrypted right."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cipherblas as cb
from tests.support import documents
from tests.support.served import Served

pytestmark = pytest.mark.encrypted
X = np.linspace(-1, 1, 16)


def expected(program: cb.Program, x: np.ndarray = X) -> np.ndarray:
    return np.asarray(program.evaluate({"x": x}))


def test_publish_connect_compute(service: Served, program: cb.Program, tmp_path: Path) -> None:
    owner = service.connect("publisher")
    owner.publish(program, "numerals")
    user = service.connect("user", ("run", "keys"))
    client = user.program("numerals").client(tmp_path / "digits.key")
    assert np.abs(client(x=X) - expected(program)).max() <= program.plan.error_target
    again = user.program("numerals").client(
        tmp_path / "digits.key"
    )  # the key of the file; its keys are there
    job = again.submit(x=X / 2)
    assert job.predicted > 0
    assert np.abs(job.result(timeout=60) - expected(program, X / 2)).max() <= program.plan.error_target
    assert job.state == "done"
    (facts,) = [one for one in user.programs() if one["id"] == program.id]
    assert facts["names"] == ["numerals"] and facts["key_bytes"] == program.plan.key_bytes


def test_clear_operands_stay_with_the_service(service: Served) -> None:
    program = cb.compile(lambda w, x: w @ x, {"w": cb.public(4, 8), "x": cb.secret(8, 3)})
    weights, x = np.eye(4, 8), np.random.default_rng(1).uniform(-1, 1, (8, 3))
    served = service.connect("weights").publish(program, clear={"w": weights})
    assert np.abs(served.client()(x=x) - weights @ x).max() < 1e-3
    assert np.abs(served.client()(x=x, w=weights / 2) - weights / 2 @ x).max() < 1e-3


def test_the_page_of_the_documents(service: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIPHERBLAS_URL", service.url)
    monkeypatch.setenv("CIPHERBLAS_TOKEN", service.token("reader of the page"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in documents.blocks(documents.ROOT / "docs" / "how-to" / "service.md", "python"):
        exec(block.text, names)
    assert isinstance(names["scores"], np.ndarray) and names["scores"].shape == (10,)


def test_await(service: Served, program: cb.Program) -> None:
    token = service.token("waiting")

    async def several() -> list[np.ndarray]:
        there = await cb.aconnect(service.url, token=token)
        served = await there.publish(program)
        client = await served.client()
        job = await client.submit(x=X)
        return [await job.result(), *await asyncio.gather(*(client(x=X * k) for k in (0.5, 0.25)))]

    for scale, found in zip((1, 0.5, 0.25), asyncio.run(several()), strict=True):
        assert np.abs(found - expected(program, X * scale)).max() <= program.plan.error_target


def test_equal_requests_are_one_job(service: Served, program: cb.Program) -> None:
    there = service.connect("repeating")
    client = there.publish(program).client()
    operand = client.client.encrypt({"x": X})
    with ThreadPoolExecutor(10) as pool:
        jobs = list(pool.map(lambda _: client.submit(x=operand["x"]), range(10)))
    contents = {job.encrypted().to_bytes() for job in jobs}
    assert len({job.id for job in jobs}) == 1 and len(contents) == 1
    assert len(json.loads(there.ask("GET", "/v1/jobs").data)["jobs"]) == 1


def test_the_short_way(service: Served, program: cb.Program) -> None:
    there = service.connect("short")
    served = there.publish(program)
    client = served.client()
    operand = client.client.encrypt({"x": X})
    answer = there.ask("POST", f"/v1/programs/{program.id}/run?keys={client._keys}", operand["x"].to_bytes())
    result = cb.EncryptedResult.from_bytes(answer.data)
    assert np.abs(client.client.decrypt(result, of=operand) - expected(program)).max() < 1e-3


def test_cancel(service: Served, slow_program: cb.Program) -> None:
    there = service.connect("cancelling")
    client = there.publish(slow_program).client()
    operands = client.client.encrypt({"a": np.eye(256), "b": np.eye(256)})
    addresses = {name: there.send(one.to_bytes()) for name, one in operands.items()}
    fields = {"program": slow_program.id, "keys": client._keys, "operands": addresses}
    job = json.loads(there.ask("POST", "/v1/jobs", fields).data)["job"]
    while json.loads(there.ask("GET", f"/v1/jobs/{job}").data)["state"] == "queued":
        time.sleep(0.02)
    start = time.monotonic()
    there.ask("DELETE", f"/v1/jobs/{job}")
    assert json.loads(there.ask("GET", f"/v1/jobs/{job}").data)["state"] == "cancelled"
    assert time.monotonic() - start < 3


def test_events(service: Served, program: cb.Program) -> None:
    there = service.connect("events")
    job = there.publish(program).client().submit(x=X)
    job.result()
    text = there.ask("GET", f"/v1/jobs/{job.id}/events").data.decode()
    states = [json.loads(line.removeprefix("data: "))["state"] for line in text.split("\n\n") if line]
    assert states == ["done"]


def test_what_everybody_may_ask(service: Served) -> None:
    anybody = cb.connect(service.url, token="none")
    page = anybody.ask("GET", "/")
    assert b"<script src=" in page.data and b"onclick" not in page.data
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    document = json.loads(anybody.ask("GET", "/openapi.json").data)
    assert document["openapi"] == "3.1.0" and "/v1/jobs/{id}" in document["paths"]
    assert json.loads(anybody.ask("GET", "/readyz").data) == {"status": "ready"}
    figures = service.connect("figures").ask("GET", "/metrics").data.decode()
    assert 'cipherblas_http_requests_total{method="GET"' in figures
