"""What servers keep from run to run: what later runs can use, once per program, and counted in its plan."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.limits import MASK_BYTES, RUN_BYTES
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.encodings import Encodings, WeightStore
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.runtime.executor import Executor
from cipherblas.runtime.inputs import SymbolicInputs
from tests.support.clear_runs import evaluators_of
from tests.support.runs import toy

S, P = cb.secret, cb.public

RUNS = 30


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Toy rings are too small for more."""
    threads = cb.threads()
    cb.set_threads(1)
    yield
    cb.set_threads(threads)


def uniform(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def network() -> cb.Program:
    weights = uniform(1, 20, 40), uniform(2, 10, 20)
    return toy(lambda x: weights[1] @ cb.square(weights[0] @ x), x=S(40))


# Clear operands that are multiplied, added, prepared by masks, packed again; of matrices and of networks.
PROGRAMS = {
    "product": lambda: toy(lambda w, x: w @ x, w=P(12, 20), x=S(20, 16), algorithm="outer-product"),
    "blocks": lambda: toy(lambda w, x: w @ x, w=P(12, 20), x=S(20, 16), algorithm="outer-product", block=8),
    "prepared": lambda: toy(lambda w, x: x @ w, w=P(8, 8), x=S(8, 8), algorithm="e2dm"),
    "sum": lambda: toy(lambda w, x: x @ x + w, w=P(8, 8), x=S(8, 8), algorithm="fame"),
    "elementwise": lambda: toy(lambda w, x: (x @ x) * w - w, w=P(8, 8), x=S(8, 8), form="blocks"),
    "layers": lambda: toy(lambda w, b, x: cb.square(w @ x + b) * b, w=P(8, 12), b=P(8), x=S(12)),
}


def clear_operands(program: cb.Program, seed: int) -> dict[str, np.ndarray]:
    return {
        name: uniform(seed, *operand.shape)
        for name, operand in program.operands.items()
        if not operand.secret
    }


def held(server: cb.Server) -> int:
    """Bytes of what a server keeps."""
    return server._equipment.encodings.masks.nbytes + server._equipment.encodings.weights.memory_bytes


@pytest.mark.parametrize("name", PROGRAMS)
def test_clear_operands_that_change_leave_nothing_behind(name: str) -> None:
    program = PROGRAMS[name]()
    client = program.client()
    server = program.server(client.evaluation_keys())
    value = uniform(0, *program.operands["x"].shape)
    x = client.encrypt({"x": value})["x"]
    sizes = []
    for run in range(RUNS):
        clear = clear_operands(program, run)
        result = client.decrypt(server.run({"x": x, **clear}))
        assert np.abs(result - program.evaluate({"x": value, **clear})).max() <= program.plan.error
        sizes.append(held(server))
    assert set(sizes) == {sizes[0]}


def test_masks_stay() -> None:
    """They are made once, whatever clear operands came in between; a constant of the program is as good as a mask."""
    constant = uniform(3, 8, 8)
    program = toy(lambda w, x: (x @ x) * constant + w, w=P(8, 8), x=S(8, 8), algorithm="fame")
    client = program.client()
    server = program.server(client.evaluation_keys())
    x = client.encrypt({"x": uniform(0, 8, 8)})["x"]
    server.run({"x": x, "w": uniform(1, 8, 8)})
    masks = server._equipment.encodings.masks
    kept = dict(masks._arrays)
    assert any("constant" in str(key) for key in kept) and any("mask" in str(key) for key in kept)
    for run in range(3):
        server.run({"x": x, "w": uniform(run, 8, 8)})
    assert masks._arrays.keys() == kept.keys()
    assert all(masks._arrays[key] is array for key, array in kept.items())


def symbolic(program: cb.Program, mask_budget: int) -> Symbolic:
    """The counter after a run of a program in slots."""
    plan = program.plan
    counter = Symbolic(plan.parameters, key_policy=plan.key_policy, mask_budget=mask_budget)
    Executor(evaluators_of(counter), program.expression, plan.decided, SymbolicInputs()).run()
    return counter


@pytest.mark.parametrize("name", [*PROGRAMS, "network"])
def test_the_plan_counts_what_is_kept(name: str) -> None:
    """Masks and constants byte by byte; weights in whole pages."""
    program = network() if name == "network" else PROGRAMS[name]()
    client = program.client()
    server = program.server(client.evaluation_keys())
    x = client.encrypt({"x": uniform(0, *program.operands["x"].shape)})["x"]
    server.run({"x": x, **clear_operands(program, 0)})
    plan, masks = program.plan, server._equipment.encodings.masks
    counted = symbolic(program, plan.mask_budget)
    assert counted.mask_bytes == masks.nbytes
    assert masks.nbytes <= counted.peak_bytes <= program._run.working_bytes  # which a plan's peak holds
    assert symbolic(program, 0).mask_bytes == 0
    weights = server._equipment.encodings.weights
    assert plan.weight_memory_bytes <= weights.memory_bytes <= plan.weight_memory_bytes + 4096 * len(weights)


def test_what_is_kept_is_part_of_the_peak() -> None:
    """What does not fit the budget is needed for the one operation that uses it."""
    program = toy(lambda x: x @ x + (x @ x), x=S(32, 32), algorithm="fame")
    whole, none = (symbolic(program, budget) for budget in (MASK_BYTES, 0))
    assert whole.mask_bytes > 0
    assert none.peak_bytes < whole.peak_bytes <= none.peak_bytes + whole.mask_bytes


def test_a_budget_of_masks() -> None:
    """First come, first kept; a plan for little memory keeps less."""

    def array() -> np.ndarray:
        return np.zeros(10)

    masks = Encodings(2 * 80)
    first = masks.get("a", array)
    for key in "bcd":
        masks.get(key, array)
    assert masks.get("a", array) is first
    assert (len(masks), masks.nbytes) == (2, 160)
    masks.clear()
    assert (len(masks), masks.nbytes) == (0, 0)
    compiled = [
        toy(lambda x: x @ x, x=S(8, 8), algorithm="fame", memory_budget=budget)
        for budget in (800 << 20, 800 << 30)
    ]
    assert [program.plan.mask_budget for program in compiled] == [100 << 20, MASK_BYTES]
    assert RUN_BYTES <= MASK_BYTES


def test_two_servers_hold_weights_and_masks_once() -> None:
    program = network()
    clients = [program.client() for _ in range(2)]
    servers = [program.server(client.evaluation_keys()) for client in clients]
    x = uniform(0, 40)
    sizes, spent = [], []
    for client, server in zip(clients, servers, strict=True):
        result = client.decrypt(server.run(client.encrypt({"x": x})))
        assert np.abs(result - program.evaluate({"x": x})).max() <= program.plan.error
        sizes.append(held(server))
        spent.append(server.last.encoding_seconds)
    assert sizes[0] == sizes[1] > 0
    assert servers[0]._equipment.encodings.weights is servers[1]._equipment.encodings.weights
    assert servers[0]._equipment.encodings.masks is servers[1]._equipment.encodings.masks
    assert spent[0] > 0 == spent[1]


def test_a_program_that_is_loaded_again_shares(tmp_path: Any) -> None:
    program = network()
    program.save(tmp_path / "program")
    again = cb.Program.load(tmp_path / "program", insecure=True)
    keys = program.client().evaluation_keys()
    first, second = program.server(keys), again.server(keys)
    assert first._equipment.encodings.weights is second._equipment.encodings.weights
    other = program.server(keys, weight_budget=0, weight_folder=tmp_path)
    assert other._equipment.encodings.weights is not first._equipment.encodings.weights
    assert other._equipment.encodings.masks is first._equipment.encodings.masks


def test_encodings_go_with_the_program_and_its_servers() -> None:
    program = network()
    client = program.client()
    keys, x = client.evaluation_keys(), client.encrypt({"x": uniform(0, 40)})["x"]
    server = program.server(keys)
    server.run({"x": x})
    weights = weakref.ref(server._equipment.encodings.weights)
    del server
    gc.collect()
    assert weights() is not None  # the next client's server finds them
    server = program.server(keys)
    server.run({"x": x})
    assert server.last.encoding_seconds == 0
    del program, client
    gc.collect()
    assert weights() is not None
    del server
    gc.collect()
    assert weights() is None


def test_constants_of_other_shapes_are_another_program() -> None:
    """Equal values in equal graphs, but filters of 1×4 and of 4×1: nothing of one may serve the other."""
    filters = uniform(0, 4)
    programs = [
        toy(lambda x, shape=shape: cb.conv2d(x, filters.reshape(shape)), x=S(1, 8, 8))
        for shape in ((1, 1, 1, 4), (1, 1, 4, 1))
    ]
    assert programs[0].id != programs[1].id


@pytest.mark.parametrize("fresh", [True, False])
def test_servers_in_threads(fresh: bool) -> None:
    """Several clients of one program at once, the first weights being encoded by one of them."""
    program = network()
    x = [uniform(seed, 40) for seed in range(4)]
    clients = [program.client() for _ in x]
    servers = [program.server(client.evaluation_keys()) for client in clients]
    operands = [client.encrypt({"x": value})["x"] for client, value in zip(clients, x, strict=True)]
    if not fresh:
        servers[0].run({"x": operands[0]})
    start = threading.Barrier(len(x))
    results: list[Any] = [None] * len(x)

    def work(number: int) -> None:
        start.wait()
        for _ in range(3):
            results[number] = servers[number].run({"x": operands[number]})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(x))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client, value, result in zip(clients, x, results, strict=True):
        assert np.abs(client.decrypt(result) - program.evaluate({"x": value})).max() <= program.plan.error
    weights = servers[0]._equipment.encodings.weights
    before = weights.memory_bytes
    alone = WeightStore()
    for key in weights._arrays:
        alone.make(key, weights._arrays[key].shape, lambda block: None)
    assert before == alone.memory_bytes  # nothing was encoded twice


def test_one_thread_encodes_what_several_ask_for() -> None:
    store = WeightStore(1 << 20)
    calls: list[int] = []
    entered, go = threading.Event(), threading.Event()

    def fill(block: np.ndarray) -> None:
        entered.set()
        go.wait(30)
        calls.append(1)
        block[:] = 7

    found: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: found.append(store.make("key", (16,), fill))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    assert entered.wait(30)
    go.set()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert all(array is found[0] for array in found) and (found[0] == 7).all()
    assert not found[0].flags.writeable


def test_what_was_not_filled_is_tried_again() -> None:
    """The room of weights whose encoding was broken off is used for the next ones."""
    store = WeightStore(1 << 20)

    def broken(block: np.ndarray) -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            store.make("key", (16,), broken)
        assert store.get("key") is None and len(store) == 0
    store.make("key", (16,), lambda block: block.fill(1))
    assert store.memory_bytes == 4096
    store.clear()
    assert store.memory_bytes == 0


def test_memory_that_masks_of_earlier_runs_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are part of the plan's peak, and are not asked for twice; where memory is short they go first."""
    from cipherblas.common import limits

    program = toy(lambda x: x @ x, x=S(8, 8), algorithm="fame")
    client = program.client()
    keys, x = client.evaluation_keys(), client.encrypt({"x": uniform(0, 8, 8)})["x"]
    server = program.server(keys)
    server.run({"x": x})
    masks = server._equipment.encodings.masks
    kept, needed = masks.nbytes, program.plan.peak_bytes - keys.nbytes
    assert kept > 0
    monkeypatch.setattr(limits, "available_memory", lambda: needed - kept)
    server.run({"x": x})
    assert masks.nbytes == kept
    monkeypatch.setattr(limits, "available_memory", lambda: needed - masks.nbytes - 1)
    rotations = server.last.counts.rotations
    result = server.run({"x": x})  # nothing is kept where that alone is too much
    assert masks.nbytes == 0
    assert server.last.counts.rotations == rotations
    assert np.abs(client.decrypt(result) - uniform(0, 8, 8) @ uniform(0, 8, 8)).max() < 1e-2
    least = program.least_bytes - keys.nbytes
    assert 0 < needed - least <= kept + kept // 8
    monkeypatch.setattr(limits, "available_memory", lambda: least - 1)
    with pytest.raises(cb.MemoryBudgetError):
        server.run({"x": x})


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells what of files is in memory")
def test_weights_in_a_file_leave_the_memory_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    part, count = 8 << 20, 12
    for name in ("SEGMENT_BYTES", "RESIDENT_BYTES"):
        monkeypatch.setattr(f"cipherblas.engines.encodings.{name}", 2 * part)
    store, before = WeightStore(0), resident_file_bytes()
    for number in range(count):
        store.make(number, (part // 8,), lambda block, number=number: block.fill(number))
    for number in range(count):
        assert (store.get(number) == number).all()
        assert resident_file_bytes() - before <= 3 * part
    assert store.file_bytes == count * part
    store.clear()
    store.make("again", (part // 8,), lambda block: block.fill(3))
    assert (store.get("again") == 3).all()


def test_calls_read_a_part_of_many_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many bytes that those of one call stay in memory; what they make is the same."""
    read: list[int] = []
    weighted_sums = CpuEngine.weighted_sums

    def counted(engine: CpuEngine, weights: Any, terms: Any, cts: Any) -> Any:
        read.append(sum(each.nbytes for each in weights))
        return weighted_sums(engine, weights, terms, cts)

    monkeypatch.setattr(CpuEngine, "weighted_sums", counted)
    program = network()
    client = program.client()
    x, server = (
        client.encrypt({"x": uniform(0, 40)}),
        program.server(client.evaluation_keys(), weight_budget=0),
    )
    whole = client.decrypt(server.run(x))
    together, read[:] = list(read), []
    monkeypatch.setattr("cipherblas.evaluators.slots.native.RESIDENT_BYTES", 0)
    assert (client.decrypt(server.run(x)) == whole).all()
    assert sum(read) == sum(together) == program.plan.counts.stored_bytes
    assert len(read) > len(together)


def resident_file_bytes() -> int:
    """What the process holds in memory of files that it has mapped."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    return 1024 * (int(found["RssFile"]) + int(found["RssShmem"]))
