"""The policy of the plaintexts of a ring."""

from __future__ import annotations

import functools

from cipherblas.evaluators.policy.approximate import ApproximatePolicy
from cipherblas.evaluators.policy.interface import PlaintextPolicy
from cipherblas.evaluators.policy.modular import ModularPolicy
from cipherblas.rlwe.rings import Ring


@functools.lru_cache(maxsize=64)
def policy_of(ring: Ring, level_limbs: int | None = None) -> PlaintextPolicy:
    """The policy of the kind of plaintexts that a ring is for; see `PlaintextPolicy`. Evaluators on one ring share it:
    it remembers what its rules find."""
    if ring.plain_modulus is not None:
        return ModularPolicy(ring, level_limbs)
    return ApproximatePolicy(ring, level_limbs)
