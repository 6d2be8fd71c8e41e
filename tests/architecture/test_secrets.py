"""What runs on the server neither imports nor names what makes or holds a secret key."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.rooms import (
    DOCUMENT,
    PACKAGE,
    house,
    imports,
    module_name,
    parsed,
    python_files,
    tree,
    within,
)

# Of the client, and of what tests and commands are made of; everything else may run on a server.
CLIENT_SIDE = (
    *(
        "roles.client",
        "roles.together",
        "roles.encryptor",
        "roles.key_record",
        "roles.key_lock",
        "roles.budget",
        "roles.sharing",
        "roles.program",
        "roles.client_program",
    ),
    *("crypto.keys.secret", "crypto.keys.generation", "crypto.keys.encryption", "crypto.keys"),
    "rlwe.matrices.encryption",
    "service.remote",
    *("networks", "sklearn", "interop", "lab", "report", "cli", "cipherblas", "__main__"),
)
SECRET_NAMES = {*("SecretKey", "generate_secret", "make_evaluation_keys", "decrypt_coefficients")}


def server_side(module: str, client_side: Sequence[str]) -> bool:
    """Whether a module may run on a server: neither itself nor a folder around it is the client's."""
    if module in ("", "crypto.keys"):
        return False
    folders = [place for place in client_side if place != "crypto.keys"]
    return not any(within(module, place) for place in folders)


def secret_violations(package: Path, client_side: Sequence[str] = CLIENT_SIDE) -> list[str]:
    """Mentions of the secret key, or of the client, in modules that run on the server."""
    found = []
    for file in python_files(package):
        module = module_name(file, package)
        if not server_side(module, client_side):
            continue
        mentioned = set()
        for node in ast.walk(parsed(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name):
                mentioned.add(node.id)
            elif isinstance(node, ast.Attribute):
                mentioned.add(node.attr)
            elif isinstance(node, ast.alias):
                mentioned.add(node.name.split(".")[-1])
                if (
                    node.name.split(".")[-1] == "keys"
                ):  # some of its names may be imported, but not all together
                    found.append(f"{module}: imports keys as a whole")
        found += [f"{module}: names {secret}" for secret in sorted(mentioned & SECRET_NAMES)]
        found += [
            f"{module}: imports {target}"
            for target in sorted(set(imports(file, package)))
            if target in client_side and target != "crypto.keys" and target != "crypto.keys.encryption"
        ]
    return found


def test_server_side_never_names_the_secret() -> None:
    modules = {module_name(file, PACKAGE) for file in python_files(PACKAGE)} | {"cipherblas"}
    assert {place for place in CLIENT_SIDE if place not in modules} == set()  # renamed: see CLIENT_SIDE
    rooms = {module.split(".")[0] for module in modules if module and server_side(module, CLIENT_SIDE)}
    separated = {"_core", "cipherblas", "networks", "sklearn", "interop", "lab", "report", "cli", "__main__"}
    assert rooms - separated == set(house(DOCUMENT.read_text(encoding="utf-8")).rooms) - separated
    assert secret_violations(PACKAGE) == []


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
    client_side = ("client", "keys.secret")
    assert secret_violations(tree(tmp_path / "good" / "pkg", good), client_side) == []
    (message,) = secret_violations(tree(tmp_path / "bad" / "pkg", {**good, "server.py": text}), client_side)
    assert complaint in message
