"""The server: runs a program on encrypted operands with public keys. By type it holds no secret."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.arrays import narrow_array
from cipherblas.common.checks import check_bound, check_whole
from cipherblas.common.errors import (
    DTypeError,
    MemoryBudgetError,
    MismatchError,
    ParameterError,
    ShapeError,
    in_place_of,
)
from cipherblas.common.limits import check_available
from cipherblas.common.progress import Progress
from cipherblas.crypto.keys import EvaluationKeys, FreshCiphertext, StoredCiphertext
from cipherblas.crypto.params import row_parameters
from cipherblas.distributed.agreement import check_agreement
from cipherblas.distributed.communicator import Communicator, Sent
from cipherblas.distributed.dry_run import RankRun, rank_runs
from cipherblas.distributed.matrices import Share
from cipherblas.distributed.ranks import Sharing
from cipherblas.distributed.rows import RowsRanks
from cipherblas.distributed.slots import SHARINGS, Division, SlotsRanks
from cipherblas.distributed.stages import RankTimes, Stopwatch, of_all
from cipherblas.engines.encodings import Encodings
from cipherblas.engines.registry import CPU, engine_of
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.native import RowsNative
from cipherblas.evaluators.rows.values import Rows
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.shared_native import SharedNative
from cipherblas.forms.form import RowForm
from cipherblas.lang.operands import Operand
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.matrices import CoefficientMatrix, SharedBatch, rows_format
from cipherblas.roles.calls import operands_in_one_mapping
from cipherblas.roles.on_ranks import rank_bytes
from cipherblas.roles.planned import PlannedProgram
from cipherblas.roles.received import ReceivedInputs
from cipherblas.roles.wire.messages import (
    AGAIN,
    EncryptedOperand,
    EncryptedResult,
    array_digest,
    check_parameters,
    check_shape,
    given,
    short_id,
)
from cipherblas.roles.wire.stored_rows import StoredRows
from cipherblas.runtime.executor import Executor, NodeSeconds
from cipherblas.runtime.values import Input, Value

RUN = "this run, beside the keys"  # what memory is asked for
READ_COPIES = 3  # of a ciphertext that is read: its data, random words, and residues that are made of these


class Server:
    """Executes a program; made by `Program.server(evaluation_keys)`.

    Attributes:
        counts: what the last run counted: equal to the plan's counts, but for masks that are encoded again where memory
            for keeping them is lacking.
        sent: what this rank sent to others in the last run.
        rank_times: of every rank of the last run, where its time went; of one process, its own.
        seconds: duration of the last run, evaluation alone, in which clear operands are encoded; on several ranks that
            of the slowest, messages included.
        node_seconds: of that, by node in the order in which they were computed: title, form, encrypted parts, seconds;
            encoding of weights is among them, and expanding ciphertexts that products take one by one.
        encoding_seconds: what the last run spent beside that on encoding weights that are constants of the program; the
            first run of a network does, later ones find them stored.
    """

    def __init__(
        self,
        program: PlannedProgram,
        keys: EvaluationKeys,
        *,
        engine: str = CPU,
        weight_budget: int | None = None,
        weight_folder: str | Path | None = None,
        communicator: Communicator | None = None,
        sharing: Sharing = "4d-s",
    ) -> None:
        if not isinstance(keys, EvaluationKeys):
            raise DTypeError(
                "A server takes evaluation keys.",
                expected="EvaluationKeys",
                got=type(keys).__name__,
                advice="program.server(client.evaluation_keys())",
            )
        if keys.program_id != program.id:
            raise MismatchError(
                "The keys belong to another program.",
                expected=short_id(program.id),
                got=short_id(keys.program_id),
                advice="the evaluation keys of a client of this program",
            )
        check_parameters("the key set", keys.params, program.plan.parameters)
        keys.check(program.plan.keys)
        self.program = program
        if sharing not in SHARINGS:
            raise ParameterError(
                "There is no such way to share block products.",
                expected=" | ".join(SHARINGS),
                got=sharing,
                advice=in_place_of(sharing, SHARINGS, 'sharing="{}"'),
            )
        self.communicator, self.sharing = communicator, sharing
        self._keys = keys if communicator is None else keys.only(self.rank_runs[communicator.rank].keys)
        self._key_digest = "" if communicator is None else keys.digest()
        self._engine = engine_of(engine, program.plan.parameters)
        self._shared = program.encodings(weight_budget, weight_folder, engine)
        self._options: dict[str, Any] = {
            "engine": engine,
            "weight_budget": weight_budget,
            "weight_folder": weight_folder,
        }
        if communicator is not None:
            self._options |= {"communicator": communicator, "sharing": sharing}
        self._ranked: RowsRanks | None = None
        self.counts = Counts()
        self.sent = Sent()
        self.rank_times: list[RankTimes] = []
        self.seconds = 0.0
        self.encoding_seconds = 0.0
        self.node_seconds: tuple[NodeSeconds, ...] = ()

    @functools.cached_property
    def rank_runs(self) -> list[RankRun]:
        """What each rank computes and sends, and which keys it uses: found by a run on shapes.

        Raises:
            ParameterError: the server is alone.
        """
        if self.communicator is None:
            raise ParameterError("This server has no ranks.", advice="program.server(keys, communicator=…)")
        plan = self.program.plan
        size = self.communicator.size
        return rank_runs(plan.parameters, self.program.executed, plan.decided, size, self.sharing)

    def load_keys(self, progress: Progress | None = None) -> None:
        """Read all keys that this server uses and that are still in files.

        Args:
            progress: as that of `EvaluationKeys.load_all`.
        """
        self._keys.load_all(progress)

    def __repr__(self) -> str:
        return f"<Server of program {short_id(self.program.id)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made, and so checked, by the constructor; what was encoded is encoded again."""
        return functools.partial(Server, **self._options), (self.program, self._keys)

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
        if self.communicator is None:
            return self._run(operands, progress)
        try:
            return self._run(operands, progress)
        except BaseException as error:
            self.communicator.failed(error)
            raise

    def _run(self, operands: Mapping[str, Any], progress: Progress | None) -> EncryptedResult:
        encrypted, clear = self._checked(operands)
        if self.communicator is not None:
            self._agree(self.communicator, encrypted, clear)
        masks = self._masks(_stored_bytes(encrypted))
        own = None if self.communicator is None else self.rank_runs[self.communicator.rank]
        ranks = 1 if self.communicator is None else self.communicator.size
        plan, inputs = self.program.plan, ReceivedInputs(self.program, encrypted, clear, own, ranks)
        evaluators = self._evaluators(masks)
        executor = Executor(
            *(evaluators, self.program.executed, plan.decided, inputs, progress),
            weights=plan.counts.plain_products if plan.counts.stored_bytes else 0,
        )
        before = Sent() if self.communicator is None else replace(self.communicator.sent)
        watch = Stopwatch(self.communicator)
        start = time.perf_counter()
        values = executor.results()
        self.encoding_seconds = evaluators.encoding_seconds
        self.seconds = time.perf_counter() - start - self.encoding_seconds - inputs.seconds
        self.counts = evaluators.counts
        self.node_seconds = tuple(executor.seconds)
        digests = {name: operand.digest for name, operand in encrypted.items()}
        arrays = [self._arrays(value) for value in values]
        if self._ranked is not None:
            watch.copies = self._ranked.watch.copies
        times = watch.stop()
        if self.communicator is not None:
            self.sent = self.communicator.sent - before
        self.rank_times = of_all(self.communicator, times)
        if self.communicator is not None:
            self.seconds = time.perf_counter() - start - self.encoding_seconds  # of the slowest rank
        return EncryptedResult(
            self.program.id,
            self.program.shape,
            plan.parameters,
            tuple(itertools.chain.from_iterable(arrays)),
            self.seconds,
            self._keys.key_id,
            digests,
            tuple(map(len, arrays)) if self.program.expression.root else (),
            plan.promise.name,
        )

    def _evaluators(self, masks: Encodings) -> Evaluators:
        plan = self.program.plan

        def slots() -> Native:
            options: Any = {
                "engine": self._engine,
                "order": plan.order,
                "key_policy": plan.key_policy,
                "encodings": masks,
                "weights": self._shared.weights,
            }
            if self.communicator is None:
                return Native(plan.parameters, self._keys, **options)
            ranked = SlotsRanks(plan.parameters, self._keys, **options)
            ranked.division = Division(self.communicator, self.sharing)
            return ranked

        own = row_parameters(plan.parameters)
        apart = own is not plan.parameters
        inner = self._engine.beside(own) if apart else self._engine
        options: Any = {"engine": inner, "key_policy": plan.key_policy}

        def rows() -> RowsNative:
            if self.communicator is None:
                return RowsNative(own, self._keys.of_rows, **options)
            self._ranked = RowsRanks(own, self._keys.of_rows, self.communicator, **options)
            return self._ranked

        def shared(secrets: int) -> SharedNative:
            own: Any = {"engine": self._engine, "order": plan.order, "encodings": masks}
            return SharedNative(plan.parameters, self._keys, secrets, key_policy=plan.key_policy, **own)

        elements = (lambda: Native(own, self._keys.of_rows, **options)) if apart else None
        return Evaluators(slots, rows, elements, shared)

    def _arrays(self, value: Value) -> Sequence[NDArray[Any]]:
        """The ciphertexts of a result, on rank 0; none on others."""
        words = [self._downloaded(handle) for handle in value.handles]
        if self.communicator is not None and self.communicator.rank:
            return []
        return value.form.taken(words)

    def _downloaded(self, handle: Any) -> Any:
        """The words of a result, which the engine has: an array, or those of the a and the b part of rows."""
        if isinstance(handle, Rows) and isinstance(handle.data, Share):
            evaluator = self._ranked
            assert evaluator is not None
            whole = evaluator.gathered(handle.data)
            parts = () if whole is None else (whole.a, whole.b)
            return tuple(self._engine.download_matrix(part) for part in parts)
        if isinstance(handle, Rows):
            return tuple(self._engine.download_matrix(part) for part in handle.data)
        return self._engine.download(handle.data)

    def _agree(
        self,
        communicator: Communicator,
        encrypted: Mapping[str, EncryptedOperand],
        clear: Mapping[str, NDArray[Any]],
    ) -> None:
        """Raise MismatchError on every rank where one holds another program, other keys or operands."""
        digests = {"plan": self.program.id, "set of evaluation keys": self._key_digest}
        digests |= {f"operand {name!r}": operand.digest for name, operand in encrypted.items()}
        digests |= {f"operand {name!r}": array_digest(array) for name, array in clear.items()}
        check_agreement(communicator, digests)

    def _checked(
        self, operands: Mapping[str, Any]
    ) -> tuple[dict[str, EncryptedOperand], dict[str, NDArray[Any]]]:
        """The secret and the clear operands of a run."""
        declared = self.program.operands
        missing = [name for name in declared if name not in operands]
        unknown = [name for name in operands if name not in declared]
        if missing or unknown:
            raise MismatchError(
                "The operands are not those of the program.",
                expected=", ".join(declared),
                got=", ".join(operands) or "none",
                advice=given(declared),
            )
        encrypted: dict[str, EncryptedOperand] = {}
        clear: dict[str, NDArray[Any]] = {}
        for name, operand in declared.items():
            value = operands[name]
            if operand.secret:
                if not isinstance(value, EncryptedOperand):
                    hint = "; encrypt returns a dictionary of them" if isinstance(value, Mapping) else ""
                    raise DTypeError(
                        f"Operand {name!r} is secret and must come encrypted.",
                        expected=f"EncryptedOperand{hint}",
                        got=type(value).__name__,
                        advice=f"client.encrypt({{{name!r}: …}})[{name!r}] in place of it",
                    )
                self._check_operand(name, operand, value)
                encrypted[name] = value
            else:
                matrix = narrow_array(value, f"operand {name!r}", (len(operand.shape),))
                check_shape(name, matrix.shape, operand.shape)
                check_bound(name, matrix, operand.bound)
                operand.check_known(name, matrix)
                if operand.whole:
                    check_whole(name, matrix)
                clear[name] = matrix
        return encrypted, clear

    def _check_operand(self, name: str, operand: Operand, value: EncryptedOperand) -> None:
        if value.program_id != self.program.id:
            raise MismatchError(
                f"Operand {name!r} was encrypted for another program.",
                expected=short_id(self.program.id),
                got=short_id(value.program_id),
                advice=AGAIN,
            )
        check_parameters(f"operand {name!r}", value.parameters, self.program.plan.parameters)
        if value.key_id != self._keys.key_id:
            raise MismatchError(
                f"Operand {name!r} and the evaluation keys belong to different key pairs.",
                expected=self._keys.key_id,
                got=value.key_id,
                advice="the evaluation keys of the client that encrypted it",
            )
        if value.encryption == "public-key" and not operand.public_key:
            raise MismatchError(
                f"Operand {name!r} is planned for the secret key, with a smaller error.",
                expected=operand.encryption,
                got=value.encryption,
                advice='cb.secret(…, encryption="public-key") where it is declared',
            )
        if value.name != name:
            raise MismatchError(
                "The operand was encrypted under another name.",
                expected=name,
                got=value.name,
                advice=f"{{{value.name!r}: …}}",
            )
        check_shape(name, value.shape, operand.shape)
        inputs = self.program.inputs_of(name)
        expected = [one.form.parts for one in inputs]
        got = [len(feed) for feed in value.feeds]
        if expected != got:
            raise ShapeError(
                f"Operand {name!r} has another number of ciphertexts than planned.",
                expected=expected,
                got=got,
                advice=AGAIN,
            )
        for one, feed in zip(inputs, value.feeds, strict=True):
            if isinstance(one.form, RowForm):
                self._check_rows(name, one, one.form, feed)
            else:
                self._check_ciphertexts(name, one, feed)

    def _check_ciphertexts(self, name: str, wanted: Input, feed: Sequence[Any]) -> None:
        expected = (wanted.limbs, self.program.plan.parameters.n)
        for ct in feed:
            if not isinstance(ct, FreshCiphertext):
                raise DTypeError(
                    f"Operand {name!r} must consist of fresh ciphertexts.",
                    expected="FreshCiphertext",
                    got=type(ct).__name__,
                    advice=AGAIN,
                )
            if (ct.limbs, ct.params.n) != expected:
                raise ShapeError(
                    f"A ciphertext of operand {name!r} has the wrong shape.",
                    expected=str(expected),
                    got=str((ct.limbs, ct.params.n)),
                    advice=AGAIN,
                )

    def _check_rows(self, name: str, wanted: Input, form: RowForm, feed: Sequence[Any]) -> None:
        n = row_parameters(self.program.plan.parameters).n
        for width, rows in zip(form.widths, feed, strict=True):
            expected = (wanted.limbs, form.shape[0], width)
            kind: type[CoefficientMatrix] = SharedBatch if form.shared else rows_format(width, n)
            own = rows.kind if isinstance(rows, StoredRows) else type(rows)
            if not issubclass(own, kind) or (rows.limbs, *rows.shape) != expected:
                got = (rows.limbs, *rows.shape) if issubclass(own, CoefficientMatrix) else own.__name__
                raise ShapeError(
                    f"The encrypted rows of operand {name!r} have the wrong shape.",
                    expected=str(expected),
                    got=str(got),
                    advice=AGAIN,
                )

    def _masks(self, stored: int) -> Encodings:
        """Where a run keeps masks and constants, for which the machine that it is on has memory.

        Those of the program, if what the plan needs beside them and the keys is available (weights aside, which can go
        to a file); else none are kept.

        Args:
            stored: bytes of ciphertexts that stay in their files, less those that are read at a time.

        Raises:
            MemoryBudgetError: not even then is there enough.
        """
        plan, masks = self.program.plan, self._shared.masks
        more = -self._keys.nbytes - min(stored, plan.held_bytes)
        if self.communicator is not None:
            more += plan.lent_bytes
        needed = plan.peak_bytes - plan.weight_memory_bytes + more
        if self.communicator is not None:
            run = self.rank_runs[self.communicator.rank]
            needed = min(needed, rank_bytes(self.program, run) - self._keys.nbytes)
        try:
            check_available(needed - masks.nbytes, RUN)
            return masks
        except MemoryBudgetError:
            masks.clear()
        try:
            check_available(needed, RUN)
            return masks
        except MemoryBudgetError:
            least = self.program.least_bytes + more
            if least >= needed:
                raise
            check_available(least, RUN)
            return Encodings(0)


def _stored_bytes(operands: Mapping[str, EncryptedOperand]) -> int:
    """Bytes of ciphertexts that stay in their files. Each thread reads one, and draws as many random words."""
    feeds = itertools.chain.from_iterable(operand.feeds for operand in operands.values())
    stored = [ct for feed in feeds for ct in feed if isinstance(ct, StoredCiphertext)]
    sizes = [ct.nbytes for ct in stored if ct.seed is not None]  # those of a public key are read to stay
    return max(0, sum(sizes) - READ_COPIES * _core.threads() * max(sizes, default=0))
