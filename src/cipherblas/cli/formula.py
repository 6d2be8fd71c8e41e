"""`--program "a @ b.T + 2 * c"`: formulas parsed by their syntax tree, never evaluated as Python."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from cipherblas.lang.nodes import Expression

_LONGEST = 2000
_DEEPEST = 200

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.MatMult: lambda left, right: left @ right,
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
}


class FormulaError(ValueError):
    """The text is no formula of matrices."""


class Formula:
    """A checked formula; calling it with a node per name builds the expression.

    Allowed are names, numbers, `@`, `+`, `-`, `*`, division by a number, `.T` and parentheses.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise FormulaError(f"a formula has at most {_LONGEST} characters, got {len(text)}")
        try:
            self._body = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            raise FormulaError(f"{text!r} is no formula: {reason}") from error
        self.text = text
        self.names: list[str] = []
        self._check(self._body, 0)
        if not self.names:
            raise FormulaError(f"{text!r} names no operand")

    def _check(self, node: ast.expr, depth: int) -> None:
        if depth > _DEEPEST:
            raise FormulaError(f"a formula is nested at most {_DEEPEST} deep")
        if isinstance(node, ast.Name):
            if node.id not in self.names:
                self.names.append(node.id)
        elif isinstance(node, ast.Constant):
            _number(node)
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            self._check(node.left, depth + 1)
            self._check(node.right, depth + 1)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            self._check(node.operand, depth + 1)
        elif isinstance(node, ast.Attribute) and node.attr == "T":
            self._check(node.value, depth + 1)
        else:
            allowed = "names, numbers, @ + - * /, .T and parentheses"
            raise FormulaError(f"{ast.unparse(node)[:60]!r} is not allowed in a formula: expected {allowed}")

    def __call__(self, /, **nodes: Expression) -> Any:
        return self._build(self._body, nodes)

    def _build(self, node: ast.expr, nodes: dict[str, Expression]) -> Any:
        if isinstance(node, ast.Name):
            return nodes[node.id]
        if isinstance(node, ast.Constant):
            return _number(node)
        if isinstance(node, ast.Attribute):
            inner = self._build(node.value, nodes)
            if not isinstance(inner, Expression):
                raise FormulaError(f"{ast.unparse(node)[:60]!r}: a number has no transpose")
            return inner.T
        if isinstance(node, ast.UnaryOp):
            inner = self._build(node.operand, nodes)
            return -inner if isinstance(node.op, ast.USub) else inner
        assert isinstance(node, ast.BinOp)
        left, right = self._build(node.left, nodes), self._build(node.right, nodes)
        try:
            return _OPERATIONS[type(node.op)](left, right)
        except (TypeError, ZeroDivisionError) as error:
            raise FormulaError(f"{ast.unparse(node)[:60]!r}: {error}") from error


def _number(node: ast.Constant) -> float:
    if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
        raise FormulaError(f"{ast.unparse(node)[:60]!r} is not allowed in a formula: expected a number")
    try:
        number = float(node.value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FormulaError("a number in a formula must fit a double")
    return number
