"""Measures what docs/performance.md and the table of the README show, with `cipherblas bench`.

usage: measure_performance.py [--openfhe-python INTERPRETER] [--suite NAME [--files FOLDER]] [--only WORD]
                              [--minutes M] [--others CORES] [--limit SECONDS] [FILE]

Writes the rows that the benchmarks print to FILE (docs/measured/performance.jsonl), each with the command that made it,
the commit, and `others`: how many cores other processes kept busy meanwhile, on average. Where that is more than a
tenth of a core, or than --others, a command is measured again later, until the minutes are over; of several tries the
quietest is kept, also of those that FILE held before. SEAL must be installed (`pip install '.[peers]'`); without an
interpreter for OpenFHE its rows are left out. With --suite it measures published comparisons instead, for another file
of that folder: "fame", FAME's products by all methods (with --limit 600 what fits the memory is run, in an hour), and
"chains", two of them in a row; "bae", clear × secret in every form; "kernels", MetaKernel's in its ring; "e2dm-study",
E2DM stage by stage on three libraries (10 minutes), and "diagonals", Halevi and Shoup's product beside it (2 minutes),
both of which need an interpreter for OpenFHE; "peers", the libraries that install by pip (10 minutes); "roofline", what
bounds single operations (a minute); "ranks", products on ranks of MPI (10 minutes); "secret-network", networks whose
weights are encrypted, on ranks (an hour, 16 GiB of memory); "crossover", products in slots and by GEMM (10 minutes);
"exact", products of exact integers (5 minutes); "layers", MetaKernel's kernels in the rings that the planner takes (15
minutes); "predictions", plans beside runs (5 minutes); "mambo", products inside of bootstrapping (15 minutes, 20 GiB);
"examples", what examples print (10 minutes, needs --files, as networks); "networks", whole encrypted networks (15
minutes, needs --files: the folder in which the networks and images are that `NETWORKS` names).
`scripts/draw_performance.py --write`, `scripts/draw_claims.py --write`, `scripts/draw_peers.py --write`,
`scripts/draw_ranks.py --write`, `scripts/draw_secret_network.py --write`, `scripts/draw_examples.py --write` and
`scripts/draw_networks.py --write` put them on the pages.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cipherblas.report.rates import machine_line

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "measured" / "performance.jsonl"
NORMALISE = ["--normalise", "123.675,116.28,103.53:58.395,57.12,57.375"]  # of ImageNet's pixels, as bytes
MEMORY = ["--memory-budget", "8GiB"]  # which keys and diagonals fit; more is faster
# By `examples/train_cifar.py`, and what they are planned for.
TRAINED = {
    "vgg11": "--error 1 --degree 126",
    "alexnet": "--error 1 --degree 126",
    "mobilenet": "--error 2 --degree 126",
}
TEST, TRAIN = "cifar10/lossless20.npz", "cifar10/test1000.npz"  # images to encrypt, and to plan by


def network(name: str, target: str, count: int, *more: str, images: str = TEST) -> list[str]:
    """A network on so many images, planned for an error of a score or an agreement."""
    files = ["--models", f"networks/{name}.onnx", "--images", images, "--samples", TRAIN]
    planned = ["--sample-count", "100", *target.split(), "--weight-budget", "1GiB"]
    return ["nn", *files, "--image-count", str(count), *planned, *more]


NETWORKS = [
    network("resnet8", "--error 4", 6, "--degree", "126"),
    network("resnet20", "--error 4", 4, *MEMORY, *NORMALISE),
    network("resnet20", "--error 4", 4, *MEMORY, "--threads", "2", *NORMALISE),
    network("resnet20", "--error 1.5", 4, *MEMORY, "--degree", "126", *NORMALISE),
    network("resnet20", "--error 4", 16, "--batch", "8", *NORMALISE),
    network("ace_resnet20_cifar10", "--error 4", 4, *NORMALISE),
    network("ace_resnet32_cifar100", "--error 4", 3, *NORMALISE, images="networks/cifar100_lossless20.npz"),
    network("resnet56", "--error 20", 2, *NORMALISE),
    network("ace_squeezenet_cifar10", "--error 4", 4, *NORMALISE),
    *(network(name, target, 3, *NORMALISE) for name, target in TRAINED.items()),
]
EXAMPLES = [
    ["examples/encrypted_table.py"],
    ["examples/recommender.py"],
    ["examples/encrypted_cnn.py", "--data", "mnist"],
    ["examples/batch_classification.py", "--data", "mnist", "--sizes", "1", "10000", "--threads", "1"],
    [
        *("examples/attention.py", "--heads", "12", "--tokens", "128", "--width", "64"),
        *("--error", "1.2", "--refresh", "--runs", "3"),
    ],
]
EXACT = ["--exact", "--dtype", "int8", "--dtype", "int16"]
EXACT += [word for d in (256, 1024, 4096) for word in ("--shape", f"{d}x{d}x{d}")]
SECRET = ["distributed", "--suite", "secret-network", "--real"]
# The memory is given: what is free differs from run to run, and with it the keys that a plan takes.
SUITES = {
    "chains": [["cc", "--suite", "fame", "--chain", "--memory-budget", "16GiB"]],
    "fame": [["cc", "--suite", "fame", "--baselines", "--limit", "12", "--memory-budget", "16GiB"]],
    "bae": [
        ["pc", "--suite", "bae", "--limit", "60", "--memory-budget", "16GiB"],
        ["pc", "--suite", "bae", "--sizes", "16384", "--suite-form", "shared rows", "--limit", "3600"],
    ],
    "kernels": [["nn", "--published-ring", "--limit", "30", "--seconds", "1"]],
    "e2dm-study": [["e2dm-study", "--peer", "seal", "--peer", "openfhe"]],
    "diagonals": [
        [
            *("e2dm-study", "--sizes", "2,4,8,16,19", "--limit", "0", "--isa", "avx512ifma"),
            *("--peer", "seal", "--peer", "openfhe"),
        ],
    ],
    "peers": [["peers"]],
    "roofline": [["primitives", "--roofline"]],
    "networks": NETWORKS,
    "examples": EXAMPLES,
    "crossover": [["crossover", "--limit", "20", "--memory-budget", "16GiB"]],
    "exact": [["pc", *EXACT], ["cc", *EXACT]],
    "layers": [["nn", "--limit", "30", "--seconds", "1"], ["nn", "--baseline", "none", "--threads", "2"]],
    "predictions": [["model"]],
    "mambo": [["mambo", "--size", "256", "--size", "768", "--size", "1024"], ["mambo", "--size", "4096"]],
    "secret-network": [
        [*SECRET, "--network", "digits", "--images", "8192", "--ranks", "1"],
        [
            *(*SECRET, "--network", "digits", "--images", "8192", "--ranks", "1"),
            *("--link", "100000", "--scheme", "bgv"),
        ],
        [*SECRET, "--network", "photographs", "--images", "1024", "--ranks", "1"],
        [
            *(*SECRET, "--network", "digits", "--images", "32768", "--scheme", "ckks"),
            *("--ranks", "1", "--ranks", "2", "--ranks", "4"),
        ],
        [
            *(*SECRET, "--network", "digits", "--images", "32768", "--scheme", "bgv"),
            *("--ranks", "1", "--ranks", "2"),
        ],
        [*SECRET, "--network", "photographs", "--images", "256", "--ranks", "1", "--ranks", "2"],
        ["distributed", "--suite", "secret-network", "--model"],
    ],
    "ranks": [
        ["distributed", "--shape", "2048x2048x2048", "--ranks", "1", "--ranks", "2"],
        ["distributed", "--shape", "4096x4096x4096", "--ranks", "1", "--ranks", "2", "--rounds", "1"],
        [
            *("distributed", "--shape", "8192x8192x8192", "--ranks", "1", "--threads", "2"),
            *("--rounds", "1", "--times", "1"),
        ],
        ["distributed", "--suite", "fhe4dmm", "--model"],
        ["distributed", "--suite", "fhe4dmm", "--real", "--slots", "256", "--rounds", "5"],
        [
            *("distributed", "--suite", "fhe4dmm", "--real", "--divided-by", "4", "--sharing", "4d-b"),
            *("--ranks", "1", "--ranks", "2", "--rounds", "1"),
        ],
    ],
}
CC_SIZES, PC_SIZES, PEER_SIZES = (
    (64, 128, 256, 512, 1024, 2048),
    (64, 128, 256, 512, 1024, 2048, 4096),
    (64, 32, 128),
)
CASES = ["--case", "rotate", "--case", "multiply", "--case", "rescale"]
QUIET = 0.1  # cores
STUDIES = ("e2dm-study", "diagonals")  # which need OpenFHE
NEED_FILES = ("networks", "examples")
Row = dict[str, object]


def shape(d: int) -> list[str]:
    return ["--shape", f"{d}x{d}x{d}"]


def commands(openfhe_python: str | None) -> Iterator[list[str]]:
    """The arguments of `cipherblas bench`."""
    for d in PEER_SIZES:
        yield ["cc", *shape(d), "--peer", "seal"]
    yield ["primitives", "--peer", "seal", *CASES]
    if openfhe_python:
        yield ["primitives", "--peer", "openfhe", "--peer-python", openfhe_python, *CASES]
    for threads in ("1", "2"):
        yield from (["cc", *shape(d), "--threads", threads] for d in CC_SIZES)
        yield from (["pc", *shape(d), "--threads", threads] for d in PC_SIZES)


def commit() -> str:
    """The last one that changed the package; with a + where its files differ from it."""
    files = ["src", "cpp", "CMakeLists.txt", "pyproject.toml"]
    last = ["git", "log", "-1", "--abbrev=10", "--format=%h", "--", *files]
    said = subprocess.run(last, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    changed = subprocess.run(
        ["git", "diff", "--quiet", "HEAD", "--", *files], cwd=ROOT, check=False
    ).returncode
    return said + "+" * changed


def busy() -> float:
    """Seconds of all cores that were not idle, without those of our children."""
    user, nice, system, _, _, interrupts, soft, *_ = map(
        int, Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    )
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    everything = (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")
    return everything - ours.ru_utime - ours.ru_stime


def others_during(seconds: float) -> float:
    """Cores that others keep busy while we wait."""
    start, before = time.perf_counter(), busy()
    time.sleep(seconds)
    return (busy() - before) / (time.perf_counter() - start)


def measured(arguments: list[str], shown: str, folder: Path | None = None) -> list[Row]:
    """The rows of one command, run in a folder."""
    start, before, at, day = time.perf_counter(), busy(), commit(), time.strftime("%Y-%m-%d")
    example = arguments[0].startswith("examples/")
    if example:
        program = [sys.executable, str(ROOT / arguments[0]), *arguments[1:]]
    else:
        program = [sys.executable, "-m", "cipherblas", "bench", *arguments, "--json", "--quiet"]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True, cwd=folder)
    others = round(max(0.0, (busy() - before) / (time.perf_counter() - start)), 3)
    known = {"command": shown, "commit": at, "date": day, "others": others}
    if example:
        return [{**known, "machine": machine_line(), "output": done.stdout}]
    return [{**known, **json.loads(line)} for line in done.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--openfhe-python", metavar="INTERPRETER", help="CPython 3.10 that has OpenFHE")
    parser.add_argument("--suite", choices=SUITES, help="a published comparison instead")
    parser.add_argument("--files", type=Path, metavar="FOLDER", help="of networks and images")
    parser.add_argument("--only", default="", metavar="WORD", help="commands that contain this word")
    parser.add_argument("--limit", metavar="SECONDS", help="in place of those of the suite's commands")
    parser.add_argument(
        "--others", type=float, default=QUIET, metavar="CORES", help=f"that others may keep busy ({QUIET})"
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="when to stop (30)")
    given = parser.parse_args()
    if given.suite in STUDIES and not given.openfhe_python:
        parser.error(f"{given.suite} needs --openfhe-python")
    if (given.suite in NEED_FILES) != (given.files is not None):
        parser.error(f"{' and '.join(NEED_FILES)}, and they alone, need --files")
    file: Path = given.file or (FILE.with_name(f"{given.suite}.jsonl") if given.suite else FILE)
    end = time.monotonic() + 60 * given.minutes
    wanted: dict[str, list[str]] = {}
    for arguments in SUITES[given.suite] if given.suite else commands(given.openfhe_python):
        if given.suite in STUDIES:
            arguments = [*arguments, "--peer-python", f"openfhe={given.openfhe_python}"]
        if given.limit and "--limit" in arguments:
            place = arguments.index("--limit") + 1
            arguments = [*arguments[:place], given.limit, *arguments[place + 1 :]]
        words = [word.replace(given.openfhe_python or "\0", "python3.10") for word in arguments]
        begun = ["python"] if given.suite == "examples" else ["cipherblas", "bench"]
        wanted[shlex.join([*begun, *words])] = arguments
    kept: dict[str, list[Row]] = {shown: [] for shown in wanted}
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["command"] in kept:
                kept[row["command"]].append(row)

    def noise(shown: str) -> float:
        return max((float(str(row["others"])) for row in kept[shown]), default=float("inf"))

    while time.monotonic() < end:
        waiting = [shown for shown in wanted if noise(shown) > given.others and given.only in shown]
        if not waiting:
            break
        for shown in sorted(waiting, key=noise, reverse=True):
            while others_during(3.0) > given.others and time.monotonic() < end:
                pass
            if time.monotonic() >= end:
                break
            rows = measured(wanted[shown], shown, given.files)
            print(f"{shown}: others kept {rows[0]['others']} cores busy", flush=True)
            if float(str(rows[0]["others"])) < noise(shown):
                kept[shown] = rows
                file.parent.mkdir(parents=True, exist_ok=True)
                lines = [f"{json.dumps(row)}\n" for found in kept.values() for row in found]
                file.write_text("".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
