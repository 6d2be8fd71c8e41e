"""The lines of the threat model of the service, one by one."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.service import headers
from cipherblas.service.processes import Processes
from cipherblas.service.remote import Service
from cipherblas.service.settings import Settings
from cipherblas.service.store import Store
from tests.support.served import Served

pytestmark = pytest.mark.encrypted
X = np.linspace(-1, 1, 16)


def refused(status: int, call: Any, *arguments: Any, **named: Any) -> cb.ServiceError:
    with pytest.raises(cb.ServiceError) as caught:
        call(*arguments, **named)
    assert caught.value.status == status
    return caught.value


def announced(there: Service, content: bytes) -> str:
    """The address of a new upload."""
    digest = base64.b64encode(hashlib.sha256(content).hexdigest().encode()).decode()
    fields = {"Upload-Length": str(len(content)), "Upload-Metadata": f"sha256 {digest}"}
    return str(there.ask("POST", "/v1/uploads", b"", fields).headers["Location"])


def part(there: Service, place: str, offset: int, content: bytes, **more: str) -> Any:
    fields = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset), **more}
    return there.ask("PATCH", place, content, fields, again=False)


def test_no_process_of_a_server_imports_what_holds_a_secret_key() -> None:
    code = (
        "import sys, cipherblas.service.front, cipherblas.service.worker\n"
        "print(*(name for name in sys.modules if name.startswith('cipherblas')))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "cipherblas.service.worker" in found and "cipherblas.roles.server" in found
    holding = {
        *("crypto.keys.secret", "crypto.keys.generation", "rlwe.matrices.encryption"),
        *("roles.client", "roles.program", "roles.encryptor", "roles.client_program", "service.remote"),
    }
    assert {f"cipherblas.{name}" for name in holding} & set(found) == set()


def test_a_secret_key_is_refused_before_a_byte_is_stored(service: Served, program: cb.Program) -> None:
    there = service.connect("careless")
    with program.client() as client:
        key = client.to_bytes()
    before = service.files()
    with pytest.raises(cb.SecurityError):
        there.send(key)  # by the client's own side
    with pytest.raises(cb.DTypeError, match="open file"):
        there.send("digits.key")  # type: ignore[arg-type]
    place = announced(there, key)
    error = refused(403, part, there, place, 0, key)
    assert "secret key" in str(error)
    length = headers.needed(key[:8])
    place = announced(there, key)
    refused(422, part, there, place, 0, key[: length - 1])  # nor is a header without its end
    after = service.files()
    assert not any(key[length:] in content or key[8:length] in content for content in after.values())
    assert {path for path in after if path.parent.name == "uploads"} <= set(before)


def test_tenants_see_nothing_of_each_other(service: Served) -> None:
    program = cb.compile(lambda x: x * x, {"x": cb.secret(16)})
    alice, bob = service.connect("alice"), service.connect("bob")
    client = alice.publish(program).client()
    job = client.submit(x=X)
    job.result()
    operand = client.client.encrypt({"x": X / 3})["x"].to_bytes()
    address = alice.send(operand)
    for path in (f"/v1/jobs/{job.id}", f"/v1/jobs/{job.id}/result", f"/v1/jobs/{job.id}/events"):
        refused(404, bob.ask, "GET", path)
    refused(404, bob.ask, "DELETE", f"/v1/jobs/{job.id}")
    refused(404, bob.ask, "GET", f"/v1/programs/{program.id}")
    refused(404, bob.ask, "POST", f"/v1/programs/{program.id}/keys", {"object": client._keys})
    place = announced(alice, operand + b"1")
    refused(404, bob.ask, "HEAD", place)
    refused(404, part, bob, place, 0, operand)
    # A digest tells nobody whether others have it: the upload begins as any other.
    digest = base64.b64encode(address.encode()).decode()
    fields = {"Upload-Length": str(len(operand)), "Upload-Metadata": f"sha256 {digest}"}
    assert bob.ask("POST", "/v1/uploads", b"", fields).status == 201
    assert alice.ask("POST", "/v1/uploads", b"", fields).status == 200
    # With a program of his own he names her operand, or her keys.
    own = bob.publish(program).client()
    refused(
        404,
        bob.ask,
        "POST",
        "/v1/jobs",
        {"program": program.id, "keys": own._keys, "operands": {"x": address}},
    )
    refused(404, bob.ask, "POST", "/v1/jobs", {"program": program.id, "keys": client._keys, "operands": {}})


def test_a_process_is_of_one_tenant(tmp_path: Path) -> None:
    processes = Processes(Settings(tmp_path))
    try:
        first = processes.take("alice", "keys", 0, 0)
        assert first is not None
        processes.give_back(first)
        other = processes.take("bob", "keys", 0, 0)
        assert other is not None and other.pid != first.pid
        assert processes.take("alice", "keys", 0, 0) is first
    finally:
        processes.end()


def test_keys_of_a_pair_are_not_replaced(service: Served, program: cb.Program) -> None:
    there = service.connect("replacing")
    client = there.publish(program).client()
    other = there.send(client.client.evaluation_keys().to_bytes())  # made anew: other bytes of the same pair
    assert other != client._keys
    assert refused(409, there.ask, "POST", f"/v1/programs/{program.id}/keys", {"object": other}).got


def test_another_program_under_a_known_name_is_refused(service: Served, program: cb.Program) -> None:
    there = service.connect("renaming")
    there.publish(program, "weather")
    assert there.program("weather").id == program.id
    other = cb.compile(lambda x: x + x, {"x": cb.secret(16)})
    fields = {"object": there.send(other.to_bytes()), "name": "weather"}
    there.ask("POST", "/v1/programs", fields)  # as somebody else's machine would do it
    with pytest.raises(cb.MismatchError, match="another program under the name"):
        there.program("weather")
    assert there.program("weather", accept=other.id).id == other.id
    squatter = service.connect("squatter")
    fields["object"] = squatter.send(program.to_bytes())
    refused(409, squatter.ask, "POST", "/v1/programs", fields)


def test_nothing_is_told_after_decryption(
    service: Served, program: cb.Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = service.connect("silent")
    client = there.publish(program).client()
    job = client.submit(x=X)
    job.encrypted()
    asked: list[str] = []
    own = there._pool.request
    monkeypatch.setattr(there._pool, "request", lambda *a, **k: (asked.append("request"), own(*a, **k))[1])

    def fail(*_: Any, **__: Any) -> None:
        asked.append("decrypt")
        raise cb.RangeError("An entry exceeds its bound.")

    monkeypatch.setattr(client.client, "decrypt", fail)
    with pytest.raises(cb.RangeError):
        job.result()
    assert asked == ["request", "decrypt"]


def test_a_result_of_another_encryption_is_refused(service: Served, program: cb.Program) -> None:
    client = service.connect("replayed").publish(program).client()
    first, second = client.submit(x=X), client.submit(x=X)  # the same values, encrypted anew
    assert first.id != second.id
    first.result(), second.result()
    second._facts = first._facts  # a server that returns what it computed before
    with pytest.raises(cb.MismatchError):
        second.result()


def test_admission_believes_its_own_count(own_service: Served, slow_program: cb.Program) -> None:
    """A program that promises to be cheap is refused by what the service counts of memory."""
    own_service.options = ("--memory", "300MiB")
    there = own_service.start().connect("large")
    facts = json.loads(
        there.ask("POST", "/v1/programs", {"object": there.send(slow_program.to_bytes())}).data
    )
    assert facts["peak_bytes"] == slow_program.plan.peak_bytes
    client = there.program(slow_program.id).client()
    operands = {
        name: there.send(one.to_bytes())
        for name, one in client.client.encrypt({"a": np.eye(256), "b": np.eye(256)}).items()
    }
    fields = {"program": slow_program.id, "keys": client._keys, "operands": operands}
    assert "memory" in str(refused(413, there.ask, "POST", "/v1/jobs", fields))


def test_tokens_and_quotas(service: Served, program: cb.Program) -> None:
    publisher = service.connect("public")
    publisher.publish(program, "quota")
    refused(401, cb.connect(service.url, token="guessed").ask, "GET", "/v1/programs")
    reader = service.connect("reader", ("run", "keys"))
    refused(403, reader.ask, "POST", "/v1/programs", {"object": "0" * 64})
    refused(403, reader.ask, "GET", "/metrics")
    small = service.connect("small", ("run", "keys"), disk=1000)
    refused(429, small.program("quota").client)
    store = Store(Settings(service.root))
    store.revoke_token("reader")
    refused(401, reader.ask, "GET", "/v1/programs")
    over = service.token("late", expires=1.0)
    refused(401, cb.connect(service.url, token=over).ask, "GET", "/v1/programs")
    kept = (service.root / "service.sqlite").read_bytes() + (service.root / "service.sqlite-wal").read_bytes()
    assert over.encode() not in kept
    store.close()


def test_seconds_of_the_day(service: Served, program: cb.Program) -> None:
    client = service.connect("idle", seconds=1e-12).publish(program).client()
    service_side = client._served.service
    fields = {"program": program.id, "keys": client._keys}
    operand = service_side.send(client.client.encrypt({"x": X})["x"].to_bytes())
    refused(429, service_side.ask, "POST", "/v1/jobs", {**fields, "operands": {"x": operand}}, again=False)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign", "empty json"])
def test_damaged_files(service: Served, program: cb.Program, damage: str) -> None:
    there = service.connect(f"damaged {damage}")
    content = bytearray(program.to_bytes())
    if damage == "truncated":
        content = content[:-5]
    elif damage == "flipped":
        content[len(content) // 2] ^= 1
    elif damage == "foreign":
        content = bytearray(b"PK\x03\x04" + bytes(4000))
    else:
        content = bytearray((2).to_bytes(8, "little") + b"{}")
    with pytest.raises(cb.ServiceError) as caught:
        there.ask("POST", "/v1/programs", {"object": there.send(bytes(content))})
    assert caught.value.status in (409, 422)
    assert str(service.root) not in str(caught.value)


def test_uploads_by_parts(service: Served, program: cb.Program) -> None:
    there = service.connect("parts")
    content = program.client().evaluation_keys().to_bytes()
    place = announced(there, content)
    middle = len(content) // 2
    assert part(there, place, 0, content[:middle]).headers["Upload-Offset"] == str(middle)
    refused(409, part, there, place, 0, content[:10])
    wrong = {"Upload-Checksum": f"sha256 {base64.b64encode(bytes(32)).decode()}"}
    refused(460, part, there, place, middle, content[middle:], **wrong)
    assert there.ask("HEAD", place).headers["Upload-Offset"] == str(middle)
    right = base64.b64encode(hashlib.sha256(content[middle:]).digest()).decode()
    done = part(there, place, middle, content[middle:], **{"Upload-Checksum": f"sha256 {right}"})
    assert done.headers["Upload-Object"] == hashlib.sha256(content).hexdigest()
    place = announced(there, content + b"x")
    refused(413, part, there, place, 0, content + b"xx")
    there.ask("DELETE", place)
    refused(404, there.ask, "HEAD", place)


def test_a_token_is_not_sent_unencrypted() -> None:
    with pytest.raises(cb.ServiceError, match="unencrypted"):
        cb.connect("http://example.org:8443", token="t")
    with pytest.raises(cb.ServiceError, match="unencrypted"):
        cb.connect("http://127.0.0.1.example.org", token="t")


def test_tls(own_service: Served, tmp_path: Path) -> None:
    from datetime import datetime, timedelta, timezone
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "service")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    made = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    own, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    own.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    own_service.url = own_service.url.replace("http:", "https:")
    own_service.options = ("--tls-cert", str(certificate), "--tls-key", str(own))
    own_service.certificate = str(certificate)
    own_service.start()
    trusting = cb.connect(own_service.url, certificate=str(certificate))  # the first token is the user's
    assert trusting.programs() == []
    with pytest.raises(cb.ServiceError, match="cannot be reached"):
        cb.connect(own_service.url).ask("GET", "/healthz", again=False)
