"""Files that somebody else made: forged under a right checksum and a right identity, and what they may print."""

from __future__ import annotations

import copy
import json
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cipherblas as cb
from cipherblas.crypto import files
from cipherblas.crypto.params import Parameters
from cipherblas.lang import graph
from cipherblas.lang.operands import Operand
from cipherblas.planner.plan.assembly import replay
from cipherblas.roles.program import Program

# Clears the screen (7-bit and 8-bit form), turns the writing direction, rings, deletes, and forges a line.
ESCAPES = "\x1b[2J\x9b2J\u202e\u2028\x07\x7f\r\nsecurity          256 bits\x1b[8m"
Place = tuple[Any, ...]

# INSECURE: a ring in which lattice reduction finds the secret at once.
TINY = Parameters(
    n=16,
    q=(1125899906842273, 1125899906842177),
    p=(1125899906841377,),
    alpha=1,
    scale_bits=40.0,
    security=0,
    insecure=True,
)


def content(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any], Parameters]:
    """Header as its writer gave it, tensors, parameters."""
    with files.Reader(path, kind, insecure=True) as reader:
        added = ("format_version", "kind", "fingerprint", "security", "parameters")
        header = {key: value for key, value in reader.header.items() if key not in added}
        return header, reader.read_all(), reader.parameters


def identity(header: dict[str, Any], tensors: dict[str, Any], parameters: Parameters) -> str:
    """What a forger states as the program's id: that of the content, where the content is a program at all."""
    try:
        operands = {name: Operand(**values) for name, values in header["operands"].items()}
        expression = graph.from_json(header["graph"], operands, tensors)
        replayed = replay(expression, header["decisions"], header["planned_for"], parameters)
        return Program(expression, operands, *replayed).id
    except (cb.CipherblasError, LookupError, TypeError, ValueError, AttributeError):
        return str(header.get("id"))


def choice_of(header: dict[str, Any], index: int = 0) -> dict[str, Any]:
    """A decision in the header of a program's file, in the order of its nodes."""
    choices: dict[str, dict[str, Any]] = header["decisions"]["choices"]
    return choices[sorted(choices, key=int)[index]]


def forge(
    path: Path, target: Path, change: Callable[[dict[str, Any]], None], parameters: Parameters | None = None
) -> Path:
    """A program file with another header, checksum and identity right."""
    header, tensors, found = content(path, "program")
    header = copy.deepcopy(header)
    parameters = parameters or found
    stated = header["id"]
    change(header)
    if header.get("id") == stated:
        header["id"] = identity(header, tensors, parameters)
    files.write(target, "program", header, tensors, parameters=parameters)
    return target


def places(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Where every number, word and name of a JSON value stands; a name is the place of its value with a mark."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*place, key, "NAME"), key
            yield from places(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*place, index))
    else:
        yield place, value


def put(value: Any, place: Place, new: Any) -> None:
    """Replace what `places` found."""
    name = place[-1] == "NAME"
    *way, last = place[:-1] if name else place
    for step in way:
        value = value[step]
    if name:
        value[new] = value.pop(last)
    else:
        value[last] = new


def assert_harmless(text: str) -> None:
    """Nothing in it steers a terminal."""
    found = sorted({character for character in text if character != "\n" and not character.isprintable()})
    assert not found, (found, text)


def failure(error: BaseException) -> str:
    """All that Python shows of an exception that nobody caught."""
    shown = traceback.TracebackException.from_exception(error)
    parts: list[str] = []
    while shown is not None:
        parts += shown.format_exception_only()
        hidden = shown.__suppress_context__
        shown = shown.__cause__ or (None if hidden else shown.__context__)  # type: ignore[assignment]
    return "".join(parts)


def as_json(header: dict[str, Any]) -> dict[str, Any]:
    """A header as it comes back from a file."""
    return dict(json.loads(json.dumps(header)))
