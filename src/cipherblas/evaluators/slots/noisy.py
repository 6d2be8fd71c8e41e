"""`Noisy`: `Clear` with errors of rescaling and relinearisation, drawn as the noise model has them.

What an algorithm makes of its own errors can be looked at with it, where following bounds says too little: where errors
cancel, or where what they are multiplied by is known to be small for most arguments.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.values import Ct
from cipherblas.rlwe.noise import NoiseModel
from cipherblas.rlwe.rings import Ring


class _Normal:
    """Normally distributed numbers of deviation 1, of so many slots at a time, made once for all evaluators."""

    def __init__(self, seed: int, slots: int) -> None:
        self._random, self._slots, self._lock = np.random.default_rng(seed), slots, threading.Lock()
        self._made: list[NDArray[np.float64]] = []

    def __getitem__(self, index: int) -> NDArray[np.float64]:
        with self._lock:
            while len(self._made) <= index:
                self._made.append(self._random.standard_normal(self._slots))
            return self._made[index]


_normal = functools.lru_cache(maxsize=2)(_Normal)  # some MB each


class Noisy(Clear):
    """Real slots with Gaussian errors of the deviations that the model states.

    Args:
        seed: of the generator: equal ones give equal errors.
    """

    def __init__(self, ring: Ring, seed: int = 0, **options: Any) -> None:
        super().__init__(ring, **options)
        self._normal, self._drawn = _normal(seed, self.slots), 0
        self._model = NoiseModel(ring)

    def _with_error(self, ct: Ct, deviation: float) -> Ct:
        ct.data = ct.data + deviation * self._normal[self._drawn]
        self._drawn += 1
        return ct

    def rescale(self, ct: Ct) -> Ct:
        """As `Evaluator.rescale`."""
        result = super().rescale(ct)
        return self._with_error(result, self._model.rounding(result.scale, ct.components))

    def relinearise(self, ct: Ct) -> Ct:
        """As `Evaluator.relinearise`."""
        result = super().relinearise(ct)
        return result if result is ct else self._with_error(result, self._switched(result))

    def multiply_relinearised(self, x: Ct, y: Ct) -> Ct:
        """As `Evaluator.multiply_relinearised`."""
        result = super().multiply_relinearised(x, y)
        return self._with_error(result, self._switched(result))

    def relinearised_sums(
        self, lefts: Sequence[Sequence[Ct]], rights: Sequence[Sequence[Ct]], bound: float = math.inf
    ) -> list[list[Ct]]:
        """As `Evaluator.relinearised_sums`."""
        results = super().relinearised_sums(lefts, rights, bound)
        return [[self._with_error(ct, self._switched(ct)) for ct in own] for own in results]

    def multiply_rescaled(
        self,
        x: Ct,
        y: Ct,
        value: float,
        scale: float,
        added: tuple[Ct, float] | None = None,
        constant: float = 0.0,
    ) -> Ct:
        """As `Evaluator.multiply_rescaled`."""
        result = super().multiply_rescaled(x, y, value, scale, added, constant)
        limbs = result.limbs + self.level_limbs
        switched = abs(value) * self._model.key_switch(limbs, self.policy.product(x.scale, y.scale))
        return self._with_error(result, math.hypot(switched, self._model.rounding(result.scale)))

    def relinearise_rescaled(self, ct: Ct) -> Ct:
        """As `Evaluator.relinearise_rescaled`."""
        result = super().relinearise_rescaled(ct)
        if ct.components == 2:
            return result  # `rescale` made an error
        switched = self._model.key_switch(ct.limbs, ct.scale)
        return self._with_error(result, math.hypot(switched, self._model.rounding(result.scale)))

    def _switched(self, ct: Ct) -> float:
        model = self._model
        return math.hypot(model.key_switch(ct.limbs, ct.scale), model.rounding(ct.scale))
