"""Every call of the protocol: the reference on NumPy integers and the processor give the same words."""

from __future__ import annotations

import inspect
import itertools
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.errors import RangeError
from cipherblas.common.memory import aligned
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.operations import OPERATIONS
from cipherblas.engines.protocol import Engine
from cipherblas.engines.shapes import ShapeEngine
from cipherblas.rlwe.matrices.transposition import POLICIES, transpose_plan
from tests.support import reference_ring as ring
from tests.support.engine_calls import CASES, Call, Cases, joined, small
from tests.support.engine_draws import OPERANDS, RINGS, Draw, Watched, toy
from tests.support.reference_engine import ReferenceEngine

Words = NDArray[np.uint64]


@dataclass
class Both(Draw):
    """The two engines on one ring, and random or extreme arguments for them."""

    def __post_init__(self) -> None:
        self.engines: tuple[Engine, Engine] = (CpuEngine(self.params), ReferenceEngine(self.params))

    def check(self, call: Call) -> None:
        """The call gives equal words on both, of the shapes that the table tells."""
        expected = handles_in(call(self.engines[1]))
        found, shapes = (handles_in(call(e)) for e in (self.engines[0], ShapeEngine.engine(self.params)))
        assert len(found) == len(expected) == len(shapes) > 0
        for one, other, like in zip(found, expected, shapes, strict=True):
            np.testing.assert_array_equal(one, other.words)
            assert like.shape == one.shape


def handles_in(value: Any) -> list[Any]:
    """Those of the result of a call."""
    return (
        [one for each in value for one in handles_in(each)] if isinstance(value, (list, tuple)) else [value]
    )


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
        assert (operation.made is None) == (
            name in ("beside", "weights_shape", "write_weights", "gemm_error")
        )


# --- the reference itself, against the definitions ---


@pytest.mark.parametrize("n", [8, 64, 2 * ring.SMALL])  # as a matrix, and layer by layer
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
    x[1], y[:, 1] = 0, 1
    whole = x.astype(object), y.astype(object)
    many, others = (rng.integers(0, q, 10_000, np.uint64) for _ in range(2))
    others[:5000] = [
        pow(int(v), -1, q) * w % q for v, w in zip(many[:5000], (0, 1, 2, q - 2, q - 1) * 1000, strict=True)
    ]
    np.testing.assert_array_equal(
        ring.times(many, others, q), many.astype(object) * others.astype(object) % q
    )
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


# --- the table ---

WHERE = [(cases, ring) for cases in CASES for ring in cases.rings]


def test_every_call_has_cases() -> None:
    """And cases make the calls that they are said to make."""
    downloads = {"download", "download_matrix"}  # by the tests
    assert {name for cases in CASES for name in cases.names} == OPERATIONS.keys() - downloads
    for cases in CASES:
        params = toy(*next(iter(cases.rings.values())))
        made: set[str] = set()
        engine = Watched(CpuEngine(params), made)
        for call in cases.calls(Draw(params, False, np.random.default_rng(0))):
            call(engine)
        assert set(cases.names) <= made


@pytest.mark.parametrize(
    ("cases", "ring"), WHERE, ids=[f"{cases.names[-1]}, {ring}" for cases, ring in WHERE]
)
def test_both_give_the_same_words_of_the_shapes_of_the_table(cases: Cases, ring: str, extreme: bool) -> None:
    both = Both(toy(*cases.rings[ring]), extreme, np.random.default_rng(1))
    for call in cases.calls(both):
        both.check(call)


# --- ciphertexts ---


def test_border(both: Both) -> None:
    """What is uploaded comes back; the least limbs of it too."""
    ct, matrix = both.ciphertext(both.top, 3), both.matrix(both.top, 3, 5)
    for engine in both.engines:
        np.testing.assert_array_equal(engine.download(engine.upload(ct)), ct)
        np.testing.assert_array_equal(engine.download_matrix(engine.upload_matrix(matrix)), matrix)
        np.testing.assert_array_equal(engine.download(engine.drop(engine.upload(ct), 1)), ct[:, :1])


def test_plaintexts_have_a_size(both: Both) -> None:
    for engine in both.engines:
        message = engine.upload_message(both.message())
        for kept in (message, engine.addend(message, 2), engine.factor(message, 2)):
            assert 0 < kept.nbytes <= 2 * 8 * both.params.n


# --- matrices of residues ---


@pytest.mark.parametrize("columns", [1, 8])
@pytest.mark.parametrize("ring", ["7 moduli to 1 limbs", "16 moduli to 2 limbs"])
def test_symmetric_products_of_operands_in_halves(
    ring: str, columns: int, extreme: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cipherblas.engines.cpu.GRAM_COLUMNS", columns)
    both = Both(toy(*OPERANDS[ring]), extreme, np.random.default_rng(columns))
    z = both.operand(9, 16)
    both.check(lambda e: e.gram_operands(e.upload_matrix(z)))
    with pytest.raises(RangeError, match="16 bits"):
        both.engines[0].operand_integers(np.array([[0, 1 << 17]]))


@pytest.mark.parametrize("columns", [1, 3, 8])
def test_symmetric_products_in_halves(both: Both, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cipherblas.engines.cpu.GRAM_COLUMNS", columns)
    for cols in (1, 7, 16):
        x = both.matrix(both.top, 5, cols)
        both.check(lambda e, x=x: e.gram(e.upload_matrix(x)))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.float64])
def test_rounded_products_of_integers_and_residues(both: Both, dtype: type[Any]) -> None:
    """Within the largest error, and typically what the engine states."""
    largest = 127 if dtype is np.int8 else 30_000
    integers = both.random.integers(-largest, largest + 1, (7, 12)).astype(dtype)
    integers[0] = largest
    x = both.matrix(both.top, 12, 16)
    rounded, exact = (
        engine.download_matrix(engine.multiply_integers(integers, engine.upload_matrix(x), False)).astype(
            object
        )
        for engine in both.engines
    )
    for limb, q in enumerate(both.params.q):
        difference = (rounded[limb] - exact[limb] + q // 2) % q - q // 2
        assert np.abs(difference).max() <= _core.small_gemm_error(12, largest, q)
        assert np.sqrt(np.mean(difference.astype(float) ** 2)) <= 2 * both.engines[0].gemm_error(
            12, largest, q
        )


def test_products_of_integers_without_a_blas() -> None:
    """Where the system refuses the library of the wheel, they are computed without it, exactly."""
    code = """
import sys
sys.modules["scipy_openblas64"] = None
import numpy as np
from cipherblas.crypto.params import make_parameters
from cipherblas.engines.cpu import CpuEngine
params = make_parameters(1024, [40.0, 36.0], security=0, insecure=True)
engine, random = CpuEngine(params), np.random.default_rng(1)
x = np.stack([random.integers(0, q, (40, 24), np.uint64) for q in params.q])
for integers in (random.integers(-5, 6, (70, 40)), random.integers(-(1 << 30), 1 << 30, (3, 40))):
    for exact in (True, False):
        found = engine.multiply_integers(integers, x, exact)
        wanted = [np.dot(integers.astype(object), one.astype(object)) % q for one, q in zip(x, params.q)]
        assert (found == np.array(wanted).astype(np.uint64)).all()
"""
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_copies_hold_no_more_than_their_own_memory() -> None:
    both = Both(toy(*RINGS["N=64"]), False, np.random.default_rng(3))
    engine = both.engines[0]
    whole = engine.multiply_matrices(
        engine.upload_matrix(both.matrix(1, 8, 4)), engine.upload_matrix(both.matrix(1, 4, 8))
    )
    part = engine.copied(engine.cut(whole, rows=slice(0, 2)))
    assert not np.shares_memory(part, whole)
    assert engine.copied(whole) is whole


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

    both.check(transposed)
    cpu = both.engines[0]
    whole = cpu.transpose_rows(a, b, keys, policy)
    for in_place in (False, True):
        for part, expected in zip(transposed(cpu, in_place=in_place), whole, strict=True):
            np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("parts", [2, 4])
def test_elements_of_a_smaller_ring_come_back(parts: int, extreme: bool) -> None:
    """Taken apart again, zeros among them."""
    both = Both(toy(*RINGS["N=64"]), extreme, np.random.default_rng(1))
    own = small(both.params, parts)
    inner_draw = Draw(own, extreme, both.random)
    words = [inner_draw.ciphertext(2) if power % 3 != 1 else None for power in range(parts)]
    for engine in both.engines:
        inner = engine.beside(own)
        back = engine.parted(joined(engine, own, words), inner)
        assert len(back) == parts
        for part, expected in zip(back, words, strict=True):
            whole = np.zeros((2, 2, own.n), np.uint64) if expected is None else expected
            np.testing.assert_array_equal(inner.download(part), whole)


def test_parts_of_a_transform_are_divided_as_the_whole(both: Both) -> None:
    """Whatever the parts: what ranks add up is what one process computes."""
    engine, n, draw = both.engines[0], both.n, both
    terms = [(0, 0, 1, -1, 0), *((0, 0, pow(5, i, 2 * n), i - 1, i) for i in range(1, 5))]
    x, keys = engine.upload(draw.ciphertext(draw.top)), [engine.upload_key(draw.key(draw.top)) for _ in terms]
    masks = [engine.upload_message(draw.message()) for _ in terms]
    (whole,) = engine.linear_transform([x], terms, keys, masks, 1, True, "limb")
    for count in (1, 2, 3, 5):
        parts = [engine.transform_sum([x], terms[part::count], keys, masks) for part in range(count)]
        np.testing.assert_array_equal(engine.download(engine.divide_sums(parts)), engine.download(whole))
