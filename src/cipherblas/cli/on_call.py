"""Commands whose modules are imported when they are called: a list of all commands needs their docstrings alone."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from cipherblas.cli.guard import guarded
from cipherblas.cli.plain_help import PlainGroup, use_plain_help

FOLDER = Path(__file__).parent


class CommandsOnCall(dict[str, Any]):
    """The commands of a group by their names, in their order; those of `places` are made at the first look.

    Args:
        places: name → module below `cipherblas.cli`, and the function in it.
        others: commands that there are.
        settings: of every command's context.
    """

    def __init__(
        self, places: Mapping[str, tuple[str, str]], others: Mapping[str, Any], settings: dict[str, Any]
    ) -> None:
        super().__init__({**dict.fromkeys(places), **others})
        self._places, self._settings, self._listed = places, settings, False

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if found is not None:
            return found
        if self._listed:
            return TyperCommand(name, help=_docstring(*self._places[name]))
        self[name] = self._made(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  (a dict's own knows what is made alone)

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    @contextmanager
    def listed(self) -> Iterator[None]:
        """Commands have their docstrings and no options while they are listed."""
        self._listed = True
        try:
            yield
        finally:
            self._listed = False

    def _made(self, name: str) -> Any:
        place, function = self._places[name]
        module = importlib.import_module(f"cipherblas.cli.{place}")
        alone = getattr(module, "group", None)  # of a command that has commands of its own
        if alone is None:
            alone = typer.Typer(
                context_settings=self._settings, rich_markup_mode="rich", add_completion=False
            )
            alone.command(name)(guarded(getattr(module, function)))
        use_plain_help(alone)
        command = typer.main.get_command(alone)
        command.name = name
        return command


def group_of(places: Mapping[str, tuple[str, str]], settings: dict[str, Any]) -> type[PlainGroup]:
    """The class of a group of these commands and of those that are registered."""

    class GroupOnCall(PlainGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands: CommandsOnCall = CommandsOnCall(places, self.commands, settings)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

        def format_help(self, ctx: Any, formatter: Any) -> None:
            with self.commands.listed():
                super().format_help(ctx, formatter)

        def shell_complete(self, ctx: Any, incomplete: str) -> Any:
            with self.commands.listed():
                return super().shell_complete(ctx, incomplete)

    return GroupOnCall


def _docstring(module: str, function: str) -> str:
    """Of a function, read from its source."""
    tree = ast.parse((FOLDER / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    named = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    return inspect.cleandoc(ast.get_docstring(next(named)) or "")
