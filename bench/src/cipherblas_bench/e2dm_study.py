"""E2DM stage by stage on several libraries, over d: a published study of SEAL and PALISADE, once more.

The study: E2DM on Microsoft SEAL 3.5.6 and PALISADE 1.10.6, on Windows 10 and Ubuntu 20.04; N = 8192, log Q = 220,
sigma = 3.2, 128 bits, d = 2 … 19, 1000 runs. Here all libraries run one description, `peers/e2dm_stages.py`: one
encoding, the same rotations, one relinearisation. Ours runs once for each instruction set that the machine has, and
those stand where the study has operating systems. PALISADE became OpenFHE.

All libraries run in turns at one d, each in a process of its own. A row is one library at one d. What follows from
the rows, and what the study says, is in `report.e2dm_study`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from cipherblas_bench.harness import Row, row
from cipherblas_bench.peers import Peer, PeerError, build_of
from cipherblas_bench.peers.e2dm_stages import BESIDE, STAGES, counts

N = 8192
SIZES = tuple(range(2, 20))  # of the study
BEYOND = (24, 32, 45, 64)  # where its cubics would have to hold; 64^2 slots are all that there are
REPEATS, LIMIT = 1000, 2.0
ROUNDS = 5
PEERS = ("seal", "openfhe")
TOLERANCE = (
    2.0**-12
)  # of an entry, relative to d: scales are 2^37 and more, what errs by more computes something else
# log2(QP) as near to the published 220 as 128 bits of security allow at this N: 214 by the tables that we and the
# newer standard have, 217 where OpenFHE's check ends. SEAL's primes have whole bits; ours are below 2^48, so that keys
# take six bytes a word.
OURS = {"q_bits": [47.9, 39.3, 39.3, 39.3], "special_bits": 47.9, "scale_bits": 38}
REQUESTS: dict[str, dict[str, Any]] = {
    "seal": {"q_bits": [50, 38, 38, 38], "special_bits": 50, "scale_bits": 38},
    "openfhe": {"q_bits": [46, 37, 37, 37], "scale_bits": 37},
}


@dataclass(frozen=True)
class Contender:
    """One library as it is measured.

    Attributes:
        name: of its rows.
        worker: of `peers.process.WORKERS`.
        request: of its parameters.
        python: the interpreter that has it, or None for this one.
        variables: of its environment.
        build: what is known of its wheel.
    """

    name: str
    worker: str
    request: Mapping[str, Any]
    python: str | None = None
    variables: Mapping[str, str] | None = None
    build: Mapping[str, Any] | None = None

    def started(self, d: int, threads: int) -> Peer:
        """Its process, with keys for d.

        Raises:
            PeerError: it cannot be run, computes something wrong, or has made other parameters than it was asked for.
        """
        setup = {"task": "stages", "d": d, "n": N, **self.request}
        peer = Peer(self.worker, setup, python=self.python, threads=threads, variables=self.variables)
        limbs = len(self.request["q_bits"])
        asked = {"n": N, "limbs": limbs, "digits": limbs, "slots": N // 2}
        found = {name: peer.ready[name] for name in asked}
        if found != asked:
            peer.close()
            raise PeerError(f"parameters of {peer.ready['peer']}: expected {asked}, got {found}")
        return peer


def contenders(
    peers: Sequence[str], pythons: Mapping[str, str], isas: Sequence[str], threads: int
) -> list[Contender]:
    """Ours on each instruction set, the best one first, then the peers.

    Raises:
        PeerError: a peer is not installed.
    """
    variables = {isa: {"CIPHERBLAS_ISA": isa, "CIPHERBLAS_THREADS": str(threads)} for isa in isas}
    ours = [Contender(f"ours {isa}", "e2dm-stages", OURS, variables=variables[isa]) for isa in isas]
    theirs = [
        Contender(
            name, f"{name}-tasks", REQUESTS[name], pythons.get(name),
            build=build_of(name, python=pythons.get(name)),
        )
        for name in peers
    ]  # fmt: skip
    return ours + theirs


def run(
    sizes: Sequence[int] = (*SIZES, *BEYOND),
    *,
    peers: Sequence[str] = (),
    pythons: Mapping[str, str] | None = None,
    isas: Sequence[str] | None = None,
    repeats: int = REPEATS,
    limit: float = LIMIT,
    threads: int = 1,
) -> Iterator[Row]:
    """Rows of `bench e2dm-study`: of each d one per library, as they are measured.

    Args:
        sizes: the d.
        peers: "seal", "openfhe".
        pythons: peer → interpreter that has it; by default this one.
        isas: instruction sets of ours; by default all that this machine has.
        repeats: runs of each library and d at most; three at least.
        limit: seconds for the runs of one library at one d, beyond which there are no more than three.
        threads: of all of them; SEAL has one.

    Raises:
        ValueError: an unknown peer or instruction set, or a d whose squares do not fit.
        PeerError: a library cannot be run, or its result is wrong.
    """
    import cipherblas._core as _core

    usable = _core.isas()
    for what, asked, known in (("peer", peers, PEERS), ("instruction set", isas or (), usable)):
        unknown = sorted(set(asked) - set(known))
        if unknown:
            raise ValueError(f"{what}: expected some of {', '.join(known)}, got {', '.join(unknown)}")
    counted = {d: counts(d, N) for d in sizes}
    chosen = [isa for isa in reversed(usable) if isas is None or isa in isas]
    every = contenders(peers, pythons or {}, chosen, threads)
    for d in sizes:
        yield from _of_size(d, every, counted[d], repeats, limit, threads)


def _of_size(
    d: int,
    every: Sequence[Contender],
    counted: Mapping[str, int],
    repeats: int,
    limit: float,
    threads: int,
) -> Iterator[Row]:
    with ExitStack() as stack:
        running = [stack.enter_context(one.started(d, threads)) for one in every]
        laps = _in_turns(running, repeats, limit)
    for one, peer, found in zip(every, running, laps, strict=True):
        if not peer.ready["error"] <= TOLERANCE * d:
            raise PeerError(
                f"the product of {one.name} at d = {d}: expected an error of at most {TOLERANCE * d:.2g}, "
                f"got {peer.ready['error']:.2g}"
            )
        yield _row(d, one, peer.ready, found, counted, threads)


def _in_turns(running: Sequence[Peer], repeats: int, limit: float) -> list[list[dict[str, float]]]:
    """Laps of each: as many as the limit allows, at least three, in rounds, so that a slow moment meets all."""
    laps = [peer.laps(1) for peer in running]  # the set-up ran once: it is warm
    totals = [sum(first[0][stage] for stage in STAGES) for first in laps]
    wanted = [max(3, min(repeats, int(limit / max(total, 1e-7)))) for total in totals]
    for turn in range(ROUNDS):
        for peer, found, number in zip(running, laps, wanted, strict=True):
            due = number * (turn + 1) // ROUNDS - len(found)
            if due > 0:
                found += peer.laps(due)
    return laps


def spread(seconds: Sequence[float]) -> Row:
    """Median, mean, least, largest, standard deviation."""
    return {
        "seconds": statistics.median(seconds),
        "mean": statistics.fmean(seconds),
        "min": min(seconds),
        "max": max(seconds),
        "deviation": statistics.stdev(seconds) if len(seconds) > 1 else 0.0,
    }


def _row(
    d: int,
    one: Contender,
    ready: Mapping[str, Any],
    laps: Sequence[Mapping[str, float]],
    counted: Mapping[str, int],
    threads: int,
) -> Row:
    total = spread([sum(lap[stage] for stage in STAGES) for lap in laps])
    return row(
        "e2dm-study",
        f"{d}x{d}x{d}",
        params={
            "n": ready["n"],
            "logq": ready["logq"],
            "logp": ready["logp"],
            "limbs": ready["limbs"],
            "dnum": ready["digits"],
            "security": 128,
        },
        algorithm=one.name,
        threads=threads,
        seconds=total["seconds"],
        seconds_min=total["min"],
        seconds_max=total["max"],
        seconds_mean=total["mean"],
        seconds_deviation=total["deviation"],
        runs=len(laps),
        error=ready["error"],
        rotations=counted["rotations"],
        products=counted["products"],
        plain_products=counted["plain_products"],
        plaintexts=counted["encoded"],
        key_bytes=ready["key_bytes"],
        peak_bytes=ready["peak_bytes"],
        keys=ready["keys"],
        d=d,
        library=ready["peer"],
        isa=ready.get("isa"),
        build=one.build,
        stages={
            stage: spread(seconds)
            for stage in (*STAGES, *BESIDE)
            if (seconds := [lap[stage] for lap in laps if stage in lap])
        },
    )
