"""What the JSON of a header must look like: small checks that are put together, and name the place that is wrong.

A check takes a value and its place, and raises FormatError where the value is something else. Where a header has
passed, code that reads it meets the types and ranges that its writer gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

from cipherblas.common.errors import FormatError

Check: TypeAlias = Callable[[Any, str], None]
MAX_INTEGER = (1 << 63) - 1
_MAX_PLACE_LENGTH = 100


def _refuse(place: str, expected: str, got: Any) -> NoReturn:
    shown = got if isinstance(got, (int, float, str, type(None))) else type(got).__name__
    raise FormatError(
        f"The value of {place[:_MAX_PLACE_LENGTH]} is wrong.", expected=expected, got=repr(shown)
    )


def integer(least: int = 0, most: int = MAX_INTEGER) -> Check:
    """An integer in a range; a boolean is none."""

    def check(value: Any, place: str) -> None:
        if type(value) is not int or not least <= value <= most:
            _refuse(place, f"a whole number from {least} to {most}", value)

    return check


def number(least: float = -math.inf, most: float = math.inf) -> Check:
    """A finite number in a range, whole or not."""

    def check(value: Any, place: str) -> None:
        if type(value) not in (int, float) or not math.isfinite(value) or not least <= value <= most:
            _refuse(place, f"a number from {least:g} to {most:g}", value)

    return check


def text(value: Any, place: str) -> None:
    """Any text."""
    if not isinstance(value, str):
        _refuse(place, "text", value)


def plain_text(value: Any, place: str) -> None:
    """Text of printable ASCII."""
    if not (isinstance(value, str) and value.isascii() and value.isprintable()):
        _refuse(place, "a name", value)


def number_text(value: Any, place: str) -> None:
    """A whole number from 0 on in decimal digits, as JSON has names."""
    if not (isinstance(value, str) and value.isascii() and value.isdigit() and value == str(int(value[:9]))):
        _refuse(place, "a whole number as text", value)


def flag(value: Any, place: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        _refuse(place, "true or false", value)


def nothing(value: Any, place: str) -> None:
    """Null."""
    if value is not None:
        _refuse(place, "null", value)


def anything(value: Any, place: str) -> None:
    """Not checked here."""


def listed(each: Check, least: int = 0, most: int = MAX_INTEGER) -> Check:
    """Return a check for a list of values; each value is checked by `each`."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            _refuse(place, f"a list of {least} to {most} values", value)
        for index, inner in enumerate(value):
            each(inner, f"{place}[{index}]")

    return check


def pair(first: Check, second: Check) -> Check:
    """A list of two values."""

    def check(value: Any, place: str) -> None:
        listed(anything, 2, 2)(value, place)
        first(value[0], f"{place}[0]")
        second(value[1], f"{place}[1]")

    return check


def mapping(each: Check, name: Check = text) -> Check:
    """An object with any names that pass `name`."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, Mapping):
            _refuse(place, "an object", value)
        for key, inner in value.items():
            name(key, f"{place}: a name")
            each(inner, f"{place}.{key}")

    return check


def record(
    fields: Mapping[str, Check], optional: Mapping[str, Check] | None = None, *, others: bool = False
) -> Check:
    """Return a check for an object with these fields. `optional` fields may be missing; `others` permits unknown
    fields."""
    known = {**fields, **(optional or {})}

    def check(value: Any, place: str) -> None:
        if not isinstance(value, Mapping):
            _refuse(place, "an object", value)
        if not fields.keys() <= value.keys() or not (others or value.keys() <= known.keys()):
            raise FormatError(
                f"The fields of {place} are wrong.", expected=", ".join(known), got=", ".join(value)
            )
        for key in known.keys() & value.keys():
            known[key](value[key], f"{place}.{key}")

    return check


def either(*checks: Check) -> Check:
    """Return a check that accepts a value if one of these checks does; its error is that of the last one."""

    def check(value: Any, place: str) -> None:
        for one in checks[:-1]:
            try:
                one(value, place)
            except FormatError:
                continue
            return
        checks[-1](value, place)

    return check


def one_of(*words: str) -> Check:
    """One of these words."""

    def check(value: Any, place: str) -> None:
        if value not in words or not isinstance(value, str):
            _refuse(place, " | ".join(words), value)

    return check
