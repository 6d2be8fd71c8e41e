"""Timing, memory and rows: what all benchmarks share.

A row is one result, a flat dict of the fields in `FIELDS`, without those that mean nothing for the case; with
``--json`` it is one line, in which the first ones, `REQUIRED`, are null instead. Seconds are medians of several
runs after a warm-up; the least and the largest run stand beside them, since the spread is part of a result. A peer
is measured in the same run, in turns with ours, so that a slow moment of a shared machine meets both.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cipherblas.planner.plan.explain import size
from cipherblas.planner.predict.machine import VARIABLE, Machine
from cipherblas.report.rates import machine_line
from cipherblas_bench.peers import Peer

REQUIRED = (
    "bench", "case", "params", "algorithm", "threads", "seconds", "seconds_min", "seconds_max",
    "error", "rotations", "products", "key_bytes", "upload_bytes", "peak_bytes",
)  # fmt: skip
FIELDS = (
    *REQUIRED, "runs",
    "peer", "peer_params", "peer_seconds", "peer_seconds_min", "peer_seconds_max", "speedup",
    "speedup_of_least",
    "gemm_seconds", "times_gemm", "machine", "load",
)  # fmt: skip

ROUNDS = 5
SLOW, VERY_SLOW = 2.0, 30.0  # seconds of one run
Row = dict[str, Any]


class MeasurementError(RuntimeError):
    """A measurement failed, or what was measured computed something wrong."""


@dataclass(frozen=True)
class Timing:
    """Seconds per operation of several runs."""

    seconds: float
    seconds_min: float
    seconds_max: float
    runs: int

    @classmethod
    def of(cls, runs: Sequence[float], operations: int = 1) -> Timing:
        """`runs`: seconds of each run; `operations`: how many operations one run does."""
        each = [run / operations for run in runs]
        return cls(statistics.median(each), min(each), max(each), len(each))

    def fields(self, prefix: str = "") -> Row:
        values = {"seconds": self.seconds, "seconds_min": self.seconds_min, "seconds_max": self.seconds_max}
        return {prefix + name: value for name, value in values.items()} | (
            {} if prefix else {"runs": self.runs}
        )


def time_once(work: Callable[[], Any]) -> float:
    """Seconds of one call. What it returns is freed outside of the timed part."""
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    del result
    return seconds


def repeats_for(seconds: float, budget: float, least: int, most: int) -> int:
    """How often work that takes `seconds` is run within a budget of seconds."""
    return max(least, min(most, int(budget / max(seconds, 1e-7))))


Side = Callable[[int], list[float]]  # runs something so many times and returns the seconds of each run


def local(work: Callable[[], Any]) -> Side:
    """Work of this process as a side of `in_turns`."""
    return lambda repeats: [time_once(work) for _ in range(repeats)]


def in_turns(sides: Sequence[Side], *, budget: float = 1.0, most: int = 100) -> list[list[float]]:
    """Seconds of the runs of each side, measured in turns in `ROUNDS` rounds, after a warm-up of all.

    `budget` seconds are spent on each side, or one run per round where one run is longer than a round's share.
    Where a run takes longer than the whole budget and `SLOW` seconds, there are three runs and no warm-up;
    where it takes longer than `VERY_SLOW` seconds, there is one.
    """
    first = [side(1) for side in sides]
    slowest = max(runs[0] for runs in first)
    if slowest > max(budget, SLOW):
        for _ in range(2 if slowest <= VERY_SLOW else 0):
            for side, found in zip(sides, first, strict=True):
                found += side(1)
        return first
    # The first call may have paid for tables and pages: the second one sets the number of runs.
    repeats = [repeats_for(side(1)[0], budget / ROUNDS, 1, most) for side in sides]
    runs: list[list[float]] = [[] for _ in sides]
    for _ in range(ROUNDS):
        for side, count, found in zip(sides, repeats, runs, strict=True):
            found += side(count)
    return runs


def measure(work: Callable[[], Any], *, budget: float = 1.0, operations: int = 1) -> Timing:
    """Median, least and largest seconds of one of the `operations` that a call of `work` does."""
    return Timing.of(in_turns([local(work)], budget=budget)[0], operations)


def compare(
    work: Callable[[], Any],
    peer: Peer,
    case: str,
    *,
    budget: float = 1.0,
    operations: int = 1,
    peer_operations: int = 1,
) -> tuple[Timing, Timing]:
    """(ours, theirs) of one case, measured in turns; one run of either does `operations` operations."""
    ours, theirs = in_turns([local(work), lambda repeats: peer.measure(case, repeats)], budget=budget)
    return Timing.of(ours, operations), Timing.of(theirs, operations)


class Peak:
    """Largest resident set of a stretch of work, in bytes, process and its libraries together."""

    bytes: int = 0


def resident_bytes() -> int:
    """Resident set of this process now; 0 where it is not known."""
    return _status_bytes("VmRSS") or 0


def _status_bytes(field: str) -> int | None:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Set `.bytes` to the peak resident set between entry and exit.

    Linux lets a process reset its own high-water mark; elsewhere, or where that is refused, the value is the
    peak since the process started, an upper bound.
    """
    peak = Peak()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    try:
        yield peak
    finally:
        unit = 1 if sys.platform == "darwin" else 1024
        peak.bytes = _status_bytes("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def params_fields(params: Any) -> Row:
    """The `params` field of a row from a `Parameters`."""
    return {
        "n": params.n,
        "logq": round(float(params.log_q), 1),
        "logp": round(float(params.log_p), 1),
        "limbs": params.limbs,
        "dnum": params.dnum,
        "security": params.security,
    }


def row(bench: str, case: str, **fields: Any) -> Row:
    """One result in the order of `FIELDS`.

    `timing=` and `peer_timing=` (both `Timing`) are spread into fields. Fields that are None are left out;
    `speedup`, `speedup_of_least` and `times_gemm` are derived.
    """
    content: Row = {"bench": bench, "case": case, **fields}
    timing, peer_timing = content.pop("timing", None), content.pop("peer_timing", None)
    if timing is not None:
        content |= timing.fields()
    if peer_timing is not None:
        content |= peer_timing.fields("peer_")
    if content.get("seconds"):
        if content.get("peer_seconds"):
            content["speedup"] = content["peer_seconds"] / content["seconds"]
        if content.get("peer_seconds_min") and content.get("seconds_min"):
            # The least times are the least touched by whatever else the machine does.
            content["speedup_of_least"] = content["peer_seconds_min"] / content["seconds_min"]
        if content.get("gemm_seconds"):
            content["times_gemm"] = content["seconds"] / content["gemm_seconds"]
    content["machine"] = machine_line()
    if hasattr(os, "getloadavg"):
        content["load"] = round(os.getloadavg()[0], 2)  # others' work makes long runs longer than short ones
    ordered = {name: content[name] for name in FIELDS if content.get(name) is not None}
    return ordered | {
        name: value for name, value in content.items() if name not in FIELDS and value is not None
    }


def to_json(result: Mapping[str, Any]) -> str:
    """A row as one line of strict JSON (no NaN); a required field that it lacks is null."""
    return json.dumps(dict.fromkeys(REQUIRED) | dict(result), allow_nan=False)


def seconds_text(seconds: float) -> str:
    """Three significant digits with a unit: 12.3 ms."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _spread(result: Mapping[str, Any], prefix: str = "") -> str:
    if prefix + "seconds" not in result:
        predicted = None if prefix else result.get("predicted_seconds")
        return "" if predicted is None else f"~{seconds_text(predicted)}"
    text = seconds_text(result[prefix + "seconds"])
    if prefix + "seconds_min" in result and result.get("runs", 2) > 1:
        low, high = (seconds_text(result[prefix + name]) for name in ("seconds_min", "seconds_max"))
        text += f" [dim]({low} to {high})[/dim]"
    return text


def _params_text(params: Mapping[str, Any]) -> str:
    ring = params.get("n", 0)
    parts = [f"2^{ring.bit_length() - 1}" if ring else ""]
    if params.get("limbs"):
        parts.append(f"{params['limbs']} limbs")
    if params.get("dnum"):
        parts.append(f"dnum {params['dnum']}")
    return " ".join(part for part in parts if part)


def _percent(result: Mapping[str, Any], name: str) -> str:
    return f"{100 * result[name]:.1f}%" if name in result else ""


def _images(result: Mapping[str, Any]) -> str:
    text = str(result.get("images", "")) + (f" by {result['batch']}" if "batch" in result else "")
    return text + (f", {result['outside']} outside" if result.get("outside") else "")


def _seconds(result: Mapping[str, Any], name: str) -> str:
    return seconds_text(result[name]) if name in result else ""


def _levels(result: Mapping[str, Any]) -> str:
    return str(result.get("levels_left", ""))


def _bits(result: Mapping[str, Any], name: str = "precision_bits") -> str:
    return f"{result[name]:.1f}" if name in result else ""


def _ratio(result: Mapping[str, Any], what: str) -> str:
    """Predicted ÷ measured, of `bench model`."""
    return f"{result['ratios'][what]:.2f}" if what in result.get("ratios", {}) else ""


def _best(result: Mapping[str, Any], field: str, name: str | None = None) -> str:
    """A ratio, in bold of the best baseline, after its name where one is given."""
    if field not in result:
        return ""
    text = f"{result[field]:.3g}" if name is None else f"{name}: {result[field]:.3g}"
    return f"[bold]{text}[/bold]" if result.get("best") else text


def _times(result: Mapping[str, Any], name: str) -> str:
    return f"{result[name]:.3g}" if name in result else ""


def _times_gemm(result: Mapping[str, Any]) -> str:
    if "predicted_times_gemm" in result:
        return f"~{result['predicted_times_gemm']:.3g}"
    return f"{result['times_gemm']:.3g}" if "times_gemm" in result else ""


def _met(result: Mapping[str, Any], claim: str) -> str:
    """Whether a published claim holds."""
    return {True: "met", False: "not met", None: ""}[result.get(claim)]


_COLUMNS: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("case", lambda r: str(r["case"])),
    ("form", lambda r: r["form"] if "suite" in r else ""),
    ("N, limbs", lambda r: _params_text(r.get("params", {}))),
    ("algorithm", lambda r: str(r.get("algorithm", ""))),
    ("threads", lambda r: str(r.get("threads", ""))),
    ("time (least to largest)", _spread),
    ("first", lambda r: _seconds(r, "first_seconds") if "images" in r else ""),
    ("convolutions", lambda r: _seconds(r, "convolution_seconds")),
    ("weights apart", lambda r: _seconds(r, "weights_seconds")),
    ("first square", lambda r: _seconds(r, "first_square_seconds")),
    ("hidden layer", lambda r: _seconds(r, "hidden_seconds")),
    ("second square", lambda r: _seconds(r, "second_square_seconds")),
    ("last layer", lambda r: _seconds(r, "last_seconds")),
    ("products", lambda r: _seconds(r, "products_seconds")),
    ("squares", lambda r: _seconds(r, "squares_seconds")),
    ("W·x", lambda r: _seconds(r, "linear_seconds")),
    ("functions", lambda r: _seconds(r, "activation_seconds")),
    ("refreshes", lambda r: _seconds(r, "refresh_seconds")),
    ("other", lambda r: _seconds(r, "other_seconds")),
    ("refreshed", lambda r: str(r.get("refreshed_ciphertexts", ""))),
    ("degree", lambda r: str(r.get("degree", ""))),
    ("StC", lambda r: _seconds(r, "slots_to_coefficients_seconds")),
    ("ModRaise", lambda r: _seconds(r, "mod_raise_seconds")),
    ("CtS", lambda r: _seconds(r, "coefficients_to_slots_seconds")),
    ("EvalMod", lambda r: _seconds(r, "eval_mod_seconds")),
    ("levels", _levels),
    ("bits", _bits),
    ("predicted", lambda r: _bits(r, "predicted_bits")),
    ("expansion", lambda r: seconds_text(r["expand_seconds"]) if r.get("expand_seconds") else ""),
    ("error", lambda r: f"{r['error']:.1e}" if "error" in r else ""),
    ("rms", lambda r: f"{r['rms_error']:.1e}" if "rms_error" in r else ""),
    ("promised", lambda r: f"{r['predicted_error']:.1e}" if {"images", "predicted_error"} <= r.keys() else ""),
    ("images", lambda r: _images(r)),
    ("as in the clear", lambda r: _percent(r, "agreement")),
    ("right", lambda r: _percent(r, "accuracy")),
    ("right in the clear", lambda r: _percent(r, "clear_accuracy")),
    ("rotations", lambda r: str(r.get("rotations", ""))),
    ("trivial", lambda r: str(r.get("trivial_rotations") or "")),
    ("published", lambda r: str(r.get("published_rotations", ""))),
    ("transforms", lambda r: str(r.get("transforms", ""))),
    ("published", lambda r: str(r.get("published_transforms", ""))),
    ("P_I", lambda r: str(r.get("input_ciphertexts", ""))),
    ("P_O", lambda r: str(r.get("output_ciphertexts", ""))),
    ("search", lambda r: str(r.get("search_size", ""))),
    ("P_b", lambda r: str(r.get("superblocks", ""))),
    ("P_s", lambda r: str(r.get("side_by_side", ""))),
    ("baby steps", lambda r: str(r["baby_steps"]) if "superblocks" in r else ""),
    ("limbs transformed", lambda r: f"{r['transforms_of_limbs']:.0f}" if "transforms_of_limbs" in r else ""),
    ("streamed", lambda r: size(r["streamed_bytes"]) if "streamed_bytes" in r else ""),
    ("compute", lambda r: seconds_text(r["compute_seconds"]) if "compute_seconds" in r else ""),
    ("memory", lambda r: seconds_text(r["memory_seconds"]) if "memory_seconds" in r else ""),
    ("limit", lambda r: r.get("limit", "")),
    ("times the limit", lambda r: f"{r['times_roofline']:.2f}" if "times_roofline" in r else ""),
    ("times the sum", lambda r: f"{r['times_sum']:.2f}" if "times_sum" in r else ""),
    ("huge pages", lambda r: f"{r['huge_pages']:.0%}" if "huge_pages" in r else ""),
    ("hoistings", lambda r: str(r.get("hoistings", ""))),
    ("plaintexts", lambda r: str(r.get("plaintexts", ""))),
    ("weights", lambda r: size(r["stored_bytes"]) if r.get("stored_bytes") else ""),
    ("masks", lambda r: str(r.get("masks", ""))),
    ("embedded", lambda r: str(r.get("embedded", ""))),
    ("additions by slots", lambda r: str(r.get("slot_additions", ""))),
    ("times each mask", lambda r: f"{r['times_masks']:.2f}" if "times_masks" in r else ""),
    ("planning", lambda r: _seconds(r, "plan_seconds") if "images" in r else ""),
    ("keys made in", lambda r: _seconds(r, "keygen_seconds") if "images" in r else ""),
    ("first run", lambda r: _seconds(r, "first_run_seconds")),
    ("encoding", lambda r: seconds_text(r["encode_seconds"]) if r.get("encode_seconds") else ""),
    ("times MetaKernel", lambda r: _times(r, "times_metakernel")),
    ("published", lambda r: _times(r, "published_times_metakernel")),
    ("times rotations", lambda r: _times(r, "times_rotations")),
    ("times ours", lambda r: _best(r, "times_ours")),
    ("best baseline", lambda r: _best(r, "best_over_ours", r.get("best_baseline"))),
    ("published", lambda r: seconds_text(r["published_seconds"]) if r.get("published_seconds") else ""),
    ("times published", lambda r: f"{r['times_published']:.2g}" if "times_published" in r else ""),
    ("published speed-up", lambda r: f"{r['published_speedup']:.0f}" if "published_speedup" in r else ""),
    ("slot use", lambda r: _percent(r, "slot_use")),
    ("padded", lambda r: _percent(r, "padded_slot_use")),
    ("published", lambda r: _percent(r, "published_slot_use")),
    ("in", lambda r: str(r.get("published_in", ""))),
    ("depth", lambda r: str(r.get("depth", ""))),
    ("products", lambda r: str(r.get("products", ""))),
    ("keys", lambda r: size(r["key_bytes"]) if r.get("key_bytes") else ""),
    ("upload", lambda r: size(r["upload_bytes"]) if r.get("upload_bytes") else ""),
    ("peak", lambda r: size(r["peak_bytes"]) if r.get("peak_bytes") else ""),
    ("predicted peak", lambda r: size(r.get("predicted_peak_bytes", 0)) if "images" in r else ""),
    ("download", lambda r: size(r["download_bytes"]) if r.get("download_bytes") else ""),
    ("working", lambda r: size(r["working_bytes"]) if r.get("working_bytes") else ""),
    ("FAME's model", lambda r: size(r["fame_fast_bytes"]) if r.get("fame_fast_bytes") else ""),
    ("largest cache", lambda r: size(r["cache_bytes"]) if r.get("cache_bytes") else ""),
    ("from and to memory", lambda r: size(r["missed_bytes"]) if r.get("missed_bytes") else ""),
    ("model's", lambda r: size(r["model_bytes"]) if r.get("model_bytes") else ""),
    ("coarse : limb", lambda r: f"[bold]{r['coarse_over_limb']:.2f}[/bold]" if "coarse_over_limb" in r else ""),
    ("peer", lambda r: str(r.get("peer", ""))),
    ("peer time", lambda r: _spread(r, "peer_")),
    ("its levels", lambda r: _levels(r.get("peer_params", {}))),
    ("its bits", lambda r: _bits(r.get("peer_params", {}))),
    ("ranks", lambda r: str(r.get("ranks", "")) + (", taking turns" if r.get("oversubscribed") else "")),
    ("grid", lambda r: str(r.get("grid", ""))),
    ("blocks of samples", lambda r: str(r.get("sample_blocks", ""))),
    ("sent", lambda r: str(r.get("messages", ""))),
    ("bytes sent", lambda r: size(r["message_bytes"]) if r.get("message_bytes") else ""),
    ("messages", lambda r: seconds_text(r["mpi_seconds"]) if r.get("mpi_seconds") else ""),
    ("published", lambda r: seconds_text(r["published_mpi_seconds"]) if "published_mpi_seconds" in r else ""),
    ("RotateAlign", lambda r: _percent(r, "rotate_align_part")),
    ("ShiftByStep", lambda r: _percent(r, "shift_by_step_part")),
    ("MULT", lambda r: _percent(r, "products_part")),
    ("MPI", lambda r: _percent(r, "mpi_part")),
    ("efficiency", lambda r: f"{r['efficiency']:.3f}" if "efficiency" in r else ""),
    ("linear", lambda r: _met(r, "linear")),
    ("times baseline", lambda r: _times(r, "speedup_over_baseline")),
    ("published", lambda r: _times(r, "published_speedup_over_baseline")),
    ("products", lambda r: _times(r, "products_speedup_over_baseline")),
    ("published", lambda r: _times(r, "published_products_speedup")),
    ("with encodings", lambda r: _times(r, "speedup_with_encodings")),
    ("products so", lambda r: _times(r, "products_speedup_with_encodings")),
    ("times features", lambda r: _times(r, "times_features")),
    ("mean", lambda r: _times(r, "mean_speedup_over_baseline")),
    ("published", lambda r: _times(r, "published_mean_speedup_over_baseline")),
    ("predicted times faster", lambda r: _times(r, "predicted_speedup") if "images" in r else ""),
    ("times faster", lambda r: f"[bold]{r['speedup']:.1f}[/bold]" if "speedup" in r else ""),
    ("by processor time", lambda r: _times(r, "processor_speedup")),
    ("of least", lambda r: f"{r['speedup_of_least']:.1f}" if "speedup_of_least" in r else ""),
    ("times GEMM", _times_gemm),
    ("of least", lambda r: f"{r['times_gemm_of_least']:.3g}" if "times_gemm_of_least" in r else ""),
    ("times plain rows", lambda r: _times(r, "times_unconverted")),
    ("at most 3.5 GEMMs", lambda r: _met(r, "meets_times_gemm")),
    ("published time", lambda r: _met(r, "meets_seconds")),
    ("run", lambda r: _ratio(r, "run")),
    ("first run", lambda r: _ratio(r, "first_run")),
    ("encrypt", lambda r: _ratio(r, "encrypt")),
    ("decrypt", lambda r: _ratio(r, "decrypt")),
    ("of peak", lambda r: _ratio(r, "peak_bytes")),
    ("of upload", lambda r: _ratio(r, "upload_bytes")),
    ("of error", lambda r: _ratio(r, "error")),
    ("predicted : measured", lambda r: f"{r['ratio_median']:.2f}" if "ratio_median" in r else ""),
    ("least", lambda r: f"{r['ratio_least']:.2f}" if "ratio_least" in r else ""),
    ("largest", lambda r: f"{r['ratio_largest']:.3g}" if "ratio_largest" in r else ""),
    ("factor, median", lambda r: f"{r['factor_median']:.2f}" if "factor_median" in r else ""),
    ("nine in ten", lambda r: f"{r['factor_of_nine_in_ten']:.3g}" if "factor_median" in r else ""),
    ("note", lambda r: str(r.get("note", ""))),
)  # fmt: skip


def render(rows: Iterable[Row], *, console: Any = None) -> None:
    """Print rows as one table per benchmark; columns that are empty throughout are left out."""
    from rich.console import Console
    from rich.table import Table

    console = console or Console()
    groups: dict[str, list[Row]] = {}
    for result in rows:
        groups.setdefault(result["bench"], []).append(result)
    for bench, members in groups.items():
        machines = sorted({member["machine"] for member in members if "machine" in member})
        loads = [member["load"] for member in members if "load" in member]
        if loads:
            machines.append(f"load average, this benchmark included: {min(loads)} to {max(loads)}")
            if max(loads) > (os.cpu_count() or 1) + 1:
                machines.append(
                    "Busy: a long run waits for a processor, a short one does not. Ratios mislead."
                )
        table = Table(title=f"bench {bench}", caption="\n".join(machines), title_justify="left")
        columns = [(name, [text(member) for member in members]) for name, text in _COLUMNS]
        columns = [(name, texts) for name, texts in columns if any(texts)]
        for name, _ in columns:
            numeric = name not in ("case", "form", "algorithm", "peer", "N, limbs", "note", "in")
            table.add_column(name, justify="right" if numeric else "left")
        for cells in zip(*(texts for _, texts in columns), strict=True):
            table.add_row(*cells)
        console.print(table)


def machine_of_predictions() -> Machine:
    """The machine of the file that the environment variable CIPHERBLAS_MACHINE names, else this one, measured now: a
    shared machine is slower now, faster then."""
    return Machine.usual() if os.environ.get(VARIABLE) else Machine.measure()
