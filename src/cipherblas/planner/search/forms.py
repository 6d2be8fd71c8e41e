"""The forms that a program may be computed in, and the search over all that they offer."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from cipherblas.common.errors import Advice, CipherblasError, ParameterError, PrecisionError
from cipherblas.crypto.residue_slots import has_slots
from cipherblas.lang.facts import facts_of, products
from cipherblas.lang.graph import as_matrices, is_network
from cipherblas.lang.modular import modulus_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.refreshing import is_refreshed
from cipherblas.methods.layers import LAYER_METHODS
from cipherblas.methods.products import GEMM
from cipherblas.planner.plan.passes import Following, Outcome, PlanRequest
from cipherblas.planner.plan.plan import RING_DEGREES, AskedForm, PlanOptions, Rejected
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.search import features, mixed, rows, tensors
from cipherblas.planner.search.blocks import BlockStrategy
from cipherblas.planner.search.budgets import budgets_of, check_size, secret_entries
from cipherblas.planner.search.search import Search
from cipherblas.planner.search.strategy import Strategy
from cipherblas.runtime.executor import missing
from cipherblas.runtime.rows import ROWS

BLOCK_OPTIONS = ("block", "options")  # that speak of blocks alone
MIN_PRECISION = 2.0**-52


def in_blocks_otherwise(request: PlanRequest, following: Following) -> Outcome:
    """The program; vectors that no ring carries in layers, and no matrix multiplies, in blocks as columns."""
    found, expression = following(request), request.expression
    if not isinstance(found, Infeasible) or not may_be_blocks(expression):
        return found
    network = _in_layers(expression, request.options)
    if not network or asked_form(expression, request.options, network) is not None:
        return found
    other = following(request.asking(form="blocks"))
    return found if isinstance(other, Infeasible) else other


def searched(request: PlanRequest, following: Following) -> Outcome:
    """The fastest plan that the forms offer within the budgets, or that of the form that is asked for; nothing follows.

    Whose options contradict each other, or are out of range, is refused alike.
    """
    return attempted(lambda: _searched(request))


def _searched(request: PlanRequest) -> Outcome:
    expression, options = request.expression, request.options
    check_precision(options.precision)
    if options.machine is None:
        request.tell("what the machine takes")  # it is measured where nothing was planned before
    budgets = budgets_of(options, secret_entries(expression), is_refreshed(expression))
    check_size(expression, budgets, options)
    options.promised.check(expression, options.targets(expression))
    network = _in_layers(expression, options)
    form = asked_form(expression, options, network)
    if isinstance(form, Infeasible):
        return form
    strategies: list[Strategy] = []
    refusals: list[Rejected] = []
    errors: list[CipherblasError] = []
    for kind, what in _offered(expression, form, network, options):
        unsuited = kind.refusal(what, options)
        if unsuited is None:
            strategies.append(kind(what, options, budgets))
            strategies[-1].limit = request.limit
        else:
            errors.append(unsuited)
            refusals.append(Rejected(kind.label, str(unsuited.got or unsuited.sentence)))
    if not strategies:
        why = ParameterError("The form does not fit a network.", expected="tensors for a network", got=form)
        return Infeasible(errors[-1] if errors else why)
    found = Search(
        strategies, options, budgets, request.tell, refusals, request.limit, request.any_plan
    ).run()
    # Forms may take vectors for columns; the results are those of the program.
    return found if isinstance(found, Infeasible) else found._replace(expression=expression)


def _offered(
    expression: Expression, form: AskedForm | None, network: bool, options: PlanOptions
) -> Iterator[tuple[type[Strategy], Expression]]:
    """The forms that are tried, in the order in which they are searched, and the program as each takes it."""
    matrices = as_matrices(expression)
    modulus = modulus_of(expression)
    peer = options.for_peer is not None  # in slots alone
    if (
        form in (None, "rows")
        and not peer
        and matrices is not None
        and (form is not None or modulus is None or missing(matrices, ROWS) is None)
    ):
        yield rows.RowStrategy, matrices
    layered = form is None and (
        network or (tensors.unsupported(expression) is None and has_layers(expression))
    )
    if form == "tensors" or layered:
        yield tensors.TensorStrategy, expression
    of_features = matrices is not None and (
        form == "features" or (form is None and features.may_gain(matrices))
    )
    if modulus is not None and matrices is not None:  # rows and slots of integers do not become one another
        slots = form is not None or any(has_slots(n, modulus) for n in RING_DEGREES)
        if of_features and slots:
            yield features.FeatureStrategy, matrices
        if form in (None, "blocks") and slots:
            yield BlockStrategy, matrices
        return
    worth_mixing = not network and not peer and matrices is not None and mixed.unsupported(matrices) is None
    if matrices is not None and (form == "mixed" or (form is None and worth_mixing)):
        yield mixed.MixedStrategy, matrices
    if matrices is not None and of_features:
        yield features.FeatureStrategy, matrices
    if form in (None, "blocks") and matrices is not None and not network:
        yield BlockStrategy, matrices


def _in_layers(expression: Expression, options: PlanOptions) -> bool:
    """Whether a program is planned layer by layer, and not in blocks of matrices; of integers modulo t images are."""
    if modulus_of(expression) is not None:
        return as_matrices(expression) is None
    in_blocks = options.form == "blocks" and as_matrices(expression) is not None
    return is_layers(expression) and not in_blocks


def is_layers(expression: Expression) -> bool:
    """Whether a program is computed layer by layer, and not in blocks of matrices."""
    if not is_network(expression):
        return False
    return as_matrices(expression) is None or tensors.unsupported(expression) is None


def may_be_blocks(expression: Expression) -> bool:
    """Whether vectors are taken for columns in blocks too: where no matrix multiplies them, which layers do better."""
    return as_matrices(expression) is not None and not products(expression)


def has_layers(expression: Expression) -> bool:
    """Whether a program of matrices has products one after another, or products and elementwise ones."""
    steps = [node for node in facts_of(expression).order if node.secret and not node.linear]
    return len(steps) > 1 and any(node.product for node in steps)


def check_precision(precision: float) -> None:
    """Raise PrecisionError where no plan can reach a precision, whatever the parameters."""
    if precision < MIN_PRECISION:
        raise PrecisionError(
            "The precision cannot be reached: operands and results are float64 numbers.",
            expected=f"{MIN_PRECISION:.1g} at the least",
            got=f"{precision:g}",
        )


def asked_form(expression: Expression, options: PlanOptions, network: bool) -> AskedForm | Infeasible | None:
    """The form that the options leave, None where they leave several, or why they contradict each other.

    Args:
        network: the program is planned layer by layer.
    """
    form = (_form_of_network if network else _form_of_matrices)(options)
    if form == "rows" and is_refreshed(expression):
        return Infeasible(
            ParameterError(
                "A program that refreshes is not computed by rows alone.",
                expected="blocks | mixed | tensors",
                got=form,
                advice=Advice('form="mixed"', {"form": "mixed"}),
            )
        )
    return form


def _form_of_network(options: PlanOptions) -> AskedForm | Infeasible | None:
    """The form that the options leave for vectors, images and layers, or None where they leave both."""
    if options.form == "blocks":
        return _contradiction(
            "Images are not computed in blocks of matrices.",
            expected="tensors",
            got=options.form,
        )
    for name in BLOCK_OPTIONS:
        if getattr(options, name) is not None:
            return _contradiction(
                f"A network does not take {name}=, which is of products of matrices in blocks.",
            )
    if options.algorithm == GEMM:
        return "rows"
    if options.algorithm is not None or options.parameters is not None:
        return "tensors"
    return options.form


def _form_of_matrices(options: PlanOptions) -> AskedForm | Infeasible | None:
    """The form that the options leave for matrices, or None where they leave both."""
    algorithm, forced = options.algorithm, options.form
    given = [name for name in BLOCK_OPTIONS if getattr(options, name) is not None]
    others: tuple[tuple[Container[str], AskedForm], ...] = (((GEMM,), "rows"), (LAYER_METHODS, "tensors"))
    for names, form in others:
        if algorithm is not None and algorithm in names:
            if forced not in (None, form):
                return _contradiction(
                    f"The algorithm {algorithm} is of the form {form}, and form={forced} is asked for."
                )
            if given:
                return _contradiction(
                    f"The algorithm {algorithm} does not take {given[0]}=, which is of products in slots."
                )
            return form
    if algorithm is not None:
        given.insert(0, "algorithm")
    if given and forced not in (None, "blocks"):
        return _contradiction(
            f"The option {given[0]}= is of the form blocks, and form={forced} is asked for."
        )
    if options.parameters is not None and forced == "rows":
        return _contradiction(
            f"The option parameters= is of ciphertexts in slots, and form={forced} is asked for."
        )
    return "blocks" if given or (options.parameters is not None and forced is None) else forced


def _contradiction(message: str, **parts: Any) -> Infeasible:
    return Infeasible(ParameterError(message, **parts))
