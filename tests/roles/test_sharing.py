"""Sharing decrypted results: an attack that finds the secret key without it, the noise, the budget and its file."""

from __future__ import annotations

import math
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.roles import sharing
from cipherblas.roles.sharing import flooded
from cipherblas.runtime.values import Output

Vector = NDArray[np.float64]
ROUNDS = 14  # decrypted results that the server of the attack sees


@pytest.fixture(scope="module")
def program() -> cb.Program:
    """A row as long as the ring, so that a result shows every coefficient; the server chooses w and c."""
    length = 4096
    return cb.compile(
        lambda w, x, c: w @ x + c,
        {"w": cb.public(1, 1, bound=1, dtype="int8"), "x": cb.secret(1, length), "c": cb.public(1, length)},
        form="rows",
        ring_degree=length,
        precision=1e-8,
    )


@pytest.fixture
def client(program: cb.Program) -> cb.Client:
    return program.client()


class Attack:
    """A semi-honest server that computes what it is asked to, on operands c of its choice, and sees shown results.

    Its one encrypted operand is (b, a) with b + a·s = u, where u = Δ·x + e are integers. Results show u + Δ·c, rounded.
    It halves the interval of every u by the c that puts a boundary of the rounding into its middle, and solves
    a·s = u - b.
    """

    def __init__(self, program: cb.Program, client: cb.Client, step: float) -> None:
        self._program, self._step = program, step
        self.server = program.server(client.evaluation_keys())
        x = np.random.default_rng(3).uniform(-1, 1, (1, program.plan.parameters.n))
        self.operand = client.encrypt({"x": x})["x"]
        ((self._rows,),) = self.operand.feeds
        scale = self._rows.scale
        self.low, self.high = (np.full(x.size, sign * (1.01 * scale)) for sign in (-1, 1))
        self.estimates: list[Vector] = []

    def round(self, show: Callable[[cb.EncryptedResult], Vector]) -> None:
        """One run, and what its shown result tells."""
        scale, step = self._rows.scale, self._step * self._rows.scale
        middle = (self.low + self.high) / 2
        shift = np.rint((np.floor(middle / step) + 0.5) * step - middle)  # puts a boundary next to the middle
        shift = np.clip(shift, -scale, scale)
        c = (shift / scale).reshape(1, -1)
        result = self.server.run({"w": np.ones((1, 1), np.int8), "x": self.operand, "c": c})
        seen = np.rint(show(result).ravel() / self._step) * step
        self.estimates.append(seen - shift)
        self.low = np.maximum(self.low, seen - step / 2 - shift)
        self.high = np.minimum(self.high, seen + step / 2 - shift)

    def secret(self, u: Vector) -> NDArray[np.int64]:
        """s = (u - b)/a modulo the first prime, centred."""
        params, rows = self._program.plan.parameters, self._rows
        context, q = params.context(), params.q[0]
        right = np.array([(int(v) - int(b)) % q for v, b in zip(u, rows.b[0, 0], strict=True)], np.uint64)
        both = np.stack([right, rows.a[0, 0]])[None]
        transformed = np.asarray(context.rows_to_ntt(both))[:, 0].astype(object)
        quotient = [int(x) * pow(int(y), -1, q) % q for x, y in zip(*transformed, strict=True)]
        found = np.asarray(context.rows_from_ntt(np.array(quotient, np.uint64)[None, None]))[0, 0]
        return np.where(found > q // 2, found.astype(np.int64) - q, found.astype(np.int64))


def test_rounded_results_give_the_secret_key_away(program: cb.Program, client: cb.Client) -> None:
    """Without sharing: rounded to the precision of the plan, 14 results are enough."""
    attack = Attack(program, client, program.plan.error)
    for _ in range(ROUNDS):
        attack.round(client.decrypt)
    u = np.ceil(attack.low)
    assert (u <= attack.high).all()
    assert np.array_equal(attack.secret(u), client._secret.coefficients())


def test_shared_results_do_not(program: cb.Program, client: cb.Client) -> None:
    """The same attack, and the mean of all that it saw, miss every integer that it needs by far."""
    share = cb.Sharing(entries=ROUNDS * math.prod(program.shape))
    attack = Attack(program, client, program.plan.error)
    for _ in range(ROUNDS):
        attack.round(lambda result: client.decrypt(result, share=share))
    secret = client._secret.coefficients()
    rows = attack._rows
    truth = _phase(program, client, attack)
    for u in (np.ceil(attack.low), np.mean(attack.estimates, axis=0)):
        assert np.median(np.abs(u - truth)) > 1000 * program.plan.error * rows.scale
        assert np.mean(attack.secret(np.rint(u)) == secret) < 0.01
    with pytest.raises(cb.SecurityError, match="may still be shared"):
        attack.round(lambda result: client.decrypt(result, share=share))


def _phase(program: cb.Program, client: cb.Client, attack: Attack) -> Vector:
    """The true integers u."""
    zeros = np.zeros(program.shape)
    result = attack.server.run({"w": np.ones((1, 1), np.int8), "x": attack.operand, "c": zeros})
    return np.asarray(np.rint(client.decrypt(result).ravel() * attack._rows.scale))


def _small(**options: object) -> tuple[cb.Program, cb.Client, Callable[[], cb.EncryptedResult], Vector]:
    left = cb.public(3, 4) if options.get("form") == "rows" else cb.secret(3, 4)
    program = cb.compile(
        lambda a, b: a @ b, {"a": left, "b": cb.secret(4, 5)}, **{"precision": 1e-10, **options}
    )
    client = program.client()
    server = program.server(client.evaluation_keys())
    a, b = np.random.default_rng(1).uniform(-1, 1, (3, 4)), np.random.default_rng(2).uniform(-1, 1, (4, 5))
    operands = {"a": client.encrypt({"a": a})["a"] if left.secret else a, "b": client.encrypt({"b": b})["b"]}
    return program, client, lambda: server.run(operands), a @ b


@pytest.mark.parametrize("options", [{}, {"form": "rows"}, {"algorithm": "skewed", "precision": 1e-9}])
def test_shared_values_are_off_by_the_noise_and_rounded_to_it(options: dict[str, object]) -> None:
    program, client, run, expected = _small(**options)
    share = cb.Sharing(entries=15, bits=30)
    sigma = share.deviation(program)
    assert sigma == pytest.approx(math.sqrt(24 * 15) * 2**15 * program.worst_error)
    assert program.worst_error >= program.plan.error
    shared = client.decrypt(run(), share=share)
    step = 2.0 ** math.floor(math.log2(sigma))
    assert np.array_equal(shared, np.rint(shared / step) * step)
    assert (np.abs(shared - expected) <= 10 * sigma).all()
    assert np.abs(shared - expected).max() > sigma / 10


def test_a_network_is_shared() -> None:
    weights = np.random.default_rng(5).uniform(-0.1, 0.1, (10, 64))
    program = cb.compile(lambda x: weights @ x, {"x": cb.secret(64)}, precision=1e-9, form="tensors")
    client = program.client()
    x = np.random.default_rng(6).uniform(-1, 1, 64)
    result = program.server(client.evaluation_keys()).run(client.encrypt({"x": x}))
    share = cb.Sharing(entries=10)
    shared = client.decrypt(result, share=share)
    assert (np.abs(shared - weights @ x) <= 10 * share.deviation(program)).all()


def test_the_budget_holds() -> None:
    _, client, run, _ = _small()
    share = cb.Sharing(entries=40)
    first, second, third = run(), run(), run()
    # A run is deterministic: the same ciphertexts are the same result, whatever object holds them.
    client.decrypt(first, share=share)
    for again in (first, second):
        with pytest.raises(cb.SecurityError, match="shared before"):
            client.decrypt(again, share=share)
    other = _other(third)
    with pytest.raises(cb.MismatchError, match="budget of a key"):
        client.decrypt(other, share=cb.Sharing(entries=4000))
    with pytest.raises(cb.MismatchError, match="budget of a key"):
        client.decrypt(other, share=cb.Sharing(entries=40, bits=31))
    client.decrypt(other, share=share)
    with pytest.raises(cb.SecurityError, match="at most 10 of 40"):
        client.decrypt(_other(other), share=share)
    assert client.decrypt(first).shape == (3, 5)  # the owner may look as often as he likes


def _other(result: cb.EncryptedResult) -> cb.EncryptedResult:
    """The same values in other ciphertexts, as anyone can make them: a residue of the first polynomial is changed."""
    changed = [array.copy() for array in result.ciphertexts]
    q = np.array(result.parameters.q[: changed[0].shape[1]], np.uint64)[:, None]
    changed[0][0] = (
        changed[0][0] + np.uint64(1)
    ) % q  # in slots: 1 more in the constant coefficient of the message
    return replace(result, ciphertexts=tuple(changed))


def test_what_cannot_be_shared_is_refused_and_costs_nothing() -> None:
    program, client, run, _ = _small(precision=1e-3)
    with pytest.raises(cb.PrecisionError, match="finer precision"):
        client.decrypt(run(), share=cb.Sharing(entries=1 << 30))
    with pytest.raises(cb.DTypeError):
        client.decrypt(run(), share=1000)  # type: ignore[arg-type]
    assert client._record._here.budget.spent == 0
    assert program.worst_error > 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"entries": 0}, cb.ParameterError),
        ({"entries": 2**41}, cb.ParameterError),
        ({"entries": 10.5}, cb.DTypeError),
        ({"entries": "10"}, cb.DTypeError),
        ({"entries": math.nan}, cb.DTypeError),
        ({"entries": 10, "bits": 29}, cb.ParameterError),
        ({"entries": 10, "bits": 65}, cb.ParameterError),
    ],
)
def test_sharing_is_checked(arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        cb.Sharing(**arguments)  # type: ignore[arg-type]


def test_the_budget_is_spent_before_anything_is_decrypted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program, client, run, _ = _small()
    client.save(tmp_path / "key")
    result, share = run(), cb.Sharing(entries=15)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cb.Client, "_decrypted", crash)
        with pytest.raises(KeyboardInterrupt):
            client.decrypt(result, share=share)
    again = cb.Client.load(tmp_path / "key", program)
    with pytest.raises(cb.SecurityError, match="shared before"):
        again.decrypt(result, share=share)


def _full_disk(*_: object, **__: object) -> None:
    raise cb.StorageError("cannot write", got="No space left on device")


def test_a_budget_that_cannot_be_written_gives_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, client, run, _ = _small()
    client.save(tmp_path / "key")
    result = run()
    monkeypatch.setattr("cipherblas.crypto.files.write", _full_disk)
    monkeypatch.setattr(cb.Client, "_decrypted", lambda *_: pytest.fail("decrypted"))
    with pytest.raises(cb.StorageError):
        client.decrypt(result, share=cb.Sharing(entries=100))


def test_the_budget_goes_with_the_key_file(tmp_path: Path) -> None:
    """Spent in memory, saved, spent by another process, seen by the first one."""
    program, client, run, _ = _small()
    share = cb.Sharing(entries=45)
    first = run()
    second, third = _other(first), _other(_other(first))
    client.decrypt(first, share=share)
    client.save(tmp_path / "key")
    program.save(tmp_path / "program")
    second.save(tmp_path / "result")
    script = (
        "import sys, cipherblas as cb\n"
        "folder = sys.argv[1]\n"
        "program = cb.Program.load(folder + '/program')\n"
        "client = cb.Client.load(folder + '/key', program)\n"
        "result = cb.EncryptedResult.load(folder + '/result')\n"
        "client.decrypt(result, share=cb.Sharing(entries=45))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=120)
    assert (tmp_path / "key.record").stat().st_mode & 0o077 == 0
    for known in (first, second):
        with pytest.raises(cb.SecurityError, match="shared before"):
            client.decrypt(known, share=share)
    client.decrypt(third, share=share)
    for holder in (client, cb.Client.load(tmp_path / "key", program)):
        with pytest.raises(cb.SecurityError, match="at most 0 of 45"):
            holder.decrypt(_other(third), share=share)
    client.save(tmp_path / "copy")  # a copy knows what was spent
    with pytest.raises(cb.SecurityError, match="at most 0 of 45"):
        cb.Client.load(tmp_path / "copy", program).decrypt(_other(third), share=share)
    (tmp_path / "key.record").write_bytes(b"damaged")
    with pytest.raises(cb.FormatError):
        cb.Client.load(tmp_path / "key", program).decrypt(first)


def test_copies_of_a_key_that_meet_again_know_what_both_spent(tmp_path: Path) -> None:
    program, client, run, _ = _small()
    client.save(tmp_path / "one")
    copy = cb.Client.load(tmp_path / "one", program)
    copy.save(tmp_path / "two")
    first = run()
    second, third = _other(first), _other(_other(first))
    share = cb.Sharing(entries=45)
    client.decrypt(first, share=share)
    copy.decrypt(second, share=share)
    copy.save(tmp_path / "one")
    again = cb.Client.load(tmp_path / "one", program)
    again.decrypt(third, share=share)
    with pytest.raises(cb.SecurityError, match="at most 0 of 45"):
        again.decrypt(_other(third), share=share)


def test_a_key_written_over_another_leaves_no_foreign_record(tmp_path: Path) -> None:
    program, client, run, _ = _small()
    client.save(tmp_path / "key")
    client.decrypt(run(), share=cb.Sharing(entries=15))
    successor = program.client()
    successor.save(tmp_path / "key")
    loaded = cb.Client.load(tmp_path / "key", program)
    a, b = np.zeros((3, 4)), np.zeros((4, 5))
    result = program.server(loaded.evaluation_keys()).run(loaded.encrypt({"a": a, "b": b}))
    loaded.decrypt(result, share=cb.Sharing(entries=15))


def _share(folder: str, index: int, queue: multiprocessing.Queue[int]) -> None:
    program = cb.Program.load(f"{folder}/program")
    client = cb.Client.load(f"{folder}/key", program)
    result = cb.EncryptedResult.load(f"{folder}/{index}")
    try:
        client.decrypt(result, share=cb.Sharing(entries=30))
        queue.put(1)
    except cb.SecurityError:
        queue.put(0)


def test_processes_at_the_same_time_do_not_overspend(tmp_path: Path) -> None:
    program, client, run, _ = _small()
    program.save(tmp_path / "program")
    client.save(tmp_path / "key")
    result = run()
    for index in range(4):
        result.save(tmp_path / str(index))
        result = _other(result)
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[int] = context.Queue()
    workers = [context.Process(target=_share, args=(str(tmp_path), i, queue)) for i in range(4)]
    for worker in workers:
        worker.start()
    shared = sum(queue.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join()
    assert shared == 2


def test_a_refusal_of_what_is_shared_does_not_depend_on_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry may exceed its bound by the error of data that somebody chose, not of those that nobody did."""
    program, client, run, _ = _small()
    bound, plain, worst = program.results[0].bound, program.plan.error, program.worst_error
    assert worst > 2 * plain
    found = {"values": np.zeros(15)}
    monkeypatch.setattr(Output, "opened", lambda *_: found["values"])
    share, result = cb.Sharing(entries=45), run()
    for excess, owner, others in (
        (plain / 2, True, True),
        (worst - plain / 2, False, True),
        (2 * worst, False, False),
    ):
        found["values"] = np.full(15, bound + excess)
        result = _other(result)
        for allowed, options in ((owner, {}), (others, {"share": share})):
            if allowed:
                client.decrypt(result, **options)
            else:
                with pytest.raises(cb.RangeError, match="beyond its bound"):
                    client.decrypt(result, **options)


def test_noise_is_gaussian() -> None:
    """Moments, tails and correlation of what is added; steps are not seen where values are on them."""
    sigma, count = 1.5, 200_001
    noise = flooded(np.zeros(count), sigma) / sigma
    assert set(np.unique(noise * sigma) % 1.0) == {0.0}
    variance = 1 + 1 / 12 / sigma**2  # that of the rounding beside
    assert abs(noise.mean()) < 6 * math.sqrt(variance / count)
    assert noise.var() == pytest.approx(variance, rel=6 * math.sqrt(2 / count))
    assert abs(np.mean(noise[: count // 2] * noise[count // 2 : count // 2 * 2])) < 6 * variance / math.sqrt(
        count / 2
    )
    exact = sharing._normals(count)
    assert np.mean(np.abs(exact) > 3) == pytest.approx(0.0027, rel=0.3)
    assert np.abs(exact).max() < 9.43
    assert not np.array_equal(exact, sharing._normals(count))
    assert not np.signbit(noise[noise == 0]).any()
