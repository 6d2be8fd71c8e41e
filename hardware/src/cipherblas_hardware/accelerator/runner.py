"""Calls of an engine on an element: lowered, scheduled, run, and what that took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.common.memory import aligned_empty
from cipherblas_hardware.accelerator.assembler import NOT_COUNTED, Assembler
from cipherblas_hardware.accelerator.image import plain_key, plain_residues
from cipherblas_hardware.accelerator.isa import Element, Words
from cipherblas_hardware.accelerator.lowering import Lowering, Term
from cipherblas_hardware.accelerator.schedule import Schedule, scheduled


@dataclass
class Tally:
    """The cost of programs.

    Attributes:
        programs: engine calls that were run.
        cycles: of all, as the element counted them.
        scheduled: as they were known before.
        kinds: passes of each kind.
        waits: cycles without a pass, by cause.
        words_in, words_out: from and to memory.
    """

    programs: int = 0
    cycles: int = 0
    scheduled: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    words_in: int = 0
    words_out: int = 0

    @property
    def passes(self) -> int:
        """Of all kinds."""
        return self.kinds.total()

    @property
    def overflow(self) -> int:
        """Passes that the bookkeeping of the library does not count."""
        return self.kinds[NOT_COUNTED]

    def book(self, program: Schedule, cycles: int) -> None:
        """Add a program that was run."""
        self.programs += 1
        self.cycles += cycles
        self.scheduled += program.cycles
        self.kinds.update(program.kinds)
        self.waits.update(program.waits)
        self.words_in += program.words_in
        self.words_out += program.words_out


class Runner:
    """An element that computes in one ring.

    Args:
        element: that runs programs.
        context: the core's, of the parameters.
        alpha, digit_limbs: see `digit_ranges`.
    """

    def __init__(
        self,
        element: Element,
        context: _core.Context,
        alpha: int,
        digit_limbs: tuple[int, ...] | None = None,
    ) -> None:
        self.element, self.tally = element, Tally()
        self._context, self._alpha, self._digit_limbs = context, alpha, digit_limbs
        self._moduli = list(context.moduli)

    def _run(self, shape: tuple[int, int, int], lower: Callable[[Lowering], None]) -> list[Words]:
        """The results of a program, each (components, limbs, N); what it does not make is 0."""
        timing, rows = self.element.timing, self.element.bank_rows
        assembler = Assembler(timing, rows, self.element.width, self._moduli)
        special = len(self._moduli) - self._context.num_q
        lower(Lowering(assembler, special, self._alpha, self._digit_limbs))
        program = scheduled(timing, rows, assembler.items)
        self.element.set_moduli(assembler.moduli)
        outcome = self.element.run(program.passes, program.events, program.stream)
        self.tally.book(program, outcome.cycles)
        found = aligned_empty((*shape, timing.n))
        found.fill(0)
        for place, words in zip(program.places, outcome.words, strict=True):
            found[place] = words
        return list(found)

    def linear_transform(
        self,
        sources: Sequence[Words],
        terms: Sequence[Term],
        keys: Sequence[Words],
        plaintexts: Sequence[NDArray[np.int64]],
        outputs: int,
        rescale: bool,
    ) -> list[Words]:
        """See `OnCiphertexts.linear_transform`; ciphertexts of two components."""
        shape = (outputs, 2, sources[0].shape[1] - rescale)
        plain_keys = [plain_key(self._context, key) for key in keys]
        plains = [plain_residues(each, self._moduli) for each in plaintexts]
        return self._run(
            shape, lambda to: to.linear_transform(sources, terms, plain_keys, plains, outputs, rescale)
        )

    def relinearise(self, x: Words, key: Words, rescale: bool = False) -> Words:
        """See `OnCiphertexts.relinearise`."""
        shape = (1, 2, x.shape[1] - rescale)
        own = plain_key(self._context, key)
        return self._run(shape, lambda to: to.relinearise(x, own, rescale))[0]

    def multiply_sum(
        self, lefts: Sequence[Words], rights: Sequence[Words], accumulator: Words | None = None
    ) -> Words:
        """See `OnCiphertexts.multiply_sum`."""
        shape = (1, 3, lefts[0].shape[1])
        return self._run(shape, lambda to: to.multiply_sum(lefts, rights, accumulator))[0]

    def rescale(self, x: Words) -> Words:
        """See `OnCiphertexts.rescale`."""
        return self._run((1, len(x), x.shape[1] - 1), lambda to: to.rescale(x))[0]

    def scaled_sum(self, cts: Sequence[Words], values: Sequence[int], constant: int = 0) -> Words:
        """See `OnCiphertexts.scaled_sums`; one sum."""
        shape = (1, *cts[0].shape[:2])
        return self._run(shape, lambda to: to.scaled_sum(cts, values, constant))[0]

    def add(self, x: Words, y: Words) -> Words:
        """x + y, of equal components."""
        return self._run((1, *x.shape[:2]), lambda to: to.add(x, y))[0]
