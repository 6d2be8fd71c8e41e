"""What operations cost, as counts: the one place that knows what the kernels of the core do for each of them.

Limb counts are those of the kernels themselves: tests run operations on a table of kernels that counts
(`_core.count_kernels`) and compare. Beside arithmetic it is memory that takes time: keys and plaintexts are streamed,
residues become float64 numbers or packed tiles and back, a transposition walks over all N rows of N entries many times,
however few of them hold a matrix, and the system hands out large blocks page by page.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import cipherblas._core as _core
from cipherblas.common.gemm_paths import (
    FLOAT_BITS,
    GRAM_COLUMNS,
    are_bytes,
    bytes_of,
    float_passes,
    is_byte,
    is_narrow,
)
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.digits import digit_ranges
from cipherblas.crypto.params import factor_words, key_words
from cipherblas.rlwe.counts import NOTHING, Counts
from cipherblas.rlwe.rings import Ring
from cipherblas.rlwe.working_memory import POLYNOMIAL_COPIES, clear_gemm_bytes, operand_gemm_bytes

MAPPED_BYTES = 32 << 20  # the C library maps larger blocks anew each time; smaller ones are there already
BYTE_MACS = 16  # of bytes in the time of one of residues
MAX_KNOWN = 1 << 12  # calls of one ring whose counts are remembered
Booking = TypeVar("Booking", bound=Callable[..., None])


def _once(method: Booking) -> Booking:
    """A method that books what it found the first time for equal arguments: programs make many like calls."""

    @functools.wraps(method)
    def booked(self: Costs, counts: Counts, *arguments: Any, **options: Any) -> None:
        own = vars(counts)
        for name, number in self.of_call(method, arguments, options):
            own[name] += number

    return booked  # type: ignore[return-value]


@functools.lru_cache(maxsize=1 << 12)
def _converted(ranges: tuple[range, ...], special: int) -> int:
    limbs = ranges[-1].stop
    return sum(len(digit) * (limbs + special - len(digit)) for digit in ranges)


@functools.lru_cache(maxsize=1 << 10)
def _bytes(
    n: int, q: tuple[float, ...], p: tuple[float, ...]
) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Bytes of clear factors of so many limbs, those of the special limbs, and bytes of components of keys."""

    def sums(words: Callable[[int, tuple[float, ...]], int], more: int) -> tuple[int, ...]:
        each = (words(n, (prime,)) * WORD_BYTES for prime in q)
        return tuple(itertools.accumulate(each, initial=more))

    special = factor_words(n, p) * WORD_BYTES
    return sums(factor_words, 0), special, sums(key_words, key_words(n, p) * WORD_BYTES)


class Costs:
    """Books the cost of engine calls in one ring into `counts`. Each method has the name of its call.

    Args:
        ring: whose limbs they are.
        secrets: r, of ciphertexts (b_1, …, b_r, a) that share their a part; their components are computed two by two.
    """

    def __init__(self, ring: Ring, secrets: int = 1) -> None:
        self._n = ring.n
        self._limb_bytes = ring.n * WORD_BYTES
        self._special, self._alpha, self._digit_limbs = len(ring.p), ring.alpha, ring.digit_limbs
        self._moduli = [float(q) for q in ring.q]
        self._factor_bytes, self._special_factor_bytes, self._component_bytes = _bytes(
            ring.n, tuple(ring.q), tuple(ring.p)
        )
        self._operand_moduli = ring.operand_moduli or ()
        self._ring, self._secrets, self._pairs = ring, secrets, (secrets + 1) // 2
        self._known: dict[Hashable, list[tuple[str, int]]] = {}

    def of_call(
        self, method: Callable[..., None], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Sequence[tuple[str, int]]:
        """The counts that a method books, by name; found once for equal arguments."""
        key = (method, arguments, *options.items())
        found = self._known.get(key)
        if found is None:
            each = NOTHING.copy()
            method(self, each, *arguments, **options)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            found = self._known[key] = [(name, number) for name, number in vars(each).items() if number]
        return found

    @property
    def special_limbs(self) -> int:
        """Primes of P."""
        return self._special

    def of_components(self, components: int) -> Costs:
        """Costs for ciphertexts with this number of components."""
        return self if components == self._secrets + 1 else costs_of(self._ring, components - 1)

    # ---- key switching ----

    def digits(self, limbs: int) -> int:
        """Digits of key switching at `limbs` limbs."""
        return len(self._ranges(limbs))

    def _ranges(self, limbs: int) -> tuple[range, ...]:
        return digit_ranges(limbs, self._alpha, self._digit_limbs)

    def _converted(self, limbs: int) -> int:
        """Multiply-adds of the base conversions of all digits, from their limbs to all others."""
        return _converted(self._ranges(limbs), self._special)

    def _key_limbs(self, limbs: int) -> int:
        """Limbs of a key, and multiply-adds of the digits with them."""
        return 2 * self.digits(limbs) * (limbs + self._special)

    def _key_bytes(self, limbs: int) -> int:
        """Bytes of these limbs."""
        return 2 * self.digits(limbs) * self._component_bytes[limbs]

    def _hoistings(self, counts: Counts, number: int, limbs: int) -> None:
        """Decompose and ModUp: inverse transforms of the a part, base conversion, transforms of what is new."""
        counts.hoistings += number
        counts.ntt_limbs += number * self.digits(limbs) * (limbs + self._special)
        counts.mac_limbs += number * self._converted(limbs)

    def _key_products(self, counts: Counts, number: int, limbs: int, kept: int | None = None) -> None:
        """Sums of products of the digits with keys.

        Args:
            kept: components of the ciphertext that are added, times P: by default all but a, of a product to
                relinearise a as well.
        """
        each, kept = self._pairs * self._key_limbs(limbs), self._secrets if kept is None else kept
        counts.mac_limbs += number * (each + kept * limbs)
        counts.switched_limbs += number * self._pairs * 2 * (limbs + self._special)
        counts.key_bytes_read += number * self._pairs * self._key_bytes(limbs)

    def _mod_down(
        self, counts: Counts, outputs: int, limbs: int, *, rescale: bool = False, extended: bool = True
    ) -> None:
        """Division of two components by P, or by P·q_last; of sums without a key (not `extended`) by q_last or 1."""
        merged = int(rescale)
        counts.moddowns += outputs
        counts.rescales += outputs * merged
        self._divide(counts, outputs * 2 * self._pairs, merged + extended * self._special, limbs - merged)

    def _divide(self, counts: Counts, polynomials: int, dropped: int, kept: int) -> None:
        """Transforms of all limbs, conversions of the dropped ones to those that are kept, and a product of these."""
        if dropped:
            counts.ntt_limbs += polynomials * (dropped + kept)
            counts.mac_limbs += polynomials * (dropped + 1) * kept

    @_once
    def switch(self, counts: Counts, limbs: int) -> None:
        """From one secret to another."""
        self._hoistings(counts, 1, limbs)
        self._key_products(counts, 1, limbs)
        self._mod_down(counts, 1, limbs)

    def raised(self, counts: Counts, limbs: int) -> None:
        """A modulus raised from q_0 to `limbs` limbs: all components."""
        counts.modulus_raises += self._secrets
        counts.ntt_limbs += 2 * self._pairs * (1 + limbs)

    def joined(self, counts: Counts, limbs: int) -> None:
        """Elements of the ring of rows that become one of this ring; the transforms of that ring aside."""
        counts.ntt_limbs += 2 * limbs

    def parted(self, counts: Counts, limbs: int) -> None:
        """The inverse."""
        counts.ntt_limbs += 2 * limbs

    @_once
    def relinearise(self, counts: Counts, limbs: int, rescale: bool = False) -> None:
        """Three components to two."""
        self._relinearise(counts, limbs, rescale)

    def _relinearise(self, counts: Counts, limbs: int, rescale: bool) -> None:
        counts.relinearisations += 1
        self._hoistings(counts, 1, limbs)
        self._key_products(counts, 1, limbs, kept=2)
        self._mod_down(counts, 1, limbs, rescale=rescale)

    @_once
    def linear_transform(
        self,
        counts: Counts,
        limbs: int,
        *,
        decomposed: int,
        switched: int,
        unswitched: int = 0,
        outputs: int = 1,
        rescale: bool = False,
        masks: int = 0,
        masks_in_place: int = 0,
    ) -> None:
        """Sums of ciphertexts that are switched, and of others.

        Args:
            decomposed: sources that are cut into digits, once.
            switched, unswitched: terms with keys and without, which are added times P.
            outputs: sums, of one division each.
            masks: plaintexts that terms are multiplied by, encoded in the call.
            masks_in_place: those of terms without keys among them, which multiply nothing modulo P.
        """
        self._hoistings(counts, decomposed, limbs)
        self._key_products(counts, switched, limbs)
        counts.mac_limbs += unswitched * self._pairs * 2 * limbs
        special = self._special if switched else 0
        if masks:
            extended = masks * (limbs + special) - masks_in_place * special
            self.encode(counts, masks, extended)
            self._plain_products(counts, masks, extended, extended * self._limb_bytes)
        self._mod_down(counts, outputs, limbs, rescale=rescale, extended=switched > 0)

    def divide_sums(self, counts: Counts, limbs: int, sums: int) -> None:
        """Undivided sums that are added up, and divided by P·q_last."""
        for _ in range(sums - 1):
            self.add(counts, 2, limbs + self._special)
        self._mod_down(counts, 1, limbs, rescale=True)

    def giant_steps(
        self,
        counts: Counts,
        limbs: int,
        *,
        babies: tuple[int, int],
        sums: Sequence[tuple[int, int]],
        giants: int,
        repeats: int = 1,
    ) -> None:
        """Sums of one ciphertext modulo Q·P, of which those that are rotated have one component divided by P and
        switched, added up and divided by P·q_last.

        Args:
            babies: rotations of the ciphertext, and those of them that have a key.
            sums: of every giant step the plaintexts, and those of them for what is not rotated, and so 0 modulo P.
            giants: sums that are rotated.
            repeats: positions for which each word of a plaintext stands.
        """
        number, keyed = babies
        self._hoistings(counts, 1, limbs)
        self._key_products(counts, keyed, limbs)
        counts.mac_limbs += (number - keyed) * self._pairs * 2 * limbs
        for masks, in_place in sums:
            counts.sums += 1
            read = masks * self.extended_factor_bytes(limbs) - in_place * self._special_factor_bytes
            self._plain_products(counts, masks, masks * (limbs + self._special), read // repeats)
            counts.mac_limbs -= 2 * self._pairs * in_place * self._special
        self._divide(counts, giants, self._special, limbs)  # of one component, however many there are
        self._hoistings(counts, giants, limbs)
        self._key_products(counts, giants, limbs, 0)  # added modulo Q·P, not times P
        counts.mac_limbs += ((self._secrets + 1) * len(sums) - giants) * (limbs + self._special)
        self._mod_down(counts, 1, limbs, rescale=True)

    @_once
    def coefficient_parts(self, counts: Counts, limbs: int, parts: int, outputs: int) -> None:
        """The first parts of a polynomial, of so many, from sums of automorphisms modulo Q·P."""
        self._hoistings(counts, 1, limbs)
        self._key_products(counts, parts - 1, limbs)
        counts.mac_limbs += 2 * limbs  # the polynomial itself, times P
        extended = limbs + self._special
        counts.mac_limbs += 2 * (outputs * (parts * extended - self._special) + (outputs - 1) * extended)
        counts.sums += outputs
        self._mod_down(counts, outputs, limbs)

    # ---- working memory ----

    def switch_bytes(self, limbs: int) -> int:
        """Of one key switch: the digits modulo Q·P, and a sum of both components."""
        return (self.digits(limbs) + 2) * (limbs + self._special) * self._limb_bytes

    def transform_bytes(self, sources: int, outputs: int, limbs: int, plains: int = 0) -> int:
        """Of a linear transform: decompositions, results, dropped limbs, coefficients of the diagonals."""
        dropped = min(2 * outputs * (self._special + 1) * self._limb_bytes, _core.DROPPED_BYTES)
        return ((sources + 2 * outputs) * limbs + plains) * self._limb_bytes + dropped

    def giant_bytes(self, giants: int, limbs: int) -> int:
        """Of the sums of baby steps for one ciphertext, modulo Q·P."""
        return 2 * giants * (limbs + self._special) * self._limb_bytes

    def integer_sum_bytes(self, m: int, k: int) -> int:
        """Of sums of ciphertexts times integers: a limb of each of them, and what the GEMM takes."""
        return k * self._limb_bytes + clear_gemm_bytes(m, k, self._n)

    @staticmethod
    def polynomial_bytes(outputs: int, terms: int, count: int) -> int:
        """Of sums with polynomials: their coefficients on the way from the caller."""
        return POLYNOMIAL_COPIES * outputs * terms * count * WORD_BYTES

    def operand_bytes(self, m: int, k: int, width: int) -> int:
        """Of a product modulo the moduli of operands."""
        return operand_gemm_bytes(m, k, width, len(self._operand_moduli))

    # ---- products and sums of slots ----

    def multiply_sum(self, counts: Counts, number: int, limbs: int) -> None:
        """A sum of products of ciphertexts."""
        counts.sums += 1
        counts.products += number
        counts.mac_limbs += 4 * limbs * number
        counts.ciphertext_bytes += 4 * limbs * number * self._limb_bytes

    @_once
    def relinearised_sums(
        self, counts: Counts, lines: int, outputs: int, terms: int, limbs: int, scaled: bool
    ) -> None:
        """Sums of products of so many lists of left factors and each of right ones, times an integer where they are
        scaled. Some lists of either kind at a time are read once."""
        number = lines * outputs
        counts.sums += number
        counts.products += number * terms
        counts.mac_limbs += number * limbs * (4 * terms + 3 * scaled)
        reads = lines * -(-outputs // _core.SUMS_TOGETHER) + outputs * -(-lines // _core.LINES_TOGETHER)
        counts.ciphertext_bytes += 2 * reads * terms * limbs * self._limb_bytes
        own = vars(counts)
        for name, booked in self.of_call(Costs._relinearise, (limbs, False), {}):
            own[name] += number * booked

    def sums_bytes(self, lines: int, outputs: int, limbs: int) -> int:
        """Of these sums: those that are made together, and a key switch."""
        together = min(lines, _core.LINES_TOGETHER) * min(outputs, _core.SUMS_TOGETHER)
        return 3 * together * limbs * self._limb_bytes + self.switch_bytes(limbs)

    def fused_product(self, counts: Counts, limbs: int) -> None:
        """Book the third component of a product that is relinearised at once; it is made twice."""
        counts.mac_limbs += limbs

    def multiply_relinearise(self, counts: Counts, limbs: int) -> None:
        """A product that is relinearised at once."""
        self.multiply_sum(counts, 1, limbs)
        self.relinearise(counts, limbs)
        self.fused_product(counts, limbs)

    def multiply_rescale(self, counts: Counts, limbs: int, scaled: bool, terms: int, constant: bool) -> None:
        """A product that is relinearised and rescaled at once, with what is added."""
        self.multiply_sum(counts, 1, limbs)
        self.relinearise(counts, limbs, rescale=True)
        self.fused_product(counts, limbs)
        self.fused_sum(counts, limbs, scaled, terms, constant)

    def fused_sum(self, counts: Counts, limbs: int, scaled: bool, terms: int, constant: bool) -> None:
        """Book terms that are added to a product before it is relinearised. The components of the product are scaled,
        and so are both of each term."""
        counts.adds += terms + constant
        counts.mac_limbs += (3 * scaled + 2 * terms) * limbs
        counts.ciphertext_bytes += 2 * terms * limbs * self._limb_bytes

    def multiply_scalar(self, counts: Counts, components: int, limbs: int) -> None:
        """A product by an integer."""
        counts.mac_limbs += components * self._pairs * limbs
        counts.ciphertext_bytes += 2 * components * self._pairs * limbs * self._limb_bytes

    def scaled_sum(self, counts: Counts, terms: int, components: int, limbs: int, constant: bool) -> None:
        """A sum of products by integers, and of a constant."""
        counts.adds += terms - 1 + constant
        counts.mac_limbs += terms * components * limbs
        counts.ciphertext_bytes += (terms + 1) * components * limbs * self._limb_bytes

    def integer_sums(
        self, counts: Counts, m: int, k: int, components: int, limbs: int, largest: float
    ) -> None:
        """Sums of k ciphertexts times integers up to `largest`, m of them: GEMMs, of rows that are gathered first."""
        width = components * self._pairs * self._n
        counts.sums += m
        counts.scalar_products += m * k
        counts.ciphertext_bytes += 2 * k * limbs * width * WORD_BYTES
        self.multiply_integers(counts, m, k, width, limbs, largest, exact=True)

    def add(self, counts: Counts, components: int, limbs: int) -> None:
        """A sum or difference of two ciphertexts."""
        counts.adds += 1
        counts.ciphertext_bytes += 3 * components * self._pairs * limbs * self._limb_bytes

    @_once
    def rescale(self, counts: Counts, components: int, limbs: int) -> None:
        """Division by the last of `limbs` limbs."""
        counts.rescales += 1
        counts.ciphertext_bytes += components * (2 * limbs - 1) * self._limb_bytes
        self._divide(counts, components * self._pairs, 1, limbs - 1)

    # ---- plaintexts ----

    def encode(self, counts: Counts, number: int, limbs: int) -> None:
        """Book the encoding of plaintexts with this total number of limbs."""
        counts.encodings += number
        counts.encode_ntt_limbs += limbs

    def encode_extended(self, counts: Counts, number: int, limbs: int) -> None:
        """Plaintexts of so many limbs each, modulo Q·P."""
        self.encode(counts, number, number * (limbs + self._special))

    def factor_bytes(self, limbs: int) -> int:
        """Of a clear vector in memory that ciphertexts of so many limbs are multiplied by."""
        return self._factor_bytes[limbs]

    def extended_factor_bytes(self, limbs: int) -> int:
        """The same modulo Q·P."""
        return self._factor_bytes[limbs] + self._special_factor_bytes

    def _plain_products(self, counts: Counts, number: int, limbs: int, nbytes: int) -> None:
        """Plaintexts multiplied into all components, of so many limbs and bytes together."""
        counts.plain_products += number
        counts.mac_limbs += 2 * self._pairs * limbs
        counts.plain_bytes_read += nbytes

    def plain_terms(self, counts: Counts, number: int, limbs: int) -> None:
        """Terms of a sum of plaintexts times ciphertexts, which are read, of so many limbs each."""
        self._plain_products(counts, number, number * limbs, number * self.factor_bytes(limbs))
        counts.ciphertext_bytes += 2 * number * limbs * self._limb_bytes

    def multiply_plain_sum(self, counts: Counts, number: int, limbs: int) -> None:
        """A sum of so many terms."""
        counts.sums += 1
        self.plain_terms(counts, number, limbs)

    def write_weights(self, counts: Counts, number: int, limbs: int) -> None:
        """Plaintexts that are encoded once and kept."""
        counts.weight_encodings += number
        counts.weight_limbs += number * limbs
        counts.stored_bytes += number * self.factor_bytes(limbs)

    def polynomial_sums(self, counts: Counts, outputs: int, terms: int, limbs: int, count: int) -> None:
        """Sums of ciphertexts times polynomials of `count` coefficients: log2(count) layers of transforms, and two
        components of products, in the caches."""
        number, layers = outputs * terms, count.bit_length() - 1
        counts.sums += 1
        counts.encode_ntt_limbs += round(number * limbs * layers / (self._n.bit_length() - 1))
        counts.mac_limbs += 2 * number * limbs
        counts.ciphertext_bytes += 2 * (outputs + terms) * limbs * self._limb_bytes

    # ---- matrices by rows ----

    def multiply_integers(
        self, counts: Counts, m: int, k: int, width: int, limbs: int, largest: float, exact: bool
    ) -> None:
        """An m × k matrix of integers up to `largest` times `width` columns of residues.

        By a float64 GEMM of each limb; exactly, by one of each digit. Narrow products are done as those of residues
        are, with half as many multiply-adds, or digits: a multiply-add of these stands for two; and for 16 of bytes.
        """
        moduli = self._moduli[:limbs]
        short = [q for q in moduli if exact and is_byte(q, k, largest)]
        wide = [q for q in moduli if not (exact and (q in short or is_narrow(q, k, largest)))]
        narrow = limbs - len(wide) - len(short)
        digits = sum(float_passes(q, k, largest) if exact else 1 for q in wide)
        counts.float_macs += digits * m * k * width
        counts.float_inputs += k * (len(wide) * m + digits * width)
        counts.float_outputs += digits * m * width
        counts.modular_macs += (8 * narrow + sum(map(bytes_of, short))) * m * k * width // BYTE_MACS
        counts.modular_inputs += (narrow + len(short)) * k * (m + width)
        counts.modular_outputs += (narrow + len(short)) * m * width
        self._write(counts, limbs * m * width)

    def multiply_matrices(self, counts: Counts, m: int, k: int, width: int, limbs: int) -> None:
        """An m × k matrix of residues times `width` columns of residues, exactly: modulo narrow primes by a float64
        GEMM, or by four products of bytes each."""
        short = sum(map(are_bytes, self._moduli[:limbs]))
        narrow = sum(q * q / 4 * k <= 2.0**FLOAT_BITS for q in self._moduli[:limbs] if not are_bytes(q))
        wide = limbs - narrow
        counts.modular_macs += (wide - short) * m * k * width + 4 * short * m * k * width // BYTE_MACS
        counts.modular_inputs += wide * k * (m + width)
        counts.modular_outputs += wide * m * width
        counts.float_macs += narrow * m * k * width
        counts.float_inputs += narrow * k * (m + width)
        counts.float_outputs += narrow * m * width
        self._write(counts, limbs * m * width)

    def multiply_operands(self, counts: Counts, m: int, k: int, width: int) -> None:
        """The same modulo the moduli of operands, of bytes, switched to all limbs."""
        limbs, moduli = len(self._moduli), len(self._operand_moduli)
        counts.operand_macs += moduli * m * k * width
        counts.operand_inputs += moduli * k * (m + width)
        counts.operand_outputs += moduli * limbs * m * width
        self._write(counts, limbs * m * width)

    def gram(self, counts: Counts, k: int, cols: int, limbs: int) -> None:
        """The transpose of a k × cols matrix of residues times itself: the products that `Engine.gram` makes here."""
        self._gram(
            counts, k, cols, limbs, lambda m, width: self.multiply_matrices(counts, m, k, width, limbs)
        )

    def gram_operands(self, counts: Counts, k: int, cols: int) -> None:
        """The same modulo the moduli of operands, switched to all limbs."""
        limbs = len(self._moduli)
        self._gram(counts, k, cols, limbs, lambda m, width: self.multiply_operands(counts, m, k, width))

    def _gram(
        self, counts: Counts, k: int, cols: int, limbs: int, multiply: Callable[[int, int], None]
    ) -> None:
        if cols <= GRAM_COLUMNS:
            multiply(cols, cols)
            return
        half = cols // 2
        self._gram(counts, k, half, limbs, multiply)
        self._gram(counts, k, cols - half, limbs, multiply)
        multiply(half, cols - half)
        self._write(counts, limbs * half * (cols - half))

    def rows_as_ciphertexts(self, counts: Counts, limbs: int, rows: int) -> None:
        """Both parts of rows, transformed."""
        counts.encode_ntt_limbs += 2 * limbs * rows

    def rows_of_ciphertexts(self, counts: Counts, number: int, limbs: int, rows: int, columns: int) -> None:
        """Both components of ciphertexts, transformed and read as rows."""
        counts.encode_ntt_limbs += 2 * limbs * number
        for width in (self._n, columns):
            self.copied(counts, rows, width, limbs)

    def switches(self, counts: Counts, rows: int, limbs: int, keys: int, hoisted: int | None = None) -> None:
        """Switches of so many rows, whose coefficients go in and come out; each of the keys is read from memory once,
        and then from the caches.

        Args:
            hoisted: rows that are decomposed, where several switches share one; by default all.
        """
        decomposed, extended = rows if hoisted is None else hoisted, limbs + self._special
        sizes = map(len, self._ranges(limbs))
        counts.row_switches += rows
        counts.ntt_limbs += decomposed * self.digits(limbs) * extended + rows * 2 * extended
        # A digit of several limbs takes a factor each before it is converted.
        counts.mac_limbs += decomposed * (self._converted(limbs) + sum(size for size in sizes if size > 1))
        counts.mac_limbs += rows * (self._key_limbs(limbs) + 2 * (self._special + 1) * limbs)
        counts.key_bytes_read += keys * self._key_bytes(limbs)

    def switch_rows(self, counts: Counts, keys: int, limbs: int) -> None:
        """One row, switched with every key."""
        self.switches(counts, keys, limbs, keys, hoisted=1)

    def relinearise_rows(self, counts: Counts, rows: int, limbs: int) -> None:
        """Rows times the secret."""
        counts.relinearisations += rows
        self.switches(counts, rows, limbs, 1)

    def transpose_rows(self, counts: Counts, rows: int, limbs: int, switches: int, keys: int) -> None:
        """C-MT of as many rows as columns: two transforms and the switches between them, each of which reads and writes
        all rows, divided by their number first."""
        self.switches(counts, switches, limbs, keys)
        counts.transposes += 1
        counts.mac_limbs += limbs * rows * (self._n + rows) // self._n
        passes = 2 * -(-(rows.bit_length() - 1) // _core.PASS_LAYERS) + 1
        counts.moved_bytes += passes * 2 * limbs * rows * (self._n + rows) * WORD_BYTES

    def filled_up(self, counts: Counts, shape: tuple[int, int], limbs: int) -> None:
        """Rows and columns that are missing before a transposition, filled up with zeros."""
        n, (rows, cols) = self._n, shape
        if rows < n:
            self._write(counts, limbs * n * n)
            self._write(counts, limbs * n * cols)
        if cols < n:
            self._write(counts, limbs * n * n)

    def transpose_layers(self, counts: Counts, layers: int, shape: Sequence[int]) -> None:
        """Some layers of a transposition's transforms, which read and write a matrix of this shape."""
        counts.moved_bytes += -(-layers // _core.PASS_LAYERS) * 2 * math.prod(shape) * WORD_BYTES

    def transpose_blocks(self, counts: Counts, rows: int, limbs: int, switches: int, keys: int) -> None:
        """The switches of so many rows of a transposition, divided by N before."""
        self.switches(counts, switches, limbs, keys)
        counts.mac_limbs += 2 * limbs * rows

    # Those of one matrix, a part of an encryption.

    def rescale_matrix(self, counts: Counts, rows: int, width: int, limbs: int) -> None:
        """Division by the last of so many limbs."""
        counts.moved_bytes += limbs * rows * width * WORD_BYTES
        self._write(counts, (limbs - 1) * rows * width)

    def copied(self, counts: Counts, rows: int, width: int, limbs: int) -> None:
        """Read and written elsewhere."""
        counts.moved_bytes += limbs * rows * width * WORD_BYTES
        self._write(counts, limbs * rows * width)

    def spread(self, counts: Counts, shape: Sequence[int], wide: Sequence[int]) -> None:
        """Filled up with zeros, where it is smaller."""
        if tuple(shape[1:]) != tuple(wide):
            self._write(counts, shape[0] * math.prod(wide))

    def add_matrices(self, counts: Counts, rows: int, width: int, limbs: int) -> None:
        """A sum or difference."""
        counts.moved_bytes += 3 * limbs * rows * width * WORD_BYTES

    @staticmethod
    def _write(counts: Counts, words: int) -> None:
        """A new array that is written."""
        nbytes = words * WORD_BYTES
        if nbytes >= MAPPED_BYTES:
            counts.fresh_bytes += nbytes
        else:
            counts.moved_bytes += nbytes


@functools.lru_cache(maxsize=64)
def costs_of(ring: Ring, secrets: int = 1) -> Costs:
    """The costs of calls in a ring, shared by all who count in it."""
    return Costs(ring, secrets)
