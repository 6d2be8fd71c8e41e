"""The engine of this processor: `_core.Context`. Its data are NumPy arrays as they come, views where that is enough."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common import openblas
from cipherblas.common.arrays import strips
from cipherblas.common.errors import RangeError
from cipherblas.common.gemm_paths import BYTE_MODULI, BYTE_ROWS, GRAM_COLUMNS, is_byte, is_narrow
from cipherblas.common.memory import aligned_empty, in_threads
from cipherblas.crypto.fields import MODULI_OF_WORD
from cipherblas.crypto.params import Parameters, factor_words
from cipherblas.engines.handles import Signed, Term, Words
from cipherblas.engines.protocol import Engine

# Weights are kept in pieces of so many words of every term; the same piece of all ciphertexts that they multiply should
# fit the core's cache.
PIECE_WORDS, MIN_PIECE_WORDS, PIECES_BYTES = 512, 64, 768 << 10
ALL = slice(None)
Halves: TypeAlias = NDArray[np.uint32]  # of words: residues of one or two of them
MAX_LOOKED_UP = 1 << 17  # integers whose residues are looked up


class CpuEngine(Engine):
    """Handles are uint64 arrays, messages int64 arrays; factors are in NTT Montgomery form."""

    def __init__(self, params: Parameters) -> None:
        self._context = params.context()
        self._moduli = params.q
        self._operand_moduli = list(params.operand_moduli or ())

    # ---- what enters and leaves ----

    def upload(self, words: Words) -> Words:
        return words

    def download(self, ciphertext: Words) -> Words:
        return ciphertext

    def upload_matrix(self, words: Words) -> Words:
        return words

    def download_matrix(self, matrix: Words) -> Words:
        return matrix

    def upload_key(self, words: Words) -> Words:
        return words

    def upload_message(self, coefficients: Signed) -> Signed:
        return coefficients

    # ---- plaintexts ----

    def addend(self, message: Signed, limbs: int) -> Words:
        return self._context.plaintext(message, limbs)

    def factor(self, message: Signed, limbs: int) -> Halves:
        return self._context.factor(message, limbs)

    def encryption(self, addend: Words) -> Words:
        return np.stack([addend, np.zeros_like(addend)])

    def weights_shape(self, limbs: int, terms: int, ciphertexts: int) -> tuple[int, ...]:
        """(halves, N / width, terms, width / 2), halves of words being those of all limbs"""
        n = self._context.n
        width = min(PIECE_WORDS, n)
        while width > MIN_PIECE_WORDS and 16 * width * ciphertexts > PIECES_BYTES:
            width //= 2
        halves = 2 * factor_words(n, self._moduli[:limbs]) // n
        return halves, n // width, terms, width // 2

    def write_weights(self, weights: Words, first: int, messages: Sequence[Signed]) -> None:
        self._context.write_weights(weights.view(np.uint32), first, list(messages))

    # ---- ciphertexts ----

    def drop(self, ciphertext: Words, limbs: int) -> Words:
        return ciphertext[:, :limbs]

    def components(self, x: Words, chosen: Sequence[int]) -> Words:
        if len(chosen) == 2 and 0 <= chosen[0] < chosen[1]:  # views of one a part are decomposed once
            return x[chosen[0] :: chosen[1] - chosen[0]][:2]
        found = aligned_empty((len(chosen), *x.shape[1:]))
        for part, number in zip(found, chosen, strict=True):
            part[...] = x[number] if number >= 0 else 0
        return found

    def add(self, x: Words, y: Words) -> Words:
        return self._context.add(x, y)

    def sub(self, x: Words, y: Words) -> Words:
        return self._context.sub(x, y)

    def neg(self, x: Words) -> Words:
        return self._context.neg(x)

    def add_plain(self, x: Words, plaintext: Words) -> Words:
        return self._context.add_plain(x, plaintext)

    def multiply_scalar(self, x: Words, value: int) -> Words:
        return self._context.multiply_scalar(x, value)

    def scaled_sums(self, sums: Sequence[tuple[Sequence[Words], Sequence[int], int]]) -> list[Words]:
        return self._context.scaled_sums(sums)

    def integer_sums(
        self, integers: NDArray[Any], cts: Sequence[Words], accumulators: Sequence[Words] | None
    ) -> list[Words]:
        otherwise, paths = "exact" if openblas.load() else "auto", _core.gemm_paths()
        (components, limbs, n), largest = cts[0].shape, _largest(integers) if "ifma" in paths else 0
        whole, out = _evenly_spaced(cts), None if accumulators is None else _evenly_spaced(accumulators)
        added = out is not None
        if out is None:
            out = aligned_empty((len(integers), components, limbs, n))
        gathered = aligned_empty((len(cts) if whole is None else 0, n))
        for component, limb in np.ndindex(components, limbs):
            for row, ct in zip(gathered, cts, strict=False):  # of those that lie anywhere
                row[...] = ct[component, limb]
            rows = gathered if whole is None else whole[:, component, limb]
            q = self._moduli[limb]
            path = _path(q, integers, largest, paths) or otherwise
            _core.small_gemm(integers, rows, q, path, out[:, component, limb], added)
        if accumulators is None or added:
            return list(out)
        return [self._context.add(total, own) for total, own in zip(accumulators, out, strict=True)]

    def multiply_sum(
        self, lefts: Sequence[Words], rights: Sequence[Words], accumulator: Words | None
    ) -> Words:
        return self._context.multiply_sum(lefts, rights, accumulator)

    def multiply_plain_sum(
        self, plaintexts: Sequence[Halves], cts: Sequence[Words], accumulator: Words | None
    ) -> Words:
        return self._context.multiply_plain_sum(plaintexts, cts, accumulator)

    def weighted_sums(
        self, weights: Sequence[Words], terms: Sequence[Sequence[int]], cts: Sequence[Words]
    ) -> list[Words]:
        return self._context.weighted_sums([each.view(np.uint32) for each in weights], terms, cts)

    def polynomial_sums(self, polynomials: Signed, cts: Sequence[Words]) -> list[Words]:
        return self._context.polynomial_sums(polynomials, cts)

    def rescale(self, x: Words) -> Words:
        return self._context.rescale(x)

    # ---- key switching ----

    def relinearise(self, x: Words, key: Words, rescale: bool = False) -> Words:
        return self._context.relinearise(x, key, rescale)

    def switch(self, x: Words, key: Words) -> Words:
        return self._context.linear_transform([x], [(0, 0, 1, 0, -1)], [key], [], 1, False, "limb")[0]

    def beside(self, params: Parameters) -> CpuEngine:
        return CpuEngine(params)

    def joined(self, parts: Sequence[Words | None], inner: Engine) -> Words:
        assert isinstance(inner, CpuEngine)
        limbs = next(part.shape[1] for part in parts if part is not None)
        found = np.zeros((limbs, 2, self._context.n), np.uint64)
        for power, part in enumerate(parts):
            if part is not None:
                own = inner._context.rows_from_ntt(np.ascontiguousarray(part))
                found[:, :, power :: len(parts)] = own
        return self._context.rows_to_ntt(found)

    def parted(self, x: Words, inner: Engine) -> list[Words]:
        assert isinstance(inner, CpuEngine)
        coefficients = self._context.rows_from_ntt(np.ascontiguousarray(x))
        parts = self._context.n // inner._context.n
        return [
            inner._context.rows_to_ntt(np.ascontiguousarray(coefficients[:, :, power::parts]))
            for power in range(parts)
        ]

    def raised(self, x: Words, limbs: int) -> Words:
        residues = self._context.rows_from_ntt(np.ascontiguousarray(x))[0].astype(np.int64)
        centred = residues - self._moduli[0] * (residues > self._moduli[0] // 2)
        found = aligned_empty((len(centred), limbs, self._context.n))  # not of pages that the system clears
        for part, each in zip(found, centred, strict=True):
            part[...] = self._context.plaintext(each, limbs)
        return found

    def multiply_relinearise(self, x: Words, y: Words, key: Words, left_factor: int = 1) -> Words:
        return self._context.multiply_relinearise(x, y, key, left_factor)

    def relinearised_sums(
        self, lefts: Sequence[Sequence[Words]], rights: Sequence[Sequence[Words]], key: Words, factor: int
    ) -> list[Words]:
        return self._context.relinearised_sums(lefts, rights, key, factor)

    def multiply_rescale(
        self,
        x: Words,
        y: Words,
        key: Words,
        factor: int,
        added: Words | None,
        added_factor: int,
        constant: int,
        left_factor: int = 1,
    ) -> Words:
        return self._context.multiply_rescale(x, y, key, factor, added, added_factor, constant, left_factor)

    def extended_factor(self, message: Signed, limbs: int, repeats: int) -> Halves:
        return self._context.factor(message, limbs, special=True, repeats=repeats)

    def giant_steps(
        self,
        sources: Sequence[Words],
        babies: Sequence[tuple[int, int]],
        giants: Sequence[tuple[int, int, Sequence[tuple[int, int]]]],
        keys: Sequence[Words],
        plaintexts: Sequence[Halves],
        repeats: int,
    ) -> list[Words]:
        return self._context.giant_steps(sources, babies, giants, _pair_by_pair(keys), plaintexts)

    def coefficient_parts(
        self, sources: Sequence[Words], level: int, parts: int, outputs: int, keys: Sequence[Words]
    ) -> list[Words]:
        return self._context.coefficient_parts(sources, level, parts, outputs, keys)

    def linear_transform(
        self,
        sources: Sequence[Words],
        terms: Sequence[Term],
        keys: Sequence[Words],
        plaintexts: Sequence[Signed],
        outputs: int,
        rescale: bool,
        order: str,
    ) -> list[Words]:
        pairs = _pair_by_pair(keys)
        return self._context.linear_transform(sources, terms, pairs, plaintexts, outputs, rescale, order)

    def transform_sum(
        self,
        sources: Sequence[Words],
        terms: Sequence[Term],
        keys: Sequence[Words],
        plaintexts: Sequence[Signed],
    ) -> Words:
        given = sources, terms, keys, plaintexts
        return self._context.linear_transform(*given, 1, False, "limb", divide=False)[0]

    def divide_sums(self, sums: Sequence[Words]) -> Words:
        return self._context.divide_sums(sums, True)

    # ---- matrices of residues ----

    def add_matrices(self, x: Words, y: Words) -> Words:
        return self._context.add_limbs(_contiguous(x), _contiguous(y))

    def sub_matrices(self, x: Words, y: Words) -> Words:
        return self._context.sub_limbs(_contiguous(x), _contiguous(y))

    def multiply_integers(self, integers: NDArray[Any], x: Words, exact: bool) -> Words:
        by_blas, paths = openblas.load(), _core.gemm_paths()
        out = aligned_empty((len(x), len(integers), x.shape[2]))
        largest = _largest(integers) if exact and "ifma" in paths else 0
        for limb, residues in enumerate(x):
            q, path = self._moduli[limb], "auto" if not by_blas else "exact" if exact else "rounded"
            _core.small_gemm(integers, residues, q, _path(q, integers, largest, paths) or path, out[limb])
        return out

    def gemm_error(self, k: int, largest: float, modulus: float) -> float:
        return _core.small_gemm_rms(k, largest, modulus)

    def multiply_matrices(self, x: Words, y: Words) -> Words:
        openblas.load()
        out = aligned_empty((len(x), x.shape[1], y.shape[2]))
        for limb, (left, right) in enumerate(zip(x, y, strict=True)):
            _core.modular_gemm(left, right, self._moduli[limb], "auto", out[limb])
        return out

    def gram(self, x: Words) -> Words:
        openblas.load()
        cols = x.shape[2]
        out = aligned_empty((len(x), cols, cols))
        for limb, residues in enumerate(x):
            self._gram(residues, self._moduli[limb], out[limb])
        return out

    def multiply_operands(self, x: Words, y: Words) -> Words:
        return self._context.multiply_operands(x, y, self._operand_moduli, len(self._moduli))

    def operand_integers(self, integers: NDArray[Any]) -> Words:
        least, largest = int(integers.min()), int(integers.max())
        if largest - least >= MAX_LOOKED_UP:
            raise RangeError(
                "Integers that operands are multiplied by have 16 bits.",
                expected=f"a range below {MAX_LOOKED_UP}",
                got=largest - least,
            )
        numbers, moduli = np.arange(least, largest + 1), self._operand_moduli
        table = np.zeros((-(-len(moduli) // MODULI_OF_WORD), len(numbers)), np.uint64)
        for place, p in enumerate(moduli):
            table[place // MODULI_OF_WORD] |= (numbers % p).astype(np.uint64) << np.uint64(
                8 * (place % MODULI_OF_WORD)
            )
        out = aligned_empty((len(table), *integers.shape))

        def look_up(rows: slice) -> None:
            positions = integers[rows].astype(np.intp) - least
            for words, own in zip(out, table, strict=True):
                np.take(own, positions, out=words[rows], mode="clip")

        in_threads(look_up, list(strips(integers)), out.nbytes)
        return out

    def gram_operands(self, x: Words) -> Words:
        return self._context.gram_operands(x, self._operand_moduli, len(self._moduli), GRAM_COLUMNS)

    def _gram(self, x: Words, modulus: int, out: Words) -> None:
        """The two halves of the columns with themselves, and one with the other, which stands there twice."""
        cols = x.shape[1]
        if cols <= GRAM_COLUMNS:
            _core.modular_gemm(x.T, x, modulus, "auto", out)
            return
        half = cols // 2
        self._gram(x[:, :half], modulus, out[:half, :half])
        self._gram(x[:, half:], modulus, out[half:, half:])
        _core.modular_gemm(x[:, :half].T, x[:, half:], modulus, "auto", out[:half, half:])
        out[half:, :half] = out[:half, half:].T

    def transposed(self, x: Words) -> Words:
        swapped: Words = x.transpose(0, 2, 1)
        return swapped

    def cut(self, x: Words, rows: slice = ALL, columns: slice = ALL) -> Words:
        return x[:, rows, columns]

    def copied(self, x: Words) -> Words:
        base = x.base
        whole = not isinstance(base, np.ndarray) or base.nbytes == x.nbytes
        return x if whole and x.flags.c_contiguous else _stacked([x])

    def stack(self, xs: Sequence[Words]) -> Words:
        return _stacked(xs)

    def spread(self, x: Words, shape: tuple[int, int], strides: tuple[int, int]) -> Words:
        if x.shape[1:] == shape:
            return x
        out = aligned_empty((len(x), *shape))
        out.fill(0)
        out[:, : x.shape[1] * strides[0] : strides[0], : x.shape[2] * strides[1] : strides[1]] = x
        return out

    def rescale_matrix(self, x: Words) -> Words:
        return self._context.rescale_limbs(_contiguous(x))

    def drop_limbs(self, x: Words, limbs: int) -> Words:
        return x[:limbs]

    # ---- between rows and ciphertexts ----

    def rows_as_ciphertexts(self, a: Words, b: Words) -> list[Words]:
        return list(self._context.elements_of_rows(a, b))

    def rows_of_ciphertexts(
        self, cts: Sequence[Words], rows: int, columns: int, held: int
    ) -> tuple[Words, Words]:
        return self._context.rows_of_elements(cts, rows, columns, held)

    # ---- key switching of rows ----

    def switch_rows(self, a: Words, row: int, keys: Sequence[Words], columns: int) -> tuple[Words, Words]:
        return self._context.switch_rows(np.ascontiguousarray(a[:, row]), keys, columns)

    def relinearise_rows(self, a: Words, b: Words, key: Words) -> tuple[Words, Words]:
        return self._context.relinearise_rows(a, b, key)

    def transpose_rows(self, a: Words, b: Words, keys: Sequence[Words], policy: str) -> tuple[Words, Words]:
        return self._context.transpose_rows(a, b, keys, policy)

    def transpose_classes(
        self, x: Words, parts: int, first: int, inverse: bool, *, in_place: bool = False
    ) -> Words:
        out = x if in_place else None
        return self._context.transpose_classes(x, self._context.n, parts, first, inverse, out)

    def transpose_blocks(
        self,
        a: Words,
        b: Words,
        parts: int,
        blocks: Sequence[int],
        keys: Sequence[Words | None],
        policy: str,
        *,
        in_place: bool = False,
    ) -> tuple[Words, Words]:
        out = (a, b) if in_place else (None, None)
        return self._context.transpose_blocks(a, b, parts, blocks, keys, policy, *out)


def _pair_by_pair(keys: Sequence[Words]) -> list[Words]:
    """Keys of ciphertexts that share their a part, (pairs, *key_shape), as ordinary ones that follow each other."""
    return [pair for key in keys for pair in (key if key.ndim == 4 else [key])]


def _path(q: int, integers: NDArray[Any], largest: float, paths: Sequence[str]) -> str | None:
    """The path of products of integers up to `largest` (0: not known) that are bytes, or narrow; None: of others."""
    rows, terms = integers.shape
    if rows >= BYTE_ROWS and "bytes" in paths and _are_short(q, terms, integers.dtype, largest):
        return "bytes"
    return "narrow" if largest and is_narrow(q, terms, largest) else None


def _evenly_spaced(arrays: Sequence[Words]) -> Words | None:
    """Arrays of one shape that lie one after the other in memory, at equal distances, as one; else None."""
    first, places = arrays[0], [one.__array_interface__["data"][0] for one in arrays]
    steps = {after - before for before, after in itertools.pairwise(places)} or {first.nbytes}
    same_strides = len({one.strides for one in arrays}) == 1
    if len(steps) > 1 or not same_strides or min(steps) < first.nbytes:
        return None
    (step,) = steps
    return np.lib.stride_tricks.as_strided(first, (len(arrays), *first.shape), (step, *first.strides))


def _are_short(q: int, terms: int, dtype: np.dtype[Any], largest: float) -> bool:
    """Whether integers are multiplied as bytes: int8 ones, which takes no longer than one float64 product, and others
    up to `largest` (0: not known) where exact float64 would take several."""
    if dtype == np.int8:
        return q >= BYTE_MODULI[0]
    return largest > 0 and is_byte(q, terms, largest)


def _largest(integers: NDArray[Any]) -> int:
    """The largest absolute value."""
    return max(int(integers.max()), -int(integers.min())) if integers.size else 0


def _contiguous(part: Words) -> Words:
    """The array itself where it is contiguous, else a copy that is."""
    return part if part.flags.c_contiguous else _stacked([part])


def _stacked(parts: Sequence[Words]) -> Words:
    """The rows of (limbs, rows, columns) arrays, one below the other; `np.concatenate` would not use the pool."""
    limbs, _, columns = parts[0].shape
    out: Words = aligned_empty((limbs, sum(part.shape[1] for part in parts), columns))
    start = 0
    for part in parts:
        out[:, start : start + part.shape[1]] = part
        start += part.shape[1]
    return out
