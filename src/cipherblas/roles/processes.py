"""Where a program runs: in one process, or on ranks of which each has a share. The server's one seam between both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.keys import EvaluationKeys
from cipherblas.distributed.agreement import check_agreement
from cipherblas.distributed.communicator import Communicator, Sent
from cipherblas.distributed.dry_run import RankRun, rank_runs
from cipherblas.distributed.ranks import Distribution
from cipherblas.distributed.rows import RowsRanks
from cipherblas.distributed.slots import Division, SlotsRanks
from cipherblas.evaluators.rows.native import RowsNative
from cipherblas.evaluators.slots.native import Native
from cipherblas.roles.on_ranks import rank_bytes
from cipherblas.roles.planned import PlannedProgram
from cipherblas.roles.received import ReceivedInputs
from cipherblas.roles.wire.messages import EncryptedOperand, array_digest


class OneProcess:
    """All of a program, here.

    Attributes:
        communicator: between the ranks; None.
        tells: whether results are told here.
        streamed_bytes: of memory that the plan leaves out, since operands are expanded one by one.
    """

    communicator: Communicator | None = None
    tells = True
    streamed_bytes = 0

    def __init__(self, program: PlannedProgram) -> None:
        self.program = program

    @property
    def runs(self) -> list[RankRun]:
        """The share of each rank.

        Raises:
            ParameterError: there are no ranks.
        """
        raise ParameterError("This server has no ranks.", advice="program.server(keys, communicator=…)")

    def own(self, keys: EvaluationKeys) -> EvaluationKeys:
        """The keys that are used here."""
        return keys

    def agree(
        self, digest: str, encrypted: Mapping[str, EncryptedOperand], clear: Mapping[str, NDArray[Any]]
    ) -> None:
        """Raise MismatchError on every rank where one holds another program, other keys or operands.

        Args:
            digest: of all evaluation keys.
        """

    def failed(self, error: BaseException) -> None:
        """Tell the others."""

    def inputs(
        self, encrypted: Mapping[str, EncryptedOperand], clear: Mapping[str, NDArray[Any]]
    ) -> ReceivedInputs:
        """Where a run gets its operands from."""
        return ReceivedInputs(self.program, encrypted, clear)

    def slots(self, keys: EvaluationKeys, **options: Any) -> Native:
        """The evaluator of slots."""
        return Native(self.program.plan.parameters, keys, **options)

    def rows(self, params: Any, keys: Any, **options: Any) -> RowsNative:
        """The evaluator of rows."""
        return RowsNative(params, keys, **options)

    def needed_bytes(self, needed: int, keys: EvaluationKeys) -> int:
        """Memory that a run needs beside its keys; `needed` is the plan's figure."""
        return needed

    def sent(self) -> Sent:
        """By this rank so far."""
        return Sent()

    def seconds(self, own: float, all_together: float) -> float:
        """Of a run, of its evaluation here and of what passed until the last rank was done."""
        return own


class Ranks(OneProcess):
    """One rank of several.

    Args:
        sharing: of products in slots.
    """

    def __init__(self, program: PlannedProgram, communicator: Communicator, sharing: Distribution) -> None:
        super().__init__(program)
        self.communicator: Communicator = communicator
        self.sharing = sharing
        self.tells = communicator.rank == 0
        self.streamed_bytes = program.plan.streamed_bytes
        plan = program.plan
        self._runs = rank_runs(plan.parameters, program.listing, plan.decided, communicator.size, sharing)

    @property
    def runs(self) -> list[RankRun]:
        return self._runs

    @property
    def _run(self) -> RankRun:
        return self._runs[self.communicator.rank]

    def own(self, keys: EvaluationKeys) -> EvaluationKeys:
        return keys.only(self._run.keys)

    def agree(
        self, digest: str, encrypted: Mapping[str, EncryptedOperand], clear: Mapping[str, NDArray[Any]]
    ) -> None:
        digests = {"plan": self.program.id, "set of evaluation keys": digest}
        digests |= {f"operand {name!r}": operand.digest for name, operand in encrypted.items()}
        digests |= {f"operand {name!r}": array_digest(array) for name, array in clear.items()}
        check_agreement(self.communicator, digests)

    def failed(self, error: BaseException) -> None:
        self.communicator.failed(error)

    def inputs(
        self, encrypted: Mapping[str, EncryptedOperand], clear: Mapping[str, NDArray[Any]]
    ) -> ReceivedInputs:
        return ReceivedInputs(self.program, encrypted, clear, self._run, self.communicator.size)

    def slots(self, keys: EvaluationKeys, **options: Any) -> Native:
        found = SlotsRanks(self.program.plan.parameters, keys, **options)
        found.division = Division(self.communicator, self.sharing)
        return found

    def rows(self, params: Any, keys: Any, **options: Any) -> RowsNative:
        return RowsRanks(params, keys, self.communicator, **options)

    def sent(self) -> Sent:
        return replace(self.communicator.sent)

    def seconds(self, own: float, all_together: float) -> float:
        return all_together

    def needed_bytes(self, needed: int, keys: EvaluationKeys) -> int:
        return min(needed, rank_bytes(self.program, self._run) - keys.nbytes)
