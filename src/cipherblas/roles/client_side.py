"""What a client knows of a program, whether it has all of it or a file without weights."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import MismatchError, in_place_of
from cipherblas.common.progress import Progress
from cipherblas.crypto.keys import KeyRequest
from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.lang.crt import finished, joined, wanted_modulus
from cipherblas.lang.fixed_point import real_numbers
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from cipherblas.lang.results import Arranged, arranged, labels_of, results_of
from cipherblas.planner.plan.plan import PeerName
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
    def moduli(self) -> tuple[int, ...]:
        """Every t of exact integers that are computed by residues."""

    @property
    def for_peer(self) -> PeerName | None:
        """The library that encrypts and decrypts, where it is another one."""

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
        exact: its results are exact integers.
        plan: what was planned.
        units: of a program in fixed point those of its results, which are integers times these; of any other nothing.
    """

    id: str
    operands: dict[str, Operand]
    expression: Expression
    exact: bool
    plan: ClientPlan
    units: tuple[Fraction, ...]

    @property
    @abstractmethod
    def residues(self) -> Sequence[ClientSide]:
        """The same program modulo each t, of exact integers by residues; of any other this one."""

    @abstractmethod
    def inputs_of(self, name: str) -> list[Input]:
        """The encodings of the operand `name`; the client sends them."""

    def encoding_id(self, name: str) -> str:
        """The name of the encoding of a secret operand: programs that one key serves, and in which it is equal, take
        one encryption of it."""
        lies = [(type(one.form).__name__, repr(one.key), one.public_key) for one in self.inputs_of(name)]
        told = [self.plan.parameters.fingerprint(), self.plan.moduli, self.operands[name].declared, lies]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def owners_of(self, name: str) -> tuple[str, ...]:
        """The names that encryptions of an operand may bear: the program's, and that of its encoding."""
        secret = name in self.operands and self.operands[name].secret
        return (self.id, self.encoding_id(name)) if secret else (self.id,)

    def made_for(self, owner: str) -> bool:
        """Whether a key that names this owner serves the program: it is the program, or "", of programs that are
        compiled together."""
        return owner == self.id or (not owner and not self.plan.keys.weights)

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
        """t of a program of integers modulo t, whose results are from 0 to t - 1; None of any other."""
        return wanted_modulus(self.operands) if self.exact else self.plan.parameters.plain_modulus

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

    @property
    def computed_moduli(self) -> tuple[int, ...]:
        """Every t that is computed modulo; none of real numbers, and of integers that are rounded."""
        one = self.plan.parameters.plain_modulus
        return self.plan.moduli or (() if one is None else (one,))

    def whole(self, each: Sequence[Sequence[NDArray[Any]]]) -> list[NDArray[Any]]:
        """The results of a program of integers, exact or modulo t, in the types that they have.

        Args:
            each: of the program modulo each t, or of the only one, all results: whole numbers, but for errors.

        Raises:
            RangeError: an entry exceeds the bound of its result.
        """
        moduli, found = self.computed_moduli, []
        for label, node, *values in zip(self.labels or ("",), self.results, *each, strict=True):
            parts = [np.asarray(np.rint(one)).astype(np.int64) for one in values]
            what = f"result {label!r}" if label else "the result"
            if self.exact:
                value = (
                    joined([one % t for one, t in zip(parts, moduli, strict=True)], moduli, self.modulus)
                    if moduli
                    else parts[0]
                )
                found.append(finished(value, node.bound, self.modulus, what))
            else:
                found.append(np.asarray(parts[0] % moduli[0]))
        if self.units:
            return [real_numbers(one, unit) for one, unit in zip(found, self.units, strict=True)]
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
