"""Policies of plaintexts: what the approximate one says, and evaluators on scales that are no numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cipherblas.common.errors import LevelError, UnmatchedError
from cipherblas.evaluators.policy.approximate import ApproximatePolicy
from cipherblas.evaluators.policy.interface import Match, PlaintextPolicy
from cipherblas.evaluators.rows.symbolic import RowsSymbolic
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import ClearFactor, Ct, Plain, Polynomials
from cipherblas.rlwe.basis import FirstLimbs
from cipherblas.rlwe.rings import RingShape

SLOTS = 64
RING = RingShape.for_depth(SLOTS, 4)
# Levels of two limbs, which masks do not fill.
FINE = RingShape.from_bits(4096, [49.0] * 4 + [33.0] * 12, [50.0] * 4, 4, 66.0, level_limbs=2)


@dataclass(frozen=True)
class Sealed:
    """A scale that nobody can calculate with."""

    number: float


def opened(value: Any) -> Any:
    """The same with numbers as scales."""
    if isinstance(value, Sealed):
        return value.number
    if isinstance(value, Ct):
        return _handle(value)
    if type(value) in (list, tuple):
        return type(value)(map(opened, value))
    return value


def _handle(ct: Ct) -> SimpleNamespace:
    return SimpleNamespace(limbs=ct.limbs, scale=opened(ct.scale), bound=ct.bound, errors=ct.errors)


# Rules that give a scale, and those that give more with it.
SCALES = ("product", "divided", "switched", "absorbed", "folded", "mask", "masked", "clear_scale")
FIRST = ("addend", "products", "equal_products")
# Rules that rows ask for, or methods, worst cases and what computes on ciphertexts.
OF_ROWS = {
    "check_rows",
    "switched",
    "divisor",
    "log_modulus",
    "same",
    "residues",
    "before_switch",
    "scaled",
    "folded",
}
OF_ROWS |= {"in_scale", "widest", "readable", "message_share", "clear_bound", "clear_entries"}
OF_ROWS |= {f"row_{name}" for name in ("product", "factors", "root", "steps", "product_errors", "error")}
OF_OTHERS = {"size", "magnitude", "in_values", "constant", "fresh", "product_factor", "approximate"}
OF_OTHERS |= {"errors_kind", "facts", "of_facts"}  # of ciphertexts of other ranks


class SealedPolicy:
    """The rules of a policy, whose scales it seals."""

    def __init__(self, policy: PlaintextPolicy) -> None:
        self._policy = policy
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._policy, name)
        if name == "usual":
            return Sealed(found)
        return functools.partial(self._ask, name, found) if callable(found) else found

    def _ask(self, name: str, rule: Callable[..., Any], *given: Any, **options: Any) -> Any:
        self.asked.add(name)
        found = rule(*map(opened, given), **{key: opened(value) for key, value in options.items()})
        if name in SCALES:
            return Sealed(found)
        if name in FIRST:
            return Sealed(found[0]), *found[1:]
        if name == "meeting":
            return found[0], Sealed(found[1])
        return Match(found.limbs, found.factor, Sealed(found.scale)) if name == "match" else found  # type: ignore[arg-type]


def _plain(name: str, values: Any) -> Plain:
    return Plain(name, np.asarray(values, float), float(np.abs(values).max()))


def _slots(ev: Any) -> list[Ct]:
    """Every operation of an evaluator of slots that has to do with scales."""
    values = np.linspace(-1.0, 1.0, ev.slots) + 0j
    x = ev.fresh(values if isinstance(ev, Clear) else None, bound=1.0)
    terms = [ev.fresh(x.data, bound=1.0) for _ in range(4)]
    mask = _plain("mask", np.arange(ev.slots) % 2)
    product = ev.relinearise(ev.multiply(x, x))
    found = [product, ev.rescaled(product), ev.multiply_rescaled(x, x, 2.0, product.scale, None, -1.0)]
    diagonals = {step: mask.rolled(step) for step in range(4)}
    found += [ev.linear_transform(x, diagonals), ev.multiply_sum(terms[:2], terms[2:])]
    found += [ev.linear_transform(x, diagonals, baby_steps=2, double=double) for double in (False, True)]
    masked = ev.multiply_sum([ev.rotate(x, 1), x], [mask, mask.rolled(3)])
    found += [ev.rescale(masked), ev.multiply_sum([x], [mask], ev.multiply(x, mask))]
    found += [ev.add(found[1], x), ev.sub(ev.multiply_scalar(x, 0.3), x), ev.multiply_scalar(x, 3)]
    found += [ev.add_plain(x, mask), ev.add_number(x, 0.5), ev.scaled_up(x, 3), ev.conjugate(x)]
    found += [ev.rotate_sum([masked, masked], [1, 2], rescale=True), ev.rotate_sum([x, x], [1, 2])]
    found += [ev.as_message(product), ev.scaled_up_to(x, product.scale), ev.raise_modulus(x, 2, 1.0)]
    found += ev.raise_and_transform([x], 3, 1.0, diagonals)
    found += ev.polynomial_sums([x], Polynomials((1, 1, 2), 0.5, lambda: np.ones((1, 1, 2), np.int64)), 9.0)
    return [*found, ev.drop(x, ev.least_limbs(x))]


def _rows(ev: RowsSymbolic, usual: Any) -> list[Any]:
    x = ev.fresh(None, (8, 16), bound=1.0, scale=usual, basis=FirstLimbs(2))
    factors = [ClearFactor("u", (4, 8), 3.0, 1.0, exact, lambda: np.ones((4, 8))) for exact in (True, False)]
    found = [ev.clear_product(factor, x) for factor in factors]
    found += [ev.rescale(found[0]), ev.fold_into_scale(x, 3.0), ev.as_message(found[1])]
    return [*found, ev.add(x, x), ev.add_clear(x, lambda: np.ones((8, 16)), 1.0), ev.stack([x, x])]


@pytest.mark.parametrize("kind", [Symbolic, Clear])
def test_slots_on_scales_that_are_no_numbers(kind: Any) -> None:
    sealed = SealedPolicy(ApproximatePolicy(RING))
    for x, y in zip(_slots(kind(RING)), _slots(kind(RING, policy=sealed)), strict=True):
        assert isinstance(y.scale, Sealed)
        assert (x.limbs, x.scale, x.bound, x.errors) == (y.limbs, y.scale.number, y.bound, y.errors)
    rules = {name for name in vars(PlaintextPolicy) if not name.startswith("_")}
    assert sealed.asked == rules - OF_ROWS - OF_OTHERS


def test_rows_on_scales_that_are_no_numbers() -> None:
    sealed: Any = SealedPolicy(ApproximatePolicy(RING, level_limbs=1))
    usual = 2.0**20
    known, found = _rows(RowsSymbolic(RING), usual), _rows(RowsSymbolic(RING, policy=sealed), Sealed(usual))
    for x, y in zip(known, found, strict=True):
        assert (x.basis, x.scale, x.bound, x.noise) == (y.basis, y.scale.number, y.bound, y.noise)


def _ways(policy: PlaintextPolicy, ratios: Sequence[float]) -> list[Match]:
    return [policy.match(policy.usual, policy.usual * ratio, 2, 4) for ratio in ratios]


def test_ways_to_a_scale() -> None:
    policy = ApproximatePolicy(RING)
    last, usual = policy.size(3, 2), policy.usual
    same, larger, near = _ways(policy, [1 + 2.0**-50, 2.0**30, 1.5])
    assert same == Match(2, 1, usual) and larger == Match(2, 2**30, usual * 2.0**30)
    assert near == Match(3, round(1.5 * last), 1.5 * usual * last)
    with pytest.raises(LevelError, match="costs a level"):
        policy.match(usual, 1.5 * usual, 2, 2)
    with pytest.raises(UnmatchedError, match="too far apart"):
        policy.match(usual, usual / last, 2, 4)


def test_places_where_ciphertexts_meet() -> None:
    policy = ApproximatePolicy(RING)
    assert policy.meeting((3, 8.0), (2, 8.0)) == (2, 8.0)
    assert policy.meeting((4, 8.0), (2, 9.0)) == (2, 9.0)  # the first has a level to spare
    assert policy.meeting((2, 8.0), (4, 9.0)) == (2, 8.0)  # nearly equal: the second has it
    assert policy.meeting((2, 8.0), (4, 80.0)) == (1, 80.0)
    assert policy.meeting((2, 8.0), (2, 2.0**40)) == (2, 2.0**40)  # an integer makes up for it


def test_levels_of_several_limbs() -> None:
    fine = ApproximatePolicy(FINE)
    assert (fine.mask_bits, fine.level_limbs) == (5, 2)
    assert fine.mask(16) == pytest.approx(2.0**61)
    assert fine.same(1.0, 1 + 2.0**-51) and not fine.same(1.0, 1 + 2.0**-45)
    assert ApproximatePolicy(RING).same(1.0, 1 + 2.0**-45)
    with pytest.raises(UnmatchedError, match="too large for the scale"):
        fine.check_encoded(2.0**61, [1.0, 2.0])
    ApproximatePolicy(RING).check_encoded(2.0**61, [1.0, 2.0])


def test_numbers() -> None:
    policy = ApproximatePolicy(RING)
    assert [policy.integer(value) for value in (3.0, -(2**20), 2**20 + 1, 0.5)] == [3, -(2**20), None, None]
    assert policy.constant(0.3, 2.0**20, 2) == round(0.3 * 2**20)
    assert policy.addend(2.0**40, 4.0) == (2.0**40, 1) and policy.addend(2.0**70, 1.0) == (2.0**60, 2**10)
    found = policy.residues(np.array([[1.5, -0.25]]), 4.0, 2)
    assert found.shape == (2, 1, 2) and found[:, 0, 0].tolist() == [6, 6]
    assert found[:, 0, 1].tolist() == [q - 1 for q in map(int, RING.q[:2])]
    assert math.log2(policy.usual) == pytest.approx(RING.scale_bits)
