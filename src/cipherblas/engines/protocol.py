"""What an engine must offer: the coarse calls of homomorphic arithmetic, on data that only it can read.

Above an engine everything is decided (limbs, scales, keys, order); an engine computes. Its data are handles that
nobody else looks into: what enters is uploaded, what leaves is downloaded, and in between data can lie wherever and
however the engine likes. Handles are never written to but for accumulators, may share memory, and serve all engines of
one name and equal parameters.

All is arithmetic modulo primes, and so exact: two engines give the same words, bit for bit. A division by D, the
product of primes d_i, is that of the whole number x - [x]_D, [x]_D being the centred remainder, |[x]_D| < D/2; digits
are centred in the same way. With x = Σ_i y_i·D/d_i modulo D, 0 <= y_i < d_i, it is Σ_i y_i·D/d_i - v·D with
v = floor(1/2 + Σ_i y_i/d_i), which is found in float64, added up in the order of the primes (the last limb before the
special ones); a division finds it for -x; one prime alone is centred exactly. How v is found matters only where [x]_D
is within some 2^-45·D of ±D/2, which residues that look uniform, as those of ciphertexts do, never are. The one call
that is not exact says so.

Shapes: N is the ring degree; ciphertexts are (components, limbs, N) in NTT form, in bit-reversed order; matrices of
residues are (limbs, rows, columns) in the coefficient domain; all residues are in [0, q), the limbs those of q_0,
q_1, …. What they decrypt to is in `docs/architecture.md`, "Data layout".

Calls may come from several threads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherblas.crypto.params import Parameters

Words: TypeAlias = NDArray[np.uint64]
Signed: TypeAlias = NDArray[np.int64]

# Handles. Those of plaintexts have an attribute `nbytes`: there are budgets of what is kept.
Ciphertext: TypeAlias = Any
Matrix: TypeAlias = Any
Key: TypeAlias = Any
Message: TypeAlias = Any  # the coefficients of a plaintext
Addend: TypeAlias = Any  # a plaintext that is added
Factor: TypeAlias = Any  # a plaintext that is multiplied by

# One term of a linear transform: output, source, Galois element, number of its key (-1: none, for the element 1), and
# number of its plaintext (-1: none, for a factor of 1).
Term: TypeAlias = tuple[int, int, int, int, int]


class Engine(Protocol):
    """The arithmetic of one parameter set."""

    # ---- what enters and leaves ----

    def upload(self, words: Words) -> Ciphertext:
        """A ciphertext, uint64 (components, limbs, N); the array stays as it is while the handle lives."""
        ...

    def download(self, ciphertext: Ciphertext) -> Words:
        """The words of a ciphertext, uint64 (components, limbs, N)."""
        ...

    def upload_matrix(self, words: Words) -> Matrix:
        """A matrix of residues, uint64 (limbs, rows, columns)."""
        ...

    def download_matrix(self, matrix: Matrix) -> Words:
        """The words of a matrix of residues, uint64 (limbs, rows, columns)."""
        ...

    def upload_key(self, words: Words) -> Key:
        """A switching key as `EvaluationKeys` hold it: uint64 of `key_shape`, Montgomery form, packed."""
        ...

    def upload_message(self, coefficients: Signed) -> Message:
        """The coefficients of a plaintext, int64 (N,)."""
        ...

    # ---- plaintexts ----

    def addend(self, message: Message, limbs: int) -> Addend:
        """A plaintext to be added to ciphertexts of so many limbs."""
        ...

    def factor(self, message: Message, limbs: int) -> Factor:
        """A plaintext to multiply ciphertexts of so many limbs by."""
        ...

    def encryption(self, addend: Addend) -> Ciphertext:
        """The ciphertext (m, 0) of a plaintext m, which hides nothing."""
        ...

    def weights_shape(self, limbs: int, terms: int, ciphertexts: int) -> tuple[int, ...]:
        """Shape of the uint64 array that holds the weights of one sum, for `weighted_sums` of so many ciphertexts.

        Weights can be more than any memory: they are arrays of the host (mapped ones, where memory is short), in an
        order that the engine chooses, and are kept from run to run.
        """
        ...

    def write_weights(self, weights: Words, first: int, messages: Sequence[Message]) -> None:
        """Write the factors of the terms from `first` on into an array of `weights_shape`."""
        ...

    # ---- ciphertexts ----

    def drop(self, ciphertext: Ciphertext, limbs: int) -> Ciphertext:
        """The first limbs; it may be a view."""
        ...

    def add(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """x + y; equal limbs, a missing component is 0."""
        ...

    def sub(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """x - y; equal limbs, a missing component is 0."""
        ...

    def neg(self, x: Ciphertext) -> Ciphertext:
        """-x"""
        ...

    def add_plain(self, x: Ciphertext, plaintext: Addend) -> Ciphertext:
        """x + (plaintext, 0, …)"""
        ...

    def multiply_scalar(self, x: Ciphertext, value: int) -> Ciphertext:
        """x times an integer of any size."""
        ...

    def scaled_sums(
        self, sums: Sequence[tuple[Sequence[Ciphertext], Sequence[int], int]]
    ) -> list[Ciphertext]:
        """Σ_t ct_t·value_t + (constant, 0, …) of each (ciphertexts, values, constant): integers of any size; the terms
        of a sum have equal limbs and components."""
        ...

    def multiply_sum(
        self, lefts: Sequence[Ciphertext], rights: Sequence[Ciphertext], accumulator: Ciphertext | None
    ) -> Ciphertext:
        """accumulator + Σ left_t·right_t: two components each, three of the sum; the accumulator may be overwritten."""
        ...

    def multiply_plain_sum(
        self, plaintexts: Sequence[Factor], cts: Sequence[Ciphertext], accumulator: Ciphertext | None
    ) -> Ciphertext:
        """accumulator + Σ plaintext_t·ciphertext_t, two components; the accumulator may be overwritten."""
        ...

    def weighted_sums(
        self, weights: Sequence[Words], terms: Sequence[Sequence[int]], cts: Sequence[Ciphertext]
    ) -> list[Ciphertext]:
        """Σ_t weight_t·ciphertext_{terms[t]} for each array of weights and its list of terms; two components."""
        ...

    def polynomial_sums(self, polynomials: Signed, cts: Sequence[Ciphertext]) -> list[Ciphertext]:
        """Σ_t polynomial_t·ciphertext_t for every list of polynomials; two components.

        Args:
            polynomials: of the host, int64 (outputs, terms, count): coefficients from the constant one on, count a
                power of two from 8 to N.
        """
        ...

    def rescale(self, x: Ciphertext) -> Ciphertext:
        """Division by the last limb, which is dropped: (x - [x]_q)/q."""
        ...

    # ---- key switching ----

    def relinearise(self, x: Ciphertext, key: Key, rescale: bool = False) -> Ciphertext:
        """(b, a, c2) → (b, a) with the key of s²; with `rescale` divided by P·q, q the last limb, instead of P."""
        ...

    def multiply_relinearise(self, x: Ciphertext, y: Ciphertext, key: Key) -> Ciphertext:
        """`relinearise` of x·y."""
        ...

    def relinearised_sums(
        self, lefts: Sequence[Ciphertext], rights: Sequence[Sequence[Ciphertext]], key: Key
    ) -> list[Ciphertext]:
        """`relinearise` of `multiply_sum` of the left factors and each list of right factors."""
        ...

    def multiply_rescale(
        self,
        x: Ciphertext,
        y: Ciphertext,
        key: Key,
        factor: int,
        added: Ciphertext | None,
        added_factor: int,
        constant: int,
    ) -> Ciphertext:
        """`relinearise`, with `rescale`, of factor·x·y + added_factor·(added, 0) + (constant, 0, 0): integers of any
        size, two components and equal limbs of x, y and what is added."""
        ...

    def switch(self, x: Ciphertext, key: Key) -> Ciphertext:
        """(b, a) under the secret that the key switches from, under the one that it switches to."""
        ...

    def raised(self, x: Ciphertext, limbs: int) -> Ciphertext:
        """ModRaise: the residues modulo q_0 of a ciphertext of one limb, centred, modulo the first `limbs` primes."""
        ...

    def beside(self, params: Parameters) -> Engine:
        """An engine of the same kind for other parameters; each takes ciphertexts of the other as far as their rings
        and primes agree."""
        ...

    def joined(self, parts: Sequence[Ciphertext | None], inner: Engine) -> Ciphertext:
        """Σ_u parts[u](X^k)·X^u, of both components: k ciphertexts of `inner`, an engine beside this one whose ring
        degree is N/k, and whose first primes are ours; None stands for 0."""
        ...

    def parted(self, x: Ciphertext, inner: Engine) -> list[Ciphertext]:
        """The inverse of `joined`: k ciphertexts of `inner`."""
        ...

    def extended_factor(self, message: Message, limbs: int) -> Factor:
        """A plaintext that `giant_steps` multiplies ciphertexts of so many limbs by: modulo Q·P."""
        ...

    def giant_steps(
        self,
        sources: Sequence[Ciphertext],
        babies: Sequence[tuple[int, int]],
        giants: Sequence[tuple[int, int, Sequence[tuple[int, int]]]],
        keys: Sequence[Key],
        plaintexts: Sequence[Factor],
    ) -> list[Ciphertext]:
        """Of each source Σ_g automorphism_g(Σ_b plaintext·automorphism_b(source)), divided by the last limb in the same
        ModDown. Of an inner sum what the key switch decomposes is divided by P before, and nothing else.

        Args:
            sources: as of `linear_transform`, and so are the keys.
            babies: Galois element and number of its key, or -1 for the element 1; one of them at least has a key.
            giants: the same, and the terms: numbers of a baby step and of a plaintext.
            plaintexts: of `extended_factor`, for the limbs of the sources.
        """
        ...

    def linear_transform(
        self,
        sources: Sequence[Ciphertext],
        terms: Sequence[Term],
        keys: Sequence[Key],
        plaintexts: Sequence[Message],
        outputs: int,
        rescale: bool,
        order: str,
    ) -> list[Ciphertext]:
        """Sums of plaintext·automorphism(source), with one division by P per output.

        A source's a part is cut into digits, each the centred representative modulo its primes; the automorphism of a
        digit is multiplied by the digit's key, and P times the automorphism of the b part is added. The sum of all
        terms is divided by P, and with `rescale` by P·q, q the last limb, at once. All terms of an output have
        plaintexts, or none has; an output without terms is 0.

        Several messages may share their a part: a ciphertext is (b_1, …, b_r, a) then, r odd, and so are outputs. Each
        b_i takes part as b does, and the digits of a are multiplied by a key of r + 1 components.

        Args:
            sources: two components, or any even number that all have, and equal limbs.
            terms: as `Term` has them.
            keys: made for at least as many limbs as the sources have; with more than two components, each two of them
                as an ordinary key, ((r + 1)/2, *key_shape).
            plaintexts: what terms are multiplied by.
            outputs: number of sums.
            rescale: outputs have one limb less.
            order: "limb" or "rotation", a wish about loops; results are equal.
        """
        ...

    # ---- matrices of residues ----

    def add_matrices(self, x: Matrix, y: Matrix) -> Matrix:
        """x + y of equal shapes."""
        ...

    def sub_matrices(self, x: Matrix, y: Matrix) -> Matrix:
        """x - y of equal shapes."""
        ...

    def multiply_integers(self, integers: NDArray[Any], x: Matrix, exact: bool) -> Matrix:
        """integers @ x for every limb.

        Args:
            integers: of the host, m × rows of x, of an integer type or float64.
            exact: without it entries may be off by `small_gemm_error` of the core, and by multiples of q.
        """
        ...

    def multiply_matrices(self, x: Matrix, y: Matrix) -> Matrix:
        """x @ y for every limb, exactly."""
        ...

    def gram(self, x: Matrix) -> Matrix:
        """xᵀ @ x for every limb, exactly: a symmetric matrix, of which it may compute one half."""
        ...

    def multiply_operands(self, x: Matrix, y: Matrix) -> Matrix:
        """x @ y modulo the moduli of operands, switched to all limbs of Q: times Q over their product W, rounded
        (`evaluators.rows.bookkeeping`, switch_rounding). The arguments have words of residues, as `OperandRows` does.

        Every engine has the same result: residues modulo p of sums of `_core.OPERAND_DEPTH` products, centred, count as
        many times the fraction of W that a residue of 1 stands for, rounded to a multiple of 2^-64 (2^-104 for two
        limbs).
        """
        ...

    def operand_integers(self, integers: NDArray[Any]) -> Matrix:
        """Words of residues modulo the moduli of operands, to multiply these by.

        Args:
            integers: of the host, of 16 bits each, of any type.
        """
        ...

    def gram_operands(self, x: Matrix) -> Matrix:
        """The same of xᵀ @ x, a symmetric matrix."""
        ...

    def transposed(self, x: Matrix) -> Matrix:
        """Every limb transposed; it may be a view."""
        ...

    def cut(self, x: Matrix, rows: slice = ..., columns: slice = ...) -> Matrix:
        """Some rows and columns; it may be a view."""
        ...

    def copied(self, x: Matrix) -> Matrix:
        """The same matrix, which holds on to no more memory than its own."""
        ...

    def stack(self, xs: Sequence[Matrix]) -> Matrix:
        """The rows of several matrices, one below the other."""
        ...

    def spread(self, x: Matrix, shape: tuple[int, int], strides: tuple[int, int]) -> Matrix:
        """rows × columns of zeros with entry (i, j) of x at (i·strides[0], j·strides[1])."""
        ...

    def rescale_matrix(self, x: Matrix) -> Matrix:
        """x divided by the prime of its last limb and rounded, at the other limbs: (x - [x]_q)/q, [x]_q centred."""
        ...

    def drop_limbs(self, x: Matrix, limbs: int) -> Matrix:
        """The first limbs; it may be a view."""
        ...

    # ---- between rows and ciphertexts ----

    def rows_as_ciphertexts(self, a: Matrix, b: Matrix) -> list[Ciphertext]:
        """The rows of (a, b), (limbs, rows, N) and (limbs, rows, columns): entry j of b is the coefficient of
        X^(j·N/columns), the columns being a power of two, and the coefficients between are 0."""
        ...

    def rows_of_ciphertexts(
        self, cts: Sequence[Ciphertext], rows: int, columns: int, held: int
    ) -> tuple[Matrix, Matrix]:
        """`rows` rows of ciphertexts of two components, `held` of the r = N/columns of each: the row that comes as
        number i has as entry j of b the coefficient of X^(j·r + t), t being i with its log2(r) bits in reversed order,
        and as a part X^-t times a."""
        ...

    # ---- key switching of rows ----

    def switch_rows(self, a: Matrix, row: int, keys: Sequence[Key], columns: int) -> tuple[Matrix, Matrix]:
        """One row of a, (limbs, rows, N), switched with every key: (limbs, keys, N), and the first columns of b,
        (limbs, keys, columns). Each is (Σ_d digit_d·key_d)/P."""
        ...

    def relinearise_rows(self, a: Matrix, b: Matrix, key: Key) -> tuple[Matrix, Matrix]:
        """Rows (a, b) times the secret: a switched with the key of s², plus b in the a part; (limbs, rows, N) each."""
        ...

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
        """What comes between: the other layers, and the automorphisms, of the rows of some blocks.

        Args:
            a, b: (limbs, rows, N), block after block; row b·N/parts + i of the transform is row i of block b.
            blocks: of `parts`; with each its partner (`inverse_blocks` of the core).
            keys: as in `transpose_rows`; None where no row of these blocks takes it.
            in_place: a and b are needed no more: the result may be where they were.
        """
        ...


MakeEngine: TypeAlias = Callable[[Parameters], Engine]
