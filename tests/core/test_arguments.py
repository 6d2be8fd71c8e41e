"""Whatever is passed, the core answers with an exception that says what it expected: it never crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas._core as _core
from tests.support.ring_oracle import Ring

RING = Ring(n=16, special=2, alpha=2)
C = RING.context
N, Q, K = C.n, C.num_q, C.num_p
CT, CT3 = RING.random_ciphertext(3), RING.random_ciphertext(3, 3)
KEY = RING.random_key(4)
COEFFICIENTS = RING.small()
SECRET = RING.secret
WIDE = Ring(n=128, special=1, alpha=1)
CT_WIDE = WIDE.random_ciphertext(3)
BLOCK = np.zeros((6, 2, 1, 64), dtype=np.uint32)  # of three wide primes
Call = Callable[[], object]


def parted(
    sources: Any = (CT,), level: int = 0, parts: int = 4, outputs: int = 1, keys: Any = (KEY,) * 3
) -> Any:
    return C.coefficient_parts(list(sources), level, parts, outputs, list(keys))


def giant_steps(
    sources: Any = (CT,), babies: Any = ((5, 0),), giants: Any = ((1, -1, []),), keys: Any = (KEY,)
) -> Any:
    return C.giant_steps(list(sources), list(babies), list(giants), list(keys), [])


def repeated(words: int) -> Any:
    """Giant steps of a plaintext, and of one of so many words of a limb."""
    plaintext = C.factor(0 * COEFFICIENTS, 3, True)
    other = np.ascontiguousarray(plaintext[:, :words])
    return C.giant_steps([CT], [(5, 0)], [(1, -1, [(0, 0), (0, 1)])], [KEY], [plaintext, other])


def transform(
    terms: list,
    sources: list | None = None,
    keys: list | None = None,
    plaintexts: list | None = None,
    outputs: int = 1,
    rescale: bool = False,
    order: str = "limb",
) -> object:
    return C.linear_transform(
        [CT] if sources is None else sources,
        terms,
        [KEY] if keys is None else keys,
        [COEFFICIENTS] if plaintexts is None else plaintexts,
        outputs,
        rescale,
        order,
    )


def weighted(blocks: list | None = None, terms: list | None = None, cts: list | None = None) -> object:
    return WIDE.context.weighted_sums(
        [BLOCK] if blocks is None else blocks,
        [[0]] if terms is None else terms,
        [CT_WIDE] if cts is None else cts,
    )


BAD: list[tuple[str, Call]] = [
    ("expected a power of two", lambda: _core.Context(100, [97], [], 1)),
    ("expected a prime below 2", lambda: _core.Context(16, [97, 96], [], 1)),
    ("expected a prime below 2", lambda: _core.Context(16, [97, 0], [], 1)),
    ("expected distinct primes", lambda: _core.Context(16, [97, 97], [], 1)),
    ("at least one q prime, got none", lambda: _core.Context(16, [], [97], 1)),
    ("alpha: expected 1 to 64", lambda: _core.Context(16, [97], [], 0)),
    ("digit_limbs: expected 1 to 2", lambda: _core.Context(16, [97, 193, 353], [], 2, [2])),
    ("digit_limbs: expected 1 to 2", lambda: _core.Context(16, [97, 193, 353], [], 2, [2, 2])),
    ("digit_limbs: expected 1 to 2", lambda: _core.Context(16, [97, 193, 353], [], 2, [1, 1, 1])),
    ("digit_limbs: expected 1 to 1", lambda: _core.Context(16, [97, 193, 353], [], 1, [1, 2])),
    ("digit_limbs: expected 1 to 2", lambda: _core.Context(16, [97, 193, 353], [], 2, [2, 0, 1])),
    ("digit_limbs: expected 1 to 2", lambda: _core.Context(16, [97, 193, 353], [], 2, [-2, 2, 3])),
    ("expected 1 to 4096, got 0", lambda: _core.set_threads(0)),
    ("bits", lambda: _core.primes(16, 51, 1)),
    ("at most 8 slots, got 9", lambda: C.encode(np.zeros(9, dtype=complex), 1.0)),
    ("dtype complex128 or float64, got float32", lambda: C.encode(np.zeros(8, np.float32), 1.0)),
    (r"shape \(16,\), got shape \(15,\)", lambda: C.decode(np.zeros(15))),
    ("dtype float64, got int64", lambda: C.decode(COEFFICIENTS)),
    ("limbs: expected 1 to 5, got 6", lambda: C.plaintext(COEFFICIENTS, 6)),
    ("limbs: expected 1 to 5, got 0", lambda: C.plaintext(COEFFICIENTS, 0)),
    ("limbs: expected 1 to 5, got -1", lambda: C.plaintext(COEFFICIENTS, -1)),
    ("dtype int64, got float64", lambda: C.plaintext(COEFFICIENTS.astype(float), 2)),
    (r"shape \(1, 144\)", lambda: C.uniform(np.zeros((1, 16), dtype=np.uint64), [0])),
    ("indices below 7, got 7", lambda: C.uniform(np.zeros((1, 144), dtype=np.uint64), [7])),
    ("indices below 7, got -1", lambda: C.uniform(np.zeros((1, 144), dtype=np.uint64), [-1])),
    ("at least 272 and at most 16 times as many, got 16", lambda: C.ternary(np.zeros(16, dtype=np.uint8))),
    (r"shape \(16,\), got shape \(17,\)", lambda: C.gaussian(np.zeros(17, dtype=np.uint64))),
    (
        r"secret: expected shape \(7, 16\), got shape \(5, 16\)",
        lambda: C.encrypt_symmetric(SECRET[:5], CT[0], COEFFICIENTS, COEFFICIENTS),
    ),
    (
        r"a: expected 1 to 5 limbs, got shape \(7, 16\)",
        lambda: C.encrypt_symmetric(SECRET, SECRET, COEFFICIENTS, COEFFICIENTS),
    ),
    (
        "of the public key",
        lambda: C.encrypt_public(CT, COEFFICIENTS, COEFFICIENTS, COEFFICIENTS, COEFFICIENTS, 4),
    ),
    ("2 or 3 components", lambda: C.phase(SECRET, CT[:1])),
    ("1 to 5 limbs", lambda: C.phase(SECRET, CT[:, :0])),
    ("1 to 5 limbs", lambda: C.phase(SECRET, np.zeros((2, 6, 16), dtype=np.uint64))),
    (r"shape \(\*, \*, 16\)", lambda: C.phase(SECRET, CT[..., :8])),
    (r"a: expected shape \(2, 6, 16\)", lambda: C.switching_key(SECRET, SECRET, KEY[:, 0, :5], KEY[:, 0], 4)),
    ("odd number below 32, got 4", lambda: C.automorphism(CT[0], 4)),
    ("odd number below 32, got 33", lambda: C.automorphism(CT[0], 33)),
    (r"y: expected shape \(3, 16\)", lambda: C.multiply(CT[0], CT[0, :2])),
    ("at most 7 rows", lambda: C.multiply(*(np.zeros((8, 16), dtype=np.uint64),) * 2)),
    ("equal limbs, got 3 and 2", lambda: C.add(CT, CT[:, :2])),
    (r"pt: expected shape \(3, 16\)", lambda: C.add_plain(CT, CT[0, :2])),
    ("rights: expected 1 ciphertexts, got 2", lambda: C.multiply_sum([CT], [CT, CT])),
    ("at least one ciphertext", lambda: C.multiply_sum([], [])),
    ("lefts: expected 2 components", lambda: C.multiply_sum([CT3], [CT])),
    ("equal limbs", lambda: C.multiply_sum([CT], [CT[:, :2]])),
    ("equal limbs", lambda: C.multiply_sum([CT, CT[:, :2]], [CT, CT])),
    (r"accumulator: expected shape \(3, 3, 16\)", lambda: C.multiply_sum([CT], [CT], CT)),
    ("accumulator: expected dtype", lambda: C.multiply_sum([CT], [CT], CT3.astype(float))),
    ("accumulator: expected a C-contiguous", lambda: C.multiply_sum([CT], [CT], C.neg(CT3)[:, ::-1])),
    ("cts: expected 0 ciphertexts, got 1", lambda: C.multiply_plain_sum([], [CT])),
    (
        "plaintexts: expected factors of 3 limbs",
        lambda: C.multiply_plain_sum([C.factor(COEFFICIENTS, 2)], [CT]),
    ),
    (
        "plaintexts: expected the halves of 1 to 5 limbs, got",
        lambda: C.multiply_plain_sum([C.factor(COEFFICIENTS, 3)[1:]], [CT]),
    ),
    (
        "plaintexts: expected dtype uint32, got uint64",
        lambda: C.multiply_plain_sum([C.plaintext(COEFFICIENTS, 3)], [CT]),
    ),
    ("limbs: expected 1 to 5, got 6", lambda: C.factor(COEFFICIENTS, 6)),
    (
        "plaintexts: expected the halves of 1 to 5 limbs and of 2 special limbs",
        lambda: C.giant_steps([CT], [(5, 0)], [(1, -1, [(0, 0)])], [KEY], [C.factor(COEFFICIENTS, 3)[:3]]),
    ),
    ("repeats: expected 1, or a power of two from 8 to N, got 4", lambda: C.factor(COEFFICIENTS, 3, True, 4)),
    (
        "repeats: expected 1, or a power of two from 8 to N, got 32",
        lambda: C.factor(COEFFICIENTS, 3, True, 32),
    ),
    (r"expected 0 but for those of X\^8, got that of X\^1", lambda: C.factor(COEFFICIENTS + 1, 3, True, 8)),
    ("N words of a limb, or a power of two from N / 8 down", lambda: repeated(8)),
    ("N words of a limb, or a power of two from N / 8 down", lambda: repeated(0)),
    ("giant step 0, plaintext: expected as many words as the first one has", lambda: repeated(2)),
    ("at least one ciphertext", lambda: weighted(cts=[])),
    ("cts: expected 2 components", lambda: weighted(cts=[WIDE.random_ciphertext(3, 3)])),
    ("equal limbs", lambda: weighted(cts=[CT_WIDE, CT_WIDE[:, :2]])),
    ("terms: expected 0 lists, one for each block, got 0", lambda: weighted([], [])),
    ("terms: expected 1 lists, one for each block, got 2", lambda: weighted(terms=[[0], [0]])),
    ("terms: expected below 1, got 1", lambda: weighted(terms=[[1]])),
    ("width a multiple of 64", lambda: weighted([BLOCK[0]])),
    ("width a multiple of 64", lambda: weighted([np.zeros((6, 4, 1, 32), dtype=np.uint32)])),
    ("width a multiple of 64", lambda: weighted([np.zeros((6, 2, 1, 96), dtype=np.uint32)])),
    ("width a multiple of 64", lambda: weighted([np.zeros((6, 2, 1, 0), dtype=np.uint32)])),
    (r"blocks: expected shape \(6, 2, 1, 64\), got shape \(2, 2, 1, 64\)", lambda: weighted([BLOCK[:2]])),
    (r"blocks: expected shape \(6, 2, 2, 64\)", lambda: weighted(terms=[[0, 0]])),
    (r"blocks: expected shape \(6, 2, 0, 64\)", lambda: weighted(terms=[[]])),
    (r"blocks: expected shape \(6, 2, 1, 64\)", lambda: weighted([BLOCK, BLOCK[:, :1]], [[0], [0]])),
    ("blocks: expected dtype", lambda: weighted([BLOCK.astype(float)])),
    ("rescale count: expected 1 to 2", lambda: C.rescale(CT, 3)),
    ("rescale count: expected 1 to 2", lambda: C.rescale(CT, 0)),
    ("limbs: expected 1 to 3, got 4", lambda: C.drop(CT, 4)),
    ("3 components, got 2", lambda: C.relinearise(CT, KEY)),
    ("key for at least 3 limbs, got 2", lambda: C.relinearise(CT3, RING.random_key(2))),
    ("2 digits for 4 limbs", lambda: C.relinearise(CT3, KEY[:1])),
    ("words of 1 to 5 limbs and the special ones", lambda: C.relinearise(CT3, KEY[:, :, :2])),
    ("right: expected 2 components, got 3", lambda: C.multiply_relinearise(CT, CT3, KEY)),
    ("right: expected 3 limbs, got 2", lambda: C.multiply_relinearise(CT, CT[:, :2], KEY)),
    ("parts: expected 2, 4 or 8, got 16", lambda: parted(parts=16, outputs=9)),
    ("outputs: expected 1 to 4, got 0", lambda: parted(outputs=0)),
    ("outputs: expected 1 to 4, got 5", lambda: parted(outputs=5)),
    ("level: expected 0 to 1, got 2", lambda: parted(level=2)),
    ("level: expected 0 to 1, got -1", lambda: parted(level=-1)),
    ("parts: expected at most 4, got 8", lambda: parted(parts=8, keys=[KEY] * 7)),
    ("keys: expected 3, got 1", lambda: parted(keys=[KEY])),
    ("keys for at least 3 limbs, got 2", lambda: parted(keys=[RING.random_key(2)] * 3)),
    ("sources: expected 2 components", lambda: parted([CT3])),
    ("equal limbs, got 3 and 2", lambda: parted([CT, CT[:, :2]])),
    ("at least one ciphertext", lambda: parted([])),
    ("polynomials: expected", lambda: C.polynomial_sums(np.zeros((1, 2, 8), np.int64), [CT])),
    ("power of two from 8", lambda: C.polynomial_sums(np.zeros((1, 1, 4), np.int64), [CT])),
    ("power of two from 8", lambda: C.polynomial_sums(np.zeros((1, 1, 24), np.int64), [CT])),
    ("power of two from 8", lambda: C.polynomial_sums(np.zeros((1, 1, 2 * N), np.int64), [CT])),
    ("at least one output", lambda: C.polynomial_sums(np.zeros((0, 1, 8), np.int64), [CT])),
    ("rights: expected 1 ciphertexts, got 2", lambda: C.relinearised_sums([[CT]], [[CT], [CT, CT]], KEY)),
    ("lefts: expected 1 ciphertexts, got 2", lambda: C.relinearised_sums([[CT], [CT, CT]], [[CT]], KEY)),
    ("lefts: expected at least one list", lambda: C.relinearised_sums([], [[CT]], KEY)),
    ("lefts: expected at least one ciphertext", lambda: C.relinearised_sums([[]], [[]], KEY)),
    ("expected equal limbs, got 3 and 2", lambda: C.relinearised_sums([[CT], [CT[:, :2]]], [[CT]], KEY)),
    ("lefts: expected 2 components", lambda: C.relinearised_sums([[CT3]], [[CT]], KEY)),
    ("rights: expected 2 components", lambda: C.relinearised_sums([[CT]], [[CT], [CT3]], KEY)),
    ("expected equal limbs, got 3 and 2", lambda: C.relinearised_sums([[CT]], [[CT[:, :2]]], KEY)),
    ("key for at least 3 limbs, got 2", lambda: C.relinearised_sums([[CT]], [[CT]], RING.random_key(2))),
    ("key for at least 3 limbs, got 2", lambda: C.multiply_relinearise(CT, CT, RING.random_key(2))),
    ("added: expected 2 components, got 3", lambda: C.multiply_rescale(CT, CT, KEY, 1, CT3, 1, 0)),
    ("added: expected 3 limbs, got 2", lambda: C.multiply_rescale(CT, CT, KEY, 1, CT[:, :2], 1, 0)),
    ("2 limbs for a rescale, got 1", lambda: C.multiply_rescale(CT[:, :1], CT[:, :1], KEY, 1, None, 0, 0)),
    ("2 limbs for a rescale, got 1", lambda: C.relinearise(CT3[:, :1], KEY, True)),
    ("sources: expected at least one ciphertext", lambda: giant_steps(sources=[])),
    ("equal limbs, got 3 and 2", lambda: giant_steps(sources=[CT, CT[:, :2]])),
    ("at least 2 for a rescale, got 1", lambda: giant_steps(sources=[CT[:, :1]])),
    ("baby steps: expected one with a key, got none", lambda: giant_steps(babies=[(1, -1)])),
    ("giant steps: expected one at least, got none", lambda: giant_steps(giants=[])),
    ("baby step 0, key: expected a key, got -1", lambda: giant_steps(babies=[(5, -1)])),
    ("baby step 0, key: expected an index below 1", lambda: giant_steps(babies=[(5, 1)])),
    ("key for at least 3 limbs, got 2", lambda: giant_steps(keys=[RING.random_key(2)])),
    ("odd number below 32, got 4", lambda: giant_steps(babies=[(4, 0)])),
    ("giant step 0, key: expected a key, got -2", lambda: giant_steps(giants=[(1, -2, [])])),
    ("giant step 0, Galois element: expected an odd number", lambda: giant_steps(giants=[(32, 0, [])])),
    ("giant step 0, baby step: expected", lambda: giant_steps(giants=[(5, 0, [(1, 0)])])),
    ("giant step 0, plaintext: expected", lambda: giant_steps(giants=[(5, 0, [(0, 0)])])),
    ("at least one ciphertext", lambda: transform([], sources=[])),
    ("source 0: expected an even number of components", lambda: transform([], sources=[CT3])),
    ("equal limbs", lambda: transform([], sources=[CT, CT[:, :2]])),
    ("'limb' or 'rotation', got 'both'", lambda: transform([], order="both")),
    ("outputs: expected 0 to", lambda: transform([], outputs=-1)),
    ("term 0, output: expected an index below 1, got 1", lambda: transform([(1, 0, 1, 0, -1)])),
    ("term 0, output: expected an index below 1, got -1", lambda: transform([(-1, 0, 1, 0, -1)])),
    ("term 0, source: expected an index below 1, got 1", lambda: transform([(0, 1, 1, 0, -1)])),
    ("term 0, key: expected an index below 1 or -1, got -2", lambda: transform([(0, 0, 1, -2, -1)])),
    ("term 0, key: expected an index below 1 or -1, got 1", lambda: transform([(0, 0, 1, 1, -1)])),
    ("term 0, plaintext: expected an index below 1", lambda: transform([(0, 0, 1, 0, 1)])),
    ("odd number below 32, got 2", lambda: transform([(0, 0, 2, 0, -1)])),
    ("a key for Galois element 5, got none", lambda: transform([(0, 0, 5, -1, -1)])),
    ("all with or all without", lambda: transform([(0, 0, 5, 0, -1), (0, 0, 5, 0, 0)])),
    (
        "term 0, key: expected a key for at least 3 limbs, got 2",
        lambda: transform([(0, 0, 5, 0, -1)], keys=[RING.random_key(2)]),
    ),
    (
        "at least 3 q limbs, got 2",
        lambda: transform([(0, 0, 5, 0, 0)], plaintexts=[C.plaintext(COEFFICIENTS, 2, special=True)]),
    ),
    ("plaintexts: expected dtype", lambda: transform([], plaintexts=[COEFFICIENTS.astype(float)])),
    ("2 limbs for a rescale, got 1", lambda: transform([], sources=[CT[:, :1]], rescale=True)),
]


@pytest.mark.parametrize(("message", "call"), BAD, ids=[f"{i}: {m}" for i, (m, _) in enumerate(BAD)])
def test_errors_say_what_was_expected(message: str, call: Call) -> None:
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "expected" in str(error.value) or "bits" in str(error.value)


def test_without_special_primes_there_is_no_key_switching() -> None:
    ring = Ring(n=16, special=0)
    for call in (
        lambda: ring.context.relinearise(CT3, KEY),
        lambda: ring.context.switching_key(SECRET, SECRET, KEY, KEY, 3),
        lambda: ring.context.linear_transform([CT], [], [KEY], [], 1, False, "limb"),
    ):
        with pytest.raises(ValueError, match="special primes"):
            call()
    # Sums without keys need none.
    got = ring.context.linear_transform(
        [CT], [(0, 0, 1, -1, -1), (0, 0, 1, -1, -1)], [], [], 1, False, "limb"
    )
    np.testing.assert_array_equal(got[0], ring.context.add(CT, CT))


def test_a_read_only_accumulator_is_refused() -> None:
    accumulator = C.neg(CT3)
    accumulator.flags.writeable = False
    with pytest.raises((ValueError, TypeError)):
        C.multiply_sum([CT], [CT], accumulator)


ANYTHING = st.one_of(
    st.none(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.booleans(),
    st.sampled_from([CT, CT3, KEY, COEFFICIENTS, SECRET, CT[0], CT[0, 0], np.float64(1.0), np.array(3), []]),
    st.tuples(
        st.lists(st.integers(0, 17), max_size=4),
        st.sampled_from(["u8", "i8", "f8", "c16", "u1", ">u8", "O", "?", "U3"]),
        st.booleans(),
    ).map(lambda a: np.zeros(a[0], dtype=a[1], order="F" if a[2] else "C")),
)
METHODS = sorted(name for name in dir(C) if not name.startswith("_") and callable(getattr(C, name)))
DEEP = st.recursive(
    ANYTHING, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner), max_leaves=6
)


@given(name=st.sampled_from(METHODS), arguments=st.lists(DEEP, max_size=7))
def test_arbitrary_arguments_never_crash(name: str, arguments: list) -> None:
    try:
        getattr(C, name)(*arguments)
    except (TypeError, ValueError, OverflowError, MemoryError, RuntimeError):
        pass


@given(
    terms=st.lists(st.tuples(*[st.integers(-3, 40)] * 5), max_size=4),
    sources=st.lists(st.sampled_from([CT, CT[:, :2], CT3]), max_size=3),
    keys=st.lists(st.sampled_from([KEY, RING.random_key(3), RING.random_key(1)]), max_size=2),
    outputs=st.integers(-1, 4),
    rescale=st.booleans(),
    order=st.sampled_from(["limb", "rotation"]),
)
def test_arbitrary_transforms_never_crash(
    terms: list, sources: list, keys: list, outputs: int, rescale: bool, order: str
) -> None:
    try:
        C.linear_transform(sources, terms, keys, [COEFFICIENTS], outputs, rescale, order)
    except (TypeError, ValueError):
        pass
