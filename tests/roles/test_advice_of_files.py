"""What errors of keys, records, locks, budgets and damaged files say to write is written, and runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto import keys
from cipherblas.crypto.files import format as form
from cipherblas.crypto.keys import SecretKey
from cipherblas.crypto.params import make_parameters
from cipherblas.roles.budget import NEW_KEY
from tests.support.error_sites import sites
from tests.support.shared_keys import SHARE, Shared

pytestmark = [
    pytest.mark.encrypted,
    pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning"),
]
Act = Callable[[Shared], Any]


def _lost(shared: Shared) -> str:
    return f"the latest {shared.key}.record and lock of this very key, from a backup"


def _backed_up(shared: Shared) -> None:
    for name in ("key.record", "key.lock"):
        shutil.copy(shared.folder / "backup" / name, shared.folder / name)
    shared.share(shared.load())


def _new_key(shared: Shared) -> None:
    client = shared.program.client()
    sent = client.encrypt({"x": np.ones((3, 4))})
    client.decrypt(shared.program.server(client.evaluation_keys()).run(sent), share=SHARE, of=sent)


def _spent(shared: Shared) -> None:
    for _ in range(3):
        shared.share(shared.load())


def _twice(shared: Shared) -> None:
    result, client = shared.result(), shared.load()
    for _ in range(2):
        client.decrypt(result, share=SHARE, of=shared.sent)


def _linked(shared: Shared) -> None:
    os.link(shared.key, shared.folder / "other")
    shared.share(shared.load())


def _unlinked(shared: Shared) -> None:
    (shared.folder / "other").unlink()
    shared.share(shared.load())


def _removed(shared: Shared) -> None:
    (shared.folder / "key.lock").unlink()
    shared.share(shared.load())


def _overwritten(name: str, content: bytes) -> Act:
    def act(shared: Shared) -> None:
        (shared.folder / name).write_bytes(content)
        shared.share(shared.load())

    return act


def _of_another_key(name: str) -> Act:
    def act(shared: Shared) -> None:
        other = shared.program.client()
        other.save(shared.folder / "another")
        shutil.copy(shared.folder / f"another.{name}", shared.folder / f"key.{name}")
        shared.share(shared.load())

    return act


def _closed(shared: Shared) -> None:
    with SecretKey.load(shared.key, insecure=True) as secret:
        pass
    secret.ntt()


def _keys(shared: Shared) -> cb.EvaluationKeys:
    """Two, of another program: that of the shared key needs none."""
    toy = make_parameters(n=1 << 10, q_bits=[50.0, 40.0], alpha=2, scale_bits=40.0, security=0, insecure=True)
    return keys.make_evaluation_keys(keys.generate_secret(toy), keys.KeyRequest.of_galois({5: 1, 25: 1}))


# Name → what is refused, the first advice, and that.
REFUSED: dict[str, tuple[Act, Callable[[Shared], str], Act]] = {
    "the budget is spent": (_spent, lambda shared: NEW_KEY, _new_key),
    "a larger result than all that may be shared": (
        lambda shared: shared.share(shared.load(), cb.Sharing(entries=8)),
        lambda shared: "share=cb.Sharing(entries=12), or more",
        lambda shared: shared.share(shared.load(), cb.Sharing(entries=12)),
    ),
    "another budget": (
        lambda shared: [
            shared.share(shared.load()),
            shared.share(shared.load(), cb.Sharing(entries=36)),
        ],
        lambda shared: "share=cb.Sharing(entries=24, bits=30)",
        lambda shared: shared.share(shared.load(), cb.Sharing(entries=24, bits=30)),
    ),
    "a result is shared twice": (
        _twice,
        lambda shared: (
            "server.run(client.encrypt(operands)), a result of its own; or the values that were shared"
        ),
        lambda shared: shared.share(shared.load()),
    ),
    "a ledger": (
        lambda shared: shared.share(shared.load(), cb.Sharing(24, ledger=lambda *_: False)),
        lambda shared: "a ledger that returns True where these 12 entries may be shared",
        lambda shared: shared.share(shared.load(), cb.Sharing(24, ledger=lambda *_: True)),
    ),
    "several names": (
        _linked,
        lambda shared: f"find / -samefile {shared.key}, and rm for all names but this one",
        _unlinked,
    ),
    "several names, and another path": (
        _linked,
        lambda shared: f"find / -samefile {shared.key}, and rm for all names but this one",
        lambda shared: [
            shared.load().save(shared.folder / "third"),
            shared.share(shared.load(shared.folder / "third")),
        ],
    ),
    "no lock": (_removed, _lost, _backed_up),
    "no lock, and a new key": (_removed, _lost, _new_key),
    "a damaged lock": (
        _overwritten("key.lock", b"x"),
        lambda shared: f"the latest {shared.key}.lock of this very key, from a backup",
        _backed_up,
    ),
    "a damaged record": (
        _overwritten("key.record", b"x" * 100),
        lambda shared: "its latest state, from a backup",
        _backed_up,
    ),
    "a damaged record, which is taken away": (
        _overwritten("key.record", b"x" * 100),
        lambda shared: "its latest state, from a backup",
        lambda shared: [
            (shared.folder / "key.record").unlink(),
            shared.load().decrypt(shared.result(), of=shared.sent),
        ],
    ),
    "the lock of another key": (
        _of_another_key("lock"),
        lambda shared: f"the latest {shared.key}.lock of this very key, from a backup",
        _backed_up,
    ),
    "the record of another key": (
        _of_another_key("record"),
        lambda shared: f"the latest {shared.key}.record of this very key, from a backup",
        _backed_up,
    ),
    "a lock that is a link": (
        lambda shared: [
            (shared.folder / "key.lock").unlink(),
            (shared.folder / "key.lock").symlink_to("elsewhere"),
            shared.share(shared.load()),
        ],
        lambda shared: f"a file in place of the symbolic link {shared.key}.lock",
        lambda shared: [(shared.folder / "key.lock").unlink(), _backed_up(shared)],
    ),
    "a key without its record": (
        lambda shared: shared.share(cb.Client(shared.program, SecretKey.load(shared.key, insecure=True))),
        lambda shared: "cb.Client.load(path, program), to share results",
        lambda shared: shared.share(cb.Client.load(shared.key, shared.program, insecure=True)),
    ),
    "a closed key": (
        _closed,
        lambda shared: "cb.Client.load(path, program), or program.client() for another key",
        lambda shared: shared.load().encrypt({"x": np.ones((3, 4))}),
    ),
    "a damaged key": (
        lambda shared: _overwritten("key", shared.key.read_bytes()[:-1])(shared),
        lambda shared: "a new copy of the folder that cipherblas keygen -o FOLDER wrote",
        lambda shared: [shutil.copy(shared.folder / "backup/key", shared.key), shared.load()],
    ),
    "a name that is nearly right": (
        lambda shared: shared.load(shared.folder / "kye"),
        lambda shared: str(shared.key),
        lambda shared: shared.load(shared.key),
    ),
    "a folder that there is not": (
        lambda shared: shared.load().save(shared.folder / "new/key"),
        lambda shared: f"mkdir -p {shared.folder}/new, or a path in a folder that there is",
        lambda shared: [(shared.folder / "new").mkdir(), shared.load().save(shared.folder / "new/key")],
    ),
    "the keys of many files where a file stands": (
        lambda shared: _keys(shared).save(shared.folder / "operand", part_bytes=1),
        lambda shared: "another path",
        lambda shared: _keys(shared).save(shared.folder / "keys", part_bytes=1),
    ),
    "no bytes in a file": (
        lambda shared: _keys(shared).save(shared.folder / "keys", part_bytes=0),
        lambda shared: "part_bytes=1 << 30, or another number",
        lambda shared: _keys(shared).save(shared.folder / "keys", part_bytes=1 << 30),
    ),
}


@pytest.fixture(scope="module")
def program() -> cb.Program:
    return Shared(Path()).program


@pytest.fixture
def shared(tmp_path: Path, program: cb.Program) -> Shared:
    """A new key pair of one program, in a file of its own; and copies of its files."""
    made = Shared(tmp_path, program)
    made.client.save(made.key)
    made.sent["x"].save(tmp_path / "operand")
    del made.client
    shutil.copytree(tmp_path, tmp_path / "backup")
    return made


@pytest.mark.parametrize("name", REFUSED)
def test_advice_is_taken(shared: Shared, name: str) -> None:
    refused, advice, followed = REFUSED[name]
    with pytest.raises(cb.CipherblasError) as caught:
        refused(shared)
    assert caught.value.advice[0].write == advice(shared), str(caught.value)
    followed(shared)


def test_every_damaged_file_says_what_to_give(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, path = SecretKey.load(shared.key, insecure=True), shared.folder / "file"
    # What is saved, how it is read, and its source, which all advice names.
    kinds: dict[str, tuple[Any, Callable[[], Any], str]] = {
        "program": (shared.program, lambda: cb.Program.load(path, insecure=True), "program.save(FILE)"),
        "operand": (shared.sent["x"], lambda: cb.EncryptedOperand.load(path, insecure=True), "encrypt"),
        "result": (shared.result(), lambda: cb.EncryptedResult.load(path, insecure=True), "run"),
        "keys": (
            _keys(shared),
            lambda: cb.EvaluationKeys.load(path, insecure=True),
            "evaluation",
        ),
        "public key": (
            keys.generate_public_key(secret),
            lambda: cb.PublicKey.load(path, insecure=True),
            "public-key",
        ),
    }
    for kind, (message, load, source) in kinds.items():
        message.save(path)
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole[: len(whole) // 2] + b"\1\2\3" + whole[len(whole) // 2 + 3 :]):
            path.write_bytes(damaged)
            with pytest.raises(cb.FormatError) as caught:
                load()
            assert source in caught.value.advice[0].write, (kind, str(caught.value))
        path.write_bytes(whole)
        load()
        for version, write in ((9, "pip install --upgrade cipherblas"), (1, source)):
            with monkeypatch.context() as patch:
                patch.setattr(form, "FORMAT_VERSION", version)
                message.save(path)
            with pytest.raises(cb.VersionError) as caught:
                load()
            assert write in caught.value.advice[0].write, (kind, str(caught.value))
        path.unlink()
        with pytest.raises(cb.StorageError) as caught:
            load()
        assert source in caught.value.advice[-1].write, (kind, str(caught.value))


# --- every error of these rooms ---

ROOMS = (
    *("common", "roles", "roles/wire", "engines/encodings.py", "planner/predict/machine.py"),
    *(
        "crypto/files",
        "crypto/keys",
        "crypto/families.py",
        "crypto/fields.py",
        "crypto/params.py",
        "crypto/digits.py",
    ),
    *("crypto/security.py", "crypto/randomness.py"),
)
BY_FORM, BEFORE = "files.advised says it", "checked before, or of a file"
OURS = "arrays and numbers of the engine, which no user writes"
# Errors without advice where they are made, by module and function, and why.
WITHOUT = {
    "columns.by_rows": BEFORE,
    "encoding.encoded": OURS,
    "encoding.all_encoded": OURS,
    "encryption._check_message": OURS,
    "encryption._check_residues": OURS,
    "encryption.decrypt_coefficients": OURS,
    "encryption.decrypt_residues": "it was not computed as planned: there is nothing to write",
    "evaluation._add": OURS,
    "generation._weights": OURS,
    "key_id._check": BEFORE,
    "key_id.check": BEFORE,
    "key_id.check_secrets": BEFORE,
    "key_id.of_number": BEFORE,
    "families.at": BEFORE,
    "key_id.register": OURS,
    "machine._parsed": BY_FORM,
    "feeds.feed_tensors": OURS,
    "one_run._check_cancelled": "who cancels a run knows why",
    "randomness.keystreams": OURS,
    "together._forced": "another parameter set is tried",
    "reading._checked_metadata": BY_FORM,
    "reading._open_regular": BY_FORM,
    "request.check": BEFORE,
    "request.expect": OURS,
    "secret.__init__": BEFORE,
    "secret.of_coefficients": BEFORE,
    "stored_rows.__post_init__": BEFORE,
    "writing._compact_json": OURS,
    "writing._container_header": OURS,
    "writing._parameters_of": OURS,
    "writing._writable_tensors": OURS,
    "writing.write": OURS,
}


def test_errors_without_advice_are_known() -> None:
    """A FormatError gets its advice from `files.advised`; those of pickles have it where they are made."""
    bare = [site for site in sites(ROOMS) if not site.advised]
    assert {site.function for site in bare if site.error != "FormatError"} == set(WITHOUT)
    assert not [site for site in bare if site.function.startswith("pickles.")]
