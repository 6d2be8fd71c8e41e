"""All libraries that install by pip, side by side: products and primitives, each in its own environment and process.

- An encrypted vector times a clear matrix, 256 and 1024: by diagonals on SEAL and OpenFHE (peers/tasks.py), by their
  own products on TenSEAL and OpenFHE-NumPy.
- Two encrypted matrices, 32 and 64: by E2DM on SEAL and OpenFHE, by their own products on the others.
- Primitives at N = 2^13 with four limbs, as in `bench primitives`.

Each library has parameters of 128 bits of security that fit the task, read back from what it built. Seconds are those
of the server, clear operands encoded before where the library can do that (TenSEAL encodes in every call). All of one
case run in turns. A library that does not install, or cannot do a case, has a row that says why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas_bench import cc, primitives
from cipherblas_bench.harness import Row, Side, Timing, in_turns, local, params_fields, row
from cipherblas_bench.peers import Peer, PeerError, build_of
from cipherblas_bench.peers.environments import PACKAGES, environment
from cipherblas_bench.products import SERVER_TIME, Case, SecretCase
from cipherblas_bench.sets import Shape

LIMIT = 60.0  # seconds of one run, beyond which it is predicted
TOLERANCE = 1e-3  # of an entry, relative to the length of the inner products
VECTORS, SQUARES = (256, 1024), (32, 64)
PRIMITIVES = ("encode", "encrypt", "decrypt", "rotate", "multiply", "rescale")
SETTING = primitives.SETTINGS[0]
_SEAL2 = {"n": 8192, "q_bits": [50, 38], "special_bits": 50, "scale_bits": 38}
_SEAL4 = {"n": 8192, "q_bits": [50, 38, 38, 38], "special_bits": 50, "scale_bits": 38}
_OPENFHE2 = {"n": 8192, "q_bits": [46, 37], "scale_bits": 37}
_OPENFHE4 = {"n": 8192, "q_bits": [46, 37, 37, 37], "scale_bits": 37}
_TENSEAL = {"n": 8192, "bits": [60, 40, 60], "scale_bits": 40}
_NUMPY = {"first_bits": 50, "scaling_bits": 40}


@dataclass(frozen=True)
class Way:
    """How a library does one kind of case.

    Attributes:
        worker: of `peers.process.WORKERS`.
        request: of its parameters.
        title: what it does, for the table.
        probe: (d, power): a run at this d says how long others take, by that power of d.
    """

    worker: str
    request: Mapping[str, Any]
    title: str
    probe: tuple[int, int] | None = None


_OPENFHE_PRIMITIVES = Way("openfhe", SETTING.openfhe(), "OpenFHE")
WAYS: Mapping[str, Mapping[str, Way]] = {
    "tenseal": {
        "vector": Way("tenseal", _TENSEAL, "CKKSVector.mm"),
        "square": Way("tenseal", _TENSEAL, "CKKSTensor.mm, a ciphertext per entry", probe=(4, 3)),
        "primitives": Way(
            "tenseal", {"task": "primitives", "n": SETTING.n, "bits": [40] * 5, "scale_bits": 40}, "its SEAL"
        ),
    },
    "seal": {
        "vector": Way("seal-tasks", _SEAL2, "diagonals, baby steps"),
        "square": Way("seal-tasks", _SEAL4, "E2DM, baby steps"),
        "primitives": Way("seal", SETTING.seal(), "SEAL"),
    },
    "openfhe": {
        "vector": Way("openfhe-tasks", _OPENFHE2, "diagonals, baby steps, hoisted"),
        "square": Way("openfhe-tasks", _OPENFHE4, "E2DM, baby steps, hoisted"),
        "primitives": _OPENFHE_PRIMITIVES,
    },
    "openfhe-numpy": {
        "vector": Way("openfhe-numpy", {**_NUMPY, "depth": 2}, "matrix @ vector"),
        "square": Way("openfhe-numpy", {**_NUMPY, "depth": 3}, "A @ B"),
        "primitives": _OPENFHE_PRIMITIVES,
    },
}


@dataclass
class Found:
    """A library that is there."""

    name: str
    python: str
    build: Mapping[str, Any] = field(default_factory=dict)


class VectorCase(Case):
    """A clear matrix, a constant of the program, times an encrypted vector."""

    @classmethod
    def compile(cls, shape: Shape, options: dict[str, Any]) -> Any:
        from cipherblas.lang.functions import matvec
        from cipherblas.lang.operands import secret
        from cipherblas.roles.program import compile as compile_program

        weights, x = cls.factors(shape, np.random.default_rng(1))
        return compile_program(
            lambda b: matvec(weights, b), {"b": secret(len(x))}, **{**SERVER_TIME, **options}
        )

    @staticmethod
    def factors(shape: Shape, random: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        m, k, _ = shape
        return random.uniform(-1, 1, (m, k)), random.uniform(-1, 1, k)

    def encrypted(self) -> dict[str, Any]:
        return dict(self.client.encrypt({"b": self.right}))


def run(
    *,
    libraries: Sequence[str] = tuple(WAYS),
    folder: Path,
    pythons: Mapping[str, str] | None = None,
    vectors: Sequence[int] = VECTORS,
    squares: Sequence[int] = SQUARES,
    cases: Sequence[str] = PRIMITIVES,
    limit: float = LIMIT,
    threads: int = 1,
    budget: float = 2.0,
) -> Iterator[Row]:
    """Rows of `bench peers`: what is installed, then for each case one row per library, ours first.

    Args:
        libraries: some of `WAYS`.
        folder: where their environments are kept, and made by pip where they are not there yet.
        pythons: library → interpreter that has it, instead.
        vectors: d of an encrypted vector times a clear d × d matrix.
        squares: d of two encrypted d × d matrices, powers of two up to 64.
        cases: some of `PRIMITIVES`.
        limit: seconds beyond which a run is predicted, where that can be told beforehand.
        threads: of all of them.
        budget: seconds spent on each library and case.

    Raises:
        ValueError: an unknown library or primitive. PeerError: a result is wrong.
    """
    import cipherblas._core as _core

    for what, asked, known in (("library", libraries, tuple(WAYS)), ("primitive", cases, PRIMITIVES)):
        unknown = sorted(set(asked) - set(known))
        if unknown:
            raise ValueError(f"{what}: expected some of {', '.join(known)}, got {', '.join(unknown)}")
    _core.set_threads(threads)
    there: list[Found] = []
    for name in libraries:
        found, installed = _installed(name, (pythons or {}).get(name), folder)
        there += [found] if found is not None else []
        yield installed
    kinds: list[tuple[str, int, Callable[[dict[str, Any]], Case]]] = [
        *(("vector", d, functools.partial(VectorCase, (d, d, 1))) for d in vectors),
        *(("square", d, functools.partial(SecretCase, (d, d, d))) for d in squares),
    ]
    for kind, d, make in kinds:
        yield from _products(kind, d, make, there, limit, threads, budget)
        _core.trim_pool()
    if cases:
        yield from _primitives(cases, there, threads, budget)


def _installed(name: str, python: str | None, folder: Path) -> tuple[Found | None, Row]:
    """The library, if it is there, and the row that says so or why not."""
    reason = ""
    if python is None:
        made = environment(name, folder)
        python, reason = made.python, made.reason
    module = PACKAGES[name].imports.rpartition(" ")[2]
    if python is not None:
        try:
            found = Found(name, python, build_of(module, python=python))
            said = {"build": found.build, "note": _said(found.build)}
            return found, row("peers", "installed", algorithm=name, **said)
        except PeerError as error:
            reason = str(error)
    return None, row("peers", "installed", algorithm=name, skipped=reason, note=f"not installed: {reason}")


def _said(build: Mapping[str, Any]) -> str:
    sets = build["instruction_sets"]
    code = "unknown without objdump" if sets is None else ", ".join(sets) or "the x86-64 baseline alone"
    return f"{build['distribution']}, CPython {build['python']}, {', '.join(build['wheel'])}; code: {code}"


def _products(
    kind: str,
    d: int,
    make: Callable[[dict[str, Any]], Case],
    there: Sequence[Found],
    limit: float,
    threads: int,
    budget: float,
) -> Iterator[Row]:
    """Ours (of two matrices also with one ciphertext for each, as the others have), then the others."""
    name = f"{d}x{d} · vector of {d}" if kind == "vector" else f"{d}x{d}x{d}"
    options: dict[str, Any] = {"threads": threads}
    every = [options, *([cc.one_ciphertext_options((d, d, d), options)] if kind == "square" else [])]
    ours = [make(each) for each in every]
    checks = [one.check() for one in ours]
    running: list[tuple[Found, Way, Peer]] = []
    others: list[Row] = []
    with ExitStack() as stack:
        for found in there:
            way = WAYS[found.name][kind]
            try:
                predicted = _predicted(found, way, kind, d, limit, threads)
                if predicted is not None:
                    others.append(_row(name, found, way, threads, **predicted))
                    continue
                setup = {"task": kind, "d": d, **way.request}
                peer = stack.enter_context(Peer(way.worker, setup, python=found.python, threads=threads))
            except PeerError as refused:
                others.append(_row(name, found, way, threads, skipped=str(refused), note=str(refused)))
                continue
            _check(peer, d)
            running.append((found, way, peer))
        sides: list[Side] = [*(one.side for one in ours)]
        sides += [functools.partial(peer.measure, "run") for *_, peer in running]
        timings = [Timing.of(runs) for runs in in_turns(sides, budget=budget)]
    for one, (error, peak_bytes), timing, given in zip(ours, checks, timings, every, strict=False):
        yield _ours(name, one, error, peak_bytes, timing, threads, given is not options)
    fastest = min(timing.seconds for timing in timings[: len(ours)])
    for (found, way, peer), timing in zip(running, timings[len(ours) :], strict=True):
        others.append(_measured(name, found, way, peer, timing, fastest, threads))
    order = [found.name for found in there]
    yield from sorted(others, key=lambda other: order.index(other["library"]))
    for one in ours:
        one.drop()


def _predicted(
    found: Found, way: Way, kind: str, d: int, limit: float, threads: int
) -> dict[str, Any] | None:
    """Fields of a row that is not measured, where a smaller run says that it would take too long."""
    if way.probe is None:
        return None
    small, power = way.probe
    with Peer(
        way.worker, {"task": kind, "d": small, **way.request}, python=found.python, threads=threads
    ) as peer:
        _check(peer, small)
        seconds = min(peer.measure("run", 3)) * (d / small) ** power
    if seconds <= limit:
        return None
    note = f"predicted, not run: {power}rd power of d, from d = {small}; longer than {limit:g} s"
    return {"predicted_seconds": seconds, "estimated": True, "note": note}


def _check(peer: Peer, d: int) -> None:
    if not peer.ready["error"] <= TOLERANCE * d:
        raise PeerError(
            f"the result of {peer.ready['peer']} at d = {d}: expected an error of at most {TOLERANCE * d:.2g}, "
            f"got {peer.ready['error']:.2g}"
        )


def _ours(
    name: str, case: Case, error: float, peak_bytes: int, timing: Timing, threads: int, one_ciphertext: bool
) -> Row:
    plan, counts = case.program.plan, case.server.last.counts
    return row(
        "peers",
        name,
        params=params_fields(plan.parameters),
        algorithm=plan.algorithm + (", one ciphertext per operand" if one_ciphertext else ""),
        threads=threads,
        timing=timing,
        error=error,
        rotations=counts.rotations,
        products=counts.products or counts.plain_products,
        key_bytes=plan.key_bytes,
        upload_bytes=case.upload_bytes,
        peak_bytes=peak_bytes,
        library="cipherblas",
        one_ciphertext=one_ciphertext or None,
    )


def _row(name: str, found: Found, way: Way, threads: int, **fields: Any) -> Row:
    return row(
        "peers", name, algorithm=f"{found.name}: {way.title}", threads=threads, library=found.name, **fields
    )


def _measured(
    name: str, found: Found, way: Way, peer: Peer, timing: Timing, fastest: float, threads: int
) -> Row:
    ready = peer.ready
    return _row(
        name,
        found,
        way,
        threads,
        params={
            "n": ready["n"],
            "logq": ready["logq"],
            "logp": ready["logp"],
            "limbs": ready["limbs"],
            "dnum": ready["digits"],
        },
        timing=timing,
        error=ready["error"],
        key_bytes=ready.get("key_bytes"),
        peak_bytes=ready["peak_bytes"],
        times_ours=timing.seconds / fastest,
    )


def _primitives(cases: Sequence[str], there: Sequence[Found], threads: int, budget: float) -> Iterator[Row]:
    """Ours and the others at equal ring degree, limbs and digits."""
    ours = primitives.Primitives(SETTING.parameters())
    with ExitStack() as stack:
        running = []
        for found in there:
            way = WAYS[found.name]["primitives"]
            try:
                peer = stack.enter_context(
                    Peer(way.worker, dict(way.request), python=found.python, threads=threads)
                )
                primitives.check_equal(SETTING, peer)
            except PeerError as error:
                yield _row("primitives", found, way, threads, skipped=str(error), note=str(error))
                continue
            running.append((found, way, peer))
        for case in cases:
            sides: list[Side] = [local(ours.cases[case])]
            sides += [functools.partial(peer.measure, case) for *_, peer in running]
            first, *timings = (Timing.of(runs) for runs in in_turns(sides, budget=budget))
            fields = {**ours.fields(case), "algorithm": "cipherblas", "library": "cipherblas"}
            yield row("peers", case, **fields, threads=threads, timing=first)
            for (found, way, peer), timing in zip(running, timings, strict=True):
                yield _measured(case, found, way, peer, timing, first.seconds, threads)
