"""What evaluators of rows work on: encrypted matrices, halves of them, and clear factors in integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cipherblas.evaluators.policy.interface import PlaintextPolicy, Scale
from cipherblas.evaluators.slots.values import ClearFactor, Ledger
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.noise import UNKNOWN, Spread, spread_over, tail

# A float64 GEMM is exact while no partial sum exceeds the significand.
EXACT_BITS = 53
# Of a result, relative: its operands, factors and itself are rounded to float64.
FLOAT_ERROR = 2.0 ** (4 - EXACT_BITS)


class EncryptedMatrix:
    """A handle on an encrypted matrix.

    Attributes:
        shape: rows × columns of the message.
        basis: moduli of its residues.
        scale: the message is scale · entry.
        bound: on the absolute value of an entry; infinite where the message fills the modulus.
        noise: standard deviation of the message's error, in units of the message.
        bias: largest systematic error of the message (rounded weights), in units of the message.
        independent: errors of different entries are independent. Those of a product are not: each is a sum of
            errors of its factors, for matrices of ones the same sums.
        spread: of the errors together, where more is known than follows from those of single entries.
        norm: bound on the singular values, where one is known.
        policy: the rules of its plaintexts.
        data: the evaluator's own representation (None in `RowsSymbolic`).
    """

    __slots__ = (
        "_booked",
        "_ledger",
        "_source",
        "basis",
        "bias",
        "bound",
        "data",
        "independent",
        "noise",
        "norm",
        "policy",
        "scale",
        "shape",
        "spread",
    )

    def __init__(
        self,
        shape: tuple[int, int],
        basis: Basis,
        scale: Scale,
        bound: float,
        noise: float,
        bias: float,
        data: Any,
        ledger: Ledger,
        nbytes: int,
        policy: PlaintextPolicy,
        independent: bool,
        source: EncryptedMatrix | None = None,
        spread: Spread = UNKNOWN,
    ) -> None:
        self.policy, self.spread, self.norm = policy, spread, math.inf
        self.shape, self.basis, self.scale, self.bound = shape, basis, scale, bound
        self.noise, self.bias, self.data, self.independent = noise, bias, data, independent
        self._ledger, self._booked = ledger, nbytes
        self._source = source  # whose data these are, booked there
        ledger.add(nbytes)

    def __del__(self) -> None:
        self._ledger.release(self._booked)

    @property
    def limbs(self) -> int:
        """The number of limbs.

        Raises:
            LevelError: an operand with moduli of its own has none.
        """
        return self.basis.limbs

    def detached_errors(self) -> tuple[float, float]:
        """Standard deviation and bias of the entries' errors, which are not counted from here on."""
        rounding = FLOAT_ERROR * self.bound if math.isfinite(self.bound) else 0.0
        found = self.noise / self.scale, self.bias / self.scale + rounding
        self.noise, self.bias = 0.0, 0.0
        return found

    @property
    def length(self) -> float:
        """Root of the sum of squares of all entries."""
        return min(math.sqrt(math.prod(self.shape)) * self.bound, math.sqrt(min(self.shape)) * self.norm)

    @property
    def together(self) -> Spread:
        """Of its errors together, by what is known of them or of single entries."""
        usual = spread_over(self.shape, self.noise, self.bias)
        noise = self.noise if self.independent else usual.noise
        return Spread(min(self.spread.noise, noise), min(self.spread.bias, usual.bias))

    def weighed_noise(self, factor: ClearFactor) -> float:
        """Noise of the sums of entries of a column that a factor weighs; Σu² is at most max|u|·Σ|u|."""
        if self.independent:
            return self.noise * math.sqrt(factor.largest * factor.largest_sum)
        return self.noise * factor.largest_sum


class PendingElements:
    """Rows that are still ring elements, one each: the residues of their coefficients are made where a GEMM, a sum or a
    transposition needs them, and not where the elements themselves are read.

    Attributes:
        elements: their data.
        extracted: the residues were made; `data` are what they are for an evaluator that computes.
    """

    __slots__ = ("data", "elements", "extracted")

    def __init__(self, elements: Sequence[Any], extracted: bool = False, data: Any = None) -> None:
        self.elements, self.extracted, self.data = elements, extracted, data


class Rows(EncryptedMatrix):
    """A matrix encrypted by rows.

    Attributes:
        packed: the data of the ring elements that all rows are in, one after the other, where they came from such.
        first: rows of others that the first of these elements begins with.
        others: bound on the messages of those, and of others after the last row.
        pending: rows that are ring elements one by one, or None.
        column_sum: bound on the sum of absolute entries in a column, where less is known than rows times `bound`.
        strays: of rows of N coefficients deviation and largest of the errors of those that should be zero, where that
            is known to be less.
    """

    __slots__ = ("column_sum", "first", "others", "packed", "pending", "strays")
    pending: PendingElements | None
    column_sum: float
    packed: Sequence[Any] | None
    first: int
    others: float
    strays: tuple[float, float] | None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        source = self._source
        same = isinstance(source, Rows) and (self.shape, self.basis) == (source.shape, source.basis)
        self.packed = source.packed if same else None  # type: ignore[union-attr]
        self.first = source.first if same else 0  # type: ignore[union-attr]
        self.others = source.others if same else 0.0  # type: ignore[union-attr]
        self.strays = source.strays if isinstance(source, Rows) else None
        self.column_sum = math.inf
        self.pending = source.pending if same else None  # type: ignore[union-attr]

    @property
    def total(self) -> float:
        """Bound on the sum of absolute entries in a column."""
        return min(self.column_sum, self.shape[0] * self.bound)

    def weighed_by(self, other: Rows) -> float:
        """Noise of the sums of entries of a column that those of another matrix weigh; Σw² is at most max|w|·Σ|w|."""
        if self.independent:
            return self.noise * math.sqrt(other.bound) * math.sqrt(other.total)
        return self.noise * other.total

    def keep_packed(self, datas: Sequence[Any], nbytes: int) -> None:
        """Keep the elements that the rows came from, of so many bytes."""
        self.packed = datas
        self.book(nbytes)

    def keep_elements(self, datas: Sequence[Any], nbytes: int, extracted: bool = False) -> None:
        """They are these elements, of so many bytes more than residues; `extracted`: beside those."""
        self.pending = PendingElements(datas, extracted, self.data)
        self.book(nbytes)

    def book(self, nbytes: int) -> None:
        """So many bytes more are alive with this handle."""
        self._booked += nbytes
        self._ledger.add(nbytes)

    def error(self, entries: int) -> float:
        """Bound on the errors of so many entries together, but for a chance of 2^-FAILURE_BITS."""
        rounding = FLOAT_ERROR * self.bound if math.isfinite(self.bound) else 0.0
        message = tail(entries) * self.noise + self.bias
        return float(self.policy.row_error(self.scale, message, rounding))


class MultiSecretRows(EncryptedMatrix):
    """A fresh matrix encrypted by rows that share their a parts: row j has a secret s_j of its own.

    b_j + a·s_j = scale · M_j, a being one polynomial for every N columns.
    """

    __slots__ = ()


@dataclass(frozen=True)
class TransposedHalf:
    """One half of an encryption, transposed: a clear matrix of residues that fill the modulus.

    Attributes:
        shape: N × k (of the a part) or m × k (of the b part), k the rows of the encryption.
        basis: moduli of the residues.
        data: the evaluator's own representation.
    """

    shape: tuple[int, int]
    basis: Basis
    data: Any
