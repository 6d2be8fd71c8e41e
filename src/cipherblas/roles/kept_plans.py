"""Plans that this user made before, in a folder: the same program for the same machine is not searched for twice.

A plan is found by the text of its program (`planner.plan.text`). A program's file is kept, without the constants that
the text has. It is read as any file of a program is: decisions are replayed, and predictions follow from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cipherblas.common.errors import CipherblasError
from cipherblas.common.limits import usable
from cipherblas.common.log import LOG
from cipherblas.common.work import MAX_COMPILED_STEPS, budget_of
from cipherblas.crypto import files
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.operands import Operand
from cipherblas.lang.operations import Constant
from cipherblas.planner.plan.plan import KeySaving, Plan, PlanOptions, Rejected
from cipherblas.planner.plan.text import text_digest
from cipherblas.planner.predict.machine import cache_folder
from cipherblas.planner.search.budgets import budgets_of
from cipherblas.roles.planned import KIND, Planned, PlannedProgram

SWITCH = "CIPHERBLAS_PLANS"  # of the environment: 0 keeps no plans, and takes none that were kept
MAX_BYTES, MAX_FOLDER_BYTES = 1 << 26, 1 << 28  # of one plan, and of all
# Where a plan needed more than this share of the memory, and there is so many times as much, a faster one may be found.
PLENTY, MORE = 8, 1.1
LOOKED_AT = ("rejected", "runners_up", "other_crossings", "key_saving")  # of a plan as a dictionary


class KeptPlan:
    """The place of a plan on disk.

    Args:
        path: of its file.
        names: of the operands, in their order.
        options: those of the plan.
        constants: clear values of the program as it was written, by digest.
    """

    def __init__(
        self, path: Path, names: Iterable[str], options: PlanOptions, constants: Mapping[str, NDArray[Any]]
    ) -> None:
        self._path, self._names, self._options, self._constants = path, tuple(names), options, constants

    @classmethod
    def of(
        cls, expression: Expression, operands: Mapping[str, Operand], options: PlanOptions
    ) -> KeptPlan | None:
        """The place of the plan of a program as it was written; None where plans are not kept, or this one cannot be
        told from others: by methods from elsewhere, or without security."""
        folder = None if os.environ.get(SWITCH) == "0" else cache_folder()
        if folder is None or options.insecure:
            return None
        name = text_digest(expression, operands, options)
        if name is None:
            return None
        every = (node for node in ordered(expression, origins=True) if isinstance(node, Constant))
        constants = {node.digest: node.values for node in every}
        return cls(folder / "plans" / f"{name[:32]}.program", operands, options, constants)

    def load(self, kind: type[Planned]) -> Planned | None:
        """The program, planned earlier; None where it was not, or for a machine with another memory."""
        options = self._options
        try:
            with files.Reader(self._path, KIND, security=options.security) as reader:
                header, tensors = reader.header, reader.read_all()
            known = {name: self._constants[digest] for name, digest in header["known"].items()}
            with budget_of(MAX_COMPILED_STEPS):
                found = kind._read(header, {**tensors, **known}, reader.parameters, None)
            plan = found.plan
            if not self._suits(plan):
                return None
            found.operands = {name: found.operands[name] for name in self._names}
            found.plan = replace(plan, **_looked_at(header["looked_at"]))
            os.utime(self._path)
        except (CipherblasError, OSError, LookupError, TypeError, ValueError):
            return None
        LOG.info("plan kept in %s", self._path.name)
        return found

    def _suits(self, plan: Plan) -> bool:
        """Whether the memory that is available now holds a plan, and would not hold a faster one."""
        then, now = (usable(one.memory) for one in (plan.machine, self._options.planned_for))
        needed = plan.peak_bytes - plan.weight_memory_bytes
        short = needed > then // PLENTY and now > MORE * then
        return needed <= budgets_of(self._options, 0).memory and not short

    def save(self, program: PlannedProgram) -> None:
        """Keep a plan, where the system lets us; the oldest ones go where there is too much."""
        header, tensors = program._content()
        digests = header["constants"]
        others = {name: tensor for name, tensor in tensors.items() if digests[name] not in self._constants}
        size = sum(tensor.nbytes for tensor in others.values())
        if size > MAX_BYTES:
            return
        header["known"] = {name: digest for name, digest in digests.items() if name not in others}
        said = program.plan.to_dict()
        header["looked_at"] = {name: said[name] for name in LOOKED_AT}
        folder = self._path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_room(folder, MAX_FOLDER_BYTES - size)
            files.write(self._path, KIND, header, others, parameters=program.plan.parameters, private=True)
        except (OSError, CipherblasError):
            return


def _looked_at(said: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a plan that say what it was chosen among."""
    saving = said["key_saving"]
    return {
        "rejected": tuple(Rejected(**one) for one in said["rejected"]),
        "runners_up": {int(number): text for number, text in said["runners_up"].items()},
        "other_conversions": {int(number): text for number, text in said["other_crossings"].items()},
        "key_saving": None if saving is None else KeySaving(**saving),
    }


def _make_room(folder: Path, most: int) -> None:
    """Remove the plans that were not used for the longest, until all have so many bytes at most."""
    each = [(path, path.stat()) for path in folder.glob("*.program")]
    for path, status in sorted(each, key=lambda one: -one[1].st_mtime_ns):
        most -= status.st_size
        if most < 0:
            path.unlink(missing_ok=True)
