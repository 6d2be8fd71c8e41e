"""Lay a submission to a public benchmark into a copy of its harness.

    python examples/scoreboard/install.py fetch-by-similarity DIR

DIR holds the harness; its folder `submission` is made, or its files are replaced.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
WORKLOADS = {"fetch-by-similarity": "fetch_by_similarity"}


def install(workload: str, folder: Path) -> list[Path]:
    """Copy the stages of a workload; the files that were written.

    Raises:
        FileNotFoundError: the folder holds no harness.
    """
    if not (folder / "harness" / "run_submission.py").is_file():
        raise FileNotFoundError(f"There is no harness/run_submission.py in {folder}.")
    target = folder / "submission"
    target.mkdir(exist_ok=True)
    sources = sorted((HERE / WORKLOADS[workload]).glob("*.*"))
    return [Path(shutil.copy(source, target)) for source in sources if source.is_file()]


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", choices=sorted(WORKLOADS))
    parser.add_argument("folder", metavar="DIR", type=Path, help="a copy of the harness")
    options = parser.parse_args(arguments)
    try:
        written = install(options.workload, options.folder)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(written)} files in {options.folder / 'submission'}")
    print(f"Now, in {options.folder}: python3 harness/run_submission.py 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
