"""Key switching and linear transforms of the core against exact integers, in both orders."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cipherblas._core as _core
from tests.support.ring_oracle import Integers, Ring, Words, to_object

ORDERS = ("limb", "rotation")


Division = int | tuple[int, ...]  # limbs per digit: as many in each, or those of each from q_0 on


def rings(division: Division, special: int | None = None) -> Ring:
    sizes = () if isinstance(division, int) else division
    alpha = max(sizes) if sizes else division
    special = alpha if special is None else special
    return Ring(n=16, q_bits=(50, 40, 41, 42, 43), special=special, alpha=alpha, digit_limbs=sizes)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("limbs", "key_limbs"), [(5, 5), (4, 5), (3, 5), (1, 5), (1, 1), (3, 4)])
@pytest.mark.parametrize(
    ("division", "special"),
    [
        (1, 1),
        (2, 2),
        (3, 3),
        (5, 5),
        (4, 1),
        ((1, 3, 1), 3),
        ((3, 2), 3),
        ((4, 1), 2),
        ((1, 4), 1),
        ((5,), 5),
    ],
)
def test_one_rotation(division: Division, special: int, limbs: int, key_limbs: int, order: str) -> None:
    ring = rings(division, special)
    x, key = ring.random_ciphertext(limbs), ring.random_key(key_limbs)
    for galois in (5, 2 * ring.n - 1, 1):
        terms = [(0, 0, galois, 0, -1)]
        expected = ring.linear_transform([x], terms, [key], lambda _: to_object([]), 1, False)
        got = ring.context.linear_transform([x], terms, [key], [], 1, False, order)
        assert len(got) == 1
        np.testing.assert_array_equal(got[0], expected[0])


@pytest.mark.parametrize(("limbs", "key_limbs"), [(5, 5), (3, 5), (1, 2)])
@pytest.mark.parametrize("division", [1, 2, 3, (1, 3, 1), (2, 1, 2), (4, 1)])
def test_relinearisation(division: Division, limbs: int, key_limbs: int) -> None:
    ring = rings(division)
    x, key = ring.random_ciphertext(limbs, 3), ring.random_key(key_limbs)
    c0, c1, c2 = ring.polynomials(x)
    modulus = prod(ring.moduli[i] for i in ring.rows(limbs))
    special = ring.special_product
    first, second = ring.key_switch(c2, 1, key, limbs)
    expected = [
        ring.ntt(ring.divide(s + special * c, modulus, special), range(limbs))
        for s, c in ((first, c0), (second, c1))
    ]
    np.testing.assert_array_equal(ring.context.relinearise(x, key), np.stack(expected))


@pytest.mark.parametrize(("limbs", "key_limbs"), [(5, 5), (3, 5), (1, 2)])
@pytest.mark.parametrize("division", [1, 2, 3, (1, 3, 1), (2, 1, 2), (4, 1)])
def test_relinearised_product(division: Division, limbs: int, key_limbs: int) -> None:
    ring = rings(division)
    x, y, key = ring.random_ciphertext(limbs), ring.random_ciphertext(limbs), ring.random_key(key_limbs)
    for left, right in ((x, y), (x, x)):
        product = ring.context.multiply_sum([left], [right])
        expected = ring.context.relinearise(product, key)
        np.testing.assert_array_equal(ring.context.multiply_relinearise(left, right, key), expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log_n", "limbs", "alpha", "bits", "threads"),
    [(16, 10, 9, 50, 2), (15, 6, 1, 50, 1), (15, 6, 1, 50, 2), (15, 6, 1, 48, 2), (16, 5, 2, 48, 1)],
)
def test_a_ring_larger_than_the_caches(log_n: int, limbs: int, alpha: int, bits: int, threads: int) -> None:
    """Limbs converted together, past the caches, or digits a few at a time: the bits are those of the stored order."""
    ring = Ring(
        n=1 << log_n, q_bits=(bits, *([47] * (limbs - 1))), special=alpha, special_bits=bits, alpha=alpha
    )
    context = ring.context
    x, y, key = ring.random_ciphertext(limbs), ring.random_ciphertext(limbs), ring.random_key(limbs)
    before = _core.threads()
    _core.set_threads(threads)
    try:
        rotated = [
            context.linear_transform([x], [(0, 0, 5, 0, -1)], [key], [], 1, True, order)[0]
            for order in ORDERS
        ]
        np.testing.assert_array_equal(*rotated)
        expected = context.relinearise(context.multiply_sum([x], [y]), key)
        np.testing.assert_array_equal(context.multiply_relinearise(x, y, key), expected)
        for order in ORDERS:
            no_key = context.linear_transform([x], [(0, 0, 1, -1, -1)], [], [], 1, True, order)[0]
            np.testing.assert_array_equal(context.rescale(x), no_key)
        plaintexts = [ring.random_rows(ring.rows(limbs)) for _ in range(2)]
        for terms, masks in [
            ([(0, 0, 1, -1, -1), (0, 1, 1, -1, -1)], []),  # no key
            ([(0, 0, 1, -1, 0), (0, 1, 1, -1, 1)], plaintexts),
            ([(0, 0, 1, 0, -1), (0, 1, 1, -1, -1)], []),
            ([(0, 0, 5, 0, 0), (0, 1, 5, 0, 1)], plaintexts),
            ([(0, 0, 5, 0, -1), (0, 1, 7, 0, -1)], []),
        ]:
            keys = [key] if any(term[3] >= 0 for term in terms) else []
            for rescaled in (False, True):
                sums = [
                    context.linear_transform([x, y], terms, keys, masks, 1, rescaled, order)[0]
                    for order in ORDERS
                ]
                np.testing.assert_array_equal(*sums)
    finally:
        _core.set_threads(before)


@st.composite
def transforms(draw: st.DrawFn) -> dict:
    limbs = draw(st.integers(1, 5))
    sources, outputs = draw(st.integers(1, 3)), draw(st.integers(0, 4))
    keys, plaintexts = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    with_plaintext = [draw(st.booleans()) for _ in range(outputs)]
    terms = []
    for _ in range(draw(st.integers(0, 14)) if outputs else 0):
        output = draw(st.integers(0, outputs - 1))
        key = draw(st.integers(-1, keys - 1))
        galois = 1 if key < 0 else draw(st.integers(0, 15).map(lambda x: 2 * x + 1))
        plaintext = draw(st.integers(0, plaintexts - 1)) if with_plaintext[output] else -1
        terms.append((output, draw(st.integers(0, sources - 1)), galois, key, plaintext))
    return {
        "division": draw(st.integers(1, 5) | st.sampled_from([(1, 3, 1), (2, 1, 2), (4, 1), (1, 1, 1, 2)])),
        "special": draw(st.integers(1, 3)),
        "limbs": limbs,
        "sources": sources,
        "outputs": outputs,
        "key_limbs": [draw(st.integers(limbs, 5)) for _ in range(keys)],
        "plaintexts": [draw(st.sampled_from(["coefficients", *range(limbs, 6)])) for _ in range(plaintexts)],
        "terms": terms,
        "rescale": limbs > 1 and draw(st.booleans()),
        "seed": draw(st.integers(0, 2**32)),
    }


@settings(max_examples=3 * settings.default.max_examples // 2)
@given(case=transforms())
def test_any_transform_in_both_orders(case: dict) -> None:
    division = case["division"]
    sizes = () if isinstance(division, int) else division
    alpha = max(sizes, default=division)
    ring = Ring(n=16, alpha=alpha, special=case["special"], seed=case["seed"], digit_limbs=sizes)
    sources = [ring.random_ciphertext(case["limbs"]) for _ in range(case["sources"])]
    keys = [ring.random_key(limbs) for limbs in case["key_limbs"]]
    coefficients = [
        ring.generator.integers(-(2**45), 2**45, ring.n, dtype=np.int64) for _ in case["plaintexts"]
    ]
    plaintexts = [
        m if kind == "coefficients" else ring.context.plaintext(m, kind, special=True, montgomery=True)
        for kind, m in zip(case["plaintexts"], coefficients, strict=True)
    ]

    def factor(index: int) -> Integers:
        return to_object(coefficients[index])

    shape = (case["outputs"], case["rescale"])
    expected = ring.linear_transform(sources, case["terms"], keys, factor, *shape)
    results: dict[str, list[Words]] = {
        order: ring.context.linear_transform(sources, case["terms"], keys, plaintexts, *shape, order)
        for order in ORDERS
    }
    for order in ORDERS:
        assert len(results[order]) == len(expected)
        for got, want in zip(results[order], expected, strict=True):
            np.testing.assert_array_equal(got, want, err_msg=order)


def test_many_terms_with_coefficient_plaintexts() -> None:
    """More terms than are encoded at one time."""
    ring = rings(2, 2)
    x, keys = ring.random_ciphertext(4), [ring.random_key(4) for _ in range(3)]
    masks = [ring.small(2**30) for _ in range(21)]
    terms = [(0, 0, pow(5, t, 32), t % 3, t) for t in range(21)]
    expected = ring.linear_transform([x], terms, keys, lambda t: to_object(masks[t]), 1, True)
    for order in ORDERS:
        got = ring.context.linear_transform([x], terms, keys, masks, 1, True, order)
        np.testing.assert_array_equal(got[0], expected[0])


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_do_not_change_a_bit(threads: int) -> None:
    import cipherblas._core as _core

    ring = Ring(n=1 << 12, alpha=2)
    x = ring.random_ciphertext(3)
    key = ring.random_key(5)
    terms = [(o, 0, ring.context.galois_element(o + 1), 0, -1) for o in range(9)]
    before = _core.threads()
    try:
        _core.set_threads(1)
        expected = ring.context.linear_transform([x], terms, [key], [], 9, False, "rotation")
        _core.set_threads(threads)
        assert _core.threads() == threads
        for order in ORDERS:
            got = ring.context.linear_transform([x], terms, [key], [], 9, False, order)
            np.testing.assert_array_equal(np.stack(got), np.stack(expected))
    finally:
        _core.set_threads(before)
