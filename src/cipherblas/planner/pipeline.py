"""How a program becomes a plan: its passes by name, in their order.

A pass hands the program on, as it is or rewritten, once or in several ways, and takes the best of what comes back. So
a pass knows nothing of those after it; the last one searches. What cannot be planned comes back as a result too, an
`Infeasible`; `planner.asking` adds what to ask for instead, and raises it.
"""

from __future__ import annotations

from cipherblas.common.errors import RangeError
from cipherblas.lang.exact import check_exact, is_exact
from cipherblas.lang.modular import modulus_of
from cipherblas.planner.plan.exact import may_take_residues
from cipherblas.planner.plan.modular import by_rows_or_in_slots
from cipherblas.planner.plan.passes import Following, Outcome, Pass, PlanRequest
from cipherblas.planner.plan.residues import by_residues
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.rewrite.activations import with_functions_inside
from cipherblas.planner.rewrite.association import associated
from cipherblas.planner.rewrite.large_images import with_images_dealt_out
from cipherblas.planner.rewrite.means import with_means_in_filters
from cipherblas.planner.rewrite.precisions import prepared
from cipherblas.planner.rewrite.refresh_placement import refreshed, with_larger_uploads
from cipherblas.planner.rewrite.spellings import spelled
from cipherblas.planner.search.forms import in_blocks_otherwise, searched
from cipherblas.planner.search.losers import ABOUT

PASSES: tuple[Pass, ...] = (
    spelled,  # x[:4] beside x, and sums of products, in the ways that they can be written
    prepared,  # functions get a precision, sums that approximate are cut, equal nodes become one
    associated,  # chains of products
    with_images_dealt_out,  # to more channels, where no ciphertext holds one
    with_larger_uploads,  # where nothing else is in the way
    refreshed,  # programs that are too deep for any ring
    with_means_in_filters,  # of convolutions, where they are refreshed: fewer ciphertexts are
    with_functions_inside,  # refreshes that find sines, where functions follow
    in_blocks_otherwise,  # vectors that layers do not carry
    searched,  # forms, methods, blocks, rings; the fastest plan that holds on its real primes
)
# Of programs of integers modulo t: they have neither functions nor refreshes, and no term is too small to count.
MODULAR_PASSES: tuple[Pass, ...] = (by_rows_or_in_slots, spelled, searched)


def planned(request: PlanRequest, passes: tuple[Pass, ...] | None = None) -> Outcome:
    """The fastest plan of a program, or why there is none.

    Args:
        passes: that are done; of the last one nothing follows. By default those of its kind of program.
    """
    if passes is None:
        if is_exact(request.expression):
            return _exact(request)
        passes = PASSES if modulus_of(request.expression) is None else MODULAR_PASSES
    first, *others = passes
    return first(request, _following(tuple(others)))


def _exact(request: PlanRequest) -> Outcome:
    """A program of exact integers: rounded, or by residues, whichever is faster."""
    expression, options = request.expression, request.options
    by_given = options.parameters is not None and options.parameters.plain_modulus is not None
    if by_given or isinstance(attempted(lambda: check_exact(expression), only=RangeError), Infeasible):
        return by_residues(request, _modular)
    rounded = planned(request, PASSES)
    if not may_take_residues(expression, options) or (
        request.any_plan and not isinstance(rounded, Infeasible)
    ):
        return rounded
    if not isinstance(rounded, Infeasible):
        request = request.below(min(request.limit, rounded.plan.minimised / ABOUT))
    found = by_residues(request, _modular)
    return rounded if isinstance(found, Infeasible) else found


def _modular(request: PlanRequest) -> Outcome:
    return planned(request, MODULAR_PASSES)


def _following(passes: tuple[Pass, ...]) -> Following:
    return lambda request: planned(request, passes)
