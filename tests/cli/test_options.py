"""Values of options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import typer

from cipherblas.cli.app import app
from cipherblas.cli.options import (
    Shape,
    parse_bytes,
    parse_link,
    parse_name,
    parse_operand,
    parse_operand_shape,
    parse_output,
    parse_shape,
)
from cipherblas.common.errors import CipherblasError
from cipherblas.lang.operands import Operand
from cipherblas_bench.cli import bench
from cipherblas_bench.cli.bench_options import parse_triple


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1000", 1000),
        ("8GiB", 8 << 30),
        ("1.5 GiB", 3 << 29),
        ("512m", 512 << 20),
        ("2GB", 2 * 10**9),
        ("3kb", 3000),
        ("1TiB", 1 << 40),
        ("7B", 7),
    ],
)
def test_bytes(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GiB", "-1", "8 apples", "1e9", "0x10", "1..5GiB", "٣GiB", "9" * 30])
def test_no_bytes(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1Gbit/s", 1e9),
        ("100 Mbit/s", 1e8),
        ("2.5gbps", 2.5e9),
        ("64k", 64e3),
        ("300", 300.0),
        ("1e9", 1e9),
        ("1TBIT/S", 1e12),
    ],
)
def test_links(text: str, expected: float) -> None:
    assert parse_link(text) == expected


@pytest.mark.parametrize("text", ["", "fast", "-1", "1GiB", "1GB/s", "1e", "0x10", "9" * 30, "1 Gbit/s/s"])
def test_no_links(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"1Gbit/s|9999"):
        parse_link(text)


def test_shapes() -> None:
    assert parse_shape("160x64") == Shape((160, 64)) == parse_operand_shape("160x64")
    assert parse_shape(" 1×9 ") == Shape((1, 9))
    assert parse_operand_shape(" 784 ") == Shape((784,))
    assert parse_triple("64x128x32") == (64, 128, 32)


@pytest.mark.parametrize("text", ["", "160", "160x", "160x64x2", "-1x5", "1.5x2", "axb", "9999999999x1"])
def test_no_shapes(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_shape(text)


@pytest.mark.parametrize("text", ["64x64", "0x1x1", "1x1x1x1", "axbxc"])
def test_no_triples(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_triple(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=3x4", ("x", Operand((3, 4), True, 1.0))),
        ("x=784:bound=2", ("x", Operand((784,), True, 2.0))),
        ("x=3x4:secret", ("x", Operand((3, 4), True, 1.0))),
        ("weights=10x64:public:bound=2.5", ("weights", Operand((10, 64), False, 2.5))),
        ("y=1x1:bound=16", ("y", Operand((1, 1), True, 16.0))),
        ("x=3x4:public-key:bound=2", ("x", Operand((3, 4), True, 2.0, encryption="public-key"))),
        ("w=3x4:public:dtype=int8", ("w", Operand((3, 4), False, 128.0, True))),
        ("w=3x4:dtype=int16:bound=9:public", ("w", Operand((3, 4), False, 9.0, True))),
        ("x=3x4:dtype=int8:exact", ("x", Operand((3, 4), True, 128.0, True, exact=True))),
        ("x=3x4:exact:bound=9:dtype=int16", ("x", Operand((3, 4), True, 9.0, True, exact=True))),
        ("x=3x4:dtype=uint8", ("x", Operand((3, 4), True, 255.0, True))),
        ("precision=3x4", ("precision", Operand((3, 4), True, 1.0))),
        ("w=3x4:public:dtype=float16", ("w", Operand((3, 4), False, 1.0))),
    ],
)
def test_operands(text: str, expected: tuple[str, Operand]) -> None:
    assert parse_operand(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "x=",
        "=3x4",
        "x=3x",
        "x=1x3x4",
        "x=3x4:clear",
        "x=3x4:public:secret",
        "x=3x4:public:public-key",
        "x=3x4:bound=",
        "x=3x4:bound=1:bound=2",
        "x=3x4:dtype=int8:exact:exact",
        "x=3x4:public:dtype=int8:exact",
    ],
)
def test_no_operands(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_operand(text)


@pytest.mark.parametrize("text", ["x=0", "x=0x4", "x=3x4:bound=0", "x=3x4:bound=nan", "x=3x4:exact"])
def test_impossible_operands(text: str) -> None:
    with pytest.raises(CipherblasError):
        parse_operand(text)


@pytest.mark.parametrize("text", ["", "1a", "a-b", "if", "ä"])
def test_no_names(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_name(text)


def every_command(command: Any = None, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Commands and groups of commands, by their names."""
    command = typer.main.get_command(app) if command is None else command
    yield names, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from every_command(inner, (*names, name))


COMMANDS = dict(every_command())


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_help_has_an_example_and_flags_show_no_type(invoke: Any, names: tuple[str, ...]) -> None:
    found = invoke(*names, "--help")
    assert found.exit_code == 0 and "--help" in found.stdout and "bool" not in found.stdout.lower()
    if not getattr(COMMANDS[names], "commands", None):  # no group
        assert f"cipherblas {' '.join(names)}" in found.stdout.split("Example")[1]


def test_what_is_written_has_a_name() -> None:
    """Every option that names what a command writes refuses `-`, which no command takes for the standard output."""
    found = set()
    own = [command for names, command in COMMANDS.items() if len(names) == 1 and command.callback]
    for command in (*own, *bench.app.registered_commands):
        assert command.callback is not None
        hints = get_type_hints(inspect.unwrap(command.callback), include_extras=True)
        for name, hint in hints.items():
            for info in getattr(hint, "__metadata__", ()):
                if info.parser is parse_output:
                    found.add(name)
                elif "Path" in str(hint):
                    assert not re.search(r"\b([Ww]rite|Draw|Keep)\b", info.help or ""), name
    assert found == {"output", "plot", "network_output", "client_output"}
    assert parse_output("./-") == Path("-")
    with pytest.raises(typer.BadParameter, match="/dev/stdout"):
        parse_output("-")
