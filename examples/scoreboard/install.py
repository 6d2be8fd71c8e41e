"""Lay a submission to a public benchmark into a copy of its harness.

    python examples/scoreboard/install.py fetch-by-similarity DIR
    python examples/scoreboard/install.py ml-inference DIR --model resnet20
    python examples/scoreboard/install.py zn-multiplication DIR

DIR holds the harness; its folder `submission`, or that of the model in `submissions` where the harness has several, is
made, or its files are replaced. Where a harness runs programs that were built, the stages are laid where these would
be, and what builds them does nothing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
WORKLOADS = {
    "fetch-by-similarity": "fetch_by_similarity",
    "ml-inference": "ml_inference",
    "zn-multiplication": "zn_multiplication",
}
BUILT = "zn-multiplication"  # whose harness runs programs by their names, from submission/target/release
SIDES = ("client_", "server_")  # names of stages begin so
BUILD_SCRIPTS = ("build_task.sh", "build_task_submission.sh")
NEXT = {
    "fetch-by-similarity": "python3 harness/run_submission.py 0",
    "ml-inference": "cipherblas import NETWORK.onnx --samples IMAGES.npy --normalise MEAN:DEVIATION --error 4 "
    "-o {target}/program.cb --client-output {target}/client.cb",
    "zn-multiplication": "python3 harness/run_submission.py 0",
}


def install(workload: str, folder: Path, model: str = "resnet20") -> list[Path]:
    """Copy the stages of a workload; the files that were written.

    Args:
        model: of the harness, where it has several.

    Raises:
        FileNotFoundError: the folder holds no harness.
    """
    if not (folder / "harness" / "run_submission.py").is_file():
        raise FileNotFoundError(f"There is no harness/run_submission.py in {folder}.")
    several = folder / "submissions"
    target = several / model if several.is_dir() else folder / "submission"
    target.mkdir(exist_ok=True)
    sources = [source for source in sorted((HERE / WORKLOADS[workload]).glob("*.*")) if source.is_file()]
    if workload == BUILT:
        return _as_programs(sources, folder, target)
    return [Path(shutil.copy(source, target)) for source in sources]


def _as_programs(sources: list[Path], folder: Path, target: Path) -> list[Path]:
    """The stages under the names of programs, for this interpreter, beside what they share; the scripts that build them
    do nothing."""
    built = target / "target" / "release"
    built.mkdir(parents=True, exist_ok=True)
    (folder / "scripts").mkdir(exist_ok=True)
    for name in BUILD_SCRIPTS:
        script = folder / "scripts" / name
        script.write_text("#!/bin/sh\n", encoding="ascii")
        script.chmod(0o755)
    written = []
    for source in sources:
        stage, text = source.name.startswith(SIDES), source.read_text(encoding="utf-8")
        written.append(built / (source.stem if stage else source.name))
        written[-1].write_text(f"#!{sys.executable}\n{text}" if stage else text, encoding="utf-8")
        written[-1].chmod(0o755 if stage else 0o644)
    return written


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", choices=sorted(WORKLOADS))
    parser.add_argument("folder", metavar="DIR", type=Path, help="a copy of the harness")
    parser.add_argument("--model", default="resnet20", help="of the harness, where it has several (resnet20)")
    options = parser.parse_args(arguments)
    try:
        written = install(options.workload, options.folder, options.model)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    target = written[0].parent
    print(f"{len(written)} files in {target}")
    print(
        f"Now, in {options.folder}: {NEXT[options.workload].format(target=target.relative_to(options.folder))}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
