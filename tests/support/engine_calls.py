"""Calls of engines, of every operation of the table: what its tests run on engines, on shapes and on the core.

A new operation needs cases here, a record at its stub, and the formulas of `ReferenceEngine`; then its words, its
shapes, its counts of kernels and the border of the core behind it are tested.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cipherblas.common.memory import aligned
from cipherblas.crypto.params import Parameters
from cipherblas.engines.protocol import Engine
from cipherblas.rlwe.matrices.transposition import POLICIES, transpose_plan
from tests.support.engine_draws import OPERANDS, RINGS, SMALL, Draw, RingSizes, Words, toy

Call: TypeAlias = Callable[[Engine], Any]


@dataclass(frozen=True)
class Cases:
    """Calls of some operations.

    Attributes:
        names: of the operations.
        calls: draws them in a ring.
        rings: where, by name.
    """

    names: tuple[str, ...]
    calls: Callable[[Draw], Iterator[Call]]
    rings: Mapping[str, RingSizes]


CASES: list[Cases] = []


def _cases(*names: str, rings: Mapping[str, RingSizes] = RINGS) -> Callable[[Any], Any]:
    def entered(calls: Callable[[Draw], Iterator[Call]]) -> Callable[[Draw], Iterator[Call]]:
        CASES.append(Cases(names, calls, rings))
        return calls

    return entered


def owned(engine: Engine, words: Words | None) -> Any:
    """An accumulator, which may be overwritten: made by the engine."""
    return None if words is None else engine.neg(engine.upload(words))


# ---- ciphertexts ----


@_cases("upload", "drop", "components", "add", "sub", "neg")
def _sums(draw: Draw) -> Iterator[Call]:
    x = draw.ciphertext(draw.top, 3)
    yield lambda e: e.upload(x)
    yield lambda e: e.drop(e.upload(x), 1)
    for chosen in ((0, 1), (0, 2), (1, 2), (2, 0), (1,), (-1, 1), (0, -1, -1, 2)):
        yield lambda e, chosen=chosen: e.components(e.upload(x), chosen)
    for components in ((2, 2), (2, 3), (3, 2)):
        for limbs in (1, draw.top):
            one, other = (draw.ciphertext(limbs, count) for count in components)
            yield lambda e, x=one, y=other: e.add(e.upload(x), e.upload(y))
            yield lambda e, x=one, y=other: e.sub(e.upload(x), e.upload(y))
            yield lambda e, x=one: e.neg(e.upload(x))


@_cases("multiply_scalar", "scaled_sums")
def _scalars(draw: Draw) -> Iterator[Call]:
    """By integers of any size; sums of fewer limbs, and of more components, beside others that share their terms."""
    values = [0, 1, -1, 7, -(1 << 90), 3**60]
    x, y, three = draw.ciphertext(draw.top), draw.ciphertext(draw.top), draw.ciphertext(draw.top, 3)
    for value in values:
        yield lambda e, value=value: e.multiply_scalar(e.upload(three), value)
    for limbs in (1, draw.top):
        cts = [draw.ciphertext(limbs, 3) for _ in values]
        for number, constant in ((1, 0), (2, -5), (len(values), 1 << 80)):
            some = cts[-number:], values[-number:], constant
            yield lambda e, some=some: e.scaled_sums([([e.upload(ct) for ct in some[0]], *some[1:])])

    def shared(e: Engine) -> Any:
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

    yield shared


@_cases("integer_sums")
def _sums_of_integers(draw: Draw) -> Iterator[Call]:
    """Of ciphertexts that lie anywhere; of fewer limbs, of more components, added to sums or to other ciphertexts."""
    for limbs, components in ((1, 2), (draw.top, 2), (draw.top, 3)):
        cts = [draw.ciphertext(limbs, components) for _ in range(3)]
        for dtype in (np.int8, np.int16, np.int32, np.int64, np.float64):
            largest = 127 if dtype is np.int8 else 30_000
            integers = draw.random.integers(-largest, largest + 1, (9, 3)).astype(dtype)
            integers[0] = -largest

            def sums(e: Engine, cts: Any = cts, integers: Any = integers, rows: int = 9) -> Any:
                return e.integer_sums(integers[:rows], [e.upload(ct) for ct in cts], None)

            yield sums
            yield lambda e, sums=sums: sums(e, rows=1)

            def added(e: Engine, cts: Any = cts, integers: Any = integers, sums: Any = sums) -> Any:
                return e.integer_sums(integers[:, :2], [e.upload(ct) for ct in cts[:2]], sums(e))

            yield added
        yield lambda e, cts=cts: e.integer_sums(
            np.array([[3, -5, 0]] * len(cts)), [e.upload(ct) for ct in cts], [owned(e, ct) for ct in cts]
        )


@_cases("upload_message", "addend", "factor", "encryption", "add_plain", "multiply_plain_sum")
def _plaintexts(draw: Draw) -> Iterator[Call]:
    for bits in (3, 40, 61):
        x, y, message = draw.ciphertext(draw.top), draw.ciphertext(draw.top), draw.message(bits)

        def addend(e: Engine, message: Any = message) -> Any:
            return e.addend(e.upload_message(message), draw.top)

        def factor(e: Engine, message: Any = message) -> Any:
            return e.factor(e.upload_message(message), draw.top)

        yield lambda e, x=x, addend=addend: e.add_plain(e.upload(x), addend(e))
        yield lambda e, addend=addend: e.encryption(addend(e))
        for total in (None, y):
            yield lambda e, x=x, y=y, factor=factor, total=total: e.multiply_plain_sum(
                [factor(e)] * 2, [e.upload(x), e.upload(y)], owned(e, total)
            )


@_cases("multiply_sum")
def _products(draw: Draw) -> Iterator[Call]:
    for count in (1, 3):
        for limbs in (1, draw.top):
            lefts, rights = ([draw.ciphertext(limbs) for _ in range(count)] for _ in range(2))
            for total in (None, draw.ciphertext(limbs, 3)):
                yield lambda e, lefts=lefts, rights=rights, total=total: e.multiply_sum(
                    [e.upload(x) for x in lefts], [e.upload(x) for x in rights], owned(e, total)
                )


@_cases(
    *("weights_shape", "write_weights", "weighted_sums"),
    rings={name: ring for name, ring in RINGS.items() if ring[0] >= 64},  # pieces of weights are so long
)
def _weights(draw: Draw) -> Iterator[Call]:
    cts = [draw.ciphertext(draw.top) for _ in range(3)]
    messages = [[draw.message() for _ in range(count)] for count in (2, 3)]

    def sums(e: Engine) -> Any:
        arrays = []
        for group in messages:
            array = np.empty(e.weights_shape(draw.top, len(group), len(cts)), np.uint64)
            handles = [e.upload_message(message) for message in group]
            e.write_weights(array, 0, handles[:1])
            e.write_weights(array, 1, handles[1:])
            arrays.append(array)
        return e.weighted_sums(arrays, [[2, 0], [0, 1, 2]], [e.upload(ct) for ct in cts])

    yield sums


@_cases("polynomial_sums")
def _polynomials(draw: Draw) -> Iterator[Call]:
    """Of few coefficients and of all, the largest among them."""
    n = draw.n
    for limbs, outputs, terms, count in ((1, 1, 1, 8), (draw.top, 3, 2, min(n, 16)), (2, 2, 5, n)):
        cts = [draw.ciphertext(limbs) for _ in range(terms)]
        polynomials = np.random.default_rng(count).integers(-(2**52), 2**52, (outputs, terms, count))
        polynomials[0, 0, :2] = -(2**62), 2**62
        yield lambda e, cts=cts, each=polynomials: e.polynomial_sums(each, [e.upload(ct) for ct in cts])


@_cases("rescale")
def _rescales(draw: Draw) -> Iterator[Call]:
    for components in (2, 3):
        for limbs in (2, draw.top):
            x = draw.ciphertext(limbs, components)
            yield lambda e, x=x: e.rescale(e.upload(x))


# ---- key switching ----


@_cases("upload_key", "relinearise", "multiply_relinearise", "switch", "raised")
def _switches(draw: Draw) -> Iterator[Call]:
    """Also by a key that was made for more limbs."""
    key, one = draw.key(draw.top), draw.ciphertext(1)
    for limbs in (1, 2, draw.top):
        x, y, product = draw.ciphertext(limbs), draw.ciphertext(limbs), draw.ciphertext(limbs, 3)
        yield lambda e, x=product: e.relinearise(e.upload(x), e.upload_key(key))
        for left in (1, -(3**40)):
            yield lambda e, x=x, y=y, left=left: e.multiply_relinearise(
                e.upload(x), e.upload(y), e.upload_key(key), left
            )
        yield lambda e, x=x: e.switch(e.upload(x), e.upload_key(key))
        yield lambda e, limbs=limbs: e.raised(e.upload(one), limbs)


@_cases("relinearised_sums")
def _relinearised_sums(draw: Draw) -> Iterator[Call]:
    """Of fewer sums than threads, and more."""
    key = draw.key(draw.top)
    for limbs, terms, sums, lines, factor in (
        *((1, 3, 1, 1, 1), (draw.top, 1, 4, 3, 5), (draw.top, 3, 5, 1, -(3**40)), (1, 2, 19, 1, 1)),
        *((1, 1, 2, 9, 2), (draw.top, 2, 9, 5, 1)),
    ):
        lefts = [[draw.ciphertext(limbs) for _ in range(terms)] for _ in range(lines)]
        rights = [[draw.ciphertext(limbs) for _ in range(terms)] for _ in range(sums)]
        yield lambda e, sides=(lefts, rights), factor=factor: e.relinearised_sums(
            *([[e.upload(ct) for ct in each] for each in side] for side in sides), e.upload_key(key), factor
        )


@_cases("multiply_rescale", "relinearise")
def _rescaled_products(draw: Draw) -> Iterator[Call]:
    """At once, with what is added."""
    key, large = draw.key(draw.top), 3**40
    for limbs in range(2, draw.top + 1):
        x, y, z, product = (draw.ciphertext(limbs, components) for components in (2, 2, 2, 3))
        yield lambda e, x=product: e.relinearise(e.upload(x), e.upload_key(key), True)
        for added, numbers in (
            (None, (1, 0, 0, 1)),
            (z, (2, -large, large, 1)),
            (None, (-large, 0, -1, 1)),
            (None, (1, 0, 0, large)),
            (z, (-3, large, 2, -large)),
        ):
            yield lambda e, x=x, y=y, z=added, numbers=numbers: e.multiply_rescale(
                *(e.upload(x), e.upload(y), e.upload_key(key)),
                *(numbers[0], None if z is None else e.upload(z), *numbers[1:]),
            )


@_cases("extended_factor", "giant_steps")
def _giant_steps(draw: Draw) -> Iterator[Call]:
    """Rotations for several sums, one of them in place; sums of one term and of none; several sources; plaintexts that
    repeat."""
    order = 2 * draw.n
    keys = [draw.key(draw.top) for _ in range(5)]
    babies = [(5, 0), (1, -1), (order - 1, 1), (25 % order, 2)]
    terms: list[list[tuple[int, int]]] = [[(0, 0), (1, 1), (3, 2)], [(2, 0), (0, 3)], []]
    messages = {1: [draw.message() for _ in range(4)]}
    for repeats in sorted({8, draw.n}):
        messages[repeats] = [draw.message() * (np.arange(draw.n) % repeats == 0) for _ in range(4)]
    for giants in ((1,), (5,), (1, 5), (5, 25), (1, 5, 25)):
        steps = [
            (galois % order, -1 if galois == 1 else 2 + number, terms[number])
            for number, galois in enumerate(giants)
        ]
        for limbs in sorted({2, draw.top}):
            xs = [draw.ciphertext(limbs) for _ in range(3)]

            def sums(e: Engine, xs: Any, repeats: int = 1, steps: Any = steps, limbs: int = limbs) -> Any:
                return e.giant_steps(
                    *([e.upload(x) for x in xs], babies, steps, [e.upload_key(key) for key in keys]),
                    [e.extended_factor(e.upload_message(m), limbs, repeats) for m in messages[repeats]],
                    repeats,
                )

            if len(giants) == 2:
                for repeats in messages:
                    yield lambda e, sums=sums, xs=xs, repeats=repeats: sums(e, xs, repeats)
            yield lambda e, sums=sums, xs=xs: sums(e, xs[:1])


@_cases("coefficient_parts")
def _coefficient_parts(draw: Draw) -> Iterator[Call]:
    """All parts and the first one, of one polynomial and several; the deepest level."""
    layers, deepest = min(3, draw.n.bit_length() - 3), draw.n.bit_length() - 2
    for level, number, outputs, limbs in (
        (0, layers, 1 << layers, draw.top),
        (1, 1, 1, 1),
        (deepest - layers, layers, (1 << layers) - 1, draw.top),
        (deepest - 1, 1, 2, 2),
    ):
        keys = [draw.key(draw.top) for _ in range((1 << number) - 1)]
        for sources in (1, 3):
            xs = [draw.ciphertext(limbs) for _ in range(sources)]
            given = level, 1 << number, outputs
            yield lambda e, xs=xs, given=given, keys=keys: e.coefficient_parts(
                [e.upload(x) for x in xs], *given, [e.upload_key(key) for key in keys]
            )


@_cases("linear_transform")
def _transforms(draw: Draw) -> Iterator[Call]:
    """Two sources, with keys and without, plaintexts or none in an output; one output without terms; no keys at all."""
    n = draw.n
    terms = [
        *((0, 0, 5, 0, 0), (0, 1, 2 * n - 1, 1, 1), (0, 1, 1, -1, 2)),
        *((1, 0, 1, -1, -1), (1, 1, pow(5, 3, 2 * n), 0, -1)),
        *((3, 0, 1, -1, -1), (3, 1, 1, -1, -1)),
    ]
    x, message = draw.ciphertext(draw.top), draw.message()
    for rescale in (False, True):
        yield lambda e, rescale=rescale: e.linear_transform(
            [e.upload(x)], [(0, 0, 1, -1, 0)], [], [e.upload_message(message)], 1, rescale, "limb"
        )
        for order in ("limb", "rotation"):
            for limbs in (2, draw.top):
                sources = [draw.ciphertext(limbs) for _ in range(2)]
                keys = [draw.key(draw.top), draw.key(limbs)]
                plaintexts = [draw.message() for _ in range(3)]
                given = sources, keys, plaintexts, rescale, order
                yield lambda e, given=given: e.linear_transform(
                    [e.upload(x) for x in given[0]],
                    terms,
                    [e.upload_key(key) for key in given[1]],
                    [e.upload_message(message) for message in given[2]],
                    4,
                    *given[3:],
                )


@_cases("transform_sum", "divide_sums")
def _sums_of_ranks(draw: Draw) -> Iterator[Call]:
    """Parts of one output, with keys and without; their sum, divided, and the transform of all their terms."""
    n = draw.n
    terms = [(0, 0, 5, 0, 0), (0, 1, pow(5, 3, 2 * n), 1, 1), (0, 1, 1, -1, 2)]
    for limbs in (2, draw.top):
        sources = [draw.ciphertext(limbs) for _ in range(2)]
        keys = [draw.key(draw.top), draw.key(limbs)]
        plaintexts = [draw.message() for _ in range(3)]

        def parts(e: Engine, *some: Any, given: Any = (sources, keys, plaintexts)) -> list[Any]:
            xs, uploaded = [e.upload(x) for x in given[0]], [e.upload_key(key) for key in given[1]]
            messages = [e.upload_message(message) for message in given[2]]
            return [e.transform_sum(xs, part, uploaded, messages) for part in some]

        yield lambda e, parts=parts: parts(e, terms[:2], terms[2:])
        yield lambda e, parts=parts: e.divide_sums(parts(e, terms[2:], terms[:1], terms[1:2]))


# ---- matrices of residues ----


@_cases("upload_matrix", "add_matrices", "sub_matrices")
def _sums_of_matrices(draw: Draw) -> Iterator[Call]:
    """Also of what was cut out, and transposed, which need not lie in one piece."""
    for limbs in (1, draw.top):
        x, y, z = draw.matrix(limbs, 6, 16), draw.matrix(limbs, 6, 16), draw.matrix(limbs, 3, 8)
        yield lambda e, x=x, y=y: e.add_matrices(e.upload_matrix(x), e.upload_matrix(y))
        yield lambda e, x=x, y=y: e.sub_matrices(e.upload_matrix(x), e.upload_matrix(y))
        yield lambda e, x=x, z=z: e.add_matrices(
            e.cut(e.upload_matrix(x), rows=slice(0, 6, 2), columns=slice(8, 16)), e.upload_matrix(z)
        )
        yield lambda e, x=x: e.sub_matrices(
            e.transposed(e.upload_matrix(x)), e.transposed(e.upload_matrix(x))
        )


@_cases("rescale_matrix")
def _division_by_the_last_limb(draw: Draw) -> Iterator[Call]:
    for limbs in range(2, draw.top + 1):
        x = draw.matrix(limbs, 6, 16)
        yield lambda e, x=x: e.rescale_matrix(e.upload_matrix(x))
        yield lambda e, x=x: e.rescale_matrix(
            e.cut(e.upload_matrix(x), rows=slice(0, 6, 2), columns=slice(5, 9))
        )


@_cases("multiply_operands", "gram_operands", "operand_integers", rings=OPERANDS)
def _operands(draw: Draw) -> Iterator[Call]:
    for x, y in (
        (draw.operand(5, 9), draw.operand(9, 16)),
        (draw.operand(1, 1), draw.operand(1, 3)),
        (draw.operand(3, 4100), draw.operand(4100, 5)),
    ):
        yield lambda e, x=x, y=y: e.multiply_operands(e.upload_matrix(x), e.upload_matrix(y))
        yield lambda e, y=y: e.multiply_operands(e.transposed(e.upload_matrix(y)), e.upload_matrix(y))
    z = draw.operand(9, 16)
    yield lambda e: e.gram_operands(e.upload_matrix(z))
    whole = np.random.default_rng(9).integers(-(1 << 15), 1 << 15, (7, 9), np.int16, endpoint=False)
    whole[0, :2] = -(1 << 15), (1 << 15) - 1
    for integers in (whole, whole.T.astype(np.float64).T, -whole.astype(np.int64), np.zeros_like(whole)):
        yield lambda e, integers=integers: e.operand_integers(integers)
        yield lambda e, integers=integers: e.multiply_operands(
            e.operand_integers(integers), e.upload_matrix(z)
        )


@_cases("multiply_matrices", "gram")
def _products_of_matrices(draw: Draw) -> Iterator[Call]:
    for limbs in (1, draw.top):
        x, y = draw.matrix(limbs, 5, 9), draw.matrix(limbs, 9, 16)
        yield lambda e, x=x, y=y: e.multiply_matrices(e.upload_matrix(x), e.upload_matrix(y))
        yield lambda e, y=y: e.gram(e.upload_matrix(y))
        yield lambda e, y=y: e.multiply_matrices(e.transposed(e.upload_matrix(y)), e.upload_matrix(y))


@_cases("multiply_integers", "gemm_error")
def _products_of_integers(draw: Draw) -> Iterator[Call]:
    """Exact ones; others have errors."""
    x = draw.matrix(draw.top, 12, 16)
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.float64):
        largest = 127 if dtype is np.int8 else 30_000
        integers = draw.random.integers(-largest, largest + 1, (7, 12)).astype(dtype)
        integers[0] = largest
        yield lambda e, integers=integers: e.multiply_integers(integers, e.upload_matrix(x), True)

    def rounded_where_that_is_exact(e: Engine) -> Any:
        exact = e.gemm_error(12, 1, draw.params.q[0]) > 0
        return e.multiply_integers(np.ones((7, 12), np.int8), e.upload_matrix(x), exact)

    yield rounded_where_that_is_exact


@_cases("transposed", "cut", "copied", "stack", "spread", "drop_limbs")
def _parts_of_matrices(draw: Draw) -> Iterator[Call]:
    n, x, y = draw.n, draw.matrix(2, 4, 8), draw.matrix(2, 3, 8)
    yield lambda e: e.transposed(e.upload_matrix(x))
    yield lambda e: e.cut(e.upload_matrix(x), columns=slice(1, 8, 3))
    yield lambda e: e.copied(e.cut(e.upload_matrix(x), rows=slice(1, 3)))
    yield lambda e: e.copied(e.upload_matrix(x))
    yield lambda e: e.drop_limbs(e.upload_matrix(x), 1)
    yield lambda e: e.stack([e.upload_matrix(part) for part in (x, y, x)])
    for strides in ((1, 1), (n // 4, 1), (1, n // 8), (n // 4, n // 8)):
        shape = (n if strides[0] > 1 else 4, n if strides[1] > 1 else 8)
        yield lambda e, s=shape, t=strides: e.spread(e.upload_matrix(x), s, t)


# ---- key switching of rows ----


@_cases("switch_rows", "relinearise_rows")
def _switches_of_rows(draw: Draw) -> Iterator[Call]:
    n = draw.n
    for limbs in (1, draw.top):
        a, b = draw.matrix(limbs, 3, n), draw.matrix(limbs, 3, n)
        keys = [draw.key(draw.top), draw.key(limbs)]
        for columns in (n, n // 2 + 1):
            yield lambda e, a=a, keys=keys, columns=columns: e.switch_rows(
                e.upload_matrix(a), 2, [e.upload_key(key) for key in keys], columns
            )
        yield lambda e, a=a, b=b, keys=keys: e.relinearise_rows(
            e.upload_matrix(a), e.upload_matrix(b), e.upload_key(keys[0])
        )


@_cases("transpose_rows", rings=SMALL)
def _transpositions(draw: Draw) -> Iterator[Call]:
    for policy in POLICIES:
        for d in sorted({8, draw.n}):
            keys = [draw.key(2) for _ in transpose_plan(d, policy).elements]
            a, b = draw.matrix(2, d, draw.n), draw.matrix(2, d, d)
            yield lambda e, a=a, b=b, keys=keys, policy=policy: e.transpose_rows(
                e.upload_matrix(a), e.upload_matrix(b), [e.upload_key(key) for key in keys], policy
            )


@_cases("transpose_classes", "transpose_blocks", rings={name: SMALL[name] for name in ("N=8", "N=16 packed")})
def _transpositions_in_steps(draw: Draw) -> Iterator[Call]:
    """All classes and all blocks, in place or not; that shares of several ranks fit together is a test of its own."""
    n, parts = draw.n, draw.n // 4

    def transposed(e: Engine, policy: str, words: Any, keys: Any, in_place: bool) -> Any:
        halves = [e.upload_matrix(aligned(part.copy())) for part in words]
        halves = [e.transpose_classes(x, parts, 0, False, in_place=in_place) for x in halves]
        uploaded = [e.upload_key(key) for key in keys]
        turned = e.transpose_blocks(*halves, parts, list(range(parts)), uploaded, policy, in_place=in_place)
        return [e.transpose_classes(x, parts, 0, True, in_place=in_place) for x in turned]

    for policy in POLICIES:
        keys = [draw.key(2) for _ in transpose_plan(n, policy).elements]
        words = [draw.matrix(2, n, n) for _ in range(2)]
        given = {"policy": policy, "words": words, "keys": keys}
        yield functools.partial(transposed, **given, in_place=False)
        yield functools.partial(transposed, **given, in_place=True)


# ---- between rows and ciphertexts, and between rings ----


@_cases("rows_as_ciphertexts", "rows_of_ciphertexts")
def _rows_and_ciphertexts(draw: Draw) -> Iterator[Call]:
    """Rows as elements; and elements as rows: all that an element holds, one of each, and what is between."""
    n = draw.n
    for columns in (1, 2, n // 2, n):
        a, b = draw.matrix(2, 3, n), draw.matrix(2, 3, columns)
        yield lambda e, a=a, b=b: e.rows_as_ciphertexts(e.upload_matrix(a), e.upload_matrix(b))
        most = n // columns
        for held in sorted({1, max(1, most // 2), max(1, most - 1), most}):
            rows = held + (held + 1) // 2
            cts = [draw.ciphertext(2), draw.ciphertext(2)] if rows > held else [draw.ciphertext(2)]
            yield lambda e, cts=cts, given=(rows, columns, held): e.rows_of_ciphertexts(
                [e.upload(ct) for ct in cts], *given
            )


@_cases(
    *("beside", "joined", "parted"),
    rings={name: ring for name, ring in RINGS.items() if ring[0] >= 32},  # there is no ring below 8
)
def _other_rings(draw: Draw) -> Iterator[Call]:
    for parts in (2, 4):
        own = small(draw.params, parts)
        inner = Draw(own, draw.extreme, draw.random)
        words = [inner.ciphertext(2) if power % 3 != 1 else None for power in range(parts)]
        yield lambda e, own=own, words=words: joined(e, own, words)
        yield lambda e, own=own, words=words: e.parted(joined(e, own, words), e.beside(own))
    other = toy(draw.n, (50.0,), 1, None)
    if other.q[0] == draw.params.q[0]:  # what an engine for other parameters made
        x = draw.ciphertext(1)
        yield lambda e: e.raised(e.beside(other).upload(x), draw.top)


def small(params: Parameters, parts: int) -> Parameters:
    """The same for a ring so many times smaller."""
    return dataclasses.replace(params, n=params.n // parts, insecure=True)


def joined(engine: Engine, own: Parameters, words: Sequence[Words | None]) -> Any:
    """Of elements of a smaller ring, None for 0."""
    inner = engine.beside(own)
    return engine.joined([None if part is None else inner.upload(part) for part in words], inner)
