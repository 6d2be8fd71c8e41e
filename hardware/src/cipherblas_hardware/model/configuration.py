"""What FAME's accelerator is made of: processing elements, lanes, clock, scratchpads, memory."""

from __future__ import annotations

from dataclasses import dataclass

from cipherblas.common.errors import ParameterError
from cipherblas.rlwe.fast_memory import FastMemory

WORD_BITS = 54  # of the RNS primes (Section V-B1)
WORD_BYTES = WORD_BITS / 8
DSP_PER_LANE = 21  # of one modular ALU: an adder and a Barrett multiplier (Section VI-C)
BANKS = 4  # of a scratchpad (Section V-B3)
STREAMED_LIMBS = 1  # beside ciphertexts: what comes in of keys, diagonals and twiddle factors
# 32 AXI ports of 256 bits (Section V-A) at 450 MHz, the clock of the HBM of the Alveo U280.
U280_HBM_BYTES = 32 * 32 * 450e6
U280_DSP = 9024  # Section VI-A


@dataclass(frozen=True)
class Configuration:
    """An accelerator.

    Attributes:
        name: of the configuration.
        pes: processing elements: one, or an even number, half of which have the transforms of each operand.
        lanes: dp, modular ALUs of each; as many coefficients are read, computed and permuted in a cycle.
        mhz: clock.
        hbm_bytes: per second, from and to memory.
        scratchpad: bytes of each processing element; None: what MO-HLT needs (`scratchpad_bytes`).
        ntt_stages: stages of an NTT that one pass of a limb does: 1 as described in Section V-B, since a butterfly
            takes two adders and a lane has one, and the circuit permutes dp coefficients per cycle.
        overlapped: memory is read and written while lanes compute, as the two ports of a bank allow; else before.
        order: of the loops of a transform: "limb" (MO-HLT) or "rotation" (the coarse order).
        centred: base conversion is exact and centred, as the library's, which takes passes for overflows; else it has
            one pass for each source and target alone.
        twiddles: tables of twiddle factors stream in from memory for each limb that is transformed; else they are
            there.

    Raises:
        ParameterError: a number that no accelerator has.
    """

    name: str
    pes: int
    lanes: int
    mhz: float
    hbm_bytes: float = U280_HBM_BYTES
    scratchpad: float | None = None
    ntt_stages: float = 1.0
    overlapped: bool = True
    order: str = "limb"
    centred: bool = False
    twiddles: bool = False

    def __post_init__(self) -> None:
        if self.pes != 1 and (self.pes < 1 or self.pes % 2):
            raise ParameterError(
                "Transforms of two operands share the processing elements evenly.",
                expected="1 or an even number of processing elements",
                got=self.pes,
            )
        numbers = {
            "lanes": self.lanes,
            "mhz": self.mhz,
            "hbm_bytes": self.hbm_bytes,
            "ntt_stages": self.ntt_stages,
        }
        for name, number in numbers.items():
            if not number > 0:
                raise ParameterError(
                    f"{name} of an accelerator must be positive.", expected="above 0", got=number
                )
        if self.scratchpad is not None and self.scratchpad < 0:
            raise ParameterError(
                "A scratchpad has no negative size.", expected="at least 0 bytes", got=self.scratchpad
            )
        if self.order not in ("limb", "rotation"):
            raise ParameterError(
                "There is no such order of the loops of a transform.",
                expected="limb | rotation",
                got=self.order,
            )

    @property
    def dsp(self) -> int:
        """DSP slices of all modular ALUs (Table V)."""
        return DSP_PER_LANE * self.pes * self.lanes

    def scratchpad_of(self, n: int, limbs: int, digits: int) -> float:
        """Bytes of a processing element's scratchpad, for a parameter set where none is given."""
        return scratchpad_bytes(n, limbs, digits) if self.scratchpad is None else self.scratchpad


def scratchpad_bytes(n: int, limbs: int, digits: int) -> float:
    """Bytes of a scratchpad that holds what MO-HLT needs (Eq. 24) and a limb that streams in, in four equal banks.

    Args:
        n: ring degree N.
        limbs: L + 1.
        digits: β.

    Source: FAME, Eq. 24 and Section V-B3; the sizes of Table IV follow.
    """
    limb = n * WORD_BYTES
    needed = round(FastMemory.of(n, limbs, 0, digits, WORD_BYTES).by_limbs / limb) + STREAMED_LIMBS
    return BANKS * -(-needed // BANKS) * limb


# Table IV: the configuration of each parameter set.
CONFIGURATIONS = {
    "A": Configuration("FAME-S", 2, 128, 350.0),
    "B": Configuration("FAME-M", 2, 128, 350.0),
    "C": Configuration("FAME-L", 1, 256, 300.0),
}
