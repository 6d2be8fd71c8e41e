"""The server: runs a program on encrypted operands with public keys. By type it holds no secret."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cipherblas.common.errors import DTypeError, MismatchError, ParameterError, in_place_of
from cipherblas.common.log import LOG
from cipherblas.common.progress import Progress, shown
from cipherblas.crypto.keys import EvaluationKeys
from cipherblas.distributed.communicator import Communicator
from cipherblas.distributed.dry_run import RankRun, in_turn
from cipherblas.distributed.ranks import Distribution
from cipherblas.distributed.slots import DISTRIBUTIONS
from cipherblas.engines.registry import CPU, engine_of
from cipherblas.roles.calls import operands_in_one_mapping
from cipherblas.roles.one_run import Equipment, Run
from cipherblas.roles.planned import PlannedProgram
from cipherblas.roles.processes import OneProcess, Ranks
from cipherblas.roles.wire.messages import EncryptedResult, check_parameters, short_id
from cipherblas.roles.wire.report import RunReport


class Server:
    """Executes a program; made by `Program.server(evaluation_keys)`. Several threads may run it
    at once, but on ranks, whose messages are those of one run.

    Attributes:
        last: the report of the run that was done last; an empty one before the first.
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
        sharing: Distribution = "4d-s",
    ) -> None:
        given: Any = program
        if not isinstance(given, PlannedProgram):
            raise DTypeError(
                "A server runs a whole program.",
                expected="Program",
                got=type(given).__name__,
                advice="program.server(keys), with program = cb.Program.load(file) of program.save(file)",
            )
        if not isinstance(keys, EvaluationKeys):
            raise DTypeError(
                "A server takes evaluation keys.",
                expected="EvaluationKeys",
                got=type(keys).__name__,
                advice="program.server(client.evaluation_keys())",
            )
        if not program.made_for(keys.program_id):
            raise MismatchError(
                "The keys belong to another program.",
                expected=short_id(program.id),
                got=short_id(keys.program_id) or "no program",
                advice="the evaluation keys of a client of this program",
            )
        check_parameters("the key set", keys.params, program.plan.parameters)
        keys.check(program.plan.keys)
        if sharing not in DISTRIBUTIONS:
            raise ParameterError(
                "There is no such way to share block products.",
                expected=" | ".join(DISTRIBUTIONS),
                got=sharing,
                advice=in_place_of(sharing, DISTRIBUTIONS, 'sharing="{}"'),
            )
        self.program, self.communicator, self.sharing = program, communicator, sharing
        digest = "" if communicator is None else keys.digest()
        self._each = tuple(  # of a program modulo several t one for each
            self._equipped(one, keys, digest, engine, weight_budget, weight_folder)
            for one in program.residues
        )
        self._equipment = self._each[0]
        self._options: dict[str, Any] = {
            "engine": engine,
            "weight_budget": weight_budget,
            "weight_folder": weight_folder,
        }
        if communicator is not None:
            self._options |= {"communicator": communicator, "sharing": sharing}
        self.last = RunReport()

    def _equipped(
        self,
        program: PlannedProgram,
        keys: EvaluationKeys,
        digest: str,
        engine: str,
        weight_budget: int | None,
        weight_folder: str | Path | None,
    ) -> Equipment:
        """The equipment of runs of a program, or of one modulo one t of several."""
        ranks = self.communicator
        processes = OneProcess(program) if ranks is None else Ranks(program, ranks, self.sharing)
        modulus = program.plan.parameters.plain_modulus
        return Equipment(
            program,
            program.listing,
            processes.own(keys if modulus is None else keys.modulo(modulus)),
            digest,
            engine_of(engine, program.plan.parameters),
            program.encodings(weight_budget, weight_folder, engine),
            processes,
        )

    @property
    def rank_runs(self) -> list[RankRun]:
        """Computation, messages and keys of each rank, found by a run on shapes; of exact integers by residues those of
        all t together.

        Raises:
            ParameterError: the server is alone.
        """
        return in_turn([one.processes.runs for one in self._each])

    def load_keys(self, progress: Progress | None = None) -> None:
        """Read all keys that this server uses and that are still in files.

        Args:
            progress: as that of `EvaluationKeys.load_all`.
        """
        self._equipment.keys.load_all(progress)

    def __repr__(self) -> str:
        return f"<Server of program {short_id(self.program.id)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made, and so checked, by the constructor; what was encoded is encoded again."""
        return functools.partial(Server, **self._options), (self.program, self._equipment.keys)

    @operands_in_one_mapping
    def prepare(self, operands: Mapping[str, Any], /) -> Run:
        """A run that is computed later, by `result()`, and that another thread can cancel.

        Args:
            operands: as those of `run`.

        Returns:
            The run; its operands are checked, and nothing is computed yet.

        Raises:
            MismatchError, ShapeError, DTypeError, RangeError: as `run`.

        Examples:
            >>> import numpy as np, cipherblas as cb
            >>> program = cb.compile(lambda x: 2 * x, {"x": cb.secret(2, 2)})
            >>> client = program.client()
            >>> server = program.server(client.evaluation_keys())
            >>> run = server.prepare(client.encrypt({"x": np.eye(2)}))
            >>> bool(np.abs(client.decrypt(run.result()) - 2 * np.eye(2)).max() < 1e-3)
            True
        """
        try:
            return Run(self.program, self._each, operands, self._done)
        except BaseException as error:
            self._equipment.processes.failed(error)
            raise

    def _done(self, report: RunReport) -> None:
        self.last = report
        LOG.info("ran %s in %.3g s", short_id(self.program.id), report.seconds)

    @operands_in_one_mapping
    def run(
        self,
        operands: Mapping[str, Any],
        /,
        *,
        progress: Progress | bool | None = None,
        cancel: threading.Event | None = None,
    ) -> EncryptedResult:
        """Compute the program.

        Args:
            operands: by name an `EncryptedOperand` for each secret and an array for each public operand.
            progress: called as progress(done, total) after every block operation; of a network as weights are ready
                and after every layer.
            cancel: an event; once another thread sets it, the run ends within half a second, inside a long product too,
                and its memory is free. On several ranks it ends this one's, and the others, who cannot go on, with a
                `RankError`.

        Returns:
            The encrypted result, with the facts of this run: `result.report`.

        Raises:
            CancelledError: the event is set; nothing of the run is kept.
            MismatchError: an operand is missing, unknown, or belongs to another program or key pair.
            ShapeError, DTypeError, RangeError: a clear operand is not a finite array of the declared shape.
            MemoryBudgetError: less memory is available than the plan needs.
            StorageError: encoded weights beyond their budget find no room in their file.

        Examples:
            >>> import numpy as np, cipherblas as cb
            >>> program = cb.compile(lambda x: x * x, {"x": cb.secret(2, 2)})
            >>> client = program.client()
            >>> result = program.server(client.evaluation_keys()).run(client.encrypt({"x": np.eye(2)}))
            >>> result.report.counts == result.report.predicted.counts == program.plan.counts
            True
        """
        progress = shown(progress, "computing")
        return self.prepare(operands).result(progress, cancel)
