"""The extension module as a whole: the same bits from every instruction set, and the stub that describes it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cipherblas import _core

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "src" / "cipherblas" / "_core.pyi"
DIGEST = Path(__file__).with_name("native_digest.py")
SUITES = Path(os.environ.get("CIPHERBLAS_NATIVE", ROOT / "build" / "native"))


def run(isa: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "CIPHERBLAS_ISA": isa},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_instruction_set_gives_the_same_bits() -> None:
    usable = _core.isas()
    assert "scalar" in usable
    digests = {}
    for isa in usable:
        result = run(isa, str(DIGEST))
        assert result.returncode == 0, result.stderr
        name, digests[isa] = result.stdout.split()
        assert name == isa
    assert len(set(digests.values())) == 1, digests


def test_an_unknown_instruction_set_is_named() -> None:
    result = run("sse9", "-c", "from cipherblas import _core\n_core.isa()")
    assert result.returncode != 0
    assert "CIPHERBLAS_ISA" in result.stderr
    assert "scalar" in result.stderr
    assert "sse9" in result.stderr


def members(body: list[ast.stmt]) -> set[str]:
    return {
        node.name
        for node in body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }


def public_names(value: object) -> set[str]:
    return {name for name in dir(value) if not name.startswith("_")}


def test_the_stub_names_what_the_module_has() -> None:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    assert members(tree.body) == public_names(_core)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            assert members(node.body) == public_names(getattr(_core, node.name)), node.name


@pytest.mark.slow
def test_native_suites() -> None:
    """The C++ suites, where `make native-test` has built them."""
    if not (SUITES / "CTestTestfile.cmake").exists():
        pytest.skip(f"no C++ suites in {SUITES}: make native-test builds them (needs GoogleTest)")
    ctest = shutil.which("ctest", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if ctest is None:
        pytest.skip("no ctest on this machine")
    result = subprocess.run(
        [ctest, "--test-dir", str(SUITES), "--output-on-failure", "--no-tests=error"],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert result.returncode == 0, result.stdout
