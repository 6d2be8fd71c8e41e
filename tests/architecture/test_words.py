"""Words of the code: the glossary says where each one is, which are retired, and how constants of bounds begin."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.rooms import ROOT, parsed

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
SOURCES = [
    path for path in sorted((ROOT / "src" / "cipherblas").rglob("*.py")) if "__pycache__" not in path.parts
]
FOLDERS = ("src", "bench", "hardware", "scripts", "examples", "tests")
BOUNDS = re.compile(
    r"_?(MOST|LEAST|LARGEST|SMALLEST|BIGGEST|FEWEST|LONGEST|SHORTEST|DEEPEST|WIDEST|MAXIMAL|MINIMAL)(_|$)"
)


def rows(heading: str | None = None) -> list[list[str]]:
    """The cells of the table below a heading of the page; by default of all tables of words."""
    parts = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    chosen = [
        text for title, text in parts.items() if (title == heading if heading else title != "Retired names")
    ]
    lines = [line for text in chosen for line in text.splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in found if row[0] not in ("word", "not")]


WORDS = {word: name.strip("`") for word, _, name in rows()}
RETIRED = {name for row in rows("Retired names") for name in re.findall(r"`(\w+)`", row[0])}


def exists(name: str) -> bool:
    """Whether a name of the package, below a module, can be imported."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(["cipherblas", *parts[:length]]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def identifiers(text: str) -> set[str]:
    """The names of a source: of variables, attributes, arguments, functions, classes and imports."""
    found: set[str] = set()
    for node in ast.walk(parsed(text)):
        named = (getattr(node, field, None) for field in ("id", "attr", "arg", "name", "asname"))
        found.update(name for name in named if isinstance(name, str))
    return found


def constants(path: Path) -> list[str]:
    """The names in capitals that a module binds, if some word of it is one of bounds."""
    text = path.read_text(encoding="utf-8")
    if BOUNDS.search(text) is None:
        return []
    tree = parsed(text)
    stored = (
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    return [name for name in stored if name.isupper()]


def test_there_are_words() -> None:
    assert len(WORDS) >= 40 and len(RETIRED) >= 30
    assert not RETIRED & {name.rpartition(".")[2] for name in WORDS.values()}


def test_a_word_stands_once() -> None:
    found = [row[0] for row in rows()]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_where_the_glossary_says(word: str) -> None:
    assert exists(WORDS[word]), f"cipherblas.{WORDS[word]}"


def test_a_name_that_is_not_there_is_noticed() -> None:
    assert (
        not exists("runtime.values.Valeu")
        and not exists("runtime.valeus.Value")
        and not exists("nowhere.Value")
    )


def test_retired_names_are_gone() -> None:
    found = {
        str(path.relative_to(ROOT)): sorted(gone)
        for path in SOURCES
        if (gone := identifiers(path.read_text(encoding="utf-8")) & RETIRED)
    }
    assert found == {}


def test_retired_names_are_noticed() -> None:
    assert identifiers("def f(x):\n    return f'{x.lent}' + other.turned") >= {"lent", "turned"}


def test_constants_of_bounds_begin_alike() -> None:
    found = {
        str(path.relative_to(ROOT)): named
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (named := [name for name in constants(path) if BOUNDS.match(name)])
    }
    assert found == {}


def test_a_class_has_a_name_of_its_own() -> None:
    places = defaultdict(list)
    for path in SOURCES:
        for node in ast.walk(parsed(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


QUESTIONS = re.compile(r"(What|Whatever|Those|That of|As of|By which|Of what|Of that)\b")


def test_docstrings_name_what_they_describe() -> None:
    """The docstring of a function or class has a subject: nouns, not questions."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.walk(parsed(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        if QUESTIONS.match(ast.get_docstring(node) or "")
    ]
    assert found == []
