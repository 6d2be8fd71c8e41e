"""Uploads by tus 1.0: creation, checksum, expiration, termination. A part is on the disk before its offset is told."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from cipherblas.common.errors import CipherblasError, FormatError, SecurityError, ServiceError
from cipherblas.roles.inspecting import inspect
from cipherblas.service.headers import check_kind, needed
from cipherblas.service.settings import Settings
from cipherblas.service.store import BLOCK, Row, Store, digest_of

VERSION, EXTENSIONS = "1.0.0", "creation,checksum,expiration,termination"
HEADERS = {"Tus-Resumable": VERSION}
RECEIVE_SECONDS = 30.0
SLOW_BYTES, SLOW_AFTER = 1 << 16, 60.0  # so many bytes in any `RECEIVE_SECONDS`, after the first minute
MAX_UPLOADS = 16  # of a tenant that are under way
MAX_LENGTH = 1 << 40


@dataclass
class _Begun:
    """An upload of which this process knows the digest so far."""

    hasher: Any
    offset: int


async def body(request: Request) -> AsyncIterator[bytes]:
    """The body of a request; the connection of a slow sender ends.

    Raises:
        ServiceError: 408.
    """
    start = mark = time.monotonic()
    count, stream = 0, request.stream().__aiter__()
    while True:
        try:
            chunk = await asyncio.wait_for(stream.__anext__(), RECEIVE_SECONDS)
        except StopAsyncIteration:
            return
        except (asyncio.TimeoutError, ClientDisconnect):
            raise ServiceError("The body of the request came too slowly.", status=408) from None
        count += len(chunk)
        now = time.monotonic()
        if now - mark > RECEIVE_SECONDS:
            if now - start > SLOW_AFTER and count < SLOW_BYTES:
                raise ServiceError("The body of the request came too slowly.", status=408)
            mark, count = now, 0
        if chunk:
            yield chunk


def _metadata(text: str) -> dict[str, str]:
    found = {}
    try:
        for pair in filter(None, text.split(",")):
            name, _, value = pair.strip().partition(" ")
            found[name] = base64.b64decode(value, validate=True).decode()
    except ValueError:  # no Base64, or no text
        raise ServiceError("The metadata of the upload cannot be read.", status=400) from None
    return found


def _number(request: Request, name: str, most: int) -> int:
    text = request.headers.get(name, "")
    if not text.isascii() or not text.isdecimal() or len(text) > 15 or int(text) > most:
        raise ServiceError(f"The header {name} is not a number.", status=400, got=text[:32])
    return int(text)


class Uploads:
    """The uploads of a service; each becomes an object of its tenant when it is complete.

    Args:
        received: called with numbers of bytes.
    """

    def __init__(self, settings: Settings, store: Store, received: Callable[[int], object]) -> None:
        self._settings, self._store, self._received = settings, store, received
        self._begun: dict[str, _Begun] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def _path(self, name: str) -> Path:
        return self._store.root / "uploads" / name

    async def create(self, request: Request, token: Row) -> Response:
        """Announce an upload; 200 where the tenant has the object already."""
        tenant, length = token["tenant"], _number(request, "Upload-Length", MAX_LENGTH)
        sha256 = _metadata(request.headers.get("Upload-Metadata", "")).get("sha256", "").lower()
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise ServiceError(
                "An upload announces its SHA-256.", status=400, advice="Upload-Metadata: sha256 …"
            )
        if self._store.one("SELECT size FROM objects WHERE tenant = ? AND sha256 = ?", tenant, sha256):
            return JSONResponse({"object": sha256}, headers=HEADERS)
        same = self._store.one("SELECT id FROM uploads WHERE tenant = ? AND sha256 = ?", tenant, sha256)
        if same is not None:
            return Response(status_code=201, headers={**HEADERS, "Location": f"/v1/uploads/{same['id']}"})
        count = self._store.one("SELECT COUNT(*) AS n FROM uploads WHERE tenant = ?", tenant)
        if count is not None and count["n"] >= MAX_UPLOADS:
            raise ServiceError(
                "Too many uploads are under way.", status=429, expected=MAX_UPLOADS, retry_after=10
            )
        if token["disk"] is not None and self._store.stored(tenant) + length > token["disk"]:
            raise ServiceError(
                "The upload exceeds what may be stored with this token.",
                status=429,
                expected=token["disk"],
                retry_after=3600,
            )
        self._store.check_room(length)
        name, expires = secrets.token_hex(16), time.time() + self._settings.keep_uploads
        self._path(name).touch(mode=0o600)
        self._store.do("INSERT INTO uploads VALUES (?, ?, ?, ?, ?)", name, tenant, length, sha256, expires)
        headers = {"Location": f"/v1/uploads/{name}", "Upload-Expires": formatdate(expires, usegmt=True)}
        return Response(status_code=201, headers={**HEADERS, **headers})

    def _row(self, request: Request, token: Row) -> Row:
        name = request.path_params["id"]
        row = self._store.one("SELECT * FROM uploads WHERE id = ? AND tenant = ?", name, token["tenant"])
        if row is None:
            raise ServiceError("There is no such upload.", status=404)
        return row

    def _offset(self, row: Row) -> int:
        return self._path(row["id"]).stat().st_size

    async def head(self, request: Request, token: Row) -> Response:
        """Tell how much of an upload is stored; one that was whole at a loss of the service becomes an object."""
        row = self._row(request, token)
        async with self._locks.setdefault(row["id"], asyncio.Lock()):
            row = self._row(request, token)
            if self._offset(row) == row["length"]:
                await self._complete(row)
                raise ServiceError("There is no such upload.", status=404)
        headers = {"Upload-Offset": str(self._offset(row)), "Upload-Length": str(row["length"])}
        return Response(headers={**HEADERS, **headers, "Cache-Control": "no-store"})

    async def delete(self, request: Request, token: Row) -> Response:
        """End an upload."""
        row = self._row(request, token)
        self._forget(row)
        return Response(status_code=204, headers=HEADERS)

    def _forget(self, row: Row) -> None:
        self._store.remove_upload(row["id"])
        self._begun.pop(row["id"], None)
        self._locks.pop(row["id"], None)

    async def patch(self, request: Request, token: Row) -> Response:
        """Take a part of an upload; the last one makes the object."""
        row = self._row(request, token)
        lock = self._locks.setdefault(row["id"], asyncio.Lock())
        if lock.locked():
            raise ServiceError("Another request writes to this upload.", status=423, retry_after=1)
        async with lock:
            offset = self._offset(row)
            if _number(request, "Upload-Offset", MAX_LENGTH) != offset:
                raise ServiceError(
                    "The part begins elsewhere than the upload ends.",
                    status=409,
                    expected=offset,
                    got=request.headers["Upload-Offset"],
                )
            offset = await self._append(request, row, offset)
            headers = {**HEADERS, "Upload-Offset": str(offset)}
            if offset == row["length"]:
                headers["Upload-Object"] = await self._complete(row)
        return Response(status_code=204, headers=headers)

    async def _append(self, request: Request, row: Row, offset: int) -> int:
        begun = await self._digest_so_far(row, offset)
        checksum, part = request.headers.get("Upload-Checksum", ""), hashlib.sha256()
        hasher, start, pending = begun.hasher.copy(), offset, bytearray()
        with self._path(row["id"]).open("r+b") as file:
            file.seek(offset)

            def write(data: bytes) -> None:
                hasher.update(data)
                part.update(data)
                file.write(data)

            async def flush() -> None:
                nonlocal offset
                data = bytes(pending)
                pending.clear()
                if offset + len(data) > row["length"]:
                    raise ServiceError(
                        "The upload is longer than announced.", status=413, expected=row["length"]
                    )
                await asyncio.to_thread(write, data)
                offset += len(data)
                self._received(len(data))

            try:
                told = offset > 0
                try:
                    async for chunk in body(request):
                        pending += chunk
                        if not told:
                            told = self._checked_start(row, pending)
                        if told and len(pending) >= BLOCK:
                            await flush()
                except ServiceError:
                    if told:  # what came is kept, so that the client goes on from there
                        await flush()
                    raise
                if not told:
                    raise FormatError(
                        "The first part must hold the whole header.", expected=needed(bytes(pending))
                    )
                await flush()
                if checksum and not _same(checksum, part.digest()):
                    file.flush()
                    file.truncate(start)
                    raise ServiceError("The checksum of the part is another one.", status=460)
            except (SecurityError, FormatError):
                self._forget(row)
                raise
            except OSError:
                file.truncate(start)
                raise
            finally:
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
        if checksum or offset > start:
            self._begun[row["id"]] = _Begun(hasher, offset)
        return offset

    async def take(self, content: bytes, token: Row) -> str:
        """Make an object of a whole file in memory; its address."""
        tenant, sha256 = token["tenant"], hashlib.sha256(content).hexdigest()
        if self._store.one("SELECT size FROM objects WHERE tenant = ? AND sha256 = ?", tenant, sha256):
            return sha256
        check_kind(content[: needed(content[:8])])
        if token["disk"] is not None and self._store.stored(tenant) + len(content) > token["disk"]:
            raise ServiceError(
                "The operand exceeds what may be stored with this token.", status=429, retry_after=3600
            )
        self._store.check_room(len(content))
        path = self._path(secrets.token_hex(16))
        try:
            await asyncio.to_thread(path.write_bytes, content)
            facts = await asyncio.to_thread(_facts, path, self._settings.insecure)
            self._store.add_object(tenant, path, sha256, facts)
        finally:
            path.unlink(missing_ok=True)
        return sha256

    def _checked_start(self, row: Row, start: bytearray) -> bool:
        """Whether the first bytes tell what it is; an error where it must not be stored."""
        if len(start) < min(8, row["length"]):
            return False
        if needed(bytes(start[:8])) > min(len(start), row["length"]) and len(start) < row["length"]:
            return False
        check_kind(bytes(start[: needed(bytes(start[:8]))]))
        return True

    async def _digest_so_far(self, row: Row, offset: int) -> _Begun:
        begun = self._begun.get(row["id"])
        if begun is None or begun.offset != offset:
            begun = _Begun(await asyncio.to_thread(_hashed, self._path(row["id"])), offset)
        return begun

    async def _complete(self, row: Row) -> str:
        """Make an object of a complete upload; its address."""
        path, sha256 = self._path(row["id"]), str(row["sha256"])
        begun = self._begun.get(row["id"])
        found = begun.hasher.hexdigest() if begun is not None else digest_of(path)
        if found != sha256:
            self._forget(row)
            raise ServiceError(
                "The upload is not what was announced.", status=460, expected=sha256, got=found
            )
        try:
            facts = await asyncio.to_thread(_facts, path, self._settings.insecure)
        except CipherblasError:
            self._forget(row)
            raise
        self._store.add_object(row["tenant"], path, sha256, facts)
        self._forget(row)
        return sha256


def _same(header: str, digest: bytes) -> bool:
    algorithm, _, value = header.partition(" ")
    if algorithm != "sha256":
        raise ServiceError("The checksum is of another algorithm.", status=400, expected="sha256")
    return value.strip() == base64.b64encode(digest).decode()


def _hashed(path: Path) -> Any:
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            hasher.update(block)
    return hasher


def _facts(path: Path, insecure: bool) -> Row:
    """The facts of a complete file, of its header."""
    with path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            return {"kind": "npy"}
    try:
        facts = inspect(path)
    except CipherblasError as error:
        error.standing_at(str(path))
        raise
    if facts.security < 128 and not insecure:
        raise SecurityError("The file has less than 128 bits of security.", got=facts.security)
    found = asdict(facts)
    return {name: found[name] for name in ("kind", "program_id", "key_id", "security", "nbytes")}
