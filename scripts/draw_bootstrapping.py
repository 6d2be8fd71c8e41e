"""Draws docs/measured/bootstrapping.jsonl and bootstrapping-batches.jsonl, and writes their tables into
docs/bootstrapping.md, and those of what is counted into docs/algorithms.md.

usage: draw_bootstrapping.py [--write] [--pictures FOLDER]

Without arguments it prints the tables. The first file holds one row, as `cipherblas bench bootstrap --peer openfhe
--ciphertexts N --in-a-row N --json` printed it, with the `command` and the `commit` of the package; the second one
those of runs with `--batch … --shared`, the first of each of which has these, too. mambo.jsonl is of
`scripts/measure_performance.py --suite mambo`. Refreshes of fewer slots are counted here. Pictures need matplotlib.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.methods.bootstrapping.refresh import bootstrapping_of
from cipherblas.planner.rings.modulus_chains import chain
from cipherblas_bench.bootstrap import SETS
from measured_pages import MEASURED, ROOT, Row, awaited, conditions, main, number, rows, table

ROW = MEASURED / "bootstrapping.jsonl"
BATCHES = MEASURED / "bootstrapping-batches.jsonl"
MAMBO = MEASURED / "mambo.jsonl"
PAGE, ALGORITHMS = (ROOT / "docs" / f"{name}.md" for name in ("bootstrapping", "algorithms"))
FEWER = (15, 14, 13, 12, 11, 10)  # log2 of the slots that are counted, of a ring of degree 2^16
PARAMETERS = (("limbs", "limbs"), ("digits", "dnum"), ("log2(Q)", "logq"), ("log2(P)", "logp"))
SIZES = (("evaluation keys, GiB", "key_bytes"), ("peak of the process, GiB", "peak_bytes"))
STEPS = (
    ("SlotsToCoeffs", "slots_to_coefficients"),
    ("ModRaise", "mod_raise"),
    ("CoeffsToSlots", "coefficients_to_slots"),
    ("EvalMod", "eval_mod"),
)
GIB = 2**30


def measured() -> Row:
    """The row."""
    found: Row = json.loads(ROW.read_text(encoding="utf-8"))
    return found


def beside(row: Row) -> str:
    """What else ran: the load without the threads that are measured."""
    others = row["load"] - row["threads"]
    return "with no other work on the machine" if others < 0.1 else f"beside a load of {number(others)}"


def text(row: Row) -> str:
    """Ours beside the peer's, and the seconds of our steps."""
    theirs = row["peer_params"]
    least = row["seconds_min"], row["peer_seconds_min"]
    both = tuple(zip(least, (row["levels_left"], theirs["levels_left"]), strict=True))
    body = [
        [f"seconds, {row['threads']} thread, least", *(number(seconds, 3) for seconds in least)],
        ["median", *(number(row[f"{side}seconds"], 3) for side in ("", "peer_"))],
        ["levels from one to the next", *(levels for _, levels in both)],
        ["seconds for each of these levels", *(number(seconds / levels) for seconds, levels in both)],
        ["bits in the worst slot", number(row["precision_bits"], 3), number(theirs["precision_bits"], 3)],
        *([name, *(number(side[field] / GIB) for side in (row, theirs))] for name, field in SIZES),
        *([name, *(params[field] for params in (row["params"], theirs))] for name, field in PARAMETERS),
    ]
    return "\n".join(
        [
            f"`{row['command']}`, of commit {row['commit']},",
            f"on {row['machine']}, {beside(row)}.",
            f"OpenFHE's minimum time is {number(row['speedup_of_least'])} times ours.",
            f"Over {row['ciphertexts']} ciphertexts",
            f"the worst slot of ours has {number(row['precision_bits'], 3)} bits, where "
            f"{number(row['predicted_bits'], 3)} are predicted.",
            "",
            table(("", "ours", row["peer"]), body),
            "",
            "Seconds of our steps, medians: "
            + ", ".join(f"{name} {number(row[f'{field}_seconds'])}" for name, field in STEPS)
            + ".",
        ]
    )


def runs_of_batches() -> list[list[Row]]:
    """The rows of each command: of one ciphertext by itself, and of batches, in order, two by two first."""
    found = [json.loads(line) for line in BATCHES.read_text(encoding="utf-8").splitlines()]
    starts = [index for index, row in enumerate(found) if row["batch"] == 1]
    runs = [found[start:end] for start, end in zip(starts, [*starts[1:], len(found)], strict=True)]
    return [sorted(run, key=lambda row: (row["batch"], "secrets" in row)) for run in runs]


def of_batches() -> str:
    """What a ciphertext takes by itself, two by two, and with an a part that pairs share: a table for each command."""
    return "\n\n".join(_of_a_run(*run) for run in runs_of_batches())


def _of_a_run(single: Row, *batches: Row) -> str:
    """One command."""
    body = [["1", "", number(single["seconds"], 3), "1", "", *_of_all(single)]]
    for row in batches:
        converted = row.get("to_shared_seconds"), row.get("from_shared_seconds")
        separated = "" if None in converted else " + ".join(number(part / row["batch"]) for part in converted)
        way = f"shared a, r = {row['secrets']}" if "secrets" in row else "two by two"
        throughput = number(single["seconds"] / row["seconds_each"], 3)
        body.append([row["batch"], way, number(row["seconds_each"], 3), throughput, separated, *_of_all(row)])
    titles = (
        *("ciphertexts", "", "seconds for one", "throughput", "of these there and back"),
        *("keys, GiB", "bits of the worst slot"),
    )
    return "\n".join(
        [
            f"`{single['command']}`, of commit {single['commit']},",
            f"on {single['machine']}, {single['threads']} thread. Over {single['ciphertexts']} ciphertexts one by one",
            f"the worst slot has {number(single['precision_bits'], 3)} bits, where "
            f"{number(single['predicted_bits'], 3)} are predicted.",
            "",
            table(titles, body),
        ]
    )


def _of_all(row: Row) -> list[str]:
    return [number(row["key_bytes"] / GIB), number(row["precision_bits"], 3)]


def precision(row: Row) -> Any:
    """Bits of the worst slot after every refresh of one ciphertext."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), facecolor="white", layout="constrained")
    axis = figure.subplots()
    times = range(1, len(row["bits_in_a_row"]) + 1)
    axis.plot(times, row["bits_in_a_row"], "o-", color="tab:blue", label="found")
    axis.plot(times, row["predicted_bits_in_a_row"], "s--", color="tab:orange", label="predicted at least")
    axis.set_title(f"one ciphertext of {row['slots']} slots, refreshed in a row", fontsize=10)
    axis.set_xlabel("refreshes")
    axis.set_ylabel("bits in the worst slot")
    axis.set_ylim(bottom=0)
    axis.set_xticks(list(times))
    axis.grid(alpha=0.3)
    axis.legend()
    return figure


def at_once() -> str:
    """What a refresh of one ciphertext takes, in each ring."""
    singles = [single for single, *_ in runs_of_batches()]
    body = [
        ["values in one ciphertext", *(f"{row['slots']:,}" for row in singles)],
        ["levels between two refreshes", *(row["levels_left"] for row in singles)],
        ["bits that are predicted", *(number(row["predicted_bits"], 3) for row in singles)],
        ["bits that are found", *(number(row["precision_bits"], 3) for row in singles)],
        [f"seconds, {singles[0]['threads']} thread", *(number(row["seconds"]) for row in singles)],
        ["evaluation keys, GiB", *(number(row["key_bytes"] / GIB) for row in singles)],
    ]
    text = table(["", *(f"N = 2^{row['params']['n'].bit_length() - 1}" for row in singles)], body)
    return f"{text}\n\nThese are the first rows of [batches](#batches), which say where they come from."


def counted_batches() -> str:
    """Transforms of limbs for a ciphertext whose a part is shared, over those of one by itself, and all keys."""
    body = []
    for single, *batches in runs_of_batches():
        for row in (one for one in batches if one.get("ntt_limbs")):
            share = row["ntt_limbs"] / row["batch"] / single["ntt_limbs"]
            log_n = row["params"]["n"].bit_length() - 1
            body.append(
                [f"2^{log_n}", row["batch"], row["secrets"], number(share), number(row["key_bytes"] / GIB)]
            )
    return table(["ring degree", "ciphertexts", "r", "transforms", "keys, GiB"], body)


def counted_slots() -> str:
    """What a refresh of fewer slots takes, counted."""
    params = chain(1 << 16, *SETS[16]).parameters(128, insecure=False)
    body = []
    for log_slots in FEWER:
        method, ev = bootstrapping_of(params).packed(1 << log_slots), Symbolic(params)
        method.run(ev, ev.fresh(None, bound=1.0, limbs=method.levels_before + 1))
        counts, read = ev.counts, ev.counts.key_bytes_read / 1e9
        body.append([f"{1 << log_slots:,}", f"{counts.ntt_limbs:,}", f"{counts.mac_limbs:,}", number(read)])
    return table(["slots", "transforms of limbs", "multiply-adds, limbs", "key bytes read, GB"], body)


def products() -> str:
    """Products inside of bootstrapping."""
    found = rows(MAMBO)
    first = found[0]
    pair, single = first["pair_seconds"], first["single_seconds"]
    body = [
        ["none, one by one, as is fastest for one", number(single, 3), "", "1", ""],
        ["none, two by two", number(pair, 3), "", number(single / pair, 3), ""],
    ]
    for row in found:
        share, bits = f"{number(100 * row['product_share'])} %", number(row["precision_bits"], 3)
        body.append(
            [row["case"], number(row["seconds"], 3), share, number(row["throughput_of_single"], 3), bits]
        )
    titles = ("product", "seconds for a ciphertext", "its share", "throughput", "bits of the worst slot")
    return f"{table(titles, body)}\n\n{conditions(found)}"


def tables() -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    return {
        (PAGE, "at once"): at_once(),
        (PAGE, "measured"): text(measured()),
        (PAGE, "batches"): of_batches(),
        (PAGE, "products"): products() if MAMBO.exists() else awaited("mambo"),
        (ALGORITHMS, "batches, counted"): counted_batches(),
        (ALGORITHMS, "slots, counted"): counted_slots(),
    }


def figures() -> dict[str, Any]:
    """Name → picture."""
    return {"bootstrapping-precision": precision(measured())}


if __name__ == "__main__":
    sys.exit(main("draw_bootstrapping", __doc__, tables, figures))
