"""What single steps of a program in blocks take, each counted by itself without data on one ring."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from cipherblas.common.errors import FitError
from cipherblas.evaluators.slots.bookkeeping import Properties
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct, GiantStep, MaskGroup, Plain, Transform
from cipherblas.forms.convert.relayout import masks_of, relayout
from cipherblas.forms.layouts import Layout
from cipherblas.forms.slot_forms import SlotForm
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.products import build
from cipherblas.planner.predict.feasible import DearError, attempted, feasible
from cipherblas.rlwe.costs import Costs, costs_of
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import Ring
from cipherblas.rlwe.traffic import Traffic
from cipherblas.runtime import schedule
from cipherblas.runtime.graphs import blockwise_graph, product_graph
from cipherblas.runtime.values import MethodChoice

Seconds = Callable[[Counts, Traffic], float]
Grid = tuple[int, int]


# Methods of `Costs` that book the same whatever the digits of key switching are.
WITHOUT_KEYS = frozenset(
    {"add", "encode", "multiply_plain_sum", "multiply_scalar", "multiply_sum", "rescale"}
)
MORE = 1.25  # times as many transforms, after which seconds are looked at again


class _Logged:
    """The costs of a ring, and how often which of their methods was asked to book, where digits count."""

    def __init__(self, costs: Costs, calls: Tally[Any]) -> None:
        self._costs, self._calls = costs, calls

    def __getattr__(self, name: str) -> Any:
        method, calls = getattr(self._costs, name), self._calls
        whole = getattr(Costs, name)

        def logged(first: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(first, Counts):
                calls[whole, arguments, tuple(options.items())] += 1
            return method(first, *arguments, **options)

        found = method if name in WITHOUT_KEYS else logged
        setattr(self, name, found)
        return found


class Priced(Symbolic):
    """Counts what seconds are made of: the sums of a transform together, and not one by one.

    What one counted tells the counts on other rings that differ in the digits of key switching alone.

    Attributes:
        most: seconds that what is counted may take; DearError where it takes more.
        seconds: what counts take at least.
    """

    most = math.inf
    seconds: Callable[[Counts], float]
    _before = 0.0  # seconds before what is repeated now
    _looked_at = 0.0  # transforms, at which seconds are looked at next

    def logged(self) -> Priced:
        """Itself; it will tell `counts_with` other digits."""
        self.calls = Tally()
        self.costs = cast(Costs, _Logged(self.costs, self.calls))
        return self

    def counts_with(self, ring: Ring) -> Counts:
        """The counts on a ring that differs in its digits alone."""
        found, there, here = self.counts.copy(), costs_of(ring), costs_of(self.params)
        own = vars(found)
        for (method, arguments, options), times in (self.calls or {}).items() if there is not here else ():
            for costs, number in ((there, times), (here, -times)):
                for name, each in costs.of_call(method, arguments, dict(options)):
                    own[name] += number * each
        return found

    def limited(self, most: float, seconds: Callable[[Counts], float]) -> None:
        """Count no further than to so many seconds."""
        self.most, self.seconds = most, seconds

    def repeated(self, number: int, work: Callable[[], None]) -> None:
        before, calls = self._before, None if self.calls is None else dict(self.calls)
        if self.most < math.inf:
            self._before, self._looked_at = self.seconds(self.counts), 0.0
        super().repeated(number, work)
        self._before, self._looked_at = before, 0.0
        if self.calls is not None and calls is not None:
            for call, times in self.calls.items():
                so_far = calls.get(call, 0)
                self.calls[call] = so_far + (times - so_far) * number

    def _check_seconds(self) -> None:
        if self.most < math.inf and self.counts.ntt_limbs >= self._looked_at:
            self._looked_at = MORE * self.counts.ntt_limbs
            so_far = self.seconds(self.counts)
            least = so_far + (self._repeats - 1) * (so_far - self._before)
            if least > self.most:
                raise DearError(least)

    def _transform_data(self, *arguments: Any) -> list[Any]:
        self._check_seconds()
        return super()._transform_data(*arguments)

    def _rotate_data(self, *arguments: Any) -> list[Any]:
        self._check_seconds()
        return super()._rotate_data(*arguments)

    def _relinearise_data(self, data: Any, limbs: int) -> Any:
        self._check_seconds()
        return super()._relinearise_data(data, limbs)

    def make_all(self, data: Sequence[Any], properties: Properties) -> list[Ct]:
        """One handle for all: their memory is not asked for."""
        self.work.spend(len(data) - 1)
        return [self.make(*properties, data[0])] * len(data)

    def baby_sums(
        self, rotated: Mapping[int, Ct], groups: Sequence[GiantStep], transform: Transform, most: float
    ) -> list[Ct]:
        number, first = sum(len(group.babies) for group in groups), next(iter(rotated.values()))
        scale = self.mask_scale(first.limbs)
        self.counts.sums += len(groups)
        self.costs.encode(self.counts, number, number * first.limbs)
        self.costs.plain_terms(self.counts, number, first.limbs)
        masks, each = MaskGroup((transform.key, "all"), number, tuple), self.costs.factor_bytes(first.limbs)
        self._book_encodings(masks, scale, first.limbs, each)
        bound = min(first.bound * transform.row_sum, most)
        total = self.make(first.limbs, self.policy.product(first.scale, scale), bound, first.errors, 2, None)
        return [total] * len(groups)


class _Keyless(Priced):
    """Does not say which keys of rotations it needs."""

    def use_rotations(self, steps: Iterable[int], limbs: int) -> None:
        pass


class MethodPrices:
    """Prices of steps on one ring, in seconds and in limbs.

    MethodPrices raise LevelError where the ring has too few limbs, FitError where they do not fit, or take too long.

    Attributes:
        limit: a re-arrangement that is sure to take more seconds is not counted; it may only become less.

    Args:
        seconds: what counts and traffic take.
        known: what steps were found to take; may be kept for other programs on the same ring.
    """

    def __init__(
        self,
        ring: Ring,
        policy: KeyPolicy,
        seconds: Seconds,
        limit: float = math.inf,
        known: dict[Any, Any] | None = None,
    ) -> None:
        self.ring, self.policy = ring, policy
        self._seconds, self.limit = seconds, limit
        self._known: dict[Any, Any] = {} if known is None else known

    def built(self, choice: MethodChoice, block: tuple[int, int, int]) -> Algorithm:
        """The algorithm of a product of such blocks, made once: to make it takes longer than to look up its price."""
        key = ("built", choice.method, tuple(sorted(choice.options.items())), block)
        slots = self.ring.n // 2
        found: Algorithm = self._remembered(key, lambda: build(choice.method, *block, slots, choice.options))
        return found

    def sent(self, layout: Layout, grid: Grid, public_key: bool, limbs: int) -> float:
        """Seconds until a value that the client packs is there."""
        upload = SlotForm(layout, grid).upload(limbs, self.ring.n, public_key)
        key = ("sent", layout.key, grid, public_key, limbs)
        found: float = self._remembered(key, lambda: self._seconds(Counts(), upload))
        return found

    def clear_product(self, rows: int, inner: int, cols: int) -> float:
        """Seconds of a product of two clear matrices, which the server multiplies before it encodes them."""
        return self._seconds(Counts(float_macs=rows * inner * cols), Traffic())

    def returned(self, layout: Layout, grid: Grid, limbs: int) -> float:
        """Seconds until the client has a result."""
        return self._seconds(Counts(), SlotForm(layout, grid).download(limbs, 2, self.ring.n))

    def product(
        self,
        algorithm: Algorithm,
        grids: tuple[Grid, Grid],
        secret: tuple[bool, bool],
        limbs: int,
        ready: bool = False,
    ) -> tuple[float, int]:
        """Return the seconds of a product of grids of blocks, and the limbs left after it.

        Args:
            secret: which factors are.
            limbs: of the factors.
            ready: rescaled, as the next product needs it.
        """

        def work() -> tuple[float, int]:
            ev = self._counter()
            layouts = algorithm.left_layout, algorithm.right_layout
            factors = [
                counted_handles(ev, layout, limbs) if encrypted else counted_plains(layout, math.prod(grid))
                for layout, grid, encrypted in zip(layouts, grids, secret, strict=True)
            ]
            result = counted_product(ev, algorithm, grids, factors)
            if ready:
                return self._blockwise(ev, _readied, (grids[0][0], grids[1][1]), result)
            return self._seconds(ev.counts, Traffic()), result[0].limbs

        block = algorithm.m, algorithm.k, algorithm.n
        options = tuple(sorted(algorithm.options.items()))
        found: tuple[float, int] = self._remembered(
            ("product", algorithm.name, options, block, grids, secret, limbs, ready), work
        )
        return found

    def multiplied(
        self, layout: Layout, grid: Grid, secret: tuple[bool, ...], limbs: int
    ) -> tuple[float, int]:
        """Seconds of an entrywise product of two values in one layout, and the limbs that are left."""

        def work() -> tuple[float, int]:
            ev = self._counter()
            x, y = (counted_handles(ev, layout, limbs) for _ in range(2))

            def block(ev: Evaluator, x: list[Ct], y: list[Ct]) -> list[Ct]:
                if all(secret):
                    return [
                        ev.multiply_relinearised(ev.rescaled(a), ev.rescaled(b))
                        for a, b in zip(x, y, strict=True)
                    ]
                return [ev.multiply(ev.rescaled(a), counted_plains(layout, 1)[0]) for a in x]

            return self._blockwise(ev, block, grid, x, y)

        found: tuple[float, int] = self._remembered(("multiply", layout.key, grid, all(secret), limbs), work)
        return found

    def relaid(self, source: Layout, target: Layout, grid: Grid, limbs: int) -> tuple[float, int]:
        """Seconds of a re-arrangement of a value, ready to be multiplied, and the limbs that are left."""

        def work() -> tuple[float, int]:
            least = 0.0
            for masks in masks_of(source, target):
                least += self._least_transform(masks, math.prod(grid), limbs)
                if least > self.limit:
                    raise FitError(
                        "A re-arrangement takes too long.",
                        expected=f"below {self.limit:.3g} s",
                        got=f"{least:.3g} s or more",
                    )
            ev = self._counter()

            def block(ev: Evaluator, cts: list[Ct]) -> list[Ct]:
                return [ev.rescaled(ct) for ct in relayout(ev, cts, source, target)]

            return self._blockwise(ev, block, grid, counted_handles(ev, source, limbs))

        found: tuple[float, int] = self._remembered(("relayout", source.key, target.key, grid, limbs), work)
        return found

    def _least_transform(self, masks: int, blocks: int, limbs: int) -> float:
        """Seconds that a transform of so many diagonals takes at least, by baby steps and giant steps."""
        steps = range(1, 4)

        def added(work: Callable[[Symbolic, list[Ct]], object]) -> float:
            """Return the seconds that one more ciphertext adds."""
            seconds = []
            for number in (2, 3):
                ev = self._counter()
                work(ev, [ev.fresh(None, bound=1.0, limbs=limbs)] * number)
                seconds.append(self._seconds(ev.counts, Traffic()))
            return seconds[1] - seconds[0]

        def work() -> float:
            baby = added(lambda ev, cts: ev.rotate_many(cts[0], steps[: len(cts)]))
            giant = added(lambda ev, cts: ev.rotate_sum(cts, steps[: len(cts)]))
            return min(baby, giant)

        rotation: float = self._remembered(("rotation", limbs), work)
        limbs *= masks * blocks
        counts = Counts(mask_encodings=masks, encode_ntt_limbs=limbs, mac_limbs=2 * limbs)
        return blocks * max(0.0, 2 * math.sqrt(masks) - 2) * rotation + self._seconds(counts, Traffic())

    def _blockwise(
        self, ev: Symbolic, work: Callable[..., list[Ct]], grid: Grid, *blocks: list[Ct]
    ) -> tuple[float, int]:
        """Seconds and limbs of an operation on all blocks of a grid, which are like the given ones."""
        rows, cols = grid
        sources = [[[block] * cols] * rows for block in blocks]
        (result,) = schedule.run(blockwise_graph("step", work, grid, len(blocks)), ev, sources)
        return self._seconds(ev.counts, Traffic()), result[0][0][0].limbs

    def _counter(self) -> Symbolic:
        return _Keyless(self.ring, key_policy=self.policy)

    def _remembered(self, key: Any, work: Callable[[], Any]) -> Any:
        """The result of `work`, or the reason why it is infeasible, found once for each key."""
        if key not in self._known:
            self._known[key] = attempted(work)
        return feasible(self._known[key])


def _readied(ev: Evaluator, cts: list[Ct]) -> list[Ct]:
    return [ev.rescaled(ct) for ct in cts]


def counted_product(
    ev: Symbolic, algorithm: Algorithm, grids: tuple[Grid, Grid], factors: Sequence[Sequence[Any]]
) -> list[Ct]:
    """A block of the product of grids of blocks, which stands for all of them.

    Args:
        factors: a block of each factor, which is like all others.
    """
    cells = [[[list(block)] * cols] * rows for block, (rows, cols) in zip(factors, grids, strict=True)]
    (result,) = schedule.run(product_graph(algorithm, *grids), ev, cells)
    found: list[Ct] = result[0][0]
    return found


def counted_handles(ev: Symbolic, layout: Layout, limbs: int) -> list[Ct]:
    """The ciphertexts of a block to count with."""
    return [ev.fresh(None, bound=layout.slot_bound(1.0), limbs=limbs) for _ in range(layout.ciphertexts)]


def counted_plains(layout: Layout, blocks: int) -> list[Plain]:
    """Clear blocks to count with, of which one stands for all; they have no values."""

    def values() -> Any:
        raise AssertionError("nothing is computed")

    bound = layout.slot_bound(1.0)
    return [
        Plain(("counted", layout.key, i), values, bound, blocks=blocks) for i in range(layout.ciphertexts)
    ]
