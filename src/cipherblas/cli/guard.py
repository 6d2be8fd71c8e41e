"""From exceptions and signals to exit codes and messages."""

from __future__ import annotations

import functools
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console

from cipherblas.common import environment, tracebacks
from cipherblas.common.errors import Advice, CipherblasError, printable

P = ParamSpec("P")
R = TypeVar("R")

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Let a command end with an exit code and a few lines on stderr instead of a traceback.

    A command's `debug` argument lets errors of ours through. Faults of the program itself always show their
    traceback.
    """

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with _warnings_as_lines(), _sigterm_unwinds():
            try:
                environment.check()
                if kwargs.get("debug"):
                    os.environ[tracebacks.SWITCH] = "full"
                return command(*args, **kwargs)
            except KeyboardInterrupt:
                say("stopped")
                raise typer.Exit(INTERRUPTED) from None
            except typer.BadParameter as error:
                error.message = printable(error.message)
                raise
            except CipherblasError as error:
                if kwargs.get("debug"):
                    raise
                first, *rest = error.lines(_as_flags)
                say(f"error: {first}", *rest)
                raise typer.Exit(FAILED) from None
            except MemoryError as error:
                if kwargs.get("debug"):
                    raise
                say(f"error: out of memory: {error}")
                raise typer.Exit(FAILED) from None

    return wrapper


def say(text: str, *more: str) -> None:
    """One line on stderr, after the name of the program, and further lines below it."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    style = "red" if text[:5] == "error" else ""
    console.print("cipherblas: " + printable(" ".join(text.split())), markup=False, style=style)
    for line in more:
        console.print("  " + printable(" ".join(line.split())), markup=False)


def _as_flags(advice: Advice) -> str:
    """Options of `compile` as those of the command line; else as Python writes it."""
    kept = {name: value for name, value in advice.options.items() if value is not None}
    dropped = [_flag(name) for name in advice.options if name not in kept]
    flags = [_flag(name) + _as_value(name, value) for name, value in kept.items()]
    found = " ".join(flags) or ("the same" if dropped else advice.write)
    return f"{found} without {' and '.join(dropped)}" if dropped else found


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _as_value(name: str, value: Any) -> str:
    """The value that follows the flag."""
    if value is True:
        return ""
    if name.endswith("_budget"):
        return f" {math.ceil(value / 2**20)}MiB"
    return f" {value:g}" if isinstance(value, float) else f" {value}"


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    def show(message: Warning | str, *_: object, **__: object) -> None:
        say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def _sigterm_unwinds() -> Iterator[None]:
    """SIGTERM unwinds the stack, so that half-written files are removed, as Ctrl-C does by itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number: int, frame: FrameType | None) -> None:
        sys.exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
