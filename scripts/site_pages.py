"""What the site has beyond docs/: a hook of mkdocs (`hooks:` in mkdocs.yml).

- Files of the repository's root become pages (CONTRIBUTING.md, CHANGELOG.md, SECURITY.md, LICENSE), and so do the
  sources of the examples and every other file that a page links to. The links of all pages are turned to them, so that
  the documents keep the links that work in a checkout.
- `<!-- commands -->` on a page becomes what `cipherblas COMMAND --help` says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.md",
    "examples": "examples.md",
}
COMMANDS = "<!-- commands -->"
LANGUAGES = {".py": "python", ".sh": "sh"}

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def site_page(file: str) -> str:
    """The page of the site that shows a file of the repository, by its path from the root."""
    if file in PAGES:
        return PAGES[file]
    return file.removeprefix("docs/") if file.startswith("docs/") else f"sources/{file}.md"


def linked(text: str, folder: PurePosixPath) -> Iterator[str]:
    """The files of the repository that a document in `folder` links to."""
    for prose in _FENCE.split(text)[::2]:
        for match in _LINK.finditer(prose):
            found = in_repository(match[2], folder)
            if found:
                yield found


def in_repository(target: str, folder: PurePosixPath) -> str | None:
    """The path from the root of what a link in `folder` is to; None where it leaves that or the page."""
    path = target.partition("#")[0]
    if not path or re.match(r"\w+:", path):
        return None
    found = os.path.normpath(folder / path)
    return found if (ROOT / found).is_file() or found in PAGES else None


def relinked(text: str, folder: PurePosixPath, page: str) -> str:
    """The text of a document of `folder`, with links as the page of the site needs them."""

    def target(match: re.Match[str]) -> str:
        found = in_repository(match[2], folder)
        if found is None:
            return match[0]
        _, mark, anchor = match[2].partition("#")
        path = os.path.relpath(site_page(found), PurePosixPath(page).parent)
        return f"{match[1]}{path}{mark}{anchor}{match[3]}"

    parts = _FENCE.split(text)
    return "".join(part if number % 2 else _LINK.sub(target, part) for number, part in enumerate(parts))


def shown(file: str) -> str:
    """A page with the text of a file."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file == "LICENSE":
        return f"# Licence\n\n```text\n{text.rstrip()}\n```\n"
    language = LANGUAGES.get(PurePosixPath(file).suffix, "text")
    return f"# {file}\n\n````{language}\n{text.rstrip()}\n````\n"


def examples() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.py"))


def list_of_examples() -> str:
    """The page of the sources of the examples: a line each, with the first sentence of its docstring."""
    lines = ["# Sources of the examples", ""]
    for file in examples():
        text = (ROOT / file).read_text(encoding="utf-8")
        first = re.match(r'"""(.+?)(?:"""|$)', text, re.MULTILINE)
        if first:
            lines.append(f"- [{file}]({site_page(file)}): {first[1]}")
    return "\n".join([*lines, ""])


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages of files outside of docs/."""
    from mkdocs.structure.files import File

    docs = Path(config["docs_dir"])
    wanted = {*PAGES, *examples()}
    for page in docs.rglob("*.md"):
        folder = PurePosixPath(page.parent.relative_to(ROOT).as_posix())
        wanted |= {
            file for file in linked(page.read_text(encoding="utf-8"), folder) if not file.startswith("docs/")
        }
    for file in sorted(wanted - {"README.md", "examples"}):
        path = site_page(file)
        text = (ROOT / file).read_text(encoding="utf-8") if file.endswith(".md") else shown(file)
        if file.endswith(".md"):
            text = relinked(text, PurePosixPath(), path)
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, "examples.md", content=list_of_examples()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turns links out of docs/, and puts in the help of the commands."""
    if page.file.generated_by is None:
        folder = PurePosixPath("docs") / PurePosixPath(page.file.src_uri).parent
        markdown = relinked(markdown, folder, page.file.src_uri)
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, help_of_commands())
    return markdown


def help_of_commands() -> str:
    """Every command: its help, its usage, and a table of its options."""
    import typer

    from cipherblas.cli.app import app

    return "\n".join(help_of(typer.main.get_command(app), "cipherblas"))


def help_of(command: Any, name: str) -> Iterator[str]:
    """The lines of a command, and of those that it has."""
    context = command.make_context(name, [], resilient_parsing=True)
    text, _, examples_of_it = _plain(command.help or "").partition("Examples:")
    yield from (f"## {name}", "", text.strip(), "")
    if examples_of_it:
        yield from ("```sh", *(line.strip() for line in examples_of_it.strip().splitlines()), "```", "")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("```text", f"{name} {usage}".strip(), "```", "")
    rows = [row for row in map(_row, command.params) if row]
    if rows:
        yield from ("| option | meaning |", "|---|---|", *rows, "")
    for part in getattr(command, "commands", {}).values():
        if not part.hidden:
            yield from help_of(part, f"{name} {part.name}")


def _row(parameter: Any) -> str | None:
    """A line of the table; None of what is not shown, and of `--help`."""
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return None
    if parameter.param_type_name == "argument":
        names = (parameter.metavar or parameter.name).upper()
    else:
        value = [f" {parameter.metavar}"] if parameter.metavar else []
        names = "".join([", ".join([*parameter.opts, *parameter.secondary_opts]), *value]).replace("|", "\\|")
    default, told = parameter.default, getattr(parameter, "show_default", False)
    if isinstance(told, str):
        ending = f" Default: {told}."
    elif told and isinstance(default, (int, float, str)) and not isinstance(default, bool):
        ending = f" Default: `{getattr(default, 'value', default)}`."
    else:
        ending = ""
    meaning = _plain(getattr(parameter, "help", None) or "").replace("|", "\\|")
    return f"| `{names}` | {meaning}{ending} |"


def _plain(text: str) -> str:
    """Help without the marks of terminals."""
    return re.sub(r"[\b\f]", "", re.sub(r"\[/?[a-z ]+\]", "", text)).strip()
