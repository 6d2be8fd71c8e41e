"""Draws what docs/measured holds, and writes its tables into docs/performance.md and the README.

usage: draw_performance.py [--write] [--pictures FOLDER]

Without arguments it prints the tables. The rows, in performance.jsonl, fame.jsonl, chains.jsonl and roofline.jsonl, are
those of `scripts/measure_performance.py`; every figure on the pages comes from them. Pictures need matplotlib.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from measured_pages import MEASURED, ROOT, Row, conditions, main, number, packages, ring, rows, table

ROWS, FAME, CHAINS, ROOFLINE = (
    MEASURED / f"{name}.jsonl" for name in ("performance", "fame", "chains", "roofline")
)
PAGE, README = ROOT / "docs" / "performance.md", ROOT / "README.md"

METHODS = {
    "fame": ("ours", "tab:blue", "o"),
    "fame-published": ("FAME as printed", "tab:red", "s"),
    "hegmm": ("HEGMM", "tab:orange", "^"),
    "hegmm-en": ("HEGMM-En", "tab:brown", "v"),
    "huang-zong": ("Huang-Zong", "tab:green", "D"),
    "e2dm-r": ("E2DM-R", "tab:purple", "<"),
    "e2dm": ("E2DM-S", "0.35", ">"),
}
ROOFLINE_CASES = {
    "rotate": "rotation",
    "rotate_hoisted": "one of 8 hoisted",
    "multiply": "product with relinearisation",
    "rescale": "rescale",
}
CASES = {"rotate": "rotation", "multiply": "product with relinearisation", "rescale": "rescale"}


def side(row: Row) -> int:
    """d of a d×d×d product."""
    return int(row["case"].split("x")[0])


def of(found: list[Row], bench: str, *, peer: str | None = None, threads: int = 1) -> list[Row]:
    """Rows of one benchmark, beside that peer or none."""
    return [
        row
        for row in found
        if row["bench"] == bench
        and row["threads"] == threads
        and (peer in row["peer"] if peer and "peer" in row else peer is None and "peer" not in row)
    ]


def sides(row: Row) -> list[str]:
    """Cells: ours, the peer's, the ratio, with the least and the largest run."""

    def cell(prefix: str) -> str:
        middle, least, largest = (row[f"{prefix}seconds{end}"] for end in ("", "_min", "_max"))
        return f"{number(middle, 3)} ({number(least)} … {number(largest)})"

    return [cell(""), cell("peer_"), number(row["speedup"])]


def products_beside_seal(found: list[Row]) -> str:
    header = (
        "d×d×d",
        "ours",
        "ciphertexts up",
        "N, limbs",
        "seconds",
        "E2DM on SEAL",
        "ratio",
        "beside E2DM with half the rotations",
        "error: ours",
        "SEAL's",
    )
    body = [
        [
            side(row),
            f"`{row['algorithm'].split(' ')[0]}`"
            + (", one ciphertext per operand" if row.get("one_ciphertext") else ""),
            row["ciphertexts"],
            ring(row),
            *sides(row),
            number(row["speedup_improved"]),
            f"{row['error']:.1g}",
            f"{row['peer_params']['error']:.1g}",
        ]
        for row in sorted(
            of(found, "cc", peer="SEAL") + of(found, "cc", peer="seal"),
            key=lambda row: (not row.get("one_ciphertext"), side(row)),
        )
    ]
    return table(header, body)


def primitives(found: list[Row]) -> str:
    header = ("operation", "N, limbs", "digits", "ours", "peer", "seconds of the peer", "ratio")
    body = []
    for row in of(found, "primitives", peer="seal") + of(found, "primitives", peer="openfhe"):
        ours, theirs, ratio = sides(row)
        body.append([CASES[row["case"]], ring(row), row["params"]["dnum"], ours, row["peer"], theirs, ratio])
    return table(header, body)


def roofline(found: list[Row]) -> str:
    """Single operations beside what compute and memory allow."""
    header = (
        "operation", "N, limbs, digits", "forward transforms", "inverse", "multiply-adds", "memory", "limit",
        "measured", "times the limit", "times compute and memory", "huge pages",
    )  # fmt: skip
    parts = ("forward_seconds", "inverse_seconds", "mac_seconds", "memory_seconds")
    body = [
        [
            ROOFLINE_CASES[row["case"]],
            f"{ring(row)}, {row['params']['dnum']}",
            *(number(1e3 * row[name], 3) for name in parts),
            f"{row['limit']}, {number(1e3 * row['roofline_seconds'], 3)}",
            number(1e3 * row["seconds_min"], 3),
            number(row["times_roofline"]),
            number(row["times_sum"]),
            f"{row['huge_pages']:.0%}" if "huge_pages" in row else "",
        ]
        for row in found
    ]
    return table(header, body)


def streamed(found: list[Row]) -> str:
    """What the bandwidth is, and what a rotation streams."""
    rate = statistics.median(row["stream_rate"] for row in found)
    return f"One thread reads {number(rate / 1e9, 3)} GB/s from this machine's memory."


def products(found: list[Row], bench: str) -> str:
    header = (
        "d×d×d",
        "algorithm",
        "N, limbs",
        "one thread",
        "two threads",
        "float64 GEMM, one thread",
        "times it",
        "keys, MiB",
        "upload, MiB",
        "peak, MiB",
        "error / bound",
    )
    two = {row["case"]: row for row in of(found, bench, threads=2)}
    body = []
    for row in of(found, bench):
        other = two.get(row["case"])
        name, times = row["algorithm"].split(" ")[0], ""
        if other is not None:
            another = other["algorithm"].split(" ")[0]
            times = number(other["seconds"], 3) + ("" if another == name else f" (`{another}`)")
        body.append(
            [
                side(row),
                f"`{name}`",
                ring(row),
                number(row["seconds"], 3),
                times,
                number(row["gemm_seconds"]),
                number(row["times_gemm"]),
                *(number(row[name] / 2**20) for name in ("key_bytes", "upload_bytes", "peak_bytes")),
                f"{row.get('relative_error', row['error'] / side(row)):.1g}",  # entries in [-1, 1]: the bound is d
            ]
        )
    return table(header, body)


def seconds(row: Row) -> float:
    """Measured, or predicted."""
    return float(row["seconds"] if "estimated" not in row else row["predicted_seconds"])


def shapes(found: list[Row]) -> dict[str, dict[str, Row]]:
    """FAME's products in their order: case → method → row."""
    cases: dict[str, dict[str, Row]] = {}
    for row in found:
        if "set" in row:
            cases.setdefault(row["case"], {})[row["algorithm"]] = row
    return cases


def fame(found: list[Row]) -> str:
    """FAME's products: seconds and plain products of every method, the best baseline over ours."""
    header = (
        "set",
        "m×k×n",
        *(name for name, *_ in METHODS.values()),
        "best ÷ ours",
        "FAME's FPGA, published",
    )

    def cell(row: Row) -> str:
        text = f"{'~' if 'estimated' in row else ''}{number(seconds(row), 3)} ({row['plain_products']})"
        return f"**{text}**" if row.get("best") else text

    body = [
        [
            by["fame"]["set"],
            case.replace("x", "×"),
            *(cell(by[method]) for method in METHODS),
            number(by["fame"]["best_over_ours"]),
            f"about {number(by['fame']['published_seconds'])} s" if "published_seconds" in by["fame"] else "",
        ]
        for case, by in shapes(found).items()
    ]
    return table(header, body)


def five(found: list[Row]) -> str:
    """The table of the README."""
    beside = {(side(row), bool(row.get("one_ciphertext"))): row for row in of(found, "cc", peer="seal")}
    switches = {
        (row["params"]["n"], row["peer"].split("-")[0].split(" ")[0]): row
        for row in found
        if row["case"] == "rotate"
    }
    clear = max(of(found, "pc"), key=side)
    even, fast = beside[64, True], beside[64, False]
    half = number(even["speedup_improved"])

    def line(case: str, row: Row, ours: float, name: str, theirs: float) -> list[str]:
        return [case, number(ours, 3), f"{name}: {number(theirs, 3)}", number(theirs / ours)]

    body = [
        line(
            f"64×64×64, one ciphertext per operand on both sides (`skewed`; E2DM; with half its rotations: {half})",
            even,
            even["seconds"],
            "SEAL",
            even["peer_seconds"],
        ),
        line(
            f"64×64×64, {fast['ciphertexts']} ciphertexts up (`outer-product`; E2DM with one per operand)",
            fast,
            fast["seconds"],
            "SEAL",
            fast["peer_seconds"],
        ),
    ]
    for n, peer, name in ((1 << 15, "seal", "SEAL"), (1 << 16, "openfhe", "OpenFHE")):
        row = switches[n, peer]
        case = f"rotation at N = 2^{n.bit_length() - 1}, {row['params']['limbs']} limbs, {row['params']['dnum']} digits"
        body.append(line(case, row, row["seconds"], name, row["peer_seconds"]))
    d = side(clear)
    body.append(
        line(
            f"{d}×{d}×{d}, clear int8 × secret (`gemm`)",
            clear,
            clear["seconds"],
            "float64 GEMM, clear",
            clear["gemm_seconds"],
        )
    )
    shown = table(("case", "ours", "peer", "ratio"), body)
    return f"{shown}\n\nMeasured with the package of {packages(found)}."


def chains(found: list[Row]) -> str:
    """A line for each parameter set: two products in a row."""
    header = ("set", "product", "N, limbs", "seconds", "predicted", "error", "keys, GiB", "peak, GiB")
    body = []
    for row in found:
        shape, gib = row["case"].split(",")[0], 2**30
        seconds = (
            f"{number(row['seconds'], 3)} ({number(row['seconds_min'], 3)} … {number(row['seconds_max'], 3)})"
        )
        predicted = number(row["predicted_seconds"], 3)
        sizes = [number(row[name] / gib) for name in ("key_bytes", "peak_bytes")]
        line = [
            row["set"],
            shape.replace("x", "×"),
            ring(row),
            seconds,
            predicted,
            number(row["error"]),
            *sizes,
        ]
        body.append(line)
    return table(header, body)


def tables() -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    found = rows(ROWS)
    return {
        (README, "five rows"): five(found),
        (PAGE, "conditions"): conditions(found),
        (PAGE, "products beside SEAL"): products_beside_seal(found),
        (PAGE, "operations"): primitives(found),
        (PAGE, "secret × secret"): products(found, "cc"),
        (PAGE, "clear × secret"): products(found, "pc"),
        (PAGE, "FAME's products"): fame(rows(FAME)),
        (PAGE, "conditions of FAME's products"): conditions(rows(FAME)),
        (PAGE, "two products"): chains(rows(CHAINS)),
        (PAGE, "conditions of two products"): conditions(rows(CHAINS)),
        (PAGE, "roofline"): roofline(rows(ROOFLINE)),
        (PAGE, "stream"): streamed(rows(ROOFLINE)),
        (PAGE, "conditions of the roofline"): conditions(rows(ROOFLINE)),
    }


def figures() -> dict[str, Any]:
    """Name → picture."""
    found = rows(ROWS)
    return {
        "performance-products": curves(found),
        "performance-peers": peers(found),
        "performance-fame": fame_methods(rows(FAME)),
    }


def _axes(axis: Any, title: str, ylabel: str, legend: str = "best") -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("d of a d×d×d product")
    axis.set_ylabel(ylabel)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, loc=legend)


def _line(axis: Any, found: list[Row], field: str, style: str, label: str, colour: str) -> None:
    points = sorted((side(row), row[field]) for row in found)
    axis.plot(*zip(*points, strict=True), style, color=colour, label=label, markersize=5, linewidth=1.6)


def curves(found: list[Row]) -> Any:
    """Seconds over the dimension, and how many times the plain product that is."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.2), facecolor="white", layout="constrained")
    left, right = figure.subplots(1, 2)
    for bench, name, colour in (
        ("cc", "secret × secret", "tab:blue"),
        ("pc", "clear int8 × secret", "tab:orange"),
    ):
        for threads, style in ((1, "o-"), (2, "s--")):
            label = f"{name}, {threads} thread{'s' if threads > 1 else ''}"
            _line(left, of(found, bench, threads=threads), "seconds", style, label, colour)
            _line(right, of(found, bench, threads=threads), "times_gemm", style, label, colour)
    _line(left, of(found, "pc"), "gemm_seconds", ":", "plain float64 GEMM, 1 thread", "0.35")
    _axes(left, "evaluation on the server", "seconds")
    _axes(right, "over the plain float64 GEMM of that shape", "times")
    right.axhline(1, color="0.35", linestyle=":")
    return figure


def peers(found: list[Row]) -> Any:
    """Products beside E2DM on SEAL, and single operations beside SEAL and OpenFHE."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.2), facecolor="white", layout="constrained")
    left, right = figure.subplots(1, 2)
    beside = of(found, "cc", peer="seal")
    even = [row for row in beside if row.get("one_ciphertext")]
    planned = [row for row in beside if not row.get("one_ciphertext")]
    _line(left, even, "peer_seconds", "^-", "E2DM on SEAL", "tab:red")
    _line(left, even, "peer_improved_seconds", "^--", "the same, half the rotations", "tab:red")
    _line(left, even, "seconds", "o-", "ours, one ciphertext per operand", "tab:blue")
    _line(left, planned, "seconds", "o--", "ours, as planned for the server", "tab:blue")
    _axes(left, "secret × secret, one thread", "seconds", "lower right")
    left.set_ylim(bottom=2e-5)  # room for the legend
    bars = of(found, "primitives", peer="seal") + of(found, "primitives", peer="openfhe")
    names = [
        f"{row['case']}, {row['peer'].split('-')[0].split(' ')[0]}, N = 2^{row['params']['n'].bit_length() - 1}"
        for row in bars
    ]
    right.barh(
        names,
        [row["speedup"] for row in bars],
        color=["tab:blue" if "seal" in row["peer"] else "tab:green" for row in bars],
    )
    right.invert_yaxis()
    right.axvline(1, color="0.35", linestyle=":")
    right.set_title("peer's seconds over ours, one thread", fontsize=10)
    right.grid(alpha=0.3, axis="x")
    return figure


def fame_methods(found: list[Row]) -> Any:
    """Seconds of every method on FAME's products: hollow where predicted; and what the paper reports of its FPGA."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.6), facecolor="white", layout="constrained")
    axis = figure.subplots()
    cases = shapes(found)
    for method, (name, colour, marker) in METHODS.items():
        for place, by in enumerate(cases.values()):
            row = by[method]
            axis.plot(
                place,
                seconds(row),
                marker,
                color=colour,
                markerfacecolor="none" if "estimated" in row else colour,
                label=None if place else name,
            )
    published = {
        place: by["fame"]["published_seconds"]
        for place, by in enumerate(cases.values())
        if "published_seconds" in by["fame"]
    }
    axis.plot(
        *zip(*published.items(), strict=True),
        "*",
        color="black",
        markersize=11,
        label="FAME's FPGA, published",
    )
    axis.set_yscale("log")
    axis.set_xticks(
        range(len(cases)), [f"{by['fame']['set']}\n{case.replace('x', '×')}" for case, by in cases.items()]
    )
    axis.tick_params(axis="x", labelsize=7)
    axis.set_ylabel("seconds on the server (hollow: predicted)")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, ncols=2)
    return figure


if __name__ == "__main__":
    sys.exit(main("draw_performance", __doc__, tables, figures))
