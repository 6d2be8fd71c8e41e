"""What every peer process speaks: one JSON object per line, a request on stdin and its answer on stdout.

This file and the workers beside it run in the interpreter that holds the peer's wheel, where cipherblas need
not be installed: they are started as the package `peers` and import nothing from outside of it.

Requests: the first line is the set-up (answered by ``{"ready": {...}}``), then ``{"case": name, "repeats": r}``
(answered by ``{"seconds": [r times]}``), until ``{"quit": true}`` or end of file. A failure is answered by
``{"failure": text}``. A peer whose work has stages also takes ``{"laps": r}``: its answer, ``{"laps": [r times]}``,
holds the seconds of each stage of each run.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

Case = Callable[[], Any]


def peak_bytes() -> int:
    """Largest resident set of this process so far in bytes.

    What `getrusage` says begins with what the parent held when it started this process; Linux also tells this one's
    own.
    """
    with (
        contextlib.suppress(OSError),
        open("/proc/self/status", encoding="ascii", errors="replace") as status,
    ):
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(case: Case, repeats: int) -> list[float]:
    """Seconds of each of `repeats` calls. The result of a call is freed outside of the timed part."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = case()
        seconds.append(time.perf_counter() - start)
        del result
    return seconds


def serve(setup: Callable[[dict[str, Any]], Any]) -> None:
    """Answer requests until told to quit.

    `setup(request)` returns an object with `cases: dict[str, Case]` and `describe() -> dict`, and where it has stages
    `laps(repeats) -> list[dict]`, after which `error` is the largest one of all runs. Whatever the
    peer's library prints goes to stderr: stdout carries the protocol alone.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    peer = None
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("quit"):
            return
        try:
            if peer is None:
                peer = setup(request)
                answer({"ready": dict(peer.describe(), peak_bytes=peak_bytes())})
            elif "laps" in request:
                found = peer.laps(int(request["laps"]))
                answer({"laps": found, "error": peer.error, "peak_bytes": peak_bytes()})
            else:
                seconds = measure(peer.cases[request["case"]], int(request["repeats"]))
                answer({"seconds": seconds, "peak_bytes": peak_bytes()})
        except Exception as failure:  # the parent reports it; this process may go on
            answer({"failure": f"{type(failure).__name__}: {failure}"})
