"""The examples in docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import cipherblas as cb
from tests.support import documents

PACKAGE = documents.ROOT / "src" / "cipherblas"
NAMES = {"compile": cb.compile, "secret": cb.secret, "public": cb.public, "cb": cb}
MODULES = [
    ".".join(["cipherblas", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.encrypted
@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs=NAMES)
    assert found.attempted and not found.failed


def test_there_are_examples() -> None:
    assert "cipherblas.roles.program" in MODULES


def test_sections_have_the_names_that_the_site_knows() -> None:
    """`Example:` would be a box, whose lines are joined."""
    for path in PACKAGE.rglob("*.py"):
        assert not re.search(r"^ *Example:$", path.read_text(encoding="utf-8"), re.MULTILINE), path
