"""Values in slots: blocks of a matrix, or one tensor."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.keys import FreshCiphertext
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.randomness import SEED_BYTES
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.forms.blocks import block_of, join
from cipherblas.forms.form import Form, Matrix, Opener, Receiver, Sealer, Words
from cipherblas.forms.layouts import EMPTY, CoefficientLayout, Layout
from cipherblas.forms.tensors import TensorLayout
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.rings import Ring
from cipherblas.rlwe.traffic import Traffic


@dataclass(frozen=True)
class SlotForm(Form):
    """Blocks of a matrix in slots.

    Attributes:
        layout: where the entries of a block lie.
        grid: block rows × block columns.
        equal: so many of the first block rows, and of the first block columns, hold the same, and one of them is
            encrypted for all; of a tensor, groups of channels, and segments of these. Of operands alone.
    """

    name: ClassVar[str] = "blocks"
    kind: ClassVar[str] = "blocks"
    in_files: ClassVar[bool] = True
    layout: Layout
    grid: tuple[int, int]
    equal: tuple[int, int] = (1, 1)

    def repeating(self, shape: Sequence[int], repeated: Sequence[bool]) -> SlotForm:
        """The form of an operand of this shape, along some axes of which all entries are equal: what is padded is
        another block."""
        return self._repeating(shape, (self.layout.rows, self.layout.cols), repeated)

    def _repeating(self, shape: Sequence[int], blocks: tuple[int, int], repeated: Sequence[bool]) -> SlotForm:
        down, across = (
            max(1, length // block) if one else 1
            for length, block, one in zip(shape, blocks, repeated, strict=False)
        )
        return self if (down, across) == self.equal else replace(self, equal=(down, across))

    @property
    def _cut(self) -> tuple[int, int, int]:
        """Numbers of what may be equal, and ciphertexts of each."""
        return (*self.grid, self.layout.ciphertexts)

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
    def lies(self) -> str:
        block = f"{self.layout.rows}x{self.layout.cols}"
        return block if self.grid == (1, 1) else "{}x{} blocks of ".format(*self.grid) + block

    @property
    def key(self) -> Hashable:
        return self.layout.key, self.grid, self.equal

    @property
    def ciphertexts(self) -> int:
        down, across, each = self._cut
        return (down - self.equal[0] + 1) * (across - self.equal[1] + 1) * each

    def degree(self, ring: Ring) -> int:
        return ring.n

    def upload(self, words: int, n: int, public_key: bool) -> Traffic:
        count = self.ciphertexts
        seeds = 0 if public_key else count
        sent = 2 * count - seeds  # polynomials
        return Traffic(
            upload_bytes=sent * words * n * WORD_BYTES + seeds * SEED_BYTES,
            messages=count,
            noise_words=sent * n,
            secret_words=count * n * public_key,
            client_streams=sent + seeds * words + count * public_key,
            seeded_streams=seeds * words,
            encrypted_words=sent * words * n,
            transforms=sent * words,
            seeded_words=seeds * words * n,
            copied_words=seeds * words * n,
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

    def resident_bytes(self, words: int, n: int, public_key: bool) -> tuple[int, int]:
        whole = 2 * self.ciphertexts * words * n * WORD_BYTES
        came = whole if public_key else whole // 2 + self.ciphertexts * SEED_BYTES
        return came, 0 if public_key else whole

    def arrays(self, limbs: int, components: int, n: int) -> list[tuple[int, ...]]:
        return [(components, limbs, n)] * self.ciphertexts

    def opened_words(self, n: int) -> int:
        """Complex slots of all ciphertexts."""
        return self.ciphertexts * n

    def sealed(self, by: Sealer, matrix: Matrix, scale: float, basis: Basis) -> tuple[Any, ...]:
        layout, each, places = self.layout, self.layout.ciphertexts, dict[int, tuple[int, int]]()
        for place, number in enumerate(self.numbers):
            places.setdefault(number, divmod(place, each))

        def packed(block: int, number: int) -> NDArray[Any]:
            cell = block_of(matrix, layout.rows, layout.cols, *divmod(block, self.grid[1]))
            return layout.pack_one(cell, number)

        return by.vectors([partial(packed, *place) for place in places.values()], scale, basis.limbs)

    def sent(self, basis: Basis, params: Parameters) -> list[tuple[type, tuple[int, ...]]]:
        return [(FreshCiphertext, (basis.limbs, params.n))] * self.ciphertexts

    def received(self, by: Receiver, feed: Sequence[Any], key: Hashable) -> list[Any]:
        return by.ciphertexts(self, feed, key)

    def fresh(
        self, evaluators: Evaluators, data: Any, public_key: bool, bound: float, basis: Basis, scale: float
    ) -> list[list[Any]]:
        ev, count, (rows, cols) = evaluators.slots, self.layout.ciphertexts, self.grid
        options: Any = {"public_key": public_key, "bound": bound, "limbs": basis.limbs, "scale": scale}
        if data is None:
            cts = ev.fresh_block([None] * count, **options)
            return [[cts] * cols] * rows
        own = ev.fresh_block(list(itertools.islice(data, self.ciphertexts)), **options)
        cts = [own[number] for number in self.numbers]
        blocks = [cts[start : start + count] for start in range(0, len(cts), count)]
        return [blocks[start : start + cols] for start in range(0, rows * cols, cols)]

    def evaluator(self, evaluators: Evaluators) -> Evaluator:
        return evaluators.slots

    def opened(self, by: Opener, arrays: Sequence[Words], scale: float, shape: tuple[int, ...]) -> Matrix:
        return self.joined([by.vector(one, scale, self.layout.halves) for one in arrays], shape)

    def joined(self, vectors: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> Matrix:
        """The matrix, vector or image that the slots of the ciphertexts hold."""
        size, (rows, cols) = self.layout.ciphertexts, self.grid
        blocks = [
            [self.layout.unpack(vectors[(i * cols + j) * size :][:size]) for j in range(cols)]
            for i in range(rows)
        ]
        return self._joined(blocks, shape)

    def _joined(self, blocks: Sequence[Sequence[Matrix]], shape: tuple[int, ...]) -> Matrix:
        return join(blocks, *shape)

    def to_json(self, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        layout = self.layout
        indices = [layout.index(number) for number in range(layout.ciphertexts)]
        name = f"layout{sum(key.endswith('.real') for key in arrays)}"
        arrays[f"{name}.real"] = np.stack([index.real for index in indices])
        if any(index.imag is not None for index in indices):
            imag = [index.real * 0 + EMPTY if index.imag is None else index.imag for index in indices]
            arrays[f"{name}.imag"] = np.stack(imag)
        return {
            **({"halves": True} if layout.halves else {}),
            "equal": list(self.equal),
            "grid": list(self.grid),
            "layout": name,
            "block": [layout.rows, layout.cols],
            "signs": [0 if index.imag is None else index.sign for index in indices],
        }

    def holds(self, shape: tuple[int, ...]) -> bool:
        return len(shape) == 2 and self.holds_operand(*shape)

    def holds_operand(self, rows: int, cols: int) -> bool:
        blocks = zip(self.grid, (self.layout.rows, self.layout.cols), (rows, cols), strict=True)
        return all((count - 1) * each < length <= count * each for count, each, length in blocks)


@dataclass(frozen=True)
class PackedForm(SlotForm):
    """A matrix whose entries are coefficients, many in a ciphertext: a server makes of each a ciphertext that has it in
    all slots; or whose blocks are, of each of which it makes one whose slots repeat it. Of operands alone."""

    kind: ClassVar[str] = "packed"
    layout: CoefficientLayout

    @classmethod
    def of(cls, layout: CoefficientLayout) -> PackedForm:
        """The form of what lies so."""
        return cls(layout, (1, 1))

    @property
    def lies(self) -> str:
        block = "" if self.layout.block == (1, 1) else " blocks of {}x{}".format(*self.layout.block)
        return f"{self.layout.rows}x{self.layout.cols}, {self.layout.each}{block} in a ciphertext"

    def repeating(self, shape: Sequence[int], repeated: Sequence[bool]) -> SlotForm:
        """The same: equal entries are entries."""
        return self

    def sealed(self, by: Sealer, matrix: Matrix, scale: float, basis: Basis) -> tuple[Any, ...]:
        layout = self.layout
        made = [partial(layout.coefficients, matrix, number) for number in range(layout.ciphertexts)]
        return by.coefficients(made, scale, basis.limbs)

    def to_json(self, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        layout = self.layout
        grouped: dict[str, Any] = {}
        if layout.by_columns or layout.block != (1, 1) or layout.lines != layout.grid[0]:
            grouped = {"repeated": list(layout.block), "lines": layout.lines, "by_columns": layout.by_columns}
        return {"block": [layout.rows, layout.cols], "each": layout.each, **grouped}


@dataclass(frozen=True)
class TensorForm(SlotForm):
    """A vector or an image, which is one block.

    Attributes:
        tensor: where its entries lie.
    """

    name: ClassVar[str] = "tensors"
    kind: ClassVar[str] = "tensors"
    tensor: TensorLayout = field(kw_only=True)

    @classmethod
    def of(cls, tensor: TensorLayout) -> TensorForm:
        """The form of what lies so."""
        return cls(tensor.layout, (1, 1), tensor=tensor)

    def repeating(self, shape: Sequence[int], repeated: Sequence[bool]) -> SlotForm:
        """Of a vector, of the rows of a matrix, or of those of the channels of an image."""
        blocks = self.tensor.channels, self.tensor.segment
        return self._repeating(self.tensor.shape, blocks, (*repeated[:1], len(repeated) == 3 and repeated[1]))

    @property
    def _cut(self) -> tuple[int, int, int]:
        segments = self.tensor.segments
        return self.layout.ciphertexts // segments, segments, 1

    @property
    def lies(self) -> str:
        return "tensor " + "x".join(map(str, self.tensor.shape))

    def _joined(self, blocks: Sequence[Sequence[Matrix]], shape: tuple[int, ...]) -> Matrix:
        return blocks[0][0].reshape(shape)

    def to_json(self, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
        return {"equal": list(self.equal), "tensor": asdict(self.tensor)}

    def holds(self, shape: tuple[int, ...]) -> bool:
        return math.prod(self.tensor.shape) == math.prod(shape)
