"""A second engine: plain NumPy integers, slow, for toy rings. It must equal the engine of the processor bit for bit.

What it holds are objects of its own, which are neither arrays nor can be sliced: code above an engine that reaches into
data fails on it. Of the core it uses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.crypto.params import Parameters
from cipherblas.engines.handles import Signed, Term
from cipherblas.engines.protocol import Engine
from cipherblas.rlwe.matrices.transposition import transpose_plan
from tests.support import reference_ring as ring
from tests.support.reference_ring import Words

MONTGOMERY_BITS = 52


@dataclass(frozen=True, eq=False)
class _Handle:
    words: Words = field(repr=False)

    @property
    def nbytes(self) -> int:
        return self.words.nbytes


class Ciphertext(_Handle):
    """(components, limbs, N), values."""


class Matrix(_Handle):
    """(limbs, rows, columns), coefficients."""


class Key(_Handle):
    """(digits, 2, limbs + k, N), values."""


class Addend(_Handle):
    """(limbs, N), values."""


class Factor(_Handle):
    """(limbs, N), values."""


@dataclass(frozen=True, eq=False)
class Message:
    """Coefficients, int64 (N,)."""

    coefficients: Signed = field(repr=False)

    @property
    def nbytes(self) -> int:
        return self.coefficients.nbytes


class ReferenceEngine(Engine):
    """The formulas, with NumPy integers."""

    def __init__(self, params: Parameters) -> None:
        self._params = params
        self._primes = [*params.q, *params.p]
        self._special = range(len(params.q), len(self._primes))
        self._product = prod(params.p)  # P
        self._keys: dict[int, tuple[Words, Key]] = {}  # by the identity of the array, which is kept

    # ---- what enters and leaves ----

    def upload(self, words: Words) -> Ciphertext:
        return Ciphertext(np.array(words))

    def download(self, ciphertext: Ciphertext) -> Words:
        return _words(ciphertext, Ciphertext).copy()

    def upload_matrix(self, words: Words) -> Matrix:
        return Matrix(np.array(words))

    def download_matrix(self, matrix: Matrix) -> Words:
        return _words(matrix, Matrix).copy()

    def upload_key(self, words: Words) -> Key:
        if id(words) not in self._keys:
            if words.ndim == 4:  # each two components of (b_1, …, b_r, a)
                residues = np.concatenate([self._unpacked(pair) for pair in words], axis=1)
            else:
                residues = self._unpacked(words)
            limbs = residues.shape[2] - len(self._special)
            for row, limb in enumerate(self._extended(limbs)):
                q = self._primes[limb]
                residues[:, :, row] = ring.times(residues[:, :, row], pow(2, -MONTGOMERY_BITS, q), q)
            self._keys[id(words)] = words, Key(residues)
        return self._keys[id(words)][1]

    def upload_message(self, coefficients: Signed) -> Message:
        return Message(np.array(coefficients))

    def _unpacked(self, words: Words) -> Words:
        """Limb after limb N residues of 32, 40, 48 or 50 bits, by the size of the prime."""
        n = self._params.n
        widths = [next(bits for bits in (32, 40, 48, 50) if q < 1 << bits) for q in self._primes]
        sizes, total = [-(-n * width // 64) for width in widths], words.shape[-1]
        limbs = next(
            count
            for count in range(1, self._special.start + 1)
            if sum(sizes[limb] for limb in self._extended(count)) == total
        )
        found, start = [], 0
        for limb in self._extended(limbs):
            part, width = words[..., start : start + sizes[limb]].astype("<u8"), widths[limb]
            ones = np.unpackbits(part.view(np.uint8), axis=-1, bitorder="little")
            bits = np.zeros((*part.shape[:-1], n, 64), np.uint8)
            bits[..., :width] = ones[..., : n * width].reshape(*part.shape[:-1], n, width)
            found.append(np.packbits(bits, axis=-1, bitorder="little").view("<u8")[..., 0].astype(np.uint64))
            start += sizes[limb]
        return np.stack(found, axis=-2)

    # ---- plaintexts ----

    def addend(self, message: Message, limbs: int) -> Addend:
        return Addend(self._encoded(message, range(limbs)))

    def factor(self, message: Message, limbs: int) -> Factor:
        return Factor(self._encoded(message, range(limbs)))

    def encryption(self, addend: Addend) -> Ciphertext:
        words = _words(addend, Addend)
        return Ciphertext(np.stack([words, np.zeros_like(words)]))

    def weights_shape(self, limbs: int, terms: int, ciphertexts: int) -> tuple[int, ...]:
        return terms, limbs, self._params.n

    def write_weights(self, weights: Words, first: int, messages: Sequence[Message]) -> None:
        for term, message in enumerate(messages, first):
            weights[term] = self._encoded(message, range(weights.shape[1]))

    def _encoded(self, message: Message, limbs: Sequence[int]) -> Words:
        assert isinstance(message, Message)
        rows = ((i, ring.residues(message.coefficients, self._primes[i])) for i in limbs)
        return np.stack([ring.ntt(row, self._primes[i]) for i, row in rows])

    # ---- ciphertexts ----

    def drop(self, ciphertext: Ciphertext, limbs: int) -> Ciphertext:
        return Ciphertext(_words(ciphertext, Ciphertext)[:, :limbs].copy())

    def components(self, x: Ciphertext, chosen: Sequence[int]) -> Ciphertext:
        words = _words(x, Ciphertext)
        return Ciphertext(np.stack([words[i] if i >= 0 else np.zeros_like(words[0]) for i in chosen]))

    def add(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        return Ciphertext(self._limbwise(ring.plus, *_alike(x, y), axis=1))

    def sub(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        return Ciphertext(self._limbwise(ring.minus, *_alike(x, y), axis=1))

    def neg(self, x: Ciphertext) -> Ciphertext:
        words = _words(x, Ciphertext)
        return Ciphertext(self._limbwise(ring.minus, np.zeros_like(words), words, axis=1))

    def add_plain(self, x: Ciphertext, plaintext: Addend) -> Ciphertext:
        return self.add(x, Ciphertext(_words(plaintext, Addend)[None]))

    def multiply_scalar(self, x: Ciphertext, value: int) -> Ciphertext:
        words = _words(x, Ciphertext)
        limbs = [ring.times(words[:, i], value % q, q) for i, q in self._limbs(words.shape[1])]
        return Ciphertext(np.stack(limbs, axis=1))

    def scaled_sums(
        self, sums: Sequence[tuple[Sequence[Ciphertext], Sequence[int], int]]
    ) -> list[Ciphertext]:
        return [self._scaled_sum(*one) for one in sums]

    def _scaled_sum(self, cts: Sequence[Ciphertext], values: Sequence[int], constant: int) -> Ciphertext:
        total = np.zeros_like(_words(cts[0], Ciphertext))
        for i, q in self._limbs(total.shape[1]):
            total[0, i] = constant % q
        found = Ciphertext(total)
        for ct, value in zip(cts, values, strict=True):
            found = self.add(found, self.multiply_scalar(ct, value))
        return found

    def integer_sums(
        self,
        integers: NDArray[Any],
        cts: Sequence[Ciphertext],
        accumulators: Sequence[Ciphertext] | None,
    ) -> list[Ciphertext]:
        sums = [self._scaled_sum(cts, [int(value) for value in row], 0) for row in integers]
        if accumulators is None:
            return sums
        return [self.add(total, own) for total, own in zip(accumulators, sums, strict=True)]

    def multiply_sum(
        self, lefts: Sequence[Ciphertext], rights: Sequence[Ciphertext], accumulator: Ciphertext | None
    ) -> Ciphertext:
        first = _words(lefts[0], Ciphertext)
        total = np.zeros((3, *first.shape[1:]), np.uint64)
        if accumulator is not None:
            total += _words(accumulator, Ciphertext)
        for left, right in zip(lefts, rights, strict=True):
            x, y = _words(left, Ciphertext), _words(right, Ciphertext)
            for i, q in self._limbs(len(first[0])):
                for c, d in np.ndindex(2, 2):
                    total[c + d, i] = ring.plus(total[c + d, i], ring.times(x[c, i], y[d, i], q), q)
        return Ciphertext(total)

    def multiply_plain_sum(
        self, plaintexts: Sequence[Factor], cts: Sequence[Ciphertext], accumulator: Ciphertext | None
    ) -> Ciphertext:
        return self._weighed([_words(plain, Factor) for plain in plaintexts], cts, accumulator)

    def weighted_sums(
        self, weights: Sequence[Words], terms: Sequence[Sequence[int]], cts: Sequence[Ciphertext]
    ) -> list[Ciphertext]:
        return [
            self._weighed(list(rows), [cts[term] for term in chosen], None)
            for rows, chosen in zip(weights, terms, strict=True)
        ]

    def polynomial_sums(self, polynomials: Signed, cts: Sequence[Ciphertext]) -> list[Ciphertext]:
        limbs, (_, _, count) = _words(cts[0], Ciphertext).shape[1], polynomials.shape
        whole = np.zeros((*polynomials.shape[:2], self._params.n), np.int64)
        whole[..., :count] = polynomials
        return [
            self._weighed(
                [_words(self.factor(self.upload_message(one), limbs), Factor) for one in row], cts, None
            )
            for row in whole
        ]

    def _weighed(
        self, factors: Sequence[Words], cts: Sequence[Ciphertext], accumulator: Ciphertext | None
    ) -> Ciphertext:
        total = np.zeros_like(_words(cts[0], Ciphertext))
        if accumulator is not None:
            total += _words(accumulator, Ciphertext)
        for factor, ct in zip(factors, cts, strict=True):
            for i, q in self._limbs(total.shape[1]):
                product = ring.times(factor[i], _words(ct, Ciphertext)[:, i], q)
                total[:, i] = ring.plus(total[:, i], product, q)
        return Ciphertext(total)

    def rescale(self, x: Ciphertext) -> Ciphertext:
        words = _words(x, Ciphertext)
        limbs = list(range(words.shape[1]))
        return Ciphertext(np.stack([self._divided(part, limbs, limbs[-1:]) for part in words]))

    # ---- key switching ----

    def relinearise(self, x: Ciphertext, key: Key, rescale: bool = False) -> Ciphertext:
        words = _words(x, Ciphertext)
        limbs = words.shape[1]
        sums = self._switched(self._digits(words[2]), key, limbs, 1)
        self._add_lifted(sums, words[:2])
        dropped = [*([limbs - 1] if rescale else []), *self._special]
        return Ciphertext(np.stack([self._divided(part, self._extended(limbs), dropped) for part in sums]))

    def switch(self, x: Ciphertext, key: Key) -> Ciphertext:
        b, a = _words(x, Ciphertext)
        return self.relinearise(Ciphertext(np.stack([b, np.zeros_like(b), a])), key)

    def raised(self, x: Ciphertext, limbs: int) -> Ciphertext:
        words = _words(x, Ciphertext)
        assert words.shape[1] == 1
        q = self._primes[0]
        centred = [ring.centred([ring.intt(part[0], q)], [q]) for part in words]
        return Ciphertext(np.stack([self._encoded(Message(each), range(limbs)) for each in centred]))

    def beside(self, params: Parameters) -> ReferenceEngine:
        return ReferenceEngine(params)

    def joined(self, parts: Sequence[Ciphertext | None], inner: Engine) -> Ciphertext:
        held = [None if part is None else _words(part, Ciphertext) for part in parts]
        limbs = next(words.shape[1] for words in held if words is not None)
        found = np.zeros((2, limbs, self._params.n), np.uint64)
        for component in range(2):
            for limb, q in self._limbs(limbs):
                coefficients = np.zeros(self._params.n, np.uint64)
                for power, words in enumerate(held):
                    if words is not None:
                        coefficients[power :: len(parts)] = ring.intt(words[component, limb], q)
                found[component, limb] = ring.ntt(coefficients, q)
        return Ciphertext(found)

    def parted(self, x: Ciphertext, inner: Engine) -> list[Ciphertext]:
        assert isinstance(inner, ReferenceEngine)
        words, count = _words(x, Ciphertext), self._params.n // inner._params.n
        whole = [
            [ring.intt(words[component, limb], q) for limb, q in self._limbs(words.shape[1])]
            for component in range(2)
        ]
        return [
            Ciphertext(
                np.stack(
                    [
                        np.stack(
                            [
                                ring.ntt(each[power::count], q)
                                for each, q in zip(one, self._primes, strict=False)
                            ]
                        )
                        for one in whole
                    ]
                )
            )
            for power in range(count)
        ]

    def relinearised_sums(
        self,
        lefts: Sequence[Sequence[Ciphertext]],
        rights: Sequence[Sequence[Ciphertext]],
        key: Key,
        factor: int,
    ) -> list[Ciphertext]:
        sums = [self.multiply_sum(own, each, None) for own in lefts for each in rights]
        return [self.relinearise(self.multiply_scalar(each, factor), key) for each in sums]

    def multiply_relinearise(
        self, x: Ciphertext, y: Ciphertext, key: Key, left_factor: int = 1
    ) -> Ciphertext:
        return self.relinearise(self.multiply_sum([self.multiply_scalar(x, left_factor)], [y], None), key)

    def multiply_rescale(
        self,
        x: Ciphertext,
        y: Ciphertext,
        key: Key,
        factor: int,
        added: Ciphertext | None,
        added_factor: int,
        constant: int,
        left_factor: int = 1,
    ) -> Ciphertext:
        total = self._scaled_sum([self.multiply_sum([x], [y], None)], [factor * left_factor], constant)
        if added is not None:
            words = _words(self.multiply_scalar(added, added_factor), Ciphertext)
            total = self.add(total, Ciphertext(np.concatenate([words, np.zeros_like(words[:1])])))
        return self.relinearise(total, key, True)

    def extended_factor(self, message: Message, limbs: int, repeats: int) -> Factor:
        return Factor(self._encoded(message, self._extended(limbs)))

    def _rotated(
        self, words: Words, rotations: Sequence[tuple[int, int]], keys: Sequence[Key]
    ) -> list[Words]:
        """A ciphertext by Galois elements and their keys, modulo Q·P; key -1: as it is."""
        limbs, n = words.shape[1:]
        digits, found = self._digits(words[-1]), []
        for galois, key in rotations:
            if key >= 0:
                value = self._switched(digits, keys[key], limbs, galois)
                self._add_lifted(value, words[:-1][..., ring.permutation(n, galois)])
            else:
                value = np.zeros((len(words), len(self._extended(limbs)), n), np.uint64)
                self._add_lifted(value, words)
            found.append(value)
        return found

    def giant_steps(
        self,
        sources: Sequence[Ciphertext],
        babies: Sequence[tuple[int, int]],
        giants: Sequence[tuple[int, int, Sequence[tuple[int, int]]]],
        keys: Sequence[Key],
        plaintexts: Sequence[Factor],
        repeats: int,
    ) -> list[Ciphertext]:
        found = []
        for source in sources:
            words = _words(source, Ciphertext)
            limbs, n = words.shape[1:]
            positions, rotated = self._extended(limbs), self._rotated(words, babies, keys)
            total = np.zeros_like(rotated[0])
            for galois, key, terms in giants:
                inner = np.zeros_like(total)
                for baby, plaintext in terms:
                    factor = _words(plaintexts[plaintext], Factor)
                    self._accumulate(inner, rotated[baby], positions, factor)
                if key >= 0:  # what is not switched stays modulo Q·P
                    last = self._digits(self._divided(inner[-1], positions, self._special))
                    self._accumulate(total, self._switched(last, keys[key], limbs, galois), positions)
                    inner = inner[:-1][..., ring.permutation(n, galois)]
                self._accumulate(total[: len(inner)], inner, positions)
            dropped = [limbs - 1, *self._special]
            found.append(Ciphertext(np.stack([self._divided(part, positions, dropped) for part in total])))
        return found

    def coefficient_parts(
        self, sources: Sequence[Ciphertext], level: int, parts: int, outputs: int, keys: Sequence[Key]
    ) -> list[Ciphertext]:
        found = []
        for source in sources:
            words = _words(source, Ciphertext)
            limbs, n = words.shape[1:]
            elements = [1]
            for number in range(1, parts):
                element = 1
                for j in range(number.bit_length()):
                    element = element * (1 + (number >> j & 1) * (n >> level + j)) % (2 * n)
                elements.append(element)
            positions = self._extended(limbs)
            rotated = self._rotated(words, [(one, key - 1) for key, one in enumerate(elements)], keys)
            for b in range(outputs):
                total = np.zeros_like(rotated[0])
                for element, value in zip(elements, rotated, strict=True):
                    power = -(b << level) * element % (2 * n)
                    factor = np.stack([ring.monomial(n, power, self._primes[limb]) for limb in positions])
                    self._accumulate(total, value, positions, factor)
                found.append(
                    Ciphertext(np.stack([self._divided(part, positions, self._special) for part in total]))
                )
        return found

    def _accumulate(
        self, total: Words, value: Words, positions: Sequence[int], factor: Words | None = None
    ) -> None:
        """total += value, times a plaintext; (components, limbs, N)."""
        for row, limb in enumerate(positions):
            q = self._primes[limb]
            part = value[:, row] if factor is None else ring.times(value[:, row], factor[row], q)
            total[:, row] = ring.plus(total[:, row], part, q)

    def linear_transform(
        self,
        sources: Sequence[Ciphertext],
        terms: Sequence[Term],
        keys: Sequence[Key],
        plaintexts: Sequence[Message],
        outputs: int,
        rescale: bool,
        order: str,
    ) -> list[Ciphertext]:
        sums = self._sums_of_terms(sources, terms, keys, plaintexts, outputs)
        return [self._divided_sum(one, rescale) for one in sums]

    def transform_sum(
        self,
        sources: Sequence[Ciphertext],
        terms: Sequence[Term],
        keys: Sequence[Key],
        plaintexts: Sequence[Message],
    ) -> Ciphertext:
        return Ciphertext(self._sums_of_terms(sources, terms, keys, plaintexts, 1)[0])

    def divide_sums(self, sums: Sequence[Ciphertext]) -> Ciphertext:
        total = np.zeros_like(_words(sums[0], Ciphertext))
        for one in sums:
            positions = self._extended(total.shape[1] - len(self._special))
            self._accumulate(total, _words(one, Ciphertext), positions)
        return self._divided_sum(total, True)

    def _divided_sum(self, total: Words, rescale: bool) -> Ciphertext:
        limbs = total.shape[1] - len(self._special)
        dropped = [*([limbs - 1] if rescale else []), *self._special]
        return Ciphertext(np.stack([self._divided(part, self._extended(limbs), dropped) for part in total]))

    def _sums_of_terms(
        self,
        sources: Sequence[Ciphertext],
        terms: Sequence[Term],
        keys: Sequence[Key],
        plaintexts: Sequence[Message],
        outputs: int,
    ) -> Words:
        """Modulo Q·P."""
        words = [_words(source, Ciphertext) for source in sources]
        limbs, n = words[0].shape[1:]
        positions = self._extended(limbs)
        keyed = {source for _, source, _, key, _ in terms if key >= 0}
        digits = {source: self._digits(words[source][-1]) for source in keyed}
        sums = np.zeros((outputs, len(words[0]), len(positions), n), np.uint64)
        for output, source, galois, key, plaintext in terms:
            if key >= 0:
                value = self._switched(digits[source], keys[key], limbs, galois)
                self._add_lifted(value, words[source][:-1][..., ring.permutation(n, galois)])
            else:
                assert galois == 1
                value = np.zeros_like(sums[output])
                self._add_lifted(value, words[source])
            factor = self._encoded(plaintexts[plaintext], positions) if plaintext >= 0 else None
            self._accumulate(sums[output], value, positions, factor)
        return sums

    def _digits(self, a: Words, coefficients: bool = False) -> list[Words]:
        """The digits of a polynomial, (limbs, N), centred modulo their primes: values at all limbs and special ones."""
        limbs, result = len(a), []
        if not coefficients:
            a = np.stack([ring.intt(a[i], q) for i, q in self._limbs(limbs)])
        sizes = self._params.digit_limbs or (self._params.alpha,) * limbs
        for number, size in enumerate(sizes):
            start = sum(sizes[:number])
            if start >= limbs:
                break
            own = range(start, min(start + size, limbs))
            digit = ring.centred([a[i] for i in own], [self._primes[i] for i in own])
            result.append(np.stack([self._values(digit, self._primes[i]) for i in self._extended(limbs)]))
        return result

    def _switched(self, digits: Sequence[Words], key: Key, limbs: int, galois: int) -> Words:
        """Σ_d digit_d(X^galois)·key_d: values (components, limbs + k, N) modulo Q·P."""
        parts = _words(key, Key)
        rows = [*range(limbs), *range(parts.shape[2] - len(self._special), parts.shape[2])]
        turned = ring.permutation(self._params.n, galois)
        sums = np.zeros((parts.shape[1], len(rows), self._params.n), np.uint64)
        for digit, part in zip(digits, parts, strict=False):
            for row, limb in enumerate(self._extended(limbs)):
                q = self._primes[limb]
                product = ring.times(digit[row][turned], part[:, rows[row]], q)
                sums[:, row] = ring.plus(sums[:, row], product, q)
        return sums

    def _add_lifted(self, sums: Words, parts: Words) -> None:
        """Add P·part to the first components of sums modulo Q·P; modulo P that is nothing."""
        for component, part in enumerate(parts):
            for i, q in self._limbs(len(part)):
                lifted = ring.times(part[i], self._product % q, q)
                sums[component, i] = ring.plus(sums[component, i], lifted, q)

    def _divided(self, x: Words, positions: Sequence[int], dropped: Sequence[int]) -> Words:
        """(x - [x]_D)/D at the other positions, D the product of the dropped primes; values."""
        if not len(dropped):
            return x
        rows = {limb: row for row, limb in enumerate(positions)}
        primes = [self._primes[i] for i in dropped]
        # Of -x, as the core does: where ±D/2 is too near, x and -x need not have opposite remainders.
        negated = [
            ring.minus(np.zeros_like(x[0]), x[rows[i]], q) for i, q in zip(dropped, primes, strict=True)
        ]
        remainder = ring.centred(
            [ring.intt(part, q) for part, q in zip(negated, primes, strict=True)], primes
        )
        kept = []
        for limb in positions:
            if limb not in dropped:
                q = self._primes[limb]
                difference = ring.plus(x[rows[limb]], self._values(remainder, q), q)
                kept.append(ring.times(difference, pow(prod(primes), -1, q), q))
        return np.stack(kept)

    @staticmethod
    def _values(x: ring.Integers, q: int) -> Words:
        return ring.ntt(ring.residues(x, q), q)

    # ---- matrices of residues ----

    def add_matrices(self, x: Matrix, y: Matrix) -> Matrix:
        return Matrix(self._limbwise(ring.plus, _words(x, Matrix), _words(y, Matrix), axis=0))

    def sub_matrices(self, x: Matrix, y: Matrix) -> Matrix:
        return Matrix(self._limbwise(ring.minus, _words(x, Matrix), _words(y, Matrix), axis=0))

    def multiply_integers(self, integers: NDArray[Any], x: Matrix, exact: bool) -> Matrix:
        whole, words = np.asarray(integers).astype(np.int64), _words(x, Matrix)
        return Matrix(
            np.stack(
                [
                    ring.matrix_product(ring.residues(whole, q), words[i], q)
                    for i, q in self._limbs(len(words))
                ]
            )
        )

    def gemm_error(self, k: int, largest: float, modulus: float) -> float:
        return 0.0

    def gram(self, x: Matrix) -> Matrix:
        return self.multiply_matrices(self.transposed(x), x)

    def gram_operands(self, x: Matrix) -> Matrix:
        return self.multiply_operands(self.transposed(x), x)

    def operand_integers(self, integers: NDArray[Any]) -> Matrix:
        moduli = self._params.operand_moduli or ()
        words = np.zeros((-(-len(moduli) // 8), *integers.shape), object)
        for i, p in enumerate(moduli):
            words[i // 8] += (integers.astype(np.int64) % p).astype(object) * (1 << 8 * (i % 8))
        return Matrix(words.astype(np.uint64))

    def multiply_operands(self, x: Matrix, y: Matrix) -> Matrix:
        left, right = _words(x, Matrix), _words(y, Matrix)
        moduli, limbs = self._params.operand_moduli or (), self._params.q
        whole, modulus, unit = prod(moduli), prod(limbs), 1 << (64 if len(limbs) == 1 else 104)
        depth = left.shape[-1]
        fractions = np.zeros((left.shape[1], right.shape[2]), object)
        for i, p in enumerate(moduli):
            one, other = (
                (words[i // 8] >> np.uint64(8 * (i % 8)) & np.uint64(255)).astype(np.int64)
                for words in (left, right)
            )
            assert one.max(initial=0) < p and other.max(initial=0) < p
            share = (2 * unit * pow(whole // p, -1, p) + p) // (2 * p)  # of W that a residue of 1 stands for
            for start in range(0, depth, 1 << 12):
                part = slice(start, start + (1 << 12))
                rest = one[:, part] @ other[part] % p
                fractions += np.where(rest > p // 2, rest - p, rest).astype(object) * share
        switched = (2 * (fractions % unit) * modulus + unit) // (2 * unit)
        return Matrix(np.stack([(switched % q).astype(np.uint64) for q in limbs]))

    def multiply_matrices(self, x: Matrix, y: Matrix) -> Matrix:
        left, right = _words(x, Matrix), _words(y, Matrix)
        return Matrix(
            np.stack([ring.matrix_product(left[i], right[i], q) for i, q in self._limbs(len(left))])
        )

    def transposed(self, x: Matrix) -> Matrix:
        return Matrix(_words(x, Matrix).transpose(0, 2, 1).copy())

    def cut(self, x: Matrix, rows: slice = slice(None), columns: slice = slice(None)) -> Matrix:
        return Matrix(_words(x, Matrix)[:, rows, columns].copy())

    def copied(self, x: Matrix) -> Matrix:
        return Matrix(_words(x, Matrix).copy())

    def stack(self, xs: Sequence[Matrix]) -> Matrix:
        return Matrix(np.concatenate([_words(x, Matrix) for x in xs], axis=1))

    def spread(self, x: Matrix, shape: tuple[int, int], strides: tuple[int, int]) -> Matrix:
        words = _words(x, Matrix)
        out = np.zeros((len(words), *shape), np.uint64)
        for i, j in np.ndindex(words.shape[1:]):
            out[:, i * strides[0], j * strides[1]] = words[:, i, j]
        return Matrix(out)

    # ---- key switching of rows ----

    def switch_rows(self, a: Matrix, row: int, keys: Sequence[Key], columns: int) -> tuple[Matrix, Matrix]:
        digits = self._digits(_words(a, Matrix)[:, row], coefficients=True)
        b, a_rows = zip(*(self._switched_row(digits, key) for key in keys), strict=True)
        return Matrix(np.stack(a_rows, axis=1)), Matrix(np.stack(b, axis=1)[:, :, :columns].copy())

    def relinearise_rows(self, a: Matrix, b: Matrix, key: Key) -> tuple[Matrix, Matrix]:
        rows = range(_words(a, Matrix).shape[1])
        switched = [self.switch_rows(a, row, [key], self._params.n) for row in rows]
        a_rows, b_rows = (self.stack(parts) for parts in zip(*switched, strict=True))
        return self.add_matrices(a_rows, b), b_rows

    def rescale_matrix(self, x: Matrix) -> Matrix:
        words = _words(x, Matrix)
        (_, dropped) = list(self._limbs(len(words)))[-1]
        remainder = ring.centred([words[-1]], [dropped])
        kept = [
            ring.times(ring.minus(words[i], ring.residues(remainder, q), q), pow(dropped, -1, q), q)
            for i, q in self._limbs(len(words) - 1)
        ]
        return Matrix(np.stack(kept))

    def drop_limbs(self, x: Matrix, limbs: int) -> Matrix:
        return Matrix(_words(x, Matrix)[:limbs].copy())

    def rows_as_ciphertexts(self, a: Matrix, b: Matrix) -> list[Ciphertext]:
        return [self._row_as_ciphertext(a, b, row) for row in range(_words(b, Matrix).shape[1])]

    def _row_as_ciphertext(self, a: Matrix, b: Matrix, row: int) -> Ciphertext:
        limbs, _, columns = _words(b, Matrix).shape
        n = self._params.n
        parts = np.zeros((2, limbs, n), np.uint64)
        for limb, q in self._limbs(limbs):
            spread = np.zeros(n, np.uint64)
            for j in range(columns):
                spread[j * (n // columns)] = _words(b, Matrix)[limb, row, j]
            parts[0, limb], parts[1, limb] = ring.ntt(spread, q), ring.ntt(_words(a, Matrix)[limb, row], q)
        return Ciphertext(parts)

    def rows_of_ciphertexts(
        self, cts: Sequence[Ciphertext], rows: int, columns: int, held: int
    ) -> tuple[Matrix, Matrix]:
        n = self._params.n
        each, limbs = n // columns, _words(cts[0], Ciphertext).shape[1]
        bits = each.bit_length() - 1
        elements = [
            [[ring.intt(part[limb], q) for part in _words(ct, Ciphertext)] for limb, q in self._limbs(limbs)]
            for ct in cts
        ]
        a_rows, b_rows = np.zeros((limbs, rows, n), np.uint64), np.zeros((limbs, rows, columns), np.uint64)
        for row in range(rows):
            number, place = divmod(row, held)
            t = int(f"{place:0{bits}b}"[::-1], 2) if bits else 0
            for limb, q in self._limbs(limbs):
                b, a = elements[number][limb]
                b_rows[limb, row] = b[t::each]
                a_rows[limb, row, : n - t] = a[t:]
                a_rows[limb, row, n - t :] = ring.minus(np.zeros_like(a[:t]), a[:t], q)
        return Matrix(a_rows), Matrix(b_rows)

    def transpose_rows(self, a: Matrix, b: Matrix, keys: Sequence[Key], policy: str) -> tuple[Matrix, Matrix]:
        a_words, b_words = _words(a, Matrix), _words(b, Matrix)
        d = a_words.shape[1]
        by_element = dict(zip(transpose_plan(d, policy).elements, keys, strict=True))  # type: ignore[arg-type]
        turned: list[tuple[Words, Words]] = []  # g_v for v = 1, 3, …
        odd = range(1, 2 * d, 2)
        for v in odd:
            u = pow(v, -1, 2 * d)
            pair = [self._weighed_rows(part, [u * i for i in range(d)], d) for part in (a_words, b_words)]
            turned.append(self._turned_row(pair, v, d, policy, by_element))
        results = []
        for part in (0, 1):
            rows = np.stack([pair[part] for pair in turned], axis=1)
            made = [self._weighed_rows(rows, [-v * j for v in odd], d) for j in range(d)]
            results.append(Matrix(np.stack(made, axis=1)))
        return results[0], results[1]

    def _turned_row(
        self, pair: Sequence[Words], v: int, d: int, policy: str, by_element: Mapping[int, Key | None]
    ) -> tuple[Words, Words]:
        """g_v of h_u."""
        limbs, n = pair[0].shape
        h_a, h_b = (
            np.stack([ring.times(part[i], pow(d, -1, q), q) for i, q in self._limbs(limbs)]) for part in pair
        )
        for element in _steps(v, d, policy):
            h_a, h_b = (
                np.stack([ring.substituted(part[i], element, q) for i, q in self._limbs(limbs)])
                for part in (h_a, h_b)
            )
            key = by_element[element]
            assert key is not None
            switched, h_a = self._switched_row(self._digits(h_a, coefficients=True), key)
            h_b = self._limbwise(ring.plus, h_b, switched[:, :: n // d], axis=0)
        return h_a, h_b

    def transpose_classes(
        self, x: Matrix, parts: int, first: int, inverse: bool, *, in_place: bool = False
    ) -> Matrix:
        words, n = _words(x, Matrix), self._params.n
        limbs, height = len(words), n // parts
        rows = words.reshape(limbs, parts, -1, n)
        exponents = [[height * _exponent(b, parts) * t for b in range(parts)] for t in range(parts)]
        made = []
        for number in range(parts):
            powers = [-e for e in exponents[number]] if inverse else [one[number] for one in exponents]
            made.append(
                np.stack([self._weighed_rows(rows[:, :, j], powers, n) for j in range(rows.shape[2])], axis=1)
            )
        return Matrix(np.concatenate(made, axis=1))

    def transpose_blocks(
        self,
        a: Matrix,
        b: Matrix,
        parts: int,
        blocks: Sequence[int],
        keys: Sequence[Key | None],
        policy: str,
        *,
        in_place: bool = False,
    ) -> tuple[Matrix, Matrix]:
        n = self._params.n
        height = n // parts
        by_element = dict(zip(transpose_plan(n, policy).elements, keys, strict=True))  # type: ignore[arg-type]
        shape = (-1, len(blocks), height, n)
        rows = [_words(part, Matrix).reshape(shape) for part in (a, b)]
        turned: dict[int, tuple[Words, Words]] = {}  # by v
        own = {
            number: [_exponent(block * height + i, n) for i in range(height)]
            for number, block in enumerate(blocks)
        }
        for number, exponents in own.items():
            for u in exponents:
                pair = [
                    self._weighed_rows(part[:, number], [u * c for c in range(height)], n) for part in rows
                ]
                v = pow(u, -1, 2 * n)
                turned[v] = self._turned_row(pair, v, n, policy, by_element)
        results = []
        for part in (0, 1):
            made = [
                self._weighed_rows(
                    np.stack([turned[v][part] for v in exponents], axis=1), [-v * c for v in exponents], n
                )
                for exponents in own.values()
                for c in range(height)
            ]
            results.append(Matrix(np.stack(made, axis=1)))
        return results[0], results[1]

    def _switched_row(self, digits: Sequence[Words], key: Key) -> tuple[Words, Words]:
        """(b, a) = round(Σ_d digit_d·key_d/P) by coefficients, (limbs, N) each."""
        limbs = len(digits[0]) - len(self._special)
        sums = self._switched(digits, key, limbs, 1)
        b, a = (self._divided(part, self._extended(limbs), self._special) for part in sums)
        b, a = (np.stack([ring.intt(part[i], q) for i, q in self._limbs(limbs)]) for part in (b, a))
        return b, a

    def _weighed_rows(self, rows: Words, exponents: Sequence[int], d: int) -> Words:
        """Σ_i row_i·Y^exponents[i] for every limb of (limbs, rows, n), Y = X^(n/d)."""
        step = rows.shape[2] // d
        powers = [exponent * step for exponent in exponents]
        return np.stack([ring.weighed_by_powers(rows[i], powers, q) for i, q in self._limbs(len(rows))])

    # ---- limbs ----

    def _limbs(self, count: int) -> list[tuple[int, int]]:
        return list(enumerate(self._primes[:count]))

    def _extended(self, limbs: int) -> list[int]:
        """Positions of the first limbs and of the special primes."""
        return [*range(limbs), *self._special]

    def _limbwise(self, combine: Any, x: Words, y: Words, axis: int) -> Words:
        parts = [combine(x.take(i, axis), y.take(i, axis), q) for i, q in self._limbs(x.shape[axis])]
        return np.stack(parts, axis=axis)


def _words(handle: Any, kind: type[_Handle]) -> Words:
    assert type(handle) is kind, f"expected {kind.__name__}, got {type(handle).__name__}"
    return handle.words


def _alike(x: Ciphertext, y: Ciphertext) -> tuple[Words, Words]:
    """The words of two ciphertexts, with zeros for missing components."""
    parts = [_words(ct, Ciphertext) for ct in (x, y)]
    assert parts[0].shape[1:] == parts[1].shape[1:]
    longest = max(len(part) for part in parts)
    first, second = (np.pad(part, ((0, longest - len(part)), (0, 0), (0, 0))) for part in parts)
    return first, second


def _exponent(position: int, count: int) -> int:
    """The odd exponent that a position of `count` of a transform holds."""
    bits = count.bit_length() - 1
    return 1 + 2 * (int(f"{position:0{bits}b}"[::-1], 2) if bits else 0)


def _steps(v: int, d: int, policy: str) -> list[int]:
    """The elements of keys that make X → X^v of a subring of degree d, in the order that they are applied."""
    if policy == "fast":
        return [v] if v != 1 else []
    sign, exponent = next(
        (sign, e) for e in range(d // 2) for sign in (1, -1) if sign * pow(5, e, 2 * d) % (2 * d) == v
    )
    if policy == "light":
        base = 1 << (d.bit_length() - 1 + 1) // 2
        parts = [sign * pow(5, exponent // base * base, 2 * d), pow(5, exponent % base, 2 * d)]
    else:
        bits = [exponent & (1 << bit) for bit in range((d // 2).bit_length())]
        parts = [sign, *(pow(5, bit, 2 * d) for bit in bits)]
    return [part % (2 * d) for part in parts if part % (2 * d) != 1]
