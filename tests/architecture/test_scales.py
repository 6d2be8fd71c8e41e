"""Only a policy of plaintexts calculates with scales: evaluators pass them on (docs/architecture.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.rooms import PACKAGE, parsed, python_files

ROOM = PACKAGE / "evaluators"
POLICIES = ROOM / "policy"
# Functions that evaluators do not ask a policy for: what encodes approximate plaintexts, and handles that tell their
# errors in units of values, without an evaluator at hand.
KNOWN = {
    "slots/encoder.py: PlainEncoder._part",
    "slots/encoder.py: PlainEncoder._sum",
    "slots/encoder.py: _fine_bits",
    "slots/values.py: Ct.__repr__",
    "rows/values.py: EncryptedMatrix.detached_errors",
}
FUNCTIONS = {"abs", "float", "int", "max", "min", "pow", "round", "sum"}  # of numbers
MODULES = {"math", "np"}  # all of whose functions are
IDENTITY = (ast.Is, ast.IsNot)


def is_scale(node: ast.expr) -> bool:
    """Whether an expression is a scale by its name, or a call that gives one."""
    if isinstance(node, ast.Call):
        node = node.func
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name == "scale" or name.endswith("_scale")


def is_number(function: ast.expr) -> bool:
    """Whether a function computes on numbers."""
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and function.value.id in MODULES
    return isinstance(function, ast.Name) and function.id in FUNCTIONS


def operands(node: ast.AST) -> list[ast.expr]:
    """The numbers that a node calculates with, or compares."""
    match node:
        case ast.BinOp():
            return [node.left, node.right]
        case ast.AugAssign():
            return [node.target, node.value]
        case ast.UnaryOp():
            return [node.operand]
        case ast.Compare() if not isinstance(node.ops[0], IDENTITY):
            return [node.left, *node.comparators]
        case ast.Call() if is_number(node.func):
            return node.args
    return []


def calculated(text: str) -> Iterator[str]:
    """The functions of a module that calculate with a scale, by their names within it."""

    def walk(node: ast.AST, name: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{name}.{node.name}".strip(".")
        if any(map(is_scale, operands(node))):
            yield name
        for child in ast.iter_child_nodes(node):
            yield from walk(child, name)

    yield from walk(parsed(text), "")


def found_in(folder: Path) -> set[str]:
    """Those below a folder, but for policies."""
    return {
        f"{path.relative_to(folder)}: {name}"
        for path in python_files(folder)
        if POLICIES not in path.parents
        for name in calculated(path.read_text(encoding="utf-8"))
    }


def test_only_policies_calculate_with_scales() -> None:
    assert found_in(ROOM) == KNOWN


@pytest.mark.parametrize(
    "line",
    [
        "y = ct.scale * 2",
        "y = 1 / x.first().scale",
        "plain_scale /= 2",
        "y = math.log2(scale)",
        "y = round(mask_scale)",
        "y = x.scale == y.scale",
        "y = a < ct.scale <= b",
        "y = ev.mask_scale(limbs) * 2",
        "y = -scale",
    ],
)
def test_calculations_are_noticed(line: str) -> None:
    assert list(calculated(f"class A:\n    def f(self):\n        {line}")) == ["A.f"]


@pytest.mark.parametrize(
    "line",
    [
        "y = policy.product(x.scale, y.scale)",
        "y = {(plain.key, scale): 2 * limbs}",
        "y = usual if scale is None else scale",
        "y = x.scaled * 2",
    ],
)
def test_scales_that_are_passed_on_are_not(line: str) -> None:
    assert list(calculated(line)) == []
