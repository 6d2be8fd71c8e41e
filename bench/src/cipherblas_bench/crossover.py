"""Slots or GEMM: the same square product by both forms of the planner, over the dimension.

Rows are those of `bench cc` and `bench pc` with a forced form. What would take too long or too much memory is
not run: its row says so and holds the plan's predictions alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cipherblas.common.errors import CipherblasError
from cipherblas.planner.plan.plan import Plan
from cipherblas_bench import cc, pc
from cipherblas_bench.harness import Row, Timing, in_turns, row, seconds_text
from cipherblas_bench.own_process import in_own_process
from cipherblas_bench.products import Case, SecretCase, gemm_side, planned_fields
from cipherblas_bench.sets import Shape

SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
FORMS = ("blocks", "rows")
KINDS: dict[str, type[Case]] = {"cc": SecretCase, "pc": pc.PublicCase}
LIMIT = 60.0
NO_BUDGET = 1 << 62


def run(
    sizes: Sequence[int] = SIZES,
    *,
    kinds: Sequence[str] = tuple(KINDS),
    limit: float = LIMIT,
    threads: int = 1,
    budget: float = 2.0,
    **options: Any,
) -> Iterator[Row]:
    """Rows of `bench crossover`, as they are measured: for each kind and dimension one per form.

    Args:
        sizes: dimensions d of the d × d × d products.
        kinds: "cc" (secret × secret), "pc" (clear int8 weights × secret).
        limit: seconds; what is predicted to take longer is not run.
        threads: of the server and of the yardstick.
        budget: seconds spent on each side of each case.
        **options: further options of `compile` (precision, security, memory_budget, …).

    Raises:
        ValueError: unknown kind, or a dimension below 1.
    """
    import cipherblas._core as _core

    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"kind: expected {' or '.join(KINDS)}, got {kind}")
    for size in sizes:
        if size < 1:
            raise ValueError(f"sizes: expected at least 1, got {size}")
    _core.set_threads(threads)
    for kind in kinds:
        for size in sizes:
            yield from _pair(kind, size, limit, threads, budget, options)


@dataclass(frozen=True)
class _Planned:
    """The planner's figures of one form.

    Attributes:
        plan: None where there is not even an estimate.
        fits: it reaches the precision and fits the budgets.
        skipped: why it is not run, or None where it is.
    """

    plan: Plan | None
    fits: bool
    skipped: str | None = None


def _planned(kind: str, shape: Shape, limit: float, options: dict[str, Any]) -> _Planned:
    try:
        plan = KINDS[kind].compile(shape, options).plan
    except CipherblasError as error:
        try:
            unlimited = KINDS[kind].compile(shape, {**options, "memory_budget": NO_BUDGET}).plan
        except CipherblasError:  # not for want of memory
            return _Planned(None, False, str(error))
        return _Planned(unlimited, False, str(error))
    if plan.seconds > limit:
        return _Planned(plan, True, f"would take longer than {seconds_text(limit)}")
    return _Planned(plan, True)


def _pair(
    kind: str, size: int, limit: float, threads: int, budget: float, options: dict[str, Any]
) -> Iterator[Row]:
    """A row per form; `chosen` is the form that `compile` takes, the one that is predicted to be faster."""
    shape = (size, size, size)
    forced = {form: {**options, "form": form} for form in FORMS}
    planned = {form: _planned(kind, shape, limit, {**forced[form], "threads": threads}) for form in FORMS}
    fitting = {form: found.plan.seconds for form, found in planned.items() if found.plan and found.fits}
    chosen = min(fitting, key=fitting.__getitem__) if fitting else None
    for form, found in planned.items():
        about = {"kind": kind, "d": size, "form": form} | ({"chosen": chosen} if chosen else {})
        if found.skipped is None:
            yield _measured(kind, shape, threads, budget, forced[form]) | about
        else:
            yield _skipped(kind, shape, threads, budget, found) | about


def _measured(kind: str, shape: Shape, threads: int, budget: float, options: dict[str, Any]) -> Row:
    """The row of a process of its own."""
    what = f"{kind} {'x'.join(map(str, shape))}, {options['form']}"
    found = in_own_process(what, _row, kind, shape, threads, budget, options)
    # Operands of secret × secret are uniform on [-1, 1].
    relative = found.get("relative_error", found["error"] / shape[1])
    return {**found, "bench": "crossover", "relative_error": relative, "note": f"{kind}, {options['form']}"}


def _row(kind: str, shape: Shape, threads: int, budget: float, options: dict[str, Any]) -> Row:
    measure: Any = {"cc": cc.run, "pc": pc.run}[kind]
    (found,) = measure([shape], threads=threads, budget=budget, **options)
    return dict(found)


def _skipped(kind: str, shape: Shape, threads: int, budget: float, found: _Planned) -> Row:
    """Predictions and the yardstick; no `seconds`, since nothing was measured."""
    factors = KINDS[kind].factors(shape, np.random.default_rng(1))
    gemm = Timing.of(in_turns([gemm_side(*factors)], budget=min(budget, 1.0))[0])
    predicted: dict[str, Any] = {}
    estimate = "no estimate"
    if found.plan is not None:
        plan = found.plan
        estimate = f"estimated {seconds_text(plan.seconds)}"
        counted = plan.counts.products if kind == "cc" else plan.counts.plain_products
        predicted = {**planned_fields(plan), "products": counted}
    return row(
        "crossover",
        "x".join(map(str, shape)),
        threads=threads,
        gemm_seconds=gemm.seconds,
        estimate=found.plan is not None,
        skipped=found.skipped,
        note=f"{kind}, skipped: {found.skipped} ({estimate})",
        **predicted,
    )
