"""Interpreting a program with any evaluators: the one path that planning, checking and running share.

A value is computed when a method of a node that is made of it reads it. Which method, the table `METHODS` says, for
each operation and each form that values can have. A method that reads is a generator (`Steps`): graphs may be deep, and
Python's stack is not.
"""

from __future__ import annotations

import contextlib
from collections import Counter as Tally
from collections.abc import Callable, Container, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from cipherblas.common.errors import ParameterError, UnsuitedError
from cipherblas.common.nested import result_of
from cipherblas.common.progress import Progress
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.forms.tensors import TensorLayout
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.refreshing import is_refreshed
from cipherblas.lang.results import results_of
from cipherblas.rlwe.counts import NOTHING, Counts
from cipherblas.runtime.inputs import Inputs
from cipherblas.runtime.listing import At, Listing, RunContext, Work
from cipherblas.runtime.values import NOBODY, Cells, Decisions, Input, MethodChoice, StepError, Value

EXTRACTION, OPERAND = "rows apart", "operand"  # steps whose seconds are told by themselves


class MethodChooser(Protocol):
    """How a node is computed of which a program does not say so: of tensors on an input in the layout `x`, or how an
    operand is packed (`x` is None)."""

    def __call__(self, node: Expression, x: TensorLayout | None) -> MethodChoice: ...


@dataclass(frozen=True)
class NodeFigures:
    """One node of a program: how it is computed, and what that takes, its operands apart.

    Attributes:
        number: of the node in `ordered`.
        choice: the decision; None where there was none to make.
        limbs, scale, ciphertexts: of its value; no limbs where its moduli are those of operands.
        error: of an entry, by encryption, as predicted.
    """

    number: int
    title: str
    form: str
    choice: MethodChoice | None
    counts: Counts
    limbs: int
    scale: float
    ciphertexts: int
    error: float


@dataclass(frozen=True)
class Read:
    """A method reads the value of a node: `x = yield from run.read(child)`.

    Attributes:
        required: encoding of the value.
        use: one of the uses of the node, after the last of which its value goes.
    """

    node: Expression
    form: str
    required: Any = None
    use: bool = True

    def __iter__(self) -> Generator[Read, list[Value], Value]:
        found = yield self
        return found.pop()  # whoever has computed it does not hold it meanwhile


AnyResult = TypeVar("AnyResult")
Steps: TypeAlias = Generator[Read, list[Value], AnyResult]
"""Work that reads values: `x = yield from run.read(child)`."""
Computed: TypeAlias = "Value | Steps[Value]"
"""What a method returns: the value itself where it reads nothing, else the steps that make it."""


def completed(computed: Computed) -> Steps[Value]:
    """The value that a method has returned, or that its steps make."""
    return computed if isinstance(computed, Value) else (yield from computed)


class FormRun:
    """The values of one form in one run: what methods are given.

    `required` is the encoding of a value that its reader requires; None leaves it to the node that makes the value.
    """

    name: ClassVar[str]

    def __init__(self, run: Executor) -> None:
        self.run, self.inputs, self.decisions = run, run.inputs, run.decisions

    def read(self, node: Expression, required: Any = None) -> Read:
        """The value of a node in this form: `x = yield from run.read(child)`."""
        return Read(node, self.name, required)

    def value(self, node: Expression, required: Any = None) -> Value:
        """Return the value of a node in this form, for a method that yields nothing: each takes some of Python's stack
        until it is done."""
        return self.run.value(self.read(node, required))

    def key(self, node: Expression, required: Any) -> Hashable:
        """Return a key of a requirement: one value satisfies all requirements with equal keys."""
        return None

    def lasts(self, node: Expression) -> bool:
        """Whether values of a node stay for the whole run."""
        return False

    def clear(self, node: Expression, required: Any) -> Value:
        """A part without secrets, where methods ask for it as for any other.

        Raises:
            UnsuitedError: they know none in this form.
        """
        raise UnsuitedError(
            "A factor of a product must be encrypted in this form.",
            expected="an encrypted one",
            got=f"{node.title}, clear",
        )

    def computed(self, node: Expression) -> None:
        """A node is done."""

    def steps(self) -> int:
        """In what progress is counted, of the whole run."""
        return 0

    def required_of_result(self, node: Expression) -> Any:
        """Encoding that a result must have."""
        return None

    def finished(self, value: Value) -> Value:
        """A result as it is sent."""
        return value

    def lowered(self, value: Value) -> Value:
        """One of several results without limbs that its message does not need: what is not sent takes no time."""
        return value

    def collected(self, value: Value) -> Value:
        """A result, whole on the rank that tells it."""
        return value


Method = Callable[[Any, Any, Any], Computed]  # (run of the form, node, required) → value
METHODS: dict[tuple[str, str], Method] = {}  # by form and operation
FORMS: dict[str, type[FormRun]] = {}
Conversion = Callable[["Executor", Expression, Any], Computed]  # (run, node, required) → value
CONVERSIONS: dict[
    tuple[str, str], Conversion
] = {}  # by the form that a value has, and the one that is wanted
AnyMethod = TypeVar("AnyMethod", bound=Method)


def computes(form: str, *operations: str) -> Callable[[AnyMethod], AnyMethod]:
    """Register a method (a decorator): it computes nodes of one operation in one form.

    Raises:
        ParameterError: there is one.
    """

    def enter(method: AnyMethod) -> AnyMethod:
        for operation in operations:
            if METHODS.setdefault((form, operation), method) is not method:
                raise ParameterError(
                    "A method for this operation exists already.",
                    expected="another operation or form",
                    got=operation,
                )
        return method

    return enter


def missing(node: Expression, form: str) -> Expression | None:
    """The first node of a program that no method computes in a form."""
    nodes = (current for current in facts_of(node).order if current.secret and not current.root)
    return next((current for current in nodes if (form, current.op) not in METHODS), None)


class Executor:
    """One run of a program: `Executor(...).results()`.

    Args:
        evaluators: the interpreters.
        node: the program.
        decisions: how it is computed.
        inputs: where operands come from.
        progress: called as progress(done, total) after every block product, every product by rows, or every layer and
            as weights are ready (the first run encodes them).
        choose: asked for choices that `decisions` lack.
        observed: what each node takes is kept in `figures`.
        listing: where the instructions are written down.

    Attributes:
        choices: those of `decisions`, and those that were asked for.
        read_choices: the numbers of the nodes whose decisions methods looked at.
        read_forms, read_conversions: likewise of those whose form was decided, and of those whose conversion was.
        figures: of the nodes, in the order in which they were computed.
        fixed_factors: the clear factors that have keys of their own, in the order of the keys' numbers.
        refreshed: the program refreshes, and its ring has limbs for that.
        left: limbs that each result was computed with.
        together: the most full ciphertexts of a value that was refreshed.
        step_errors: by the number of a node, where they are kept one by one.
        beyond: by the id of a node, by how much its entries may exceed their bound, where errors that do so are no part
            of its value's; see `exact`.
    """

    def __init__(
        self,
        evaluators: Evaluators,
        node: Expression,
        decisions: Decisions,
        inputs: Inputs,
        progress: Progress | None = None,
        *,
        choose: MethodChooser | None = None,
        observed: bool = False,
        listing: Listing | None = None,
    ) -> None:
        self.listing = listing
        self._at = At(NOBODY, NOBODY)  # where instructions are written down
        self.evaluators, self.node, self.decisions, self.inputs = evaluators, node, decisions, inputs
        self._facts = facts = facts_of(node)
        self.order, self.number = facts.nodes, facts.number
        self.refreshed = is_refreshed(node)
        self.choices = dict(decisions.choices)
        self.read_choices: set[int] = set()
        self.read_forms: set[int] = set()
        self.read_conversions: set[int] = set()
        self.figures: list[NodeFigures] = []
        self.fixed_factors: list[ClearFactor] = []
        self._sent: dict[int, tuple[Any, Hashable]] = {}  # by the first handle
        self._used_inputs, self._streamed_inputs = dict[Hashable, int](), dict[Hashable, int]()
        self._choose, self._observed = choose, observed
        self.left: list[int] = []
        self.together = 0
        self.step_errors: dict[int, StepError] = {}
        self._uses = facts.uses
        self._left = dict(self._uses)
        self._kept: dict[int, dict[tuple[str, Hashable], Value]] = {}
        self._of_children = NOTHING
        self._runs: dict[str, FormRun] = {}
        self._messages: dict[tuple[int, str], Value] = {}  # see `exact`
        self.beyond: dict[int, float] = {}
        self._progress, self._done = progress, 0
        self._total = sum(self.form_run(form).steps() for form in decisions.every_form)

    @property
    def context(self) -> RunContext:
        """Context of the instructions, made anew: a reference cycle would keep the data of the run alive."""
        return RunContext(self.evaluators, self.inputs, self._is_done)

    def perform(self, name: str, sources: Sequence[Cells], work: Work) -> Cells:
        """Compute one instruction, and return its cells; write it down if there is a listing.

        Args:
            sources: what it reads.
        """
        if self.listing is None:
            return Cells(work(self.context, *sources))
        return self.listing.add(self._at, name, sources, work, self.context)

    def then(self, cells: Cells, work: Work) -> Cells:
        """Extend the last instruction, which made these cells, by further work, and return the new cells."""
        found = Cells(work(self.context, cells), cells.made_by)
        if self.listing is not None:
            self.listing.add_to_last(cells, work)
        return found

    def received(self, wanted: Input, bound: float) -> Cells:
        """Return the ciphertexts of one use of an operand, as a client sends them. No slot or entry exceeds `bound`."""
        return self.perform(
            "receive", (), lambda context: context.inputs.secret(wanted, bound, context.evaluators)
        )

    def as_sent(self, first: Any, key: Hashable) -> None:
        """The first handle of what a client sent for one use of an operand, which nothing was done to."""
        self._sent[id(first)] = first, key
        self._used_inputs[key] = self._used_inputs.get(key, 0) + 1

    def may_stream(self, node: Expression, value: Value) -> bool:
        """The next product takes each ciphertext of a factor once: whether they need not stay, since they are as they
        were sent, and nothing else is made of them."""
        found = self._sent.get(id(value.first()))
        streamed = found is not None and node.operand is not None and self._uses[id(node)] == 1
        if streamed:
            assert found is not None
            self._streamed_inputs[found[1]] = self._streamed_inputs.get(found[1], 0) + 1
        return streamed

    @property
    def taken(self) -> frozenset[Hashable]:
        """Keys of inputs whose ciphertexts some product takes once."""
        return frozenset(self._streamed_inputs)

    @property
    def streamed(self) -> frozenset[Hashable]:
        """Keys of inputs whose ciphertexts nothing uses but products that take each of them once."""
        used, streamed = self._used_inputs, self._streamed_inputs
        return frozenset(key for key, number in used.items() if streamed.get(key) == number)

    def run(self) -> Value:
        """Compute a program with one result, which is still encrypted."""
        (value,) = self.results()
        return value

    def results(self) -> list[Value]:
        """Compute the whole program; the results, in their order, are still encrypted.

        Raises:
            Errors as methods raise them.
        """
        wanted = results_of(self.node)
        found: dict[int, Value] = {}
        self.evaluators.on_weights(self._is_done)
        try:
            # Those that are computed from others first: what these are is then decided by their other uses.
            for node in sorted(wanted, key=lambda one: -self.number[id(one)]):
                run = self.form_run(self.form_of(node))
                value = self.value(Read(node, run.name, run.required_of_result(node)))
                if id(node) not in found:
                    found[id(node)] = run.finished(value)
            values = [found[id(node)] for node in wanted]
            self.left = [value.first().limbs for value in values]
            if self.node.root:
                values = [self.form_run(value.form.name).lowered(value) for value in values]
            values = [self.form_run(value.form.name).collected(value) for value in values]
            if self.decisions.stepwise:  # what is done to results before they are sent errs as well
                for node, value in zip(wanted, values, strict=True):
                    number = self.number[id(node)]
                    self.step_errors[number] = self.step_errors.get(number, StepError()).and_then(
                        value.step_error()
                    )
        finally:
            self.evaluators.on_weights(None)  # circles would keep what the run holds
            self._runs.clear()
            self._kept.clear()
        if self.listing is not None:
            self.listing.end(values, self._total)
        if self._done < self._total:  # masks were counted among the weights
            self._is_done(self._total - self._done)
        return values

    def form_of(self, node: Expression) -> str:
        """The form in which a node is computed."""
        return self.decisions.forms.get(self.number[id(node)], self.decisions.form)

    def conversion_options(self, node: Expression) -> Mapping[str, int]:
        """Options of the conversion of a node's value, as decided."""
        number = self.number[id(node)]
        self.read_conversions.add(number)
        return self.decisions.conversions.get(number, {})

    def form_run(self, form: str) -> FormRun:
        """The values of a form.

        Raises:
            ParameterError: there is no such form.
        """
        if form not in FORMS:
            raise ParameterError("There is no such form.", expected=" | ".join(FORMS), got=form)
        if form not in self._runs:
            self._runs[form] = FORMS[form](self)
        return self._runs[form]

    def requirements(self, node: Expression, form: str) -> list[Hashable]:
        """How a node was wanted so far in a form, of a value that is kept."""
        return [required for name, required in self._kept.get(id(node), ()) if name == form]

    def readers(self, node: Expression) -> list[Expression]:
        """The nodes that are computed from one."""
        return [one for one in self._facts.readers[id(node)] if not one.root]

    def shared(self, node: Expression) -> bool:
        """Whether a node has several uses."""
        return self._uses[id(node)] > 1

    def choice(self, node: Expression, x: TensorLayout | None = None) -> MethodChoice:
        """Method of a node, as decided."""
        number = self.number[id(node)]
        self.read_choices.add(number)
        if number not in self.choices:
            if self._choose is None:
                raise ParameterError(
                    f"The decisions lack a method for {node.title}.",
                    expected=f"one for {node.title}",
                    got="none for it",
                )
            self.choices[number] = self._choose(node, x)
        return self.choices[number]

    def choice_or_none(self, node: Expression) -> MethodChoice | None:
        """Method of a node, as decided; None if it needs no decision."""
        number = self.number[id(node)]
        self.read_choices.add(number)
        return self.choices.get(number)

    def refreshes_in_one_batch(self, ciphertexts: int) -> None:
        """So many full ciphertexts of a value are refreshed."""
        self.together = max(self.together, ciphertexts)

    def tick(self, done: int = 1) -> None:
        """So much more is done, with the last instruction."""
        if self.listing is not None and self.listing.instructions:
            self.listing.instructions[-1].ticks += done
        self._is_done(done)

    def _is_done(self, done: int) -> None:
        self._done = min(self._done + done, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def value(self, read: Read) -> Value:
        """Return a value: whatever it is made of is computed first, as methods read it."""
        return result_of(read, self._answer).pop()

    def _answer(self, read: Read) -> Steps[list[Value]]:
        """The value that a method reads, alone in a list. With several uses in one encoding it is computed once, and
        kept."""
        node, run = read.node, self.form_run(read.form)
        if not read.use:
            return [(yield from self._kept_value(run, node, read.required))]
        if not node.secret:
            return [run.clear(node, read.required)]
        value = self._messages.get((id(node), read.form))
        if value is None:
            value = yield from self._kept_value(run, node, read.required)
        if self._uses[id(node)] > 1 and not run.lasts(node):
            self._left[id(node)] -= 1
            if self._left[id(node)] == 0:
                del self._kept[id(node)]
        return [value]

    @contextlib.contextmanager
    def exact(
        self, node: Expression, form: str, message: Value, beyond: Mapping[int, float]
    ) -> Iterator[None]:
        """Whoever asks for the value of a computed node, in a form that it has one value in, gets it without its
        errors: what they do to what is computed meanwhile is known as a whole.

        Args:
            message: the value without errors.
            beyond: as the attribute.
        """
        self._messages[id(node), form], before = message, self.beyond
        self.beyond = {**before, **beyond}
        try:
            yield
        finally:
            del self._messages[id(node), form]
            self.beyond = before

    def reads_alone(self, node: Expression, inner: Container[int]) -> bool:
        """Whether nothing but nodes of a set, and `node`, reads any of the set, all of which are below it."""
        counted = Tally(
            id(child) for one in self.order for child in one.children if id(one) in inner or one is node
        )
        return all(counted[id(one)] == self._uses[id(one)] for one in self.order if id(one) in inner)

    @contextlib.contextmanager
    def timed_separately(self, node: Expression, form: str) -> Iterator[None]:
        """Instructions whose seconds are told by themselves, and not with those of the node that is computed.

        Args:
            form: what is done.
        """
        before = self._at
        if self.listing is not None:
            self._at = self.listing.begin(self.number[id(node)], node, form)
        yield
        self._at = before

    def _kept_value(self, run: FormRun, node: Expression, required: Any) -> Steps[Value]:
        """A value in a form; where a node is used several times, it is kept."""
        if self._uses[id(node)] < 2:
            return (yield from self._made(run, node, required))
        kept, key = self._kept.setdefault(id(node), {}), (run.name, run.key(node, required))
        if key not in kept:
            kept[key] = yield from self._made(run, node, required)
        return kept[key]

    def _made(self, run: FormRun, node: Expression, required: Any) -> Steps[Value]:
        """Computed in a form; in its own, and converted, where that is another one and the client cannot pack it."""
        own, number = run.name, self.number[id(node)]
        if not node.packable:
            own = self.form_of(node)
            self.read_forms.add(number)
        at, form = self._at, own if own == run.name else f"{own} to {run.name}"
        if self.listing is not None:
            self._at = self.listing.begin(number, node, form)
        counted = others = NOTHING
        if self._observed:
            counted, others, self._of_children = self.evaluators.counts, self._of_children, NOTHING
        if own == run.name:
            method = METHODS.get((own, node.op))
            if method is None:
                raise UnsuitedError(
                    f"No method computes {node.title} in the form {own!r}.", expected="one", got="none"
                )
            value = yield from completed(method(run, node, required))
            choice = self.choices.get(number)
            run.computed(node)
        else:
            conversion = CONVERSIONS.get((own, run.name))
            if conversion is None:
                raise UnsuitedError(
                    f"No conversion takes {node.title} to the form that is needed.",
                    expected="one that there is",
                    got=f"{own} to {run.name}",
                )
            value, choice = (yield from completed(conversion(self, node, required))), None
        if self.decisions.stepwise:
            self.step_errors[number] = value.step_error().beside(self.step_errors.get(number, StepError()))
        if self.listing is not None:
            self.listing.lies(value, detached=self.decisions.stepwise)
        self._at = at
        if self._observed:
            spent = self.evaluators.counts - counted
            first = value.first()
            self.figures.append(
                NodeFigures(
                    *(number, node.title, form, choice, spent - self._of_children),
                    *(first.basis.primes, first.scale, len(value.handles), value.error()),
                )
            )
            self._of_children = others + spent
        return value
