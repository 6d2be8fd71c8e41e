"""FAME's 12 products by our general product and by the published ones, on one engine in one run.

All methods take one ciphertext per operand, FAME's parameter sets, and the options that are fastest on the server. A
method that would take longer than a limit, or more memory than there is, is not run: its row holds the planner's
prediction and says so. What FAME's paper reports of its FPGA stands in `published_…` fields, as data of the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cipherblas.common.errors import MemoryBudgetError
from cipherblas.planner.plan.plan import Plan
from cipherblas.planner.predict.machine import Machine
from cipherblas_bench.cc import product_rows
from cipherblas_bench.harness import Row, row
from cipherblas_bench.products import SecretCase, planned_fields
from cipherblas_bench.sets import FAME_SETS, Shape

OURS = "fame"
PUBLISHED = ("fame-published", "hegmm", "hegmm-en", "huang-zong", "e2dm-r", "e2dm")
LIMIT_SECONDS = 60.0  # of one run
UNLIMITED = 1 << 60  # bytes, where a plan is only predicted
# Section VI-B: "in about three seconds", 1337 times faster than the best CPU code; 221 times on average over the 12.
PUBLISHED_SECONDS: dict[Shape, float] = {(160, 160, 160): 3.0}
PUBLISHED_SPEEDUP: dict[Shape, float] = {(160, 160, 160): 1337.0}
PUBLISHED_AVERAGE = 221.0
PRODUCTS = sum(len(member.shapes) for member in FAME_SETS.values())


def run(
    *,
    sets: Sequence[str] = tuple(FAME_SETS),
    threads: int = 1,
    budget: float = 2.0,
    limit: float = LIMIT_SECONDS,
    **options: Any,
) -> Iterator[Row]:
    """Rows of `bench cc --suite fame --baselines`: of each shape one per method, then one for the 12 together.

    Args:
        sets: of FAME's parameter sets.
        threads: of the server.
        budget: seconds spent on each method and shape.
        limit: seconds beyond which a method is predicted instead of run.
        **options: further options of `compile`.

    Raises:
        ValueError: an unknown set.
    """
    import cipherblas._core as _core

    if not set(sets) <= set(FAME_SETS):
        raise ValueError(f"set: expected {' | '.join(FAME_SETS)}, got {', '.join(sets)}")
    _core.set_threads(threads)
    options = {"machine": Machine.usual(), "threads": threads, **options}  # one for all, with one memory
    speedups: list[float] = []
    for name in sets:
        member = FAME_SETS[name]
        for shape in member.shapes:
            common = {"parameters": member.parameters(), **options}
            found = [
                _method(method, shape, budget, limit, {**common, "algorithm": method})
                for method in (OURS, *PUBLISHED)
            ]
            speedups.append(_compared(found, shape))
            yield from ({**one, "set": name} for one in found)
    yield row(
        "cc",
        f"{len(speedups)} products",
        algorithm=OURS,
        threads=threads,
        best_over_ours=sum(speedups) / len(speedups),
        published_speedup=PUBLISHED_AVERAGE if len(speedups) == PRODUCTS else None,
        note="mean of the best baseline over ours; FAME reports its FPGA over the best CPU code",
    )


def _method(name: str, shape: Shape, budget: float, limit: float, options: dict[str, Any]) -> Row:
    """The row of one method: measured, or predicted."""
    try:
        plan, reason = SecretCase.compile(shape, options).plan, ""
    except MemoryBudgetError as error:
        free = {**options, "memory_budget": UNLIMITED, "key_budget": UNLIMITED}
        plan, reason = SecretCase.compile(shape, free).plan, str(error)
    if not reason and plan.seconds > limit:
        reason = f"longer than {limit:g} s"
    if reason:
        found = _predicted(plan, shape, reason)
    else:
        (found,) = product_rows(shape, None, None, options["threads"], budget, options)
    found["transforms"] = plan.counts.linear_transforms
    found["plain_products"] = plan.counts.plain_products
    found["key_policy"] = plan.decided.key_policy
    if name == "fame-published":
        m, k, n = shape
        found["published_rotations"] = published_rotations(m, k, n)
        found["published_transforms"] = 2 * (k + 1)
    return found


def _predicted(plan: Plan, shape: Shape, reason: str) -> Row:
    """The row of a plan that is not run."""
    return row(
        "cc",
        "x".join(map(str, shape)),
        threads=plan.threads,
        **planned_fields(plan),
        products=plan.counts.products,
        ciphertexts=plan.upload_ciphertexts,
        relinearisations=plan.counts.relinearisations,
        estimated=True,
        note=f"predicted, not run: {reason}",
    )


def _compared(found: Sequence[Row], shape: Shape) -> float:
    """Enter what compares the methods of one shape: by measured seconds where all were run, else by predicted ones.

    A measured time is never set against a predicted one: other work on the machine lengthens the former alone.

    Returns:
        Seconds of the best baseline over ours.
    """
    field = "predicted_seconds" if any("estimated" in one for one in found) else "seconds"
    ours, *others = found
    for other in others:
        other["times_ours"] = other[field] / ours[field]
    best = min(others, key=lambda other: float(other["times_ours"]))
    best["best"] = True
    ours["compared_by"] = field
    ours["best_baseline"] = best["algorithm"]
    ours["best_over_ours"] = best["times_ours"]
    if shape in PUBLISHED_SECONDS:
        ours["published_seconds"] = PUBLISHED_SECONDS[shape]
        ours["published_speedup"] = PUBLISHED_SPEEDUP[shape]
        seconds = ours["seconds" if "seconds" in ours else "predicted_seconds"]
        ours["times_published"] = seconds / PUBLISHED_SECONDS[shape]
    return float(best["times_ours"])


def published_rotations(m: int, k: int, n: int) -> int:
    """Rotations of FAME's product by the paper's formulas: φ + ζ (Table I), diagonals by Eq. 12-15.

    What is run has fewer: rotations by 0 and diagonals that coincide are not counted apart there. Where n leaves a
    remainder above 1 by k, ε has one diagonal more than the ⌊n/k⌋ + 1 of Eq. 14.
    """
    first = 2 * min(m, k) - 1 + 2 * min(n, k) - 1
    each = n // k + 1 + (2 if m == k else n * (m // k + 2))
    return first + k * each
