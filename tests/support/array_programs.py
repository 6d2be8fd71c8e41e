"""What users of NumPy and BLAS write: one program for each row of the table in docs/operations.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb

Function = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """One formula.

    Attributes:
        formula: as it stands in the table.
        function: of nodes.
        reference: the same of arrays; None where the function itself takes them.
        shapes: of the secret operands, for matrices of d rows.
    """

    formula: str
    function: Function
    reference: Function | None = None

    def operands(self, d: int) -> dict[str, Any]:
        """What it takes, from the names of its arguments."""
        return {name: cb.secret(*shape_of(name, d)) for name in self.names}

    def arrays(self, d: int, random: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Random operands."""
        return {name: random.uniform(-1, 1, shape_of(name, d)) for name in self.names}

    def expected(self, arrays: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """Of NumPy."""
        return np.asarray((self.reference or self.function)(*arrays.values()))

    @property
    def names(self) -> tuple[str, ...]:
        code = self.function.__code__
        return code.co_varnames[: code.co_argcount]


def shape_of(name: str, d: int) -> tuple[int, ...]:
    """A, B, C are matrices, x and y vectors, s is a number, T an array of matrices."""
    return {"s": (), "x": (d,), "y": (d,), "T": (2, d, d), "U": (2, d, d)}.get(name, (d, d))


def _weights(*shape: int) -> NDArray[Any]:
    return np.cos(np.arange(1.0, 1 + np.prod(shape))).reshape(shape)


ROWS = (
    # level 1
    Row("x @ y", lambda x, y: x @ y),
    Row("cb.blas.axpy(2.0, x, y)", lambda x, y: cb.blas.axpy(2.0, x, y), lambda x, y: 2 * x + y),
    Row("s * x + y", lambda s, x, y: s * x + y),
    Row("cb.squared_norm(x)", lambda x: cb.squared_norm(x), lambda x: x @ x),
    # level 2
    Row("A @ x", lambda A, x: A @ x),
    Row("A.T @ x", lambda A, x: A.T @ x),
    Row("x @ A", lambda x, A: x @ A),
    Row("W @ x", lambda x: _weights(len(x), len(x)) @ x),
    Row("x @ W", lambda x: x @ _weights(len(x), len(x))),
    Row("A @ w", lambda A: A @ _weights(len(A))),
    Row("cb.outer(x, y)", lambda x, y: cb.outer(x, y), np.outer),
    # level 3
    Row("A @ B", lambda A, B: A @ B),
    Row("W @ A", lambda A: _weights(len(A), len(A)) @ A),
    Row(
        "cb.blas.gemm(2.0, A, B, -1.0, C)",
        lambda A, B, C: cb.blas.gemm(2.0, A, B, -1.0, C),
        lambda A, B, C: 2 * A @ B - C,
    ),
    Row("cb.blas.syrk(1.0, A, trans=True)", lambda A: cb.blas.syrk(1.0, A, trans=True), lambda A: A.T @ A),
    Row("cb.blas.symm(1.0, A, B)", lambda A, B: cb.blas.symm(1.0, A, B), lambda A, B: A @ B),
    Row("cb.matrix_power(A, 3)", lambda A: cb.matrix_power(A, 3), lambda A: A @ A @ A),
    Row("T @ U", lambda T, U: T @ U),
    # sums
    Row("A.sum(axis=0)", lambda A: A.sum(axis=0)),
    Row("A.sum(axis=1)", lambda A: A.sum(axis=1)),
    Row("A.sum()", lambda A: A.sum()),
    Row("A.mean(axis=0)", lambda A: A.mean(axis=0)),
    Row("A.var(axis=0)", lambda A: A.var(axis=0)),
    Row("x.cumsum()", lambda x: x.cumsum()),
    Row("A.cumsum(axis=1)", lambda A: A.cumsum(axis=1)),
    Row("A.trace()", lambda A: A.trace()),
    Row("(A @ B).trace()", lambda A, B: (A @ B).trace()),
    # shapes and entries
    Row("A.diagonal()", lambda A: A.diagonal()),
    Row("(A @ B).diagonal()", lambda A, B: (A @ B).diagonal()),
    Row("cb.diag(x)", lambda x: cb.diag(x), np.diag),
    Row("A.reshape(-1, 2)", lambda A: A.reshape(-1, 2)),
    Row("(A @ B).reshape(-1, 2)", lambda A, B: (A @ B).reshape(-1, 2)),
    Row("A[1:3, ::-1]", lambda A: A[1:3, ::-1]),
    Row("(A @ B)[2]", lambda A, B: (A @ B)[2]),
    Row("A[[3, 0, 3]]", lambda A: A[[3, 0, 3]]),
    Row("cb.concatenate([A, B])", lambda A, B: cb.concatenate([A, B]), lambda A, B: np.concatenate([A, B])),
    Row("cb.stack([x, y], axis=1)", lambda x, y: cb.stack([x, y], 1), lambda x, y: np.stack([x, y], 1)),
    # entry by entry
    Row("A * B", lambda A, B: A * B),
    Row("A ** 3", lambda A: A**3),
    Row("A + x", lambda A, x: A + x),
    Row("A * x", lambda A, x: A * x),
    Row("A - A.mean(axis=0)", lambda A: A - A.mean(axis=0)),
    Row("s * A", lambda s, A: s * A),
    Row(
        "cb.where(mask, A, B)",
        lambda A, B: cb.where(np.eye(len(A)) > 0, A, B),
        lambda A, B: np.where(np.eye(len(A)) > 0, A, B),
    ),
)
