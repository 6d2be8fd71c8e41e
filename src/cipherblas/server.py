"""The server: runs a program on encrypted operands with public keys. By type it holds no secret."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cipherblas._core import trim_pool
from cipherblas.errors import DTypeError, MemoryBudgetError, MismatchError, ShapeError
from cipherblas.evaluators.base import Evaluator
from cipherblas.evaluators.ckks import Ckks
from cipherblas.evaluators.counts import Counts
from cipherblas.evaluators.encodings import Encodings
from cipherblas.execution import Execution, FeedSpec
from cipherblas.expressions import Operand, evaluate_clear, finite_matrix
from cipherblas.keys import EvaluationKeys
from cipherblas.limits import available_memory, check_bound
from cipherblas.matrices import EncryptedOperand, EncryptedResult, check_shape, short_id
from cipherblas.planner.trace import PlainFeeds

if TYPE_CHECKING:
    from cipherblas.program import Program


class Server:
    """Executes a program; made by `Program.server(evaluation_keys)`.

    Attributes:
        counts: what the last run counted (equal to the plan's counts).
        seconds: duration of the last run, evaluation alone.
    """

    def __init__(self, program: Program, keys: EvaluationKeys) -> None:
        if not isinstance(keys, EvaluationKeys):
            raise DTypeError(
                "a server takes evaluation keys", expected="EvaluationKeys", got=type(keys).__name__
            )
        if keys.program_id != program.id:
            raise MismatchError(
                "the keys belong to another program",
                expected=short_id(program.id),
                got=short_id(keys.program_id),
            )
        keys.check(program.plan.keys)
        self.program = program
        self._keys = keys
        self._encodings = Encodings()  # the masks of a program are those of every run
        self.counts = Counts()
        self.seconds = 0.0

    def __repr__(self) -> str:
        return f"<Server of program {short_id(self.program.id)}>"

    def run(
        self, /, *, progress: Callable[[int, int], None] | None = None, **operands: Any
    ) -> EncryptedResult:
        """Compute the program on the operands given by name.

        Args:
            progress: called as progress(done, total) after every block operation.
            **operands: an `EncryptedOperand` for each secret and a matrix for each public operand.

        Raises:
            MismatchError: an operand is missing, unknown, or belongs to another program or key pair.
            ShapeError, DTypeError, RangeError: a clear operand is not a finite matrix of the declared shape.
            MemoryBudgetError: less memory is available than the plan needs.
        """
        feeds = self._feeds(operands)
        self._check_memory()
        plan = self.program.plan
        evaluator = Ckks(
            plan.parameters,
            self._keys,
            order=plan.order,
            key_policy=plan.key_policy,
            encodings=self._encodings,
        )
        feeds.evaluator = evaluator
        feeds.expand()
        execution = Execution(evaluator, self.program.expression, plan.choices, plan.blocks, feeds, progress)
        start = time.perf_counter()
        value = execution.run()
        self.seconds = time.perf_counter() - start
        self.counts = evaluator.counts.copy()
        arrays = tuple(ct.data for row in value.cells for cell in row for ct in cell)
        return EncryptedResult(
            self.program.id, value.shape, plan.parameters, arrays, self.seconds, self._keys.key_id
        )

    def _feeds(self, operands: Mapping[str, Any]) -> CiphertextFeeds:
        declared = self.program.operands
        missing = [name for name in declared if name not in operands]
        unknown = [name for name in operands if name not in declared]
        if missing or unknown:
            raise MismatchError(
                "operands of the program", expected=", ".join(declared), got=", ".join(operands) or "none"
            )
        encrypted: dict[str, EncryptedOperand] = {}
        clear: dict[str, NDArray[np.float64]] = {}
        for name, operand in declared.items():
            value = operands[name]
            if operand.secret:
                if not isinstance(value, EncryptedOperand):
                    raise DTypeError(
                        f"operand {name!r} is secret", expected="EncryptedOperand", got=type(value).__name__
                    )
                self._check_operand(name, operand, value)
                encrypted[name] = value
            else:
                matrix = finite_matrix(value, f"operand {name!r}")
                check_shape(name, matrix.shape, (operand.rows, operand.cols))
                check_bound(name, matrix, operand.bound)
                clear[name] = matrix
        return CiphertextFeeds(self.program, encrypted, clear)

    def _check_operand(self, name: str, operand: Operand, value: EncryptedOperand) -> None:
        if value.program_id != self.program.id:
            raise MismatchError(
                f"operand {name!r} was encrypted for another program",
                expected=short_id(self.program.id),
                got=short_id(value.program_id),
            )
        if value.key_id != self._keys.key_id:
            raise MismatchError(
                f"operand {name!r} and the evaluation keys belong to different key pairs",
                expected=self._keys.key_id,
                got=value.key_id,
            )
        if value.name != name:
            raise MismatchError("operand was encrypted under another name", expected=name, got=value.name)
        check_shape(name, value.shape, (operand.rows, operand.cols))
        specs = self.program.feeds_of(name)
        expected = [spec.ciphertexts for spec in specs]
        got = [len(feed) for feed in value.feeds]
        if expected != got:
            raise ShapeError(f"ciphertexts of operand {name!r}", expected=expected, got=got)
        n = self.program.plan.parameters.n
        for spec, feed in zip(specs, value.feeds, strict=True):
            for ct in feed:
                if ct.data.shape != (spec.limbs, n):
                    raise ShapeError(
                        f"a ciphertext of operand {name!r}",
                        expected=f"({spec.limbs}, {n})",
                        got=str(ct.data.shape),
                    )

    def _check_memory(self) -> None:
        needed = self.program.plan.peak_bytes - self._keys.nbytes
        available = available_memory()
        if available is not None and needed > available:  # give back what earlier runs left for later ones
            self._encodings.clear()
            trim_pool()
            available = available_memory()
        if available is not None and needed > available:
            raise MemoryBudgetError(
                "not enough memory for this run",
                expected=f"{needed / 2**20:.0f} MiB beside the keys",
                got=f"{available / 2**20:.0f} MiB available",
            )


class CiphertextFeeds(PlainFeeds):
    """Operands of a real run: expanded ciphertexts and packed clear matrices."""

    def __init__(
        self,
        program: Program,
        encrypted: Mapping[str, EncryptedOperand],
        clear: Mapping[str, NDArray[np.float64]],
    ) -> None:
        super().__init__(lambda node: evaluate_clear(node, clear))
        self._program = program
        self._encrypted = encrypted
        self._expanded: dict[Any, list[NDArray[np.uint64]]] = {}
        self.evaluator: Evaluator

    def expand(self) -> None:
        """Regenerate the seeded halves of all operands."""
        for name, operand in self._encrypted.items():
            for spec, feed in zip(self._program.feeds_of(name), operand.feeds, strict=True):
                self._expanded[spec.key()] = [ct.expand() for ct in feed]

    def secret(self, spec: FeedSpec, bound: float) -> list[list[list[Any]]]:
        """The operand's ciphertexts, one list per block; each use of the operand is handed out once."""
        arrays = iter(self._expanded[spec.key()])
        rows, cols = spec.grid
        return [
            [
                [
                    self.evaluator.fresh(next(arrays), bound=bound, limbs=spec.limbs, scale=spec.scale)
                    for _ in range(spec.layout.ciphertexts)
                ]
                for _ in range(cols)
            ]
            for _ in range(rows)
        ]
