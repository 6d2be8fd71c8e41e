"""What a plan is: everything that was decided and predicted before anything runs."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from cipherblas.common.arrays import is_scalar
from cipherblas.common.errors import (
    CipherblasError,
    DTypeError,
    MismatchError,
    ParameterError,
    PrecisionError,
    in_place_of,
    nearest_choice,
    without,
)
from cipherblas.common.limits import MASK_BYTES
from cipherblas.common.pickles import Rebuilt
from cipherblas.crypto.keys import KeyRequest
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.security import check_wanted
from cipherblas.evaluators.slots.values import Order
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import labels_of, results_of
from cipherblas.methods.layers import LAYER_METHODS
from cipherblas.methods.products import GEMM, RING, find
from cipherblas.planner.plan.leaving_out import left_out
from cipherblas.planner.plan.targets import ResultFigures, asked_errors, each_error, nearest_target, targets
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.predict.machine import Machine
from cipherblas.planner.predict.promises import BOUNDS, STEPS, Promise, PromiseName
from cipherblas.planner.predict.stages import DEFAULT_LINK, Minimise, Stages, predicted
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy, check_policy, rotation_steps
from cipherblas.rlwe.traffic import Traffic
from cipherblas.runtime.blocks import COEFFICIENTS, LAYOUT_PRESERVING
from cipherblas.runtime.executor import NodeFigures
from cipherblas.runtime.rows import ROWS
from cipherblas.runtime.tensors import PACKING
from cipherblas.runtime.values import Decisions, MethodChoice

# Blocks of matrices in slots; vectors and images in slots; matrices encrypted by rows and multiplied by GEMMs.
FormName = Literal["blocks", "tensors", "rows"]
AskedForm = Literal["blocks", "tensors", "rows", "mixed", "features"]
RangeName = Literal["promised", "clamped"]
PeerName = Literal["openfhe", "seal"]
# Memory that a process needs beside what the plan counts: interpreter, libraries, NTT tables, idle blocks of the pool.
PROCESS_BYTES = 150 << 20
RING_DEGREES = tuple(1 << log_n for log_n in range(12, 18))


@dataclass(frozen=True)
class PlanOptions:
    """The options of a plan, as the user gives them.

    Attributes:
        precision: largest error of an entry, relative to the bound of the result (for A @ B: max|A|·max|B|·k).
        error: largest error of an entry, in the units of the result; instead of `precision` (see `relative_to`). Of a
            program with several results, one for all, or one for each, in a tuple or by name as the results are.
        security: 128, 192 or 256 bits; anything less needs `insecure`.
        insecure: accept parameters below the table (warns; stamped into every file).
        algorithm: name of the algorithm for every product, or for every layer; None lets the planner choose.
        form: force "mixed" (products by GEMM on rows, entrywise operations in blocks), "blocks" (matrices in slots),
            "rows" (encrypted by rows, products by GEMM), "tensors" (vectors and images in slots, layer by layer) or
            "features" (blocks of one row, whose slots are samples); None lets the planner choose.
        memory_budget: bytes that the server may use, encoded weights of a network left out (`Program.server` bounds
            those); None takes four fifths of the memory that the machine has available.
        key_budget: bytes of evaluation keys in memory; None takes two thirds of the memory budget.
        upload_budget: bytes that the client may upload for the secret operands together; None takes 64 MiB, or
            16 times the bytes of the operands themselves; 1 GiB where programs refresh, or nothing else is in the way.
        ring_degree: force N; None lets the planner choose.
        block: largest block length along any dimension; None lets the planner choose. Three of them, along rows, inner
            dimension and columns, are those of every block of one product in slots.
        options: options of the forced algorithm (for experiments).
        key_policy: force "direct", "composed" or "binary"; None lets the key budget decide.
        order: loop order of the linear transforms, "limb" (MO-HLT) or "rotation" (coarse).
        threads: threads that the time is predicted for; None takes those of the machine.
        parameters: force a parameter set (for comparisons with published sets); it must have `security` bits too.
        minimise: "end-to-end", what a user waits for: encryption, upload, a first run on the server, download,
            decryption; or "server", the evaluation alone, as of a server with many clients and fast links.
        link: bits per second between client and server, each way.
        machine: that will run the program, or the file of one; None takes the file that the environment variable
            CIPHERBLAS_MACHINE names, and without it measures this one. With a given machine the plan is the same
            wherever it is made.
        samples: values of all operands, by name, an array for each whose first axis counts them: the program is run on
            them in the clear, ranges and errors are found from what they give, and are promised for inputs like these.
        slack: times the largest value of a node on the samples is what its values may reach.
        promise: "bounds", for every input within the bounds; "samples", for inputs like the samples; "none": every step
            is as precise as asked for, and nothing is said of the result. None takes "samples" where there are any, or
            else "bounds".
        agreement: share of the samples, and of inputs like these, for which the largest entry of the result must be at
            the same place as that of the functions as they were written (of a matrix in each row); instead of
            `precision` and `error`.
        range: of what functions inside of refreshes are of: "promised", within its bounds, and beyond them anything may
            happen; or "clamped", within its bounds as well, and beyond them results are bounded, for polynomials that
            are somewhat less near to the functions.
        for_peer: "seal" or "openfhe", for clients that encrypt and decrypt with that library (`cb.interop`): values in
            slots, operands of the public key, one limb per digit of keys and one special prime, and no refreshes; for
            "openfhe" with the `parameters` of its context.
    """

    precision: float = 1e-4
    error: float | Sequence[float] | Mapping[str, float] | None = None
    security: int = 128
    insecure: bool = False
    algorithm: str | None = None
    form: AskedForm | None = None
    memory_budget: int | None = None
    key_budget: int | None = None
    upload_budget: int | None = None
    ring_degree: int | None = None
    block: int | tuple[int, int, int] | None = None
    options: Mapping[str, Any] | None = None
    key_policy: KeyPolicy | None = None
    order: Order = "limb"
    threads: int | None = None
    parameters: Parameters | None = None
    minimise: Minimise = "end-to-end"
    link: float = DEFAULT_LINK
    machine: Machine | str | os.PathLike[str] | None = None
    samples: Mapping[str, Any] | None = None
    slack: float = 1.5
    promise: PromiseName | Promise | None = None
    agreement: float | None = None
    range: RangeName = "promised"
    for_peer: PeerName | None = None

    def __post_init__(self) -> None:
        """Check every option.

        Raises:
            DTypeError: an option has the wrong type.
            PrecisionError, SecurityError, ParameterError: it is out of range.
            FormatError, VersionError, StorageError: the machine is in a file that cannot be read.
        """
        if not is_scalar(self.precision):
            raise DTypeError(
                "The precision must be a number.", expected="a number", got=type(self.precision).__name__
            )
        if not 0 < self.precision < 1:  # also when it is not a number
            raise PrecisionError(
                "The precision must be between 0 and 1.", expected="between 0 and 1", got=self.precision
            )
        for error in each_error(self.error):
            if not is_scalar(error):
                raise DTypeError("The error must be a number.", expected="a number", got=type(error).__name__)
            if not 0 < error < math.inf:
                raise PrecisionError(
                    "The error must be a positive number.", expected="a positive number", got=error
                )
        for name in (
            "memory_budget",
            "key_budget",
            "upload_budget",
            "threads",
            "ring_degree",
            "security",
        ):
            self._check_integer(name)
        if isinstance(self.block, tuple):
            self._check_lengths(self.block)
        else:
            self._check_integer("block")
        check_wanted(self.security, self.insecure)
        if self.ring_degree is not None and self.ring_degree not in RING_DEGREES:
            raise ParameterError(
                "The ring_degree must be 2^12 to 2^17, a power of two.",
                expected="2^12 to 2^17, a power of two",
                got=self.ring_degree,
            )
        if self.algorithm is not None:
            if not isinstance(self.algorithm, str):
                raise DTypeError(
                    "The algorithm must be given by its name.",
                    expected="a name",
                    got=type(self.algorithm).__name__,
                )
            if self.algorithm == RING:
                raise ParameterError(
                    "Products of ring elements are parts of programs that refresh, and taken by themselves there.",
                    expected='another algorithm, or cb.refresh and form="mixed"',
                    got=RING,
                )
            if self.algorithm not in (GEMM, *LAYER_METHODS):
                find(self.algorithm)
        if self.form is not None:
            self._check_choice("form", AskedForm, "There is no such form.")
        if self.key_policy is not None:
            check_policy(self.key_policy)
        self._check_choice("order", Order, "There is no such order.")
        self._check_choice("range", RangeName, "There is no such kind of range.")
        if self.for_peer is not None:
            self._check_choice("for_peer", PeerName, "There is no such peer.")
        self._check_choice("minimise", Minimise, "There is nothing of this name to minimise.")
        if not is_scalar(self.link):
            raise DTypeError(
                "The link must be a number of bits per second.",
                expected="bits per second",
                got=type(self.link).__name__,
            )
        if not 0 < self.link < math.inf:
            raise ParameterError(
                "The link must be a positive number of bits per second.",
                expected="a positive number of bits per second",
                got=self.link,
            )
        if self.options is not None and not isinstance(self.options, Mapping):
            raise DTypeError(
                "The options must be a dictionary.", expected="a dictionary", got=type(self.options).__name__
            )
        if self.parameters is not None:
            if not isinstance(self.parameters, Parameters):
                raise DTypeError(
                    "The parameters must be an instance of Parameters.",
                    expected="Parameters",
                    got=type(self.parameters).__name__,
                )
            self.parameters.check_security(self.security, self.insecure)
        if self.machine is not None:
            object.__setattr__(self, "machine", Machine.given(self.machine))
        self._check_promise()

    def _check_promise(self) -> None:
        for name, low, high in (("slack", 1.0, 1e6), ("agreement", 0.0, 1.0)):
            value = getattr(self, name)
            if value is None and name == "agreement":
                continue
            if not is_scalar(value):
                raise DTypeError(
                    f"The option {name} must be a number.", expected="a number", got=type(value).__name__
                )
            if not low < value <= high:
                raise ParameterError(
                    f"The option {name} is out of range.",
                    expected=f"above {low:g}, at most {high:g}",
                    got=value,
                )
        if isinstance(self.promise, Promise):
            return
        if self.promise is not None:
            self._check_choice("promise", PromiseName, "There is no such promise.")
        by_samples = self.promise == "samples" or (self.promise is None and self.samples is not None)
        if by_samples and self.samples is None:
            raise ParameterError(
                "A promise for inputs like samples needs samples.",
                expected="samples={name: array, …}",
                got="none",
            )
        if self.agreement is not None and not by_samples:
            raise ParameterError(
                "An agreement is found on samples.", expected="samples={name: array, …}", got="no samples"
            )

    @property
    def promised(self) -> Promise:
        """The kind of promise that is asked for; by samples, once a program was run on them."""
        if isinstance(self.promise, Promise):
            return self.promise
        return STEPS if self.promise == STEPS.name else BOUNDS

    @property
    def by_samples(self) -> bool:
        """Whether the promise is one for inputs like samples."""
        return self.samples is not None and self.promise in (None, "samples")

    @functools.cached_property
    def planned_for(self) -> Machine:
        """The machine that was given, or the usual one (see `Machine.usual`)."""
        return self.machine if isinstance(self.machine, Machine) else Machine.usual()

    @classmethod
    def given(cls, options: Mapping[str, Any]) -> PlanOptions:
        """Return the options that a user gave by name.

        Raises:
            MismatchError: there is no such option.
            ParameterError: precision and error were given. Others as the constructor.
        """
        names = [name for name, value in options.items() if value is not None]
        unknown = [name for name in options if name not in cls.__dataclass_fields__]
        if unknown:
            near = in_place_of(unknown[0], cls.__dataclass_fields__, "{}=")
            raise MismatchError(
                f"`compile` has no option {unknown[0]!r}.",
                expected=", ".join(cls.__dataclass_fields__),
                advice=(*near, without(*unknown)),
            )
        for other, what in (("error", "absolute"), ("agreement", "a share of the samples")):
            if {"precision", other} <= set(names):
                raise ParameterError(
                    f"Both precision= and {other}= are given, and one of them says how precise results must be.",
                    advice=(without("precision"), without(other)),
                    cause=f"The precision is relative to the bound of the result, the {other} is {what}.",
                )
        try:
            return cls(**options)
        except CipherblasError as error:
            if not error.advice:

                def attempt(dropped: Sequence[str]) -> Infeasible | None:
                    others = {name: value for name, value in options.items() if name not in dropped}
                    found = attempted(lambda: cls(**others), only=CipherblasError)
                    return found if isinstance(found, Infeasible) else None

                found = left_out(list(options), attempt)
                error.advice = () if found is None else (found,)
            raise

    def relative_to(self, expression: Expression) -> PlanOptions:
        """With the precision that the error means for a program; of several results, the finest that is asked of one.

        Raises:
            PrecisionError: the error is as large as the bound of a result.
            ParameterError: errors are given for other results than those of the program.
        """
        if self.error is None:
            return self
        errors = asked_errors(expression, self.error)
        for node, label, error in zip(results_of(expression), labels_of(expression), errors, strict=True):
            if error >= node.bound:
                of = f" {label}" if label else ""
                raise PrecisionError(
                    f"The error must be below the bound {node.bound:g} of the result{of}.",
                    expected=f"below the bound {node.bound:g} of the result{of}",
                    got=error,
                )
        pairs = zip(results_of(expression), errors, strict=True)
        return replace(self, precision=min(error / node.bound for node, error in pairs))

    def asked(self, expression: Expression) -> float | tuple[float, ...] | None:
        """The absolute errors that are asked for: one for all results of a program, or one for each in their order."""
        if self.error is None or not is_scalar(self.error):
            return None if self.error is None else asked_errors(expression, self.error)
        return float(self.error)  # type: ignore[arg-type]

    def targets(self, expression: Expression) -> tuple[float, ...]:
        """The largest allowed error of an entry, of each result of a program, once these are relative to it."""
        return targets(expression, float(self.precision), self.asked(expression))

    @staticmethod
    def _check_lengths(block: tuple[Any, ...]) -> None:
        if len(block) != 3 or any(type(length) is not int or length < 1 for length in block):
            raise ParameterError(
                "A block has three lengths: of rows, inner dimension and columns.",
                expected="three positive integers",
                got=block,
            )

    @property
    def largest_block(self) -> int | None:
        """The largest block length along any dimension; None where there is no limit."""
        return max(self.block) if isinstance(self.block, tuple) else self.block

    def _check_choice(self, name: str, of: Any, refusal: str) -> None:
        """Raise ParameterError unless an option is one of the names of a `Literal`."""
        value, known = getattr(self, name), get_args(of)
        if value not in known:
            advice = nearest_choice(name, value, known)
            raise ParameterError(refusal, expected=" | ".join(known), got=value, advice=advice)

    def _check_integer(self, name: str) -> None:
        value = getattr(self, name)
        if value is None and PlanOptions.__dataclass_fields__[name].default is None:
            return
        whole = is_scalar(value) and math.isfinite(value) and value == int(value)
        if not whole:
            raise DTypeError(
                f"The option {name} must be an integer.",
                expected="an integer",
                got=f"{value!r} ({type(value).__name__})",
            )
        if value < (0 if name in ("key_budget", "upload_budget", "security") else 1):
            raise ParameterError(
                f"The option {name} must be a positive number.", expected="a positive number", got=value
            )
        object.__setattr__(self, name, int(value))  # 4e9 bytes are welcome


@dataclass(frozen=True)
class Rejected:
    """A candidate that was not taken, and why; `seconds` of what the plan minimises."""

    algorithm: str
    reason: str
    seconds: float | None = None


@dataclass(frozen=True)
class KeySaving:
    """The cost of a plan with fewer keys, against the plan with a larger key budget.

    Attributes:
        algorithm, key_policy: of that other plan.
        key_bytes, rotation_keys, rotations, seconds: its figures.
    """

    algorithm: str
    key_policy: KeyPolicy
    key_bytes: int
    rotation_keys: int
    rotations: int
    seconds: float


@dataclass(frozen=True)
class MemoryNeeds:
    """The memory of a run on the server by part, in bytes: `Plan.needs`.

    Attributes:
        keys: evaluation keys.
        weights: encoded weights, as far as they stay in memory.
        operands: ciphertexts of operands as they came, until the end of the run.
        working: values, workspaces, operands with their seeds expanded, masks that are kept for later runs, and the
            rounding up of blocks.
        process: interpreter, libraries and tables, which runs in one process share.
    """

    keys: int
    weights: int
    operands: int
    working: int
    process: int

    @property
    def total(self) -> int:
        """All parts together."""
        return self.keys + self.weights + self.operands + self.working + self.process

    def to_dict(self) -> dict[str, int]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True)
class Plan(Rebuilt):
    """A decided program: parameters, methods, blocks, and what the run will cost.

    The figures come from running the program itself without data, so they are those of the code that runs.
    `weight_memory_bytes` is the part of `peak_bytes` that encoded weights take: all of them, up to half of the memory
    that the machine had available; the rest goes to a file. `held_bytes` is the part that ciphertexts take as they
    came, which may stay in their files. `streamed_bytes`, not in it, is the size of the ciphertexts that products
    expand one by one; of several ranks each expands its own. `mask_budget`: encoded masks and constants of so many
    bytes are kept from run to run; they are in `peak_bytes`. `nodes`: what each node of the program takes;
    `runners_up`: by the number of a node, the method that was nearly taken, or the form; `other_conversions`: by the
    number of a node whose value is converted, the stages that nearly were.
    `promise`: whom the errors are promised to.
    `asked_error`: what the user gave instead of a precision, of several results perhaps one for each. `results`: what
    is predicted of each; `error`, `error_target` and `rounding_error` are those of the one that is nearest to its
    target. `machine`, `threads`, `link`, `minimise`: what times are
    predicted for, wherever the plan was made, and which of them it makes least. `moduli`: every t of exact integers
    that are computed by residues (`lang.crt`), the one of the parameters first; figures are those of all runs together.
    `for_peer`: the library that encrypts and decrypts, where it is another one.
    """

    parameters: Parameters
    decided: Decisions
    order: Order
    precision: float
    counts: Counts
    keys: KeyRequest
    key_bytes: int
    upload_bytes: int
    upload_ciphertexts: int
    result_ciphertexts: int
    result_bytes: int
    levels: int
    peak_bytes: int
    results: tuple[ResultFigures, ...]
    traffic: Traffic
    machine: Machine
    threads: int
    weight_memory_bytes: int = 0
    held_bytes: int = 0
    streamed_bytes: int = 0
    mask_budget: int = MASK_BYTES
    nodes: tuple[NodeFigures, ...] = ()
    asked_error: float | tuple[float, ...] | None = None
    promise: Promise = BOUNDS
    rejected: tuple[Rejected, ...] = field(default=(), compare=False)
    runners_up: Mapping[int, str] = field(default_factory=dict, compare=False)
    other_conversions: Mapping[int, str] = field(default_factory=dict, compare=False)
    key_saving: KeySaving | None = field(default=None, compare=False)
    minimise: Minimise = "end-to-end"
    link: float = DEFAULT_LINK
    moduli: tuple[int, ...] = ()
    for_peer: PeerName | None = None

    @functools.cached_property
    def _nearest(self) -> ResultFigures:
        """The result whose error is the largest part of what is allowed."""
        return nearest_target(self.results)

    def __repr__(self) -> str:
        """In a line; `explain()` of the program says everything."""
        return (
            f"<Plan: {self.algorithm}, N = {self.parameters.n}, {self.key_bytes} bytes of keys, "
            f"{self.seconds:.3g} s, error {self.error:.2g}>"
        )

    @property
    def error(self) -> float:
        """Predicted largest error of an entry."""
        return self._nearest.error

    @property
    def error_target(self) -> float:
        """The largest allowed error."""
        return self._nearest.target

    @property
    def rounding_error(self) -> float:
        """The part of the error that comes from clear factors that are rounded to integers."""
        return self._nearest.rounding_error

    @property
    def form(self) -> str:
        """Of its values: "blocks", "tensors" or "rows"."""
        return self.decided.form

    @property
    def choices(self) -> tuple[MethodChoice, ...]:
        """The method choices, in the order of the program's nodes."""
        return tuple(choice for _, choice in sorted(self.decided.choices.items()))

    @property
    def blocks(self) -> Mapping[str, int]:
        """Block lengths along the axes of a program in blocks."""
        return self.decided.blocks

    @property
    def key_policy(self) -> KeyPolicy:
        """How rotations are made of those that have keys."""
        return self.decided.key_policy

    def needs(self, *, keys_loaded: bool = False, weights_loaded: bool = False) -> MemoryNeeds:
        """The memory that a run needs, by part: together `peak_bytes`, less what a server has already.

        Args:
            keys_loaded: the evaluation keys are in its memory.
            weights_loaded: an earlier run has encoded the weights.

        Returns:
            Bytes of each part; those that are loaded are 0.

        Examples:
            >>> import cipherblas as cb
            >>> plan = cb.compile(lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)}).plan
            >>> plan.needs().total == plan.peak_bytes == plan.needs(keys_loaded=True).total + plan.key_bytes
            True
        """
        known = self.key_bytes + self.weight_memory_bytes + self.held_bytes + PROCESS_BYTES
        return MemoryNeeds(
            keys=0 if keys_loaded else self.key_bytes,
            weights=0 if weights_loaded else self.weight_memory_bytes,
            operands=self.held_bytes,
            working=self.peak_bytes - known,
            process=PROCESS_BYTES,
        )

    @functools.cached_property
    def stages(self) -> Stages:
        """Seconds of a run, stage by stage, predicted by the rates of its machine."""
        run = self.counts, self.traffic, self.key_bytes, self.parameters
        return predicted(self.machine.rates, *run, self.threads, self.link)

    @property
    def seconds(self) -> float:
        """Predicted seconds of the server's evaluation, of any run but the first."""
        return self.stages.evaluate

    def seconds_of(self, counts: Counts) -> float:
        """Predicted seconds of some operations on the server."""
        return self.machine.rates.seconds(counts, self.parameters.n, self.threads)

    @property
    def minimised(self) -> float:
        """Predicted seconds of what the plan makes least."""
        return self.stages.minimised(self.minimise)

    @property
    def algorithm(self) -> str:
        """The algorithm of the products, joined by commas where they differ; "elementwise" without products."""
        names = list(
            dict.fromkeys(
                choice.method
                for choice in self.choices
                if choice.method not in (PACKING, COEFFICIENTS, LAYOUT_PRESERVING)
            )
        )
        if self.decided.forms:
            names.append("elementwise")
        return ", ".join(names) if names else "elementwise"

    @property
    def rotation_steps(self) -> list[int]:
        """The rotations of slots that have a key, in order; those of rows are no rotations."""
        alone = self.decided.every_form == (ROWS,)
        return [] if alone else rotation_steps(self.keys.galois, self.parameters.n)

    def decisions(self) -> dict[str, Any]:
        """All decisions that a run needs, JSON-ready. The program's identity is computed from them."""
        error = self.asked_error
        asked = {} if error is None else {"asked_error": list(error) if isinstance(error, tuple) else error}
        return {
            "form": self.form,
            "parameters": self.parameters.to_dict(),
            "choices": {
                str(number): {"method": choice.method, "options": dict(choice.options)}
                for number, choice in sorted(self.decided.choices.items())
            },
            "blocks": dict(self.blocks),
            "key_policy": self.key_policy,
            **self._optional_decisions(),
            "order": self.order,
            "precision": self.precision,
            **asked,
            **self._promise(),
            **({"moduli": list(self.moduli)} if self.moduli else {}),
            **({"for_peer": self.for_peer} if self.for_peer else {}),
        }

    def _promise(self) -> dict[str, Any]:
        """The kind of promise, where it is not the usual one."""
        kind = self.promise.to_dict()
        return {} if kind is None else {"promise": kind}

    def _optional_decisions(self) -> dict[str, Any]:
        """The forms of nodes, and conversions, where there are several; what shares an a part, where something does."""
        forms = {str(number): form for number, form in sorted(self.decided.forms.items())}
        conversions = {
            str(number): dict(options) for number, options in sorted(self.decided.conversions.items())
        }
        found = {"forms": forms, "crossings": conversions, "sharing": self.decided.sharing}
        found |= {name: getattr(self.decided, name) for name in ("unrelinearised", "halves")}
        return {name: value for name, value in found.items() if value}

    def planned_for(self) -> dict[str, Any]:
        """The assumptions of the predictions, JSON-ready: in files beside the decisions, not part of the identity."""
        return {
            "machine": self.machine.to_dict(),
            "threads": self.threads,
            "minimise": self.minimise,
            "link": self.link,
            "mask_budget": self.mask_budget,
        }

    def to_dict(self) -> dict[str, Any]:
        """Decisions and predictions, JSON-ready."""
        params = self.parameters
        return {
            "algorithm": self.algorithm,
            "n": params.n,
            "log_q": round(params.log_q, 2),
            "log_p": round(params.log_p, 2),
            "limbs": params.limbs,
            "special_limbs": params.special_limbs,
            "dnum": params.dnum,
            "security": params.security,
            "scale_bits": params.scale_bits,
            "moduli": list(self.moduli),
            "for_peer": self.for_peer,
            "levels": self.levels,
            "upload_ciphertexts": self.upload_ciphertexts,
            "upload_bytes": self.upload_bytes,
            "result_ciphertexts": self.result_ciphertexts,
            "rotations": self.counts.rotations,
            "relinearisations": self.counts.relinearisations,
            "products": self.counts.products,
            "plain_products": self.counts.plain_products,
            "result_bytes": self.result_bytes,
            "rotation_keys": len(self.keys.galois),
            "rotation_steps": self.rotation_steps,
            "key_bytes": self.key_bytes,
            "peak_bytes": self.peak_bytes,
            "weight_memory_bytes": self.weight_memory_bytes,
            "held_bytes": self.held_bytes,
            "lent_bytes": self.streamed_bytes,
            "expected_error": self.error,
            "rounding_error": self.rounding_error,
            "error_target": self.error_target,
            "asked_error": self.asked_error,
            "results": [asdict(one) for one in self.results],
            "seconds": self.seconds,
            **self.planned_for(),
            "traffic": asdict(self.traffic),
            "stages": self.stages.to_dict(),
            "first_run_seconds": self.stages.first_run,
            "end_to_end_seconds": self.stages.end_to_end,
            "counts": asdict(self.counts),
            "nodes": [asdict(found) for found in self.nodes],
            "runners_up": {str(number): text for number, text in self.runners_up.items()},
            "other_crossings": {str(number): text for number, text in self.other_conversions.items()},
            "rejected": [asdict(loser) for loser in self.rejected],
            "key_saving": None if self.key_saving is None else asdict(self.key_saving),
            **self.decisions(),
            "promise": self.promise.to_dict() or {"kind": self.promise.name},
        }
