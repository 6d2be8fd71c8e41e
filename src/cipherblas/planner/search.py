"""The search for a plan: algorithms × ring degrees × blocks × key policies, by counted cost, under the budgets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cipherblas.common.errors import CipherblasError, MemoryBudgetError, PrecisionError, ShapeError
from cipherblas.crypto.params import TooFewPrimesError
from cipherblas.forms.blocks import grid_shape
from cipherblas.lang.graph import Axes, products
from cipherblas.lang.nodes import Expression, matrix_shape, ordered
from cipherblas.lang.operations import Leaf, MatMul, Scale
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.matmul.registry import ALGORITHMS, build, find
from cipherblas.planner import estimate
from cipherblas.planner.assembly import Decisions, Predictions, assemble, key_bytes_of, resident_bytes
from cipherblas.planner.bound import least_seconds
from cipherblas.planner.budgets import Budgets
from cipherblas.planner.cost import calibrate
from cipherblas.planner.estimate import Estimate
from cipherblas.planner.explain import duration, size
from cipherblas.planner.plan import RING_DEGREES, KeySaving, Plan, PlanOptions, Rejected
from cipherblas.planner.refusals import refused
from cipherblas.planner.sizing import (
    MORE_PRIMES_BITS,
    NoRingError,
    Sizing,
    budget_bits,
    draft_excess,
    magnitude_slope,
    sizings,
    too_few_primes,
)
from cipherblas.planner.stages import Stages
from cipherblas.planner.tilings import (
    TILINGS_KEPT,
    fits_all,
    promising,
    single_product_tilings,
    uniform_tilings,
)
from cipherblas.planner.trace import TooSlowError, Trace, trace
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import Ring
from cipherblas.runtime.slot_arithmetic import Choice

KEY_POLICIES: tuple[KeyPolicy, ...] = ("direct", "composed", "binary")
FINALISTS = 12
SMALLEST = 4
PRUNE_RATIO = 20  # what takes so many times as long as the best so far is not counted to its end
PROGRAM_TILINGS = 2  # of a program with several products: the largest blocks that fit
SMALLER_BLOCKS = 0.8  # of a modulus that is needed: more than other blocks of a larger ring may save
STOP_RATIO = 1.3  # a ring slower than a smaller one by so much ends the search upwards


@dataclass(frozen=True)
class Candidate:
    """One way to run the program, before its ring is sized."""

    choices: tuple[Choice, ...]
    blocks: Mapping[str, int]
    n: int

    @property
    def algorithm(self) -> str:
        return self.choices[0].algorithm if self.choices else "elementwise"


@dataclass(frozen=True)
class Scored:
    """A candidate with a sized ring (None: forced parameters), its estimate and its predicted stages.

    Attributes:
        seconds: of what the plan minimises.
    """

    candidate: Candidate
    sizing: Sizing | None
    key_policy: KeyPolicy
    estimate: Estimate
    key_bytes: int
    stages: Stages
    seconds: float
    extra_bits: float = 0.0

    @property
    def peak_bytes(self) -> int:
        """About what the server will need."""
        counted = self.estimate
        return self.key_bytes + counted.upload_bytes + resident_bytes(counted.working_bytes)


class SlowerError(CipherblasError):
    """Nothing is faster than the other route.

    Attributes:
        losers: the candidates, and what they take.
    """

    def __init__(self, losers: tuple[Rejected, ...]) -> None:
        super().__init__("slower than the other route")
        self.losers = losers


class Search:
    """One search; `run()` returns the plan and its trace.

    Args:
        best_seconds: of another route. What takes far longer is not counted to its end, and a plan that takes longer
            is not made.
    """

    def __init__(
        self,
        expression: Expression,
        options: PlanOptions,
        budgets: Budgets,
        best_seconds: float = math.inf,
    ) -> None:
        self.expression, self.options, self.budgets = expression, options, budgets
        self.nodes = products(expression)
        self.axes = Axes(expression)
        self.target = options.precision * expression.bound
        self.rates = calibrate()
        self.predictions = Predictions.of(options)
        self.rejected: dict[str, Rejected] = {}
        self._no_ring: dict[str, NoRingError] = {}  # of each algorithm at the largest degree that was tried
        self._slopes: dict[str, float] = {}
        self._most_keys: Scored | None = None  # the fastest that only the key budget refuses
        self._best_seconds = best_seconds  # so far, on any route
        self._limit = best_seconds
        self._least_keys: dict[str, int] = {}
        self._refused_keys = self._refused_uploads = 0  # candidates, each on one ring and with one policy
        self._thorough = False  # look at smaller blocks of every algorithm
        self._failures: list[CipherblasError] = []
        self._too_slow = 0  # candidates that were not counted to their end

    # --- candidates ---

    @property
    def simple(self) -> bool:
        """One product of two operands, up to factors: the case that is searched most finely."""

        def core(node: Expression) -> Expression:
            return node.child if isinstance(node, Scale) else node

        if len(self.nodes) != 1 or core(self.expression) is not self.nodes[0]:
            return False
        return all(isinstance(core(child), Leaf) or not child.secret for child in self.nodes[0].children)

    @property
    def _degrees(self) -> tuple[int, ...]:
        if self.options.parameters is not None:
            return (self.options.parameters.n,)
        return RING_DEGREES if self.options.ring_degree is None else (self.options.ring_degree,)

    def families(self) -> Iterator[Iterator[list[Candidate]]]:
        """For each algorithm the candidates of each ring degree, smallest first."""
        options, degrees = self.options, self._degrees
        if not self.nodes:
            yield (list(self._elementwise(n)) for n in degrees)
            return
        automatic = [name for name, algorithm in ALGORITHMS.items() if not algorithm.baseline]
        for name in [options.algorithm] if options.algorithm is not None else automatic:
            yield (list(self._for_algorithm(name, n)) for n in degrees)

    def _elementwise(self, n: int) -> Iterator[Candidate]:
        for blocks in uniform_tilings(self.axes, self.options.block):
            if math.prod(blocks[axis] for axis in self.axes.of(self.expression)) <= n // 2:
                yield Candidate((), blocks, n)
                return

    def _for_algorithm(self, name: str, n: int) -> Iterator[Candidate]:
        algorithm, slots = find(name), n // 2
        if self.simple:
            node = self.nodes[0]
            m, k = node.left.shape
            axes = (*self.axes.of(node.left), self.axes.of(node)[1])
            shape = (m, k, node.shape[1])
            tilings = single_product_tilings(algorithm, shape, slots, self.options.block)
            # Algorithms with levels of their own are slow to count, and lose to the others by far: one tiling each.
            for block in promising(
                tilings, shape, TILINGS_KEPT if self._thorough or algorithm.min_levels == 0 else 1
            ):
                for found in self._option_sets(algorithm, block, slots):
                    candidate = Candidate((Choice(name, found),), _blocks(axes, block), n)
                    if self._fits_upload(candidate):
                        yield candidate
            return
        uniform = uniform_tilings(self.axes, self.options.block)
        fitting = (
            blocks for blocks in uniform if fits_all(algorithm, self.expression, self.axes, blocks, slots)
        )
        for blocks in itertools.islice(fitting, PROGRAM_TILINGS):
            choices = tuple(self._first_choice(algorithm, node, blocks, slots) for node in self.nodes)
            candidate = Candidate(choices, blocks, n)
            if self._fits_upload(candidate):
                yield candidate

    def _block(self, node: MatMul, blocks: Mapping[str, int]) -> tuple[int, int, int]:
        rows, inner = self.axes.of(node.left)
        return blocks[rows], blocks[inner], blocks[self.axes.of(node)[1]]

    def _first_choice(
        self, algorithm: type[Algorithm], node: MatMul, blocks: Mapping[str, int], slots: int
    ) -> Choice:
        block = self._block(node, blocks)
        found = next(self._option_sets(algorithm, block, slots), None)
        if found is None:
            raise ShapeError(f"{algorithm.name} has no option that fits", got=block)
        return Choice(algorithm.name, found)

    def _fits_upload(self, candidate: Candidate) -> bool:
        """Whether the upload fits its budget at one limb: what does not need not be counted to be refused."""
        uploads = self._least_upload(candidate)
        if uploads > self.budgets.upload:
            self._reject(
                candidate, f"uploads at least {size(uploads)}, upload_budget is {size(self.budgets.upload)}"
            )
        return uploads <= self.budgets.upload

    def _least_upload(self, candidate: Candidate) -> int:
        """Bytes of the operands that are factors of products, or parts of factors, each at one limb."""
        polynomials: dict[Any, int] = {}
        for node, choice in zip(self.nodes, candidate.choices, strict=True):
            block = self._block(node, candidate.blocks)
            algorithm = build(choice.algorithm, *block, candidate.n // 2, choice.options)
            for side, layout in ((node.left, algorithm.left_layout), (node.right, algorithm.right_layout)):
                if not (side.secret and side.packable):
                    continue
                grid = math.prod(grid_shape(*matrix_shape(side), layout.rows, layout.cols))
                for leaf in ordered(side):
                    if isinstance(leaf, Leaf) and leaf.secret:
                        key = (leaf.name, leaf.transposed, layout.key)
                        polynomials[key] = grid * layout.ciphertexts * (1 + leaf.operand.public_key)
        return sum(polynomials.values()) * candidate.n * 8

    def _option_sets(
        self, algorithm: Any, block: tuple[int, int, int], slots: int
    ) -> Iterator[dict[str, Any]]:
        if self.options.options is not None:
            yield dict(self.options.options)
        elif algorithm.min_levels and self.options.algorithm is None:
            yield from itertools.islice(algorithm.candidates(*block, slots), 1)
        else:
            yield from algorithm.candidates(*block, slots)

    # --- scoring ---

    def _estimator(self, candidate: Candidate, key_policy: KeyPolicy) -> Callable[[Ring], Estimate]:
        if self.simple:
            node = self.nodes[0]
            axes = (*self.axes.of(node.left), self.axes.of(node)[1])
            bm, bk, bn = (candidate.blocks[axis] for axis in axes)
            # The bound of a node without products is its unit; beside the product there are factors alone.
            unit = node.left.bound * node.right.bound * (self.expression.bound / node.bound)
            choice = candidate.choices[0]
            return _remembered(
                lambda ring: estimate.of_product(
                    ring, node, choice, (bm, bk, bn), key_policy, unit, self.budgets.masks
                )
            )
        return _remembered(
            lambda ring: estimate.of_program(
                ring,
                self.expression,
                candidate.choices,
                candidate.blocks,
                key_policy,
                self._max_ntt_limbs(ring),
                self.budgets.masks,
            )
        )

    def _max_ntt_limbs(self, ring: Ring) -> float:
        """So many transforms alone would take far longer than the best plan so far."""
        layers = ring.n * (ring.n.bit_length() - 1)
        seconds = PRUNE_RATIO * self._best_seconds * draft_excess(ring)
        return seconds * self.predictions.threads / (layers * max(self.rates.least_ntt, 1e-12))

    @property
    def _policies(self) -> tuple[KeyPolicy, ...]:
        forced = self.options.key_policy
        return (forced,) if forced is not None else KEY_POLICIES

    def score(self, candidate: Candidate, extra_bits: float = 0.0) -> Iterator[Scored]:
        """The candidate on every ring that carries it, under the first key policy that fits the key budget.

        Raises:
            NoRingError: no ring of its degree does; key policies with fewer keys have larger errors yet.
        """
        options, found = self.options, False
        for policy in self._policies:
            run, refused = self._estimator(candidate, policy), self._refused_keys
            if candidate.algorithm not in self._slopes:
                self._slopes[candidate.algorithm] = magnitude_slope(
                    run, candidate.n, self._allowed_bits(candidate.n)
                )
            rings = sizings(
                run,
                candidate.n,
                self.target,
                options.security,
                options.insecure,
                extra_bits,
                self._slopes[candidate.algorithm],
                (1, 2, 3) if self.simple else (2,),
            )
            for sizing in rings:
                scored = self._weighed(candidate, sizing.shape(), policy, run, sizing, extra_bits)
                if scored is not None:
                    found = True
                    yield scored
            if found or self._refused_keys == refused:  # other policies have other keys, and the same upload
                return

    def _allowed_bits(self, n: int) -> float:
        return budget_bits(n, self.options.security, self.options.insecure)

    def _weighed(
        self,
        candidate: Candidate,
        ring: Ring,
        policy: KeyPolicy,
        run: Callable[[Ring], Estimate],
        sizing: Sizing | None = None,
        extra_bits: float = 0.0,
    ) -> Scored | None:
        """The candidate on one ring; None, and a reason kept, where it exceeds a budget."""
        counted = run(ring)
        scored = self._predicted(candidate, sizing, policy, counted, ring, extra_bits)
        if counted.upload_bytes > self.budgets.upload:
            self._refused_uploads += 1
            self._reject(
                candidate,
                f"uploads {size(counted.upload_bytes)}, upload_budget is {size(self.budgets.upload)}",
            )
            return None
        if scored.key_bytes > self.budgets.keys:
            self._reject_keys(scored)
            return None
        if scored.peak_bytes <= self.budgets.memory:
            self._best_seconds = min(self._best_seconds, scored.seconds)
        return scored

    def _predicted(
        self,
        candidate: Candidate,
        sizing: Sizing | None,
        policy: KeyPolicy,
        counted: Estimate,
        ring: Ring,
        extra_bits: float = 0.0,
    ) -> Scored:
        key_bytes = key_bytes_of(counted.keys, ring)
        stages = self.predictions.stages(counted.counts, counted.traffic, key_bytes, ring)
        seconds = self.predictions.seconds(stages)
        return Scored(candidate, sizing, policy, counted, key_bytes, stages, seconds, extra_bits)

    def _reject(self, candidate: Candidate, reason: str, seconds: float | None = None) -> None:
        known = self.rejected.get(candidate.algorithm)
        if known is None or (seconds is not None and (known.seconds is None or seconds < known.seconds)):
            self.rejected[candidate.algorithm] = Rejected(candidate.algorithm, reason, seconds)

    def _reject_keys(self, scored: Scored) -> None:
        """Too many keys: the reason names the fewest, and the fastest is kept to tell what fewer keys cost."""
        self._refused_keys += 1
        name, least = scored.candidate.algorithm, self._least_keys
        if scored.key_bytes < least.get(name, math.inf):
            least[name] = scored.key_bytes
            reason = f"needs {size(scored.key_bytes)} of keys, key_budget is {size(self.budgets.keys)}"
            if self.rejected.get(name, Rejected(name, "")).seconds is None:
                self.rejected[name] = Rejected(name, reason)
        if self._most_keys is None or scored.seconds < self._most_keys.seconds:
            self._most_keys = scored

    # --- the plan ---

    def run(self) -> tuple[Plan, Trace]:
        """The fastest candidate that holds when it is traced with its real primes.

        Raises:
            SlowerError: none is faster than `best_seconds`.
            CipherblasError: none holds, or none fits the budgets.
        """
        least = least_seconds(self.expression, min(self._degrees), self.rates, self.predictions.threads)
        if least > self._limit:
            raise SlowerError((Rejected("slots", f"at least {duration(least)} (bound)"),))
        scored = self._all_scored()
        if not scored and self._least_keys:  # smaller blocks need fewer keys
            self._thorough = True
            scored = self._all_scored()
        self._best_seconds = math.inf  # whatever is looked at from here on is counted to its end
        best: dict[str, Scored] = {}
        for entry in scored:
            best.setdefault(entry.candidate.algorithm, entry)
        failures: list[CipherblasError] = []
        for entry in self._finalists(scored, best):
            if entry.seconds > self._limit:
                raise SlowerError(self._losers("", self._limit, best))
            try:
                plan, run = self._finish(entry)
            except CipherblasError as error:
                failures.append(error)
                self._reject(entry.candidate, str(error), entry.seconds)
                continue
            saving = self._key_saving(entry)
            losers = self._losers(plan.algorithm, plan.minimised, best)
            return replace(plan, rejected=losers, key_saving=saving), run
        if not failures:
            raise self._impossible()
        # The finalists end with the smallest: what it lacks is what the plan lacks.
        raise failures[-1] if isinstance(failures[-1], MemoryBudgetError) else failures[0]

    def _all_scored(self) -> list[Scored]:
        """Every candidate within the budgets, fastest first."""
        found = (scored for family in self.families() for scored in self._family(family))
        return sorted(found, key=lambda scored: scored.seconds)

    def _finalists(self, scored: Sequence[Scored], best: Mapping[str, Scored]) -> list[Scored]:
        """The fastest that seem to fit the memory, the fastest of each algorithm, then the smallest."""
        fitting = [entry for entry in scored if entry.peak_bytes <= self.budgets.memory]
        smallest = sorted(scored, key=lambda entry: entry.peak_bytes)
        chosen = [*fitting[:FINALISTS], *best.values(), *smallest[:SMALLEST]]
        return list({id(entry): entry for entry in chosen}.values())

    def _key_saving(self, entry: Scored) -> KeySaving | None:
        """What a larger key budget, or the direct key policy, would give; None where nothing was saved."""
        other = self._most_keys
        if other is None and entry.key_policy != "direct":
            ring: Ring | None = self.options.parameters
            if entry.sizing is not None:
                ring = entry.sizing.shape()
            assert ring is not None
            counted = self._estimator(entry.candidate, "direct")(ring)
            other = self._predicted(entry.candidate, entry.sizing, "direct", counted, ring)
        if other is None or other.key_bytes <= entry.key_bytes:
            return None
        refused = other is self._most_keys  # by the key budget
        if (refused or entry.key_policy == "direct") and other.seconds >= entry.seconds:
            return None
        return KeySaving(
            algorithm=other.candidate.algorithm,
            key_policy=other.key_policy,
            key_bytes=other.key_bytes,
            rotation_keys=len(other.estimate.keys.galois),
            rotations=other.estimate.counts.rotations,
            seconds=other.stages.evaluate,
        )

    def _family(self, degrees: Iterator[list[Candidate]]) -> Iterator[Scored]:
        """One algorithm over growing rings, until a ring is clearly slower than a smaller one."""
        best, needed, largest = math.inf, 0.0, max(self._degrees)
        for candidates in degrees:
            found: list[Scored] = []
            hopeless = bool(candidates)  # every one is too slow, or uploads too much
            if candidates and candidates[0].n < largest and self._allowed_bits(candidates[0].n) < needed:
                continue
            for candidate in candidates:
                before, slow, refused = len(self._failures), self._too_slow, self._refused_uploads
                found.extend(self._scored(candidate))
                if self._refused_uploads > refused and not self.simple:
                    break  # smaller blocks have more ciphertexts
                hopeless = hopeless and self._too_slow > slow
                # Other blocks of a program are as deep: where a ring is too small for one, a larger one comes next.
                too_small = [error for error in self._failures[before:] if isinstance(error, NoRingError)]
                if too_small and not (found or self.simple) and candidate.n < largest:
                    needed = SMALLER_BLOCKS * max(error.bits for error in too_small)
                    break
            yield from found
            if hopeless and self._whole(candidates[0]):
                return  # larger rings take longer, and more bytes
            fastest = min((scored.seconds for scored in found), default=math.inf)
            if fastest > STOP_RATIO * best:
                return
            best = min(best, fastest)

    def _whole(self, candidate: Candidate) -> bool:
        """Whether every matrix is one block: larger blocks save nothing."""
        return all(candidate.blocks[axis] >= length for axis, length in self.axes.lengths.items())

    def _scored(self, candidate: Candidate) -> Iterator[Scored]:
        try:
            if self.options.parameters is None:
                yield from self.score(candidate)
                return
            for policy in self._policies:
                run = self._estimator(candidate, policy)
                scored = self._weighed(candidate, self.options.parameters, policy, run)
                if scored is not None:
                    yield scored
                    return
        except NoRingError as error:
            self._no_ring[candidate.algorithm] = error
            self._failures.append(error)
        except TooSlowError:
            self._too_slow += 1
            self._reject(candidate, f"slower by more than {PRUNE_RATIO} times")
        except CipherblasError as error:
            self._reject(candidate, str(error))
            self._failures.append(error)

    def _losers(self, taken: str, seconds: float, best: Mapping[str, Scored]) -> tuple[Rejected, ...]:
        """Every algorithm but the one that is taken, and why: beside a plan of so many seconds."""
        losers, rejected = [], self._rejections
        for name in {**best, **rejected}:
            if name == taken:
                continue
            if name in best:
                ratio = best[name].seconds / seconds
                failed = rejected.get(name)
                reason = failed.reason if ratio < 1 and failed else f"slower by {max(ratio, 1.0):.1f} times"
                losers.append(Rejected(name, reason, best[name].seconds))
            else:
                losers.append(rejected[name])
        return tuple(
            sorted(losers, key=lambda loser: loser.seconds if loser.seconds is not None else math.inf)
        )

    @property
    def _rejections(self) -> dict[str, Rejected]:
        """Algorithm → why it is not taken; a budget that refuses a ring says more than a smaller ring's lack."""
        small = {name: Rejected(name, error.message) for name, error in self._no_ring.items()}
        return {**small, **self.rejected}

    def _impossible(self) -> CipherblasError:
        details = "; ".join(f"{r.algorithm}: {r.reason}" for r in self.rejected.values())
        if any("budget" in rejected.reason for rejected in self.rejected.values()):
            return MemoryBudgetError("no plan fits the budgets", expected="a larger budget", got=details)
        if self.options.parameters is not None and self._failures:
            return self._failures[0]
        if self._no_ring or not details:
            return refused(self.expression, self.options, self._failures)
        return PrecisionError(
            "no parameters reach what was asked for",
            expected=f"error {self.target:.3g}, {self.options.security}-bit security",
            got=details,
        )

    def _finish(self, entry: Scored, tries: int = 3) -> tuple[Plan, Trace]:
        """The plan of a scored candidate with real primes; a scale that is a little too small is enlarged."""
        options, candidate = self.options, entry.candidate
        parameters = options.parameters
        if entry.sizing is not None:
            try:
                parameters = entry.sizing.parameters(options.security, options.insecure)
            except TooFewPrimesError as error:
                failure = too_few_primes(error, candidate.n, float(options.precision))
                return self._enlarged(entry, MORE_PRIMES_BITS, tries, failure)
        assert parameters is not None
        decided = Decisions(
            *(parameters, candidate.choices, candidate.blocks),
            *(entry.key_policy, options.order, float(options.precision)),
        )
        for masks in (self.budgets.masks, 0):  # they are not kept where that alone is too much
            run = trace(
                *(parameters, self.expression, candidate.choices, candidate.blocks, entry.key_policy),
                mask_budget=masks,
            )
            plan = assemble(self.expression, decided, run, self.predictions, mask_budget=masks)
            if plan.peak_bytes <= self.budgets.memory:
                break
        # Parameters that the user forces give the precision that they give: `explain` says so.
        if plan.error > self.target and entry.sizing is not None:
            missed = PrecisionError("the plan misses the precision", expected=self.target, got=plan.error)
            return self._enlarged(entry, math.log2(plan.error / self.target) + 0.25, tries, missed)
        if plan.peak_bytes > self.budgets.memory:
            raise MemoryBudgetError(
                f"{candidate.algorithm} needs too much memory",
                expected=f"at most {size(self.budgets.memory)}",
                got=size(plan.peak_bytes),
            )
        return plan, run

    def _enlarged(
        self, entry: Scored, bits: float, tries: int, failure: PrecisionError
    ) -> tuple[Plan, Trace]:
        """The plan at a scale so many bits larger; `failure` is raised where there is none."""
        assert entry.sizing is not None
        if tries:
            try:
                larger = list(self.score(entry.candidate, entry.extra_bits + bits))
            except NoRingError as error:
                raise failure from error
            for other in larger:
                if other.sizing is not None and other.sizing.alpha == entry.sizing.alpha:
                    return self._finish(other, tries - 1)
        raise failure


def _remembered(function: Callable[[Ring], Estimate]) -> Callable[[Ring], Estimate]:
    """The function with its results kept: rings are looked at again when they are weighed."""
    found: dict[Ring, Estimate] = {}

    def lookup(ring: Ring) -> Estimate:
        if ring not in found:
            found[ring] = function(ring)
        return found[ring]

    return lookup


def _blocks(axes: tuple[str, ...], block: tuple[int, ...]) -> dict[str, int]:
    """Axis → block length; axes that coincide (a @ a) take the smaller length."""
    blocks: dict[str, int] = {}
    for axis, length in zip(axes, block, strict=True):
        blocks[axis] = min(length, blocks.get(axis, length))
    return blocks
