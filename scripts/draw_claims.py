"""Draws what docs/measured holds of published comparisons, and writes their tables into docs/published-claims.md.

usage: draw_claims.py [--write] [--pictures FOLDER]

Without arguments it prints the tables. The rows, in bae.jsonl and kernels.jsonl, are those of
`scripts/measure_performance.py --suite bae` and `--suite kernels`; published patterns are computed. Pictures
need matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cipherblas_bench import run_nn_published
from cipherblas_bench.nn_shapes import KERNELS
from measured_pages import MEASURED, ROOT, Row, conditions, main, number, ring, rows, table

PAGE = ROOT / "docs" / "published-claims.md"
BAE, RING = (MEASURED / f"{name}.jsonl" for name in ("bae", "kernels"))
CLAIMED = ("rlwe rows", "shared rows", "shared batch")
OTHERS = ("from slots", "to slots", "jkls18")
STYLES = {
    "rlwe rows": ("tab:orange", "o-"),
    "shared rows": ("tab:red", "s-"),
    "shared batch": ("tab:green", "D-"),
    "from slots": ("tab:purple", "<--"),
    "to slots": ("tab:blue", ">--"),
    "jkls18": ("0.35", "^--"),
}
METHODS = {
    "metakernel": ("ours", "tab:blue"),
    "helib-bsgs": ("HElib", "tab:green"),
    "fhelipe": ("Fhelipe", "tab:red"),
}


def forms(found: list[Row]) -> dict[int, dict[str, Row]]:
    """d → form → row: the measured one where there are two."""
    sizes: dict[int, dict[str, Row]] = {}
    for row in found:
        by = sizes.setdefault(row["d"], {})
        if row["form"] not in by or row.get("seconds"):
            by[row["form"]] = row
    return dict(sorted(sizes.items()))


def known(row: Row) -> bool:
    """Whether there is a plan at all."""
    return row.get("predicted_seconds") is not None


def seconds(row: Row) -> float:
    """Measured, or predicted."""
    return float(row["predicted_seconds" if row.get("estimated") else "seconds"])


def marked(row: Row, value: float, digits: int = 2) -> str:
    """With ~ where it was predicted."""
    return f"{'~' if row.get('estimated') else ''}{number(value, digits)}"


def plain(row: Row) -> float:
    """Seconds of the float64 GEMM, measured in turns with a form, or predicted as that is."""
    return float(row["predicted_gemm_seconds" if row.get("estimated") else "gemm_seconds"])


def times(row: Row) -> float:
    """Of the float64 GEMM."""
    return float(row["predicted_times_gemm" if row.get("estimated") else "times_gemm"])


def products(found: list[Row]) -> str:
    """The forms that the claims are about."""
    header = (
        "d",
        "float64 GEMM, s",
        *(f"{form}, s" for form in CLAIMED),
        "times GEMM, least",
        "at most 3.5 ×",
        "0.31 s",
    )
    body = []
    for d, by in forms(found).items():
        some = [by[form] for form in CLAIMED if form in by and known(by[form])]
        best = min(some, key=seconds)
        gemm = marked(best, plain(best))
        cells = [marked(by[form], seconds(by[form]), 3) if by.get(form) in some else "" for form in CLAIMED]
        met = {True: "met", False: "**not met**", None: ""}
        by_plan = " by predictions" if best.get("estimated") else ""
        claims = [
            said + (by_plan if said else "")
            for said in (met[best.get(name)] for name in ("meets_times_gemm", "meets_seconds"))
        ]
        body.append([d, gemm, *cells, f"{marked(best, times(best))} (`{best['form']}`)", *claims])
    return table(header, body)


def details(found: list[Row]) -> str:
    """Rings, memory and errors of the plain forms."""
    header = (
        "d",
        "form",
        "N, limbs",
        "seconds",
        "times GEMM",
        "keys, MiB",
        "upload, MiB",
        "peak, MiB",
        "predicted",
        "error / bound",
    )
    body = [
        [
            *(d, f"`{form}`", ring(row), marked(row, seconds(row), 3), marked(row, times(row))),
            *(number(row[name] / 2**20) for name in ("key_bytes", "upload_bytes")),
            number(row["peak_bytes"] / 2**20) if row.get("peak_bytes") else "",
            number(row["predicted_peak_bytes"] / 2**20),
            f"{row['relative_error']:.1g}" if "relative_error" in row else "",
        ]
        for d, by in forms(found).items()
        for form, row in by.items()
        if form in CLAIMED and known(row)
    ]
    return table(header, body)


def conversions(found: list[Row]) -> str:
    """Products beside conversions, and in slots."""
    header = ("d", *(cell for form in OTHERS for cell in (f"{form}, s", f"times {CLAIMED[0]}")))
    body = []
    for d, by in forms(found).items():
        cells = []
        for form in OTHERS:
            row = by.get(form)
            if row is None or not known(row):
                cells += ["", ""]
                continue
            rlwe = by[CLAIMED[0]]
            both = "predicted_seconds" if row.get("estimated") or rlwe.get("estimated") else "seconds"
            there = "" if form == "jkls18" or "gemm" in row["algorithm"] else " (in slots)"
            cells += [marked(row, seconds(row), 3) + there, marked(row, row[both] / rlwe[both])]
        body.append([d, *cells])
    return table(header, body)


def patterns() -> str:
    """Table 8, as computed."""
    header = ("kernel", "P_I", "P_O", "search", "P_b", "P_s", "bs_opt", "rotations by Eq. 11", "published")
    names = ("case", "input_ciphertexts", "output_ciphertexts", "search_size", "superblocks", "side_by_side")
    names += ("baby_steps", "rotations", "published_rotations")
    return table(header, [[row[name] for name in names] for row in run_nn_published()])


def compiled(found: list[Row]) -> str:
    """Fig. 10: what comes before a first run, and FLOPs of Table 3."""
    body = []
    for kernel in KERNELS:
        cells: list[object] = [kernel.name, number(kernel.flops / 1e6, 4)]
        by = kernels(found).get(kernel.name, {})
        for method in METHODS:
            row = by.get(method, {})
            plan, encode = row.get("plan_seconds"), row.get("encode_seconds")
            cells += ["" if plan is None else number(plan), "" if encode is None else number(encode)]
        body.append(cells)
    names = (f"{name}, {what}" for name, _ in METHODS.values() for what in ("plan, s", "encode, s"))
    return table(["kernel", "MFLOPs", *names], body)


def kernels(found: list[Row]) -> dict[str, dict[str, Row]]:
    """Kernel → method → row."""
    cases: dict[str, dict[str, Row]] = {}
    for row in found:
        cases.setdefault(row["case"], {})[row["algorithm"]] = row
    return cases


def in_the_ring(found: list[Row]) -> str:
    """Seconds of every method at N = 2^16."""
    header = (
        "kernel",
        "method",
        "limbs",
        "rotations",
        "plaintexts",
        "encoded, MiB",
        "keys, MiB",
        "seconds",
        "published",
        "error / largest entry",
    )
    body = [
        [
            *(case, METHODS[method][0], row["params"]["limbs"], row["rotations"], row["plaintexts"]),
            *(number(row[name] / 2**20, 4) for name in ("stored_bytes", "key_bytes")),
            marked(row, seconds(row), 3),
            number(row["published_seconds"], 4) if "published_seconds" in row else "",
            f"{row['relative_error']:.1g}" if "relative_error" in row else "",
        ]
        for case, by in kernels(found).items()
        for method, row in by.items()
        if known(row)
    ]
    return table(header, body)


def ratios(found: list[Row]) -> str:
    """Baselines over ours: here and published, seconds and rotations."""
    header = (
        "kernel",
        "baseline",
        "times ours, here",
        "published",
        "rotations: times ours",
        "published",
        "seconds per rotation, published: theirs",
        "MetaKernel's",
        "verdict",
    )
    published = {kernel.name: kernel.published for kernel in KERNELS}
    body = []
    for case, by in kernels(found).items():
        for method, row in by.items():
            if "published_times_metakernel" not in row:
                continue
            theirs, ours = (published[case][name].rotations for name in (method, "metakernel"))
            claim = row["published_times_metakernel"]
            body.append(
                [
                    *(case, METHODS[method][0], marked(row, row["times_metakernel"], 3), number(claim, 4)),
                    *(number(row["times_rotations"], 3), number(theirs / ours, 3)),
                    number(row["published_seconds"] / theirs, 3),
                    number(by["metakernel"]["published_seconds"] / ours, 3),
                    ("**not confirmed**", "confirmed")[row["times_metakernel"] >= claim]
                    + " by predictions" * bool(row.get("estimated")),
                ]
            )
    return table(header, body)


def tables() -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    bae, ring_rows = rows(BAE), rows(RING)
    found = {
        "products": products(bae),
        "products, details": details(bae),
        "conversions": conversions(bae),
        "conditions of products": conditions(bae),
        "patterns": patterns(),
        "kernels": in_the_ring(ring_rows),
        "compiled": compiled(ring_rows),
        "ratios": ratios(ring_rows),
        "conditions of kernels": conditions(ring_rows),
    }
    return {(PAGE, name): text for name, text in found.items()}


def figures() -> dict[str, Any]:
    """Name → picture."""
    return {"claims-products": curves(rows(BAE)), "claims-kernels": bars(rows(RING))}


def curves(found: list[Row]) -> Any:
    """Seconds over the dimension, and times the plain product; hollow where predicted."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.6), facecolor="white", layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = forms(found)
    for form, (colour, style) in STYLES.items():
        some = {d: by[form] for d, by in sizes.items() if form in by and known(by[form])}
        for axis, value in ((left, seconds), (right, times)):
            if axis is right and form not in CLAIMED:
                continue
            points = {d: value(row) for d, row in some.items()}
            axis.plot(list(points), list(points.values()), style[1:], color=colour, linewidth=1.6)
            for d, row in some.items():
                face = "white" if row.get("estimated") else colour
                axis.plot(d, points[d], style[0], color=colour, markerfacecolor=face, markersize=5)
            axis.plot([], [], style, color=colour, label=form, markersize=5)
    gemm = {d: plain(by[CLAIMED[0]]) for d, by in sizes.items()}
    left.plot(list(gemm), list(gemm.values()), ":", color="0.35", label="plain float64 GEMM")
    left.plot(256, 0.31, "*", color="black", markersize=10, label="published, 0.31 s")
    right.axhline(3.5, color="black", linestyle=":", label="published, at most 3.5")
    for axis, title, label in (
        (left, "one product on the server (hollow: predicted)", "seconds"),
        (right, "over the plain float64 GEMM", "times"),
    ):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("d of a d×d×d product, clear int8 × secret")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    return figure


def bars(found: list[Row]) -> Any:
    """Baselines over ours, here and as published."""
    from matplotlib.figure import Figure

    compared = [
        (f"{case}, {METHODS[method][0]}", row)
        for case, by in kernels(found).items()
        for method, row in by.items()
        if "published_times_metakernel" in row
    ]
    figure = Figure(figsize=(9.6, 4.6), facecolor="white", layout="constrained")
    axis = figure.subplots()
    places = range(len(compared))
    for shift, field, label, colour in (
        (-0.27, "times_metakernel", "here, all methods on one engine (hatched: predicted)", "tab:blue"),
        (0.0, "times_rotations", "here, rotations", "tab:cyan"),
        (0.27, "published_times_metakernel", "published", "0.6"),
    ):
        drawn = axis.bar(
            [place + shift for place in places],
            [row[field] for _, row in compared],
            0.27,
            color=colour,
            label=label,
        )
        if field == "times_metakernel":
            for bar, (_, row) in zip(drawn, compared, strict=True):
                bar.set_hatch("//" if row.get("estimated") else "")
    axis.set_yscale("log")
    axis.axhline(1, color="0.35", linestyle=":")
    axis.set_xticks(list(places), [name.replace(", ", "\n") for name, _ in compared], fontsize=7)
    axis.set_ylabel("baseline over MetaKernel")
    axis.set_title("N = 2^16, 2^15 slots", fontsize=10)
    axis.grid(alpha=0.3, axis="y")
    axis.legend(fontsize=8)
    return figure


if __name__ == "__main__":
    sys.exit(main("draw_claims", __doc__, tables, figures))
