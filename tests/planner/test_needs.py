"""The parts of the memory of a run: together the peak of the plan, whatever form a program has, and in its file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.planner.plan.explain import size
from tests.support.runs import toy

S, P = cb.secret, cb.public
WEIGHTS = np.random.default_rng(1).uniform(-1, 1, (10, 40))
PROGRAMS: dict[str, Callable[[], cb.Program]] = {
    "blocks": lambda: toy(lambda a, b: a @ b, a=S(24, 24), b=S(24, 24), form="blocks", block=8),
    "rows": lambda: toy(lambda w, x: w @ x, w=P(12, 20), x=S(20, 16), form="rows"),
    "network": lambda: toy(lambda x: cb.square(WEIGHTS @ x), x=S(40)),
    "modular": lambda: cb.compile(lambda a: a * a, {"a": S(8, 8, modulus=65537)}),
    "exact": lambda: cb.compile(
        lambda a, b: a @ b,
        {
            "a": S(6, 6, bound=1 << 30, dtype=np.int32, exact=True),
            "b": S(6, 6, bound=1 << 30, dtype=np.int32, exact=True),
        },
    ),
    "features": lambda: cb.compile(
        lambda x: cb.square(WEIGHTS @ x), {"x": S(40, 4096)}, form="features", precision=1e-2
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_parts_are_the_peak(name: str) -> None:
    program = PROGRAMS[name]()
    plan = program.plan
    needs = plan.needs()
    assert needs.total == plan.peak_bytes == sum(needs.to_dict().values())
    assert needs.keys == plan.key_bytes and needs.weights == plan.weight_memory_bytes
    assert needs.operands == plan.held_bytes >= 0
    assert needs.working > 0 and needs.process > 0
    for keys, weights in ((True, False), (False, True), (True, True)):
        less = plan.needs(keys_loaded=keys, weights_loaded=weights)
        assert needs.total - less.total == keys * needs.keys + weights * needs.weights
        assert (less.operands, less.working, less.process) == (needs.operands, needs.working, needs.process)
    loaded = cb.Program.from_bytes(program.to_bytes(), insecure=True)
    assert loaded.plan.needs() == needs
    (line,) = (row for row in program.explain().splitlines() if row.startswith("of which"))
    assert all((f"{part} {size(nbytes)}" in line) == (nbytes > 0) for part, nbytes in needs.to_dict().items())


def test_an_operand_that_is_larger_takes_more() -> None:
    small, large = (
        cb.compile(lambda x: x * x, {"x": S(length)}, form="blocks").plan.needs() for length in (64, 1 << 16)
    )
    assert large.operands > 4 * small.operands and large.working > 4 * small.working
