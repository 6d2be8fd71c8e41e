"""Seconds from counts: what a machine takes for one NTT, one multiply-add and one streamed byte, and so for a program.

How a machine's rates are found is `measuring`'s; `Machine` holds them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cipherblas.rlwe.counts import Counts

# Around each operand, mask or weight that is encoded, Python does what takes as long as to keep books of so many
# operations.
ENCODE_BOOKS = 12


@dataclass(frozen=True)
class GemmRates:
    """Cost of one kind of GEMM on residues, on one thread.

    Attributes:
        mac: seconds per multiply-add.
        input: seconds per entry of a factor (read from memory, checked, converted).
        output: seconds per entry of the product.
    """

    mac: float
    input: float
    output: float

    def seconds(self, macs: int, inputs: int, outputs: int) -> float:
        """Seconds of so many multiply-adds, entries of factors and entries of products."""
        return macs * self.mac + inputs * self.input + outputs * self.output


@dataclass(frozen=True)
class SwitchRates:
    """Cost of key switching at one ring degree, as programs do it: hoisted, a few rotations at a time.

    Attributes:
        n: ring degree.
        ntt: seconds per point and per layer of its transforms, on one thread, whatever else comes with them included.
    """

    n: int
    ntt: float


@dataclass(frozen=True)
class ThreadRates:
    """Speed-ups of several threads: of arithmetic in their own caches, and of the memory that they share.

    Attributes:
        tried: so many threads were tried together.
        compute: what they were faster by in key switching.
        stream: how many times as many bytes they read and wrote: the ceiling of the memory.
    """

    tried: int
    compute: float
    stream: float

    def computing(self, threads: int) -> float:
        """The speed-up of arithmetic with this number of threads, extrapolated linearly beyond the measured ones."""
        if self.tried < 2:
            return threads
        return min(threads, 1 + (threads - 1) * (self.compute - 1) / (self.tried - 1))

    def streaming(self, threads: int) -> float:
        """The speed-up of streaming with this number of threads, never above the measured ones."""
        if self.tried < 2 or threads < 2:
            return 1.0
        shared = 1 + (threads - 1) * (self.stream - 1) / (self.tried - 1)
        return min(threads, shared, max(self.stream, 1.0))


@dataclass(frozen=True)
class Rates:
    """Cost of the elementary operations on one thread.

    Attributes:
        ntt: seconds per point and per layer (a limb costs N·log2(N) of them).
        switching: the same in key switches, for ring degrees in rising order.
        threads: what several threads are faster by.
        encode: seconds per point and per layer of the embedding of a plaintext.
        pack: seconds per coefficient of a plaintext whose slots are laid out.
        uniform: seconds per residue that is expanded from a seed.
        stream_start: seconds that a stream of random words takes to begin.
        gaussian: seconds per coefficient of an error.
        ternary: seconds per coefficient of a secret.
        pack_key: seconds per residue of a key that is packed.
        digest: seconds per byte of a file that is read and checked.
        mac: seconds per modular multiply-add of words in the caches.
        stream: seconds per byte of key, plaintext, ciphertext or row read from memory, or written.
        fresh: seconds per byte of memory that the system maps while it is written.
        call: seconds per call into the core, data aside.
        book: seconds that an evaluator keeps books for an operation.
        term: seconds that it does for each product of a sum.
        floats: of float64 GEMMs.
        modular: of exact GEMMs modulo a 40-bit prime.
        operands: of GEMMs modulo bytes, whose products are switched to primes; None: not known, and never planned.
        keyed: seconds per byte of key that the digits of a ciphertext are multiplied by, gathered as a rotation has
            them, beyond what reading it and as many multiply-adds take; negative where keys that many rotations share
            are nearer than memory.
        switched: seconds per residue that such a sum makes, however many digits it has.
    """

    ntt: float
    switching: tuple[SwitchRates, ...]
    threads: ThreadRates
    encode: float
    pack: float
    uniform: float
    stream_start: float
    gaussian: float
    ternary: float
    pack_key: float
    digest: float
    mac: float
    stream: float
    fresh: float
    call: float
    book: float
    term: float
    floats: GemmRates
    modular: GemmRates
    keyed: float = 0.0
    switched: float = 0.0
    operands: GemmRates | None = None

    def seconds(self, counts: Counts, n: int, threads: int = 1) -> float:
        """Predicted seconds of `counts` in a ring of degree `n`.

        Threads share the arithmetic in limbs, and the memory that its operands are streamed from, which they wait for:
        each is faster by what was measured for it. So are matrices of residues, which are converted, multiplied and
        moved one after the other. Operands are encoded, and books kept, on one thread.
        """
        computing, streaming = self.threads.computing(threads), self.threads.streaming(threads)
        points = n * (n.bit_length() - 1)
        limbs = (counts.ntt_limbs * self.switch_ntt(n) + counts.encode_ntt_limbs * self.ntt) * points
        limbs += (counts.mac_limbs * self.mac + counts.switched_limbs * self.switched) * n
        limbs += counts.key_bytes_read * max(self.keyed, 0.0)
        streamed = counts.key_bytes_read * max(self.stream + min(self.keyed, 0.0), 0.0)
        streamed += (counts.plain_bytes_read + counts.ciphertext_bytes) * self.stream
        matrices = self.floats.seconds(counts.float_macs, counts.float_inputs, counts.float_outputs)
        matrices += self.modular.seconds(counts.modular_macs, counts.modular_inputs, counts.modular_outputs)
        if counts.operand_macs:
            operands = self.operands or GemmRates(math.inf, math.inf, math.inf)
            matrices += operands.seconds(counts.operand_macs, counts.operand_inputs, counts.operand_outputs)
        matrices += counts.fresh_bytes * self.fresh
        calls = counts.hoistings + counts.relinearisations + counts.rescales + counts.moddowns + counts.adds
        calls += counts.sums
        serial = calls * (self.call + self.book) + (counts.products + counts.plain_products) * self.term
        serial += counts.operand_encodings * self.encoding(n)
        slots = limbs / computing + streamed / streaming
        return slots + matrices / computing + counts.moved_bytes * self.stream / streaming + serial

    def encoding(self, n: int, threads: int = 1) -> float:
        """Seconds in which slots are packed and embedded, and what Python does around that; threads, where vectors are
        encoded together, share the embedding."""
        embedding = n * (n.bit_length() - 1) * self.encode / self.threads.computing(threads)
        return embedding + n * self.pack + ENCODE_BOOKS * self.book

    @property
    def least_ntt(self) -> float:
        """Seconds per point and layer of the fastest transforms."""
        return min(self.ntt, *(rate.ntt for rate in self.switching))

    def switch_ntt(self, n: int) -> float:
        """Seconds per point and layer of a key switch's transforms: of the degrees that were measured, or between."""
        rates = self.switching
        if n <= rates[0].n or n >= rates[-1].n:
            return rates[0].ntt if n <= rates[0].n else rates[-1].ntt
        above = next(index for index, rate in enumerate(rates) if n <= rate.n)
        low, high = rates[above - 1], rates[above]
        part = math.log2(n / low.n) / math.log2(high.n / low.n)
        return low.ntt + part * (high.ntt - low.ntt)
