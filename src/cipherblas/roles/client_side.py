"""What a client knows of a program, whether it has all of it or a file without weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import MismatchError, in_place_of
from cipherblas.common.progress import Progress
from cipherblas.crypto.keys import KeyRequest
from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from cipherblas.lang.results import Arranged, arranged, labels_of, results_of
from cipherblas.planner.plan.targets import ResultFigures
from cipherblas.runtime.values import Input, Output

T = TypeVar("T")


class ClientPlan(Protocol):
    """The parts of a plan that a client needs."""

    @property
    def parameters(self) -> Parameters:
        """The parameters of all that is encrypted."""

    @property
    def keys(self) -> KeyRequest:
        """The evaluation keys that a server needs."""

    @property
    def key_bytes(self) -> int:
        """The size of these keys in memory."""

    @property
    def results(self) -> tuple[ResultFigures, ...]:
        """The predictions of each result."""

    @property
    def error(self) -> float:
        """Predicted largest error of an entry."""

    @property
    def error_target(self) -> float:
        """The largest allowed error."""


class ClientSide(ABC):
    """The part of a program that clients and encryptors read: `Program`, or `ClientProgram`, which has no weights.

    Attributes:
        id: which program it is; keys and ciphertexts carry it.
        operands: name → declared operand.
        expression: its results, or a graph that ends with them.
        exact: its results are exact integers, int64.
        plan: what was planned.
    """

    id: str
    operands: dict[str, Operand]
    expression: Expression
    exact: bool
    plan: ClientPlan

    @abstractmethod
    def inputs_of(self, name: str) -> list[Input]:
        """The encodings of the operand `name`; the client sends them."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[Output, ...]:
        """How each result comes back."""

    @property
    @abstractmethod
    def fixed_factors(self) -> tuple[ClearFactor, ...]:
        """The clear factors that have keys of their own."""

    @abstractmethod
    def found_worst_errors(self, progress: Progress | None) -> tuple[float, ...]:
        """Bounds on the error of each result for whatever operands."""

    @property
    def modulus(self) -> int | None:
        """t of a program of integers modulo t, whose results are int64 from 0 to t - 1; None of any other."""
        return self.plan.parameters.plain_modulus

    @property
    def results(self) -> tuple[Expression, ...]:
        """The nodes of the results."""
        return results_of(self.expression)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of several results, or their places "0", "1", …; of the only one, nothing."""
        return labels_of(self.expression) if self.expression.root else ()

    @property
    def shape(self) -> Arranged[tuple[int, ...]]:
        """Shape of the result; of several, as the program returns them: a tuple, or a dictionary."""
        return self.arranged([node.shape for node in self.results])

    def arranged(self, values: Sequence[T]) -> Arranged[T]:
        """Of a value for each result: the only one, or a tuple, or a dictionary, as the program returns its results."""
        return arranged(self.expression, values)

    @staticmethod
    def rounded(values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest integers."""
        found: NDArray[np.int64] = np.asarray(np.rint(values)).astype(np.int64)
        return found


def secret_operand(program: ClientSide, name: str) -> Operand:
    """The secret operand of this name; MismatchError where there is none."""
    secret = {key: operand for key, operand in program.operands.items() if operand.secret}
    if name not in secret:
        raise MismatchError(
            "The program has no secret operand of that name.",
            expected=" | ".join(secret),
            got=name,
            advice=in_place_of(name, list(secret)),
        )
    return secret[name]
