"""What holds of every page: its code runs, its links and pictures are there, it is in the navigation of the site."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.methods.products import ALGORITHMS, GEMM
from tests.support import documents

DOCS = documents.ROOT / "docs"
TUTORIAL = DOCS / "tutorial.md"
HOW_TO = DOCS / "how-to"

# The test that runs the code of a page, where it needs more than to be run in its order.
ELSEWHERE = {
    "README.md": "test_readme.py",
    "docs/errors.md": "test_algorithms.py",
    "docs/functions.md": "test_functions.py",
    "docs/networks.md": "test_networks.py",
    "docs/operations.md": "test_operations.py",
    "docs/own-product.md": "test_own_product.py",
    "docs/pytorch.md": "test_pytorch.py",
    "docs/threat-model.md": "test_algorithms.py",
    "docs/two-machines.md": "test_two_machines.py",
}
WITH_CODE = [page for page in documents.DOCUMENTS if documents.blocks(page, "python")]
HERE = [page for page in WITH_CODE if documents.name(page) not in ELSEWHERE]
# Run by a test below, which looks at what they leave.
BOOTSTRAPPING = DOCS / "bootstrapping.md"
# `service.md` in tests/service/test_service.py, which has a service.
LOOKED_AT = [
    TUTORIAL,
    BOOTSTRAPPING,
    *(HOW_TO / f"{name}.md" for name in ("exact-integers", "several-results", "service")),
]


def run(page: Path) -> tuple[dict[str, Any], str]:
    """Every block of a page in its order: the names it leaves, and what it prints."""
    names: dict[str, Any] = {"__name__": "page"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in documents.blocks(page, "python"):
            exec(compile(block.text, documents.name(page), "exec"), names)
    return names, printed.getvalue()


@pytest.mark.encrypted
@pytest.mark.parametrize("page", [page for page in HERE if page not in LOOKED_AT], ids=documents.name)
def test_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds its own assertions."""
    monkeypatch.chdir(tmp_path)
    run(page)


@pytest.mark.encrypted
def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs, and the plan that it shows names what `explain` names, in that order."""
    monkeypatch.chdir(tmp_path)
    _, printed = run(TUTORIAL)
    (block,) = documents.blocks(TUTORIAL, "text")

    def rows(text: str) -> list[str]:
        shown = text[text.index("program  ") :].split("not taken:")[0].splitlines()
        return [re.split(r" {2,}", line)[0] for line in shown if line.strip()]

    assert rows(block.text) == rows(printed)
    explained = {
        name for row in documents.table(TUTORIAL, "line") for name in re.findall(r"`([^`]+)`", row["line"])
    }
    assert {*rows(block.text), "not taken"} == explained


@pytest.mark.encrypted
def test_where_the_planner_refreshes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty steps on the page of bootstrapping, at 128 bits: in four parts."""
    monkeypatch.chdir(tmp_path)
    _, printed = run(BOOTSTRAPPING)
    (chain,) = (text for text in printed.split("program  ") if "placed by the planner" in text)
    assert re.search(r"^security +128 bits$", chain, re.MULTILINE)
    assert re.search(r"^refreshes +3, ", chain, re.MULTILINE)
    assert chain.count("  refresh 128x256, placed by the planner") == 3


@pytest.mark.parametrize(("page", "module"), ELSEWHERE.items())
def test_other_pages_are_run_elsewhere(page: str, module: str) -> None:
    text = (Path(__file__).parent / module).read_text(encoding="utf-8")
    assert Path(page).name in text or "documents.README" in text
    assert '"python")' in text


def test_all_code_is_python_shell_or_printed() -> None:
    """There is no language that no test looks at."""
    known = {"python", "sh", "console", "text", "toml"}
    for page in documents.DOCUMENTS:
        fences = re.findall(r"^```(\S+)", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(fences) <= known, documents.name(page)


@pytest.mark.encrypted
def test_integers_and_least_squares_are_numpys() -> None:
    """What two how-to pages find, as near as the errors of their plans allow."""
    names, _ = run(HOW_TO / "exact-integers.md")
    assert names["C"].dtype == np.int64 and names["C"].shape == (64, 50)
    assert names["Z"].dtype == np.int64 and names["Z"].max() < names["t"] and names["Z"].min() >= 0
    names, _ = run(HOW_TO / "several-results.md")
    program, found, x, y = (names[name] for name in ("program", "found", "X", "y"))
    gram, moment = (one.error for one in program.plan.results)
    assert np.abs(found["gram"] - x.T @ x).max() <= gram
    assert np.abs(found["moment"] - x.T @ y).max() <= moment
    exact = np.linalg.lstsq(x, y, rcond=None)[0]
    weights = names["weights"]
    # (G + dG) w = m + dm: G (w - exact) = dm - dG w.
    smallest = np.linalg.svd(x.T @ x)[1][-1]
    allowed = np.sqrt(8) * (moment + gram * np.abs(weights).sum()) / smallest
    assert np.linalg.norm(weights - exact) <= allowed < 0.01


def test_the_table_names_every_algorithm() -> None:
    rows = {row["name"].strip("`"): row for row in documents.table(HOW_TO / "algorithm.md", "name")}
    assert set(rows) == {*ALGORITHMS, GEMM}
    for name, row in rows.items():
        baseline = name != GEMM and ALGORITHMS[name].baseline
        assert ("baseline" in row["use it when"]) == baseline, name


@pytest.mark.parametrize("document", documents.DOCUMENTS, ids=documents.name)
def test_links_resolve(document: Path) -> None:
    for target in documents.links(document):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), f"{document.name}: {target}"
        assert file.is_relative_to(documents.ROOT), f"{document.name}: {target} is outside of the repository"
        if anchor:
            assert anchor in documents.anchors(file), f"{document.name}: {target}"
    for target in documents.pictures(document):
        assert (document.parent / target).is_file(), f"{document.name}: {target}"


@pytest.mark.parametrize(
    "page", sorted((documents.ROOT / "docs").glob("**/*.md")), ids=lambda page: page.name
)
def test_tables_of_figures_are_written_by_scripts(page: Path) -> None:
    """What was measured stands between the marks of a script; what a page plans is compared by its own test."""
    if page.name == "operations.md":  # `test_operations.py`
        return
    text = re.sub(r"<!-- begin: .*?<!-- end -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        measured = re.findall(r"\| \**~?\d[\d.,]* ?(?:ms|s|MiB|GiB)?\** (?=\|)", table)
        seconds = re.search(r"\bseconds \||, m?s \|", table.partition("\n")[0])
        units = [one for one in measured if re.search(r"m?s|iB", one)]
        assert not (seconds and measured) and len(units) < 3, table


def test_every_picture_is_shown() -> None:
    shown = {
        (document.parent / target).resolve()
        for document in documents.DOCUMENTS
        for target in documents.pictures(document)
    }
    kept = {path for path in DOCS.rglob("*") if path.suffix in (".png", ".svg")}
    assert kept == shown


def test_every_document_is_reachable() -> None:
    """By links from the README, and those of the pages that they lead to."""
    reached, waiting = set(), [documents.README]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        for target in documents.links(page):
            file = (page.parent / target.partition("#")[0]).resolve()
            if file.suffix == ".md" and file.is_file() and file not in reached:
                waiting.append(file)
    assert set(documents.DOCUMENTS) <= reached


def test_every_page_is_in_the_navigation() -> None:
    """Once; what is there beside them comes from files outside of docs/ (scripts/site_pages.py)."""
    text = (documents.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"([\w/-]+\.md)$", text.partition("\nnav:")[2], re.MULTILINE)
    assert len(listed) == len(set(listed))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert pages <= set(listed)
    assert set(listed) - pages == {
        "contributing.md",
        "changelog.md",
        "security.md",
        "license.md",
        "examples.md",
    }


def test_the_reference_is_complete() -> None:
    """Every public name has its entry, once."""
    entries = [
        entry
        for page in sorted((DOCS / "api").glob("*.md"))
        for entry in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(entries) == len(set(entries))
    modules = {
        "blas": "cipherblas.lang.blas",
        **{name: f"cipherblas.{name}" for name in ("interop", "lab", "networks", "sklearn")},
    }
    inner = {"cipherblas.planner.plan.plan.PlanOptions", "cipherblas.lang.operands.Declaration.like"}
    wanted = {f"cipherblas.{name}" for name in cb.__all__ if name not in modules}
    wanted |= {
        f"{module}.{name}" for attribute, module in modules.items() for name in getattr(cb, attribute).__all__
    }
    assert set(entries) == wanted | inner
