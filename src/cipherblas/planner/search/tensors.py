"""Candidates for networks: how inputs are packed and the pattern of every layer, by the cost of single operations."""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from cipherblas.common.errors import FitError, ParameterError
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import WeightGroup
from cipherblas.forms.convert.relayout import masks_of
from cipherblas.forms.tensors import TensorLayout, tensor_shape
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.refreshing import is_refreshed
from cipherblas.lang.windows import Window
from cipherblas.methods.doubling import doublings
from cipherblas.methods.layers import LAYER_METHODS, METAKERNEL, MULTIPLEXED, multiplexed
from cipherblas.methods.matvec_conv.base import LayerMethod, Weights
from cipherblas.methods.matvec_conv.baselines.imra import Pattern, cheapest
from cipherblas.methods.matvec_conv.metakernel import ConvMetaKernel, MatVecMetaKernel
from cipherblas.methods.matvec_conv.multiplexed import ConvMultiplexed, gaps_filled, rotations_by_unit
from cipherblas.methods.matvec_conv.taps import fits, needed_grid
from cipherblas.planner.plan.explain import beside, named
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.cost import Rates
from cipherblas.planner.predict.dry_run import DryRun, dry_run
from cipherblas.planner.predict.feasible import Infeasible, TooSlowError, attempted
from cipherblas.planner.rings import modulus_chains
from cipherblas.planner.rings.modular_sizing import modular_drafted
from cipherblas.planner.rings.sizing import DRAFT_SCALE_BITS, drafted
from cipherblas.planner.search.baselines import BaselineMethods
from cipherblas.planner.search.budgets import Budgets
from cipherblas.planner.search.strategy import Candidate, RefuseUpload, Scored, Strategy
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.executor import missing
from cipherblas.runtime.tensors import PACKING, TENSORS, levels_behind, packing, relaid_layout, window_of
from cipherblas.runtime.values import Decisions, MethodChoice

Priced = tuple[float, MatVecMetaKernel | ConvMetaKernel]
LEVELS = {"mask", "layout"}  # options of a layer that take a level
BATCH_DIMENSIONS = 4  # of several images
COMPARED = 2  # patterns that are kept: what is taken, and what nearly was
NOMINAL_DEPTH = 2  # rescales above the base of the ring on which single operations are priced
NOMINAL_LIMBS = NOMINAL_DEPTH + 2


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
    @functools.lru_cache(maxsize=64)
    def of(cls, rates: Rates, slots: int) -> Prices:
        """By counting each on a nominal ring."""
        ring = RingShape.for_depth(slots, NOMINAL_DEPTH)

        def cost(work: Callable[[Symbolic, Any], object], less: float = 0.0) -> float:
            ev = Symbolic(ring)
            work(ev, ev.fresh(None, bound=1.0))
            return rates.seconds(ev.counts, ring.n) - less

        def weighted(ev: Symbolic, ct: Any, terms: int) -> object:
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

    def steps(self, babies: int, giants: int, plaintexts: int) -> float:
        """Seconds of a layer by its rotations and its weights."""
        return babies * self.hoisted + giants * self.giant + plaintexts * self.weights


class LayerCost(Protocol):
    """The measure of a pattern that `GreedyMethods` minimises: `Prices`, or any other one."""

    def __hash__(self) -> int: ...
    def layer(self, pattern: Pattern, taps: int, inputs: int, outputs: int) -> float: ...

    def steps(self, babies: int, giants: int, plaintexts: int) -> float: ...


class GreedyMethods:
    """Decides while a network is run symbolically.

    Patterns that repeat their input save rotations, but where slots beyond its entries are not zero they cost a mask,
    which is a level. Without `masks`, such patterns are taken only where there is no other.

    Args:
        limit: seconds, in one thread, from which on a network that refreshes nothing is of no use.

    Attributes:
        runners_up: by the number of a node, what was nearly taken.
    """

    def __init__(
        self,
        expression: Expression,
        slots: int,
        prices: LayerCost,
        masks: bool = True,
        limit: float = math.inf,
    ) -> None:
        self.slots, self.prices, self.masks, self._limit = slots, prices, masks, limit
        self._behind = levels_behind(expression) if limit < math.inf else {}
        self._least = 0.0  # seconds of the products with weights so far
        self._consumers: dict[int, list[Expression]] = {}
        self._strides: dict[int, int] = {}
        self.runners_up: dict[int, str] = {}
        self.refreshed = is_refreshed(expression)
        order = facts_of(expression).order
        self._numbers = {id(node): number for number, node in enumerate(n for n in order if not n.root)}
        for node in order:
            for child in node.children:
                self._consumers.setdefault(id(child), []).append(node)

    def __call__(self, node: Expression, x: TensorLayout | None) -> MethodChoice:
        return self._packing(node) if x is None else self._layer(node, x)

    def _packing(self, node: Expression) -> MethodChoice:
        options = list(self._packings(node))
        costs = [self._packed_cost(node, MethodChoice(PACKING, found)) for found in options]
        ranked = sorted(range(len(options)), key=costs.__getitem__)
        others = [one for one in ranked if options[one] != options[ranked[0]]]
        if others:
            (taken, _), (other, _) = costs[ranked[0]], costs[others[0]]
            text = f"packed with {named(options[others[0]])}" if options[others[0]] else "packed in order"
            self._nearly(node, text, taken, other)
        return MethodChoice(PACKING, options[ranked[0]])

    def _nearly(self, node: Expression, text: str, taken: float, other: float) -> None:
        """Keep what was nearly taken for a node."""
        if taken > 0 and other < math.inf:
            self.runners_up[self._numbers[id(node)]] = beside(text, other, taken)

    def _packings(self, node: Expression) -> Iterator[dict[str, Any]]:
        """Layouts worth comparing: contiguous, channels padded, balanced over ciphertexts, wider images."""
        if len(node.shape) == 1:
            yield {}
            parts = -(-node.shape[0] // self.slots)
            yield {"channels": -(-node.shape[0] // parts)}
            return
        channels, height, width = tensor_shape(node.shape)
        images = node.shape[0] if len(node.shape) == BATCH_DIMENSIONS else 1
        area = height * width
        if area > self.slots:
            most, rows = max(1, self.slots // width), self._stride(node)
            yield {"rows": next(some for some in range(min(rows, most), 0, -1) if rows % some == 0)}
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
                min(most, channels // images),
            }:
                yield {"channels": each, "pitch": pitch}
                copies = 1 << (self.slots // (each * pitch)).bit_length() - 1  # they divide the slots
                if self.refreshed and copies > 1:
                    yield {"channels": each, "pitch": pitch, "row": width, "copies": copies}
        for window in self._windows(node):
            grid_h, grid_w = needed_grid(window)
            if (grid_h, grid_w) != (height, width) and grid_h * grid_w <= self.slots:
                for pitch in {grid_h * grid_w, 1 << (grid_h * grid_w - 1).bit_length()}:
                    if pitch <= self.slots:
                        yield {"channels": min(channels, self.slots // pitch), "pitch": pitch, "row": grid_w}

    def _stride(self, node: Expression) -> int:
        """Rows of an image that become one in what is computed from it, but for a mean of all: segments are cut between
        such rows."""
        if id(node) not in self._strides:
            self._strides[id(node)] = math.lcm(
                *(self._stride(c) * _rows_of(c.window) for c in self._consumers.get(id(node), []))
            )
        return self._strides[id(node)]

    def _windows(self, node: Expression) -> list[Window]:
        found = (window_of(consumer) for consumer in self._consumers.get(id(node), []))
        return [window for window in found if window is not None]

    def _packed_cost(self, node: Expression, choice: MethodChoice) -> tuple[float, int]:
        """Seconds of the layers that read it; of equal ones, fewer ciphertexts."""

        def cost() -> tuple[float, int]:
            x = packing(node, self.slots, **choice.options)
            consumers = self._consumers.get(id(node), [])
            layers = [c for c in consumers if c.product or c.window is not None]
            return math.fsum(self._cost(layer, x) for layer in layers), x.ciphertexts

        found = attempted(cost, only=FitError)
        return (math.inf, 0) if isinstance(found, Infeasible) else found

    def _cost(self, node: Expression, x: TensorLayout) -> float:
        window = window_of(node, x)
        if window is not None and (found := self._multiplexed(window, x)) is not None:
            return found[0]
        _, method = self._methods(node, x)[0]
        taps = len(method.window.taps) if isinstance(method, ConvMetaKernel) else 1
        return self.prices.layer(method.pattern, taps, x.ciphertexts, method.out.ciphertexts)

    def _layer(self, node: Expression, x: TensorLayout) -> MethodChoice:
        options: dict[str, Any] = {}
        window = window_of(node, x)
        if window is not None and (found := self._multiplexed(window, x)) is not None:
            price, one = found
            self._check_limit(node, one.plaintexts)
            filled = self._filled(window, x, price)
            return MethodChoice(one.name, one.options) if filled is None else filled
        if window is not None:
            closer = self._rearranged(window, x)
            if closer is not None:
                options["layout"] = closer
                x = relaid_layout(x, closer)
        (taken, method), *others = self._methods(node, x)
        taps = len(method.window.taps) if isinstance(method, ConvMetaKernel) else 1
        if window is None or window.groups == 1:  # else diagonals may be zero, which nothing is multiplied by
            self._check_limit(node, method.pattern.plaintexts(taps, x.ciphertexts, method.out.ciphertexts))
        for other, loser in others:
            self._nearly(node, named(loser.options), taken, other)
        if window is None and (filled := self._gathered(node, x, taken)) is not None:
            return filled
        if method.repeats and not x.alone:
            options["mask"] = True
        return MethodChoice(METAKERNEL, {**method.options, **options})

    def _check_limit(self, node: Expression, plaintexts: int) -> None:
        """Raise TooSlowError where the products with weights alone, at the limbs that the levels behind them need, take
        too long."""
        if self._limit < math.inf and isinstance(self.prices, Prices):
            limbs = self._behind[id(node)] + 2
            self._least += plaintexts * self.prices.weights * limbs / NOMINAL_LIMBS
            if self._least > self._limit:
                raise TooSlowError("another way takes far less", expected=self._limit, got=self._least)

    def _filled(self, window: Window, x: TensorLayout, price: float) -> MethodChoice | None:
        """A convolution of an image whose channels are brought into all gaps before, where that takes less than it
        takes as it is, which means has left room in gaps: one level more."""
        target = self._closer(x, window.images)
        if target is None:
            return None
        found, method = self._of_any_unit(target, window)
        if found + self._moved(x, target) >= price:
            return None
        return MethodChoice(MULTIPLEXED, {**method.options, "layout": {"filled": target.copies}})

    def _of_any_unit(self, x: TensorLayout, window: Window) -> tuple[float, ConvMultiplexed]:
        """The convolution of a multiplexed image that takes least, and its seconds.

        Raises:
            FitError: there is none.
        """
        pairs = [(False, False), (True, False)]
        joined = attempted(functools.partial(rotations_by_unit, x, window, False, True), only=FitError)
        pairs += [] if isinstance(joined, Infeasible) else [(False, True)]
        kinds = [(*pair, folded) for pair in pairs for folded in (False, True)]
        price, kind, unit = min(
            (self.prices.steps(*numbers), kind, unit)
            for kind in kinds
            for unit, numbers in rotations_by_unit(x, window, *kind).items()
        )
        return price, multiplexed(x, window, unit, *kind)

    def _gathered(self, node: Expression, x: TensorLayout, price: float) -> MethodChoice | None:
        """The same of a product with the vector that an image becomes, each entry of which stands once."""
        target = self._closer(x, 1)
        if x.places is None or target is None:
            return None
        target = target.once()
        found, method = self._methods(node, target)[0]
        if found + self._moved(x, target) >= price:
            return None
        return MethodChoice(METAKERNEL, {**method.options, "layout": {"filled": 1}})

    def _closer(self, x: TensorLayout, images: int) -> TensorLayout | None:
        """An image with channels in all gaps, where masks may be taken and that makes fewer ciphertexts of it, or room
        for copies."""
        target = attempted(lambda: gaps_filled(x, images), only=FitError) if self.masks else None
        if target is None or isinstance(target, Infeasible):
            return None
        return target if (target.ciphertexts, -target.copies) < (x.ciphertexts, -x.copies) else None

    def _moved(self, x: TensorLayout, target: TensorLayout) -> float:
        """Seconds of the rotations and masks that bring an image into another layout."""
        masks = sum(masks_of(x.layout, target.once().layout))
        return self.prices.steps(masks + target.ciphertexts * doublings(target.copies), 0, masks)

    def _multiplexed(self, window: Window, x: TensorLayout) -> tuple[float, ConvMultiplexed] | None:
        """How an image that is refreshed afterwards, or has channels in its gaps, is convolved so, and its seconds:
        where results lie in fewer ciphertexts, each of which is refreshed, none is re-arranged or masked for it, or
        that takes less."""
        if not (self.refreshed or x.places is not None):
            return None
        found = attempted(functools.partial(self._of_any_unit, x, window), only=FitError)
        if isinstance(found, Infeasible):
            return None
        price, method = found
        if x.places is not None or self._rearranged(window, x) is not None:
            return price, method
        other, usual = self._convs(window, x)[0]
        ours, theirs = (
            (method.out.ciphertexts, False, price),
            (usual.out.ciphertexts, not usual.out.zero_padded, other),
        )
        return (price, method) if ours < theirs else None

    def _rearranged(self, window: Window, x: TensorLayout) -> dict[str, Any] | None:
        """The layout that an image is brought into: without gaps where that saves ciphertexts, wider where it must."""
        if x.segments > 1:
            return None
        grid_h, grid_w = needed_grid(window)
        channels = x.shape[0]
        stuck = x.places is not None or not fits(window, x) or not self._computable(window, x)
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
        return not isinstance(attempted(lambda: self._convs(window, x), only=FitError), Infeasible)

    def _methods(self, node: Expression, x: TensorLayout) -> list[Priced]:
        """The cheapest way to compute a layer, and what is compared with it in the end, with their prices."""
        window = window_of(node, x)
        return self._matvecs(node, x) if window is None else self._convs(window, x)

    def _matvecs(self, node: Expression, x: TensorLayout) -> list[Priced]:
        rows = node.shape[0]
        parts = -(-rows // self.slots)
        each = -(-rows // parts)

        found = self._ranked((each, x.extent, 1), x, 1, parts)
        return [(price, MatVecMetaKernel(x, rows, pattern, each)) for price, pattern in found]

    def _ranked(
        self, sizes: tuple[int, int, int], x: TensorLayout, taps: int, outputs: int
    ) -> Sequence[tuple[float, Pattern]]:
        """The cheapest patterns of layers of these sizes (see `imra.cheapest`), with their prices."""
        repeats = bool(x.alone or self.masks)
        return _ranked(self.prices, repeats, (*sizes, self.slots), taps, x.ciphertexts, outputs)

    def _convs(self, window: Window, x: TensorLayout) -> list[Priced]:
        taps = len(window.taps)
        if x.segments > 1:
            method = ConvMetaKernel(x, window, Pattern(1, 1, x.pitch, self.slots, 1, 1), 1)
            return [(self.prices.layer(method.pattern, taps, x.ciphertexts, method.out.ciphertexts), method)]
        inputs, outputs = min(x.channels, x.shape[0]), window.outputs
        most = min(outputs, max(1, self.slots // x.pitch))
        parts = -(-outputs // most)
        found: list[tuple[float, int, Pattern]] = []
        for each in sorted({most, -(-outputs // parts), min(most, inputs)}):
            ranked = functools.partial(
                self._ranked, (each, inputs, x.pitch), x, taps, outputs=-(-outputs // each)
            )
            some = attempted(ranked, only=FitError)
            if not isinstance(some, Infeasible):
                found.extend((price, each, pattern) for price, pattern in some)
        if not found:
            raise FitError(
                "The channels of a convolution do not fit a ciphertext.",
                expected=f"at most {self.slots} slots",
                got=x.pitch * inputs,
            )
        best = heapq.nsmallest(COMPARED, found, key=lambda row: row[:2])
        return [(price, ConvMetaKernel(x, window, pattern, each)) for price, each, pattern in best]


@functools.lru_cache(maxsize=1 << 10)
def _ranked(
    prices: LayerCost,
    repeats: bool,
    sizes: tuple[int, int, int, int],
    taps: int,
    inputs: int,
    outputs: int,
) -> Sequence[tuple[float, Pattern]]:
    """See `GreedyMethods._ranked`: a search asks for equal layers again and again.

    Args:
        repeats: patterns that repeat their input may be taken.
        sizes: units of the result and of the input, slots of a unit, slots.
    """

    def cost(pattern: Pattern) -> float:
        if pattern.replications > 1 and not repeats:
            return math.inf
        return prices.layer(pattern, taps, inputs, outputs)

    return [(cost(pattern), pattern) for pattern in cheapest(*sizes, cost, COMPARED)]


def _rows_of(window: Window | None) -> int:
    """Rows that become one; of a mean of all that there is, any may be cut."""
    return 1 if window is None or window.out_shape[1:] == (1, 1) else window.stride[0]


def unsupported(expression: Expression) -> str | None:
    """Why a network cannot be computed on tensors, or None if it can."""
    for node in facts_of(expression).order:
        if node.product and node.secret and node.children[0].secret and not _of_images(node):
            return "products of a network are of clear weights and an encrypted factor on their right"
        if node.secret and not node.shape and not node.root:
            return f"{node.title} is a number"
        if node.secret and len(node.shape) > BATCH_DIMENSIONS:
            return f"{node.title} has {len(node.shape)} dimensions"
    unknown = missing(expression, TENSORS)
    return None if unknown is None else f"no method on tensors for {unknown.title}"


def _of_images(node: Expression) -> bool:
    """Whether a product is one of a matrix with a row for each of several images, and a clear matrix."""
    left, right = node.children
    return _has_batches(left) and not right.secret and len(node.shape) == 2


def _has_batches(expression: Expression) -> bool:
    """Whether something is computed of several images at once."""
    return any(one.secret and len(one.shape) == BATCH_DIMENSIONS for one in facts_of(expression).order)


class TensorStrategy(Strategy):
    """Vectors and images in slots, computed layer by layer."""

    form: ClassVar[str] = TENSORS
    label: ClassVar[str] = "tensors"
    policies: tuple[KeyPolicy, ...] = ("direct", "binary")
    far = near = 3.0

    def __init__(self, expression: Expression, options: PlanOptions, budgets: Budgets) -> None:
        super().__init__(expression, options, budgets)
        self.rates = options.planned_for.rates

    @classmethod
    def refusal(cls, expression: Expression, options: PlanOptions) -> ParameterError | None:
        reason = unsupported(expression)
        if reason is not None:
            return ParameterError(
                "This network cannot be computed on tensors.",
                expected="clear weights, encrypted vectors and images",
                got=reason,
            )
        if options.algorithm not in (None, *LAYER_METHODS):
            return ParameterError(
                "A network cannot be computed by this algorithm.",
                expected=" | ".join(LAYER_METHODS),
                got=options.algorithm,
            )
        return None

    def stop_ratio(self, candidate: Candidate) -> float:
        return 1.5

    def families(self, thorough: bool, refuse: RefuseUpload) -> Iterator[Iterator[list[Candidate]]]:
        yield map(self._candidates, self.degrees)

    def with_shared_masks(self, scored: Sequence[Scored]) -> Iterator[Candidate]:
        """Of batches of images only where a budget of keys is given: they make do with those of one image."""
        if self.options.key_budget is None and _has_batches(self.expression):
            return iter(())
        return super().with_shared_masks(scored)

    def _candidates(self, n: int) -> list[Candidate]:
        """The decisions on a draft that carries the network, with patterns that need masks and without."""
        first = self._chosen(n, masks=True)
        if not any(LEVELS & choice.options.keys() for choice in first.decisions.choices.values()):
            return [first]
        other = self._chosen(n, masks=False)
        return [first] if other == first else [first, other]

    def _chosen(self, n: int, masks: bool) -> Candidate:
        """How each node is computed, and what was nearly taken."""

        def run(ring: RingShape) -> tuple[DryRun, Mapping[int, str]]:
            methods = self._method_chooser(n // 2, masks)
            found = dry_run(
                *(ring, self.expression, Decisions(TENSORS)),
                mask_budget=self.budgets.masks,
                choose=methods,
                promise=self.options.promised,
            )
            return found, methods.runners_up

        if self.refreshed:
            profile = modulus_chains.profile_of(self.expression)
            ring = modulus_chains.widest(n, self.allowed_bits(n), profile=profile).shape()
            found, runners_up = run(ring)
        elif self.modulus is not None:
            ring, (found, runners_up) = modular_drafted(run, n, self.modulus)
        else:
            ring, (found, runners_up) = drafted(run, n, DRAFT_SCALE_BITS, self.allowed_bits(n))
        decisions = Decisions(TENSORS, dict(found.choices))
        name = self.options.algorithm or METAKERNEL
        return Candidate(name, decisions, n, runners_up, drafted=(ring, replace(found, choices={})))

    def _method_chooser(self, slots: int, masks: bool) -> GreedyMethods | BaselineMethods:
        name = self.options.algorithm
        if name in (None, METAKERNEL):
            limit = math.inf
            if not self.refreshed:
                limit = self.limit * (self.options.threads or self.options.planned_for.threads)
            return GreedyMethods(self.expression, slots, Prices.of(self.rates, slots), masks, limit)
        return BaselineMethods(self.expression, slots, name)


def layer_counts(method: LayerMethod, slots: int) -> Counts:
    """Operations of one layer on fresh ciphertexts."""
    ev = Symbolic(RingShape.for_depth(slots, method.levels + 1))
    cts = [ev.fresh(None, bound=1.0) for _ in range(method.x.ciphertexts)]
    method.run(ev, cts, Weights("counted", lambda: NotImplemented, 1.0, 1.0, 1.0))
    return ev.counts
