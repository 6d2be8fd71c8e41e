"""Evaluation keys without a secret, for tests that look at what runs and not at what comes out."""

from __future__ import annotations

import numpy as np

from cipherblas.crypto.keys import EvaluationKeys, KeyRequest
from cipherblas.crypto.keys.switching import SwitchingKey, shape_of
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.randomness import SEED_BYTES


def zero_keys(params: Parameters, request: KeyRequest) -> EvaluationKeys:
    """Keys of zeros, all that are asked for."""
    keys = [
        SwitchingKey(key, limbs, bytes(SEED_BYTES), np.zeros(shape_of(params, key, limbs), np.uint64))
        for key, limbs in request.in_order().items()
    ]
    return EvaluationKeys(params, "", keys)
