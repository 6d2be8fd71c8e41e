"""Cycles and bytes of the operations of a product on FAME's accelerator, and its latency."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from cipherblas.common.words import WORD_BYTES as COUNTED_BYTES
from cipherblas.crypto.digits import digit_ranges
from cipherblas.crypto.params import key_words
from cipherblas.rlwe.fast_memory import FastMemory
from cipherblas.rlwe.rings import Ring
from cipherblas_hardware.model.configuration import WORD_BYTES, Configuration
from cipherblas_hardware.model.operations import Operation, Program


@dataclass(frozen=True)
class Load:
    """The load of an operation on one processing element and on the memory."""

    cycles: float = 0.0
    hbm_bytes: float = 0.0
    spilled_bytes: float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load(
            self.cycles + other.cycles,
            self.hbm_bytes + other.hbm_bytes,
            self.spilled_bytes + other.spilled_bytes,
        )


@dataclass(frozen=True)
class Latency:
    """Of one product, from loading the operands to storing the result.

    Attributes:
        cycles: of computing, those of processing elements that work at the same time once.
        compute_seconds: of these cycles.
        waiting_seconds: for memory, while nothing is computed.
        hbm_bytes, hbm_seconds: from and to memory, spilled ones included.
        spilled_bytes: of ciphertexts that do not fit the scratchpads.
    """

    cycles: float
    compute_seconds: float
    waiting_seconds: float
    hbm_bytes: float
    hbm_seconds: float
    spilled_bytes: float

    @property
    def seconds(self) -> float:
        """In all."""
        return self.compute_seconds + self.waiting_seconds


class Accelerator:
    """A configuration that works in one ring.

    One pass of a limb through the lanes takes N/dp cycles. A modular multiply-add of a limb is one pass (KeyIP,
    DiagIP, base conversion; permutations of an automorphism are on the way), a transform log2(N)/stages passes. Passes
    are those that our evaluators count (`rlwe.costs`): FAME's sub-operations are the same. Keys and diagonals, in NTT
    form, stream from memory with 54 bits per residue; a transform reads its input, writes its output, and passes the
    limbs that ModDown divides by through memory. What the published description does not have, and the simulated
    accelerator does, is counted where the configuration says so: overflows of base conversion, tables of twiddles.
    """

    def __init__(self, configuration: Configuration, ring: Ring) -> None:
        self.configuration, self.ring = configuration, ring
        self.limb_bytes = ring.n * WORD_BYTES
        self._clock = configuration.mhz * 1e6
        self.pass_cycles = ring.n / configuration.lanes
        self.ntt_passes = (ring.n.bit_length() - 1) / configuration.ntt_stages
        moduli = (*ring.q, *ring.p)
        self._key_limb_bytes = key_words(ring.n, moduli) * COUNTED_BYTES / len(moduli)
        self.scratchpad = configuration.scratchpad_of(ring.n, len(ring.q), self._digits(len(ring.q)))

    def _digits(self, limbs: int) -> int:
        return len(digit_ranges(limbs, self.ring.alpha, self.ring.digit_limbs))

    def load(self, operation: Operation) -> Load:
        """Of one operation."""
        counts, ring = operation.counts, self.ring
        polynomial_adds = 2 * (operation.limbs - 1) * counts.adds
        passes = counts.ntt_limbs * self.ntt_passes + counts.mac_limbs + polynomial_adds
        if self.configuration.centred:
            passes += self.overflow_passes(operation)
        counted_limb = ring.n * COUNTED_BYTES
        limbs = counts.key_bytes_read / self._key_limb_bytes + counts.plain_bytes_read / counted_limb
        limbs += counts.ciphertext_bytes / counted_limb
        if self.configuration.twiddles:
            limbs += self.twiddle_limbs(operation)
        spilled = 0.0
        if operation.kind == "transform":
            digits = self._digits(operation.limbs)
            model = FastMemory.of(ring.n, operation.limbs, len(ring.p), digits, WORD_BYTES)
            limbs += model.passing(counts.rotations > 0, counts.rescales > 0)
            spilled = model.spilled(self.scratchpad, self.configuration.order, counts.rotations)
        return Load(passes * self.pass_cycles, limbs * self.limb_bytes + spilled, spilled)

    def overflow_passes(self, operation: Operation) -> int:
        """Passes for the overflows of centred base conversions: sources + targets of each that has several sources."""
        counts, special = operation.counts, len(self.ring.p)
        if not counts.hoistings:
            return 0
        ranges = digit_ranges(operation.limbs, self.ring.alpha, self.ring.digit_limbs)
        extended, merged = operation.limbs + special, self._merged(operation)
        decomposed = sum(extended for digit in ranges if len(digit) > 1)
        divided = 2 * (extended if special + merged > 1 else 0)
        return counts.hoistings * decomposed + counts.moddowns * divided

    def twiddle_limbs(self, operation: Operation) -> int:
        """Limbs that tables of twiddle factors are, one for each limb and direction in which it is transformed."""
        counts, limbs, special = operation.counts, operation.limbs, len(self.ring.p)
        merged = self._merged(operation)
        found = 0
        if counts.hoistings:
            # The last limb's inverse table serves Decomp, and at once ModDown; a single digit is not converted to it.
            found = 2 * (limbs + special) - (merged if self._digits(limbs) == 1 else 0)
        if counts.rescales and not (counts.hoistings and merged):
            found += limbs  # the last limb's inverse, and the others
        return found

    def _merged(self, operation: Operation) -> int:
        """Limbs of Q that the ModDown of an operation divides by: transforms rescale at once, products afterwards."""
        return int(operation.kind == "transform" and operation.counts.rescales > 0)

    def latency(self, program: Program) -> Latency:
        """Of a product.

        Transform i of A and of B run at the same time on half of the processing elements each, or one after the other
        on a single one; their product follows, on all. The elements that share an operation take its limbs in turns.
        Transfers share the memory and, where they are overlapped, are hidden behind the computation of their step.
        """
        pes = self.configuration.pes
        cycles = waiting = 0.0
        total = Load()
        pairs = itertools.zip_longest(
            map(self.load, program.left), map(self.load, program.right), fillvalue=Load()
        )
        steps = [
            (
                left.cycles + right.cycles if pes == 1 else max(left.cycles, right.cycles) * 2 / pes,
                left + right,
            )
            for left, right in pairs
        ]
        steps += [(product.cycles / pes, product) for product in map(self.load, program.products)]
        for work, load in steps:
            cycles, total = cycles + work, total + load
            waiting += self._waiting(work, load)
        return Latency(
            cycles=cycles,
            compute_seconds=cycles / self._clock,
            waiting_seconds=waiting,
            hbm_bytes=total.hbm_bytes,
            hbm_seconds=total.hbm_bytes / self.configuration.hbm_bytes,
            spilled_bytes=total.spilled_bytes,
        )

    def _waiting(self, cycles: float, load: Load) -> float:
        """Seconds of a step's transfers that its computation does not hide."""
        moving = load.hbm_bytes / self.configuration.hbm_bytes
        return max(0.0, moving - cycles / self._clock) if self.configuration.overlapped else moving
