"""The tables "From NumPy" of docs/operations.md: what computes each function of NumPy, and what to write.

`python -m tests.support.numpy_table` prints them anew.
"""

from __future__ import annotations

import itertools

import numpy as np

from cipherblas.lang.from_numpy import ENTRIES
from cipherblas.lang.spelled import SPELLED

TAKEN = ("NumPy", "computed as")
NOT_TAKEN = ("refused", "write")


def taken() -> list[str]:
    """A line for each function that is computed."""
    return [f"| `{entry.call}` | {_code(entry.written)} |" for entry in ENTRIES]


def refused() -> list[str]:
    """A line for each text to write, with the functions of NumPy that it is for."""
    computed = {entry.name.rpartition(".")[2] for entry in ENTRIES} | {"abs"}
    names: dict[str, list[str]] = {}
    for name, text in SPELLED.items():
        library = next((one for one in ("", "linalg.") if _exists(f"{one}{name}")), None)
        if name not in computed and library is not None:
            names.setdefault(text, []).append(f"`np.{library}{name}`")
    return [f"| {', '.join(found)} | {_code(text)} |" for text, found in names.items()]


def _exists(path: str) -> bool:
    place: object = np
    for name in path.split("."):
        place = getattr(place, name, None)
    return callable(place)


def _code(text: str) -> str:
    """A text as code up to the first comma outside of brackets; words of English as they are."""
    if text.startswith(("the ", "sums ", "x itself")):
        return text
    depths = itertools.accumulate((one in "([") - (one in ")]") for one in text)
    ends = (place for place, depth in enumerate(depths) if depth == 0 and text[place : place + 2] == ", ")
    end = next(ends, len(text))
    return f"`{text[:end]}`{text[end:]}"


def _table(header: tuple[str, str], lines: list[str]) -> str:
    return "\n".join([f"| {' | '.join(header)} |", "|---|---|", *lines])


if __name__ == "__main__":
    print(_table(TAKEN, taken()), _table(NOT_TAKEN, refused()), sep="\n\n")
