"""Options that several benchmarks share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.options import bytes_option, output_option
from cipherblas_bench.sets import MODULUS_31_BITS


class Scheme(str, Enum):
    """What is encrypted: real numbers, or integers modulo t."""

    ckks = "ckks"
    bgv = "bgv"


JsonLines = Annotated[
    bool, typer.Option("--json", help="One JSON object per line, as soon as it is measured.")
]
OneThread = Annotated[int, typer.Option("--threads", min=1, help="Threads of both sides.")]
Seconds = Annotated[
    float, typer.Option("--seconds", min=0.0, help="Seconds spent on each side of each case.")
]
PeerPython = Annotated[
    Path | None,
    typer.Option(
        "--peer-python",
        metavar="INTERPRETER",
        help="Python interpreter that has the peer installed.",
        show_default="this one",
    ),
]

PeerPythons = Annotated[
    list[str] | None,
    typer.Option(
        "--peer-python",
        metavar="[PEER=]INTERPRETER",
        help="Python interpreter that has a peer, or all of them, installed; repeatable.",
        show_default="this one",
    ),
]


def interpreters(given: Sequence[str] | None, peers: Sequence[str]) -> dict[str, str]:
    """Peer → interpreter, of the values of --peer-python; one without a name is for all that have none of their
    own."""
    found: dict[str, str] = {}
    everywhere: dict[str, str] = {}
    for text in given or ():
        name, equals, path = text.partition("=")
        if not equals:
            everywhere = dict.fromkeys(peers, text)
        elif name in peers and path:
            found[name] = path
        else:
            raise typer.BadParameter(
                f"expected an interpreter, or one for {' or '.join(peers)} as NAME=INTERPRETER, got {text!r}",
                param_hint="--peer-python",
            )
    return everywhere | found


# Of those that show rows which were measured before, too.
StoredRows = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Take the rows that --json printed before, and measure nothing.",
        show_default=False,
    ),
]
Picture = Annotated[Path | None, output_option("--plot", help="Draw a picture (PNG).", show_default=False)]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the tables as Markdown.")]

AS_IN_PLAN = "As in `plan`."
Algorithm = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Force an algorithm.", show_default="the planner's choice"),
]
Precision = Annotated[float | None, typer.Option(help=AS_IN_PLAN, show_default="1e-4")]
Security = Annotated[int | None, typer.Option(help=AS_IN_PLAN, show_default="128")]
MemoryBudget = Annotated[int | None, bytes_option("--memory-budget", AS_IN_PLAN)]
KeyBudget = Annotated[int | None, bytes_option("--key-budget", AS_IN_PLAN)]
UploadBudget = Annotated[int | None, bytes_option("--upload-budget", AS_IN_PLAN)]


def parse_triple(text: str) -> tuple[int, int, int]:
    """`64x128x32`: the m, k and n of an m×k times k×n product."""
    match = re.fullmatch(r"(\d{1,6})[x×](\d{1,6})[x×](\d{1,6})", text.strip(), re.ASCII)
    if match is None or not all(int(length) for length in match.groups()):
        raise typer.BadParameter(f"expected MxKxN such as 64x64x64, got {text!r}")
    return int(match[1]), int(match[2]), int(match[3])


def parse_modulus(text: str) -> int:
    """`31bit`, the usual prime of 31 bits, or a number."""
    if text.strip() == "31bit":
        return MODULUS_31_BITS
    if re.fullmatch(r"[1-9]\d{0,9}", text.strip(), re.ASCII) is None:
        raise typer.BadParameter(f"expected 31bit or a prime such as 65537, got {text!r}")
    return int(text)


Modulus = Annotated[
    Any,
    typer.Option(
        metavar="T",
        parser=parse_modulus,
        help="Integers modulo this prime, or 31bit; floats in the same form are measured beside them.",
        show_default=False,
    ),
]


def parse_sizes(text: str) -> tuple[int, ...]:
    """`64,128,4096` or `2:19,24`: dimensions of square products, in ascending order; a range has both its ends."""
    if (
        re.fullmatch(r"[1-9]\d{0,5}(:[1-9]\d{0,5})?(,[1-9]\d{0,5}(:[1-9]\d{0,5})?)*", text.strip(), re.ASCII)
        is None
    ):
        raise typer.BadParameter(f"expected dimensions such as 64,128,256 or 2:19, got {text!r}")
    found: set[int] = set()
    for part in text.strip().split(","):
        low, _, high = part.partition(":")
        found.update(range(int(low), int(high or low) + 1))
    if not found:
        raise typer.BadParameter(f"expected dimensions such as 64,128,256 or 2:19, got {text!r}")
    return tuple(sorted(found))


def product_shapes(default: str, text: str = "Shape of the product; repeatable.") -> Any:
    """The option --shape of a product's benchmark."""
    return typer.Option(metavar="MxKxN", parser=parse_triple, help=text, show_default=default)
