"""An expression with the plan to compute it: what every role reads, and what a file of a program holds."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.arrays import finite_array
from cipherblas.common.checks import check_name
from cipherblas.common.errors import (
    CipherblasError,
    DTypeError,
    FormatError,
    LevelError,
    MismatchError,
    ParameterError,
    SecurityError,
    UnmatchedError,
    capitalized,
)
from cipherblas.common.progress import Progress, Steps, shown
from cipherblas.common.work import MAX_COMPILED_STEPS, MAX_STEPS, budget_of, check_nodes
from cipherblas.crypto import files
from cipherblas.crypto.params import Parameters
from cipherblas.engines.encodings import ProgramEncodings
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.lang import graph
from cipherblas.lang.analysis import evaluate_results
from cipherblas.lang.crt import declared_modulo, exact_numbers, residues_of, with_operands
from cipherblas.lang.exact import is_exact
from cipherblas.lang.facts import facts_of
from cipherblas.lang.modular import check_modular, evaluate_modular, modulus_of, residues
from cipherblas.lang.nodes import Expression
from cipherblas.lang.normalisation import Normalisation
from cipherblas.lang.operands import (
    BOUND_RANGE,
    ENCODING,
    FIXED_POINT,
    MAX_EXACT_MODULUS,
    MAX_FIXED_BITS,
    MAX_LENGTH,
    MODULUS,
    NORMALISE,
    Encoding,
    Operand,
)
from cipherblas.lang.results import MAX_RESULTS, Arranged, labels_of, results_of
from cipherblas.lang.samples import Samples
from cipherblas.planner.plan.assembly import executed, peak_bytes_of, replay
from cipherblas.planner.plan.by_samples import simulated_plan
from cipherblas.planner.plan.exact import check_planned
from cipherblas.planner.plan.explain import explain
from cipherblas.planner.plan.listed import listed
from cipherblas.planner.plan.modular import check_modulus_of
from cipherblas.planner.plan.notebook import as_html
from cipherblas.planner.plan.plan import Plan
from cipherblas.planner.plan.residues import check_residues, moduli_of, repeated, without_moduli
from cipherblas.planner.plan.worst_case import worst_errors
from cipherblas.planner.predict.dry_run import DryRun, dry_run, listing_of
from cipherblas.planner.predict.promises import SampledErrors
from cipherblas.planner.predict.simulation import RangeFound, ranges_of
from cipherblas.rlwe.counts import Counts
from cipherblas.roles.calls import operands_in_one_mapping
from cipherblas.roles.client_side import ClientSide, secret_operand
from cipherblas.roles.wire.messages import check_shape, given, short_id
from cipherblas.runtime.blocks import BLOCKS
from cipherblas.runtime.listing import Listing
from cipherblas.runtime.tensors import TENSORS
from cipherblas.runtime.values import Input, Output

KIND = "program"
UNIT = re.compile(r"-?[1-9][0-9]{0,399}(/[1-9][0-9]{0,399})?", re.ASCII)  # of a result in fixed point

T = TypeVar("T")
Planned = TypeVar("Planned", bound="PlannedProgram")
OPERAND = schema.record(
    {"shape": schema.listed(schema.anything), "secret": schema.flag, "bound": schema.number(*BOUND_RANGE)},
    {
        "whole": schema.flag,
        "encryption": schema.text,
        "exact": schema.flag,
        **dict.fromkeys(("row_sum", "column_sum", "norm"), schema.number(*BOUND_RANGE)),
        "columns": schema.listed(schema.number(*BOUND_RANGE), 1, MAX_LENGTH),
        MODULUS: schema.integer(2, MAX_EXACT_MODULUS),
        FIXED_POINT: schema.integer(1, MAX_FIXED_BITS),
        ENCODING: schema.record(
            {"limbs": schema.integer(1), "scale_bits": schema.number(), "error": schema.number()}
        ),
        NORMALISE: schema.record(
            dict.fromkeys(("mean", "deviation"), schema.listed(schema.number(), 1, MAX_LENGTH))
        ),
    },
)
UNITS = schema.listed(schema.text, 1, MAX_RESULTS)
_HEADER = schema.record(
    {
        "id": schema.text,
        "operands": schema.mapping(OPERAND),
        "graph": schema.listed(schema.anything),
        "decisions": schema.anything,
        "planned_for": schema.anything,
    },
    {"units": UNITS},
    others=True,
)


class PlannedProgram(files.InMemory, ClientSide):
    """A traced graph and its plan; see `Program`, which also makes who takes part in it.

    Attributes:
        expression: the traced graph.
        executed: what runs: by rows, with vectors as matrices of one column.
        exact: its results are exact integers, int64.
        operands: name → declared operand.
        plan: what was decided and predicted.
        written: the graph as the user's function made it, whose nodes know the functions that they approximate; None of
            a program from a file.
        id: SHA-256 over expression, operands and decisions; keys and ciphertexts carry it.
    """

    def __init__(
        self,
        expression: Expression,
        operands: Mapping[str, Operand],
        plan: Plan,
        run: DryRun,
        units: tuple[Fraction, ...] = (),
    ) -> None:
        self.expression = expression
        self.exact = is_exact(expression)
        self.operands = dict(operands)
        self.plan: Plan = plan
        self.units = units
        self.written: Expression | None = None
        self._worst_errors: tuple[float, ...] | None = None
        self.executed: Expression = expression
        self._residues: tuple[PlannedProgram, ...] = ()
        if plan.moduli:
            check_residues(expression, operands, plan)
            self._residues = tuple(self._modulo(modulus) for modulus in plan.moduli)
            self.executed = self._residues[0].executed
            each = (one.plan.counts for one in self._residues)  # a factor may be one modulo some t
            self.plan = replace(plan, counts=sum(each, Counts()))
        else:
            self.executed = executed(expression, plan.decided)
            check_planned(expression, plan.results)
            _check_kind(expression, plan.parameters)
        self._run = run
        self._encodings: set[ProgramEncodings] = set()  # of servers that there were: their weights are ready
        self.id = hashlib.sha256(json.dumps(self._identity(), sort_keys=True).encode()).hexdigest()

    @property
    def residues(self) -> tuple[PlannedProgram, ...]:
        """The same program modulo each t, of exact integers by residues; of any other this one."""
        return self._residues or (self,)

    def _modulo(self, modulus: int) -> PlannedProgram:
        """The same program of integers modulo one t of several, as it was decided."""
        operands = declared_modulo(self.operands, modulus)
        expression, parameters = (
            with_operands(self.expression, operands),
            self.plan.parameters.modulo(modulus),
        )
        decisions = {**self.plan.decisions(), "parameters": parameters.to_dict()}
        plan, run = replay(expression, without_moduli(decisions), self.plan.planned_for(), parameters)
        return PlannedProgram(expression, operands, plan, run)

    def __repr__(self) -> str:
        return f"<Program {short_id(self.id)}: {graph.formula(self.expression)}>"

    def _repr_html_(self) -> str:
        """The plan as notebooks show it, with figures, nodes and the text of `explain`."""
        return as_html(self.plan, graph.formula(self.expression), self.explain())

    def _identity(self) -> dict[str, Any]:
        return {
            **({"units": list(map(str, self.units))} if self.units else {}),
            "graph": graph.to_json(self.expression),
            "operands": {name: operand.declared for name, operand in self.operands.items()},
            "decisions": self.plan.decisions(),
            "constants": {
                name: constant.digest for name, constant in graph.constants(self.expression).items()
            },
        }

    def explain(self, *, steps: bool = False) -> str:
        """The plan as text: algorithm, parameters, keys, time, memory, error, all predicted before anything runs.

        Args:
            steps: every step of a run too, in order: what it does, for which node, which steps made what it reads, how
                its result lies, at which limbs and scale, and until which step that is held.

        Examples:
            >>> import cipherblas as cb
            >>> program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)})
            >>> "multiply" in program.explain(steps=True)
            True
        """
        shapes = [node.shape for node in self.results]
        formula = graph.formula(self.expression)
        text = explain(self.plan, formula, self.operands, shapes, self.noise_budgets)
        return f"{text}\n{listed(self.plan, self.executed, self.listing)}" if steps else text

    def inputs_of(self, name: str) -> list[Input]:
        """The encodings of the operand `name`; the client sends them."""
        runs = [program._run for program in self.residues]
        return [one for run in runs for one in run.inputs if one.name == name]

    @property
    def fixed_factors(self) -> tuple[ClearFactor, ...]:
        """The clear factors that have keys of their own."""
        return self._run.fixed_factors

    @functools.cached_property
    def listing(self) -> Listing:
        """The instructions of a run, in order."""
        plan = self.residues[0].plan
        return listing_of(plan.parameters, self.executed, plan.decided, plan.mask_budget)

    @functools.cached_property
    def outputs(self) -> tuple[Output, ...]:
        """How each result comes back."""
        return self._run.outputs(self.plan.parameters)

    @functools.cached_property
    def noise_budgets(self) -> tuple[float, ...]:
        """Bits of its modulus that the errors of each result leave, of integers modulo t in slots.

        Below 0 they could make it wrong. There are none of real numbers.

        Examples:
            >>> import cipherblas as cb
            >>> program = cb.compile(lambda a: a * a, {"a": cb.secret(8, 8, modulus=65537)})
            >>> min(program.noise_budgets) > 0
            True
        """
        if self.plan.moduli:
            return tuple(map(min, zip(*(one.noise_budgets for one in self.residues), strict=True)))
        if self.plan.parameters.plain_modulus is None or self.plan.form not in (BLOCKS, TENSORS):
            return ()
        moduli = self.plan.parameters.q
        return tuple(
            min(
                math.log2(math.prod(moduli[: one.limbs]))
                - math.log2(2 * self.plan.parameters.plain_modulus * max(one.noise, 1.0))
                for one in value.handles
            )
            for value in self._run.results
        )

    @functools.cached_property
    def worst_error(self) -> Arranged[float]:
        """Bound on the error of an entry for whatever operands within their bounds: no two errors are independent.

        What `plan.error` promises holds for data that nobody chose to make errors large; `Sharing` needs this. Of
        several results, one for each, as the program returns them.
        """
        return self.arranged(self.worst_errors)

    @property
    def worst_errors(self) -> tuple[float, ...]:
        """`worst_error` of each result, in their order."""
        return self.found_worst_errors(None)

    def found_worst_errors(self, progress: Progress | None) -> tuple[float, ...]:
        """`worst_errors`; progress is that of the symbolic run which finds them, if it was not done before."""
        if self.plan.for_peer is not None:
            raise SecurityError(
                "No largest error is known of what another library encrypts: results are not shared.",
                got=f"for_peer={self.plan.for_peer!r}",
                advice="cb.compile(…) without for_peer=, and operands that cipherblas encrypts",
                cause="The bound is of the errors that cipherblas draws.",
            )
        if self._worst_errors is None:
            self._worst_errors = tuple(worst_errors(self.executed, self.plan, progress))
        return self._worst_errors

    @operands_in_one_mapping
    def evaluate(self, operands: Mapping[str, Any], /, *, progress: Progress | bool | None = None) -> Any:
        """The program in the clear, by NumPy, of arrays by name: what encrypted results are compared with.

        Args:
            operands: by name an array for each.
            progress: called as progress(done, total), counted in operations.

        Returns:
            An array, of programs of exact integers, or modulo t, of integers; of several results a tuple, or a
            dictionary, of arrays.

        Raises:
            MismatchError, ShapeError, DTypeError, RangeError: not finite real arrays of all operands and their shapes;
                of a program of exact integers also fractions, or an entry beyond the declared bound.
        """
        progress = shown(progress, "computing")
        values = self._checked(operands)
        if self.computed_moduli:
            return self.arranged(self.whole([one.evaluated_modulo(values) for one in self.residues]))
        results = [
            np.asarray(value) for value in evaluate_results(self.expression, values, progress=progress)
        ]
        return self.arranged(self.whole([results]) if self.exact else results)

    def evaluated_modulo(self, values: Mapping[str, NDArray[Any]]) -> list[NDArray[np.int64]]:
        """The results of a program modulo t in the clear.

        Args:
            values: checked arrays of whole numbers.
        """
        modulus = self.plan.parameters.plain_modulus
        assert modulus is not None
        reduced = {name: residues_of(value, modulus) for name, value in values.items()}
        return evaluate_modular(self.expression, reduced, modulus)

    def _checked(self, operands: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """An array for each operand, of its shape, as it is encrypted; of exact integers, integers."""
        if set(operands) != set(self.operands):
            raise MismatchError(
                "The operands are not those of the program.",
                expected=", ".join(self.operands),
                got=", ".join(operands) or "none",
                advice=given(self.operands),
            )
        values: dict[str, NDArray[Any]] = {}
        for name, operand in self.operands.items():
            if self.exact:
                values[name] = exact_numbers(operands[name], name, operand)
                continue
            if operand.modulus is not None:
                values[name] = residues(operands[name], name, operand)
                continue
            values[name] = finite_array(operands[name], f"operand {name!r}", (len(operand.shape),))
            check_shape(name, values[name].shape, operand.shape)
            values[name] = operand.normalised(values[name])
        return values

    @operands_in_one_mapping
    def check(self, operands: Mapping[str, Any], /) -> list[RangeFound]:
        """Say, in the clear, how far values come that the program was planned to stay in a range.

        Bounds that `cb.assume` promises, and those that were measured on samples, are checked nowhere else: the server
        cannot see a value. Where an input leaves one, the encrypted result may be wrong without a word.

        Args:
            operands: by name an array for each.

        Returns:
            The nodes with such a bound, those that leave theirs first. Inputs are in range where all are `inside`.

        Raises:
            MismatchError, ShapeError, DTypeError, RangeError: as `evaluate`.

        Examples:
            >>> program = compile(lambda x: cb.assume(x @ x.T, 2.0) ** 2, {"x": secret(4, 4)})
            >>> all(found.inside for found in program.check({"x": 0.5 * np.eye(4)}))
            True
        """
        values = self._checked(operands)
        found = [
            RangeFound(name, float(np.abs(values[name]).max()), operand.bound)
            for name, operand in self.operands.items()
        ]
        found += ranges_of(self.expression, values)
        return sorted(found, key=lambda one: one.inside)

    def simulate(
        self, samples: Mapping[str, Any], *, slack: float = 1.5, progress: Progress | None = None
    ) -> Arranged[SampledErrors]:
        """Run the program in the clear on samples, with errors drawn as the noise model has them.

        Args:
            samples: by name an array for each operand, whose first axis counts them.
            slack: by which approximations may err more on other inputs.
            progress: called as progress(done, total), counted in draws of errors.

        Returns:
            Of each result, as the program returns them, the noise (the encrypted beside the polynomial program) and the
            approximation (the polynomial program beside the functions that were written; of a program from a file, as
            its plan states it), largest and root mean square, and the share of samples that agree on the largest entry.

        Raises:
            MismatchError, ShapeError, DTypeError, RangeError: not samples of all operands within their bounds.
            PrecisionError: errors carry a value out of its range.

        Examples:
            >>> program = compile(lambda x: x * x, {"x": secret(8)})
            >>> found = program.simulate({"x": np.linspace(-1, 1, 80).reshape(10, 8)})
            >>> found.noise < 1e-3
            True
        """
        if self.computed_moduli:
            raise ParameterError(
                "Results of integers are exact: there are no errors to simulate.",
                got="simulate",
                advice="program.evaluate(operands), the results themselves",
            )
        given = Samples(samples, self.operands, slack)
        found = simulated_plan(self.plan, self.executed, self.written, given, progress)
        return self.arranged(found)

    @functools.cached_property
    def least_bytes(self) -> int:
        """Bytes that a run needs where no mask or constant is kept, stored weights aside: of a count without any."""
        plan = self.plan
        run = dry_run(plan.parameters, self.executed, plan.decided, mask_budget=0, promise=plan.promise)
        return peak_bytes_of(run, plan.key_bytes, plan.parameters)

    def encodings(
        self, weight_budget: int | None, weight_folder: str | Path | None, engine: str
    ) -> ProgramEncodings:
        """The encodings that servers with this budget, folder and engine share, for programs of the same identity."""
        found = ProgramEncodings.of(self.id, self.plan.mask_budget, weight_budget, weight_folder, engine)
        self._encodings.add(found)
        return found

    def save(self, path: files.Target, *, progress: Progress | None = None) -> None:
        """Write the program (no secrets in it) to a file, atomically. A `.json` suffix is as good as any other.

        Args:
            path: where to; its directory must exist. Or a stream, as `open(path, "wb")` or `io.BytesIO()` gives it.
            progress: called as progress(done, total), counted in bytes of constants: each is hashed, and then written.

        Raises:
            StorageError: the system refuses.
        """
        header, values = self._content()
        steps = Steps(progress, files.STEPS_PER_BYTE * sum(array.nbytes for array in values.values()))
        files.write(path, KIND, header, values, parameters=self.plan.parameters, tick=steps.tick)

    def _content(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Header and tensors of a file."""
        values = {name: constant.values for name, constant in graph.constants(self.expression).items()}
        header = {**self._identity(), "planned_for": self.plan.planned_for(), "id": self.id}
        return header, values

    @classmethod
    @files.advised(KIND)
    def load(
        cls: type[Planned],
        path: files.Source,
        *,
        security: int = 128,
        insecure: bool = False,
        work_budget: int = MAX_STEPS,
        progress: Progress | None = None,
    ) -> Planned:
        """Read a program, whoever made it: what was decided is traced again, and predicted for the machine of the file.

        The candidates that lost are known only where it was compiled.

        Args:
            path: the file, its bytes, or a stream of them.
            security: bits that its parameters must have: 128, 192 or 256.
            insecure: accept less; below 128 bits with a warning.
            work_budget: steps of some ten microseconds that it may take to count the program. The default is enough
                for a product of 1024×1024 matrices in slots; a larger one needs more, up to 2^24.
            progress: called as progress(done, total): first counted in bytes of constants that are read, then from 0
                in the operations of the program, as by `Server.run`.

        Raises:
            FormatError, VersionError, StorageError: the file is not a whole file of ours.
            SecurityError: its parameters have less security.
            MismatchError: its identity is not that of its content.
            WorkBudgetError: it takes more work to be counted.
            CipherblasError: it is no program that can be run, for any reason for which `compile` refuses one.
        """
        with files.Reader(path, KIND, security=security, insecure=insecure) as reader:
            header, tensors = reader.header, reader.read_all(progress)
        with budget_of(work_budget):
            return cls._read(header, tensors, reader.parameters, progress)

    @classmethod
    def _read(
        cls: type[Planned],
        header: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        parameters: Parameters,
        progress: Progress | None = None,
    ) -> Planned:
        """The program that a file or a pickle holds, traced again; errors as `load`."""
        program = cls._traced(header, tensors, parameters, progress)
        if header["id"] != program.id:
            raise MismatchError(
                "The program is not the one that its file names.",
                expected=short_id(program.id),
                got=short_id(header["id"]),
                advice="a new copy of the file that program.save(FILE) wrote",
            )
        return program

    @classmethod
    def _traced(
        cls: type[Planned],
        header: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        parameters: Parameters,
        progress: Progress | None,
    ) -> Planned:
        """The program of a header, whatever its identity."""
        _HEADER(header, "a program")
        operands = read_operands(header["operands"])
        expression = graph.from_json(header["graph"], operands, tensors)
        check_expression(expression)
        decisions, planned_for = header["decisions"], header["planned_for"]
        moduli, units = moduli_of(decisions), read_units(header.get("units", ()), expression, operands)
        if not moduli:
            _check_kind(expression, parameters)
            plan, run = replay(expression, decisions, planned_for, parameters, progress)
            return cls(expression, operands, plan, run, units)
        first = with_operands(expression, declared_modulo(operands, moduli[0]))
        plan, run = replay(first, without_moduli(decisions), planned_for, parameters, progress)
        return cls(expression, operands, repeated(plan, moduli, expression), run, units)

    def with_encodings(
        self: Planned, encodings: Mapping[str, Encoding], *, progress: Progress | None = None
    ) -> Planned:
        """The same decisions on the same ring, where some operands come in an encoding that is given.

        What a program plans, it asks for; this is for operands that come as they are: with fewer limbs, at another
        scale, with entries that are off already. Figures and promise are those of what comes. It is another program:
        keys and ciphertexts of this one do not fit it.

        Args:
            encodings: by name, of secret operands.
            progress: called as progress(done, total), counted in the operations of the program, as by `Server.run`.

        Raises:
            MismatchError, DTypeError: the program has no secret operand of that name, or it is given no `Encoding`.
            LevelError: the program cannot be computed with so many limbs, or so few, or at this scale.
            ParameterError: the operand is exact.

        Examples:
            >>> import cipherblas as cb
            >>> program = cb.compile(lambda x: x * x, {"x": cb.secret(8)})
            >>> limbs, scale_bits = program.plan.parameters.limbs, program.plan.parameters.scale_bits
            >>> other = program.with_encodings({"x": cb.Encoding(limbs, scale_bits, error=1e-3)})
            >>> other.plan.error > 1e-3 > program.plan.error
            True
        """
        header, values = self._content()
        for name, encoding in encodings.items():
            operand = secret_operand(self, name)
            if not isinstance(encoding, Encoding):
                raise DTypeError(
                    f"The encoding of operand {name!r} must be an Encoding.",
                    got=type(encoding).__name__,
                    advice=f"{{{name!r}: cb.Encoding(limbs=2, scale_bits=40.0)}}",
                )
            header["operands"][name] = replace(operand, encoding=encoding).declared
        try:
            with budget_of(MAX_COMPILED_STEPS):
                return self._traced(json.loads(json.dumps(header)), values, self.plan.parameters, progress)
        except (LevelError, UnmatchedError) as error:
            raise LevelError(
                "The program cannot be computed with operands that come so.",
                got=", ".join(f"{name!r}: {encoding}" for name, encoding in encodings.items()),
                advice="cb.Encoding(…) of more limbs, or of the scale that program.inputs_of(name) tells",
                cause=str(error),
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold what a file holds, and are read as one."""
        header, values = self._content()
        return _unpickled, (type(self), json.dumps(header), values, self.plan.parameters)


def _unpickled(
    kind: type[Planned], header: str, tensors: Mapping[str, NDArray[Any]], parameters: Parameters
) -> Planned:
    """The program of a pickle: whoever sends one is trusted with more than the work of counting a plan."""
    given: Any = kind  # of a pickle, which may hold anything
    if not (isinstance(given, type) and issubclass(given, PlannedProgram)):
        raise FormatError("A pickle of a program holds another object.", expected="a Program", got=repr(kind))
    with budget_of(MAX_COMPILED_STEPS):
        return kind._read(json.loads(header), tensors, parameters)


def _check_kind(expression: Expression, parameters: Parameters) -> None:
    """Check that parameters are for the plaintexts of a program, before it is counted on them."""
    check_modulus_of(parameters, modulus_of(expression))
    if parameters.plain_modulus is not None:
        check_modular(expression)


def check_expression(expression: Expression) -> None:
    """Check the rules for every program, compiled here or read from a file."""
    for label, node in zip(labels_of(expression), results_of(expression), strict=True):
        if not node.secret:
            what = f"result {label!r}" if label else "the result"
            raise MismatchError(
                f"{capitalized(what)} does not depend on a secret operand.",
                advice="a result of secret operands; NumPy computes what is clear",
            )
    check_nodes(len(facts_of(expression).order))
    graph.check_constants(expression)


def read_units(
    given: Sequence[str], expression: Expression, operands: Mapping[str, Operand]
) -> tuple[Fraction, ...]:
    """The units of results of a header; FormatError where they are none of them."""
    fixed = any(one.fixed_point is not None for one in operands.values())
    good = all(UNIT.fullmatch(one) for one in given) and len(given) == fixed * len(results_of(expression))
    if not good:
        raise FormatError(
            "The units of results are none of the program.",
            expected=f"{fixed * len(results_of(expression))} fractions",
            got=len(given),
        )
    return tuple(map(Fraction, given))


def read_operands(declared: Mapping[str, Mapping[str, Any]]) -> dict[str, Operand]:
    """The operands of a header; FormatError where a name is none."""
    operands = {}
    for name, values in declared.items():
        try:
            check_name(name)
        except CipherblasError as error:
            raise FormatError(f"The operands of the program cannot be read: {error}") from error
        kinds = {ENCODING: Encoding, NORMALISE: Normalisation}
        given = {one: kind(**values[one]) for one, kind in kinds.items() if one in values}
        operands[name] = Operand(**{**values, **given})
    return operands
