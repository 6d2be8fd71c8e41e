"""Budgets of a plan: bytes of memory, of evaluation keys and of upload."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cipherblas.common.errors import Advice, MemoryBudgetError, without
from cipherblas.common.limits import MASK_BYTES, MAX_MASK_BYTES, usable
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression
from cipherblas.planner.plan.explain import size
from cipherblas.planner.plan.plan import PlanOptions

# By default the client may upload so many bytes, or so many times the bytes of the secret operands.
MIN_UPLOAD, UPLOAD_RATIO = 64 << 20, 16
MIN_REFRESHED_UPLOAD = 1 << 30  # beside some GiB of keys
LAST_UPLOAD = 1 << 31  # where nothing but uploads stands in the way, and nobody named a budget
REFRESHED_MASK_SHARE = 4
MASK_SHARE = 8  # encoded masks and constants that are kept take an eighth of the memory at most
MEMORY_SLACK = 1.02  # of memory that is advised: primes and masks are not just as they were predicted
MEBIBYTE = 20  # log2
NEEDS = {
    "upload_budget": "uploads {}",
    "key_budget": "needs {} of keys",
    "memory_budget": "needs {} of memory",
}


@dataclass(frozen=True)
class Budgets:
    """Bytes that a plan may use."""

    memory: int
    keys: int
    upload: int
    refreshed: bool = False

    @property
    def masks(self) -> int:
        """Bytes of encoded masks and constants that are kept from run to run; they count as memory."""
        if self.refreshed:
            return min(MAX_MASK_BYTES, self.memory // REFRESHED_MASK_SHARE)
        return min(MASK_BYTES, self.memory // MASK_SHARE)


def budgets_of(options: PlanOptions, entries: int, refreshed: bool = False) -> Budgets:
    """The budgets that the user gave, or the defaults for the machine.

    Args:
        entries: of the secret operands.
        refreshed: the program refreshes, for which masks are kept that are large.
    """
    memory = options.memory_budget
    if memory is None:
        memory = usable(options.planned_for.memory) * 4 // 5
    keys = options.key_budget if options.key_budget is not None else memory * 2 // 3
    upload = options.upload_budget
    if upload is None:
        least = MIN_REFRESHED_UPLOAD if refreshed else MIN_UPLOAD
        upload = max(least, UPLOAD_RATIO * 8 * entries)
    return Budgets(memory, keys, upload, refreshed)


@dataclass(frozen=True)
class Need:
    """Bytes that an alternative needs beyond a budget.

    Attributes:
        allowed: the budget.
        origin: of the budget, where the user did not name it.
    """

    needed: float
    allowed: int
    origin: str = ""

    @property
    def bits(self) -> float:
        """log2 of how many times the budget they are."""
        return math.log2(self.needed / max(self.allowed, 1))


def over_budget(name: str, needs: Mapping[str, Need]) -> MemoryBudgetError:
    """The error of an alternative that would do, but for budgets: by option, those that it exceeds."""
    reasons = (
        f"{NEEDS[option].format(size(need.needed))}, {option} is {size(need.allowed)}"
        + (f", {need.origin}" if need.origin else "")
        for option, need in needs.items()
    )
    error = MemoryBudgetError(
        f"No plan fits the budgets; the nearest one, by {name}, {' and '.join(reasons)}.",
        advice=advised(larger(needs)),
    )
    error.shortfall = math.fsum(need.bits for need in needs.values())
    return error


def larger(needs: Mapping[str, Need]) -> dict[str, int]:
    """Budgets that are large enough, in whole MiB."""
    found = {}
    for option, need in needs.items():
        slack = MEMORY_SLACK if option == "memory_budget" else 1.0
        found[option] = math.ceil(slack * need.needed / 2**MEBIBYTE) << MEBIBYTE
    return found


def advised(options: Mapping[str, float]) -> Advice:
    """Return the advice to give these options of `compile`."""
    written = (
        f"{name}={int(value) >> MEBIBYTE} << {MEBIBYTE}" if name in NEEDS else f"{name}={value:g}"
        for name, value in options.items()
    )
    return Advice(", ".join(written), dict(options))


def exceeded(options: PlanOptions, budgets: Budgets, upload: int, keys: int, memory: int) -> dict[str, Need]:
    """By option, the budgets that so many bytes exceed."""
    share = "a share of memory_budget" if options.memory_budget else "a share of the memory"
    needs = {
        "upload_budget": (upload, budgets.upload, "by default"),
        "key_budget": (keys, budgets.keys, share),
        "memory_budget": (memory, budgets.memory, "by default"),
    }
    return {
        option: Need(needed, allowed, origin if getattr(options, option) is None else "")
        for option, (needed, allowed, origin) in needs.items()
        if needed > allowed
    }


def secret_entries(expression: Expression) -> int:
    """Entries of the secret operands of a program together."""
    found = {node.name: node.operand for node in facts_of(expression).order if node.operand is not None}
    return sum(math.prod(operand.shape) for operand in found.values() if operand.secret)


def check_size(expression: Expression, budgets: Budgets, options: PlanOptions) -> None:
    """Raise MemoryBudgetError where the encrypted matrices of a program alone exceed the memory: 16 bytes per entry."""
    sizes = (math.prod(node.shape) for node in facts_of(expression).order if node.secret)
    least = 16 * max(secret_entries(expression), *sizes)
    if least > budgets.memory:
        raise MemoryBudgetError(
            f"The encrypted matrices alone need {size(least)} of memory, and memory_budget is {size(budgets.memory)}"
            + (", by default." if options.memory_budget is None else "."),
            advice="a part of the matrix at a time"
            if options.memory_budget is None
            else without("memory_budget"),
        )
