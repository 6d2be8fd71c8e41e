"""Does what refusals say to write: with a formula and its options."""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cipherblas.common.errors import Advice, Call
from cipherblas.planner import asking


class _Edit(ast.NodeTransformer):
    """Changes the keywords of a call; those that are None go."""

    def __init__(self, call: Call) -> None:
        self.call, self.done = call, 0

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if (name, node.lineno) == (self.call.function, self.call.line):
            kept = [one for one in node.keywords if one.arg not in self.call.keywords]
            new = [
                ast.keyword(key, ast.Constant(value))
                for key, value in self.call.keywords.items()
                if value is not None
            ]
            node.keywords, self.done = kept + new, self.done + 1
        return node


def edited(source: str, call: Call | None) -> str:
    """A formula with the call as it is advised."""
    if call is None:
        return source
    edit = _Edit(call)
    tree = ast.fix_missing_locations(edit.visit(ast.parse(source, mode="eval")))
    assert edit.done, (source, call)
    return ast.unparse(tree)


def is_rescaled(advice: Advice) -> bool:
    """Whether it says all that is needed to follow it."""
    return bool(advice.options or advice.call)


def advised_options(options: Mapping[str, Any], advice: Advice) -> dict[str, Any]:
    """The options as they are advised: a precision and an error stand in for each other."""
    given = {**options, **advice.options}
    if advice.options.get("precision") is not None:
        given.pop("error", None)
    return {name: value for name, value in given.items() if name not in advice.options or value is not None}


@contextlib.contextmanager
def any_plan_does() -> Iterator[None]:
    """Whether a program compiles is known from its first plan that holds: the fastest is not looked for."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asking, "PlanRequest", functools.partial(asking.PlanRequest, any_plan=True))
        yield
