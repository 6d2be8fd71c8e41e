"""The application: its commands, in the order in which they are used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

import cipherblas
from cipherblas.cli import checking, decrypt, demo, encrypt, explain, importing, keygen, machine, plan, run
from cipherblas.cli.guard import INTERRUPTED, guarded, say
from cipherblas.cli.plain_help import use_plain_help
from cipherblas.cli.plug_ins import add_plug_ins

app = typer.Typer(
    name="cipherblas",
    help="BLAS for encrypted matrices: multiply NumPy arrays on a machine that never sees them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
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


_COMMANDS: dict[str, Callable[..., None]] = {
    "machine": machine.machine,
    "plan": plan.plan,
    "import": importing.import_network,
    "check": checking.check,
    "explain": explain.explain,
    "keygen": keygen.keygen,
    "encrypt": encrypt.encrypt,
    "run": run.run,
    "decrypt": decrypt.decrypt,
    "demo": demo.demo,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(guarded(_command))
add_plug_ins(app)
use_plain_help(app)


def main() -> None:
    """The console script."""
    try:
        app()
    except KeyboardInterrupt:  # outside of a command: while it was being loaded or parsed
        say("stopped")
        sys.exit(INTERRUPTED)
