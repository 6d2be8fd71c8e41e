"""A worker: a process that checks files and runs jobs of one tenant, and ends with the process that began it.

It reads messages of JSON from a socket, whose descriptor is its argument, and answers each with one. What it has loaded
stays: programs, and keys by their bytes, those that were used last.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import resource
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from cipherblas.common.environment import threads
from cipherblas.common.errors import CipherblasError, FormatError, MismatchError
from cipherblas.common.log import LOG
from cipherblas.common.process import peak_bytes
from cipherblas.crypto.keys import EvaluationKeys
from cipherblas.planner.predict.machine import Machine
from cipherblas.roles.one_run import Run
from cipherblas.roles.planned import PlannedProgram
from cipherblas.roles.server import Server
from cipherblas.roles.wire.messages import EncryptedOperand
from cipherblas.service.store import digest_of, sync

CHECK_SECONDS = 60  # of the processor, for a check
Message = Mapping[str, Any]


class Loaded:
    """The programs and servers that a worker keeps.

    Attributes:
        budget: bytes of keys that stay loaded.
    """

    def __init__(self, budget: int, *, insecure: bool) -> None:
        self.budget, self._insecure = budget, insecure
        self._programs: dict[str, PlannedProgram] = {}
        self._servers: OrderedDict[str, Server] = OrderedDict()

    def program(self, path: str) -> PlannedProgram:
        """The program of a file, read once."""
        if path not in self._programs:
            self._programs[path] = PlannedProgram.load(path, insecure=self._insecure)
        return self._programs[path]

    def server(self, program_path: str, keys_path: str) -> Server:
        """The server of a program with the keys of a file; others go where their bytes exceed the budget."""
        place = f"{program_path} {keys_path}"
        if place not in self._servers:
            program = self.program(program_path)
            while self._servers and self._bytes() + program.plan.key_bytes > self.budget:
                self._servers.popitem(last=False)
            keys = EvaluationKeys.load(keys_path, insecure=self._insecure, lazy=True)
            server = Server(program, keys)
            server.load_keys()
            self._servers[place] = server
        self._servers.move_to_end(place)
        return self._servers[place]

    def _bytes(self) -> int:
        return sum(server.program.plan.key_bytes for server in self._servers.values())

    def operand(self, path: str) -> EncryptedOperand:
        """The operand of a file."""
        return EncryptedOperand.load(path, insecure=self._insecure)

    def __len__(self) -> int:
        return len(self._servers)


class Worker:
    """The tasks of a worker: `program` and `keys` check files, `run` computes."""

    def __init__(self, connection: Connection, loaded: Loaded) -> None:
        self._connection, self._loaded = connection, loaded
        self._tasks: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._run: Run | None = None
        self._cancelled = False
        self._does: dict[str, Callable[[Message], dict[str, Any]]] = {
            "program": self._program,
            "keys": self._keys,
            "run": self._result,
        }

    def _listen(self) -> None:
        """Take messages while tasks run; the end of the other process is the end of this one."""
        while True:
            try:
                message = json.loads(self._connection.recv_bytes())
            except (EOFError, OSError):
                os._exit(0)
            if message["task"] == "cancel":
                self._cancelled = True
                if self._run is not None:
                    self._run.cancel()
            else:
                self._tasks.put(message)

    def serve(self) -> None:
        """Do tasks, one after the other, for ever."""
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            message = self._tasks.get()
            self._cancelled = False
            try:
                answer = self._does[message["task"]](message)
            except CipherblasError as error:
                answer = {"refused": error.to_dict()}
            except MemoryError:
                answer = {"refused": {"code": "MemoryBudgetError", "message": "The worker is out of memory."}}
            except Exception:
                LOG.exception("the task %s", message["task"])
                answer = {"refused": {"code": "Fault", "message": "The worker has a fault."}}
            answer |= {"loaded": len(self._loaded), "resident": _resident()}
            self._connection.send_bytes(json.dumps(answer).encode())

    def _program(self, message: Message) -> dict[str, Any]:
        """The facts of a program, all counted here: of what its file promises nothing is believed."""
        with _limited():
            program = self._loaded.program(message["path"])
            if message.get("client_path") and message["client_id"] != program.id:
                raise MismatchError("The file for clients is of another program.")
            plan = replace(program.plan, machine=Machine.usual(), threads=threads())
            return {
                "id": program.id,
                "operands": {
                    name: {"shape": list(one.shape), "secret": one.secret, "bound": one.bound}
                    for name, one in program.operands.items()
                },
                "security": plan.parameters.security,
                "peak_bytes": plan.peak_bytes,
                "key_bytes": plan.key_bytes,
                "predicted_seconds": plan.seconds,
                "error": plan.error,
                "explain": program.explain(),
            }

    def _keys(self, message: Message) -> dict[str, Any]:
        """Check that a file has all keys of a program; the keys stay on the disk."""
        with _limited():
            program = self._loaded.program(message["program"])
            keys = EvaluationKeys.load(message["path"], insecure=message["insecure"], lazy=True)
            Server(program, keys)
            return {"key_id": keys.key_id}

    def _result(self, message: Message) -> dict[str, Any]:
        server = self._loaded.server(message["program"], message["keys"])
        operands: dict[str, Any] = {}
        for name, path in message["operands"].items():
            secret = name in server.program.operands and server.program.operands[name].secret
            operands[name] = self._loaded.operand(path) if secret else _array(path)
        self._run = server.prepare(operands)
        try:
            if self._cancelled:
                self._run.cancel()
            result = self._run.result()
            report = self._run.report
        finally:
            self._run = None
        target = Path(message["target"])
        replace(result, seconds=0.0).save(target)  # the job has them: files of equal jobs are equal
        sync(target)
        return {
            "sha256": digest_of(target),
            "seconds": report.seconds + report.encoding_seconds,
            "peak_bytes": peak_bytes(),
        }


def _array(path: str) -> np.ndarray:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        raise FormatError("The array of a clear operand cannot be read.") from error


def _resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class _limited:
    """A check may take so many seconds of the processor; the system ends the process then."""

    def __enter__(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = int(used.ru_utime + used.ru_stime) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (spent + CHECK_SECONDS, resource.RLIM_INFINITY))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def main(descriptor: int, key_budget: int, insecure: bool) -> None:
    """Serve the socket of a descriptor."""
    logging.basicConfig(level=logging.WARNING)
    Worker(Connection(descriptor), Loaded(key_budget, insecure=insecure)).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "insecure")
