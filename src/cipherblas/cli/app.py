"""The application: its commands, in the order in which they are used."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

import cipherblas
from cipherblas.cli.guard import INTERRUPTED, say
from cipherblas.cli.on_call import group_of
from cipherblas.cli.plain_help import use_plain_help
from cipherblas.cli.plug_ins import add_plug_ins

_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="cipherblas",
    help="BLAS for encrypted matrices: multiply NumPy arrays on a machine that never sees them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings=_SETTINGS,
    epilog="The client plans, makes keys, encrypts and decrypts; the server runs, with public keys only.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cipherblas {cipherblas.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


_COMMANDS = {  # by name: the module, and the function in it
    **{name: (name, name) for name in ("machine", "plan")},
    "import": ("importing", "import_network"),
    "check": ("checking", "check"),
    **{name: (name, name) for name in ("explain", "keygen", "encrypt", "run", "decrypt")},
    "inspect": ("inspecting", "inspect"),
    "serve": ("serve", "serve"),
    "demo": ("demo.command", "demo"),
}
add_plug_ins(app, own=_COMMANDS)
use_plain_help(app)
app.info.cls = group_of(_COMMANDS, _SETTINGS)


def main() -> None:
    """The console script."""
    try:
        app()
    except KeyboardInterrupt:  # outside of a command: while it was being loaded or parsed
        say("stopped")
        sys.exit(INTERRUPTED)
