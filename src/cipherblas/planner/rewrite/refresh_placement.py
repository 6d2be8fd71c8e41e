"""Refreshes where the program asks for none: which nodes of a program that no ring carries are bootstrapped.

In a network these are the arguments of its functions: a refresh computes the function behind it as well, in smaller
primes than both would take one after the other (`rewrite.activations`).

Any other program is counted once with refreshes everywhere, so that what every node spends is known. Cuts through the
graph, at one level each, are chosen by dynamic programming over (cut, level): the values that cross a cut are
refreshed, and no segment between two cuts spends more levels than a ring has between refreshes. What a cut costs is
the number of ciphertexts that cross it. Then refreshes are left out that the levels of a value make needless.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cipherblas.common.errors import ApproximationError, CipherblasError, MemoryBudgetError, PrecisionError
from cipherblas.lang.curves import GATED
from cipherblas.lang.facts import facts_of
from cipherblas.lang.graph import columns
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.polynomials import Polynomial
from cipherblas.lang.refreshing import REFRESH, Refresh, is_refreshed
from cipherblas.methods.layers import LAYER_METHODS
from cipherblas.methods.products import GEMM
from cipherblas.planner.plan.passes import Following, Outcome, PlanRequest
from cipherblas.planner.plan.plan import AskedForm, PlanOptions
from cipherblas.planner.predict.dry_run import DryRun, dry_run
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.rings import modulus_chains
from cipherblas.planner.rings.sizing import MIN_SCALE_BITS, NoRingError, budget_bits
from cipherblas.planner.search.blocks import BlockStrategy
from cipherblas.planner.search.budgets import LAST_UPLOAD, budgets_of, secret_entries
from cipherblas.planner.search.forms import has_layers, is_layers, may_be_blocks
from cipherblas.planner.search.refusals import nearest
from cipherblas.planner.search.tensors import TensorStrategy, unsupported
from cipherblas.runtime.tensors import least_levels

# Of the levels between two refreshes, that are tried: units and scales may drift so far in long segments that a plan
# spends more than was counted.
SHARES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05)
# A plan may spend less than was counted, too: rings that are sized for it show that by themselves, and of one that is
# given more is tried.
MORE_SHARE = 1.25
# That a ring degree lacks of precision or of budgets: no other distance between refreshes makes up for so much.
HOPELESS_BITS = 8.0
LARGE_DEGREE = 1 << 16  # of rings in which a refresh may cost less than the levels that it saves
# Levels that no smaller ring has, whatever the precision: there are two ways to plan what spends more. What spends more
# than such a ring has itself takes far less with refreshes.
FEW_LEVELS = budget_bits(LARGE_DEGREE // 2, 128, False) / MIN_SCALE_BITS
MAX_LEVELS = budget_bits(LARGE_DEGREE, 128, False) / MIN_SCALE_BITS
MAX_CUTS = 256  # levels at which a graph may be cut, that are looked at


@dataclass(frozen=True)
class LevelNode:
    """A node of a program that spends levels, or none.

    Attributes:
        depth: levels that are spent from the operands to it, if nothing is refreshed.
        spent: levels between the deepest of what it is computed from and itself.
        ciphertexts: of its value.
        sources: numbers of the computed nodes that it is made of.
    """

    node: Expression
    depth: int
    spent: int
    ciphertexts: int
    sources: tuple[int, ...]


def refreshed(request: PlanRequest, following: Following) -> Outcome:
    """The program as it is; where it is too deep for any ring, with refreshes where they cost least. A network that
    takes a large ring is planned in both ways, and the faster one is taken."""
    may = may_refresh(request.expression, request.options)
    network = before_functions(request.expression) if may else None
    levels = 0 if network is None else least_levels(request.expression)
    if network is not None and levels > (MAX_LEVELS if request.options.insecure else FEW_LEVELS):
        request.tell("refreshes before functions")
        with_refreshes = following(request.of(network))
        if isinstance(with_refreshes, Infeasible):
            found = _faster(following(request), with_refreshes)
        elif levels > MAX_LEVELS or request.any_plan:
            return with_refreshes
        else:
            request.tell("no refreshes")
            found = _faster(following(request.below(with_refreshes.plan.minimised)), with_refreshes)
    else:
        found = following(request)
        if isinstance(found, Infeasible):
            if not isinstance(found.error, (PrecisionError, MemoryBudgetError)):
                return found
        elif found.plan.parameters.n < LARGE_DEGREE or request.any_plan:
            return found
        if network is not None:
            request.tell("refreshes before functions")
            found = _faster(found, following(request.of(network)))
    if not isinstance(found, Infeasible) or not may or isinstance(found.error, ApproximationError):
        return found  # polynomials are as far off wherever values are refreshed
    failures: list[CipherblasError] = [found.error]
    hopeless: set[int] = set()  # ring degrees
    for working, n, spent in _attempts(request):
        if n in hopeless:
            continue
        request.tell(f"refreshes after {working} levels, N = 2^{n.bit_length() - 1}")
        program = with_placed(request.expression, spent.steps, working)
        assert program is not None
        wanted = request.of(program).asking(ring_degree=n, algorithm=spent.algorithm, form=spent.form)
        found = following(wanted)
        if not isinstance(found, Infeasible):
            return found
        failures.append(found.error)
        if HOPELESS_BITS < found.error.shortfall < math.inf:
            hopeless.add(n)
    return Infeasible(nearest(failures))


def _faster(one: Outcome, other: Outcome) -> Outcome:
    """The plan that takes less of what it makes least; of two failures the one that lacks less."""
    if isinstance(one, Infeasible):
        return Infeasible(nearest([one.error, other.error])) if isinstance(other, Infeasible) else other
    return one if isinstance(other, Infeasible) or one.plan.minimised <= other.plan.minimised else other


def before_functions(expression: Expression) -> Expression | None:
    """A network with refreshes of the arguments of its functions, but of those that come first: layers and one function
    are not too deep. What else reads such an argument, as a sum, takes it as it is. None for other programs."""
    if not is_layers(expression):
        return None
    after: set[int] = set()  # nodes below which there is a function
    layers: set[int] = set()  # nodes between which and the last functions there is a layer
    deep: set[int] = set()  # functions that come later
    for node in facts_of(expression).order:
        if node.op == GATED:
            return None  # which steps of it belong together is not known here
        function = isinstance(node, Polynomial) and node.secret
        below = any(id(child) in after for child in node.children)
        layer = below and (node.product or node.window is not None)
        if layer or any(id(child) in layers for child in node.children):
            (deep if function else layers).add(id(node))
        if function or below:
            after.add(id(node))
    return _refreshed(expression, lambda _, reader: id(reader) in deep)[id(expression)] if deep else None


def with_larger_uploads(request: PlanRequest, following: Following) -> Outcome:
    """Where uploads alone are too large, and nobody said how large they may be, they may be larger than otherwise:
    ciphertexts of deep programs are."""
    found = following(request)
    if not isinstance(found, Infeasible) or request.options.upload_budget is not None:
        return found
    if not isinstance(found.error, (PrecisionError, MemoryBudgetError)) or not _lacks_upload(found.error):
        return found
    return following(request.asking(upload_budget=LAST_UPLOAD))


def _lacks_upload(failure: CipherblasError) -> bool:
    """Whether there is a plan that uploads no more than that."""
    asked = failure.advice[0].options if failure.advice else {}
    return asked.keys() == {"upload_budget"} and asked["upload_budget"] <= LAST_UPLOAD


def _attempts(request: PlanRequest) -> list[tuple[int, int, Counted]]:
    """Levels between two refreshes and ring degrees that are tried, those that take least first; none where depth is
    not what rings lack."""
    expression, options = request.expression, request.options
    attempts: dict[tuple[int, bool, frozenset[int]], tuple[float, int, Counted]] = {}
    forced = options.ring_degree if options.parameters is None else options.parameters.n
    shares = SHARES if options.parameters is None else (MORE_SHARE, *SHARES)
    for n in modulus_chains.DEGREES if forced is None else (forced,):
        if attempts and n > modulus_chains.USUAL_DEGREE:
            break
        request.tell(f"what it spends, N = 2^{n.bit_length() - 1}")
        for layers in _ways(expression, options):
            found = attempted(functools.partial(counted, expression, options, n, layers))
            if isinstance(found, Infeasible):
                continue
            for working in sorted({math.ceil(share * found.most) for share in shares}, reverse=True):
                chosen = placed(found.steps, working)
                if chosen:  # nothing to refresh: depth is not what this ring lacks
                    cost = found.refresh * sum(found.steps[place].ciphertexts for place in chosen)
                    attempts.setdefault((n, layers, chosen), (cost, working, found))
    ordered_by_cost = sorted(attempts.items(), key=lambda one: (one[1][0], one[0][0]))
    return [(working, n, found) for (n, _, _), (_, working, found) in ordered_by_cost]


@dataclass(frozen=True)
class Counted:
    """The figures of a program in slots of one ring degree.

    Attributes:
        most: levels between two refreshes, at most.
        refresh: what one refresh of a ciphertext takes, in transformed words.
        algorithm: of its products of matrices; None where there are none, or the user says which.
        form: that it was counted in, where a program of its kind is planned in another one first.
    """

    steps: Sequence[LevelNode]
    most: int
    refresh: float
    algorithm: str | None
    form: AskedForm | None


def may_refresh(expression: Expression, options: PlanOptions) -> bool:
    """Whether options and program leave it to the planner to refresh what could not be planned."""
    return not (
        is_refreshed(expression)
        or options.form in ("rows", "features")
        or options.for_peer is not None
        or options.algorithm == GEMM
        or (options.security > 128 and not options.insecure)
        or any(node.operand is not None and node.operand.exact for node in facts_of(expression).order)
    )


def counted(expression: Expression, options: PlanOptions, n: int, layers: bool) -> Counted:
    """The nodes of a program, and what they spend in slots, by the algorithm that transforms fewest limbs.

    They are counted with refreshes wherever one may be, so that no ring is too small.

    Args:
        layers: layer by layer, and not in blocks.

    Raises:
        CipherblasError: slots do not carry the program, or one node spends more levels than there are.
    """
    computed = {id(node): node for node in facts_of(expression).order} if layers else columns(expression)
    if computed is None:
        raise NoRingError("Blocks do not carry images.", n, math.inf, modulus=0.0)
    everywhere = _refreshed(computed[id(expression)], lambda node, _: not node.linear)
    root = everywhere[id(computed[id(expression)])]
    budgets = budgets_of(options, secret_entries(expression), refreshed=True)
    kind = TensorStrategy if layers else BlockStrategy
    unsuited = kind.refusal(root, options)
    if unsuited is not None:
        raise NoRingError(unsuited.sentence, n, math.inf, modulus=0.0)
    strategy = kind(root, replace(options, ring_degree=n), budgets)
    ring = (
        options.parameters
        or modulus_chains.widest(n, budget_bits(n, options.security, options.insecure)).shape()
    )
    most = modulus_chains.working(ring)
    best: Counted | None = None
    least = math.inf  # limbs that are transformed, by the algorithm that transforms fewest
    failure: Infeasible | None = None
    for family in strategy.families(False, lambda name, reason: None):
        for candidate in next(family, [])[:1]:
            run = attempted(
                functools.partial(
                    dry_run,
                    *(ring, root, candidate.decisions),
                    mask_budget=budgets.masks,
                    max_ntt_limbs=least,
                    observed=True,
                    promise=options.promised,
                )
            )
            if isinstance(run, Infeasible):
                failure = run
                continue
            least = min(least, float(run.counts.ntt_limbs))
            runs = {key: everywhere[id(node)] for key, node in computed.items()}
            steps = _steps(expression, runs, run, modulus_chains.limbs_left(ring))
            name = options.algorithm
            if isinstance(strategy, BlockStrategy) and strategy.nodes:
                name = name or candidate.name
            other: AskedForm = "tensors" if layers else "blocks"
            form = options.form if layers == is_layers(expression) else other
            best = Counted(steps, most, n * _transformed(run), name, form)
    if best is None:
        if failure is not None:
            raise failure.error
        raise NoRingError(
            f"At N = {n} no size of blocks holds the matrices of the program.", n, math.inf, modulus=0.0
        )
    return best


def _ways(expression: Expression, options: PlanOptions) -> list[bool]:
    """Whether the program is planned layer by layer where it refreshes, or in blocks, or both are tried, that which is
    meant for it first.

    Vectors are columns in blocks where no matrix multiplies them, matrices are channels where only clear ones do.
    """
    own = is_layers(expression) and options.form != "blocks"
    if options.form is not None or options.algorithm is not None or options.parameters is not None:
        return [own or options.form == "tensors" or options.algorithm in LAYER_METHODS]
    other = may_be_blocks(expression) if own else unsupported(expression) is None and has_layers(expression)
    return [own, not own] if other else [own]


def _steps(expression: Expression, runs: Mapping[int, Expression], run: DryRun, full: int) -> list[LevelNode]:
    """The figures of the nodes that stand for those of a program.

    Args:
        full: limbs of a refreshed value.
    """
    order = [node for node in ordered(runs[id(expression)]) if not node.root]
    used = dict.fromkeys(range(len(order)), 0)  # levels, since the refreshes before a node
    ciphertexts = dict.fromkeys(range(len(order)), 1)
    for one in run.nodes:
        pending = max(
            0, round(math.log2(one.scale) / run.scale_bits) - 1
        )  # rescales that are still to be done
        used[one.number] = max(used[one.number], full - one.limbs + pending)
        ciphertexts[one.number] = max(ciphertexts[one.number], one.ciphertexts)
    number = {id(node): place for place, node in enumerate(order)}
    steps: list[LevelNode] = []
    places: dict[int, int] = {}
    for node in facts_of(expression).order:
        if node.root or not node.secret or node.packable:
            continue
        stand_in = runs[id(node)]
        sources = tuple(places[id(child)] for child in node.children if id(child) in places)
        parts = (child for child in stand_in.children if child.secret and child.op != REFRESH)
        spent = used[number[id(stand_in)]] - max((used[number[id(part)]] for part in parts), default=0)
        depth = max((steps[source].depth for source in sources), default=0) + max(0, spent)
        places[id(node)] = len(steps)
        steps.append(LevelNode(node, depth, max(0, spent), ciphertexts[number[id(stand_in)]], sources))
    return steps


def _transformed(run: DryRun) -> float:
    """Limbs that are transformed per ciphertext that is refreshed."""
    refreshes = [one for one in run.nodes if one.counts.modulus_raises]
    number = sum(one.ciphertexts for one in refreshes)
    return sum(one.counts.ntt_limbs for one in refreshes) / max(number, 1)


def _refreshed(
    expression: Expression, chosen: Callable[[Expression, Expression], bool]
) -> dict[int, Expression]:
    """By the id of a node, the same with refreshes of those that are chosen.

    Args:
        chosen: whether a node is refreshed for one that is computed from it.
    """
    found: dict[int, Expression] = {}
    again: dict[int, Expression] = {}
    for node in facts_of(expression).order:
        parts = []
        for child in node.children:
            part = found[id(child)]
            if child.secret and not (child.packable or node.root) and chosen(child, node):
                part = again.setdefault(id(child), Refresh(part, placed=True))
            parts.append(part)
        changed = any(a is not b for a, b in zip(parts, node.children, strict=True))
        found[id(node)] = node.rebuilt(parts) if changed else node
    return found


def with_placed(expression: Expression, steps: Sequence[LevelNode], working: int) -> Expression | None:
    """The program with refreshes of the fewest ciphertexts; None where no refreshes make do with so many levels.

    Args:
        working: levels of a value that was refreshed, and of an operand.
    """
    chosen = placed(steps, working)
    if chosen is None:
        return None
    refreshed = {id(steps[place].node) for place in chosen}
    return _refreshed(expression, lambda node, _: id(node) in refreshed)[id(expression)]


def placed(steps: Sequence[LevelNode], working: int) -> frozenset[int] | None:
    """The numbers of the steps that are refreshed, of the fewest ciphertexts and, of equal ones, so that fewer levels
    are enough; None where some step spends more levels."""
    found = _cut(steps, working)
    if found is None:
        return None
    while working > 1:
        fewer = _cut(steps, working - 1)
        if fewer is None or fewer[0] > found[0]:
            break
        found, working = fewer, working - 1
    chosen = set(found[1])
    for place in sorted(chosen, key=lambda place: -steps[place].ciphertexts):
        if _deepest(steps, chosen - {place}) <= working:
            chosen.discard(place)
    return frozenset(chosen)


def _deepest(steps: Sequence[LevelNode], refreshed: set[int]) -> int:
    """Levels that are spent since the last refresh, at most."""
    spent: list[int] = []
    for step in steps:
        before = max((0 if source in refreshed else spent[source] for source in step.sources), default=0)
        spent.append(before + step.spent)
    return max(spent, default=0)


def _cut(steps: Sequence[LevelNode], working: int) -> tuple[int, frozenset[int]] | None:
    """The cheapest cuts: their ciphertexts, and what they refresh."""
    levels = sorted({step.depth for step in steps})
    if len(levels) > MAX_CUTS:
        levels = sorted({levels[len(levels) * index // MAX_CUTS] for index in range(MAX_CUTS)} | {levels[-1]})
    cut_edges = {level: _cut_edges(steps, level) for level in levels[:-1]}
    start = min(levels, default=0) - 1
    best: dict[int, tuple[int, frozenset[int]]] = {start: (0, frozenset())}
    for before in (start, *levels[:-1]):
        if before not in best:
            continue
        cost, chosen = best[before]
        for level, spent in zip(levels, _segments(steps, before, levels), strict=True):
            if level <= before or spent > working:
                continue
            more = cut_edges.get(level, frozenset())
            total = cost + sum(steps[place].ciphertexts for place in more - chosen)
            if level not in best or total < best[level][0]:
                best[level] = total, chosen | more
    return best.get(levels[-1]) if levels else (0, frozenset())


def _cut_edges(steps: Sequence[LevelNode], level: int) -> frozenset[int]:
    """Steps up to a level that deeper ones need, without those that cost no level once the others are refreshed."""
    needed = {
        source
        for step in steps
        if step.depth > level
        for source in step.sources
        if steps[source].depth <= level
    }
    return frozenset(
        place
        for place in needed
        if steps[place].spent or not steps[place].sources or not needed.issuperset(steps[place].sources)
    )


def _segments(steps: Sequence[LevelNode], before: int, levels: Sequence[int]) -> list[int]:
    """Per level, the levels that steps down to it spend at most since all that crosses the cut `before` was
    refreshed."""
    spent: list[int] = []
    deepest: dict[int, int] = {}
    for step in steps:
        inner = (spent[source] for source in step.sources if steps[source].depth > before)
        here = max(inner, default=0) + step.spent
        spent.append(here)
        if step.depth > before:
            deepest[step.depth] = max(deepest.get(step.depth, 0), here)
    found, most = [], 0
    passed = sorted(deepest.items())
    index = 0
    for level in levels:
        while index < len(passed) and passed[index][0] <= level:
            most = max(most, passed[index][1])
            index += 1
        found.append(most)
    return found
