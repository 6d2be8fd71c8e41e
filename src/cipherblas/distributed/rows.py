"""`RowsRanks`: runs an algorithm on matrices that are encrypted by rows on several ranks, each of which has a part.

All ranks run the same code on the same handles; what differs is the data of a handle, a `Share`:

    whole     every rank has all rows and columns: operands that are needed so;
    columns   a rank has some columns of a and of b: products with clear matrices need no others;
    rows      a rank has some rows: products of secrets, and key switches.

A product of secrets takes columns of its left factor and the whole right one, and gives rows; of an operand that is
needed by columns alone, a rank has no others. A transposition takes
rows and gives rows; ranks exchange rows before and after the key switches. Anything else is brought into the form
that is needed. Arithmetic modulo q is exact, so that all residues are those of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.memory import aligned_empty
from cipherblas.crypto.keys.key_id import RELINEARISATION
from cipherblas.crypto.params import Parameters
from cipherblas.distributed.communicator import Communicator, Words
from cipherblas.distributed.matrices import COLUMNS, REPLICATED, ROWS, TRANSPOSED, OperandShare, Share
from cipherblas.distributed.shares import Indices, Shares
from cipherblas.distributed.stages import Stopwatch
from cipherblas.engines.handles import Key, Matrix
from cipherblas.engines.protocol import Engine
from cipherblas.evaluators.rows.bookkeeping import TRANSPOSE_POLICIES
from cipherblas.evaluators.rows.native import KeySource, RowsNative
from cipherblas.evaluators.rows.values import MultiSecretRows, Rows, TransposedHalf
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.matrices.matrix import stride_of
from cipherblas.rlwe.matrices.transposition import transpose_plan

Pieces: TypeAlias = Callable[[int], list[Words]]
End: TypeAlias = Callable[[], None]  # of an exchange, until which neither side of it may be touched


class _Half(NamedTuple):
    """One part of an encryption, to be transposed: data of a `TransposedHalf`."""

    of: Share
    is_b: bool


class RowsRanks(RowsNative):
    """`RowsNative` on the ranks of a communicator. Data: `Share`.

    Args:
        params: the parameters of ciphertexts and keys.
        keys: those that this rank uses; it looks at no other.
        communicator: its end of the messages.
        engine: who computes; by default this processor.
    """

    def __init__(
        self,
        params: Parameters,
        keys: KeySource | None,
        communicator: Communicator,
        *,
        engine: Engine | None = None,
        key_policy: KeyPolicy = "direct",
    ) -> None:
        super().__init__(params, keys, engine=engine, key_policy=key_policy)
        self.communicator = communicator
        self.rank = communicator.rank
        self.shares = Shares(self.n, communicator.size)
        self.watch = Stopwatch(communicator)

    @property
    def copying_seconds(self) -> float:
        return self.watch.copies

    def downloaded(self, data: Any) -> tuple[Any, ...]:
        if not isinstance(data, Share):
            return super().downloaded(data) if self.rank == 0 else ()
        found = self.gathered(data)
        return () if found is None else super().downloaded((found.a, found.b))

    # ---- words of the host ----

    def _words(self, x: Matrix) -> Words:
        words: Words = self.engine.download_matrix(x)
        return words

    def _matrix(self, words: Words) -> Matrix:
        return self.engine.upload_matrix(words)

    def _empty(self, shape: tuple[int, ...], zero: bool = False) -> Words:
        words: Words = aligned_empty(shape)
        if zero:
            words.fill(0)
        return words

    def _picked(self, x: Matrix, rows: Indices | None = None, columns: Indices | None = None) -> Matrix:
        """Some rows, or some columns: a copy."""
        words = self._words(x)
        indices, axis = (rows, 1) if rows is not None else (columns, 2)
        assert indices is not None
        with self.watch.copying():
            out = self._empty((*words.shape[:axis], len(indices), *words.shape[axis + 1 :]))
            np.take(words, indices, axis=axis, out=out, mode="clip")
        return self._matrix(out)

    # ---- from one kind to another ----

    def own_rows(self, count: int) -> Indices:
        """The rows of this rank."""
        return self.shares.rows(count, self.rank)

    def gathered_share(self, x: Share) -> Share:
        """The same on every rank, whole."""
        if x.kind == REPLICATED:
            return x
        if x.made is None:
            words = [self._words(x.a), self._words(x.b)]
            x.made = self._joined(x, self.communicator.all_gather(x.kind, words))
        return x.made

    def gathered(self, x: Share) -> Share | None:
        """The whole on rank 0; None on the others."""
        if x.kind == REPLICATED or x.made is not None:
            return self.gathered_share(x) if self.rank == 0 else None
        found = self.communicator.gather(x.kind, [self._words(x.a), self._words(x.b)])
        return None if found is None else self._joined(x, found)

    def _joined(self, x: Share, found: Sequence[Sequence[Words]]) -> Share:
        limbs, rows, columns = len(found[0][0]), *x.shape
        with self.watch.copying():
            parts = [self._empty((limbs, rows, width)) for width in (self.n, columns)]
            for rank, pieces in enumerate(found):
                own = self.shares.rows(rows, rank)
                for part, piece, width in zip(parts, pieces, (self.n, columns), strict=True):
                    if x.kind == ROWS:
                        part[:, own] = piece
                    else:
                        part[:, :, self.shares.columns(width, rank)] = piece
        return Share(self._matrix(parts[0]), self._matrix(parts[1]), REPLICATED, x.shape)

    def as_rows(self, x: Share) -> Share:
        """The rows of this rank."""
        if x.kind == ROWS:
            return x
        x = self.gathered_share(x)
        own = self.own_rows(x.shape[0])
        return Share(self._picked(x.a, rows=own), self._picked(x.b, rows=own), ROWS, x.shape)

    def as_columns(self, x: Share) -> Share:
        """The columns of this rank."""
        if x.kind == COLUMNS:
            return x
        x = self.gathered_share(x)
        return Share(self._own_columns(x, False), self._own_columns(x, True), COLUMNS, x.shape)

    def _own_columns(self, x: Share, is_b: bool) -> Matrix:
        """Of a whole part."""
        found = x.columns(is_b, COLUMNS) if isinstance(x, OperandShare) else None
        if found is None:
            part, width = (x.b, x.shape[1]) if is_b else (x.a, self.n)
            own = self.engine.cut(part, columns=self.shares.columns(width, self.rank))
            found = self.engine.copied(own)
        return found

    def _in_one_distribution(self, x: Share, y: Share) -> tuple[Share, Share]:
        """Both of one kind."""
        if x.kind == y.kind:
            return x, y
        if ROWS in (x.kind, y.kind):
            return self.as_rows(x), self.as_rows(y)
        return self.as_columns(x), self.as_columns(y)

    # ---- operands ----

    def _fresh_data(self, data: OperandShare) -> OperandShare:
        data.upload = self.engine.upload_matrix
        return data

    # ---- products ----

    def _clear_product_data(self, factor: ClearFactor, x: Rows, exact: bool) -> Share:
        mine = self.as_columns(x.data)
        integers, exact = self._integers(factor), self._exactly(factor, x.limbs, exact)
        a, b = (
            self.engine.multiply_integers(integers, part, exact) if self._words(part).size else part
            for part in (mine.a, mine.b)
        )
        return Share(
            self._sized(a, factor.shape[0]),
            self._sized(b, factor.shape[0]),
            COLUMNS,
            (factor.shape[0], x.shape[1]),
        )

    def _reduced_product_data(self, factor: ClearFactor, x: Rows) -> Share:
        mine, limbs = self.as_columns(x.data), len(self.params.q)
        weights = self.engine.operand_integers(self._integers(factor))
        a, b = (
            self.engine.multiply_operands(weights, part)
            if self._words(part).size
            else self._matrix(self._empty((limbs, factor.shape[0], self._words(part).shape[2])))
            for part in (mine.a, mine.b)
        )
        return Share(a, b, COLUMNS, (factor.shape[0], x.shape[1]))

    def _sized(self, x: Matrix, rows: int) -> Matrix:
        """A matrix without entries has so many rows too."""
        words = self._words(x)
        return x if words.size else self._matrix(self._empty((len(words), rows, words.shape[2])))

    def _fixed_product_data(
        self, factor: ClearFactor, number: int, x: MultiSecretRows, exact: bool
    ) -> Sequence[Share]:
        """Every rank computes all of it."""
        whole = self.gathered_share(x.data)
        alone = MultiSecretRows(
            x.shape,
            x.basis,
            x.scale,
            x.bound,
            x.noise,
            x.bias,
            (whole.a, whole.b),
            x._ledger,
            0,
            x.policy,
            True,
        )
        pieces = super()._fixed_product_data(factor, number, alone, exact)
        return [Share(a, b, REPLICATED, self._words(b).shape[1:]) for a, b in pieces]

    def _parts_data(self, x: Rows) -> tuple[_Half, _Half]:
        return _Half(x.data, False), _Half(x.data, True)

    def _part_product_data(self, part: TransposedHalf, x: Rows) -> Share:
        return self._rows_product(part, x, self.engine.multiply_matrices, x.limbs)

    def _switched_product_data(self, part: TransposedHalf, x: Rows) -> Share:
        return self._rows_product(part, x, self.engine.multiply_operands, len(self.params.q))

    def _switched_gram_data(self, x: Rows) -> tuple[Share, Share]:
        a, b = self.parts(x)
        return self._switched_product_data(a, x), self._switched_product_data(b, x)

    def _rows_product(
        self, part: TransposedHalf, x: Rows, multiply: Callable[[Matrix, Matrix], Matrix], limbs: int
    ) -> Share:
        """The rows of this rank, which are columns of the left factor, times all of the right one."""
        half: _Half = part.data
        left, right = self.gathered_share(half.of), self.gathered_share(x.data)
        factors = right.a, right.b  # first: of x.T @ x the left one has its columns then
        transposed = self._transposed_columns(left, half.is_b, part.shape[0])
        shape = (part.shape[0], x.shape[1])
        if transposed is None:
            return self._no_rows(shape, limbs)
        a, b = (multiply(transposed, one) for one in factors)
        return Share(a, b, ROWS, shape)

    def _transposed_columns(self, x: Share, is_b: bool, count: int) -> Matrix | None:
        """The columns of a whole part that are this rank's rows of the transpose, as such; None where it has none."""
        own = self.own_rows(count)
        if not len(own):
            return None
        found = x.columns(is_b, TRANSPOSED) if isinstance(x, OperandShare) else None
        if found is None:
            part = x.b if is_b else x.a
            found = part if len(own) == count else self._picked(part, columns=own)
        return self.engine.transposed(found)

    def _no_rows(self, shape: tuple[int, int], limbs: int) -> Share:
        a, b = (self._matrix(self._empty((limbs, 0, width))) for width in (self.n, shape[1]))
        return Share(a, b, ROWS, shape)

    def _gram_data(self, x: Rows) -> tuple[Share, Share]:
        a, b = self.parts(x)
        return self._part_product_data(a, x), self._part_product_data(b, x)

    # ---- key switching ----

    def _transpose_data(self, x: Rows) -> Share:
        """Two exchanges of rows: of classes for blocks, and back. Part after part, in as few arrays as can be: rows
        of one part go while the other is transformed."""
        mine = self.as_rows(x.data)
        return self._transposed([mine.a, mine.b], x, owned=mine is not x.data)

    def _transpose_spent_data(self, x: Rows) -> Share:
        mine = self.as_rows(x.data)
        x.data = None
        parts = [mine.a, mine.b]
        del mine
        return self._transposed(parts, x, owned=True)

    def _transposed(self, parts: list[Matrix], x: Rows, *, owned: bool) -> Share:
        """Of an a and a b part, which are taken out of the list: memory that is owned is reused."""
        first, _ = self.shares.classes(self.rank)
        blocks: list[Matrix] = []
        end = _nothing
        for across in (1, stride_of(x.shape[1], self.n)):
            part = parts.pop(0)
            spread = self._spread(part, x.shape[0], across)
            in_place = owned or spread is not part
            del part
            classes = self._classes(spread, first, inverse=False, in_place=in_place)
            del spread
            end()  # the exchange of the part before
            found, end = self._to_blocks(classes, x.limbs)
            blocks.append(found)
            del classes, found
        end()
        blocks = list(self._switched(blocks, x.limbs))
        a, end = self._to_classes(blocks.pop(0), x.limbs)
        end()
        b, end = self._to_classes(blocks.pop(0), x.limbs)
        a = self._classes(a, first, inverse=True, in_place=True)
        end()
        return Share(a, self._classes(b, first, inverse=True, in_place=True), ROWS, (self.n, self.n))

    def _spread(self, x: Matrix, count: int, across: int) -> Matrix:
        """This rank's of `count` rows at their places among those of its classes, entries at their coefficients; the
        matrix itself where they are there."""
        words, shares = self._words(x), self.shares
        if count == words.shape[2] == self.n:
            return x
        first, last = shares.classes(self.rank)
        places = shares.places(self.own_rows(count), count, self.rank)
        return self._matrix(self._at_places(words, places, shares.parts * (last - first), across))

    def _at_places(self, words: Words, places: Indices, height: int, across: int) -> Words:
        with self.watch.copying():
            out = self._empty((len(words), height, self.n), zero=True)
            out[:, places, : words.shape[2] * across : across] = words
        return out

    def _classes(self, x: Matrix, first: int, *, inverse: bool, in_place: bool) -> Matrix:
        """The first or the last layers of the transform, of this rank's classes."""
        if not self._words(x).size:
            return x
        return self.engine.transpose_classes(x, self.shares.parts, first, inverse, in_place=in_place)

    def _to_blocks(self, part: Matrix, limbs: int) -> tuple[Matrix, End]:
        """Every rank gets the rows of its blocks, when the exchange has ended."""
        shares, n = self.shares, self.n
        first, last = shares.classes(self.rank)
        blocks = shares.blocks(self.rank)
        held = self._words(part).reshape(limbs, shares.parts, last - first, n)
        out = self._empty((limbs, len(blocks), shares.height, n))

        def pieces(rank: int) -> list[Words]:
            return [held[limb, block] for limb in range(limbs) for block in shares.blocks(rank)]

        def places(rank: int) -> list[Words]:
            classes = slice(*shares.classes(rank))
            return [out[limb, block, classes] for limb in range(limbs) for block in range(len(blocks))]

        end = self._trade("classes", pieces, places)
        return self._matrix(out.reshape(limbs, len(blocks) * shares.height, n)), end

    def _to_classes(self, part: Matrix, limbs: int) -> tuple[Matrix, End]:
        """Every rank gets the rows of its classes back, when the exchange has ended."""
        shares, n = self.shares, self.n
        first, last = shares.classes(self.rank)
        blocks = shares.blocks(self.rank)
        held = self._words(part).reshape(limbs, len(blocks), shares.height, n)
        out = self._empty((limbs, shares.parts, last - first, n))

        def pieces(rank: int) -> list[Words]:
            classes = slice(*shares.classes(rank))
            return [held[limb, block, classes] for limb in range(limbs) for block in range(len(blocks))]

        def places(rank: int) -> list[Words]:
            return [out[limb, block] for limb in range(limbs) for block in shares.blocks(rank)]

        end = self._trade("blocks", pieces, places)
        return self._matrix(out.reshape(limbs, shares.parts * (last - first), n)), end

    def _trade(self, kind: str, pieces: Pieces, places: Pieces) -> End:
        """Of each rank the pieces that go to it, and the places of those that come from it: contiguous words."""
        outgoing, into = (
            {rank: some for rank in range(self.communicator.size) if (some := _filled(of(rank)))}
            for of in (pieces, places)
        )
        for piece, place in zip(outgoing.pop(self.rank, ()), into.pop(self.rank, ()), strict=True):
            self._fill(place, piece)
        return self.communicator.begin_exchange(kind, outgoing, into)

    def _fill(self, place: Words, words: Words) -> None:
        with self.watch.copying():
            place[...] = words

    def _switched(self, blocks: Sequence[Matrix], limbs: int) -> Sequence[Matrix]:
        """The rest of the transforms, and between them the automorphisms of this rank's blocks."""
        own = self.shares.blocks(self.rank)
        if not own:
            return blocks
        policy = TRANSPOSE_POLICIES[self.key_policy]
        names = transpose_plan(self.n, policy).keys
        steps = _core.transpose_steps(self.n, policy, self.shares.parts, list(own))
        wanted = {key for row in steps for key in row}
        keys: list[Key | None] = [
            self._key(name, limbs) if number in wanted else None for number, name in enumerate(names)
        ]
        a, b = blocks
        return self.engine.transpose_blocks(a, b, self.shares.parts, list(own), keys, policy, in_place=True)

    def _relinearise_data(self, x: Rows) -> Share:
        mine = self.as_rows(x.data)
        if not self._words(mine.a).size:
            return mine
        key = self._key(RELINEARISATION, x.limbs)
        return mine.with_parts(*self.engine.relinearise_rows(mine.a, mine.b, key))

    # ---- the rest ----

    def _take_data(self, x: Rows, rows: int, cols: int) -> Share:
        mine = self.as_rows(x.data)
        a, b, shape = mine.a, mine.b, x.shape
        if x.shape[0] == self.n:
            own = self.own_rows(rows)
            places = self.shares.places(own, rows, self.rank)
            a, b = self._picked(a, rows=places), self._picked(b, rows=places)
            shape = (rows, shape[1])
        if x.shape[1] == self.n:
            stride = stride_of(cols, self.n)
            b = self.engine.copied(self.engine.cut(b, columns=slice(0, cols * stride, stride)))
            shape = (shape[0], cols)
        return Share(a, b, ROWS, shape)

    def _rows_data(self, x: Rows, start: int, stop: int) -> Share:
        held: Share = x.data
        shape = (stop - start, x.shape[1])
        if held.kind == COLUMNS:
            a, b = (self.engine.cut(part, rows=slice(start, stop)) for part in (held.a, held.b))
            return Share(a, b, COLUMNS, shape)
        if held.kind == ROWS and start % self.n == 0 and stop in (x.shape[0], start + self.n):
            own = self.own_rows(x.shape[0])
            first, last = (int(index) for index in np.searchsorted(own, (start, stop)))
            a, b = (self.engine.cut(part, rows=slice(first, last)) for part in (held.a, held.b))
            return Share(a, b, ROWS, shape)
        held = self.gathered_share(held)
        a, b = (self.engine.cut(part, rows=slice(start, stop)) for part in (held.a, held.b))
        return Share(a, b, REPLICATED, shape)

    def _stack_data(self, xs: Sequence[Rows]) -> Share:
        shares: list[Share] = [x.data for x in xs]
        kinds = {share.kind for share in shares}
        shape = (sum(x.shape[0] for x in xs), xs[0].shape[1])
        if kinds == {COLUMNS} or (kinds == {ROWS} and all(x.shape[0] == self.n for x in xs[:-1])):
            kind = kinds.pop()
        else:
            kind, shares = REPLICATED, [self.gathered_share(share) for share in shares]
        a, b = (self.engine.stack([getattr(share, part) for share in shares]) for part in ("a", "b"))
        return Share(a, b, kind, shape)

    def _combined(self, combine: Callable[[Matrix, Matrix], Matrix], x: Rows, y: Rows) -> Share:
        left, right = self._in_one_distribution(x.data, y.data)
        a, b = (
            combine(one, other) if self._words(one).size else one
            for one, other in ((left.a, right.a), (left.b, right.b))
        )
        return left.with_parts(a, b)

    def _rescale_data(self, x: Rows) -> Share:
        held: Share = x.data
        a, b = (
            self.engine.rescale_matrix(part)
            if self._words(part).size
            else self.engine.drop_limbs(part, x.limbs - 1)
            for part in (held.a, held.b)
        )
        return held.with_parts(a, b)

    def _drop_data(self, x: Rows, limbs: int) -> Share:
        held: Share = x.data
        a, b = (self.engine.drop_limbs(part, limbs) for part in (held.a, held.b))
        return held.with_parts(a, b)

    def _elements_data(self, x: Rows, start: int, stop: int) -> list[Any]:
        whole = self.gathered_share(x.data)
        a, b = (self.engine.cut(part, rows=slice(start, stop)) for part in (whole.a, whole.b))
        return self.engine.rows_as_ciphertexts(a, b)

    def _of_elements_data(
        self, datas: Sequence[Any], shape: tuple[int, int], held: int, scale: float
    ) -> Share:
        a, b = super()._of_elements_data(datas, shape, held, scale)
        return Share(a, b, REPLICATED, shape)

    def _add_clear_data(self, x: Rows, values: Callable[[], NDArray[np.float64]]) -> Share:
        held: Share = x.data
        message = values()
        if held.kind == ROWS:
            message = message[self.own_rows(x.shape[0])]
        elif held.kind == COLUMNS:
            message = message[:, self.shares.columns(x.shape[1], self.rank)]
        if not message.size:
            return held
        return held.with_parts(held.a, self._plus_message(held.b, message, x))


def _nothing() -> None:
    """Where no exchange has begun."""


def _filled(arrays: list[Words]) -> list[Words]:
    """The arrays that have words."""
    return [array for array in arrays if array.size]
