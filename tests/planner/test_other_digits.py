"""What one count of a product tells of rings that differ in the digits of key switching."""

from __future__ import annotations

import pytest

from cipherblas.methods.products import build, find
from cipherblas.planner.predict.feasible import DearError
from cipherblas.planner.search.method_prices import Priced, counted_handles, counted_product
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import RingShape

SLOTS, LIMBS, BLOCK = 1 << 12, 6, (12, 16, 10)
GRIDS = ((2, 3), (3, 2))


def ring_of(alpha: int) -> RingShape:
    """A ring of six limbs, so many in a digit."""
    special = [43.0] * alpha
    return RingShape.from_bits(2 * SLOTS, [40.0 - index / 64 for index in range(LIMBS)], special, alpha, 30.0)


def counted(name: str, ring: RingShape, policy: KeyPolicy, most: float | None = None) -> Priced:
    """A product of grids of blocks by an algorithm, counted on a ring, up to so many transforms."""
    algorithm = build(name, *BLOCK, SLOTS, next(find(name).candidates(*BLOCK, SLOTS)))
    ev = Priced(ring, key_policy=policy).logged()
    if most is not None:
        ev.limited(most, lambda counts: float(counts.ntt_limbs))
    layouts = algorithm.left_layout, algorithm.right_layout
    counted_product(ev, algorithm, GRIDS, [counted_handles(ev, layout, LIMBS) for layout in layouts])
    return ev


@pytest.mark.parametrize("policy", ["direct", "binary"])
@pytest.mark.parametrize("name", ["bicyclic", "diagonals", "e2dm", "fame", "outer-product", "skewed"])
def test_a_count_tells_those_of_other_digits(name: str, policy: KeyPolicy) -> None:
    one = counted(name, ring_of(1), policy)
    for alpha in (1, 2, 3, LIMBS):
        assert one.counts_with(ring_of(alpha)) == counted(name, ring_of(alpha), policy).counts
    assert one.counts_with(ring_of(2)) != one.counts


@pytest.mark.parametrize("name", ["fame", "skewed"])
def test_a_count_ends_where_it_takes_more_than_it_may(name: str) -> None:
    whole = counted(name, ring_of(2), "direct").counts
    assert counted(name, ring_of(2), "direct", most=whole.ntt_limbs).counts == whole
    with pytest.raises(DearError) as caught:
        counted(name, ring_of(2), "direct", most=whole.ntt_limbs / 4)
    assert whole.ntt_limbs / 4 < caught.value.least <= whole.ntt_limbs
    assert Counts() != whole
