"""The search for a plan: algorithms × ring degrees × blocks × key policies, by counted cost, under the budgets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cipherblas.algorithms.registry import ALGORITHMS, build, find
from cipherblas.errors import (
    CipherblasError,
    LevelError,
    MemoryBudgetError,
    ParameterError,
    PrecisionError,
    ShapeError,
)
from cipherblas.evaluators.shape import Ring
from cipherblas.execution import Axes, Choice, products
from cipherblas.expressions import Constant, Expression, Leaf
from cipherblas.limits import available_memory
from cipherblas.params import Parameters
from cipherblas.planner import estimate
from cipherblas.planner.cost import calibrate
from cipherblas.planner.estimate import Estimate
from cipherblas.planner.plan import Plan, PlanOptions, Rejected
from cipherblas.planner.sizing import Sizing, magnitude_slope, sizings
from cipherblas.planner.tilings import (
    TILINGS_KEPT,
    fits_all,
    promising,
    single_product_tilings,
    uniform_tilings,
)
from cipherblas.planner.trace import Trace, trace
from cipherblas.security import LEVELS

RING_DEGREES = tuple(1 << log_n for log_n in range(12, 18))
KEY_POLICIES = ("direct", "composed", "binary")
# Memory that a process needs beside what the plan counts: interpreter, libraries, NTT tables.
PROCESS_BYTES = 150 << 20
FINALISTS = 12
PROGRAM_TILINGS = 2  # of a program with several products: the largest blocks that fit
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
    """A candidate with a sized ring, its estimate and its predicted time."""

    candidate: Candidate
    sizing: Sizing
    key_policy: str
    estimate: Estimate
    key_bytes: int
    seconds: float
    extra_bits: float = 0.0


@dataclass(frozen=True)
class Budgets:
    """Bytes that a plan may use."""

    memory: int
    keys: int
    upload: int


def budgets_of(options: PlanOptions) -> Budgets:
    """The budgets that the user gave, or the defaults for this machine."""
    memory = options.memory_budget
    if memory is None:
        memory = (available_memory() or 8 << 30) * 4 // 5
    keys = options.key_budget if options.key_budget is not None else memory // 2
    return Budgets(memory, keys, options.upload_budget)


class Search:
    """One search; `run()` returns the plan and its trace."""

    def __init__(self, expression: Expression, options: PlanOptions) -> None:
        self.expression, self.options = expression, options
        self.nodes = products(expression)
        self.axes = Axes(expression)
        self.budgets = budgets_of(options)
        self.target = options.precision * expression.bound
        self.rates = calibrate()
        self.threads = options.threads or _threads()
        self.rejected: dict[str, Rejected] = {}
        self._slopes: dict[str, float] = {}
        self._check()

    def _check(self) -> None:
        options = self.options
        if not (math.isfinite(options.precision) and 0 < options.precision < 1):
            raise PrecisionError("precision", expected="between 0 and 1", got=options.precision)
        if options.security not in LEVELS and not options.insecure:
            raise ParameterError("security", expected=" | ".join(map(str, LEVELS)), got=options.security)
        if options.algorithm is not None:
            find(options.algorithm)
        if options.ring_degree is not None and options.ring_degree not in RING_DEGREES:
            raise ParameterError(
                "ring degree", expected="2^12 to 2^17, a power of two", got=options.ring_degree
            )
        if options.block is not None and options.block < 1:
            raise ParameterError("block", expected="at least 1", got=options.block)

    # --- candidates ---

    @property
    def simple(self) -> bool:
        """One product of two operands: the case that is searched most finely."""
        if len(self.nodes) != 1 or self.expression is not self.nodes[0]:
            return False
        return all(isinstance(child, (Leaf, Constant)) for child in self.nodes[0].children)

    def families(self) -> Iterator[Iterator[list[Candidate]]]:
        """For each algorithm the candidates of each ring degree, smallest first."""
        options = self.options
        degrees: tuple[int, ...] = RING_DEGREES
        if options.parameters is not None:
            degrees = (options.parameters.n,)
        elif options.ring_degree is not None:
            degrees = (options.ring_degree,)
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
            for block in promising(tilings, shape, TILINGS_KEPT if algorithm.min_levels == 0 else 1):
                for found in self._option_sets(algorithm, block, slots):
                    candidate = Candidate((Choice(name, found),), _blocks(axes, block), n)
                    if self._uploads(candidate, block) <= self.budgets.upload:
                        yield candidate
            return
        tilings = uniform_tilings(self.axes, self.options.block)
        fitting = (blocks for blocks in tilings if fits_all(algorithm, self.nodes, self.axes, blocks, slots))
        for blocks in itertools.islice(fitting, PROGRAM_TILINGS):
            choices = []
            for node in self.nodes:
                rows, inner = self.axes.of(node.left)
                block = (blocks[rows], blocks[inner], blocks[self.axes.of(node)[1]])
                found = next(iter(self._option_sets(algorithm, block, slots)), None)
                if found is None:
                    break
                choices.append(Choice(name, found))
            if len(choices) == len(self.nodes):
                yield Candidate(tuple(choices), blocks, n)

    def _uploads(self, candidate: Candidate, block: tuple[int, int, int]) -> int:
        """Bytes of upload at the fewest limbs: what need not be counted to be refused."""
        choice, node = candidate.choices[0], self.nodes[0]
        algorithm = build(choice.algorithm, *block, candidate.n // 2, choice.options)
        m, k, n = (
            -(-length // size) for length, size in zip((*node.left.shape, node.shape[1]), block, strict=True)
        )
        sides = ((node.left, algorithm.left_layout, m * k), (node.right, algorithm.right_layout, k * n))
        uploads = sum(
            layout.ciphertexts * blocks * candidate.n * 8 for side, layout, blocks in sides if side.secret
        )
        if uploads > self.budgets.upload:
            self._reject(candidate, f"uploads at least {_mib(uploads)}, budget {_mib(self.budgets.upload)}")
        return uploads

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

    def _estimator(self, candidate: Candidate, key_policy: str) -> Callable[[Ring], Estimate]:
        if self.simple:
            node = self.nodes[0]
            axes = (*self.axes.of(node.left), self.axes.of(node)[1])
            block = tuple(candidate.blocks[axis] for axis in axes)
            return lambda ring: estimate.of_product(ring, node, candidate.choices[0], block, key_policy)  # type: ignore[arg-type]
        return lambda ring: estimate.of_program(
            ring, self.expression, candidate.choices, candidate.blocks, key_policy
        )

    def score(self, candidate: Candidate, extra_bits: float = 0.0) -> Iterator[Scored]:
        """The candidate on every ring that carries it, under the first key policy that fits the key budget."""
        policies = (self.options.key_policy,) if self.options.key_policy is not None else KEY_POLICIES
        found = False
        for policy in policies:
            run = self._estimator(candidate, policy)
            try:
                if candidate.algorithm not in self._slopes:
                    self._slopes[candidate.algorithm] = magnitude_slope(run, candidate.n)
                slope = self._slopes[candidate.algorithm]
                alphas = (1, 2, 3) if self.simple else (2,)
                options = self.options
                rings = list(
                    sizings(
                        run,
                        candidate.n,
                        self.target,
                        options.security,
                        options.insecure,
                        extra_bits,
                        slope,
                        alphas,
                    )
                )
            except (LevelError, ShapeError):
                return
            for sizing in rings:
                counted = run(sizing.shape())
                key_bytes = key_bytes_of(counted.keys, sizing.shape())
                if counted.upload_bytes > self.budgets.upload:
                    self._reject(
                        candidate, f"uploads {_mib(counted.upload_bytes)}, budget {_mib(self.budgets.upload)}"
                    )
                    continue
                if key_bytes > self.budgets.keys:
                    self._reject(
                        candidate, f"needs {_mib(key_bytes)} of keys, budget {_mib(self.budgets.keys)}"
                    )
                    continue
                found = True
                seconds = self.rates.seconds(counted.counts, candidate.n, self.threads)
                yield Scored(candidate, sizing, policy, counted, key_bytes, seconds, extra_bits)
            if found:
                return

    def _reject(self, candidate: Candidate, reason: str, seconds: float | None = None) -> None:
        known = self.rejected.get(candidate.algorithm)
        if known is None or (seconds is not None and (known.seconds is None or seconds < known.seconds)):
            self.rejected[candidate.algorithm] = Rejected(candidate.algorithm, reason, seconds)

    # --- the plan ---

    def run(self) -> tuple[Plan, Trace]:
        """The fastest candidate that holds when it is traced with its real primes."""
        if self.options.parameters is not None:
            return self._with_parameters(self.options.parameters)
        scored = sorted(
            (s for family in self.families() for s in self._family(family)), key=lambda s: s.seconds
        )
        best: dict[str, Scored] = {}
        for entry in scored:
            best.setdefault(entry.candidate.algorithm, entry)
        failure: CipherblasError | None = None
        for entry in scored[:FINALISTS] + [e for e in best.values() if e not in scored[:FINALISTS]]:
            try:
                plan, run = self._finish(entry)
            except CipherblasError as error:
                failure = error
                self._reject(entry.candidate, str(error), entry.seconds)
                continue
            return replace(plan, rejected=self._losers(plan, best)), run
        if failure is not None:
            raise failure
        raise self._impossible()

    def _family(self, degrees: Iterator[list[Candidate]]) -> Iterator[Scored]:
        """One algorithm over growing rings, until a ring is clearly slower than a smaller one."""
        best = math.inf
        for candidates in degrees:
            found = [scored for candidate in candidates for scored in self._scored(candidate)]
            yield from found
            fastest = min((scored.seconds for scored in found), default=math.inf)
            if fastest > STOP_RATIO * best:
                return
            best = min(best, fastest)

    def _scored(self, candidate: Candidate) -> Iterator[Scored]:
        try:
            yield from self.score(candidate)
        except CipherblasError as error:
            self._reject(candidate, str(error))

    def _losers(self, plan: Plan, best: Mapping[str, Scored]) -> tuple[Rejected, ...]:
        losers = []
        for name in {**best, **self.rejected}:
            if name == plan.algorithm:
                continue
            if name in best:
                ratio = best[name].seconds / plan.seconds
                failed = self.rejected.get(name)
                reason = failed.reason if ratio < 1 and failed else f"slower by {max(ratio, 1.0):.1f} times"
                losers.append(Rejected(name, reason, best[name].seconds))
            else:
                losers.append(self.rejected[name])
        return tuple(
            sorted(losers, key=lambda loser: loser.seconds if loser.seconds is not None else math.inf)
        )

    def _impossible(self) -> CipherblasError:
        details = "; ".join(f"{r.algorithm}: {r.reason}" for r in self.rejected.values())
        if any("budget" in rejected.reason for rejected in self.rejected.values()):
            return MemoryBudgetError("no plan fits the budgets", expected="a larger budget", got=details)
        return PrecisionError(
            "no parameters reach what was asked for",
            expected=f"error {self.target:.3g}, {self.options.security}-bit security",
            got=details or "no ring degree from 2^12 to 2^17 carries the program",
        )

    def _finish(self, entry: Scored, tries: int = 3) -> tuple[Plan, Trace]:
        """The plan of a scored candidate with real primes; a scale that is a little too small is enlarged."""
        options = self.options
        parameters = entry.sizing.parameters(options.security, options.insecure)
        candidate = entry.candidate
        run = trace(parameters, self.expression, candidate.choices, candidate.blocks, entry.key_policy)
        plan = assemble(
            self.expression,
            parameters,
            candidate.choices,
            candidate.blocks,
            entry.key_policy,
            options.order,
            options.precision,
            run,
            self.threads,
        )
        if plan.error > self.target:
            if tries:
                for other in self.score(
                    candidate, entry.extra_bits + math.log2(plan.error / self.target) + 0.25
                ):
                    if other.sizing.alpha == entry.sizing.alpha:
                        return self._finish(other, tries - 1)
            raise PrecisionError("the plan misses the precision", expected=self.target, got=plan.error)
        if plan.peak_bytes > self.budgets.memory:
            raise MemoryBudgetError(
                f"{candidate.algorithm} needs too much memory",
                expected=f"at most {_mib(self.budgets.memory)}",
                got=_mib(plan.peak_bytes),
            )
        return plan, run

    def _with_parameters(self, parameters: Parameters) -> tuple[Plan, Trace]:
        """The fastest candidate on a parameter set that the user forces; the precision is what it gives."""
        policies = (self.options.key_policy,) if self.options.key_policy is not None else KEY_POLICIES
        found: list[tuple[float, Candidate, str]] = []
        failure: CipherblasError | None = None
        for candidate in (c for family in self.families() for candidates in family for c in candidates):
            for policy in policies:
                try:
                    counted = self._estimator(candidate, policy)(parameters)
                except CipherblasError as error:
                    failure = error
                    break
                if key_bytes_of(counted.keys, parameters) <= self.budgets.keys:
                    found.append(
                        (self.rates.seconds(counted.counts, parameters.n, self.threads), candidate, policy)
                    )
                    break
        for _, candidate, policy in sorted(found, key=lambda item: item[0]):
            run = trace(parameters, self.expression, candidate.choices, candidate.blocks, policy)
            plan = assemble(
                self.expression,
                parameters,
                candidate.choices,
                candidate.blocks,
                policy,
                self.options.order,
                self.options.precision,
                run,
                self.threads,
            )
            if plan.peak_bytes <= self.budgets.memory:
                return plan, run
            failure = MemoryBudgetError(
                "the forced parameters need too much memory",
                expected=_mib(self.budgets.memory),
                got=_mib(plan.peak_bytes),
            )
        raise failure or self._impossible()


def make_plan(expression: Expression, options: PlanOptions) -> tuple[Plan, Trace]:
    """The fastest plan within the budgets.

    Raises:
        PrecisionError: no ring reaches the precision at this security.
        MemoryBudgetError: only plans beyond a budget were found.
        ParameterError: an option is out of range, or the forced algorithm is unknown.
    """
    return Search(expression, options).run()


def replay(
    expression: Expression, decisions: Mapping[str, Any], predictions: Mapping[str, Any]
) -> tuple[Plan, Trace]:
    """The plan that was saved as `decisions`, traced again."""
    parameters = Parameters.from_dict(decisions["parameters"])
    choices = tuple(Choice(str(row["algorithm"]), dict(row["options"])) for row in decisions["choices"])
    blocks = {str(axis): int(length) for axis, length in decisions["blocks"].items()}
    policy, order = str(decisions["key_policy"]), str(decisions["order"])
    run = trace(parameters, expression, choices, blocks, policy)
    plan = assemble(
        expression,
        parameters,
        choices,
        blocks,
        policy,
        order,
        float(decisions["precision"]),
        run,
        int(predictions["threads"]),
        float(predictions["seconds"]),
    )
    return plan, run


def assemble(
    expression: Expression,
    parameters: Parameters,
    choices: tuple[Choice, ...],
    blocks: Mapping[str, int],
    key_policy: str,
    order: str,
    precision: float,
    run: Trace,
    threads: int,
    seconds: float | None = None,
) -> Plan:
    """A plan from its decisions and their trace."""
    key_bytes = key_bytes_of(run.keys, parameters)
    result = [ct for row in run.result.cells for cell in row for ct in cell]
    uploads = sum(feed.ciphertexts for feed in run.feeds)
    if seconds is None:
        seconds = calibrate().seconds(run.counts, parameters.n, threads)
    return Plan(
        parameters=parameters,
        choices=choices,
        blocks=dict(blocks),
        key_policy=key_policy,
        order=order,
        precision=precision,
        counts=run.counts,
        keys=run.keys,
        key_bytes=key_bytes,
        upload_bytes=sum(feed.ciphertexts * (feed.limbs * parameters.n * 8 + 32) for feed in run.feeds),
        upload_ciphertexts=uploads,
        result_ciphertexts=len(result),
        result_bytes=sum(parameters.ciphertext_bytes(ct.limbs, ct.components) for ct in result),
        levels=parameters.limbs - result[0].limbs,
        peak_bytes=key_bytes + run.working_bytes + PROCESS_BYTES,
        error=run.error,
        error_target=precision * expression.bound,
        seconds=seconds,
        threads=threads,
    )


def key_bytes_of(request: Any, ring: Any) -> int:
    """Bytes in memory of the keys of a request."""
    special = len(ring.p)

    def one(limbs: int) -> int:
        return -(-limbs // ring.alpha) * 2 * (limbs + special) * ring.n * 8

    total = sum(one(limbs) for limbs in request.galois.values())
    return total + (one(request.relinearise) if request.relinearise else 0)


def _blocks(axes: tuple[str, ...], block: tuple[int, ...]) -> dict[str, int]:
    """Axis → block length; axes that coincide (a @ a) take the smaller length."""
    blocks: dict[str, int] = {}
    for axis, length in zip(axes, block, strict=True):
        blocks[axis] = min(length, blocks.get(axis, length))
    return blocks


def _mib(amount: float) -> str:
    return f"{amount / 2**20:.0f} MiB"


def _threads() -> int:
    from cipherblas import _core

    return int(_core.threads())
