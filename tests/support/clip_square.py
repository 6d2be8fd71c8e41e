"""An operation and its methods from outside of the package: squares that are promised not to exceed a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.lab import (
    BlockRun,
    Expression,
    SlotRun,
    Steps,
    TensorRun,
    Value,
    computes,
    operation,
    schema,
)


@operation
class ClipSquare(Expression):
    """x ⊙ x, of which the caller knows that no entry exceeds `limit`; in the clear larger ones are cut off."""

    op = "test_clip_square"
    fields: ClassVar = {"limit": schema.number(0)}

    def __init__(self, x: Expression, limit: float) -> None:
        self.limit = limit
        super().__init__(x.shape, x.secret, min(x.bound**2, limit), x)

    def _transpose(self) -> Expression:
        return ClipSquare(self.children[0].T, self.limit)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"limit": self.limit}

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.minimum(parts[0] ** 2, self.limit)

    def gain(self, position: int) -> float:
        return 2 * self.children[0].bound

    def log_unit(self, parts: Sequence[float]) -> float:
        return 2 * parts[0]


def clip_square(x: Expression, limit: float) -> Expression:
    """Squares up to a limit."""
    return ClipSquare.of(x, limit)


@computes("tensors", ClipSquare.op)
def of_a_tensor(run: TensorRun, node: Expression, required: Any) -> Value:
    """Every ciphertext times itself."""
    return _squared(run, node, run.rescaled(run.value(node.children[0])))


@computes("blocks", ClipSquare.op)
def of_blocks(run: BlockRun, node: Expression, required: Any) -> Steps[Value]:
    """The same, with imaginary parts that are zero: products leave garbage there."""
    return _squared(run, node, (yield from run.factor(node.children[0], run.dense(node), None)))


def _squared(run: SlotRun, node: Expression, x: Value) -> Value:
    bound = node.bound / x.unit**2
    square = run.mapped("square", x, lambda ev, ct: ev.bounded(ev.multiply_relinearised(ct, ct), bound))
    return replace(square, unit=x.unit**2)
