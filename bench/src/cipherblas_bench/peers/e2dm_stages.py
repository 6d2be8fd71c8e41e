"""E2DM stage by stage, as one description that every library of the study runs: the same encoding, the same rotations.

Jiang, Kim, Lauter, Song 2018 (eprint 2018/1041) in the form of Section 4, Eq. 5 to 14, of the study of SEAL and
PALISADE that `bench e2dm-study` repeats: d x d matrices in row-major slots, of their true d, every rotation by its
own key, no baby steps.

    A B = sum over k < d of V_k(U_sigma a) * W_k(U_tau b)

- step 1.1: U_sigma a, 2d - 1 diagonals;
- step 1.2: U_tau b, d diagonals;
- step 2: V_k, two diagonals for each k, and W_k, one rotation by d k: its only diagonal is of ones, so that it is
  encoded as published and multiplied by nothing;
- step 3: d products of ciphertexts, added up, and relinearised once.

The published counts hold where d^2 slots are a cycle. Where d^2 divides the slots the matrix is repeated throughout.
Otherwise it is repeated once, which is enough for step 1.2, and U_tau b is repeated again by one rotation more; so d
is at most the root of half the slots there.

Like the other workers this file needs nothing of cipherblas (see protocol.py).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from .library import Diagonals, Library, Slots

# Stages of the algorithm in their order; their sum is the total. Inputs are encoded and encrypted as one vector each.
STAGES = (
    "encode_sigma", "encode_tau", "encode_v", "encode_w", "encode_inputs", "encrypt",
    "step_1_1", "step_1_2", "step_2", "step_3", "decrypt", "decode",
)  # fmt: skip
# Timed, but no part of the total: A row by row, d ciphertexts; and both matrices by diagonals, in a few runs.
DIAGONAL_STAGES = ("diagonals_encrypt", "diagonals_rotate", "diagonals_multiply", "diagonals_decrypt")
BESIDE = ("encrypt_rows", *DIAGONAL_STAGES)
DIAGONAL_LAPS, DIAGONAL_SIZE = 3, 24  # runs, after the one that warms up, of d up to this
LEVELS = 2  # that masks spend; the product is left at the scale that it has


class Layout:
    """Where the entries lie, and the diagonals of U_sigma, U_tau, V_k and W_k, in slots."""

    def __init__(self, d: int, slots: int) -> None:
        self.d, self.slots, self.period = d, slots, d * d
        self.cyclic = slots % self.period == 0
        if not self.cyclic and 2 * self.period > slots:
            raise ValueError(f"d: expected d^2 to divide {slots} slots or 2 d^2 to fit them, got {d}")
        self.row, self.column = numpy.divmod(numpy.arange(self.period), d)
        self.steps_w = [d * k for k in range(d)]

    def packed(self, matrix: Any) -> Any:
        """The slots of a matrix: repeated throughout, or once."""
        flat = numpy.asarray(matrix, dtype=numpy.float64).ravel()
        return self._filled(flat, self.slots // self.period if self.cyclic else 2)

    def alone(self, row: Any) -> Any:
        """The slots of one row, followed by zeros."""
        return numpy.pad(row, (0, self.slots - self.d))

    def unpacked(self, slots: Any) -> Any:
        return numpy.asarray(slots)[: self.period].reshape(self.d, self.d)

    def sigma(self) -> Diagonals:
        """Eq. 9: steps k of -d < k < d."""
        offset = numpy.where(self.row + self.column < self.d, self.row, self.row - self.d)
        return {k: self._mask(offset == k) for k in range(1 - self.d, self.d)}

    def tau(self) -> Diagonals:
        """Eq. 11: steps d k."""
        return {self.d * k: self._mask(self.column == k) for k in range(self.d)}

    def shift_columns(self, k: int) -> Diagonals:
        """V_k, Eq. 13 and 14: steps k and k - d, for 1 <= k < d."""
        inside = self.column < self.d - k
        return {k: self._mask(inside), k - self.d: self._mask(~inside)}

    def shift_rows(self) -> Any:
        """The diagonal of W_k, which is of ones whatever k."""
        return self._mask(numpy.ones(self.period, dtype=bool))

    def rotations(self) -> set[int]:
        """Steps that need a key."""
        steps = {*range(1 - self.d, self.d), *self.steps_w}
        if not self.cyclic:
            steps.add(-self.period)
        return {step for step in steps if step % self.slots}

    def _mask(self, inside: Any) -> Any:
        return self._filled(inside.astype(numpy.float64), self.slots // self.period if self.cyclic else 1)

    def _filled(self, period: Any, copies: int) -> Any:
        vector = numpy.zeros(self.slots)
        vector[: copies * self.period] = numpy.tile(period, copies)
        return vector


class Stages:
    """A worker of the study (see protocol.py): `make(request, steps)` returns the library with keys for these steps.

    Set-up request: ``{"d", "n", "seed", ...}`` and what the library wants of it. Asked for ``{"laps": r}`` it runs
    the whole algorithm r times and answers with the seconds of each stage of each run.
    """

    def __init__(
        self,
        request: dict[str, Any],
        make: Callable[[dict[str, Any], set[int]], Library],
        by_diagonals: bool = True,
    ) -> None:
        self.layout = Layout(int(request["d"]), int(request["n"]) // 2)
        self.library = make(request, self.layout.rotations())
        random = numpy.random.default_rng(int(request.get("seed", 1)))
        self.A, self.B = (random.uniform(-1, 1, (self.layout.d, self.layout.d)) for _ in range(2))
        self.cases: dict[str, Callable[[], Any]] = {}
        self.error = 0.0
        self.by_diagonals = 1 + DIAGONAL_LAPS if by_diagonals and self.layout.d <= DIAGONAL_SIZE else 0
        self.laps(1)

    def laps(self, repeats: int) -> list[dict[str, float]]:
        """Seconds of each stage of each run; the error of every run is kept if it is the largest."""
        return [self._lap() for _ in range(repeats)]

    def _lap(self) -> dict[str, float]:
        library, layout, d = self.library, self.layout, self.layout.d
        # What the diagonals are is no part of the study: only how long it takes to encode them.
        sigma, tau = layout.sigma(), layout.tau()
        columns, ones = [layout.shift_columns(k) for k in range(1, d)], layout.shift_rows()
        rows = [layout.alone(row) for row in self.A]
        clear = layout.packed(self.A), layout.packed(self.B)
        seconds: dict[str, float] = {}
        timed = functools.partial(_timed, seconds)

        def encoded(maps: Sequence[Diagonals], level: int) -> list[Diagonals]:
            plains = iter(library.encode([v for diagonals in maps for v in diagonals.values()], level))
            return [{step: next(plains) for step in diagonals} for diagonals in maps]

        (u_sigma,) = timed("encode_sigma", lambda: encoded([sigma], 0))
        (u_tau,) = timed("encode_tau", lambda: encoded([tau], 0))
        v = timed("encode_v", lambda: encoded(columns, 1))
        timed("encode_w", lambda: library.encode([ones] * (d - 1), 1))
        plains = timed("encode_inputs", lambda: [library.encode_input(one) for one in clear])
        a, b = timed("encrypt", lambda: [library.encrypt(plain) for plain in plains])
        encoded_rows = [library.encode_input(row) for row in rows]
        timed("encrypt_rows", lambda: [library.encrypt(plain) for plain in encoded_rows])
        a = timed("step_1_1", lambda: library.transforms(a, [u_sigma])[0])
        b = timed("step_1_2", lambda: self._second(b, u_tau))
        lefts, rights = timed("step_2", lambda: self._shifts(a, b, v))
        product = timed("step_3", lambda: library.products(lefts, rights))
        plain = timed("decrypt", lambda: library.decrypt(product))
        slots = timed("decode", lambda: library.decode(plain))
        self._found(layout.unpacked(slots))
        if self.by_diagonals:
            self.by_diagonals -= 1
            self._multiplied_by_diagonals(seconds)
        return seconds

    def _found(self, product: Any) -> None:
        self.error = max(self.error, float(numpy.abs(product - self.A @ self.B).max()))

    def _multiplied_by_diagonals(self, seconds: dict[str, float]) -> None:
        """Halevi and Shoup's product, timed; every ciphertext is decoded as well."""
        library, d, timed = self.library, self.layout.d, functools.partial(_timed, seconds)
        place = numpy.arange(2 * d - 1)
        left = [self.A[place[:d], (place[:d] + i) % d] for i in range(d)]
        right = [self.B[place % d, (place + j) % d] for j in range(d)]
        vectors = [numpy.pad(one, (0, self.layout.slots - len(one))) for one in (*left, *right)]
        sent = timed(
            "diagonals_encrypt", lambda: [library.encrypt(library.encode_input(one)) for one in vectors]
        )
        for _ in range(LEVELS):
            sent = [library.drop(one) for one in sent]
        rotated = timed(
            "diagonals_rotate", lambda: [library.rotations(one, list(range(d))) for one in sent[d:]]
        )
        products = timed(
            "diagonals_multiply",
            lambda: [
                library.products(sent[:d], [rotated[(out - i) % d][i] for i in range(d)]) for out in range(d)
            ],
        )
        found = timed("diagonals_decrypt", lambda: [library.decode(library.decrypt(one)) for one in products])
        product = numpy.empty((d, d))
        for out, slots in enumerate(found):
            product[place[:d], (place[:d] + out) % d] = numpy.asarray(slots)[:d]
        self._found(product)

    def _second(self, b: Any, u_tau: Diagonals) -> Any:
        """U_tau b at the level of the products, repeated where the slots are no cycle."""
        b = self.library.drop(self.library.transforms(b, [u_tau])[0])
        if self.layout.cyclic:
            return b
        return self.library.add(b, self.library.rotations(b, [-self.layout.period])[0])

    def _shifts(self, a: Any, b: Any, v: Sequence[Diagonals]) -> tuple[list[Any], list[Any]]:
        shifted = self.library.transforms(a, v) if v else []
        return [self.library.drop(a), *shifted], self.library.rotations(b, self.layout.steps_w)

    def describe(self) -> dict[str, Any]:
        return {**self.library.describe(), "slots": self.library.slots, "error": self.error}


def _timed(seconds: dict[str, float], stage: str, work: Callable[[], Any]) -> Any:
    """What the work gives; its seconds are entered."""
    start = time.perf_counter()
    result = work()
    seconds[stage] = time.perf_counter() - start
    return result


def counts(d: int, n: int) -> dict[str, int]:
    """Operations of one run of E2DM, counted by running it in the clear."""
    made: list[Slots] = []

    def make(request: dict[str, Any], steps: set[int]) -> Library:
        made.append(Slots(int(request["n"]) // 2, steps))
        return made[0]

    Stages({"d": d, "n": n}, make, by_diagonals=False)
    return made[0].counts
