"""Values in coefficients: a matrix, or its transpose, encrypted row by row."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import bit_reversed
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.randomness import SEED_BYTES
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.forms import byte_rows
from cipherblas.forms.form import Form, Matrix, Opener, Receiver, Sealer, Words
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.matrices import CoefficientMatrix, OperandRows, SharedBatch, rows_format
from cipherblas.rlwe.rings import Ring
from cipherblas.rlwe.traffic import Traffic

Pieces = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Placing:
    """Where the entries of rows stand among the N coefficients that clean rows have, whose others are zeros.

    Attributes:
        each: r, the distance of entries that are spread over a row.
        first: of `each` entries that stand together instead: entry first + j at the bit-reversed number j, those before
            the first one being zeros; None: all are spread.
        negative: at the powers of X^-1 instead of those of X.
    """

    each: int
    first: int | None = None
    negative: bool = False

    def placed(self, matrix: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """Rows of n coefficients."""
        rows, cols = matrix.shape
        found = np.zeros((rows, n))
        if self.first is None:
            found[:, : cols * self.each : self.each] = matrix
            return found
        part = matrix[:, max(self.first, 0) : self.first + self.each]
        places = bit_reversed(self.each)[max(-self.first, 0) :][: part.shape[1]]
        if not self.negative:
            found[:, places] = part
        else:  # X^-t = -X^(N - t)
            found[:, (n - places) % n] = np.where(places, -part, part)
        return found


@dataclass(frozen=True)
class RowForm(Form):
    """A matrix, or its transpose, encrypted row by row in coefficients.

    Attributes:
        shape: rows × columns of what is encrypted.
        by_columns: that is the transpose of the matrix.
        pieces: column ranges, each an encryption of its own; the last one may hold zeros beyond the columns. A piece
            longer than N has a secret for every N columns and one a part (shared-a rows).
        placing: of the entries in the only piece, of N columns, where the others are zeros.
        in_pieces: it may have several.
        repeats: operands whose rows are equal are sent as one of these.
        digits: columns that are encrypted of each column of an operand.
    """

    name: ClassVar[str] = "rows"
    kind: ClassVar[str] = "rows"
    operand_moduli: ClassVar[bool] = True
    in_pieces: ClassVar[bool] = True
    repeats: ClassVar[bool] = True
    digits: ClassVar[int] = 1
    shape: tuple[int, int]
    by_columns: bool
    pieces: Pieces
    placing: Placing | None = None

    @classmethod
    def of_operand(cls, shape: tuple[int, int], by_columns: bool, pieces: Pieces) -> RowForm:
        """Of an operand of this shape, in these pieces."""
        return cls(shape, by_columns, pieces)

    @staticmethod
    def largest(bound: float) -> float:
        """Bound of what is encrypted of an operand that has this bound."""
        return bound

    def of_bytes(self, rows: bool, columns: bool) -> RowForm:
        """Of products with bytes or digits of a left factor, or of a right one."""
        if not (rows or columns):
            return self
        return ByteRowForm(self.shape, self.by_columns, self.pieces, self.placing, rows, columns)

    @property
    def cut(self) -> tuple[bool, bool]:
        """Whether rows, and columns, are those of bytes or digits."""
        return False, False

    @property
    def key(self) -> Hashable:
        return self

    @property
    def lies(self) -> str:
        return "by columns" if self.by_columns else "by rows"

    @property
    def widths(self) -> list[int]:
        """Columns of each piece."""
        return [stop - start for start, stop in self.pieces]

    @property
    def ciphertexts(self) -> int:
        return self.shape[0] * len(self.pieces)

    @property
    def parts(self) -> int:
        return len(self.pieces)

    @property
    def secrets(self) -> int:
        """Number of secrets of rows, each of its own, that share their a parts; 0 for none."""
        return 0

    def degree(self, ring: Ring) -> int:
        degree: int = ring.family.rows.n
        return degree

    def upload(self, words: int, n: int, public_key: bool) -> Traffic:
        rows, cols, secrets = self.shape[0], sum(self.widths), self.secrets
        pieces = len(self.pieces)
        uniform = words * pieces * (1 if secrets else rows)  # rows of a parts
        segments = rows * sum(-(-width // n) for width in self.widths)
        seeds = 0 if public_key else pieces
        sent = words * rows * (cols + (pieces - seeds) * n)
        return Traffic(
            upload_bytes=sent * WORD_BYTES + seeds * SEED_BYTES,
            noise_words=rows * (cols + n * pieces * public_key),
            secret_words=n * (secrets + rows * pieces * public_key),
            client_streams=rows * pieces * (1 + 2 * public_key) + secrets + uniform * (not public_key),
            seeded_streams=0 if public_key else uniform,
            encrypted_words=words * rows * cols + public_key * uniform * n,
            # The a part forward (or the ephemeral secret), its product with every secret back.
            transforms=uniform + words * segments * (1 + public_key) + words * secrets,
            seeded_words=0 if public_key else uniform * n,
            threaded=True,
        )

    def download(self, limbs: int, components: int, n: int) -> Traffic:
        rows, words = self.shape[0], sum(map(math.prod, self.arrays(limbs, components, n)))
        answers = limbs * rows * len(self.pieces)
        return Traffic(
            result_bytes=words * WORD_BYTES,
            answer_transforms=2 * answers,
            answer_words=answers * n,
            threaded=True,
        )

    def resident_bytes(self, words: int, n: int, public_key: bool) -> tuple[int, int]:
        """Seeds are expanded when the arrays come, and stay so."""
        return 0, words * (self.shape[0] * sum(self.widths) + self._a_rows(n) * n) * WORD_BYTES

    def _a_rows(self, n: int) -> int:
        return self.shape[0] * len(self.pieces)

    def packing_bytes(self, words: int, n: int, public_key: bool) -> int:
        """Under a public key once more an a part."""
        return words * self.shape[0] * n * WORD_BYTES * public_key

    def opened_words(self, n: int) -> int:
        """The pieces."""
        return math.prod(self.shape)

    def sealed(self, by: Sealer, matrix: Matrix, scale: Any, basis: Basis) -> tuple[Any, ...]:
        matrix, found = self.laid(matrix, self.degree(by.params)), []
        for (start, stop), (kind, _) in zip(self.pieces, self.sent(basis, by.params), strict=True):
            piece = matrix[:, start:stop]
            missing = stop - start - piece.shape[1]
            if missing:
                piece = np.pad(piece, ((0, 0), (0, missing)))
            found.append(by.matrix(kind, piece, scale, basis))
        return tuple(found)

    def sent(self, basis: Basis, params: Parameters) -> list[tuple[type, tuple[int, ...]]]:
        own = params.family.rows
        words = basis.words(own)
        return [(self._kind(width, basis, own), (words, self.shape[0], width)) for width in self.widths]

    def _kind(self, width: int, basis: Basis, params: Parameters) -> type[CoefficientMatrix]:
        return OperandRows if basis.of_operands else rows_format(width, params.n)

    def received(self, by: Receiver, feed: Sequence[Any], key: Hashable) -> list[Any]:
        return by.matrices(feed, key)

    def fresh(
        self, evaluators: Evaluators, data: Any, public_key: bool, bound: float, basis: Basis, scale: float
    ) -> list[list[Any]]:
        ev, rows = evaluators.rows, self.shape[0]
        options: Any = {"public_key": public_key, "bound": bound, "basis": basis, "scale": scale}
        return [[[ev.fresh(data and next(data), (rows, width), **options) for width in self.widths]]]

    def evaluator(self, evaluators: Evaluators) -> RowsEvaluator:
        return evaluators.rows

    def arrays(self, limbs: int, components: int, n: int) -> list[tuple[int, ...]]:
        rows = self.shape[0]
        return [shape for width in self.widths for shape in ((limbs, rows, n), (limbs, rows, width))]

    def entries(self, shape: tuple[int, ...]) -> int:
        return math.prod(self.shape)

    def laid(self, matrix: Matrix, n: int) -> Matrix:
        """Return the matrix that is encrypted of an operand, in a ring of degree n."""
        return matrix if self.placing is None else self.placing.placed(matrix, n)

    def opened(self, by: Opener, arrays: Sequence[Words], scale: Any, shape: tuple[int, ...]) -> Matrix:
        pieces = [
            by.matrix(rows_format(width, a.shape[-1]), (self.shape[0], width), scale, a, b)
            for width, a, b in zip(self.widths, arrays[::2], arrays[1::2], strict=True)
        ]
        return self.joined(pieces)

    def joined(self, pieces: Sequence[Matrix]) -> Matrix:
        """The matrix whose pieces were decrypted."""
        found = self._joined(np.concatenate(pieces, axis=1)[:, : self.shape[1]])
        return np.ascontiguousarray(found.T if self.by_columns else found)

    def _joined(self, found: Matrix) -> Matrix:
        return found

    def to_json(self, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        return asdict(self)

    def holds(self, shape: tuple[int, ...]) -> bool:
        rows, cols = (length // (2 if cut else 1) for length, cut in zip(self.shape, self.cut, strict=True))
        return shape == ((cols, rows) if self.by_columns else (rows, cols))

    def holds_operand(self, rows: int, cols: int) -> bool:
        return self.shape[0] >= rows and self.pieces[-1][1] >= cols


@dataclass(frozen=True)
class SharedRowForm(RowForm):
    """One encryption whose rows share their a parts, each with a secret of its own, for fixed weights."""

    kind: ClassVar[str] = "shared-rows"
    in_pieces: ClassVar[bool] = False
    repeats: ClassVar[bool] = False

    @property
    def secrets(self) -> int:
        return self.shape[0]

    def _a_rows(self, n: int) -> int:
        return -(-sum(self.widths) // n)

    def packing_bytes(self, words: int, n: int, public_key: bool) -> int:
        """As much of secrets and noise."""
        return words * self.shape[0] * n * WORD_BYTES

    def _kind(self, width: int, basis: Basis, params: Parameters) -> type[CoefficientMatrix]:
        return SharedBatch

    def fresh(
        self, evaluators: Evaluators, data: Any, public_key: bool, bound: float, basis: Basis, scale: float
    ) -> list[list[Any]]:
        options: Any = {"bound": bound, "basis": basis, "scale": scale}
        return [[[evaluators.rows.fresh_batch(data and next(data), self.shape, **options)]]]


@dataclass(frozen=True)
class ByteRowForm(RowForm):
    """Digits of the columns of an operand, or products with bytes or digits of factors (`forms.byte_rows`).

    Attributes:
        rows_by_bytes, columns_by_bytes: which of rows and columns are those of bytes or digits.
    """

    kind: ClassVar[str] = "byte-rows"
    repeats: ClassVar[bool] = False
    digits: ClassVar[int] = 2
    rows_by_bytes: bool = False
    columns_by_bytes: bool = True

    @classmethod
    def of_operand(cls, shape: tuple[int, int], by_columns: bool, pieces: Pieces) -> RowForm:
        return cls((shape[0], pieces[-1][1]), by_columns, pieces)

    @staticmethod
    def largest(bound: float) -> float:
        return float(byte_rows.OFFSET)

    @property
    def cut(self) -> tuple[bool, bool]:
        return self.rows_by_bytes, self.columns_by_bytes

    def packing_bytes(self, words: int, n: int, public_key: bool) -> int:
        """Digits too."""
        return super().packing_bytes(words, n, public_key) + math.prod(self.shape) * 3 * WORD_BYTES

    def opened_words(self, n: int) -> int:
        """Pieces before and after they are rounded, and two terms of their sum."""
        return 4 * math.prod(self.shape)

    def error(self, encrypted: float) -> float:
        """As much as products with bytes while that is below one half, so that rounding takes it away."""
        for cut in self.cut:
            encrypted = byte_rows.error(encrypted) if cut else encrypted
        return encrypted

    def laid(self, matrix: Matrix, n: int) -> Matrix:
        return np.asarray(byte_rows.in_digits(matrix.T).T)

    def _joined(self, found: Matrix) -> Matrix:
        found = byte_rows.joined(found) if self.rows_by_bytes else found
        return byte_rows.joined(found.T).T if self.columns_by_bytes else found
