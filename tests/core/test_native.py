"""The extension module as a whole: the same bits from every instruction set, and the stub that describes it."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cipherblas._core as _core

ROOT = Path(__file__).resolve().parent.parent.parent
STUB = ROOT / "src" / "cipherblas" / "_core.pyi"
DIGEST = ROOT / "tests" / "support" / "native_digest.py"
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


@pytest.mark.slow  # a process for each: nothing that a sanitizer of the C++ suites would not see
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


def stub_signatures(body: list[ast.stmt]) -> dict[str, list[str] | None]:
    """Public names of the stub: the arguments of a function, None for a property, a constant or a class."""
    found: dict[str, list[str] | None] = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = None
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = None
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found[node.name] = None if node.decorator_list else [argument.arg for argument in node.args.args]
    return found


def module_signatures(value: object) -> dict[str, list[str] | None]:
    """The same of the module, from the signatures that nanobind writes."""
    found: dict[str, list[str] | None] = {}
    for name in (name for name in dir(value) if not name.startswith("_")):
        signature = getattr(getattr(value, name), "__nb_signature__", None)
        if signature is None:
            found[name] = None
            continue
        text, before = signature[0][0], ""
        while text != before:  # the types' brackets, from the inside out
            text, before = re.sub(r"\[[^][]*\]", "", text), text
        inside = text[text.index("(") + 1 : text.rindex(")")]
        found[name] = [part.split(":")[0].strip() for part in inside.split(",") if part.strip()]
    return found


def test_the_stub_says_what_the_module_has() -> None:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    assert stub_signatures(tree.body) == module_signatures(_core)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            assert stub_signatures(node.body) == module_signatures(getattr(_core, node.name))


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
