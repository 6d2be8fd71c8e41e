"""What a program may be computed in, and the plan that is fastest."""

from __future__ import annotations

import contextlib
from collections.abc import Container
from dataclasses import replace

from cipherblas.common.errors import Advice, CipherblasError, ParameterError, PrecisionError
from cipherblas.common.progress import Tell
from cipherblas.lang.facts import facts_of, products
from cipherblas.lang.graph import as_matrices, is_network
from cipherblas.lang.nodes import Expression
from cipherblas.lang.refreshing import is_refreshed
from cipherblas.methods.layers import LAYER_METHODS
from cipherblas.methods.products import GEMM
from cipherblas.planner.plan.plan import AskedForm, Plan, PlanOptions, Rejected
from cipherblas.planner.predict.dry_run import DryRun
from cipherblas.planner.search import mixed, rows, tensors
from cipherblas.planner.search.blocks import BlockStrategy
from cipherblas.planner.search.budgets import budgets_of, check_size, secret_entries
from cipherblas.planner.search.refusals import INFEASIBLE
from cipherblas.planner.search.search import Search
from cipherblas.planner.search.strategy import Strategy

BLOCK_OPTIONS = ("block", "options")  # that speak of blocks alone
LEAST_PRECISION = 2.0**-52


def make_plan(
    expression: Expression, options: PlanOptions, progress: Tell | None = None
) -> tuple[Plan, DryRun]:
    """The fastest plan that the forms offer within the budgets, or that of the forced form, and its dry run.

    Args:
        progress: told what is tried.

    Raises:
        PrecisionError: no ring reaches the precision at this security, or functions are approximated less precisely.
        MemoryBudgetError: only plans beyond a budget were found.
        ParameterError: an option is out of range, the forced algorithm or form does not suit the program, or one
            option asks for slots and another one for GEMMs.
    """
    check_precision(options.precision)
    if progress is not None and options.machine is None:
        progress("what the machine takes")  # it is measured where nothing was planned before
    refreshed = is_refreshed(expression)
    budgets = budgets_of(options, secret_entries(expression), refreshed)
    check_size(expression, budgets, options)
    options.promised.check(expression, options.targets(expression))
    matrices, layered = as_matrices(expression), tensors.unsupported(expression) is None
    network = is_layers(expression) and not (options.form == "blocks" and matrices is not None)
    form = (_form_of_network if network else _form_of_matrices)(options)
    if refreshed and form == "rows":
        raise ParameterError(
            "A program that refreshes is not computed by rows alone.",
            expected="blocks | mixed | tensors",
            got=form,
            advice=Advice('form="mixed"', {"form": "mixed"}),
        )
    strategies: list[Strategy] = []
    refusals: list[Rejected] = []
    errors: list[CipherblasError] = []

    def enter(kind: type[Strategy], what: Expression) -> None:
        try:
            strategies.append(kind(what, options, budgets))
        except INFEASIBLE as error:
            errors.append(error)
            refusals.append(Rejected(kind.label, str(error.got or error.sentence)))

    if form in (None, "rows") and matrices is not None:
        enter(rows.RowStrategy, matrices)
    if form == "tensors" or (form is None and (network or (layered and has_layers(expression)))):
        enter(tensors.TensorStrategy, expression)
    worth_mixing = not network and matrices is not None and mixed.unsupported(matrices) is None
    if matrices is not None and (form == "mixed" or (form is None and worth_mixing)):
        enter(mixed.MixedStrategy, matrices)
    if form in (None, "blocks") and matrices is not None and not network:
        enter(BlockStrategy, matrices)
    if not strategies:
        if errors:
            raise errors[-1]
        raise ParameterError("The form does not fit a network.", expected="tensors for a network", got=form)
    search = Search(strategies, options, budgets, progress)
    search.rejected.update((refusal.algorithm, refusal) for refusal in refusals)
    try:
        return search.run()
    except INFEASIBLE as error:
        if form is None and network and may_be_blocks(expression):
            with contextlib.suppress(*INFEASIBLE):
                return make_plan(expression, replace(options, form="blocks"), progress)
        raise error


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
    if precision < LEAST_PRECISION:
        raise PrecisionError(
            "The precision cannot be reached: operands and results are float64 numbers.",
            expected=f"{LEAST_PRECISION:.1g} at the least",
            got=f"{precision:g}",
        )


def _form_of_network(options: PlanOptions) -> AskedForm | None:
    """The form that the options leave for vectors, images and layers, or None where they leave both."""
    if options.form == "blocks":
        raise ParameterError(
            "Images are not computed in blocks of matrices.",
            expected="tensors",
            got=options.form,
        )
    for name in BLOCK_OPTIONS:
        if getattr(options, name) is not None:
            raise ParameterError(
                f"A network does not take {name}=, which is of products of matrices in blocks.",
            )
    if options.algorithm == GEMM:
        return "rows"
    if options.algorithm is not None or options.parameters is not None:
        return "tensors"
    return options.form


def _form_of_matrices(options: PlanOptions) -> AskedForm | None:
    """The form that the options leave for matrices, or None where they leave both."""
    algorithm, forced = options.algorithm, options.form
    given = [name for name in BLOCK_OPTIONS if getattr(options, name) is not None]
    others: tuple[tuple[Container[str], AskedForm], ...] = (((GEMM,), "rows"), (LAYER_METHODS, "tensors"))
    for names, form in others:
        if algorithm is not None and algorithm in names:
            if forced not in (None, form):
                raise ParameterError(
                    f"The algorithm {algorithm} is of the form {form}, and form={forced} is asked for."
                )
            if given:
                raise ParameterError(
                    f"The algorithm {algorithm} does not take {given[0]}=, which is of products in slots."
                )
            return form
    if algorithm is not None:
        given.insert(0, "algorithm")
    if given and forced not in (None, "blocks"):
        raise ParameterError(f"The option {given[0]}= is of the form blocks, and form={forced} is asked for.")
    if options.parameters is not None and forced == "rows":
        raise ParameterError(
            f"The option parameters= is of ciphertexts in slots, and form={forced} is asked for."
        )
    return "blocks" if given or (options.parameters is not None and forced is None) else forced
