"""The processes of workers: each is of one tenant, and the least recently used ones make room for others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

from cipherblas.common.limits import available_memory
from cipherblas.service.settings import Settings

BASE = 200 << 20  # bytes of a process that has loaded nothing


class WorkerLostError(Exception):
    """A worker ended in the middle of a task."""


class Process:
    """One worker as the front sees it.

    Attributes:
        tenant: whose jobs it runs.
        loaded: places of keys that it has run with.
        resident: bytes of memory that it had after its last task.
    """

    def __init__(self, tenant: str, settings: Settings) -> None:
        self.tenant, self.busy, self.used = tenant, False, time.monotonic()
        self.loaded: set[str] = set()
        self.resident = BASE
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "CIPHERBLAS_THREADS": str(settings.threads)}
        budget = (settings.memory or available_memory() or 1 << 33) // 4
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "cipherblas.service.worker", str(theirs.fileno()), str(budget)),
                    "insecure" if settings.insecure else "secure",
                ],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        self._connection = Connection(ours.detach())

    @property
    def pid(self) -> int:
        """Of the system."""
        return self._process.pid

    def _asked(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            self._connection.send_bytes(json.dumps(message).encode())
            answer: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise WorkerLostError from error
        return answer

    async def ask(self, message: dict[str, Any], limit: float) -> dict[str, Any]:
        """The answer to a task.

        Raises:
            WorkerLostError: the process ended. TimeoutError: it took longer than `limit` seconds, and was ended.
        """
        asked = asyncio.get_running_loop().run_in_executor(None, self._asked, message)
        try:
            answer = await asyncio.wait_for(asyncio.shield(asked), limit)
        except (asyncio.TimeoutError, asyncio.CancelledError) as error:
            self.end()
            with contextlib.suppress(WorkerLostError):
                await asked
            if isinstance(error, asyncio.CancelledError):
                raise
            raise TimeoutError from None
        self.used, self.resident = time.monotonic(), answer["resident"]
        return answer

    def cancel(self) -> None:
        """Ask for the end of its run."""
        with contextlib.suppress(OSError):
            self._connection.send_bytes(b'{"task": "cancel"}')

    def end(self) -> None:
        """End it at once; its memory is free when this returns."""
        self._process.kill()
        self._process.wait()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None


class Processes:
    """All workers.

    Attributes:
        restarts: how many ended in the middle of a task.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.members: list[Process] = []
        self.restarts = 0
        self._most = max(4 * settings.workers, 8)

    @property
    def limit(self) -> int:
        """Bytes that all workers may take."""
        found = available_memory()
        own = sum(one.resident for one in self.members)
        machine = 1 << 40 if found is None else found + own
        return min(machine, self._settings.memory or machine)

    def take(self, tenant: str, place: str, needed: int, reserved: int) -> Process | None:
        """A process for a task of a tenant, or None while there is no memory for it.

        Args:
            place: of the keys that it should have loaded.
            needed: bytes of the task.
            reserved: bytes of the tasks that run.
        """
        self.members = [one for one in self.members if one.alive]
        idle = sorted((one for one in self.members if not one.busy), key=lambda one: one.used)
        own = [one for one in idle if one.tenant == tenant]
        chosen = next((one for one in own if place in one.loaded), own[-1] if own else None)
        others = [one for one in idle if one is not chosen]

        def taken() -> int:
            return reserved + needed + sum(one.resident for one in others)

        while others and (taken() > self.limit or (chosen is None and len(self.members) >= self._most)):
            last = others.pop(0)
            last.end()
            self.members.remove(last)
        if taken() > self.limit:
            return None
        if chosen is None:
            chosen = Process(tenant, self._settings)
            self.members.append(chosen)
        chosen.busy = True
        chosen.loaded.add(place)
        return chosen

    def give_back(self, process: Process) -> None:
        """The task of a process is over."""
        process.busy = False

    def lost(self, process: Process) -> None:
        """A process ended, or is to be ended."""
        process.end()
        self.restarts += 1
        if process in self.members:
            self.members.remove(process)

    def end(self) -> None:
        """End all."""
        for one in self.members:
            one.end()
        self.members.clear()
