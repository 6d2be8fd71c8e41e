"""Files that the documents name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import documents

ROOMS = ("", "src/cipherblas", "cpp")
NAMED = re.compile(r"`([a-z_]+(?:/[a-z_0-9]+)+\.(?:py|h|cpp|sh|txt))`")
PAGES = [
    *sorted((documents.ROOT / "docs").rglob("*.md")),
    documents.ROOT / "README.md",
    documents.ROOT / "CONTRIBUTING.md",
]


@pytest.mark.parametrize("page", PAGES, ids=documents.name)
def test_files_of_a_page(page: Path) -> None:
    named = set(NAMED.findall(page.read_text(encoding="utf-8")))
    gone = [name for name in named if not any((documents.ROOT / room / name).exists() for room in ROOMS)]
    assert not gone, f"{page.name} names {', '.join(sorted(gone))}"


def test_pages_name_files() -> None:
    assert len(NAMED.findall((documents.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))) > 20
