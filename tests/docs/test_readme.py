"""The README: its example runs, its links resolve, its table of algorithms is complete."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.methods.matmul.registry import ALGORITHMS, GEMM
from tests.support import documents


def test_example_runs() -> None:
    """The ten lines, as they stand; their variables are then looked at."""
    block, *_ = documents.blocks(documents.README, "python")
    assert len([line for line in block.text.splitlines() if line.strip()]) <= 10
    names: dict[str, object] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, "README.md", "exec"), names)
    program, client, a, b = (names[name] for name in ("program", "client", "A", "B"))
    assert isinstance(program, cb.Program)
    assert isinstance(client, cb.Client)
    assert isinstance(a, np.ndarray)
    assert isinstance(b, np.ndarray)
    found = client.decrypt(names["C"])  # type: ignore[arg-type]
    assert np.abs(found - a @ b).max() <= program.plan.error_target
    assert program.explain() in printed.getvalue()


def test_example_of_a_network_runs() -> None:
    """With the imports of the first example; its scores are those in the clear."""
    *_, block = documents.blocks(documents.README, "python")
    names: dict[str, object] = {"np": np, "cb": cb}
    exec(compile(block.text, "README.md", "exec"), names)
    program, scores = names["program"], names["scores"]
    assert isinstance(program, cb.Program)
    expected = program.evaluate({"x": np.ones((1, 14, 14))})
    assert np.abs(np.asarray(scores) - expected).max() <= program.plan.error_target


def test_example_of_exact_integers_runs() -> None:
    """With the imports of the first example; it compares with NumPy itself."""
    _, block, *_ = documents.blocks(documents.README, "python")
    names: dict[str, Any] = {"np": np, "cb": cb}
    exec(compile(block.text, "README.md", "exec"), names)
    assert names["C"].dtype == np.int64 and names["C"].shape == (64, 50)


def test_example_of_least_squares_runs() -> None:
    """With the imports of the first example; its weights are NumPy's, as near as the errors of the system allow."""
    _, _, block, _ = documents.blocks(documents.README, "python")
    names: dict[str, Any] = {"np": np, "cb": cb}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block.text, "README.md", "exec"), names)
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


def test_printed_plan_has_the_rows_of_a_plan() -> None:
    """The plan that the README shows names what `explain` names, in that order."""
    (block,) = documents.blocks(documents.README, "text")
    program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(160, 96), "b": cb.secret(96, 200)})

    def rows(text: str) -> list[str]:
        shown = text.split("not taken:")[0].splitlines()
        return [re.split(r" {2,}", line)[0] for line in shown if line.strip()]

    assert rows(block.text) == rows(program.explain())


def test_table_names_every_algorithm() -> None:
    names = [row["name"].strip("`") for row in documents.table(documents.README, "name")]
    assert len(names) == len(set(names))
    assert set(names) == {*ALGORITHMS, GEMM}


def test_table_marks_the_baselines() -> None:
    for row in documents.table(documents.README, "name"):
        name = row["name"].strip("`")
        baseline = name != GEMM and ALGORITHMS[name].baseline
        assert ("baseline" in row["use it when"]) == baseline, name


@pytest.mark.parametrize("document", documents.DOCUMENTS, ids=lambda path: path.name)
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


def test_every_document_is_reachable() -> None:
    """Each page of docs/ is linked from the README."""
    linked = {
        (documents.ROOT / target.partition("#")[0]).resolve() for target in documents.links(documents.README)
    }
    missing = [page.name for page in documents.DOCUMENTS if page.parent.name == "docs" and page not in linked]
    assert not missing
