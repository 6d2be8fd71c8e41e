"""What `cipherblas fame-model` shows: tables of rows, and their picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from cipherblas.planner.plan.explain import duration, size
from cipherblas.report.figures import new_figure, save_png
from cipherblas.report.tables import comparison_table

Row = Mapping[str, Any]
MARKERS = "os^vD<>ph"


def accelerator_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """Configurations, then products; columns that are empty throughout are left out."""
    yield comparison_table("accelerators", _CONFIGURATION_HEADS, _configurations(rows))
    columns = [(head, [text(row) for row in rows]) for head, text in _COLUMNS]
    kept = [(head, texts) for head, texts in columns if any(texts)]
    names = [f"{row['set']} {row['case'].replace('x', '×')}, {row['variant']}" for row in rows]
    texts = [names, *(texts for _, texts in kept)]
    yield comparison_table(
        "FAME's products on these: predicted", [head for head, _ in kept], zip(*texts, strict=True)
    )


_CONFIGURATION_HEADS = ("PEs", "lanes", "MHz", "HBM", "scratchpad per PE", "DSP")


def _configurations(rows: Sequence[Row]) -> Iterator[list[str]]:
    seen: list[list[str]] = []
    for row in rows:
        made = row["accelerator"]
        line = [
            f"{made['name']} for set {row['set']}",
            f"{made['pes']}",
            f"{made['lanes']}",
            f"{made['mhz']:g}",
            f"{made['hbm_bytes'] / 1e9:.4g} GB/s",
            size(made["scratchpad_bytes"]),
            f"{made['dsp']}",
        ]
        if line not in seen:
            seen.append(line)
            yield line


def _factor(row: Row, name: str, digits: int = 3) -> str:
    return f"{row[name]:.{digits}g}" if name in row else ""


_COLUMNS = (
    ("rotations", lambda r: f"{r['rotations']}"),
    ("HLTs", lambda r: f"{r['transforms']}"),
    ("relinearisations", lambda r: f"{r['relinearisations']}"),
    ("Mcycles", lambda r: f"{r['cycles'] / 1e6:.4g}"),
    ("from and to HBM", lambda r: size(r["hbm_bytes"])),
    ("HBM alone", lambda r: duration(r["hbm_seconds"])),
    ("waits for it", lambda r: duration(r["waiting_seconds"]) if r["waiting_seconds"] > 1e-9 else ""),
    ("latency", lambda r: duration(r["predicted_seconds"])),
    ("times faster", lambda r: _factor(r, "times_faster")),
    ("published", lambda r: f"about {r['published_seconds']:g} s" if "published_seconds" in r else ""),
    ("times published", lambda r: _factor(r, "times_published", 2)),
    ("best on a CPU", lambda r: f"{r['cpu_algorithm']} {_cpu(r)}" if "cpu_seconds" in r else ""),
    ("its time over this", lambda r: _factor(r, "speedup")),
    ("note", lambda r: r.get("note", "")),
)


def _cpu(row: Row) -> str:
    return ("~" if row["cpu_estimated"] else "") + duration(row["cpu_seconds"])


def draw_accelerator(path: Path, rows: Sequence[Row]) -> None:
    """Write the picture as PNG, whole or not at all: latencies of all products, a bar for each configuration.

    Raises:
        StorageError: matplotlib is missing, or the system refuses.
    """
    save_png(path, accelerator_figure(rows))


def accelerator_figure(rows: Sequence[Row]) -> Any:
    """The figure of `draw_accelerator`."""
    figure = new_figure(10.5, 5.4)
    axis = figure.subplots()
    products = list(dict.fromkeys((row["set"], row["case"]) for row in rows))
    variants = list(dict.fromkeys(row["variant"] for row in rows))

    def points(field: str, some: Sequence[Row], shift: float = 0.0) -> tuple[list[float], list[float]]:
        found = [row for row in some if field in row]
        return [products.index((r["set"], r["case"])) + shift for r in found], [r[field] for r in found]

    for number, variant in enumerate(variants):
        shift = 0.6 * ((number + 0.5) / len(variants) - 0.5)
        some = [row for row in rows if row["variant"] == variant]
        axis.plot(
            *points("predicted_seconds", some, shift),
            MARKERS[number % len(MARKERS)],
            markersize=6,
            label=variant,
        )
    first = [row for row in rows if row["variant"] == variants[0]]
    axis.plot(
        *points("published_seconds", first), "*", color="black", markersize=12, label="published (about)"
    )
    if any("cpu_seconds" in row for row in first):
        name = "best published method on a CPU"
        axis.plot(*points("cpu_seconds", first), "_", color="black", markersize=16, label=name)
    axis.set_yscale("log")
    labels = [f"{name}\n{case.replace('x', '×')}" for name, case in products]
    axis.set_xticks(range(len(products)), labels, fontsize=7.5)
    axis.set_ylabel("seconds, predicted")
    axis.grid(True, color="0.9")
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8.5, ncols=5, loc="outside lower center")
    figure.suptitle("FAME's products on a model of its accelerator", fontweight="bold")
    return figure
