"""Which methods of a product of blocks are compared."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.products import ALGORITHMS, find
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.runtime.values import MethodChoice

Block = tuple[int, int, int]  # rows, inner length, columns


def algorithm_names(options: PlanOptions) -> list[str]:
    """Return the algorithms that the options permit: the requested one, or all but the baselines."""
    if options.algorithm is not None:
        return [options.algorithm]
    return [name for name, algorithm in ALGORITHMS.items() if not algorithm.baseline]


def considered(options: PlanOptions, algorithm: type[Algorithm], block: Block) -> bool:
    """Whether blocks of a size are planned: all of an algorithm that is asked for."""
    return options.algorithm is not None or algorithm.worthwhile(*block)


def option_sets(
    options: PlanOptions, algorithm: type[Algorithm], block: Block, slots: int
) -> Iterator[dict[str, Any]]:
    """The options of an algorithm that are compared for a block."""
    if options.options is not None:
        yield dict(options.options)
    elif algorithm.min_levels and options.algorithm is None:
        # Those with levels of their own are slow to count, and lose to the others by far.
        yield from itertools.islice(algorithm.candidates(*block, slots), 1)
    else:
        yield from algorithm.candidates(*block, slots)


def choices_of(options: PlanOptions, block: Block, slots: int) -> Iterator[MethodChoice]:
    """All methods and options for a block that fits the slots."""
    for name in algorithm_names(options):
        algorithm = find(name)
        if considered(options, algorithm, block) and algorithm.fits(*block, slots):
            for found in option_sets(options, algorithm, block, slots):
                yield MethodChoice(name, found)
