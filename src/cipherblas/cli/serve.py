"""`cipherblas serve`: the service, its tokens, and the check of what it stores."""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from cipherblas.cli.guard import guarded
from cipherblas.cli.options import Debug, bytes_option
from cipherblas.common.errors import ServiceError
from cipherblas.service.settings import SCOPES, Settings

Root = Annotated[Path, typer.Option(help="Folder of all that the service stores.")]
_ROOT = Path("cipherblas-service")

group = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
token = typer.Typer(help="Who may use the service.", no_args_is_help=True)
group.add_typer(token, name="token")


@group.callback()
@guarded
def serve(
    context: typer.Context,
    root: Root = _ROOT,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:8443",
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key, PEM.")] = None,
    insecure_http: Annotated[
        bool,
        typer.Option(
            "--insecure-http", help="Listen without TLS to other machines: behind a proxy that has it."
        ),
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Jobs that run at once.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each of them.")] = 1,
    memory: Annotated[
        int | None, bytes_option("--memory", "Memory of all jobs.", "what the machine has")
    ] = None,
    disk: Annotated[int | None, bytes_option("--disk", "Room for all that is stored.", "the disk")] = None,
    keep_free: Annotated[
        int | None, bytes_option("--keep-free", "Room of the disk that stays free.", "256 MiB")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Jobs that may wait.")] = 10000,
    keep_results: Annotated[float, typer.Option(min=60, help="Seconds that results are kept.")] = 86400,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that running jobs have at the end.")] = 30,
    insecure: Annotated[bool, typer.Option("--insecure", help="Accept less security, for tests.")] = False,
    debug: Debug = False,
) -> None:
    """Serve programs to many clients over HTTP, with public keys only.

    \b
    Examples:
      cipherblas serve
      cipherblas serve --root /var/lib/cipherblas --listen 0.0.0.0:8443 --tls-cert c.pem --tls-key k.pem --workers 4
      cipherblas serve token create --name alice --scope run,keys --disk 20GiB --cpu-seconds 3600
    """
    if context.invoked_subcommand is not None:
        return
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or not host:
        raise typer.BadParameter(f"--listen is HOST:PORT, as 127.0.0.1:8443 (got {listen})")
    local = host in ("127.0.0.1", "localhost", "::1", "[::1]")
    if tls_cert is None and not local and not insecure_http:
        raise typer.BadParameter(
            "clients of other machines need TLS: --tls-cert and --tls-key, or --insecure-http behind a proxy"
        )
    settings = Settings(
        *(root, host, int(port), tls_cert, tls_key, workers, threads, memory, disk),
        keep_free=1 << 28 if keep_free is None else keep_free,
        queue=queue,
        keep_results=keep_results,
        grace=grace,
        insecure=insecure,
    )
    missing = [name for name in ("starlette", "granian", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise ServiceError(
            "The service needs libraries that are not installed.",
            got=", ".join(missing),
            advice="pip install 'cipherblas[serve]'",
        )
    if local:
        _first_token(settings)
    typer.echo(f"serving {settings.root} at {settings.url}", err=True)
    # A process of its own modules: commands of other distributions may have brought in those of a client.
    os.execv(sys.executable, [sys.executable, "-m", "cipherblas.service.front", settings.to_json()])


def _first_token(settings: Settings) -> None:
    """On a new service, a token with all scopes for the user who began it, where `cb.connect()` finds it."""
    from cipherblas.service.remembered import remember
    from cipherblas.service.store import Store

    store = Store(settings)
    if store.one("SELECT name FROM tokens") is None:
        remember("services.json", {settings.url: store.create_token("owner", SCOPES)})
        typer.echo("made the token 'owner', which cb.connect() of this user finds", err=True)
    store.close()


@token.command()
@guarded
def create(
    name: Annotated[str, typer.Option(help="Of the token.")],
    root: Root = _ROOT,
    scope: Annotated[str, typer.Option(help="Of run, keys, publish, admin; with commas.")] = "run,keys",
    tenant: Annotated[
        str | None, typer.Option(help="Whose objects it reaches.", show_default="the name of the token")
    ] = None,
    disk: Annotated[
        int | None, bytes_option("--disk", "Bytes that its tenant may store.", "no limit")
    ] = None,
    cpu_seconds: Annotated[
        float | None, typer.Option(help="Seconds of computation a day.", show_default="no limit")
    ] = None,
    days: Annotated[
        float | None, typer.Option(help="Days that it is valid.", show_default="for ever")
    ] = None,
    debug: Debug = False,
) -> None:
    """Make a token and print it; only its SHA-256 is stored.

    \b
    Examples:
      cipherblas serve token create --name alice --scope run,keys --disk 20GiB --cpu-seconds 3600
    """
    from cipherblas.service.store import Store

    expires = None if days is None else time.time() + 86400 * days
    made = Store(Settings(root)).create_token(
        name, tuple(scope.split(",")), tenant=tenant, disk=disk, seconds=cpu_seconds, expires=expires
    )
    typer.echo(made)


@token.command()
@guarded
def revoke(
    name: Annotated[str, typer.Option(help="Of the token.")], root: Root = _ROOT, debug: Debug = False
) -> None:
    """End a token, at once.

    \b
    Examples:
      cipherblas serve token revoke --name alice
    """
    from cipherblas.service.store import Store

    Store(Settings(root)).revoke_token(name)


@token.command("list")
@guarded
def list_tokens(root: Root = _ROOT, debug: Debug = False) -> None:
    """The tokens: name, tenant, scopes.

    \b
    Examples:
      cipherblas serve token list
    """
    from cipherblas.service.store import Store

    for row in Store(Settings(root)).all("SELECT name, tenant, scopes FROM tokens ORDER BY name"):
        typer.echo(f"{row['name']}  {row['tenant']}  {row['scopes']}")


@group.command()
@guarded
def check(root: Root = _ROOT, debug: Debug = False) -> None:
    """Compare every stored object with its digest; prints what is wrong.

    \b
    Examples:
      cipherblas serve check --root /var/lib/cipherblas
    """
    from cipherblas.service.store import Store

    faults = Store(Settings(root)).check(whole=True)
    for fault in faults:
        typer.echo(fault)
    if faults:
        raise typer.Exit(1)
