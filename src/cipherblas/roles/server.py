"""The server: runs a program on encrypted operands with public keys. By type it holds no secret."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import narrow_array
from cipherblas.common.errors import DTypeError, MemoryBudgetError, MismatchError, RangeError, ShapeError
from cipherblas.common.limits import check_available, check_bound
from cipherblas.crypto.keys import EvaluationKeys, FreshCiphertext
from cipherblas.evaluators.rows.interface import Batch, Rows
from cipherblas.evaluators.rows.native import RowsCkks
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.native import Ckks
from cipherblas.lang.analysis import evaluate_clear, operand_values
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from cipherblas.lang.operations import Leaf
from cipherblas.planner.layers import Recorded
from cipherblas.planner.rows import HEADROOM_BITS
from cipherblas.planner.trace import PlainFeeds
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.matrices import CoefficientMatrix, SharedBatch, rows_format
from cipherblas.roles.calls import operands_in_one_mapping
from cipherblas.roles.messages import (
    EncryptedOperand,
    EncryptedResult,
    check_parameters,
    check_shape,
    short_id,
)
from cipherblas.roles.planned import PlannedProgram
from cipherblas.runtime.execution import Execution
from cipherblas.runtime.layer_execution import LayerExecution
from cipherblas.runtime.row_execution import RowExecution, RowFeed, is_whole
from cipherblas.runtime.slot_arithmetic import FeedSpec

Progress = Callable[[int, int], None]
Arrays = tuple[NDArray[np.uint64], ...]

RUN = "this run, beside the keys"  # what memory is asked for


class Server:
    """Executes a program; made by `Program.server(evaluation_keys)`.

    Attributes:
        counts: what the last run counted (equal to the plan's counts).
        seconds: duration of the last run, evaluation alone.
        encoding_seconds: what the last run spent on encoding weights beside that; the first run of a network does,
            later ones find them stored.
    """

    def __init__(
        self,
        program: PlannedProgram,
        keys: EvaluationKeys,
        *,
        weight_budget: int | None = None,
        weight_folder: str | Path | None = None,
    ) -> None:
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
        check_parameters("the key set", keys.params, program.plan.parameters)
        keys.check(program.plan.keys)
        self.program = program
        self._keys = keys
        self._weights: dict[str, Any] = {"weight_budget": weight_budget, "weight_folder": weight_folder}
        self._shared = program.encodings(weight_budget, weight_folder)
        self.counts = Counts()
        self.seconds = 0.0
        self.encoding_seconds = 0.0

    def __repr__(self) -> str:
        return f"<Server of program {short_id(self.program.id)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made, and so checked, by the constructor; what was encoded is encoded again."""
        return functools.partial(Server, **self._weights), (self.program, self._keys)

    @operands_in_one_mapping
    def run(self, operands: Mapping[str, Any], /, *, progress: Progress | None = None) -> EncryptedResult:
        """Compute the program.

        Args:
            operands: by name an `EncryptedOperand` for each secret and an array for each public operand.
            progress: called as progress(done, total) after every block operation; of a network as weights are ready
                and after every layer.

        Raises:
            MismatchError: an operand is missing, unknown, or belongs to another program or key pair.
            ShapeError, DTypeError, RangeError: a clear operand is not a finite array of the declared shape.
            MemoryBudgetError: less memory is available than the plan needs.
            StorageError: encoded weights beyond their budget find no room in their file.
        """
        encrypted, clear = self._checked(operands)
        self._check_memory()
        run = self._run_rows if self.program.plan.route == "rows" else self._run_slots
        shape, arrays = run(encrypted, clear, progress)
        plan = self.program.plan
        digests = {name: operand.digest for name, operand in encrypted.items()}
        return EncryptedResult(
            self.program.id,
            shape,
            plan.parameters,
            arrays,
            self.seconds,
            self._keys.key_id,
            plan.route,
            digests,
        )

    def _run_slots(
        self,
        encrypted: Mapping[str, EncryptedOperand],
        clear: Mapping[str, NDArray[Any]],
        progress: Progress | None,
    ) -> tuple[tuple[int, ...], Arrays]:
        feeds = CiphertextFeeds(self.program, encrypted, clear)
        plan = self.program.plan
        evaluator = Ckks(
            plan.parameters,
            self._keys,
            order=plan.order,
            key_policy=plan.key_policy,
            encodings=self._shared.masks,
            weights=self._shared.weights,
        )
        feeds.evaluator = evaluator
        feeds.expand()
        expression = self.program.expression
        execution: Execution | LayerExecution = (
            LayerExecution(
                *(evaluator, expression, Recorded(plan.choices), feeds),
                progress=progress,
                weights=plan.counts.plain_products,
            )
            if plan.route == "layers"
            else Execution(evaluator, expression, plan.choices, plan.blocks, feeds, progress)
        )
        start = time.perf_counter()
        value = execution.run()
        self.encoding_seconds = evaluator.encoding_seconds
        self.seconds = time.perf_counter() - start - self.encoding_seconds
        self.counts = evaluator.counts.copy()
        return value.shape, tuple(ct.data for row in value.cells for cell in row for ct in cell)

    def _run_rows(
        self,
        encrypted: Mapping[str, EncryptedOperand],
        clear: Mapping[str, NDArray[Any]],
        progress: Progress | None,
    ) -> tuple[tuple[int, ...], Arrays]:
        plan = self.program.plan
        clear = {
            name: matrix.reshape(len(matrix), -1) for name, matrix in clear.items()
        }  # vectors: one column
        evaluator = RowsCkks(plan.parameters, self._keys, key_policy=plan.key_policy)
        feeds = RowCiphertextFeeds(self.program, encrypted, clear, evaluator)
        (choice,) = plan.choices
        execution = RowExecution(
            evaluator,
            self.program.executed,
            choice.options["weight_bits"],
            bool(choice.options.get("fixed", False)),
            HEADROOM_BITS,
            feeds,
            progress,
        )
        start = time.perf_counter()
        value = execution.run()
        self.seconds = time.perf_counter() - start
        self.counts = evaluator.counts.copy()
        return self.program.shape, tuple(part for piece in value.pieces for part in piece.data)

    def _checked(
        self, operands: Mapping[str, Any]
    ) -> tuple[dict[str, EncryptedOperand], dict[str, NDArray[Any]]]:
        """The secret and the clear operands of a run."""
        declared = self.program.operands
        missing = [name for name in declared if name not in operands]
        unknown = [name for name in operands if name not in declared]
        if missing or unknown:
            raise MismatchError(
                "operands of the program", expected=", ".join(declared), got=", ".join(operands) or "none"
            )
        encrypted: dict[str, EncryptedOperand] = {}
        clear: dict[str, NDArray[Any]] = {}
        for name, operand in declared.items():
            value = operands[name]
            if operand.secret:
                if not isinstance(value, EncryptedOperand):
                    hint = "; encrypt returns a dictionary of them" if isinstance(value, Mapping) else ""
                    raise DTypeError(
                        f"operand {name!r} is secret",
                        expected=f"EncryptedOperand{hint}",
                        got=type(value).__name__,
                    )
                self._check_operand(name, operand, value)
                encrypted[name] = value
            else:
                matrix = narrow_array(value, f"operand {name!r}", (len(operand.shape),))
                check_shape(name, matrix.shape, operand.shape)
                check_bound(name, matrix, operand.bound)
                if operand.whole and not is_whole(matrix):
                    raise RangeError(
                        f"operand {name!r} was declared with an integer type",
                        expected="whole numbers",
                        got="fractions",
                    )
                clear[name] = matrix
        return encrypted, clear

    def _check_operand(self, name: str, operand: Operand, value: EncryptedOperand) -> None:
        if value.program_id != self.program.id:
            raise MismatchError(
                f"operand {name!r} was encrypted for another program",
                expected=short_id(self.program.id),
                got=short_id(value.program_id),
            )
        check_parameters(f"operand {name!r}", value.parameters, self.program.plan.parameters)
        if value.key_id != self._keys.key_id:
            raise MismatchError(
                f"operand {name!r} and the evaluation keys belong to different key pairs",
                expected=self._keys.key_id,
                got=value.key_id,
            )
        if value.encryption == "public-key" and not operand.public_key:
            raise MismatchError(
                f"operand {name!r} is planned for the secret key, with a smaller error",
                expected=operand.encryption,
                got=value.encryption,
            )
        if value.name != name:
            raise MismatchError("operand was encrypted under another name", expected=name, got=value.name)
        check_shape(name, value.shape, operand.shape)
        specs = self.program.feeds_of(name)
        expected = [len(spec.pieces) if isinstance(spec, RowFeed) else spec.ciphertexts for spec in specs]
        got = [len(feed) for feed in value.feeds]
        if expected != got:
            raise ShapeError(f"ciphertexts of operand {name!r}", expected=expected, got=got)
        n = self.program.plan.parameters.n
        for spec, feed in zip(specs, value.feeds, strict=True):
            if isinstance(spec, RowFeed):
                self._check_rows(name, spec, feed)
                continue
            for ct in feed:
                if not isinstance(ct, FreshCiphertext):
                    raise DTypeError(
                        f"a ciphertext of operand {name!r}", expected="FreshCiphertext", got=type(ct).__name__
                    )
                if ct.data.shape[-2:] != (spec.limbs, n):
                    raise ShapeError(
                        f"a ciphertext of operand {name!r}",
                        expected=f"({spec.limbs}, {n})",
                        got=str(ct.data.shape[-2:]),
                    )

    def _check_rows(self, name: str, spec: RowFeed, feed: Sequence[Any]) -> None:
        for (start, stop), rows in zip(spec.pieces, feed, strict=True):
            expected = (spec.limbs, spec.shape[0], stop - start)
            kind: type[CoefficientMatrix] = (
                SharedBatch if spec.shared else rows_format(stop - start, self.program.plan.parameters.n)
            )
            if not isinstance(rows, kind) or rows.b.shape != expected:
                got = getattr(getattr(rows, "b", None), "shape", type(rows).__name__)
                raise ShapeError(f"encrypted rows of operand {name!r}", expected=str(expected), got=str(got))

    def _check_memory(self) -> None:
        """Whether what a run needs beside what is there already is available: keys, and masks of earlier runs."""
        plan, masks = self.program.plan, self._shared.masks
        needed = plan.peak_bytes - plan.weight_memory_bytes - self._keys.nbytes  # weights can go to a file
        try:
            check_available(needed - masks.nbytes, RUN)
        except MemoryBudgetError:
            masks.clear()
            check_available(needed, RUN)


class CiphertextFeeds(PlainFeeds):
    """Operands of a real run: expanded ciphertexts and packed clear matrices."""

    def __init__(
        self,
        program: PlannedProgram,
        encrypted: Mapping[str, EncryptedOperand],
        clear: Mapping[str, NDArray[Any]],
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
                assert isinstance(spec, FeedSpec)
                self._expanded[spec.key()] = [ct.expand() for ct in feed if isinstance(ct, FreshCiphertext)]

    def secret(self, spec: FeedSpec, bound: float) -> list[list[list[Any]]]:
        """The operand's ciphertexts, one list per block; each use of the operand is handed out once."""
        arrays = iter(self._expanded[spec.key()])
        rows, cols = spec.grid
        return [
            [
                [
                    self.evaluator.fresh(
                        next(arrays),
                        bound=bound,
                        limbs=spec.limbs,
                        scale=spec.scale,
                        public_key=spec.public_key,
                    )
                    for _ in range(spec.layout.ciphertexts)
                ]
                for _ in range(cols)
            ]
            for _ in range(rows)
        ]


class RowCiphertextFeeds:
    """Operands of a real run by GEMMs."""

    def __init__(
        self,
        program: PlannedProgram,
        encrypted: Mapping[str, EncryptedOperand],
        clear: Mapping[str, NDArray[Any]],
        evaluator: RowsCkks,
    ) -> None:
        """Regenerates the seeded halves of all operands."""
        self._clear = clear
        self._evaluator = evaluator
        self._found: dict[int, tuple[Expression, NDArray[Any]]] = {}
        self._pairs: dict[RowFeed, list[tuple[NDArray[np.uint64], NDArray[np.uint64]]]] = {}
        for name, operand in encrypted.items():
            for spec, feed in zip(program.feeds_of(name), operand.feeds, strict=True):
                assert isinstance(spec, RowFeed)
                self._pairs[spec] = [
                    (rows.a, rows.b) for rows in feed if not isinstance(rows, FreshCiphertext)
                ]

    def secret(self, feed: RowFeed, bound: float) -> list[Rows]:
        """The operand's encryptions, one per piece."""
        return [
            self._evaluator.fresh(
                *(pair, (feed.shape[0], stop - start)),
                bound=bound,
                scale=feed.scale,
                limbs=feed.limbs,
                public_key=feed.public_key,
            )
            for (start, stop), pair in zip(feed.pieces, self._pairs[feed], strict=True)
        ]

    def batch(self, feed: RowFeed, bound: float) -> Batch:
        """The operand's encryption whose rows share their a parts."""
        (pair,) = self._pairs[feed]
        return self._evaluator.fresh_batch(pair, feed.shape, bound=bound, scale=feed.scale, limbs=feed.limbs)

    def public(self, node: Expression) -> NDArray[Any]:
        """The values of a part without secrets; those of an operand in the type that they were given in."""
        if isinstance(node, Leaf):
            return operand_values(node, self._clear)
        if id(node) not in self._found:
            self._found[id(node)] = (node, evaluate_clear(node, self._clear))
        return self._found[id(node)][1]
