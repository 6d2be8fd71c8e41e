"""Writes the tables of docs/measured/secret-network.jsonl into docs/secret-network.md.

usage: draw_secret_network.py [--write]

Without arguments it prints the tables. The file holds the rows that `cipherblas bench distributed --suite
secret-network --json` printed, with the `command` and the `commit` of the package (`scripts/measure_performance.py
--suite secret-network`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from measured_pages import MEASURED, ROOT, Row, conditions, main, number, rows, table

ROWS = MEASURED / "secret-network.jsonl"
PAGE = ROOT / "docs" / "secret-network.md"
LAYERS = ("weights", "convolution", "first_square", "hidden", "second_square", "last")
NOT_MEASURED = "Not measured yet."
SCHEMES = {"bgv": "exact", "ckks": "CKKS"}


def scheme(row: Row) -> str:
    """Of a row of features."""
    return SCHEMES[row["algorithm"].split()[1]]


def name(row: Row) -> str:
    """The network and how many images are computed together."""
    return f"{row['case'].split()[0].rstrip(',')}, {row['images']:,}"


def real(found: list[Row]) -> list[Row]:
    """Rows of runs."""
    return [row for row in found if "user_seconds" in row]


def features(found: list[Row]) -> list[Row]:
    """Predictions of features."""
    return [row for row in found if "ranks_taking_part" in row]


def blocks(found: list[Row]) -> dict[str, dict[str, Row]]:
    """Predictions of products of blocks, by method, of each network and number of images."""
    by: dict[str, dict[str, Row]] = {}
    for row in found:
        if row["algorithm"] and row["algorithm"].startswith("fhe-mm "):
            by.setdefault(name(row), {})[row["algorithm"].split()[1]] = row
    return by


def ring(row: Row) -> str:
    """Degree, and how many t."""
    moduli = f", {row['plain_moduli']} t" if "plain_moduli" in row else ""
    return f"2^{row['params']['n'].bit_length() - 1}{moduli}"


def alone(found: list[Row]) -> str:
    """On one rank."""
    if not real(found):
        return NOT_MEASURED
    header = (
        *("network, images", "scores", "weights", "N", "seconds", "planned", "ms an image"),
        *("weights apart", "convolution", "square", "hidden", "square", "last"),
        *("up: GiB of images", "MiB of weights", "down: MiB", "keys: MiB", "peak: GiB"),
    )
    body = [
        [
            *(name(row), scheme(row), row["weights"], ring(row), f"**{number(row['seconds'], 3)}**"),
            *(number(row["predicted_seconds"], 3), number(1e3 * row["seconds"] / row["images"])),
            *(number(row[f"{layer}_seconds"]) for layer in LAYERS),
            number((row["upload_bytes"] - row["weight_bytes"]) / 2**30),
            *(number(row[f"{kind}_bytes"] / 2**20, 3) for kind in ("weight", "download", "key")),
            number(row["rank_peak_bytes"] / 2**30),
        ]
        for row in real(found)
        if row["ranks"] == 1
    ]
    return f"{conditions(real(found))}\n\n{table(header, body)}"


def on_ranks(found: list[Row]) -> str:
    """On several ranks, beside one."""
    header = (
        *("network, images", "scores", "blocks of samples", "ranks", "seconds", "planned", "times faster"),
        *("by processor time", "messages", "MiB sent", "GiB a rank"),
    )
    several = {row["command"] for row in real(found) if row["ranks"] > 1}
    body = [
        [
            *(name(row), scheme(row), row["sample_blocks"]),
            f"{row['ranks']}{', in turns' * row['oversubscribed']}",
            f"**{number(row['seconds'], 3)}**",
            "" if row["oversubscribed"] else number(row["predicted_seconds"], 3),
            *(number(row[field], 3) for field in ("speedup", "processor_speedup")),
            *(row["messages"], number(row["message_bytes"] / 2**20), number(row["rank_peak_bytes"] / 2**30)),
        ]
        for row in real(found)
        if row["command"] in several
    ]
    return table(header, body) if body else NOT_MEASURED


def predicted(found: list[Row]) -> str:
    """To 64 ranks."""
    by: dict[tuple[str, str, str], dict[int, Row]] = {}
    for row in features(found):
        by.setdefault((name(row), scheme(row), row["weights"]), {})[row["ranks"]] = row
    counts = sorted({row["ranks"] for row in features(found)})
    header = (
        *("network, images", "scores", "weights", "blocks of samples"),
        *(f"{count} rank{'s' * (count > 1)}" for count in counts),
        *("messages", "GiB sent"),
    )
    body = []
    for (case, kind, weights), of in by.items():
        last = of[counts[-1]]
        seconds = [
            f"{number(row['predicted_seconds'], 3)} ({number(row['predicted_speedup'], 3)})"
            for row in (of[count] for count in counts)
        ]
        sent = last["messages"], number(last["message_bytes"] / 2**30)
        body.append([case, kind, weights, last["sample_blocks"], *seconds, *sent])
    return table(header, body)


def compared(found: list[Row]) -> str:
    """E3D, 4D and features on 64 ranks."""
    ours = {
        (name(row), row["ranks"], row["weights"]): row for row in features(found) if scheme(row) == "exact"
    }
    header = (
        *(
            "network, images",
            "blocks",
            "E3D: seconds",
            "4D",
            "features, packed",
            "one by one",
            "4D over E3D",
            "of the products",
        ),
        *("with encodings", "of the products so", "the paper", "of the products", "4D: encoding, seconds"),
    )
    body = []
    for case, of in blocks(found).items():
        baseline, four = of["baseline"], of["4d"]
        speedups = ("speedup_over_baseline", "products_speedup_over_baseline")
        with_encodings = ("speedup_with_encodings", "products_speedup_with_encodings")
        mine = (ours.get((case, four["ranks"], way)) for way in ("packed", "one by one"))
        said = ("published_speedup_over_baseline", "published_products_speedup")
        body.append(
            [
                f"{case} ({four['published_network']})",
                four["blocks"].replace("x", "×"),
                *(number(row["predicted_seconds"], 3) for row in (baseline, four)),
                *("" if row is None else number(row["predicted_seconds"], 3) for row in mine),
                *(number(four[field], 3) for field in (*speedups, *with_encodings)),
                *(four[field] for field in said),
                f"{number(four['encode_seconds'])} (paper: below {number(four['published_encoding_seconds'])})",
            ]
        )
    return table(header, body)


def tables() -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    found = rows(ROWS)
    return {
        (PAGE, "one rank"): alone(found),
        (PAGE, "ranks"): on_ranks(found),
        (PAGE, "features"): predicted(found),
        (PAGE, "blocks"): compared(found),
    }


def figures() -> dict[str, Any]:
    """None."""
    return {}


if __name__ == "__main__":
    sys.exit(main("draw_secret_network", __doc__, tables, figures))
