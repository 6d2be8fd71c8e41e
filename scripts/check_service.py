"""Check a service as users meet it: many clients at once, workers and fronts that are killed. Prints figures of each.

python scripts/check_service.py --clients 100 --requests 10 --kills 20
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import cipherblas as cb

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.support.served import Served


def network() -> cb.Program:
    """64-64-10 with squares, as a service runs it for everybody."""
    rng = np.random.default_rng(3)
    first, second = rng.normal(0, 0.1, (64, 64)), rng.normal(0, 0.1, (10, 64))
    return cb.compile(
        lambda x: second @ cb.square(first @ x), {"x": cb.secret(64)}, minimise="server", form="tensors"
    )


def checked(client: cb.ServedClient, program: cb.Program, seed: int) -> tuple[bool, float]:
    """Whether a request was right, and its seconds."""
    x = np.random.default_rng(seed).uniform(-1, 1, 64)
    start = time.perf_counter()
    found = client(x=x)
    right = np.abs(found - program.evaluate({"x": x})).max() <= program.plan.error_target
    return bool(right), time.perf_counter() - start


def many(title: str, clients: list[cb.ServedClient], program: cb.Program, requests: int) -> None:
    """Requests of all clients at once; a line of figures."""
    jobs = [(client, number) for number in range(requests) for client in clients]
    start = time.perf_counter()
    with ThreadPoolExecutor(min(16, len(clients))) as pool:
        found = list(pool.map(lambda job: checked(job[0], program, id(job[0]) % 2**31 + job[1]), jobs))
    elapsed, seconds = time.perf_counter() - start, sorted(one[1] for one in found)
    print(
        f"{title}: {sum(one[0] for one in found)} of {len(jobs)} right, {len(jobs) / elapsed:.1f}/s, "
        f"p50 {statistics.median(seconds):.2f} s, p99 {seconds[int(0.99 * (len(seconds) - 1))]:.2f} s",
        flush=True,
    )


def killing(kill: Callable[[], None], seconds: float, count: int, ended: threading.Event) -> int:
    """Call `kill` so often, until the requests have ended; how often it was called."""
    for number in range(count):
        if ended.wait(seconds):
            return number
        kill()
    return count


def main() -> None:
    """Run all checks on a folder that is removed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--requests", type=int, default=10)
    parser.add_argument("--kills", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CIPHERBLAS_CONFIG"] = f"{folder}/config"
        served = Served(Path(folder) / "root", "--workers", "2").start()
        try:
            program = network()
            published = served.connect("users").publish(program)
            start = time.perf_counter()
            clients = [published.client() for _ in range(given.clients)]
            print(f"{len(clients)} clients registered in {time.perf_counter() - start:.1f} s", flush=True)
            many("all at once", clients, program, given.requests)

            def end_worker() -> None:
                for pid in served.workers()[:1]:
                    os.kill(pid, signal.SIGKILL)

            def end_front() -> None:
                served.kill()
                served.start()

            for title, kill, pause in (("workers killed", end_worker, 1.0), ("front killed", end_front, 5.0)):
                ended, count = threading.Event(), []
                killer = threading.Thread(
                    target=lambda k=kill, p=pause, c=count, e=ended: c.append(killing(k, p, given.kills, e))
                )
                killer.start()
                many(title, clients, program, given.requests)
                ended.set()
                killer.join()
                print(f"  {count[0]} kills", flush=True)
        finally:
            print(f"ended with status {served.stop()}")


if __name__ == "__main__":
    main()
