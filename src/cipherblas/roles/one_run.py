"""One run of a program on a server: what it is given, what it has done so far, and what it took."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.errors import CancelledError, MemoryBudgetError
from cipherblas.common.limits import check_available
from cipherblas.common.process import PeakMemory
from cipherblas.common.progress import Progress, asked
from cipherblas.crypto.keys import EvaluationKeys, StoredCiphertext
from cipherblas.distributed.stages import Stopwatch, of_all
from cipherblas.engines.encodings import Encodings, ProgramEncodings
from cipherblas.engines.protocol import Engine
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.native import RowsNative
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.shared_native import SharedNative
from cipherblas.lang.crt import residues_of
from cipherblas.roles.given import checked_operands
from cipherblas.roles.planned import PlannedProgram
from cipherblas.roles.processes import OneProcess
from cipherblas.roles.wire.messages import EncryptedOperand, EncryptedResult, short_id
from cipherblas.roles.wire.report import RunPrediction, RunReport
from cipherblas.runtime.listing import Listing, Replay
from cipherblas.runtime.values import Value

RUN = "this run, beside the keys"  # what memory is asked for
READ_COPIES = 3  # of a ciphertext that is read: its data, random words, and residues that are made of these


@dataclass(frozen=True)
class Equipment:
    """The equipment that all runs of a server share. No run changes it.

    Attributes:
        listing: the instructions of the program.
        keys: those that are used here.
        key_digest: of all keys, where ranks compare them.
        encodings: of masks and weights, kept from run to run.
    """

    program: PlannedProgram
    listing: Listing
    keys: EvaluationKeys
    key_digest: str
    engine: Engine
    encodings: ProgramEncodings
    processes: OneProcess


class Run:
    """One run; made by `Server.prepare`, which has checked its operands. Others may run beside it.

    Attributes:
        report: what it took, when it is done.
        done, total: block operations so far, and of all; or layers and weights of a network.
    """

    def __init__(
        self,
        program: PlannedProgram,
        equipment: Sequence[Equipment],
        operands: Mapping[str, Any],
        finished: Callable[[RunReport], None],
    ) -> None:
        self._program, self._each, self._finished = program, equipment, finished
        self._equipment, self._number = equipment[0], 0  # of the run that is being computed
        self._progress: Progress | None = None
        self._cancelled = threading.Event()
        self._event: threading.Event | None = None  # of the caller
        self._encrypted, self._clear = checked_operands(program, equipment[0].keys.key_id, operands)
        self._rows: RowsNative | None = None
        self._keeps_masks = True
        self._memory = PeakMemory()
        self.done = self.total = 0
        self.report = RunReport()

    def __repr__(self) -> str:
        return f"<Run of program {short_id(self._program.id)}, {self.done} of {self.total} operations>"

    def cancel(self) -> None:
        """End the run, from another thread: between two steps, and ten times a second within a long one."""
        self._cancelled.set()

    def result(
        self, progress: Progress | None = None, cancel: threading.Event | None = None
    ) -> EncryptedResult:
        """Compute the result, and return it.

        Args:
            progress, cancel: as those of `Server.run`.

        Raises:
            CancelledError: `cancel` was called, or the event is set.
            MemoryBudgetError: less memory is available than the plan needs.
            StorageError: encoded weights beyond their budget find no room in their file.
        """
        self._progress, self._event, self._memory = progress, cancel, PeakMemory()
        try:
            with asked(self._check_cancelled):
                found = self._computed()
        except BaseException as error:
            self._equipment.processes.failed(error)
            raise
        self._finished(self.report)
        return found

    def _computed(self) -> EncryptedResult:
        each: list[Sequence[Sequence[NDArray[Any]]]] = []
        for number, equipment in enumerate(self._each):
            self._equipment, self._number = equipment, number
            each.append(self._computed_modulo(number))
        program = self._program
        arrays = [tuple(itertools.chain.from_iterable(parts)) for parts in zip(*each, strict=True)]
        return EncryptedResult(
            program.id,
            program.shape,
            program.plan.parameters,
            tuple(itertools.chain.from_iterable(arrays)),
            self.report.seconds,
            self._equipment.keys.key_id,
            {name: operand.digest for name, operand in self._encrypted.items()},
            tuple(map(len, arrays)) if program.expression.root else (),
            program.plan.promise.name,
            self.report,
        )

    def _operands_modulo(
        self, number: int
    ) -> tuple[Mapping[str, EncryptedOperand], Mapping[str, NDArray[Any]]]:
        """The operands of the run of this number, where a program is run modulo several t."""
        plan = self._equipment.program.plan
        if not self._program.plan.moduli:
            return self._encrypted, self._clear
        modulus = plan.parameters.plain_modulus
        assert modulus is not None
        encrypted = {}
        for name, one in self._encrypted.items():
            # Factors of messages, and so how often an operand is sent, depend on t.
            before, own = self._uses(name, self._each[:number]), self._uses(name, [self._equipment])
            feeds = one.feeds[before : before + own]
            encrypted[name] = replace(one, feeds=feeds, parameters=plan.parameters)
        return encrypted, {name: residues_of(one, modulus) for name, one in self._clear.items()}

    def _uses(self, name: str, equipment: Sequence[Equipment]) -> int:
        """How often an operand is sent for some of the t."""
        return sum(len(one.program.inputs_of(name)) for one in equipment)

    def _computed_modulo(self, number: int) -> Sequence[Sequence[NDArray[Any]]]:
        """The ciphertexts of each result, of the run of this number; what it took is added to the report."""
        given, processes = self._equipment, self._equipment.processes
        plan = given.program.plan
        encrypted, clear = self._operands_modulo(number)
        processes.agree(given.key_digest, encrypted, clear)
        if not number:  # of several t each takes as much
            self._keeps_masks = self._has_room_for_masks(_stored_bytes(encrypted))
        masks = given.encodings.masks if self._keeps_masks else Encodings(0)
        inputs, evaluators = processes.inputs(encrypted, clear), self._evaluators(masks)
        weights = plan.counts.plain_products if plan.counts.stored_bytes else 0
        replay = Replay(given.listing, evaluators, inputs, self._told, weights=weights)
        self.total = len(self._each) * (weights + given.listing.total)
        sent, watch = processes.sent(), Stopwatch(processes.communicator)
        start = time.perf_counter()
        values = replay.results()
        encoding = evaluators.encoding_seconds
        own = time.perf_counter() - start - encoding - inputs.seconds
        arrays = [self._arrays(value, evaluators) for value in values]
        if self._rows is not None:
            watch.copies = self._rows.copying_seconds
        if "slots" in vars(evaluators):
            watch.stages = evaluators.slots.stage_seconds
        times = watch.stop(last=number == len(self._each) - 1)
        sent = processes.sent() - sent  # before ranks tell each other their times
        ranks = tuple(of_all(processes.communicator, times))  # when the slowest is done
        report = RunReport(
            counts=evaluators.counts,
            seconds=processes.seconds(own, time.perf_counter() - start - encoding),
            node_seconds=replay.seconds,
            encoding_seconds=encoding,
            peak_bytes=self._memory.peak(),
            sent=sent,
            rank_times=ranks,
            predicted=RunPrediction.of(self._program.plan),
        )
        self.report = report if not number else self.report.and_then(report)
        return arrays

    def _told(self, done: int, total: int) -> None:
        runs = len(self._each)
        done, total = done + self._number * total, runs * total
        self.done, self.total = done, total
        self._check_cancelled()
        if self._progress is not None:
            self._progress(done, total)

    def _check_cancelled(self) -> None:
        self._memory.look()
        if self._cancelled.is_set() or (self._event is not None and self._event.is_set()):
            raise CancelledError("The run was cancelled.", got=f"{self.done} of {self.total} steps were done")

    def _evaluators(self, masks: Encodings) -> Evaluators:
        given, plan = self._equipment, self._equipment.program.plan
        own = plan.parameters.family.rows
        own_ring = own is not plan.parameters
        in_slots: dict[str, Any] = {
            "engine": given.engine,
            "order": plan.order,
            "key_policy": plan.key_policy,
            "encodings": masks,
        }
        by_rows: dict[str, Any] = {
            "engine": given.engine.beside(own) if own_ring else given.engine,
            "key_policy": plan.key_policy,
        }

        def slots() -> Native:
            return given.processes.slots(given.keys, weights=given.encodings.weights, **in_slots)

        def rows() -> RowsNative:
            self._rows = given.processes.rows(own, given.keys.of_rows, **by_rows)
            return self._rows

        def shared(secrets: int) -> SharedNative:
            return SharedNative(plan.parameters, given.keys, secrets, **in_slots)

        elements = (lambda: Native(own, given.keys.of_rows, **by_rows)) if own_ring else None
        return Evaluators(slots, rows, elements, shared)

    def _arrays(self, value: Value, evaluators: Evaluators) -> Sequence[NDArray[Any]]:
        """The ciphertexts of a result, on the rank that tells them; none on others."""
        evaluator = value.form.evaluator(evaluators)
        words = [part for handle in value.handles for part in evaluator.downloaded(handle.data)]
        return words if self._equipment.processes.tells else []

    def _has_room_for_masks(self, stored: int) -> bool:
        """Whether a run keeps masks and constants: the machine that it is on has memory for them.

        It has, if what the plan needs beside them and the keys is available (weights aside, which can go to a file).

        Args:
            stored: bytes of ciphertexts that stay in their files, less those that are read at a time.

        Raises:
            MemoryBudgetError: not even then is there enough.
        """
        given, plan = self._equipment, self._equipment.program.plan
        masks = [one.encodings.masks for one in self._each]
        more = given.processes.streamed_bytes - given.keys.nbytes - min(stored, plan.held_bytes)
        more += self._program.plan.result_bytes - plan.result_bytes  # of all t
        needed = plan.peak_bytes - plan.weight_memory_bytes + more
        needed = given.processes.needed_bytes(needed, given.keys)
        try:
            check_available(needed - sum(one.nbytes for one in masks), RUN)
            return True
        except MemoryBudgetError:
            for one in masks:
                one.clear()
        try:
            check_available(needed, RUN)
            return True
        except MemoryBudgetError:
            least = given.program.least_bytes + more
            if least >= needed:
                raise
            check_available(least, RUN)
            return False


def _stored_bytes(operands: Mapping[str, EncryptedOperand]) -> int:
    """Bytes of ciphertexts that stay in their files. Each thread reads one, and draws as many random words."""
    feeds = itertools.chain.from_iterable(operand.feeds for operand in operands.values())
    stored = [ct for feed in feeds for ct in feed if isinstance(ct, StoredCiphertext)]
    sizes = [ct.nbytes for ct in stored if ct.seed is not None]  # those of a public key are read to stay
    return max(0, sum(sizes) - READ_COPIES * _core.threads() * max(sizes, default=0))
