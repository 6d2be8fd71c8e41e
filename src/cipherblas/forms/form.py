"""How a value is encrypted: blocks of a matrix or a tensor in slots, or rows in coefficients.

A form says what travels and what that takes. Methods that compute on it are entered by its `name`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import bit_reversed
from cipherblas.common.errors import ShapeError
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.randomness import SEED_BYTES
from cipherblas.forms import byte_rows
from cipherblas.forms.blocks import join
from cipherblas.forms.layouts import Layout
from cipherblas.forms.tensors import TensorLayout
from cipherblas.rlwe.traffic import Traffic


class Form:  # no ABC: every value is asked for the kind of its form, which must take no time
    """How a matrix, a vector or an image is encrypted.

    Attributes:
        name: "blocks", "tensors" or "rows".
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """Equal for equal forms."""

    @property
    @abstractmethod
    def ciphertexts(self) -> int:
        """Ciphertexts, or encrypted rows."""

    @property
    @abstractmethod
    def parts(self) -> int:
        """What is encrypted one by one, each with a seed of its own: ciphertexts, or pieces of rows."""

    @abstractmethod
    def upload(self, limbs: int, n: int, public_key: bool) -> Traffic:
        """What a client sends for it, and does for that."""

    @abstractmethod
    def download(self, limbs: int, components: int, n: int) -> Traffic:
        """What a server sends back of it, and the client does with that."""

    @abstractmethod
    def resident_bytes(self, limbs: int, n: int, public_key: bool) -> tuple[int, int]:
        """Bytes on the server for the whole run: of the arrays as they came, and of what it makes beside them."""

    @abstractmethod
    def arrays(self, limbs: int, components: int, n: int) -> list[tuple[int, ...]]:
        """Shapes of the arrays of a result."""

    def error(self, encrypted: float) -> float:
        """By which an entry of a result may be off, where what is encrypted may be off by so much."""
        return encrypted

    def taken(self, data: Sequence[Any]) -> tuple[NDArray[np.uint64], ...]:
        """The arrays of a result, of the data of its handles."""
        return tuple(data)

    def check(self, got: Sequence[NDArray[Any]], limbs: int, components: int, n: int) -> None:
        """Raise ShapeError unless the arrays of a result have their number and shapes."""
        expected = self.arrays(limbs, components, n)
        if len(got) != len(expected):
            raise ShapeError(
                "The number of ciphertexts of the result is wrong.", expected=len(expected), got=len(got)
            )
        for array, shape in zip(got, expected, strict=True):
            if array.shape != shape:
                raise ShapeError(
                    "A ciphertext of the result has the wrong shape.",
                    expected=str(shape),
                    got=str(array.shape),
                )


@dataclass(frozen=True)
class SlotForm(Form):
    """Blocks of a matrix, or one tensor, in slots.

    Attributes:
        layout: where the entries of a block lie.
        grid: block rows × block columns.
        tensor: where the entries of a vector or an image lie, which is one block; None for a matrix.
        equal: so many of the first block rows, and of the first block columns, hold the same, and one of them is
            encrypted for all; of a tensor, groups of channels, and segments of these. Of operands alone.
    """

    layout: Layout
    grid: tuple[int, int]
    tensor: TensorLayout | None = None
    equal: tuple[int, int] = (1, 1)

    @classmethod
    def of_tensor(cls, tensor: TensorLayout) -> SlotForm:
        """A vector or an image."""
        return cls(tensor.layout, (1, 1), tensor)

    @property
    def name(self) -> str:  # type: ignore[override]
        return "blocks" if self.tensor is None else "tensors"

    def repeating(self, shape: Sequence[int], repeated: Sequence[bool]) -> SlotForm:
        """The form of an operand of this shape, along some axes of which all entries are equal: what is padded is
        another block."""
        blocks: tuple[int, ...] = (self.layout.rows, self.layout.cols)
        if self.tensor is not None:  # a vector, the rows of a matrix, or those of channels of an image
            shape, blocks = self.tensor.shape, (self.tensor.channels, self.tensor.segment)
            repeated = (*repeated[:1], len(repeated) == 3 and repeated[1])
        down, across = (
            max(1, length // block) if one else 1
            for length, block, one in zip(shape, blocks, repeated, strict=False)
        )
        return replace(self, equal=(down, across))

    @property
    def _cut(self) -> tuple[int, int, int]:
        """Numbers of what may be equal, and ciphertexts of each."""
        if self.tensor is None:
            return (*self.grid, self.layout.ciphertexts)
        segments = self.tensor.segments
        return self.layout.ciphertexts // segments, segments, 1

    @property
    def encrypted(self) -> list[tuple[tuple[int, int], list[int]]]:
        """Of every block that is encrypted its place, and the numbers of the ciphertexts of it that are."""
        down, across, each = self._cut
        rows, cols = _firsts(down, self.equal[0]), _firsts(across, self.equal[1])
        if self.tensor is not None:
            return [((0, 0), [i * across + j for i in rows for j in cols])]
        return [((i, j), list(range(each))) for i in rows for j in cols]

    @property
    def numbers(self) -> list[int]:
        """Of every ciphertext, block after block, the number of the one that is encrypted for it."""
        down, across, each = self._cut
        first_rows, first_cols = self.equal
        width = across - first_cols + 1
        places = (
            (max(0, i - first_rows + 1), max(0, j - first_cols + 1))
            for i in range(down)
            for j in range(across)
        )
        return [(i * width + j) * each + one for i, j in places for one in range(each)]

    @property
    def key(self) -> Hashable:
        return self.layout.key, self.grid, self.equal

    @property
    def ciphertexts(self) -> int:
        down, across, each = self._cut
        return (down - self.equal[0] + 1) * (across - self.equal[1] + 1) * each

    @property
    def parts(self) -> int:
        return self.ciphertexts

    def upload(self, limbs: int, n: int, public_key: bool) -> Traffic:
        count = self.ciphertexts
        seeds = 0 if public_key else count
        sent = 2 * count - seeds  # polynomials
        return Traffic(
            upload_bytes=sent * limbs * n * WORD_BYTES + seeds * SEED_BYTES,
            messages=count,
            noise_words=sent * n,
            secret_words=count * n * public_key,
            client_streams=sent + seeds * limbs + count * public_key,
            seeded_streams=seeds * limbs,
            encrypted_words=sent * limbs * n,
            transforms=sent * limbs,
            seeded_words=seeds * limbs * n,
            copied_words=seeds * limbs * n,
        )

    def download(self, limbs: int, components: int, n: int) -> Traffic:
        count = self.ciphertexts
        words = count * components * limbs * n
        return Traffic(
            result_bytes=words * WORD_BYTES,
            answers=count,
            answer_transforms=count * limbs,
            answer_words=words,
        )

    def resident_bytes(self, limbs: int, n: int, public_key: bool) -> tuple[int, int]:
        whole = 2 * self.ciphertexts * limbs * n * WORD_BYTES
        return self.upload(limbs, n, public_key).upload_bytes, 0 if public_key else whole

    def arrays(self, limbs: int, components: int, n: int) -> list[tuple[int, ...]]:
        return [(components, limbs, n)] * self.ciphertexts

    def joined(self, vectors: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> NDArray[np.float64]:
        """The matrix, vector or image that the slots of the ciphertexts hold."""
        size, (rows, cols) = self.layout.ciphertexts, self.grid
        blocks = [
            [self.layout.unpack(vectors[(i * cols + j) * size :][:size]) for j in range(cols)]
            for i in range(rows)
        ]
        return blocks[0][0].reshape(shape) if self.tensor is not None else join(blocks, *shape)


def _firsts(count: int, equal: int) -> list[int]:
    """Of so many, of which the first are equal, one of these and all others."""
    return [0, *range(equal, count)]


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
        shared: one encryption whose rows share their a parts, for fixed weights.
        placing: of the entries in the only piece, of N columns, where the others are zeros.
        rows_by_bytes, columns_by_bytes: what is encrypted are the digits of an operand's columns instead, or products
            with bytes or digits of factors (`forms.byte_rows`).
    """

    name: ClassVar[str] = "rows"
    shape: tuple[int, int]
    by_columns: bool
    pieces: tuple[tuple[int, int], ...]
    shared: bool = False
    placing: Placing | None = None
    rows_by_bytes: bool = False
    columns_by_bytes: bool = False

    @property
    def key(self) -> Hashable:
        cut = self.rows_by_bytes, self.columns_by_bytes
        return self.shape, self.by_columns, self.pieces, self.shared, self.placing, cut

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

    def upload(self, limbs: int, n: int, public_key: bool) -> Traffic:
        rows, cols = self.shape[0], sum(self.widths)
        pieces = len(self.pieces)
        uniform = limbs * pieces * (1 if self.shared else rows)  # rows of a parts
        segments = rows * sum(-(-width // n) for width in self.widths)
        seeds = 0 if public_key else pieces
        sent = limbs * rows * (cols + (pieces - seeds) * n)
        return Traffic(
            upload_bytes=sent * WORD_BYTES + seeds * SEED_BYTES,
            noise_words=rows * (cols + n * pieces * public_key),
            secret_words=rows * n * (self.shared + pieces * public_key),
            client_streams=rows * pieces * (1 + 2 * public_key)
            + rows * self.shared
            + uniform * (not public_key),
            seeded_streams=0 if public_key else uniform,
            encrypted_words=limbs * rows * cols + public_key * uniform * n,
            # The a part forward (or the ephemeral secret), its product with every secret back.
            transforms=uniform + limbs * segments * (1 + public_key) + limbs * rows * self.shared,
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

    def resident_bytes(self, limbs: int, n: int, public_key: bool) -> tuple[int, int]:
        """Seeds are expanded when the arrays come, and stay so."""
        rows, cols = self.shape[0], sum(self.widths)
        uniform = -(-cols // n) if self.shared else rows * len(self.pieces)
        return 0, limbs * (rows * cols + uniform * n) * WORD_BYTES

    def taken(self, data: Sequence[Any]) -> tuple[NDArray[np.uint64], ...]:
        """The a part and the b part of each piece."""
        return tuple(np.ascontiguousarray(part) for piece in data for part in piece)

    def arrays(self, limbs: int, components: int, n: int) -> list[tuple[int, ...]]:
        rows = self.shape[0]
        return [shape for width in self.widths for shape in ((limbs, rows, n), (limbs, rows, width))]

    def error(self, encrypted: float) -> float:
        """Of products with bytes as much as theirs while that is below one half, so that rounding takes it away."""
        for cut in (self.rows_by_bytes, self.columns_by_bytes):
            encrypted = byte_rows.error(encrypted) if cut else encrypted
        return encrypted

    def laid(self, matrix: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """What is encrypted of an operand in a ring of degree n."""
        if self.columns_by_bytes:
            return np.asarray(byte_rows.in_digits(matrix.T).T)
        return matrix if self.placing is None else self.placing.placed(matrix, n)

    def joined(self, pieces: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """The matrix whose pieces were decrypted."""
        found = np.concatenate(pieces, axis=1)[:, : self.shape[1]]
        if self.rows_by_bytes:
            found = byte_rows.joined(found)
        if self.columns_by_bytes:
            found = byte_rows.joined(found.T).T
        return np.ascontiguousarray(found.T if self.by_columns else found)
