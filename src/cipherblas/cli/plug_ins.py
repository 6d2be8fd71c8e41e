"""Commands that other distributions bring: each entry point of the group `cipherblas.commands` is one.

It names a function with the options of the command, or a Typer with commands of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer

from cipherblas.cli.guard import guarded
from cipherblas.cli.options import Debug
from cipherblas.common.errors import StorageError

GROUP = "cipherblas.commands"
# Commands of this repository that are installed by themselves: the distribution, and its folder in a clone.
HARDWARE = ("cipherblas-hardware", "hardware")
DISTRIBUTIONS = {"bench": ("cipherblas-bench", "bench"), "fame-model": HARDWARE, "fame-sim": HARDWARE}
ANYTHING = {"ignore_unknown_options": True, "help_option_names": []}


def add_plug_ins(app: typer.Typer, own: Collection[str]) -> None:
    """Give an application the commands that others bring; those of these names stay its own.

    A command that is not installed, or cannot be loaded, says so when it is called.
    """
    points = {point.name: point for point in entry_points(group=GROUP)}
    for name in sorted({*points, *DISTRIBUTIONS} - set(own)):
        try:
            found = points[name].load() if name in points else None
        except Exception as error:  # of any kind: it is code of others
            _add_refusal(app, name, _broken(points[name], error))
            continue
        if found is None:
            _add_refusal(app, name, _missing(name))
        elif isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(guarded(found))


def _add_refusal(app: typer.Typer, name: str, refusal: StorageError) -> None:
    def refuse(arguments: Annotated[list[str] | None, typer.Argument()] = None, debug: Debug = False) -> None:
        raise refusal

    options: Any = {"hidden": True, "add_help_option": False, "context_settings": ANYTHING}
    app.command(name, **options)(guarded(refuse))


def _missing(name: str) -> StorageError:
    distribution, folder = DISTRIBUTIONS[name]
    return StorageError(
        f"The command {name!r} is not installed.",
        advice=f"pip install ./{folder} in a clone, or the wheel of {distribution}",
        cause=f"{distribution} is a distribution of its own, which programs do not need.",
    )


def _broken(point: EntryPoint, error: Exception) -> StorageError:
    source = "another distribution" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    refusal = StorageError(
        f"The command {point.name!r} cannot be loaded.",
        advice=f"install {source} again, of the version of cipherblas",
        cause=f"{source} raised {type(error).__name__}: {error}.",
    )
    refusal.__cause__ = error
    return refusal
