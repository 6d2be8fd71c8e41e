"""Draws docs/measured/bootstrapping.jsonl, and writes its table into docs/bootstrapping.md.

usage: draw_bootstrapping.py [--write] [--pictures FOLDER]

Without arguments it prints the table. The file holds one row, as `cipherblas bench bootstrap --peer openfhe
--ciphertexts N --in-a-row N --json` printed it, with the `command` and the `commit` of the package. Pictures need
matplotlib.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from draw_performance import END, ROOT, SETTINGS, number, table

ROW = ROOT / "docs" / "measured" / "bootstrapping.jsonl"
PAGE, PICTURES = ROOT / "docs" / "bootstrapping.md", ROOT / "docs" / "pictures"
BEGIN = "<!-- begin: scripts/draw_bootstrapping.py --write -->"
PARAMETERS = (("limbs", "limbs"), ("digits", "dnum"), ("log2(Q)", "logq"), ("log2(P)", "logp"))
SIZES = (("evaluation keys, GiB", "key_bytes"), ("peak of the process, GiB", "peak_bytes"))
STEPS = (
    ("SlotsToCoeffs", "slots_to_coefficients"),
    ("ModRaise", "mod_raise"),
    ("CoeffsToSlots", "coefficients_to_slots"),
    ("EvalMod", "eval_mod"),
)
GIB = 2**30

Row = dict[str, Any]


def measured() -> Row:
    """The row."""
    found: Row = json.loads(ROW.read_text(encoding="utf-8"))
    return found


def text(row: Row) -> str:
    """Ours beside the peer's, and the seconds of our steps."""
    theirs = row["peer_params"]
    both = ((row["seconds"], row["levels_left"]), (row["peer_seconds"], theirs["levels_left"]))
    body = [
        [f"seconds, {row['threads']} thread", *(number(seconds, 3) for seconds, _ in both)],
        ["levels from one to the next", *(levels for _, levels in both)],
        ["seconds for each of these levels", *(number(seconds / levels) for seconds, levels in both)],
        ["bits in the worst slot", number(row["precision_bits"], 3), number(theirs["precision_bits"], 3)],
        *([name, *(number(side[field] / GIB) for side in (row, theirs))] for name, field in SIZES),
        *([name, *(params[field] for params in (row["params"], theirs))] for name, field in PARAMETERS),
    ]
    return "\n".join(
        [
            f"`{row['command']}`, of commit {row['commit']},",
            f"on {row['machine']}. Over {row['ciphertexts']} ciphertexts",
            f"the worst slot of ours has {number(row['precision_bits'], 3)} bits, where "
            f"{number(row['predicted_bits'], 3)} are predicted.",
            "",
            table(("", "ours", row["peer"]), body),
            "",
            "Seconds of our steps: "
            + ", ".join(f"{name} {number(row[f'{field}_seconds'])}" for name, field in STEPS)
            + ".",
        ]
    )


def stored() -> str:
    """What stands on the page."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip("\n")


def write(row: Row) -> None:
    """Put the table on the page."""
    before, mark, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    if not mark:
        raise SystemExit(f"{PAGE.name} has no mark {BEGIN}")
    PAGE.write_text(f"{before}{mark}\n\n{text(row)}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def draw(row: Row, folder: Path) -> None:
    """Bits of the worst slot after every refresh of one ciphertext."""
    import matplotlib
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(6.4, 3.8), facecolor="white", layout="constrained")
        axis = figure.subplots()
        times = range(1, len(row["bits_in_a_row"]) + 1)
        axis.plot(times, row["bits_in_a_row"], "o-", color="tab:blue", label="found")
        axis.plot(
            times, row["predicted_bits_in_a_row"], "s--", color="tab:orange", label="predicted at least"
        )
        axis.set_title(f"one ciphertext of {row['slots']} slots, refreshed in a row", fontsize=10)
        axis.set_xlabel("refreshes")
        axis.set_ylabel("bits in the worst slot")
        axis.set_ylim(bottom=0)
        axis.set_xticks(list(times))
        axis.grid(alpha=0.3)
        axis.legend()
        figure.savefig(folder / "bootstrapping-precision.svg", metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw the picture into this folder")
    given = parser.parse_args()
    row = measured()
    if given.write:
        write(row)
        draw(row, given.pictures or PICTURES)
    elif given.pictures:
        draw(row, given.pictures)
    else:
        print(text(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
