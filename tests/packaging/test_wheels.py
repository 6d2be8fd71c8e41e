"""Wheels install and run where there is no compiler: `make wheel` builds them and runs this."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import cipherblas

ROOT = Path(__file__).resolve().parents[2]
FOLDER = os.environ.get("CIPHERBLAS_WHEELS")
WHEELS = sorted(Path(FOLDER).resolve().glob("cipherblas-*.whl")) if FOLDER else []
PURE = {name: ROOT / name / "src" / f"cipherblas_{name}" for name in ("bench", "hardware")}
KINDS = (".py", ".sv", ".vlt", ".cpp", ".h")  # of files that they hold
NO_WHEELS = pytest.mark.skipif(not FOLDER, reason="CIPHERBLAS_WHEELS names no folder: `make wheel` sets it")


def wheel_apart(name: str) -> Path:
    """That of a distribution which stands beside the package."""
    (found,) = Path(str(FOLDER)).resolve().glob(f"cipherblas_{name}-*-py3-none-any.whl")
    return found


@pytest.fixture(scope="module")
def make_wheels() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_wheels", ROOT / "scripts" / "make_wheels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_interpreters_are_found_by_trying_them(
    make_wheels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not run, is too old, or is something else, is passed over."""
    for name, text in {
        "python3.12": 'echo \'[[3, 12], "", ""]\'',
        "python3.11": "exit 127",
        "python3.9": 'echo \'[[3, 9], "", ""]\'',
        "python3.13-config": "exit 0",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    found = make_wheels.interpreters()
    assert found[(3, 12)] == tmp_path / "python3.12"
    assert all(version >= (3, 10) for version in found)


@NO_WHEELS
def test_there_is_one_for_each_interpreter(make_wheels: ModuleType) -> None:
    tags = {re.search(r"-cp(3)(\d+)-", wheel.name) for wheel in WHEELS}
    assert {(int(tag[1]), int(tag[2])) for tag in tags if tag} == set(make_wheels.interpreters())
    assert all("manylinux" in wheel.name for wheel in WHEELS)


@NO_WHEELS
@pytest.mark.parametrize("name", PURE)
def test_what_stands_beside_is_whole(name: str) -> None:
    """All modules, those of hardware too, and the version of the package, which it asks for."""
    with zipfile.ZipFile(wheel_apart(name)) as wheel:
        held = {file for file in wheel.namelist() if Path(file).suffix in KINDS}
        (metadata,) = [file for file in wheel.namelist() if file.endswith("/METADATA")]
        said = wheel.read(metadata).decode()
    source = PURE[name]
    assert held == {
        path.relative_to(source.parent).as_posix() for path in source.rglob("*") if path.suffix in KINDS
    }
    version = cipherblas.__version__
    assert f"\nVersion: {version}\n" in said and f"\nRequires-Dist: cipherblas=={version}\n" in said


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_it_runs_without_a_compiler(wheel: Path, make_wheels: ModuleType, tmp_path: Path) -> None:
    minor = int(re.findall(r"-cp3(\d+)-", wheel.name)[0])
    python = make_wheels.interpreters()[(3, minor)]
    subprocess.run([str(python), "-m", "venv", str(tmp_path / "venv")], check=True)
    commands = tmp_path / "venv" / "bin"
    alone = {"PATH": str(commands), "HOME": str(tmp_path)}  # no compiler, no make, no cmake
    pip = [str(commands / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    subprocess.run([*pip, "--only-binary", ":all:", str(wheel)], check=True, env={**kept, **alone})
    run = subprocess.run(
        [str(commands / "python"), str(ROOT / "examples" / "quickstart.py")],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=alone,
    )
    assert float(run.stdout.split()[-1]) < 0.01
    stated = subprocess.run(
        [str(commands / "cipherblas"), "plan", "--a", "16x16", "--b", "16x16"],
        check=True,
        capture_output=True,
        text=True,
        env=alone,
    )
    assert stated.stdout.startswith("program")
    arguments = [
        str(commands / "cipherblas"),
        "fame-model",
        "--set",
        "A",
        "--shape",
        "64x64x64",
        "--json",
        "-q",
    ]
    absent = subprocess.run(arguments, check=False, capture_output=True, text=True, env=alone)
    assert absent.returncode == 1 and "The command 'fame-model' is not installed." in absent.stderr
    separated = [str(wheel_apart(name)) for name in PURE]
    subprocess.run([*pip, "--no-index", *separated], check=True, env=alone)
    assert subprocess.run(arguments, check=True, capture_output=True, env=alone).stdout.startswith(b"{")
