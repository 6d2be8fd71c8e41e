"""Arrays of matrices: NumPy's rule that `@` and operators take the last two axes, for each entry of the first.

A batch is no node but several, which the client stacks when they are decrypted. What mixes them otherwise (`ravel`,
say) is done with one node that holds them all.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeGuard, TypeVar

import numpy as np

from cipherblas.common.arrays import Shaped, is_scalar, shape_text
from cipherblas.common.errors import ShapeError
from cipherblas.lang.nodes import FUNCTIONS, OPERATIONS, Expression
from cipherblas.lang.steps import Step

Operator = Callable[[Any, Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])


class Batch(Shaped, Sequence[Expression]):
    """Matrices of one shape, as an array whose first axis numbers them. Vectors form a matrix instead (`batched`).

    `@`, `+`, `-`, `*`, `/`, `**` and `-x` are done with each; the other side is a batch or an array of as many, or one
    matrix, vector or number for all. So are functions of every entry, and `refresh`. Indices choose nodes. Batches have
    the methods of nodes, `sum(axis=…)` and `cumsum` among them, as NumPy's arrays of three dimensions. A program may
    return one.

    Attributes:
        shape: the number of nodes, then their shape.
    """

    batched = True
    __pandas_priority__ = Expression.__pandas_priority__

    def __init__(self, nodes: Sequence[Expression]) -> None:
        self.nodes = tuple(nodes)
        if len({node.shape for node in self.nodes}) != 1:
            raise ShapeError(
                "The matrices of a batch must have one shape.",
                got=", ".join(shape_text(node.shape) for node in self.nodes) or "no matrix",
                advice="a tuple of results for those of other shapes",
            )
        self.shape = (len(self.nodes), *self.nodes[0].shape)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        return self.nodes[0].__array_function__(function, types, args, named)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return self.nodes[0].__array_ufunc__(ufunc, method, *inputs, **options)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self.nodes[0].__array__()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its nodes."""
        return self.nodes[0].dtype

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Expression]:
        return iter(self.nodes)

    def __getitem__(self, key: Any) -> Any:
        first, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(first, slice) and self.nodes[first]:
            chosen = self.nodes[first]
            return batched([node[tuple(rest)] for node in chosen] if rest else chosen)
        if isinstance(first, (int, np.integer)) and -len(self) <= first < len(self):
            return self.nodes[first][tuple(rest)] if rest else self.nodes[first]
        return FUNCTIONS["getitem"](self, key)

    def __getattr__(self, name: str) -> Any:
        """NumPy's methods: those of `lang.array_functions`."""
        if name.startswith("_") or name not in FUNCTIONS:
            raise AttributeError(f"a batch of nodes has no attribute {name!r}")
        return functools.partial(FUNCTIONS[name], self)

    @property
    def mT(self) -> Batch:
        """Each matrix transposed, as in NumPy."""
        return Batch([node.T for node in self])

    def _with(self, other: Any, apply: Operator, swapped: bool = False) -> Any:
        pairs = zip(self, self._parts(other), strict=True)
        return batched([apply(y, x) if swapped else apply(x, y) for x, y in pairs])

    def _parts(self, other: Any) -> list[Any]:
        """The other side for each node."""
        if not isinstance(other, (Batch, Expression)) and not is_scalar(other):
            other = np.asarray(other)
        dimensions = 0 if is_scalar(other) else len(other.shape)
        if dimensions < 3:
            return [other] * len(self)
        if dimensions > 3:
            raise ShapeError(
                "A batch is combined with arrays of at most 3 dimensions.",
                got=shape_text(other.shape),
                advice="an array of 3 dimensions: one matrix for each of the batch",
            )
        if other.shape[0] not in (1, len(self)):
            raise ShapeError(
                "Both sides of a batch need as many matrices.",
                got=f"{len(self)} and {other.shape[0]}",
                advice=f"{len(self)} matrices, or one for all",
            )
        return [other[number if other.shape[0] > 1 else 0] for number in range(len(self))]

    def __matmul__(self, other: Any) -> Any:
        return self._with(other, operator.matmul)

    def __rmatmul__(self, other: Any) -> Any:
        return self._with(other, operator.matmul, swapped=True)

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return (-self)._with(other, operator.add)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, operator.truediv)

    def __rtruediv__(self, other: Any) -> NoReturn:
        self.nodes[0].__rtruediv__(other)

    def _integer_part(self, *_: Any) -> NoReturn:
        self.nodes[0]._integer_part()

    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __divmod__ = __rdivmod__ = _integer_part

    def __rpow__(self, base: Any) -> NoReturn:
        self.nodes[0].__rpow__(base)

    def __pow__(self, exponent: int) -> Batch:
        return Batch([node**exponent for node in self])

    def __abs__(self) -> Any:
        return np.absolute(self)

    def __neg__(self) -> Batch:
        return Batch([-node for node in self])

    def _compared(self, other: Any) -> NoReturn:
        self.nodes[0]._compared(other)

    __lt__ = __le__ = __gt__ = __ge__ = _compared

    def __repr__(self) -> str:
        return f"<Batch {shape_text(self.shape)}>"


def batched(nodes: Sequence[Expression]) -> Any:
    """Return the results of an operation on each node of a batch: a batch of matrices, or one node of all else."""
    return Batch(nodes) if len(nodes[0].shape) == 2 else stacked(nodes)


def stacked(nodes: Sequence[Expression]) -> Expression:
    """One node that holds several of one shape along a new first axis."""
    arrange, count = OPERATIONS["arrange"].of, len(nodes)
    terms = []
    for place, node in enumerate(nodes):
        row = arrange(node, Step("reshape", (1, *node.shape)))
        terms.append(arrange(row, Step("pad", ((place, count - 1 - place), *[(0, 0)] * len(node.shape)))))
    return total(terms)


def total(terms: Sequence[Expression]) -> Expression:
    """Their sum, in pairs: graphs must not be deep."""
    while len(terms) > 1:
        pairs = [terms[first : first + 2] for first in range(0, len(terms), 2)]
        terms = [OPERATIONS["add"].of(*pair) if len(pair) > 1 else pair[0] for pair in pairs]
    return terms[0]


def is_batch(value: Any) -> TypeGuard[Batch]:
    """Whether functions of a node were given a batch."""
    return isinstance(value, Batch)


def entrywise(function: Function) -> Function:
    """A function of every entry of a node x, which is done with each node of a batch (a decorator)."""
    place = list(inspect.signature(function).parameters).index("x")

    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        x = args[place] if len(args) > place else named.get("x")
        if not isinstance(x, Batch):
            return function(*args, **named)
        if len(args) > place:
            return batched([function(*args[:place], node, *args[place + 1 :], **named) for node in x])
        return batched([function(*args, **{**named, "x": node}) for node in x])

    return called  # type: ignore[return-value]


def batched_product(left: Expression, right: Expression) -> Any:
    """NumPy's product of arrays of matrices, or of one with a matrix or a vector."""
    if len(left.shape) < 3:
        return batched([left @ node for node in right])
    others = list(right) if len(right.shape) == 3 else [right] * len(left)
    if len(others) not in (1, len(left)):
        raise ShapeError(
            "Both factors of a product of arrays need as many matrices.",
            got=f"{len(left)} and {len(others)}",
            advice=f"{len(left)} matrices, or one for all",
        )
    return batched([node @ others[number if len(others) > 1 else 0] for number, node in enumerate(left)])
