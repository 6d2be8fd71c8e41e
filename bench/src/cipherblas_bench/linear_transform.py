"""The linear-transform executor in both orders, plain and baby-step/giant-step.

`limb`: limb outer, rotations inner, on-the-fly limbs (MO-HLT; FAME, Algorithm 3). `rotation`: coarse, every
rotated ciphertext goes through memory. Both compute the same sum over diagonals, bit for bit; the benchmark
checks that, times them in turns, and prints their ratio, the working memory that each was seen to use, what it was
seen to read from and write to memory (where there are hardware counters), and what FAME's cost model says of either.
"""

from __future__ import annotations

import functools
import gc
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas.crypto.params import Parameters
from cipherblas.planner.predict.caches import caches_here
from cipherblas.rlwe.fast_memory import FastMemory
from cipherblas_bench.counters import counting
from cipherblas_bench.harness import (
    Row,
    Timing,
    in_turns,
    local,
    params_fields,
    peak_memory,
    resident_bytes,
    row,
)
from cipherblas_bench.sets import FAME_SETS

ORDERS = ("limb", "rotation")


class Transform:
    """A random transform with `diagonals` diagonals, its keys and a ciphertext.

    With `baby_steps` b, diagonal g·b + i is applied as Rot_{g·b}(Σ_i u ⊙ Rot_i(x)): one call makes all the
    inner sums (rescaled), a second one rotates and adds them.
    """

    def __init__(self, params: Parameters, diagonals: int, baby_steps: int | None) -> None:
        from cipherblas.crypto import keys

        self.params, self.diagonals, self.context = params, diagonals, params.context()
        limbs, slots = params.limbs, params.slots
        self.baby_steps = diagonals if baby_steps is None else baby_steps
        self.giants = -(-diagonals // self.baby_steps)
        self.secret = keys.generate_secret(params)
        element = self.context.galois_element
        baby_elements = [element(step) for step in range(1, self.baby_steps)]
        giant_elements = [element(giant * self.baby_steps) for giant in range(1, self.giants)]
        # A giant step acts after the rescale: its key is made for one limb fewer.
        levels = dict.fromkeys(giant_elements, limbs - 1) | dict.fromkeys(baby_elements, limbs)
        evaluation = keys.make_evaluation_keys(self.secret, keys.KeyRequest.of_galois(levels))
        self.baby_keys = [evaluation.get(keys.Galois(g), limbs) for g in baby_elements]
        self.giant_keys = [evaluation.get(keys.Galois(g), limbs - 1) for g in giant_elements]
        self.key_bytes = sum(key.nbytes for key in (*self.baby_keys, *self.giant_keys))

        random = np.random.default_rng(2)
        self.values = random.uniform(-1, 1, slots)
        self.masks = random.uniform(-1, 1, (diagonals, slots))
        scale, mask_scale = 2.0**params.scale_bits, float(params.q[-1])
        self.scale = scale
        coefficients = self.context.encode(self.values.astype(np.complex128), scale)
        fresh = keys.encrypt(self.secret, coefficients, limbs)
        self.upload_bytes, self.source = fresh.nbytes, fresh.expand()
        self.plaintexts = [
            self.context.plaintext(
                self.context.encode(np.roll(mask, t - t % self.baby_steps).astype(np.complex128), mask_scale),
                limbs,
                special=True,
                montgomery=True,
            )
            for t, mask in enumerate(self.masks)
        ]
        # (output, source, Galois element, key, plaintext)
        self.inner = [
            (t // self.baby_steps, 0, element(t % self.baby_steps), t % self.baby_steps - 1, t)
            for t in range(diagonals)
        ]
        self.outer = [
            (0, giant, element(giant * self.baby_steps), giant - 1, -1) for giant in range(self.giants)
        ]

    @property
    def rotations(self) -> int:
        """Of one run, each by a key of its own: baby steps are shared by all giant steps."""
        return len(self.baby_keys) + len(self.giant_keys)

    def run(self, order: str) -> Any:
        """The transform, rescaled: one ciphertext."""
        sums = self.context.linear_transform(
            [self.source], self.inner, self.baby_keys, self.plaintexts, self.giants, True, order
        )
        if self.giants == 1:
            return sums[0]
        return self.context.linear_transform(sums, self.outer, self.giant_keys, [], 1, False, order)[0]

    def error(self, result: Any) -> float:
        """Largest difference from NumPy over all slots."""
        from cipherblas.crypto import keys

        found = self.context.decode(keys.decrypt_coefficients(self.secret, result)).real / self.scale
        expected = sum(mask * np.roll(self.values, -t) for t, mask in enumerate(self.masks))
        return float(np.abs(found - expected).max())


def run(
    *,
    sets: Sequence[str] = ("A", "B", "C"),
    threads: int = 1,
    budget: float = 1.0,
    diagonals: int | None = None,
) -> Iterator[Row]:
    """Rows of `bench linear-transform`: each set, plain and with baby steps, in both orders.

    Fields beyond the common ones: `order`, `baby_steps`, `coarse_over_limb` (seconds of the coarse order over
    seconds of this one), `working_bytes` (resident memory added while running), `missed_bytes` (cache lines that came
    from memory, by hardware counters); and by the model `fame_fast_bytes` (what must stay in fast memory),
    `cache_bytes` (the largest cache), `model_bytes` (traffic with as much fast memory, of a transform without baby
    steps).

    Raises:
        ValueError: an unknown set.
    """
    import cipherblas._core as _core

    unknown = sorted(set(sets) - set(FAME_SETS))
    if unknown:
        raise ValueError(f"sets: expected some of {', '.join(FAME_SETS)}, got {', '.join(unknown)}")
    _core.set_threads(threads)
    for name in sets:
        member = FAME_SETS[name]
        params = member.parameters()
        count = diagonals or member.diagonals
        for baby_steps in (None, 1 << math.ceil(math.log2(count) / 2)):
            yield from _rows(name, Transform(params, count, baby_steps), threads, budget)
            gc.collect()
            _core.trim_pool()


def _rows(name: str, transform: Transform, threads: int, budget: float) -> Iterator[Row]:
    import cipherblas._core as _core

    params = transform.params
    results, working, missed = {}, {}, {}
    for order in ORDERS:
        _core.trim_pool()
        before = resident_bytes()
        with peak_memory() as peak, counting() as misses:
            results[order] = transform.run(order)
        missed[order] = misses.nbytes
        working[order] = peak.bytes, max(0, peak.bytes - before)
    if not np.array_equal(results["limb"], results["rotation"]):
        raise AssertionError("the two orders of the executor differ")
    error = transform.error(results["limb"])
    results.clear()
    runs = in_turns([local(functools.partial(transform.run, order)) for order in ORDERS], budget=budget)
    timings = {order: Timing.of(found) for order, found in zip(ORDERS, runs, strict=True)}
    model = FastMemory.of(params.n, params.limbs, params.special_limbs, params.dnum)
    plain = transform.giants == 1
    fast = max((cache.nbytes for cache in caches_here()), default=None)
    rotations, diagonals = transform.rotations, transform.diagonals
    for order in ORDERS:
        yield row(
            "linear-transform",
            f"set {name}, {transform.diagonals} diagonals" + ("" if plain else ", baby steps"),
            params=params_fields(params),
            algorithm="MO-HLT (limb outer)" if order == "limb" else "coarse (rotation outer)",
            threads=threads,
            timing=timings[order],
            error=error,
            rotations=transform.rotations,
            products=transform.diagonals,
            key_bytes=transform.key_bytes,
            upload_bytes=transform.upload_bytes,
            peak_bytes=working[order][0],
            order=order,
            baby_steps=None if plain else transform.baby_steps,
            coarse_over_limb=timings["rotation"].seconds / timings["limb"].seconds,
            working_bytes=working[order][1],
            missed_bytes=missed[order],
            fame_fast_bytes=round(model.needed(order)),
            cache_bytes=fast,
            model_bytes=round(model.traffic(fast, order, rotations, diagonals)) if plain and fast else None,
        )
