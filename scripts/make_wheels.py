"""Wheels for every Python from 3.10 on that is found here, which need no compiler where they are installed.

Of the distributions that stand beside the package, and have nothing to compile, one each for all of them.

usage: make_wheels.py FOLDER [--python PYTHON] …

Looks for interpreters on the PATH and among those of pyenv. Each wheel is built in an environment of its own, and
auditwheel (which the interpreter that runs this must have) copies into it what not every Linux has, and names the
oldest system that it runs on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 10)
PURE = ("bench", "hardware")  # folders of distributions with nothing to compile
ASKED = "import json, sys; print(json.dumps([sys.version_info[:2], sys.executable, sys.base_prefix]))"


def interpreters() -> dict[tuple[int, int], Path]:
    """The first interpreter that works of each version."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders += sorted(folder / "bin" for folder in pyenv.glob("3.*"))
    found: dict[tuple[int, int], Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("python3.[0-9]*")):
            version = version_of(path)
            if version is not None and version >= OLDEST:
                found.setdefault(version, path)
    return dict(sorted(found.items()))


def version_of(python: Path) -> tuple[int, int] | None:
    """Of an interpreter that runs and can make environments; None of anything else."""
    if not python.name.removeprefix("python3.").isdigit():
        return None
    try:
        done = subprocess.run(
            [str(python), "-c", f"import ensurepip, venv; {ASKED}"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except OSError:
        return None
    if done.returncode:
        return None
    major, minor = json.loads(done.stdout)[0]
    return major, minor


def built(python: Path, folder: Path) -> Path:
    """The wheel of one interpreter."""
    with tempfile.TemporaryDirectory(prefix="cipherblas-wheel-") as temporary:
        place = Path(temporary)
        _run(str(python), "-m", "venv", str(place / "venv"))
        pip = [str(place / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        _run(*pip, "wheel", "--no-deps", "-w", str(place), str(ROOT))
        (raw,) = place.glob("*.whl")
        audit = [sys.executable, "-m", "auditwheel", "repair", "-w", str(place / "repaired"), str(raw)]
        _run(
            *audit,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        )
        (repaired,) = (place / "repaired").glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(str(repaired), folder / repaired.name))


def built_apart(python: Path, folder: Path) -> list[Path]:
    """The wheels of what nothing is compiled for; an interpreter makes those of all."""
    found = []
    with tempfile.TemporaryDirectory(prefix="cipherblas-wheel-") as temporary:
        _run(str(python), "-m", "venv", temporary)
        pip = [f"{temporary}/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        for name in PURE:
            made = Path(temporary) / "wheels" / name
            _run(*pip, "wheel", "--no-deps", "-w", str(made), str(ROOT / name))
            (wheel,) = made.glob("*.whl")
            folder.mkdir(parents=True, exist_ok=True)
            found.append(Path(shutil.move(str(wheel), folder / wheel.name)))
    return found


def _run(*command: str, env: dict[str, str] | None = None) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr, env=env)


def main() -> int:
    """The command; returns 1 where no interpreter is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", type=Path, action="append", help="build for this one; may be given again")
    options = parser.parse_args()
    wanted = options.python or list(interpreters().values())
    if not wanted:
        print("no Python from 3.10 on was found", file=sys.stderr)
        return 1
    for python in wanted:
        print(built(python, options.folder), flush=True)
    print(*built_apart(wanted[0], options.folder), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
