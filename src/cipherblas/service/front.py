"""The front of a service: its routes, who may call them, and the process that answers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cipherblas.common.errors import (
    CipherblasError,
    FormatError,
    MemoryBudgetError,
    MismatchError,
    SecurityError,
    ServiceError,
    StorageError,
)
from cipherblas.common.log import LOG
from cipherblas.service.metrics import Metrics
from cipherblas.service.openapi import Endpoint, document
from cipherblas.service.processes import BASE
from cipherblas.service.scheduler import OVER, Scheduler
from cipherblas.service.settings import Settings
from cipherblas.service.store import Row, Store
from cipherblas.service.uploads import EXTENSIONS, HEADERS, VERSION, Uploads, body

MAX_BODY, MAX_SHORT = 1 << 20, 64 << 20
MAX_WAIT = 60.0
COLLECT_SECONDS = 300.0
STATUS: tuple[tuple[type[CipherblasError], int], ...] = (
    (MismatchError, 409),
    (SecurityError, 403),
    (MemoryBudgetError, 413),
    (FormatError, 422),
)
Handler = Callable[[Request, Row], Awaitable[Response]]
PAGE = Path(__file__).with_name("page.html")
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'"


def problem(error: Exception) -> Response:
    """An error as problem+json; of paths and of faults of the service it tells nothing."""
    if isinstance(error, OSError) and not isinstance(error, CipherblasError):
        error = ServiceError("The disk of the service has no room, or failed.", status=507)
    if not isinstance(error, CipherblasError):
        error = ServiceError("The service has a fault.", status=500)
    status, headers = 400, {}
    if isinstance(error, ServiceError):
        status = error.status or 500
        if error.retry_after is not None:
            headers["Retry-After"] = str(int(error.retry_after) + 1)
    elif isinstance(error, StorageError):
        status = 507
    else:
        status = next((found for kind, found in STATUS if isinstance(error, kind)), 422)
    facts = error.to_dict()
    facts |= {"type": "about:blank", "title": facts["message"], "status": status}
    return JSONResponse(facts, status, headers, media_type="application/problem+json")


class Front:
    """The routes of a service over its store and its scheduler.

    Attributes:
        calls: all routes, with their scopes.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings, self.store, self.metrics = settings, Store(settings), Metrics()
        self.scheduler = Scheduler(settings, self.store, self.metrics)
        self._uploads = Uploads(settings, self.store, self.metrics.uploaded.inc)
        up = self._uploads
        self.calls = (
            Endpoint(
                "POST", "/v1/uploads", up.create, "keys run publish", "Announce an upload (tus).", (200, 201)
            ),
            Endpoint("HEAD", "/v1/uploads/{id}", up.head, "keys run publish", "How much is stored.", (200,)),
            Endpoint("PATCH", "/v1/uploads/{id}", up.patch, "keys run publish", "Send a part.", (204,)),
            Endpoint("DELETE", "/v1/uploads/{id}", up.delete, "keys run publish", "End an upload.", (204,)),
            Endpoint(
                "GET",
                "/v1/programs",
                self.programs,
                "run keys publish",
                "The programs that one may use.",
                (200,),
            ),
            Endpoint(
                "POST",
                "/v1/programs",
                self.publish,
                "publish",
                "Make a program of an object.",
                (201,),
                ("object",),
            ),
            Endpoint(
                "GET",
                "/v1/programs/{id}",
                self.program,
                "run keys publish",
                "A program, by id or name.",
                (200,),
            ),
            Endpoint(
                "GET",
                "/v1/programs/{id}/file",
                self.program_file,
                "run keys publish",
                "Its file.",
                (200, 206),
            ),
            Endpoint(
                "PUT",
                "/v1/programs/{id}/operands/{name}",
                self.put_clear,
                "publish",
                "Set a clear operand for all runs.",
                (204,),
                ("object",),
            ),
            Endpoint(
                "POST", "/v1/programs/{id}/keys", self.put_keys, "keys", "Register keys.", (201,), ("object",)
            ),
            Endpoint(
                "POST",
                "/v1/programs/{id}/run",
                self.short,
                "run",
                "Run with one operand, the body; keys are named by their object.",
                (200, 202),
            ),
            Endpoint(
                "POST",
                "/v1/jobs",
                self.submit,
                "run",
                "Submit a job.",
                (200, 202),
                ("program", "keys", "operands"),
            ),
            Endpoint("GET", "/v1/jobs", self.jobs, "run", "The jobs of the tenant.", (200,)),
            Endpoint("GET", "/v1/jobs/{id}", self.job, "run", "A job; `wait` seconds at most.", (200,)),
            Endpoint(
                "GET", "/v1/jobs/{id}/events", self.events, "run", "Its states as they come (SSE).", (200,)
            ),
            Endpoint("GET", "/v1/jobs/{id}/result", self.result, "run", "The encrypted result.", (200, 206)),
            Endpoint(
                "DELETE",
                "/v1/jobs/{id}",
                self.cancel,
                "run",
                "Cancel a job, or forget one that is over.",
                (204,),
            ),
            Endpoint("GET", "/metrics", self.figures, "admin", "Figures for Prometheus.", (200,)),
            Endpoint("OPTIONS", "/v1/uploads", self.tus, "", "What is understood of tus.", (204,)),
            Endpoint("GET", "/healthz", self.healthy, "", "The process answers.", (200,)),
            Endpoint("GET", "/readyz", self.ready, "", "The store can be written.", (200,)),
            Endpoint("GET", "/openapi.json", self.openapi, "", "This document.", (200,)),
            Endpoint("GET", "/", self.page, "", "A page.", (200,)),
            Endpoint("GET", "/page.js", self.page, "", "Its script.", (200,)),
            Endpoint("GET", "/page.css", self.page, "", "Its style.", (200,)),
        )

    def application(self) -> Starlette:
        """The ASGI application."""
        by_path: dict[str, list[Endpoint]] = {}
        for call in self.calls:
            by_path.setdefault(call.path, []).append(call)
        routes = [
            Route(
                path,
                self._answering({call.method: call for call in calls}),
                methods=[one.method for one in calls],
            )
            for path, calls in by_path.items()
        ]
        missing = ServiceError("There is no such address.", status=404)
        other = ServiceError("The address has no such method.", status=405)

        async def not_found(request: Request, error: Exception) -> Response:
            return problem(missing)

        async def not_allowed(request: Request, error: Exception) -> Response:
            return problem(other)

        return Starlette(
            routes=routes, lifespan=self._lifespan, exception_handlers={404: not_found, 405: not_allowed}
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        self.store.recover()
        tasks = [asyncio.create_task(self.scheduler.serve()), asyncio.create_task(self._collect())]
        try:
            yield
        finally:
            await self.scheduler.drain(self._settings.grace)
            for task in tasks:
                task.cancel()
            self.store.close()

    async def _collect(self) -> None:
        while True:
            self.store.collect()
            await asyncio.sleep(COLLECT_SECONDS)

    def _answering(self, calls: dict[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            call = calls.get(request.method) or calls["GET"]  # HEAD of what can be got
            try:
                response: Response = await call.handler(request, self._caller(request, call.scopes))
            except Exception as error:
                response = problem(error)
                if response.status_code == 500:
                    LOG.exception("%s %s", request.method, call.path)
            self.metrics.requests.labels(request.method, response.status_code).inc()
            response.headers["X-Content-Type-Options"] = "nosniff"
            return response

        return answer

    def _caller(self, request: Request, scopes: str) -> Row:
        """The token of a request; a ServiceError where it has none that may do this."""
        if not scopes:
            return {}
        kind, _, text = request.headers.get("Authorization", "").partition(" ")
        token = self.store.token(text) if kind == "Bearer" else None
        if token is None:
            raise ServiceError(
                "The request has no valid token.", status=401, advice="cb.connect(url, token=…)"
            )
        if not set(token["scopes"].split(",")) & set(scopes.split()):
            raise ServiceError("The token may not do this.", status=403, expected=scopes.replace(" ", " | "))
        return token

    async def _fields(self, request: Request, *names: str, optional: tuple[str, ...] = ()) -> Row:
        """The fields of a JSON body."""
        content = bytearray()
        async for chunk in body(request):
            content += chunk
            if len(content) > MAX_BODY:
                raise ServiceError("The body of the request is too long.", status=413, expected=MAX_BODY)
        try:
            found = json.loads(bytes(content).decode())
            json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is no text
        except (ValueError, RecursionError):
            raise ServiceError("The body of the request is not JSON of Unicode text.", status=400) from None
        if not isinstance(found, dict) or not set(names) <= set(found) <= set(names) | set(optional):
            raise ServiceError(
                "The body of the request has other fields.",
                status=400,
                expected=", ".join((*names, *optional)),
            )
        for name, value in found.items():
            mapping = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
            if (name == "operands" and not mapping) or (name != "operands" and not isinstance(value, str)):
                raise ServiceError("A field of the body has another type.", status=400, got=name)
        return found

    # Programs.

    def _program(self, token: Row, name: str) -> Row:
        """A program by its id or published name, of the tenant itself or published."""
        row = self.store.one("SELECT * FROM programs WHERE tenant = ? AND id = ?", token["tenant"], name)
        if row is None:
            row = self.store.one(
                "SELECT programs.* FROM names JOIN programs ON programs.tenant = names.tenant AND programs.id = "
                "names.program WHERE names.name = ? OR names.program = ? ORDER BY since DESC",
                name,
                name,
            )
        if row is None:
            raise ServiceError("There is no such program.", status=404, got=name[:64])
        return row

    def _described(self, row: Row) -> Row:
        names = self.store.all(
            "SELECT name FROM names WHERE tenant = ? AND program = ?", row["tenant"], row["id"]
        )
        clear = self.store.all(
            "SELECT name FROM clear WHERE tenant = ? AND program = ?", row["tenant"], row["id"]
        )
        return {
            **json.loads(row["facts"]),
            "names": sorted({one["name"] for one in names}),
            "clear_operands": [one["name"] for one in clear],
        }

    async def programs(self, request: Request, token: Row) -> Response:
        rows = self.store.all(
            "SELECT DISTINCT programs.* FROM programs LEFT JOIN names ON names.tenant = programs.tenant AND "
            "names.program = programs.id WHERE programs.tenant = ? OR names.name IS NOT NULL",
            token["tenant"],
        )
        return JSONResponse({"programs": [self._described(row) for row in rows]})

    async def publish(self, request: Request, token: Row) -> Response:
        fields = await self._fields(request, "object", optional=("name", "client_object"))
        tenant = token["tenant"]
        found = self.store.object(tenant, fields["object"], "program")
        message = {"task": "program", "path": str(self.store.object_path(tenant, found["sha256"]))}
        client = None
        if "client_object" in fields:
            client = self.store.object(tenant, fields["client_object"], "client-program")
            message |= {"client_path": "given", "client_id": client["facts"]["program_id"]}
        name = fields.get("name")
        if name is not None:
            if not name.replace("-", "_").isidentifier() or len(name) > 64:
                raise ServiceError(
                    "The name of a program is letters, digits, - and _.", status=400, got=name[:64]
                )
            taken = self.store.one("SELECT tenant FROM names WHERE name = ?", name)
            if taken is not None and taken["tenant"] != tenant:
                raise ServiceError("The name belongs to another tenant.", status=409, got=name)
        answer = await self.scheduler.check(tenant, message)
        _raise(answer)
        facts = {key: answer[key] for key in answer if key not in ("loaded", "resident")}
        with self.store.together():
            self.store.do(
                "INSERT OR REPLACE INTO programs VALUES (?, ?, ?, ?, ?, ?)",
                *(
                    tenant,
                    facts["id"],
                    found["sha256"],
                    client and client["sha256"],
                    json.dumps(facts),
                    time.time(),
                ),
            )
            if name is not None:
                self.store.do("INSERT INTO names VALUES (?, ?, ?, ?)", name, tenant, facts["id"], time.time())
        return JSONResponse(self._described(self._program(token, facts["id"])), 201)

    async def program(self, request: Request, token: Row) -> Response:
        return JSONResponse(self._described(self._program(token, request.path_params["id"])))

    async def program_file(self, request: Request, token: Row) -> Response:
        row = self._program(token, request.path_params["id"])
        kept = (
            row["client_object"]
            if row["client_object"] and row["tenant"] != token["tenant"]
            else row["object"]
        )
        return FileResponse(self.store.object_path(row["tenant"], kept))

    async def put_clear(self, request: Request, token: Row) -> Response:
        row, name = self._program(token, request.path_params["id"]), request.path_params["name"]
        fields = await self._fields(request, "object")
        if row["tenant"] != token["tenant"]:
            raise ServiceError("The program belongs to another tenant.", status=403)
        declared = json.loads(row["facts"])["operands"].get(name)
        if declared is None or declared["secret"]:
            raise ServiceError("The program has no clear operand of this name.", status=404, got=name[:64])
        found = self.store.object(token["tenant"], fields["object"], "npy")
        self.store.do(
            "INSERT OR REPLACE INTO clear VALUES (?, ?, ?, ?)",
            token["tenant"],
            row["id"],
            name,
            found["sha256"],
        )
        return Response(status_code=204)

    async def put_keys(self, request: Request, token: Row) -> Response:
        row = self._program(token, request.path_params["id"])
        fields = await self._fields(request, "object")
        tenant = token["tenant"]
        found = self.store.object(tenant, fields["object"], "evaluation-keys")
        place = (tenant, row["id"], found["facts"]["key_id"])
        kept = self.store.one("SELECT object FROM keys WHERE tenant = ? AND program = ? AND id = ?", *place)
        if kept is not None and kept["object"] != found["sha256"]:
            raise ServiceError("There are other keys of this key pair.", status=409, got=place[2])
        if kept is None:
            paths = {
                "path": str(self.store.object_path(tenant, found["sha256"])),
                "program": str(self.store.object_path(row["tenant"], row["object"])),
            }
            _raise(await self.scheduler.check(tenant, {"task": "keys", **paths}))
            self.store.do(
                "INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?, ?)", *place, found["sha256"], time.time()
            )
        return JSONResponse({"key_id": place[2], "object": found["sha256"]}, 201)

    # Jobs.

    async def submit(self, request: Request, token: Row) -> Response:
        fields = await self._fields(request, "program", "keys", "operands")
        job = self._submitted(token, fields["program"], fields["keys"], fields["operands"])
        await self._wait(job, _preferred_wait(request))
        found = self._job_of(token, job)
        return JSONResponse(self._shown(found), 200 if found["state"] in OVER else 202)

    def _submitted(self, token: Row, name: str, keys: str, operands: Row) -> str:
        """The id of a job of this content, which is entered where it is new, and again where it failed."""
        tenant, row = token["tenant"], self._program(token, name)
        known = self.store.one(
            "SELECT * FROM keys WHERE tenant = ? AND program = ? AND object = ?", tenant, row["id"], keys
        )
        if known is None:
            raise ServiceError("There are no such keys of this program.", status=404, got=keys[:64])
        facts = json.loads(row["facts"])
        for one, sha256 in operands.items():
            if one not in facts["operands"]:
                raise ServiceError("The program has no such operand.", status=409, got=one[:64])
            secret = facts["operands"][one]["secret"]
            found = self.store.object(tenant, sha256, "encrypted-operand" if secret else "npy")
            if secret and found["facts"]["key_id"] != known["id"]:
                raise ServiceError("The operand is of another key pair.", status=409, expected=known["id"])
        clear = self.store.all(
            "SELECT * FROM clear WHERE tenant = ? AND program = ?", row["tenant"], row["id"]
        )
        missing = set(facts["operands"]) - set(operands) - {one["name"] for one in clear}
        if missing:
            raise ServiceError("An operand is missing.", status=409, expected=", ".join(sorted(missing)))
        content = [
            tenant,
            row["id"],
            keys,
            sorted(operands.items()),
            sorted((o["name"], o["object"]) for o in clear),
        ]
        job = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        old = self.store.one("SELECT * FROM jobs WHERE id = ?", job)
        if old is not None and old["state"] not in ("failed", "cancelled"):
            return job
        self._admit(token, facts)
        now = time.time()
        with self.store.together():
            self.store.do("UPDATE keys SET used = ? WHERE tenant = ? AND object = ?", now, tenant, keys)
            self.store.do(
                "INSERT OR REPLACE INTO jobs (id, tenant, owner, program, keys, operands, state, created, predicted, "
                "peak) VALUES (?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?)",
                *(job, tenant, row["tenant"], row["id"], keys, json.dumps(operands), now),
                *(facts["predicted_seconds"], facts["peak_bytes"]),
            )
            self.store.charge(tenant, facts["predicted_seconds"])
        self.scheduler.wake()
        return job

    def _admit(self, token: Row, facts: Row) -> None:
        """Raise a ServiceError unless a job may be entered, by what this service predicts of it."""
        if self.scheduler.draining:
            raise ServiceError("The service is being ended.", status=503, retry_after=30)
        limit, needed = self.scheduler.processes.limit, facts["peak_bytes"] + BASE
        if needed > limit:
            raise ServiceError(
                "The job needs more memory than the service has.",
                status=413,
                expected=f"{limit} bytes",
                got=needed,
            )
        waiting = self.store.one("SELECT COUNT(*) AS n FROM jobs WHERE state = 'queued'")
        assert waiting is not None
        if waiting["n"] >= self._settings.queue:
            raise ServiceError("The queue is full.", status=429, retry_after=self.scheduler.waiting_seconds())
        seconds = self.store.used_seconds(token["tenant"]) + facts["predicted_seconds"]
        if token["seconds"] is not None and seconds > token["seconds"]:
            rest = 86400 - time.time() % 86400
            raise ServiceError(
                "The job exceeds the seconds of the day.",
                status=429,
                expected=token["seconds"],
                retry_after=rest,
            )
        self.store.check_room(0)

    async def _wait(self, job: str, seconds: float) -> None:
        row = self.store.one("SELECT state FROM jobs WHERE id = ?", job)
        if row is not None and row["state"] not in OVER and seconds > 0:
            await self.scheduler.over(job, min(seconds, MAX_WAIT))

    def _job_of(self, token: Row, name: str) -> Row:
        row = self.store.one("SELECT rowid, * FROM jobs WHERE id = ? AND tenant = ?", name, token["tenant"])
        if row is None:
            raise ServiceError("There is no such job.", status=404)
        return row

    def _shown(self, row: Row) -> Row:
        shown = {name: row[name] for name in ("program", "state", "created", "started", "ended", "seconds")}
        shown |= {"job": row["id"], "predicted_seconds": row["predicted"]}
        if row["error"]:
            shown["error"] = json.loads(row["error"])
        if row["result"]:
            shown |= {"result": f"/v1/jobs/{row['id']}/result", "sha256": row["result"]}
        if row["state"] == "queued":
            before = self.store.one(
                "SELECT COUNT(*) AS n, SUM(predicted) AS s FROM jobs WHERE state = 'queued' AND created < ?",
                row["created"],
            )
            assert before is not None
            shown |= {"place": before["n"], "predicted_start": (before["s"] or 0.0) / self._settings.workers}
        return shown

    async def jobs(self, request: Request, token: Row) -> Response:
        rows = self.store.all(
            "SELECT rowid, * FROM jobs WHERE tenant = ? ORDER BY created DESC LIMIT 100", token["tenant"]
        )
        return JSONResponse({"jobs": [self._shown(row) for row in rows]})

    async def job(self, request: Request, token: Row) -> Response:
        row = self._job_of(token, request.path_params["id"])
        await self._wait(row["id"], _seconds(request.query_params.get("wait", "0")))
        return JSONResponse(self._shown(self._job_of(token, row["id"])))

    async def events(self, request: Request, token: Row) -> Response:
        name = self._job_of(token, request.path_params["id"])["id"]

        async def states() -> AsyncIterator[str]:
            last, start = "", time.monotonic()
            while time.monotonic() - start < 3600:
                row = self.store.one("SELECT rowid, * FROM jobs WHERE id = ?", name)
                if row is None:
                    return
                if row["state"] != last:
                    last = row["state"]
                    yield f"data: {json.dumps(self._shown(row))}\n\n"
                if last in OVER:
                    return
                await self.scheduler.over(name, 1.0)

        return StreamingResponse(
            states(), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def result(self, request: Request, token: Row) -> Response:
        row = self._job_of(token, request.path_params["id"])
        if row["result"] is None:
            raise ServiceError("The job has no result.", status=409, got=row["state"], retry_after=1)
        path = self.store.object_path(row["tenant"], row["result"])
        digest = _base64(bytes.fromhex(row["result"]))
        return FileResponse(path, headers={"Repr-Digest": f"sha-256=:{digest}:", "Cache-Control": "no-store"})

    async def cancel(self, request: Request, token: Row) -> Response:
        row = self._job_of(token, request.path_params["id"])
        if row["state"] in OVER:
            self.store.forget_job(row)
        else:
            await self.scheduler.cancel(row)
        return Response(status_code=204)

    async def short(self, request: Request, token: Row) -> Response:
        """One operand in, its result out."""
        row, content = self._program(token, request.path_params["id"]), bytearray()
        async for chunk in body(request):
            content += chunk
            if len(content) > MAX_SHORT:
                raise ServiceError("The operand is too long for one request.", status=413, expected=MAX_SHORT)
        sha256 = await self._uploads.take(bytes(content), token)
        facts = json.loads(row["facts"])
        names = [name for name, one in facts["operands"].items() if one["secret"]]
        if len(names) != 1:
            raise ServiceError("The program has several secret operands.", status=409, advice="POST /v1/jobs")
        job = self._submitted(token, row["id"], request.query_params.get("keys", ""), {names[0]: sha256})
        await self._wait(job, MAX_WAIT)
        found = self._job_of(token, job)
        if found["state"] == "done":
            return FileResponse(self.store.object_path(found["tenant"], found["result"]))
        return JSONResponse(self._shown(found), 200 if found["state"] in OVER else 202)

    # The service itself.

    async def tus(self, request: Request, token: Row) -> Response:
        return Response(
            status_code=204, headers={**HEADERS, "Tus-Version": VERSION, "Tus-Extension": EXTENSIONS}
        )

    async def healthy(self, request: Request, token: Row) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request, token: Row) -> Response:
        if self.scheduler.draining:
            raise ServiceError("The service is being ended.", status=503, retry_after=30)
        self.store.check_room(0)
        with self.store.together():
            pass
        return JSONResponse({"status": "ready"})

    async def figures(self, request: Request, token: Row) -> Response:
        waiting = self.store.one("SELECT COUNT(*) AS n FROM jobs WHERE state = 'queued'")
        stored = self.store.one("SELECT SUM(size) AS n FROM objects")
        assert waiting is not None and stored is not None
        processes = self.scheduler.processes
        values = {
            "queue_jobs": waiting["n"],
            "reserved_bytes": self.scheduler.reserved,
            "memory_limit_bytes": processes.limit,
            "store_bytes": stored["n"] or 0,
            "worker_processes": len(processes.members),
            "worker_restarts": processes.restarts,
        }
        return Response(self.metrics.text(values), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request, token: Row) -> Response:
        return JSONResponse(document(self.calls))

    async def page(self, request: Request, token: Row) -> Response:
        path = PAGE.with_suffix(Path(request.url.path).suffix or ".html")
        return FileResponse(path, headers={"Content-Security-Policy": POLICY})


def _raise(answer: Row) -> None:
    """Raise the error of a worker's answer, as it was told."""
    if "refused" in answer:
        told = answer["refused"]
        advice = [one["write"] for one in told.get("advice", ())]
        status = 409 if told["code"] == "MismatchError" else 422
        error = ServiceError(
            told["message"], status=status, expected=told.get("expected"), got=told.get("got"), advice=advice
        )
        vars(error)["code"] = told["code"]
        raise error


def _seconds(text: str) -> float:
    if not text.isascii() or not text.isdecimal() or len(text) > 6:
        raise ServiceError("`wait` is a number of seconds.", status=400, got=text[:16])
    return float(text)


def _preferred_wait(request: Request) -> float:
    for one in request.headers.get("Prefer", "").split(","):
        name, _, value = one.strip().partition("=")
        if name == "wait":
            return _seconds(value)
    return 0.0


def _base64(content: bytes) -> str:
    import base64

    return base64.b64encode(content).decode()


async def serve(settings: Settings) -> None:
    """Answer until SIGTERM or SIGINT."""
    from granian.constants import Interfaces
    from granian.server.embed import Server

    front = Front(settings)
    server = Server(
        front.application(),
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        log_enabled=False,
        ssl_cert=settings.certificate,
        ssl_key=settings.private_key,
        websockets=False,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    await server.serve()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(serve(Settings.from_json(sys.argv[1])))
