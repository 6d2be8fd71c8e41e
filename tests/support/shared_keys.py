"""A key in a file, and results that are shared under it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import toy_rows

SHARE = cb.Sharing(entries=24)  # two results of 12 entries
BESIDE = ("key", "key.lock", "key.record")


class Shared:
    """A key in a file of a folder, and results of 12 entries."""

    def __init__(self, folder: Path, program: cb.Program | None = None) -> None:
        self.folder, self.key = folder, folder / "key"
        weights = np.eye(3) / 2
        self.program = program or toy_rows(lambda x: weights @ x, x=cb.secret(3, 4), precision=1e-8)
        self.client = self.program.client()
        self.sent = self.client.encrypt({"x": np.ones((3, 4))})
        self._result = self.program.server(self.client.evaluation_keys()).run(self.sent)

    def result(self) -> cb.EncryptedResult:
        """Another one each time."""
        changed = [array.copy() for array in self._result.ciphertexts]
        b, q = changed[1], np.array(self._result.parameters.q, np.uint64)
        b[:, 0, 0] = (b[:, 0, 0] + np.uint64(1)) % q[: len(b)]
        self._result = replace(self._result, ciphertexts=tuple(changed))
        return self._result

    def load(self, path: Path | None = None) -> cb.Client:
        return cb.Client.load(path or self.key, self.program, insecure=True)

    def share(self, client: cb.Client, sharing: cb.Sharing = SHARE) -> None:
        client.decrypt(self.result(), share=sharing, of=self.sent)

    def spent(self, client: cb.Client) -> None:
        with pytest.raises(cb.SecurityError, match="at most 0 of 24"):
            self.share(client)

    def refused(self, client: cb.Client, match: str) -> None:
        before = {name: (self.folder / name).read_bytes() for name in BESIDE if (self.folder / name).exists()}
        with pytest.raises(cb.SecurityError, match=match):
            self.share(client)
        assert client.decrypt(self.result(), of=self.sent).shape == (3, 4)  # its owner may
        after = {name: (self.folder / name).read_bytes() for name in BESIDE if (self.folder / name).exists()}
        assert {**after, "key.lock": b""} == {**before, "key.lock": b""}
