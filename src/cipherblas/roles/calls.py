"""How users call: operands in one mapping, so that one may be called anything; refusals that lead to their line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from cipherblas.common.errors import CipherblasError, DTypeError
from cipherblas.common.tracebacks import shortened
from cipherblas.lang.operands import Operand

P = ParamSpec("P")
R = TypeVar("R")


def called_by_users(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: tracebacks of refusals have lines of the user alone, and one here."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except CipherblasError as refusal:
            raise shortened(refusal)  # noqa: B904  (it is the same one)

    return called


def operands_in_one_mapping(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: operands by keyword, or in no mapping, are a DTypeError that says the line to write instead."""
    parameters = inspect.signature(function).parameters
    before = list(parameters).index("operands")
    options = {name for name, found in parameters.items() if found.kind is found.KEYWORD_ONLY}
    takes_any = any(found.kind is found.VAR_KEYWORD for found in parameters.values())

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        stray = [
            name
            for name, value in kwargs.items()
            if name not in options and (isinstance(value, Operand) or not takes_any)
        ]
        if stray or len(args) != before + 1 or not isinstance(args[before], Mapping):
            raise DTypeError(
                "Operands are given in one dictionary.",
                advice=_line(function.__name__, before, stray, takes_any),
                got=f"{', '.join(stray)} by keyword" if stray else _given(args[before:]),
            )
        try:
            return function(*args, **kwargs)
        except CipherblasError as refusal:
            raise shortened(refusal)  # noqa: B904  (it is the same one)

    return checked


def _line(name: str, before: int, operands: list[str], declared: bool) -> str:
    """The call as it should be."""
    value = "secret(…)" if declared else "…"
    inside = ", ".join(f'"{operand}": {value}' for operand in operands or ["a"])
    function = "function, " if declared and before else ""
    return f"{name}({function}{{{inside}}}{', …' if declared else ''})"


def _given(values: tuple[object, ...]) -> str:
    return ", ".join(type(value).__name__ for value in values) or "none"
