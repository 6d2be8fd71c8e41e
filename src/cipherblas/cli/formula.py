"""`--program "a @ b.T + 2 * c"`: formulas parsed by their syntax tree, never evaluated as Python."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection
from types import FunctionType
from typing import Any

import cipherblas
from cipherblas.cli.number_functions import NumberFunction, number_function
from cipherblas.common.errors import brief
from cipherblas.lang.batches import Batch
from cipherblas.lang.nodes import FUNCTIONS, Expression

_MAX_LENGTH = 2000
_MAX_DEPTH = 200

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.MatMult: lambda left, right: left @ right,
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.Pow: lambda left, right: left**right,
}
# What a formula may call by name: every function of `cipherblas` that a program is written with.
CALLED: dict[str, Callable[..., Any]] = {
    name: found
    for name, found in vars(cipherblas).items()
    if name in cipherblas.__all__
    and isinstance(found, FunctionType)
    and found.__module__.startswith("cipherblas.lang.")
}
OF_FUNCTIONS = {"chebyshev": "f"}  # whose first argument, of this name, is a function of one number
_LIBRARY = ("cb", "cipherblas")  # before a name, as in Python
_METHODS = tuple(name for name in FUNCTIONS if name != "getitem")  # of nodes
_ALLOWED = "names, numbers, @ + - * / **, .T, indices, parentheses, NumPy's functions and methods"


class FormulaError(ValueError):
    """The text is not a formula of matrices."""


class Formula:
    """A checked formula; calling it with a node per name builds the expression.

    Allowed are names, numbers, `@`, `+`, `-`, `*`, division by a number, `**`, `.T`, indices, parentheses, functions
    such as `sum(a, axis=0)` or `polynomial(a, [0, 1, 2])`, and methods such as `a.mean()`. Functions may
    have `cb.` before them; `chebyshev(np.tanh, a)` takes a function of one number of NumPy or `math` by its name.
    Several results are separated by commas, `x.T @ x, x.T @ y`, or are named and separated by semicolons,
    `p = a @ b; q = p @ c`: later formulas may use the names of earlier ones.

    Args:
        text: the formula.
        operands: names that are declared; `cb.mean()` is a method where `cb` is one of them.

    Attributes:
        names: of the operands, in the order in which they appear.

    Raises:
        FormulaError: the text is no formula.
    """

    def __init__(self, text: str, operands: Collection[str] = ()) -> None:
        if len(text) > _MAX_LENGTH:
            raise FormulaError(f"a formula has at most {_MAX_LENGTH} characters, got {len(text)}")
        try:
            statements = ast.parse(text.strip()).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            raise FormulaError(f"{text!r} is no formula: {reason}") from error
        self.text = text
        self._modules = [name for name in _LIBRARY if name not in operands]
        self.names: list[str] = []
        self._results: dict[str, ast.expr] = {}  # by name, or by place
        self._several = False
        self._named = bool(statements) and all(isinstance(one, ast.Assign) for one in statements)
        if self._named:
            for statement in statements:
                self._enter_named(statement)
        else:
            self._enter_listed(statements)
        if not self.names:
            raise FormulaError(f"{text!r} names no operand")

    def _enter_named(self, statement: Any) -> None:
        """`name = formula`."""
        target = statement.targets[0]
        if len(statement.targets) > 1 or not isinstance(target, ast.Name):
            raise FormulaError(f"{ast.unparse(statement)[:60]!r} is not allowed: a result has one name")
        self._check(statement.value, 0)
        if target.id in (*self.names, *self._results):
            raise FormulaError(f"{target.id!r} names a result, and something else before it")
        self._results[target.id] = statement.value

    def _enter_listed(self, statements: list[ast.stmt]) -> None:
        """One formula, or some with commas between them."""
        if len(statements) != 1 or not isinstance(statements[0], ast.Expr):
            raise FormulaError(
                f"{self.text!r} is no formula: several results are separated by commas, or are all named, "
                "name = formula, and separated by semicolons"
            )
        body = statements[0].value
        self._several = isinstance(body, ast.Tuple)
        for place, part in enumerate(body.elts if isinstance(body, ast.Tuple) else [body]):
            self._check(part, 0)
            self._results[str(place)] = part

    def _check(self, node: ast.expr, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise FormulaError(f"a formula is nested at most {_MAX_DEPTH} deep")
        if isinstance(node, ast.Name):
            if node.id not in (*self.names, *self._results):
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
        elif isinstance(node, ast.Subscript):
            self._check(node.value, depth + 1)
            self._check_argument(node.slice, depth + 1)
        elif (
            isinstance(node, ast.Call) and self._is_known(node.func) and all(one.arg for one in node.keywords)
        ):
            self._check_call(node, depth + 1)
        else:
            raise FormulaError(f"{ast.unparse(node)[:60]!r} is not allowed in a formula: expected {_ALLOWED}")

    def _is_known(self, function: ast.expr) -> bool:
        method = isinstance(function, ast.Attribute) and function.attr in _METHODS
        return method or self._called_name(function) is not None

    def _called_name(self, function: ast.expr) -> str | None:
        """The function of the library that is called, `sum` or `cb.sum`; None where it is a method."""
        name = None
        if isinstance(function, ast.Name):
            name = function.id
        elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            name = function.attr if function.value.id in self._modules else None
        return name if name in CALLED else None

    def _check_call(self, node: ast.Call, depth: int) -> None:
        name = self._called_name(node.func)
        if name is None:
            assert isinstance(node.func, ast.Attribute)
            self._check(node.func.value, depth)
        function = _function_in(node, name)
        if function is not None:
            _named_function(function)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if argument is not function:
                self._check_argument(argument, depth)

    def _check_argument(self, node: ast.expr, depth: int) -> None:
        """Check an argument of a call: also lists, ranges, texts, True, False and None."""
        if isinstance(node, (ast.List, ast.Tuple)):
            for part in node.elts:
                self._check_argument(part, depth + 1)
        elif isinstance(node, ast.Slice):
            for end in (node.lower, node.upper, node.step):
                if end is not None:
                    self._check_argument(end, depth + 1)
        elif not (
            isinstance(node, ast.Constant)
            and (node.value in (None, ...) or isinstance(node.value, (bool, str)))
        ):
            self._check(node, depth)

    def __call__(self, /, **nodes: Expression) -> Any:
        found: dict[str, Any] = {}
        for label, body in self._results.items():
            found[label] = self._build(body, {**nodes, **found})
        if self._named:
            return found
        return tuple(found.values()) if self._several else found["0"]

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
        if isinstance(node, ast.Subscript):
            return self._build(node.value, nodes)[self._argument(node.slice, nodes)]
        if isinstance(node, ast.Call):
            return self._called(node, nodes)
        assert isinstance(node, ast.BinOp)
        left, right = self._build(node.left, nodes), self._build(node.right, nodes)
        try:
            found = _OPERATIONS[type(node.op)](left, right)
        except OverflowError:
            found = math.inf
        except (TypeError, ZeroDivisionError) as error:
            raise FormulaError(f"{ast.unparse(node)[:60]!r}: {brief(error)}") from error
        if isinstance(left, float) and isinstance(right, float):
            return _finite(found, ast.unparse(node)[:60])
        return found

    def _called(self, node: ast.Call, nodes: dict[str, Expression]) -> Any:
        name = self._called_name(node.func)
        function = _function_in(node, name)

        def argument(one: ast.expr) -> Any:
            return _named_function(one) if one is function else self._argument(one, nodes)

        arguments = [argument(one) for one in node.args]
        named = {one.arg: argument(one.value) for one in node.keywords if one.arg is not None}
        try:
            if name is not None:
                return CALLED[name](*arguments, **named)
            assert isinstance(node.func, ast.Attribute)
            value = self._build(node.func.value, nodes)
            if not isinstance(value, (Expression, Batch)):
                raise FormulaError(f"{ast.unparse(node)[:60]!r}: a number has no {node.func.attr}")
            return FUNCTIONS[node.func.attr](value, *arguments, **named)
        except TypeError as error:
            raise FormulaError(f"{ast.unparse(node)[:60]!r}: {brief(error)}") from error

    def _argument(self, node: ast.expr, nodes: dict[str, Expression]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List):
            return [self._argument(part, nodes) for part in node.elts]
        if isinstance(node, ast.Tuple):
            return tuple(self._argument(part, nodes) for part in node.elts)
        if isinstance(node, ast.Slice):
            ends = (node.lower, node.upper, node.step)
            return slice(*(None if end is None else self._argument(end, nodes) for end in ends))
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return -node.operand.value if isinstance(node.op, ast.USub) else node.operand.value  # type: ignore[operator]
        return self._build(node, nodes)


def _function_in(node: ast.Call, name: str | None) -> ast.expr | None:
    """The argument of a call that is a function of one number, where the function of this name takes one."""
    if name not in OF_FUNCTIONS:
        return None
    if node.args:
        return node.args[0]
    return next((one.value for one in node.keywords if one.arg == OF_FUNCTIONS[name]), None)


def _named_function(node: ast.expr) -> NumberFunction:
    found = number_function(node)
    if found is None:
        raise FormulaError(
            f"{ast.unparse(node)[:60]!r} is no function of one number that a formula may name: expected one of NumPy "
            "or math, such as np.tanh or math.erf"
        )
    return found


def _number(node: ast.Constant) -> float:
    if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
        raise FormulaError(f"{ast.unparse(node)[:60]!r} is not allowed in a formula: expected a number")
    try:
        number = float(node.value)
    except OverflowError:
        number = math.inf
    return _finite(number, "a number in a formula")


def _finite(number: Any, what: str) -> float:
    """A number that a formula holds or computes, which may have become too large or imaginary."""
    if not isinstance(number, float) or not math.isfinite(number):
        raise FormulaError(f"{what} must be a real number that fits a double")
    return number
