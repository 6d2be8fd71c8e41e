"""What evaluators count is what the kernels of the core do: both are compared, operation by operation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas._core as _core
from cipherblas.common import openblas
from cipherblas.common.gemm_paths import float_passes, is_byte
from cipherblas.common.memory import Array, aligned_empty
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.evaluators.rows.bookkeeping import TRANSPOSE_POLICIES
from cipherblas.evaluators.rows.native import RowsNative
from cipherblas.evaluators.rows.symbolic import RowsSymbolic
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.shared import SharedSymbolic
from cipherblas.evaluators.slots.shared_native import SharedNative
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import ClearFactor, Ct, Plain, Polynomials, WeightGroup, handles_in
from cipherblas.rlwe.basis import FirstLimbs
from cipherblas.rlwe.costs import BYTE_MACS, Costs
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.matrices.transposition import transpose_plan
from tests.support.core_constants import constant
from tests.support.kernels import Kernels, counted
from tests.support.zero_keys import zero_keys

SCALE = 2.0**30


Division = int | tuple[int, ...]  # limbs per digit: as many in each, or those of each from q_0 on


def parameters(n: int, limbs: int, division: Division, bits: float = 40.0) -> Parameters:
    digits: dict[str, Any] = {"alpha": division} if isinstance(division, int) else {"digit_limbs": division}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_parameters(n, [bits] * limbs, scale_bits=30.0, security=128, insecure=True, **digits)


# ---- slots ----

RINGS = [
    *[(1 << 11, 4, 1), (1 << 11, 5, 2), (1 << 12, 7, 3), (1 << 13, 6, 6), (1 << 15, 2, 1), (1 << 16, 4, 2)],
    *[(1 << 11, 6, (1, 3, 2)), (1 << 12, 7, (4, 2, 1)), (1 << 16, 4, (3, 1))],
]


def nothing(*shape: int) -> Array:
    """Zeros that are used where they lie, as ciphertexts are: those that share an a part are decomposed once."""
    found = aligned_empty(shape)
    found.fill(0)
    return found


def mask(ev: Evaluator, seed: int) -> Plain:
    return Plain(("mask", seed), lambda: np.random.default_rng(seed).uniform(-1, 1, ev.slots), 1.0)


def masks(ev: Evaluator, *steps: int) -> dict[Any, Plain | None]:
    return {step: mask(ev, step) for step in steps}


def stored_weights(ev: Evaluator, x: Ct) -> list[Ct]:
    values = np.linspace(-1, 1, ev.slots)
    group = WeightGroup(("weights",), (0, 1), lambda term: values * (term + 1) / 2, True)
    return ev.weighted_sums([x, x], [group], SCALE, rows=(2.0, 2.0))


OPERATIONS: dict[str, Callable[[Evaluator, Ct], Any]] = {
    "one rotation": lambda ev, x: ev.rotate(x, 3),
    "hoisted rotations": lambda ev, x: ev.rotate_many(x, [1, 2, 5]),
    "conjugation": lambda ev, x: ev.conjugate(x),
    "rotations and a sum": lambda ev, x: ev.rotate_sum([x, x, x], [1, 2, 0]),
    "rotations, a sum and a rescale": lambda ev, x: ev.rotate_sum([x, x], [1, 2], rescale=True),
    "transform": lambda ev, x: ev.linear_transform(x, masks(ev, 1, 2, 3)),
    "transform with a diagonal in place": lambda ev, x: ev.linear_transform(x, masks(ev, 0, 1, 2)),
    "transform of one diagonal in place": lambda ev, x: ev.linear_transform(x, masks(ev, 0)),
    "transform without masks": lambda ev, x: ev.linear_transform(x, {0: None, 1: None, 2: None}),
    "transform in the coarse order": lambda ev, x: ev.linear_transform(x, masks(ev, 0, 1), order="rotation"),
    "transforms": lambda ev, x: list(ev.linear_transforms(x, [masks(ev, i, i + 1) for i in range(3)])),
    "transform by giant steps": lambda ev, x: ev.linear_transform(x, masks(ev, *range(6)), baby_steps=3),
    "transform by giant steps, doubly hoisted": lambda ev, x: ev.linear_transform(
        x, masks(ev, *range(7)), baby_steps=4, double=True
    ),
    "product": lambda ev, x: ev.multiply(x, x),
    "sum of products": lambda ev, x: ev.multiply_sum([x] * 3, [x] * 3),
    "product, relinearised": lambda ev, x: ev.relinearise(ev.multiply(x, x)),
    "product, relinearised at once": lambda ev, x: ev.multiply_relinearised(x, x),
    "product, relinearised and rescaled at once": lambda ev, x: ev.multiply_rescaled(x, x, 1.0, SCALE**2),
    "product and a sum at once": lambda ev, x: ev.multiply_rescaled(
        x, x, 2.0, SCALE**2, (ev.rotate(x, 0), -1.0), 0.5
    ),
    "relinearised and rescaled": lambda ev, x: ev.relinearise_rescaled(ev.multiply(x, x)),
    "product, rescaled": lambda ev, x: ev.rescale(ev.multiply(x, x)),
    "rescale": lambda ev, x: ev.rescale(x),
    "weighted sum": lambda ev, x: ev.multiply_sum([x] * 3, [mask(ev, i) for i in range(3)]),
    "stored weights": stored_weights,
    "numbers": lambda ev, x: ev.number_sum([(x, 0.3), (x, -1.5), (x, 0.0)], SCALE * 2**20, 0.5),
    "clear matrix": lambda ev, x: ev.matrix_product(factor(3, 130, 1000), [x] * 130),
    "integer factor": lambda ev, x: ev.multiply_scalar(x, 3),
    "sums": lambda ev, x: ev.sub(ev.add(x, x), x),
}


@pytest.mark.parametrize("ring", RINGS, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_slots(name: str, ring: tuple[int, int, int]) -> None:
    params, operation = parameters(*ring), OPERATIONS[name]
    planned = Symbolic(params)
    operation(planned, planned.fresh(None, bound=1.0, scale=SCALE))
    native = Native(params, zero_keys(params, planned.request))
    x = native.fresh(nothing(2, params.limbs, params.n), bound=1.0, scale=SCALE)
    with counted(params.n) as kernels:
        operation(native, x)
    counts = planned.counts
    assert counts == native.counts
    encoded = kernels.limbs("lifts")  # one transform and, into Montgomery form, one product each
    assert kernels.limbs("forward", "inverse") == counts.ntt_limbs + encoded
    assert kernels.limbs("products", "conversions", "scalings") == counts.mac_limbs + encoded
    assert kernels.words["key_bytes"] == counts.key_bytes_read
    assert kernels.words["plain_bytes"] == counts.plain_bytes_read
    assert kernels.limbs("lifts") == counts.encode_ntt_limbs + counts.weight_limbs
    assert kernels.limbs("permuted") == 2 * counts.rotations * (params.limbs + params.special_limbs)


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_raised_and_transformed(ring: tuple[int, int, int]) -> None:
    """The switch to the sparse secret, which is not counted, aside."""
    params = parameters(*ring)
    planned, small = Symbolic(params), Counts()
    Costs(params.family.sparse).switch(small, 1)

    def run(ev: Evaluator, data: Any) -> None:
        xs = [ev.fresh(data, bound=1.0, limbs=1, scale=SCALE) for _ in range(2)]
        ev.raise_and_transform(xs, ev.top_limbs, 1.0, masks(ev, 0, 1, 5))

    run(planned, None)
    native = Native(params, zero_keys(params, planned.request))
    with counted(params.n) as kernels:
        run(native, nothing(2, 1, params.n))
    counts = planned.counts
    assert counts == native.counts
    encoded = counts.encode_ntt_limbs // 2  # which both ciphertexts are multiplied by
    assert kernels.limbs("forward", "inverse") == counts.ntt_limbs + 2 * small.ntt_limbs + encoded
    assert kernels.words["key_bytes"] == counts.key_bytes_read + 2 * small.key_bytes_read
    assert kernels.words["plain_bytes"] == counts.plain_bytes_read


SHARED = {
    **{
        name: OPERATIONS[name]
        for name in (
            *("one rotation", "hoisted rotations", "conjugation", "rotations and a sum"),
            *("rotations, a sum and a rescale", "transform", "transform with a diagonal in place"),
            *("transform of one diagonal in place", "transform without masks", "transform by giant steps"),
            *("transform by giant steps, doubly hoisted", "rescale", "integer factor", "sums"),
        )
    },
    "nothing": lambda ev, x: x,
    "a raised modulus": lambda ev, x: ev.raise_modulus(x, ev.top_limbs, 1.0),
}


@pytest.mark.parametrize("ring", RINGS[:4], ids=str)
@pytest.mark.parametrize("secrets", [1, 3, 7])
@pytest.mark.parametrize("name", SHARED)
def test_slots_that_share_an_a_part(name: str, secrets: int, ring: tuple[int, int, int]) -> None:
    """With the conversions there and back."""
    params = parameters(*ring)

    def all_of(outside: Evaluator, ev: Any, data: Any) -> None:
        cts = [outside.fresh(data, bound=1.0, scale=SCALE) for _ in range(secrets)]
        x = ev.shared(cts)
        for y in handles_in([SHARED[name](ev, x)]):
            ev.parts(y, secrets, outside)

    planned = SharedSymbolic(params, secrets)
    all_of(Symbolic(params), planned, None)
    native = SharedNative(params, zero_keys(params, planned.request), secrets)
    with counted(params.n) as kernels:
        all_of(Native(params, None), native, nothing(2, params.limbs, params.n))
    counts = planned.counts
    assert counts == native.counts
    encoded = kernels.limbs("lifts")
    if name != "a raised modulus":  # of one limb under sparse secrets nothing is counted
        assert kernels.limbs("forward", "inverse") == counts.ntt_limbs + encoded
        assert kernels.words["key_bytes"] == counts.key_bytes_read
    if name not in (
        "a raised modulus",
        "transform by giant steps",
    ):  # masks that are written out: two components
        assert kernels.limbs("products", "conversions", "scalings") == counts.mac_limbs + encoded


def test_sums_with_polynomials() -> None:
    """Of 64 coefficients, which half of the layers transform."""
    params = parameters(1 << 12, 4, 1)
    some = Polynomials((3, 2, 64), 0.5, lambda: np.arange(3 * 2 * 64).reshape(3, 2, 64))
    native = Native(params, None)
    cts = [native.fresh(nothing(2, params.limbs, params.n), bound=1.0, scale=SCALE) for _ in range(2)]
    with counted(params.n) as kernels:
        native.polynomial_sums(cts, some, 1.0)
    counts = native.counts
    assert kernels.limbs("forward", "inverse") == counts.encode_ntt_limbs == 3 * 2 * params.limbs // 2
    assert kernels.limbs("products") == counts.mac_limbs
    pieces = params.n // 1024
    assert kernels.words["lifts"] == 3 * 2 * 64 * params.limbs * pieces


@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize("scale", [2.0**30, 2.0**70])
def test_a_sum_with_a_plaintext(scale: float, components: int) -> None:
    """No Montgomery form; beyond 2^60 both components of a pair are multiplied, however many the other term has."""
    params = parameters(1 << 11, 4, 1)
    native = Native(params, None)
    data = np.zeros((2, params.limbs, params.n), np.uint64)
    x = native.fresh(data, bound=1.0, scale=scale if components == 2 else scale**0.5)
    x = x if components == 2 else native.multiply(x, x)
    native.counts = Counts()
    with counted(params.n) as kernels:
        native.add_plain(x, mask(native, 0))
    counts = native.counts
    assert kernels.limbs("forward", "inverse") == kernels.limbs("lifts") == counts.encode_ntt_limbs
    assert kernels.limbs("products", "conversions", "scalings") == counts.mac_limbs
    assert (counts.mac_limbs > 0) == (scale > 2.0**60)


# ---- rows ----

ROW_RINGS = [(1 << 8, 1, 1), (1 << 8, 2, 1), (1 << 8, 3, 2), (1 << 9, 4, 4), (1 << 8, 4, (1, 3))]
ROWS, COLUMNS, PRODUCTS = 20, 24, 10
TILE_COLUMNS = constant("gemm/kernels.h", "kTileCols")


def row_counts(
    params: Parameters,
    operation: Callable[[Any, Any, Any], Any],
    *,
    columns: int = COLUMNS,
    rows: int = ROWS,
    policy: Any = "direct",
) -> tuple[Counts, Kernels]:
    """Of an operation on a matrix and, for clear weights that are fixed, one whose rows share their a parts."""
    openblas.load()
    shape, limbs, n = (rows, columns), params.limbs, params.n

    def run(ev: Any, own: Any, batch: Any) -> None:
        x = ev.fresh(own, shape, bound=1.0, scale=1024.0, basis=FirstLimbs(limbs))
        operation(ev, x, ev.fresh_batch(batch, shape, bound=1.0, scale=1024.0, basis=FirstLimbs(limbs)))

    planned = RowsSymbolic(params, key_policy=policy)
    run(planned, None, None)
    native = RowsNative(params, zero_keys(params, planned.request), key_policy=policy)
    a, b = (np.zeros((limbs, rows, width), np.uint64) for width in (n, columns))
    with counted(n) as kernels:
        run(native, (a, b), (a[:, :1], b))
    assert planned.counts == native.counts
    return planned.counts, kernels


def check_switches(params: Parameters, counts: Counts, kernels: Kernels) -> None:
    assert kernels.limbs("forward", "inverse") == counts.ntt_limbs
    assert kernels.limbs("products", "conversions", "scalings") == counts.mac_limbs
    key = params.key_bytes(params.limbs)
    assert kernels.words["key_bytes"] == counts.row_switches * key
    assert counts.key_bytes_read % key == 0 < counts.key_bytes_read <= kernels.words["key_bytes"]


@pytest.mark.parametrize("ring", ROW_RINGS, ids=str)
@pytest.mark.parametrize("policy", ["direct", "composed", "binary"])
def test_transposition(ring: tuple[int, int, int], policy: Any) -> None:
    params = parameters(*ring)
    counts, kernels = row_counts(params, lambda ev, x, _: ev.transpose(x), policy=policy)
    check_switches(params, counts, kernels)
    assert counts.row_switches == transpose_plan(params.n, TRANSPOSE_POLICIES[policy]).switches
    passes = 2 * math.ceil(math.log2(params.n) / _core.PASS_LAYERS)
    whole = 2 * params.limbs * params.n**2  # words of the a and the b part
    assert kernels.words["rows"] >= passes * whole / 2  # radix 4 takes two layers at a time
    assert counts.moved_bytes >= 2 * passes * whole * 8


@pytest.mark.parametrize("ring", ROW_RINGS, ids=str)
def test_rows_times_the_secret(ring: tuple[int, int, int]) -> None:
    params = parameters(*ring)
    counts, kernels = row_counts(params, lambda ev, x, _: ev.relinearise(x), columns=params.n)
    check_switches(params, counts, kernels)


def factor(rows: int, columns: int, largest: int) -> ClearFactor:
    values = np.full((rows, columns), largest, np.int32)
    return ClearFactor(("factor", largest), (rows, columns), float(largest), 1.0, True, lambda: values)


@pytest.mark.parametrize("ring", ROW_RINGS, ids=str)
def test_fixed_weights_decompose_once(ring: tuple[int, int, int]) -> None:
    params = parameters(*ring)
    weights = factor(PRODUCTS, ROWS, 100)
    counts, kernels = row_counts(params, lambda ev, _, batch: ev.fixed_product(weights, 0, batch))
    check_switches(params, counts, kernels)
    assert counts.row_switches == PRODUCTS


@pytest.mark.parametrize("largest", [1, 100, 1 << 15])
@pytest.mark.parametrize("ring", [(1 << 8, 1, 1), (1 << 8, 2, 1), (1 << 9, 3, 1)], ids=str)
@pytest.mark.parametrize("bits", [30.0, 40.0, 48.0])
def test_clear_weights(ring: tuple[int, int, int], bits: float, largest: int) -> None:
    params = parameters(*ring, bits=bits)
    weights = factor(PRODUCTS, ROWS, largest)
    if params.limbs == 1 and bits < 40 and largest > 100:
        pytest.skip("the product does not fit the modulus")
    counts, kernels = row_counts(params, lambda ev, x, _: ev.clear_product(weights, x))
    if counts.modular_macs:  # of bytes, or of the digits of residues
        macs = PRODUCTS * ROWS * (params.n + COLUMNS)
        short = [q for q in params.q if is_byte(q, ROWS, largest)]
        passes = {q: float_passes(q, ROWS, largest) for q in params.q}
        of_bytes = sum((q.bit_length() + 7) // 8 for q in short) * macs
        of_floats = sum(passes[q] for q in params.q if q not in short) * macs
        assert (counts.float_macs, counts.modular_macs) == (of_floats, of_bytes // BYTE_MACS)
        if "bytes" in _core.gemm_paths():
            assert kernels.words["byte_macs"] >= of_bytes and kernels.words["float_macs"] == of_floats
        else:
            assert kernels.words["float_macs"] == sum(passes.values()) * macs
        return
    assert kernels.words["float_macs"] == counts.float_macs
    assert kernels.words["float_inputs"] + kernels.words["float_digits"] == counts.float_inputs
    assert kernels.words["float_outputs"] == counts.float_outputs
    assert counts.float_macs % (PRODUCTS * ROWS * (params.n + COLUMNS) * params.limbs) == 0


def test_narrow_clear_weights() -> None:
    """On tiles, where there are some, with one multiply-add each; or in float64 by digits."""
    params = parameters(1 << 8, 2, 1, bits=34.0)
    weights = factor(PRODUCTS, 40, 1 << 15)
    counts, kernels = row_counts(params, lambda ev, x, _: ev.clear_product(weights, x), rows=40)
    macs = params.limbs * PRODUCTS * 40 * (params.n + COLUMNS)
    assert (counts.float_macs, 2 * counts.modular_macs) == (0, macs)
    assert not kernels.words["tile_macs"]
    name = "narrow" if "ifma" in _core.gemm_paths() else "float"
    assert kernels.words[f"{name}_macs"] >= macs
    assert (kernels.words["float_macs"] == 0) == (name == "narrow")


def test_products_of_secrets() -> None:
    """On tiles, or in float64 by digits: the entries are those of the factors and of the product, or more. What fills
    no panel of a tile is packed without a kernel."""
    params = parameters(1 << 8, 2, 1)
    counts, kernels = row_counts(params, lambda ev, x, _: ev.part_product(ev.parts(x)[1], x))
    assert counts.modular_macs == params.limbs * COLUMNS * ROWS * (params.n + COLUMNS)
    names = ("float", "tile") if kernels.words["tile_macs"] else ("tile", "float")
    assert not any(kernels.words[f"{names[0]}_{what}"] for what in ("macs", "inputs", "outputs"))
    assert kernels.words[f"{names[1]}_macs"] >= counts.modular_macs
    beside = params.limbs * ROWS * (params.n % TILE_COLUMNS) if names[1] == "tile" else 0
    assert kernels.words[f"{names[1]}_inputs"] + beside >= counts.modular_inputs
    assert kernels.words[f"{names[1]}_outputs"] >= counts.modular_outputs


# ---- the switch ----


def test_nothing_is_counted_unless_asked() -> None:
    params = parameters(1 << 11, 2, 1)
    context = params.context()
    x = np.zeros((2, 2, params.n), np.uint64)
    with counted(params.n) as kernels:
        context.rescale(x)
        context.add(x, x)
    assert kernels.limbs("forward", "inverse") == 4 and kernels.limbs("sums") == 4
    context.rescale(x)
    assert dict(_core.kernel_counts()) == kernels.words
    with counted(params.n) as kernels:
        pass
    assert not any(kernels.words.values())


def test_results_are_the_same_bits() -> None:
    params = parameters(1 << 11, 3, 1)
    context, random = params.context(), np.random.default_rng(2)
    x = np.stack([[random.integers(0, q, params.n, dtype=np.uint64) for q in params.q] for _ in range(2)])
    expected = context.rescale(x), context.multiply_sum([x], [x], None)
    with counted(params.n):
        found = context.rescale(x), context.multiply_sum([x], [x], None)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
