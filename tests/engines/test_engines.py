"""Every call of the protocol: the reference on NumPy integers and the processor give the same words."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.errors import RangeError
from cipherblas.common.memory import aligned
from cipherblas.crypto.fields import OPERAND_MODULI
from cipherblas.crypto.keys.switching import key_shape, pack
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.operations import OPERATIONS
from cipherblas.engines.protocol import Engine
from cipherblas.rlwe.matrices.transposition import POLICIES, transpose_plan
from tests.support import reference_ring as ring
from tests.support.reference_engine import ReferenceEngine

Words = NDArray[np.uint64]


@functools.cache
def toy(
    n: int,
    q_bits: tuple[float, ...],
    alpha: int,
    special_limbs: int | None,
    digit_limbs: tuple[int, ...] | None = None,
    operand_moduli: tuple[int, ...] | None = None,
) -> Parameters:
    """INSECURE."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_parameters(
            *(n, list(q_bits)),
            special_limbs=special_limbs,
            alpha=alpha,
            scale_bits=30.0,
            insecure=True,
            digit_limbs=digit_limbs,
            operand_moduli=operand_moduli,
        )


# Least rings and larger ones; one prime per digit and several; keys packed by 48 bits (all primes below 2^48) and 50.
RINGS = {
    "N=8": (8, (50.0, 40.0, 40.0, 45.0), 2, None),
    "N=16 packed": (16, (46.0, 40.0, 40.0, 40.0), 1, 2),
    "N=64": (64, (50.0, 50.0, 40.0, 40.0, 40.0), 2, None),
    "N=64, one digit": (64, (44.0, 36.0, 36.0), 3, 3),
    "N=64, unlike digits": (64, (50.0, 40.0, 40.0, 40.0, 50.0), 3, None, (1, 3, 1)),
    "N=512 packed": (512, (45.0, 38.0, 38.0, 38.0), 2, 2),
}


@dataclass
class Both:
    """The two engines on one ring, and random or extreme arguments for them."""

    params: Parameters
    extreme: bool
    random: np.random.Generator

    def __post_init__(self) -> None:
        self.engines: tuple[Engine, Engine] = (CpuEngine(self.params), ReferenceEngine(self.params))
        self.top = self.params.limbs

    def residues(self, shape: tuple[int, ...], q: int) -> Words:
        if self.extreme:
            return self.random.choice(np.array([0, q - 1], np.uint64), shape)
        return self.random.integers(0, q, shape, np.uint64)

    def ciphertext(self, limbs: int, components: int = 2) -> Words:
        n, primes = self.params.n, self.params.q[:limbs]
        return np.stack([self.residues((components, n), q) for q in primes], axis=1)

    def matrix(self, limbs: int, rows: int, cols: int) -> Words:
        return np.stack([self.residues((rows, cols), q) for q in self.params.q[:limbs]])

    def key(self, limbs: int) -> Words:
        digits = key_shape(self.params, limbs)[0]
        primes = [*self.params.q[:limbs], *self.params.p]
        rows = np.stack([self.residues((digits, 2, self.params.n), q) for q in primes], axis=2)
        return np.ascontiguousarray(pack(self.params, rows))

    def message(self, bits: int = 40) -> NDArray[np.int64]:
        edge = 1 << bits
        if self.extreme:
            return self.random.choice(np.array([-edge, 0, edge]), self.params.n)
        return self.random.integers(-edge, edge, self.params.n)

    def check(self, call: Callable[[Engine], Any]) -> None:
        """The call gives equal arrays on both, that are residues of their limbs."""
        found, expected = (call(engine) for engine in self.engines)
        found, expected = (_listed(value) for value in (found, expected))
        assert len(found) == len(expected) > 0
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)

    def check_ciphertext(self, call: Callable[[Engine], Any]) -> None:
        self.check(lambda engine: [engine.download(ct) for ct in _listed(call(engine))])

    def check_matrix(self, call: Callable[[Engine], Any]) -> None:
        self.check(lambda engine: [engine.download_matrix(part) for part in _listed(call(engine))])


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


@pytest.fixture(params=["random", "extreme"])
def extreme(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "extreme")


@pytest.fixture(params=list(RINGS))
def both(request: pytest.FixtureRequest, extreme: bool) -> Both:
    return Both(toy(*RINGS[request.param]), extreme, np.random.default_rng(1))


def test_every_call_has_a_record_and_every_engine_offers_it() -> None:
    """With the arguments of the protocol, and with kinds in the record that say what it returns."""
    calls = {name for name in dir(Engine) if not name.startswith("_")}
    assert calls == set(OPERATIONS)
    for name, operation in OPERATIONS.items():
        for engine in (CpuEngine, ReferenceEngine):
            assert name in vars(engine), (engine, name)
            found = inspect.signature(getattr(engine, name)).parameters
            assert list(found) == list(operation.signature.parameters)
        assert set(operation.shares) <= set(operation.signature.parameters)
        assert (operation.made is None) == (name in ("beside", "weights_shape", "write_weights"))


# --- the reference itself, against the definitions ---


@pytest.mark.parametrize("n", [8, 64])
def test_values_of_a_polynomial(n: int) -> None:
    (q,) = _core.primes(n, 50, 1, [])
    x = np.random.default_rng(n).integers(0, q, n, np.uint64)
    root = ring.smallest_root(n, q)
    assert pow(root, n, q) == q - 1
    for place, value in enumerate(ring.ntt(x, q)):
        point = pow(root, 2 * int(ring.reversed_bits(n)[place]) + 1, q)
        assert value == sum(int(c) * pow(point, k, q) for k, c in enumerate(x)) % q
    np.testing.assert_array_equal(ring.intt(ring.ntt(x, q), q), x)


def test_residues_and_matrices_of_them() -> None:
    (q,) = _core.primes(8, 50, 1, [])
    rng = np.random.default_rng(2)
    x, y = (rng.integers(0, q, (5, 5), np.uint64) for _ in range(2))
    x[0], y[:, 0] = q - 1, q - 1
    whole = x.astype(object), y.astype(object)
    np.testing.assert_array_equal(ring.times(x, y, q), (whole[0] * whole[1] % q).astype(np.uint64))
    np.testing.assert_array_equal(
        ring.matrix_product(x, y, q), (whole[0].dot(whole[1]) % q).astype(np.uint64)
    )


def test_centred_numbers() -> None:
    primes = _core.primes(8, 50, 3, [])
    modulus = primes[0] * primes[1] * primes[2]
    for x in (0, 1, -1, modulus // 2, -(modulus // 2), modulus // 3, modulus // 2 - (modulus >> 44)):
        limbs = [np.array([x % q], np.uint64) for q in primes]
        found = ring.centred(limbs, primes)[0]
        assert (found - x) % modulus == 0 and abs(found) <= modulus // 2 + (modulus >> 45)
        assert found == x or abs(x) == modulus // 2
        assert ring.centred(limbs[:1], primes[:1])[0] == (x + primes[0] // 2) % primes[0] - primes[0] // 2


# --- ciphertexts ---


def test_border(both: Both) -> None:
    """What is uploaded comes back; the least limbs of it too."""
    ct, matrix = both.ciphertext(both.top, 3), both.matrix(both.top, 3, 5)
    for engine in both.engines:
        np.testing.assert_array_equal(engine.download(engine.upload(ct)), ct)
        np.testing.assert_array_equal(engine.download_matrix(engine.upload_matrix(matrix)), matrix)
        np.testing.assert_array_equal(engine.download(engine.drop(engine.upload(ct), 1)), ct[:, :1])


@pytest.mark.parametrize("components", [(2, 2), (2, 3), (3, 2)])
def test_sums(both: Both, components: tuple[int, int]) -> None:
    for limbs in (1, both.top):
        x, y = (both.ciphertext(limbs, count) for count in components)
        both.check_ciphertext(lambda e, x=x, y=y: e.add(e.upload(x), e.upload(y)))
        both.check_ciphertext(lambda e, x=x, y=y: e.sub(e.upload(x), e.upload(y)))
        both.check_ciphertext(lambda e, x=x: e.neg(e.upload(x)))


@pytest.mark.parametrize("value", [0, 1, -1, 7, -(1 << 90), 3**60])
def test_scalars(both: Both, value: int) -> None:
    x = both.ciphertext(both.top, 3)
    both.check_ciphertext(lambda e: e.multiply_scalar(e.upload(x), value))


@pytest.mark.parametrize("components", [2, 3])
def test_sums_of_scaled_ciphertexts(both: Both, components: int) -> None:
    values = [0, 1, -1, 7, -(1 << 90), 3**60]
    for limbs in (1, both.top):
        cts = [both.ciphertext(limbs, components) for _ in values]
        for number, constant in ((1, 0), (2, -5), (len(values), 1 << 80)):
            both.check_ciphertext(
                lambda e, cts=cts[-number:], constant=constant: e.scaled_sums(
                    [([e.upload(ct) for ct in cts], values[-len(cts) :], constant)]
                )[0]
            )


def test_sums_of_scaled_ciphertexts_that_share_terms(both: Both) -> None:
    """Sums of fewer limbs, and of more components, beside others."""
    x, y = both.ciphertext(both.top), both.ciphertext(both.top)
    three = both.ciphertext(both.top, 3)

    def sums(e: Engine) -> Any:
        left, right = e.upload(x), e.upload(y)
        low = [e.drop(ct, 1) for ct in (left, right)]
        return e.scaled_sums(
            [
                ([left, right], [3, -(1 << 70)], 5),
                (low, [-1, 9], 0),
                ([e.upload(three)], [7], 1 << 60),
                ([right, left, left], [2, 4, -6], 0),
            ]
        )

    both.check_ciphertext(sums)


def test_plaintexts(both: Both) -> None:
    for bits in (3, 40, 61):
        x, y, message = both.ciphertext(both.top), both.ciphertext(both.top), both.message(bits)

        def plain(e: Engine, message: Any = message) -> tuple[Any, Any]:
            handle = e.upload_message(message)
            return e.addend(handle, both.top), e.factor(handle, both.top)

        both.check_ciphertext(lambda e, plain=plain, x=x: e.add_plain(e.upload(x), plain(e)[0]))
        both.check_ciphertext(lambda e, plain=plain: e.encryption(plain(e)[0]))
        for accumulator in (None, y):
            both.check_ciphertext(
                lambda e, plain=plain, x=x, y=y, total=accumulator: e.multiply_plain_sum(
                    [plain(e)[1]] * 2, [e.upload(x), e.upload(y)], _owned(e, total)
                )
            )


def _owned(engine: Engine, words: Words | None) -> Any:
    """An accumulator, which may be overwritten: made by the engine."""
    return None if words is None else engine.neg(engine.upload(words))


def test_plaintexts_have_a_size(both: Both) -> None:
    for engine in both.engines:
        message = engine.upload_message(both.message())
        for kept in (message, engine.addend(message, 2), engine.factor(message, 2)):
            assert 0 < kept.nbytes <= 2 * 8 * both.params.n


@pytest.mark.parametrize("count", [1, 3])
def test_sums_of_products(both: Both, count: int) -> None:
    for limbs in (1, both.top):
        lefts, rights = ([both.ciphertext(limbs) for _ in range(count)] for _ in range(2))
        total = both.ciphertext(limbs, 3)
        for accumulator in (None, total):
            both.check_ciphertext(
                lambda e, lefts=lefts, rights=rights, total=accumulator: e.multiply_sum(
                    [e.upload(x) for x in lefts], [e.upload(x) for x in rights], _owned(e, total)
                )
            )


def test_weighted_sums(both: Both) -> None:
    if both.params.n < 64:
        pytest.skip("pieces of weights are at least 64 words")
    cts = [both.ciphertext(both.top) for _ in range(3)]
    messages = [[both.message() for _ in range(count)] for count in (2, 3)]
    terms = [[2, 0], [0, 1, 2]]

    def sums(engine: Engine) -> list[Any]:
        arrays = []
        for group in messages:
            array = np.empty(engine.weights_shape(both.top, len(group), len(cts)), np.uint64)
            handles = [engine.upload_message(message) for message in group]
            engine.write_weights(array, 0, handles[:1])
            engine.write_weights(array, 1, handles[1:])
            arrays.append(array)
        return engine.weighted_sums(arrays, terms, [engine.upload(ct) for ct in cts])

    both.check_ciphertext(sums)


def test_polynomial_sums(both: Both) -> None:
    """Of few coefficients and of all, the largest among them."""
    n = both.params.n
    for limbs, outputs, terms, count in ((1, 1, 1, 8), (both.top, 3, 2, min(n, 16)), (2, 2, 5, n)):
        cts = [both.ciphertext(limbs) for _ in range(terms)]
        polynomials = np.random.default_rng(count).integers(-(2**52), 2**52, (outputs, terms, count))
        polynomials[0, 0, :2] = -(2**62), 2**62
        both.check_ciphertext(
            lambda e, cts=cts, all_of=polynomials: e.polynomial_sums(all_of, [e.upload(ct) for ct in cts])
        )


@pytest.mark.parametrize("components", [2, 3])
def test_rescale(both: Both, components: int) -> None:
    for limbs in (2, both.top):
        x = both.ciphertext(limbs, components)
        both.check_ciphertext(lambda e, x=x: e.rescale(e.upload(x)))


# --- key switching ---


def test_relinearisation(both: Both) -> None:
    """Also by a key that was made for more limbs."""
    key = both.key(both.top)
    for limbs in (1, 2, both.top):
        x, y, product = both.ciphertext(limbs), both.ciphertext(limbs), both.ciphertext(limbs, 3)
        both.check_ciphertext(lambda e, x=product: e.relinearise(e.upload(x), e.upload_key(key)))
        both.check_ciphertext(
            lambda e, x=x, y=y: e.multiply_relinearise(e.upload(x), e.upload(y), e.upload_key(key))
        )


def test_sums_of_products_are_relinearised(both: Both) -> None:
    """Of fewer sums than threads, and more."""
    key = both.key(both.top)
    for limbs, terms, sums in ((1, 3, 1), (both.top, 1, 4), (both.top, 3, 5), (1, 2, 19)):
        lefts = [both.ciphertext(limbs) for _ in range(terms)]
        rights = [[both.ciphertext(limbs) for _ in range(terms)] for _ in range(sums)]
        for number in range(sums):
            both.check_ciphertext(
                lambda e, lefts=lefts, rights=rights, number=number: e.relinearised_sums(
                    *([e.upload(ct) for ct in lefts], [[e.upload(ct) for ct in each] for each in rights]),
                    e.upload_key(key),
                )[number]
            )


def test_products_that_are_rescaled(both: Both) -> None:
    """At once, with what is added."""
    key, large = both.key(both.top), 3**40
    for limbs in range(2, both.top + 1):
        x, y, z, product = (both.ciphertext(limbs, components) for components in (2, 2, 2, 3))
        both.check_ciphertext(lambda e, x=product: e.relinearise(e.upload(x), e.upload_key(key), True))
        for added, numbers in ((None, (1, 0, 0)), (z, (2, -large, large)), (None, (-large, 0, -1))):
            both.check_ciphertext(
                lambda e, x=x, y=y, z=added, numbers=numbers: e.multiply_rescale(
                    *(e.upload(x), e.upload(y), e.upload_key(key)),
                    *(numbers[0], None if z is None else e.upload(z), *numbers[1:]),
                )
            )


def test_switches_between_secrets(both: Both) -> None:
    key = both.key(both.top)
    for limbs in (1, 2, both.top):
        x = both.ciphertext(limbs)
        both.check_ciphertext(lambda e, x=x: e.switch(e.upload(x), e.upload_key(key)))


def test_raised_moduli(both: Both) -> None:
    """Also of what an engine for other parameters made."""
    x = both.ciphertext(1)
    for limbs in (1, 2, both.top):
        both.check_ciphertext(lambda e, limbs=limbs: e.raised(e.upload(x), limbs))
    other = toy(both.params.n, (50.0,), 1, None)
    if other.q[0] == both.params.q[0]:
        both.check_ciphertext(lambda e: e.raised(e.beside(other).upload(x), both.top))


Giants: TypeAlias = list[tuple[int, int, list[tuple[int, int]]]]


@pytest.mark.parametrize("giants", [(1,), (5,), (1, 5), (5, 25), (1, 5, 25)])
def test_giant_steps(both: Both, giants: tuple[int, ...]) -> None:
    """Rotations for several sums, one of them in place; sums of one term and of none; several sources."""
    order = 2 * both.params.n
    keys = [both.key(both.top) for _ in range(5)]
    babies = [(5, 0), (1, -1), (order - 1, 1), (25 % order, 2)]
    terms: list[list[tuple[int, int]]] = [[(0, 0), (1, 1), (3, 2)], [(2, 0), (0, 3)], []]
    steps: Giants = [
        (galois % order, -1 if galois == 1 else 2 + number, terms[number])
        for number, galois in enumerate(giants)
    ]
    messages = [both.message() for _ in range(4)]
    for limbs in range(2, both.top + 1):
        xs = [both.ciphertext(limbs) for _ in range(3)]

        def sums(e: Engine, xs: Any = xs, limbs: int = limbs) -> list[Any]:
            return e.giant_steps(
                *([e.upload(x) for x in xs], babies, steps, [e.upload_key(key) for key in keys]),
                [e.extended_factor(e.upload_message(m), limbs) for m in messages],
            )

        both.check_ciphertext(sums)
        both.check_ciphertext(lambda e, xs=xs: sums(e, xs[:1]))


@pytest.mark.parametrize("order", ["limb", "rotation"])
@pytest.mark.parametrize("rescale", [False, True])
def test_linear_transforms(both: Both, order: str, rescale: bool) -> None:
    """Two sources, with keys and without, plaintexts or none in an output; one output without terms."""
    n = both.params.n
    terms = [
        *((0, 0, 5, 0, 0), (0, 1, 2 * n - 1, 1, 1), (0, 1, 1, -1, 2)),
        *((1, 0, 1, -1, -1), (1, 1, pow(5, 3, 2 * n), 0, -1)),
        *((3, 0, 1, -1, -1), (3, 1, 1, -1, -1)),
    ]
    for limbs in (2, both.top):
        sources = [both.ciphertext(limbs) for _ in range(2)]
        keys = [both.key(both.top), both.key(limbs)]
        plaintexts = [both.message() for _ in range(3)]

        def transformed(
            e: Engine, sources: Any = sources, keys: Any = keys, plaintexts: Any = plaintexts
        ) -> Any:
            return e.linear_transform(
                [e.upload(x) for x in sources],
                terms,
                [e.upload_key(key) for key in keys],
                [e.upload_message(message) for message in plaintexts],
                4,
                rescale,
                order,
            )

        both.check_ciphertext(transformed)


def test_transforms_without_keys(both: Both) -> None:
    x, message = both.ciphertext(both.top), both.message()
    for rescale in (False, True):
        both.check_ciphertext(
            lambda e, rescale=rescale: e.linear_transform(
                [e.upload(x)], [(0, 0, 1, -1, 0)], [], [e.upload_message(message)], 1, rescale, "limb"
            )
        )


# --- matrices of residues ---


def test_sums_of_matrices(both: Both) -> None:
    for limbs in (1, both.top):
        x, y, z = both.matrix(limbs, 6, 16), both.matrix(limbs, 6, 16), both.matrix(limbs, 3, 8)
        both.check_matrix(lambda e, x=x, y=y: e.add_matrices(e.upload_matrix(x), e.upload_matrix(y)))
        both.check_matrix(lambda e, x=x, y=y: e.sub_matrices(e.upload_matrix(x), e.upload_matrix(y)))
        # of what was cut out, and transposed, which need not lie in one piece
        both.check_matrix(
            lambda e, x=x, z=z: e.add_matrices(
                e.cut(e.upload_matrix(x), rows=slice(0, 6, 2), columns=slice(8, 16)), e.upload_matrix(z)
            )
        )
        both.check_matrix(
            lambda e, x=x: e.sub_matrices(e.transposed(e.upload_matrix(x)), e.transposed(e.upload_matrix(x)))
        )


def test_division_by_the_last_limb(both: Both) -> None:
    for limbs in range(2, both.top + 1):
        x = both.matrix(limbs, 6, 16)
        both.check_matrix(lambda e, x=x: e.rescale_matrix(e.upload_matrix(x)))
        both.check_matrix(
            lambda e, x=x: e.rescale_matrix(
                e.cut(e.upload_matrix(x), rows=slice(0, 6, 2), columns=slice(5, 9))
            )
        )


def operand_words(both: Both, moduli: Sequence[int], rows: int, cols: int) -> Words:
    """Residues modulo all of them, a byte each."""
    words = np.zeros((-(-len(moduli) // 8), rows, cols), np.uint64)
    for i, modulus in enumerate(moduli):
        words[i // 8] |= both.residues((rows, cols), modulus) << np.uint64(8 * (i % 8))
    return words


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 16])
@pytest.mark.parametrize("limbs", [1, 2])
@pytest.mark.parametrize("columns", [1, 8])
def test_products_of_operands(
    count: int, limbs: int, columns: int, extreme: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cipherblas.engines.cpu.GRAM_COLUMNS", columns)
    moduli = OPERAND_MODULI[:count]
    both = Both(toy(16, (45.0, 33.0)[:limbs], 1, None, None, moduli), extreme, np.random.default_rng(count))

    def operand(rows: int, cols: int) -> Words:
        return operand_words(both, moduli, rows, cols)

    for x, y in (
        (operand(5, 9), operand(9, 16)),
        (operand(1, 1), operand(1, 3)),
        (operand(3, 4100), operand(4100, 5)),
    ):
        both.check_matrix(lambda e, x=x, y=y: e.multiply_operands(e.upload_matrix(x), e.upload_matrix(y)))
        both.check_matrix(
            lambda e, y=y: e.multiply_operands(e.transposed(e.upload_matrix(y)), e.upload_matrix(y))
        )
    z = operand(9, 16)
    both.check_matrix(lambda e: e.gram_operands(e.upload_matrix(z)))
    whole = np.random.default_rng(count).integers(-(1 << 15), 1 << 15, (7, 9), np.int16, endpoint=False)
    whole[0, :2] = -(1 << 15), (1 << 15) - 1
    for integers in (whole, whole.T.astype(np.float64).T, -whole.astype(np.int64), np.zeros_like(whole)):
        both.check_matrix(lambda e, integers=integers: e.operand_integers(integers))
        both.check_matrix(
            lambda e, integers=integers: e.multiply_operands(e.operand_integers(integers), e.upload_matrix(z))
        )
    with pytest.raises(RangeError, match="16 bits"):
        both.engines[0].operand_integers(np.array([[0, 1 << 17]]))


def test_products_of_matrices(both: Both) -> None:
    for limbs in (1, both.top):
        x, y = both.matrix(limbs, 5, 9), both.matrix(limbs, 9, 16)
        both.check_matrix(lambda e, x=x, y=y: e.multiply_matrices(e.upload_matrix(x), e.upload_matrix(y)))
        both.check_matrix(lambda e, y=y: e.gram(e.upload_matrix(y)))
        both.check_matrix(
            lambda e, y=y: e.multiply_matrices(e.transposed(e.upload_matrix(y)), e.upload_matrix(y))
        )


@pytest.mark.parametrize("columns", [1, 3, 8])
def test_symmetric_products_in_halves(both: Both, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cipherblas.engines.cpu.GRAM_COLUMNS", columns)
    for cols in (1, 7, 16):
        x = both.matrix(both.top, 5, cols)
        both.check_matrix(lambda e, x=x: e.gram(e.upload_matrix(x)))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.float64])
def test_products_of_integers_and_residues(both: Both, dtype: type[Any]) -> None:
    largest = 127 if dtype is np.int8 else 30_000
    integers = both.random.integers(-largest, largest + 1, (7, 12)).astype(dtype)
    integers[0] = largest
    x = both.matrix(both.top, 12, 16)
    both.check_matrix(lambda e: e.multiply_integers(integers, e.upload_matrix(x), True))
    rounded, exact = (
        engine.download_matrix(engine.multiply_integers(integers, engine.upload_matrix(x), False)).astype(
            object
        )
        for engine in both.engines
    )
    for limb, q in enumerate(both.params.q):
        difference = (rounded[limb] - exact[limb] + q // 2) % q - q // 2
        assert np.abs(difference).max() <= _core.small_gemm_error(12, largest, q)


def test_parts_of_matrices(both: Both) -> None:
    n, x, y = both.params.n, both.matrix(2, 4, 8), both.matrix(2, 3, 8)
    both.check_matrix(lambda e: e.transposed(e.upload_matrix(x)))
    both.check_matrix(lambda e: e.cut(e.upload_matrix(x), columns=slice(1, 8, 3)))
    both.check_matrix(lambda e: e.copied(e.cut(e.upload_matrix(x), rows=slice(1, 3))))
    both.check_matrix(lambda e: e.copied(e.upload_matrix(x)))
    both.check_matrix(lambda e: e.stack([e.upload_matrix(part) for part in (x, y, x)]))
    for strides in ((1, 1), (n // 4, 1), (1, n // 8), (n // 4, n // 8)):
        shape = (n if strides[0] > 1 else 4, n if strides[1] > 1 else 8)
        both.check_matrix(lambda e, s=shape, t=strides: e.spread(e.upload_matrix(x), s, t))


def test_copies_hold_no_more_than_their_own_memory() -> None:
    both = Both(toy(*RINGS["N=64"]), False, np.random.default_rng(3))
    engine = both.engines[0]
    whole = engine.multiply_matrices(
        engine.upload_matrix(both.matrix(1, 8, 4)), engine.upload_matrix(both.matrix(1, 4, 8))
    )
    part = engine.copied(engine.cut(whole, rows=slice(0, 2)))
    assert not np.shares_memory(part, whole)
    assert engine.copied(whole) is whole


def test_rows_are_switched(both: Both) -> None:
    n = both.params.n
    for limbs in (1, both.top):
        a, b = both.matrix(limbs, 3, n), both.matrix(limbs, 3, n)
        keys = [both.key(both.top), both.key(limbs)]
        for columns in (n, n // 2 + 1):
            both.check_matrix(
                lambda e, a=a, keys=keys, columns=columns: e.switch_rows(
                    e.upload_matrix(a), 2, [e.upload_key(key) for key in keys], columns
                )
            )
        both.check_matrix(
            lambda e, a=a, b=b, keys=keys: e.relinearise_rows(
                e.upload_matrix(a), e.upload_matrix(b), e.upload_key(keys[0])
            )
        )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["N=8", "N=16 packed", "N=64, one digit"])
def test_rows_are_transposed(name: str, policy: str, extreme: bool) -> None:
    both = Both(toy(*RINGS[name]), extreme, np.random.default_rng(4))
    n, limbs = both.params.n, 2
    for d in {8, n}:
        keys = [both.key(limbs) for _ in transpose_plan(d, policy).elements]  # type: ignore[arg-type]
        a, b = both.matrix(limbs, d, n), both.matrix(limbs, d, d)
        both.check_matrix(
            lambda e, a=a, b=b, keys=keys: e.transpose_rows(
                e.upload_matrix(a), e.upload_matrix(b), [e.upload_key(key) for key in keys], policy
            )
        )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("name", "parts"), [("N=8", 2), ("N=16 packed", 4), ("N=64, one digit", 16)])
def test_shared_transpositions(name: str, parts: int, policy: str, extreme: bool) -> None:
    """Classes and blocks, each in two calls, are the whole transposition, of either engine."""
    both = Both(toy(*RINGS[name]), extreme, np.random.default_rng(5))
    n, limbs = both.params.n, 2
    height = n // parts
    elements = transpose_plan(n, policy).elements  # type: ignore[arg-type]
    keys = [both.key(limbs) for _ in elements]
    a, b = both.matrix(limbs, n, n), both.matrix(limbs, n, n)
    partner = _core.inverse_blocks(parts)
    first = sorted({0, partner[0], parts - 1, partner[parts - 1]})
    shares = [first, [block for block in range(parts) if block not in first]]
    bounds = [0, height // 2 + 1, height]

    def transposed(engine: Engine, *, in_place: bool = False) -> tuple[Any, Any]:
        uploaded = [engine.upload_key(key) for key in keys]

        def by_classes(whole: Words, inverse: bool) -> Words:
            rows, out = (
                whole.reshape(limbs, parts, height, n),
                np.zeros_like(whole).reshape(limbs, parts, height, n),
            )
            for begin, end in itertools.pairwise(bounds):
                if begin == end:
                    continue
                some = aligned(rows[:, :, begin:end].copy().reshape(limbs, -1, n))
                given = engine.upload_matrix(some)
                made = engine.transpose_classes(given, parts, begin, inverse, in_place=in_place)
                out[:, :, begin:end] = engine.download_matrix(made).reshape(limbs, parts, end - begin, n)
            return out.reshape(limbs, n, n)

        halves = [by_classes(part, False).reshape(limbs, parts, height, n) for part in (a, b)]
        turned = [np.zeros_like(half) for half in halves]
        for blocks in filter(None, shares):
            steps = _core.transpose_steps(n, policy, parts, blocks)
            used = {key for row in steps for key in row}
            made = engine.transpose_blocks(
                *(engine.upload_matrix(aligned(half[:, blocks].reshape(limbs, -1, n))) for half in halves),
                *(parts, blocks, [key if i in used else None for i, key in enumerate(uploaded)], policy),
                in_place=in_place,
            )
            for whole, part in zip(turned, made, strict=True):
                whole[:, blocks] = engine.download_matrix(part).reshape(limbs, len(blocks), height, n)
        found = [by_classes(part.reshape(limbs, n, n), True) for part in turned]
        return engine.upload_matrix(found[0]), engine.upload_matrix(found[1])

    both.check_matrix(transposed)
    cpu = both.engines[0]
    whole = cpu.transpose_rows(a, b, keys, policy)
    for in_place in (False, True):
        for part, expected in zip(transposed(cpu, in_place=in_place), whole, strict=True):
            np.testing.assert_array_equal(part, expected)


def test_rows_and_ciphertexts(both: Both) -> None:
    """Rows as elements; and elements as rows: all that an element holds, one of each, and what is between."""
    n = both.params.n
    for columns in (1, 2, n // 2, n):
        a, b = both.matrix(2, 3, n), both.matrix(2, 3, columns)
        both.check_ciphertext(
            lambda e, a=a, b=b: e.rows_as_ciphertexts(e.upload_matrix(a), e.upload_matrix(b))
        )
        most = n // columns
        for held in {1, max(1, most // 2), max(1, most - 1), most}:
            rows = held + (held + 1) // 2
            cts = [both.ciphertext(2), both.ciphertext(2)] if rows > held else [both.ciphertext(2)]
            both.check_matrix(
                lambda e, cts=cts, rows=rows, columns=columns, held=held: e.rows_of_ciphertexts(
                    [e.upload(ct) for ct in cts], rows, columns, held
                )
            )


@pytest.mark.parametrize("parts", [2, 4])
def test_elements_of_a_smaller_ring(both: Both, parts: int) -> None:
    """As one element, zeros among them, and taken apart again."""
    n = both.params.n
    if n // parts < 8:
        pytest.skip("there is no ring so small")
    own = dataclasses.replace(both.params, n=n // parts, insecure=True)
    small = Both(own, both.extreme, both.random)
    words = [small.ciphertext(2) if power % 3 != 1 else None for power in range(parts)]

    def joined(engine: Engine) -> Any:
        inner = engine.beside(own)
        return engine.joined([None if part is None else inner.upload(part) for part in words], inner)

    both.check_ciphertext(joined)
    for engine in both.engines:
        inner = engine.beside(own)
        back = engine.parted(joined(engine), inner)
        assert len(back) == parts
        for part, expected in zip(back, words, strict=True):
            whole = np.zeros((2, 2, own.n), np.uint64) if expected is None else expected
            np.testing.assert_array_equal(inner.download(part), whole)
