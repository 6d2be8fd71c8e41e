"""The locked requirements: what pyproject.toml asks for, each by its digests, from no particular place."""

from __future__ import annotations

import re

import pytest

from tests.support import documents

FOLDER = documents.ROOT / "requirements"
PROJECT = (documents.ROOT / "pyproject.toml").read_text(encoding="utf-8")


def asked(field: str) -> dict[str, tuple[int, ...]]:
    """Name → least version of a list of requirements in pyproject.toml."""
    (text,) = re.findall(rf"^{field} = \[(.*?)\]", PROJECT, re.MULTILINE | re.DOTALL)
    return {
        name: tuple(map(int, least.split("."))) for name, least in re.findall(r'"([\w-]+)>=([\d.]+)"', text)
    }


def locked(name: str) -> dict[str, list[tuple[int, ...]]]:
    """Name → pinned versions, one for each Python, of a file of which every line has digests."""
    text = re.sub(r"^#.*\n", "", (FOLDER / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert "://" not in text and "--index" not in text and "--find-links" not in text
    found: dict[str, list[tuple[int, ...]]] = {}
    for entry in re.split(r"\n(?=\S)", text.strip()):
        first, *digests = entry.split(" \\\n")
        match = re.fullmatch(r"([\w-]+)==([\d.]+)( ;.*)?", first)
        assert match is not None, first
        assert digests and all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}", one) for one in digests), first
        found.setdefault(match[1], []).append(tuple(map(int, match[2].split("."))))
    return found


@pytest.mark.parametrize(
    ("file", "field"), [("run.txt", "dependencies"), ("serve.txt", "serve"), ("build.txt", "requires")]
)
def test_what_is_asked_for_is_locked(file: str, field: str) -> None:
    wanted, found = asked(field), locked(file)
    assert len(wanted) >= 4
    for name, least in wanted.items():
        assert all(version >= least for version in found[name]), name
