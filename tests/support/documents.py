"""The documents as data: code blocks, links, tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]\n]*\]\(([^)\s]+)\)")
_LINK = re.compile(r"(?<!!)\[[^\][]*\]\(([^)\s]+)\)")  # also where a line ends in their text
_ANCHOR = re.compile(r'^<a id="([^"]+)"></a>$', re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of code."""

    language: str
    text: str


def blocks(document: Path, language: str) -> list[Block]:
    """The blocks of one language, in order."""
    found = (Block(*match.groups()) for match in _FENCE.finditer(document.read_text(encoding="utf-8")))
    return [block for block in found if block.language == language]


def prose(document: Path) -> str:
    """The text without its code blocks."""
    return _FENCE.sub("", document.read_text(encoding="utf-8"))


def links(document: Path) -> list[str]:
    """Targets of all links."""
    return _LINK.findall(prose(document))


def pictures(document: Path) -> list[str]:
    """Targets of all pictures."""
    return _PICTURE.findall(prose(document))


def name(document: Path) -> str:
    """Its path from the root, for the ids of tests."""
    return document.relative_to(ROOT).as_posix()


def anchors(document: Path) -> set[str]:
    """Those that headings get, lower case, spaces as hyphens, other punctuation dropped; and anchors of their own."""
    found = set(_ANCHOR.findall(document.read_text(encoding="utf-8")))
    for heading in _HEADING.findall(prose(document)):
        kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        found.add(kept.replace(" ", "-"))
    return found


def table(document: Path, first_header: str) -> list[dict[str, str]]:
    """The rows of the table whose first column has this header."""
    rows: list[list[str]] = []
    for line in prose(document).splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif rows and rows[0][0] == first_header:
            break
        else:
            rows = []
    if not rows or rows[0][0] != first_header:
        raise AssertionError(f"{document.name}: no table whose first column is {first_header!r}")
    header, _, *body = rows
    assert all(len(row) == len(header) for row in body), f"{document.name}: ragged table {first_header!r}"
    return [dict(zip(header, row, strict=True)) for row in body]
