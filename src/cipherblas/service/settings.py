"""The settings of a service, of its command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SCOPES = ("run", "keys", "publish", "admin")
DAY = 86400.0


@dataclass(frozen=True)
class Settings:
    """The settings of a service.

    Attributes:
        root: folder of all that it stores.
        host, port: where it listens.
        certificate, private_key: of TLS, or None.
        workers: jobs that run at once.
        threads: of each of them.
        memory: bytes that all of them may take, or None for what the machine has.
        disk: bytes that it may store, or None for what the disk has.
        keep_free: bytes of the disk that stay free.
        queue: jobs that may wait.
        keep_results, keep_uploads, keep_keys: seconds after which a result, an unfinished upload, and keys since their
            last use go.
        grace: seconds that running jobs have when the service is ended.
        insecure: programs below 128 bits of security are taken: for tests.
    """

    root: Path
    host: str = "127.0.0.1"
    port: int = 8443
    certificate: Path | None = None
    private_key: Path | None = None
    workers: int = 1
    threads: int = 1
    memory: int | None = None
    disk: int | None = None
    keep_free: int = 1 << 28
    queue: int = 10000
    keep_results: float = DAY
    keep_uploads: float = DAY
    keep_keys: float = 30 * DAY
    grace: float = 30.0
    insecure: bool = False

    @property
    def url(self) -> str:
        """The address for clients on this machine."""
        return f"{'http' if self.certificate is None else 'https'}://{self.host}:{self.port}"

    def to_json(self) -> str:
        """The settings as text."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The settings of `to_json`."""
        found = json.loads(text)
        paths = ("root", "certificate", "private_key")
        given: dict[str, Any] = {
            name: Path(one) if one and name in paths else one for name, one in found.items()
        }
        return cls(**given)
