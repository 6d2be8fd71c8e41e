"""A service in processes of its own, for tests and scripts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cipherblas as cb
from cipherblas.service.remote import Service
from cipherblas.service.settings import SCOPES, Settings
from cipherblas.service.store import Store


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Served:
    """`cipherblas serve` on a folder; `start`, `kill` and `stop` it."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root, self.port, self.options = root, free_port(), options
        self.url = f"http://127.0.0.1:{self.port}"
        self.certificate: str | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Served:
        environment = {**os.environ, "CIPHERBLAS_CONFIG": str(self.root.parent / "config")}
        command = [sys.executable, "-m", "cipherblas", "serve", "--root", str(self.root)]
        self.process = subprocess.Popen(
            [*command, "--listen", f"127.0.0.1:{self.port}", "--keep-free", "1MiB", *self.options],
            env=environment,
        )
        end = time.monotonic() + 30
        while True:
            try:
                cb.connect(self.url, certificate=self.certificate).ask("GET", "/healthz", again=False)
                return self
            except cb.ServiceError:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    def token(self, name: str, scopes: tuple[str, ...] = SCOPES, **limits: Any) -> str:
        store = Store(Settings(self.root))
        try:
            return store.create_token(name, scopes, **limits)
        finally:
            store.close()

    def connect(self, name: str, scopes: tuple[str, ...] = SCOPES, **limits: Any) -> Service:
        return cb.connect(self.url, token=self.token(name, scopes, **limits))

    def workers(self) -> list[int]:
        """The processes that the front has begun."""
        assert self.process is not None
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(one) for one in path.read_text().split()]

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)

    def files(self) -> dict[Path, bytes]:
        """All that lies below the folder."""
        return {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
