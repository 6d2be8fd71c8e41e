"""A product of one's own in forty lines, tried and then registered: see docs/own-product.md.

python examples/own_product.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import cipherblas as cb
from cipherblas.lab import (
    EMPTY,
    Accumulator,
    Algorithm,
    Ct,
    Evaluator,
    Layout,
    Operand,
    SlotIndex,
    accumulate,
    entry_index,
)


class InnerSums(Algorithm):
    """Rows of A and columns of B side by side: slots of A[r, t]·B[t, c] for all t, summed up by log2 k rotations."""

    name, title = "inner-sums", "inner products of rows and columns"
    source, summary = "folklore (rotate and sum)", "few keys: log2 k rotations per ciphertext of the result"

    def __init__(self, m: int, k: int, n: int, slots: int) -> None:
        super().__init__(m, k, n, slots)
        self.length = 1 << (k - 1).bit_length()  # of an inner product, padded by zeros
        self.group = min(n, slots // (m * self.length))  # columns of B in one ciphertext
        if not self.group:
            raise self._refuse(m * self.length)
        groups = -(-n // self.group)
        self.left_layout = self._layout("left", (m, k), 1)
        self.right_layout = self._layout("right", (k, n), groups)
        self.out_layout = self._layout("out", (m, n), groups)

    def _layout(self, side: str, shape: tuple[int, int], ciphertexts: int) -> Layout:
        def index(number: int) -> SlotIndex:
            place, t = np.divmod(np.arange(self.slots), self.length)
            c, r = np.divmod(place, self.m)
            c, t = c + number * self.group, np.where(c < self.group, t, EMPTY)
            entry = {"left": (r, t), "right": (t, c), "out": (np.where(t == 0, r, EMPTY), c)}[side]
            return SlotIndex(entry_index(*entry, shape))

        key = (self.name, side, self.m, self.k, self.n, self.slots)
        return Layout(side, key, *shape, self.slots, ciphertexts, index, empty_garbage=side == "out")

    @property
    def options(self) -> dict[str, Any]:
        return {}

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        return [ev.rescaled(ct) for ct in cts]

    prepare_right = prepare_left

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        return [accumulate(ev, accumulator, g, left, [column]) for g, column in enumerate(right)]

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        sums = [ev.relinearise(ct) for ct in accumulator]
        for step in (self.length >> shift for shift in range(1, self.length.bit_length())):
            sums = [ev.add(ct, ev.rotate(ct, step)) for ct in sums]
        return sums

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        yield from [{}] if cls.fits(m, k, n, slots) else []


def main() -> None:
    """Count it, check it in the clear, run it on ciphertexts; then plan a program with it."""
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (6, 5)), rng.uniform(-1, 1, (5, 7))
    method = InnerSums(6, 5, 7, slots=4096)
    inputs = [*method.left_layout.pack(a), *method.right_layout.pack(b)]
    for on in ("symbolic", "clear", "native"):
        outcome = cb.lab.run(cb.lab.block_product(method), inputs, on, compare=True)
        print(outcome)
        if outcome.value is not None:
            error = np.abs(method.out_layout.unpack(list(outcome.value)) - a @ b).max()
            print(f"{on}: off by {error:.2g}")

    cb.register(InnerSums)
    program = cb.compile(
        lambda x, y: x @ y, {"x": cb.secret(6, 5), "y": cb.secret(5, 7)}, algorithm="inner-sums"
    )
    print(program.explain())
    client = program.client()
    result = program.server(client.evaluation_keys()).run(client.encrypt({"x": a, "y": b}))
    error = np.abs(client.decrypt(result) - a @ b).max()
    print(f"encrypted: allowed {program.plan.error_target:.2g}, largest error {error:.2g}")


if __name__ == "__main__":
    main()
