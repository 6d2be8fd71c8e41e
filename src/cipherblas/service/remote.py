"""The client's side of a service: keys and values stay here, and encrypted files travel."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from cipherblas.common.errors import CipherblasError, DTypeError, MismatchError, SecurityError, ServiceError
from cipherblas.roles.client import Client
from cipherblas.roles.client_program import ClientProgram
from cipherblas.roles.inspecting import inspect
from cipherblas.roles.program import Program
from cipherblas.roles.wire.messages import EncryptedOperand, EncryptedResult, short_id
from cipherblas.service.remembered import remember, remembered

PART = 16 << 20
URL, TOKEN = "CIPHERBLAS_URL", "CIPHERBLAS_TOKEN"
TRIES, WAIT = 8, 30
BUSY = (423, 429, 503)  # to be asked again, after a while


class Service:
    """A service that runs programs; made by `connect`.

    Attributes:
        url: its address.
    """

    def __init__(self, url: str, token: str | None, certificate: str | None) -> None:
        try:
            import urllib3
        except ImportError:
            raise ServiceError(
                "Services are spoken to by urllib3, which is not installed.",
                advice="pip install 'cipherblas[connect]'",
            ) from None
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._pool: Any = urllib3.PoolManager(
            retries=False, timeout=urllib3.Timeout(connect=10, read=120), ca_certs=certificate, maxsize=16
        )
        self._failures = (urllib3.exceptions.HTTPError,)

    def __repr__(self) -> str:
        return f"<Service {self.url}>"

    def close(self) -> None:
        """Close its connections."""
        self._pool.clear()

    def ask(
        self,
        method: str,
        path: str,
        content: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        again: bool = True,
    ) -> Any:
        """The answer to a request. Failures of the connection, and a service that is busy, are asked again."""
        kind: dict[str, str] = {}
        if not isinstance(content, (bytes, type(None))):
            content, kind = json.dumps(content).encode(), {"Content-Type": "application/json"}
        headers = {**self._headers, **kind, **(headers or {})}
        for number in range(TRIES if again else 1):
            last = number == TRIES - 1 or not again
            try:
                answer = self._pool.request(method, self.url + path, body=content, headers=headers)
            except self._failures as error:
                if last:
                    raise ServiceError(
                        f"The service {self.url} cannot be reached.", cause=str(error)
                    ) from None
                time.sleep(0.1 * 2**number)
                continue
            if answer.status in BUSY and not last and _seconds_after(answer) <= WAIT:
                time.sleep(_seconds_after(answer))
                continue
            if answer.status >= 400:
                raise _refusal(answer)
            return answer
        raise AssertionError

    def programs(self) -> list[dict[str, Any]]:
        """The facts of all programs that may be used, as the service tells them.

        Raises:
            ServiceError: the service refuses, or cannot be reached.
        """
        found: list[dict[str, Any]] = json.loads(self.ask("GET", "/v1/programs").data)["programs"]
        return found

    def program(self, name: str, *, accept: str | None = None) -> ServedProgram:
        """A program of the service, fetched and counted here.

        The id that a name stands for is kept on first use, in the folder `CIPHERBLAS_CONFIG`; another one is refused.

        Args:
            name: its name, or its id.
            accept: the id of a new program that the name may stand for from now on.

        Raises:
            MismatchError: the name stands for another program than before, or the file is of another one.
            ServiceError: the service refuses, or cannot be reached.
        """
        content = self.ask("GET", f"/v1/programs/{name}/file").data
        kind = ClientProgram if inspect(content).kind == "client-program" else Program
        program: Program | ClientProgram = kind.from_bytes(content)
        place = f"{self.url} {name}"
        known = program.id if name == program.id else remembered("programs.json").get(place, program.id)
        if program.id not in (known, accept):
            raise MismatchError(
                f"The service has another program under the name {name!r} than before.",
                expected=short_id(known),
                got=short_id(program.id),
                advice=f'service.program("{name}", accept="{program.id}"), once its owner has told you why',
            )
        if name != program.id:
            remember("programs.json", {place: program.id})
        return ServedProgram(self, program)

    def publish(
        self,
        program: Program,
        name: str | None = None,
        *,
        clear: Mapping[str, Any] | None = None,
        client_file: bool = False,
    ) -> ServedProgram:
        """Give the service a program; with a name, others may use it.

        Args:
            clear: name → array of clear operands that stay with the service.
            client_file: others get the file without weights (`Program.save_client`) in place of the program.

        Raises:
            ServiceError: the service refuses, or cannot be reached.
        """
        import io

        import numpy as np

        fields = {"object": self.send(program.to_bytes())}
        if client_file:
            fields["client_object"] = self.send(ClientProgram.of(program).to_bytes())
        if name is not None:
            fields["name"] = name
        self.ask("POST", "/v1/programs", fields)
        for operand, value in (clear or {}).items():
            buffer = io.BytesIO()
            np.save(buffer, np.asarray(value), allow_pickle=False)
            self.ask(
                "PUT",
                f"/v1/programs/{program.id}/operands/{operand}",
                {"object": self.send(buffer.getvalue())},
            )
        if name is not None:
            remember("programs.json", {f"{self.url} {name}": program.id})
        return ServedProgram(self, program)

    def send(self, content: bytes | BinaryIO) -> str:
        """Send a file, in parts that go on where they were interrupted; returns its address, its SHA-256.

        Args:
            content: bytes, or a file that is open for reading.

        Raises:
            DTypeError: it is neither.
            SecurityError: it is a secret key.
            ServiceError: the service refuses, or cannot be reached.
        """
        if not isinstance(content, bytes) and not hasattr(content, "seek"):
            raise DTypeError(
                "Bytes, or an open file, can be sent.",
                got=type(content).__name__,
                advice='service.send(open(path, "rb"))',
            )
        read = _reader(content)
        if b'"secret-key"' in read(0, 1 << 16) and not read(0, 6) == b"\x93NUMPY":
            raise SecurityError("A secret key is not sent.", advice="client.evaluation_keys()")
        sha256, length = hashlib.sha256(), 0
        while block := read(length, PART):
            sha256.update(block)
            length += len(block)
        name = sha256.hexdigest()
        for number in range(TRIES):
            try:
                self._send_parts(read, name, length)
                return name
            except ServiceError as error:  # another request may have completed the same upload, or it went
                if error.status != 404 or number == TRIES - 1:
                    raise
        raise AssertionError

    def _send_parts(self, read: Callable[[int, int], bytes], name: str, length: int) -> None:
        """Send what the service lacks of a file."""
        metadata = f"sha256 {base64.b64encode(name.encode()).decode()}"
        tus = {"Tus-Resumable": "1.0.0"}
        announced = {**tus, "Upload-Length": str(length), "Upload-Metadata": metadata}
        made = self.ask("POST", "/v1/uploads", b"", announced)
        if made.status == 200:
            return
        place, failures = made.headers["Location"], 0
        offset = int(self.ask("HEAD", place, None, tus).headers["Upload-Offset"])
        while offset < length:
            part = read(offset, PART)
            kind = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset)}
            try:
                self.ask("PATCH", place, part, {**kind, **tus}, again=False)
                offset, failures = offset + len(part), 0
            except ServiceError as error:
                failures += 1
                if failures == TRIES or error.status not in (None, 408, 409, *BUSY):
                    raise
                time.sleep(0.1 * 2**failures)
                offset = int(self.ask("HEAD", place, None, tus).headers["Upload-Offset"])


class ServedProgram:
    """A program of a service; made by `Service.program` and `Service.publish`.

    Attributes:
        service: whose it is.
        program: what the service runs, as it was counted here.
    """

    def __init__(self, service: Service, program: Program | ClientProgram) -> None:
        self.service, self.program = service, program

    def __repr__(self) -> str:
        return f"<Program {short_id(self.id)} of {self.service.url}>"

    @property
    def id(self) -> str:
        """Which program it is."""
        return self.program.id

    def client(self, key: str | Path | Client | None = None) -> ServedClient:
        """A client, whose evaluation keys the service has when this returns.

        Args:
            key: the file of the secret key, which is made where there is none; or a client of the program. None makes a
                key that is kept in memory alone.

        Raises:
            MismatchError: the key belongs to another program.
            ServiceError: the service refuses, or cannot be reached.
        """
        if isinstance(key, Client):
            client = key
        elif key is None or not Path(key).exists():
            client = self.program.client()
            if key is not None:
                client.save(key)
        else:
            client = Client.load(key, self.program)
        if client.program.id != self.id:
            raise MismatchError(
                "The client is of another program.",
                expected=short_id(self.id),
                got=short_id(client.program.id),
            )
        return ServedClient(
            self, client, self._keys(client, None if key is None or isinstance(key, Client) else key)
        )

    def _keys(self, client: Client, key: str | Path | None) -> str:
        """The address of the client's evaluation keys, sent where the service has them not."""
        place = f"{self.service.url} {self.id} {client.key_id}"
        sent = remembered("keys.json").get(place) if key is not None else None
        if sent is None:
            with tempfile.TemporaryFile() as file:
                client.write_evaluation_keys(file)
                sent = self.service.send(file)
            self.service.ask("POST", f"/v1/programs/{self.id}/keys", {"object": sent})
            if key is not None:
                remember("keys.json", {place: sent})
        return str(sent)


class ServedClient:
    """A client of a served program: called with arrays, it returns the decrypted result.

    Attributes:
        client: it has the secret key.
    """

    def __init__(self, served: ServedProgram, client: Client, keys: str) -> None:
        self._served, self.client, self._keys = served, client, keys

    def __repr__(self) -> str:
        return f"<Client of {self._served!r}>"

    def __call__(self, **operands: Any) -> Any:
        """Encrypt, send, wait, fetch, decrypt; arguments as those of `submit`."""
        return self.submit(**operands).result()

    def submit(self, **operands: Any) -> ServedJob:
        """Encrypt operands and ask the service to compute; returns before it has.

        Args:
            **operands: name → array; an `EncryptedOperand` of another encryptor is sent as it is. Clear operands
                that the service has are left out.

        Raises:
            ServiceError: the service refuses, or cannot be reached.
            MismatchError, ShapeError, DTypeError, RangeError: as `Client.encrypt`.
        """
        import io

        import numpy as np

        program, service = self._served.program, self._served.service
        secret = {
            name: value
            for name, value in operands.items()
            if not isinstance(value, EncryptedOperand)
            and (name not in program.operands or program.operands[name].secret)
        }
        encrypted = self.client.encrypt(secret)
        addresses = {}
        for name, value in operands.items():
            if name in encrypted:
                content = encrypted[name].to_bytes()
            elif isinstance(value, EncryptedOperand):
                encrypted[name], content = value, value.to_bytes()
            else:
                buffer = io.BytesIO()
                np.save(buffer, np.asarray(value), allow_pickle=False)
                content = buffer.getvalue()
            addresses[name] = service.send(content)
        fields = {"program": self._served.id, "keys": self._keys, "operands": addresses}
        facts = json.loads(service.ask("POST", "/v1/jobs", fields).data)
        return ServedJob(service, self.client, facts, encrypted)


class ServedJob:
    """A job of a service; made by `ServedClient.submit`.

    Attributes:
        id: of the job: of its program, keys and operands.
        predicted: seconds that the service predicts of the run.
    """

    def __init__(
        self,
        service: Service,
        client: Client,
        facts: dict[str, Any],
        operands: Mapping[str, EncryptedOperand],
    ) -> None:
        self._service, self._client, self._facts, self._operands = service, client, facts, operands
        self.id: str = facts["job"]
        self.predicted: float = facts["predicted_seconds"]

    def __repr__(self) -> str:
        return f"<Job {short_id(self.id)} of {self._service.url}: {self._facts['state']}>"

    def _over(self, wait: float) -> bool:
        if self._facts["state"] in ("queued", "running"):
            path = f"/v1/jobs/{self.id}?wait={int(wait)}"
            self._facts = json.loads(self._service.ask("GET", path).data)
        return self._facts["state"] not in ("queued", "running")

    @property
    def state(self) -> str:
        """ "queued", "running", "done", "failed" or "cancelled"."""
        self._over(0)
        return str(self._facts["state"])

    def cancel(self) -> None:
        """End the job; a run ends within a second or two."""
        if not self._over(0):
            self._service.ask("DELETE", f"/v1/jobs/{self.id}")

    def encrypted(self, timeout: float | None = None) -> EncryptedResult:
        """The result as the service computed it.

        Args:
            timeout: seconds to wait at most.

        Raises:
            ServiceError: the job failed, was cancelled, or is not done in time.
        """
        end = time.monotonic() + (1e9 if timeout is None else timeout)
        while not self._over(min(WAIT, max(0.0, end - time.monotonic()))):
            if time.monotonic() > end:
                raise ServiceError("The job is not done in time.", got=self._facts["state"])
        if self._facts["state"] != "done":
            told = self._facts.get("error") or {}
            raise ServiceError(
                f"The job is {self._facts['state']}.",
                status=409,
                cause=told.get("message"),
                got=told.get("got"),
            )
        return EncryptedResult.from_bytes(self._service.ask("GET", self._facts["result"]).data)

    def result(self, timeout: float | None = None) -> Any:
        """The decrypted result. The service learns nothing of how the decryption went.

        Args:
            timeout: seconds to wait at most.

        Raises:
            ServiceError: as `encrypted`. MismatchError, ShapeError, RangeError: as `Client.decrypt`.
        """
        return self._client.decrypt(self.encrypted(timeout), of=self._operands)


def connect(url: str | None = None, *, token: str | None = None, certificate: str | None = None) -> Service:
    """Return a service by its address.

    Args:
        url: as "https://host:8443"; by default that of `CIPHERBLAS_URL`, or the one that was used last.
        token: by default that of `CIPHERBLAS_TOKEN`, or the one that this user has in the folder of configurations.
        certificate: file of the certificates that are trusted beside those of the system.

    Raises:
        ServiceError: there is no address, or the token would be sent unencrypted to another machine.

    Examples:
        >>> import cipherblas as cb
        >>> cb.connect("http://127.0.0.1:8443", token="…")
        <Service http://127.0.0.1:8443>
    """
    if url is not None and not isinstance(url, str):
        raise DTypeError("The address of a service is a text.", got=type(url).__name__)
    known = remembered("services.json")
    url = url or os.environ.get(URL) or (list(known)[-1] if known else None)
    if url is None:
        raise ServiceError(
            "There is no address of a service.", advice='cb.connect("https://host:8443", token=…)'
        )
    url = url.rstrip("/")
    given = token or os.environ.get(TOKEN) or known.get(url)
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    local = host.partition(":")[0] in ("127.0.0.1", "localhost") or host.startswith("[::1]")
    if scheme != "https" and not (scheme == "http" and local):
        raise ServiceError(
            "A token is not sent unencrypted to another machine.", expected="https://…", got=url, status=None
        )
    return Service(url, given, certificate)


async def aconnect(
    url: str | None = None, *, token: str | None = None, certificate: str | None = None
) -> AsyncService:
    """`connect` for programs with `await`: calls of the service do not block the loop.

    Examples:
        >>> import asyncio, cipherblas as cb
        >>> asyncio.run(cb.aconnect("http://127.0.0.1:8443", token="…"))
        <Service http://127.0.0.1:8443>
    """
    return AsyncService(connect(url, token=token, certificate=certificate))


class AsyncService:
    """A service, program, client or job of `connect` whose methods are awaited; a call of a client is too.

    Each runs in a thread, as the arithmetic of encryption does not wait for anything.
    """

    def __init__(self, own: Any) -> None:
        self._own = own

    def __repr__(self) -> str:
        return repr(self._own)

    def __getattr__(self, name: str) -> Any:
        found = getattr(type(self._own), name, None)
        if isinstance(found, property) or found is None:
            return getattr(self._own, name)
        return self._awaited(getattr(self._own, name))

    def __call__(self, **operands: Any) -> Any:
        """As `ServedClient.__call__`, awaited."""
        return self._awaited(self._own)(**operands)

    def _awaited(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def later(*arguments: Any, **named: Any) -> Any:
            found = await asyncio.to_thread(call, *arguments, **named)
            return (
                AsyncService(found) if isinstance(found, (ServedProgram, ServedClient, ServedJob)) else found
            )

        return later


def _reader(content: bytes | BinaryIO) -> Callable[[int, int], bytes]:
    def read(offset: int, count: int) -> bytes:
        if isinstance(content, bytes):
            return content[offset : offset + count]
        content.seek(offset)
        return content.read(count)

    return read


def _seconds_after(answer: Any) -> float:
    text = answer.headers.get("Retry-After", "1")
    return float(text) if text.isdecimal() else 1.0


def _refusal(answer: Any) -> CipherblasError:
    """The error of an answer of problem+json."""
    try:
        told = json.loads(answer.data)
        message = str(told["message"])
    except (ValueError, KeyError, TypeError):
        told, message = {}, f"The service answered with status {answer.status}."
    advice = [str(one.get("write")) for one in told.get("advice") or () if isinstance(one, dict)]
    after = _seconds_after(answer) if "Retry-After" in answer.headers else None
    return ServiceError(
        message,
        status=answer.status,
        retry_after=after,
        expected=told.get("expected"),
        got=told.get("got"),
        advice=advice,
        cause=told.get("cause"),
    )
