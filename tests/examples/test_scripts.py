"""The examples that are scripts, run as a reader would run them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def printed(name: str, folder: Path) -> str:
    """What a script prints, run in an empty folder, which it leaves empty."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(folder.iterdir()) == []
    return done.stdout


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("quickstart.py", r"at most (?P<allowed>\S+) per entry.*largest error (?P<error>\S+)$"),
        ("two_machines.py", r"largest error (?P<error>\S+), allowed (?P<allowed>\S+)$"),
    ],
    ids=["quickstart", "two_machines"],
)
def test_errors_are_those_allowed(name: str, pattern: str, tmp_path: Path) -> None:
    found = re.search(pattern, printed(name, tmp_path).strip(), re.DOTALL)
    assert found
    assert 0 < float(found["error"]) <= float(found["allowed"])


def test_every_script_is_tested_and_named_in_a_document() -> None:
    documents = [EXAMPLES.parent / "README.md", *(EXAMPLES.parent / "docs").rglob("*.md")]
    text = "".join(document.read_text(encoding="utf-8") for document in documents)
    tests = "".join(test.read_text(encoding="utf-8") for test in Path(__file__).parent.glob("test_*.py"))
    for script in EXAMPLES.glob("*.py"):
        assert f"examples/{script.name}" in text
        assert script.stem in tests
