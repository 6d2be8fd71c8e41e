"""Runs of one server: each has its own counts and result, several go at once, and another thread can end one."""

from __future__ import annotations

import gc
import json
import pickle
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.process import PeakMemory, peak_bytes
from tests.support.runs import toy

S, P = cb.secret, cb.public


def chain() -> cb.Program:
    return toy(lambda a, b: a @ b, a=S(24, 24), b=S(24, 24), form="blocks", block=8)


def rows() -> cb.Program:
    return toy(lambda w, x: w @ x, w=P(12, 20), x=S(20, 16), form="rows")


def network() -> cb.Program:
    weights = np.random.default_rng(1).uniform(-1, 1, (10, 40))
    return toy(lambda x: cb.square(weights @ x), x=S(40))


def operands(program: cb.Program, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(-1, 1, one.shape) for name, one in program.operands.items()}


def sent(program: cb.Program, client: cb.Client, values: dict[str, np.ndarray]) -> dict[str, object]:
    secret = {name: values[name] for name, one in program.operands.items() if one.secret}
    return {**values, **client.encrypt(secret)}


@pytest.mark.parametrize("make", [chain, rows, network])
def test_runs_at_once_are_those_one_after_the_other(make: object) -> None:
    program = make()  # type: ignore[operator]
    client = program.client()
    server = program.server(client.evaluation_keys())
    given = [sent(program, client, operands(program, seed)) for seed in range(6)]
    alone = [server.run(one) for one in given]
    counts = server.last.counts
    runs = [server.prepare(one) for one in given]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda run: run.result(), runs))
    for one, other in zip(alone, found, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one.ciphertexts, other.ciphertexts, strict=True))
    assert all(run.report.counts == counts for run in runs)
    assert all(run.report.seconds > 0 and run.done == run.total > 0 for run in runs)
    assert server.last in [run.report for run in runs]
    assert [one.report for one in found] == [run.report for run in runs]
    assert len({id(one.report) for one in (*alone, *found)}) == 12  # each run has its own


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("make", [chain, rows, network])
def test_a_result_has_the_facts_of_its_run(make: object) -> None:
    program = make()  # type: ignore[operator]
    client = program.client()
    result = program.server(client.evaluation_keys()).run(sent(program, client, operands(program, 0)))
    report, plan = result.report, program.plan
    assert report is not None
    assert report.counts == report.predicted.counts == plan.counts
    assert 0 < report.seconds == result.seconds and report.predicted.seconds == plan.seconds
    assert report.predicted.peak_bytes == plan.peak_bytes
    assert 1 << 20 < report.peak_bytes <= peak_bytes()
    assert sum(one.seconds for one in report.node_seconds) > 0
    again = json.loads(json.dumps(report.to_dict()))
    assert again["counts"] == plan.counts.to_dict() == again["predicted"]["counts"]
    assert len(again["node_seconds"]) == len(report.node_seconds)
    assert "predicted" in str(report)
    assert pickle.loads(pickle.dumps(result)).report == report
    assert cb.EncryptedResult.from_bytes(result.to_bytes(), insecure=True).report is None


def test_the_peak_of_a_run_is_not_that_of_the_process() -> None:
    block = bytearray(b"1") * (192 << 20)  # what a run before took
    del block
    watch, most = PeakMemory(), peak_bytes()
    block = bytearray(b"1") * (48 << 20)
    time.sleep(0.02)
    watch.look()
    del block
    found = watch.peak()
    assert 48 << 20 < found < most - (96 << 20)
    larger = np.ones(most // 8 + (8 << 20))
    assert PeakMemory().peak() >= larger.nbytes
    del larger
    assert watch.peak() == peak_bytes() > most


def test_a_run_is_cancelled_from_another_thread() -> None:
    program = chain()
    client = program.client()
    server = program.server(client.evaluation_keys())
    given = sent(program, client, operands(program, 0))
    begun, go = threading.Event(), threading.Event()

    def wait(done: int, total: int) -> None:
        begun.set()
        assert go.wait(60)

    run = server.prepare(given)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(run.result, wait)
        assert begun.wait(60)
        run.cancel()
        go.set()
        with pytest.raises(cb.CancelledError, match="cancelled"):
            result.result(60)
    assert 0 < run.done < run.total
    assert server.last.seconds == 0
    expected = server.run(given)  # the server goes on as if nothing had been
    assert server.last.seconds > 0
    values = operands(program, 0)
    assert np.abs(client.decrypt(expected) - values["a"] @ values["b"]).max() < 0.1


def test_a_server_and_its_operands_go_with_their_last_name() -> None:
    """Without a search for circles: keys are large, and so are operands, which a server does not keep."""
    program = chain()
    client = program.client()
    given = sent(program, client, operands(program, 0))
    server = program.server(client.evaluation_keys())
    run = server.prepare(given)
    run.result()
    watched = [weakref.ref(one) for one in (server, server._equipment.keys, run, given["a"])]
    gc.collect()
    gc.disable()
    try:
        del run, given
        assert [one() is None for one in watched] == [False, False, True, True]
        del server
        assert all(one() is None for one in watched)
    finally:
        gc.enable()


def test_operands_are_checked_before_a_run_is_computed() -> None:
    program = chain()
    client = program.client()
    server = program.server(client.evaluation_keys())
    with pytest.raises(cb.MismatchError, match="not those of the program"):
        server.prepare({})
