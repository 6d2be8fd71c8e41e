"""Other orders of the tasks, and two threads, make the same ciphertexts, counts and keys as the local schedule."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto.keys import encrypt, generate_secret, make_evaluation_keys
from cipherblas.crypto.params import Parameters, _context, make_parameters
from cipherblas.evaluators.slots.encoder import PlainEncoder
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Plain
from cipherblas.forms.layouts import Layout
from cipherblas.methods.products import ALGORITHMS, build
from cipherblas.runtime import schedule
from cipherblas.runtime.graphs import blockwise_graph, product_graph
from tests.support.runs import Parties, toy
from tests.support.schedules import Shuffled, Workers

pytestmark = pytest.mark.encrypted

OTHERS: dict[str, Callable[[], Any]] = {
    **{f"shuffled {seed}": lambda seed=seed: Shuffled(seed) for seed in range(3)},
    "two workers": lambda: Workers(2),
}
S, P = cb.secret, cb.public
ROWS, INNER, COLS = 3, 2, 2  # blocks


def parameters(limbs: int = 5) -> Parameters:
    """INSECURE: a toy ring."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sizes = [50.0, 50.0] + [40.0] * (limbs - 2)
        return make_parameters(256, sizes, alpha=2, scale_bits=40.0, security=128, insecure=True)


def bits(results: list[list[list[list[Any]]]]) -> list[bytes]:
    return [
        np.ascontiguousarray(ct.data).tobytes()
        for grid in results
        for row in grid
        for cell in row
        for ct in cell
    ]


@pytest.mark.parametrize("clear", ["", "left", "right"])
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_products_of_every_method(name: str, clear: str, monkeypatch: pytest.MonkeyPatch) -> None:
    params = parameters()
    algorithm = build(name, 4, 5, 6, 128, {})
    secret, context, rng = generate_secret(params), params.context(), np.random.default_rng(2)
    graph = product_graph(algorithm, (ROWS, INNER), (INNER, COLS))

    def vectors(layout: Layout, blocks: int) -> list[list[Any]]:
        return [layout.pack(rng.uniform(-1, 1, (layout.rows, layout.cols))) for _ in range(blocks)]

    packed = {
        "left": vectors(algorithm.left_layout, ROWS * INNER),
        "right": vectors(algorithm.right_layout, INNER * COLS),
    }
    encrypted = {
        side: [
            [encrypt(secret, context.encode(v, 2.0**params.scale_bits)).expand() for v in block]
            for block in blocks
        ]
        for side, blocks in packed.items()
        if side != clear
    }

    def sources(ev: Any) -> list[Any]:
        def block(side: str, layout: Layout, number: int) -> list[Any]:
            bound = layout.slot_bound(1.0)
            if side == clear:
                return [Plain((side, number, i), v, bound) for i, v in enumerate(packed[side][number])]
            symbolic = isinstance(ev, Symbolic)
            return [ev.fresh(None if symbolic else data, bound=bound) for data in encrypted[side][number]]

        left = [
            [block("left", algorithm.left_layout, INNER * i + j) for j in range(INNER)] for i in range(ROWS)
        ]
        right = [
            [block("right", algorithm.right_layout, COLS * i + j) for j in range(COLS)] for i in range(INNER)
        ]
        if clear and isinstance(ev, Symbolic):  # the first stands for all
            grid = left if clear == "left" else right
            for plain in grid[0][0]:
                plain.blocks = len(grid) * len(grid[0])
        return [left, right]

    counter = Symbolic(params)
    planned = schedule.run(graph, counter, sources(counter))
    keys = make_evaluation_keys(secret, counter.request)
    encoded: list[int] = []
    encode = PlainEncoder.one
    monkeypatch.setattr(PlainEncoder, "one", lambda *given: encoded.append(1) or encode(*given))

    def native_run(how: schedule.Schedule) -> tuple[list[bytes], Native, int]:
        encoded.clear()
        ev = Native(params, keys)
        given = sources(ev)
        before = ev.ledger.live
        results = how(graph, ev, given, None)
        held = sum(ev.ct_bytes(ct) for row in results[0] for cell in row for ct in cell)
        assert ev.ledger.live - before == held + ev.run_bytes  # nothing else is alive
        return bits(results), ev, len(encoded)

    expected, local, encodings = native_run(schedule.local)
    assert local.counts == counter.counts
    if not clear:
        assert local.peak_bytes == counter.peak_bytes
    assert counter.ledger.live - counter.run_bytes == ROWS * COLS * sum(
        counter.ct_bytes(ct) for ct in planned[0][0][0]
    )
    for made in OTHERS.values():
        found, ev, encodings_there = native_run(made())
        assert found == expected
        assert ev.counts == local.counts
        assert ev.request == local.request == counter.request
        assert encodings_there == encodings  # of every mask and block one


PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "entrywise products": (
        lambda a, b, c: (a @ b) * c + (a @ b) * (a @ b) - c,
        {"a": S(6, 7), "b": S(7, 5), "c": S(6, 5)},
    ),
    "a chain with a re-arrangement": (
        lambda a, b, c: (a @ b) @ c * 2 + 0.5,
        {"a": S(7, 6), "b": S(6, 7), "c": S(7, 5), "algorithm": "skewed"},
    ),
    "clear factors": (
        lambda w, a, b: w @ (a @ b) + a @ b,
        {"w": P(6, 6), "a": S(6, 5), "b": S(5, 6), "algorithm": "outer-product"},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, arguments = PROGRAMS[name]
    program = toy(function, **{"ring_degree": None, **arguments}, block=3, form="blocks")
    rng = np.random.default_rng(5)
    values = {key: rng.uniform(-1, 1, operand.shape) for key, operand in program.operands.items()}
    parties = Parties(program)
    inputs = parties.inputs(values)
    expected = parties.server.run(inputs)
    counts = parties.server.last.counts
    assert np.abs(parties.client.decrypt(expected) - program.evaluate(values)).max() <= program.plan.error
    for made in OTHERS.values():
        how = made()
        monkeypatch.setitem(schedule.SCHEDULES, Native.schedule, how)
        found = parties.server.run(inputs)
        assert parties.server.last.counts == counts == program.plan.counts
        assert len(found.ciphertexts) == len(expected.ciphertexts) > 1
        for one, other in zip(found.ciphertexts, expected.ciphertexts, strict=True):
            assert np.array_equal(one, other)
        if isinstance(how, Workers):
            assert how.most == 2


def test_two_threads_in_a_context_that_nobody_used_before() -> None:
    """Its tables are made while both ask for them: many automorphisms, levels and base conversions."""
    params = parameters(limbs=6)
    secret, rng = generate_secret(params), np.random.default_rng(3)
    steps = list(range(1, 33))

    def work(ev: Any, block: list[Any]) -> list[Any]:
        (ct,) = block
        rotated = ev.rotate_many(ct, steps)
        total = ev.multiply_sum(rotated, rotated[::-1])
        return [ev.rescale(ev.relinearise(total)), ev.drop(rotated[3], 2), ev.conjugate(rotated[0])]

    graph = blockwise_graph("work", work, (4, 4))
    counter = Symbolic(params)
    planned = [[[counter.fresh(None, bound=1.0)]] * 4] * 4
    schedule.run(graph, counter, [planned])
    keys = make_evaluation_keys(secret, counter.request)
    coefficients = params.context().encode(rng.uniform(-1, 1, 128).astype(complex), 2.0**params.scale_bits)
    data = [encrypt(secret, coefficients).expand() for _ in range(16)]
    found = []
    for how in (Workers(2), Workers(4, 1), schedule.local):
        _context.cache_clear()
        ev = Native(params, keys)
        grid = [[[ev.fresh(data[4 * i + j], bound=1.0)] for j in range(4)] for i in range(4)]
        found.append(bits(how(graph, ev, [grid], None)))
        assert ev.counts == counter.counts
        assert ev.request == counter.request
    assert found[0] == found[1] == found[2]


def test_an_error_in_a_worker_is_raised() -> None:
    def work(ev: Any, block: int) -> int:
        if block == 5:
            raise ZeroDivisionError
        return block

    graph = blockwise_graph("work", work, (3, 3))
    grid = [[3 * i + j for j in range(3)] for i in range(3)]
    with pytest.raises(ZeroDivisionError):
        Workers(2)(graph, Native(parameters(), None), [grid], None)
