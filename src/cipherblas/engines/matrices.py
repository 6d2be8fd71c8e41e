"""Calls on matrices of residues, and on ciphertexts by rows: what each makes, costs and holds while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.engines.handles import Ciphertext, Key, Matrix, Words, largest
from cipherblas.engines.operations import Shape, like, operation
from cipherblas.rlwe.basis import OPERAND_BASIS
from cipherblas.rlwe.costs import Costs
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import Ring
from cipherblas.rlwe.working_memory import clear_gemm_bytes, gemm_bytes

ALL = slice(None)


def by_rows(x: Any) -> tuple[int, int, int]:
    """Rows, columns and limbs."""
    limbs, rows, columns = x.shape
    return rows, columns, limbs


def _multiply_integers(costs: Costs, counts: Counts, integers: Any, x: Any, exact: bool) -> None:
    (m, k), (limbs, _, width) = integers.shape, x.shape
    costs.multiply_integers(counts, m, k, width, limbs, largest(integers), exact)


def _clear_product_bytes(_: Costs, integers: Any, x: Any, exact: bool) -> int:
    m, k = integers.shape
    return clear_gemm_bytes(m, k, x.shape[2])


def _product_bytes(_: Costs, x: Any, y: Any) -> int:
    return gemm_bytes(x.shape[1], x.shape[2], y.shape[2])


def _cut(_: Ring, x: Any, rows: slice, columns: slice) -> Shape:
    limbs, *lengths = x.shape
    down, across = (
        len(range(*some.indices(length))) for some, length in zip((rows, columns), lengths, strict=True)
    )
    return limbs, down, across


def _stack(_: Ring, xs: Any) -> Shape:
    return xs[0].shape[0], sum(x.shape[1] for x in xs), xs[0].shape[2]


def _rows_of_ciphertexts(costs: Costs, counts: Counts, cts: Any, rows: int, columns: int, held: int) -> None:
    costs.rows_of_ciphertexts(counts, len(cts), cts[0].shape[1], rows, columns)


def _transpose_rows(costs: Costs, counts: Counts, a: Any, b: Any, keys: Any, policy: str) -> None:
    limbs, rows, _ = a.shape
    costs.transpose_rows(counts, rows, limbs, _core.transpose_plan(rows, policy)[1], len(keys))


def _transpose_classes(
    costs: Costs, counts: Counts, x: Any, parts: int, first: int, inverse: bool, in_place: bool
) -> None:
    costs.transpose_layers(counts, parts.bit_length() - 1, x.shape)


def _transpose_blocks(
    costs: Costs,
    counts: Counts,
    a: Any,
    b: Any,
    parts: int,
    blocks: Any,
    keys: Any,
    policy: str,
    in_place: bool,
) -> None:
    (limbs, rows, n), height = a.shape, a.shape[2] // parts
    steps = _core.transpose_steps(n, policy, parts, list(blocks))
    used = {key for row in steps for key in row}
    costs.transpose_blocks(counts, rows, limbs, sum(map(len, steps)), len(used))
    for part in (a, b):
        costs.transpose_layers(counts, 2 * (height.bit_length() - 1), part.shape)


class OnMatrices(Protocol):
    """Matrices of residues in the coefficient domain, (limbs, rows, columns)."""

    # ---- what enters and leaves ----

    @operation(made=lambda _, words: words.shape, shares=("words",))
    def upload_matrix(self, words: Words) -> Matrix:
        """A matrix of residues, uint64 (limbs, rows, columns)."""
        ...

    @operation(made=lambda _, matrix: matrix.shape, shares=("matrix",))
    def download_matrix(self, matrix: Matrix) -> Words:
        """The words of a matrix of residues, uint64 (limbs, rows, columns)."""
        ...

    # ---- sums and products ----

    @operation(made=like, cost=lambda costs, counts, x, y: costs.add_matrices(counts, *by_rows(x)))
    def add_matrices(self, x: Matrix, y: Matrix) -> Matrix:
        """x + y of equal shapes."""
        ...

    @operation(made=like, cost=lambda costs, counts, x, y: costs.add_matrices(counts, *by_rows(x)))
    def sub_matrices(self, x: Matrix, y: Matrix) -> Matrix:
        """x - y of equal shapes."""
        ...

    @operation(
        made=lambda _, integers, x, exact: (x.shape[0], integers.shape[0], x.shape[2]),
        cost=_multiply_integers,
        memory=_clear_product_bytes,
    )
    def multiply_integers(self, integers: NDArray[Any], x: Matrix, exact: bool) -> Matrix:
        """integers @ x for every limb.

        Args:
            integers: of the host, m × rows of x, of an integer type or float64.
            exact: without it entries may be off by errors of which `gemm_error` tells the size, and by multiples of q.
        """
        ...

    @operation()
    def gemm_error(self, k: int, largest: float, modulus: float) -> float:
        """Root mean square of the errors of `multiply_integers` where it need not be exact, in sums of k products of
        integers up to `largest`; 0 of an engine that rounds nothing.

        Where it is more than plans count (`rlwe.noise.rounded_product`), exact products are asked for.
        """
        ...

    @operation(
        made=lambda _, x, y: (*x.shape[:2], y.shape[2]),
        cost=lambda costs, counts, x, y: costs.multiply_matrices(
            counts, *x.shape[1:], y.shape[2], x.shape[0]
        ),
        memory=_product_bytes,
    )
    def multiply_matrices(self, x: Matrix, y: Matrix) -> Matrix:
        """x @ y for every limb, exactly."""
        ...

    @operation(
        made=lambda _, x: (x.shape[0], x.shape[2], x.shape[2]),
        cost=lambda costs, counts, x: costs.gram(counts, *x.shape[1:], x.shape[0]),
        memory=lambda _, x: gemm_bytes(x.shape[2], x.shape[1], x.shape[2]),
    )
    def gram(self, x: Matrix) -> Matrix:
        """xᵀ @ x for every limb, exactly: a symmetric matrix, of which it may compute one half."""
        ...

    @operation(
        made=lambda ring, x, y: (len(ring.q), x.shape[1], y.shape[2]),
        cost=lambda costs, counts, x, y: costs.multiply_operands(counts, *x.shape[1:], y.shape[2]),
        memory=lambda costs, x, y: costs.operand_bytes(*x.shape[1:], y.shape[2]),
    )
    def multiply_operands(self, x: Matrix, y: Matrix) -> Matrix:
        """x @ y modulo the moduli of operands, switched to all limbs of Q: times Q over their product W, rounded
        (`evaluators.rows.bookkeeping`, switch_rounding). The arguments have words of residues, as `OperandRows` does.

        Every engine has the same result: residues modulo p of sums of `_core.OPERAND_DEPTH` products, centred, count as
        many times the fraction of W that a residue of 1 stands for, rounded to a multiple of 2^-64 (2^-104 for two
        limbs).
        """
        ...

    @operation(made=lambda ring, integers: (OPERAND_BASIS.words(ring), *integers.shape))
    def operand_integers(self, integers: NDArray[Any]) -> Matrix:
        """Words of residues modulo the moduli of operands, to multiply these by.

        Args:
            integers: of the host, of 16 bits each, of any type.
        """
        ...

    @operation(
        made=lambda ring, x: (len(ring.q), x.shape[2], x.shape[2]),
        cost=lambda costs, counts, x: costs.gram_operands(counts, *x.shape[1:]),
        memory=lambda costs, x: costs.operand_bytes(x.shape[2], x.shape[1], x.shape[2]),
    )
    def gram_operands(self, x: Matrix) -> Matrix:
        """The same of xᵀ @ x, a symmetric matrix."""
        ...

    @operation(made=lambda _, x: (x.shape[0], x.shape[2], x.shape[1]), shares=("x",))
    def transposed(self, x: Matrix) -> Matrix:
        """Every limb transposed; it may be a view."""
        ...

    @operation(made=_cut, shares=("x",))
    def cut(self, x: Matrix, rows: slice = ALL, columns: slice = ALL) -> Matrix:
        """Return some rows and columns of a matrix, possibly as a view."""
        ...

    @operation(made=like, cost=lambda costs, counts, x: costs.copied(counts, *by_rows(x)))
    def copied(self, x: Matrix) -> Matrix:
        """The same matrix, which holds on to no more memory than its own."""
        ...

    @operation(made=_stack, cost=lambda costs, counts, xs: [costs.copied(counts, *by_rows(x)) for x in xs])
    def stack(self, xs: Sequence[Matrix]) -> Matrix:
        """The rows of several matrices, one below the other."""
        ...

    @operation(
        made=lambda _, x, shape, strides: (x.shape[0], *shape),
        cost=lambda costs, counts, x, shape, strides: costs.spread(counts, x.shape, shape),
    )
    def spread(self, x: Matrix, shape: tuple[int, int], strides: tuple[int, int]) -> Matrix:
        """rows × columns of zeros with entry (i, j) of x at (i·strides[0], j·strides[1])."""
        ...

    @operation(
        made=lambda _, x: (x.shape[0] - 1, *x.shape[1:]),
        cost=lambda costs, counts, x: costs.rescale_matrix(counts, *by_rows(x)),
    )
    def rescale_matrix(self, x: Matrix) -> Matrix:
        """x divided by the prime of its last limb and rounded, at the other limbs: (x - [x]_q)/q, [x]_q centred."""
        ...

    @operation(made=lambda _, x, limbs: (limbs, *x.shape[1:]), shares=("x",))
    def drop_limbs(self, x: Matrix, limbs: int) -> Matrix:
        """The first limbs; it may be a view."""
        ...

    # ---- between rows and ciphertexts ----

    @operation(
        made=lambda ring, a, b: [(2, a.shape[0], ring.n)] * a.shape[1],
        cost=lambda costs, counts, a, b: costs.rows_as_ciphertexts(counts, *a.shape[:2]),
    )
    def rows_as_ciphertexts(self, a: Matrix, b: Matrix) -> list[Ciphertext]:
        """The rows of (a, b), (limbs, rows, N) and (limbs, rows, columns): entry j of b is the coefficient of
        X^(j·N/columns), the columns being a power of two, and the coefficients between are 0."""
        ...

    @operation(
        made=lambda ring, cts, rows, columns, held: (
            (cts[0].shape[1], rows, ring.n),
            (cts[0].shape[1], rows, columns),
        ),
        cost=_rows_of_ciphertexts,
    )
    def rows_of_ciphertexts(
        self, cts: Sequence[Ciphertext], rows: int, columns: int, held: int
    ) -> tuple[Matrix, Matrix]:
        """`rows` rows of ciphertexts of two components, `held` of the r = N/columns of each: the row that comes as
        number i has as entry j of b the coefficient of X^(j·r + t), t being i with its log2(r) bits in reversed order,
        and as a part X^-t times a."""
        ...

    # ---- key switching of rows ----

    @operation(
        made=lambda ring, a, row, keys, columns: (
            (a.shape[0], len(keys), ring.n),
            (a.shape[0], len(keys), columns),
        ),
        cost=lambda costs, counts, a, row, keys, columns: costs.switch_rows(counts, len(keys), a.shape[0]),
    )
    def switch_rows(self, a: Matrix, row: int, keys: Sequence[Key], columns: int) -> tuple[Matrix, Matrix]:
        """One row of a, (limbs, rows, N), switched with every key: (limbs, keys, N), and the first columns of b,
        (limbs, keys, columns). Each is (Σ_d digit_d·key_d)/P."""
        ...

    @operation(
        made=lambda _, a, b, key: (a.shape, b.shape),
        cost=lambda costs, counts, a, b, key: costs.relinearise_rows(counts, a.shape[1], a.shape[0]),
    )
    def relinearise_rows(self, a: Matrix, b: Matrix, key: Key) -> tuple[Matrix, Matrix]:
        """Rows (a, b) times the secret: a switched with the key of s², plus b in the a part; (limbs, rows, N) each."""
        ...

    @operation(
        made=lambda _, a, b, keys, policy: (a.shape, b.shape),
        cost=_transpose_rows,
    )
    def transpose_rows(self, a: Matrix, b: Matrix, keys: Sequence[Key], policy: str) -> tuple[Matrix, Matrix]:
        """The transpose of a d × d matrix that is encrypted row by row (C-MT; `docs/algorithms.md`).

        With Y = X^(N/d): h_u = Σ_i row_i·Y^(u·i)/d for odd u < 2d; g_v = h_u(X^v) with u·v = 1 modulo 2d, by one key
        switch after the other as the policy has it; the rows are Σ_v g_v·Y^(-v·j).

        Args:
            a: (limbs, d, N). b: (limbs, d, d), at the powers of Y.
            keys: of the elements of `transpose_plan(d, policy)`, in that order.
            policy: "fast", "light" or "binary".

        Returns:
            (limbs, d, N) and (limbs, d, d).
        """
        ...

    @operation(
        made=like,
        cost=_transpose_classes,
        shares=("x",),
    )
    def transpose_classes(
        self, x: Matrix, parts: int, first: int, inverse: bool, *, in_place: bool = False
    ) -> Matrix:
        """Of a transposition that several ranks share, the layers of the transform in which rows of one class meet.

        The rows i = t·N/parts + c of some classes c = first, first + 1, … stand at t·(number of classes) + c - first.

        Args:
            x: (limbs, rows, N) at places of a transposition; with `inverse` what `transpose_blocks` gave, exchanged.
            parts: a power of two.
            in_place: x is needed no more: the result may be where it was.

        Returns:
            As many rows: of the transform h_u of `transpose_rows`, not yet in blocks; with `inverse` of the result.
            What is not yet a residue is for the next call alone.
        """
        ...

    @operation(
        made=lambda _, a, b, **others: (a.shape, b.shape),
        cost=_transpose_blocks,
        shares=("a", "b"),
    )
    def transpose_blocks(
        self,
        a: Matrix,
        b: Matrix,
        parts: int,
        blocks: Sequence[int],
        keys: Sequence[Key | None],
        policy: str,
        *,
        in_place: bool = False,
    ) -> tuple[Matrix, Matrix]:
        """Compute the middle of a transposition, for the rows of some blocks: the other layers, and the automorphisms.

        Args:
            a, b: (limbs, rows, N), block after block; row b·N/parts + i of the transform is row i of block b.
            blocks: of `parts`; with each its partner (`inverse_blocks` of the core).
            keys: as in `transpose_rows`; None where no row of these blocks takes it.
            in_place: a and b are needed no more: the result may be where they were.
        """
        ...
