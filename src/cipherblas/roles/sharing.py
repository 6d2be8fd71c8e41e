"""Sharing decrypted results: noise that hides the error of a result, and the budget that it lasts for.

CKKS is not secure against an observer of exact decryptions (Li, Micciancio 2021). Gaussian noise of standard deviation
σ = sqrt(24·n)·2^(s/2)·E per entry, E bounding the error of every result and n being the number of entries ever shared
under the key, leaves s bits of statistical security (Li, Micciancio, Schultz, Sorrell 2022, Corollary 2). What this
assumes: docs/threat-model.md, "Sharing decrypted results".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import is_scalar
from cipherblas.common.errors import DTypeError, ParameterError, PrecisionError, SecurityError
from cipherblas.common.progress import Progress
from cipherblas.crypto import randomness
from cipherblas.lang.results import Arranged
from cipherblas.roles.client_side import ClientSide

MIN_BITS, MAX_BITS = 30, 64  # the sampler's own distance from a Gaussian is 2^-64 per entry
MAX_ENTRIES = 1 << 40
Ledger = Callable[[str, str, int], bool]  # key_id, digest of a result, its entries


@dataclass(frozen=True)
class Sharing:
    """How many results will be shared, and how much noise hides the key in them; for `Client.decrypt(result, share=…)`.

    Attributes:
        entries: of all results together that will ever be shared under the key.
        bits: of statistical security, 30 to 64.
        ledger: asked before anything is decrypted, as ledger(key_id, digest of the result, entries): True where these
            entries may be shared. For copies of a key that know nothing of each other: it keeps one budget for all.

    Raises:
        DTypeError: not whole numbers. ParameterError: out of range.

    Examples:
        >>> Sharing(entries=4096)
        Sharing(entries=4096, bits=30)
    """

    entries: int
    bits: int = MIN_BITS
    ledger: Ledger | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, least, most in (("entries", 1, MAX_ENTRIES), ("bits", MIN_BITS, MAX_BITS)):
            value = getattr(self, name)
            if not is_scalar(value) or not math.isfinite(value) or value != int(value):
                raise DTypeError(
                    f"`{name}` must be an integer.",
                    got=f"{value!r} ({type(value).__name__})",
                    advice=f"{name}={least}, or more",
                )
            if not least <= value <= most:
                raise ParameterError(
                    f"`{name}` is out of range.", got=value, advice=f"{name}= from {least} to {most}"
                )
            object.__setattr__(self, name, int(value))
        if self.ledger is not None and not callable(self.ledger):
            raise DTypeError(
                "`ledger` must be a function.",
                got=type(self.ledger).__name__,
                advice="lambda key, result, entries: True, or another function of these",
            )

    def ask_ledger(self, key_id: str, digest: str, entries: int) -> None:
        """Raise a SecurityError unless the ledger, where there is one, grants the entries of a result."""
        if self.ledger is not None and self.ledger(key_id, digest, entries) is not True:
            raise SecurityError(
                "The ledger does not grant the entries of the result.",
                expected="True",
                got="another answer",
                advice=f"a ledger that returns True where these {entries} entries may be shared",
            )

    def deviation(self, program: ClientSide, *, progress: Progress | None = None) -> Arranged[float]:
        """σ: standard deviation of the noise that an entry of a result of the program gets.

        Of several results, one for each, as the program returns them: by its own error.

        Args:
            program: whose results are shared.
            progress: called as progress(done, total), counted in operations, while the error for whatever data is
                found: once for each program.

        Raises:
            PrecisionError: the noise would be as large as the bound of a result.
        """
        return program.arranged(self.deviations(program, progress))

    def deviations(self, program: ClientSide, progress: Progress | None = None) -> list[float]:
        """`deviation` of each result, in their order."""
        each = math.sqrt(24.0 * self.entries) * math.pow(2, self.bits / 2)
        found = [each * error for error in program.found_worst_errors(progress)]
        for node, sigma in zip(program.results, found, strict=True):
            if not sigma < node.bound:
                raise PrecisionError(
                    "The noise that sharing needs is larger than the result.",
                    expected=f"a standard deviation below the bound {node.bound:g}",
                    got=f"{sigma:.3g}",
                    advice=("a finer precision=… in cb.compile", "fewer entries=… of cb.Sharing"),
                )
        return found


def flooded(values: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """The values with Gaussian noise of deviation σ, rounded to multiples of the power of two at or below σ.

    The rounding takes away the digits that the noise drowns, and with them what a float64 sum tells of its terms.
    """
    step = 2.0 ** math.floor(math.log2(sigma))
    noise = sigma * _normals(values.size).reshape(values.shape)
    return np.rint((values + noise) / step) * step + 0.0  # no negative zeros


def _normals(count: int) -> NDArray[np.float64]:
    """Standard normal numbers by Box and Muller from an AES-CTR stream of a fresh seed; at most 9.42 in absolute value.

    The radius comes from 64 random bits: what it cannot reach has probability 2^-64.
    """
    pairs = -(-count // 2)
    words = randomness.streams(randomness.fresh_seed(), randomness.Purpose.FLOODING, [0, 1], pairs)
    radius = np.sqrt(-2.0 * np.log((words[0].astype(np.float64) + 1.0) * 2.0**-64))
    angle = (2.0 * np.pi * 2.0**-53) * (words[1] >> np.uint64(11)).astype(np.float64)
    words.fill(0)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
