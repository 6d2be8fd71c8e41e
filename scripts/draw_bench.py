"""Draws products in slots beside GEMM, exact integers and kernels of networks, and writes their tables into two pages.

usage: draw_bench.py [--write] [--pictures FOLDER]

The pages are docs/algorithms.md and docs/bench.md. Without arguments it prints the tables. The rows, in docs/measured,
are those of `scripts/measure_performance.py --suite crossover`, `--suite exact` and `--suite layers`, and of
`scripts/simulate_traffic.py`; where a file is
not there yet the page says how it is measured. Pictures need matplotlib.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cipherblas_bench.nn_shapes import KERNELS
from cipherblas_bench.report.markdown import crossover_markdown
from measured_pages import MEASURED, ROOT, Row, awaited, conditions, main, number, rows, table

CROSSOVER = MEASURED / "crossover.jsonl"
ALGORITHMS, BENCH = (ROOT / "docs" / f"{name}.md" for name in ("algorithms", "bench"))


def exact(found: list[Row]) -> str:
    """Products of exact integers beside those of floats, with clear and with secret left factors."""
    by: dict[tuple[str, str], dict[str, Row]] = {}
    for row in found:
        by.setdefault((row["case"], row["dtype"]), {})[row["bench"]] = row
    body = []
    for (case, dtype), sides in by.items():
        cells: list[object] = [case.partition("x")[0], dtype]
        for bench in ("pc", "cc"):
            row = sides.get(bench)
            cells += (
                [""] * 4
                if row is None
                else [
                    number(row["seconds"], 3),
                    number(row["float_seconds"], 3),
                    number(row["exact_over_float"], 3),
                    number(row["exact_over_same_error"], 3),
                ]
            )
        body.append(cells)
    what = ("{}, s", "float at 1e-4, s", "ratio", "same error")
    titles = (one.format(kind) for kind in ("clear × secret", "secret × secret") for one in what)
    return table(["d", "type", *titles], body)


def layers(found: list[Row]) -> str:
    """MetaKernel's kernels in the rings that the planner takes."""
    body = []
    for kernel in KERNELS:
        mine = [row for row in found if row["case"] == kernel.name]
        ours = {row["threads"]: row for row in mine if row["algorithm"] == "metakernel"}
        if 1 not in ours:
            continue
        one = ours[1]
        others = {row["algorithm"]: row for row in mine if row["algorithm"] != "metakernel"}
        body.append(
            [
                *(kernel.name, f"2^{one['params']['n'].bit_length() - 1}"),
                *(number(1e3 * ours[t]["seconds"], 3) if t in ours else "" for t in (1, 2)),
                *(f"{one['relative_error']:.1g}", number(one["encode_seconds"])),
                *(one["stored_bytes"] >> 20, one["key_bytes"] >> 20),
                *(beside(others.get(name)) for name in ("fhelipe", "helib-bsgs")),
                number(one["published_seconds"], 3),
            ]
        )
    times = ("one thread, ms", "two threads, ms", "error / largest entry", "encoding, s")
    sizes = ("encoded weights, MiB", "keys, MiB", "Fhelipe here, ms", "HElib here, ms", "published, s")
    return table(["kernel", "N", *times, *sizes], body)


def beside(row: Row | None) -> str:
    """Milliseconds of a baseline and how many times ours that is, ~ where it was predicted."""
    if row is None or row.get("times_metakernel") is None:
        return ""
    mark, seconds = ("", row["seconds"]) if "seconds" in row else ("~", row["predicted_seconds"])
    return f"{mark}{number(1e3 * seconds, 3)} ({number(row['times_metakernel'], 3)}×)"


def traffic(found: list[Row]) -> str:
    """Megabytes that a transform moves from and to memory, keys and diagonals apart."""
    body = []
    for row in found:
        total, keys, plain = row["missed_bytes"], row["counts"]["key_bytes"], row["counts"]["plain_bytes"]
        parts = (number(value / 1e6, 3) for value in (total, keys, plain, total - keys - plain))
        body.append([row["set"], row["order"], row["diagonals"], row["cache_bytes"] >> 20, *parts])
    header = (
        "set",
        "outer loop",
        "diagonals",
        "cache, MiB",
        "moved, MB",
        "keys",
        "diagonals, MB",
        "the rest",
    )
    commands = "\n".join(dict.fromkeys(row["command"] for row in found))
    return f"{table(header, body)}\n\n```sh\n{commands}\n```"


def crossed(found: list[Row]) -> str:
    """Both forms, with their picture."""
    picture = "![Seconds of both forms over the dimension](pictures/crossover.svg)"
    return f"{picture}\n\n{crossover_markdown(found)}"


def drawn(suite: str, shown: Callable[[list[Row]], str]) -> str:
    """A table with where it comes from, or how it is measured."""
    file = MEASURED / f"{suite}.jsonl"
    found = rows(file) if file.exists() else []
    return f"{shown(found).strip()}\n\n{conditions(found)}" if found else awaited(suite)


def tables() -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    return {
        (ALGORITHMS, "slots or GEMM"): drawn("crossover", crossed),
        (BENCH, "exact integers"): drawn("exact", exact),
        (BENCH, "kernels"): drawn("layers", layers),
        (BENCH, "traffic"): traffic(rows(MEASURED / "traffic.jsonl")),
    }


def figures() -> dict[str, Any]:
    """Name → picture."""
    from cipherblas_bench.report.crossover import crossover_figure

    return {"crossover": crossover_figure(rows(CROSSOVER))} if CROSSOVER.exists() else {}


if __name__ == "__main__":
    sys.exit(main("draw_bench", __doc__, tables, figures))
