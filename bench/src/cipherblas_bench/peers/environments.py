"""Virtual environments of the peers: made where they are wanted, by pip alone, with pip's reason where that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.10")


@dataclass(frozen=True)
class Package:
    """The package that a peer is installed from.

    Attributes:
        requirements: what pip is told.
        imports: a statement that fails where it is not usable.
        versions: of CPython, in the order in which they are tried.
    """

    requirements: tuple[str, ...]
    imports: str
    versions: tuple[str, ...] = VERSIONS


PACKAGES: Mapping[str, Package] = {
    "tenseal": Package(("numpy", "tenseal"), "import tenseal"),
    "seal": Package(("numpy", "seal-python"), "import seal"),
    # The wheels hold an extension for one version of CPython, which their tags do not always say.
    "openfhe": Package(("numpy", "openfhe"), "import openfhe", ("3.10", "3.12", "3.13")),
    "openfhe-numpy": Package(
        ("openfhe-numpy",), "import openfhe; import openfhe_numpy", ("3.10", "3.12", "3.13")
    ),
}


@dataclass(frozen=True)
class Environment:
    """An environment, or why there is none.

    Attributes:
        python: its interpreter, or None.
        reason: what pip, or the interpreter, said of each attempt that failed.
    """

    python: str | None
    reason: str


def environment(name: str, folder: Path) -> Environment:
    """The environment of a peer of `PACKAGES`: that of an earlier call, or a new one.

    Args:
        folder: where environments are kept, one folder for each peer.

    Raises:
        OSError: the folder cannot be made.
    """
    package, place = PACKAGES[name], folder / name
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    if python.exists() and _failure([str(python), "-c", package.imports]) is None:
        return Environment(str(python), "")
    folder.mkdir(parents=True, exist_ok=True)
    reasons = []
    for version in package.versions:
        interpreter = interpreter_of(version)
        if interpreter is None:
            reasons.append(f"CPython {version}: not found on this machine")
            continue
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        for command in (
            [interpreter, "-m", "venv", "--clear", str(place)],
            [*pip, *package.requirements],
            [str(python), "-c", package.imports],
        ):
            failure = _failure(command)
            if failure is not None:
                reasons.append(f"CPython {version}: {failure}")
                break
        else:
            return Environment(str(python), "; ".join(reasons))
    shutil.rmtree(place, ignore_errors=True)
    return Environment(None, "; ".join(reasons))


def interpreter_of(version: str) -> str | None:
    """An interpreter of CPython `version` that runs: this one, one of the path, or one that pyenv has installed."""
    for candidate in _candidates(version):
        said = _output([candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        if said == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[str]:
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield sys.executable
    found = shutil.which(f"python{version}")
    if found is not None:
        yield found
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from (str(path) for path in sorted(installed.glob(f"{version}.*/bin/python"), reverse=True))


def _output(command: list[str]) -> str | None:
    """The output of a command, or None where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_clean())
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _failure(command: list[str]) -> str | None:
    """The last lines that a failed command wrote to stderr; None where it did not fail."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_clean())
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip() and "[notice]" not in line]
    return " ".join(lines[-2:]) or f"ended with status {done.returncode}"


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
