"""Help that shows a type behind options which take a value, and behind no others."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands whose help shows no type behind flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def use_plain_help(app: typer.Typer) -> None:
    """For all commands that an application has; typer would show `--json <bool>`."""
    app.info.cls = PlainGroup
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        assert group.typer_instance is not None
        use_plain_help(group.typer_instance)


def _without_types(parameters: list[Any]) -> list[Any]:
    for one in parameters:
        if getattr(one, "is_flag", False) and one.metavar is None:
            one.metavar = ""
    return parameters
