"""The architecture: no layer imports from one above it, and the server's side never sees the secret key."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CPP = ROOT / "cpp"
PACKAGE = ROOT / "src" / "cipherblas"

# Bottom up. A file of a layer may include its own layer and those before it.
CPP_LAYERS = ("arith", "ring", "gemm", "rlwe", "ckks", "core")

# Bottom up. A module may import the modules of its own line and of the lines before it. "cipherblas" is the
# package itself: what a user imports.
PYTHON_LAYERS: tuple[tuple[str, ...], ...] = (
    ("_core", "errors"),
    ("arrays", "blas", "memory", "limits", "security", "work"),
    ("randomness", "params"),
    ("files",),
    ("keys",),
    ("formats",),
    ("evaluators",),
    ("layouts",),
    ("algorithms",),
    ("expressions", "networks", "graph"),
    ("slot_arithmetic",),
    ("execution", "row_execution", "layer_execution"),
    ("planner",),
    ("matrices", "results"),
    ("program", "client", "encryptor", "server", "sharing", "keyrecord"),
    ("cipherblas",),
    ("report", "bench"),
    ("cli",),
)

# What runs on the server, and what of the client's it must neither import nor name.
SERVER_SIDE = (
    *("keys.evaluation", "keys.request", "keys.storage"),
    *("formats.matrix", "formats.rlwe", "formats.module", "formats.shared", "formats.storage"),
    *("formats.uniform", "formats.noise", "formats.conversion", "formats.conversion_keys"),
    *("formats.key_switch", "formats.transposition", "evaluators", "layouts", "algorithms"),
    *("slot_arithmetic", "execution", "row_execution", "layer_execution"),
    *("planner", "matrices", "results", "server"),
)
SECRET_MODULES = {
    "client",
    "encryptor",
    "keyrecord",
    "sharing",
    "keys.secret",
    "keys.generation",
    "formats.encryption",
    "formats.generation",
}
SECRET_NAMES = {"SecretKey", "generate_secret", "make_evaluation_keys", "decrypt_coefficients"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def cpp_violations(cpp: Path, layers: Sequence[str] = CPP_LAYERS) -> list[str]:
    """Includes that point upward, or at something that is not a layer."""
    rank = {layer: position for position, layer in enumerate(layers)}
    found = []
    for file in sorted(path for path in cpp.rglob("*") if path.suffix in {".h", ".cpp"}):
        name = file.relative_to(cpp)
        own = name.parts[0]
        if own == "tests":
            continue
        if own not in rank:
            found.append(f"{name}: {own} is not a layer")
            continue
        for included in INCLUDE.findall(file.read_text(encoding="utf-8")):
            layer = included.split("/")[0]
            if layer not in rank:
                found.append(f'{name}: "{included}" does not name a layer')
            elif rank[layer] > rank[own]:
                found.append(f'{name}: {own} includes "{included}" from above')
    return found


def module_name(file: Path, package: Path) -> str:
    """The dotted name below `package`; empty for the package itself."""
    parts = list(file.relative_to(package).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path, package: Path) -> Iterator[str]:
    """The modules of the package that `file` imports, anywhere in its text; empty for the package itself."""
    top = package.name
    own = [top, *module_name(file, package).split(".")] if module_name(file, package) else [top]
    base = own if file.name == "__init__.py" else own[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = base[: len(base) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            targets = []
            for alias in node.names:
                inner = package.joinpath(*source.split(".")[1:], alias.name)
                is_module = inner.with_suffix(".py").exists() or inner.is_dir() or alias.name == "_core"
                targets.append(f"{source}.{alias.name}" if is_module else source)
        else:
            continue
        for target in targets:
            if target == top or target.startswith(f"{top}."):
                yield target[len(top) + 1 :]


def python_files(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def python_violations(package: Path, layers: Sequence[Sequence[str]] = PYTHON_LAYERS) -> list[str]:
    """Imports that point upward or sideways, and modules that have no place in the table."""
    rank = {name: position for position, names in enumerate(layers) for name in names}
    found = []
    for file in python_files(package):
        own = module_name(file, package).split(".")[0] or package.name
        if own == "__main__":
            continue
        if own not in rank:
            found.append(f"{own} has no place in the table of layers")
            continue
        for target in imports(file, package):
            other = target.split(".")[0] or package.name
            if other not in rank:
                found.append(f"{own} imports {other}, which has no place in the table of layers")
            elif rank[other] > rank[own]:
                found.append(f"{file.relative_to(package)}: {own} imports {other} from above")
    return sorted(set(found))


def secret_violations(package: Path, server_side: Sequence[str] = SERVER_SIDE) -> list[str]:
    """Mentions of the secret key, or of the client, in modules that run on the server."""
    found = []
    for file in python_files(package):
        if not f"{module_name(file, package)}.".startswith(tuple(f"{name}." for name in server_side)):
            continue
        name = file.relative_to(package)
        mentioned = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name):
                mentioned.add(node.id)
            elif isinstance(node, ast.Attribute):
                mentioned.add(node.attr)
            elif isinstance(node, ast.alias):
                imported = node.name.split(".")[-1]
                mentioned.add(imported)
                if imported == "keys":  # some of its names may be imported, but not the package as a whole
                    found.append(f"{name}: imports keys as a whole")
        found += [f"{name}: names {secret}" for secret in sorted(mentioned & SECRET_NAMES)]
        found += [
            f"{name}: imports {module}" for module in sorted(SECRET_MODULES & set(imports(file, package)))
        ]
    return found


def test_cpp_layers() -> None:
    assert cpp_violations(CPP) == []


def test_python_layers() -> None:
    assert python_violations(PACKAGE) == []


def test_server_side_never_names_the_secret() -> None:
    modules = {module_name(file, PACKAGE).split(".")[0] for file in python_files(PACKAGE)}
    assert {
        "server",
        "evaluators",
        "keys",
        "client",
    } <= modules  # renamed: see SERVER_SIDE
    assert secret_violations(PACKAGE) == []


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("arith/a.h", '#include "ring/ntt.h"', 'arith includes "ring/ntt.h" from above'),
        ("ring/kernels/k.cpp", '#include <vector>\n  # include "rlwe/x.h"', 'includes "rlwe/x.h" from above'),
        ("rlwe/a.cpp", '#include "neighbour.h"', '"neighbour.h" does not name a layer'),
        ("extras/a.cpp", "", "extras is not a layer"),
    ],
)
def test_cpp_violations_are_found(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    good = {"arith/m.h": "#include <cstdint>", "core/module.cpp": '#include "ckks/e.h"\n#include "core/c.h"'}
    cpp = tree(tmp_path / "cpp", {**good, name: text})
    (message,) = cpp_violations(cpp)
    assert complaint in message


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("low.py", "from pkg.high import f", "low imports high from above"),
        ("low.py", "def f():\n    from pkg import high", "low imports high from above"),
        ("low.py", "import pkg.high.inner as x", "low imports high from above"),
        ("low.py", "import pkg", "low imports pkg from above"),
        ("low.py", "from .high import f", "low imports high from above"),
        ("middle/deep.py", "from ..high import inner", "middle imports high from above"),
        ("middle/__init__.py", "from .. import high", "middle imports high from above"),
        ("stray.py", "", "stray has no place"),
        ("low.py", "from pkg.gone import f", "low imports gone, which has no place"),
    ],
)
def test_python_violations_are_found(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    good = {
        "__init__.py": "from pkg.high import f",
        "low.py": "import numpy",
        "middle/__init__.py": "from pkg.middle.deep import g",
        "middle/deep.py": "from pkg import low",
        "beside.py": "from . import low",
        "high/__init__.py": "from pkg.middle import g\nfrom .inner import h",
        "high/inner.py": "from ..middle import deep",
    }
    layers = (("low",), ("middle", "beside"), ("high",), ("pkg",))
    assert python_violations(tree(tmp_path / "good" / "pkg", good), layers) == []
    (message,) = python_violations(tree(tmp_path / "bad" / "pkg", {**good, name: text}), layers)
    assert complaint in message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("from pkg.keys import EvaluationKeys, SecretKey", "names SecretKey"),
        ("def f():\n    from .keys import generate_secret", "names generate_secret"),
        ("from pkg import keys", "imports keys as a whole"),
        ("import pkg.keys as k", "imports keys as a whole"),
        ("def f(program):\n    return program.x.SecretKey", "names SecretKey"),
        ("from pkg.client import Client", "imports client"),
        ("from pkg.keys import secret", "imports keys.secret"),
    ],
)
def test_secret_violations_are_found(tmp_path: Path, text: str, complaint: str) -> None:
    good = {
        "keys/__init__.py": "",
        "keys/secret.py": "class SecretKey: ...",
        "client.py": "from pkg.keys import SecretKey, generate_secret",
        "server.py": "from pkg.keys import EvaluationKeys",
    }
    assert secret_violations(tree(tmp_path / "good" / "pkg", good), ["server"]) == []
    (message,) = secret_violations(tree(tmp_path / "bad" / "pkg", {**good, "server.py": text}), ["server"])
    assert complaint in message
