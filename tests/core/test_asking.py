"""Long calls of the core ask whether to go on: often enough, and on whatever threads; what is raised ends them."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import cipherblas as cb
import cipherblas._core as _core
from cipherblas.common.progress import asked
from cipherblas.distributed.communicator import Communicator, RankError
from cipherblas.distributed.in_process import run_ranks
from tests.support.runs import toy

PRIME = _core.primes(1024, 50, 1)[0]


def factors(size: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    left, right = (random.integers(0, PRIME, (size, size), np.uint64) for _ in range(2))
    return left, right


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = cb.threads()
    cb.set_threads(request.param)
    yield request.param
    cb.set_threads(before)


def test_calls_ask_and_end_by_what_is_raised(threads: int) -> None:
    left, right = factors(256)
    expected = _core.modular_gemm(left, right, PRIME)
    times: list[float] = []
    with asked(lambda: times.append(time.monotonic())):
        found = _core.modular_gemm(left, right, PRIME)
    assert times and np.array_equal(found, expected)
    number = len(times)

    def enough() -> None:
        raise TimeoutError

    with asked(enough), pytest.raises(TimeoutError):
        _core.modular_gemm(left, right, PRIME)
    assert np.array_equal(_core.modular_gemm(left, right, PRIME), expected)
    assert len(times) == number  # nobody is asked after the block


def test_other_threads_are_not_asked() -> None:
    left, right = factors(128)
    times: list[int] = []
    with asked(lambda: times.append(threading.get_ident())):
        other = threading.Thread(target=lambda: _core.modular_gemm(left, right, PRIME))
        other.start()
        other.join()
    assert times == []


@pytest.mark.slow
def test_half_a_second_is_the_most_between_two_questions() -> None:
    left, right = factors(2048)
    times = [time.monotonic()]
    with asked(lambda: times.append(time.monotonic())):
        _core.modular_gemm(left, right, PRIME)
    times.append(time.monotonic())
    assert max(np.diff(times)) <= 0.5


@pytest.mark.slow
def test_a_long_product_is_cancelled_within_a_second_and_its_memory_is_back() -> None:
    """2048 × 2048 × 2048, weights in the clear: many seconds of one step of the run."""
    weights = np.random.default_rng(1).uniform(-1, 1, (2048, 2048))
    program = cb.compile(lambda w, x: w @ x, {"w": cb.public(2048, 2048), "x": cb.secret(2048, 2048)})
    client = program.client()
    server = program.server(client.evaluation_keys())
    given = {"w": weights, **client.encrypt({"x": weights})}
    expected = server.run(given).digest
    gc.collect()
    _core.trim_pool()
    before, event, set_at = _core.pool_bytes(), threading.Event(), [0.0]

    def cancel() -> None:
        set_at[0] = time.monotonic()
        event.set()

    timer = threading.Timer(0.4, cancel)
    timer.start()
    with pytest.raises(cb.CancelledError, match="of 1 steps"):
        server.run(given, cancel=event)
    took = time.monotonic() - set_at[0]
    gc.collect()
    _core.trim_pool()
    assert event.is_set() and took <= 1.0
    assert _core.pool_bytes() <= before + (1 << 20)
    assert server.run(given, cancel=threading.Event()).digest == expected


def test_what_is_asked_may_compute_itself() -> None:
    left, right = factors(256)
    expected = _core.modular_gemm(left, right, PRIME)
    found: list[bool] = []

    def compute() -> None:
        found.append(np.array_equal(_core.modular_gemm(left, right, PRIME), expected))

    with asked(compute):
        assert np.array_equal(_core.modular_gemm(left, right, PRIME), expected)
    assert found and all(found)


def test_only_a_function_or_none_is_asked() -> None:
    with pytest.raises(TypeError):
        _core.set_ask(3)  # type: ignore[arg-type]
    _core.set_ask(None)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_each_rank_looks_at_its_own_event() -> None:
    program = toy(lambda w, x: w @ x, w=cb.public(12, 20), x=cb.secret(20, 16), form="rows")
    client = program.client()
    keys = client.evaluation_keys()
    given = {"w": np.ones((12, 20)), **client.encrypt({"x": np.ones((20, 16))})}
    event = threading.Event()
    event.set()

    def work(communicator: Communicator) -> str:
        server = program.server(keys, communicator=communicator)
        with pytest.raises((cb.CancelledError, RankError)) as ended:
            server.run(given, cancel=event if communicator.rank == 0 else None)
        return ended.type.__name__

    assert run_ranks(2, work)[0] == "CancelledError"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_ends_by_an_event() -> None:
    program = toy(lambda a, b: a @ b, a=cb.secret(5, 6), b=cb.secret(6, 4))
    client = program.client()
    server = program.server(client.evaluation_keys())
    given = client.encrypt({"a": np.eye(5, 6), "b": np.ones((6, 4))})
    event = threading.Event()
    expected = server.run(given, cancel=event)
    event.set()
    with pytest.raises(cb.CancelledError):
        server.run(given, cancel=event)
    assert server.run(given).digest == expected.digest
