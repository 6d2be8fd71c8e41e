"""FAME's 12 products on a model of its accelerator: what the published method takes there, and on other machines.

Nothing is measured. Operations are those of a dry run of `fame-published`, cycles and bytes those of this
package. `published_…` fields are what FAME's paper reports; CPU columns come from rows of
`bench cc --suite fame --baselines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.digits import digit_ranges
from cipherblas_bench.fame_baselines import OURS, PUBLISHED_SECONDS, PUBLISHED_SPEEDUP
from cipherblas_bench.harness import Row
from cipherblas_bench.sets import FAME_SETS, Shape
from cipherblas_hardware.model.configuration import (
    CONFIGURATIONS,
    U280_DSP,
    WORD_BITS,
    Configuration,
)
from cipherblas_hardware.model.operations import Program, published_program, published_ring
from cipherblas_hardware.model.performance import Accelerator

AS_PUBLISHED = "as published"
ONE_RELINEARISATION = "one relinearisation"
AS_SIMULATED = "as simulated"


def what_ifs(configuration: Configuration) -> dict[str, Configuration]:
    """Configurations to compare a configuration with, by what is different."""
    more = replace(configuration, pes=4)
    twice = 2 * configuration.hbm_bytes
    return {
        "twice the HBM": replace(configuration, hbm_bytes=twice),
        "half the HBM": replace(configuration, hbm_bytes=configuration.hbm_bytes / 2),
        "four PEs": more,
        "four PEs, twice the HBM": replace(more, hbm_bytes=twice),
        "rotations outside": replace(configuration, order="rotation"),
        "memory before computing": replace(configuration, overlapped=False),
        ONE_RELINEARISATION: configuration,
        AS_SIMULATED: replace(configuration, centred=True, twiddles=True),
    }


def run(
    *,
    sets: Sequence[str] = tuple(FAME_SETS),
    shapes: Sequence[Shape] = (),
    changes: Mapping[str, Any] | None = None,
    relinearise_once: bool = False,
    what_if: bool = False,
    cpu: Iterable[Mapping[str, Any]] = (),
) -> Iterator[Row]:
    """Rows of `cipherblas fame-model`: one per product and configuration.

    Args:
        sets: of FAME's parameter sets.
        shapes: m, k, n of products; by default those of each set.
        changes: fields of `Configuration` that differ from the published one.
        relinearise_once: the sum of products in place of each, as our evaluators do.
        what_if: further configurations (`what_ifs`), as rows after each.
        cpu: rows of `bench cc --suite fame --baselines`, for the columns that compare.

    Raises:
        ParameterError: an unknown set, a configuration that cannot be. ShapeError: matrices that do not fit the slots.
    """
    unknown = [name for name in sets if name not in FAME_SETS]
    if unknown:
        raise ParameterError(
            "There is no such parameter set.", expected=" | ".join(FAME_SETS), got=unknown[0]
        )
    best = best_cpu(cpu)
    for name in sets:
        member = FAME_SETS[name]
        configuration = replace(CONFIGURATIONS[name], **(changes or {}))
        for shape in shapes or member.shapes:
            programs = {
                once: published_program(shape, published_ring(member), relinearise_once=once)
                for once in ({relinearise_once, True} if what_if else {relinearise_once})
            }
            variants = {AS_PUBLISHED if not changes and not relinearise_once else "as given": configuration}
            if what_if:
                variants |= what_ifs(configuration)
            first: float | None = None
            for variant, each in variants.items():
                once = relinearise_once or variant == ONE_RELINEARISATION
                found = {"set": name, "variant": variant, **_row(each, programs[once], best)}
                first = found["predicted_seconds"] if first is None else first
                yield found | ({"times_faster": first / found["predicted_seconds"]} if what_if else {})


def _row(configuration: Configuration, program: Program, best: Mapping[str, tuple[str, float, bool]]) -> Row:
    """One product on one configuration."""
    ring, counts = program.ring, program.counts
    accelerator = Accelerator(configuration, ring)
    latency = accelerator.latency(program)
    case = "x".join(map(str, program.shape))
    found: Row = {
        "case": case,
        "accelerator": {
            "name": configuration.name,
            "pes": configuration.pes,
            "lanes": configuration.lanes,
            "mhz": configuration.mhz,
            "hbm_bytes": configuration.hbm_bytes,
            "scratchpad_bytes": accelerator.scratchpad,
            "dsp": configuration.dsp,
            "ntt_stages": configuration.ntt_stages,
            "overlapped": configuration.overlapped,
            "order": configuration.order,
            "centred": configuration.centred,
            "twiddles": configuration.twiddles,
        },
        "params": {
            "n": ring.n,
            "limbs": len(ring.q),
            "special_limbs": len(ring.p),
            "digits": len(digit_ranges(len(ring.q), ring.alpha, ring.digit_limbs)),
            "word_bits": WORD_BITS,
        },
        "rotations": counts.rotations,
        "transforms": counts.linear_transforms,
        "products": counts.products,
        "relinearisations": counts.relinearisations,
        "keys": len(program.request.galois) + 1,
        "cycles": latency.cycles,
        "compute_seconds": latency.compute_seconds,
        "waiting_seconds": latency.waiting_seconds,
        "hbm_bytes": latency.hbm_bytes,
        "hbm_seconds": latency.hbm_seconds,
        "spilled_bytes": latency.spilled_bytes,
        "predicted_seconds": latency.seconds,
    }
    if configuration.dsp > U280_DSP:
        found["note"] = f"takes {configuration.dsp / U280_DSP:.1f} times the DSP slices of an Alveo U280"
    if case in best:
        method, seconds, estimated = best[case]
        found |= {"cpu_algorithm": method, "cpu_seconds": seconds, "cpu_estimated": estimated}
        found["speedup"] = seconds / latency.seconds
    if program.shape in PUBLISHED_SECONDS:
        published = PUBLISHED_SECONDS[program.shape]
        found |= {"published_seconds": published, "published_speedup": PUBLISHED_SPEEDUP[program.shape]}
        found["times_published"] = latency.seconds / published
    return found


def best_cpu(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, float, bool]]:
    """Of each product the fastest published method on the CPU, its seconds, whether they are predicted.

    As in `bench cc --baselines`, predictions of all are compared where one of them was not run.

    Raises:
        ParameterError: a row that is none of that benchmark.
    """
    by_case: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if not isinstance(row.get("case"), str) or not isinstance(row.get("algorithm"), str):
            raise ParameterError(
                "A row is none of `bench cc --suite fame --baselines --json`.",
                expected="case and algorithm",
                got=sorted(row),
            )
        if row["algorithm"].split()[0] != OURS:
            by_case.setdefault(row["case"], []).append(row)
    found = {}
    for case, methods in by_case.items():
        estimated = any(row.get("estimated") for row in methods)
        field = "predicted_seconds" if estimated else "seconds"
        timed = [row for row in methods if isinstance(row.get(field), (int, float))]
        if len(timed) < len(methods):
            raise ParameterError(f"A row of {case} has no {field}.", expected="a number", got=None)
        best = min(timed, key=lambda row: float(row[field]))
        found[case] = best["algorithm"], float(best[field]), estimated
    return found
