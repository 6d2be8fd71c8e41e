"""A program is a list: any order that respects what instructions read, on one thread or two, makes the same words."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.evaluators.slots.values import Ct
from cipherblas.planner.predict.dry_run import counted_evaluators
from cipherblas.roles import one_run
from cipherblas.runtime.listing import At, Listing, Replay, RunContext
from cipherblas.runtime.values import Cells
from tests.support.replays import OnTwoThreads, Shuffled
from tests.support.runs import Parties, toy, toy_rows, values_of

S, P = cb.secret, cb.public
RNG = np.random.default_rng(3)
WEIGHTS = RNG.uniform(-0.2, 0.2, (10, 24))
FILTERS = RNG.uniform(-0.5, 0.5, (2, 1, 3, 3))


def several() -> cb.Program:
    def program(a: Any, b: Any, c: Any) -> Any:
        product = a @ b
        return {"sum": product + c, "both": product * c, "other": b @ c, "turned": (a @ c).T}

    return toy(program, a=S(12, 12), b=S(12, 12), c=S(12, 12), form="blocks", block=6)


def chain() -> cb.Program:
    return toy(lambda a, b, c: (a @ b) @ c + 2 * a, a=S(16, 16), b=S(16, 16), c=S(16, 16), form="blocks")


def clear() -> cb.Program:
    return toy(lambda w, x: (w @ x) * x + w, w=P(12, 12), x=S(12, 12), form="blocks", block=4)


def polynomials() -> cb.Program:
    return toy(lambda x, y: cb.sigmoid(x) * y + cb.square(y), x=S(8, 8), y=S(8, 8), form="blocks")


def refreshed() -> cb.Program:
    options: dict[str, Any] = {"block": 3, "ring_degree": 4096, "precision": 0.05}
    return toy(lambda a, b: cb.refresh(a @ b) * b, a=S(6, 6), b=S(6, 6), **options)


def network() -> cb.Program:
    return toy(lambda x: cb.square(WEIGHTS @ x) + 0.5, x=S(24))


def image() -> cb.Program:
    return toy(lambda x: cb.avg_pool2d(cb.square(cb.conv2d(x, FILTERS)), 2), x=S(1, 8, 8))


def rows() -> cb.Program:
    def program(w: Any, x: Any, y: Any) -> Any:
        return {"p": w @ x + y, "q": (w @ x) @ w, "r": y * 3}

    return toy_rows(program, w=P(12, 12), x=S(12, 12), y=S(12, 12))


def secret_rows() -> cb.Program:
    return toy_rows(lambda x, y: (x @ y, x.T @ x), x=S(12, 12), y=S(12, 12))


def mixed() -> cb.Program:
    return toy(lambda x, y: (x @ y) * x, x=S(16, 16), y=P(16, 16), form="mixed")


PROGRAMS = [several, chain, clear, polynomials, refreshed, network, image, rows, secret_rows, mixed]


@pytest.mark.encrypted
@pytest.mark.parametrize("make", PROGRAMS)
def test_other_orders_and_threads_make_the_same_words(
    make: Callable[[], cb.Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    parties = Parties(make())
    inputs, server = parties.inputs(values_of(parties.program)), parties.server
    expected, counts = server.run(inputs), server.last.counts
    assert counts == parties.program.plan.counts
    monkeypatch.setattr(Shuffled, "orders", [])
    for seed, replay in enumerate([Shuffled, Shuffled, OnTwoThreads]):
        monkeypatch.setattr(Shuffled, "seed", seed)
        monkeypatch.setattr(one_run, "Replay", replay)
        found = server.run(inputs)
        assert all(map(np.array_equal, found.ciphertexts, expected.ciphertexts))
        assert server.last.counts == counts
    assert all(sorted(order) == list(range(len(parties.program.listing))) for order in Shuffled.orders)


@pytest.mark.encrypted
def test_orders_differ_and_threads_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parties = Parties(several())
    inputs = parties.inputs(values_of(parties.program))
    monkeypatch.setattr(Shuffled, "orders", [])
    monkeypatch.setattr(OnTwoThreads, "most", 0)
    for seed in range(3):
        monkeypatch.setattr(Shuffled, "seed", seed)
        monkeypatch.setattr(one_run, "Replay", Shuffled)
        parties.server.run(inputs)
    monkeypatch.setattr(one_run, "Replay", OnTwoThreads)
    parties.server.run(inputs)
    assert len(set(map(tuple, Shuffled.orders))) > 1
    assert OnTwoThreads.most == 2


@pytest.mark.encrypted
def test_an_instruction_that_reads_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backwards(Replay):
        def _run(self) -> None:
            for one in reversed(self.listing.instructions):
                self.finish(one, self.compute(one, self.context))

    parties = Parties(chain())
    monkeypatch.setattr(one_run, "Replay", Backwards)
    with pytest.raises(KeyError):
        parties.server.run(parties.inputs(values_of(parties.program)))


def test_what_no_instruction_makes_is_refused() -> None:
    listing, stage = (
        Listing(),
        RunContext(counted_evaluators(toy(lambda a: a, a=S(4, 4)).plan.parameters), None, int),
    )  # type: ignore[arg-type]
    with pytest.raises(cb.ParameterError, match=r"Write: .*run\.mapped"):
        listing.add(At(0, 0), "own", [Cells([[[1]]])], lambda stage, cells: cells, stage)


def test_a_listing_holds_no_ciphertext() -> None:
    program = several()
    gc.collect()
    before = [one for one in gc.get_objects() if isinstance(one, Ct)]
    assert len(program.listing)
    gc.collect()
    known = set(map(id, before))
    assert not [one for one in gc.get_objects() if isinstance(one, Ct) and id(one) not in known]


def test_everything_is_read_and_ends_where_it_is_read_last() -> None:
    listing = several().listing
    readers, ends = listing.readers, listing.ends
    results = {number for _, number in listing.results}
    assert all(readers[one.number] for one in listing)
    for one in listing:
        assert (ends[one.number] == len(listing)) >= (one.number in results)
        assert all(ends[source] >= one.number for source in one.sources)
        assert all(source < one.number for source in one.sources)
