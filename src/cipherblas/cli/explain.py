"""`cipherblas explain`: a program file for people, as text, JSON or a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cipherblas.cli.options import Debug, Insecure, Json, NetworkFile, Quiet, Ranks, Security, output_option
from cipherblas.cli.plan import printed
from cipherblas.crypto import files
from cipherblas.lang.graph import formula
from cipherblas.lang.nodes import ordered
from cipherblas.lang.results import results_of
from cipherblas.planner.plan.explain import shown_nodes
from cipherblas.report import Display, program_picture
from cipherblas.report.figures import check_drawing
from cipherblas.report.program_picture import Box
from cipherblas.roles.program import Program


def explain(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The program file.", show_default=False)],
    plot: Annotated[
        Path | None,
        output_option(
            "--plot",
            metavar="PNG",
            help="Draw the program: forms, methods, limbs and seconds of its nodes (needs matplotlib).",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[
        bool,
        typer.Option("--steps", help="Every step of a run too: what it reads, and how its result lies."),
    ] = False,
    ranks: Ranks = None,
    network: NetworkFile = None,
    security: Security = 128,
    insecure: Insecure = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say what a program file holds: every decision, and what it is predicted to take.

    Times are those of the machine that the program was planned for. Rejected alternatives are shown only by `plan`; the
    file does not store them.

    \b
    Examples:
      cipherblas explain plan.cb
      cipherblas explain plan.cb --steps
      cipherblas explain plan.cb --plot plan.png
      cipherblas explain plan.cb --ranks 8 --network network.json
    """
    display = Display(quiet=quiet)
    if plot is not None:
        files.check_writable(plot)
        with display.progress("loading matplotlib"):
            check_drawing()
    with display.progress("counting") as progress:
        program = Program.load(plan, security=security, insecure=insecure, progress=progress)
    if plot is not None:
        with display.progress("drawing"):
            program_picture.draw(plot, formula(program.expression), boxes_of(program))
    printed(program, json, ranks, network, steps=steps)
    if plot is not None:
        display.note(f"wrote {plot}")


def boxes_of(program: Program) -> list[Box]:
    """The nodes of a program, each after those it is made of, and conversions between them."""
    order = [node for node in ordered(program.executed) if not node.root]
    number = {id(node): place for place, node in enumerate(order)}
    results = {number[id(node)] for node in results_of(program.executed)}
    boxes: list[Box] = []
    last: dict[int, int] = {}  # the box that holds the value of a node, by its number
    for one in shown_nodes(program.plan):
        node = order[one.number]
        if one.number in last:  # a conversion of its value, or the same packed in another way
            children: tuple[int, ...] = (last[one.number],) if " to " in one.form else ()
        else:
            children = tuple(_child(boxes, last, number[id(child)], child.title) for child in node.children)
        lines = (one.title, one.how, f"{one.limbs}, {one.time}")
        if node.operand is not None:
            lines = (one.title, "from the client", one.limbs)
        last[one.number] = len(boxes)
        boxes.append(Box(lines, one.form, tuple(dict.fromkeys(children)), one.number in results))
    return boxes


def _child(boxes: list[Box], last: dict[int, int], number: int, title: str) -> int:
    """The box of a child; clear ones are drawn where they are first used."""
    if number not in last:
        last[number] = len(boxes)
        boxes.append(Box((title, "clear"), "clear"))
    return last[number]
