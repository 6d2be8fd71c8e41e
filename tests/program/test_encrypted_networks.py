"""Whole networks on real ciphertexts: within the predicted error, counts as planned, in files, by either form."""

from __future__ import annotations

import errno
import gc
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.engines import encodings
from cipherblas.lang.operands import Operand
from tests.support.runs import Parties, Run, lasting, run, run_by_files, toy, values_of

RNG = np.random.default_rng(8)
BINARY = {"key_policy": "binary"}


def array(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape)


def checked(program: cb.Program) -> Run:
    return run(program, values_of(program)).check()


def classifier(x: Any) -> Any:
    """A strided convolution, pooling, a dense layer; the activation is a polynomial."""
    x = cb.conv2d(x, array(4, 2, 3, 3) / 18, array(4), stride=2, padding=1)
    x = cb.polynomial(x, [0.1, 0.5, 0.25])
    x = cb.avg_pool2d(cb.conv2d(x, array(4, 2, 3, 3) / 18, padding="same", groups=2), 2)
    return cb.matvec(array(10, 4 * 3 * 3) / 6, cb.flatten(x)) + array(10)


def residual(x: Any) -> Any:
    """Branches in different layouts, units and levels."""
    left = cb.conv2d(x, array(4, 2, 3, 3), stride=2, padding=1)
    right = cb.avg_pool2d(cb.conv2d(x, array(4, 2, 1, 1)), 2) * -3.7
    return cb.square(left + right) - left


S = cb.secret
NETWORKS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "classifier": (classifier, {"x": S(2, 12, 12)}),
    "classifier, binary": (classifier, {"x": S(2, 12, 12), **BINARY}),
    "residual": (residual, {"x": S(2, 8, 8, bound=0.3)}),
    "two inputs": (lambda x, y: cb.conv2d(x, array(3, 2, 2, 2)) * y - y, {"x": S(2, 5, 5), "y": S(3, 4, 4, bound=7.0)}),
    "several ciphertexts": (lambda x: cb.conv2d(x, array(24, 5, 3, 3), None, 2, 1, 4), {"x": S(20, 16, 16)}),
    "image in segments": (lambda x: cb.avg_pool2d(cb.conv2d(x, array(2, 2, 3, 3), padding=1), 2), {"x": S(2, 50, 64)}),
    "depthwise": (lambda x: cb.conv2d(x, array(8, 1, 3, 2), array(8), (2, 1), (1, 0), 8), {"x": S(8, 9, 7)}),
    "pooling with padding": (lambda x: cb.avg_pool2d(cb.square(x), 3, 2, 1), {"x": S(3, 8, 8)}),
    "wider computed image": (lambda x: cb.conv2d(cb.square(x), array(3, 2, 3, 3), padding=2), {"x": S(2, 8, 8)}),
    "one pixel": (lambda x: cb.conv2d(x, array(2, 1, 3, 3), padding=1), {"x": S(1, 1, 1)}),
    "long vector, one row": (lambda x: array(1, 5000) @ x, {"x": S(5000), "form": "tensors"}),
    "long vector, binary": (lambda x: array(9, 5000) @ x, {"x": S(5000), "form": "tensors", **BINARY}),
    "one column": (lambda x: array(5000, 1) @ x, {"x": S(1), "form": "tensors"}),
    "vector times matrix": (lambda x, w: cb.square(x) @ w, {"x": S(5), "w": cb.public(5, 3)}),
    "nothing but a view": (cb.flatten, {"x": S(3, 9, 8)}),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_within_its_promises(name: str) -> None:
    function, arguments = NETWORKS[name]
    checked(toy(function, **arguments))


def test_a_secure_ring() -> None:
    """The default parameters: nothing is INSECURE, which would warn."""
    program = cb.compile(lambda x: cb.square(cb.conv2d(x, array(2, 1, 3, 3), padding=1)), {"x": S(1, 8, 8)})
    checked(program)


def test_threads() -> None:
    """As many as there are: equal results bit for bit."""
    program = toy(classifier, x=S(2, 12, 12))
    client, before = program.client(), cb.threads()
    server = program.server(client.evaluation_keys())
    x = client.encrypt(values_of(program))
    results = []
    try:
        for count in (1, 2):
            cb.set_threads(count)
            results.append(server.run(x).ciphertexts)
    finally:
        cb.set_threads(before)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_public_weights_change_from_run_to_run() -> None:
    """Filters, matrices, addends and factors that are operands."""

    def function(x: Any, filters: Any, w: Any, b: Any) -> Any:
        return w @ cb.flatten(cb.conv2d(x, filters, padding=1) * b + b)

    clear = {"filters": cb.public(3, 2, 3, 3), "w": cb.public(4, 3 * 5 * 5), "b": cb.public(3, 5, 5)}
    program = toy(function, x=S(2, 5, 5), **clear)
    parties = Parties(program)
    for seed in range(3):
        gc.collect()
        parties.run(values_of(program, seed)).check()


@pytest.mark.parametrize("form", ["tensors", "rows"])
def test_vectors_by_either_form(form: Any) -> None:
    program = toy(lambda x, w: w @ x - array(40, 30) @ x + array(40), x=S(30), w=cb.public(40, 30), form=form)
    assert program.plan.form == form
    assert program.shape == (40,)
    checked(program)


def test_the_slower_form_is_named() -> None:
    program = toy(lambda x: array(40, 30) @ x, x=S(30))
    loser = {"tensors": "gemm", "rows": "metakernel"}[program.plan.form]
    assert [row.algorithm for row in program.plan.rejected] == [loser]
    assert loser in program.explain()
    checked(program)


@pytest.mark.parametrize("form", ["tensors", "rows"])
def test_public_key(form: Any) -> None:
    """Whoever has the public key encrypts; the plan knows the larger error."""
    operand = S(30, encryption="public-key")
    program = toy(lambda x: array(20, 30) @ x, x=operand, form=form)
    (sent,) = checked(program).sent.values()
    assert sent.encryption == "public-key"


def test_public_key_of_an_image() -> None:
    program = toy(lambda x: cb.square(cb.conv2d(x, array(2, 2, 3, 3))), x=S(2, 6, 6, encryption="public-key"))
    checked(program)


@pytest.mark.filterwarnings("ignore:The parameters are insecure")
def test_files(tmp_path: Path) -> None:
    """Client and server share files alone; the loaded program is the same to the last number."""
    made = toy(classifier, x=S(2, 12, 12))
    run_by_files(made, values_of(made), tmp_path).check()
    program = cb.Program.load(tmp_path / "program", insecure=True)
    assert program.explain().splitlines() == lasting(made)


# --- stored weights ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program() -> cb.Program:
    return toy(lambda x: array(20, 200) @ cb.square(array(200, 40) @ x), x=S(40))


@pytest.fixture(scope="module")
def client(program: cb.Program) -> cb.Client:
    return program.client()


def bytes_of(results: cb.EncryptedResult) -> list[bytes]:
    return [array.tobytes() for array in results.ciphertexts]


def test_a_second_run_encodes_nothing(program: cb.Program, client: cb.Client) -> None:
    server = program.server(client.evaluation_keys())
    x = client.encrypt(values_of(program))
    first = server.run(x)
    assert server.last.encoding_seconds > 0
    stored = server._equipment.encodings.weights.memory_bytes
    again = server.run(x)
    assert server.last.encoding_seconds == 0
    assert server._equipment.encodings.weights.memory_bytes == stored > 0
    assert bytes_of(first) == bytes_of(again)


@pytest.mark.parametrize("budget", [0, 1 << 20])
def test_weights_beyond_the_budget_stream_from_a_file(
    program: cb.Program, client: cb.Client, tmp_path: Path, budget: int
) -> None:
    keys, x = client.evaluation_keys(), client.encrypt(values_of(program))
    expected = bytes_of(program.server(keys).run(x))
    server = program.server(keys, weight_budget=budget, weight_folder=tmp_path)
    for _ in range(2):
        assert bytes_of(server.run(x)) == expected
    assert server.last.encoding_seconds == 0
    weights = server._equipment.encodings.weights
    assert weights.memory_bytes <= budget
    assert weights.file_bytes > 0
    assert (weights.memory_bytes > 0) == (budget > 0)
    assert not list(tmp_path.iterdir())  # the file has no name


@pytest.mark.parametrize("part", [0.0, 0.6])
def test_weights_that_no_disk_holds_are_encoded_in_every_run(
    program: cb.Program, client: cb.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: float
) -> None:
    keys, x = client.evaluation_keys(), client.encrypt(values_of(program))
    other = program.server(keys, weight_budget=0)
    expected = bytes_of(other.run(x))
    whole = other._equipment.encodings.weights.file_bytes
    monkeypatch.setattr(encodings, "DISK_SHARE", part * whole / shutil.disk_usage(tmp_path).free)
    server = program.server(keys, weight_budget=0, weight_folder=tmp_path)
    for _ in range(2):
        assert bytes_of(server.run(x)) == expected
    weights = server._equipment.encodings.weights
    assert server.last.encoding_seconds == 0  # a part of the run
    assert weights.file_bytes < whole
    assert (weights.file_bytes > 0) == (len(weights) > 0) == (part > 0)


def test_a_folder_that_is_not_there(program: cb.Program, client: cb.Client, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    server = program.server(client.evaluation_keys(), weight_budget=0, weight_folder=missing)
    with pytest.raises(cb.StorageError, match=r"temporary file .expected \d+ bytes of disk, got .*missing"):
        server.run(client.encrypt(values_of(program)))


def test_a_full_disk(
    program: cb.Program, client: cb.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before anything is written; what was refused once may succeed later."""
    server = program.server(client.evaluation_keys(), weight_budget=0, weight_folder=tmp_path)
    x = client.encrypt(values_of(program))

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(encodings.os, "posix_fallocate", full)
        with pytest.raises(cb.StorageError, match=r"got .*No space left"):
            server.run(x)
    assert server._equipment.encodings.weights.file_bytes == 0
    result = client.decrypt(server.run(x))
    assert np.abs(result - program.evaluate(values_of(program))).max() <= program.plan.error


def test_servers_do_not_mix_their_weights() -> None:
    """Two programs of the same shape, one after the other in one process."""
    for factor in (1.0, -0.5):
        weights = factor * np.random.default_rng(0).uniform(-1, 1, (20, 30))
        checked(toy(lambda x, w=weights: w @ cb.square(x), x=S(30)))


def test_operands_of_layers_are_described() -> None:
    program = toy(classifier, x=S(2, 12, 12))
    assert program.operands == {"x": Operand((2, 12, 12), True, 1.0)}
    assert "conv2d" in program.explain()
    assert "metakernel" in program.explain()
