"""By type server and encryptor hold nothing secret: whatever they refer to, directly or not, is walked."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

import cipherblas as cb
from cipherblas.crypto.keys import SecretKey


def reachable(root: Any) -> Iterator[Any]:
    """Every object that `root` refers to, without modules, classes and functions (code refers to everything)."""
    seen = set()
    waiting = [root]
    while waiting:
        current = waiting.pop()
        if id(current) in seen or isinstance(current, (types.ModuleType, type, types.FunctionType)):
            continue
        seen.add(id(current))
        yield current
        waiting.extend(gc.get_referents(current))
        if isinstance(current, np.ndarray) and current.base is not None:
            waiting.append(current.base)


def test_nothing_secret_is_reachable_from_a_server() -> None:
    program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(5, 6), "b": cb.secret(6, 4)}, algorithm="skewed")
    client = program.client()
    server = program.server(client.evaluation_keys())
    result = server.run(client.encrypt({"a": np.ones((5, 6)), "b": np.ones((6, 4))}))
    for public in (server, result, program):
        found = list(reachable(public))
        assert len(found) > 20
        assert not [item for item in found if isinstance(item, (SecretKey, cb.Client))]
    # The same walk finds the key where it is.
    assert [item for item in reachable(client) if isinstance(item, SecretKey)]


def test_nothing_secret_is_reachable_from_an_encryptor() -> None:
    program = cb.compile(lambda a: a @ a, {"a": cb.secret(4, 4, encryption="public-key")})
    client = program.client()
    encryptor = program.encryptor(client.public_key())
    encrypted = encryptor.encrypt({"a": np.eye(4)})["a"]
    secret = [array for array in reachable(client._secret) if isinstance(array, np.ndarray)]
    for public in (encryptor, encrypted):
        found = list(reachable(public))
        assert len(found) > 20
        assert not [item for item in found if isinstance(item, (SecretKey, cb.Client))]
        arrays = [item for item in found if isinstance(item, np.ndarray)]
        assert arrays and not any(np.may_share_memory(x, own) for x in arrays for own in secret)


def test_arrays_of_the_server_are_not_the_clients() -> None:
    """In one process too, no array of the server is a view of the secret's."""
    program = cb.compile(lambda a: a @ a, {"a": cb.secret(4, 4)})
    client = program.client()
    server = program.server(client.evaluation_keys())
    server.run(client.encrypt({"a": np.eye(4)}))
    secret = [array for array in reachable(client._secret) if isinstance(array, np.ndarray)]
    assert len(secret) >= 3
    for array in reachable(server):
        if isinstance(array, np.ndarray):
            assert not any(np.may_share_memory(array, own) for own in secret)


def test_runs_share_masks_but_not_the_values_of_clear_operands() -> None:
    program = cb.compile(
        lambda a, b, c: a @ b @ c,
        {"a": cb.public(5, 7), "b": cb.secret(7, 4), "c": cb.secret(4, 4)},
        precision=1e-3,
    )
    client = program.client()
    server = program.server(client.evaluation_keys())
    rng = np.random.default_rng(3)
    b, c = rng.uniform(-1, 1, (7, 4)), rng.uniform(-1, 1, (4, 4))
    secret = client.encrypt({"b": b, "c": c})
    for _ in range(3):
        a = rng.uniform(-1, 1, (5, 7))
        result = client.decrypt(server.run({"a": a, **secret}))
        assert np.abs(result - a @ b @ c).max() <= 1e-3 * 7 * 4
