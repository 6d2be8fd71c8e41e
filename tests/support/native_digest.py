"""Prints the instruction set and a digest of all that the core computes from fixed inputs: see test_native.py.

INSECURE toy sizes. Every kernel of the table is reached by one of these calls.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core

Words = NDArray[np.uint64]

n, limbs, special, alpha = 1 << 11, 5, 2, 2
q = _core.primes(n, 50, 1) + _core.primes(n, 40, limbs - 2) + _core.primes(n, 31, 1)
p = _core.primes(n, 49, special)
context = _core.Context(n, q, p, alpha)
generator = np.random.default_rng(1)
digest = hashlib.sha256()


def words(*shape: int) -> Words:
    return generator.integers(0, 2**64, shape, dtype=np.uint64)


def note(*arrays: NDArray) -> NDArray:
    """Add arrays to the digest; gives the first one back."""
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return arrays[0]


def uniform(index: list[int]) -> Words:
    return note(context.uniform(words(len(index), n + 128), index))


every = list(range(limbs + special))
digits = -(-limbs // alpha)
ternary = note(context.ternary(generator.integers(0, 256, n + 512, dtype=np.uint8)))
secret = note(context.plaintext(ternary, limbs, special=True))


def noise(rows: int) -> NDArray[np.int64]:
    return np.stack([context.gaussian(words(n)) for _ in range(rows)])


def key(source: Words) -> Words:
    a = np.stack([uniform(every) for _ in range(digits)])
    return note(context.switching_key(secret, source, a, note(noise(digits)), limbs))


def encrypt(scale: float = 2.0**38) -> Words:
    values = generator.uniform(-1, 1, n // 2) + 1j * generator.uniform(-1, 1, n // 2)
    message = note(context.encode(values, scale))
    a = uniform(every[:limbs])
    return np.stack([context.encrypt_symmetric(secret, a, noise(1)[0], message), a])


x, y = note(encrypt()), note(encrypt())
note(context.add(x, y), context.sub(x, y), context.neg(x), context.multiply_scalar(x, -3))
relinearisation = key(context.multiply(secret, secret))
product = note(context.relinearise(note(context.multiply_sum([x, y], [y, x])), relinearisation))
product = note(context.rescale(product))
elements = [context.galois_element(step) for step in (1, -3)]
keys = [key(context.automorphism(secret, element)) for element in elements]
masks = [context.encode(generator.uniform(-1, 1, n // 2).astype(complex), 2.0**40) for _ in range(3)]
terms = [(0, 0, 1, -1, 0), (0, 0, elements[0], 0, 1), (0, 0, elements[1], 1, 2), (1, 0, elements[1], 1, 0)]
for order in ("limb", "rotation"):
    note(*context.linear_transform([x], terms, keys, masks, 2, True, order))
weights = [note(context.factor(mask, limbs)) for mask in masks[:2]]
note(context.multiply_plain_sum(weights, [x, y]))
block = np.zeros((len(weights[0]), n // 128, 2, 128), np.uint32)
blocks = [note(context.write_weights(block.copy(), 0, masks[first : first + 2])) for first in (0, 1)]
note(
    *context.giant_steps(
        [x],
        [(1, -1), (elements[0], 0)],
        [(1, -1, [(0, 0), (1, 1)])],
        keys,
        [context.factor(mask, limbs, special=True) for mask in masks[:2]],
    )
)
for kind in (float, complex):  # symmetric or not, rounded to the nearest integers and by chance, of any size
    slots = generator.uniform(-1, 1, n // 2) + (0.5j if kind is complex else 0)
    for scale in (2.0**30, 2.0**55):
        messages = context.encode_all([slots, slots], scale, [0, 9])
        note(
            *messages,
            *[context.plaintext(message, limbs, special=True, montgomery=True) for message in messages],
        )
note(context.decode(generator.uniform(-1, 1, n)))
note(*context.weighted_sums(blocks, [[0, 1], [1, 0]], [x, y]))
note(context.phase(secret, x), context.phase(secret, product))
rows, d = 60, 64
row_a = np.stack([uniform([i] * rows) for i in range(limbs)])
row_b = np.ascontiguousarray(row_a[:, ::-1, :d])
for policy in ("fast", "light"):
    count = len(_core.transpose_plan(d, policy)[0])
    note(*context.transpose_rows(row_a, row_b, [keys[i % 2] for i in range(count)], policy))
some = row_a[:, :32].copy()
note(context.transpose_classes(some, d, 4, 3, False))
wide = np.ascontiguousarray(row_b[:, :32])
note(*context.transpose_blocks(some, wide, 4, [1, 3], [keys[i % 2] for i in range(count)], "light"))
note(*context.relinearise_rows(row_a, row_a, keys[0]), *context.switch_rows(row_a[:, 0], keys, 100))
print(_core.isa(), digest.hexdigest())
