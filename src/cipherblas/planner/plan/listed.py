"""The instructions of a program for people, and as JSON."""

from __future__ import annotations

import math
from typing import Any

from cipherblas.common.errors import printable
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.planner.plan.explain import duration, size
from cipherblas.planner.plan.plan import Plan
from cipherblas.runtime.listing import Instruction, Listing, ResultEncoding

HEADINGS = ("", "step", "of", "reads", "lies", "ciphertexts", "limbs", "scale", "takes", "until")


def rows_of(plan: Plan, program: Expression, listing: Listing) -> list[dict[str, Any]]:
    """One dictionary for each instruction.

    Args:
        program: what runs (`Program.executed`), the numbers of whose nodes instructions name.
    """
    nodes, ends = ordered(program), listing.ends
    return [
        {
            "number": one.number,
            "step": one.name,
            "of": nodes[one.node].title,
            "node": one.node,
            "reads": list(one.sources),
            "lies": None if one.encoding.form is None else one.encoding.form.lies,
            "ciphertexts": one.encoding.ciphertexts,
            "limbs": one.encoding.limbs,
            "scale_bits": _bits(one.encoding),
            "unit": None if math.isnan(one.encoding.unit) else one.encoding.unit,
            "seconds": plan.seconds_of(one.counts),
            "held_bytes": one.held_bytes,
            "working_bytes": one.working_bytes,
            "until": ends[one.number],
        }
        for one in listing
    ]


def listed(plan: Plan, program: Expression, listing: Listing) -> str:
    """Return the instructions as lines of text, with the memory that they hold at most."""
    rows = [HEADINGS]
    for one, row in zip(listing, rows_of(plan, program, listing), strict=True):
        scale = row["scale_bits"]
        rows.append(
            (
                *(f"{row['number']}", row["step"], row["of"], " ".join(map(str, row["reads"]))),
                *(row["lies"] or "", f"{row['ciphertexts']}", f"{row['limbs'] or ''}"),
                "" if scale is None else f"2^{scale:.1f}",
                _takes(row["seconds"]),
                _until(one, row["until"], len(listing)),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    heading = f"steps: {len(listing)}, with ciphertexts of {size(listing.peak_bytes)} at most at a time"
    return "\n".join([heading, *(printable(f"  {line}".rstrip()) for line in lines)])


def _takes(seconds: float) -> str:
    return duration(seconds) if seconds else ""


def _until(one: Instruction, end: int, steps: int) -> str:
    """The step that is the last to need what one makes, where that is no the next one."""
    if end == steps:
        return "the end"
    return "" if end == one.number + 1 else str(end)


def _bits(encoding: ResultEncoding) -> float | None:
    scale: Any = encoding.scale  # of integers modulo t no number
    return math.log2(scale) if isinstance(scale, float) and scale > 0 else None
