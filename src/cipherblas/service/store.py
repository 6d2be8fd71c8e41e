"""The rows and files of a service: SQLite, and files named by the SHA-256 of what they hold, by tenant."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cipherblas.common.errors import ServiceError
from cipherblas.service.settings import SCOPES, Settings

BLOCK = 1 << 22
_SCHEMA = """
CREATE TABLE IF NOT EXISTS tokens (name TEXT PRIMARY KEY, hash TEXT UNIQUE, tenant TEXT, scopes TEXT, disk INTEGER,
    seconds REAL, expires REAL);
CREATE TABLE IF NOT EXISTS uploads (id TEXT PRIMARY KEY, tenant TEXT, length INTEGER, sha256 TEXT, expires REAL);
CREATE TABLE IF NOT EXISTS objects (tenant TEXT, sha256 TEXT, size INTEGER, facts TEXT, created REAL,
    PRIMARY KEY (tenant, sha256));
CREATE TABLE IF NOT EXISTS programs (tenant TEXT, id TEXT, object TEXT, client_object TEXT, facts TEXT, created REAL,
    PRIMARY KEY (tenant, id));
CREATE TABLE IF NOT EXISTS names (name TEXT, tenant TEXT, program TEXT, since REAL);
CREATE TABLE IF NOT EXISTS clear (tenant TEXT, program TEXT, name TEXT, object TEXT,
    PRIMARY KEY (tenant, program, name));
CREATE TABLE IF NOT EXISTS keys (tenant TEXT, program TEXT, id TEXT, object TEXT, used REAL,
    PRIMARY KEY (tenant, program, id));
CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, tenant TEXT, owner TEXT, program TEXT, keys TEXT, operands TEXT,
    state TEXT, created REAL, started REAL, ended REAL, predicted REAL, peak INTEGER, seconds REAL,
    tries INTEGER DEFAULT 0,
    error TEXT, result TEXT);
CREATE TABLE IF NOT EXISTS used (tenant TEXT, day INTEGER, seconds REAL, PRIMARY KEY (tenant, day));
CREATE INDEX IF NOT EXISTS waiting ON jobs (state, created);
"""
Row = dict[str, Any]


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        hasher = hashlib.sha256()
        while block := file.read(BLOCK):
            hasher.update(block)
    return hasher.hexdigest()


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Store:
    """Rows and files below one folder; one process writes them.

    Attributes:
        root: the folder.
    """

    def __init__(self, settings: Settings) -> None:
        self.root, self._settings = settings.root, settings
        for name in ("objects", "uploads", "results"):
            (self.root / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._rows = sqlite3.connect(
            self.root / "service.sqlite", isolation_level=None, check_same_thread=False
        )
        self._rows.row_factory = sqlite3.Row
        self._rows.execute("PRAGMA journal_mode=WAL")
        self._rows.execute("PRAGMA synchronous=FULL")
        self._rows.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the rows."""
        self._rows.close()

    def all(self, statement: str, *values: Any) -> list[Row]:
        """The rows of a question."""
        return [dict(row) for row in self._rows.execute(statement, values)]

    def one(self, statement: str, *values: Any) -> Row | None:
        """The first row of a question, or None."""
        row = self._rows.execute(statement, values).fetchone()
        return None if row is None else dict(row)

    def do(self, statement: str, *values: Any) -> int:
        """Change rows; they are on the disk when this returns. Returns how many were changed."""
        return self._rows.execute(statement, values).rowcount

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Changes that are all made, or none of them."""
        self._rows.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._rows.execute("ROLLBACK")
            raise
        self._rows.execute("COMMIT")

    # Files.

    def object_path(self, tenant: str, sha256: str) -> Path:
        """Where an object of a tenant lies; a tenant's name never is part of a path."""
        folder = hashlib.sha256(tenant.encode()).hexdigest()[:32]
        return self.root / "objects" / folder / sha256[:2] / sha256

    def add_object(self, tenant: str, source: Path, sha256: str, facts: Row) -> None:
        """Take a complete file as an object: file first, then its row, each on the disk."""
        target = self.object_path(tenant, sha256)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        sync(source)
        os.replace(source, target)
        sync(target.parent)
        self.do(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
            *(tenant, sha256, target.stat().st_size, json.dumps(facts), time.time()),
        )

    def remove_object(self, tenant: str, sha256: str) -> None:
        """Remove an object, its row first."""
        self.do("DELETE FROM objects WHERE tenant = ? AND sha256 = ?", tenant, sha256)
        self.object_path(tenant, sha256).unlink(missing_ok=True)

    def object(self, tenant: str, sha256: Any, *kinds: str) -> Row:
        """The row of an object of a tenant, with its facts; of nobody else's is told whether it exists."""
        found = self.one("SELECT * FROM objects WHERE tenant = ? AND sha256 = ?", tenant, str(sha256))
        if found is None:
            raise ServiceError("There is no such object.", status=404, got=str(sha256)[:64])
        found["facts"] = json.loads(found["facts"])
        if found["facts"]["kind"] not in kinds:
            raise ServiceError(
                "The object is of another kind.",
                status=409,
                expected=" | ".join(kinds),
                got=found["facts"]["kind"],
            )
        return found

    def stored(self, tenant: str) -> int:
        """Bytes of a tenant: objects, and uploads as they were announced."""
        objects = self.one("SELECT SUM(size) AS n FROM objects WHERE tenant = ?", tenant)
        uploads = self.one("SELECT SUM(length) AS n FROM uploads WHERE tenant = ?", tenant)
        assert objects is not None and uploads is not None
        return (objects["n"] or 0) + (uploads["n"] or 0)

    def check_room(self, more: int) -> None:
        """Raise a ServiceError (507) where the disk has not so many bytes to give."""
        free = shutil.disk_usage(self.root).free - self._settings.keep_free
        waiting = sum(row["length"] for row in self.all("SELECT length FROM uploads"))
        if self._settings.disk is not None:
            rows = self.one("SELECT SUM(size) AS n FROM objects")
            assert rows is not None
            free = min(free, self._settings.disk - (rows["n"] or 0) - waiting)
        if more > free:
            raise ServiceError("The disk of the service has no room for this.", status=507)

    # What is left over.

    def recover(self) -> None:
        """Make rows and files agree after whatever end: unfinished jobs wait again, files without rows go."""
        self.do("UPDATE jobs SET state = 'queued', started = NULL WHERE state = 'running'")
        uploads = {row["id"] for row in self.all("SELECT id FROM uploads")}
        for name in uploads:
            if not (self.root / "uploads" / name).exists():  # it became an object, and its row was left
                self.remove_upload(name)
        for path in (self.root / "uploads").iterdir():
            if path.name not in uploads:
                path.unlink()
        for path in (self.root / "results").iterdir():
            path.unlink()

    def check(self, whole: bool) -> list[str]:
        """Objects that are missing or damaged, and files without rows.

        Args:
            whole: read every file and compare its digest; else only names and sizes.
        """
        faults, known = [], set()
        for row in self.all("SELECT tenant, sha256, size FROM objects"):
            path = self.object_path(row["tenant"], row["sha256"])
            known.add(path)
            if not path.exists():
                faults.append(f"{row['sha256']}: missing")
            elif path.stat().st_size != row["size"] or (whole and digest_of(path) != row["sha256"]):
                faults.append(f"{row['sha256']}: damaged")
        for path in (self.root / "objects").glob("*/*/*"):
            if path not in known:
                faults.append(f"{path.name}: without a row")
        return faults

    def collect(self) -> None:
        """Remove what is no longer kept: uploads, results and keys whose time is over."""
        now, kept = time.time(), self._settings
        for row in self.all("SELECT id FROM uploads WHERE expires < ?", now):
            self.remove_upload(row["id"])
        over = ("done", "failed", "cancelled")
        for row in self.all(
            "SELECT id, tenant, result FROM jobs WHERE state IN (?, ?, ?) AND ended < ?",
            *over,
            now - kept.keep_results,
        ):
            self.forget_job(row)
        for row in self.all("SELECT * FROM keys WHERE used < ?", now - kept.keep_keys):
            self.do(
                "DELETE FROM keys WHERE tenant = ? AND program = ? AND id = ?",
                *(row[n] for n in ("tenant", "program", "id")),
            )
            self.remove_object(row["tenant"], row["object"])

    def remove_upload(self, name: str) -> None:
        """Remove an unfinished upload."""
        self.do("DELETE FROM uploads WHERE id = ?", name)
        (self.root / "uploads" / name).unlink(missing_ok=True)

    def forget_job(self, job: Row) -> None:
        """Remove a job that is over, and its result where no other job has it."""
        self.do("DELETE FROM jobs WHERE id = ?", job["id"])
        if (
            job["result"]
            and self.one("SELECT id FROM jobs WHERE result = ? AND tenant = ?", job["result"], job["tenant"])
            is None
        ):
            self.remove_object(job["tenant"], job["result"])

    # Tokens.

    def create_token(
        self,
        name: str,
        scopes: tuple[str, ...],
        *,
        tenant: str | None = None,
        disk: int | None = None,
        seconds: float | None = None,
        expires: float | None = None,
    ) -> str:
        """A new token: its text, of which only the SHA-256 is kept."""
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown:
            raise ServiceError(
                "There is no such scope.", status=400, expected=" | ".join(SCOPES), got=unknown[0]
            )
        token = secrets.token_urlsafe(32)
        try:
            self.do(
                "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(name, hashlib.sha256(token.encode()).hexdigest(), tenant or name, ",".join(scopes)),
                *(disk, seconds, expires),
            )
        except sqlite3.IntegrityError:
            raise ServiceError("There is a token of this name.", status=409, got=name) from None
        return token

    def revoke_token(self, name: str) -> None:
        """Remove a token; what its tenant stored stays."""
        if not self.do("DELETE FROM tokens WHERE name = ?", name):
            raise ServiceError("There is no token of this name.", status=404, got=name)

    def token(self, text: str) -> Row | None:
        """The row of a valid token, or None."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        return self.one(
            "SELECT * FROM tokens WHERE hash = ? AND (expires IS NULL OR expires > ?)", digest, time.time()
        )

    # Seconds of a day.

    def used_seconds(self, tenant: str) -> float:
        """Seconds of computation that a tenant was charged today."""
        row = self.one(
            "SELECT seconds FROM used WHERE tenant = ? AND day = ?", tenant, int(time.time() // 86400)
        )
        return 0.0 if row is None else float(row["seconds"])

    def charge(self, tenant: str, seconds: float) -> None:
        """Charge a tenant seconds of today; what was predicted and not needed is given back as negative ones."""
        self.do(
            "INSERT INTO used VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET seconds = MAX(0, seconds + excluded.seconds)",
            *(tenant, int(time.time() // 86400), seconds),
        )
