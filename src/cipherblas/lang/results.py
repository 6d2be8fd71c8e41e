"""Programs with several results: the root of their graph, and values in the order or under the labels of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from cipherblas.common import schema
from cipherblas.common.arrays import shape_text
from cipherblas.common.checks import check_name
from cipherblas.common.errors import DTypeError, ParameterError
from cipherblas.lang.batches import Batch
from cipherblas.lang.nodes import Expression, operation

MAX_RESULTS = 256
STACKED = "stacked"  # in the place of labels: the results are one array

T = TypeVar("T")
# What there is of each result: of the only one alone, of several in a tuple or by label.
Arranged: TypeAlias = T | tuple[T, ...] | dict[str, T]


@operation
class Results(Expression):
    """The root of a program with several results: a tuple of nodes, with labels a dictionary, or an array of them.

    It is the root of a graph, and nothing is computed of it. It has no shape of its own, and the largest bound.
    """

    op = "results"
    most_inputs = MAX_RESULTS
    fields: ClassVar = {
        "labels": schema.either(
            schema.nothing, schema.one_of(STACKED), schema.listed(schema.text, 1, MAX_RESULTS)
        ),
    }
    linear = True
    root = True

    def __init__(self, *children: Expression, labels: Sequence[str] | None = None) -> None:
        self.stacked = labels == STACKED
        labels = None if self.stacked else labels
        if not 1 <= len(children) <= MAX_RESULTS:
            raise ParameterError(
                "The number of results of a program is out of range.",
                got=len(children),
                advice=f"from 1 to {MAX_RESULTS} results; cb.stack(results) makes one of those of one shape",
            )
        if any(child.root for child in children):
            raise DTypeError(
                "A result of a program must be one expression.",
                expected="an expression",
                got="several of them",
            )
        self.labels = None if labels is None else tuple(labels)
        if self.labels is not None:
            for label in self.labels:
                check_name(label, "name of a result")
            if len(set(self.labels)) != len(children) or len(self.labels) != len(children):
                raise ParameterError(
                    "Results need different names.",
                    expected=f"{len(children)} different ones",
                    got=", ".join(self.labels),
                )
        bound = max(child.bound for child in children)
        super().__init__((), any(child.secret for child in children), bound, *children)

    @property
    def parameters(self) -> dict[str, Any]:
        if self.stacked:
            return {"labels": STACKED}
        return {"labels": None if self.labels is None else list(self.labels)}

    def as_column(self, parts: Sequence[Expression]) -> Expression:
        same = all(part is child for part, child in zip(parts, self.children, strict=True))
        return self if same else self.rebuilt(parts)

    def log_unit(self, parts: Sequence[float]) -> float:
        return math.log2(self.bound)

    def axes(self, parts: Sequence[tuple[str, str]], join: Callable[[str, str], None]) -> tuple[str, str]:
        return parts[0]

    def text(self, parts: Sequence[str]) -> str:
        if self.labels is not None:
            return "; ".join(f"{label} = {part}" for label, part in zip(self.labels, parts, strict=True))
        return f"{', '.join(parts)}{',' if len(parts) == 1 else ''}"

    @property
    def title(self) -> str:
        return f"results {', '.join(shape_text(child.shape) for child in self.children)}"


def results_of(node: Expression) -> tuple[Expression, ...]:
    """Return the results of a program."""
    return node.children if node.root else (node,)


def labels_of(node: Expression) -> tuple[str, ...]:
    """Names of the results: their labels, or their places; an empty name for the only one."""
    if not isinstance(node, Results):
        return ("",)
    return node.labels or tuple(map(str, range(len(node.children))))


def arranged(node: Expression, values: Sequence[T]) -> Arranged[T]:
    """A value for each result, as the program returns its results; arrays of a batch are stacked."""
    if isinstance(node, Results) and node.stacked and isinstance(values[0], np.ndarray):
        return np.stack(values)  # type: ignore[arg-type, return-value]
    if not isinstance(node, Results):
        (value,) = values
        return value
    if node.labels is None:
        return tuple(values)
    return dict(zip(node.labels, values, strict=True))


def flattened(node: Expression, given: Any, what: str) -> tuple[Any, ...]:
    """The values of what is arranged as the results of a program.

    Raises:
        ParameterError: it is not arranged so.
    """
    if not isinstance(node, Results):
        return (given,)
    if node.labels is None:
        if isinstance(given, (tuple, list)) and len(given) == len(node.children):
            return tuple(given)
        places = ", ".join("…" for _ in node.children)
        raise ParameterError(what, got=repr(given), advice=f"a tuple, ({places}), a value for each result")
    if isinstance(given, Mapping) and given.keys() == set(node.labels):
        return tuple(given[label] for label in node.labels)
    named = ", ".join(f"{label!r}: …" for label in node.labels)
    raise ParameterError(what, got=repr(given), advice=f"a dictionary, {{{named}}}")


def returned(value: Any) -> Expression:
    """The graph of what a user's function returned: a node, or a tuple, a list or a dictionary of nodes.

    Raises:
        DTypeError: something else, or results within results. ParameterError: no result, or a name that is none.
    """
    if isinstance(value, Expression):
        return value
    if isinstance(value, Batch):
        return Results(*value, labels=STACKED)
    if isinstance(value, Mapping):
        nodes = [_one(node, f"result {label!r}") for label, node in value.items()]
        return Results(*nodes, labels=list(value))
    if isinstance(value, (tuple, list)):
        return Results(*(_one(node, f"result {place}") for place, node in enumerate(value)))
    if isinstance(value, bool):
        raise DTypeError(
            f"The function returned {value}: encrypted values cannot be compared by ==.",
            advice="cb.greater(a, b, margin=…), or a - b",
        )
    raise DTypeError(
        f"The function must return an expression of its operands, not {_kind_of(value)}.",
        advice="return …, or a tuple or dictionary of results",
    )


def _kind_of(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _one(value: Any, what: str) -> Expression:
    if isinstance(value, Expression):
        return value
    if isinstance(value, (tuple, list, Mapping)):
        raise DTypeError(
            f"Results may not be nested: {what} is itself a {type(value).__name__}.",
            advice="one tuple or one dictionary of all results",
        )
    raise DTypeError(
        f"The function must return expressions, and {what} is {_kind_of(value)}.",
        advice="results of the operands alone; what is clear is known without a program",
    )
