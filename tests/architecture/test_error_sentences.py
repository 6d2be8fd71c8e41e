"""Errors begin with a sentence: read from the source, so that a new one keeps to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from cipherblas.common import errors
from cipherblas.common.errors import CipherblasError
from tests.support.rooms import PACKAGES, ROOT, parsed

NAMES = {name for name, kind in vars(errors).items() if isinstance(kind, type) and name.endswith("Error")}


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every literal first argument of an error; a placeholder stands as a capital."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES):
            continue
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield node.lineno, first.value
        elif isinstance(first, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in first.values),
            )


def _is_sentence(text: str) -> bool:
    """With a full stop at its end, or the sentence of another error, which has one; the package is written small."""
    return (text[:1].isupper() or text[:1] in "'\"`" or text.startswith("cipherblas ")) and text.endswith(
        (".", ": X")
    )


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_errors_begin_with_a_sentence(package: Path) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(package.rglob("*.py"))
        for line, text in _texts(parsed(path.read_text(encoding="utf-8")))
        if not _is_sentence(text)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_walk_finds_phrases_and_accepts_sentences() -> None:
    source = (
        'ShapeError("a matrix", got=1)\nShapeError("A matrix.")\n'
        'RangeError(f"{x} is wrong.")\nRangeError(f"{x}: no")'
    )
    assert [_is_sentence(text) for _, text in _texts(ast.parse(source))] == [False, True, True, False]


def test_fields_stand_in_parentheses_unless_the_sentence_says_them() -> None:
    error = CipherblasError("The shape is wrong.", expected="4x3", got="1x2")
    assert str(error) == "The shape is wrong (expected 4x3, got 1x2)."
    assert (error.message, error.expected, error.got) == ("The shape is wrong.", "4x3", "1x2")
    assert str(CipherblasError("The bias is 7.", got=7)) == "The bias is 7."
    assert str(CipherblasError("The bias is 17.", got=7)) == "The bias is 17 (got 7)."
    half = CipherblasError("The stride must be an integer.", expected="an integer", got=2.5)
    assert str(half) == "The stride must be an integer (got 2.5)."
    wanted = CipherblasError("There are 3 rows.", expected=4, got=3)
    assert str(wanted) == "There are 3 rows (expected 4, got 3)."
    both = CipherblasError("The ciphertext has 4 limbs; 7 were requested.", expected=4, got=7)
    assert str(both) == "The ciphertext has 4 limbs; 7 were requested."
    assert str(CipherblasError("The key is closed.")) == "The key is closed."
