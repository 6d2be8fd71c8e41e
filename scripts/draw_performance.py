"""Draws what docs/measured holds, and writes its tables into docs/performance.md and the README.

usage: draw_performance.py [--write] [--pictures FOLDER]

Without arguments it prints the tables. The rows, in performance.jsonl, fame.jsonl and roofline.jsonl, are those of
`scripts/measure_performance.py`; every figure on the
pages comes from them. Pictures need matplotlib.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs" / "measured" / "performance.jsonl"
FAME = ROOT / "docs" / "measured" / "fame.jsonl"
ROOFLINE = ROOT / "docs" / "measured" / "roofline.jsonl"
PAGE, README = ROOT / "docs" / "performance.md", ROOT / "README.md"
PICTURES = ROOT / "docs" / "pictures"
END = "<!-- end -->"
SETTINGS = {"svg.hashsalt": "cipherblas", "font.family": "DejaVu Sans", "font.size": 9.0}

Row = dict[str, Any]
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


def begin(name: str) -> str:
    """The mark before a table of a page."""
    return f"<!-- begin: scripts/draw_performance.py --write, {name} -->"


def rows(file: Path = ROWS) -> list[Row]:
    """What was measured."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def number(value: float, digits: int = 2) -> str:
    """With so many significant digits, and no exponent."""
    text = f"{value:.{digits}g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text


def side(row: Row) -> int:
    """d of a d×d×d product."""
    return int(row["case"].split("x")[0])


def ring(row: Row) -> str:
    params = row["params"]
    return f"2^{params['n'].bit_length() - 1}, {params['limbs']}"


def table(header: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


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


def conditions(found: list[Row]) -> str:
    machines, commits = ("; ".join(sorted({row[name] for row in found})) for name in ("machine", "commit"))
    others = [row["others"] for row in found]
    commands = list(dict.fromkeys(row["command"] for row in found))
    return "\n".join(
        [
            f"- Machine: {machines}. A virtual machine.",
            f"- The package is that of commit {commits}.",
            f"- Other processes kept {number(statistics.median(others))} of a core busy at the median of all commands, "
            f"{number(max(others))} at the most.",
            "",
            "```sh",
            *commands,
            "```",
        ]
    )


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
    return table(("case", "ours", "peer", "ratio"), body)


def tables(found: list[Row]) -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    return {
        (README, "five rows"): five(found),
        (PAGE, "conditions"): conditions(found),
        (PAGE, "products beside SEAL"): products_beside_seal(found),
        (PAGE, "operations"): primitives(found),
        (PAGE, "secret × secret"): products(found, "cc"),
        (PAGE, "clear × secret"): products(found, "pc"),
        (PAGE, "FAME's products"): fame(rows(FAME)),
        (PAGE, "conditions of FAME's products"): conditions(rows(FAME)),
        (PAGE, "roofline"): roofline(rows(ROOFLINE)),
        (PAGE, "stream"): streamed(rows(ROOFLINE)),
        (PAGE, "conditions of the roofline"): conditions(rows(ROOFLINE)),
    }


def stored(page: Path, name: str) -> str:
    """What stands on the page."""
    return page.read_text(encoding="utf-8").partition(begin(name))[2].partition(END)[0].strip("\n")


def write(found: list[Row]) -> None:
    for (page, name), text in tables(found).items():
        before, mark, rest = page.read_text(encoding="utf-8").partition(begin(name))
        if not mark:
            raise SystemExit(f"{page.name} has no mark {begin(name)}")
        page.write_text(f"{before}{mark}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def draw(found: list[Row], folder: Path) -> None:
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(SETTINGS):
        figures = {
            "performance-products": curves(found),
            "performance-peers": peers(found),
            "performance-fame": fame_methods(rows(FAME)),
        }
        for name, figure in figures.items():
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


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


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw the pictures into this folder")
    given = parser.parse_args()
    found = rows()
    if given.write:
        write(found)
        draw(found, given.pictures or PICTURES)
    elif given.pictures:
        draw(found, given.pictures)
    else:
        print("\n\n".join(tables(found).values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
