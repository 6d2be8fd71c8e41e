"""Plans for networks: how inputs are packed, the pattern of every layer, the ring; all by counted cost.

The counterpart of `search` for vectors and images. A first symbolic run decides layer by layer, with the costs of
single operations on that ring; the decisions are then counted on rings of the size that the precision asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cipherblas.common.errors import (
    CipherblasError,
    MemoryBudgetError,
    ParameterError,
    PrecisionError,
    ShapeError,
)
from cipherblas.common.limits import MASK_BYTES, default_weight_budget
from cipherblas.crypto.params import Parameters, TooFewPrimesError
from cipherblas.evaluators.slots.symbolic import Counter
from cipherblas.evaluators.slots.values import WeightGroup
from cipherblas.forms.tensors import TensorLayout
from cipherblas.lang.layers import AvgPool2d, Conv2d
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.operations import Leaf, MatMul
from cipherblas.lang.windows import Window
from cipherblas.methods.matvec_conv.base import LayerMethod, Weights
from cipherblas.methods.matvec_conv.baselines.imra import Pattern, optimise
from cipherblas.methods.matvec_conv.metakernel import ConvMetaKernel, MatVecMetaKernel
from cipherblas.methods.matvec_conv.registry import LAYER_METHODS, METAKERNEL
from cipherblas.methods.matvec_conv.taps import fits, needed_grid
from cipherblas.planner.assembly import Decisions, Predictions, assemble, key_bytes_of, resident_bytes
from cipherblas.planner.baselines import BaselineChooser
from cipherblas.planner.budgets import Budgets
from cipherblas.planner.cost import Rates, calibrate
from cipherblas.planner.estimate import Estimate, of_trace
from cipherblas.planner.explain import size
from cipherblas.planner.plan import RING_DEGREES, LayerFigures, Plan, PlanOptions
from cipherblas.planner.refusals import refused
from cipherblas.planner.sizing import (
    DRAFT_SCALE_BITS,
    MORE_PRIMES_BITS,
    NoRingError,
    Sizing,
    budget_bits,
    drafted,
    magnitude_slope,
    sizings,
    too_few_primes,
)
from cipherblas.planner.trace import RecordingFeeds, Trace, expanded_bytes
from cipherblas.planner.truncation import truncation_error
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import Ring, RingShape
from cipherblas.runtime.layer_execution import (
    PACKING,
    Decide,
    LayerExecution,
    packing,
    relaid_layout,
    supported,
)
from cipherblas.runtime.slot_arithmetic import Choice

NOMINAL_DEPTH = 2  # rescales above the base of the ring on which single operations are priced
STOP_RATIO = 1.5  # a ring slower than a smaller one by so much ends the search upwards
KEY_POLICIES: tuple[KeyPolicy, ...] = ("direct", "binary")


@dataclass(frozen=True)
class Prices:
    """Seconds of the operations that a layer is made of.

    Attributes:
        rotation: of one ciphertext, alone.
        hoisted: a further rotation of the same ciphertext.
        giant: a term of a sum of rotations.
        weights: one stored plaintext multiplied and added.
    """

    rotation: float
    hoisted: float
    giant: float
    weights: float

    @classmethod
    def of(cls, rates: Rates, slots: int) -> Prices:
        """By counting each on a nominal ring."""
        ring = RingShape.for_depth(slots, NOMINAL_DEPTH)

        def cost(work: Callable[[Counter, Any], object], less: float = 0.0) -> float:
            ev = Counter(ring)
            work(ev, ev.fresh(None, bound=1.0))
            return rates.seconds(ev.counts, ring.n) - less

        def weighted(ev: Counter, ct: Any, terms: int) -> object:
            group = WeightGroup("counted", (0,) * terms, lambda _: NotImplemented)
            return ev.weighted_sums([ct], [group], ring.q[-1], rows=(1.0, 1.0))

        rotation = cost(lambda ev, ct: ev.rotate(ct, 1))
        two = cost(lambda ev, ct: ev.rotate_sum([ct, ct], [1, 2], rescale=True))
        three = cost(lambda ev, ct: ev.rotate_sum([ct] * 3, [1, 2, 3], rescale=True))
        return cls(
            rotation=rotation,
            hoisted=cost(lambda ev, ct: ev.rotate_many(ct, [1, 2]), rotation),
            giant=three - two,
            weights=cost(lambda ev, ct: weighted(ev, ct, 2)) - cost(lambda ev, ct: weighted(ev, ct, 1)),
        )

    def layer(self, pattern: Pattern, taps: int, inputs: int, outputs: int) -> float:
        """Seconds of a layer in which no diagonal is zero."""
        babies = inputs * (pattern.rows * taps - 1)
        giants = outputs * pattern.groups
        others = pattern.rotations(taps, inputs, outputs) - babies - outputs * (pattern.groups - 1)
        plaintexts = pattern.plaintexts(taps, inputs, outputs)
        return (
            babies * self.hoisted + giants * self.giant + others * self.rotation + plaintexts * self.weights
        )


class LayerCost(Protocol):
    """What `Chooser` minimises: `Prices`, or any other measure of a pattern."""

    def layer(self, pattern: Pattern, taps: int, inputs: int, outputs: int) -> float: ...


class Chooser:
    """Decides while a network is run symbolically; `choices` are the decisions in their order.

    Patterns that repeat their input save rotations, but where slots beyond its entries are not zero they cost a mask,
    which is a level. Without `masks`, such patterns are taken only where there is no other.
    """

    def __init__(self, expression: Expression, slots: int, prices: LayerCost, masks: bool = True) -> None:
        self.slots, self.prices, self.masks = slots, prices, masks
        self.choices: list[Choice] = []
        self._consumers: dict[int, list[Expression]] = {}
        self._strides: dict[int, int] = {}
        for node in ordered(expression):
            for child in node.children:
                self._consumers.setdefault(id(child), []).append(node)

    def __call__(self, node: Expression, x: TensorLayout | None) -> Choice:
        choice = self._packing(node) if isinstance(node, Leaf) or x is None else self._layer(node, x)
        self.choices.append(choice)
        return choice

    def _packing(self, node: Expression) -> Choice:
        assert isinstance(node, Leaf)
        options = list(self._packings(node))
        return min((Choice(PACKING, found) for found in options), key=lambda c: self._packed_cost(node, c))

    def _packings(self, node: Leaf) -> Iterator[dict[str, Any]]:
        """Layouts worth comparing: contiguous, channels padded, balanced over ciphertexts, wider images."""
        if len(node.shape) == 1:
            yield {}
            parts = -(-node.shape[0] // self.slots)
            yield {"channels": -(-node.shape[0] // parts)}
            return
        channels, height, width = node.shape
        area = height * width
        if area > self.slots:
            yield {"rows": min(self._stride(node), max(1, self.slots // width))}
            return
        yield {}
        for pitch in {area, 1 << (area - 1).bit_length()}:
            most = self.slots // pitch
            if not most:
                continue
            parts = -(-channels // most)
            for each in {
                min(channels, most),
                -(-channels // parts),
                min(most, 1 << (channels - 1).bit_length()),
            }:
                yield {"channels": each, "pitch": pitch}
        for consumer in self._windows(node):
            grid_h, grid_w = needed_grid(consumer.window)
            if (grid_h, grid_w) != (height, width) and grid_h * grid_w <= self.slots:
                for pitch in {grid_h * grid_w, 1 << (grid_h * grid_w - 1).bit_length()}:
                    if pitch <= self.slots:
                        yield {"channels": min(channels, self.slots // pitch), "pitch": pitch, "row": grid_w}

    def _stride(self, node: Expression) -> int:
        """Rows of an image that become one in what is computed from it: segments are cut between such rows."""
        if id(node) not in self._strides:
            self._strides[id(node)] = math.lcm(
                *(
                    self._stride(c) * (c.window.stride[0] if isinstance(c, (Conv2d, AvgPool2d)) else 1)
                    for c in self._consumers.get(id(node), [])
                )
            )
        return self._strides[id(node)]

    def _windows(self, node: Expression) -> list[Conv2d | AvgPool2d]:
        return [c for c in self._consumers.get(id(node), []) if isinstance(c, (Conv2d, AvgPool2d))]

    def _packed_cost(self, node: Leaf, choice: Choice) -> tuple[float, int]:
        """Seconds of the layers that read it; of equal ones, fewer ciphertexts."""
        try:
            x = packing(node, self.slots, **choice.options)
            layers = [
                c for c in self._consumers.get(id(node), []) if isinstance(c, (Conv2d, AvgPool2d, MatMul))
            ]
            return math.fsum(self._cost(layer, x) for layer in layers), x.ciphertexts
        except ShapeError:
            return math.inf, 0

    def _cost(self, node: Expression, x: TensorLayout) -> float:
        method = self._method(node, x)
        assert isinstance(method, (MatVecMetaKernel, ConvMetaKernel))
        taps = len(method.window.taps) if isinstance(method, ConvMetaKernel) else 1
        return self.prices.layer(method.pattern, taps, x.ciphertexts, method.out.ciphertexts)

    def _layer(self, node: Expression, x: TensorLayout) -> Choice:
        options: dict[str, Any] = {}
        if isinstance(node, (Conv2d, AvgPool2d)):
            closer = self._rearranged(node.window, x)
            if closer is not None:
                options["layout"] = closer
                x = relaid_layout(x, closer)
        method = self._method(node, x)
        assert isinstance(method, (MatVecMetaKernel, ConvMetaKernel))
        if method.repeats and not x.alone:
            options["mask"] = True
        return Choice(METAKERNEL, {**method.options, **options})

    def _rearranged(self, window: Window, x: TensorLayout) -> dict[str, Any] | None:
        """The layout that an image is brought into: without gaps where that saves ciphertexts, wider where it must."""
        if x.segments > 1 or x.places is not None:
            return None
        grid_h, grid_w = needed_grid(window)
        channels = x.shape[0]
        stuck = not fits(window, x) or not self._computable(window, x)
        for pitch in (grid_h * grid_w, 1 << (grid_h * grid_w - 1).bit_length()):
            if pitch > self.slots:
                continue
            each = min(channels, self.slots // pitch)
            dense = {"channels": each, "pitch": pitch, "row": grid_w}
            if (stuck or -(-channels // each) < x.ciphertexts) and self._computable(
                window, relaid_layout(x, dense)
            ):
                return dense
        return None

    def _computable(self, window: Window, x: TensorLayout) -> bool:
        """Whether there is room to shift so many channels."""
        try:
            self._conv(window, x)
        except ShapeError:
            return False
        return True

    def _method(self, node: Expression, x: TensorLayout) -> LayerMethod:
        if isinstance(node, MatMul):
            return self._matvec(node, x)
        assert isinstance(node, (Conv2d, AvgPool2d))
        return self._conv(node.window, x)

    def _matvec(self, node: MatMul, x: TensorLayout) -> LayerMethod:
        rows = node.shape[0]
        parts = -(-rows // self.slots)
        each = -(-rows // parts)
        pattern = optimise(
            each, x.extent, 1, self.slots, lambda p: self._pattern_cost(p, x, 1, x.ciphertexts, parts)
        )
        return MatVecMetaKernel(x, rows, pattern, each)

    def _pattern_cost(self, pattern: Pattern, x: TensorLayout, taps: int, inputs: int, outputs: int) -> float:
        if pattern.replications > 1 and not (x.alone or self.masks):
            return math.inf
        return self.prices.layer(pattern, taps, inputs, outputs)

    def _conv(self, window: Window, x: TensorLayout) -> LayerMethod:
        if x.segments > 1:
            return ConvMetaKernel(x, window, Pattern(1, 1, x.pitch, self.slots, 1, 1), 1)
        inputs, outputs = min(x.channels, x.shape[0]), window.outputs
        most = min(outputs, max(1, self.slots // x.pitch))
        parts = -(-outputs // most)
        found: list[tuple[float, int, Pattern]] = []
        for each in sorted({most, -(-outputs // parts), min(most, inputs)}):
            count = -(-outputs // each)

            def cost(pattern: Pattern, count: int = count) -> float:
                return self._pattern_cost(pattern, x, len(window.taps), x.ciphertexts, count)

            try:
                pattern = optimise(each, inputs, x.pitch, self.slots, cost)
            except ShapeError:
                continue
            found.append((cost(pattern), each, pattern))
        if not found:
            raise ShapeError(
                "channels of a convolution", expected=f"at most {self.slots} slots", got=x.pitch * inputs
            )
        _, each, pattern = min(found, key=lambda row: row[:2])
        return ConvMetaKernel(x, window, pattern, each)


class Recorded:
    """Decisions that were made before, read in their order."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        self._rest = iter(choices)

    def __call__(self, node: Expression, x: TensorLayout | None) -> Choice:
        choice = next(self._rest, None)
        if choice is None:
            raise ParameterError("decisions of a network", expected="one for every layer", got="too few")
        return choice


def trace_layers(
    ring: Ring,
    expression: Expression,
    decide: Decide,
    key_policy: KeyPolicy = "direct",
    mask_budget: int = MASK_BYTES,
) -> Trace:
    """Run a network symbolically; `mask_budget` as `planner.trace.trace`.

    Raises:
        LevelError: it spends more limbs than the ring has.
        ShapeError: a layer does not fit its method.
        ParameterError: it is no network of clear weights.
    """
    counter = Counter(ring, key_policy=key_policy, mask_budget=mask_budget)
    feeds = RecordingFeeds(counter)
    ledger = _Ledger(expression, decide, counter)
    result = LayerExecution(counter, expression, ledger.decide, feeds, ledger.progress).run()
    return Trace(
        feeds=tuple(feeds.specs.values()),
        result=result,
        counts=counter.counts.copy(),
        keys=counter.request,
        working_bytes=counter.peak_bytes + expanded_bytes(feeds.specs.values(), ring.n),
        layers=tuple(ledger.layers),
        truncation=truncation_error(expression),
    )


class _Ledger:
    """Decisions and counts, layer by layer; listens to a `LayerExecution`."""

    def __init__(self, expression: Expression, decide: Decide, counter: Counter) -> None:
        self.layers: list[LayerFigures] = []
        self._nodes = [node for node in ordered(expression) if node.secret]
        self._decide, self._counter = decide, counter
        self._before = counter.counts.copy()
        self._choice: Choice | None = None

    def decide(self, node: Expression, x: TensorLayout | None) -> Choice:
        self._choice = self._decide(node, x)
        return self._choice

    def progress(self, done: int, total: int) -> None:
        """A node is done."""
        spent = self._counter.counts - self._before
        work = (spent.rotations, spent.relinearisations, spent.plain_products)
        if self._choice is not None or any(work):
            name = self._nodes[done - 1].title
            self.layers.append(LayerFigures(name, self._choice, *work, spent.stored_bytes))
        self._before, self._choice = self._counter.counts.copy(), None


@dataclass(frozen=True)
class _Scored:
    n: int
    choices: tuple[Choice, ...]
    sizing: Sizing | None
    key_policy: KeyPolicy
    seconds: float
    extra_bits: float = 0.0


class LayerSearch:
    """The search for a plan of a network; `run()` returns it with its trace."""

    def __init__(self, expression: Expression, options: PlanOptions, budgets: Budgets) -> None:
        reason = supported(expression)
        if reason is not None:
            raise ParameterError(
                "a network", expected="clear weights, encrypted vectors and images", got=reason
            )
        if options.algorithm not in (None, *LAYER_METHODS):
            raise ParameterError(
                "algorithm of a network", expected=" | ".join(LAYER_METHODS), got=options.algorithm
            )
        self.expression, self.options, self.budgets = expression, options, budgets
        self.rates = calibrate()
        self.predictions = Predictions.of(options)
        self.target = options.precision * expression.bound
        self._failures: list[CipherblasError] = []

    def run(self) -> tuple[Plan, Trace]:
        """The fastest plan within the budgets.

        Raises:
            PrecisionError, MemoryBudgetError, ShapeError, LevelError: there is none.
        """
        best: _Scored | None = None
        for n in self._degrees():
            found = self._best_of_ring(n)
            if found is not None and (best is None or found.seconds < best.seconds):
                best = found
            elif best is not None and (found is None or found.seconds > STOP_RATIO * best.seconds):
                break
        if best is None:
            raise self._impossible()
        return self._finish(best)

    def _degrees(self) -> Sequence[int]:
        options = self.options
        if options.parameters is not None:
            return (options.parameters.n,)
        return RING_DEGREES if options.ring_degree is None else (options.ring_degree,)

    def _best_of_ring(self, n: int) -> _Scored | None:
        found: list[_Scored] = []
        for policy in self._policies():
            seen: list[list[Choice]] = []
            for masks in (True, False):
                try:
                    choices = self._chosen(n, policy, masks)
                    if choices not in seen:
                        seen.append(choices)
                        found.extend(self._sized(n, tuple(choices), policy, 0.0))
                except CipherblasError as error:
                    self._failures.append(error)
            if found:
                break
        return min(found, key=lambda scored: scored.seconds, default=None)

    def _chosen(self, n: int, policy: KeyPolicy, masks: bool) -> list[Choice]:
        """The decisions on a draft that carries the network."""

        def run(ring: RingShape) -> list[Choice]:
            chooser = self._chooser(n // 2, masks)
            trace_layers(ring, self.expression, chooser, policy)
            return chooser.choices

        return drafted(run, n, DRAFT_SCALE_BITS, self._allowed_bits(n))[1]

    def _allowed_bits(self, n: int) -> float:
        if self.options.parameters is not None:
            return math.inf
        return budget_bits(n, self.options.security, self.options.insecure)

    def _chooser(self, slots: int, masks: bool) -> Chooser | BaselineChooser:
        name = self.options.algorithm
        if name in (None, METAKERNEL):
            return Chooser(self.expression, slots, Prices.of(self.rates, slots), masks)
        return BaselineChooser(self.expression, slots, name)

    def _policies(self) -> Sequence[KeyPolicy]:
        return KEY_POLICIES if self.options.key_policy is None else (self.options.key_policy,)

    def _sized(
        self, n: int, choices: tuple[Choice, ...], policy: KeyPolicy, extra_bits: float
    ) -> Iterator[_Scored]:
        """The decisions on rings that reach the precision within the budgets; NoRingError where there is none."""
        options = self.options

        def run(ring: Ring) -> Estimate:
            found = trace_layers(ring, self.expression, Recorded(choices), policy, self.budgets.masks)
            return of_trace(found, ring)

        if options.parameters is not None:
            estimate = run(options.parameters)
            yield _Scored(n, choices, None, policy, self._seconds(estimate, options.parameters))
            return
        slope = magnitude_slope(run, n, self._allowed_bits(n))
        for sizing in sizings(run, n, self.target, options.security, options.insecure, extra_bits, slope):
            ring = sizing.shape()
            estimate = run(ring)
            try:
                self._check_budgets(estimate, key_bytes_of(estimate.keys, ring))
            except MemoryBudgetError as error:
                self._failures.append(error)
                continue
            yield _Scored(n, choices, sizing, policy, self._seconds(estimate, ring), extra_bits)

    def _seconds(self, estimate: Estimate, ring: Ring) -> float:
        """Of what the plan minimises."""
        run = estimate.counts, estimate.traffic, key_bytes_of(estimate.keys, ring)
        return self.predictions.seconds(self.predictions.stages(*run, ring))

    def _check_budgets(self, estimate: Estimate, key_bytes: int) -> None:
        budgets = self.budgets
        memory = key_bytes + estimate.upload_bytes + resident_bytes(estimate.working_bytes)
        for what, allowed, needed in (
            ("evaluation keys", budgets.keys, key_bytes),
            ("upload", budgets.upload, estimate.upload_bytes),
            ("memory", budgets.memory, memory),
        ):
            if needed > allowed:
                raise MemoryBudgetError(
                    f"{self.options.algorithm or METAKERNEL} exceeds the budget of {what}",
                    expected=f"at most {size(allowed)}",
                    got=size(needed),
                )

    def _finish(self, entry: _Scored, tries: int = 3) -> tuple[Plan, Trace]:
        """The plan of scored decisions with real primes; a scale that is a little too small is enlarged."""
        options = self.options
        parameters = options.parameters
        if entry.sizing is not None:
            try:
                parameters = entry.sizing.parameters(options.security, options.insecure)
            except TooFewPrimesError as error:
                failure = too_few_primes(error, entry.n, float(options.precision))
                return self._enlarged(entry, MORE_PRIMES_BITS, tries, failure)
        assert parameters is not None
        decided = Decisions(
            *(parameters, entry.choices, {}, entry.key_policy, options.order, float(options.precision))
        )
        masks = self.budgets.masks
        run = trace_layers(parameters, self.expression, Recorded(entry.choices), entry.key_policy, masks)
        plan = _assembled(self.expression, decided, run, self.predictions, masks)
        if plan.error > self.target and entry.sizing is not None:
            missed = PrecisionError("the plan misses the precision", expected=self.target, got=plan.error)
            return self._enlarged(entry, math.log2(plan.error / self.target) + 0.25, tries, missed)
        return plan, run

    def _enlarged(
        self, entry: _Scored, bits: float, tries: int, failure: PrecisionError
    ) -> tuple[Plan, Trace]:
        """The plan at a scale so many bits larger; `failure` is raised where there is none."""
        if tries:
            extra_bits = entry.extra_bits + bits
            try:
                larger = list(self._sized(entry.n, entry.choices, entry.key_policy, extra_bits))
            except NoRingError as error:
                raise failure from error
            again = min(larger, key=lambda scored: scored.seconds, default=None)
            if again is not None:
                return self._finish(again, tries - 1)
        raise failure

    def _impossible(self) -> CipherblasError:
        if not self._failures or all(isinstance(error, NoRingError) for error in self._failures):
            return refused(self.expression, self.options, self._failures)
        return next(error for error in reversed(self._failures) if not isinstance(error, NoRingError))


def replay_layers(
    expression: Expression,
    decisions: Mapping[str, Any],
    parameters: Parameters,
    predictions: Predictions,
    mask_budget: int,
) -> tuple[Plan, Trace]:
    """The plan of saved decisions, traced again; as much of its weights stays in memory as there is room for here."""
    decided = Decisions.from_dict(decisions, parameters)
    choices = Recorded(decided.choices)
    run = trace_layers(decided.parameters, expression, choices, decided.key_policy, mask_budget)
    return _assembled(expression, decided, run, predictions, mask_budget), run


def _assembled(
    expression: Expression, decided: Decisions, run: Trace, predictions: Predictions, mask_budget: int
) -> Plan:
    return assemble(
        *(expression, decided, run, predictions),
        route="layers",
        weight_memory=min(run.counts.stored_bytes, default_weight_budget()),
        mask_budget=mask_budget,
    )


def layer_counts(method: LayerMethod, slots: int) -> Counts:
    """Operations of one layer on fresh ciphertexts."""
    ev = Counter(RingShape.for_depth(slots, method.levels + 1))
    cts = [ev.fresh(None, bound=1.0) for _ in range(method.x.ciphertexts)]
    method.run(ev, cts, Weights("counted", lambda: NotImplemented, 1.0, 1.0, 1.0))
    return ev.counts
