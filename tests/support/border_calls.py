"""One valid call of every function of the core: what `test_border` changes, argument by argument. INSECURE toy ring.

Those that engines make come from the cases of their calls (`core_calls`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import cipherblas._core as _core
from cipherblas.crypto.fields import OPERAND_MODULI
from cipherblas.crypto.params import Parameters
from tests.support.core_calls import core_calls
from tests.support.ring_oracle import Ring

Array = np.ndarray[Any, np.dtype[Any]]

RING = Ring(n=128, special=2, alpha=2)
C = RING.context
N, Q, K = C.n, C.num_q, C.num_p
ALL = Q + K
GENERATOR = np.random.default_rng(1)
PRIME = RING.moduli[0]
OPERANDS = OPERAND_MODULI[:9]


def words(*shape: int) -> Array:
    return GENERATOR.integers(0, 1 << 63, shape, dtype=np.uint64)


def limbs(rows: int, *shape: int) -> Array:
    """Residues; the first dimension runs over the primes."""
    return np.stack([GENERATOR.integers(0, RING.moduli[i], shape, dtype=np.uint64) for i in range(rows)])


def polynomials(count: int, rows: int) -> Array:
    return np.stack([limbs(rows, N) for _ in range(count)])


def below(bound: int, *shape: int, dtype: Any = np.uint64) -> Array:
    return GENERATOR.integers(0, bound, shape, dtype=dtype)


def operands(rows: int, cols: int) -> Array:
    """Words of residues modulo nine moduli of operands."""
    drawn = words(rows * cols, 2)
    parts = [_core.uniform_operands(drawn, list(OPERANDS), word) for word in range(2)]
    return np.stack([np.asarray(part).reshape(rows, cols) for part in parts])


@dataclass
class Call:
    """Valid arguments of a function, by name."""

    arguments: dict[str, Any]
    context: bool = True


CT, CT3 = RING.random_ciphertext(3), RING.random_ciphertext(3, 3)
KEY = RING.random_key(3)
BLOCK = C.write_weights(
    np.zeros((len(C.factor(RING.small(), 3)), 2, 2, 64), np.uint32), 0, [RING.small()] * 2
)
ELEMENTS = _core.transpose_plan(8, "fast")[0]
ROW_KEYS = [KEY] * len(ELEMENTS)


def free(*arguments: Any, **named: Any) -> Call:
    return Call(*arguments, context=False, **named)


BY_HAND: dict[str, Call] = {
    "primes": free({"n": 128, "bits": 40, "count": 2, "exclude": [97]}),
    "primes_near": free({"n": 128, "target": 2.0**40, "count": 2, "exclude": [97]}),
    "isa": free({}),
    "isas": free({}),
    "set_threads": free({"count": _core.threads()}),
    "set_ask": free({"ask": None}),
    "threads": free({}),
    "count_kernels": free({"on": False}),
    "kernel_counts": free({}),
    "cpu_quota": free({"root": "/"}),
    "processors": free({"root": "/"}),
    "total_memory": free({"root": "/"}),
    "available_memory": free({"root": "/"}),
    "empty": free({"bytes": 64}),
    "pool_bytes": free({}),
    "trim_pool": free({}),
    "modular_gemm": free(
        {"a": below(PRIME, 5, 7), "b": below(PRIME, 7, 9), "modulus": PRIME, "path": "auto", "out": below(PRIME, 5, 9)}
    ),
    "small_gemm": free(
        {
            "u": below(1000, 5, 7, dtype=np.int32) - np.int32(500),
            "b": below(PRIME, 7, 9),
            "modulus": PRIME,
            "path": "auto",
            "out": below(PRIME, 5, 9),
            "accumulate": True,
        }
    ),
    "small_gemm_error": free({"k": 3, "max_u": 5, "modulus": PRIME}),
    "small_gemm_rms": free({"k": 3, "max_u": 5.0, "modulus": float(PRIME)}),
    "uniform_operands": free({"random": words(5, 2), "moduli": list(OPERANDS), "word": 1}),
    "are_operands": free({"words": operands(3, 5)[1], "moduli": list(OPERANDS), "word": 1}),
    "double_gemm": free({"a": GENERATOR.random((5, 7)), "b": GENERATOR.random((7, 9)), "out": np.ones((5, 9))}),
    "transpose_steps": free({"d": 8, "policy": "light", "parts": 2, "blocks": [1]}),
    "inverse_blocks": free({"parts": 8}),
    "transpose_plan": free({"d": 8, "policy": "fast"}),
    "Context": free({"n": 128, "q": RING.moduli[:3], "p": RING.moduli[Q:], "alpha": 2, "digit_limbs": [1, 2]}),
    "encode": Call({"values": GENERATOR.random(N // 2) + 1j, "scale": 2.0**30, "dither": 5}),
    "encode_all": Call(
        {
            "values": [GENERATOR.random(N // 2) + 1j, GENERATOR.random(N // 2) + 0j],
            "scale": 2.0**30,
            "dithers": [0, 5],
        }
    ),
    "write_weights": Call({"out": BLOCK.copy(), "first": 1, "messages": [RING.small()]}),
    "factor": Call({"coefficients": RING.small() * (np.arange(N) % 8 == 0), "limbs": 3, "special": True, "repeats": 8}),
    "decode": Call({"coefficients": GENERATOR.random(N)}),
    "plaintext": Call({"coefficients": RING.small(), "limbs": 3, "special": True, "montgomery": True}),
    "uniform": Call({"words": words(2, N + 128), "moduli_index": [0, 6]}),
    "expand": Call({"b": limbs(3, N), "words": words(3, N + 128), "factor": -(3**90), "out": CT.copy()}),
    "ternary": Call({"bytes": below(256, N + 300, dtype=np.uint8)}),
    "gaussian": Call({"words": words(N)}),
    "encrypt_symmetric": Call(
        {
            "secret": RING.secret,
            "a": limbs(3, N),
            "noise": RING.small(),
            "message": RING.small(),
            "factor": 3**90,
        }
    ),
    "encrypt_public": Call(
        {
            "public_key": CT,
            "v": RING.small(),
            "e0": RING.small(),
            "e1": RING.small(),
            "message": RING.small(),
            "limbs": 2,
            "factor": 3**90,
        }
    ),
    "phase": Call({"secret": RING.secret, "ciphertext": CT3}),
    "switching_key": Call(
        {
            "secret": RING.secret,
            "source": RING.secret,
            "a": np.stack([limbs(3 + K, N) for _ in range(2)]),
            "noise": np.stack([RING.small(), RING.small()]),
            "limbs": 3,
        }
    ),
    "pack_key": Call({"limbs": limbs(3 + K, N)}),
    "unpack_key": Call({"words": KEY[0, 0]}),
    "automorphism": Call({"poly": limbs(3, N), "galois": 5}),
    "multiply": Call({"x": limbs(ALL, N), "y": limbs(ALL, N)}),
    "encrypt_rows": Call(
        {
            "secrets": polynomials(2, ALL),
            "a": limbs(2, 3, N),
            "noise_words": words(3, N + 5),
            "matrix": GENERATOR.random((3, N + 5)),
            "scale": 1000.0,
            "dither": 5,
            "shared": False,
        }
    ),
    "encrypt_operand_rows": Call(
        {
            "secret": polynomials(1, ALL),
            "a": operands(3, N),
            "noise_words": words(3, 20),
            "matrix": GENERATOR.random((3, 20)),
            "scale": 1000.0,
            "dither": 5,
            "moduli": list(OPERANDS),
        }
    ),
    "encrypt_operand_integers": Call(
        {
            "secret": polynomials(1, ALL),
            "a": operands(3, N),
            "noise_words": words(3, 20),
            "matrix": GENERATOR.integers(-100, 100, (3, 20)),
            "message_factors": [3] * len(OPERANDS),
            "error_factors": [7] * len(OPERANDS),
            "moduli": list(OPERANDS),
        }
    ),
    "multiply_operands": Call({"x": operands(3, 5), "y": operands(5, 4), "moduli": list(OPERANDS), "limbs": 2}),
    "gram_operands": Call({"x": operands(3, 5), "moduli": list(OPERANDS), "limbs": 1, "least": 2}),
    "encrypt_rows_public": Call(
        {
            "public_key": CT,
            "ternary_bytes": below(255, 3, N + 300, dtype=np.uint8),
            "e0_words": words(3, 20),
            "e1_words": words(3, N),
            "matrix": GENERATOR.random((3, 20)),
            "scale": 1000.0,
            "dither": 5,
            "limbs": 2,
        }
    ),
    "decrypt_rows": Call(
        {
            "secrets": polynomials(3, 3),
            "a": limbs(3, 1, N),
            "b": limbs(3, 3, 20),
            "scale": 3.0,
            "shared": True,
        }
    ),
    "encode_rows": Call({"coefficients": np.stack([RING.small()] * 3), "limbs": 2, "special": True}),
    "rows_to_ntt": Call({"x": limbs(3, 2, N)}),
    "scale_limbs": Call({"x": limbs(3, 2, 5), "factor": -(3**90)}),
    "multiply_plain": Call({"ct": CT, "pt_montgomery": limbs(3, N)}),
    "scaled_sums": Call({"sums": [([CT, C.neg(CT)], [-(3**90), 5], 7**80), ([CT], [1], 0)]}),
    "multiply_sum": Call({"lefts": [CT, RING.random_ciphertext(3)], "rights": [CT, CT], "accumulator": C.neg(CT3)}),
    "weighted_sums": Call({"blocks": [BLOCK, BLOCK[:, :, :1].copy()], "terms": [[0, 1], [1]], "cts": [CT, C.neg(CT)]}),
    "multiply_plain_sum": Call(
        {"plaintexts": [C.factor(RING.small(), 3)] * 2, "cts": [CT, CT], "accumulator": C.neg(CT)}
    ),
    "rescale": Call({"ct": CT3, "count": 1}),
    "drop": Call({"ct": CT3, "limbs": 2}),
    "galois_element": Call({"step": 3}),
    "giant_steps": Call(
        {
            "sources": [CT, C.neg(CT)],
            "babies": [(5, 0), (1, -1)],
            "keys": [KEY],
            "giants": [(1, -1, [(0, 0), (1, 0)]), (5, 0, [(1, 0)])],
            "plaintexts": [C.factor(RING.small(), 3, special=True)],
        }
    ),
    "coefficient_parts": Call(
        {"sources": [CT, C.neg(CT)], "level": 1, "parts": 4, "outputs": 3, "keys": [KEY] * 3}
    ),
    "linear_transform": Call(
        {
            "sources": [CT, C.neg(CT)],
            "terms": [(0, 0, 5, 0, 0), (0, 1, 1, -1, 1)],
            "keys": [KEY],
            "plaintexts": [RING.small(), C.plaintext(RING.small(), 3, special=True, montgomery=True)],
            "outputs": 2,
            "rescale": True,
            "order": "limb",
            "divide": True,
        }
    ),
    "divide_sums": Call({"sums": [limbs(2, 4, N), limbs(2, 4, N)], "rescale": True}),
    "transpose_rows": Call({"a": limbs(3, 5, N), "b": limbs(3, 5, 8), "keys": ROW_KEYS, "policy": "fast"}),
    "transpose_classes": Call({"x": limbs(3, 4, N), "d": N, "parts": 2, "first": 3, "inverse": False}),
    "transpose_blocks": Call(
        {
            "a": limbs(3, 4, N),
            "b": limbs(3, 4, 8),
            "parts": 2,
            "blocks": [1],
            "keys": ROW_KEYS,
            "policy": "fast",
        }
    ),
}  # fmt: skip
# What the engine of the processor passes on in the cases of its calls; above stands what no engine calls, what takes
# more arguments than an engine passes, or what tests change together.
PARAMETERS = Parameters(*(N, tuple(RING.moduli[:Q]), tuple(RING.moduli[Q:]), C.alpha, 30.0, 0), insecure=True)
CALLS: dict[str, Call] = {
    **{name: Call(given, name in dir(C)) for name, given in core_calls(PARAMETERS).items()},
    **BY_HAND,
}
# register_blas takes addresses of functions and calls them: there is nothing to try.
WITHOUT = {"register_blas"}
PROPERTIES = {"n", "slots", "num_q", "num_p", "alpha", "moduli"}
