"""Bookkeeping without data: steps and policies, counts, memory, levels, scales."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import (
    LevelError,
    MismatchError,
    MissingKeyError,
    ParameterError,
    RangeError,
    ShapeError,
)
from cipherblas.crypto.keys import KeyRequest
from cipherblas.engines.encodings import EncodeCache
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.rotations import split_steps
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Plain, Transform
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import expand, signed_powers, total_step
from cipherblas.rlwe.rings import RingShape
from tests.support.key_samples import residue_bits

SLOTS = 64
policies = st.sampled_from(["direct", "composed", "binary"])
step = st.integers(-200, 200) | st.tuples(st.integers(-200, 200), st.integers(-200, 200))


def ring(depth=3, alpha=1):
    shape = RingShape.for_depth(SLOTS, depth)
    return RingShape(shape.n, shape.q, shape.p * alpha, alpha, shape.scale_bits)


@given(st.integers(-500, 500))
def test_signed_powers(value):
    powers = signed_powers(value, SLOTS)
    assert sum(powers) % SLOTS == value % SLOTS
    assert all((p & (p - 1) == 0) or ((SLOTS - p) & (SLOTS - p - 1) == 0) for p in powers)
    assert len(powers) <= math.log2(SLOTS) / 2 + 1


@given(step, policies)
def test_expanded_steps_add_up(value, policy):
    path = expand(value, policy, SLOTS)
    assert sum(path) % SLOTS == total_step(value) % SLOTS
    assert all(0 < part < SLOTS for part in path)
    if policy == "direct":
        assert len(path) <= 1


@given(st.lists(step, min_size=1, max_size=12), policies)
def test_rotations_follow_their_steps(steps, policy):
    values = np.arange(SLOTS) + 0j
    counter = Symbolic(ring(), key_policy=policy)
    counter.rotate_many(counter.fresh(None, bound=64.0), steps)
    clear = Clear(ring(), key_policy=policy, available=counter.request)
    for rotated, value in zip(clear.rotate_many(clear.encrypt(values), steps), steps, strict=True):
        np.testing.assert_array_equal(rotated.data, np.roll(values, -total_step(value)))
    assert clear.counts == counter.counts
    paths = {expand(value, policy, SLOTS) for value in steps}
    prefixes = {path[: i + 1] for path in paths for i in range(len(path))}
    assert counter.counts.rotations == len(prefixes)
    assert counter.counts.hoistings == len({prefix[:-1] for prefix in prefixes})
    assert len(counter.request.galois) == len({prefix[-1] for prefix in prefixes})


@given(
    st.dictionaries(step, st.integers(0, 9), min_size=1, max_size=10),
    policies,
    st.none() | st.integers(1, 6),
    st.sampled_from([1, 1 << 30]),
)
def test_transforms_follow_their_definition(seeds, policy, baby_steps, working_bytes):
    values = np.random.default_rng(1).uniform(-1, 1, SLOTS)
    diagonals = {
        step: Plain((step, seed), np.random.default_rng(seed).uniform(-1, 1, SLOTS), 1.0)
        for step, seed in seeds.items()
    }
    counter = Symbolic(ring(), key_policy=policy, working_bytes=working_bytes)
    planned = counter.linear_transform(counter.fresh(None, bound=1.0), diagonals, baby_steps=baby_steps)
    clear = Clear(ring(), key_policy=policy, available=counter.request, working_bytes=working_bytes)
    result = clear.linear_transform(clear.encrypt(values, bound=1.0), diagonals, baby_steps=baby_steps)
    expected = sum(plain.values() * np.roll(values, -total_step(z)) for z, plain in diagonals.items())
    np.testing.assert_allclose(result.data, expected, atol=1e-12)
    assert clear.counts == counter.counts
    assert (planned.limbs, planned.scale) == (clear.top_limbs - 1, 2.0**40)
    in_the_clear = clear.linear_transform(Plain("x", values, 1.0), diagonals)
    np.testing.assert_allclose(in_the_clear.values(), expected, atol=1e-12)


@given(
    policies,
    st.none() | st.integers(1, 4),
    st.integers(0, 40),
    st.lists(st.integers(1, 3), min_size=2, max_size=6),
)
def test_transforms_that_were_counted_before_count_as_before(policy, baby_steps, masks, limbs):
    diagonals = {
        step: Plain(f"d{step}", lambda: np.ones(SLOTS, complex), 1.0, constant=True) for step in range(6)
    }
    transform = Transform.of(diagonals)

    def run(kind):
        ev = kind(ring(depth=4), key_policy=policy, mask_budget=masks * ring().n * 8)
        kept = [
            ev.linear_transform(
                ev.fresh(np.zeros(SLOTS, complex), bound=1.0, limbs=number + 1),
                transform,
                baby_steps=baby_steps,
            )
            for number in limbs
        ]
        described = [(ct.limbs, ct.scale, ct.bound, ct.errors, ct.components) for ct in kept]
        return ev.counts, ev.request, ev.ledger.peak, ev.ledger.live, ev.mask_bytes, described

    assert run(Symbolic) == run(Clear)


def test_transforms_without_a_key_are_counted_each():
    ev = Symbolic(ring())
    x = ev.fresh(None, bound=1.0)
    ev.linear_transform(x, Transform(dict.fromkeys(range(2)), 2.0, math.sqrt(2)))
    wider = ev.linear_transform(x, Transform(dict.fromkeys(range(5)), 5.0, math.sqrt(5)))
    assert (wider.bound, ev.counts.rotations) == (5.0, 1 + 4)


def test_rotations_are_shared_between_transforms():
    ev = Symbolic(ring())
    x = ev.fresh(None, bound=1.0)
    mask = Plain("mask", np.ones(SLOTS), 1.0)
    list(ev.linear_transforms(x, [{i: mask, i + 1: mask} for i in range(4)]))
    assert ev.counts.hoistings == 1
    assert ev.counts.linear_transforms == ev.counts.moddowns == ev.counts.rescales == 4
    small = Symbolic(ring(), working_bytes=1)
    list(small.linear_transforms(small.fresh(None, bound=1.0), [{i: mask} for i in range(1, 5)]))
    assert small.counts.hoistings == 4


def test_split_steps():
    groups = split_steps([0, 6, 12, -6, 30], 2)
    assert groups == {0: [(0, 0), (6, 6)], 12: [(0, 12)], -12: [(6, -6)], 24: [(6, 30)]}
    with pytest.raises(ParameterError, match=r"number of baby steps must be at least 1 .got 0"):
        split_steps([1], 0)


def test_counts_of_a_key_switch():
    """dnum = 2 at 4 limbs, 2 special limbs: ModUp, two key products, two ModDowns."""
    shape = RingShape.from_bits(128, [48, 48, 40, 40], [50, 50], 2, 40)
    ev = Symbolic(shape)
    ev.rotate_many(ev.fresh(None, bound=1.0), [1, 2])
    counts = ev.counts
    assert (counts.rotations, counts.hoistings, counts.moddowns) == (2, 1, 2)
    assert counts.ntt_limbs == 4 + 2 * (2 + 2) + 2 * 2 * (2 + 4)
    assert counts.mac_limbs == 2 * 2 * 4 + 2 * (2 * 2 * 6 + 4) + 2 * 2 * (2 + 1) * 4
    assert counts.switched_limbs == 2 * 2 * 6  # however many digits
    assert counts.key_bytes_read == 2 * (2 * 2 * 128 * sum(residue_bits([*shape.q, *shape.p])) // 8)


def test_counts_add_and_subtract():
    a, b = Counts(rotations=3, adds=1), Counts(rotations=1)
    assert a - b + b == a
    assert (a * 2).rotations == 6
    assert a.copy() == a
    assert a.copy() is not a
    assert a.to_dict()["rotations"] == 3


def test_memory_follows_the_live_ciphertexts():
    ev = Symbolic(ring())
    x = ev.fresh(None, bound=1.0)
    one = ev.ct_bytes(x)
    assert one == 2 * 5 * 2 * SLOTS * 8
    assert ev.ledger.live == 0  # operands stay for the whole run: the plan counts them
    many = [ev.negate(x) for _ in range(3)]
    assert ev.ledger.live == 3 * one
    many.clear()
    assert ev.ledger.live == 0
    assert ev.peak_bytes == 3 * one
    ev.multiply(x, x)
    assert ev.peak_bytes == 3 * one
    ev.rotate_many(x, [1, 2, 3])  # three results, decompositions and dropped limbs besides
    assert ev.peak_bytes > 3 * one
    assert ev.ledger.live == 0


def test_missing_keys():
    ev = Clear(ring(), available=KeyRequest.of_galois({5: 3}))
    x = ev.encrypt(np.zeros(SLOTS))
    with pytest.raises(
        MissingKeyError, match=r"rotation by 2 .Galois element 25. was declared .expected one for 5 limbs"
    ):
        ev.rotate(x, 2)
    with pytest.raises(MissingKeyError, match="got 3 limbs for it"):
        ev.rotate(x, 1)
    with pytest.raises(MissingKeyError, match="conjugation"):
        ev.conjugate(x)
    with pytest.raises(MissingKeyError, match="expected one for 5 limbs"):
        ev.relinearise(ev.multiply(x, x))
    ev.rotate(ev.drop(x, 3), 1)


def test_a_relinearised_product_is_booked_as_a_product_and_its_relinearisation():
    found = []
    for at_once in (False, True):
        ev = Symbolic(ring())
        x = ev.fresh(None, bound=1.5)
        y = ev.drop(ev.fresh(None, bound=2.0), 4)
        for left, right in ((x, x), (x, y)):
            if at_once:
                product = ev.multiply_relinearised(left, right)
            else:
                product = ev.relinearise(ev.multiply(left, right))
            found.append((product.limbs, product.scale, product.bound, product.noise, product.components))
        twice = (
            5 + 4 if at_once else 0
        )  # the third component, where its digits and where its coefficients are made
        found.append((ev.counts - Counts(mac_limbs=twice), ev.request))
    assert found[:3] == found[3:]


def test_levels_and_scales():
    ev = Symbolic(ring(depth=1))
    x = ev.fresh(None, bound=1.0)
    product = ev.relinearise(ev.multiply(x, x))
    assert product.limbs == 3
    assert ev.rescaled(product).limbs == 2
    assert ev.rescaled(x) is x
    with pytest.raises(LevelError, match=r"does not fit the modulus .expected .* at 3 limbs, got 160"):
        ev.multiply(product, product)
    with pytest.raises(LevelError, match="expected at least 2 limbs, got 1"):
        ev.rescale(ev.drop(x, 1))
    with pytest.raises(LevelError, match="expected 1 to 3, got 4"):
        ev.drop(x, 4)
    with pytest.raises(LevelError, match="expected 1 to 3 limbs, got 7"):
        ev.fresh(None, bound=1.0, limbs=7)
    with pytest.raises(LevelError, match="cannot gain limbs"):
        ev.match(ev.drop(x, 2), 3, x.scale)
    with pytest.raises(LevelError, match="costs a level"):
        ev.match(ev.drop(x, 2), 2, 1.5 * x.scale)


@given(st.floats(0.01, 100), st.integers(0, 30))
def test_match_keeps_the_value(ratio, extra_bits):
    ev = Clear(ring())
    values = np.linspace(-1, 1, SLOTS)
    x = ev.encrypt(values)
    scale = x.scale * ratio * 2.0**extra_bits
    matched = ev.match(x, 3, scale)
    assert matched.limbs == 3
    assert matched.scale == pytest.approx(scale, rel=1e-12)
    np.testing.assert_allclose(matched.data, values, atol=1e-6)
    assert matched.noise >= x.noise


def test_adding_across_scales_and_levels():
    ev = Clear(ring())
    x = ev.encrypt(np.linspace(-1, 1, SLOTS))
    square = ev.multiply(x, x)
    total = ev.add(ev.drop(x, 4), square)
    assert (total.components, total.limbs, total.scale) == (3, 4, square.scale)
    np.testing.assert_allclose(total.data, x.data + x.data**2)
    uneven = ev.add(x, ev.fold_into_scale(x, 2.0))
    assert uneven.limbs == x.limbs - 1
    np.testing.assert_allclose(uneven.data, 3 * x.data)
    assert uneven.bound == pytest.approx(3.0)


def test_errors_of_products():
    ev = Symbolic(ring())
    x = ev.fresh(None, bound=1.0)
    w = Plain("w", np.ones(SLOTS), 1.0)
    with pytest.raises(ShapeError, match="two lists of equal length"):
        ev.multiply_sum([x], [x, x])
    with pytest.raises(ShapeError, match="one clear side at most"):
        ev.multiply_sum([w], [w])
    with pytest.raises(MismatchError, match="differ in scale"):
        ev.multiply_sum([x, x], [x, ev.fold_into_scale(x, 2.0)])
    with pytest.raises(MismatchError, match="not relinearised"):
        ev.multiply(ev.multiply(x, x), x)
    with pytest.raises(MismatchError, match="relinearised ciphertext"):
        ev.rotate(ev.multiply(x, x), 1)
    with pytest.raises(
        MismatchError, match=r"another number of components than the sum .expected 2 components, got 3"
    ):
        ev.multiply_sum([x], [w], ev.multiply(x, x))
    with pytest.raises(MismatchError, match="all given or all None"):
        Transform.of({1: None, 2: w})
    with pytest.raises(RangeError, match="got nan"):
        ev.multiply_scalar(x, math.nan)
    with pytest.raises(ParameterError, match=r"direct \| composed \| binary"):
        Symbolic(ring(), key_policy="none")


def test_an_accumulator_is_updated_in_place():
    ev = Clear(ring())
    x = ev.encrypt(np.ones(SLOTS))
    total = ev.multiply(x, x)
    assert ev.multiply_sum([x, x], [x, x], total) is total
    np.testing.assert_array_equal(total.data, 3)
    assert total.bound == 3


def test_the_cache_drops_what_was_used_longest_ago():
    cache = EncodeCache(2 * 80)
    made = []

    def make(key):
        return lambda: (made.append(key), np.zeros(10))[1]

    for key in "abacab":
        cache.get(key, make(key))
    assert made == ["a", "b", "c", "b"]
    assert (len(cache), cache.nbytes) == (2, 160)
    cache.clear()
    assert cache.nbytes == 0


@pytest.mark.parametrize("deviation", [1 + 2.0**-20, 1 - 2.0**-20])
def test_scales_that_were_meant_to_be_equal(deviation):
    """The ciphertext with a limb to spare pays the level of matching, whichever scale is larger."""
    ev = Symbolic(ring())
    scale = 2.0**ev.params.scale_bits
    low = ev.fresh(None, bound=1.0, limbs=3, scale=scale * deviation)
    high = ev.fresh(None, bound=1.0, limbs=4, scale=scale)
    total = ev.add(low, high)
    assert (total.limbs, total.scale) == (3, low.scale)
    assert ev.add(low, ev.drop(high, 3)).limbs == 2  # nobody has one


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.0, 2.0])), min_size=1, max_size=6
    ),
    st.booleans(),
    st.booleans(),
)
def test_sums_of_products_are_remembered_as_they_are(bounds, rotated, repeated):
    """What is found for alike terms, at once or remembered, is what term by term gives."""
    counter = Symbolic(ring())

    def operand(bound):
        ct = counter.fresh(None, bound=bound)
        return counter.rotate_many(ct, [1])[0] if rotated else ct

    lefts, rights = ([operand(pair[side]) for pair in bounds] for side in (0, 1))
    if repeated:
        rights[-1] = lefts[0]
    expected = counter.policy.products(lefts, rights)
    for _ in range(2):
        scale, bound, errors = counter._product_terms(lefts, rights)
        assert (scale, bound) == pytest.approx(expected[:2])
        assert errors[:3] == pytest.approx(expected[2][:3]) and errors.aligned == expected[2].aligned
