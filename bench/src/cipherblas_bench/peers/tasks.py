"""Tasks that a library (library.py) is given: each is one description, whatever library runs it.

``{"task": "stages", ...}``: E2DM stage by stage, see e2dm_stages.py. The others have one case, ``run``, the server's
work with all clear vectors encoded before:

- ``{"task": "vector", "d"}``: an encrypted vector times a clear d x d matrix by diagonals (Halevi, Shoup 2014) with
  baby-step/giant-step, hoisted where the library hoists. One level.
- ``{"task": "square", "d"}``: two encrypted d x d matrices by E2DM, U_sigma and U_tau by baby-step/giant-step, one
  relinearisation. Two levels, d a power of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from .e2dm_stages import Layout, Stages
from .library import Diagonals, Library
from .protocol import Case

Make = Callable[[dict[str, Any], set[int]], Library]
Giants = dict[int, Diagonals]


class Task:
    """One case, `run`, and its largest error against NumPy."""

    library: Library
    error: float

    @property
    def cases(self) -> dict[str, Case]:
        return {"run": self.run}

    def run(self) -> Any:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {**self.library.describe(), "slots": self.library.slots, "error": self.error}


def grouped(diagonals: Diagonals, unit: int, baby: int) -> Giants:
    """Diagonals by giant step, rotated back by it: giant -> baby -> vector. Steps are multiples of `unit`."""
    found: Giants = {}
    for step, vector in diagonals.items():
        inner = step // unit % baby * unit
        found.setdefault(step - inner, {})[inner] = numpy.roll(vector, step - inner)
    return found


def steps_of(*groups: Giants) -> set[int]:
    """Rotations that these need."""
    return {s for giants in groups for giant, inner in giants.items() for s in (giant, *inner) if s}


def encoded(library: Library, giants: Giants, level: int) -> Giants:
    plains = iter(library.encode([v for inner in giants.values() for v in inner.values()], level))
    return {giant: {step: next(plains) for step in inner} for giant, inner in giants.items()}


def transformed(library: Library, x: Any, giants: Giants) -> Any:
    """Sum over giants g and babies b of Rot_g(vector * Rot_b(x)), rescaled before the giant step: one limb fewer."""
    partial = library.transforms(x, list(giants.values()))
    total = None
    for giant, term in zip(giants, partial, strict=True):
        moved = library.rotations(term, [giant])[0]
        total = moved if total is None else library.add(total, moved)
    return total


class Vector(Task):
    """y = M x; x is repeated throughout the slots, so that every rotation is cyclic."""

    def __init__(self, request: dict[str, Any], make: Make) -> None:
        d, slots = int(request["d"]), int(request["n"]) // 2
        if slots % d:
            raise ValueError(f"d: expected a divisor of {slots} slots, got {d}")
        random = numpy.random.default_rng(int(request.get("seed", 1)))
        matrix, x = random.uniform(-1, 1, (d, d)), random.uniform(-1, 1, d)
        i = numpy.arange(d)
        diagonals = {k: numpy.tile(matrix[i, (i + k) % d], slots // d) for k in range(d)}
        giants = grouped(diagonals, 1, 1 << math.ceil(math.log2(d) / 2))
        self.library = make(request, steps_of(giants))
        self.giants = encoded(self.library, giants, 0)
        self.x = self.library.encrypt(self.library.encode_input(numpy.tile(x, slots // d)))
        found = self.library.decode(self.library.decrypt(self.run()))[:d]
        self.error = float(numpy.abs(found - matrix @ x).max())

    def run(self) -> Any:
        return transformed(self.library, self.x, self.giants)


class Square(Task):
    """C = A B, one ciphertext for each."""

    def __init__(self, request: dict[str, Any], make: Make) -> None:
        layout = Layout(int(request["d"]), int(request["n"]) // 2)
        if not layout.cyclic:
            raise ValueError(f"d: expected a power of two whose square fits the slots, got {layout.d}")
        d = layout.d
        baby = 1 << (d.bit_length() // 2)
        sigma, tau = grouped(layout.sigma(), 1, baby), grouped(layout.tau(), d, baby)
        self.layout = layout
        self.library = make(request, self._used(sigma, tau))
        self.sigma, self.tau = (encoded(self.library, giants, 0) for giants in (sigma, tau))
        shifts = [layout.shift_columns(k) for k in range(1, d)]
        plains = iter(self.library.encode([v for each in shifts for v in each.values()], 1))
        self.shifts: list[Diagonals] = [{step: next(plains) for step in each} for each in shifts]
        random = numpy.random.default_rng(int(request.get("seed", 1)))
        matrices = [random.uniform(-1, 1, (d, d)) for _ in range(2)]
        inputs = [self.library.encode_input(layout.packed(matrix)) for matrix in matrices]
        self.a, self.b = map(self.library.encrypt, inputs)
        found = layout.unpacked(self.library.decode(self.library.decrypt(self.run())))
        self.error = float(numpy.abs(found - matrices[0] @ matrices[1]).max())

    def _used(self, sigma: Giants, tau: Giants) -> set[int]:
        d = self.layout.d
        shifts = {step for k in range(1, d) for step in (k, k - d)}
        return steps_of(sigma, tau) | shifts | {step for step in self.layout.steps_w if step}

    def run(self) -> Any:
        library = self.library
        a = transformed(library, self.a, self.sigma)
        b = library.drop(transformed(library, self.b, self.tau))
        lefts = [library.drop(a), *library.transforms(a, self.shifts)]
        return library.products(lefts, library.rotations(b, self.layout.steps_w))


TASKS: dict[str, Callable[[dict[str, Any], Make], Any]] = {
    "stages": Stages,
    "vector": Vector,
    "square": Square,
}


def task(request: dict[str, Any], make: Make) -> Any:
    """The worker of a request."""
    return TASKS[str(request["task"])](request, make)
