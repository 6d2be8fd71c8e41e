"""MetaKernel as it was published: its patterns (Table 8), its search (Eq. 11), and a ring as near to its own as we get.

Source: as `nn_shapes`: Section 4.1 (Algorithm 2, Eq. 11), 4.2.4 (partitioning), Section 6 (parameters, Table 8).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.methods.matvec_conv.baselines.imra import divisors, gamma
from cipherblas_bench.harness import Row
from cipherblas_bench.nn_shapes import KERNELS, Kernel, named

# The paper: N = 2^16, q_0 of 60 bits and a scale of 2^56 for each level. Primes below 2^50 give a scale of 2^49. Two of
# 35 bits at the bottom stand for q_0; they hold the sums of 25088 terms that Fhelipe makes, as large as these may be.
# Together 168 bits for two levels (the paper: 172), 266 for four (284).
RING_DEGREE = 1 << 16
BASE_BITS, LEVEL_BITS = (35.0, 35.0), 49.0
LIMBS_PER_DIGIT = 2  # the paper says nothing of its digits


def published_depth(kernel: Kernel, method: str) -> int:
    """Levels of the modulus: two, but four of Fhelipe's large convolutions (Section 6.1.1)."""
    return 4 if method == "fhelipe" and kernel.name.endswith("Large") else 2


def published_parameters(depth: int) -> Parameters:
    """A modulus of so many levels in the ring of the paper."""
    return make_parameters(
        RING_DEGREE,
        [*BASE_BITS, *[LEVEL_BITS] * depth],
        alpha=LIMBS_PER_DIGIT,
        scale_bits=LEVEL_BITS,
    )


@dataclass(frozen=True)
class Blocking:
    """A row of Table 8.

    Attributes:
        inputs, outputs: P_I, P_O: ciphertexts of the input and of the output.
        search: pairs (P_b, P_s) that are compared.
        p_b, p_s: superblocks; those side by side in a ciphertext.
        baby_steps: bs_opt, diagonals of a superblock times taps.
        rotations: by Eq. 11; where no pair is allowed, P_b of them twice for each pair of input and output, since no
            shift buffer fits, and K² for each input.
    """

    inputs: int
    outputs: int
    search: int
    p_b: int
    p_s: int
    baby_steps: int
    rotations: int


def blocking(kernel: Kernel) -> Blocking:
    """The best pattern by the paper's search: fewest rotations (Eq. 11), then most slots in use.

    Units are padded to powers of two. A pair is allowed where P_b divides n_d, P_s divides P_b and k_d·(P_s + 1) units
    fit the slots, or one superblock fills them, so that rotations wrap around by themselves. Where none is, as in the
    large convolutions, every diagonal is a superblock.
    """
    taps, area = 1, 1
    if kernel.window is not None:
        taps, area = math.prod(kernel.weight_shape[2:]), math.prod(kernel.input_shape[1:])
    most = 1 << (kernel.slots // area).bit_length() - 1  # units of a ciphertext
    n, k = (1 << (length - 1).bit_length() for length in kernel.weight_shape[:2])
    inputs, outputs = -(-k // most), -(-n // most)
    n, k = min(n, most), min(k, most)
    n_d, k_d = min(n, k), max(n, k)

    def fits(p_s: int) -> bool:
        return k_d * (p_s + 1) * area <= kernel.slots or (p_s == 1 and k_d * area == kernel.slots)

    pairs = [(p_b, p_s) for p_b in divisors(n_d) for p_s in divisors(p_b) if fits(p_s)]
    if not pairs:
        return Blocking(inputs, outputs, 1, n_d, 1, taps, 2 * inputs * outputs * n_d + taps * inputs)

    def cost(p_b: int, p_s: int) -> int:
        return gamma(k_d // k * (p_s + 1)) + n_d // p_b * taps - 1 + p_b // p_s - 1 + p_s - 1

    p_b, p_s = min(pairs, key=lambda pair: (cost(*pair), -pair[1]))
    return Blocking(inputs, outputs, len(pairs), p_b, p_s, n_d // p_b * taps, cost(p_b, p_s))


def run(names: Sequence[str] = ()) -> Iterator[Row]:
    """Rows of `bench nn --published`: one per kernel.

    Raises:
        ValueError: an unknown kernel.
    """
    for kernel in named(names, KERNELS):
        found, published = blocking(kernel), kernel.published["metakernel"]
        yield {
            "bench": "nn --published",
            "case": kernel.name,
            "params": {"n": 2 * kernel.slots},
            "algorithm": "metakernel",
            "rotations": found.rotations,
            "published_rotations": published.rotations,
            "published_in": f"{published.where}, Table 8",
            "input_ciphertexts": found.inputs,
            "output_ciphertexts": found.outputs,
            "search_size": found.search,
            "superblocks": found.p_b,
            "side_by_side": found.p_s,
            "baby_steps": found.baby_steps,
        }
