"""The table of docs/operations.md: what the planner takes for each formula, for matrices of 256 rows.

`python -m tests.support.operation_table` prints it anew, for the machine of the corpus.
"""

from __future__ import annotations

from typing import NamedTuple

import cipherblas as cb
from tests.corpus.machine import MACHINE
from tests.support.array_programs import ROWS, Row

D = 256
HEADER = ("formula", "form", "algorithm", "levels", "seconds")


class Line(NamedTuple):
    """A line of the table."""

    formula: str
    form: str
    algorithm: str
    levels: str
    seconds: str

    @property
    def text(self) -> str:
        return f"| {' | '.join(self)} |"


def line(row: Row) -> Line:
    """What the planner takes for one row."""
    plan = cb.compile(row.function, row.operands(D), machine=MACHINE).plan
    form, algorithm = plan.decided.form, plan.algorithm
    return Line(f"`{row.formula}`", form, algorithm, str(plan.levels), f"{plan.seconds:.2g}")


if __name__ == "__main__":
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for row in ROWS:
        if "(A @ B).reshape" not in row.formula:
            print(line(row).text, flush=True)
