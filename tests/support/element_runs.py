"""Programs of a simulated element beside the core, in toy rings. INSECURE: keys and ciphertexts are random words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cipherblas.rlwe.costs import Costs
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import RingShape
from cipherblas_hardware.accelerator.isa import Element
from cipherblas_hardware.accelerator.machine import Machine
from cipherblas_hardware.accelerator.runner import Runner
from cipherblas_hardware.accelerator.timing import Timing
from tests.support.ring_oracle import Ring


def machine(lanes: int, n: int) -> Machine:
    """The functional model."""
    return Machine(Timing(lanes, n.bit_length() - 1))


def runner(ring: Ring, element: Element) -> Runner:
    """Of calls in a ring."""
    return Runner(element, ring.context, ring.alpha, ring.digit_limbs or None)


def costs(ring: Ring) -> Costs:
    """The library's bookkeeping."""
    sizes = [float(q) for q in ring.moduli]
    first = ring.num_q
    return Costs(
        RingShape(
            ring.n,
            tuple(sizes[:first]),
            tuple(sizes[first:]),
            ring.alpha,
            40.0,
            digit_limbs=ring.digit_limbs or None,
        )
    )


def modelled(ring: Ring, counts: Counts) -> int:
    """Passes of counts."""
    return counts.ntt_limbs * (ring.n.bit_length() - 1) + counts.mac_limbs


@dataclass
class TransformCase:
    """A linear transform: its ring, and the arguments of the call."""

    ring: Ring
    sources: list[Any]
    terms: list[tuple[int, int, int, int, int]]
    keys: list[Any]
    plaintexts: list[Any]
    outputs: int
    rescale: bool

    def core(self) -> list[Any]:
        """The words of the core."""
        arguments = (self.sources, self.terms, self.keys, self.plaintexts, self.outputs, self.rescale)
        found: list[Any] = self.ring.context.linear_transform(*arguments, "limb")
        return found

    def on(self, element: Element) -> tuple[list[Any], Runner]:
        """The words of an element, and what ran it."""
        found = runner(self.ring, element)
        words = found.linear_transform(
            self.sources, self.terms, self.keys, self.plaintexts, self.outputs, self.rescale
        )
        return words, found

    def counts(self) -> Counts:
        """The library's."""
        found = Counts()
        keyed = [term for term in self.terms if term[3] >= 0]
        masks = [term for term in self.terms if term[4] >= 0]
        costs(self.ring).linear_transform(
            found,
            self.sources[0].shape[1],
            decomposed=len({term[1] for term in keyed}),
            switched=len(keyed),
            unswitched=len(self.terms) - len(keyed),
            outputs=self.outputs,
            rescale=self.rescale,
            masks=len(masks),
            masks_in_place=sum(term[3] < 0 for term in masks),
        )
        return found


def hoisted(ring: Ring, limbs: int, rotations: int) -> TransformCase:
    """One term without rotation and some with, all with diagonals, rescaled: an HLT of Algorithm 3."""
    elements = [ring.context.galois_element(step + 1) for step in range(rotations)]
    terms = [(0, 0, 1, -1, 0)] + [(0, 0, g, i, i + 1) for i, g in enumerate(elements)]
    return TransformCase(
        ring,
        [ring.random_ciphertext(limbs)],
        terms,
        [ring.random_key(limbs) for _ in range(rotations)],
        [ring.small(1 << 30) for _ in range(rotations + 1)],
        1,
        True,
    )


def equal(found: list[Any], wanted: list[Any]) -> bool:
    """Whether all words are."""
    return len(found) == len(wanted) and all(
        np.array_equal(mine, core) for mine, core in zip(found, wanted, strict=True)
    )
