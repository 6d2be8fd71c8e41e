"""Draws the pictures of docs/concepts.md, and that of the README, into docs/pictures; needs matplotlib.

usage: draw_concepts.py [FOLDER]

The files are the same in every run with the same matplotlib: they hold no date and no random names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"

CLEAR, ENCRYPTED, KEY, GREY, RED = "#d9ead3", "#cfe2f3", "#fff2cc", "#eeeeee", "#f4cccc"
INK, EDGE = "#222222", "#555555"
SETTINGS = {"svg.hashsalt": "cipherblas", "font.family": "DejaVu Sans", "font.size": 9.0, "text.color": INK}


def canvas(width: float, height: float) -> tuple[Figure, Any]:
    """A figure of so many inches, whose axes count in tenths of an inch."""
    figure = Figure(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 10 * width)
    axes.set_ylim(0, 10 * height)
    axes.axis("off")
    return figure, axes


def box(
    axes: Any,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str = "",
    colour: str = GREY,
    **style: Any,
) -> None:
    """A rectangle with text in its middle."""
    axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=EDGE, linewidth=0.8))
    if text:
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", **style)


def room(axes: Any, x: float, y: float, width: float, height: float, title: str) -> None:
    """A rounded frame with a title at its top."""
    shape = "round,pad=0,rounding_size=1.2"
    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle=shape, facecolor="white", edgecolor=EDGE, linewidth=1.2
        )
    )
    axes.text(x + width / 2, y + height - 2, title, ha="center", va="center", weight="bold")


def arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], text: str = "", above: float = 1.0
) -> None:
    """An arrow with text above its middle."""
    style = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=style)
    if text:
        axes.text((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + above, text, ha="center", va="center")


def note(axes: Any, x: float, y: float, text: str, **style: Any) -> None:
    axes.text(x, y, text, **{"ha": "center", "va": "center", **style})


def flow() -> Figure:
    """Who holds what, and what travels."""
    figure, axes = canvas(8.0, 3.3)
    room(axes, 1, 1, 25, 31, "Client")
    box(axes, 3, 20, 9, 6, "A, B", CLEAR)
    box(axes, 15, 20, 9, 6, "secret key", RED)
    box(axes, 3, 4, 21, 6, "A @ B", CLEAR)
    note(axes, 13.5, 15, "plans, makes keys,\nencrypts, decrypts", color=EDGE)
    room(axes, 54, 1, 25, 31, "Server")
    box(axes, 56, 20, 21, 6, "program, evaluation keys", KEY)
    box(axes, 56, 12, 21, 6, "encrypted A, encrypted B", ENCRYPTED)
    box(axes, 56, 4, 21, 6, "encrypted A @ B", ENCRYPTED)
    note(axes, 66.5, 27.6, "sees no entry", color=EDGE)
    arrow(axes, (26, 23), (54, 23), "program and evaluation keys, once", 1.5)
    arrow(axes, (26, 15), (54, 15), "ciphertexts of A and B, for every run", 1.5)
    arrow(axes, (54, 7), (26, 7), "ciphertexts of the result", 1.5)
    return figure


def slots() -> Figure:
    """A matrix in the slots of a ciphertext, and the three things that can be done with them."""
    figure, axes = canvas(8.0, 3.6)
    colours = ["#cfe2f3", "#d9ead3", "#fff2cc"]
    for row in range(3):
        for column in range(3):
            box(axes, 2 + 4 * column, 27 - 4 * row, 4, 4, f"a{row}{column}", colours[row], size=8)
    note(axes, 8, 33, "a matrix, 3 × 3")

    def strip(x: float, y: float, values: list[str], tints: list[str]) -> None:
        for place, (value, tint) in enumerate(zip(values, tints, strict=True)):
            box(axes, x + 4 * place, y, 4, 4, value, tint, size=8)

    names = [f"a{row}{column}" for row in range(3) for column in range(3)]
    tints = [colours[row] for row in range(3) for _ in range(3)]
    arrow(axes, (15, 25), (25, 25), "pack", 1.4)
    strip(26, 23, [*names, "0", "0", "0"], [*tints, GREY, GREY, GREY])
    note(axes, 50, 29.5, "one ciphertext: N/2 slots, one number in each")
    note(axes, 12, 16, "add, or multiply:\nslot by slot", ha="center")
    strip(26, 14, ["a·b"] * 9 + ["0"] * 3, [*tints, GREY, GREY, GREY])
    note(
        axes, 12, 5, "rotate by 1: every slot takes\nits right neighbour's entry;\nneeds a key for that step"
    )
    strip(26, 4, [*names[1:], "0", "0", "0", names[0]], [*tints[1:], GREY, GREY, GREY, tints[0]])
    return figure


def levels() -> Figure:
    """Limbs, and how products and rescales use them up."""
    figure, axes = canvas(8.0, 3.4)
    places = [
        (3.0, "fresh:\nlevel 3", 4, "scale 2^30"),
        (23.0, "after a product:\nlevel 3", 4, "scale 2^60"),
        (43.0, "after its rescale:\nlevel 2", 3, "scale 2^30"),
        (63.0, "after one more of each:\nlevel 1", 2, "scale 2^30"),
    ]
    for x, title, limbs, scale in places:
        for limb in range(4):
            there = limb < limbs
            box(
                axes,
                x,
                8 + 4 * limb,
                13,
                3.6,
                f"limb modulo q{limb}" if there else "",
                ENCRYPTED if there else "white",
                size=8,
            )
        note(axes, x + 6.5, 29, title)
        note(axes, x + 6.5, 5.5, scale)
    for x, text in ((16.5, "×"), (36.5, "rescale"), (56.5, "×, rescale")):
        arrow(axes, (x, 16), (x + 6, 16), text, 1.5)
    note(
        axes,
        40,
        1.8,
        "level = limbs − 1; a product doubles the bits of the scale, a rescale takes them away with a limb",
        color=EDGE,
        size=8,
    )
    return figure


def scale() -> Figure:
    """How the bits of a coefficient's modulus are shared between message, precision, error, and room."""
    figure, axes = canvas(8.0, 2.9)
    left, bit = 4.0, 1.2

    def bar(y: float, parts: list[tuple[int, str, str]]) -> None:
        x = left
        for bits, text, colour in parts:
            box(axes, x, y, bits * bit, 4, text, colour, size=8)
            x += bits * bit

    note(axes, left, 25.5, "a fresh entry, 62 bits of modulus:", ha="left")
    bar(
        19.5,
        [
            (10, "error", RED),
            (16, "correct bits of the entry", CLEAR),
            (36, "room that a product needs", GREY),
        ],
    )
    note(axes, left, 15, "after a product, without a rescale:", ha="left")
    bar(9, [(38, "error", RED), (14, "correct bits", CLEAR), (10, "bound, room", GREY)])
    for bits, y, text in ((26, 19.5, "scale 2^26: an entry of 1"), (52, 9.0, "scale 2^52: an entry of 1")):
        axes.plot([left + bits * bit] * 2, [y - 1.2, y + 5], color=INK, linewidth=1.2)
        note(axes, left + bits * bit, y - 2.4, text, size=8)
    note(
        axes, 40, 2, "a sketch; the planner computes bound, scale and error of every node", color=EDGE, size=8
    )
    return figure


def key_switching() -> Figure:
    """A rotation: an automorphism, then a key switch back to the client's key."""
    figure, axes = canvas(8.0, 3.0)
    box(axes, 2, 14, 17, 8, "slots x\nunder the key s", ENCRYPTED)
    box(axes, 31, 14, 18, 8, "slots of x, rotated\nunder the rotated key s'", ENCRYPTED)
    box(axes, 61, 14, 17, 8, "slots of x, rotated\nunder the key s", ENCRYPTED)
    arrow(axes, (19, 18), (31, 18), "rotate:\na permutation", 2.6)
    arrow(axes, (49, 18), (61, 18), "key switch", 1.5)
    box(axes, 43, 3, 24, 6, "evaluation key: s' encrypted under s", KEY)
    arrow(axes, (55, 9), (55, 17.2))
    note(
        axes,
        40,
        27.5,
        "A rotation by r needs the key of r; a product of ciphertexts needs the relinearisation key, where s' is s².",
    )
    note(
        axes,
        17,
        6,
        "Only the client can make evaluation keys.\nThe server can use them,\nand learns nothing from them.",
        color=EDGE,
    )
    return figure


def forms() -> Figure:
    """The three forms in which values are encrypted."""
    figure, axes = canvas(8.0, 4.0)
    tints = [ENCRYPTED, CLEAR, KEY, RED]

    def grid(
        x: float, y: float, rows: int, columns: int, tint: Callable[[int, int], str], side: float = 2.5
    ) -> None:
        for row in range(rows):
            for column in range(columns):
                box(axes, x + side * column, y - side * (row + 1), side, side, "", tint(row, column))

    def ciphertexts(x: float, y: float, colours: list[str], text: str) -> None:
        for number, colour in enumerate(colours):
            box(axes, x, y - 3.2 * number, 14, 2.6, text.format(number), colour, size=7.5)

    for x, title in ((2, "blocks"), (29, "rows"), (56, "tensors")):
        room(axes, x, 2, 23, 36, title)
    grid(8.5, 32, 4, 4, lambda row, column: tints[2 * (row // 2) + column // 2])
    ciphertexts(6.5, 17.5, tints, "block {}: slots")
    grid(35.5, 32, 4, 4, lambda row, column: tints[row])
    ciphertexts(33.5, 17.5, tints, "row {}: coefficients")
    for channel in range(3):
        grid(60 + 6 * channel, 31, 2, 2, lambda row, column, channel=channel: tints[channel])
    box(axes, 60.5, 17.5, 14, 2.6, "", GREY)
    for channel in range(3):
        box(axes, 60.5 + 4 * channel, 17.5, 4, 2.6, str(channel), tints[channel], size=7.5)
    note(axes, 67.5, 15, "channels side by side\nin the slots", size=8, va="top")
    note(axes, 13.5, 4.2, "products by rotations", size=8)
    note(axes, 40.5, 4.2, "products by GEMM modulo q", size=8)
    note(axes, 67.5, 4.2, "layers with clear weights", size=8)
    for x in (13.5, 40.5, 67.5):
        arrow(axes, (x, 21.7), (x, 20.4))
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "flow": flow,
    "slots": slots,
    "levels": levels,
    "scale": scale,
    "key-switching": key_switching,
    "forms": forms,
}


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(SETTINGS):
        for name, draw in PICTURES.items():
            draw().savefig(folder / f"{name}.svg", metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
