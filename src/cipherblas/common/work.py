"""The budget of work: how much a plan may ask of whoever reads it, however few bytes it has.

A plan is counted before it runs, by walking it without data: when it is compiled, and again when it is loaded, since
nothing is taken on the word of a file. A step of that walk is one handle, term of a sum, block, key or weight: some
ten microseconds. Loops say how many steps they have before they begin, so that what is too much is refused at once.
Products of blocks in slots have their steps too, although one is walked for all: a run takes them all in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from cipherblas.common.errors import WorkBudgetError

# Of a file: half a minute at the most. A product of 1024 x 1024 matrices in slots has a sixth of them, one of
# 4096 x 4096 by GEMM thirty, and convolutional networks have some ten thousand to some hundred thousand.
MAX_STEPS = 1 << 20
# Of what the user of this process compiles: minutes. A product of 4096 x 4096 matrices in slots has two thirds of them.
MAX_COMPILED_STEPS = 1 << 24
# Nodes of a graph: what is asked of every node may look at all that it is computed from.
MAX_NODES = 1 << 12
# Entries of clear matrices that are computed from constants, and multiply-adds of their products, per step.
ENTRIES_PER_STEP = 1 << 9
MACS_PER_STEP = 1 << 17

WORK_ADVICE = (
    f"Program.load(path, work_budget={MAX_COMPILED_STEPS}), of a file from somebody who may take minutes"
)
PARTS = "several programs, one on the decrypted results of the other; or smaller operands"

_budget: ContextVar[int] = ContextVar("budget", default=MAX_COMPILED_STEPS)


@contextmanager
def budget_of(steps: int) -> Iterator[None]:
    """Walks that begin in this context may take so many steps each."""
    token = _budget.set(steps)
    try:
        yield
    finally:
        _budget.reset(token)


class Work:
    """The steps of one walk."""

    def __init__(self) -> None:
        self.steps, self.budget = 0, _budget.get()

    def spend(self, steps: int, what: str = "operations") -> None:
        """Book steps, before or as they are done; WorkBudgetError where the budget does not hold them."""
        self.steps += steps
        if self.steps > self.budget:
            raise WorkBudgetError(
                f"The plan takes too much work to be counted: {what}.",
                expected=f"at most {self.budget} steps",
                got=f"{self.steps} or more",
                advice=[*([WORK_ADVICE] if self.budget < MAX_COMPILED_STEPS else []), PARTS],
            )


def check_nodes(count: int) -> None:
    """Raise WorkBudgetError for a graph of more than `MAX_NODES` nodes."""
    if count > MAX_NODES:
        raise WorkBudgetError(
            "The program has too many nodes.", expected=f"at most {MAX_NODES}", got=count, advice=PARTS
        )
