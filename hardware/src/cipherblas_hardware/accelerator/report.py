"""What `cipherblas fame-sim` shows: passes, cycles and waiting of each product, beside the performance model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from cipherblas.planner.plan.explain import size
from cipherblas.report.tables import comparison_table

Row = Mapping[str, Any]
PASSES = {
    "ntt": "stages of transforms",
    "convert": "base conversion",
    "overflow": "its overflows",
    "keys": "products with keys (KeyIP)",
    "others": "components that are kept, times P",
    "diagonals": "products with diagonals (DiagIP)",
    "divide": "ends of divisions",
    "products": "products of ciphertexts",
    "scaled": "products with numbers",
    "sums": "sums of ciphertexts",
}
WAITING = {
    "rows": "for rows of earlier passes",
    "stream": "for limbs that stream in",
    "store": "for limbs that have not left",
    "ports": "for ports of banks",
}


def simulation_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """A table for passes and one for cycles, a column for each product."""
    heads = [f"{row['case'].replace('x', '×')}" for row in rows]
    first = rows[0]
    sizes = first["params"]
    title = (
        f"FAME's product on an element of {sizes['lanes']} lanes, N = {sizes['n']}, "
        f"{sizes['limbs']} + {sizes['special_limbs']} limbs: passes"
    )
    kinds = [kind for kind in PASSES if any(kind in row["passes"] for row in rows)]
    lines = [[PASSES[kind], *(f"{row['passes'].get(kind, 0):,}" for row in rows)] for kind in kinds]
    lines.append(["in all", *(f"{row['passes_in_all']:,}" for row in rows)])
    yield comparison_table(title, heads, lines)
    lines = [
        ["passes, N/dp each", *(f"{row['passes_in_all'] * row['rows']:,}" for row in rows)],
        *(
            [f"waiting {text}", *(f"{row['waiting_cycles'][cause]:,}" for row in rows)]
            for cause, text in WAITING.items()
        ),
        ["in all, and the ways through the lanes", *(f"{row['cycles']:,}" for row in rows)],
        ["as scheduled", *(f"{row['scheduled_cycles']:,}" for row in rows)],
        ["fame-model --centred, one element", *(f"{row['model_cycles']:,.0f}" for row in rows)],
        ["… as published", *(f"{row['model_published_cycles']:,.0f}" for row in rows)],
        ["these over fame-model --centred", *(f"{row['over_model']:.3f}" for row in rows)],
    ]
    yield comparison_table("cycles", heads, lines)
    lines = [
        ["from memory", *(size(row["bytes_in"]) for row in rows)],
        ["to memory", *(size(row["bytes_out"]) for row in rows)],
        ["words", *("every one equal to the processor's" for _ in rows)],
        ["largest error of an entry", *(f"{row['error']:.1e}" for row in rows)],
    ]
    yield comparison_table("data", heads, lines)
