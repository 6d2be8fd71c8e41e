"""An engine without data: handles are shapes, and what calls cost, and what their results take, is counted.

All of it follows from the table of operations. Handles are arrays of the host whose entries are one word, so that code
that downloads them finds arrays.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from cipherblas.crypto.params import Parameters
from cipherblas.engines.handles import Words
from cipherblas.engines.operations import OPERATIONS, Shape
from cipherblas.engines.protocol import Engine
from cipherblas.rlwe.costs import Costs
from cipherblas.rlwe.counts import Counts


class Memory:
    """Memory of arrays without data. Each counts for as long as it, or a view of it, lives.

    Attributes:
        live, most: bytes now, and the most so far, of what is computed.
        given: those of operands, which are there from the beginning to the end.
    """

    def __init__(self) -> None:
        self.live = self.most = self.given = 0

    def array(self, *shape: int) -> Words:
        """Return an array of this shape that takes no memory, and book the memory that it stands for."""
        one = np.zeros([1] * len(shape), np.uint64)
        words: Words = np.broadcast_to(one, shape)
        self.live += words.nbytes
        self.most = max(self.most, self.live)
        weakref.finalize(one, self._release, words.nbytes)
        return words

    def operand(self, *shape: int) -> Words:
        """An array of an operand."""
        words: Words = np.broadcast_to(np.uint64(0), shape)
        self.given += words.nbytes
        return words

    def _release(self, nbytes: int) -> None:
        self.live -= nbytes

    def pass_through(self, nbytes: int) -> None:
        """So many bytes more, for a moment."""
        self.most = max(self.most, self.live + nbytes)


def _view(x: Any, shape: Shape) -> Any:
    """An array of this shape that keeps the memory of another one."""
    if x.shape == shape:
        return x
    while isinstance(x.base, np.ndarray):
        x = x.base
    return np.broadcast_to(x.reshape(-1)[:1].reshape([1] * len(shape)), shape)


class ShapeEngine:
    """The calls of `Engine` on shapes, counted. Integers may be anything with `shape` and `largest`.

    Args:
        params: the parameters of the engine that would compute.
        counts: what calls cost is added to these.
        memory: counts what their results take.
    """

    def __init__(
        self, params: Parameters, counts: Counts | None = None, memory: Memory | None = None
    ) -> None:
        self.params, self.n = params, params.n
        self.counts = Counts() if counts is None else counts
        self.memory = Memory() if memory is None else memory
        self._costs = Costs(params)

    @classmethod
    def engine(cls, params: Parameters, counts: Counts | None = None, memory: Memory | None = None) -> Engine:
        """One as an evaluator takes it."""
        return cast(Engine, cls(params, counts, memory))

    def beside(self, params: Parameters) -> ShapeEngine:
        return ShapeEngine(params, self.counts, self.memory)

    def upload_key(self, words: Any) -> Any:
        """Return a stand-in for any key."""
        return words

    def gemm_error(self, k: int, largest: float, modulus: float) -> float:
        """None: what need not be exact is counted as such."""
        return 0.0

    def weights_shape(self, limbs: int, terms: int, ciphertexts: int) -> Shape:
        return terms, limbs, self.n

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = OPERATIONS.get(name)
        if operation is None:
            raise AttributeError(name)

        def counted(*args: Any, **options: Any) -> Any:
            arguments = operation.arguments(args, options)
            if operation.cost is not None:
                operation.cost(self._costs, self.counts, **arguments)
            shapes = operation.shapes(self.params, arguments)
            if shapes is None:
                return None
            alone = isinstance(shapes, tuple) and not isinstance(shapes[0], tuple)
            shared = operation.shared(arguments)
            found = [
                self.memory.array(*shape)
                if number >= len(shared) or shared[number] is None
                else _view(shared[number], shape)
                for number, shape in enumerate([shapes] if alone else shapes)
            ]
            return found[0] if alone else type(shapes)(found)

        setattr(self, name, counted)
        return counted
