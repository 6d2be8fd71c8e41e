"""Encrypted slots at real ring degrees against NumPy, entry by entry, within bounds derived from the noise."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas._core as _core

Complex = NDArray[np.complex128]
Words = NDArray[np.uint64]
SIGMA, TAIL = 3.2, 7.0


class Scheme:
    """A secret, its keys and slot encryption, written out on the core. Test randomness: INSECURE."""

    def __init__(
        self, log_n: int, limbs: int, special: int, alpha: int, bits: int = 45, seed: int = 1
    ) -> None:
        n = 1 << log_n
        q = _core.primes(n, 50, 1)
        q += _core.primes_near(n, 2.0**bits, limbs - 1, q)
        p = _core.primes(n, 50, special, q)
        self.context = _core.Context(n, q, p, alpha)
        self.n, self.q, self.p, self.alpha = n, q, p, alpha
        self.scale = 2.0**bits
        self.generator = np.random.default_rng(seed)
        stream = self.generator.integers(0, 256, n + 512, dtype=np.uint8)
        self.secret = self.context.plaintext(self.context.ternary(stream), limbs, special=True)
        self.special_index = list(range(limbs, limbs + special))

    def words(self, *shape: int) -> Words:
        return self.generator.integers(0, 2**64, shape, dtype=np.uint64)

    def noise(self) -> NDArray[np.int64]:
        return self.context.gaussian(self.words(self.n))

    def key(self, source: Words, limbs: int) -> Words:
        index = [*range(limbs), *self.special_index]
        digits = -(-limbs // self.alpha)
        a = np.stack(
            [self.context.uniform(self.words(len(index), self.n + 128), index) for _ in range(digits)]
        )
        noise = np.stack([self.noise() for _ in range(digits)])
        return self.context.switching_key(self.secret, source, a, noise, limbs)

    def galois_key(self, galois: int, limbs: int) -> Words:
        return self.key(self.context.automorphism(self.secret, galois), limbs)

    def encrypt(self, values: Complex, limbs: int) -> Words:
        a = self.context.uniform(self.words(limbs, self.n + 128), list(range(limbs)))
        message = self.context.encode(values, self.scale)
        return np.stack([self.context.encrypt_symmetric(self.secret, a, self.noise(), message), a])

    def decrypt(self, ciphertext: Words, scale: float) -> Complex:
        return self.context.decode(self.context.phase(self.secret, ciphertext) / scale)

    def slots(self) -> Complex:
        values = self.generator.uniform(-1, 1, (2, self.n // 2))
        return (values[0] + 1j * values[1]) / np.sqrt(2)

    # Standard deviations of a coefficient's error.

    @property
    def rounding(self) -> float:
        """Of a division with rounding: the b part's, and the a part's times the ternary secret."""
        return float(np.sqrt((1 + 2 * self.n / 3) / 12))

    def switching(self, limbs: int) -> float:
        """Of a key switch, before its ModDown's rounding: digits up to D_d / 2 times sigma, over P."""
        largest = max(prod(self.q[i : i + self.alpha][: limbs - i]) for i in range(0, limbs, self.alpha))
        digits = -(-limbs // self.alpha)
        return float(np.sqrt(digits * self.n / 12) * SIGMA * (largest / prod(self.p)))

    def in_slots(self, coefficient: float, scale: float) -> float:
        """Bound of the slot error (absolute value) for errors of this standard deviation per coefficient."""
        return TAIL * coefficient * float(np.sqrt(self.n)) / scale


SCHEMES = {
    "n13_alpha1": (13, 3, 1, 1),
    "n13_alpha2": (13, 4, 2, 2),
    "n12_alpha3": (12, 7, 3, 3),
}


@pytest.fixture(scope="module", params=SCHEMES.values(), ids=SCHEMES.keys())
def scheme(request: pytest.FixtureRequest) -> Scheme:
    return Scheme(*request.param)


def close(got: Complex, expected: Complex, bound: float) -> None:
    assert np.abs(got - expected).max() < bound
    assert bound < 1e-4  # a bound that proves something


def test_encryption(scheme: Scheme) -> None:
    x = scheme.slots()
    for limbs in (1, 2, len(scheme.q)):
        got = scheme.decrypt(scheme.encrypt(x, limbs), scheme.scale)
        close(got, x, scheme.in_slots(SIGMA + 0.5, scheme.scale))


def rotations(scheme: Scheme, limbs: int, key_limbs: int, steps: Sequence[int], order: str) -> None:
    x = scheme.slots()
    elements = [scheme.context.galois_element(step) for step in steps] + [2 * scheme.n - 1]
    keys = [scheme.galois_key(element, key_limbs) for element in elements]
    terms = [(o, 0, element, o, -1) for o, element in enumerate(elements)]
    rotated = scheme.context.linear_transform(
        [scheme.encrypt(x, limbs)], terms, keys, [], len(terms), False, order
    )
    error = SIGMA + 0.5 + scheme.switching(limbs) + scheme.rounding
    bound = scheme.in_slots(error, scheme.scale)
    for step, ciphertext in zip(steps, rotated, strict=False):
        close(scheme.decrypt(ciphertext, scheme.scale), np.roll(x, -step), bound)
    close(scheme.decrypt(rotated[-1], scheme.scale), x.conj(), bound)


@pytest.mark.parametrize("order", ["limb", "rotation"])
def test_hoisted_rotations_and_conjugation(scheme: Scheme, order: str) -> None:
    top = len(scheme.q)
    rotations(scheme, top, top, [1, -1, 5, scheme.n // 4], order)


def test_keys_for_more_limbs_than_the_ciphertext(scheme: Scheme) -> None:
    top = len(scheme.q)
    for limbs in range(2, top):
        rotations(scheme, limbs, top, [3], "limb")


def test_product_relinearised_and_rescaled(scheme: Scheme) -> None:
    top = len(scheme.q)
    key = scheme.key(scheme.context.multiply(scheme.secret, scheme.secret), top)
    pairs = [(scheme.slots(), scheme.slots()) for _ in range(5)]
    for limbs in range(2, top + 1):
        lefts = [scheme.encrypt(x, limbs) for x, _ in pairs]
        rights = [scheme.encrypt(y, limbs) for _, y in pairs]
        expected = sum(x * y for x, y in pairs)
        product = scheme.context.multiply_sum(lefts, rights)
        scale = scheme.scale**2 / scheme.q[limbs - 1]
        # Each factor's error meets a factor of at most 1; sums of five products.
        fresh = scheme.in_slots(SIGMA + 0.5, scheme.scale) * 2 * 5
        if limbs > 2:  # three components decrypt without a key; q_0 q_1 must hold the doubled scale
            close(scheme.decrypt(product, scheme.scale**2), expected, fresh)
        relinearised = scheme.context.relinearise(product, key)
        assert relinearised.shape == (2, limbs, scheme.n)
        result = scheme.context.rescale(relinearised)
        switched = scheme.in_slots(scheme.switching(limbs) + scheme.rounding, scheme.scale**2)
        rescaled = scheme.in_slots(scheme.rounding, scale)
        close(scheme.decrypt(result, scale), expected, fresh + switched + rescaled)


def test_a_product_relinearised_at_once_has_the_same_bits(scheme: Scheme) -> None:
    top = len(scheme.q)
    context = scheme.context
    key = scheme.key(context.multiply(scheme.secret, scheme.secret), top)
    for limbs in range(2, top + 1):
        x, y = (scheme.encrypt(scheme.slots(), limbs) for _ in range(2))
        for left, right in ((x, y), (x, x)):
            expected = context.relinearise(context.multiply_sum([left], [right]), key)
            assert np.array_equal(context.multiply_relinearise(left, right, key), expected)


@pytest.mark.parametrize("rescale", [False, True])
@pytest.mark.parametrize("prepared", [False, True])
def test_linear_transform(scheme: Scheme, prepared: bool, rescale: bool) -> None:
    """Two outputs, each a masked sum of rotations of two sources; both orders give the same bits."""
    limbs = len(scheme.q)
    x, y = scheme.slots(), scheme.slots()
    steps = [0, 1, 7, -3]
    keys = [scheme.galois_key(scheme.context.galois_element(step), limbs) for step in steps[1:]]
    mask_scale = float(scheme.q[limbs - 1])
    masks = [scheme.slots() for _ in range(8)]
    coefficients = [scheme.context.encode(mask, mask_scale) for mask in masks]
    plaintexts = [
        scheme.context.plaintext(m, limbs, special=True, montgomery=True) if prepared else m
        for m in coefficients
    ]
    terms, expected = [], [np.zeros_like(x), np.zeros_like(x)]
    for t, step in enumerate(steps):
        for source, values in enumerate((x, y)):
            output, mask = (t + source) % 2, 2 * t + source
            terms.append((output, source, scheme.context.galois_element(step), t - 1, mask))
            expected[output] = expected[output] + masks[mask] * np.roll(values, -step)
    sources = [scheme.encrypt(x, limbs), scheme.encrypt(y, limbs)]
    results = {
        order: scheme.context.linear_transform(sources, terms, keys, plaintexts, 2, rescale, order)
        for order in ("limb", "rotation")
    }
    np.testing.assert_array_equal(np.stack(results["limb"]), np.stack(results["rotation"]))
    scale = scheme.scale if rescale else scheme.scale * mask_scale
    per_term = scheme.in_slots(SIGMA + 0.5 + scheme.switching(limbs), scheme.scale)
    masks_rounded = scheme.in_slots(0.5, mask_scale)
    bound = 4 * (per_term + masks_rounded) + scheme.in_slots(scheme.rounding, scale)
    for got, want in zip(results["limb"], expected, strict=True):
        assert got.shape == (2, limbs - rescale, scheme.n)
        close(scheme.decrypt(got, scale), want, bound)


def test_scalars_plaintexts_and_sums(scheme: Scheme) -> None:
    limbs = len(scheme.q)
    x, y, mask = scheme.slots(), scheme.slots(), scheme.slots()
    cx, cy = scheme.encrypt(x, limbs), scheme.encrypt(y, limbs)
    context, bound = scheme.context, scheme.in_slots(SIGMA + 0.5, scheme.scale)
    plain = context.plaintext(context.encode(mask, scheme.scale), limbs)
    message = context.encode(mask, scheme.scale)
    factor, words = context.factor(message, limbs), context.plaintext(message, limbs, montgomery=True)
    close(scheme.decrypt(context.sub(cx, context.neg(cy)), scheme.scale), x + y, 2 * bound)
    close(scheme.decrypt(context.add_plain(cx, plain), scheme.scale), x + mask, 2 * bound)
    close(scheme.decrypt(context.multiply_scalar(cx, -12), scheme.scale), -12 * x, 12 * bound)
    close(scheme.decrypt(context.multiply_plain(cx, words), scheme.scale**2), x * mask, 2 * bound)
    total = context.multiply_plain_sum([factor, factor], [cx, cy])
    close(scheme.decrypt(total, scheme.scale**2), (x + y) * mask, 4 * bound)


def test_public_key_encryption(scheme: Scheme) -> None:
    limbs = len(scheme.q)
    a = scheme.context.uniform(scheme.words(limbs, scheme.n + 128), list(range(limbs)))
    zero = np.zeros(scheme.n, dtype=np.int64)
    public = np.stack([scheme.context.encrypt_symmetric(scheme.secret, a, scheme.noise(), zero), a])
    x = scheme.slots()
    v = scheme.context.ternary(scheme.generator.integers(0, 256, scheme.n + 512, dtype=np.uint8))
    ciphertext = scheme.context.encrypt_public(
        public, v, scheme.noise(), scheme.noise(), scheme.context.encode(x, scheme.scale), 2
    )
    # e_0 + e v + e_1 s, with ternary v and s
    error = SIGMA * np.sqrt(1 + 2 * 2 * scheme.n / 3) + 0.5
    close(scheme.decrypt(ciphertext, scheme.scale), x, scheme.in_slots(error, scheme.scale))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_ring_whose_limbs_are_treated_in_groups(threads: int) -> None:
    """N = 2^15 with more limbs than a group holds: decrypts, and both orders give the same bits."""
    scheme = Scheme(15, 15, 5, 5)
    x, step, limbs = scheme.slots(), 5, 14
    elements = [scheme.context.galois_element(step), 2 * scheme.n - 1]
    keys = [scheme.galois_key(element, 15) for element in elements]
    mask_scale = float(scheme.q[limbs - 1])
    masks = [scheme.slots() for _ in range(2)]
    plaintexts = [scheme.context.encode(mask, mask_scale) for mask in masks]
    ciphertext = scheme.encrypt(x, limbs)
    single = [(0, 0, elements[0], 0, -1)]
    weighted = [(o, 0, elements[t], t, (t + o) % 2) for o in range(3) for t in range(2)]
    before = _core.threads()
    try:
        _core.set_threads(threads)
        for order in ("limb", "rotation"):
            (rotated,) = scheme.context.linear_transform([ciphertext], single, keys, [], 1, False, order)
            sums = scheme.context.linear_transform([ciphertext], weighted, keys, plaintexts, 3, True, order)
            if order == "limb":
                first = [rotated, *sums]
            else:
                np.testing.assert_array_equal(rotated, first[0])
                np.testing.assert_array_equal(np.stack(sums), np.stack(first[1:]))
        rescaled = scheme.context.rescale(rotated, 2)
    finally:
        _core.set_threads(before)
    error = SIGMA + 0.5 + scheme.switching(limbs) + scheme.rounding
    bound = scheme.in_slots(error, scheme.scale)
    close(scheme.decrypt(rotated, scheme.scale), np.roll(x, -step), bound)
    scale = scheme.scale / (scheme.q[limbs - 1] * scheme.q[limbs - 2])
    assert rescaled.shape == (2, limbs - 2, scheme.n)
    divided = scheme.decrypt(rescaled, 1.0) - scheme.decrypt(rotated, 1.0) * scale / scheme.scale
    assert np.abs(divided).max() < scheme.in_slots(scheme.rounding, 1.0)
    per_term = scheme.in_slots(SIGMA + 0.5 + scheme.switching(limbs), scheme.scale)
    bound = 2 * (per_term + scheme.in_slots(0.5, mask_scale)) + scheme.in_slots(scheme.rounding, scheme.scale)
    turned = [np.roll(x, -step), x.conj()]
    for output, got in enumerate(sums):
        expected = sum(masks[(t + output) % 2] * turned[t] for t in range(2))
        close(scheme.decrypt(got, scheme.scale), expected, bound)
