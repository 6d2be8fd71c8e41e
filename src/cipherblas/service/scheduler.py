"""The queue of jobs: who is next, whether there is memory, what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from typing import Any

from cipherblas.common.errors import ServiceError
from cipherblas.service.metrics import Metrics
from cipherblas.service.processes import BASE, Process, Processes, WorkerLostError
from cipherblas.service.settings import Settings
from cipherblas.service.store import Row, Store

SHORT = 1.0  # predicted seconds of a job that may pass one which waits for memory
MAX_PASSED = 10
MAX_TRIES = 25
CHECK_LIMIT = 90.0  # seconds
CANCEL_SECONDS = 1.0
OVER = ("done", "failed", "cancelled")


class Scheduler:
    """Runs jobs in worker processes, in the order of `next_jobs`; all rows are the store's, so that an end of this
    process loses none.

    Attributes:
        processes: the workers.
        draining: no job is begun any more.
    """

    def __init__(self, settings: Settings, store: Store, metrics: Metrics) -> None:
        self._settings, self._store, self._metrics = settings, store, metrics
        self.processes = Processes(settings)
        self.draining = False
        self._wake = asyncio.Event()
        self._running: dict[str, tuple[Row, Process]] = {}
        self._checks: dict[Process, int] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_tenant = ""
        self._passed: Counter[str] = Counter()
        self._cancelled: set[str] = set()

    def wake(self) -> None:
        """There may be a job to begin."""
        self._wake.set()

    async def serve(self) -> None:
        """Begin jobs as they can be, for ever."""
        while True:
            self._wake.clear()
            self._begin()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), 1.0)

    @property
    def reserved(self) -> int:
        """Bytes of memory of the tasks that run."""
        return sum(_needed(row) for row, _ in self._running.values()) + sum(self._checks.values())

    def next_jobs(self) -> list[Row]:
        """The jobs that wait: by tenant in turn, the tenant after the last one first, then first come."""
        firsts = self._store.all(
            "SELECT *, MIN(rowid) FROM jobs WHERE state = 'queued' GROUP BY tenant ORDER BY tenant"
        )
        later = [row for row in firsts if row["tenant"] > self._last_tenant]
        return later + [row for row in firsts if row["tenant"] <= self._last_tenant]

    def _begin(self) -> None:
        while not self.draining and len(self._running) < self._settings.workers:
            for row in self.next_jobs():
                if sum(self._passed.values()) and not self._may_pass(row):
                    continue
                process = self.processes.take(row["tenant"], row["keys"], _needed(row), self.reserved)
                if process is not None:
                    break
                self._passed[row["id"]] += 0
            else:
                return
            for waiting in list(self._passed):
                if waiting == row["id"]:
                    del self._passed[waiting]
                else:
                    self._passed[waiting] += 1
            self._last_tenant = row["tenant"]
            row["started"] = time.time()
            self._store.do(
                "UPDATE jobs SET state = 'running', started = ?, tries = tries + 1 WHERE id = ?",
                row["started"],
                row["id"],
            )
            self._running[row["id"]] = row, process
            task = asyncio.create_task(self._run(row, process))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _may_pass(self, row: Row) -> bool:
        """Whether a job may be begun before one that waits for memory."""
        first = next(iter(self._passed))
        return row["id"] == first or (row["predicted"] < SHORT and self._passed[first] < MAX_PASSED)

    async def _run(self, row: Row, process: Process) -> None:
        store, job = self._store, row["id"]
        limit = 10 * row["predicted"] + 60
        target = store.root / "results" / job
        try:
            answer = await process.ask({"task": "run", "target": str(target), **self._paths(row)}, limit)
        except WorkerLostError:
            self.processes.lost(process)
            if job in self._cancelled:
                self._ended(row, "cancelled")
            elif row["tries"] + 1 >= MAX_TRIES:
                self._failed(row, "WorkerLost", "The worker ended each time that it ran this job.")
            else:
                store.do("UPDATE jobs SET state = 'queued', started = NULL WHERE id = ?", job)
        except TimeoutError:
            self.processes.lost(process)
            self._failed(row, "TimeLimit", f"The job took longer than {limit:.0f} s, its limit.")
        except asyncio.CancelledError:
            self.processes.lost(process)
            store.do("UPDATE jobs SET state = 'queued', started = NULL WHERE id = ?", job)
        else:
            if "refused" in answer:
                cancelled = answer["refused"]["code"] == "CancelledError"
                self._ended(row, "cancelled" if cancelled else "failed", error=json.dumps(answer["refused"]))
            else:
                self._done(row, answer)
            self.processes.give_back(process)
        finally:
            target.unlink(missing_ok=True)
            del self._running[job]
            self._cancelled.discard(job)
            self.wake()

    def _done(self, row: Row, answer: dict[str, Any]) -> None:
        facts = {"kind": "encrypted-result", "seconds": answer["seconds"]}
        try:
            self._store.check_room(0)
            target = self._store.root / "results" / row["id"]
            self._store.add_object(row["tenant"], target, answer["sha256"], facts)
        except (OSError, ServiceError):
            self._failed(row, "StorageError", "The disk of the service has no room for the result.")
            return
        self._ended(row, "done", seconds=answer["seconds"], result=answer["sha256"])
        self._metrics.ratio.observe(answer["seconds"] / max(row["predicted"], 1e-9))

    def _failed(self, row: Row, code: str, message: str) -> None:
        self._ended(row, "failed", error=json.dumps({"code": code, "message": message}))

    def _ended(self, row: Row, state: str, **values: Any) -> None:
        now = time.time()
        fields = {"state": state, "ended": now, **values}
        names = ", ".join(f"{name} = ?" for name in fields)
        self._store.do(f"UPDATE jobs SET {names} WHERE id = ?", *fields.values(), row["id"])
        self._store.charge(row["tenant"], values.get("seconds", 0.0) - row["predicted"])
        self._metrics.jobs.labels(state).inc()
        if row["started"]:
            self._metrics.seconds.labels("queue").observe(max(0.0, row["started"] - row["created"]))
            self._metrics.seconds.labels("run").observe(max(0.0, now - row["started"]))
        if (event := self._changed.pop(row["id"], None)) is not None:
            event.set()

    def _paths(self, row: Row) -> dict[str, Any]:
        store = self._store
        program = store.one(
            "SELECT * FROM programs WHERE tenant = ? AND id = ?", row["owner"], row["program"]
        )
        assert program is not None
        clear = store.all(
            "SELECT * FROM clear WHERE tenant = ? AND program = ?", row["owner"], row["program"]
        )
        return {
            "program": str(store.object_path(row["owner"], program["object"])),
            "keys": str(store.object_path(row["tenant"], row["keys"])),
            "operands": {one["name"]: str(store.object_path(row["owner"], one["object"])) for one in clear}
            | {
                name: str(store.object_path(row["tenant"], sha256))
                for name, sha256 in json.loads(row["operands"]).items()
            },
        }

    async def check(self, tenant: str, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a check of files, in a process of the tenant.

        Raises:
            ServiceError: it took too long (413), or the worker was lost (422).
        """
        process = self.processes.take(tenant, "", BASE, self.reserved)
        if process is None:
            raise ServiceError("The service has no memory for this now.", status=503, retry_after=5)
        self._checks[process] = BASE
        try:
            answer = await process.ask({**message, "insecure": self._settings.insecure}, CHECK_LIMIT)
        except (WorkerLostError, TimeoutError):
            self.processes.lost(process)
            raise ServiceError("The check of the file took too much time or memory.", status=413) from None
        finally:
            del self._checks[process]
            self.wake()
        self.processes.give_back(process)
        return answer

    def waiting_seconds(self) -> float:
        """Predicted seconds until a new job would begin."""
        row = self._store.one("SELECT SUM(predicted) AS s FROM jobs WHERE state IN ('queued', 'running')")
        assert row is not None
        return float(row["s"] or 0.0) / self._settings.workers

    async def over(self, job: str, seconds: float) -> None:
        """Wait until a job is over, or some seconds."""
        event = self._changed.setdefault(job, asyncio.Event())
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)

    async def cancel(self, row: Row) -> None:
        """End a job: one that waits at once, one that runs within a second or so, its worker if need be."""
        job = row["id"]
        if job not in self._running:
            self._ended({**row, "started": None}, "cancelled")
            return
        self._cancelled.add(job)
        process = self._running[job][1]
        process.cancel()
        await self.over(job, CANCEL_SECONDS)
        if job in self._running and self._running[job][1] is process:
            process.end()
            await self.over(job, CANCEL_SECONDS)

    async def drain(self, seconds: float) -> None:
        """Let running jobs finish; those that do not, wait in the store for the next start."""
        self.draining = True
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=seconds)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
        self.processes.end()


def _needed(row: Row) -> int:
    return int(row["peak"]) + BASE
