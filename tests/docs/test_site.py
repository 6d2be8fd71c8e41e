"""The site: what scripts/site_pages.py adds to docs/, and that its pages need no network. CI builds it, strictly."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
import typer

from cipherblas.cli.app import app
from tests.support import documents
from tests.support.scripts import script

SITE = script("site_pages")
DOCS = PurePosixPath("docs")


@pytest.mark.parametrize(
    ("text", "folder", "page", "expected"),
    [
        ("[a](../CONTRIBUTING.md#test)", DOCS, "bench.md", "[a](contributing.md#test)"),
        ("[a](../../SECURITY.md)", DOCS / "how-to", "how-to/errors.md", "[a](../security.md)"),
        ("[a](docs/errors.md)", PurePosixPath(), "changelog.md", "[a](errors.md)"),
        ("[a](../examples)", DOCS, "gallery.md", "[a](examples.md)"),
        ("[a](../README.md)", DOCS, "bench.md", "[a](index.md)"),
        ("![a](pictures/flow.svg)", DOCS, "index.md", "![a](pictures/flow.svg)"),
        ("[a](#anchor) [b](https://eprint.iacr.org/2024/463)", DOCS, "bench.md", None),
        ("[a](nowhere.md)", DOCS, "bench.md", None),
        ("```python\n[a](../LICENSE)\n```", DOCS, "bench.md", None),
        (
            "[a](../examples/quickstart.py)",
            DOCS,
            "gallery.md",
            "[a](sources/examples/quickstart.py.md)",
        ),
    ],
)
def test_links_are_turned(text: str, folder: PurePosixPath, page: str, expected: str | None) -> None:
    assert SITE.relinked(text, folder, page) == (text if expected is None else expected)


def test_the_help_of_every_command_is_shown() -> None:
    text = SITE.help_of_commands()
    assert SITE.COMMANDS in (documents.ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    command = typer.main.get_command(app)
    for name in command.commands:  # type: ignore[attr-defined]
        assert f"\n## cipherblas {name}\n" in text
    assert "| `--precision" in text and "## cipherblas bench cc\n" in text


def test_every_example_has_a_line() -> None:
    lines = SITE.list_of_examples()
    assert all(f"[{file}](" in lines for file in SITE.examples())


def test_nothing_is_fetched() -> None:
    text = (documents.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in text
    assert "://" not in text


def test_what_wraps_signatures_is_installed() -> None:
    """mkdocstrings leaves a signature on one line, which pages cut, where neither black nor ruff is there."""
    text = (documents.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("docs = "))
    assert "line_length: 90" in (documents.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert '"ruff==' in line
