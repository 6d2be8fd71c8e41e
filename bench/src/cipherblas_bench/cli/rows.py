"""Rows that a benchmark printed with --json before, read again: every field that is used is checked first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cipherblas.common.errors import FormatError
from cipherblas.crypto import files

Row = dict[str, Any]
Needed = Callable[[Mapping[str, Any]], Mapping[str, type]]


def read_rows(path: Path, bench: str, needed: Needed) -> Iterator[Row]:
    """The rows of a file that `cipherblas bench … --json` wrote; fields that are null are left out.

    Args:
        bench: the benchmark that they must be of.
        needed: the fields that a row must have, with their types.

    Raises:
        StorageError: the file cannot be read. FormatError: a line is no such row, or there is none.
    """
    wanted = f"rows of bench {bench} --json"
    try:
        with files.opened(path, wanted) as stream:
            lines = stream.read().decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is no text.", expected="lines of JSON", got="no text") from error
    if not lines:
        raise FormatError(f"{path} is empty.", expected=wanted, got="an empty file")
    for number, line in enumerate(lines, start=1):
        yield _checked(line, bench, needed, f"{path}, line {number}")


def _checked(line: str, bench: str, needed: Needed, where: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise FormatError(f"{where} is no JSON.", expected="a JSON object", got=str(error)) from error
    if not isinstance(row, dict) or row.get("bench") != bench:
        raise FormatError(
            f"{where} is no row of bench {bench} --json.",
            expected=f"a row of bench {bench} --json",
            got=line[:60],
        )
    row = {name: value for name, value in row.items() if value is not None}
    for name, kind in needed(row).items():
        accepted = (int, float) if kind is float else kind
        if not isinstance(row.get(name), accepted):
            raise FormatError(
                f"{where} has a wrong or missing field {name!r}.",
                expected=kind.__name__,
                got=repr(row.get(name)),
            )
    return row
