"""Options that several benchmarks share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cipherblas.cli.options import bytes_option, parse_triple

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


def product_shapes(default: str, text: str = "Shape of the product; repeatable.") -> Any:
    """The option --shape of a product's benchmark."""
    return typer.Option(metavar="MxKxN", parser=parse_triple, help=text, show_default=default)
