"""Ciphertexts of large operands: expanded where a run uses them, those that a product takes once for it alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common import limits
from cipherblas.crypto.keys import FreshCiphertext
from cipherblas.engines import registry
from cipherblas.engines.cpu import CpuEngine
from cipherblas.evaluators.slots.lazy import LazyCiphertext, Streamable
from cipherblas.evaluators.slots.values import Ct
from cipherblas.planner.predict import dry_run
from cipherblas.rlwe.noise import SlotErrors
from cipherblas.roles import received
from tests.support.reference_engine import ReferenceEngine
from tests.support.runs import listed, toy

S = cb.secret
NAME = "reference, received"


def uniform(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


# Programs, and their operands that come to products which take each ciphertext once, and to nothing else.
PROGRAMS: dict[str, tuple[Callable[[], cb.Program], str]] = {
    "diagonals": (lambda: toy(lambda x, q: x @ q, x=S(5000, 12), q=S(12), algorithm="diagonals"), "x"),
    "row": (lambda: toy(lambda x, q: q @ x, x=S(12, 5000), q=S(12), algorithm="diagonals"), "x"),
    "twice": (lambda: toy(lambda x, q: x @ (q @ x), x=S(12, 12), q=S(12), algorithm="diagonals"), "x"),
    "two vectors": (lambda: toy(lambda x, q: x @ q, x=S(50, 12), q=S(12, 2), algorithm="diagonals"), ""),
    "also added": (
        lambda: toy(lambda x, q: (x @ q)[:12] + q, x=S(50, 12), q=S(12), algorithm="diagonals"),
        "x",
    ),
    "clear vector": (
        lambda: toy(lambda x, q: x @ q, x=S(5000, 12), q=cb.public(12), algorithm="diagonals"),
        "",
    ),
    "also elsewhere": (
        lambda: toy(lambda x, q: (x @ q, x), x=S(50, 12), q=S(12), algorithm="diagonals"),
        "",
    ),
    "a multiple, and itself": (
        lambda: toy(
            lambda x, q, r: (2 * x) @ q + x @ r, x=S(5000, 12), q=S(12), r=S(12), algorithm="diagonals"
        ),
        "",
    ),
    "with two vectors, one by one": (
        lambda: toy(lambda x, q, r: x @ q + x @ r, x=S(5000, 12), q=S(12), r=S(12), algorithm="diagonals"),
        "",
    ),
    "one after the other": (
        lambda: toy(lambda x, q: x @ (x.T @ q), x=S(60, 60), q=S(60), algorithm="diagonals"),
        "x",
    ),
    "with itself": (lambda: toy(lambda x, q: x * x + q, x=S(20, 100), q=S(20, 100)), ""),
    "with another": (lambda: toy(lambda x, q: x * q, x=S(20, 100), q=S(20, 100)), "xq"),
    "moved": (lambda: toy(lambda x, q: x @ q, x=S(8, 8), q=S(8, 8), algorithm="fame"), ""),
}


@pytest.fixture
def expansions(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """How often ciphertexts were expanded, by their seeds."""
    found: Counter[bytes] = Counter()
    lock, expand = threading.Lock(), FreshCiphertext.expand

    def counted(self: FreshCiphertext, into: Any = None, factor: int = 1) -> Any:
        with lock:
            found[self.seed or b""] += 1
        return expand(self, into, factor)

    monkeypatch.setattr(FreshCiphertext, "expand", counted)
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch, expansions: Counter[bytes]
) -> None:
    make, streamed = PROGRAMS[name]
    program = make()
    assert program.plan.streamed_bytes == 0  # it is small
    with monkeypatch.context() as small:
        small.setattr(dry_run, "KEPT_BYTES", 0)
        streamed_bytes = make().plan.streamed_bytes
    client = program.client()
    values = {name: uniform(3, *operand.shape) for name, operand in program.operands.items()}
    secret = {name: value for name, value in values.items() if program.operands[name].secret}
    sent = {**values, **client.encrypt(secret)}
    server = program.server(client.evaluation_keys())
    before = cb.threads()
    cb.set_threads(threads)
    try:
        usual = server.run(sent)
        counts = server.last.counts
        assert set(expansions.values()) == {1}
        expansions.clear()
        monkeypatch.setattr(received, "KEPT_BYTES", 0)
        monkeypatch.setattr(limits, "STREAMING_BYTES", 1)  # as few at a time as can be
        lent = server.run(sent)
        seconds = server.last.seconds
    finally:
        cb.set_threads(before)
    for own, other in zip(usual.ciphertexts, lent.ciphertexts, strict=True):
        np.testing.assert_array_equal(own, other)
    assert server.last.counts == counts
    assert seconds > 0
    feeds = [feed for one in streamed for feed in sent[one].feeds]  # type: ignore[union-attr]
    assert streamed_bytes == sum(2 * ct.data.nbytes for feed in feeds for ct in feed)
    large = [ct.seed for feed in sent["x"].feeds for ct in feed]  # type: ignore[union-attr]
    assert {expansions[seed] for seed in large} == {1}  # type: ignore[index]
    results = zip(
        listed(program, client.decrypt(lent)), listed(program, program.evaluate(values)), strict=True
    )
    assert max(np.abs(found - expected).max() for found, expected in results) <= program.plan.error


def test_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an operand that products take once no more is there at a time than they take."""
    program = PROGRAMS["diagonals"][0]()
    client = program.client()
    values = {name: uniform(3, *operand.shape) for name, operand in program.operands.items()}
    sent = client.encrypt(values)
    server = program.server(client.evaluation_keys())
    monkeypatch.setattr(received, "KEPT_BYTES", 0)
    monkeypatch.setattr(limits, "STREAMING_BYTES", 1)
    kept = []
    monkeypatch.setattr(
        received, "_expanded", lambda feed: kept.append(len(feed)) or [ct.expand() for ct in feed]
    )
    rooms = []
    once = received._Expanded.streamed
    monkeypatch.setattr(
        received._Expanded,
        "streamed",
        lambda self, room, factor: rooms.append(room.ctypes.data) or once(self, room, factor),
    )
    server.run(sent)
    assert kept == [len(sent["q"].feeds[0])]  # what is rotated
    assert len(rooms) == len(sent["x"].feeds[0])
    assert len(set(rooms)) <= limits.streaming_batch(sent["x"].nbytes)


def test_damage_is_found_by_the_product(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = PROGRAMS["diagonals"][0]()
    client = program.client()
    values = {name: uniform(3, *operand.shape) for name, operand in program.operands.items()}
    sent = client.encrypt(values)
    sent["x"].save(tmp_path / "x")
    data = bytearray((tmp_path / "x").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "x").write_bytes(data)
    sent["x"] = cb.EncryptedOperand.load(tmp_path / "x", lazy=True, insecure=True)
    monkeypatch.setattr(received, "KEPT_BYTES", 0)
    with pytest.raises(cb.FormatError):
        program.server(client.evaluation_keys()).run(sent)


def test_operands_of_a_public_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parts were sent: nothing is expanded, and nothing is copied."""
    program = toy(
        lambda x, q: x @ q,
        x=S(5000, 12, encryption="public-key"),
        q=S(12, encryption="public-key"),
        algorithm="diagonals",
    )
    client = program.client()
    values = {name: uniform(3, *operand.shape) for name, operand in program.operands.items()}
    sent = client.encrypt(values)
    server = program.server(client.evaluation_keys())
    usual = server.run(sent)
    monkeypatch.setattr(received, "KEPT_BYTES", 0)
    for own, other in zip(usual.ciphertexts, server.run(sent).ciphertexts, strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("right", ["secret-key", "public-key"])
@pytest.mark.parametrize("left", ["secret-key", "public-key"])
def test_exact_products(left: str, right: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left factors are made times t where a single product takes them once, and not where something else does."""
    options: dict[str, Any] = {"minimise": "server", "insecure": True, "security": 0, "ring_degree": 4096}
    operands = {
        "x": S(9000, modulus=1 << 64, encryption=left),
        "q": S(9000, modulus=1 << 64, encryption=right),
    }
    rng = np.random.default_rng(8)
    values = {name: rng.integers(0, 1 << 64, 9000, dtype=np.uint64) for name in operands}
    values["x"][:3], values["q"][:3] = [0, 2**64 - 1, 1 << 63], [2**64 - 1, 2**64 - 1, 1 << 63]
    for function in (lambda x, q: x * q, lambda x, q: x * q + q, lambda x, q: x * x + q):
        program = cb.compile(function, operands, **options)
        client = program.client()
        server, sent = program.server(client.evaluation_keys()), client.encrypt(values)
        with monkeypatch.context() as large:
            usual = server.run(sent)
            large.setattr(received, "KEPT_BYTES", 0)
            lent = server.run(sent)
        for own, other in zip(usual.ciphertexts, lent.ciphertexts, strict=True):
            np.testing.assert_array_equal(own, other)
        np.testing.assert_array_equal(client.decrypt(lent), function(**values))


def test_another_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENGINES", {registry.CPU: CpuEngine, NAME: ReferenceEngine})
    program = toy(lambda x, q: x @ q, x=S(20, 6), q=S(6), algorithm="diagonals")
    client = program.client()
    values = {name: uniform(3, *operand.shape) for name, operand in program.operands.items()}
    sent, keys = client.encrypt(values), client.evaluation_keys()
    usual = program.server(keys).run(sent)
    monkeypatch.setattr(received, "KEPT_BYTES", 0)
    lent = program.server(keys, engine=NAME).run(sent)
    for own, other in zip(usual.ciphertexts, lent.ciphertexts, strict=True):
        np.testing.assert_array_equal(own, other)


class _Made:
    """Counts how it was asked."""

    def __init__(self) -> None:
        self.kept = self.lent = 0

    def __call__(self) -> Any:
        self.kept += 1
        return np.ones(3)

    def streamed(self, room: Any, factor: int) -> Any:
        self.lent += 1
        room[:] = 1
        return room


def test_handles_stream_once() -> None:
    like = Ct(3, 1.0, 1.0, SlotErrors(0.0, 0.0), 2, None)
    like.stream()  # of those that are made already
    made, room = _Made(), np.zeros(3)
    assert isinstance(made, Streamable)
    handle = LazyCiphertext(like, made, lambda words: words)
    assert not handle.is_streamed()
    handle.stream()
    assert handle.is_streamed()
    assert handle.streamed(room) is room
    assert not handle.is_streamed()
    assert handle.streamed(room) is not room
    assert handle.data is handle.data
    assert (made.lent, made.kept) == (1, 1)
    handle.stream()
    assert not handle.is_streamed()
    handle = LazyCiphertext(like, lambda: np.ones(3), lambda words: words)
    handle.stream()
    assert not handle.is_streamed()
    handle.data = room
    assert handle.data is room


def test_expanding_counts_once() -> None:
    """However many threads do it."""
    clock = received._Clock()
    with clock, clock:
        with clock:
            pass
        assert clock.seconds == 0
    assert 0 < clock.seconds < 1
